//! Files as memory.
//!
//! For our own commands, which look at finished files as a whole. What the wrapper looks at on nvcc's way is read by
//! [`crate::checked_file`], since a file that is truncated under a map ends the process.

use std::fs::File;
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::span::Pieces;

/// Linux maps this much around what is touched (`fault_around_bytes`).
const NEAR: usize = 64 << 10;

/// The bytes of a file.
pub enum MappedFile {
    /// A mapping; never of an empty file.
    Map(memmap2::Mmap, File),
    /// An empty file.
    Empty,
}

impl MappedFile {
    /// Maps a regular file. Directories, pipes and devices are an error: reading them could block or take what
    /// belongs to nvcc.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        // The kind is asked before opening, since opening a pipe without a writer blocks.
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let quiet = rustix::fs::OFlags::NOATIME.bits().cast_signed();
        let file = File::options().read(true).custom_flags(quiet).open(path).or_else(|_| File::open(path))?;
        if file.metadata()?.len() == 0 {
            return Ok(Self::Empty);
        }
        // SAFETY: the bytes are only ever read, through bounds-checked parsers that copy what they keep. The one
        // assumption is that nobody truncates the file meanwhile; a build that rewrites a library while it is being
        // linked is broken with or without this program.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self::Map(map, file))
    }

    /// A way to small pieces that lie far apart; none into a file that is as small as what the system maps at once.
    pub fn pieces(&self) -> Option<Pieces<'_>> {
        match self {
            Self::Map(map, file) if map.len() > NEAR => Some(Pieces::of(file)),
            _ => None,
        }
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Map(map, _) => map,
            Self::Empty => &[],
        }
    }
}
