//! What a device link's objects hold, so that no architecture is linked which they lack.
//!
//! The command may list architectures that its objects were not compiled for. nvlink then leaves their code out for the one
//! and not for the other, so machine code of the remaining one need not hold everything that the dropped one held.

use std::path::Path;

use super::gpu::{Code, Form, Gpu};
use super::policy::{Fate, Verdict};
use crate::mapped_file::MappedFile;
use crate::object::fatbin::{self, Kind};
use crate::object::{Content, Member};
use crate::plan::{FileState, Scene};

/// Takes back what can't be proven: of every object that has code for a dropped architecture, the one that serves in its place
/// must find code as well.
pub fn prove(verdicts: &mut [Verdict], scene: &Scene) {
    let served = |v: &Verdict| match v.fate {
        Fate::ServedBy(server) => Some((v.code.gpu, server.gpu)),
        _ => None,
    };
    if !verdicts.iter().any(|v| served(v).is_some()) {
        return;
    }
    let units = units(scene);
    for verdict in verdicts.iter_mut() {
        let Some((dropped, server)) = served(verdict) else { continue };
        let lost = units.as_ref().is_none_or(|u| u.iter().any(|codes| fits(codes, dropped) && !fits(codes, server)));
        if lost {
            verdict.fate = Fate::KeptBecause("not every object of this link has code for the one that would serve");
        }
    }
}

/// The codes of each container; `None` when they can't all be read.
fn units(scene: &Scene) -> Option<Vec<Vec<Code>>> {
    let mut units = Vec::new();
    for file in &scene.files {
        let (Some(path), FileState::Read(content)) = (&file.path, &file.state) else { continue };
        if matches!(content, Content::Device) {
            return None;
        }
        for member in content.members() {
            of_member(path, member, &mut units)?;
        }
    }
    Some(units)
}

fn of_member(path: &Path, member: &Member, units: &mut Vec<Vec<Code>>) -> Option<()> {
    let code = &member.device_code;
    if code.is_empty() {
        return Some(());
    }
    let map = MappedFile::open(member.place.path().unwrap_or(path)).ok()?;
    let start = member.place.range.start.checked_add(code.start)?;
    let end = member.place.range.start.checked_add(code.end)?;
    let section = map.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
    for container in fatbin::containers(section) {
        let mut codes = Vec::new();
        for entry in container.ok()?.entries() {
            let entry = entry.ok()?;
            let mut add = |kind: Kind, arch: u32, flags: u32| codes.extend(code_of(kind, arch, flags));
            match entry.number() {
                fatbin::CONCATENATED => entry.parts()?.iter().for_each(|p| add(p.kind, p.arch, p.flags)),
                _ => add(entry.kind(), entry.arch(), entry.flags()),
            }
        }
        units.push(codes);
    }
    Some(())
}

/// An image as a code.
pub fn code_of(kind: Kind, arch: u32, flags: u32) -> Option<Code> {
    let form = match kind {
        Kind::Elf => Form::Real,
        Kind::Ptx => Form::Ptx,
        Kind::LtoIr => Form::Lto,
        Kind::Unknown(_) => return None,
    };
    let suffix = match flags & 0x300000 {
        0 => None,
        0x100000 => Some(b'a'),
        _ => Some(b'f'),
    };
    Some(Code { form, gpu: Gpu(arch), suffix })
}

/// Whether nvlink finds code for `target` (tried with 13.0 and 13.5: embedded parts are nothing special to it).
fn fits(codes: &[Code], target: Gpu) -> bool {
    codes.iter().filter(|c| c.suffix.is_none()).any(|c| match c.form {
        Form::Real => c.gpu.major() == target.major() && c.gpu <= target,
        Form::Ptx | Form::Lto => c.gpu <= target,
    })
}
