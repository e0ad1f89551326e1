//! Device symbols of a cubin (ELF, machine 190). Symbol kinds were checked against cuobjdump 13.5.37.

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, Sym};

use super::host::EM_CUDA;
use super::symbols::{Class, DeviceSymbols, Symbol};

const STT_CUDA_OBJECT: u8 = 13;
/// In `st_other`: the function is a kernel.
const ENTRY: u8 = 0x10;
/// High three bits of `st_other`: the address space.
const SPACE: u8 = 0xe0;
const SPACE_GLOBAL: u8 = 0x20;
const SPACE_SHARED: u8 = 0x40;
const SPACE_CONSTANT: u8 = 0x80;

/// Calls `visit` with every named symbol; `None` when it is no readable cubin, after what could be read.
pub fn symbols(data: &[u8], visit: &mut dyn FnMut(Symbol<'_>)) -> Option<()> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine.get(endian).0 != EM_CUDA {
        return None;
    }
    let sections = header.sections(endian, data).ok()?;
    let table = sections.symbols(endian, data, object::elf::SHT_SYMTAB).ok()?;
    for symbol in table.iter() {
        let name = symbol.name(endian, table.strings()).ok()?;
        let (kind, other) = (symbol.st_type().0, symbol.st_other().0);
        // Section symbols and file names are of the assembler, not of the source.
        if name.is_empty() || matches!(kind, 3 | 4) {
            continue;
        }
        let space = other & SPACE;
        let class = match kind {
            2 if other & ENTRY != 0 => Class::Kernel,
            2 => Class::Function,
            // Layout of parameters, not a variable of the source.
            STT_CUDA_OBJECT if symbol.st_visibility() == object::elf::STV_INTERNAL || space == 0 => Class::Other,
            STT_CUDA_OBJECT if space == SPACE_SHARED => Class::Shared,
            STT_CUDA_OBJECT | 1 if matches!(space, SPACE_GLOBAL | SPACE_CONSTANT) => Class::Variable,
            STT_CUDA_OBJECT => Class::Variable,
            // The variables of an executable cubin are plain objects.
            1 => Class::Variable,
            10..=12 => Class::Texture,
            _ => Class::Other,
        };
        let weak = symbol.st_bind() == object::elf::STB_WEAK;
        visit(Symbol { name, class, defined: !symbol.is_undefined(endian), local: symbol.is_local(), weak });
    }
    Some(())
}

/// Adds the symbols of `data` that other units can refer to, or that it needs, to `into`; `None` when it is no readable cubin.
pub fn read(data: &[u8], into: &mut DeviceSymbols) -> Option<()> {
    symbols(data, &mut |symbol| {
        if symbol.local {
            return;
        }
        if symbol.defined {
            into.define(symbol.name);
            if symbol.class == Class::Variable && !symbol.name.starts_with(b".nv") {
                into.variable(symbol.name);
            }
        } else if symbol.is_need() {
            into.need(symbol.name);
        }
    })
}
