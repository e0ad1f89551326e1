//! Adding one line to a file that many processes add to at the same time.
//!
//! One write(2) on a file opened with O_APPEND lands at the end in one piece on Linux's local file systems, whatever its
//! length (the inode is locked for the whole call; PIPE_BUF is about pipes). What can still happen is that a line is cut: no
//! space left, or SIGKILL between two of its pages. So each writer takes a lock, undoes what it could not finish, and starts
//! a new line where a killed one left its own open. The lock also serves NFS, where O_APPEND alone loses writes.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::process::Resource;

/// A writer needs well under a millisecond; whoever holds the lock longer is stopped, or none of ours.
const PATIENCE: Duration = Duration::from_millis(500);

/// Adds `line`, which holds no line end, to the file; makes the file if there is none.
pub fn line(path: &Path, line: &[u8]) -> Result<()> {
    // Opening a pipe could wait forever, and opening a device could do anything.
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(Error::new(ErrorKind::InvalidInput, "not a regular file")),
        _ => {}
    }
    let mut file = File::options().read(true).append(true).create(true).open(path)?;
    let locked = lock(&file);
    let before = file.metadata()?.len();
    let mut last = [b'\n'];
    if before > 0 {
        file.read_exact_at(&mut last, before - 1)?;
    }
    let mut text = Vec::with_capacity(line.len() + 2);
    if last != *b"\n" {
        text.push(b'\n');
    }
    text.extend_from_slice(line);
    text.push(b'\n');
    // Beyond `ulimit -f` the kernel answers with SIGXFSZ, which would end the build's command.
    if rustix::process::getrlimit(Resource::Fsize).current.is_some_and(|limit| before.saturating_add(text.len() as u64) > limit) {
        return Err(Error::new(ErrorKind::FileTooLarge, "the file-size limit (ulimit -f) is reached"));
    }
    let written = loop {
        match file.write(&text) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    match written {
        Ok(count) if count == text.len() => Ok(()),
        cut => {
            if locked {
                let _ = file.set_len(before);
            }
            Err(cut.err().unwrap_or_else(|| ErrorKind::StorageFull.into()))
        }
    }
}

/// Takes the lock, which ends with the file. Without it (no lock service, a holder that does not let go) the write is still
/// one append.
fn lock(file: &File) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_micros(50);
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return true,
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if start.elapsed() < PATIENCE => std::thread::sleep(pause),
            Err(_) => return false,
        }
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}
