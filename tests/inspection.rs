//! What is read out of real files: compression modes, PTX, LTO-IR, archives of every kind, shared objects; and hostile data.

mod support;

use std::path::Path;
use std::process::Command;

use dlink_shim::object::{self, Content, DeviceSymbols, Member};
use proptest::prelude::*;
use support::{Scratch, StandIn, must, toolkit};

const USER: &str = "extern __device__ int helper(int);\nextern __device__ int far_variable;\n\
    __global__ void user_kernel(int *p) { extern __shared__ int s[]; *p = helper(far_variable) + s[0]; printf(\"%d\", *p); }\n";
const GIVER: &str = "__device__ int far_variable = 3;\n__device__ int helper(int x) { return x + far_variable; }\n";

fn compile(nvcc: &Path, scratch: &Scratch, name: &str, text: &str, flags: &[&str]) -> Member {
    scratch.write(format!("{name}.cu"), format!("#include <cstdio>\n{text}"));
    let object = format!("{name}.o");
    must(
        Command::new(nvcc)
            .args(["-Xcompiler", "-fPIC", "-dc", &format!("{name}.cu"), "-o", &object])
            .args(flags)
            .current_dir(scratch.path()),
    );
    let Content::Object(member) = object::inspect(&scratch.join(&object)).unwrap() else { panic!("{object} is no object") };
    member
}

fn symbols(scratch: &Scratch, name: &str, member: &Member) -> DeviceSymbols {
    object::device_symbols(&scratch.join(format!("{name}.o")), member).unwrap()
}

fn text(set: &std::collections::BTreeSet<Vec<u8>>) -> Vec<String> {
    set.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect()
}

#[test]
fn device_symbols_are_read_whatever_the_compression_and_the_kind() {
    for version in toolkit::VERSIONS {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        let mut modes: Vec<Vec<&str>> =
            vec![vec!["-arch=sm_80"], vec!["-arch=sm_80", "-no-compress"], vec!["-gencode=arch=compute_80,code=compute_80"]];
        modes.push(vec![
            "-gencode=arch=compute_80,code=[sm_80,compute_80]",
            "-gencode=arch=compute_90,code=sm_90",
            "-Xfatbin=-compress-all",
        ]);
        if version.starts_with("13") {
            modes.extend(["size", "speed", "balance", "none"].map(|m| vec!["-arch=sm_90", "--compress-mode", m]));
        }
        if version == "13.5" {
            modes.push(vec!["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,compute_90]", "-concat"]);
        }
        for mode in modes {
            let flags = [&mode[..], toolkit::flags(version)].concat();
            let scratch = Scratch::new();
            let user = compile(&nvcc, &scratch, "user", USER, &flags);
            let seen = symbols(&scratch, "user", &user);
            assert_eq!(text(&seen.needs), ["_Z6helperi", "far_variable"], "nvcc {version} {mode:?}: {seen:?}");
            assert!(seen.defines.contains(b"_Z11user_kernelPi".as_slice()) && !seen.opaque, "nvcc {version} {mode:?}: {seen:?}");
            let giver = compile(&nvcc, &scratch, "giver", GIVER, &flags);
            let seen = symbols(&scratch, "giver", &giver);
            assert_eq!(text(&seen.variables), ["far_variable"], "nvcc {version} {mode:?}");
            assert!(seen.defines.contains(b"_Z6helperi".as_slice()) && seen.needs.is_empty());
        }
    }
}

#[test]
fn lto_ir_alone_is_not_knowable_and_keeps_a_library_with_one_warning() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scratch = Scratch::new();
    let giver = compile(&nvcc, &scratch, "giver", GIVER, &["-gencode=arch=compute_90,code=lto_90"]);
    assert!(symbols(&scratch, "giver", &giver).opaque);
    compile(&nvcc, &scratch, "own", USER, &["-arch=sm_90"]);
    compile(&nvcc, &scratch, "alone", "__global__ void alone_kernel() {}\n", &["-arch=sm_90"]);
    must(Command::new("objcopy").args(["-j", ".nv*", "-j", "__nv*", "giver.o", "giver_nv.o"]).current_dir(scratch.path()));
    must(Command::new("ar").args(["crs", "libgiver_nv.a", "giver_nv.o"]).current_dir(scratch.path()));
    let words = ["-dlink", "own.o", "-L.", "-lgiver_nv"];
    let reached = StandIn::new().run(scratch.path(), &words);
    assert_eq!(reached.words()[..4], words);
    assert!(reached.line().contains("guard.h"));
    assert_eq!(reached.stderr().lines().count(), 1);
    assert!(reached.stderr().starts_with("dlink-shim: warning: giver_nv: stays"), "{}", reached.stderr());
    let strict = support::shim().arg(&nvcc).args(words).env("DLINK_SHIM_STRICT", "1").current_dir(scratch.path()).output().unwrap();
    assert_eq!(strict.status.code(), Some(2));
    // What asks for nothing can't need it, readable or not.
    assert_eq!(StandIn::new().run(scratch.path(), &["-dlink", "alone.o", "-L.", "-lgiver_nv"]).words(), ["-dlink", "alone.o", "-L."]);
    // With PTX beside it the names are there.
    let both = compile(&nvcc, &scratch, "both", GIVER, &["-arch=sm_90", "-dlto"]);
    assert!(!symbols(&scratch, "both", &both).opaque);
}

