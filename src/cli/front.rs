//! The words in front of nvcc's own word: assignments, and programs that run nvcc in the end (`ccache`, `env`, …).
//!
//! Only what is certain is read; `None` means that the command runs as it is. The programs' words stay as they are,
//! since what they do with nvcc's word (ccache hashes it, sccache asks it who it is) is theirs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::call::file_name;
use crate::env::Change;

/// What stands in front of nvcc's word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Front<'a> {
    /// Leading assignments, which we make for whatever follows, as env(1) does. SCRAM's prefix is written that way.
    pub assignments: Vec<(&'a OsStr, &'a OsStr)>,
    /// The programs and their words, empty when nvcc's word comes first.
    pub programs: &'a [OsString],
    /// What the programs do to nvcc's environment.
    pub changes: Vec<Change>,
}

impl<'a> Front<'a> {
    /// Takes the leading assignments off.
    pub fn assignments(words: &'a [OsString]) -> (Vec<(&'a OsStr, &'a OsStr)>, &'a [OsString]) {
        let made: Vec<_> = words.iter().map_while(|w| assignment(w)).collect();
        let rest = &words[made.len()..];
        (made, rest)
    }

    /// Reads programs up to nvcc's word: the front, and the words from nvcc's on. `None` when they don't certainly end
    /// in nvcc.
    pub fn programs(words: &'a [OsString]) -> Option<(Self, &'a [OsString])> {
        Self::programs_before(is_nvcc_name, words)
    }

    /// The same up to a program of another kind, told by its file name.
    pub fn programs_before(is_it: impl Fn(&[u8]) -> bool, words: &'a [OsString]) -> Option<(Self, &'a [OsString])> {
        let mut changes = Vec::new();
        let mut rest = words;
        loop {
            let (program, after) = rest.split_first()?;
            if is_it(file_name(program)) {
                let programs = &words[..words.len() - rest.len()];
                return Some((Self { assignments: Vec::new(), programs, changes }, rest));
            }
            rest = own_words(file_name(program), after, &mut changes)?;
        }
    }

    /// What of this reaches nvcc's environment, in order.
    pub fn all_changes(&self) -> impl Iterator<Item = Change> {
        let set = |&(name, value): &(&OsStr, &OsStr)| Change::Set(name.to_owned(), value.to_owned());
        self.assignments.iter().map(set).chain(self.changes.iter().cloned())
    }

    /// Whether one of the programs sets the variable, so that taking it away from the programs is in vain.
    pub fn sets(&self, name: &str) -> bool {
        self.changes.iter().any(|c| matches!(c, Change::Set(n, _) if n == name))
    }
}

/// Whether words that are no [`Front`] hold a device link all the same, which then goes by uncured.
pub fn hides_device_link(words: &[OsString]) -> bool {
    let Some(nvcc) = words.iter().position(|w| is_nvcc_name(file_name(w))) else { return false };
    let ours = words[..nvcc].iter().any(|w| file_name(w) == b"dlink-shim");
    !ours && words[nvcc..].iter().any(|w| w == "-dlink" || w == "--device-link")
}

/// `nvcc`, `nvcc-12.4`, `nvcc.real`; not `nvcc_wrapper`, which is a program with words of its own.
pub fn is_nvcc_name(name: &[u8]) -> bool {
    name.strip_prefix(b"nvcc").is_some_and(|rest| rest.is_empty() || rest[0] == b'-' || rest[0] == b'.' || rest[0].is_ascii_digit())
}

/// `NAME=value` with a name that a shell would take.
fn assignment(word: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|&b| b == b'=')?;
    let name = &bytes[..at];
    let letters = name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let good = letters && name.first().is_some_and(|b| !b.is_ascii_digit());
    good.then(|| (OsStr::from_bytes(name), OsStr::from_bytes(&bytes[at + 1..])))
}

/// Passes over a program's own words: what is left begins with the program that it runs.
fn own_words<'a>(program: &[u8], words: &'a [OsString], changes: &mut Vec<Change>) -> Option<&'a [OsString]> {
    match program {
        b"sccache" => Some(words),
        // Ourselves again, which will look at nothing.
        b"dlink-shim" => assigned(words, changes),
        // `ccache KEY=VALUE… compiler` (4.8 and later) sets options of ccache's own.
        b"ccache" => Some(Front::assignments(words).1),
        b"env" => env_words(words, changes),
        b"nice" => nice_words(words),
        b"cmake" => match words.first()?.as_bytes() {
            b"-E" if words.get(1)?.as_bytes() == b"env" => cmake_env_words(&words[2..], changes),
            _ => None,
        },
        b"ctest" if words.first()?.as_bytes() == b"--launch" => {
            let at = words.iter().position(|w| w == "--")?;
            Some(&words[at + 1..])
        }
        _ => None,
    }
}

