//! What a file holds, for programs. Bytes that are no UTF-8 are shown with U+FFFD.

use serde_json::{Value, json};

use super::inspect::{compression, group, image_kind, unknown_flags};
use super::names::{demangled, source_of};
use crate::inspection::{Image, Inspected, Part};
use crate::object::symbols::Class;

/// The whole report of one file.
pub fn report(file: &Inspected) -> Value {
    json!({
        "path": file.path.to_string_lossy(),
        "kind": file.kind,
        "size": file.size,
        "parts": file.parts.iter().map(part).collect::<Vec<_>>(),
        "flaws": file.flaws,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn part(part: &Part) -> Value {
    let units = part.units.iter().map(|u| json!({ "id": text(&u.id), "source": source_of(&u.id), "device_only": u.device_only }));
    let sections = part.sections.iter().map(|s| {
        let containers =
            s.containers.iter().map(|c| json!({ "offset": c.offset, "images": c.images.iter().map(image).collect::<Vec<_>>() }));
        json!({ "name": s.name, "containers": containers.collect::<Vec<_>>() })
    });
    json!({
        "member": part.member.as_deref().map(text),
        "units": units.collect::<Vec<_>>(),
        "stubs": part.stubs.iter().map(|id| text(id)).collect::<Vec<_>>(),
        "sections": sections.collect::<Vec<_>>(),
    })
}

fn image(image: &Image) -> Value {
    let symbols = image.symbols().map(|symbols| {
        let symbols = symbols.iter().map(|s| {
            let class = match s.class {
                Class::Kernel => "kernel",
                Class::Function => "function",
                Class::Variable => "variable",
                Class::Shared => "shared",
                Class::Texture => "texture",
                Class::Other => "other",
            };
            json!({
                "name": text(&s.name),
                "demangled": demangled(&s.name),
                "class": class,
                "shown_as": group(s).map(|g| g.1),
                "defined": s.defined,
                "local": s.local,
            })
        });
        symbols.collect::<Vec<_>>()
    });
    json!({
        "arch": image.arch.to_string(),
        "kind": image_kind(image),
        "kind_number": image.number,
        "flags": image.flags,
        "unknown_flags": unknown_flags(image),
        "compression": compression(image),
        "stored": image.stored,
        "unpacked": image.unpacked,
        "source": image.source().map(text),
        "symbols": symbols,
        "unreadable": image.unreadable(),
    })
}
