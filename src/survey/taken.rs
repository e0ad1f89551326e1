//! Which archive members the host linker may take although a shared library before them has a stub for their units.
//!
//! Such a member's registrar would call the library's stub once more. It is taken for a name that it defines and the library does not
//! export: a version script or hidden visibility is enough.

use std::cell::OnceCell;
use std::collections::HashSet;

use crate::object;
use crate::plan::{MemberRef, Scene};

type Names = HashSet<Vec<u8>>;

/// Fills in [`crate::plan::File::taken_past`]. What can't be read may be taken.
pub fn past_shared_libraries(scene: &mut Scene) {
    let asked_for = OnceCell::new();
    let mut taken: Vec<(usize, usize, usize)> = Vec::new();
    for so in 0..scene.files.len() {
        let exported = OnceCell::new();
        for archive in so + 1..scene.files.len() {
            for (index, member) in scene.files[archive].members().iter().enumerate() {
                let offered = member.units.iter().any(|u| !u.device_only && scene.files[so].offers(u));
                if offered && !stays_out(scene, MemberRef::new(archive, index), so, &exported, &asked_for) {
                    taken.push((archive, index, so));
                }
            }
        }
    }
    for (archive, member, so) in taken {
        scene.files[archive].taken_past.insert((member, so));
    }
}

/// Whether the linker certainly passes over the member.
fn stays_out(scene: &Scene, member: MemberRef, so: usize, exported: &OnceCell<Option<Names>>, asked_for: &OnceCell<Names>) -> bool {
    let path = |file: usize| scene.files[file].path.as_deref();
    let exported = exported.get_or_init(|| path(so).and_then(|p| object::exported_names(p).ok()));
    let names = path(member.file()).and_then(|p| object::names(p, scene.member(member)).ok());
    let (Some(exported), Some(names)) = (exported, names) else { return false };
    // nvcc 13 hides a kernel's host function. Only code with device code of its own, so what is on this line, launches by it.
    let passed = |name: &&Vec<u8>| is_kernels(name, &names.defined) && !asked_for.get_or_init(|| undefined_names(scene)).contains(*name);
    names.defined.iter().filter(|n| !exported.contains(*n)).all(|n| passed(&n))
}

/// Whether a name is a kernel's host function, or the stub of one: the latter's name holds the former's (13.0.88).
fn is_kernels(name: &[u8], all: &[Vec<u8>]) -> bool {
    const STUB: &[u8] = b"__device_stub_";
    let holds = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|w| w == part);
    let (stub, stub_of_c_name) = ([STUB, name].concat(), [STUB, b"_", name].concat());
    holds(name, STUB) || all.iter().any(|n| holds(n, &stub) || holds(n, &stub_of_c_name))
}

/// Every name that some object on the line wants from elsewhere.
fn undefined_names(scene: &Scene) -> Names {
    let mut all = Names::new();
    for file in &scene.files {
        let Some(path) = &file.path else { continue };
        for member in file.members() {
            all.extend(object::names(path, member).map(|n| n.undefined).unwrap_or_default());
        }
    }
    all
}
