//! The objects and archives of a host link command.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::nvcc::words;

/// Options of compilers and linkers whose value is the next word and no input.
const VALUED: &[&str] = &[
    "-o",
    "-T",
    "-MF",
    "-MT",
    "-MQ",
    "-include",
    "-isystem",
    "-I",
    "-D",
    "-U",
    "-soname",
    "-h",
    "-rpath",
    "-rpath-link",
    "-z",
    "-e",
    "-u",
    "-Map",
];
const MAX_FILES: usize = 64;

/// Reads a command as a shell would write it: what it links, less shared libraries, in order.
///
/// `@FILE` is read as GCC does. `-l` is looked for in the `-L` directories only: system libraries have no device code worth
/// counting.
pub fn inputs(command: &str, cwd: &Path) -> Result<Vec<PathBuf>, String> {
    let words = shlex::split(command).ok_or("--link: an open quote")?;
    let mut all = Vec::new();
    let mut files = 0;
    expand(words.into_iter().map(String::into_bytes).skip(1).collect(), cwd, &mut files, &mut all)?;
    let path = |bytes: &[u8]| cwd.join(OsStr::from_bytes(bytes));
    let (mut found, mut names, mut directories) = (Vec::new(), Vec::new(), Vec::new());
    let mut words = all.iter();
    while let Some(word) = words.next() {
        let mut value = |attached: &[u8]| if attached.is_empty() { words.next().cloned() } else { Some(attached.to_vec()) };
        if VALUED.iter().any(|v| v.as_bytes() == word) {
            words.next();
        } else if let Some(rest) = word.strip_prefix(b"-L") {
            directories.extend(value(rest).map(|d| path(&d)));
        } else if let Some(rest) = word.strip_prefix(b"-l") {
            names.extend(value(rest).map(|n| (found.len(), n)));
        } else if !word.starts_with(b"-") && is_input(word) {
            found.push(path(word));
        }
    }
    for (at, name) in names.into_iter().rev() {
        if let Some(archive) = library(&name, &directories) {
            found.insert(at, archive);
        }
    }
    if found.is_empty() {
        return Err("--link: the command names no object or archive".into());
    }
    found.dedup();
    Ok(found)
}

/// Opens `@FILE`, `-Wl,a,b` and `-Xlinker a`.
fn expand(words: Vec<Vec<u8>>, cwd: &Path, files: &mut usize, all: &mut Vec<Vec<u8>>) -> Result<(), String> {
    for word in words {
        if let Some(name) = word.strip_prefix(b"@") {
            *files += 1;
            let path = cwd.join(OsStr::from_bytes(name));
            let text = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            if *files > MAX_FILES {
                return Err(format!("{}: response files name each other in a circle", path.display()));
            }
            let inner = words::split(&text).ok_or_else(|| format!("{}: an open quote", path.display()))?;
            expand(inner.into_iter().map(|w| w.text).collect(), cwd, files, all)?;
        } else if let Some(list) = word.strip_prefix(b"-Wl,") {
            all.extend(list.split(|&b| b == b',').map(<[u8]>::to_vec));
        } else if word != b"-Xlinker" {
            all.push(word);
        }
    }
    Ok(())
}

fn is_input(name: &[u8]) -> bool {
    [&b".o"[..], b".a", b".obj", b".lo"].iter().any(|s| name.ends_with(s))
}

/// The archive that a linker takes for `-lNAME`; none when it takes a shared library.
fn library(name: &[u8], directories: &[PathBuf]) -> Option<PathBuf> {
    let file = |suffix: &[u8]| match name.strip_prefix(b":") {
        Some(exact) => exact.to_vec(),
        None => [b"lib", name, suffix].concat(),
    };
    for directory in directories {
        for suffix in [&b".so"[..], b".a"] {
            let path = directory.join(OsStr::from_bytes(&file(suffix)));
            if path.is_file() {
                return is_input(path.as_os_str().as_bytes()).then_some(path);
            }
        }
    }
    None
}
