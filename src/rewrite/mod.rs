//! From decisions to a new command line: drop exactly the named values, keep every other byte and the order.

pub mod guard;
pub mod mask;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::Error;
use crate::nvcc::command_line::{CommandLine, ItemKind, SourceKind};
use crate::nvcc::{Site, words};

/// What is to happen to a command.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Values to leave out.
    pub removed: BTreeSet<Site>,
    /// Items whose whole value is written anew, or that go.
    pub values: BTreeMap<usize, Option<Vec<u8>>>,
    /// Words to add at the end of argv.
    pub added: Vec<OsString>,
}

impl Changes {
    /// Whether the command stays as it is.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.values.is_empty() && self.added.is_empty()
    }
}

/// A command line with the changes made.
#[derive(Clone, Debug, Default)]
pub struct Rewritten {
    /// nvcc's words.
    pub args: Vec<OsString>,
    /// Variables that were folded into `args` and must not reach nvcc again.
    pub unset: Vec<&'static str>,
}

/// What happens to one word of a source.
enum WordEdit {
    Drop,
    Replace(Vec<u8>),
}

/// Makes the changes. `new_file` is called for every options file that changes, with its new text, and says where that
/// text will be; the caller's own files are never written.
pub fn rewrite(
    line: &CommandLine,
    changes: &Changes,
    new_file: &mut dyn FnMut(&[u8]) -> Result<PathBuf, Error>,
) -> Result<Rewritten, Error> {
    // New names of options files, by the site that names them. Files come after the source that names them, so going
    // backwards meets the innermost first.
    let mut renamed: BTreeMap<Site, Vec<u8>> = BTreeMap::new();
    let mut edits: BTreeMap<usize, BTreeMap<usize, WordEdit>> = BTreeMap::new();
    for source in (0..line.sources.len()).rev() {
        let own = source_edits(line, source, changes, &renamed);
        if let (SourceKind::OptionsFile { item, value, .. }, false) = (&line.sources[source].kind, own.is_empty()) {
            let path = new_file(&edited_text(&line.sources[source].text, &line.sources[source].words, &own))?;
            renamed.insert(Site { item: *item, value: *value }, path.as_os_str().as_bytes().to_vec());
        }
        edits.insert(source, own);
    }
    let mut out = Rewritten::default();
    for (index, source) in line.sources.iter().enumerate() {
        let own = &edits[&index];
        let variable = match source.kind {
            SourceKind::OptionsFile { .. } => continue,
            SourceKind::Argv => None,
            SourceKind::Prepend => Some("NVCC_PREPEND_FLAGS"),
            SourceKind::Append => Some("NVCC_APPEND_FLAGS"),
        };
        if let Some(variable) = variable {
            if own.is_empty() {
                continue;
            }
            out.unset.push(variable);
        }
        for (word, w) in source.words.iter().enumerate() {
            match own.get(&word) {
                Some(WordEdit::Drop) => {}
                Some(WordEdit::Replace(text)) => out.args.push(OsString::from_vec(text.clone())),
                None => out.args.push(OsString::from_vec(w.text.clone())),
            }
        }
        if source.kind == SourceKind::Argv {
            out.args.extend(changes.added.iter().cloned());
        }
    }
    Ok(out)
}

fn source_edits(line: &CommandLine, source: usize, changes: &Changes, renamed: &BTreeMap<Site, Vec<u8>>) -> BTreeMap<usize, WordEdit> {
    let mut edits = BTreeMap::new();
    for (index, item) in line.items.iter().enumerate().filter(|(_, i)| i.source == source) {
        let removed = |value: usize| changes.removed.contains(&Site { item: index, value });
        let last = item.word + item.words - 1;
        match (&item.kind, changes.values.get(&index)) {
            (ItemKind::Valued { start, .. }, Some(Some(value))) => {
                let text = [&line.sources[source].words[last].text[..*start], value].concat();
                edits.insert(last, WordEdit::Replace(text));
                continue;
            }
            (_, Some(None)) => {
                edits.extend((item.word..=last).map(|w| (w, WordEdit::Drop)));
                continue;
            }
            _ => {}
        }
        match &item.kind {
            ItemKind::Input(_) if removed(0) => {
                edits.insert(item.word, WordEdit::Drop);
            }
            ItemKind::Valued { start, values, .. } => {
                let new_name = |value: usize| renamed.get(&Site { item: index, value });
                if !(0..values.len()).any(|v| removed(v) || new_name(v).is_some()) {
                    continue;
                }
                let kept: Vec<&[u8]> = (0..values.len())
                    .filter(|&v| !removed(v) && !values[v].raw.is_empty())
                    .map(|v| new_name(v).unwrap_or(&values[v].raw).as_slice())
                    .collect();
                if kept.is_empty() {
                    edits.extend((item.word..=last).map(|w| (w, WordEdit::Drop)));
                } else {
                    let mut text = line.sources[source].words[last].text[..*start].to_vec();
                    let values = kept.join(&b',');
                    // `-l,=x` less its first value: `-l=x` would name `x`.
                    if values.starts_with(b"=") && *start > 0 && !text.ends_with(b"=") {
                        text.push(b'=');
                    }
                    text.extend(values);
                    edits.insert(last, WordEdit::Replace(text));
                }
            }
            _ => {}
        }
    }
    edits
}

/// The text of an options file with the edits made in place: what is not edited keeps its quoting and its white space.
fn edited_text(text: &[u8], all: &[words::Word], edits: &BTreeMap<usize, WordEdit>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for (word, edit) in edits {
        let span = &all[*word].span;
        out.extend(&text[at..span.start]);
        match edit {
            WordEdit::Drop => {}
            WordEdit::Replace(new) => out.extend(words::quote(new)),
        }
        at = span.end;
    }
    out.extend(&text[at..]);
    out
}
