//! Code that loads the address of a unit's id.
//!
//! A registrar hands its unit's id to the stub, so the constructor of a host object loads the id's address; a device-only object
//! has the id and no code. That is the one trace left in a stripped image whose entry points are hidden.

use std::collections::BTreeSet;

use object::elf::{EM_AARCH64, EM_X86_64, Machine};

use crate::object::Id;

/// Whether code of this machine can be searched.
pub fn known(machine: Machine) -> bool {
    matches!(machine, EM_X86_64 | EM_AARCH64)
}

/// Adds to `found` the ids of `places` (address, id) whose address `code` loads, which runs at `base`.
///
/// `fixed`: the image is not position-independent, so that addresses may be plain numbers.
pub fn loads(machine: Machine, code: &[u8], base: u64, fixed: bool, places: &[(u64, Id)], found: &mut BTreeSet<Id>) {
    let (Some(low), Some(high)) = (places.iter().map(|p| p.0).min(), places.iter().map(|p| p.0).max()) else { return };
    let mut hit = |address: u64| {
        if (low..=high).contains(&address) {
            found.extend(places.iter().filter(|p| p.0 == address).map(|p| p.1.clone()));
        }
    };
    match machine {
        EM_X86_64 => {
            relative(code, base, &mut hit);
            if fixed {
                immediate(code, &mut hit);
            }
        }
        EM_AARCH64 => pages(code, base, &mut hit),
        _ => {}
    }
}

/// x86-64: `lea disp32(%rip), %r64`.
fn relative(code: &[u8], base: u64, hit: &mut dyn FnMut(u64)) {
    for at in memchr::memchr_iter(0x8d, code) {
        let rex = at.checked_sub(1).map(|p| code[p] & 0xfb);
        let (Some(0x48), Some(mode)) = (rex, code.get(at + 1)) else { continue };
        if mode & 0xc7 == 0x05
            && let Some(offset) = i32_at(code, at + 2)
        {
            hit(base.wrapping_add(at as u64 + 6).wrapping_add_signed(offset.into()));
        }
    }
}

/// x86-64 without -fPIE: `mov $imm32, %r32` (b8 to bf), and `mov $imm32, %r64` (48 c7 c0 to c7).
fn immediate(code: &[u8], hit: &mut dyn FnMut(u64)) {
    for (at, byte) in code.iter().enumerate() {
        let long = || at >= 2 && code[at - 1] == 0xc7 && code[at - 2] & 0xfe == 0x48;
        if (matches!(byte, 0xb8..=0xbf) || (matches!(byte, 0xc0..=0xc7) && long()))
            && let Some(value) = i32_at(code, at + 1)
        {
            hit(u64::from(value.cast_unsigned()));
        }
    }
}

/// aarch64: `adrp x, page` and, a few instructions on, `add _, x, #offset`.
fn pages(code: &[u8], base: u64, hit: &mut dyn FnMut(u64)) {
    const REACH: usize = 16;
    let words: Vec<u32> = code.chunks_exact(4).filter_map(|w| w.try_into().ok().map(u32::from_le_bytes)).collect();
    for (at, word) in words.iter().enumerate().filter(|(_, w)| *w & 0x9f00_0000 == 0x9000_0000) {
        let pages = (((word >> 5) & 0x7_ffff) << 2) | ((word >> 29) & 3);
        let pages = i64::from(pages << 11).wrapping_shl(32) >> 43;
        let page = (base.wrapping_add(4 * at as u64) & !0xfff).wrapping_add_signed(pages << 12);
        for add in words.iter().skip(at + 1).take(REACH) {
            if add & 0xffc0_0000 == 0x9100_0000 && (add >> 5) & 31 == word & 31 {
                hit(page.wrapping_add(u64::from((add >> 10) & 0xfff)));
            }
        }
    }
}

fn i32_at(code: &[u8], at: usize) -> Option<i32> {
    code.get(at..at.checked_add(4)?)?.try_into().ok().map(i32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(machine: Machine, code: &[u8], base: u64, fixed: bool, address: u64) -> bool {
        let mut found = BTreeSet::new();
        loads(machine, code, base, fixed, &[(address, "_id".into()), (address + 64, "_other".into())], &mut found);
        assert!(!found.contains(&b"_other"[..]));
        found.contains(&b"_id"[..])
    }

    #[test]
    fn x86_code_that_loads_an_id_is_found() {
        // lea 0x10(%rip), %rdx at 0x1000: ends at 0x1007.
        let lea = [0x48, 0x8d, 0x15, 0x10, 0, 0, 0];
        assert!(seen(EM_X86_64, &lea, 0x1000, false, 0x1017));
        assert!(!seen(EM_X86_64, &lea, 0x1000, false, 0x1018));
        assert!(!seen(EM_X86_64, &lea[..6], 0x1000, false, 0x1017));
        // mov $0x402010, %edx
        let mov = [0xba, 0x10, 0x20, 0x40, 0];
        assert!(seen(EM_X86_64, &mov, 0x1000, true, 0x40_2010));
        assert!(!seen(EM_X86_64, &mov, 0x1000, false, 0x40_2010));
    }

    #[test]
    fn aarch64_code_that_loads_an_id_is_found() {
        // adrp x2, +0x10 pages; nop; add x2, x2, #0x123, at 0x400000. And the same, 16 pages back.
        let code = |adrp: u32| [adrp, 0xd503_201f, 0x9100_0000 | 0x123 << 10 | 2 << 5 | 2].map(u32::to_le_bytes).concat();
        assert!(seen(EM_AARCH64, &code(0x9000_0082), 0x40_0000, false, 0x41_0123));
        assert!(seen(EM_AARCH64, &code(0x90ff_ff82), 0x40_0000, false, 0x3f_0123));
        assert!(!seen(EM_AARCH64, &code(0x9000_0083), 0x40_0000, false, 0x41_0123));
    }
}
