//! The build as one page that needs nothing else: markup, style, script and data in one file.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Build, View};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page.
pub fn page(build: &Build) -> String {
    let data = data(build).to_string();
    // Where a string holds `</script` or `<!--`, the HTML parser must not see it; JSON's own escape says the same.
    let data = data.replace('<', "\\u003c");
    PAGE.replacen("/*STYLE*/", STYLE, 1).replacen("/*SCRIPT*/", SCRIPT, 1).replacen("/*DATA*/", &data, 1)
}

/// What the script reads. Ids and reasons repeat in each image, so rows refer to `strings` by index.
fn data(build: &Build) -> Value {
    let view = View::new(build);
    let mut strings = Strings::default();
    let rows: Vec<Value> = view
        .rows
        .iter()
        .map(|row| {
            let units: Vec<Value> = row
                .units
                .iter()
                .map(|u| {
                    let why = u.reason.as_deref().map(|r| strings.index(r));
                    json!([strings.index(&u.id), strings.index(&u.verdict), why, u.bytes])
                })
                .collect();
            json!([row.image, row.library, strings.index(row.verdict), strings.index(row.reason), units])
        })
        .collect();
    json!({
        "top": view.top.to_string_lossy(),
        "summary": view.summary,
        "images": view.images,
        "libraries": view.libraries.iter().map(|l| json!({
            "name": l.name,
            "path": l.path,
            "units": l.units.len(),
            "registered_by": l.registered_by.iter().collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "rows": rows,
        "left": view.left,
        "damaged": build.damaged,
        "strings": strings.all,
    })
}

#[derive(Default)]
struct Strings {
    known: HashMap<String, usize>,
    all: Vec<String>,
}

impl Strings {
    fn index(&mut self, text: &str) -> usize {
        if let Some(&index) = self.known.get(text) {
            return index;
        }
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), self.all.len() - 1);
        self.all.len() - 1
    }
}
