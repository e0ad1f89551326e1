//! Device symbols of a cubin (ELF, machine 190). Symbol kinds were checked against cuobjdump 13.5.37.

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, Sym};

use super::symbols::DeviceSymbols;

const STT_CUDA_OBJECT: u8 = 13;
/// High three bits of `st_other`: the address space.
const SPACE: u8 = 0xe0;
const SPACE_GLOBAL: u8 = 0x20;
const SPACE_SHARED: u8 = 0x40;
const SPACE_CONSTANT: u8 = 0x80;

/// Adds the symbols of `data` to `into`; `None` when it is no readable cubin.
pub fn read(data: &[u8], into: &mut DeviceSymbols) -> Option<()> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let table = sections.symbols(endian, data, object::elf::SHT_SYMTAB).ok()?;
    for symbol in table.iter() {
        if symbol.st_bind() == object::elf::STB_LOCAL {
            continue;
        }
        let name = symbol.name(endian, table.strings()).ok()?;
        if name.is_empty() {
            continue;
        }
        let kind = symbol.st_type().0;
        let space = symbol.st_other().0 & SPACE;
        let variable = kind == STT_CUDA_OBJECT || (kind == object::elf::STT_OBJECT.0 && space != 0);
        if symbol.is_undefined(endian) {
            // `extern __shared__` is laid out at launch; textures, samplers and surfaces show as undefined where defined.
            let shared = variable && space == SPACE_SHARED;
            if !shared && !matches!(kind, 10..=12) && symbol.st_bind() != object::elf::STB_WEAK {
                into.need(name);
            }
        } else {
            into.define(name);
            if variable && matches!(space, SPACE_GLOBAL | SPACE_CONSTANT) && !name.starts_with(b".nv") {
                into.variable(name);
            }
        }
    }
    Some(())
}
