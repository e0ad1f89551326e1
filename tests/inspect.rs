//! `inspect` against the toolkit's own cuobjdump: the same images and the same symbols, whatever the toolkit and the file.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlink_shim::inspection::{self, Depth};
use dlink_shim::object::fatbin::Kind;
use support::{Scratch, must, toolkit};

/// An image: kind, architecture, names of its symbols (with ` U` for undefined ones where cuobjdump says so).
type Image = (String, String, BTreeSet<String>);

/// What cuobjdump says of the images in a file.
fn dumped(cuobjdump: &Path, file: &Path, undefined: bool) -> Vec<Image> {
    // Members of a thin archive are looked for in the current directory.
    let output = must(Command::new(cuobjdump).args(["-all", "-symbols"]).arg(file).current_dir(file.parent().unwrap()));
    let mut images: Vec<Image> = Vec::new();
    let mut symbols = false;
    for line in output.lines().map(str::trim_start) {
        if line == "Fatbin concatenated entry code:" {
            // Its images follow; it is none.
            symbols = false;
        } else if let Some(kind) = line.strip_prefix("Fatbin ").and_then(|l| l.strip_suffix(" code:")) {
            images.push((kind.to_owned(), String::new(), BTreeSet::new()));
            symbols = false;
        } else if let (Some(arch), Some(image)) = (line.strip_prefix("arch = "), images.last_mut()) {
            image.1 = arch.trim().to_owned();
        } else if line == "symbols:" {
            symbols = true;
        } else if line.is_empty() {
            symbols = false;
        } else if let (true, Some(image)) = (symbols, images.last_mut()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            // A symbol without a name.
            if words[words.len() - 1] == "U" {
                continue;
            }
            let mark = if undefined && words[words.len() - 2] == "U" { " U" } else { "" };
            image.2.insert(format!("{}{mark}", words[words.len() - 1]));
        }
    }
    images.sort();
    images
}

/// What `inspect` says.
fn inspected(file: &Path, undefined: bool) -> Vec<Image> {
    let seen = inspection::inspect(file, Depth::Symbols).unwrap();
    assert_eq!(seen.flaws, [""; 0], "{}", file.display());
    let mut images = Vec::new();
    for image in seen.parts.iter().flat_map(|p| &p.sections).flat_map(|s| &s.containers).flat_map(|c| &c.images) {
        let mut names = BTreeSet::new();
        let kind = match image.kind {
            Kind::Elf => "elf",
            Kind::Ptx => "ptx",
            Kind::LtoIr => "nvvm",
            Kind::Unknown(_) => "?",
        };
        // cuobjdump shows symbols of cubins only.
        for symbol in image.symbols().into_iter().flatten().filter(|_| image.kind == Kind::Elf) {
            let mark = if undefined && !symbol.defined { " U" } else { "" };
            names.insert(format!("{}{mark}", String::from_utf8_lossy(&symbol.name)));
        }
        images.push((kind.to_owned(), image.arch.to_string().replace("compute_", "sm_").replace("lto_", "sm_"), names));
    }
    images.sort();
    images
}

