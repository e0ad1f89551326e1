//! `cargo bench`: what dlink-shim costs and saves, as ratios against plain nvcc measured in the same run. Nothing is asserted.

#[path = "../tests/support/toolkit.rs"]
mod toolkit;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program: this build's, or the one that `DLINK_SHIM_BENCH` names (a static build, say).
fn shim() -> &'static str {
    static SHIM: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    SHIM.get_or_init(|| std::env::var("DLINK_SHIM_BENCH").unwrap_or_else(|_| env!("CARGO_BIN_EXE_dlink-shim").into()))
}

fn main() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let place = toolkit::target().join("bench");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(place.join("L")).unwrap();
    pass_through(&nvcc, &place);
    device_link(&nvcc, &place);
    guarded(&nvcc, &place);
    inspection(&place);
    many_archives(&nvcc, &place);
    let size = std::fs::metadata(shim()).unwrap().len();
    println!("program: {size} bytes ({:.2} MiB)", size as f64 / f64::from(1 << 20));
}

fn time(words: &[&str], place: &Path) -> Duration {
    let start = Instant::now();
    let status = Command::new(words[0]).args(&words[1..]).current_dir(place).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{words:?}");
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn pass_through(nvcc: &Path, place: &Path) {
    let nvcc = nvcc.to_str().unwrap();
    std::fs::write(place.join("x.cu"), "__global__ void k() {}\n").unwrap();
    let wrapper = place.join("wrapper");
    std::fs::write(&wrapper, format!("#!/bin/sh\nexec {nvcc} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (mut plain, mut sh) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        plain.push(time(&[nvcc, "--version"], place));
        sh.push(time(&[wrapper.to_str().unwrap(), "--version"], place));
    }
    let more = median(sh).saturating_sub(median(plain));
    println!("for comparison, a wrapper of two lines of sh, --version: +{} (median of 100 pairs)", ms(more));
    for (name, words, pairs) in [("--version", vec!["--version"], 100), ("-dc", vec!["-dc", "x.cu"], 9), ("-c", vec!["-c", "x.cu"], 7)] {
        let plain: Vec<&str> = [&[nvcc], &words[..]].concat();
        let ours: Vec<&str> = [&[shim(), nvcc], &words[..]].concat();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            a.push(time(&plain, place));
            b.push(time(&ours, place));
        }
        let (a, b) = (median(a), median(b));
        println!(
            "pass-through {name}: nvcc {}, through dlink-shim {} (+{}; median of {pairs} pairs)",
            ms(a),
            ms(b),
            ms(b.saturating_sub(a))
        );
    }
}

fn device_link(nvcc: &Path, place: &Path) {
    let nvcc = nvcc.to_str().unwrap();
    let arch = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,compute_90]"];
    let run = |words: &[&str]| {
        time(words, place);
    };
    let compile = |name: &str, text: String| {
        std::fs::write(place.join(format!("{name}.cu")), text).unwrap();
        run(&[&[nvcc, "-Xcompiler", "-fPIC", "-dc", &format!("{name}.cu"), "-o", &format!("{name}.o")], &arch[..]].concat());
    };
    compile("plug", "__global__ void plug(int *p) { *p = 2; }\nvoid run(int *p) { plug<<<1, 1>>>(p); }\n".into());
    let mut libraries = Vec::new();
    for library in 0..20 {
        let archive = format!("L/liblib{library}_nv.a");
        for unit in 0..4 {
            let name = format!("u{library}_{unit}");
            let kernels: String = (0..4)
                .map(|k| {
                    format!("__global__ void {name}_{k}(float *p, int n) {{ for (int i = 0; i < n; ++i) p[i] = sinf(p[i]) * {k}.5f; }}\n")
                })
                .collect();
            compile(&name, kernels);
            run(&["objcopy", "-j", ".nv*", "-j", "__nv*", &format!("{name}.o"), &format!("{name}_nv.o")]);
            run(&["ar", "crs", &archive, &format!("{name}_nv.o")]);
        }
        libraries.push(format!("-llib{library}_nv"));
    }
    let base = [&[nvcc, "-Xcompiler", "-fPIC", "-dlink", "plug.o", "-o", "o.o", "-LL"], &arch[..]].concat();
    let with: Vec<&str> = base.iter().copied().chain(libraries.iter().map(String::as_str)).collect();
    let ours: Vec<&str> = std::iter::once(shim()).chain(with.iter().copied()).collect();
    let (mut none, mut all, mut shim) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..9 {
        none.push(time(&base, place));
        all.push(time(&with, place));
        shim.push(time(&ours, place));
    }
    let (none, all, shim) = (median(none), median(all), median(shim));
    let ratio = |t: Duration| t.as_secs_f64() / none.as_secs_f64();
    println!("device link, 20 device-only archives of 4 units, 2 architectures and PTX (median of 9):");
    println!(
        "  nvcc without the libraries {} (1.00), nvcc with them {} ({:.2}), through dlink-shim {} ({:.2})",
        ms(none),
        ms(all),
        ratio(all),
        ms(shim),
        ratio(shim)
    );
}