#[test]
fn needs_are_closed_over_archives() {
    let fixtures = fixtures!();
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scene = fixtures.scene();
    // plug2 needs middle, which needs helper of core_nv.
    compile(
        &nvcc,
        &scene,
        "middle",
        "extern __device__ int helper(int);\n__device__ int middle(int x) { return helper(x); }\n",
        &["-arch=sm_90"],
    );
    compile(
        &nvcc,
        &scene,
        "plug2",
        "extern __device__ int middle(int);\n__global__ void plug2_kernel(int *p) { *p = middle(1); }\n",
        &["-arch=sm_90"],
    );
    must(Command::new("objcopy").args(["-j", ".nv*", "-j", "__nv*", "middle.o", "middle_nv.o"]).current_dir(scene.path()));
    must(Command::new("ar").args(["crs", "L/libmiddle_nv.a", "middle_nv.o"]).current_dir(scene.path()));
    let words = ["-dlink", "plug2.o", "-LL", "-lcore_nv", "-lmiddle_nv"];
    let reached = StandIn::new().run(scene.path(), &words);
    assert_eq!(reached.words()[..5], words);
    let guarded = |f: &Vec<u8>| String::from_utf8_lossy(f).lines().filter(|l| l.starts_with("DLINK_SHIM_UNIT(")).count();
    assert_eq!(reached.new_files.iter().map(guarded).max(), Some(2), "devfn and middle; core is masked");
    assert_eq!(
        StandIn::new().run(scene.path(), &["-dlink", "plug.o", "-LL", "-lcore_nv", "-lmiddle_nv"]).words(),
        ["-dlink", "plug.o", "-LL"]
    );
}

#[test]
fn a_full_archive_goes_only_when_a_shared_library_before_it_exports_the_stub() {
    let fixtures = fixtures!();
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scene = fixtures.scene();
    fixtures.archive(&scene, "L/libcore.a", &["core.o"]);
    must(
        Command::new(&nvcc)
            .args(["-arch=sm_90", "-Xcompiler", "-fPIC", "-dlink", "-o"])
            .arg(scene.join("stub.o"))
            .arg(fixtures.object("core.o")),
    );
    let so = |name: &str, flags: &[&str]| {
        let mut link = Command::new("g++");
        link.args(["-shared", "-o", name]).arg(fixtures.object("core.o")).arg("stub.o").args(flags).current_dir(scene.path());
        must(&mut link);
    };
    so("libcore.so", &[]);
    scene.write("hide.map", "{ local: *; };");
    so("libhidden.so", &["-Wl,--version-script=hide.map"]);
    must(Command::new("strip").arg(scene.join("libcore.so")));
    // The host linker takes core.o for `run_core` all the same, and its registrar would call the library's stub once more.
    scene.write("part.map", "{ global: __cuda*; __fatbinwrap*; local: *; };");
    so("libpart.so", &["-Wl,--version-script=part.map"]);
    // nvcc 13 hides a kernel's host function, so who launches the archive's kernel itself gets the archive's member.
    scene.write(
        "launches.cu",
        "extern __global__ void core_kernel(int *);\n__global__ void own() {}\nvoid f() { core_kernel<<<1, 1>>>(0); own<<<1, 1>>>(); }\n",
    );
    must(Command::new(&nvcc).current_dir(scene.path()).args(["-arch=sm_90", "-Xcompiler", "-fPIC", "-dc", "launches.cu"]));
    let run = |words: &[&str]| StandIn::new().run(scene.path(), words).words().join(" ");
    assert_eq!(run(&["-dlink", "plug.o", "libcore.so", "L/libcore.a"]), "-dlink plug.o libcore.so");
    for words in [
        ["-dlink", "plug.o", "L/libcore.a", "libcore.so"],
        ["-dlink", "plug.o", "libhidden.so", "L/libcore.a"],
        ["-dlink", "plug.o", "libpart.so", "L/libcore.a"],
        ["-dlink", "launches.o", "libcore.so", "L/libcore.a"],
        ["-dlink", "plug.o", "L/libcore.a", "-v"],
    ] {
        assert!(run(&words).starts_with(&words.join(" ")), "{}", run(&words));
        assert!(run(&words).contains("guard.h"), "{}", run(&words));
    }
}

