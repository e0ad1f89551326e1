//! `dlink-shim inspect` as a command: what it shows, and what it makes of damaged files.

mod support;

use std::path::Path;
use std::process::{Command, Output};

use proptest::prelude::*;
use serde_json::Value;
use support::{Scratch, must, toolkit};

fn inspect(directory: &Path, words: &[&str]) -> (Output, String) {
    let output = support::shim().arg("inspect").args(words).current_dir(directory).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn units_kernels_variables_and_needs_are_shown_by_their_names() {
    let scene = fixtures!().scene();
    let (output, text) = inspect(scene.path(), &["plugdev.o", "L/libcore_nv.a"]);
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true), "{output:?}");
    for part in [
        "plugdev_cu, full",
        "needs     helper(int)",
        "kernel    plugdev_kernel(int*)",
        "member devfn_nv.o",
        "device-only",
        "variable  helper_calls",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(inspect(scene.path(), &["--raw", "plugdev.o"]).1.contains("needs     _Z6helperi"));
    let text = inspect(scene.path(), &["--images", "plugdev.o"]).1;
    assert!(text.contains("sm_90 cubin, zstd") && !text.contains("needs"), "{text}");
    let json: Value = serde_json::from_str(&inspect(scene.path(), &["--json", "plugdev.o"]).1).unwrap();
    assert_eq!(json[0]["parts"][0]["units"][0]["source"], "plugdev_cu");
    assert_eq!(json[0]["parts"][0]["units"][0]["device_only"], false);
}

