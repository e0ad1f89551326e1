//! What a whole build did: a report file read back, and its views.

pub mod graph;
pub mod html;
mod label;
mod read;
pub mod text;
mod view;

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use super::entry::Entry;
pub use read::read;
pub use view::{Image, Library, Row, Summary, View};

/// The lines of a report file, less those that a later link of the same output replaced.
#[derive(Debug, Default)]
pub struct Build {
    /// One per output, sorted by where that is.
    pub links: Vec<(PathBuf, Entry)>,
    /// How many older links of the same outputs there were.
    pub replaced: usize,
    /// Lines that could not be read.
    pub damaged: Vec<Damaged>,
}

/// A line that could not be read.
#[derive(Clone, Debug, Serialize)]
pub struct Damaged {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// The build for programs: `summary`, `libraries`, `links` (the report's lines as they stand) and `damaged`.
pub fn json(build: &Build) -> Value {
    let view = View::new(build);
    let links: Vec<&Entry> = build.links.iter().map(|(_, entry)| entry).collect();
    json!({ "summary": view.summary, "libraries": view.libraries, "links": links, "damaged": build.damaged })
}
