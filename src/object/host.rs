//! Host objects and shared objects: which units they hold and for which they carry a stub.
//!
//! The facts (sections, strings, symbols per kind of file) were read off files of nvcc 11.8 to 13.5 and clang 19.

use std::collections::HashSet;

use object::elf::{self, FileHeader64, SectionHeader64};
use object::read::ReadRef;
use object::read::elf::{ElfFile64, FileHeader, SectionHeader, SectionTable, Sym, SymbolTable};
use object::{Endianness, Object, ObjectSymbol};

use super::{Content, Flaw, Id, Member, SharedBytes, Unit};
use crate::checked_file::Bytes;

/// The entry point that a stub defines and a registrar calls, less the id.
pub const REGISTER: &[u8] = b"__cudaRegisterLinkedBinary";
/// The wrapper record that a unit defines and a stub refers to, less the id.
pub const WRAPPER: &[u8] = b"__fatbinwrap";
const IDS: &str = "__nv_module_id";
const RELOCATABLE_CODE: &str = "__nv_relfatbin";
const SEGMENT: &str = ".nvFatBinSegment";
/// Machine number of CUDA device code.
pub const EM_CUDA: u16 = 190;

/// What matters of a shared object.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Ids for which it holds a stub (`def <id>`); survives strip and hidden symbols.
    pub stubs: Vec<Id>,
    /// Ids of units whose relocatable objects were linked in.
    pub units: Vec<Id>,
    /// The ids whose registering entry point other images can call.
    pub exported: HashSet<Id>,
}

fn flaw(error: object::Error) -> Flaw {
    Flaw::new(0, error.to_string())
}

/// Tells relocatable objects, shared objects and cubins apart and reads the first two.
pub fn content(data: &[u8]) -> Result<Content, Flaw> {
    look(&data.into())
}

/// An ELF file of which nothing but the section table was read.
struct Elf<'d> {
    data: &'d Bytes<'d>,
    endian: Endianness,
    sections: SectionTable<'d, FileHeader64<Endianness>, &'d Bytes<'d>>,
}

type Symbols<'d> = SymbolTable<'d, FileHeader64<Endianness>, &'d Bytes<'d>>;

impl<'d> Elf<'d> {
    fn bytes(&self, section: &SectionHeader64<Endianness>) -> Result<&'d [u8], Flaw> {
        section.data(self.endian, self.data).map_err(flaw)
    }

    fn symbols(&self, kind: elf::SectionType) -> Result<Symbols<'d>, Flaw> {
        self.sections.symbols(self.endian, self.data, kind).map_err(flaw)
    }
}

/// The same for bytes that may still be in their file.
pub(super) fn look(data: &Bytes<'_>) -> Result<Content, Flaw> {
    // 32-bit or big-endian files are none that CUDA 11 or later makes.
    if data.read_bytes_at(4, 2) != Ok(&[2, 1]) {
        return Ok(Content::Other);
    }
    let header = FileHeader64::<Endianness>::parse(data).map_err(flaw)?;
    let endian = header.endian().map_err(flaw)?;
    if header.e_machine.get(endian).0 == EM_CUDA {
        return Ok(Content::Device);
    }
    let file = Elf { data, endian, sections: header.sections(endian, data).map_err(flaw)? };
    match header.e_type.get(endian) {
        elf::ET_REL => object(&file).map(Content::Object),
        elf::ET_DYN | elf::ET_EXEC => shared(&file).map(Content::Shared),
        _ => Ok(Content::Other),
    }
}

