//! The command with its inputs replaced by copies.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::line::Site;
use super::{Call, Placing, Words, copies, response};
use crate::Error;
use crate::analysis::Files;
use crate::launch::Launch;
use crate::nvcc::CommandLine;
use crate::nvcc::command_line::{ItemKind, SourceKind};
use crate::nvcc::words::quote;

/// Makes the copies that gold needs, and the command with them in place.
pub fn with_copies(placing: &Placing, launch: &mut Launch, call: &Call<'_>, files: &mut Files) -> Result<(), Error> {
    let top = files.path()?;
    let mut replaced: Vec<(Site, PathBuf, PathBuf)> = Vec::new();
    let mut libraries = None;
    for (index, file) in placing.files.iter().enumerate() {
        let name = file.path.file_name().unwrap_or_default();
        match (file.site, &file.library) {
            (Some(site), _) => {
                if let Some(copy) = copies::flagged(&file.path, top.join(index.to_string()).join(name))? {
                    replaced.push((site, file.path.clone(), copy));
                }
            }
            // Found first under its own name in a directory that stands before all others.
            (None, _) => {
                let directory = top.join("libraries");
                if copies::flagged(&file.path, directory.join(name))?.is_some() {
                    libraries = Some(directory);
                }
            }
        }
    }
    let mut args = match &placing.words {
        Words::Plain(words, response) => {
            let words = plain(words.clone(), &replaced);
            match response {
                true => {
                    let mut word = OsString::from("@");
                    word.push(files.add("words.rsp", &response::text(&words))?);
                    vec![word]
                }
                false => words,
            }
        }
        Words::Nvcc(line) => nvcc(line, &replaced, files)?,
    };
    if let Some(directory) = libraries {
        let mut word = OsString::from("-L");
        word.push(directory);
        args.insert(0, word);
    }
    launch.args.truncate(call.from);
    launch.args.extend(args);
    Ok(())
}

/// A host compiler's or linker's words with new paths in them.
fn plain(mut words: Vec<OsString>, replaced: &[(Site, PathBuf, PathBuf)]) -> Vec<OsString> {
    // Backwards, so that the places before stay where they are.
    for ((word, start), _, copy) in replaced.iter().rev() {
        let mut bytes = std::mem::take(&mut words[*word]).into_vec();
        let in_list = bytes.starts_with(b"-Wl,");
        let end = bytes[*start..].iter().position(|&b| in_list && b == b',').map_or(bytes.len(), |at| start + at);
        bytes.splice(*start..end, copy.as_os_str().as_bytes().iter().copied());
        words[*word] = OsString::from_vec(bytes);
    }
    words
}

/// nvcc's words of argv and of its options files, with new paths in them; the two variables keep theirs.
fn nvcc(line: &CommandLine, replaced: &[(Site, PathBuf, PathBuf)], files: &mut Files) -> Result<Vec<OsString>, Error> {
    let mut args = Vec::new();
    let mut from_file = false;
    let mut used = 0;
    for (index, item) in line.items.iter().enumerate() {
        let source = &line.sources[item.source];
        if !from_argv(line, item.source) {
            continue;
        }
        from_file |= source.kind != SourceKind::Argv;
        match &item.kind {
            ItemKind::Valued { option, .. } if option.long == "options-file" => {}
            ItemKind::Input(name) => {
                let copy = replaced.iter().find(|(site, ..)| *site == (index, 0)).map(|(.., copy)| copy.as_path());
                used += usize::from(copy.is_some());
                args.push(copy.unwrap_or(Path::new(OsStr::from_bytes(name))).as_os_str().to_owned());
            }
            _ => args.extend(source.words[item.word..item.word + item.words].iter().map(|w| OsStr::from_bytes(&w.text).to_owned())),
        }
    }
    if used < replaced.len() {
        return Err(Error::Usage("gold needs changed copies of inputs that nvcc is given by -Xlinker, -Xcompiler or a variable".into()));
    }
    if !from_file {
        return Ok(args);
    }
    let text: Vec<Vec<u8>> = args.iter().map(|word| quote(word.as_bytes())).collect();
    let mut word = OsString::from("--options-file=");
    word.push(files.add("options.rsp", &text.join(&b'\n'))?);
    Ok(vec![word])
}

/// Whether a source of words is argv, or an options file that argv names.
fn from_argv(line: &CommandLine, source: usize) -> bool {
    match line.sources[source].kind {
        SourceKind::Argv => true,
        SourceKind::Prepend | SourceKind::Append => false,
        SourceKind::OptionsFile { item, .. } => from_argv(line, line.items[item].source),
    }
}
