//! What a file holds, for people.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use super::names::{bytes, demangled, push_bytes, push_number, source_of};
use crate::inspection::{Arch, FileKind, Image, Inspected, Part, Symbol};
use crate::object::fatbin::{Compression, Kind};
use crate::object::symbols::Class;
use crate::plan::shown_id;

/// Text is said when it has got this long: memory that is used again costs less than fresh memory.
const PIECE: usize = 8 << 10;

/// The whole report of one file, said in pieces. `raw`: symbols by their mangled names.
pub fn report(file: &Inspected, raw: bool, say: &mut dyn FnMut(&str)) {
    let mut out = String::with_capacity(PIECE + PIECE / 4);
    let _ = writeln!(out, "{}: {}, {}", file.path.display(), kind(file.kind), bytes(file.size));
    if file.parts.iter().all(|p| p.units.is_empty() && p.stubs.is_empty() && p.sections.is_empty()) {
        let _ = writeln!(out, "  no device code");
    }
    for part in &file.parts {
        one(&mut out, part, raw, say);
    }
    say(&out);
}

fn one(out: &mut String, part: &Part, raw: bool, say: &mut dyn FnMut(&str)) {
    if let Some(member) = &part.member {
        let _ = writeln!(out, "  member {}", String::from_utf8_lossy(member));
    }
    for unit in &part.units {
        let source = source_of(&unit.id).map(|s| format!(" of {s}")).unwrap_or_default();
        let what = if unit.device_only { "device-only: its registrar is elsewhere" } else { "full: with its registrar" };
        let _ = writeln!(out, "  unit {}{source}, {what}", shown_id(&unit.id));
    }
    for id in &part.stubs {
        let source = source_of(id).map(|s| format!(" of {s}")).unwrap_or_default();
        let _ = writeln!(out, "  stub for {}{source}", shown_id(id));
    }
    for section in &part.sections {
        for container in &section.containers {
            if !section.name.is_empty() {
                let _ = writeln!(out, "  {} at {:#x}", section.name, container.offset);
            }
            for image in &container.images {
                out.push_str("    ");
                headline(out, image);
                out.push('\n');
                symbols(out, image, raw);
                if out.len() >= PIECE {
                    say(out);
                    out.clear();
                }
            }
        }
    }
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Object => "object",
        FileKind::Archive => "archive",
        FileKind::ThinArchive => "thin archive",
        FileKind::SharedLibrary => "shared library",
        FileKind::Program => "program",
        FileKind::Cubin => "cubin",
        FileKind::Fatbin => "fatbin",
        FileKind::Ptx => "PTX",
        FileKind::LtoIr => "LTO-IR",
    }
}

/// The word for an image's kind.
pub(super) fn image_kind(image: &Image) -> Cow<'static, str> {
    match image.kind {
        Kind::Ptx if image.number == 0x40 => "relocatable PTX".into(),
        Kind::Ptx => "PTX".into(),
        Kind::Elf => "cubin".into(),
        Kind::LtoIr => "LTO-IR".into(),
        Kind::Unknown(number) => format!("unknown kind {number:#x}").into(),
    }
}

/// The word for how it is packed.
pub(super) fn compression(image: &Image) -> Cow<'static, str> {
    match image.compression {
        Compression::None => "none".into(),
        Compression::Lz4 => "lz4".into(),
        Compression::Zstd => "zstd".into(),
        Compression::Unknown(bits) => format!("unknown ({bits:#x})").into(),
    }
}

/// Flag bits whose meaning is not known.
pub(super) fn unknown_flags(image: &Image) -> u32 {
    const KNOWN: u32 = 0x1 | 0x2 | 0x70 | 0x2000 | 0x8000 | 0x1000 | 0x4000 | 0x1_0000 | 0x10_0000 | 0x20_0000 | 0x100_0000;
    image.flags & !KNOWN
}

fn headline(out: &mut String, image: &Image) {
    match &image.arch {
        Arch::Numbered(family, number, suffix) => {
            out.push_str(family);
            push_number(out, u64::from(*number));
            out.extend(suffix);
        }
        Arch::Text(text) => out.push_str(text),
    }
    out.push(' ');
    out.push_str(&image_kind(image));
    out.push_str(", ");
    match (image.stored, image.compression) {
        (Some(stored), Compression::None) => push_bytes(out, stored),
        (Some(stored), _) => {
            out.push_str(&compression(image));
            out.push(' ');
            push_bytes(out, stored);
            out.push_str(", ");
            push_bytes(out, image.unpacked);
            out.push_str(" unpacked");
        }
        (None, _) => {
            push_bytes(out, image.unpacked);
            out.push_str(" packed with others");
        }
    }
    if image.flags & 0x2 != 0 {
        out.push_str(", debug");
    }
    if let Some(source) = image.source() {
        out.push_str(", from ");
        out.push_str(&String::from_utf8_lossy(source));
    }
    match unknown_flags(image) {
        0 => {}
        bits => out.push_str(&format!(", unknown flags {bits:#x}")),
    }
}

fn symbols(out: &mut String, image: &Image, raw: bool) {
    let Some(symbols) = image.symbols() else { return };
    let mut groups: BTreeMap<(u8, &str), Vec<String>> = BTreeMap::new();
    for symbol in symbols {
        let Some(group) = group(symbol) else { continue };
        let name = if raw { String::from_utf8_lossy(&symbol.name).into_owned() } else { demangled(&symbol.name) };
        groups.entry(group).or_default().push(name);
    }
    for ((_, word), mut names) in groups {
        names.sort();
        names.dedup();
        for name in names {
            let _ = writeln!(out, "      {word:<9} {name}");
        }
    }
}

/// The word under which a symbol is shown, and its place; what the toolkit adds for itself is not.
pub(super) fn group(symbol: &Symbol) -> Option<(u8, &'static str)> {
    if symbol.need {
        return Some((3, "needs"));
    }
    if !symbol.defined || symbol.name.starts_with(b".nv") {
        return None;
    }
    match symbol.class {
        Class::Kernel => Some((0, "kernel")),
        Class::Function => Some((1, "function")),
        Class::Variable => Some((2, "variable")),
        Class::Shared | Class::Texture | Class::Other => None,
    }
}
