//! ELF files: host objects, finished images, cubins.

use std::path::Path;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};

use super::{Arch, Depth, FileKind, Part, Unit, images};
use crate::audit::image::{self, Looked};
use crate::object::fatbin::{Kind, MAGIC};
use crate::object::host::{self, EM_CUDA};
use crate::object::{Content, Id};
use crate::span::Span;

const CODE: [&str; 2] = ["__nv_relfatbin", ".nv_fatbin"];

/// Fills `part`; `None` when the file is of no machine that CUDA has.
pub fn part(span: Span<'_>, depth: Depth, part: &mut Part) -> Option<(FileKind, Vec<String>)> {
    let data = span.bytes();
    if data.get(4..6) != Some(&[2, 1]) {
        return None;
    }
    let mut flaws = Vec::new();
    let endian = Endianness::Little;
    let header = match FileHeader64::<Endianness>::parse(data) {
        Ok(header) => header,
        Err(e) => return Some((FileKind::Object, vec![e.to_string()])),
    };
    if header.e_machine.get(endian).0 == EM_CUDA {
        let arch = cubin_arch(data[7], header.e_flags.get(endian).0);
        part.sections.push(images::bare(images::plain(Kind::Elf, 2, arch, data, depth)));
        return Some((FileKind::Cubin, flaws));
    }
    let mut kind = match header.e_type.get(endian) {
        elf::ET_REL => FileKind::Object,
        elf::ET_DYN => FileKind::SharedLibrary,
        elf::ET_EXEC => FileKind::Program,
        _ => return None,
    };
    let sections = match header.sections(endian, data) {
        Ok(sections) => sections,
        Err(e) => {
            flaws.push(format!("{e}; device code is searched for by its look"));
            searched(data, depth, part);
            return Some((kind, flaws));
        }
    };
    for section in sections.iter() {
        let name = sections.section_name(endian, section).unwrap_or_default();
        let Some(name) = CODE.iter().find(|n| n.as_bytes() == name) else { continue };
        // A cut file may still have the start of a section.
        let (bytes, whole) = span.as_far_as_there(section.file_range(endian).unwrap_or_default());
        if !whole {
            flaws.push(format!("{name} is cut off"));
        }
        part.sections.extend(images::section(name, bytes, depth, &mut flaws).map(|(s, _)| s));
    }
    if kind == FileKind::Object {
        match host::content(data) {
            Ok(Content::Object(member)) => {
                part.units = member.units.into_iter().map(|u| Unit { id: u.id, device_only: u.device_only }).collect();
                part.stubs = member.stubs.into();
            }
            Ok(_) => {}
            Err(flaw) => flaws.push(flaw.what),
        }
    } else {
        match image::read(data, Path::new("")) {
            Ok(Looked::Image(image)) => {
                if image.program {
                    kind = FileKind::Program;
                }
                let unit = |id: &Id| Unit { id: id.clone(), device_only: !image.registrars.contains_key(id) };
                part.units = image.present.iter().map(unit).collect();
                part.stubs = image.stubs;
                flaws.extend(image.flaws);
            }
            Ok(Looked::Other) => {}
            Err(flaw) => flaws.push(flaw.what),
        }
    }
    Some((kind, flaws))
}

/// Containers of a file without a section table.
fn searched(data: &[u8], depth: Depth, part: &mut Part) {
    let mut at = 0;
    while let Some(found) = data.get(at..).and_then(|rest| memchr::memmem::find(rest, &MAGIC.to_le_bytes())) {
        let start = at + found;
        // Containers are aligned; and what follows the first in its section is read with it.
        let mut flaws = Vec::new();
        let section = (start % 8 == 0).then(|| images::section("(no section table)", data[start..].into(), depth, &mut flaws)).flatten();
        let read = section.as_ref().map_or(0, |(_, read)| *read);
        part.sections.extend(section.map(|(s, _)| s));
        at = start + read.max(4);
    }
}

/// A bare cubin's architecture: its header has the number, and up to CUDA 12 the suffix `a`.
fn cubin_arch(abi: u8, flags: u32) -> Arch {
    let (number, a) = if abi == 0x41 { ((flags >> 8) & 0xff, flags & 0x8 != 0) } else { (flags & 0xff, flags & 0x800 != 0) };
    Arch::Numbered("sm_", number, a.then_some('a'))
}
