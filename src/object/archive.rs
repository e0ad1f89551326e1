//! Archives: GNU, thin, and with 64-bit symbol tables (`/SYM64/`), read by the `object` crate.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::read::archive::ArchiveFile;

use super::{Content, Flaw, Member, Place, SharedBytes, host};
use crate::checked_file::Bytes;

/// The members that carry device code or a stub, in order.
pub fn members(data: &Bytes<'_>, path: &Path) -> Result<Vec<Member>, Flaw> {
    let archive = ArchiveFile::parse(data).map_err(|e| Flaw::new(0, e.to_string()))?;
    let mut found = Vec::new();
    for member in archive.members() {
        let member = member.map_err(|e| Flaw::new(0, format!("a member header: {e}")))?;
        let name = member.name();
        let (offset, size) = member.file_range();
        let object = if member.is_thin() {
            let file = path.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(name));
            let bytes = Bytes::open(&file).map_err(|e| Flaw::new(0, format!("thin member {}: {e}", file.display())))?;
            let place = Place { range: 0..bytes.len(), file: Some(Box::new(file)) };
            object(&bytes, name)?.map(|m| Member { place, ..m })
        } else {
            let range = offset..offset.saturating_add(size);
            let bytes = data.part(range.clone()).ok_or_else(|| Flaw::new(offset, "the member lies outside of the file").in_member(name))?;
            let place = Place { file: None, range };
            object(&bytes, name)?.map(|m| Member { place, ..m })
        };
        found.extend(object.map(|m| Member { name: Some(name.into()), ..m }));
    }
    // Copied, since an allocator may leave a block that shrinks as large as it is (musl's does).
    let mut exact = Vec::with_capacity(found.len());
    exact.append(&mut found);
    SharedBytes::join(exact.iter_mut().flat_map(Member::strings).collect());
    Ok(exact)
}

fn object(bytes: &Bytes<'_>, name: &[u8]) -> Result<Option<Member>, Flaw> {
    if bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n") {
        return Err(Flaw::new(0, "an archive inside an archive").in_member(name));
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    match host::look(bytes).map_err(|flaw| flaw.in_member(name))? {
        Content::Object(member) if !member.units.is_empty() || !member.stubs.is_empty() => Ok(Some(member)),
        _ => Ok(None),
    }
}
