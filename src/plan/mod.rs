//! The decision, per unit. Pure: no file, no process, no environment.

mod decide;
mod names;
mod needs;
mod roles;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::object::{Content, DeviceSymbols, Id, Member, SharedBytes, Unit};
pub use decide::{decide, wanted_symbols};
pub use names::Names;

/// Everything that a device link names, looked into.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The files in the order of their first mention.
    pub files: Vec<File>,
    /// A link-time-optimising device link, in which nvlink counts masked units all the same (13.0.88).
    pub no_mask: bool,
    /// The host compiler is none that is known to take the guard's header.
    pub no_guard: bool,
    /// The same line is the host link, so nothing may leave it: units are masked one by one. (Behind `-Xlinker` a library
    /// would come before every other `-l`, as nvcc 13.0.88 writes the host link, and symbols would resolve otherwise.)
    pub keep_line: bool,
}

impl Scene {
    /// Whether anything on the line is relocatable device code.
    pub fn has_units(&self) -> bool {
        self.files.iter().any(|f| match &f.state {
            FileState::Read(Content::Device) => true,
            _ => f.members().iter().any(|m| !m.units.is_empty()),
        })
    }

    /// The file of a decision.
    pub fn file(&self, index: FileIndex) -> &File {
        &self.files[index as usize]
    }

    /// The member.
    pub fn member(&self, at: MemberRef) -> &Member {
        &self.files[at.file()].members()[at.member()]
    }
}

/// A member of a file of the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberRef {
    file: u32,
    member: u32,
}

impl MemberRef {
    /// By the indices of both.
    ///
    /// # Panics
    /// At more than 2³² of either: the headers alone would take hundreds of gigabytes.
    pub fn new(file: usize, member: usize) -> Self {
        Self { file: short(file), member: short(member) }
    }

    /// Index into [`Scene::files`].
    pub fn file(self) -> usize {
        self.file as usize
    }

    /// Index into the file's members.
    pub fn member(self) -> usize {
        self.member as usize
    }
}

/// A plan holds very many of these.
fn short(index: usize) -> u32 {
    u32::try_from(index).expect("an index of 32 bits")
}

/// What became of looking at a file.
#[derive(Clone, Debug)]
pub enum FileState {
    /// Looked into.
    Read(Content),
    /// libcudadevrt or libcudart, which nvcc and nvlink treat by their names.
    DeviceRuntime,
    /// nvlink will find nothing there either.
    Missing,
    /// nvlink will find nothing, but the host link looks in a directory that has this file with relocatable device code.
    OutOfReach(PathBuf),
    /// Broken or unreadable, with the reason.
    Unreadable(String),
}

/// One file of the scene.
#[derive(Clone, Debug)]
pub struct File {
    /// As the command names it.
    pub shown: PathBuf,
    /// Where it is.
    pub path: Option<PathBuf>,
    /// What is in it.
    pub state: FileState,
    /// Indices of the mentions that lead to it; none for a shared library that only the host link has.
    pub mentions: Vec<usize>,
    /// Members that the host linker may take although a shared library before the archive has a stub for their units, since that
    /// library (an index into [`Scene::files`]) does not export every name that they define.
    pub taken_past: HashSet<(usize, usize)>,
    symbols: Vec<Option<Names>>,
}

impl File {
    /// A file as found by its first mention.
    pub fn new(shown: PathBuf, path: Option<PathBuf>, state: FileState, mention: usize) -> Self {
        Self { shown, path, symbols: Vec::new(), taken_past: HashSet::new(), state, mentions: vec![mention] }
    }

    /// A file that the device link does not name.
    pub fn unmentioned(shown: PathBuf, path: PathBuf, state: FileState) -> Self {
        Self { mentions: Vec::new(), ..Self::new(shown, Some(path), state, 0) }
    }

    /// The objects in it, as far as it could be looked into.
    pub fn members(&self) -> &[Member] {
        if let FileState::Read(content) = &self.state { content.members() } else { &[] }
    }

    /// A member's device symbols, once they were asked for (see [`wanted_symbols`]).
    pub fn symbols(&self, member: usize) -> Option<&Names> {
        self.symbols.get(member)?.as_ref()
    }

    /// Gives the device symbols of a member, and says what was known of them.
    pub fn set_symbols(&mut self, member: usize, symbols: &DeviceSymbols) -> Option<Names> {
        if self.symbols.is_empty() {
            self.symbols.resize_with(self.members().len(), || None);
        }
        self.symbols[member].replace(symbols.into())
    }

    /// Whether it is a shared library with a stub for the unit that other images can call.
    pub fn offers(&self, unit: &Unit) -> bool {
        match &self.state {
            FileState::Read(Content::Shared(shared)) => shared.stubs.contains(&unit.id) && shared.exported.contains(&unit.id),
            _ => false,
        }
    }

    /// Whether it is an object of the command's own.
    pub fn is_plain_object(&self) -> bool {
        matches!(self.state, FileState::Read(Content::Object(_)))
    }

    /// Whether it may hold device code that nobody could look at.
    pub fn hides_code(&self) -> bool {
        matches!(self.state, FileState::Unreadable(_) | FileState::Read(Content::Device))
    }

    /// Where it is, as messages show it.
    pub fn place(&self) -> &Path {
        self.path.as_ref().unwrap_or(&self.shown)
    }

    /// The library's name as `-l` would say it, or the file's name.
    pub fn name(&self) -> String {
        let name = self.place().file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        match name.strip_prefix("lib").and_then(|n| n.strip_suffix(".a").or_else(|| n.strip_suffix(".so"))) {
            Some(library) => library.to_owned(),
            None => name,
        }
    }
}

