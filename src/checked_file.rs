//! Files read piece by piece, so that what happens to them meanwhile is an error like any other.
//!
//! A parallel build may truncate or replace a library while a link looks at it. Under a memory map that is SIGBUS, and an
//! address-space limit (`ulimit -v`) refuses the map of a large archive; a read that falls short is just a reason to leave the
//! file alone. Little of a file is ever wanted (headers, symbols, ids), so pages of it are read as they are asked for.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;

use object::read::{ReadCache, ReadCacheOps, ReadRef};

/// What is read at a time where less is asked for.
const PAGE: u64 = 4096;
/// A file up to this size costs less to read at once than page by page.
const SMALL: u64 = 1 << 20;
/// A table of an object (symbols, ids, names) that is larger is not believed.
const MAX_TABLE: u64 = 256 << 20;
/// The device code of one object; see also what a fatbin entry may say of itself.
const MAX_CODE: u64 = 2 << 30;

/// The bytes of a file, of a part of one, or of memory.
///
/// What was read stays in memory until the value goes, so an archive's members each get a [`Bytes::part`] of their own.
pub struct Bytes<'a>(Kind<'a>);

enum Kind<'a> {
    Memory(&'a [u8]),
    /// A file that was read at once.
    Small {
        bytes: Rc<Vec<u8>>,
        range: Range<usize>,
    },
    File {
        file: Rc<File>,
        range: Range<u64>,
        cache: ReadCache<Window>,
    },
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Kind::Memory(bytes))
    }
}

impl<'a> Bytes<'a> {
    /// Opens a regular file. Directories, pipes and devices are an error: reading them could block or take what belongs to
    /// nvcc.
    pub fn open(path: &Path) -> Result<Self> {
        let regular = |is: bool| if is { Ok(()) } else { Err(Error::new(ErrorKind::InvalidInput, "not a regular file")) };
        // The kind is asked before opening, since that alone does something to some devices, and again of what was opened.
        regular(std::fs::metadata(path)?.is_file())?;
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
        let metadata = file.metadata()?;
        regular(metadata.is_file())?;
        if metadata.len() <= SMALL {
            let mut bytes = vec![0; metadata.len() as usize];
            file.read_exact_at(&mut bytes, 0)?;
            return Ok(Self(Kind::Small { range: 0..bytes.len(), bytes: bytes.into() }));
        }
        Ok(Self::of_file(Rc::new(file), 0..metadata.len()))
    }

    fn of_file(file: Rc<File>, range: Range<u64>) -> Self {
        let cache = ReadCache::new(Window { file: file.clone(), range: range.clone(), at: 0 });
        Self(Kind::File { file, range, cache })
    }

    /// How many there are (or were, when the file was opened).
    pub fn len(&self) -> u64 {
        match &self.0 {
            Kind::Memory(bytes) => bytes.len() as u64,
            Kind::Small { range, .. } => range.len() as u64,
            Kind::File { range, .. } => range.end - range.start,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A range of these bytes; `None` if it lies outside of them.
    pub fn part(&self, part: Range<u64>) -> Option<Bytes<'a>> {
        if part.start > part.end || part.end > self.len() {
            return None;
        }
        match &self.0 {
            Kind::Memory(bytes) => bytes.get(usize::try_from(part.start).ok()?..usize::try_from(part.end).ok()?).map(Bytes::from),
            Kind::Small { bytes, range } => {
                let range = range.start + usize::try_from(part.start).ok()?..range.start + usize::try_from(part.end).ok()?;
                Some(Self(Kind::Small { bytes: bytes.clone(), range }))
            }
            Kind::File { file, range, .. } => Some(Self::of_file(file.clone(), range.start + part.start..range.start + part.end)),
        }
    }

    /// Reads a range whole; `None` if it is not there, or more than any build's device code.
    pub fn read(&self, part: Range<u64>) -> Option<Cow<'a, [u8]>> {
        let part = self.part(part).filter(|p| p.len() <= MAX_CODE)?;
        match part.0 {
            Kind::Memory(bytes) => Some(bytes.into()),
            Kind::Small { bytes, range } => Some(bytes[range].to_vec().into()),
            Kind::File { file, range, .. } => {
                let size = usize::try_from(range.end - range.start).ok()?;
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(size).ok()?;
                bytes.resize(size, 0);
                file.read_exact_at(&mut bytes, range.start).ok()?;
                Some(bytes.into())
            }
        }
    }

    /// Whether they begin with `magic`.
    pub fn starts_with(&self, magic: &[u8]) -> bool {
        self.read_bytes_at(0, magic.len() as u64).is_ok_and(|b| b == magic)
    }
}

type Pieces<T> = std::result::Result<T, ()>;

