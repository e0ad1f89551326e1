//! Real links by every linker: where the device code ends up, and that everything still works. `examples/over-2gb/run.py` looks
//! at segments, loads the library under the probe, runs its self-test, and does so again after objcopy and strip; here it runs
//! with tens of megabytes and the limit set low.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use support::{SHIM, Scratch, clean, must, recipe, shim, toolkit};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/over-2gb")
}

fn small(linker: &str, words: &[&str]) {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scratch = Scratch::new();
    let mut command = clean(Command::new("python3"));
    command.arg(example().join("run.py")).args(["--size", "48M", "--linkers", linker, "--shim", SHIM]);
    command.arg("--nvcc").arg(nvcc).arg("--out").arg(scratch.join("out")).args(words);
    let said = must(&mut command);
    let rows = said.lines().filter(|l| l.starts_with(linker) && l.contains("links")).count();
    assert!(rows >= 1 && said.matches("3 kernels registered; self_test ok").count() == 3 * rows, "{said}");
}

#[test]
fn a_library_linked_by_bfd_works_before_and_after_strip() {
    small("bfd", &[]);
}

#[test]
fn a_library_linked_by_gold_works_before_and_after_strip() {
    if toolkit::has("ld.gold") {
        small("gold", &[]);
    }
}

#[test]
fn a_library_linked_by_lld_works_before_and_after_strip() {
    if toolkit::has("ld.lld") {
        small("lld", &[]);
    }
}

#[test]
fn a_library_linked_by_mold_works_before_and_after_strip() {
    if toolkit::has("mold") {
        small("mold", &[]);
    }
}

#[test]
fn clang_links_as_gcc_does() {
    if toolkit::has("clang++") && toolkit::has("ld.lld") {
        small("lld", &["--cxx", "clang++"]);
    }
}

/// A directory with objects of nvcc 13.0 and the library's and a program's host code: first.o, last.o, rdc.o, libhelper.a,
/// selftest.o, main.o; and the toolkit.
fn objects() -> Option<(Scratch, PathBuf)> {
    static BUILT: std::sync::OnceLock<Option<(Scratch, PathBuf)>> = std::sync::OnceLock::new();
    let (built, cuda) = BUILT.get_or_init(compiled).as_ref()?;
    let scratch = Scratch::new();
    for file in std::fs::read_dir(built.path()).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, scratch.join(path.file_name().unwrap())).unwrap();
    }
    Some((scratch, cuda.clone()))
}

fn compiled() -> Option<(Scratch, PathBuf)> {
    let nvcc = toolkit::nvcc("13.0")?;
    let scratch = Scratch::new();
    let compile = |source: &str, output: &str, words: &[&str]| {
        let mut command = Command::new(&nvcc);
        command.args(["-arch=sm_90", "-Xcompiler=-fPIC"]).args(words).arg(example().join(source)).args(["-o", output]);
        must(command.current_dir(scratch.path()));
    };
    compile("kernel.cu", "first.o", &["-c", "-DNAME=first", "-DVALUE=1"]);
    compile("kernel.cu", "last.o", &["-c", "-DNAME=last", "-DVALUE=1"]);
    compile("kernel.cu", "rdc.o", &["-dc", "-DNAME=rdc", "-DVALUE=1", "-DNEEDS_HELPER"]);
    compile("helper.cu", "helper.o", &["-dc"]);
    must(Command::new("ar").args(["crs", "libhelper.a", "helper.o"]).current_dir(scratch.path()));
    must(Command::new("g++").args(["-fPIC", "-c"]).arg(example().join("selftest.cpp")).current_dir(scratch.path()));
    scratch.write("main.cpp", "extern \"C\" int self_test(); int main() { return self_test(); }\n");
    must(Command::new("g++").args(["-c", "main.cpp"]).current_dir(scratch.path()));
    let cuda = nvcc.parent().unwrap().parent().unwrap().to_owned();
    Some((scratch, cuda))
}

