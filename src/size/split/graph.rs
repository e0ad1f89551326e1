//! Objects, what they refer to, and what can't be divided.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use object::elf::STV_HIDDEN;
use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection, ObjectSymbol, SymbolFlags};

use crate::mapped_file::MappedFile;
use crate::object::symbols;
use crate::size::{FileKind, read};

/// Sizes in headers can be anything; sums of these stay numbers.
const MOST: u64 = 1 << 44;

/// An object, or an archive, which is not divided.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Its path.
    pub path: PathBuf,
    /// Allocated bytes, and what the device link makes of its relocatable machine code: an image that is not compressed.
    pub bytes: u64,
    /// It has relocatable device code.
    pub relocatable: bool,
}

/// Objects and references.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The objects, in the order given.
    pub objects: Vec<Object>,
    /// (from, to, how many symbols).
    pub references: Vec<(usize, usize, u64)>,
    /// Pairs that must stay together.
    pub bound: Vec<(usize, usize)>,
}

/// Objects that stay together.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Which.
    pub objects: Vec<usize>,
    /// Their bytes.
    pub bytes: u64,
    /// References to and from other groups.
    pub edges: BTreeMap<usize, u64>,
}

/// Who has a symbol.
struct Owner {
    object: usize,
    weak: bool,
    hidden: bool,
}

#[derive(Default)]
struct Names {
    host: HashMap<Vec<u8>, Owner>,
    device: HashMap<Vec<u8>, usize>,
    host_needs: Vec<(usize, Vec<u8>)>,
    device_needs: Vec<(usize, Vec<u8>)>,
}

impl Graph {
    /// Reads objects and archives; other files (shared libraries, say) are passed over. Failures are lines.
    pub fn read(paths: &[PathBuf]) -> (Self, Vec<String>) {
        let (mut graph, mut names, mut failures) = (Self::default(), Names::default(), Vec::new());
        for path in paths {
            if let Err(why) = graph.add(path, &mut names) {
                failures.push(format!("{}: {why}", path.display()));
            }
        }
        graph.connect(&names);
        (graph, failures)
    }

    fn add(&mut self, path: &Path, names: &mut Names) -> Result<(), String> {
        let Some(file) = read::file(path)?.filter(|f| matches!(f.kind, FileKind::Object | FileKind::Archive)) else { return Ok(()) };
        let relocatable: Vec<_> = file.images().filter(|i| i.relocatable).collect();
        let linked: u64 = relocatable.iter().filter(|i| i.kind == "cubin").map(|i| i.unpacked).fold(0, u64::saturating_add);
        let bytes = file.allocated.saturating_add(linked).min(MOST);
        let number = self.objects.len();
        let map = MappedFile::open(path).map_err(|e| e.to_string())?;
        if file.kind == FileKind::Object {
            names.add(number, &map)?;
        } else {
            let archive = ArchiveFile::parse(&*map).map_err(|e| e.to_string())?;
            for member in archive.members() {
                let member = member.map_err(|e| e.to_string())?;
                if member.is_thin() {
                    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(member.name());
                    let map = MappedFile::open(&path.parent().unwrap_or(Path::new("")).join(name)).map_err(|e| e.to_string())?;
                    names.add(number, &map)?;
                } else {
                    names.add(number, member.data(&*map).map_err(|e| e.to_string())?)?;
                }
            }
        }
        self.objects.push(Object { path: path.to_owned(), bytes, relocatable: !relocatable.is_empty() });
        Ok(())
    }

    fn connect(&mut self, names: &Names) {
        let mut references: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for (from, name) in &names.host_needs {
            let Some(owner) = names.host.get(name).filter(|o| o.object != *from) else { continue };
            *references.entry((*from, owner.object)).or_default() += 1;
            if owner.hidden {
                self.bound.push((*from, owner.object));
            }
        }
        self.references = references.into_iter().map(|((from, to), weight)| (from, to, weight)).collect();
        let device = names.device_needs.iter().filter_map(|(from, name)| Some((*from, *names.device.get(name)?)));
        self.bound.extend(device.filter(|(from, to)| from != to));
    }

    /// What can't be divided, in the order of the first objects.
    pub fn groups(&self) -> Vec<Group> {
        let mut leader: Vec<usize> = (0..self.objects.len()).collect();
        fn find(leader: &mut [usize], mut at: usize) -> usize {
            while leader[at] != at {
                leader[at] = leader[leader[at]];
                at = leader[at];
            }
            at
        }
        for &(a, b) in &self.bound {
            let (a, b) = (find(&mut leader, a), find(&mut leader, b));
            leader[a.max(b)] = a.min(b);
        }
        let mut number = BTreeMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of = Vec::new();
        for (object, o) in self.objects.iter().enumerate() {
            let lead = find(&mut leader, object);
            let group = *number.entry(lead).or_insert_with(|| {
                groups.push(Group::default());
                groups.len() - 1
            });
            group_of.push(group);
            groups[group].objects.push(object);
            groups[group].bytes = groups[group].bytes.saturating_add(o.bytes);
        }
        for &(from, to, weight) in &self.references {
            let (a, b) = (group_of[from], group_of[to]);
            if a != b {
                *groups[a].edges.entry(b).or_default() += weight;
                *groups[b].edges.entry(a).or_default() += weight;
            }
        }
        groups
    }
}

impl Names {
    fn add(&mut self, object: usize, data: &[u8]) -> Result<(), String> {
        if !data.starts_with(b"\x7fELF\x02\x01") {
            return Ok(());
        }
        let file = ElfFile64::<Endianness>::parse(data).map_err(|e| e.to_string())?;
        for symbol in file.symbols().filter(|s| s.is_global()) {
            let name = symbol.name_bytes().map_err(|e| e.to_string())?;
            if symbol.is_undefined() {
                self.host_needs.push((object, name.to_vec()));
                continue;
            }
            let hidden = matches!(symbol.flags(), SymbolFlags::Elf { st_other, .. } if st_other.0 & 3 == STV_HIDDEN.0);
            let owner = Owner { object, weak: symbol.is_weak(), hidden };
            match self.host.get(name) {
                // A strong definition wins over a weak one, as in a link; else the first counts.
                Some(known) if !known.weak || owner.weak => {}
                _ => _ = self.host.insert(name.to_vec(), owner),
            }
        }
        if let Some(section) = file.section_by_name("__nv_relfatbin") {
            let found = symbols::of_section(section.data().map_err(|e| e.to_string())?);
            for name in found.defines {
                self.device.entry(name).or_insert(object);
            }
            self.device_needs.extend(found.needs.into_iter().map(|name| (object, name)));
        }
        Ok(())
    }
}
