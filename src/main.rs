//! The program; everything is in the library.
#![no_main]

use std::ffi::{c_char, c_int};

/// What the C library calls; [`dlink_shim::process`] says why Rust's runtime does not come first.
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    // SAFETY: they are passed on as the C library gives them.
    let words = unsafe { dlink_shim::process::start(count, words) };
    dlink_shim::process::end(|| dlink_shim::run(words, dlink_shim::Env::from_process()))
}
