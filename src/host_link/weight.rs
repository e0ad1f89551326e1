//! What the linker would lay out: bytes of allocated sections, read off section headers alone.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::AddAssign;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::archive::ArchiveFile;
use object::read::elf::FileHeader;

use super::line::{Input, Line, Site};
use crate::mapped_file::MappedFile;

/// Device code, and what a device link has made of it.
pub const LINKED: &[u8] = b".nv_fatbin";
/// Relocatable device code.
pub const RELOCATABLE: &[u8] = b"__nv_relfatbin";

/// Allocated bytes. Of an archive all members count: an upper bound, which is enough, since placing harms nothing where it is
/// not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// In `.nv_fatbin`.
    pub linked: u64,
    /// In `__nv_relfatbin`.
    pub relocatable: u64,
    /// In all other sections, `.bss` among them.
    pub rest: u64,
    /// ELF's number of the machine; 0 when no object was seen.
    pub machine: u16,
}

impl Weight {
    /// Bytes of device code.
    pub fn fatbins(&self) -> u64 {
        self.linked.saturating_add(self.relocatable)
    }

    /// All bytes.
    pub fn total(&self) -> u64 {
        self.fatbins().saturating_add(self.rest)
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.linked = self.linked.saturating_add(other.linked);
        self.relocatable = self.relocatable.saturating_add(other.relocatable);
        self.rest = self.rest.saturating_add(other.rest);
        if other.machine != 0 {
            self.machine = other.machine;
        }
    }
}

/// A file of the link.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// Where it is.
    pub path: PathBuf,
    /// Where the command names it by path; `None` for `-l`.
    pub site: Option<Site>,
    /// The name in `-l`.
    pub library: Option<std::ffi::OsString>,
}

/// The files of a link, each once, in order; shared libraries left out by name.
pub fn files(line: &Line, defaults: &[PathBuf], cwd: &Path) -> Vec<Weighed> {
    let mut files = Vec::new();
    for input in &line.inputs {
        match input {
            Input::Path(path, site) if !path.as_os_str().as_bytes().ends_with(b".so") => {
                files.push(Weighed { path: cwd.join(path), site: Some(*site), library: None });
            }
            Input::Path(..) => {}
            Input::Library(name, archives_only) => {
                let directories = || line.directories.iter().map(|d| cwd.join(d)).chain(defaults.iter().cloned());
                if let Some(path) = archive(name, *archives_only, directories()) {
                    files.push(Weighed { path, site: None, library: Some(name.clone()) });
                }
            }
        }
    }
    files
}

/// The archive that a linker takes for `-l`; `None` when there is none, or a shared library comes first (directory by
/// directory, `.so` before `.a`; the rule of all four linkers).
fn archive(name: &OsStr, archives_only: bool, mut directories: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let file = |suffix: &str| {
        let mut file = std::ffi::OsString::from("lib");
        file.push(name);
        file.push(suffix);
        file
    };
    if let Some(exact) = name.as_bytes().strip_prefix(b":") {
        return directories.map(|d| d.join(OsStr::from_bytes(exact))).find(|p| p.exists());
    }
    let (shared, archive) = (file(".so"), file(".a"));
    directories.find_map(|d| {
        if !archives_only && d.join(&shared).exists() {
            return Some(None);
        }
        Some(Some(d.join(&archive)).filter(|p| p.exists())).filter(Option::is_some)
    })?
}

/// The weight of all files together, each counted once. Files that can't be read or are no objects weigh nothing.
///
/// `enough` is the weight from which on the caller cares. As long as the files' own sizes stay far below, none is opened: only
/// a `.bss` of that size could make the difference.
pub fn of_files(files: &[Weighed], enough: u64) -> Weight {
    let mut weight = Weight::default();
    let known: Vec<_> = files.iter().map(|f| std::fs::metadata(&f.path).ok()).collect();
    let thin = |f: &Weighed| f.path.as_os_str().as_bytes().ends_with(b".a") && is_thin(&f.path);
    let sizes = known.iter().flatten().fold(0u64, |sum, m| sum.saturating_add(m.len()));
    if sizes < enough / 2 && !files.iter().any(thin) {
        return weight;
    }
    let mut seen = HashSet::new();
    for (file, meta) in files.iter().zip(known) {
        let Some(meta) = meta else { continue };
        if seen.insert((meta.dev(), meta.ino()))
            && let Ok(map) = MappedFile::open(&file.path)
        {
            weight += of_content(&map, &file.path);
        }
    }
    weight
}

fn is_thin(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 8];
    let regular = std::fs::metadata(path).is_ok_and(|m| m.is_file());
    regular && std::fs::File::open(path).is_ok_and(|mut f| f.read_exact(&mut magic).is_ok()) && &magic == b"!<thin>\n"
}

/// The weight of an object or archive.
pub fn of_content(data: &[u8], path: &Path) -> Weight {
    let mut weight = Weight::default();
    each_object(data, path, &mut |object, _| {
        weight.machine = object.machine;
        for section in &object.sections {
            match section.name {
                LINKED => weight.linked = weight.linked.saturating_add(section.size),
                RELOCATABLE => weight.relocatable = weight.relocatable.saturating_add(section.size),
                _ => weight.rest = weight.rest.saturating_add(section.size),
            }
        }
    });
    weight
}

/// An object's allocated sections.
pub struct ObjectSections<'a> {
    /// ELF's number of the machine.
    pub machine: u16,
    /// The sections.
    pub sections: Vec<AllocatedSection<'a>>,
}

/// One allocated section.
pub struct AllocatedSection<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its size in memory.
    pub size: u64,
    /// Its flags.
    pub flags: u64,
    /// Where its header stands in the object.
    pub header: u64,
}

/// Calls `found` for every object in an object file or archive, with the offset at which it lies in the file (`None` for members
/// of thin archives, which are other files).
pub fn each_object(data: &[u8], path: &Path, found: &mut dyn FnMut(&ObjectSections<'_>, Option<u64>)) {
    if !data.starts_with(b"!<arch>\n") && !data.starts_with(b"!<thin>\n") {
        if let Some(object) = sections(data) {
            found(&object, Some(0));
        }
        return;
    }
    let Ok(archive) = ArchiveFile::parse(data) else { return };
    for member in archive.members() {
        let Ok(member) = member else { return };
        if member.is_thin() {
            let file = path.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(member.name()));
            if let Ok(map) = MappedFile::open(&file)
                && let Some(object) = sections(&map)
            {
                found(&object, None);
            }
        } else if let Ok(bytes) = member.data(data)
            && let Some(object) = sections(bytes)
        {
            found(&object, Some(member.file_range().0));
        }
    }
}

/// The allocated sections of a relocatable 64-bit object; `None` for anything else.
fn sections(data: &[u8]) -> Option<ObjectSections<'_>> {
    if !data.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    if header.e_type.get(LittleEndian) != elf::ET_REL {
        return None;
    }
    let table = header.sections(LittleEndian, data).ok()?;
    let start = header.e_shoff.get(LittleEndian);
    let mut sections = Vec::new();
    for (index, section) in table.iter().enumerate() {
        let flags = section.sh_flags.get(LittleEndian).0;
        if flags & elf::SHF_ALLOC.0 == 0 {
            continue;
        }
        let name = table.section_name(LittleEndian, section).ok()?;
        let header = start.checked_add(index as u64 * size_of_val(section) as u64)?;
        sections.push(AllocatedSection { name, size: section.sh_size.get(LittleEndian), flags, header });
    }
    Some(ObjectSections { machine: header.e_machine.get(LittleEndian).0, sections })
}
