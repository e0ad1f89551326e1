//! Fatbin containers: a 16-byte header, then entries of cubins, PTX and LTO-IR.
//!
//! Layout read off the output of nvcc 13.0.88 and 13.5.37, of libnvfatbin 12.9, and of libraries of CUDA 11.0 to 12.9.

use std::borrow::Cow;
use std::ops::Range;

use super::unpack;
use crate::span::Span;

/// The container's magic.
pub const MAGIC: u32 = 0xBA55_ED50;
/// How a bare LTO-IR file starts.
pub const LTO_MAGIC: [u8; 4] = [0xed, 0x43, 0x4e, 0x7f];

const HEADER: usize = 16;
const ENTRY: usize = 64;
/// The kind of an entry that holds several images.
pub const CONCATENATED: u16 = 0x100;

const FLAG_LZ4: u32 = 0x2000;
const FLAG_ZSTD: u32 = 0x8000;
const FLAG_OTHER_COMPRESSION: u32 = 0x1000 | 0x4000 | 0x10000;

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PTX text.
    Ptx,
    /// A cubin.
    Elf,
    /// LTO-IR; its names can't be read.
    LtoIr,
    /// Anything else.
    Unknown(u16),
}

impl Kind {
    fn from_number(number: u16) -> Self {
        match number {
            0x1 | 0x40 => Self::Ptx,
            0x2 => Self::Elf,
            0x8 => Self::LtoIr,
            other => Self::Unknown(other),
        }
    }
}

/// How a payload is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// One LZ4 block.
    Lz4,
    /// One zstd frame.
    Zstd,
    /// In a way that is not known: these flag bits say so.
    Unknown(u32),
}

/// One image in its plain form, handed to the visitor of [`images`].
pub struct Image<'a> {
    /// What it is.
    pub kind: Kind,
    /// The number of the architecture (90 for sm_90).
    pub arch: u32,
    /// The bytes, decompressed; `None` when that failed or the compression is not known.
    pub bytes: Option<&'a [u8]>,
}

/// A container, as far as it is there.
#[derive(Clone, Copy)]
pub struct Container<'a> {
    /// Where it starts in the section.
    pub offset: usize,
    section: Span<'a>,
    /// Where its entries start in the section.
    start: usize,
    end: usize,
    /// It says that it is longer than the section.
    cut: bool,
}

/// One entry of a container.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// Where it starts in the section.
    pub offset: usize,
    head: [u8; ENTRY],
    /// All of it: header, payload, padding.
    bytes: &'a [u8],
    /// The header's length.
    header: usize,
}

/// A place at which the data does not follow the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Offset in the section.
    pub offset: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// The containers that follow each other in `section`; the last item is an error where the data breaks off.
pub fn containers<'a>(section: impl Into<Span<'a>>) -> impl Iterator<Item = Result<Container<'a>, Broken>> {
    let section = section.into();
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut offset = at;
        let mut head = section.piece::<HEADER>(offset);
        if head.is_none_or(|head| head[0] == 0) {
            // Sections may be padded between containers (aarch64 aligns them to 256).
            offset += section.bytes().get(at..)?.iter().position(|&b| b != 0)?;
            head = section.piece(offset);
        }
        at = section.len();
        let Some(head) = head else {
            let magic = section[offset..].starts_with(&MAGIC.to_le_bytes());
            let what = if magic { "a fatbin container's header is cut off" } else { "no fatbin container" };
            return Some(Err(Broken { offset, what }));
        };
        if u32_at(&head, 0) != Some(MAGIC) {
            return Some(Err(Broken { offset, what: "no fatbin container" }));
        }
        let header = usize::from(u16_at(&head, 6)?).max(HEADER);
        let start = (offset + header).min(section.len());
        let end = usize::try_from(u64_at(&head, 8)?).ok().and_then(|size| size.checked_add(offset + header));
        let end = end.filter(|&end| end <= section.len());
        at = end.unwrap_or(at);
        Some(Ok(Container { offset, section, start, end: at, cut: end.is_none() }))
    })
}

impl<'a> Container<'a> {
    /// Where it ends in the section.
    pub fn end(&self) -> usize {
        self.end
    }

    /// The entries; the last item is an error where the data breaks off.
    pub fn entries(self) -> impl Iterator<Item = Result<Entry<'a>, Broken>> {
        let (mut offset, mut over) = (self.start, false);
        std::iter::from_fn(move || {
            if over || offset == self.end {
                let cut = self.cut && !std::mem::replace(&mut over, true);
                return cut.then_some(Err(Broken { offset, what: "a fatbin container is cut off" }));
            }
            let broken = |what| Some(Err(Broken { offset, what }));
            over = true;
            let Some(head) = self.section.piece::<ENTRY>(offset).filter(|_| self.end - offset >= ENTRY) else {
                return broken("a fatbin entry's header is cut off");
            };
            let header = u32_at(&head, 4)? as usize;
            let end = usize::try_from(u64_at(&head, 8)?).ok().and_then(|padded| padded.checked_add(header)?.checked_add(offset));
            let Some(end) = end.filter(|&end| header >= ENTRY && end <= self.end) else {
                return broken("a fatbin entry is cut off, or its sizes are wrong");
            };
            over = false;
            let bytes = self.section.bytes().get(offset..end)?;
            let entry = Entry { offset, head, bytes, header };
            offset = end;
            Some(Ok(entry))
        })
    }
}

