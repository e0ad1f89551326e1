//! Files, read no further than the headers of their images. No length field is believed: what does not fit is a failure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::elf::{self, FileHeader64};
use object::read::archive::ArchiveFile;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, Object, ObjectSection};

use super::{File, FileKind, Image, Place, Sizes, Unit};
use crate::archs::inputs::code_of;
use crate::mapped_file::MappedFile;
use crate::object::fatbin::{self, Compression, Entry, Kind};
use crate::object::host::EM_CUDA;

const EXECUTABLE: &[u8] = b".nv_fatbin";
const RELOCATABLE: &[u8] = b"__nv_relfatbin";
/// Directories that are deeper are links in a circle.
const MAX_DEPTH: usize = 64;

/// Looks at files and at everything below directories, where files of other kinds are passed over.
pub fn look(paths: &[PathBuf]) -> Sizes {
    let mut sizes = Sizes::default();
    for path in paths {
        let named = !path.is_dir();
        files(std::slice::from_ref(path)).iter().for_each(|file| add(file, named, &mut sizes));
    }
    sizes.files.sort_by_key(|f| std::cmp::Reverse(f.bytes().stored));
    sizes
}

/// The files among `paths` and below its directories, in order.
pub fn files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() { directory(path, 0, &mut found) } else { found.push(path.clone()) }
    }
    found
}

fn directory(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    // A directory that can't be read shows as a file that can't.
    let Ok(entries) = std::fs::read_dir(path) else { return found.push(path.to_owned()) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        // A link to a file that is here as well would count it twice.
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() && depth < MAX_DEPTH {
            directory(&path, depth + 1, found);
        } else if meta.is_file() {
            found.push(path);
        }
    }
}

fn add(path: &Path, named: bool, sizes: &mut Sizes) {
    match file(path) {
        Ok(Some(file)) => {
            if matches!(file.kind, FileKind::Object | FileKind::Archive) {
                sizes.link = sizes.link.saturating_add(file.allocated);
            }
            if !file.units.is_empty() {
                sizes.files.push(file);
            }
        }
        Ok(None) if named => sizes.failures.push(format!("{}: no object, archive, library or device code", path.display())),
        Ok(None) => {}
        Err(why) => sizes.failures.push(format!("{}: {why}", path.display())),
    }
}

/// Reads one file; `None` when it is of no kind that can hold device code.
pub fn file(path: &Path) -> Result<Option<File>, String> {
    let map = MappedFile::open(path).map_err(|e| e.to_string())?;
    let data: &[u8] = &map;
    let place: Arc<Path> = path.into();
    let mut file = File { path: path.to_owned(), kind: FileKind::Object, allocated: 0, units: Vec::new() };
    if data.starts_with(b"!<arch>\n") || data.starts_with(b"!<thin>\n") {
        file.kind = FileKind::Archive;
        archive(data, &place, &mut file)?;
    } else if data.starts_with(&fatbin::MAGIC.to_le_bytes()) {
        file.kind = FileKind::Device;
        containers(data, 0, false, &place, &mut |_| None, &mut file.units)?;
    } else if is_elf64(data) {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        elf(data, 0, &place, &name, &mut file)?;
    } else {
        return Ok(None);
    }
    Ok(Some(file))
}

fn is_elf64(data: &[u8]) -> bool {
    data.starts_with(b"\x7fELF\x02\x01")
}

fn archive(data: &[u8], path: &Arc<Path>, file: &mut File) -> Result<(), String> {
    let archive = ArchiveFile::parse(data).map_err(|e| e.to_string())?;
    for member in archive.members() {
        let member = member.map_err(|e| e.to_string())?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let inside = |why: String| format!("({name}): {why}");
        if member.is_thin() {
            let other = path.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(member.name()));
            let map = MappedFile::open(&other).map_err(|e| inside(e.to_string()))?;
            if is_elf64(&map) {
                elf(&map, 0, &other.into(), &name, file).map_err(inside)?;
            }
            continue;
        }
        let bytes = member.data(data).map_err(|e| inside(e.to_string()))?;
        if is_elf64(bytes) {
            elf(bytes, member.file_range().0, path, &name, file).map_err(inside)?;
        }
    }
    file.kind = FileKind::Archive;
    Ok(())
}

