//! `nvcc a.o b.o -o program` and `nvcc -shared a.o -o a.so`: the device link and the host link on one line.

mod support;

use std::path::Path;
use std::process::Command;

use support::load::load;
use support::{Scratch, StandIn, must, shim, toolkit};

/// A library that moved, be it behind `-Xlinker`, would be searched before every other, and the host link would take other
/// symbols than without us.
#[test]
fn units_leave_the_device_link_by_a_mask_and_the_host_link_stays_as_it_is() {
    let scene = fixtures!().scene();
    for words in [
        &["-shared", "plug.o", "-LL", "-lcore_nv", "-lz", "-o", "x.so"][..],
        &["plug.o", "-LL", "-l", "a,core_nv,b", "-o", "x"],
        &["-rdc=true", "plug.o", "L/libcore_nv.a", "-o", "x"],
    ] {
        let seen = StandIn::new().run(scene.path(), words);
        let seen = seen.words();
        let (given, added) = seen.split_at(words.len());
        assert_eq!(given, words);
        assert!(added.len() == 2 && added[0] == "-Xnvlink" && added[1].ends_with("mask.o"), "{added:?}");
    }
    let stripped = StandIn::new().run_with(scene.path(), &["-shared", "plugdev.o", "L/libcore_nv.a"], |c| {
        c.env("DLINK_SHIM_STRIP", "core_nv");
    });
    assert_eq!(stripped.words()[..4], ["-shared", "plugdev.o", "L/libcore_nv.a", "-Xnvlink"]);
}

#[test]
fn the_mask_reaches_nvlink_alone() {
    let scene = fixtures!().scene();
    let words = StandIn::new().run(scene.path(), &["-shared", "plugdev.o", "-LL", "-lcore_nv", "-o", "x.so"]).words();
    assert_eq!(words[..6], ["-shared", "plugdev.o", "-LL", "-lcore_nv", "-o", "x.so"]);
    assert!(words[6] == "-Xnvlink" && words[7].ends_with("mask.o") && words[9].starts_with("-include,"), "{words:?}");
}

#[test]
fn what_is_no_device_link_stays() {
    let scene = fixtures!().scene();
    scene.write("e.c", "int main() {}\n");
    must(Command::new("gcc").args(["-c", "e.c", "-o", "e.o"]).current_dir(scene.path()));
    let untouched = |words: &[&str]| assert_eq!(StandIn::new().run(scene.path(), words).args, words);
    untouched(&["e.o", "-LL", "-o", "x"]);
    untouched(&["x.cu", "plug.o", "-LL", "-lcore_nv", "-o", "x"]);
    untouched(&["-c", "x.cu"]);
    untouched(&["-nodlink", "plug.o", "-LL", "-lcore_nv", "-o", "x"]);
    untouched(&["-x", "cu", "plug.o", "-LL", "-lcore_nv", "-o", "x"]);
}

/// L1, L2 and L4 built by `nvcc -shared` alone.
#[test]
fn plugins_linked_by_nvcc_register_all_through_the_shim() {
    for version in toolkit::VERSIONS {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        let cuda = nvcc.parent().unwrap().parent().unwrap().to_owned();
        let scratch = Scratch::new();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        let run = |through: bool, words: &[&str]| {
            let mut command = if through { shim() } else { support::clean(Command::new(&nvcc)) };
            if through {
                command.arg(&nvcc);
            }
            command.args(["-arch=sm_90", "-Xcompiler", "-fPIC", "-cudart", "shared"]).args(toolkit::flags(version));
            // Debian's packages come without libcudadevrt.
            if !cuda.join("lib64/libcudadevrt.a").exists() {
                command.args(["-cudadevrt", "none"]);
            }
            must(command.arg(format!("-L{}/lib64", cuda.display())).args(words).current_dir(scratch.path()));
        };
        for (unit, macros) in
            [("s", ""), ("d", "-DGIVES=helper"), ("p1", "-DUSES=s"), ("p2", "-DUSES=s"), ("q1", "-DUSES=s -DWANTS=helper")]
        {
            std::fs::copy(sources.join("layouts/unit.cu"), scratch.join(format!("{unit}.cu"))).unwrap();
            let mut words = vec!["-dc".to_owned(), format!("{unit}.cu"), format!("-DNAME={unit}")];
            words.extend(macros.split_whitespace().map(str::to_owned));
            run(false, &words.iter().map(String::as_str).collect::<Vec<_>>());
            must(
                Command::new("objcopy")
                    .args(["-j", ".nv*", "-j", "__nv*", &format!("{unit}.o"), &format!("{unit}_nv.o")])
                    .current_dir(scratch.path()),
            );
        }
        must(Command::new("ar").args(["crs", "libsd_nv.a", "s_nv.o", "d_nv.o"]).current_dir(scratch.path()));
        must(Command::new("ar").args(["crs", "libs.a", "s.o"]).current_dir(scratch.path()));
        must(
            Command::new("gcc")
                .args(["-shared", "-fPIC", "-o", "probe.so"])
                .arg(sources.join("quickstart/probe.c"))
                .arg("-ldl")
                .current_dir(scratch.path()),
        );
        let mut loader = Command::new("g++");
        loader.arg(format!("-I{}/include", cuda.display())).arg(sources.join("quickstart/loader.cpp")).args([
            "-o",
            "loader",
            "-Wl,--no-as-needed",
        ]);
        must(loader.arg(format!("-L{}/lib64", cuda.display())).args(["-lcudart", "-ldl"]).current_dir(scratch.path()));
        let mut lost = 0;
        for through in [false, true] {
            run(through, &["-shared", "s.o", "d.o", "-o", "libcore.so"]);
            run(through, &["-shared", "p1.o", "-L.", "-lsd_nv", "-lcore", "-o", "libp1.so"]);
            run(through, &["-shared", "q1.o", "-L.", "-lsd_nv", "-lcore", "-o", "libq1.so"]);
            run(through, &["-shared", "p1.o", "libs.a", "-o", "libfirst.so"]);
            run(through, &["-shared", "p2.o", "libfirst.so", "libs.a", "-o", "libsecond.so"]);
            for (order, units) in [
                (&["./libcore.so", "./libp1.so", "./libq1.so"][..], &["s", "d", "p1", "q1"][..]),
                (&["./libq1.so", "./libp1.so"], &["s", "d", "p1", "q1"]),
                (&["./libfirst.so", "./libsecond.so"], &["s", "p1", "p2"]),
                (&["./libsecond.so"], &["s", "p1", "p2"]),
            ] {
                let seen = load(scratch.path(), &cuda, order);
                assert!(seen.ok, "nvcc {version}, {order:?}: {}", seen.stderr);
                let missing: Vec<_> = units.iter().filter(|u| seen.times(&format!("{}{u}_kernel", u.len() + 7)) == 0).collect();
                lost += usize::from(!through && !missing.is_empty());
                assert!(!through || missing.is_empty(), "nvcc {version}, {order:?}: {missing:?} of {seen:?}");
            }
        }
        assert!(lost >= 3, "nvcc {version}: stock loses kernels in {lost} orders only");
    }
}