impl<'a> Entry<'a> {
    fn header(&self) -> &'a [u8] {
        &self.bytes[..self.header]
    }
    fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header..]
    }
    fn u32(&self, at: usize) -> u32 {
        u32_at(&self.head, at).unwrap_or(0)
    }
    /// The number of the kind; 0x100 is a `-concat` entry, whose images [`Entry::parts`] gives.
    pub fn number(&self) -> u16 {
        u16_at(&self.head, 0).unwrap_or(0)
    }
    /// What the image is.
    pub fn kind(&self) -> Kind {
        Kind::from_number(self.number())
    }
    /// The number of the architecture.
    pub fn arch(&self) -> u32 {
        self.u32(0x1c)
    }
    /// All flag bits.
    pub fn flags(&self) -> u32 {
        self.u32(0x28)
    }
    /// How the payload is packed.
    pub fn compression(&self) -> Compression {
        match self.flags() & (FLAG_LZ4 | FLAG_ZSTD | FLAG_OTHER_COMPRESSION) {
            0 => Compression::None,
            FLAG_LZ4 => Compression::Lz4,
            FLAG_ZSTD => Compression::Zstd,
            other => Compression::Unknown(other),
        }
    }
    /// Where the payload lies in the section, padding included.
    pub fn place(&self) -> Range<usize> {
        self.offset + self.header..self.offset + self.bytes.len()
    }
    /// Bytes of the payload in the file, less padding where that is known.
    pub fn stored(&self) -> u64 {
        match self.u32(0x10) {
            0 => (self.bytes.len() - self.header) as u64,
            exact => u64::from(exact).min((self.bytes.len() - self.header) as u64),
        }
    }
    /// Bytes of the payload when unpacked, as its header says.
    pub fn unpacked(&self) -> u64 {
        u64_at(&self.head, 0x38).filter(|&s| s != 0).unwrap_or((self.bytes.len() - self.header) as u64)
    }
    /// The source file, where the compiler was told to write it (`-lineinfo`, `-G`).
    pub fn identifier(&self) -> Option<&'a [u8]> {
        let (at, length) = (self.u32(0x20) as usize, self.u32(0x24) as usize);
        if at == 0 || length == 0 {
            return None;
        }
        self.header().get(at..at.checked_add(length)?)
    }
    /// The payload in its plain form; `None` when it can't be decompressed.
    pub fn plain(&self) -> Option<Cow<'a, [u8]>> {
        let (packed, size) = (self.payload().get(..self.u32(0x10) as usize), u64_at(&self.head, 0x38).unwrap_or(0));
        match self.compression() {
            Compression::None => Some(Cow::Borrowed(self.payload())),
            Compression::Lz4 => unpack::lz4(packed?, size).map(Cow::Owned),
            Compression::Zstd => unpack::zstd(packed?, size).map(Cow::Owned),
            Compression::Unknown(_) => None,
        }
    }
    /// The images of a `-concat` entry, headers only; `None` when the table is broken.
    pub fn parts(&self) -> Option<Vec<Part>> {
        parts(self.header())
    }
    fn visit(&self, visit: &mut dyn FnMut(Image<'_>)) {
        let plain = self.plain();
        let bytes = plain.as_deref();
        if self.number() == CONCATENATED {
            let found = bytes.zip(self.parts()).map(|(bytes, parts)| {
                parts.iter().all(|part| {
                    let image = bytes.get(part.range.clone());
                    visit(Image { kind: part.kind, arch: part.arch, bytes: image });
                    image.is_some()
                })
            });
            if found.is_none() {
                visit(Image { kind: self.kind(), arch: self.arch(), bytes: None });
            }
            return;
        }
        visit(Image { kind: self.kind(), arch: self.arch(), bytes });
    }
}

/// Calls `visit` with every image of the containers that follow each other in `section`.
///
/// Returns false when the data broke off or did not follow the format: what was visited is then not all there is.
pub fn images(section: &[u8], visit: &mut dyn FnMut(Image<'_>)) -> bool {
    containers(section).all(|container| container.is_ok_and(|c| images_of(c, visit)))
}

/// The same for one container.
pub fn images_of(container: Container<'_>, visit: &mut dyn FnMut(Image<'_>)) -> bool {
    container.entries().all(|entry| entry.map(|e| e.visit(visit)).is_ok())
}

/// An image inside a `-concat` entry.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is.
    pub kind: Kind,
    /// The number of its kind.
    pub number: u16,
    /// The number of its architecture.
    pub arch: u32,
    /// Its flag bits.
    pub flags: u32,
    /// Its place in the unpacked payload.
    pub range: Range<usize>,
}

/// The table at the option offset of a `-concat` entry (kind 0x100, new in 13.5).
fn parts(header: &[u8]) -> Option<Vec<Part>> {
    let table = header.get(u32_at(header, 0x14)? as usize..)?;
    let count = u32_at(table, 0)?;
    let mut parts = Vec::new();
    let mut at: usize = 8;
    for _ in 0..count {
        let sub = table.get(at..)?;
        let start = u32_at(sub, 4)? as usize;
        let range = start..start.checked_add(usize::try_from(u64_at(sub, 8)?).ok()?)?;
        let number = u16_at(sub, 0)?;
        parts.push(Part { kind: Kind::from_number(number), number, arch: u32_at(sub, 0x1c)?, flags: u32_at(sub, 0x28)?, range });
        let tail = |offset: usize, length: usize| -> Option<usize> {
            let offset = u32_at(sub, offset)? as usize;
            if offset == 0 { Some(0) } else { offset.checked_add(u32_at(sub, length)? as usize)?.checked_add(1) }
        };
        let options = match u32_at(sub, 0x14)? as usize {
            0 => 0,
            o => (u32_at(sub, o)? as usize).checked_add(u32_at(sub, o.checked_add(4)?)? as usize)?.checked_add(1)?,
        };
        at = at.checked_add(ENTRY.max(tail(0x20, 0x24)?).max(options).checked_next_multiple_of(8)?)?;
    }
    Some(parts)
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_le_bytes)
}
fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}
fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
}
