//! Containers and what is in them.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Arch, Container, Depth, Details, Image, Section, Symbol};
use crate::object::fatbin::{self, Broken, Compression, Entry, Kind};
use crate::object::{cubin, ptx, symbols};
use crate::span::Span;

const SUFFIX_A: u32 = 0x10_0000;
const SUFFIX_F: u32 = 0x20_0000;
/// PTX headers are short; this much is searched for one.
const HEAD: usize = 4096;
/// Unpacked bytes from which on threads are worth their start.
const SPREAD: u64 = 1 << 20;

/// The containers of a section and how many bytes were understood; `None` when there are none.
pub fn section(name: &str, data: Span<'_>, depth: Depth, flaws: &mut Vec<String>) -> Option<(Section, usize)> {
    let mut flaw =
        |broken: Broken| flaws.push(format!("{name}: {} at offset {:#x}", broken.what, broken.offset).trim_start_matches(": ").to_owned());
    let mut section = Section { name: name.to_owned(), containers: Vec::new() };
    let mut read = None;
    let mut packed = Vec::new();
    for container in fatbin::containers(data) {
        let container = match container {
            Ok(container) => container,
            Err(broken) => {
                flaw(broken);
                break;
            }
        };
        let mut shown = Container { offset: container.offset as u64, images: Vec::new() };
        for entry in container.entries() {
            match entry {
                // Headers alone take less time than passing them around.
                Ok(entry) if depth == Depth::Images => entry_images(&entry, depth, &mut shown.images),
                Ok(entry) => packed.push((section.containers.len(), entry)),
                Err(broken) => flaw(broken),
            }
        }
        read = Some(container.end());
        section.containers.push(shown);
    }
    for (container, images) in unpacked(&packed, depth) {
        section.containers[container].images.extend(images);
    }
    read.map(|read| (section, read))
}

/// The images of each entry, with the number of its container, spread over all processors where that is worth it.
fn unpacked(entries: &[(usize, Entry<'_>)], depth: Depth) -> Vec<(usize, Vec<Image>)> {
    let images = |(container, entry): &(usize, Entry<'_>)| {
        let mut images = Vec::new();
        entry_images(entry, depth, &mut images);
        (*container, images)
    };
    let bytes: u64 = entries.iter().map(|(_, e)| e.unpacked()).fold(0, u64::saturating_add);
    if bytes < SPREAD {
        return entries.iter().map(images).collect();
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(entries.len().max(1));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(entry) = entries.get(at) else { return done };
            done.push((at, images(entry)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        all.extend(others.into_iter().flat_map(|thread| thread.join().unwrap_or_default()));
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, images)| images).collect()
}

fn entry_images(entry: &Entry<'_>, depth: Depth, into: &mut Vec<Image>) {
    let source = entry.identifier().map(<[u8]>::to_vec);
    let details = source.map(|source| Box::new(Details { source: Some(source), ..Details::default() }));
    let mut image = Image {
        kind: entry.kind(),
        number: entry.number(),
        arch: arch(entry.kind(), entry.arch(), entry.flags()),
        flags: entry.flags(),
        compression: entry.compression(),
        stored: Some(entry.stored()),
        unpacked: entry.unpacked(),
        details,
    };
    let names = depth == Depth::Symbols && matches!(image.kind, Kind::Elf | Kind::Ptx | Kind::Unknown(fatbin::CONCATENATED));
    let plain = if names { entry.plain() } else { None };
    let failed = names && plain.is_none();
    if entry.number() != fatbin::CONCATENATED {
        match &plain {
            Some(bytes) => add_symbols(&mut image, bytes),
            None if failed => image.details().unreadable = Some("can't be unpacked"),
            None => {}
        }
        into.push(image);
        return;
    }
    let Some(parts) = entry.parts() else {
        image.details().unreadable = Some("the table of its images is broken");
        into.push(image);
        return;
    };
    for part in parts {
        let mut sub = Image {
            kind: part.kind,
            number: part.number,
            arch: arch(part.kind, part.arch, part.flags),
            flags: part.flags,
            stored: None,
            unpacked: part.range.len() as u64,
            ..image.clone()
        };
        if matches!(sub.kind, Kind::Elf | Kind::Ptx) {
            match plain.as_ref().map(|bytes| bytes.get(part.range.clone())) {
                Some(Some(bytes)) => add_symbols(&mut sub, bytes),
                Some(None) => sub.details().unreadable = Some("lies outside of what is packed"),
                None if failed => sub.details().unreadable = Some("can't be unpacked"),
                None => {}
            }
        }
        into.push(sub);
    }
}

fn add_symbols(image: &mut Image, bytes: &[u8]) {
    let mut found = Vec::new();
    let mut add = |s: symbols::Symbol<'_>| {
        let need = s.is_need() && !symbols::is_of_driver(s.name);
        found.push(Symbol { class: s.class, name: s.name.to_vec(), defined: s.defined, need, local: s.local });
    };
    let read = match image.kind {
        Kind::Elf => cubin::symbols(bytes, &mut add),
        Kind::Ptx => ptx::symbols(bytes, &mut add),
        _ => return,
    };
    image.details().symbols = Some(found);
    if read.is_none() {
        image.details().unreadable = Some(if image.kind == Kind::Elf { "is no readable cubin" } else { "is no readable PTX" });
    }
}

/// An image that is a file of its own.
pub fn plain(kind: Kind, number: u16, arch: Arch, data: &[u8], depth: Depth) -> Image {
    let size = data.len() as u64;
    let mut image =
        Image { kind, number, arch, flags: 0, compression: Compression::None, stored: Some(size), unpacked: size, details: None };
    if depth == Depth::Symbols {
        add_symbols(&mut image, data);
    }
    image
}

/// The one image of a bare file.
pub fn bare(image: Image) -> Section {
    Section { name: String::new(), containers: vec![Container { offset: 0, images: vec![image] }] }
}

fn arch(kind: Kind, number: u32, flags: u32) -> Arch {
    let suffix = if flags & SUFFIX_A != 0 { Some('a') } else { (flags & SUFFIX_F != 0).then_some('f') };
    let family = match kind {
        Kind::Ptx => "compute_",
        Kind::LtoIr => "lto_",
        _ => "sm_",
    };
    Arch::Numbered(family, number, suffix)
}

/// Whether a file is PTX text.
pub fn is_ptx(data: &[u8]) -> bool {
    let head = &data[..data.len().min(HEAD)];
    !head.contains(&0) && memchr::memmem::find(head, b".version").is_some() && memchr::memmem::find(head, b".target").is_some()
}

/// `.target sm_90` as an architecture.
pub fn ptx_target(data: &[u8]) -> Arch {
    let head = &data[..data.len().min(HEAD)];
    let rest = memchr::memmem::find(head, b".target").map_or(&[][..], |at| &head[at + 7..]).trim_ascii_start();
    let word = &rest[..rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(rest.len())];
    Arch::Text(String::from_utf8_lossy(word).replace("sm_", "compute_"))
}