/// What makes a unit foreign, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A plain object of the command.
    PlainObject,
    /// The object holds no registrar.
    DeviceOnly,
    /// A shared object in sight has a stub for the id, exports it, and comes before the archive.
    StubIn(FileIndex),
    /// A full archive member: its host object may or may not end up in this image.
    FullMember,
    /// The same, and a shared library has a stub for the id, but does not certainly come before the archive.
    FullMemberOrStubIn(FileIndex),
}

/// An index into [`Scene::files`].
pub type FileIndex = u32;

/// What asks for a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A symbol that a unit which stays refers to.
    Symbol(Box<Reference>),
    /// Nobody, but its archive stays and a mask can't take it alone.
    Beside,
    /// Nothing that is known of: its host object may end up in this image and register here.
    MayBeHere,
    /// Names can't be read (LTO-IR only, bare device code, or a file that can't be looked into).
    Unknowable,
}

/// Who refers to which device symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The unit that refers to it.
    pub by: Id,
    /// The symbol's name.
    pub symbol: SharedBytes,
}

/// Why a unit stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// `DLINK_SHIM_KEEP` names its library.
    Keep,
    /// The file has it, too, and a mask would take both.
    AlsoIn(FileIndex),
    /// The file has it, too, and which of both nvlink takes can't be told.
    Twin(FileIndex),
    /// The stub's compiler can't be given the guard.
    NoGuard,
    /// There is no name to guard it by.
    NoId,
    /// Nothing could pull its archive member.
    NoPull,
}

/// The decision for one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The command's own: NVIDIA's code, with its entry point protected against interposition.
    Own,
    /// Goes with its whole library.
    Strip,
    /// Goes alone: nvlink is told that it is linked already.
    Mask,
    /// Stays, with an entry point that completes the stub's count whether or not its registrar is in this image.
    Guard(Need),
    /// Stays, and its host object is certain to be in this image: as an own unit.
    Protect,
    /// A second copy of a unit that the file holds.
    Copy(FileIndex),
    /// Stays as it is, for this reason.
    Leave(Left),
    /// A stub on the line already covers the id, so nvlink passes over the unit.
    Excluded,
}

/// One unit and its decision.
#[derive(Clone, Debug)]
pub struct UnitPlan {
    member: u32,
    unit: u32,
    /// What is known of its registrar.
    pub evidence: Evidence,
    /// The decision.
    pub verdict: Verdict,
}

impl UnitPlan {
    /// The unit's member of the plan's file.
    pub fn member<'s>(&self, file: &'s File) -> &'s Member {
        &file.members()[self.member as usize]
    }

    /// The unit.
    pub fn unit<'s>(&self, file: &'s File) -> &'s Unit {
        &self.member(file).units[self.unit as usize]
    }
}

/// A unit that the guard covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// The module id.
    pub id: Id,
    /// A symbol of the archive member, to pull it as the stock stub does.
    pub pull: Option<SharedBytes>,
}

/// The decision for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    /// Untouched; the reason in one line.
    Leave(String),
    /// Stays, with units guarded or masked; the reason in one line.
    Cure(String),
    /// Every mention goes; the reason in one line.
    Strip(String),
}

/// A file and its decisions.
#[derive(Clone, Debug)]
pub struct FilePlan {
    /// Index into [`Scene::files`].
    pub file: usize,
    /// The decision and its reason.
    pub verdict: FileVerdict,
    /// Its units.
    pub units: Vec<UnitPlan>,
}

/// All decisions for one command.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One per file.
    pub files: Vec<FilePlan>,
    /// Ids to mask.
    pub masked: Vec<Id>,
    /// Units to guard.
    pub guarded: Vec<Guarded>,
    /// Whether units of this image's own must be protected against another image that holds the same ids.
    pub protect: bool,
    /// At most one line for stderr: something was left uncured that the user can do something about.
    pub warning: Option<String>,
}

impl Left {
    /// In words.
    pub fn text(self, scene: &Scene) -> String {
        match self {
            Self::Keep => "DLINK_SHIM_KEEP".into(),
            Self::AlsoIn(file) => format!("also in {}", scene.file(file).name()),
            Self::Twin(file) => format!("also in {}, and can't be told from it here", scene.file(file).name()),
            Self::NoGuard => NO_GUARD.into(),
            Self::NoId => "it has no module id to guard it by".into(),
            Self::NoPull => "it defines no other symbol that could pull its archive member".into(),
        }
    }
}

const NO_GUARD: &str = "it would be guarded, but the host compiler (-ccbin) is none that is known to take -include";

impl Plan {
    /// The files whose mentions go.
    pub fn stripped(&self) -> impl Iterator<Item = usize> {
        self.files.iter().filter(|f| matches!(f.verdict, FileVerdict::Strip(_))).map(|f| f.file)
    }

    /// The files that stay with a cure.
    pub fn cured(&self) -> impl Iterator<Item = usize> {
        self.files.iter().filter(|f| matches!(f.verdict, FileVerdict::Cure(_))).map(|f| f.file)
    }
}

/// The user's word, which beats the analysis: globs over library names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Never touch these.
    pub keep: Vec<String>,
    /// Strip these whatever the analysis says.
    pub strip: Vec<String>,
    /// Guard all units of these.
    pub guard: Vec<String>,
}

impl Wishes {
    fn matches(globs: &[String], name: &str) -> bool {
        globs.iter().any(|g| fast_glob::glob_match(g, name) || fast_glob::glob_match(g, format!("lib{name}.a")))
    }
}

/// An id as text for messages.
pub fn shown_id(id: &[u8]) -> String {
    if id.is_empty() { "(no module id)".into() } else { String::from_utf8_lossy(id).into_owned() }
}
