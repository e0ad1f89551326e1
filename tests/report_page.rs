//! `dlink-shim report --html`, as headless Chromium shows it. A view has an address (`#filter=…`), so no driver is needed.

mod support;

use std::path::PathBuf;
use std::process::Command;

use dlink_shim::report::entry::{Entry, Outcome, SCHEMA};
use dlink_shim::report::json::{Link, LinkedFile, LinkedUnit};
use support::{Scratch, shim, toolkit};

struct Page(Scratch, PathBuf);

impl Page {
    /// The page of these lines; `None` without Chromium.
    fn new(entries: &[Entry]) -> Option<Self> {
        if !toolkit::has("chromium") {
            return None;
        }
        let scratch = Scratch::new();
        let lines: Vec<String> = entries.iter().map(|e| serde_json::to_string(e).unwrap()).collect();
        let report = scratch.write("report.jsonl", lines.join("\n"));
        let page = scratch.join("page.html");
        support::must(shim().arg("report").arg(report).arg("--html").arg(&page));
        Some(Self(scratch, page))
    }

    fn chromium(&self, address: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["120", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=2000"]);
        command.arg(format!("--user-data-dir={}", self.0.join("profile").display()));
        command.arg("--dump-dom").arg(format!("file://{}{address}", self.1.display()));
        command
    }

    /// What the browser made of the page, from the body on, less its script and data.
    fn shown(&self, address: &str) -> String {
        let dom = support::must(&mut self.chromium(address));
        let (_, body) = dom.split_once("<body>").unwrap();
        body.split("<noscript>").next().unwrap().to_owned()
    }
}

fn unit(id: &str, verdict: &str, reason: Option<&str>) -> LinkedUnit {
    let evidence = if verdict == "own" { "plain object" } else { "device-only" };
    LinkedUnit {
        id: id.into(),
        evidence: evidence.into(),
        verdict: verdict.into(),
        reason: reason.map(str::to_owned),
        bytes: 1000,
        ..LinkedUnit::default()
    }
}

fn file(name: &str, verdict: &str, units: Vec<LinkedUnit>) -> LinkedFile {
    LinkedFile {
        name: name.into(),
        path: Some(format!("/lib/lib{name}.a")),
        verdict: verdict.into(),
        reason: format!("reason of {name}"),
        units,
    }
}

fn entry(output: &str, files: Vec<LinkedFile>) -> Entry {
    let link = Link { device_link: true, nvcc: "nvcc".into(), files, ..Link::default() };
    Entry {
        schema: SCHEMA,
        time_ms: 0,
        cwd: "/build".into(),
        output: output.into(),
        args: Vec::new(),
        mode: "fix".into(),
        outcome: Outcome::Cured,
        reason: None,
        shim_us: 1500,
        unlinked_bytes: link.unlinked_bytes(),
        link,
    }
}

/// A core image that owns two units, a plugin that strips them, and one that borrows one of them.
fn three() -> Vec<Entry> {
    let own = file("core.o", "leave", vec![unit("id_one", "own", None), unit("id_two", "own", None)]);
    let strip = file("core_nv", "strip", vec![unit("id_one", "strip", None), unit("id_two", "strip", None)]);
    let needs = Some("id_plug needs `_Z6helperi`");
    let cure = file("core_nv", "cure", vec![unit("id_one", "mask", None), unit("id_two", "guard", needs)]);
    vec![entry("core.o", vec![own]), entry("first.o", vec![strip]), entry("second.o", vec![cure])]
}

fn rows(dom: &str) -> usize {
    let table = dom.split("<table id=\"table\">").nth(1).unwrap().split("</table>").next().unwrap();
    table.matches("<tr data-row").count()
}

/// Class and letter of the cells of a line of the matrix.
fn matrix_line(dom: &str, image: &str) -> Vec<String> {
    let matrix = dom.split("id=\"matrix\"").nth(1).unwrap().split("</table>").next().unwrap();
    let line = matrix.split("<tr>").find(|l| l.contains(&format!(">{image}</th>"))).unwrap_or_else(|| panic!("{image}: {matrix}"));
    line.split("class=\"badge ").skip(1).map(|b| b.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn the_page_shows_figures_matrix_table_and_graph() {
    let Some(page) = Page::new(&three()) else { return };
    let dom = page.shown("");
    for text in ["<dd>3<small>3 cured, 0 needed nothing", "<dd>3.0 kB<small>", ">3 of 3</output>"] {
        assert!(dom.contains(text), "{text}: {dom}");
    }
    assert_eq!(matrix_line(&dom, "core.o"), ["registers"]);
    assert_eq!(matrix_line(&dom, "first.o"), ["strip"]);
    assert_eq!(matrix_line(&dom, "second.o"), ["mask", "guard"]);
    assert_eq!(rows(&dom), 3);
    let graph = dom.split("id=\"graph\"").nth(1).unwrap().split("</svg>").next().unwrap();
    let arrows = |class: &str| graph.matches(&format!("<path class=\"{class}\"")).count();
    assert_eq!(["registers", "strip", "mask", "guard"].map(arrows), [1, 1, 1, 1]);
    assert!(graph.contains("core.o registers 2 units of core_nv"));
}

#[test]
fn the_filter_keeps_rows_in_which_all_its_words_occur() {
    let Some(page) = Page::new(&three()) else { return };
    for (filter, count) in [("first", 1), ("core_nv", 2), ("core_nv+GUARD", 1), ("helperi", 1), ("id_two", 3), ("nothing-has-this", 0)] {
        let dom = page.shown(&format!("#filter={filter}"));
        assert!(dom.contains(&format!(">{count} of 3</output>")), "{filter}: {dom}");
        assert_eq!(rows(&dom), count, "{filter}");
    }
    let dom = page.shown("#filter=first");
    assert!(!dom.contains(">second.o<") && dom.contains(">first.o<"), "{dom}");
    // Who registers the units of what is shown stays in sight.
    assert_eq!(matrix_line(&dom, "core.o"), ["registers"]);
}

#[test]
fn a_library_and_an_image_have_their_details() {
    let Some(page) = Page::new(&three()) else { return };
    let detail = |address: &str| page.shown(address).split("<aside").nth(1).unwrap().to_owned();
    let library = detail("#library=core_nv");
    for text in ["/lib/libcore_nv.a", "2 units", "3.0 kB not linked", "strip in 1 image", "guard in 1 image", "_Z6helperi"] {
        assert!(library.contains(text), "{text}: {library}");
    }
    let image = detail("#image=second.o");
    assert!(image.contains("/build/second.o") && image.contains("1.5 ms in the shim") && !image.contains("null"), "{image}");
}

#[test]
fn names_are_text_whatever_they_hold_and_the_page_loads_nothing() {
    let nasty = "x</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"><!--&amp;";
    let mut entries = three();
    entries[1].output = nasty.into();
    entries[1].link.warning = Some(nasty.into());
    entries[1].link.files[0].name = nasty.into();
    let Some(page) = Page::new(&entries) else { return };
    let html = std::fs::read_to_string(&page.1).unwrap();
    let addresses = html.matches("://").count();
    assert_eq!((addresses, html.matches("http://www.w3.org/2000/svg").count()), (1, 1), "only the name space of SVG");
    let dom = support::must(&mut page.chromium(""));
    assert!(dom.contains("<title>Device links: /build</title>"), "{dom}");
    let shown = page.shown("");
    assert!(shown.contains("&lt;/script&gt;&lt;script&gt;document.title") && shown.contains("&lt;!--&amp;amp;"), "{shown}");
    assert_eq!(shown.matches("<img").count(), 0);
    assert_eq!(shown.matches("<script").count(), 0);
}

#[test]
fn three_hundred_images_are_all_there_and_the_graph_counts_them() {
    let core =
        |l: usize| entry(&format!("core{l}.o"), vec![file(&format!("core{l}.o"), "leave", vec![unit(&format!("id{l}"), "own", None)])]);
    let library = |l: usize| file(&format!("core{l}_nv"), "strip", vec![unit(&format!("id{l}"), "strip", None)]);
    let plugin = |p: usize| entry(&format!("plugin{p}.o"), (0..8).filter(|l| (p + 1) >> l & 1 == 1).map(library).collect());
    let entries: Vec<Entry> = (0..8).map(core).chain((0..292).map(plugin)).collect();
    let Some(page) = Page::new(&entries) else { return };
    let dom = page.shown("");
    let matrix = dom.split("id=\"matrix\"").nth(1).unwrap().split("</table>").next().unwrap();
    // Plugin 255 uses none.
    assert_eq!((matrix.matches("<tr>").count() - 1, rows(&dom)), (299, 1000));
    assert!(dom.contains("The first 1000 of "), "{dom}");
    let graph = dom.split("id=\"graph\"").nth(1).unwrap().split("</svg>").next().unwrap();
    assert_eq!(graph.matches("<g class=\"node").count(), 8 + 8 + 8, "one node per library for all who strip it");
    let few = page.shown("#filter=plugin6.o");
    assert_eq!(rows(&few), 3);
    assert!(few.contains("Images that do the same"), "{few}");
}