/// `base` is where `data` starts in the file.
fn elf(data: &[u8], base: u64, path: &Arc<Path>, name: &str, file: &mut File) -> Result<(), String> {
    let header = FileHeader64::<Endianness>::parse(data).map_err(|e| e.to_string())?;
    let endian = header.endian().map_err(|e| e.to_string())?;
    if header.e_machine.get(endian).0 == EM_CUDA {
        file.kind = FileKind::Device;
        let (abi, flags) = (data.get(8).copied().unwrap_or(0), header.e_flags.get(endian).0);
        let arch = if abi >= 8 { flags >> 8 & 0xff } else { flags & 0xff };
        let size = data.len() as u64;
        let relocatable = header.e_type.get(endian) == elf::ET_REL;
        let place = Place { path: path.clone(), range: base..base + size };
        let image = image(Kind::Elf, arch, 0, relocatable, size, size, Compression::None, Some(place));
        file.units.push(Unit { name: name.to_owned(), images: vec![image] });
        return Ok(());
    }
    let parsed = ElfFile64::<Endianness>::parse(data).map_err(|e| e.to_string())?;
    let linked = matches!(header.e_type.get(endian), elf::ET_DYN | elf::ET_EXEC);
    if linked {
        file.kind = FileKind::Image;
        let loads = header.program_headers(endian, data).map_err(|e| e.to_string())?;
        let loads: Vec<_> = loads.iter().filter(|p| p.p_type(endian) == elf::PT_LOAD).collect();
        let end = |p: &&elf::ProgramHeader64<Endianness>| p.p_offset(endian).checked_add(p.p_filesz(endian));
        if loads.iter().any(|p| end(p).is_none_or(|end| end > data.len() as u64)) {
            return Err("a segment lies outside of the file".into());
        }
        let start = loads.iter().map(|p| p.p_vaddr(endian)).min().unwrap_or(0);
        let end = loads.iter().map(|p| p.p_vaddr(endian).saturating_add(p.p_memsz(endian))).max().unwrap_or(0);
        file.allocated = end.saturating_sub(start);
    }
    let mut ids = ids(&parsed);
    for section in parsed.sections() {
        let head = section.elf_section_header();
        let section_name = section.name_bytes().map_err(|e| e.to_string())?;
        let outside =
            head.file_range(endian).is_some_and(|(offset, size)| offset.checked_add(size).is_none_or(|end| end > data.len() as u64));
        if outside {
            return Err(format!("section {} lies outside of the file", String::from_utf8_lossy(section_name)));
        }
        if !linked && head.sh_flags(endian).0 & elf::SHF_ALLOC.0 != 0 {
            file.allocated = file.allocated.saturating_add(head.sh_size(endian));
        }
        if section_name != EXECUTABLE && section_name != RELOCATABLE {
            continue;
        }
        let bytes = section.data().map_err(|e| format!("{}: {e}", String::from_utf8_lossy(section_name)))?;
        let Some((offset, _)) = head.file_range(endian) else { continue };
        let relocatable = section_name == RELOCATABLE;
        let mut named = |number: usize| {
            if !linked {
                return Some(name.to_owned());
            }
            relocatable.then(|| ids.get_mut(number).map(std::mem::take)).flatten()
        };
        let broken = |why: String| format!("{}: {why}", String::from_utf8_lossy(section_name));
        containers(bytes, base + offset, relocatable, path, &mut named, &mut file.units).map_err(broken)?;
    }
    Ok(())
}

/// The ids of the units in a linked image, in the order of their containers.
fn ids(file: &ElfFile64<Endianness>) -> Vec<String> {
    let section = file.section_by_name("__nv_module_id").and_then(|s| s.data().ok()).unwrap_or_default();
    let strings = section.split(|&b| b == 0).filter(|s| !s.is_empty() && !s.starts_with(b"def ") && *s != b"__NV_MODULE_ID");
    strings.map(|s| String::from_utf8_lossy(s).into_owned()).collect()
}

fn containers(
    section: &[u8],
    base: u64,
    relocatable: bool,
    path: &Arc<Path>,
    name: &mut dyn FnMut(usize) -> Option<String>,
    units: &mut Vec<Unit>,
) -> Result<(), String> {
    let at = |b: fatbin::Broken| format!("{} at offset {:#x}", b.what, base + b.offset as u64);
    for (number, container) in fatbin::containers(section).enumerate() {
        let mut images = Vec::new();
        let mut source = None;
        for entry in container.map_err(at)?.entries() {
            let entry = entry.map_err(at)?;
            source = source.or(entry.identifier());
            add_entry(&entry, base, relocatable, path, &mut images);
        }
        let source = source.map(|s| String::from_utf8_lossy(s).into_owned());
        let name = name(number).or(source).unwrap_or_else(|| format!("#{}", number + 1));
        match units.last_mut() {
            // An object that `ld -r` joined has several containers.
            Some(last) if last.name == name => last.images.extend(images),
            _ => units.push(Unit { name, images }),
        }
    }
    Ok(())
}

fn add_entry(entry: &Entry<'_>, base: u64, relocatable: bool, path: &Arc<Path>, images: &mut Vec<Image>) {
    let place = entry.place();
    let stored = (place.end - entry.offset) as u64;
    let parts = if entry.number() == fatbin::CONCATENATED { entry.parts() } else { None };
    let packing = entry.compression();
    if let Some(parts) = parts.filter(|p| !p.is_empty()) {
        let sizes: Vec<u64> = parts.iter().map(|p| p.range.len() as u64).collect();
        let all = sizes.iter().fold(0u64, |a, b| a.saturating_add(*b)).max(1);
        for (part, size) in parts.iter().zip(sizes) {
            let share = (u128::from(stored) * u128::from(size) / u128::from(all)) as u64;
            images.push(image(part.kind, part.arch, part.flags, relocatable, share, size, packing, None));
        }
        return;
    }
    let range = base + place.start as u64..base + place.end as u64;
    let place = Place { path: path.clone(), range };
    images.push(image(entry.kind(), entry.arch(), entry.flags(), relocatable, stored, entry.unpacked(), packing, Some(place)));
}

#[allow(clippy::too_many_arguments)]
fn image(
    kind: Kind,
    arch: u32,
    flags: u32,
    relocatable: bool,
    stored: u64,
    unpacked: u64,
    packing: Compression,
    place: Option<Place>,
) -> Image {
    let code = code_of(kind, arch, flags);
    Image {
        arch: code.map_or_else(|| format!("sm_{arch}"), |c| c.to_string()),
        kind: match kind {
            Kind::Elf => "cubin",
            Kind::Ptx => "ptx",
            Kind::LtoIr => "lto",
            Kind::Unknown(_) => "other",
        },
        relocatable,
        stored,
        unpacked,
        compression: match packing {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
            Compression::Unknown(_) => "other",
        },
        code,
        place,
    }
}
