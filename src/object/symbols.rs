//! The device symbols of a unit, over all its images.

use std::collections::BTreeSet;

use super::fatbin::{self, Kind};
use super::{cubin, ptx};

/// What a device symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// `__global__`.
    Kernel,
    /// `__device__` code.
    Function,
    /// Global or constant memory.
    Variable,
    /// Shared memory, laid out at launch.
    Shared,
    /// A texture, sampler or surface: shows as undefined where it is defined.
    Texture,
    /// Anything else.
    Other,
}

/// A symbol of one image.
#[derive(Clone, Copy, Debug)]
pub struct Symbol<'a> {
    /// Its mangled name.
    pub name: &'a [u8],
    /// What it is.
    pub class: Class,
    /// This image has it.
    pub defined: bool,
    /// Other units can't refer to it.
    pub local: bool,
    /// It may be missing, or another one may take its place.
    pub weak: bool,
}

impl Symbol<'_> {
    /// Whether another unit must define it (or the driver: see [`is_of_driver`]).
    pub fn is_need(&self) -> bool {
        // `extern __shared__` is laid out at launch; textures, samplers and surfaces show as undefined where defined.
        !self.defined && !self.local && !self.weak && !matches!(self.class, Class::Shared | Class::Texture)
    }
}

/// Whether nvlink leaves an undefined name to the driver.
pub fn is_of_driver(name: &[u8]) -> bool {
    DRIVER.contains(&name)
        || name.starts_with(b"__cuda_syscall_")
        || name.starts_with(b".nv.reservedSmem.")
        || name.strip_prefix(b"cnp").is_some_and(|n| DRIVER_CNP.contains(&n))
}

/// What a unit needs and gives, as the union over its architectures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSymbols {
    /// Undefined names that another unit must define.
    pub needs: BTreeSet<Vec<u8>>,
    /// Names that other units can refer to.
    pub defines: BTreeSet<Vec<u8>>,
    /// Those of `defines` that are variables (global or constant memory): a second image has its own copies.
    pub variables: BTreeSet<Vec<u8>>,
    /// Some code could not be read (LTO-IR only, or a broken or unknown entry): the sets may lack names.
    pub opaque: bool,
}

/// Names that nvlink leaves to the driver (tried one by one with nvlink 13.0.88 and 13.5.37).
const DRIVER: &[&[u8]] = &[b"__assertfail", b"free", b"malloc", b"vprintf"];
/// After `cnp`; an invented `cnp…` name is not resolved.
const DRIVER_CNP: &[&[u8]] = &[
    b"DeviceGetAttribute",
    b"EventCreate",
    b"EventDestroy",
    b"EventRecord",
    b"FuncGetAttribute",
    b"GetCacheConfig",
    b"GetDevice",
    b"GetDeviceCount",
    b"GetLastError",
    b"GetLimit",
    b"GetParameterBuffer",
    b"GetParameterBufferV2",
    b"GetSharedMemConfig",
    b"LaunchDevice",
    b"LaunchDeviceV2",
    b"SetLastError",
    b"StreamCreate",
    b"StreamDestroy",
    b"StreamWaitEvent",
];

impl DeviceSymbols {
    /// Of code that could not even be found.
    pub fn unreadable() -> Self {
        Self { opaque: true, ..Self::default() }
    }

    pub(super) fn need(&mut self, name: &[u8]) {
        if !is_of_driver(name) {
            self.needs.insert(name.to_vec());
        }
    }

    pub(super) fn define(&mut self, name: &[u8]) {
        self.defines.insert(name.to_vec());
    }

    pub(super) fn variable(&mut self, name: &[u8]) {
        self.variables.insert(name.to_vec());
    }
}

/// Reads all containers of a `__nv_relfatbin` section.
pub fn of_section(section: &[u8]) -> DeviceSymbols {
    let mut symbols = DeviceSymbols::default();
    let mut named = false;
    let mut lto = false;
    let mut broken = false;
    let complete = fatbin::images(section, &mut |image| {
        let read = match (image.kind, image.bytes) {
            (Kind::LtoIr, _) => {
                lto = true;
                return;
            }
            (Kind::Elf, Some(bytes)) => cubin::read(bytes, &mut symbols),
            (Kind::Ptx, Some(bytes)) => ptx::read(bytes, &mut symbols),
            _ => None,
        };
        match read {
            Some(()) => named = true,
            None => broken = true,
        }
    });
    // LTO-IR beside PTX or a cubin of the same source has the same names.
    symbols.opaque = broken || !complete || (lto && !named);
    symbols
}