/// The same inputs, plain and guarded; and what the header of 300 units costs the host compiler.
fn guarded(nvcc: &Path, place: &Path) {
    let cuda = nvcc.parent().unwrap().parent().unwrap();
    let nvcc = nvcc.to_str().unwrap();
    let archive: Vec<String> = (0..20).map(|l| format!("libfull{l}.a")).collect();
    for (l, name) in archive.iter().enumerate() {
        let objects: Vec<String> = (0..4).map(|u| format!("u{l}_{u}.o")).collect();
        let words: Vec<&str> = ["ar", "crs", name].into_iter().chain(objects.iter().map(String::as_str)).collect();
        time(&words, place);
    }
    let arch = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,compute_90]"];
    let mut plain = [&[nvcc, "-Xcompiler", "-fPIC", "-dlink", "plug.o", "-o", "g.o"], &arch[..]].concat();
    plain.extend(archive.iter().map(String::as_str));
    let ours: Vec<&str> = std::iter::once(shim()).chain(plain.iter().copied()).collect();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        a.push(time(&plain, place));
        b.push(time(&ours, place));
    }
    let (a, b) = (median(a), median(b));
    println!(
        "guarded device link, 80 units: nvcc {}, through dlink-shim {} ({:.2}; median of 15 pairs)",
        ms(a),
        ms(b),
        b.as_secs_f64() / a.as_secs_f64()
    );
    let unit = |n: usize| dlink_shim::plan::Guarded {
        id: format!("_0a1b2c3d_9_unit{n:03}_cu_0a1b2c3d").into_bytes().into(),
        pull: Some(format!("symbol{n}").into_bytes().into()),
    };
    let units: Vec<_> = (0..300).map(unit).collect();
    std::fs::write(place.join("guard.h"), dlink_shim::rewrite::guard::header(&units)).unwrap();
    std::fs::write(place.join("none.h"), "#include <stddef.h>\n#include <fatbinary_section.h>\n").unwrap();
    let stub: String = units
        .iter()
        .map(|u| String::from_utf8_lossy(&u.id).into_owned())
        .map(|id| format!("extern \"C\" void __cudaRegisterLinkedBinary{id}(void (*)(void **), void *, void *, void (*)(void *)) {{}}\n"))
        .collect();
    std::fs::write(place.join("stub.cpp"), stub).unwrap();
    let include = format!("-I{}/include", cuda.display());
    let compile = |header: &str| {
        let runs = (0..9).map(|_| time(&["g++", "-fPIC", "-c", &include, "-include", header, "stub.cpp", "-o", "stub.o"], place));
        median(runs.collect())
    };
    let (with, without) = (compile("guard.h"), compile("none.h"));
    println!("guard header of 300 units: {} of host compilation more (median of 9)", ms(with.saturating_sub(without)));
}

