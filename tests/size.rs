//! `dlink-shim size`: numbers against other tools, limits, damaged files, the three views.

mod support;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use support::{Scratch, must, shim, toolkit};

/// A library of two relocatable units with code for three architectures, and its parts.
fn library(scratch: &Scratch) -> Option<()> {
    let nvcc = toolkit::nvcc("13.0")?;
    let generate = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_86,code=[sm_86,compute_86]"];
    scratch.write("one.cu", "__device__ int two(int);\n__global__ void one(int *p) { *p = two(*p); }\n");
    scratch.write("two.cu", "__device__ int two(int x) { return x + 1; }\n");
    for unit in ["one", "two"] {
        must(Command::new(&nvcc).current_dir(scratch.path()).args(generate).args(["-dc", "-Xcompiler", "-fPIC", &format!("{unit}.cu")]));
    }
    must(Command::new(&nvcc).current_dir(scratch.path()).args(generate).args([
        "-dlink",
        "-Xcompiler",
        "-fPIC",
        "one.o",
        "two.o",
        "-o",
        "d.o",
    ]));
    must(Command::new("g++").current_dir(scratch.path()).args(["-shared", "one.o", "two.o", "d.o", "-o", "libk.so"]));
    must(Command::new("ar").current_dir(scratch.path()).args(["crs", "libk.a", "one.o", "two.o"]));
    Some(())
}

fn size(directory: &Path, words: &[&str]) -> Output {
    shim().arg("size").args(words).current_dir(directory).output().unwrap()
}

fn json(directory: &Path, words: &[&str]) -> Value {
    let output = size(directory, &[&["--json"], words].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn images(file: &Value) -> Vec<&Value> {
    file["units"].as_array().unwrap().iter().flat_map(|u| u["images"].as_array().unwrap()).collect()
}

/// Bytes of a section as binutils see them.
fn section(file: &Path, name: &str) -> u64 {
    let text = must(Command::new("size").arg("-A").arg(file));
    let line = text.lines().find(|l| l.split_whitespace().next() == Some(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn images_add_up_to_the_sections_that_hold_them() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    let found = json(scratch.path(), &["libk.so"]);
    let file = &found["files"][0];
    let stored = |relocatable: bool| -> u64 {
        images(file).iter().filter(|i| i["relocatable"] == relocatable).map(|i| i["stored"].as_u64().unwrap()).sum()
    };
    // A container's header is 16 bytes.
    assert_eq!(stored(false) + 16, section(&scratch.join("libk.so"), ".nv_fatbin"));
    assert_eq!(stored(true) + 32, section(&scratch.join("libk.so"), "__nv_relfatbin"));
    let archs: Vec<&str> = images(file).iter().filter(|i| i["relocatable"] == true).map(|i| i["arch"].as_str().unwrap()).collect();
    assert_eq!(archs.len(), 6);
    assert!(["sm_80", "sm_86", "compute_86"].iter().all(|a| archs.contains(a)));
    // Units are known by their module ids, the linked one by its number.
    let names: Vec<&str> = file["units"].as_array().unwrap().iter().map(|u| u["name"].as_str().unwrap()).collect();
    assert!(names.iter().any(|n| n.contains("_6_one_cu_")) && names.iter().any(|n| n.contains("_6_two_cu_")), "{names:?}");
    assert!(names.contains(&"#1"), "{names:?}");
}

#[test]
fn unpacked_sizes_are_those_that_cuobjdump_extracts() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    let nvcc = toolkit::nvcc("13.0").unwrap();
    must(Command::new(nvcc.with_file_name("cuobjdump")).current_dir(scratch.path()).args(["-xelf", "all", "one.o"]));
    let found = json(scratch.path(), &["one.o"]);
    for arch in ["sm_80", "sm_86"] {
        let extracted = std::fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().path());
        let extracted = extracted.filter(|p| p.extension().is_some_and(|e| e == "cubin"));
        let cubin = extracted.into_iter().find(|p| p.to_string_lossy().contains(arch)).unwrap();
        let ours = images(&found["files"][0]).into_iter().find(|i| i["arch"] == arch).unwrap()["unpacked"].as_u64().unwrap();
        let theirs = std::fs::metadata(cubin).unwrap().len();
        assert!(ours.abs_diff(theirs) < 8, "{arch}: {ours} {theirs}");
    }
}

#[test]
fn a_link_command_an_archive_and_its_objects_give_the_same() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    scratch.write("words.rsp", "-Wl,--whole-archive,libk.a\n\"d.o\"");
    let objects = json(scratch.path(), &["one.o", "two.o", "d.o"])["link"].clone();
    for command in [
        "g++ -shared one.o two.o d.o -o x.so",
        "g++ @words.rsp -o x.so",
        "ld.lld -shared one.o two.o d.o -o d.o",
        "g++ -shared -o x.so -Xlinker d.o -L . -lk -lnope",
    ] {
        // A shared library of the name would win, as with a linker.
        if command.contains("-lk") {
            std::fs::remove_file(scratch.join("libk.so")).unwrap();
        }
        assert_eq!(json(scratch.path(), &["--link", command])["link"], objects, "{command}");
    }
}

#[test]
fn past_the_limit_is_exit_1() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    assert_eq!(size(scratch.path(), &["--limit", "1G", "libk.so"]).status.code(), Some(0));
    let past = size(scratch.path(), &["--limit", "1000", "libk.so"]);
    assert_eq!(past.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&past.stderr).contains("past the limit"), "{past:?}");
    assert_eq!(size(scratch.path(), &["--limit", "1000", "one.o"]).status.code(), Some(1));
}

