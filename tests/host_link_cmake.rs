//! `dlink_shim_place_fatbins()` of the CMake module, and CMake's linker launcher.

mod support;

use std::path::Path;
use std::process::Command;

use support::cmake::{Build, Version, module, text};
use support::{Scratch, must, toolkit};

/// A C++ library with a section of device code, its target's name, and what follows it in the CMakeLists.txt.
fn project(version: Version, generator: &'static str, before: &str, after: &str) -> Option<(Scratch, Build)> {
    let scratch = Scratch::new();
    let lists = format!(
        "cmake_minimum_required(VERSION 3.19...3.30)\nproject(placed LANGUAGES CXX)\ninclude(\"{}\")\n{before}\n\
         add_library(big SHARED big.cpp)\n{after}\n",
        module().display()
    );
    scratch.write("src/CMakeLists.txt", lists);
    scratch.write(
        "src/big.cpp",
        "__attribute__((section(\".nv_fatbin\"))) extern const char fat[9000] = {1};\nint zeroes[999]; int *where() { return zeroes; }\n",
    );
    let build = Build::new(version, generator, &scratch.join("src"), scratch.join("build dir"))?;
    Some((scratch, build))
}

fn is_last(library: &Path) -> bool {
    use object::{Object, ObjectSection};
    let data = std::fs::read(library).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let at = |name: &str| file.section_by_name(name).unwrap().address();
    at(".nv_fatbin") > at(".bss")
}

const PLACE: &str = "dlink_shim_place_fatbins(big)";

#[test]
fn the_function_adds_what_the_linker_in_use_takes() {
    // The linker as users name it: in a variable, in the target's options, by a path of ours, by CMake's own type.
    for (version, generator, before, after) in [
        (Version::Debian, "Ninja", "", PLACE),
        (Version::Debian, "Unix Makefiles", "", PLACE),
        (Version::Debian, "Unix Makefiles", "set(CMAKE_SHARED_LINKER_FLAGS -fuse-ld=mold)", PLACE),
        (Version::Debian, "Ninja", "set(CMAKE_CXX_FLAGS \"-O1 -fuse-ld=lld\")", PLACE),
        (Version::Debian, "Ninja", "", "target_link_options(big PRIVATE -fuse-ld=mold)\ndlink_shim_place_fatbins(big)"),
        (Version::Newest, "Ninja", "add_link_options(-fuse-ld=lld)", PLACE),
        (Version::Newest, "Unix Makefiles", "set(CMAKE_LINKER_TYPE MOLD)", PLACE),
        (Version::Newest, "Ninja", "", "set_target_properties(big PROPERTIES LINKER_TYPE LLD)\ndlink_shim_place_fatbins(big)"),
        (Version::Newest, "Ninja Multi-Config", "", PLACE),
    ] {
        if !toolkit::has("ld.lld") || !toolkit::has("mold") {
            return;
        }
        let Some((_scratch, build)) = project(version, generator, before, after) else { return };
        let said = must(&mut build.configure_with(&[]));
        assert!(!said.contains("Warning"), "{said}");
        build.build_twice();
        let library = build.directory.join(if generator.ends_with("Config") { "Debug/libbig.so" } else { "libbig.so" });
        assert!(is_last(&library), "{generator}: {before} {after}");
        let comment = must(Command::new("readelf").args(["-p", ".comment"]).arg(&library));
        let wanted = ["mold", "LLD"].into_iter().find(|w| format!("{before}{after}").to_uppercase().contains(&w.to_uppercase()));
        assert!(wanted.is_none_or(|w| comment.contains(w)), "{before} {after}: {comment}");
    }
}

#[test]
fn with_gold_the_function_warns_and_the_launcher_places() {
    let Some((_scratch, build)) = project(Version::Debian, "Ninja", "set(CMAKE_SHARED_LINKER_FLAGS -fuse-ld=gold)", PLACE) else { return };
    if !toolkit::has("ld.gold") {
        return;
    }
    let said = text(&build.configure_with(&[]).output().unwrap()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("gold has no option that places device code") && said.contains("CMAKE_CXX_LINKER_LAUNCHER"), "{said}");
    must(&mut build.build());
    assert!(!is_last(&build.directory.join("libbig.so")));
    must(&mut build.configure_with(&[&format!("-DCMAKE_CXX_LINKER_LAUNCHER={}", support::SHIM)]));
    must(build.build().env("DLINK_SHIM_PLACE_LIMIT", "4K"));
    assert!(is_last(&build.directory.join("libbig.so")));
}

#[test]
fn what_is_no_linked_target_is_an_error() {
    for (after, expected) in [
        ("dlink_shim_place_fatbins(none)", "none is no target"),
        ("add_library(s STATIC big.cpp)\ndlink_shim_place_fatbins(s)", "s is a STATIC_LIBRARY, which no linker makes"),
    ] {
        let Some((_scratch, build)) = project(Version::Debian, "Ninja", "", after) else { return };
        let output = build.configure_with(&[]).output().unwrap();
        assert!(!output.status.success() && text(&output).contains(expected), "{}", text(&output));
    }
}
