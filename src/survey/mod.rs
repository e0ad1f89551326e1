//! Turns a device link into a [`Scene`]: every mention resolved to a file, every file looked into once.

mod taken;

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::nvcc::{DeviceLink, Named};
use crate::object::{self, Content};
use crate::plan::{File, FileState, MemberRef, Scene};
use crate::{Env, library_search::Search};

/// What the host link of the same image will have, as far as the build system tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLink {
    /// Shared libraries that come before every static one.
    pub shared: Vec<PathBuf>,
    /// Shared libraries whose place is not known.
    pub shared_later: Vec<PathBuf>,
    /// Where it looks for libraries, in order.
    pub directories: Vec<PathBuf>,
}

/// Looks at everything that the device link names, and at the shared libraries that its host link will have.
pub fn scene(link: &DeviceLink, host_link: &HostLink, nvcc: Option<&Path>, env: &Env) -> Scene {
    let mut scene = named(link, nvcc, env);
    for file in scene.files.iter_mut().filter(|f| matches!(f.state, FileState::Missing)) {
        if let Some(path) = out_of_reach(file, link, host_link, env) {
            file.state = FileState::OutOfReach(path);
        }
    }
    let shared = |paths: &[PathBuf]| -> Vec<File> { paths.iter().filter_map(|p| shared_library(p, env)).collect() };
    scene.files.splice(0..0, shared(&host_link.shared));
    scene.files.extend(shared(&host_link.shared_later));
    taken::past_shared_libraries(&mut scene);
    scene
}

/// The archive with device code that the host linker finds for a `-l` that nvlink does not.
fn out_of_reach(file: &File, link: &DeviceLink, host_link: &HostLink, env: &Env) -> Option<PathBuf> {
    let Named::Library(name) = &link.mentions[*file.mentions.first()?].named else { return None };
    let path = Search::new(&host_link.directories, None, None, env.cwd()).find(name)?;
    let has_units = object::inspect(&path).ok()?.members().iter().any(|m| !m.units.is_empty());
    has_units.then_some(path)
}

/// A shared library of the host link. What can't be read is no evidence, and no reason to complain.
fn shared_library(path: &Path, env: &Env) -> Option<File> {
    let full = env.cwd().join(path);
    let content = object::inspect(&full).ok()?;
    matches!(content, Content::Shared(_)).then(|| File::unmentioned(path.to_owned(), full, FileState::Read(content)))
}

fn named(link: &DeviceLink, nvcc: Option<&Path>, env: &Env) -> Scene {
    let search = Search::new(&link.directories, nvcc, env.get("LIBRARY_PATH"), env.cwd());
    let mut scene = Scene { no_mask: link.lto, keep_line: link.implicit, ..Scene::default() };
    let mut seen: HashMap<(u64, u64), usize> = HashMap::new();
    for (mention, m) in link.mentions.iter().enumerate() {
        let path = match &m.named {
            Named::Path(path) => Some(env.cwd().join(path)),
            Named::Library(name) => search.find(name),
        };
        let shown = match &m.named {
            Named::Path(path) => path.clone(),
            Named::Library(name) => PathBuf::from(name),
        };
        let Some(path) = path else {
            scene.files.push(File::new(shown, None, FileState::Missing, mention));
            continue;
        };
        let identity = std::fs::metadata(&path).map(|m| (m.dev(), m.ino())).ok();
        if let Some(&known) = identity.as_ref().and_then(|i| seen.get(i)) {
            scene.files[known].mentions.push(mention);
            continue;
        }
        let state = match &m.named {
            // nvlink takes members of a library of this name by need, and nvcc adds it by itself.
            _ if is_device_runtime(&path) => FileState::DeviceRuntime,
            // nvlink passes over these by their names alone, whatever is inside.
            Named::Path(p) if !p.file_name().is_some_and(|n| n.as_bytes().contains(&b'.')) => FileState::Missing,
            // nvcc and nvlink say that better than we could.
            _ if !path.exists() => FileState::Missing,
            _ => match object::inspect(&path) {
                Ok(content) => FileState::Read(content),
                Err(error) => FileState::Unreadable(error.to_string()),
            },
        };
        if let Some(identity) = identity {
            seen.insert(identity, scene.files.len());
        }
        scene.files.push(File::new(shown, Some(path), state, mention));
    }
    scene
}

/// Fills in the device symbols of the members that the plan asks for.
pub fn read_symbols(scene: &mut Scene, wanted: &[MemberRef]) {
    let mut open: Option<(usize, object::Reader)> = None;
    for wanted in wanted {
        let (index, member) = (wanted.file(), wanted.member());
        let file = &mut scene.files[index];
        let Some(path) = &file.path else { continue };
        let reader = match &mut open {
            Some((of, reader)) if *of == index => reader,
            other => &mut other.insert((index, object::Reader::new(path))).1,
        };
        let symbols = reader.device_symbols(path, &file.members()[member]);
        file.set_symbols(member, &symbols);
    }
}

fn is_device_runtime(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n.as_bytes() == b"libcudadevrt.a" || n.as_bytes().starts_with(b"libcudart"))
}
