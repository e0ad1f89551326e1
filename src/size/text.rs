//! Sizes for people: lines, with bars on a terminal.

use std::fmt::Write;

use super::{Bytes, FileKind, REACH, Sizes, by_label, gains::Gains, shown};

/// How wide the terminal is and what bars are made of.
#[derive(Clone, Copy, Debug)]
pub struct Bars {
    /// Columns.
    pub width: usize,
    /// Whether block characters can be shown.
    pub blocks: bool,
}

/// Names that are longer are cut in the middle.
const NAME: usize = 40;
const UNITS: usize = 10;

/// The report; without `bars` plain lines.
pub fn report(sizes: &Sizes, gains: &Gains, bars: Option<Bars>) -> String {
    let mut out = String::new();
    if sizes.files.is_empty() {
        out.push_str("no device code\n");
    }
    for file in &sizes.files {
        let bytes = file.bytes();
        let _ = writeln!(out, "{}: {} of device code, {} unpacked", file.path.display(), shown(bytes.stored), shown(bytes.unpacked));
        if file.kind == FileKind::Image {
            let _ = writeln!(out, "  {}", distance(file.allocated));
        }
        rows(&mut out, &by_label(file.images()), bars, usize::MAX);
        let mut units: Vec<(String, Bytes)> = file.units.iter().map(|u| (u.shown_name(), u.bytes())).collect();
        if units.len() > 1 {
            units.sort_by_key(|(_, b)| std::cmp::Reverse(b.stored));
            let _ = writeln!(out, "  units: {}{}", units.len(), if units.len() > UNITS { ", the largest:" } else { "" });
            rows(&mut out, &units, bars, UNITS);
        }
    }
    if sizes.files.len() > 1 {
        let all = sizes.by_label();
        let _ = writeln!(out, "together: {} of device code", shown(all.iter().map(|(_, b)| b.stored).sum()));
        rows(&mut out, &all, bars, usize::MAX);
    }
    if sizes.link > 0 {
        let _ = writeln!(out, "objects and archives in one link: {}", distance(sizes.link));
    }
    let lines = gains.lines();
    if !lines.is_empty() {
        let _ = writeln!(out, "what would make it smaller (these overlap):");
        lines.iter().for_each(|line| _ = writeln!(out, "  {line}"));
    }
    out
}

/// How far from what 32-bit references reach.
fn distance(allocated: u64) -> String {
    match REACH.checked_sub(allocated) {
        Some(left) => format!("{} allocated, {} below 2 GiB", shown(allocated), shown(left)),
        None => format!("{} allocated, {} PAST 2 GiB", shown(allocated), shown(allocated - REACH)),
    }
}

fn rows(out: &mut String, rows: &[(String, Bytes)], bars: Option<Bars>, most: usize) {
    let largest = rows.iter().map(|(_, b)| b.stored).max().unwrap_or(0).max(1);
    let names: Vec<String> = rows.iter().take(most).map(|(n, _)| cut(n)).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    for (name, (_, bytes)) in names.iter().zip(rows) {
        let pad = " ".repeat(width - name.chars().count());
        let line = format!("    {name}{pad} {:>11} {:>11}", shown(bytes.stored), shown(bytes.unpacked));
        let _ = writeln!(out, "{}", bars.map_or_else(|| line.clone(), |b| b.after(&line, bytes.stored, largest)));
    }
}

impl Bars {
    fn after(self, line: &str, value: u64, largest: u64) -> String {
        let room = self.width.saturating_sub(line.chars().count() + 2).min(60);
        let eighths = (u128::from(value) * room as u128 * 8 / u128::from(largest)) as usize;
        let full = if self.blocks { "█" } else { "#" }.repeat(eighths / 8);
        let part = if self.blocks { ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8] } else { "" };
        format!("{line}  {full}{part}").trim_end().to_owned()
    }
}

/// A name of which both ends can be seen. Control characters could play with the terminal.
fn cut(name: &str) -> String {
    let letters: Vec<char> = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if letters.len() <= NAME {
        return letters.into_iter().collect();
    }
    let (start, end) = (&letters[..NAME / 2 - 1], &letters[letters.len() - NAME / 2..]);
    start.iter().chain(['…'].iter()).chain(end).collect()
}
