//! What files hold: units, stubs, device symbols. Told by content, never by the file's name, and without unpacking.

pub mod archive;
pub mod cubin;
pub mod fatbin;
pub mod host;
pub mod ptx;
pub mod shared_bytes;
pub mod symbols;
mod unpack;

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::checked_file::Bytes;
pub use host::Shared;
pub use shared_bytes::SharedBytes;
use smallvec::SmallVec;
pub use symbols::DeviceSymbols;

/// A module id as it stands in `__nv_module_id`, without `def ` (`_<crc>_<len>_<file>_<suffix>`).
pub type Id = SharedBytes;

/// One relocatable device object.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// The module id; empty when the object has none (nvlink then makes one from the path).
    pub id: Id,
    /// Nothing in this object asks for the registrar's entry point: its host side is certainly elsewhere.
    pub device_only: bool,
    /// `__fatbinwrap<id>` is hidden, so only the same link can see it.
    pub wrapper_hidden: bool,
    /// Another strong, default-visibility symbol that the object defines and that a stub may refer to in order to pull
    /// the archive member.
    pub pull: Option<SharedBytes>,
}

/// One host object: a file of its own, or a member of an archive.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// The member's name; `None` for a plain object.
    pub name: Option<SharedBytes>,
    /// Where the object lies: in the inspected file, or in the file that a thin archive names.
    pub place: Place,
    /// The units; more than one after `ld -r`.
    pub units: SmallVec<[Unit; 1]>,
    /// Ids for which the object carries a stub.
    pub stubs: Box<[Id]>,
    /// Byte range of `__nv_relfatbin` within `place`; empty where there is none.
    pub device_code: Range<u64>,
}

impl Member {
    fn strings(&mut self) -> impl Iterator<Item = &mut SharedBytes> {
        let units = self.units.iter_mut().flat_map(|u| std::iter::once(&mut u.id).chain(&mut u.pull));
        self.name.iter_mut().chain(units).chain(&mut self.stubs)
    }
}

/// Where the bytes of a member are.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Another file than the archive (thin archives).
    pub file: Option<Box<PathBuf>>,
    /// Byte range in the file.
    pub range: Range<u64>,
}

impl Place {
    /// The other file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|f| f.as_path())
    }
}

/// What a file is.
#[derive(Clone, Debug)]
pub enum Content {
    /// A relocatable host object.
    Object(Member),
    /// An archive, thin or not.
    Archive(Vec<Member>),
    /// A shared object (or an executable).
    Shared(Shared),
    /// Device code without a host object: a bare cubin, fatbin or PTX file.
    Device,
    /// Anything else, such as a linker script.
    Other,
}

impl Content {
    /// The objects in the file.
    pub fn members(&self) -> &[Member] {
        match self {
            Self::Object(member) => std::slice::from_ref(member),
            Self::Archive(members) => members,
            _ => &[],
        }
    }
}

/// A failure inside a file, before the path is known.
#[derive(Debug)]
pub struct Flaw {
    /// The archive member.
    pub member: Option<String>,
    /// Offset in the file or member.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl Flaw {
    /// A flaw at `offset`.
    pub fn new(offset: u64, what: impl Into<String>) -> Self {
        Self { member: None, offset, what: what.into() }
    }
    /// The same flaw, inside a member.
    pub fn in_member(mut self, name: &[u8]) -> Self {
        self.member = Some(String::from_utf8_lossy(name).into_owned());
        self
    }
    /// The error that names the file.
    pub fn at(self, path: &Path) -> Error {
        Error::Malformed { path: path.to_owned(), member: self.member, offset: self.offset, what: self.what }
    }
}

/// Looks into a file.
///
/// # Errors
/// [`Error::Read`] if it can't be opened, [`Error::Malformed`] if it breaks the format it claims.
pub fn inspect(path: &Path) -> Result<Content, Error> {
    look(&open(path)?, path).map_err(|flaw| flaw.at(path))
}

/// Tells what bytes are; `path` only serves to find the members of thin archives.
pub fn content(data: &[u8], path: &Path) -> Result<Content, Flaw> {
    look(&data.into(), path)
}

fn look(data: &Bytes<'_>, path: &Path) -> Result<Content, Flaw> {
    if data.starts_with(b"!<arch>\n") || data.starts_with(b"!<thin>\n") {
        return archive::members(data, path).map(Content::Archive);
    }
    if data.starts_with(b"\x7fELF") {
        return host::look(data);
    }
    let device = data.starts_with(&fatbin::MAGIC.to_le_bytes()) || data.starts_with(&fatbin::LTO_MAGIC);
    Ok(if device { Content::Device } else { Content::Other })
}

/// The names in the host object of a member of the file at `path`.
pub fn names(path: &Path, member: &Member) -> Result<host::Names, Error> {
    let path = member.place.path().unwrap_or(path);
    let bytes = open(path)?.part(member.place.range.clone()).ok_or_else(|| Flaw::new(0, "the member lies outside of the file"));
    bytes.and_then(|b| host::names(&b)).map_err(|flaw| flaw.at(path))
}

/// The names that the shared object at `path` exports.
pub fn exported_names(path: &Path) -> Result<std::collections::HashSet<Vec<u8>>, Error> {
    host::exported_names(&open(path)?).map_err(|flaw| flaw.at(path))
}

fn open(path: &Path) -> Result<Bytes<'static>, Error> {
    Bytes::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// Reads the device symbols of a member of the file at `path`.
///
/// Code that can't be read (LTO-IR only, unknown kinds, broken entries) is reported through
/// [`DeviceSymbols::opaque`], not as an error.
pub fn device_symbols(path: &Path, member: &Member) -> Result<DeviceSymbols, Error> {
    if member.device_code.is_empty() {
        return Ok(DeviceSymbols::default());
    }
    Ok(symbols_in(&open(member.place.path().unwrap_or(path))?, member))
}

/// The same for members of one file, one after the other.
pub struct Reader {
    file: Result<Bytes<'static>, Error>,
}

impl Reader {
    /// Opens the file.
    pub fn new(path: &Path) -> Self {
        Self { file: open(path) }
    }

    /// Reads the device symbols of a member; those of what can't be read are unknown.
    pub fn device_symbols(&self, path: &Path, member: &Member) -> DeviceSymbols {
        match &self.file {
            _ if member.place.file.is_some() => device_symbols(path, member).unwrap_or_else(|_| DeviceSymbols::unreadable()),
            Ok(file) => symbols_in(file, member),
            Err(_) => DeviceSymbols::unreadable(),
        }
    }
}

fn symbols_in(file: &Bytes<'_>, member: &Member) -> DeviceSymbols {
    let code = &member.device_code;
    if code.is_empty() {
        return DeviceSymbols::default();
    }
    let start = member.place.range.start.saturating_add(code.start);
    let end = member.place.range.start.saturating_add(code.end);
    file.read(start..end).map_or_else(DeviceSymbols::unreadable, |code| symbols::of_section(&code))
}