fn object(file: &Elf<'_>) -> Result<Member, Flaw> {
    let whole = 0..file.data.len();
    let mut member = Member { place: super::Place { file: None, range: whole.clone() }, ..Member::default() };
    let mut has_segment = false;
    let mut device_code = None;
    let mut lto = false;
    let mut ids = Vec::new();
    for section in file.sections.iter() {
        let name = file.sections.section_name(file.endian, section).map_err(flaw)?;
        match name {
            _ if name == IDS.as_bytes() => ids.extend(strings(file.bytes(section)?)),
            _ if name == SEGMENT.as_bytes() => has_segment = true,
            _ if name == RELOCATABLE_CODE.as_bytes() => {
                let range = section.file_range(file.endian).map(|(offset, size)| offset..offset.saturating_add(size));
                let in_file = |r: &std::ops::Range<u64>| r.end <= whole.end;
                device_code = Some(range.filter(in_file).ok_or_else(|| Flaw::new(0, "__nv_relfatbin lies outside of the file"))?);
            }
            _ if name.starts_with(b".gnu.lto_") => lto = true,
            _ => {}
        }
    }
    let (stubs, mut units) = partition(ids);
    member.stubs = stubs.into();
    // nvlink reads an object when both sections are there, id or no id.
    match device_code {
        Some(range) if has_segment => member.device_code = range,
        _ => return Ok(member),
    }
    if units.is_empty() {
        units.push(Id::new());
    }
    let mut wanted = HashSet::new();
    let mut hidden = HashSet::new();
    let mut pull = None;
    let symbols = file.symbols(elf::SHT_SYMTAB)?;
    for symbol in symbols.iter() {
        let name = symbol.name(file.endian, symbols.strings()).map_err(flaw)?;
        let strong = symbol.st_bind() == elf::STB_GLOBAL;
        let seen = (strong || symbol.is_weak()) && symbol.st_visibility() != elf::STV_HIDDEN;
        if symbol.is_undefined(file.endian) {
            wanted.extend(name.strip_prefix(REGISTER));
        } else if let Some(id) = name.strip_prefix(WRAPPER) {
            if !seen {
                hidden.insert(id);
            }
        } else if pull.is_none() && strong && seen && is_c_name(name) {
            pull = Some(SharedBytes::from(name));
        }
    }
    for id in units {
        member.units.push(Unit {
            // In a slim LTO object the calls are in the compiler's own representation: the registrar may well be there.
            device_only: !lto && !wanted.contains(&id[..]),
            wrapper_hidden: hidden.contains(&id[..]),
            pull: pull.clone(),
            id,
        });
    }
    Ok(member)
}

fn shared(file: &Elf<'_>) -> Result<Shared, Flaw> {
    let Some((_, section)) = file.sections.section_by_name(file.endian, IDS.as_bytes()) else { return Ok(Shared::default()) };
    let (stubs, units) = partition(strings(file.bytes(section)?));
    let mut exported = HashSet::new();
    if !stubs.is_empty() {
        let symbols = file.symbols(elf::SHT_DYNSYM)?;
        for symbol in symbols.iter().filter(|s| !s.is_undefined(file.endian)) {
            let name = symbol.name(file.endian, symbols.strings()).map_err(flaw)?;
            exported.extend(name.strip_prefix(REGISTER).map(Id::from));
        }
    }
    Ok(Shared { stubs, units, exported })
}

/// What a relocatable object gives to the host linker, and what it asks for.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names by which a reference from elsewhere can make the linker take the object: all but local ones, weak and hidden included.
    /// Left out are wrapper records, which only a stub refers to, and gcc's `DW.ref.…`, which every object that refers to
    /// one defines by itself.
    pub defined: Vec<Vec<u8>>,
    /// Names that are defined elsewhere.
    pub undefined: HashSet<Vec<u8>>,
}

/// Reads a relocatable object's names.
pub fn names(data: &Bytes<'_>) -> Result<Names, Flaw> {
    let file = ElfFile64::<Endianness, _>::parse(data).map_err(flaw)?;
    let mut names = Names::default();
    for symbol in file.symbols().filter(|s| !s.is_local()) {
        let name = symbol.name_bytes().map_err(flaw)?;
        if symbol.is_undefined() {
            names.undefined.insert(name.to_vec());
        } else if !name.starts_with(WRAPPER) && !name.starts_with(b"DW.ref.") {
            names.defined.push(name.to_vec());
        }
    }
    Ok(names)
}

/// The names that a shared object exports.
pub fn exported_names(data: &Bytes<'_>) -> Result<HashSet<Vec<u8>>, Flaw> {
    let file = ElfFile64::<Endianness, _>::parse(data).map_err(flaw)?;
    let exported = file.dynamic_symbols().filter(|s| !s.is_undefined());
    exported.map(|s| s.name_bytes().map(<[u8]>::to_vec).map_err(flaw)).collect()
}

/// The NUL-ended strings of an id section; padding between them is zero.
fn strings(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|&b| b == 0).filter(|s| !s.is_empty() && *s != b"__NV_MODULE_ID")
}

/// Splits `def <id>` strings from plain ids.
fn partition<'d>(strings: impl IntoIterator<Item = &'d [u8]>) -> (Vec<Id>, Vec<Id>) {
    let mut stubs = Vec::new();
    let mut units: Vec<Id> = Vec::new();
    for string in strings {
        match string.strip_prefix(b"def ") {
            Some(id) => stubs.push(id.into()),
            None if !units.iter().any(|u| u[..] == *string) => units.push(string.into()),
            None => {}
        }
    }
    (stubs, units)
}

/// Whether a symbol's name can stand in an `__asm__` label.
fn is_c_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}
