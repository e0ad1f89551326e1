//! For gold, which reads no such script: copies of the inputs whose fatbin sections carry the flag of large sections.
//!
//! gold lays sections with `SHF_X86_64_LARGE` out last, in a read-only segment of their own. It makes another output section
//! for sections without the flag, so every input that holds a fatbin needs it: one flagged object is not enough (gold 2.40).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::weight::{self, LINKED, RELOCATABLE};
use crate::Error;
use crate::mapped_file::MappedFile;

/// `SHF_X86_64_LARGE` of the x86-64 psABI.
const LARGE: u64 = 0x1000_0000;
/// Where `sh_flags` stands in a section header of ELF64.
const FLAGS: u64 = 8;

/// The places in a file where flags must change, with the new flags; `None` when the file can't be copied that way (members of
/// a thin archive are other files).
pub fn flags(data: &[u8], path: &Path) -> Option<Vec<(u64, u64)>> {
    let mut changes = Vec::new();
    let mut thin = false;
    weight::each_object(data, path, &mut |object, at| {
        for section in object.sections.iter().filter(|s| s.name == LINKED || s.name == RELOCATABLE) {
            match at {
                Some(at) => changes.push((at + section.header + FLAGS, section.flags | LARGE)),
                None => thin = true,
            }
        }
    });
    (!thin).then_some(changes)
}

/// Writes a copy of `path` with the flags set; `Ok(None)` where there is nothing to set.
pub fn flagged(path: &Path, copy: PathBuf) -> Result<Option<PathBuf>, Error> {
    let Ok(map) = MappedFile::open(path) else { return Ok(None) };
    let changes = flags(&map, path)
        .ok_or_else(|| Error::Usage(format!("gold can't be given a changed copy of {}, a thin archive", path.display())))?;
    if changes.is_empty() {
        return Ok(None);
    }
    let failed = Error::Temporary;
    if let Some(directory) = copy.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut from = File::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let mut to = File::create(&copy).map_err(failed)?;
    std::io::copy(&mut from, &mut to).map_err(failed)?;
    for (at, flags) in changes {
        to.write_all_at(&flags.to_le_bytes(), at).map_err(failed)?;
    }
    Ok(Some(copy))
}
