//! `@file` words of host compilers and linkers.
//!
//! The rules of GCC's manual (`@file`) and of libiberty's `buildargv`, which clang, lld and mold follow: white space separates,
//! both kinds of quotes group, a backslash takes the next byte as it is, in quotes too. A name that is not there is an
//! ordinary word.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Real chains are one or two deep.
const MAX_FILES: usize = 64;
/// A response file of a real build is a few MiB at most.
const MAX_BYTES: u64 = 64 << 20;

/// The words with every `@file` replaced by its words, and whether there was one. `None` when one of them can't be read as the
/// tools would read it.
pub fn expanded(args: &[OsString], cwd: &Path) -> Option<(Vec<OsString>, bool)> {
    let mut words = Vec::with_capacity(args.len());
    let mut files = 0;
    expand(args.iter().cloned(), cwd, &mut words, &mut files)?;
    Some((words, files > 0))
}

fn expand(args: impl Iterator<Item = OsString>, cwd: &Path, words: &mut Vec<OsString>, files: &mut usize) -> Option<()> {
    for arg in args {
        let Some(path) = arg.as_bytes().strip_prefix(b"@").map(|p| cwd.join(OsStr::from_bytes(p))) else {
            words.push(arg);
            continue;
        };
        let Ok(meta) = std::fs::metadata(&path) else {
            words.push(arg);
            continue;
        };
        *files += 1;
        // A pipe can be read once only, and that once is the compiler's.
        if !meta.is_file() || meta.len() > MAX_BYTES || *files > MAX_FILES {
            return None;
        }
        let inner = split(&std::fs::read(&path).ok()?)?;
        expand(inner.into_iter(), cwd, words, files)?;
    }
    Some(())
}

/// Cuts the text of a response file; `None` where the tools disagree (an open quote, a backslash at the end).
pub fn split(text: &[u8]) -> Option<Vec<OsString>> {
    let mut words = Vec::new();
    let mut current: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if quote.is_none() && matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) {
            words.extend(current.take().map(OsString::from_vec));
            continue;
        }
        let word = current.get_or_insert_default();
        match byte {
            b'\\' => word.push(bytes.next()?),
            b'"' | b'\'' if quote.is_none() => quote = Some(byte),
            _ if quote == Some(byte) => quote = None,
            _ => word.push(byte),
        }
    }
    if quote.is_some() {
        return None;
    }
    words.extend(current.map(OsString::from_vec));
    Some(words)
}

/// Spells words so that [`split`] gives them back.
pub fn text(words: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        if word.is_empty() {
            text.extend(b"\"\"");
        }
        for &byte in word.as_bytes() {
            if byte.is_ascii_whitespace() || matches!(byte, 0x0b | b'\\' | b'"' | b'\'') {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_and_backslashes_are_read_as_gcc_reads_them() {
        let words = split(b"a 'b \"c' \"d 'e\" f\\ g\\\\ \"\" h\"i\"j\r\n\"k\\\"l\"").unwrap();
        assert_eq!(words, ["a", "b \"c", "d 'e", "f g\\", "", "hij", "k\"l"]);
        assert_eq!((split(b"'a"), split(b"a\\")), (None, None));
    }

    #[test]
    fn files_name_files_and_what_is_not_there_is_a_word() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("outer"), "b @inner '@no file'").unwrap();
        std::fs::write(directory.path().join("inner"), "c").unwrap();
        std::fs::write(directory.path().join("loop"), "@loop").unwrap();
        let read = |words: &[&str]| expanded(&words.iter().map(OsString::from).collect::<Vec<_>>(), directory.path());
        let owned = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(read(&["a", "@outer", "d"]), Some((owned(&["a", "b", "c", "@no file", "d"]), true)));
        assert_eq!(read(&["a", "@none"]), Some((owned(&["a", "@none"]), false)));
        assert_eq!((read(&["@loop"]), read(&["@/dev/null"]), read(&["@."])), (None, None, None));
    }

    proptest! {
        #[test]
        fn text_is_undone_by_splitting(words in prop::collection::vec(prop::collection::vec(1u8.., 0..12), 0..6)) {
            let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            prop_assert_eq!(split(&text(&words)), Some(words));
        }
    }
}