#[test]
fn bare_cubins_fatbins_and_ptx_are_told_by_their_content() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scratch = Scratch::new();
    scratch.write("k.cu", "__global__ void lone(int *p) { *p = 1; }\n");
    for (flag, name) in [("-cubin", "a"), ("-fatbin", "b"), ("-ptx", "c")] {
        must(Command::new(&nvcc).args(["-arch=sm_90", flag, "k.cu", "-o", name]).current_dir(scratch.path()));
    }
    let (output, text) = inspect(scratch.path(), &["a", "b", "c"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for part in ["a: cubin", "b: fatbin", "c: PTX", "sm_90 cubin", "compute_90 PTX"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("kernel    lone(int*)").count(), 4, "{text}");
}

#[test]
fn unknown_kinds_flags_and_compressions_are_shown_with_their_numbers() {
    let mut entry = vec![0u8; 64];
    entry[..8].copy_from_slice(&[0x10, 0, 1, 1, 64, 0, 0, 0]);
    entry[8] = 8;
    entry[0x1c] = 77;
    entry[0x28..0x2c].copy_from_slice(&0x4000_4001u32.to_le_bytes());
    let mut fatbin = 0xba55_ed50u32.to_le_bytes().to_vec();
    fatbin.extend([1, 0, 16, 0, 72, 0, 0, 0, 0, 0, 0, 0]);
    fatbin.extend(entry);
    fatbin.extend([0; 8]);
    let scratch = Scratch::new();
    scratch.write("f", fatbin);
    let (output, text) = inspect(scratch.path(), &["f"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text.contains("sm_77 unknown kind 0x10, unknown (0x4000) 8 B") && text.contains("unknown flags 0x40000000"), "{text}");
}

#[test]
fn of_a_damaged_file_the_readable_part_is_shown_and_one_line_says_what_is_not() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    fixtures.archive(&scene, "two.a", &["core.o", "plugdev.o"]);
    let archive = std::fs::read(scene.join("two.a")).unwrap();
    // The second member ends in the middle: its section table is gone, its code is still there.
    scene.write("cut.a", &archive[..archive.len() - 2000]);
    let (output, text) = inspect(scene.path(), &["cut.a", "nowhere", "two.a"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("cut.a: archive") && text.contains("core_kernel") && text.contains("two.a: archive"), "{text}");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.lines().all(|l| l.starts_with("dlink-shim: error: ")), "{errors}");
    assert!(errors.contains("cut.a: ") && errors.contains("nowhere: "), "{errors}");
    // A device image of which some bytes are wrong: the others are shown.
    let mut object = std::fs::read(scene.join("plugdev.o")).unwrap();
    let at = memchr::memmem::find(&object, &[0x28, 0xb5, 0x2f, 0xfd]).expect("a zstd frame");
    object[at..at + 40].fill(0xff);
    scene.write("bad.o", object);
    let (output, text) = inspect(scene.path(), &["bad.o"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("plugdev_kernel") || text.contains("PTX"), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    for (name, bytes) in [("text", &b"no device code\n"[..]), ("empty", b"")] {
        scene.write(name, bytes);
        assert_eq!(inspect(scene.path(), &[name]).0.status.code(), Some(2));
    }
}

#[test]
fn cut_and_flipped_files_never_panic() {
    let fixtures = fixtures!();
    let scratch = Scratch::new();
    let archive = std::fs::read(fixtures.archive(&scratch, "x.a", &["core.o", "devfn_nv.o"])).unwrap();
    must(Command::new("g++").args(["-shared", "-o", "x.so"]).arg(fixtures.object("core.o")).current_dir(scratch.path()));
    let image = std::fs::read(scratch.join("x.so")).unwrap();
    let look = |data: &[u8]| {
        use dlink_shim::inspection::{Depth, bytes};
        if let Some(file) = bytes(data, Path::new("x"), Depth::Symbols) {
            dlink_shim::report::inspect::report(&file, false, &mut |_| {});
        }
        let _ = dlink_shim::audit::image::read(data, Path::new("x"));
    };
    for data in [&archive, &image] {
        for cut in (0..data.len()).step_by(211) {
            look(&data[..cut]);
        }
    }
    proptest!(ProptestConfig::with_cases(600), |(which in any::<bool>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6))| {
        let mut data = if which { archive.clone() } else { image.clone() };
        for (at, byte) in flips {
            let at = at.index(data.len());
            data[at] = byte;
        }
        look(&data);
    });
}

/// Containers of images without code: a few bytes each, or as long as big ones are.
fn long_fatbin() -> Vec<u8> {
    let mut fatbin = Vec::new();
    for nth in 0..120usize {
        let sizes = if nth % 9 == 0 { [9000, 64] } else { [8, 8 * (nth % 5)] };
        fatbin.extend(0xba55_ed50u32.to_le_bytes());
        fatbin.extend([1, 0, 16, 0]);
        fatbin.extend((sizes.iter().sum::<usize>() as u64 + 128).to_le_bytes());
        for size in sizes {
            let mut entry = [0u8; 64];
            entry[..8].copy_from_slice(&[2, 0, 1, 1, 64, 0, 0, 0]);
            entry[8..16].copy_from_slice(&(size as u64).to_le_bytes());
            entry[0x1c] = nth as u8;
            fatbin.extend(entry);
            fatbin.extend(vec![nth as u8; size]);
        }
        fatbin.extend(vec![0; nth % 3 * 16]);
    }
    fatbin
}

#[test]
fn a_file_that_is_read_in_pieces_is_shown_as_one_in_memory_however_damaged() {
    use dlink_shim::inspection::{Depth, bytes, inspect};
    let fatbin = long_fatbin();
    let scratch = Scratch::new();
    scratch.write("own.s", ".section .nv_fatbin,\"a\"\n.incbin \"f\"\n");
    let shown = |data: &[u8]| {
        let path = scratch.join("x");
        scratch.write("x", data);
        let look = |file: dlink_shim::inspection::Inspected| {
            let mut text = String::new();
            dlink_shim::report::inspect::report(&file, false, &mut |piece| text.push_str(piece));
            (text, file.flaws)
        };
        let (file, memory) = (inspect(&path, Depth::Images).ok().map(look), bytes(data, &path, Depth::Images).map(look));
        assert_eq!(file, memory);
        memory
    };
    let (text, flaws) = shown(&fatbin).unwrap();
    assert_eq!((text.matches("sm_").count(), flaws.len()), (240, 0), "{flaws:?} {text}");
    scratch.write("f", &fatbin);
    must(Command::new("g++").args(["-shared", "-o", "x.so", "own.s"]).current_dir(scratch.path()));
    must(Command::new("g++").args(["-c", "-o", "own.o", "own.s"]).current_dir(scratch.path()));
    must(Command::new("ar").args(["cr", "x.a", "own.o"]).current_dir(scratch.path()));
    let files = [fatbin, std::fs::read(scratch.join("x.so")).unwrap(), std::fs::read(scratch.join("x.a")).unwrap()];
    for data in &files {
        assert_eq!(shown(data).unwrap().0.matches("sm_").count(), 240);
        for cut in (0..data.len()).rev().step_by(data.len() / 90) {
            shown(&data[..cut]);
        }
    }
    let flips = prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0), Just(16), any::<u8>()]), 1..40);
    proptest!(ProptestConfig::with_cases(300), |(which in 0..3usize, flips in flips)| {
        let mut data = files[which].clone();
        for (at, byte) in flips {
            // Every other one in what a container starts with.
            let at = at.index(data.len());
            let near = memchr::memmem::find(&data[at..], &0xba55_ed50u32.to_le_bytes()).filter(|_| byte % 2 == 0);
            let at = near.map_or(at, |near| (at + near + usize::from(byte) % 80).min(data.len() - 1));
            data[at] = byte;
        }
        shown(&data);
    });
}
