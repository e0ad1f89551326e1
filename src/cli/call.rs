//! How the program was called: by which name, with what in front of nvcc's words.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::commands;
use super::front::Front;
use crate::Error;
use crate::nvcc::device_link;

/// How the program was called.
#[derive(Debug)]
pub enum Call<'a> {
    /// With nvcc's words.
    Nvcc(NvccCall<'a>),
    /// As the launcher of a program that is no nvcc, with the assignments in front of it.
    Launcher(Vec<(&'a OsStr, &'a OsStr)>, &'a [OsString]),
    /// One of our own commands, or our own `--help`.
    Own,
    /// With words that can only be a mistake in the wiring.
    Mistake(Error),
}

/// nvcc's words, and how they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvccCall<'a> {
    /// What stands before nvcc's word.
    pub front: Front<'a>,
    /// The nvcc that a launcher call names.
    pub word: Option<&'a OsStr>,
    /// The name we were called by, when it is nvcc's name.
    pub called_as: Option<&'a OsStr>,
    /// nvcc's words.
    pub args: &'a [OsString],
}

impl<'a> Call<'a> {
    /// Tells from argv.
    pub fn from_argv(argv: &'a [OsString]) -> Self {
        let Some((zero, args)) = argv.split_first() else { return Self::Mistake(Error::NoCommand) };
        if file_name(zero) == b"nvcc" {
            return Self::Nvcc(NvccCall { called_as: Some(zero), args, ..NvccCall::default() });
        }
        // By another name (`CMAKE_CUDA_COMPILER=/x/mynvcc`), whatever can be nvcc's words is: `--version` must name nvcc.
        let renamed = !file_name(zero).starts_with(b"dlink-shim");
        if renamed && args.iter().find(|w| !w.is_empty()).is_none_or(|w| is_nvccs(w)) {
            return Self::Nvcc(NvccCall { called_as: Some(zero), args, ..NvccCall::default() });
        }
        let Some(first) = args.first() else { return Self::Mistake(Error::NoCommand) };
        let first = first.as_bytes();
        if matches!(first, b"--help" | b"-h" | b"--version" | b"-V") || commands::NAMES.iter().any(|n| n.as_bytes() == first) {
            return Self::Own;
        }
        Self::from_words(args)
    }

    /// Tells from the words after our own name, none of which is ours.
    pub fn from_words(words: &'a [OsString]) -> Self {
        // CMake 4.4 asks a compiler that it found by itself with an empty word before the real ones.
        let nvccs = |words: &[OsString]| words.iter().find(|w| !w.is_empty()).is_some_and(|w| is_nvccs(w));
        let (assignments, rest) = Front::assignments(words);
        if rest.first().is_some_and(|w| w.is_empty()) && !nvccs(rest) {
            return Self::Mistake(Error::EmptyProgram);
        }
        if nvccs(rest) || rest.is_empty() {
            // With nothing to run behind them, words that could be inputs (`a=b.o`) are inputs.
            if assignments.is_empty() || words[..assignments.len()].iter().any(|w| is_nvccs(w)) {
                return Self::Nvcc(NvccCall { args: words, ..NvccCall::default() });
            }
            if rest.is_empty() {
                return Self::Mistake(Error::NoCommand);
            }
            return Self::Nvcc(NvccCall { front: Front { assignments, ..Front::default() }, args: rest, ..NvccCall::default() });
        }
        match Front::programs(rest) {
            Some((front, nvcc)) => Self::Nvcc(NvccCall {
                front: Front { assignments, ..front },
                word: nvcc.first().map(OsString::as_os_str),
                called_as: None,
                args: &nvcc[1..],
            }),
            None => Self::Launcher(assignments, rest),
        }
    }
}

/// Whether a word is one of nvcc's and so no program to run.
fn is_nvccs(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"-") || device_link::looks_like_input(word.as_bytes())
}

