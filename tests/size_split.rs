//! `dlink-shim size --split` and `--max`: what stays together, what is cut, and that the parts link and register.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use support::{Scratch, load, must, recipe, shim, toolkit};

fn split(directory: &Path, words: &[&str]) -> Output {
    shim().arg("size").args(words).current_dir(directory).output().unwrap()
}

fn plan(directory: &Path, words: &[&str]) -> Value {
    let output = split(directory, &[&["--json"], words].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["plan"].clone()
}

/// The libraries as sets of names.
fn parts(plan: &Value) -> BTreeSet<BTreeSet<String>> {
    let names = |l: &Value| l["objects"].as_array().unwrap().iter().map(|o| o.as_str().unwrap().to_owned()).collect();
    plan["libraries"].as_array().unwrap().iter().map(names).collect()
}

fn sets(text: &[&[&str]]) -> BTreeSet<BTreeSet<String>> {
    text.iter().map(|names| names.iter().map(|n| (*n).to_owned()).collect()).collect()
}

/// Host objects: `NAME: definitions; references`, each padded to some 4 KiB.
fn objects(scratch: &Scratch, lines: &[(&str, &str, &str)]) {
    for (name, defines, refers) in lines {
        let words = |text: &str| text.split(' ').filter(|w| !w.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let mut text = format!("char pad_{name}[4096] = {{1}};\n");
        for symbol in words(refers) {
            text += &format!("extern \"C\" int {symbol}();\n");
        }
        let calls = words(refers).iter().map(|s| format!(" + {s}()")).collect::<String>();
        for symbol in words(defines) {
            text += &format!("extern \"C\" int {symbol}() {{ return 1{calls}; }}\n");
        }
        scratch.write(format!("{name}.cpp"), text);
        must(Command::new("g++").current_dir(scratch.path()).args(["-fPIC", "-c", &format!("{name}.cpp")]));
    }
}

#[test]
fn two_knots_are_cut_at_the_thread_between_them() {
    let scratch = Scratch::new();
    if !toolkit::has("g++") {
        return;
    }
    objects(
        &scratch,
        &[
            ("a1", "fa1 ga1", "fa2 fa3"),
            ("a2", "fa2 ga2", "fa3 ga3"),
            ("a3", "fa3 ga3", "ga1 ga2 fb1"),
            ("b1", "fb1 gb1", "fb2 gb2"),
            ("b2", "fb2 gb2", "fb3"),
            ("b3", "fb3 gb3", ""),
        ],
    );
    let all = ["a1.o", "b1.o", "a2.o", "b2.o", "a3.o", "b3.o"];
    let plan = plan(scratch.path(), &[&["--split", "2"][..], &all].concat());
    assert_eq!(parts(&plan), sets(&[&["a1.o", "a2.o", "a3.o"], &["b1.o", "b2.o", "b3.o"]]));
    assert_eq!((plan["cut"].as_u64(), plan["circles"].as_array().unwrap().len()), (Some(1), 0));
    // Without a circle the parts link with every symbol accounted for.
    must(Command::new("g++").current_dir(scratch.path()).args(["-shared", "-Wl,-z,defs", "b1.o", "b2.o", "b3.o", "-o", "libb.so"]));
    must(Command::new("g++").current_dir(scratch.path()).args([
        "-shared",
        "-Wl,-z,defs",
        "a1.o",
        "a2.o",
        "a3.o",
        "libb.so",
        "-o",
        "liba.so",
    ]));
}

#[test]
fn every_library_keeps_to_the_limit_and_nothing_is_lost() {
    let scratch = Scratch::new();
    if !toolkit::has("g++") {
        return;
    }
    let names: Vec<String> = (0..12).map(|n| format!("o{n}")).collect();
    let refers: Vec<String> = (0..12).map(|n| format!("f{} f{}", (n + 1) % 12, (n + 5) % 12)).collect();
    let defines: Vec<String> = (0..12).map(|n| format!("f{n}")).collect();
    let lines: Vec<(&str, &str, &str)> = (0..12).map(|n| (names[n].as_str(), defines[n].as_str(), refers[n].as_str())).collect();
    objects(&scratch, &lines);
    let found = plan(scratch.path(), &["--max", "14000", "."]);
    let libraries = found["libraries"].as_array().unwrap();
    assert!(libraries.len() >= 4 && libraries.iter().all(|l| l["bytes"].as_u64().unwrap() <= 14000), "{found}");
    let all: Vec<String> = parts(&found).into_iter().flatten().collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (12, 12));
    assert_eq!(plan(scratch.path(), &["--max", "14000", "."]), found);
    // A ring can't be cut without a circle.
    assert!(!found["circles"].as_array().unwrap().is_empty());
    let text = String::from_utf8(split(scratch.path(), &["--max", "14000", "."]).stdout).unwrap();
    assert!(text.contains("need each other"), "{text}");
}

#[test]
fn hidden_symbols_and_one_too_large_group_are_respected() {
    let scratch = Scratch::new();
    if !toolkit::has("g++") {
        return;
    }
    objects(&scratch, &[("a", "fa", "fb"), ("b", "fb", ""), ("c", "fc", "")]);
    must(Command::new("g++").current_dir(scratch.path()).args(["-fPIC", "-fvisibility=hidden", "-c", "b.cpp"]));
    assert_eq!(parts(&plan(scratch.path(), &["--split", "2", "a.o", "b.o", "c.o"])), sets(&[&["a.o", "b.o"], &["c.o"]]));
    for (words, why) in [
        (&["--split", "3"][..], "3 libraries of 2 group(s)"),
        (&["--max", "5000"], "2 object(s) that can't be divided have"),
        (&["--split", "0"], "0 libraries of 2 group(s)"),
    ] {
        let output = split(scratch.path(), &[words, &["a.o", "b.o", "c.o"]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    }
}

/// Two pairs of units that share device functions, with host calls across.
#[test]
fn units_that_share_device_symbols_stay_together_and_the_parts_register() {
    let version = "13.0";
    let Some(nvcc) = toolkit::nvcc(version) else { return };
    let cuda = nvcc.parent().unwrap().parent().unwrap().to_owned();
    let scratch = Scratch::new();
    for pair in ["a", "b"] {
        let other = if pair == "a" { "int run_b();" } else { "" };
        let call = if pair == "a" { "run_b()" } else { "0" };
        scratch.write(
            format!("{pair}_kernel.cu"),
            format!("__device__ int {pair}_help(int);\n__global__ void {pair}_kernel(int *p) {{ *p = {pair}_help(*p); }}\n{other}\nint run_{pair}() {{ {pair}_kernel<<<1, 1>>>(0); return {call}; }}\n"),
        );
        scratch.write(format!("{pair}_help.cu"), format!("__device__ int {pair}_help(int x) {{ return x + 1; }}\n"));
        for unit in ["kernel", "help"] {
            must(Command::new(&nvcc).current_dir(scratch.path()).args([
                "-arch=sm_90",
                "-dc",
                "-Xcompiler",
                "-fPIC",
                &format!("{pair}_{unit}.cu"),
            ]));
        }
    }
    let all = ["a_help.o", "b_help.o", "a_kernel.o", "b_kernel.o"];
    let found = plan(scratch.path(), &[&["--split", "2"][..], &all].concat());
    assert_eq!(parts(&found), sets(&[&["a_help.o", "a_kernel.o"], &["b_help.o", "b_kernel.o"]]));
    assert!(found["libraries"].as_array().unwrap().iter().all(|l| l["device_link"] == true));
    for library in found["libraries"].as_array().unwrap() {
        let objects: Vec<&str> = library["objects"].as_array().unwrap().iter().map(|o| o.as_str().unwrap()).collect();
        let number = library["number"].to_string();
        must(
            Command::new(&nvcc)
                .current_dir(scratch.path())
                .args(["-arch=sm_90", "-dlink", "-Xcompiler", "-fPIC", "-o", &format!("d{number}.o")])
                .args(&objects),
        );
        must(
            Command::new("g++")
                .current_dir(scratch.path())
                .args(["-shared", &format!("d{number}.o"), "-o", &format!("libpart{number}.so")])
                .args(&objects),
        );
    }
    recipe::probe(scratch.path(), &cuda);
    // The one that needs the other comes second.
    let first =
        found["libraries"].as_array().unwrap().iter().find(|l| l["needs"].as_array().unwrap().is_empty()).unwrap()["number"].to_string();
    let second = if first == "1" { "2" } else { "1" };
    let paths = [&first, second].map(|n| scratch.join(format!("libpart{n}.so")).display().to_string());
    let registered = load::load(scratch.path(), &cuda, &[&paths[0], &paths[1]]);
    assert!(registered.ok && registered.times("a_kernel") == 1 && registered.times("b_kernel") == 1, "{registered:?}");
}

#[test]
fn the_cmake_lines_configure_build_and_name_sources_where_cmake_made_the_objects() {
    let scratch = Scratch::new();
    if !toolkit::has("cmake") || !toolkit::has("make") || !toolkit::has("g++") {
        return;
    }
    objects(&scratch, &[("a", "fa", "fb"), ("b", "fb", ""), ("c", "fc", "fb")]);
    let whole = "cmake_minimum_required(VERSION 3.24)\nproject(p CXX)\n";
    scratch.write("CMakeLists.txt", format!("{whole}add_library(whole OBJECT a.cpp b.cpp c.cpp)\n"));
    must(Command::new("cmake").current_dir(scratch.path()).args(["-S", ".", "-B", "build"]));
    must(Command::new("cmake").current_dir(scratch.path()).args(["--build", "build"]));
    let output = split(scratch.path(), &["--split", "3", "--name", "core", "build/CMakeFiles/whole.dir"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.split_once("# CMake\n").unwrap().1;
    for line in ["add_library(core_1 SHARED", "\"b.cpp\"", "PRIVATE core_"] {
        assert!(lines.contains(line), "{text}");
    }
    scratch.write("CMakeLists.txt", format!("{whole}set(CMAKE_SHARED_LINKER_FLAGS -Wl,-z,defs)\n{lines}"));
    must(Command::new("cmake").current_dir(scratch.path()).args(["-S", ".", "-B", "parts"]));
    must(Command::new("cmake").current_dir(scratch.path()).args(["--build", "parts"]));
    assert!(scratch.join("parts/libcore_3.so").is_file());
}