#[test]
fn a_link_past_two_gib_is_told() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    // Three GiB that take no room on the disk.
    scratch.write("big.cpp", "char big[3ul << 30];\n");
    must(Command::new("g++").current_dir(scratch.path()).args(["-mcmodel=medium", "-c", "big.cpp"]));
    let output = size(scratch.path(), &["--limit", "2G", "--html", "p.html", "--link", "g++ one.o two.o d.o big.o -o x"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("in one link: 3.0 GiB allocated, 1.0 GiB PAST 2 GiB"), "{text}");
    assert!(std::fs::read_to_string(scratch.join("p.html")).unwrap().contains("1.0 GiB past 2 GiB"));
}

#[test]
fn damaged_files_are_a_line_and_exit_2_and_the_rest_is_shown() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    let good = std::fs::read(scratch.join("one.o")).unwrap();
    let magic = good.windows(4).position(|w| w == [0x50, 0xed, 0x55, 0xba]).unwrap();
    let mut long = good.clone();
    long[magic + 8..magic + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    scratch.write("long.o", long);
    let mut entry = good.clone();
    entry[magic + 16 + 8..magic + 16 + 16].copy_from_slice(&(1u64 << 40).to_le_bytes());
    scratch.write("entry.o", entry);
    scratch.write("cut.o", &good[..good.len() / 2]);
    scratch.write("text.o", "no object\n");
    for (name, why) in
        [("long.o", "cut off"), ("entry.o", "cut off"), ("cut.o", ""), ("text.o", "no object"), ("missing.o", "No such file")]
    {
        let output = size(scratch.path(), &[name, "two.o"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.starts_with(&format!("dlink-shim: error: {name}: ")) && said.contains(why) && said.lines().count() == 1, "{said}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("two.o"), "{name}");
    }
}

#[test]
fn no_flipped_or_cut_byte_makes_it_panic() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    for name in ["one.o", "libk.a", "libk.so"] {
        let good = std::fs::read(scratch.join(name)).unwrap();
        let path = scratch.join("bad");
        for step in 0..200 {
            let mut bad = good.clone();
            let at = (step * 2_654_435_761usize) % bad.len();
            if step % 4 == 0 {
                bad.truncate(at)
            } else {
                bad[at] = [0xff, 0, 0x80][step % 3]
            }
            std::fs::write(&path, bad).unwrap();
            let sizes = dlink_shim::size::read::look(std::slice::from_ref(&path));
            let policy = dlink_shim::archs::Policy::OnePerMajor;
            let gains = dlink_shim::size::gains::Gains::of(&sizes, &policy, "one-per-major");
            dlink_shim::size::text::report(&sizes, &gains, None);
            dlink_shim::size::html::page(&sizes, &gains);
            let (graph, _) = dlink_shim::size::split::Graph::read(std::slice::from_ref(&path));
            let _ = dlink_shim::size::split::plan(&graph, dlink_shim::size::split::Wish::Max(1 << 20));
        }
    }
}

#[test]
fn gains_are_those_of_a_real_build() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    let nvcc = toolkit::nvcc("13.0").unwrap();
    let gains = json(scratch.path(), &["one.o"])["gains"].clone();
    let dropped = gains["culling"]["dropped"].as_object().unwrap();
    assert_eq!(dropped.keys().collect::<Vec<_>>(), ["sm_86"]);
    // The same object without sm_86.
    let mut command = shim();
    command.arg(&nvcc).current_dir(scratch.path()).env("DLINK_SHIM_ARCHS", "one-per-major");
    command.args(["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_86,code=[sm_86,compute_86]"]);
    must(command.args(["-dc", "-Xcompiler", "-fPIC", "one.cu", "-o", "small.o"]));
    let section = |name: &str| section(&scratch.join(name), "__nv_relfatbin");
    assert_eq!(gains["culling"]["saved"].as_u64().unwrap(), section("one.o") - section("small.o"));

    // The linked image is not compressed by default: what the toolkit then saves is no less than the estimate.
    let estimate = json(scratch.path(), &["d.o"])["gains"]["compression"].clone();
    assert_eq!(estimate["estimate"], true);
    let mut command = shim();
    command.arg(&nvcc).current_dir(scratch.path()).env("DLINK_SHIM_COMPRESS", "size");
    command.args(["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_86,code=[sm_86,compute_86]"]);
    must(command.args(["-dlink", "-Xcompiler", "-fPIC", "one.o", "two.o", "-o", "packed.o"]));
    let fatbin = |name: &str| self::section(&scratch.join(name), ".nv_fatbin");
    let (saved, real) = (estimate["saved"].as_u64().unwrap(), fatbin("d.o") - fatbin("packed.o"));
    assert!(saved <= real && saved * 2 > real, "{saved} {real}");
}

