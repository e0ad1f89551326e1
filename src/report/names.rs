//! Names for people: demangled symbols, and the source file that an id names.

use std::fmt::Write;

/// A symbol's name in C++, or as it is.
///
/// What the device compiler adds around a `static` name (`__nv_static_<len>_<id>_<name>`) is left off.
pub fn demangled(name: &[u8]) -> String {
    let plain = of_static(name).unwrap_or(name);
    // Hostile names can be nested without end.
    let options = cpp_demangle::ParseOptions::default().recursion_limit(96);
    let symbol = cpp_demangle::Symbol::new_with_options(plain, &options).ok();
    let mut out = String::new();
    let shown = symbol.and_then(|s| {
        let options = cpp_demangle::DemangleOptions::default().recursion_limit(96);
        let mut limited = Limited(&mut out);
        s.structured_demangle(&mut limited, &options).ok()
    });
    match shown {
        Some(()) => out,
        None => String::from_utf8_lossy(plain).into_owned(),
    }
}

/// Substitutions let a short name grow without bounds.
struct Limited<'a>(&'a mut String);

impl Write for Limited<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > 16 * 1024 {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The name inside `__nv_static_<len>_<id>_<name>`, where `<len>` counts the id.
fn of_static(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b"__nv_static_")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let length: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    rest.get(digits.checked_add(1)?.checked_add(length)?.checked_add(1)?..).filter(|n| !n.is_empty())
}

/// The source file's name as it stands in an id, with every character that C names can't have replaced by `_`:
/// `_<crc>_<length>_<file>_<suffix>`, and up to CUDA 11.4 `_<length>_tmpxft_<pid>_<hex>_<number>_<file>_cpp1_ii_<suffix>`.
pub fn source_of(id: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(id).ok()?.strip_prefix('_')?;
    if let Some((_, old)) = text.split_once("_tmpxft_") {
        let file = old.splitn(4, '_').nth(3)?;
        let file = &file[..file.find("_cpp1_ii").or_else(|| file.find("_cudafe1"))?];
        let file = file.split("_compute_").next()?;
        return Some(file.to_owned());
    }
    let mut parts = text.splitn(3, '_');
    let (crc, length, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let file = rest.get(..length.parse().ok()?)?;
    (crc.len() == 8 && rest.as_bytes().get(file.len()) == Some(&b'_')).then(|| file.to_owned())
}

/// A number of bytes.
pub fn bytes(size: u64) -> String {
    let mut out = String::new();
    push_bytes(&mut out, size);
    out
}

/// The same at the end of a text. Reports of big libraries have thousands, for which `write!` takes too long.
pub(super) fn push_bytes(out: &mut String, size: u64) {
    const UNITS: [&str; 4] = [" KiB", " MiB", " GiB", " TiB"];
    let Some((power, name)) = (1..).zip(UNITS).take_while(|(power, _)| size >> (10 * power) != 0).last() else {
        push_number(out, size);
        out.push_str(" B");
        return;
    };
    // At most 2^64 * 10 / 2^40.
    let tenths = ((u128::from(size) * 10 + (1 << (10 * power - 1))) >> (10 * power)) as u64;
    push_number(out, tenths / 10);
    out.push('.');
    push_number(out, tenths % 10);
    out.push_str(name);
}

/// A number at the end of a text.
pub(super) fn push_number(out: &mut String, number: u64) {
    out.push_str(itoa::Buffer::new().format(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_every_toolkit_name_their_source() {
        let of = |id: &str| source_of(id.as_bytes());
        assert_eq!(of("_7cd19be8_4_s_cu_22f9075a").as_deref(), Some("s_cu"));
        assert_eq!(of("_57_tmpxft_003259f3_00000000_9_init_device_compute_80_cpp1_ii_4920c2c8").as_deref(), Some("init_device"));
        assert_eq!(of("__nv_0123456789abcdef"), None);
        assert_eq!(of("_7cd19be8_400_s_cu_22f9075a"), None);
    }

    #[test]
    fn names_are_demangled_and_others_stay() {
        assert_eq!(demangled(b"_Z8s_kernelPi"), "s_kernel(int*)");
        assert_eq!(demangled(b"plain"), "plain");
        assert_eq!(demangled(b"__nv_static_25__7cd19be8_4_s_cu_22f9075a__Z3foov"), "foo()");
        assert_eq!(demangled(b"_Z\xff"), "_Z\u{fffd}");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!([bytes(0), bytes(1023), bytes(1536), bytes(3 << 20)], ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]);
        assert_eq!(
            [bytes(1024), bytes((1 << 20) - 1), bytes(1300), bytes(u64::MAX)],
            ["1.0 KiB", "1024.0 KiB", "1.3 KiB", "16777216.0 TiB"]
        );
    }
}
