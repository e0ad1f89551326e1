//! The mask: an object without code whose `__nv_module_id` section says `def <id>` for each unit to go. nvlink then takes
//! these units for device-linked already, and neither links nor counts them, whatever archive they come from (11.8 to 13.5).

use object::write::{Object, StandardSegment};
use object::{Architecture, BinaryFormat, Endianness, SectionKind};

use crate::object::Id;

/// The object's bytes, for the host architecture that this program runs on.
pub fn object(ids: &[Id]) -> Result<Vec<u8>, object::write::Error> {
    let architecture = if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 };
    object_for(architecture, ids)
}

/// The object's bytes for a given host architecture.
pub fn object_for(architecture: Architecture, ids: &[Id]) -> Result<Vec<u8>, object::write::Error> {
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    let segment = object.segment_name(StandardSegment::Data).to_vec();
    let section = object.add_section(segment, b"__nv_module_id".to_vec(), SectionKind::ReadOnlyData);
    for id in ids {
        let mut text = b"def ".to_vec();
        text.extend_from_slice(id);
        text.push(0);
        object.append_section_data(section, &text, 1);
    }
    object.write()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Content, content};

    #[test]
    fn a_mask_reads_as_a_stub_for_its_ids_on_both_machines() {
        let ids = [Id::from("_a"), Id::from("_b")];
        for (architecture, machine) in [(Architecture::X86_64, 62), (Architecture::Aarch64, 183)] {
            let bytes = object_for(architecture, &ids).unwrap();
            assert_eq!(u16::from_le_bytes([bytes[18], bytes[19]]), machine);
            let Content::Object(member) = content(&bytes, std::path::Path::new("mask.o")).unwrap() else { panic!() };
            assert_eq!((&member.stubs[..], member.units.len()), (&ids[..], 0));
            assert_eq!(bytes, object_for(architecture, &ids).unwrap());
        }
    }
}
