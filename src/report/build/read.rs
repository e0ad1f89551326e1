//! From the report file to a [`Build`]: damaged lines are set aside, later links replace earlier ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::{Build, Damaged};
use crate::Error;
use crate::report::entry::{Entry, SCHEMA};

/// A device link of a thousand archives of a thousand units makes a line of about 150 MB; what is longer is no line of ours.
const MAX_LINE: u64 = 1 << 28;

/// Reads a report file.
///
/// # Errors
/// [`Error::Read`] if the file can't be read at all; a damaged line is no error but one of [`Build::damaged`].
pub fn read(path: &Path) -> Result<Build, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let mut build = Build::default();
    let mut links = BTreeMap::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if (&mut file).take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        if line.len() as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            build.damaged.push(Damaged { line: number, why: format!("longer than {MAX_LINE} bytes") });
            file.skip_until(b'\n').map_err(failed)?;
            continue;
        }
        // Less its end, which a parser would name instead of what is missing before it.
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match entry(text) {
            Ok(entry) => build.replaced += usize::from(links.insert(entry.place(), entry).is_some()),
            Err(why) => build.damaged.push(Damaged { line: number, why }),
        }
    }
    build.links = links.into_iter().collect();
    Ok(build)
}

fn entry(line: &[u8]) -> Result<Entry, String> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        schema: u32,
    }
    // The version first: a newer line may have anything in it.
    let Versioned { schema } = serde_json::from_slice(line).map_err(why)?;
    if schema != SCHEMA {
        return Err(format!("schema {schema}; this dlink-shim reads {SCHEMA}"));
    }
    serde_json::from_slice(line).map_err(why)
}

/// The reason less the line number that the parser counts by itself.
fn why(error: serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, at)) => format!("{what} (byte {})", at.rsplit(' ').next().unwrap_or(at)),
        None => text,
    }
}
