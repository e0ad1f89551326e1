//! The whole command as nvcc reads it, without losing a byte: argv, the two variables, and every options file.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::options::{self, Arity, NvccOption, Spelling};
use super::words::{self, Word};
use crate::Env;

/// nvcc 13.0 gives up on a chain of options files well before this many.
const MAX_OPTIONS_FILES: usize = 64;
/// A response file of a real build is a few MiB at most.
const MAX_OPTIONS_FILE_BYTES: u64 = 64 << 20;

/// What a list of words came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// `NVCC_PREPEND_FLAGS`.
    Prepend,
    /// The words after the program's name.
    Argv,
    /// `NVCC_APPEND_FLAGS`.
    Append,
    /// An options file, named by the given value of an item of another source.
    OptionsFile {
        /// The path as resolved against the current directory.
        path: PathBuf,
        /// The `--options-file` item that named it: index into [`CommandLine::items`].
        item: usize,
        /// Which of that item's comma-separated values it was.
        value: usize,
    },
}

/// One list of words.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where the words came from.
    pub kind: SourceKind,
    /// The text that the spans of the words point into; empty for argv.
    pub text: Vec<u8>,
    /// The words in order.
    pub words: Vec<Word>,
}

/// One value of an option, between commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The bytes as written between the commas.
    pub raw: Vec<u8>,
    /// The value with `\,` read as a comma where nvcc does so.
    pub text: Vec<u8>,
}

/// What an item is.
#[derive(Clone, Debug)]
pub enum ItemKind {
    /// An option without a value.
    Flag(&'static NvccOption),
    /// An option with its value or values.
    Valued {
        /// The option.
        option: &'static NvccOption,
        /// The byte at which the values start, in the item's last word.
        start: usize,
        /// The values; one unless the option takes a list.
        values: Vec<Value>,
    },
    /// A file name.
    Input(Vec<u8>),
    /// A word with a dash that is in no toolkit's table.
    Unknown(Vec<u8>),
}

/// One option with its value, or one input.
#[derive(Clone, Debug)]
pub struct Item {
    /// Index into [`CommandLine::sources`].
    pub source: usize,
    /// Index of the first word in that source.
    pub word: usize,
    /// One or two words.
    pub words: usize,
    /// What it says.
    pub kind: ItemKind,
}

/// Why a command could not be read; it then runs exactly as given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotUnderstood {
    /// The last word wants a value that is not there.
    #[error("`{0}` has no value")]
    MissingValue(String),
    /// An options file or a variable with an open quote.
    #[error("{0} has an open quote or ends in a backslash")]
    Quoting(String),
    /// An options file could not be read.
    #[error("options file {path} can't be read: {reason}")]
    OptionsFile {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// Options files that name each other.
    #[error("more than {MAX_OPTIONS_FILES} options files: {0} is in a loop")]
    Loop(PathBuf),
    /// An option that no known nvcc has.
    #[error("option `{0}` is not known to dlink-shim")]
    UnknownOption(String),
    /// Source files on a device-link line: their units do not exist yet.
    #[error("`{0}` is compiled by the same command, so its device code can't be looked at")]
    SourceInput(String),
    /// A file that nvcc refuses for its suffix, in its own words.
    #[error("nvcc takes no input named `{0}`")]
    Input(String),
    /// Something that only this command's own phase options explain.
    #[error("{0}")]
    Other(String),
}

/// A command as nvcc reads it.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// The lists of words, in no particular order.
    pub sources: Vec<Source>,
    /// Everything said, in the order in which nvcc takes it.
    pub items: Vec<Item>,
}

impl CommandLine {
    /// Reads nvcc's words (`args`, without the program) together with the two variables and all options files.
    pub fn read(args: &[OsString], env: &Env) -> Result<Self, NotUnderstood> {
        let mut line = Self::default();
        for (name, kind) in [("NVCC_PREPEND_FLAGS", SourceKind::Prepend), ("", SourceKind::Argv), ("NVCC_APPEND_FLAGS", SourceKind::Append)]
        {
            let source = if kind == SourceKind::Argv {
                let word = |a: &OsString| Word { text: a.as_bytes().to_vec(), span: 0..0 };
                Source { kind, text: Vec::new(), words: args.iter().map(word).collect() }
            } else {
                let Some(text) = env.get(name) else { continue };
                let text = text.as_bytes().to_vec();
                let words = words::split(&text).ok_or_else(|| NotUnderstood::Quoting(name.into()))?;
                Source { kind, text, words }
            };
            line.add(source, env.cwd())?;
        }
        Ok(line)
    }