/// Where the sections of device code lie: the flags of each one's segment, and whether the segment holds `.bss` or `.text` too.
fn assert_apart(image: &Path) {
    let data = std::fs::read(image).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let mut found = 0;
    for section in file.sections() {
        let name = section.name().unwrap();
        let holds = |s: &object::Segment<'_, '_>, at: u64| s.address() <= at && at < s.address() + s.size();
        let segment = file.segments().find(|s| holds(s, section.address()));
        if name == ".nv_fatbin" || name == "__nv_relfatbin" {
            found += 1;
            let segment = segment.unwrap();
            assert!(matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 == 4), "{name} is not read-only");
            for other in [".text", ".data", ".bss", ".dynamic", ".eh_frame"] {
                let other = file.section_by_name(other).unwrap();
                assert!(other.address() + other.size() <= segment.address(), "{name} stands before {}", other.name().unwrap());
            }
        }
    }
    assert!(found > 0, "no device code in {}", image.display());
}

fn assert_runs(program: &Path, cuda: &Path) {
    must(Command::new(program).env("LD_LIBRARY_PATH", cuda.join("lib64")));
}

#[test]
fn programs_work_position_independent_or_not() {
    let Some((scratch, cuda)) = objects() else { return };
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !toolkit::has(&format!("ld.{linker}")) {
            continue;
        }
        for pie in ["-pie", "-no-pie"] {
            let mut command = shim();
            command.args(["g++", pie, &format!("-fuse-ld={linker}"), "main.o", "first.o", "selftest.o", "last.o", "-o", "program"]);
            command.arg(format!("-L{}/lib64", cuda.display())).args(["-lcudart", "-Wl,--gc-sections"]);
            must(command.env("DLINK_SHIM_PLACE_LIMIT", "4K").current_dir(scratch.path()));
            assert_apart(&scratch.join("program"));
            assert_runs(&scratch.join("program"), &cuda);
        }
    }
}

#[test]
fn a_host_link_that_nvcc_makes_is_placed_too() {
    let Some((scratch, cuda)) = objects() else { return };
    scratch.write("all.rsp", "\"first.o\" main.o\nselftest.o");
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !toolkit::has(&format!("ld.{linker}")) {
            continue;
        }
        // The image of nvcc's own device link is out of reach with gold.
        let device: &[&str] = if linker == "gold" { &["-nodlink"] } else { &["rdc.o", "-L.", "-lhelper"] };
        for listed in [&["main.o", "first.o", "selftest.o"][..], &["--options-file", "all.rsp"]] {
            let mut command = shim();
            command.arg(cuda.join("bin/nvcc")).args(["-arch=sm_90", "-cudart=shared", "-Xcompiler", &format!("-fuse-ld={linker}")]);
            command.args(listed).args(device).args(["last.o", "-o", "program"]).env("DLINK_SHIM_PLACE_LIMIT", "4K");
            must(command.current_dir(scratch.path()));
            assert_apart(&scratch.join("program"));
            assert_runs(&scratch.join("program"), &cuda);
        }
    }
}

#[test]
fn the_output_depends_on_the_inputs_alone_and_far_below_the_limit_on_nothing_of_ours() {
    let Some((scratch, cuda)) = objects() else { return };
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !toolkit::has(&format!("ld.{linker}")) {
            continue;
        }
        let link = |mut command: Command, limit: &str, tmp: &str| {
            std::fs::create_dir_all(scratch.join(tmp)).unwrap();
            command.args(["-shared", &format!("-fuse-ld={linker}"), "-Wl,--build-id", "first.o", "selftest.o", "last.o", "-o", "lib.so"]);
            command.arg(format!("-L{}/lib64", cuda.display())).arg("-lcudart").env("DLINK_SHIM_PLACE_LIMIT", limit);
            must(command.env("TMPDIR", scratch.join(tmp)).current_dir(scratch.path()));
            std::fs::read(scratch.join("lib.so")).unwrap()
        };
        let ours = || {
            let mut command = shim();
            command.arg("g++");
            command
        };
        let stock = link(Command::new("g++"), "", "t");
        assert!(link(ours(), "1G", "t") == stock, "{linker}: the untouched link is another");
        let placed = link(ours(), "4K", "t");
        assert!(placed != stock && link(ours(), "4K", "another/place") == placed, "{linker}: the temporary directory shows");
    }
}

