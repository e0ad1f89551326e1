//! Device symbols of PTX text: `.extern` declarations are needs, `.visible` and `.weak` definitions are given.
//!
//! Compared with the cubins of the same sources (nvcc 13.0.88, 13.5.37), the sets are equal.

use std::collections::HashSet;

use super::symbols::{Class, DeviceSymbols, Symbol};

/// Calls `visit` with every symbol of a PTX module; `None` when it does not look like PTX.
pub fn symbols(text: &[u8], visit: &mut dyn FnMut(Symbol<'_>)) -> Option<()> {
    let end = text.iter().rposition(|&b| b != 0).map_or(0, |e| e + 1);
    let text = &text[..end];
    if memchr::memchr(0, text).is_some() || memchr::memmem::find(text, b".version").is_none() {
        return None;
    }
    let statements = statements(text);
    // A declaration of what the same module defines is no need; it may come before or after.
    let mut needs = Vec::new();
    let mut defined = HashSet::new();
    for (statement, body) in &statements {
        let mut words = statement.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty()).peekable();
        let first = words.peek().copied().unwrap_or_default();
        let linkage = if matches!(first, b".extern" | b".visible" | b".weak" | b".common") { first } else { b"" };
        let Some(space) = words.find(|w| matches!(*w, b".func" | b".entry" | b".global" | b".const" | b".shared")) else { continue };
        let Some(name) = words.find(|w| matches!(w[0], b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' | b'%')) else { continue };
        let class = match space {
            b".entry" => Class::Kernel,
            b".func" => Class::Function,
            b".shared" => Class::Shared,
            _ => Class::Variable,
        };
        let symbol = Symbol { name, class, defined: linkage != b".extern", local: linkage.is_empty(), weak: linkage == b".weak" };
        if !symbol.defined {
            needs.push(symbol);
        } else if *body || matches!(class, Class::Variable | Class::Shared) || !symbol.local {
            // A local function without a body is declared ahead of its definition.
            if defined.insert(name) {
                visit(symbol);
            }
        }
    }
    needs.into_iter().filter(|n| !defined.contains(n.name)).for_each(visit);
    Some(())
}

/// Adds the symbols of a PTX module to `into`; `None` when it does not look like PTX.
pub fn read(text: &[u8], into: &mut DeviceSymbols) -> Option<()> {
    symbols(text, &mut |symbol| {
        if symbol.class == Class::Shared || symbol.local {
        } else if symbol.defined {
            into.define(symbol.name);
            if symbol.class == Class::Variable {
                into.variable(symbol.name);
            }
        } else {
            into.need(symbol.name);
        }
    })
}

/// The declarations outside of bodies, with comments, strings, parameter lists, dimensions and initialisers blanked, and
/// whether a body or initialiser follows.
fn statements(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
    let mut out = Vec::new();
    let mut current = Vec::new();
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let skip = if rest.starts_with(b"//") {
            rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            rest.windows(2).skip(2).position(|w| w == b"*/").map_or(rest.len(), |p| p + 4)
        } else if rest[0] == b'"' {
            rest.iter().skip(1).position(|&b| b == b'"').map_or(rest.len(), |p| p + 2)
        } else {
            0
        };
        if skip > 0 {
            current.push(b' ');
            at += skip;
            continue;
        }
        match rest[0] {
            b'{' | b'(' | b'[' => {
                if depth == 0 && rest[0] == b'{' {
                    out.push((std::mem::take(&mut current), true));
                }
                depth += 1;
            }
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                current.push(b' ');
                if depth == 0 && rest[0] == b'}' {
                    current.clear();
                }
            }
            _ if depth > 0 => {}
            b';' => out.push((std::mem::take(&mut current), false)),
            // `.version`, `.target` and `.address_size` end with the line.
            b'\n' if is_directive(&current) => current.clear(),
            byte => current.push(byte),
        }
        at += 1;
    }
    out
}

fn is_directive(statement: &[u8]) -> bool {
    let text = statement.trim_ascii_start();
    [&b".version"[..], b".target", b".address_size", b".file", b".loc", b".section"].iter().any(|d| text.starts_with(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> DeviceSymbols {
        let mut symbols = DeviceSymbols::default();
        read(text.as_bytes(), &mut symbols).unwrap();
        symbols
    }

    #[test]
    fn externs_are_needs_and_definitions_are_given() {
        let s = of("//\n// .extern .func no\n.version 9.0\n.target sm_90\n.address_size 64\n\
             .extern .func  (.param .b32 func_retval0) _Z6helperi\n(\n.param .b32 p\n)\n;\n\
             .extern .global .attribute(.managed) .align 4 .u32 far;\n.extern .shared .align 16 .b8 sh[];\n\
             .visible .global .align 4 .u32 mine[2] = {1, 2};\n.extern .func (.param .b32 r) vprintf (.param .b64 a);\n\
             .visible .entry _Z1kv(.param .u64 p) { .reg .b32 %r; { call.uni (r), x, (p); } ret; }\n.func local() {ret;}\n\0\0");
        assert_eq!(s.needs.iter().map(Vec::as_slice).collect::<Vec<_>>(), [&b"_Z6helperi"[..], b"far"]);
        assert_eq!(s.defines.iter().map(Vec::as_slice).collect::<Vec<_>>(), [&b"_Z1kv"[..], b"mine"]);
        assert_eq!(s.variables.len(), 1);
    }

    #[test]
    fn text_that_is_no_ptx_is_refused() {
        assert!(read(b"hello", &mut DeviceSymbols::default()).is_none());
        assert!(read(b".version\0x", &mut DeviceSymbols::default()).is_none());
    }
}
