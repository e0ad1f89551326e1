//! Words that a build system addresses to us among nvcc's: `--dlink-shim-…`, which nvcc never sees.
//!
//! CMake's device-link line does not say which shared libraries the target links, and its rules are per directory. Words on the
//! target's own line are the one place that every generator tracks: when they change, the device link runs again.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::Mode;
use crate::plan::Wishes;
use crate::survey::HostLink;

const PREFIX: &[u8] = b"--dlink-shim-";

/// What we were told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The words themselves.
    pub words: Vec<OsString>,
    /// What the image's host link will have.
    pub host_link: HostLink,
    /// The mode for this command alone.
    pub mode: Option<Mode>,
    /// Wishes for this command alone.
    pub wishes: Wishes,
    /// Words of this kind that this version does not know.
    pub unknown: Vec<OsString>,
}

impl Told {
    /// Takes our words out of nvcc's.
    pub fn take(args: &[OsString]) -> (Cow<'_, [OsString]>, Self) {
        let mut told = Self::default();
        let ours = |word: &OsString| word.as_bytes().starts_with(PREFIX);
        if !args.iter().any(ours) {
            return (Cow::Borrowed(args), told);
        }
        args.iter().filter(|w| ours(w)).for_each(|w| told.read(w));
        told.words.extend(args.iter().filter(|w| ours(w)).cloned());
        (Cow::Owned(args.iter().filter(|w| !ours(w)).cloned().collect()), told)
    }

    fn read(&mut self, word: &OsStr) {
        let text = &word.as_bytes()[PREFIX.len()..];
        let (name, value) = match text.iter().position(|&b| b == b'=') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &text[text.len()..]),
        };
        let path = || OsStr::from_bytes(value).into();
        let globs = || super::globs(&String::from_utf8_lossy(value));
        match (name, Mode::from_word(value)) {
            (b"shared", _) => self.host_link.shared.push(path()),
            (b"shared-later", _) => self.host_link.shared_later.push(path()),
            (b"directory", _) => self.host_link.directories.push(path()),
            (b"mode", Some(mode)) => self.mode = Some(mode),
            (b"keep", _) => self.wishes.keep.extend(globs()),
            (b"strip", _) => self.wishes.strip.extend(globs()),
            (b"guard", _) => self.wishes.guard.extend(globs()),
            _ => self.unknown.push(word.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn our_words_leave_and_nvccs_stay() {
        let args = words(
            "--dlink-shim-mode=off -dlink --dlink-shim-shared=/a b.o --dlink-shim-shared-later=/c --dlink-shim-directory=d --dlink-shim-keep=x:y*",
        );
        let (left, told) = Told::take(&args);
        assert_eq!(left, words("-dlink b.o"));
        assert_eq!(told.mode, Some(Mode::Off));
        let host_link = HostLink { shared: vec!["/a".into()], shared_later: vec!["/c".into()], directories: vec!["d".into()] };
        assert_eq!(told.host_link, host_link);
        assert_eq!(told.wishes.keep, ["x", "y*"]);
        assert_eq!(told.unknown, Vec::<OsString>::new());
    }

    #[test]
    fn a_word_of_another_version_leaves_and_is_known_as_such() {
        let args = words("--dlink-shim-new=1 --dlink-shim-mode=what -dlink --dlink-shim");
        let (left, told) = Told::take(&args);
        assert_eq!(left, words("-dlink --dlink-shim"));
        assert_eq!(told.unknown, words("--dlink-shim-new=1 --dlink-shim-mode=what"));
    }

    #[test]
    fn without_such_words_nothing_is_copied() {
        assert!(matches!(Told::take(&words("-dlink b.o")), (Cow::Borrowed(_), told) if told == Told::default()));
    }
}
