//! Host compilers and linkers, told by name where possible and otherwise by what they answer to `--version`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

/// A linker that a remedy is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linker {
    /// GNU ld.
    Bfd,
    /// GNU gold.
    Gold,
    /// LLVM's.
    Lld,
    /// mold.
    Mold,
}

impl std::fmt::Display for Linker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bfd => "GNU ld",
            Self::Gold => "gold",
            Self::Lld => "lld",
            Self::Mold => "mold",
        })
    }
}

/// A program that makes host links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A compiler that calls the linker.
    Driver,
    /// A linker; which one, if its name says so.
    Linker(Option<Linker>),
}

/// Compilers by name, less what stands before and after it (`x86_64-linux-gnu-g++-12`), and MPI's, which hand their words on.
const DRIVERS: &[&str] = &[
    "CC", "c++", "c99", "cc", "clang", "clang++", "flang", "g++", "gcc", "gfortran", "icpx", "icx", "mpiCC", "mpic++", "mpicc", "mpicxx",
    "mpif90", "mpifort",
];

impl Program {
    /// Tells by the file name of a program.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        // Versions are digits and dots after a dash.
        let base = match name.rsplit_once('-') {
            Some((base, version)) if !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.') => base,
            _ => name,
        };
        let base = match base.rsplit_once('-') {
            // `x86_64-linux-gnu-g++`; not `x-g++`, which can be anything.
            Some((prefix, base)) if prefix.contains('-') => base,
            _ => base,
        };
        if DRIVERS.contains(&base) {
            return Some(Self::Driver);
        }
        Some(Self::Linker(match base {
            "ld" => None,
            _ => Some(Linker::from_word(base)?),
        }))
    }
}

impl Linker {
    /// From the word of `-fuse-ld=`, the name of a linker, or a path to one.
    pub fn from_word(word: &str) -> Option<Self> {
        let name = word.rsplit('/').next().unwrap_or_default();
        let name = name.strip_prefix("ld.").unwrap_or(name);
        let name = match name.rsplit_once('-') {
            Some((name, version)) if version.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => name,
        };
        match name {
            "bfd" => Some(Self::Bfd),
            "gold" => Some(Self::Gold),
            "lld" => Some(Self::Lld),
            "mold" => Some(Self::Mold),
            _ => None,
        }
    }

    /// From what a linker answers to `--version`. lld and mold say that they are compatible with GNU ld.
    pub fn from_version(text: &str) -> Option<Self> {
        let first = text.lines().next().unwrap_or_default();
        let starts = |word: &str| first.starts_with(word);
        if first.split(' ').any(|w| w == "LLD") {
            Some(Self::Lld)
        } else if starts("mold ") {
            Some(Self::Mold)
        } else if starts("GNU gold") {
            Some(Self::Gold)
        } else if starts("GNU ld") {
            Some(Self::Bfd)
        } else {
            None
        }
    }

    /// Asks a program which linker it is or calls. `words` are those of the command that decide it.
    pub fn asked(program: &OsStr, words: &[OsString], kind: Program, set: &[(OsString, OsString)]) -> Option<Self> {
        let mut command = Command::new(program);
        command.args(words).arg(if kind == Program::Driver { "-Wl,--version" } else { "--version" });
        command.envs(set.iter().map(|(name, value)| (name, value))).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok()?;
        Self::from_version(&String::from_utf8_lossy(&output.stdout))
    }
}

/// Whether a word of a compiler's command line has a say in which linker it calls, and how many words it is.
pub fn decides(words: &[OsString]) -> usize {
    let Some(word) = words.first().map(|w| w.as_bytes()) else { return 0 };
    let inside: [&[u8]; 9] = [
        b"-fuse-ld=",
        b"--ld-path=",
        b"-B",
        b"--sysroot=",
        b"--target=",
        b"-specs=",
        b"--specs=",
        b"--gcc-toolchain=",
        b"-fno-use-linker-plugin",
    ];
    match word {
        b"-B" | b"-target" | b"--sysroot" | b"--target" => 2.min(words.len()),
        b"-m32" | b"-m64" | b"-mx32" => 1,
        _ => usize::from(inside.iter().any(|prefix| word.starts_with(prefix))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_by_name() {
        for (name, expected) in [
            ("g++", Some(Program::Driver)),
            ("x86_64-linux-gnu-g++-12", Some(Program::Driver)),
            ("aarch64-conda-linux-gnu-c++", Some(Program::Driver)),
            ("clang++-19", Some(Program::Driver)),
            ("gcc-12.2", Some(Program::Driver)),
            ("mpicxx", Some(Program::Driver)),
            ("ld", Some(Program::Linker(None))),
            ("aarch64-linux-gnu-ld", Some(Program::Linker(None))),
            ("aarch64-linux-gnu-ld.bfd", Some(Program::Linker(Some(Linker::Bfd)))),
            ("ld.lld", Some(Program::Linker(Some(Linker::Lld)))),
            ("ld.lld-19", Some(Program::Linker(Some(Linker::Lld)))),
            ("lld", Some(Program::Linker(Some(Linker::Lld)))),
            ("mold", Some(Program::Linker(Some(Linker::Mold)))),
            ("ld.gold", Some(Program::Linker(Some(Linker::Gold)))),
            ("nvcc", None),
            ("ar", None),
            ("cmake", None),
            ("clang-format", None),
            ("gcc-ar", None),
            ("my-g++", None),
            ("ld64", None),
        ] {
            assert_eq!(Program::from_name(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn linkers_are_told_by_their_own_words() {
        for (text, expected) in [
            ("GNU ld (GNU Binutils for Debian) 2.40\nCopyright", Some(Linker::Bfd)),
            ("GNU gold (GNU Binutils for Debian 2.40) 1.16", Some(Linker::Gold)),
            ("Debian LLD 14.0.6 (compatible with GNU linkers)", Some(Linker::Lld)),
            ("LLD 22.1.8 (compatible with GNU linkers)", Some(Linker::Lld)),
            ("mold 1.10.1 (compatible with GNU ld)", Some(Linker::Mold)),
            ("mold 2.37.1 (abc; compatible with GNU ld)", Some(Linker::Mold)),
            ("Wild 0.5 (compatible with GNU linkers)", None),
            ("", None),
        ] {
            assert_eq!(Linker::from_version(text), expected, "{text}");
        }
        assert_eq!(Linker::from_word("/opt/bin/ld.lld-19"), Some(Linker::Lld));
        assert_eq!(Linker::from_word("/opt/bin/wild"), None);
    }

    #[test]
    fn words_that_choose_the_linker_are_known() {
        let count = |words: &[&str]| decides(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(
            (count(&["-B", "x"]), count(&["-B"]), count(&["-Bx", "y"]), count(&["-fuse-ld=lld"]), count(&["-L"]), count(&[])),
            (2, 1, 1, 1, 0, 0)
        );
    }
}