    /// Whether a flag is given, by its long name.
    pub fn has(&self, long: &str) -> bool {
        self.items.iter().any(|i| matches!(i.kind, ItemKind::Flag(o) if o.long == long))
    }

    /// The last value of an option, by its long name.
    pub fn last_value(&self, long: &str) -> Option<&[u8]> {
        self.items.iter().rev().find_map(|item| match &item.kind {
            ItemKind::Valued { option, values, .. } if option.long == long => values.last().map(|v| v.text.as_slice()),
            _ => None,
        })
    }

    fn add(&mut self, source: Source, cwd: &Path) -> Result<(), NotUnderstood> {
        let index = self.sources.len();
        if index > MAX_OPTIONS_FILES {
            let SourceKind::OptionsFile { path, .. } = source.kind else { unreachable!("only options files nest") };
            return Err(NotUnderstood::Loop(path));
        }
        let words = source.words.clone();
        self.sources.push(source);
        let mut at = 0;
        while at < words.len() {
            let (kind, used) = read_item(&words, at)?;
            let item = self.items.len();
            let nested = match &kind {
                ItemKind::Valued { option, values, .. } if option.long == "options-file" => values.clone(),
                _ => Vec::new(),
            };
            self.items.push(Item { source: index, word: at, words: used, kind });
            for (value, name) in nested.iter().enumerate() {
                let path = cwd.join(Path::new(&OsString::from_vec(name.text.clone())));
                let text = read_options_file(&path)?;
                let words = words::split(&text).ok_or_else(|| NotUnderstood::Quoting(format!("options file {}", path.display())))?;
                self.add(Source { kind: SourceKind::OptionsFile { path, item, value }, text, words }, cwd)?;
            }
            at += used;
        }
        Ok(())
    }
}

fn read_options_file(path: &Path) -> Result<Vec<u8>, NotUnderstood> {
    let fail = |reason: String| NotUnderstood::OptionsFile { path: path.to_owned(), reason };
    let meta = std::fs::metadata(path).map_err(|e| fail(e.to_string()))?;
    // A pipe (`-optf <(…)`) can be read once only, and that once is nvcc's.
    if !meta.is_file() {
        return Err(fail("not a regular file".into()));
    }
    if meta.len() > MAX_OPTIONS_FILE_BYTES {
        return Err(fail(format!("{} bytes", meta.len())));
    }
    std::fs::read(path).map_err(|e| fail(e.to_string()))
}

fn read_item(words: &[Word], at: usize) -> Result<(ItemKind, usize), NotUnderstood> {
    let text = &words[at].text;
    if text.first() != Some(&b'-') {
        return Ok((ItemKind::Input(text.clone()), 1));
    }
    let Some((option, spelling)) = options::lookup(text) else {
        return Ok((ItemKind::Unknown(text.clone()), 1));
    };
    if option.arity == Arity::Flag {
        return Ok((ItemKind::Flag(option), 1));
    }
    let (start, used) = match spelling {
        Spelling::Inside(start) => (start, 1),
        Spelling::Separate => (0, 2),
    };
    // A list of words is closed: a value never comes from the next options file or variable.
    let Some(last) = words.get(at + used - 1) else {
        return Err(NotUnderstood::MissingValue(String::from_utf8_lossy(text).into_owned()));
    };
    let values = split_values(option, &last.text[start..]);
    Ok((ItemKind::Valued { option, start, values }, used))
}

/// Cuts a list value at its commas. The `-X` options read `\,` as a comma; for files, `-l` and `-L` every comma cuts
/// (measured on 13.0.88).
fn split_values(option: &NvccOption, value: &[u8]) -> Vec<Value> {
    if option.arity != Arity::List {
        return vec![Value { raw: value.to_vec(), text: value.to_vec() }];
    }
    let escapes = option.short.starts_with('X');
    let mut values = vec![Value { raw: Vec::new(), text: Vec::new() }];
    let mut bytes = value.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let current = values.last_mut().expect("starts with one");
        match byte {
            b'\\' if escapes && bytes.peek() == Some(&b',') => {
                bytes.next();
                current.raw.extend(b"\\,");
                current.text.push(b',');
            }
            b',' => values.push(Value { raw: Vec::new(), text: Vec::new() }),
            other => {
                current.raw.push(other);
                current.text.push(other);
            }
        }
    }
    values
}