/// GNU env: options that leave the directory and the words alone, then assignments.
fn env_words<'a>(mut words: &'a [OsString], changes: &mut Vec<Change>) -> Option<&'a [OsString]> {
    loop {
        let (word, after) = words.split_first()?;
        let bytes = word.as_bytes();
        match bytes {
            b"-" | b"-i" | b"--ignore-environment" => changes.push(Change::Clear),
            b"-u" => {
                let (name, after) = after.split_first()?;
                changes.push(Change::Unset(name.clone()));
                words = after;
                continue;
            }
            b"--" => {
                words = after;
                break;
            }
            _ => match bytes.strip_prefix(b"--unset=") {
                Some(name) => changes.push(Change::Unset(OsStr::from_bytes(name).to_owned())),
                None => break,
            },
        }
        words = after;
    }
    assigned(words, changes)
}

/// `cmake -E env [--unset=VAR]… [NAME=VALUE]… [--] COMMAND`.
fn cmake_env_words<'a>(mut words: &'a [OsString], changes: &mut Vec<Change>) -> Option<&'a [OsString]> {
    while let Some((word, after)) = words.split_first() {
        let bytes = word.as_bytes();
        if let Some(name) = bytes.strip_prefix(b"--unset=") {
            changes.push(Change::Unset(OsStr::from_bytes(name).to_owned()));
        } else if let Some((name, value)) = assignment(word) {
            changes.push(Change::Set(name.to_owned(), value.to_owned()));
        } else {
            return Some(if bytes == b"--" { after } else { words });
        }
        words = after;
    }
    None
}

fn assigned<'a>(words: &'a [OsString], changes: &mut Vec<Change>) -> Option<&'a [OsString]> {
    let (made, rest) = Front::assignments(words);
    changes.extend(made.into_iter().map(|(name, value)| Change::Set(name.to_owned(), value.to_owned())));
    Some(rest)
}

fn nice_words(words: &[OsString]) -> Option<&[OsString]> {
    let number = |b: &[u8]| !b.is_empty() && b.iter().all(|b| b.is_ascii_digit() || *b == b'-');
    let first = words.first()?.as_bytes();
    if first == b"-n" {
        return number(words.get(1)?.as_bytes()).then(|| &words[2..]);
    }
    let attached = first.strip_prefix(b"-n").or_else(|| first.strip_prefix(b"--adjustment="));
    match attached {
        Some(value) => number(value).then(|| &words[1..]),
        None => Some(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn words_up_to_nvcc_are_read_where_they_are_certain() {
        // The line, and how many words stand before nvcc's; what nvcc's environment sees besides.
        for (line, before, changes) in [
            ("nvcc -c", 0, ""),
            ("/x/nvcc-12.4 -c", 0, ""),
            ("ccache nvcc -c", 1, ""),
            ("/usr/bin/ccache /x/nvcc -c", 1, ""),
            ("ccache compiler_check=content run_second_cpp=true nvcc -c", 3, ""),
            ("sccache nvcc -c", 1, ""),
            ("env nvcc -c", 1, ""),
            ("env A=b C= nvcc -c", 3, "A=b C="),
            ("env -u A --unset=B -i -- C=d nvcc -c", 7, "-A -B clear C=d"),
            ("env -u A ccache nvcc -c", 4, "-A"),
            ("ccache env A=b nvcc -c", 3, "A=b"),
            ("ctest --launch --target-name t --build-dir d -- nvcc -dlink", 7, ""),
            ("ctest --launch -- ccache nvcc", 4, ""),
            ("/x/dlink-shim A=b nvcc", 2, "A=b"),
            ("cmake -E env A=b --unset=C -- nvcc", 6, "A=b -C"),
            ("cmake -E env A=b nvcc", 4, "A=b"),
            ("nice nvcc", 1, ""),
            ("nice -n 19 nvcc", 3, ""),
            ("nice -n19 ccache nvcc", 3, ""),
        ] {
            let words = words(line);
            let (front, rest) = Front::programs(&words).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((front.programs, rest), words.split_at(before), "{line}");
            let show = |c: &Change| match c {
                Change::Clear => "clear".to_owned(),
                Change::Set(n, v) => format!("{}={}", n.display(), v.display()),
                Change::Unset(n) => format!("-{}", n.display()),
            };
            assert_eq!(front.changes.iter().map(show).collect::<Vec<_>>().join(" "), changes, "{line}");
        }
    }

    #[test]
    fn what_is_not_certain_is_no_front() {
        for line in [
            "",
            "g++ x.o nvcc",
            "ar crs nvcc x.o",
            "ccache",
            "ccache -s",
            "ccache --set-config nvcc",
            "ccache g++ nvcc",
            "ccache nvcc_wrapper -c",
            "sccache --start-server",
            "sccache A=b nvcc",
            "env",
            "env A=b",
            "env -C / nvcc",
            "env -S x nvcc",
            "env 1=2 nvcc",
            "env ./A=b nvcc",
            "env -u",
            "ctest nvcc",
            "ctest --launch nvcc",
            "ctest --launch -- g++ nvcc",
            "cmake -E rm -f nvcc",
            "cmake -E env --modify A=set:b nvcc",
            "cmake -E",
            "cmake",
            "nice -5 nvcc",
            "nice -n x nvcc",
            "time nvcc",
            "dlink-shim explain nvcc",
            "sh -c nvcc",
        ] {
            assert_eq!(Front::programs(&words(line)), None, "{line}");
        }
    }
}
