//! What can go wrong, for own commands and for the few cases in which a wrapped command can't be run at all.

use std::ffi::OsString;
use std::path::PathBuf;

/// An error of dlink-shim.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No nvcc that is not this program.
    #[error(
        "no nvcc found{}: {}",
        named.as_ref().map(|n| format!(" as `{}`", n.display())).unwrap_or_default(),
        named.as_ref().and_then(|n| one_word(n)).unwrap_or("set DLINK_SHIM_NVCC to the real nvcc, or put its directory on PATH")
    )]
    NvccNotFound {
        /// What the caller named, if anything.
        named: Option<OsString>,
    },
    /// sccache asked us, as the compiler after it, who we are, and we have no nvcc to ask.
    #[error(
        "sccache takes dlink-shim for the compiler: write `dlink-shim sccache nvcc`, or name a hard link of dlink-shim `nvcc` after sccache"
    )]
    AskedBySccache,
    /// Nothing to run.
    #[error(
        "called without a command: the build rule or variable that should name nvcc here is empty; write `dlink-shim /path/to/nvcc …` \
         (CMake: prefix the device-link rules only after the CUDA language is on; `dlink-shim --help` says more)"
    )]
    NoCommand,
    /// An empty word where a program should be.
    #[error("the program's name is empty: a variable that should name nvcc has no value; write `dlink-shim /path/to/nvcc …`")]
    EmptyProgram,
    /// The program of a launcher call is not there.
    #[error("no program `{}`: {}", program.display(), one_word(program).unwrap_or("dlink-shim wants a program and its words, `dlink-shim /path/to/nvcc …`"))]
    NoProgram {
        /// The word.
        program: OsString,
    },
    /// `DLINK_SHIM_NVCC` leads back here.
    #[error("DLINK_SHIM_NVCC names dlink-shim itself ({path}): name the real nvcc")]
    NvccIsShim {
        /// The file.
        path: PathBuf,
    },
    /// Wrappers that call each other.
    #[error("dlink-shim and another wrapper call each other in a loop: set DLINK_SHIM_NVCC to the real nvcc")]
    Loop,
    /// The program could not be started.
    #[error("can't run {}: {source}", program.display())]
    Run {
        /// The program.
        program: OsString,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file that was asked for could not be written.
    #[error("can't write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not what it looks like.
    #[error("{}{}: {what} at offset {offset:#x}", path.display(), member.as_ref().map(|m| format!("({m})")).unwrap_or_default())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The archive member.
        member: Option<String>,
        /// Byte offset in the file, or in the member if one is named.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A temporary file could not be written.
    #[error("can't write a temporary file: {0}")]
    Temporary(std::io::Error),
    /// A command that can't be explained because it is none of nvcc's.
    #[error("{0}")]
    Usage(String),
    /// In strict mode, what would otherwise be one warning.
    #[error("{0} (DLINK_SHIM_STRICT is set)")]
    Strict(String),
}

/// What to say of a program's name that holds a whole command.
fn one_word(program: &std::ffi::OsStr) -> Option<&'static str> {
    let blank = program.as_encoded_bytes().iter().any(u8::is_ascii_whitespace);
    blank.then_some("these words came as one: leave out the quotes around them (in CMake write a list, `dlink-shim;/path/to/nvcc`)")
}
