//! What a file holds, for eyes: units, images, symbols. Where the readers of [`crate::object`] stop at the first flaw, this one
//! goes on and keeps what is readable.

mod elf;
mod images;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::read::archive::ArchiveFile;

use crate::Error;
use crate::mapped_file::MappedFile;
use crate::object::Id;
use crate::object::fatbin::{Compression, Kind, LTO_MAGIC, MAGIC};
use crate::object::symbols::Class;
use crate::span::Span;

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Headers; nothing is unpacked.
    Images,
    /// Device symbols too.
    Symbols,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A relocatable host object.
    Object,
    /// An archive.
    Archive,
    /// An archive that only names its members' files.
    ThinArchive,
    /// A shared library.
    SharedLibrary,
    /// A program.
    Program,
    /// Device code as ELF.
    Cubin,
    /// A container of images.
    Fatbin,
    /// Device code as text.
    Ptx,
    /// Device code for link-time optimisation.
    LtoIr,
}

/// A file.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Its size.
    pub size: u64,
    /// What is in it: one part, or one for each archive member with device code.
    pub parts: Vec<Part>,
    /// What could not be read, one line each.
    pub flaws: Vec<String>,
}

/// A file, or a member of an archive.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The member's name.
    pub member: Option<Vec<u8>>,
    /// Units, in order.
    pub units: Vec<Unit>,
    /// Units that a stub in here waits for.
    pub stubs: Vec<Id>,
    /// Sections (or, for a bare file, the file) with device code.
    pub sections: Vec<Section>,
}

/// What is here of a unit.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its id; empty when it has none.
    pub id: Id,
    /// Its registrar is elsewhere.
    pub device_only: bool,
}

/// A run of containers.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its name; empty for a bare file.
    pub name: String,
    /// Containers, in order.
    pub containers: Vec<Container>,
}

/// A container of images.
#[derive(Clone, Debug, Default)]
pub struct Container {
    /// Offset in the section.
    pub offset: u64,
    /// Its images.
    pub images: Vec<Image>,
}

/// What an image is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arch {
    /// `sm_`, `compute_` or `lto_`, the number, and perhaps `a` or `f`. Big libraries have thousands of them.
    Numbered(&'static str, u32, Option<char>),
    /// As a text says it.
    Text(String),
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Numbered(family, number, Some(suffix)) => write!(f, "{family}{number}{suffix}"),
            Self::Numbered(family, number, None) => write!(f, "{family}{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// An image.
#[derive(Clone, Debug)]
pub struct Image {
    /// What it is.
    pub kind: Kind,
    /// The number of its kind.
    pub number: u16,
    /// Its architecture.
    pub arch: Arch,
    /// All flag bits.
    pub flags: u32,
    /// How it is packed.
    pub compression: Compression,
    /// Its bytes in the file; `None` for one that is packed together with others.
    pub stored: Option<u64>,
    /// Its bytes when unpacked.
    pub unpacked: u64,
    /// The rest, apart: of the thousands of images in a big library few have any of it when only headers are read.
    pub details: Option<Box<Details>>,
}

/// What not every image has.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// The source file that its header names.
    pub source: Option<Vec<u8>>,
    /// Its symbols, in its order; `None` when they were not asked for or can't be read.
    pub symbols: Option<Vec<Symbol>>,
    /// Why there are no symbols.
    pub unreadable: Option<&'static str>,
}

impl Image {
    /// The source file that its header names.
    pub fn source(&self) -> Option<&[u8]> {
        self.details.as_ref()?.source.as_deref()
    }

    /// Its symbols, in its order; `None` when they were not asked for or can't be read.
    pub fn symbols(&self) -> Option<&[Symbol]> {
        self.details.as_ref()?.symbols.as_deref()
    }

    /// Why there are no symbols.
    pub fn unreadable(&self) -> Option<&'static str> {
        self.details.as_ref()?.unreadable
    }

    fn details(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }
}

/// A device symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// What it is.
    pub class: Class,
    /// Mangled.
    pub name: Vec<u8>,
    /// The image has it.
    pub defined: bool,
    /// Another unit must have it.
    pub need: bool,
    /// No other unit can refer to it.
    pub local: bool,
}