fn same(cuobjdump: &Path, file: &Path) {
    // cuobjdump marks undefined symbols from 13.0 on.
    let marks = file_name(cuobjdump.parent().unwrap().parent().unwrap()).starts_with("13");
    let (theirs, ours) = (dumped(cuobjdump, file, marks), inspected(file, marks));
    assert!(!theirs.is_empty(), "{}", file.display());
    let heads = |images: &[Image]| images.iter().map(|i| format!("{} {}", i.0, i.1)).collect::<Vec<_>>();
    assert_eq!(heads(&ours), heads(&theirs), "{}", file.display());
    for (our, their) in ours.iter().zip(&theirs) {
        let differ: Vec<_> = our.2.symmetric_difference(&their.2).collect();
        assert!(differ.is_empty(), "{} {} {}: {differ:?}", file.display(), our.0, our.1);
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn cuobjdump(version: &str) -> Option<PathBuf> {
    Some(toolkit::nvcc(version)?.with_file_name("cuobjdump"))
}

#[test]
fn libcudadevrt_of_every_toolkit() {
    for version in toolkit::VERSIONS {
        let Some(program) = cuobjdump(version) else { return };
        let archive = program.with_file_name("../lib64/libcudadevrt.a");
        if archive.exists() {
            same(&program, &archive);
        }
    }
}

#[test]
fn libnvshmem_device_from_pypi() {
    let Some(program) = cuobjdump("13.5") else { return };
    let Some(directory) = toolkit::wheel("nvidia-nvshmem-cu13==3.8.0", &["*/libnvshmem_device.a"]) else { return };
    same(&program, &directory.join("libnvshmem_device.a"));
}

const SOURCE: &str = "\
extern __device__ int far(int);
static __global__ void local_kernel(int *p) { *p = 1; }
template <class T> __global__ void many(T *p) { *p = 1; }
namespace { __global__ void unnamed(int *p) { *p = 1; } __device__ int unnamed_variable; }
__device__ __noinline__ int function(int x) { return x + unnamed_variable; }
__constant__ int constant;
__managed__ int managed;
extern __device__ int elsewhere;
struct Base { virtual __device__ int get() { return 1; } };
__global__ void kernel(Base *b, int *p) { extern __shared__ int s[]; new (b) Base; *p = b->get() + function(3) + constant + s[0] + far(managed + elsewhere); }
void host(int *p) { local_kernel<<<1, 1>>>(p); many<<<1, 1>>>(p); unnamed<<<1, 1>>>(p); }
";
const GIVER: &str = "__device__ int elsewhere; __device__ int far(int x) { return x; }\n__global__ void giver_kernel() {}\n";

#[test]
fn objects_and_images_of_every_toolkit_compression_and_kind() {
    for version in toolkit::VERSIONS {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        let program = nvcc.with_file_name("cuobjdump");
        let mut modes: Vec<Vec<&str>> = vec![
            vec!["-arch=sm_80"],
            vec!["-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_90,code=sm_90", "-Xfatbin=-compress-all"],
            vec!["-arch=sm_80", "-no-compress", "-lineinfo"],
            vec!["-arch=sm_80", "-G"],
        ];
        if version.starts_with("13") {
            modes.extend(
                ["size", "speed", "none"].map(|m| vec!["-gencode=arch=compute_100f,code=[sm_100f,compute_100f]", "--compress-mode", m]),
            );
            modes.push(vec!["-gencode=arch=compute_90a,code=[sm_90a,compute_90a]"]);
        }
        if version == "13.5" {
            modes.push(vec!["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,compute_90]", "-concat"]);
        }
        let scratch = Scratch::new();
        scratch.write("user.cu", format!("#include <new>\n{SOURCE}"));
        scratch.write("giver.cu", GIVER);
        for mode in modes {
            let run = |words: &[&str]| {
                let mut command = Command::new(&nvcc);
                command.args(["-Xcompiler", "-fPIC"]).args(toolkit::flags(version)).args(&mode).args(words).current_dir(scratch.path());
                must(&mut command);
            };
            for name in ["user", "giver"] {
                run(&["-dc", &format!("{name}.cu"), "-o", &format!("{name}.o")]);
                same(&program, &scratch.join(format!("{name}.o")));
            }
            // nvlink takes nothing out of -concat containers but PTX.
            run(&["-dlink", "user.o", "giver.o", "-o", "stub.o"]);
            same(&program, &scratch.join("stub.o"));
            run(&["-c", "giver.cu", "-o", "whole.o"]);
            same(&program, &scratch.join("whole.o"));
            let _ = std::fs::remove_file(scratch.join("lib.a"));
            must(Command::new("ar").args(["crs", "lib.a", "user.o", "giver.o"]).current_dir(scratch.path()));
            same(&program, &scratch.join("lib.a"));
            for (name, flags) in [("lib.so", &[][..]), ("lld.so", &["-fuse-ld=lld", "-s"])] {
                if name == "lld.so" && !toolkit::has("ld.lld") {
                    continue;
                }
                let mut link = Command::new("g++");
                link.args(["-shared", "-o", name, "user.o", "giver.o", "stub.o"]).args(flags).current_dir(scratch.path());
                must(&mut link);
                same(&program, &scratch.join(name));
            }
            run(&["-fatbin", "giver.cu", "-o", "giver.fatbin"]);
            same(&program, &scratch.join("giver.fatbin"));
        }
    }
}
