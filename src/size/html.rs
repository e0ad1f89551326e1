//! Sizes as one page: a treemap of libraries, units and images. Nothing is loaded, nothing runs.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::gains::Gains;
use super::treemap::{Rect, squarify};
use super::{File, FileKind, Image, REACH, Sizes, Unit, shown};

const STYLE: &str = include_str!("page.css");
/// Smaller shares of the map than this are one grey area: they could not be seen, and there may be very many.
const SMALLEST: f64 = 0.0004;
const ALL: Rect = Rect { x: 0.0, y: 0.0, w: 100.0, h: 60.0 };

/// The page.
pub fn page(sizes: &Sizes, gains: &Gains) -> String {
    let hues = hues(sizes);
    let total: u64 = sizes.images().map(|i| i.stored).sum();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Device code: {0}</title><style>\n{STYLE}</style></head><body>\n<h1>{0} of device code</h1>\n\
         <p class=\"soft\">The area is bytes in the file. Libraries hold units, units hold one image for each architecture; \
         hatched images are relocatable. Point at one to read it.</p>\n",
        shown(total)
    );
    map(&mut out, sizes, total, &hues);
    let _ = writeln!(out, "<h2>By architecture</h2><table><tr><th></th><th>in the file</th><th>unpacked</th></tr>");
    for (label, bytes) in sizes.by_label() {
        let hue = hues.get(label.split(',').next().unwrap_or_default()).copied().unwrap_or(0);
        let _ = writeln!(
            out,
            "<tr><td class=\"name\"><i class=\"key\" style=\"--hue:{hue}\"></i>{}</td>{}{}</tr>",
            escaped(&label),
            number(bytes.stored),
            number(bytes.unpacked)
        );
    }
    let _ = writeln!(
        out,
        "</table>\n<h2>By file</h2><table><tr><th></th><th>device code</th><th>unpacked</th><th>allocated</th><th></th></tr>"
    );
    for file in &sizes.files {
        let bytes = file.bytes();
        let _ = writeln!(
            out,
            "<tr><td class=\"name\">{}</td>{}{}{}<td>{}</td></tr>",
            escaped(&file.path.to_string_lossy()),
            number(bytes.stored),
            number(bytes.unpacked),
            number(file.allocated),
            if file.kind == FileKind::Image { distance(file.allocated) } else { String::new() }
        );
    }
    out.push_str("</table>\n");
    if sizes.link > 0 {
        let _ = writeln!(out, "<p>Objects and archives in one link: {} allocated, {}.</p>", shown(sizes.link), distance(sizes.link));
    }
    let lines = gains.lines();
    if !lines.is_empty() {
        out.push_str("<h2>What would make it smaller</h2><ul>\n");
        lines.iter().for_each(|line| _ = writeln!(out, "<li>{}</li>", escaped(line)));
        out.push_str("</ul><p class=\"soft\">These overlap.</p>\n");
    }
    out.push_str("</body></html>\n");
    out
}

fn map(out: &mut String, sizes: &Sizes, total: u64, hues: &BTreeMap<String, usize>) {
    let floor = (total as f64 * SMALLEST) as u64;
    out.push_str("<div id=\"map\">\n");
    nested(
        out,
        "file",
        &sizes.files,
        |f: &File| f.bytes().stored,
        |f| f.path.to_string_lossy().into_owned(),
        floor,
        ALL,
        &mut |out, file, rect| {
            let name = file.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let _ = write!(out, "<b>{}</b>", escaped(&name));
            nested(out, "unit", &file.units, |u: &Unit| u.bytes().stored, Unit::shown_name, floor, rect, &mut |out, unit, rect| {
                let name = |i: &Image| {
                    let (stored, unpacked) = (shown(i.stored), shown(i.unpacked));
                    format!(
                        "{} — {} — {} {}, {stored}, {unpacked} unpacked, {}",
                        file.path.display(),
                        unit.shown_name(),
                        i.label(),
                        i.kind,
                        i.compression
                    )
                };
                nested(out, "", &unit.images, |i: &Image| i.stored, name, floor, rect, &mut |out, image, rect| {
                    let hatched = if image.relocatable { " relocatable" } else { "" };
                    let label = if rect.w > 5.0 && rect.h > 2.0 { escaped(&image.arch) } else { String::new() };
                    let hue = hues.get(&image.arch).copied().unwrap_or(0);
                    let _ = write!(out, "<div class=\"image{hatched}\" style=\"inset:0;--hue:{hue}\">{label}</div>");
                });
            });
        },
    );
    out.push_str("</div>\n");
}

/// Lays `items` out in `rect` and lets `inside` fill each; what is too small to be seen is one area.
#[allow(clippy::too_many_arguments)]
fn nested<T>(
    out: &mut String,
    class: &str,
    items: &[T],
    size: impl Fn(&T) -> u64,
    name: impl Fn(&T) -> String,
    floor: u64,
    rect: Rect,
    inside: &mut dyn FnMut(&mut String, &T, Rect),
) {
    let mut large: Vec<&T> = items.iter().filter(|i| size(i) > floor).collect();
    large.sort_by_key(|i| std::cmp::Reverse(size(i)));
    let mut values: Vec<u64> = large.iter().map(|i| size(i)).collect();
    let rest: u64 = items.iter().map(&size).filter(|s| *s <= floor).sum();
    values.push(rest);
    let rects = squarify(&values, rect);
    let place = |r: &Rect| {
        let percent = |part: f64, whole: f64| if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
        format!(
            "left:{:.3}%;top:{:.3}%;width:{:.3}%;height:{:.3}%",
            percent(r.x - rect.x, rect.w),
            percent(r.y - rect.y, rect.h),
            percent(r.w, rect.w),
            percent(r.h, rect.h)
        )
    };
    for (item, r) in large.iter().zip(&rects) {
        let _ = write!(out, "<div class=\"{class}\" title=\"{}\" style=\"{}\">", escaped(&name(item)), place(r));
        inside(out, item, *r);
        out.push_str("</div>");
    }
    if let (Some(r), true) = (rects.last(), rest > 0) {
        let title = format!("{} smaller ones, {}", items.len() - large.len(), shown(rest));
        let _ = write!(out, "<div class=\"rest\" title=\"{title}\" style=\"{}\"></div>", place(r));
    }
    out.push('\n');
}

/// A hue for each architecture, near those of its neighbours.
fn hues(sizes: &Sizes) -> BTreeMap<String, usize> {
    let mut archs: Vec<&str> = sizes.images().map(|i| i.arch.as_str()).collect();
    archs.sort_unstable();
    archs.dedup();
    archs.iter().enumerate().map(|(n, a)| ((*a).to_owned(), (210 + n * 360 / archs.len()) % 360)).collect()
}

fn distance(allocated: u64) -> String {
    match REACH.checked_sub(allocated) {
        Some(left) => format!("{} below 2 GiB", shown(left)),
        None => format!("<span class=\"past\">{} past 2 GiB</span>", shown(allocated - REACH)),
    }
}

fn number(bytes: u64) -> String {
    format!("<td class=\"number\">{}</td>", shown(bytes))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
