//! One finished image (shared library or executable): which units it has stubs for, whose registrars it holds, and who can
//! call what.
//!
//! All of it survives `strip`: the id section, the dynamic symbols and relocations, the code and the strings that the guard's
//! header leaves. Checked on images of ld.bfd, gold, lld and mold with nvcc 11.8 to 13.5, and on libraries of CUDA 11 to 13.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, SectionHeader, SectionTable, Sym};

use super::registrars;
use crate::object::host::{EM_CUDA, REGISTER, WRAPPER};
use crate::object::{Flaw, Id};

const IDS: &[u8] = b"__nv_module_id";
const SEGMENT: &[u8] = b".nvFatBinSegment";
const RELOCATABLE_CODE: &[u8] = b"__nv_relfatbin";
/// Magic and version of the record that a stub has in `.nvFatBinSegment`.
const STUB_RECORD: [u8; 8] = [0xb1, 0x43, 0x62, 0x46, 2, 0, 0, 0];

/// How other images see a stub's entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// Default visibility: others can call it, and another image's may take its place.
    Exported,
    /// Others can call it; this image's own calls come here.
    Protected,
    /// This image's own.
    Hidden,
}

/// Where a registrar's call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// To the stub in the same image, whatever else is loaded.
    OwnStub,
    /// To the first stub for the unit that the dynamic linker finds.
    FirstFound,
}

/// What matters of an image.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The file.
    pub path: PathBuf,
    /// `DT_SONAME`.
    pub soname: Option<Vec<u8>>,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<Vec<u8>>,
    /// A program, which the dynamic linker searches before all libraries.
    pub program: bool,
    /// Units that its stub waits for, in the stub's order.
    pub stubs: Vec<Id>,
    /// How many stubs there are; with more than one, `stubs` is the sum of them.
    pub stub_count: usize,
    /// Units whose host or device-only objects were linked in, in that order.
    pub present: Vec<Id>,
    /// Those whose registrar is here.
    pub registrars: BTreeMap<Id, Call>,
    /// The entry point of each unit in `stubs`.
    pub entries: BTreeMap<Id, Entry>,
    /// Units in `stubs` that dlink-shim's guard counts when nobody calls.
    pub guarded: BTreeSet<Id>,
    /// Units whose wrapper record others can refer to.
    pub gives_wrapper: BTreeSet<Id>,
    /// Units whose wrapper record must come from another image, or this one does not load.
    pub wants_wrapper: BTreeSet<Id>,
    /// Byte range of `__nv_relfatbin` in the file.
    pub device_code: Option<std::ops::Range<u64>>,
    /// What the linker says makes the image unique; `strip` and a changed run path leave it as it is.
    pub build_id: Option<Vec<u8>>,
    /// Other files that hold the same image.
    pub copies: Vec<PathBuf>,
    /// What could not be read.
    pub flaws: Vec<String>,
}

impl Image {
    /// Whether it has device-linked code: a stub, or a unit that needs one.
    pub fn is_linked(&self) -> bool {
        !self.stubs.is_empty() || !self.present.is_empty()
    }

    /// Whether other images can call the stub's entry point for `id`.
    pub fn exports(&self, id: &Id) -> bool {
        self.entries.get(id).is_some_and(|e| *e != Entry::Hidden)
    }

    /// Whether the stub counts `id` by itself: it is guarded, and no host object of the unit is here to call.
    pub fn counts_itself(&self, id: &Id) -> bool {
        self.guarded.contains(id) && !self.present.contains(id)
    }

    /// The file's name, for people.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }
}

/// What [`read`] makes of a file.
pub enum Looked {
    /// No finished image for a CUDA host: another kind of file, or device code.
    Other,
    /// An image; [`Image::is_linked`] says whether it has device-linked code.
    Image(Box<Image>),
}

