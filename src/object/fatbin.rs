//! Fatbin containers: a 16-byte header, then entries of cubins, PTX and LTO-IR.
//!
//! Layout read off the output of nvcc 13.0.88 and 13.5.37, of libnvfatbin 12.9, and of libraries of CUDA 11.0 to 12.9.

use std::borrow::Cow;
use std::io::Read;

/// The container's magic.
pub const MAGIC: u32 = 0xBA55_ED50;
/// How a bare LTO-IR file starts.
pub const LTO_MAGIC: [u8; 4] = [0xed, 0x43, 0x4e, 0x7f];

const HEADER: usize = 16;
const ENTRY: usize = 64;
/// No image of a real build comes near it; a header that says more is not believed.
const MAX_IMAGE: u64 = 1 << 30;

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

/// One image in its plain form, handed to the visitor of [`images`].
pub struct Image<'a> {
    /// What it is.
    pub kind: Kind,
    /// The number of the architecture (90 for sm_90).
    pub arch: u32,
    /// The bytes, decompressed; `None` when that failed or the compression is not known.
    pub bytes: Option<&'a [u8]>,
}

/// Calls `visit` with every image of the containers that follow each other in `section`.
///
/// Returns false when the data broke off or did not follow the format: what was visited is then not all there is.
pub fn images(section: &[u8], visit: &mut dyn FnMut(Image<'_>)) -> bool {
    let mut rest = section;
    loop {
        // Sections may be padded between containers (aarch64 aligns them to 256).
        let Some(start) = rest.iter().position(|&b| b != 0) else { return true };
        rest = &rest[start..];
        if u32_at(rest, 0) != Some(MAGIC) {
            return false;
        }
        let (Some(header), Some(size)) = (u16_at(rest, 6), u64_at(rest, 8)) else { return false };
        let header = usize::from(header);
        let Some(end) = usize::try_from(size).ok().and_then(|s| s.checked_add(header)) else { return false };
        let Some(entries) = rest.get(header.max(HEADER)..end) else { return false };
        if !container(entries, visit) {
            return false;
        }
        rest = &rest[end..];
    }
}

fn container(mut entries: &[u8], visit: &mut dyn FnMut(Image<'_>)) -> bool {
    while !entries.is_empty() {
        let (Some(header), Some(padded)) = (u32_at(entries, 4), u64_at(entries, 8)) else { return false };
        let header = header as usize;
        let Some(end) = usize::try_from(padded).ok().and_then(|p| p.checked_add(header)) else { return false };
        let (true, Some(payload)) = (header >= ENTRY, entries.get(header..end)) else { return false };
        entry(&entries[..header], payload, visit);
        entries = &entries[end..];
    }
    true
}

fn entry(header: &[u8], payload: &[u8], visit: &mut dyn FnMut(Image<'_>)) {
    let kind = u16_at(header, 0).unwrap_or(0);
    let arch = u32_at(header, 0x1c).unwrap_or(0);
    let plain = decompress(header, payload);
    let bytes = plain.as_deref();
    if kind == 0x100 {
        if bytes.and_then(|b| concatenated(header, b, visit)).is_none() {
            visit(Image { kind: Kind::Unknown(kind), arch, bytes: None });
        }
        return;
    }
    visit(Image { kind: Kind::from_number(kind), arch, bytes });
}

/// The payload in its plain form; `None` when it can't be decompressed.
fn decompress<'a>(header: &[u8], payload: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let flags = u32_at(header, 0x28)?;
    let size = u64_at(header, 0x38)?;
    if flags & FLAG_OTHER_COMPRESSION != 0 {
        return None;
    }
    if flags & (FLAG_LZ4 | FLAG_ZSTD) == 0 {
        return Some(Cow::Borrowed(payload));
    }
    if size > MAX_IMAGE {
        return None;
    }
    let packed = payload.get(..u32_at(header, 0x10)? as usize)?;
    let size = usize::try_from(size).ok()?;
    if flags & FLAG_LZ4 != 0 {
        // LZ4 can't expand a byte to more than 255: a header that says so would only cost memory.
        if size / 255 > packed.len() {
            return None;
        }
        let mut out = vec![0; size];
        let written = lz4_flex::block::decompress_into(packed, &mut out).ok()?;
        return (written == size).then_some(Cow::Owned(out));
    }
    let mut out = Vec::new();
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
    decoder.take(size as u64 + 1).read_to_end(&mut out).ok()?;
    (out.len() == size).then_some(Cow::Owned(out))
}

/// The images of a `-concat` entry (kind 0x100, new in 13.5): a table at the option offset describes them.
fn concatenated(header: &[u8], payload: &[u8], visit: &mut dyn FnMut(Image<'_>)) -> Option<()> {
    let table = header.get(u32_at(header, 0x14)? as usize..)?;
    let count = u32_at(table, 0)?;
    let mut at = 8;
    for _ in 0..count {
        let sub = table.get(at..)?;
        let start = u32_at(sub, 4)? as usize;
        let end = start.checked_add(usize::try_from(u64_at(sub, 8)?).ok()?)?;
        let image = payload.get(start..end)?;
        visit(Image { kind: Kind::from_number(u16_at(sub, 0)?), arch: u32_at(sub, 0x1c)?, bytes: Some(image) });
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
    Some(())
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
