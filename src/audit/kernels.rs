//! Names of the kernels that a registrar would register: those in its unit's relocatable code, which final images keep.

use std::collections::{BTreeMap, BTreeSet};

use super::Image;
use crate::mapped_file::MappedFile;
use crate::object::fatbin::{self, Kind};
use crate::object::symbols::Class;
use crate::object::{Id, cubin, ptx};

/// Kernels by unit. A unit whose code can't be told apart or read is not in it.
pub fn of_image(image: &Image) -> BTreeMap<Id, BTreeSet<Vec<u8>>> {
    read(image).unwrap_or_default()
}

fn read(image: &Image) -> Option<BTreeMap<Id, BTreeSet<Vec<u8>>>> {
    let map = MappedFile::open(&image.path).ok()?;
    let range = image.device_code.clone()?;
    let section = map.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)?;
    let containers: Vec<_> = fatbin::containers(section).collect::<Result<_, _>>().ok()?;
    // Linkers lay out ids and containers in the order of their objects. With fewer or more of one kind (an object without an
    // id, sections that were dropped) nothing says which belongs to which.
    if containers.len() != image.present.len() {
        return None;
    }
    let mut kernels: BTreeMap<Id, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for (container, id) in containers.into_iter().zip(&image.present) {
        let mut names = BTreeSet::new();
        let mut readable = false;
        fatbin::images_of(container, &mut |image| {
            let mut add = |symbol: crate::object::symbols::Symbol<'_>| {
                if symbol.class == Class::Kernel && symbol.defined {
                    names.insert(symbol.name.to_vec());
                }
            };
            let read = match (image.kind, image.bytes) {
                (Kind::Elf, Some(bytes)) => cubin::symbols(bytes, &mut add),
                (Kind::Ptx, Some(bytes)) => ptx::symbols(bytes, &mut add),
                _ => None,
            };
            readable |= read.is_some();
        });
        if readable {
            kernels.entry(id.clone()).or_default().extend(names);
        }
    }
    Some(kernels)
}
