//! What `audit` says of built images, held against what the registration probe sees when they are loaded.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dlink_shim::audit::scope::{Outcome, load_order};
use dlink_shim::audit::{Audit, Kind, files, kernels};
use dlink_shim::object::Id;
use serde_json::Value;

/// Images of one built layout, without the loader and the probe.
fn look(directory: &Path) -> Audit {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| {
        let name = p.file_name().unwrap().to_str().unwrap();
        name == "program" || (name.starts_with("lib") && name.ends_with(".so"))
    });
    paths.sort();
    let audit = Audit::of(files::look(&paths, &|_, _| {}), false);
    assert_eq!(audit.failures, [""; 0], "{}", directory.display());
    audit
}

/// `_Z9p1_kernelPi` is unit p1's.
fn unit(kernel: &[u8]) -> String {
    let name = dlink_shim::report::names::demangled(kernel);
    let name = name.split("_kernel").next().unwrap().split("_child").next().unwrap();
    name.to_owned()
}

/// `_12ec542a_5_q2_cu_1337016b` comes from q2.cu.
fn source(id: &[u8]) -> String {
    let id = String::from_utf8_lossy(id);
    let name = id.split("_cu_").next().and_then(|front| front.splitn(4, '_').nth(3));
    let name = name.unwrap_or_else(|| panic!("{id} names no source"));
    if name == "main" { "main_unit".into() } else { name.into() }
}

/// A built layout, looked at.
struct Looked {
    audit: Audit,
    /// Per image and unit of the toolkit, the layout's units whose kernels it has.
    units: BTreeMap<(usize, Id), BTreeSet<String>>,
    /// What the probe saw missing in any order, and whether it loads at all.
    seen: BTreeSet<String>,
    loads: bool,
}

impl Looked {
    fn new(directory: &Path) -> Self {
        let audit = look(directory);
        let mut units = BTreeMap::new();
        for (index, image) in audit.images.iter().enumerate() {
            for (id, kernels) in kernels::of_image(image) {
                units.insert((index, id), kernels.iter().map(|k| unit(k)).collect());
            }
        }
        Self { audit, units, seen: BTreeSet::new(), loads: true }
    }

    fn units<'a>(&self, keys: impl Iterator<Item = &'a (usize, Id)>) -> BTreeSet<String> {
        // With --gc-sections an image may keep a unit's device code and lose its id: then nothing tells the audit whose kernels are
        // whose. The layouts' sources are named after their units.
        let named = |key: &(usize, Id)| self.units.get(key).cloned().unwrap_or_else(|| BTreeSet::from([source(&key.1)]));
        keys.flat_map(named).collect()
    }

    /// What is lost when images are loaded in this order, by the audit's rules.
    fn predicted(&self, order: &str) -> BTreeSet<String> {
        let images = &self.audit.images;
        let place = |name: &str| {
            let file = name.strip_prefix("./").map_or(format!("lib{name}.so"), str::to_owned);
            images.iter().position(|i| i.name() == file).unwrap_or_else(|| panic!("{file}"))
        };
        let roots: Vec<usize> = order.split(' ').map(place).collect();
        let outcome = Outcome::of(images, &load_order(images, &roots));
        let completes = |image: usize| outcome.missing.get(&image).is_some_and(BTreeSet::is_empty);
        let registered = self.units(outcome.reached.iter().filter(|(_, t)| t.is_some_and(completes)).map(|(key, _)| key));
        &self.units(outcome.reached.keys()) - &registered
    }
}

/// The units that a cell of the table says are missing.
fn lost(cell: &str) -> BTreeSet<String> {
    let names = cell.strip_prefix("no ").map(|c| c.split(';').next().unwrap()).unwrap_or_default();
    names.split(", ").filter(|n| !n.is_empty()).map(str::to_owned).collect()
}

/// Holds the audit of every built layout against what the probe saw when it was loaded: `rows` is the JSON of `layouts.py`, `built`
/// its output directory.
pub fn says_what_the_probe_sees(version: &str, built: &Path, rows: &[Value]) {
    let mut directories: BTreeMap<PathBuf, Looked> = BTreeMap::new();
    // RTLD_LOCAL is not in the images: the audit says so of what it changes.
    for row in rows.iter().filter(|r| r["variant"] != "local") {
        for (column, shim) in [("stock", "00"), ("all", "11"), ("first", "10"), ("second", "01")] {
            let Some(cell) = row[column].as_str() else { continue };
            let text = |key: &str| row[key].as_str().unwrap();
            let path = built.join(format!("{}-{}-{}-{shim}", text("layout"), text("ld"), text("variant")));
            let looked = directories.entry(path.clone()).or_insert_with(|| Looked::new(&path));
            if cell.starts_with("does not load") {
                looked.loads = false;
                continue;
            }
            let order = if text("order") == "./program" { text("order").to_owned() } else { text("order").replace("./", "") };
            let seen = lost(cell);
            assert_eq!(looked.predicted(&order), seen, "nvcc {version} {} [{order}] {cell}: {:#?}", path.display(), looked.audit);
            looked.seen.extend(seen);
            // Healthy layouts, and whatever the shim built, raise no alarm.
            if shim == "11" || text("layout").starts_with("L5") || text("layout").starts_with("L6") {
                assert!(looked.audit.findings.is_empty(), "{}: {:#?}", path.display(), looked.audit.findings);
            }
        }
    }
    // Without a word about the order, the audit says what is lost in any.
    for (path, looked) in directories {
        let findings = &looked.audit.findings;
        let refused = findings.iter().any(|f| f.kind == Kind::DoesNotLoad);
        assert_eq!(refused, !looked.loads, "{}: {findings:#?}", path.display());
        let said = looked.units(findings.iter().flat_map(|f| &f.lost));
        // A unit of two images can be lost in one of them and register in the other, where the probe sees it.
        assert!(said.is_superset(&looked.seen), "{}: said {said:?}, seen {:?}", path.display(), looked.seen);
        assert_eq!(findings.is_empty(), looked.loads && looked.seen.is_empty(), "{}: {findings:#?}", path.display());
    }
}
