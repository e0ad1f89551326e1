//! Architectures and compression at both steps of a relocatable build: what is linked, and that it registers.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Scratch, load, must, shim, toolkit};

const SOURCE: &str =
    "__device__ int helper(int x);\n__global__ void k(int *p) { *p = helper(*p); }\nint run_k() { k<<<1, 1>>>(0); return 0; }\n";
const HELPER: &str = "__device__ int helper(int x) { return x * 3 + 1; }\n";

fn nvcc_with(setting: (&str, &str), nvcc: &Path, version: &str, directory: &Path, words: &str) -> std::process::Output {
    let mut command = shim();
    command.arg(nvcc).args(toolkit::flags(version)).arg("-Wno-deprecated-gpu-targets").args(words.split(' ')).current_dir(directory);
    if !setting.0.is_empty() {
        command.env(setting.0, setting.1);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn architectures(nvcc: &Path, file: &Path) -> BTreeSet<String> {
    let text = must(Command::new(nvcc.with_file_name("cuobjdump")).arg("-lelf").arg(file));
    text.lines().filter_map(|l| Some(l.rsplit_once(".sm_")?.1.split_once('.')?.0.to_owned())).collect()
}

fn sources(scratch: &Scratch) {
    scratch.write("k.cu", SOURCE);
    scratch.write("helper.cu", HELPER);
}

/// Compiles, links and gives the object of the device link and the shared library.
fn build(setting: (&str, &str), version: &str, scratch: &Scratch, generate: &str) -> Option<(PathBuf, PathBuf)> {
    let nvcc = toolkit::nvcc(version)?;
    sources(scratch);
    for unit in ["k", "helper"] {
        let words = format!("{generate} -dc -Xcompiler -fPIC {unit}.cu -o {unit}.o");
        nvcc_with(setting, &nvcc, version, scratch.path(), &words);
    }
    let words = format!("{generate} -dlink -Xcompiler -fPIC k.o helper.o -o d.o");
    nvcc_with(setting, &nvcc, version, scratch.path(), &words);
    must(Command::new("g++").current_dir(scratch.path()).args(["-shared", "k.o", "helper.o", "d.o", "-o", "libk.so"]));
    Some((scratch.join("d.o"), scratch.join("libk.so")))
}

#[test]
fn a_device_link_links_what_its_compilations_kept() {
    let scratch = Scratch::new();
    let generate = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_86,code=sm_86 -gencode arch=compute_90,code=sm_90";
    let Some((linked, _)) = build(("DLINK_SHIM_ARCHS", "one-per-major"), "13.0", &scratch, generate) else { return };
    let nvcc = toolkit::nvcc("13.0").unwrap();
    let kept: BTreeSet<String> = ["80", "90"].map(String::from).into();
    assert_eq!(architectures(&nvcc, &linked), kept);
    assert_eq!(architectures(&nvcc, &scratch.join("k.o")), kept);
    // And explain shows the line that was run.
    let mut command = shim();
    command.arg("explain").arg(&nvcc).args(generate.split(' ')).args(["-dlink", "k.o", "helper.o", "-o", "d.o"]);
    let text = must(command.current_dir(scratch.path()).env("DLINK_SHIM_ARCHS", "one-per-major"));
    assert!(text.contains("note: dropped sm_86: sm_80 runs wherever it would\n"), "{text}");
    let line = text.lines().find(|l| l.starts_with("command: ")).unwrap();
    assert!(line.contains("code=sm_80") && line.contains("code=sm_90") && !line.contains("sm_86"), "{line}");
}

#[test]
fn an_object_without_code_for_the_one_that_would_serve_keeps_the_other() {
    let scratch = Scratch::new();
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    sources(&scratch);
    let two = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_86,code=sm_86";
    nvcc_with(("", ""), &nvcc, "13.0", scratch.path(), &format!("{two} -dc -Xcompiler -fPIC k.cu -o k.o"));
    // Machine code for 8.6 alone, of another build: for 8.0 the link would not find the function.
    let one = "-gencode arch=compute_86,code=sm_86";
    nvcc_with(("", ""), &nvcc, "13.0", scratch.path(), &format!("{one} -dc -Xcompiler -fPIC helper.cu -o helper.o"));
    let setting = ("DLINK_SHIM_ARCHS", "one-per-major");
    // Only 8.6 can be linked at all; the list has 8.0 for the sake of other objects.
    let mut command = shim();
    command.arg(&nvcc).args(two.split(' ')).args(["-dlink", "helper.o", "-o", "d.o"]).current_dir(scratch.path());
    let output = command.env(setting.0, setting.1).env("DLINK_SHIM_LOG", "info").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("kept sm_86: not every object of this link has code"), "{said}");
    assert!(architectures(&nvcc, &scratch.join("d.o")).contains("86"));
}

fn size(file: &Path) -> u64 {
    let text = must(Command::new("size").arg("-A").arg(file));
    let line = text.lines().find(|l| l.starts_with(".nv_fatbin ")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn compressed_builds_link_register_and_are_smaller(version: &str) {
    let generate = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]";
    let plain = Scratch::new();
    let Some((linked, _)) = build(("", ""), version, &plain, generate) else { return };
    for setting in ["size", "all"] {
        let scratch = Scratch::new();
        let (small, library) = build(("DLINK_SHIM_COMPRESS", setting), version, &scratch, generate).unwrap();
        assert!(size(&small) * 4 < size(&linked) * 3, "{version} {setting}: {} of {}", size(&small), size(&linked));
        assert_eq!(architectures(&toolkit::nvcc(version).unwrap(), &small), ["80", "90"].map(String::from).into());
        let cuda = toolkit::nvcc(version).unwrap().parent().unwrap().parent().unwrap().to_owned();
        support::recipe::probe(scratch.path(), &cuda);
        let registered = load::load(scratch.path(), &cuda, &[&library.display().to_string()]);
        assert!(registered.ok && registered.times("_Z1kPi") == 1, "{version} {setting}: {registered:?}");
    }
}

#[test]
fn cuda_11_8_compressed() {
    compressed_builds_link_register_and_are_smaller("11.8");
}
#[test]
fn cuda_12_4_compressed() {
    compressed_builds_link_register_and_are_smaller("12.4");
}
#[test]
fn cuda_13_0_compressed() {
    compressed_builds_link_register_and_are_smaller("13.0");
}
#[test]
fn cuda_13_5_compressed() {
    compressed_builds_link_register_and_are_smaller("13.5");
}

#[test]
fn the_flag_is_the_toolkits_own_and_the_callers_wins() {
    for (version, setting, given, added) in [
        ("11.8", "size", "", Some("-Xfatbin=-compress-all")),
        ("12.4", "size", "", Some("-Xfatbin=-compress-all")),
        ("13.0", "size", "", Some("--compress-mode=size")),
        ("13.5", "all", "", Some("-Xfatbin=-compress-all")),
        ("13.0", "size", "--compress-mode=speed", None),
        ("13.0", "size", "-no-compress", None),
        ("12.4", "all", "-Xfatbin -compress-all", None),
        ("12.4", "all", "-Xfatbin=--compress-all", None),
        ("13.0", "size", "-E", None),
        ("13.0", "size", "-M", None),
    ] {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        let scratch = Scratch::new();
        scratch.write("k.cu", "__global__ void k() {}\n");
        let mut command = shim();
        command.arg(&nvcc).args(given.split(' ').filter(|w| !w.is_empty())).args(["-Wno-deprecated-gpu-targets", "--dryrun"]);
        command.args(toolkit::flags(version)).args(["-c", "k.cu"].iter().skip(usize::from(given.len() == 2)));
        let output =
            command.current_dir(scratch.path()).env("DLINK_SHIM_COMPRESS", setting).env("DLINK_SHIM_LOG", "info").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{version} {given}: {said}");
        assert_eq!(said.lines().find_map(|l| l.split_once("compress: ")).map(|(_, flag)| flag), added, "{version} {given}");
    }
}

#[test]
fn a_toolkit_of_unknown_version_is_a_warning() {
    let stand_in = support::StandIn::new();
    let reached = stand_in.run_with(stand_in.scratch.path(), &["-c", "k.cu"], |c| {
        c.env("DLINK_SHIM_COMPRESS", "size");
    });
    assert_eq!(reached.line(), "-c k.cu");
    assert!(reached.stderr().contains("the version of the toolkit of"), "{}", reached.stderr());
    stand_in.scratch.write("include/cuda.h", "#define CUDA_VERSION 13010\n");
    let reached = stand_in.run_with(stand_in.scratch.path(), &["-c", "k.cu"], |c| {
        c.env("DLINK_SHIM_COMPRESS", "size");
    });
    assert_eq!(reached.line(), "-c k.cu --compress-mode=size");
}
