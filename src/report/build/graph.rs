//! Who registers what and who leaves it out, as text for graphviz and mermaid.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::View;

/// An arrow from an image to a library.
struct Edge {
    image: usize,
    library: usize,
    verdict: String,
    units: usize,
}

/// Arrows in a fixed order: `registers` first, then what else images do, by verdict.
fn edges(view: &View) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (library, l) in view.libraries.iter().enumerate() {
        edges.extend(l.registered_by.iter().map(|(&image, &units)| Edge { image, library, verdict: "registers".into(), units }));
    }
    for row in &view.rows {
        let Some(library) = row.library else { continue };
        let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
        // Own units are what `registers` says already.
        for unit in row.units.iter().filter(|u| !matches!(u.verdict.as_str(), "own" | "protect")) {
            *verdicts.entry(&unit.verdict).or_default() += 1;
        }
        edges.extend(verdicts.into_iter().map(|(v, units)| Edge { image: row.image, library, verdict: v.into(), units }));
    }
    edges
}

/// The images that have an arrow.
fn drawn(view: &View, edges: &[Edge]) -> Vec<usize> {
    (0..view.images.len()).filter(|i| edges.iter().any(|e| e.image == *i)).collect()
}

/// Graphviz text: boxes are images, cylinders are libraries.
pub fn dot(view: &View) -> String {
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let edges = edges(view);
    let mut out = String::from(
        "digraph device_links {\n    rankdir=LR;\n    node [fontname=\"sans-serif\"];\n    edge [fontname=\"sans-serif\", fontsize=10];\n",
    );
    for image in drawn(view, &edges) {
        let _ = writeln!(out, "    i{image} [shape=box, label={}];", quote(&view.images[image].label));
    }
    for (index, library) in view.libraries.iter().enumerate() {
        let _ = writeln!(out, "    l{index} [shape=cylinder, label={}];", quote(&library.name));
    }
    for Edge { image, library, verdict, units } in &edges {
        let style = match verdict.as_str() {
            "registers" => "color=\"#1a7f37\", penwidth=2",
            "strip" => "color=\"#6e7781\", style=dashed",
            "mask" => "color=\"#8250df\", style=dashed",
            "guard" => "color=\"#bc4c00\", penwidth=2",
            _ => "color=\"#6e7781\", style=dotted",
        };
        let _ = writeln!(out, "    i{image} -> l{library} [label={}, {style}];", quote(&format!("{verdict} {units}")));
    }
    out.push_str("}\n");
    out
}

/// Mermaid text.
pub fn mermaid(view: &View) -> String {
    // Inside quotes, mermaid reads entities and takes every other character as it is.
    let quote = |text: &str| {
        let plain = |c: char| c.is_alphanumeric() || " -_./+,:".contains(c);
        let escaped: String = text.chars().map(|c| if plain(c) { c.to_string() } else { format!("#{};", c as u32) }).collect();
        format!("\"{escaped}\"")
    };
    let edges = edges(view);
    let mut out = String::from("flowchart LR\n");
    for image in drawn(view, &edges) {
        let _ = writeln!(out, "    i{image}[{}]", quote(&view.images[image].label));
    }
    for (index, library) in view.libraries.iter().enumerate() {
        let _ = writeln!(out, "    l{index}[({})]", quote(&library.name));
    }
    for Edge { image, library, verdict, units } in &edges {
        let arrow = if matches!(verdict.as_str(), "registers" | "guard") { "==>" } else { "-.->" };
        let _ = writeln!(out, "    i{image} {arrow}|{}| l{library}", quote(&format!("{verdict} {units}")));
    }
    out
}
