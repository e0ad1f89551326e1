//! What keeps fatbins out of the way of 32-bit references: words for the linker in use.
//!
//! Which remedy works with which linker was measured: ld.bfd 2.40 to 2.47, gold 2.40, lld 14 to 22, mold 1.10 to 3.00, each
//! with more than 2 GiB, loaded, and its own code run before and after strip.

use std::ffi::OsString;
use std::path::Path;

/// For GNU ld and lld, given with `-T`: it adds to the default script, because of its last line.
///
/// The counter's line starts a page that holds nothing of `.bss`: without it GNU ld puts the fatbins into the writable segment,
/// writes `.bss` to disk, and every process is charged for private copies. What the line adds keeps the address equal to the file
/// offset modulo the page, so it costs a page of addresses and no byte of the file.
pub const SCRIPT: &str = "\
/* dlink-shim: CUDA device code stands behind everything that 32-bit references have to reach. For GNU ld and lld: -T THIS_FILE */
SECTIONS
{
  . = ALIGN(CONSTANT(MAXPAGESIZE)) + CONSTANT(MAXPAGESIZE) + (. & (CONSTANT(MAXPAGESIZE) - 1));
  __nv_relfatbin : { *(__nv_relfatbin) }
  .nv_fatbin : { *(.nv_fatbin) }
}
INSERT AFTER .bss;
";

/// For mold: one word, with spaces in it. The two sections of thread-local data must be named, since mold (1.10) sorts each class by
/// name: `.tbss` would end up away from `.tdata`, and thread-local data would be read at the wrong place.
pub const ORDER: &str = "--section-order=EHDR PHDR RODATA TEXT .tdata .tbss DATA BSS __nv_relfatbin .nv_fatbin";

/// For mold, behind whatever the caller says of these. Its default for segments, since with `-z separate-code` or `-z
/// noseparate-code` (1.10) the ordered device code shares a page with `.bss`, and the library crashes when it is loaded. And no
/// RELRO, as mold itself does under an order: with `-z relro` it makes several such segments, whose pages hold `.data` too.
pub const SEGMENTS: [&str; 4] = ["-z", "separate-loadable-segments", "-z", "norelro"];

/// For gold, likewise last: with large sections and RELRO gold 2.40 ends with `internal error in set_offset` at some sizes of data
/// (five links of a trial of ninety, `-z now`).
pub const NO_RELRO: [&str; 2] = ["-z", "norelro"];

/// The words that give `script` to the linker.
pub fn script_words(script: &Path) -> [OsString; 2] {
    ["-T".into(), script.into()]
}