/// Looks at the bytes of a file.
///
/// # Errors
/// [`Flaw`] when the section table or the id section is broken; lesser damage is in [`Image::flaws`].
pub fn read(data: &[u8], path: &Path) -> Result<Looked, Flaw> {
    // 32-bit and big-endian files are none that CUDA 11 or later makes.
    if !data.starts_with(b"\x7fELF\x02\x01") {
        return Ok(Looked::Other);
    }
    let whole = |e: object::Error| Flaw::new(0, e.to_string());
    let header = FileHeader64::<Endianness>::parse(data).map_err(whole)?;
    let endian = Endianness::Little;
    let kind = header.e_type.get(endian);
    if header.e_machine.get(endian).0 == EM_CUDA || !matches!(kind, elf::ET_DYN | elf::ET_EXEC) {
        return Ok(Looked::Other);
    }
    let sections = header.sections(endian, data).map_err(whole)?;
    let mut image = Image { path: path.to_owned(), program: kind == elf::ET_EXEC, ..Image::default() };
    let file = File { data, endian, sections };
    let mut flaws = Vec::new();
    let mut note = |what: &str, result: object::Result<()>| {
        if let Err(e) = result {
            flaws.push(format!("{what}: {e}"));
        }
    };
    note("dynamic section", file.dynamic(&mut image));
    // Linkers before DF_1_PIE; a library with an interpreter (libc) has a name of its own.
    let interpreted = || header.program_headers(endian, data).is_ok_and(|all| all.iter().any(|p| p.p_type.get(endian) == elf::PT_INTERP));
    image.program |= image.soname.is_none() && interpreted();
    let Some((_, ids)) = file.sections.section_by_name(endian, IDS) else { return Ok(Looked::Image(Box::new(image))) };
    let text = ids.data(endian, data).map_err(|e| Flaw::new(ids.sh_offset.get(endian), format!("__nv_module_id: {e}")))?;
    let mut places = Vec::new();
    let mut at = ids.sh_addr.get(endian);
    for string in text.split(|&b| b == 0) {
        match string.strip_prefix(b"def ") {
            Some(id) => image.stubs.push(id.into()),
            None if string.is_empty() || string == b"__NV_MODULE_ID" => {}
            None => {
                image.present.push(string.into());
                places.push((at, string.into()));
            }
        }
        at = at.wrapping_add(string.len() as u64 + 1);
    }
    if !image.is_linked() {
        return Ok(Looked::Image(Box::new(image)));
    }
    image.build_id = file.build_id();
    note("dynamic symbols", file.symbols(&mut image));
    note("records of device code", file.records(&mut image));
    note("strings", file.guards(&mut image));
    // Who calls a stub by name is known; who calls its own is seen from the code that loads the unit's id.
    places.retain(|(_, id)| !image.registrars.contains_key(id));
    if !places.is_empty() {
        let machine = header.e_machine.get(endian);
        let mut called = BTreeSet::new();
        for section in file.sections.iter().filter(|s| s.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0) {
            match section.data(endian, data) {
                Ok(code) => registrars::loads(machine, code, section.sh_addr.get(endian), kind == elf::ET_EXEC, &places, &mut called),
                Err(e) => flaws.push(format!("code: {e}")),
            }
        }
        for (_, id) in &places {
            if called.contains(id) || !registrars::known(machine) {
                let own = image.entries.contains_key(id);
                image.registrars.insert(id.clone(), if own { Call::OwnStub } else { Call::FirstFound });
            }
        }
    }
    image.flaws = flaws;
    Ok(Looked::Image(Box::new(image)))
}

struct File<'a> {
    data: &'a [u8],
    endian: Endianness,
    sections: SectionTable<'a, FileHeader64<Endianness>>,
}