/// Load, call and catch, with words that change how segments are laid out.
#[test]
fn layouts_of_the_callers_own_keep_the_device_code_apart() {
    let Some((scratch, cuda)) = objects() else { return };
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !toolkit::has(&format!("ld.{linker}")) {
            continue;
        }
        for layout in ["noseparate-code", "separate-code", "max-page-size=2097152", "norelro", "relro,-z,now"] {
            if linker == "gold" && layout.ends_with("separate-code") {
                continue; // gold knows neither.
            }
            let mut command = shim();
            command.args(["g++", &format!("-fuse-ld={linker}"), "main.o", "first.o", "selftest.o", "last.o", "-o", "program"]);
            command.arg(format!("-L{}/lib64", cuda.display())).args(["-lcudart", &format!("-Wl,-z,{layout}")]);
            let output = command.env("DLINK_SHIM_PLACE_LIMIT", "4K").current_dir(scratch.path()).output().unwrap();
            assert!(output.status.success(), "{linker} {layout}: {output:?}");
            assert_apart(&scratch.join("program"));
            assert_runs(&scratch.join("program"), &cuda);
        }
    }
}

#[test]
fn the_makefile_lines_place_without_a_launcher() {
    let Some((scratch, cuda)) = objects() else { return };
    if !toolkit::has("make") {
        return;
    }
    let lines = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts/make/place-fatbins.mk");
    let rule = format!("lib.so: first.o selftest.o last.o\n\t$(CXX) -shared $(LDFLAGS) -o $@ $^ -L{}/lib64 -lcudart\n", cuda.display());
    scratch.write("Makefile", format!("include {}\n{rule}", lines.display()));
    let mut make = recipe::command("make", &cuda.join("bin/nvcc"));
    must(make.args(["CXX=g++", "lib.so"]).current_dir(scratch.path()));
    assert_apart(&scratch.join("lib.so"));
    if toolkit::has("mold") {
        let words = must(shim().args(["link-script", "--linker", "mold"]));
        let line = format!("g++ -fuse-ld=mold -shared {words} -o lib.so first.o selftest.o last.o -L{}/lib64 -lcudart", cuda.display());
        must(Command::new("sh").args(["-c", &line.replace('\n', " ")]).current_dir(scratch.path()));
        assert_apart(&scratch.join("lib.so"));
    }
    for (linker, expected) in [("gold", "gold takes no such script"), ("wild", "no remedy is known")] {
        let output = shim().args(["link-script", "--linker", linker]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(expected) && said.lines().count() == 1, "{said}");
    }
}

/// Host code of aarch64 with the references that overflow there, assembled by Debian's cross binutils. What it makes can't run here.
#[test]
fn aarch64_objects_link_with_the_device_code_last() {
    if !toolkit::has("aarch64-linux-gnu-ld.bfd") || !toolkit::has("mold") {
        return;
    }
    let scratch = Scratch::new();
    scratch.write(
        "host.s",
        ".text\n.globl f\nf:\n.cfi_startproc\nadrp x0, v\nadd x0, x0, :lo12:v\nret\n.cfi_endproc\n.data\nv: .xword fat\n\
         .section .rodata\n.word v - .\n.bss\n.skip 4096\n",
    );
    scratch.write(
        "fat.s",
        ".section .nv_fatbin,\"a\"\n.globl fat\n.hidden fat\nfat: .skip 400000\n.section __nv_relfatbin,\"a\"\n.skip 200000\n",
    );
    for name in ["host", "fat"] {
        let mut command = Command::new("aarch64-linux-gnu-as");
        must(command.args([&format!("{name}.s"), "-o", &format!("{name}.o")]).current_dir(scratch.path()));
    }
    for linker in ["aarch64-linux-gnu-ld.bfd", "ld.lld"] {
        if !toolkit::has(linker) {
            continue;
        }
        let mut command = shim();
        command.args([linker, "-shared", "host.o", "fat.o", "-o", "lib.so"]).env("DLINK_SHIM_PLACE_LIMIT", "500K");
        must(command.current_dir(scratch.path()));
        let data = std::fs::read(scratch.join("lib.so")).unwrap();
        let file = object::File::parse(&*data).unwrap();
        let at = |name: &str| file.section_by_name(name).unwrap().address();
        assert!(at(".nv_fatbin") > at(".bss") && at("__nv_relfatbin") > at(".bss"), "{linker}");
    }
    for linker in ["ld.gold", "mold"] {
        let mut command = shim();
        command.args([linker, "host.o", "fat.o", "-o", "x"]).env("DLINK_SHIM_PLACE_LIMIT", "500K").current_dir(scratch.path());
        let said = String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned();
        assert!(said.contains("is not known to place device code well on this machine"), "{linker}: {said}");
    }
}