impl<'b> ReadRef<'b> for &'b Bytes<'_> {
    fn len(self) -> Pieces<u64> {
        Ok(self.len())
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Pieces<&'b [u8]> {
        let cache = match &self.0 {
            Kind::Memory(bytes) => return bytes.read_bytes_at(offset, size),
            Kind::Small { bytes, range } => return bytes[range.clone()].read_bytes_at(offset, size),
            Kind::File { cache, .. } => cache,
        };
        if size == 0 {
            return Ok(&[]);
        }
        let end = offset.checked_add(size).filter(|&end| end <= self.len()).ok_or(())?;
        let page = offset / PAGE * PAGE;
        if end - page <= PAGE {
            let bytes = cache.read_bytes_at(page, PAGE.min(self.len() - page))?;
            return bytes.get((offset - page) as usize..(end - page) as usize).ok_or(());
        }
        if size > MAX_TABLE { Err(()) } else { cache.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Pieces<&'b [u8]> {
        match &self.0 {
            Kind::Memory(bytes) => return bytes.read_bytes_at_until(range, delimiter),
            Kind::Small { bytes, range: own } => return bytes[own.clone()].read_bytes_at_until(range, delimiter),
            Kind::File { .. } => {}
        }
        let mut at = range.start;
        while at < range.end {
            let page = ((at / PAGE + 1) * PAGE).min(range.end);
            if let Some(found) = self.read_bytes_at(at, page - at)?.iter().position(|&b| b == delimiter) {
                return self.read_bytes_at(range.start, at + found as u64 - range.start);
            }
            at = page;
        }
        Err(())
    }
}

/// A range of a file, for the cache: positioned reads, which leave the descriptor's own position alone.
struct Window {
    file: Rc<File>,
    range: Range<u64>,
    at: u64,
}

impl ReadCacheOps for Window {
    fn len(&mut self) -> Pieces<u64> {
        Ok(self.range.end - self.range.start)
    }

    fn seek(&mut self, position: u64) -> Pieces<u64> {
        self.at = position;
        Ok(position)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Pieces<usize> {
        self.file.read_at(buffer, self.range.start + self.at).map_err(drop)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Pieces<()> {
        self.file.read_exact_at(buffer, self.range.start + self.at).map_err(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The same questions to a file and to memory.
    #[test]
    fn a_file_answers_as_its_bytes_in_memory_do() {
        let data: Vec<u8> = (0..20_000u32).map(|i| if i % 5000 == 4999 { 0 } else { (i % 250) as u8 + 1 }).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&data).unwrap();
        let (small, memory) = (Bytes::open(file.path()).unwrap(), Bytes::from(&data[..]));
        assert!(matches!(small.0, Kind::Small { .. }));
        let large = Bytes::of_file(Rc::new(File::open(file.path()).unwrap()), 0..data.len() as u64);
        for file in [small, large] {
            the_same(&file, &memory);
        }
    }

    fn the_same(file: &Bytes<'_>, memory: &Bytes<'_>) {
        let parts = [(0, 20_000), (1, 19_999), (4095, 4098), (8000, 8000), (19_999, 20_000)];
        for (start, end) in parts {
            let (file, memory) = (file.part(start..end).unwrap(), memory.part(start..end).unwrap());
            assert_eq!(file.len(), memory.len());
            assert_eq!(file.read(0..file.len()), memory.read(0..memory.len()));
            for offset in [0, 1, 2, 100, 4094, 4095, 4096, 4097, 8191, 12_288, 19_999, 20_000, u64::MAX] {
                for size in [0, 1, 2, 4095, 4096, 4097, 12_000, 20_000, u64::MAX] {
                    // Memory answers nothing for nothing even out of bounds, and so does a file.
                    assert_eq!((&file).read_bytes_at(offset, size), (&memory).read_bytes_at(offset, size), "{start} {offset} {size}");
                }
                let until = |b: &Bytes<'_>| b.read_bytes_at_until(offset..b.len(), 0).map(<[u8]>::to_vec);
                assert_eq!(until(&file), until(&memory), "{start} {offset}");
            }
        }
        assert!(file.part(0..20_001).is_none() && memory.part(0..20_001).is_none());
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_read_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let long = SMALL + 3 * PAGE;
        file.as_file().set_len(long).unwrap();
        let bytes = Bytes::open(file.path()).unwrap();
        assert!(bytes.starts_with(&[0, 0]));
        file.as_file().set_len(PAGE + 1).unwrap();
        assert!(bytes.starts_with(&[0, 0]), "what was read stays");
        assert_eq!((&bytes).read_bytes_at(2 * PAGE, 1), Err(()));
        assert_eq!(bytes.read_bytes_at_until(PAGE..long, 1), Err(()));
        assert_eq!(bytes.read(0..long), None);
    }

    #[test]
    fn a_table_as_large_as_a_sparse_file_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        let bytes = Bytes::open(file.path()).unwrap();
        assert_eq!((&bytes).read_bytes_at(1, MAX_TABLE + 1), Err(()));
        assert_eq!(bytes.read(0..1 << 40), None);
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [directory.path(), &pipe, Path::new("/dev/null")] {
            assert_eq!(Bytes::open(path).err().map(|e| e.kind()), Some(ErrorKind::InvalidInput), "{}", path.display());
        }
    }
}
