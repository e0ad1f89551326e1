//! A build as images, libraries, and what each image does with each library: what all views show.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::{Build, label};
use crate::report::entry::Outcome;
use crate::report::json::{LinkedFile, LinkedUnit};

/// The figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Outputs.
    pub device_links: usize,
    /// Older links of the same outputs.
    pub replaced: usize,
    /// Links by what became of them, as the lines' `outcome`.
    pub outcomes: BTreeMap<String, usize>,
    /// Mentions of a library that left a line.
    pub libraries_stripped: usize,
    /// Units that left a line with their library.
    pub units_stripped: usize,
    /// Units that left by themselves.
    pub units_masked: usize,
    /// Units that stayed with a guard.
    pub units_guarded: usize,
    /// Bytes of device code that was not linked; in report mode, would not have been.
    pub unlinked_bytes: u64,
    /// Time in the shim, in microseconds: all links, the median, the longest.
    pub shim_us: u64,
    /// The median.
    pub shim_us_median: u64,
    /// The longest.
    pub shim_us_most: u64,
    /// Units that left some line although no image in the report, and no shared library on that line, registers them.
    pub units_without_registrar: usize,
    /// Units that register in more than one image.
    pub units_in_several: usize,
}

/// An output, or a shared library that the report only knows from device-link lines.
#[derive(Clone, Debug, Serialize)]
pub struct Image {
    /// Short name.
    pub label: String,
    /// Where it is.
    pub path: String,
    /// What became of its device link; null for a shared library that the report has no link of.
    pub outcome: Option<Outcome>,
    /// Why it was left or refused.
    pub reason: Option<String>,
    /// The warning of its device link.
    pub warning: Option<String>,
    /// What else was said.
    pub notes: Vec<String>,
    /// Microseconds in the shim.
    pub shim_us: u64,
    /// Units in its own objects.
    pub own_units: usize,
}

/// A library with relocatable device code.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Library {
    /// Its name as `-l` would say it.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// Ids of its units.
    pub units: BTreeSet<String>,
    /// Outputs by what happened to the library there: `strip`, `cure`, `leave`.
    pub outputs: BTreeMap<String, usize>,
    /// Units by verdict, over all outputs.
    pub verdicts: BTreeMap<String, usize>,
    /// Bytes of device code that were not linked.
    pub unlinked_bytes: u64,
    /// Images that register units of it, as indices of [`View::images`], with the number of units.
    pub registered_by: BTreeMap<usize, usize>,
}

/// What one image does with one library, or with its own objects.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Index of [`View::images`].
    pub image: usize,
    /// Index of [`View::libraries`]; `None` for the image's own objects.
    pub library: Option<usize>,
    /// The file's verdict.
    pub verdict: &'a str,
    /// The file's reason.
    pub reason: &'a str,
    /// Units.
    pub units: Vec<&'a LinkedUnit>,
}

/// A build to look at.
pub struct View<'a> {
    /// Figures.
    pub summary: Summary,
    /// Outputs first, in the order of [`Build::links`].
    pub images: Vec<Image>,
    /// Sorted by path.
    pub libraries: Vec<Library>,
    /// By image.
    pub rows: Vec<Row<'a>>,
    /// Why files without relocatable device code, or out of reach, were left: reason and number of mentions, most first.
    pub left: Vec<(String, usize)>,
    /// The directory that all outputs are in.
    pub top: PathBuf,
}

/// Whether a unit with this verdict registers with the image.
fn registers(verdict: &str) -> bool {
    matches!(verdict, "own" | "protect")
}

/// Whether the line names the unit among the command's own objects.
fn is_own_object(file: &LinkedFile) -> bool {
    !file.units.is_empty() && file.units.iter().all(|u| u.evidence == "plain object")
}

impl<'a> View<'a> {
    /// The view of a build.
    pub fn new(build: &'a Build) -> Self {
        let paths: Vec<&Path> = build.links.iter().map(|(path, _)| path.as_path()).collect();
        let labels = label::labels(&paths);
        let mut view = View {
            summary: Summary { device_links: build.links.len(), replaced: build.replaced, ..Summary::default() },
            images: Vec::new(),
            libraries: Vec::new(),
            rows: Vec::new(),
            left: Vec::new(),
            top: label::common_directory(&paths),
        };
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for file in decided(build).flat_map(|(_, files)| files).filter(|f| !f.units.is_empty() && !is_own_object(f)) {
            names.entry(place(file)).or_default();
        }
        for (index, (path, known)) in names.iter_mut().enumerate() {
            *known = index;
            view.libraries.push(Library { path: path.clone(), ..Library::default() });
        }
        let mut left: HashMap<&str, usize> = HashMap::new();
        for (image, (files, label)) in build.links.iter().zip(labels).enumerate() {
            let (path, entry) = files;
            *view.summary.outcomes.entry(word(entry.outcome)).or_default() += 1;
            let files: &[LinkedFile] = if entry.was_decided() { &entry.link.files } else { &[] };
            let mut own = Row { image, library: None, verdict: "own", reason: "its own objects", units: Vec::new() };
            for file in files {
                if file.units.is_empty() {
                    *left.entry(&file.reason).or_default() += 1;
                } else if is_own_object(file) {
                    own.units.extend(&file.units);
                } else {
                    let library = names[&place(file)];
                    view.libraries[library].add(file);
                    view.rows.push(Row {
                        image,
                        library: Some(library),
                        verdict: &file.verdict,
                        reason: &file.reason,
                        units: file.units.iter().collect(),
                    });
                }
            }
            view.images.push(Image {
                label,
                path: path.to_string_lossy().into_owned(),
                outcome: Some(entry.outcome),
                reason: entry.reason.clone(),
                warning: entry.link.warning.clone(),
                notes: entry.link.notes.clone(),
                shim_us: entry.shim_us,
                own_units: own.units.len(),
            });
            view.rows.extend(Some(own).filter(|o| !o.units.is_empty()));
        }
        view.left = left.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
        view.left.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        view.sum_up();
        view.find_registrars();
        view
    }