/// A static library of the size of a toolkit's: 361 members, 324 MB.
fn inspection(place: &Path) {
    let archive: PathBuf = place.join("big.a");
    let object = std::fs::read(place.join("plug.o")).unwrap();
    let mut names = Vec::new();
    for member in 0..361 {
        let path = place.join(format!("m{member}.o"));
        std::fs::write(&path, &object).unwrap();
        // A section of the size of real members' code, so that the file has the size of the real one.
        let filler = place.join("filler");
        if member == 0 {
            std::fs::write(&filler, vec![7u8; 324_000_000 / 361]).unwrap();
        }
        let status = Command::new("objcopy").arg("--add-section").arg(format!(".filler={}", filler.display())).arg(&path).status().unwrap();
        assert!(status.success());
        names.push(path);
    }
    assert!(Command::new("ar").arg("crs").arg(&archive).args(&names).status().unwrap().success());
    for name in names {
        std::fs::remove_file(name).unwrap();
    }
    let size = std::fs::metadata(&archive).unwrap().len();
    let mut times = Vec::new();
    for _ in 0..11 {
        let start = Instant::now();
        let content = dlink_shim::object::inspect(&archive).unwrap();
        times.push(start.elapsed());
        assert_eq!(content.members().len(), 361);
    }
    let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = peak.lines().find(|l| l.starts_with("RssAnon")).unwrap_or("").trim().to_owned();
    println!(
        "inspect {} MB, 361 members: {} warm (median of 11); private memory of this process: {peak}",
        size / 1_000_000,
        ms(median(times))
    );
    let _ = std::fs::remove_file(archive);
}

/// Up to 1,000 archives of 100 device-only units each: what planning takes, with a program that does nothing in nvcc's place.
fn many_archives(nvcc: &Path, place: &Path) {
    let run = |words: &[&str]| time(words, place);
    let nvcc = nvcc.to_str().unwrap();
    // One real object; its module id and its function's name change in place.
    std::fs::write(place.join("uni000000.cu"), "__device__ int fun000000(int x) { return x * x; }\n").unwrap();
    run(&[nvcc, "-arch=sm_90", "-dc", "uni000000.cu", "-o", "one.o"]);
    run(&["objcopy", "-j", ".nv*", "-j", "__nv*", "one.o", "one_nv.o"]);
    let one = std::fs::read(place.join("one_nv.o")).unwrap();
    std::fs::create_dir_all(place.join("M")).unwrap();
    for archive in 0..1000 {
        let mut bytes = b"!<arch>\n".to_vec();
        for unit in 0..100 {
            let mut object = one.clone();
            let number = format!("uni{archive:04}{unit:02}");
            for at in memchr::memmem::find_iter(&one, b"uni000000").collect::<Vec<_>>() {
                object[at..at + number.len()].copy_from_slice(number.as_bytes());
            }
            bytes.extend(format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", format!("{number}.o/"), 0, 0, 0, 644, object.len()).bytes());
            bytes.extend(&object);
            bytes.extend(if object.len() % 2 == 1 { &b"\n"[..] } else { b"" });
        }
        std::fs::write(place.join(format!("M/libm{archive}_nv.a")), bytes).unwrap();
    }
    std::fs::write(place.join("wants.cu"), "extern __device__ int fun000000(int); __global__ void k(int *p) { *p = fun000000(*p); }\n")
        .unwrap();
    run(&[nvcc, "-arch=sm_90", "-dc", "wants.cu", "-o", "wants.o"]);
    let stand_in = place.join("bin/nvcc");
    std::fs::create_dir_all(place.join("bin")).unwrap();
    let _ = std::fs::remove_file(&stand_in);
    std::os::unix::fs::symlink(which::which("true").unwrap(), &stand_in).unwrap();
    let stand_in = stand_in.to_str().unwrap();
    let nothing = median((0..11).map(|_| run(&[shim(), stand_in, "--version"])).collect());
    for (what, object) in [("nothing of them needed", "plug.o"), ("one device function needed, so all symbols are read", "wants.o")] {
        for count in [100, 300, 1000] {
            let libraries: Vec<String> = (0..count).map(|n| format!("-lm{n}_nv")).collect();
            let words = [shim(), stand_in, "-dlink", object, "-o", "o.o", "-LM"].into_iter().chain(libraries.iter().map(String::as_str));
            let words: Vec<&str> = words.collect();
            let taken = median((0..5).map(|_| run(&words)).collect()).saturating_sub(nothing);
            let script =
                "import os, sys\npid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\nprint(os.wait4(pid, 0)[2].ru_maxrss)";
            let peak = Command::new("python3").args(["-c", script]).args(&words).current_dir(place).output().unwrap().stdout;
            let peak: f64 = String::from_utf8(peak).unwrap().trim().parse().unwrap();
            println!(
                "{count} archives of 100 units, {what}: {} ({:.1} us a unit; median of 5), peak {:.1} MiB",
                ms(taken),
                taken.as_secs_f64() * 1e6 / f64::from(count * 100),
                peak / 1024.0
            );
        }
    }
}
