//! What the fuzz targets do with their bytes. Nothing here may panic, hang, or take memory by a length field's word.

#![allow(dead_code)]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use dlink_shim::inspection::{self, Depth};
use dlink_shim::nvcc::{CommandLine, DeviceLink, words};
use dlink_shim::object::symbols::DeviceSymbols;
use dlink_shim::object::{self, cubin, ptx, symbols};
use dlink_shim::{Env, audit, report};

/// A directory that is not there: thin members and options files are looked for below it.
const NOWHERE: &str = "/nonexistent/dlink-shim-fuzz";

/// Archives, objects, images: by the wrapper's reader, by `inspect`'s and by `audit`'s.
pub fn host_file(data: &[u8]) {
    let path = Path::new(NOWHERE).join("x");
    if let Ok(content) = object::content(data, &path) {
        for member in content.members() {
            let code = &member.device_code;
            let start = member.place.range.start.saturating_add(code.start) as usize;
            let end = member.place.range.start.saturating_add(code.end) as usize;
            symbols::of_section(data.get(start..end).unwrap_or_default());
        }
    }
    if let Some(file) = inspection::bytes(data, &path, Depth::Images) {
        report::inspect::report(&file, false, &mut |_| {});
    }
    if let Ok(audit::image::Looked::Image(image)) = audit::image::read(data, &path) {
        let seen = audit::files::Seen { images: vec![*image.clone(), *image], ..Default::default() };
        let audit = audit::Audit::of(seen, false);
        report::audit::report(&audit, false, true);
        report::audit_json::report(&audit);
    }
}

/// Containers.
pub fn fatbin(data: &[u8]) {
    symbols::of_section(data);
    if let Some(file) = inspection::bytes(data, Path::new(NOWHERE), Depth::Symbols) {
        report::inspect::report(&file, false, &mut |_| {});
        report::inspect_json::report(&file);
    }
}

/// Cubins and PTX.
pub fn device_code(data: &[u8]) {
    let mut symbols = DeviceSymbols::default();
    let _ = cubin::read(data, &mut symbols);
    let _ = ptx::read(data, &mut symbols);
    let show = |s: symbols::Symbol<'_>| {
        report::names::demangled(s.name);
    };
    let mut both = show;
    let _ = cubin::symbols(data, &mut both);
    let _ = ptx::symbols(data, &mut both);
}

/// nvcc's words: cut as in an options file, quoted again, and read as a command.
pub fn options(data: &[u8]) {
    let Some(found) = words::split(data) else { return };
    let mut again = Vec::new();
    for word in &found {
        again.extend(words::quote(&word.text));
        again.push(b' ');
    }
    let texts = |words: Vec<words::Word>| words.into_iter().map(|w| w.text).collect::<Vec<_>>();
    assert_eq!(words::split(&again).map(texts), Some(texts(found.clone())), "quoting does not keep words");
    let args: Vec<OsString> = found.into_iter().map(|w| OsString::from_vec(w.text)).collect();
    // An absolute name would be a real file.
    if args.iter().any(|a| a.as_encoded_bytes().contains(&b'/')) {
        return;
    }
    if let Ok(line) = CommandLine::read(&args, &Env::new(&[], Path::new(NOWHERE))) {
        let _ = DeviceLink::from_line(&line);
    }
}