#[test]
fn copies_in_several_files_are_duplicates() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    std::fs::copy(scratch.join("one.o"), scratch.join("again.o")).unwrap();
    let gains = |words: &[&str]| json(scratch.path(), words)["gains"]["duplicates"].clone();
    let twice = gains(&["one.o", "again.o"]);
    let stored: u64 = images(&json(scratch.path(), &["one.o"])["files"][0]).iter().map(|i| i["stored"].as_u64().unwrap()).sum();
    assert_eq!((twice["copies"].as_u64(), twice["across_files"].as_u64()), (Some(3), Some(stored)));
    assert_eq!(gains(&["one.o", "two.o"])["copies"], 0);
}

#[test]
fn the_page_is_one_file_that_loads_and_runs_nothing() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    std::fs::rename(scratch.join("libk.so"), scratch.join("lib<k>&\"x\".so")).unwrap();
    let output = size(scratch.path(), &["--html", "page.html", "lib<k>&\"x\".so", "libk.a"]);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(scratch.join("page.html")).unwrap();
    assert!(page.contains("lib&lt;k&gt;&amp;&quot;x&quot;.so") && !page.contains("lib<k>"));
    for loads in ["http", "src=", "<script", "url(", "@import", "<link"] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    assert_eq!(page.matches("<div").count(), page.matches("</div>").count());
    assert!(page.matches("class=\"image").count() >= 14);
}

#[test]
fn without_a_terminal_there_are_no_bars_and_on_one_they_fit_its_width() {
    let scratch = Scratch::new();
    let Some(()) = library(&scratch) else { return };
    let plain = String::from_utf8(size(scratch.path(), &["libk.so"]).stdout).unwrap();
    assert!(plain.contains("sm_80, relocatable") && !plain.contains('█') && !plain.contains('\u{1b}'), "{plain}");
    if !toolkit::has("script") {
        return;
    }
    for (width, locale, block) in [("70", "C.UTF-8", '█'), ("100", "C.UTF-8", '█'), ("100", "C", '#')] {
        let mut command = Command::new("script");
        let run = format!("stty cols {width} rows 50; {} size libk.so", support::SHIM);
        command.args(["-q", "-e", "-c", &run, "typescript"]).env("LC_ALL", locale).env("TERM", "xterm").env_remove("COLUMNS");
        let text = must(command.current_dir(scratch.path()).stdin(std::process::Stdio::null()));
        let bars: Vec<&str> = text.lines().filter(|l| l.contains("sm_") && l.trim_end().ends_with(block)).collect();
        assert!(!bars.is_empty(), "{width} {locale}: {text}");
        assert!(bars.iter().all(|l| l.trim_end().chars().count() <= width.parse().unwrap()), "{width}: {text}");
    }
}
