//! The layouts of device code in CMake projects (`tests/cmake/CMakeLists.txt`), by both ends of CMake and both generators: built
//! stock and loaded under the registration probe, then switched over by one configure option and loaded again.

mod support;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use support::cmake::{Build, Version, module};
use support::{Scratch, load, must, toolkit};

const LAYOUTS: [(&str, &str, &str); 10] = [
    ("M1", "", "shared library PUBLIC over a static one; plugin on it"),
    ("M1b", "", "the same, no device symbol used"),
    ("M2", "", "PRIVATE instead"),
    ("M4", "", "diamond, PRIVATE"),
    ("M4b", "", "diamond, PUBLIC"),
    ("M5", "_object", "OBJECT library in both"),
    ("M6", "_resolved", "CUDA_RESOLVE_DEVICE_SYMBOLS in both"),
    ("M8", "", "plugin lists the shared, then the static library"),
    ("M9", "", "the other way round"),
    ("M10", "_hidden", "diamond, CUDA_VISIBILITY_PRESET hidden"),
];
const WITH_PROGRAM: [&str; 4] = ["M1", "M4", "M4b", "M8"];

/// How the images of one layout are loaded: name, loader's words (none for the layout's own program).
fn ways(layout: &str) -> Vec<(&'static str, Option<Vec<String>>)> {
    let image = |i: &str| format!("./lib{layout}_{i}.so");
    let mut ways: Vec<(&str, Option<Vec<String>>)> = vec![
        ("first second", Some(vec![image("first"), image("second")])),
        ("second first", Some(vec![image("second"), image("first")])),
        ("first second, local", Some(vec!["--local".into(), image("first"), image("second")])),
        ("second first, local", Some(vec!["--local".into(), image("second"), image("first")])),
    ];
    if WITH_PROGRAM.contains(&layout) {
        ways.push(("program", None));
    }
    ways
}

/// What never registers, for every layout and way of loading it.
fn missing(built: &Path, cuda: &Path) -> Vec<String> {
    let lib = built.join("lib");
    let mut cells = Vec::new();
    for (layout, suffix, _) in LAYOUTS {
        let units = [format!("{layout}_1"), format!("{layout}_2"), format!("s{suffix}"), format!("d{suffix}")];
        for (_, words) in ways(layout) {
            let seen = match &words {
                Some(words) => load::load(&lib, cuda, &words.iter().map(String::as_str).collect::<Vec<_>>()),
                None => load::run(&lib, cuda, &lib.join(format!("{layout}_program")), &[]),
            };
            assert!(seen.ok, "{layout}: {}", seen.stderr);
            // Mangled: the length before the name keeps `s_kernel` out of `units_kernel`.
            let lost = |u: &&String| seen.times(&format!("_Z{}{u}_kernel", u.len() + 7)) == 0;
            let lost: Vec<&str> = units.iter().filter(lost).map(String::as_str).collect();
            cells.push(if lost.is_empty() { "ok".into() } else { format!("no {}", lost.join(", ")) });
        }
    }
    cells
}

fn layouts(version: Version, generator: &'static str) {
    let scratch = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmake");
    let Some(build) = Build::new(version, generator, &source, scratch.join("build")) else { return };
    let cuda = build.nvcc.parent().unwrap().parent().unwrap();
    must(&mut build.configure(&[]));
    // Makefiles write some files of their own at the second build.
    build.build_twice();
    let stock = missing(&build.directory, cuda);
    let stock_files: BTreeSet<String> = build.files().into_iter().collect();

    must(&mut build.configure(&[&format!("-DCMAKE_PROJECT_INCLUDE={}", module().display())]));
    build.build_twice();
    let shimmed = missing(&build.directory, cuda);
    let new: Vec<String> = build.files().into_iter().filter(|f| !stock_files.contains(f)).collect();
    assert_eq!(new, Vec::<String>::new(), "files that stock does not make");
    let (device, through) = build.device_links_and_shimmed();
    assert_eq!(device, through, "exactly the device links go through");
    assert_eq!(device.len(), LAYOUTS.len() * 2 + 1 + WITH_PROGRAM.len() - 1, "{device:#?}");

    let mut table = format!("CMake {version:?}, {generator}\n");
    let ways = LAYOUTS.iter().flat_map(|(layout, _, about)| ways(layout).into_iter().map(move |(way, _)| (layout, about, way)));
    for ((layout, about, way), (stock, shimmed)) in ways.zip(stock.iter().zip(&shimmed)) {
        writeln!(table, "{layout:4} {about:52} {way:20} {stock:24} {shimmed}").unwrap();
    }
    let tables = toolkit::target().join("layouts");
    std::fs::create_dir_all(&tables).unwrap();
    std::fs::write(tables.join(format!("cmake-{version:?}-{}.txt", generator.replace(' ', "-"))), &table).unwrap();
    assert!(shimmed.iter().all(|c| c == "ok"), "{table}");
    // A table in which stock has no fault proves nothing.
    assert!(stock.iter().filter(|c| *c != "ok").count() > 20, "{table}");
}

#[test]
fn cmake_3_25_makefiles_registers_every_layout() {
    layouts(Version::Debian, "Unix Makefiles");
}

#[test]
fn cmake_3_25_ninja_registers_every_layout() {
    layouts(Version::Debian, "Ninja");
}

#[test]
fn newest_cmake_makefiles_registers_every_layout() {
    layouts(Version::Newest, "Unix Makefiles");
}

#[test]
fn newest_cmake_ninja_registers_every_layout() {
    layouts(Version::Newest, "Ninja");
}