/// Looks into a file.
///
/// # Errors
/// [`Error::Read`] when it can't be mapped, [`Error::Usage`] when it is no file that can hold device code. Damage inside is in
/// [`Inspected::flaws`].
pub fn inspect(path: &Path, depth: Depth) -> Result<Inspected, Error> {
    let map = MappedFile::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let pieces = if depth == Depth::Images { map.pieces() } else { None };
    let data = pieces.as_ref().map_or(Span::from(&map[..]), |pieces| Span::of_file(&map, pieces));
    bytes(data, path, depth).ok_or_else(|| Error::Usage(format!("{}: no file that can hold device code", path.display())))
}

/// The same for bytes; `path` serves to find the members of thin archives.
pub fn bytes<'a>(data: impl Into<Span<'a>>, path: &Path, depth: Depth) -> Option<Inspected> {
    let data = data.into();
    let mut file =
        Inspected { path: path.to_owned(), kind: FileKind::Object, size: data.len() as u64, parts: Vec::new(), flaws: Vec::new() };
    let mut part = Part::default();
    if data.starts_with(b"!<arch>\n") || data.starts_with(b"!<thin>\n") {
        file.kind = if data.starts_with(b"!<thin>\n") { FileKind::ThinArchive } else { FileKind::Archive };
        members(data, depth, &mut file);
        return Some(file);
    } else if data.starts_with(b"\x7fELF") {
        let (kind, flaws) = elf::part(data, depth, &mut part)?;
        file.kind = kind;
        file.flaws = flaws;
    } else if data.starts_with(&MAGIC.to_le_bytes()) {
        file.kind = FileKind::Fatbin;
        part.sections.extend(images::section("", data, depth, &mut file.flaws).map(|(s, _)| s));
    } else if data.starts_with(&LTO_MAGIC) {
        file.kind = FileKind::LtoIr;
        part.sections.push(images::bare(images::plain(Kind::LtoIr, 8, Arch::Text(String::new()), &data, depth)));
    } else if images::is_ptx(&data) {
        file.kind = FileKind::Ptx;
        part.sections.push(images::bare(images::plain(Kind::Ptx, 1, images::ptx_target(&data), &data, depth)));
    } else {
        return None;
    }
    file.flaws.extend(part.sections.iter().flat_map(unreadable));
    file.parts.push(part);
    Some(file)
}

/// One line for each image whose symbols can't be read and should be.
fn unreadable(section: &Section) -> impl Iterator<Item = String> {
    let images = section.containers.iter().flat_map(|c| &c.images);
    images.filter_map(|i| {
        Some(format!("{} image for {}: {}", section.name, i.arch, i.unreadable()?)).map(|line| line.trim_start().to_owned())
    })
}

fn members(data: Span<'_>, depth: Depth, file: &mut Inspected) {
    let archive = match ArchiveFile::parse(data.bytes()) {
        Ok(archive) => archive,
        Err(e) => {
            file.flaws.push(format!("archive: {e}"));
            return;
        }
    };
    for member in archive.members() {
        let member = match member {
            Ok(member) => member,
            Err(e) => {
                file.flaws.push(format!("a member header: {e}"));
                break;
            }
        };
        let name = member.name();
        let shown = String::from_utf8_lossy(name).into_owned();
        let mut part = Part { member: Some(name.to_vec()), ..Part::default() };
        let map;
        let bytes = if member.is_thin() {
            let path = file.path.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(name));
            match MappedFile::open(&path) {
                Ok(opened) => {
                    map = opened;
                    Span::from(&map[..])
                }
                Err(e) => {
                    file.flaws.push(format!("thin member {}: {e}", path.display()));
                    continue;
                }
            }
        } else {
            let (bytes, whole) = data.as_far_as_there(member.file_range());
            if !whole {
                file.flaws.push(format!("member {shown}: is cut off"));
            }
            bytes
        };
        if bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n") {
            file.flaws.push(format!("member {shown}: an archive inside an archive"));
        } else if bytes.starts_with(b"\x7fELF") {
            if let Some((_, flaws)) = elf::part(bytes, depth, &mut part) {
                let flaws = flaws.into_iter().chain(part.sections.iter().flat_map(unreadable));
                file.flaws.extend(flaws.map(|flaw| format!("member {shown}: {flaw}")));
            }
            if !part.units.is_empty() || !part.stubs.is_empty() || !part.sections.is_empty() {
                file.parts.push(part);
            }
        }
    }
}
