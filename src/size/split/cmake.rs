//! A proposal in CMake's words.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::Plan;

/// Libraries `NAME_1`, `NAME_2`… of the objects' sources, where CMake made the objects, else of the objects themselves.
pub fn snippet(plan: &Plan, name: &str) -> String {
    let mut out = String::new();
    let circular: BTreeSet<usize> = plan.circles.iter().flatten().copied().collect();
    for library in &plan.libraries {
        let target = format!("{name}_{}", library.number);
        let is_archive = |p: &&std::path::PathBuf| p.extension().is_some_and(|e| e == "a");
        let sources: Vec<String> = library.objects.iter().filter(|o| !is_archive(o)).map(|o| quoted(&source(o))).collect();
        let _ = writeln!(out, "add_library({target} SHARED\n  {})", sources.join("\n  "));
        let archives: Vec<String> = library.objects.iter().filter(is_archive).map(|a| quoted(&a.to_string_lossy())).collect();
        if !archives.is_empty() {
            let _ = writeln!(
                out,
                "target_link_libraries({target} PRIVATE \"$<LINK_LIBRARY:WHOLE_ARCHIVE,{}>\")",
                archives.join(",").replace('"', "")
            );
        }
        if sources.is_empty() || library.objects.iter().any(|o| source(o) == o.to_string_lossy()) {
            let _ = writeln!(out, "set_target_properties({target} PROPERTIES LINKER_LANGUAGE CXX)");
        }
        if library.device_link {
            let _ =
                writeln!(out, "set_target_properties({target} PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS ON)");
        }
        for (needed, references) in &library.needs {
            let line = format!("target_link_libraries({target} PRIVATE {name}_{needed})");
            if circular.contains(&library.number) && circular.contains(needed) {
                let _ = writeln!(
                    out,
                    "# {target} and {name}_{needed} need each other ({references} references), which CMake takes of static libraries only"
                );
            } else {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out
}

/// `build/CMakeFiles/t.dir/src/a.cu.o` is of `src/a.cu`; CMake writes `..` as `__`.
fn source(object: &Path) -> String {
    let text = object.to_string_lossy().into_owned();
    let made = text.split_once("CMakeFiles/").and_then(|(_, rest)| rest.split_once(".dir/")?.1.strip_suffix(".o"));
    match made {
        Some(source) => source.split('/').map(|part| if part == "__" { ".." } else { part }).collect::<Vec<_>>().join("/"),
        None => text,
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out + "\""
}
