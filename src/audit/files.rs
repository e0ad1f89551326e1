//! From paths to images: directories are walked, files that are no finished image are passed over, and each file is read once.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::image::{self, Image, Looked};
use crate::Error;
use crate::mapped_file::MappedFile;

/// What was found.
#[derive(Debug, Default)]
pub struct Seen {
    /// Finished images, in the order in which they were named.
    pub images: Vec<Image>,
    /// How many files were looked at.
    pub files: usize,
    /// What could not be looked at, one line each.
    pub failures: Vec<String>,
}

/// Called with the number of files done and of all.
pub type Progress<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Looks at files and, below directories, at every file.
pub fn look(paths: &[PathBuf], progress: &Progress<'_>) -> Seen {
    let mut seen = Seen::default();
    let mut files = Vec::new();
    let mut known = HashSet::new();
    for path in paths {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => walk(path, &mut known, &mut files, &mut seen.failures),
            Ok(meta) if known.insert((meta.dev(), meta.ino())) => files.push((path.clone(), true)),
            Ok(_) => {}
            Err(source) => seen.failures.push(Error::Read { path: path.clone(), source }.to_string()),
        }
    }
    seen.files = files.len();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(files.len().max(1));
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((path, named)) = files.get(next.fetch_add(1, Ordering::Relaxed)).map(|(p, n)| (p, *n)) {
                    let result = file(path, named);
                    if !matches!(result, Ok(None))
                        && let Ok(mut results) = results.lock()
                    {
                        results.push((path, result));
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, files.len());
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    let place: std::collections::HashMap<&Path, usize> = files.iter().enumerate().map(|(i, (p, _))| (p.as_path(), i)).collect();
    results.sort_by_key(|(path, _)| place.get(path.as_path()));
    for (path, result) in results {
        match result {
            Ok(Some(image)) => {
                seen.failures.extend(image.flaws.iter().map(|flaw| format!("{}: {flaw}", path.display())));
                seen.images.push(image);
            }
            Ok(None) => {}
            Err(error) => seen.failures.push(error.to_string()),
        }
    }
    seen
}

/// Whether two files hold the same image: by the linker's build id, or byte for byte where there is none.
pub(super) fn are_copies(a: &Image, b: &Image) -> bool {
    if a.name() != b.name() || a.stubs != b.stubs || a.present != b.present {
        return false;
    }
    match (&a.build_id, &b.build_id) {
        (Some(a), Some(b)) => a == b,
        (None, None) => matches!((MappedFile::open(&a.path), MappedFile::open(&b.path)), (Ok(a), Ok(b)) if *a == *b),
        _ => false,
    }
}

fn file(path: &Path, named: bool) -> Result<Option<Image>, Error> {
    let map = MappedFile::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    match image::read(&map, path).map_err(|flaw| flaw.at(path))? {
        Looked::Other if named => {
            let source = std::io::Error::other("no shared library or executable of a CUDA host (inspect shows other files)");
            Err(Error::Read { path: path.to_owned(), source })
        }
        Looked::Other => Ok(None),
        Looked::Image(image) => Ok(Some(*image)),
    }
}

/// Regular files below `top`, sorted; symbolic links to files count as the file, those to directories are not followed.
fn walk(top: &Path, known: &mut HashSet<(u64, u64)>, files: &mut Vec<(PathBuf, bool)>, failures: &mut Vec<String>) {
    let mut pending = vec![top.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(source) => {
                failures.push(Error::Read { path: directory, source }.to_string());
                continue;
            }
        };
        let mut entries: Vec<_> = entries.filter_map(|e| e.ok().map(|e| (e.path(), e.file_type()))).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let mut below = Vec::new();
        for (path, kind) in entries {
            match kind {
                Ok(kind) if kind.is_dir() => below.push(path),
                Ok(kind) if kind.is_file() || kind.is_symlink() => {
                    // A link that leads nowhere is nobody's library.
                    let Ok(meta) = std::fs::metadata(&path) else { continue };
                    // A shorter file has no room for an ELF header.
                    if meta.is_file() && meta.len() >= 64 && known.insert((meta.dev(), meta.ino())) {
                        files.push((path, false));
                    }
                }
                _ => {}
            }
        }
        pending.extend(below.into_iter().rev());
    }
}