/// What follows the last slash.
pub(super) fn file_name(path: &OsStr) -> &[u8] {
    path.as_bytes().rsplit(|&b| b == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The call in a few words.
    fn read(line: &[&str]) -> String {
        let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
        let list = |made: &[(&OsStr, &OsStr)]| made.iter().map(|(n, v)| format!("{}={} ", n.display(), v.display())).collect::<String>();
        let join = |words: &[OsString]| words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ");
        match Call::from_argv(&argv) {
            Call::Nvcc(c) => {
                let word = c.word.map(|w| w.to_string_lossy().into_owned() + " ").unwrap_or_default();
                let front = join(c.front.programs) + if c.front.programs.is_empty() { "" } else { " " };
                format!("nvcc: {}[{front}]{word}| {}", list(&c.front.assignments), join(c.args))
            }
            Call::Launcher(made, words) => format!("runs: {}{}", list(&made), join(words)),
            Call::Own => "own".into(),
            Call::Mistake(error) => format!("mistake: {}", error.to_string().split(':').next().unwrap_or_default()),
        }
    }

    #[test]
    fn calls_by_name_and_by_words() {
        for (line, expected) in [
            (&["/x/nvcc"][..], "nvcc: []| "),
            (&["nvcc", "", "-v", "__cmake_determine_cuda"], "nvcc: []|  -v __cmake_determine_cuda"),
            (&["nvcc", "g++"], "nvcc: []| g++"),
            (&["dlink-shim", "", "-v", "__cmake_determine_cuda"], "nvcc: []|  -v __cmake_determine_cuda"),
            (&["dlink-shim", "-dlink", "a.o"], "nvcc: []| -dlink a.o"),
            (&["dlink-shim", "a.o", "-dlink"], "nvcc: []| a.o -dlink"),
            (&["dlink-shim", "a=b.o", "-dlink"], "nvcc: []| a=b.o -dlink"),
            (&["dlink-shim", "a=b.o"], "nvcc: []| a=b.o"),
            (&["dlink-shim", "a=b.o", "nvcc", "-c"], "nvcc: a=b.o []nvcc | -c"),
            (&["dlink-shim", "A=b", "-dlink", "x.o"], "nvcc: A=b []| -dlink x.o"),
            (&["dlink-shim", "A=b", "C=", "/x/nvcc", "-dlink"], "nvcc: A=b C= []/x/nvcc | -dlink"),
            (&["dlink-shim", "A=b", "ccache", "nvcc", "-dlink"], "nvcc: A=b [ccache ]nvcc | -dlink"),
            (&["dlink-shim", "ccache", "nvcc"], "nvcc: [ccache ]nvcc | "),
            (&["dlink-shim", "A=b", "g++", "-o", "nvcc"], "runs: A=b g++ -o nvcc"),
            (&["dlink-shim", "ar", "crs", "x.a", "nvcc.o"], "runs: ar crs x.a nvcc.o"),
            (&["dlink-shim", "cmake", "-E", "rm", "-f", "x.a"], "runs: cmake -E rm -f x.a"),
            (&["dlink-shim", "./A=b", "nvcc"], "runs: ./A=b nvcc"),
            (&["dlink-shim", "--version"], "own"),
            (&["dlink-shim", "explain", "nvcc"], "own"),
            (&["dlink-shim"], "mistake: called without a command"),
            (&["dlink-shim", "A=b"], "mistake: called without a command"),
            (&["dlink-shim", ""], "mistake: the program's name is empty"),
            (&["dlink-shim", "", "nvcc"], "mistake: the program's name is empty"),
            (&["/x/mynvcc", "--version"], "nvcc: []| --version"),
            (&["/x/mynvcc", "", "-v", "__cmake_determine_cuda"], "nvcc: []|  -v __cmake_determine_cuda"),
            (&["/x/mynvcc", "a.o", "-dlink"], "nvcc: []| a.o -dlink"),
            (&["mynvcc"], "nvcc: []| "),
            (&["mynvcc", "ccache", "nvcc", "-c"], "nvcc: [ccache ]nvcc | -c"),
            (&["dlink-shim-1.0", "--version"], "own"),
            (&[], "mistake: called without a command"),
        ] {
            assert_eq!(read(line), expected, "{line:?}");
        }
    }
}