#[test]
fn thin_archives_joined_objects_and_stubs_are_read() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    for name in ["core_nv.o", "devfn_nv.o"] {
        std::fs::copy(fixtures.object(name), scene.join(name)).unwrap();
    }
    must(Command::new("ar").args(["crsT", "L/libthin_nv.a", "core_nv.o", "devfn_nv.o"]).current_dir(scene.path()));
    assert_eq!(StandIn::new().run(scene.path(), &["-dlink", "plug.o", "-LL", "-lthin_nv"]).words(), ["-dlink", "plug.o", "-LL"]);
    let words = ["-dlink", "plugdev.o", "-LL", "-lthin_nv"];
    assert_eq!(StandIn::new().run(scene.path(), &words).words()[..4], words);
    must(
        Command::new("ld")
            .args(["-r", "-o", "joined.o"])
            .arg(fixtures.object("core.o"))
            .arg(fixtures.object("devfn.o"))
            .current_dir(scene.path()),
    );
    let Content::Object(joined) = object::inspect(&scene.join("joined.o")).unwrap() else { panic!() };
    assert_eq!(joined.units.len(), 2);
    assert!(joined.units.iter().all(|u| !u.device_only));
}

/// GNU ar writes `/SYM64/` once offsets pass 4 GiB; the table's form is the same in a small file.
#[test]
fn archives_with_a_64_bit_symbol_table_are_read() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    let plain = std::fs::read(scene.join("L/libcore_nv.a")).unwrap();
    assert_eq!(&plain[8..10], b"/ ");
    let size: usize = std::str::from_utf8(&plain[56..66]).unwrap().trim().parse().unwrap();
    let table = [0u8; 8];
    let mut big = b"!<arch>\n".to_vec();
    big.extend(format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "/SYM64/", 0, 0, 0, 0, table.len()).into_bytes());
    big.extend(table);
    big.extend(&plain[68 + size + size % 2..]);
    scene.write("L/libbig_nv.a", big);
    let Content::Archive(members) = object::inspect(&scene.join("L/libbig_nv.a")).unwrap() else { panic!() };
    assert_eq!(members.len(), 2);
    assert_eq!(StandIn::new().run(scene.path(), &["-dlink", "plug.o", "-LL", "-lbig_nv"]).words(), ["-dlink", "plug.o", "-LL"]);
}

#[test]
fn case_26_odd_files_are_survived_and_the_line_stays() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    scene.write("script.a", "GROUP ( libfoo.so )\n");
    scene.write("empty.a", "!<arch>\n");
    scene.write("nothing.a", "");
    must(Command::new("ar").args(["crs", "nested.a", "empty.a", "L/libcore_nv.a"]).current_dir(scene.path()));
    let bytes = std::fs::read(scene.join("L/libcore_nv.a")).unwrap();
    scene.write("cut.a", &bytes[..bytes.len() * 2 / 3]);
    std::fs::create_dir(scene.join("dir.a")).unwrap();
    must(Command::new("mkfifo").arg(scene.join("pipe.a")));
    scene.write("lto.c", "int f(void) { return 1; }\n");
    must(Command::new("gcc").args(["-flto", "-c", "lto.c", "-o", "lto.o"]).current_dir(scene.path()));
    for name in ["script.a", "empty.a", "nothing.a", "nested.a", "cut.a", "dir.a", "pipe.a", "lto.o"] {
        let words = ["-dlink", "plug.o", name, "-v"];
        let reached = StandIn::new().run(scene.path(), &words);
        assert_eq!(reached.words(), words, "{name}");
        assert!(reached.stderr().lines().count() <= 1, "{name}: {}", reached.stderr());
        let explained = support::shim()
            .args(["explain", "--", "nvcc", "-dlink", "plug.o", name])
            .env("DLINK_SHIM_NVCC", StandIn::new().nvcc)
            .current_dir(scene.path())
            .output()
            .unwrap();
        assert!(explained.status.code().is_some_and(|c| c == 0 || c == 127), "{explained:?}");
    }
    // What can't be looked into may need anything: nothing is stripped beside it.
    let words = ["-dlink", "plug.o", "cut.a", "-LL", "-lcore_nv"];
    assert_eq!(StandIn::new().run(scene.path(), &words).words()[..5], words);
}

#[test]
fn cut_and_flipped_files_never_panic() {
    let fixtures = fixtures!();
    let archive = fixtures.archive(&Scratch::new(), "x.a", &["core.o", "devfn_nv.o"]);
    drop(archive);
    let object = std::fs::read(fixtures.object("plugdev.o")).unwrap();
    let scratch = Scratch::new();
    let archive = std::fs::read(fixtures.archive(&scratch, "x.a", &["core.o", "devfn_nv.o"])).unwrap();
    let look = |data: &[u8]| {
        if let Ok(content) = object::content(data, Path::new("x")) {
            for member in content.members() {
                let start = (member.place.range.start + member.device_code.start) as usize;
                let end = (member.place.range.start + member.device_code.end) as usize;
                if let Some(section) = data.get(start..end) {
                    object::symbols::of_section(section);
                }
            }
        }
    };
    for data in [&object, &archive] {
        for cut in (0..data.len()).step_by(37) {
            look(&data[..cut]);
        }
    }
    proptest!(ProptestConfig::with_cases(3000), |(which in any::<bool>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6))| {
        let mut data = if which { object.clone() } else { archive.clone() };
        for (at, byte) in flips {
            let at = at.index(data.len());
            data[at] = byte;
        }
        look(&data);
    });
}
