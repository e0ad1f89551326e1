//! The process as its caller made it, passed on as it was.
//!
//! Before a `main` of its own, Rust's runtime ignores SIGPIPE, opens /dev/null for closed standard descriptors and reads its
//! memory map for the end of the stack; what it runs gets SIGPIPE at its default, even where the caller ignores it. nvcc would
//! see the descriptors and the signal, and every compilation would pay for the rest (0.15 ms of 0.9, Rust 1.95). So `main.rs` has the C library's `main`,
//! and does here what of that is wanted.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// What we change: nothing that is written must end the process before nvcc has run, and nvcc's end can't be learned where
/// SIGCHLD is ignored.
const OURS: [(c_int, libc::sighandler_t); 2] = [(libc::SIGPIPE, libc::SIG_IGN), (libc::SIGCHLD, libc::SIG_DFL)];
/// Which of these the caller ignores.
static IGNORED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// Makes the process fit for work and returns its words.
///
/// # Safety
/// `count` and `words` must be what the C library gives to `main`.
#[allow(unsafe_code)]
pub unsafe fn start(count: c_int, words: *const *const c_char) -> Vec<OsString> {
    // SAFETY: nothing else runs yet; a disposition without a handler has no further conditions.
    unsafe {
        for ((signal, disposition), ignored) in OURS.iter().zip(&IGNORED) {
            ignored.store(libc::signal(*signal, *disposition) == libc::SIG_IGN, Ordering::Relaxed);
        }
        // A file that is opened must not become the standard error. What is put there is closed again in what we run.
        for descriptor in 0..=2 {
            if libc::fcntl(descriptor, libc::F_GETFD) == -1 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            }
        }
    }
    let word = |at: usize| {
        // SAFETY: by this function's condition there are `count` pointers to strings that stay.
        let word = unsafe { CStr::from_ptr(*words.add(at)) };
        OsStr::from_bytes(word.to_bytes()).to_owned()
    };
    (0..usize::try_from(count).unwrap_or(0)).map(word).collect()
}

/// Ends the process with what `work` returns, or as Rust's runtime would after a panic.
pub fn end(work: impl FnOnce() -> u8) -> ! {
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    std::process::exit(code.map_or(101, c_int::from))
}

/// Lets what `command` runs find the signals as we did.
#[allow(unsafe_code)]
pub fn pass_on(command: &mut Command) {
    let ignored = || OURS.iter().zip(&IGNORED).filter(|(_, ignored)| ignored.load(Ordering::Relaxed)).map(|((signal, _), _)| *signal);
    if ignored().next().is_some() {
        // SAFETY: what runs between fork and exec are calls that are safe there. Where nothing is ignored there is nothing to do:
        // the standard library sets SIGPIPE's default by itself.
        unsafe {
            command.pre_exec(move || {
                for signal in ignored() {
                    libc::signal(signal, libc::SIG_IGN);
                }
                Ok(())
            });
        }
    }
}
