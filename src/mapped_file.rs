//! Files as memory: the only unsafe code of the program.
//!
//! For our own commands, which look at finished files as a whole. What the wrapper looks at on nvcc's way is read by
//! [`crate::checked_file`], since a file that is truncated under a map ends the process.

use std::ops::Deref;
use std::path::Path;

/// The bytes of a file.
pub enum MappedFile {
    /// A mapping; never of an empty file.
    Map(memmap2::Mmap),
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
        let file = std::fs::File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self::Empty);
        }
        // SAFETY: the bytes are only ever read, through bounds-checked parsers that copy what they keep. The one
        // assumption is that nobody truncates the file meanwhile; a build that rewrites a library while it is being
        // linked is broken with or without this program.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self::Map(map))
    }

    /// Says that single pages will be touched far apart, so that the system does not map their neighbours too.
    pub fn sparse(&self) {
        if let Self::Map(map) = self {
            // Only advice: without it the same pages are read.
            let _ = map.advise(memmap2::Advice::Random);
        }
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Map(map) => map,
            Self::Empty => &[],
        }
    }
}
