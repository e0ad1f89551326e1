//! The build for people, on a terminal.

use std::fmt::Write;

use super::{Build, Library, Row, View};
use crate::report::entry::Outcome;

/// How many borrowed units are listed; `--json` and `--html` have them all.
const MOST: usize = 40;

/// The whole text.
pub fn report(build: &Build) -> String {
    let view = View::new(build);
    let mut out = String::new();
    head(&view, &mut out);
    libraries(&view, &mut out);
    borrowed(&view, &mut out);
    let warned = view.images.iter().filter_map(|i| i.warning.as_ref().map(|w| format!("{}: {w}", i.label)));
    list("warnings", warned.collect(), &mut out);
    let left = view.images.iter().filter(|i| matches!(i.outcome, Some(Outcome::Left | Outcome::Refused)));
    let left = left.map(|i| format!("{}: {}", i.label, i.reason.as_deref().unwrap_or("no reason given")));
    list("device links left as they were, a cure may be missing", left.collect(), &mut out);
    let inert = view.left.iter().map(|(reason, count)| format!("{count} × {reason}"));
    list("files without a part in this", inert.collect(), &mut out);
    out
}

fn head(view: &View, out: &mut String) {
    let s = &view.summary;
    let count = |word: &str| s.outcomes.get(word).copied().unwrap_or(0);
    let mut line = format!("{} device link(s): {} cured, {} needed nothing", s.device_links, count("cured"), count("as-given"));
    for (word, says) in [("reported", "looked at only (report mode)"), ("left", "left as they were"), ("refused", "refused (strict)")] {
        if count(word) > 0 {
            let _ = write!(line, ", {} {says}", count(word));
        }
    }
    if s.replaced > 0 {
        let _ = write!(line, "; {} older link(s) of the same outputs not counted", s.replaced);
    }
    let _ = writeln!(out, "{line}");
    let _ = writeln!(
        out,
        "libraries stripped {} time(s) ({} units), units masked {}, guarded {}",
        s.libraries_stripped, s.units_stripped, s.units_masked, s.units_guarded
    );
    let _ = writeln!(out, "device code not linked: {}", bytes(s.unlinked_bytes));
    let _ = writeln!(
        out,
        "time in the shim: {} in all, {} a link (median), {} at most",
        time(s.shim_us),
        time(s.shim_us_median),
        time(s.shim_us_most)
    );
    if s.units_without_registrar > 0 {
        let _ = writeln!(
            out,
            "note: {} unit(s) left a device link, and no image in this report registers them: right if their library was built before",
            s.units_without_registrar
        );
    }
    if s.units_in_several > 0 {
        let _ = writeln!(out, "note: {} unit(s) register in more than one image, each with variables of its own", s.units_in_several);
    }
}

fn libraries(view: &View, out: &mut String) {
    if view.libraries.is_empty() {
        return;
    }
    let mut sorted: Vec<&Library> = view.libraries.iter().collect();
    sorted.sort_by_key(|l| std::cmp::Reverse(l.outputs.values().sum::<usize>()));
    let mut rows =
        vec![["library", "units", "stripped", "cured", "left", "masked", "guarded", "not linked", "registered by"].map(str::to_owned)];
    for library in sorted {
        let outputs = |word: &str| count(library.outputs.get(word));
        let units = |word: &str| count(library.verdicts.get(word));
        let registrars: Vec<&str> = library.registered_by.keys().map(|&i| view.images[i].label.as_str()).collect();
        rows.push([
            library.name.clone(),
            library.units.len().to_string(),
            outputs("strip"),
            outputs("cure"),
            outputs("leave"),
            units("mask"),
            units("guard"),
            if library.unlinked_bytes > 0 { bytes(library.unlinked_bytes) } else { String::new() },
            match registrars.as_slice() {
                [] => "-".into(),
                [some @ .., last] if some.len() < 3 => [some, &[last]].concat().join(", "),
                [first, second, rest @ ..] => format!("{first}, {second} and {} more", rest.len()),
                [_] => unreachable!("one is fewer than three"),
            },
        ]);
    }
    let widths: Vec<usize> = (0..9).map(|c| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
    let _ = writeln!(out);
    for row in rows {
        let cells: Vec<String> = (0..9)
            .map(|c| match c {
                0 => format!("{:<w$}", row[c], w = widths[c]),
                8 => row[c].clone(),
                _ => format!("{:>w$}", row[c], w = widths[c]),
            })
            .collect();
        let _ = writeln!(out, "{}", cells.join("  ").trim_end());
    }
}

fn count(value: Option<&usize>) -> String {
    value.map_or_else(String::new, usize::to_string)
}

/// Who borrows which unit from whom, and for what.
fn borrowed(view: &View, out: &mut String) {
    let mut lines = Vec::new();
    for Row { image, library, units, .. } in &view.rows {
        let Some(library) = library.map(|l| &view.libraries[l]) else { continue };
        for unit in units.iter().filter(|u| u.verdict == "guard") {
            let why = unit.reason.as_deref().unwrap_or_default();
            lines.push(format!("{}: {} of {}: {why}", view.images[*image].label, unit.id, library.name));
        }
    }
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!("and {more} more (--json and --html have them all)"));
    }
    list("units guarded, by output", lines, out);
}

fn list(title: &str, lines: Vec<String>, out: &mut String) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}:");
    for line in lines {
        let _ = writeln!(out, "    {line}");
    }
}

/// Decimal units, three digits.
pub(super) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 || unit == "GB" {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.*} {unit}", usize::from(value < 99.95)) };
        }
        value /= 1000.0;
    }
    unreachable!("GB ends it")
}

fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, time};

    #[test]
    fn sizes_and_times_have_units_people_read() {
        assert_eq!(
            [0, 999, 1_000, 99_949, 150_000, 999_600, 12_345_678].map(bytes),
            ["0 B", "999 B", "1.0 kB", "99.9 kB", "150 kB", "1.0 MB", "12.3 MB"]
        );
        assert_eq!(bytes(u64::MAX), "18446744074 GB");
        assert_eq!([5, 1_500, 2_345_000].map(time), ["5 µs", "1.5 ms", "2.35 s"]);
    }
}