    fn sum_up(&mut self) {
        let mut times: Vec<u64> = self.images.iter().map(|i| i.shim_us).collect();
        times.sort_unstable();
        let summary = &mut self.summary;
        summary.shim_us = times.iter().sum();
        summary.shim_us_median = times.get(times.len() / 2).copied().unwrap_or(0);
        summary.shim_us_most = times.last().copied().unwrap_or(0);
        for library in &self.libraries {
            let units = |verdict: &str| library.verdicts.get(verdict).copied().unwrap_or(0);
            summary.libraries_stripped += library.outputs.get("strip").copied().unwrap_or(0);
            summary.units_stripped += units("strip");
            summary.units_masked += units("mask");
            summary.units_guarded += units("guard");
            summary.unlinked_bytes += library.unlinked_bytes;
        }
    }

    /// Which images register the units of which libraries, from the rows of owners and from the stubs that lines name.
    fn find_registrars(&mut self) {
        let mut owners: HashMap<&str, BTreeSet<usize>> = HashMap::new();
        let mut seen_stubs: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &self.rows {
            for unit in row.units.iter().filter(|u| registers(&u.verdict)) {
                owners.entry(&unit.id).or_default().insert(row.image);
            }
        }
        self.summary.units_in_several = owners.values().filter(|images| images.len() > 1).count();
        let (mut gone, mut possible): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
        for row in &self.rows {
            for unit in &row.units {
                // A stub in sight is the same registrar as the output that it was linked from, if the report knows that one.
                if let (Some(so), false) = (&unit.stub_in, owners.contains_key(unit.id.as_str())) {
                    let images = &mut self.images;
                    let image = *seen_stubs.entry(so).or_insert_with(|| {
                        let label = Path::new(so).file_name().map_or_else(|| so.clone(), |n| n.to_string_lossy().into_owned());
                        images.push(Image {
                            label,
                            path: so.clone(),
                            outcome: None,
                            reason: None,
                            warning: None,
                            notes: Vec::new(),
                            shim_us: 0,
                            own_units: 0,
                        });
                        images.len() - 1
                    });
                    owners.entry(&unit.id).or_default().insert(image);
                }
                if matches!(unit.verdict.as_str(), "strip" | "mask") {
                    gone.insert(&unit.id);
                } else if unit.evidence == "full archive member" {
                    possible.insert(&unit.id);
                }
            }
        }
        self.summary.units_without_registrar = gone.difference(&possible).filter(|id| !owners.contains_key(**id)).count();
        for library in &mut self.libraries {
            for image in library.units.iter().filter_map(|id| owners.get(id.as_str())).flatten() {
                *library.registered_by.entry(*image).or_default() += 1;
            }
        }
    }
}

impl Library {
    fn add(&mut self, file: &LinkedFile) {
        self.name.clone_from(&file.name);
        *self.outputs.entry(file.verdict.clone()).or_default() += 1;
        for unit in &file.units {
            *self.verdicts.entry(unit.verdict.clone()).or_default() += 1;
            self.units.insert(unit.id.clone());
            if matches!(unit.verdict.as_str(), "strip" | "mask") {
                self.unlinked_bytes += unit.bytes;
            }
        }
    }
}

fn decided(build: &Build) -> impl Iterator<Item = (&Path, &[LinkedFile])> {
    build.links.iter().filter(|(_, e)| e.was_decided()).map(|(path, e)| (path.as_path(), e.link.files.as_slice()))
}

/// Where the library is, with `-L.` and `-L../lib` of different directories as one. By the words alone: what this merges wrongly,
/// behind a symbolic link, is two lines of a table.
fn place(file: &LinkedFile) -> String {
    let mut place = PathBuf::new();
    for part in Path::new(file.path.as_deref().unwrap_or(&file.name)).components() {
        if part == Component::ParentDir && matches!(place.components().next_back(), Some(Component::Normal(_))) {
            place.pop();
        } else {
            place.push(part);
        }
    }
    place.to_string_lossy().into_owned()
}

/// The word that the report's lines have for it.
fn word(outcome: Outcome) -> String {
    serde_json::to_value(outcome).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