impl File<'_> {
    fn dynamic(&self, image: &mut Image) -> object::Result<()> {
        let Some((entries, link)) = self.sections.dynamic(self.endian, self.data)? else { return Ok(()) };
        let strings = self.sections.strings(self.endian, self.data, link)?;
        for entry in entries {
            let string = || entry.string(self.endian, strings).ok().map(<[u8]>::to_vec);
            match entry.tag(self.endian) {
                elf::DT_NULL => break,
                elf::DT_NEEDED => image.needed.extend(string()),
                elf::DT_SONAME => image.soname = string(),
                elf::DT_FLAGS_1 if entry.val(self.endian) & elf::DF_1_PIE.0 != 0 => image.program = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn build_id(&self) -> Option<Vec<u8>> {
        let (_, section) = self.sections.section_by_name(self.endian, b".note.gnu.build-id")?;
        let mut notes = section.notes(self.endian, self.data).ok()??;
        let note = notes.next().ok()??;
        (note.name() == elf::ELF_NOTE_GNU && !note.desc().is_empty()).then(|| note.desc().to_vec())
    }

    fn symbols(&self, image: &mut Image) -> object::Result<()> {
        let endian = self.endian;
        let table = self.sections.symbols(endian, self.data, elf::SHT_DYNSYM)?;
        let mut by_index: BTreeMap<usize, Id> = BTreeMap::new();
        image.entries = image.stubs.iter().map(|id| (id.clone(), Entry::Hidden)).collect();
        for (index, symbol) in table.enumerate() {
            let Ok(name) = symbol.name(endian, table.strings()) else { continue };
            if let Some(id) = name.strip_prefix(REGISTER) {
                if symbol.is_undefined(endian) {
                    image.registrars.insert(id.into(), Call::FirstFound);
                } else {
                    by_index.insert(index.0, id.into());
                    let protected = symbol.st_visibility() == elf::STV_PROTECTED;
                    image.entries.insert(id.into(), if protected { Entry::Protected } else { Entry::Exported });
                }
            } else if let Some(id) = name.strip_prefix(WRAPPER) {
                if !symbol.is_undefined(endian) {
                    image.gives_wrapper.insert(id.into());
                } else if !symbol.is_weak() {
                    image.wants_wrapper.insert(id.into());
                }
            }
        }
        // Only a call that the dynamic linker binds leaves a relocation by name.
        for section in self.sections.iter().filter(|_| !by_index.is_empty()) {
            let Some((relocations, _)) = section.rela(endian, self.data)? else { continue };
            let dynamic = section.sh_flags(endian).0 & elf::SHF_ALLOC.0 != 0;
            for relocation in relocations.iter().filter(|_| dynamic) {
                let index = relocation.r_sym(endian, false) as usize;
                if let (true, Some(id)) = (index != 0, by_index.get(&index)) {
                    image.registrars.insert(id.clone(), Call::FirstFound);
                }
            }
        }
        Ok(())
    }

    fn records(&self, image: &mut Image) -> object::Result<()> {
        if let Some((_, section)) = self.sections.section_by_name(self.endian, SEGMENT) {
            let records = section.data(self.endian, self.data)?;
            image.stub_count = memchr::memmem::find_iter(records, &STUB_RECORD).count();
        }
        image.device_code = self.sections.section_by_name(self.endian, RELOCATABLE_CODE).and_then(|(_, s)| {
            let (start, size) = s.file_range(self.endian)?;
            Some(start..start.checked_add(size)?)
        });
        Ok(())
    }

    /// The guard names each unit's wrapper in a string of its own; nothing else does outside of symbol tables.
    fn guards(&self, image: &mut Image) -> object::Result<()> {
        let wanted: BTreeSet<Id> = image.stubs.iter().cloned().collect();
        let finder = memchr::memmem::Finder::new(WRAPPER);
        for section in self.sections.iter().filter(|_| !wanted.is_empty()) {
            let flags = section.sh_flags(self.endian).0;
            let name = self.sections.section_name(self.endian, section).unwrap_or_default();
            let strings = name.starts_with(b".rodata") || (flags & elf::SHF_STRINGS.0 != 0);
            if flags & elf::SHF_ALLOC.0 == 0 || section.sh_type(self.endian) != elf::SHT_PROGBITS || !strings {
                continue;
            }
            let data = section.data(self.endian, self.data)?;
            for at in finder.find_iter(data) {
                let rest = &data[at + WRAPPER.len()..];
                let id = &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())];
                if wanted.contains(id) {
                    image.guarded.insert(id.into());
                }
            }
        }
        Ok(())
    }
}
