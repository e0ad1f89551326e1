//! Architectures left out of a command: a table of spellings and lists, each with what must remain, checked against what real
//! nvcc then builds.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use support::{Scratch, StandIn, must, shim, toolkit};

/// Toolkit, setting, words, and what remains: `80` machine code, `p80` PTX. A word `@W,W` is an options file with these words.
const TABLE: &[(&str, &str, &str, &str)] = &[
    // -gencode, in every way of writing it
    ("12.4", "one-per-major", "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_86,code=sm_86", "80"),
    ("12.4", "one-per-major", "-gencode=arch=compute_86,code=sm_86 -gencode=arch=compute_80,code=sm_80", "80"),
    ("12.4", "one-per-major", "--generate-code arch=compute_86,code=sm_86 --generate-code=arch=compute_89,code=sm_89", "86"),
    ("12.4", "one-per-major", "-gencode code=sm_86,arch=compute_86 -gencode code=sm_80,arch=compute_80", "80"),
    ("12.4", "one-per-major", "-gencode arch=compute_80,code=[sm_80,sm_86,compute_80]", "80 p80"),
    ("12.4", "one-per-major", "-gencode arch=compute_80,code=\"sm_80,sm_89\"", "80"),
    ("12.4", "one-per-major", "-gencode code=[sm_86,sm_80],arch=compute_80", "80"),
    ("12.4", "one-per-major", "--generate-code=arch=compute_80,code=[compute_80,sm_89,sm_80]", "80 p80"),
    ("12.4", "one-per-major", "-gencode arch=compute_80,code=[sm_80] -gencode arch=compute_80,code=sm_80", "80"),
    ("12.4", "one-per-major", "-gencode arch=compute_86,code=sm_86, -gencode arch=compute_80,code=sm_80", "80"),
    ("12.4", "one-per-major", "-gencode arch=compute_70,code=sm_80 -gencode arch=compute_70,code=sm_86", "80"),
    ("13.0", "one-per-major", "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_86,code=sm_86", "80"),
    (
        "11.8",
        "one-per-major",
        "-gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_86,code=[sm_86,compute_86]",
        "80 p86",
    ),
    ("13.5", "one-per-major", "-gencode arch=compute_100,code=sm_100 -gencode arch=compute_103,code=sm_103", "100"),
    // -arch and -code
    ("12.4", "one-per-major", "-arch=sm_80", "80 p80"),
    ("12.4", "one-per-major", "-arch sm_80 -gencode arch=compute_86,code=sm_86", "80 p80"),
    ("12.4", "one-per-major", "--gpu-architecture sm_86 -gencode arch=compute_80,code=sm_80", "80 p86"),
    ("12.4", "one-per-major", "--gpu-architecture=sm_80 -gencode=arch=compute_90,code=[sm_90,compute_90]", "80 90 p80 p90"),
    ("12.4", "one-per-major", "-arch=compute_80 -code=sm_80,sm_86,compute_80", "80 p80"),
    ("12.4", "one-per-major", "-arch=compute_80 -code=sm_86 -code=sm_80", "80"),
    ("12.4", "one-per-major", "--gpu-architecture=compute_80 --gpu-code sm_80,sm_86", "80"),
    ("12.4", "one-per-major", "-arch compute_80 --gpu-code=sm_86,sm_89", "86"),
    ("12.4", "one-per-major", "-arch=compute_86 -code=sm_86 -gencode arch=compute_80,code=sm_80", "80"),
    ("12.4", "one-per-major", "-arch=compute_80", "p80"),
    ("12.4", "one-per-major", "-arch=compute_80 -gencode arch=compute_90,code=[sm_90,compute_90]", "90 p80 p90"),
    ("12.4", "one-per-major", "-arch=sm_90 -arch=sm_86 -gencode arch=compute_80,code=sm_80", "80 p86"),
    ("13.0", "one-per-major", "-arch=sm_121 -gencode arch=compute_120,code=sm_120", "120 p121"),
    // options files
    ("12.4", "one-per-major", "@-gencode,arch=compute_80\\,code=sm_80 -gencode arch=compute_86,code=sm_86", "80"),
    ("12.4", "one-per-major", "-gencode arch=compute_80,code=sm_80 @-gencode,arch=compute_86\\,code=sm_86,-O1", "80"),
    ("12.4", "one-per-major", "@-arch=sm_86 -gencode arch=compute_80,code=sm_80", "80 p86"),
    // all, all-major, native
    ("12.4", "one-per-major", "-arch=all-major", "50 60 70 80 90 p90"),
    ("12.4", "one-per-major", "-arch=all", "50 53 60 62 70 72 80 87 90 p90"),
    ("12.4", "cover:80,90", "-arch=all", "80 90 p90"),
    ("12.4", "90", "-arch=all-major", "50 60 70 80 90 p90"),
    ("11.8", "cover:75,8.9", "--gpu-architecture=all", "75 89 p90"),
    ("13.0", "one-per-major", "-arch all", "75 80 87 88 90 100 110 120 p120"),
    ("13.5", "cover:8.6,12.1", "-arch=all", "86 121 p120"),
    ("13.0", "cover:86", "-arch=all-major -gencode arch=compute_90a,code=sm_90a", "80 90a p120"),
    ("12.4", "one-per-major", "-arch=native", "52 p52"),
    // majors and minors
    ("12.4", "one-per-major", "@list:60,61,62,70,72,75,80,86,89,90", "60 62 70 72 80 90"),
    ("12.4", "one-per-major", "@list:60,61,62,70,72,75,80,86,89,90,p90", "60 62 70 72 80 90 p90"),
    ("12.4", "one-per-major", "@list:61,75,89", "61 75 89"),
    ("12.4", "one-per-major", "@list:52,50,53", "50 53"),
    ("12.4", "one-per-major", "@list:86,87,89", "86 87"),
    ("13.0", "one-per-major", "@list:86,87,88", "86 87 88"),
    ("13.0", "one-per-major", "@list:100,103,110", "100 110"),
    ("13.5", "one-per-major", "@list:103,107", "103 107"),
    ("13.0", "one-per-major", "@list:120,121", "120"),
    // suffixes run where they run and serve nobody else
    ("12.4", "one-per-major", "@list:90,90a", "90 90a"),
    ("13.0", "one-per-major", "@list:100a,103", "100a 103"),
    ("13.0", "one-per-major", "@list:100f,103,p100f", "100f 103 p100f"),
    ("13.0", "cover:80", "@list:80,90,90a,p90", "80 90a p90"),
    // lists
    ("12.4", "80,90", "@list:80,86,89,90", "80 90"),
    ("12.4", "80;90", "@list:80,86,89,90,p90", "80 90 p90"),
    ("12.4", "8.0 9.0", "@list:80,86,90", "80 90"),
    ("12.4", "sm_86", "@list:80,86,89", "80 86"),
    ("12.4", "86", "@list:86,89", "86"),
    ("12.4", "90", "@list:80,86,90", "80 90"),
    ("12.4", "80", "@list:80,87", "80 87"),
    ("12.4", "75", "@list:80", "80"),
    // GPUs that must run
    ("12.4", "cover:80", "@list:70,80,86,90", "80"),
    ("12.4", "cover:86,89", "@list:80,86,89", "86"),
    ("12.4", "cover:8.6", "@list:80,89", "80"),
    ("12.4", "cover:80,86", "@list:80,86", "80"),
    ("12.4", "cover:87", "@list:80,87,90", "87"),
    ("12.4", "cover:87", "@list:80,p80,p90", "p80 p90"),
    ("12.4", "cover:72,90", "@list:70,72,80,90,p70,p90", "72 90 p90"),
    ("12.4", "cover:80", "@list:p70,p75,p90", "p75 p90"),
    ("12.4", "cover:75,80", "@list:70,75,p70,p75,p80", "75 p80"),
    // PTX that is the only code of some GPU stays
    ("12.4", "one-per-major", "@list:p60,p70", "p60 p70"),
    ("12.4", "one-per-major", "@list:80,p80,p86", "80 p86"),
    ("12.4", "one-per-major", "@list:80,p80,p90", "80 p80 p90"),
    ("12.4", "one-per-major", "@list:80,87,p80,p86", "80 87 p86"),
    ("12.4", "one-per-major", "@list:75,80,p75,p80", "75 80 p80"),
    ("13.0", "one-per-major", "@list:80,87,88,p80,p90", "80 87 88 p90"),
    ("13.0", "one-per-major", "@list:100,p100,p120", "100 p100 p120"),
];

/// `60` as a -gencode option.
fn generate(code: &str) -> String {
    match code.strip_prefix('p') {
        Some(number) => format!("arch=compute_{number},code=compute_{number}"),
        None => format!("arch=compute_{code},code=sm_{code}"),
    }
}

/// The words of a row, with options files written.
fn words(scratch: &Scratch, text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in text.split(' ') {
        if let Some(list) = word.strip_prefix("@list:") {
            words.extend(list.split(',').flat_map(|code| ["-gencode".to_owned(), generate(code)]));
        } else if let Some(file) = word.strip_prefix('@') {
            let text = file.replace("\\,", "\0").replace(',', "\n").replace('\0', ",");
            words.extend(["-optf".to_owned(), scratch.write("options.rsp", text).display().to_string()]);
        } else {
            words.push(word.to_owned());
        }
    }
    words
}

/// What cuobjdump finds in a file, in the table's words.
fn found(nvcc: &Path, file: &Path) -> BTreeSet<String> {
    let list = |flag: &str, prefix: &str| -> Vec<String> {
        let text = must(Command::new(nvcc.with_file_name("cuobjdump")).arg(flag).arg(file));
        let arch = |line: &str| Some(line.rsplit_once(".sm_")?.1.split_once('.')?.0.to_owned());
        text.lines().filter_map(arch).map(|a| format!("{prefix}{a}")).collect()
    };
    list("-lelf", "").into_iter().chain(list("-lptx", "p")).collect()
}

fn compile(version: &str, setting: Option<&str>, words: &[String], scratch: &Scratch) -> Option<BTreeSet<String>> {
    let nvcc = toolkit::nvcc(version)?;
    let source = scratch.write("k.cu", "__global__ void k() {}\n");
    let object = scratch.join("k.o");
    let mut command = shim();
    command.arg(&nvcc).args(toolkit::flags(version)).args(["-Wno-deprecated-gpu-targets", "-c"]).args(words).arg(source);
    setting.map(|s| command.env("DLINK_SHIM_ARCHS", s));
    must(command.arg("-o").arg(&object));
    let mut codes = found(&nvcc, &object);
    // cuobjdump 13.0 leaves the `f` off; nvcc refuses sm_100 beside sm_100f.
    if words.iter().any(|w| w.contains("sm_100f")) {
        codes = codes.iter().map(|c| if c.ends_with("100") { format!("{c}f") } else { c.clone() }).collect();
    }
    Some(codes)
}

#[test]
fn the_table_has_sixty_rows_at_least() {
    assert!(TABLE.len() >= 60, "{}", TABLE.len());
}

fn rows(part: usize) {
    for (version, setting, text, remains) in TABLE.iter().skip(part).step_by(4) {
        let scratch = Scratch::new();
        let Some(codes) = compile(version, Some(setting), &words(&scratch, text), &scratch) else { return };
        let remains: BTreeSet<String> = remains.split(' ').map(str::to_owned).collect();
        assert_eq!(codes, remains, "{version} {setting} {text}");
    }
}

// In four parts, so that they run side by side.
#[test]
fn what_nvcc_builds_is_what_must_remain_1() {
    rows(0);
}
#[test]
fn what_nvcc_builds_is_what_must_remain_2() {
    rows(1);
}
#[test]
fn what_nvcc_builds_is_what_must_remain_3() {
    rows(2);
}
#[test]
fn what_nvcc_builds_is_what_must_remain_4() {
    rows(3);
}

#[test]
fn all_is_read_as_the_toolkit_reads_it() {
    use dlink_shim::Env;
    use dlink_shim::archs::{spelling::Spelled, toolkit as archs_toolkit};
    use dlink_shim::nvcc::CommandLine;
    for version in toolkit::VERSIONS {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        for all in ["-arch=all", "-arch=all-major"] {
            let line = CommandLine::read(&[all.into()], &Env::new(&[], Path::new("/"))).unwrap();
            let spelled = Spelled::read(&line, &|| archs_toolkit::architectures(&nvcc)).unwrap();
            let ours: BTreeSet<String> =
                spelled.codes().iter().map(|c| c.to_string().replace("compute_", "p").replace("sm_", "")).collect();
            let output = Command::new(&nvcc).args(toolkit::flags(version)).args([all, "--dryrun", "-c", "k.cu"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let image = |word: &str| {
                let (kind, arch) = word.split_once("kind=")?.1.split_once(",sm=")?;
                let arch: String = arch.chars().take_while(char::is_ascii_alphanumeric).collect();
                Some(if kind == "ptx" { format!("p{arch}") } else { arch })
            };
            let nvccs: BTreeSet<String> = text.split_whitespace().filter_map(image).collect();
            assert_eq!(ours, nvccs, "{version} {all}");
        }
    }
}

#[test]
fn what_is_not_understood_stays_with_one_warning() {
    let stand_in = StandIn::new();
    for (words, why) in [
        ("-gencode arch=compute_80,code=sm_80,sm_86 -c k.cu", "`arch=compute_80,code=sm_80,sm_86` is not understood"),
        ("-gencode arch=compute_80 -c k.cu", "`arch=compute_80` is not understood"),
        ("-arch=80 -c k.cu", "`80` is not understood"),
        ("-arch=sm_80 -new-option -c k.cu", "option `-new-option` is not known"),
        ("-arch=compute_80 -code=sm_80,new -c k.cu", "`new` is not understood"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let set = |c: &mut Command| {
            c.env("DLINK_SHIM_ARCHS", "one-per-major");
        };
        let reached = stand_in.run_with(stand_in.scratch.path(), &words, set);
        assert_eq!(reached.words(), words);
        assert_eq!(reached.stderr(), format!("dlink-shim: warning: DLINK_SHIM_ARCHS: {why}: every architecture stays\n"));
    }
}

#[test]
fn commands_of_one_architecture_and_questions_are_left_alone() {
    let stand_in = StandIn::new();
    let two = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_86,code=sm_86";
    for words in [format!("-ptx {two} k.cu"), format!("-cubin {two} k.cu"), format!("--version {two}"), two.into(), "-c k.cu".into()] {
        let words: Vec<&str> = words.split(' ').collect();
        let set = |c: &mut Command| {
            c.env("DLINK_SHIM_ARCHS", "one-per-major");
        };
        let reached = stand_in.run_with(stand_in.scratch.path(), &words, set);
        assert_eq!((reached.words(), reached.stderr().as_str()), (words.iter().map(|w| w.to_string()).collect(), ""));
    }
}

#[test]
fn without_the_setting_an_options_file_is_not_even_copied() {
    let stand_in = StandIn::new();
    let file = stand_in.scratch.write("o.rsp", "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_86,code=sm_86");
    let words = ["-optf", file.to_str().unwrap(), "-c", "k.cu"];
    assert_eq!(stand_in.run(stand_in.scratch.path(), &words).words(), words);
}

#[test]
fn variables_that_hold_architectures_are_folded_into_the_line() {
    let stand_in = StandIn::new();
    let reached = stand_in.run_with(stand_in.scratch.path(), &["-c", "k.cu"], |c| {
        c.env("DLINK_SHIM_ARCHS", "one-per-major");
        c.env("NVCC_APPEND_FLAGS", "-gencode arch=compute_86,code=sm_86 -O2");
        c.env("NVCC_PREPEND_FLAGS", "-gencode arch=compute_80,code=sm_80");
    });
    assert_eq!(reached.line(), "-c k.cu -O2");
    assert_eq!(reached.var("NVCC_APPEND_FLAGS"), None);
    assert_eq!(reached.var("NVCC_PREPEND_FLAGS").unwrap(), "-gencode arch=compute_80,code=sm_80");
}

#[test]
fn the_log_says_what_was_dropped_and_why() {
    let stand_in = StandIn::new();
    let reached = stand_in.run_with(stand_in.scratch.path(), &["-c", "k.cu", "-arch=compute_80", "-code=sm_80,sm_86,sm_87"], |c| {
        c.env("DLINK_SHIM_ARCHS", "80").env("DLINK_SHIM_LOG", "info");
    });
    assert_eq!(reached.line(), "-c k.cu -arch=compute_80 -code=sm_80,sm_87");
    let stderr = reached.stderr();
    assert!(stderr.contains("dropped sm_86: sm_80 runs wherever it would"), "{stderr}");
    assert!(stderr.contains("kept sm_87: it is embedded or not known"), "{stderr}");
}

#[test]
fn a_setting_that_can_not_be_read_is_a_warning_and_nothing_else() {
    let stand_in = StandIn::new();
    for (name, value) in [("DLINK_SHIM_ARCHS", "ampere"), ("DLINK_SHIM_ARCHS", "cover:"), ("DLINK_SHIM_COMPRESS", "yes")] {
        let words = ["-c", "k.cu", "-arch=compute_80", "-code=sm_80,sm_86"];
        let reached = stand_in.run_with(stand_in.scratch.path(), &words, |c| {
            c.env(name, value);
        });
        assert_eq!(reached.words(), words);
        assert!(reached.stderr().starts_with(&format!("dlink-shim: warning: {name} is `{value}`")), "{}", reached.stderr());
    }
}

#[test]
fn gpus_that_the_command_never_served_are_named_in_a_warning() {
    let stand_in = StandIn::new();
    let words = ["-c", "k.cu", "-gencode", "arch=compute_80,code=sm_80"];
    let reached = stand_in.run_with(stand_in.scratch.path(), &words, |c| {
        c.env("DLINK_SHIM_ARCHS", "cover:7.0,8.0,9.0");
    });
    assert_eq!(reached.words(), words);
    assert_eq!(reached.stderr(), "dlink-shim: warning: DLINK_SHIM_ARCHS: the command generates no code that runs on 7.0, 9.0\n");
}

#[test]
fn explain_says_what_would_be_dropped() {
    let stand_in = StandIn::new();
    let mut command = shim();
    command.arg("explain").arg(&stand_in.nvcc).args(["-c", "k.cu", "-arch=compute_80", "-code=sm_80,sm_86"]);
    let text = must(command.env("DLINK_SHIM_ARCHS", "one-per-major"));
    let nvcc = stand_in.nvcc.display();
    let lines = ["not a device link that makes a stub", "note: dropped sm_86: sm_80 runs wherever it would"];
    assert_eq!(text, format!("{}\n{}\ncommand: {nvcc} -c k.cu '-arch=compute_80' '-code=sm_80'\n", lines[0], lines[1]));
}

#[test]
fn a_command_never_ends_without_an_architecture() {
    let stand_in = StandIn::new();
    let words = ["-c", "k.cu", "-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90"];
    let reached = stand_in.run_with(stand_in.scratch.path(), &words, |c| {
        c.env("DLINK_SHIM_ARCHS", "cover:75");
    });
    assert_eq!(reached.words(), words);
    let warning = "dlink-shim: warning: DLINK_SHIM_ARCHS: nothing that the command generates would stay: every architecture stays\n";
    assert_eq!(reached.stderr(), warning);
}

#[test]
fn a_command_that_compiles_and_links_objects_keeps_every_architecture() {
    let stand_in = StandIn::new();
    for (rest, kept) in [("k.cu other.o -o x", true), ("k.cu -lcublas -o x", false), ("-c k.cu -o k.o", false)] {
        let words: Vec<&str> = "-arch=compute_80 -code=sm_80,sm_86".split(' ').chain(rest.split(' ')).collect();
        let reached = stand_in.run_with(stand_in.scratch.path(), &words, |c| {
            c.env("DLINK_SHIM_ARCHS", "one-per-major");
        });
        assert_eq!(reached.line().contains("sm_86"), kept, "{rest}: {}", reached.line());
    }
}

/// The list is a macro that sources can see: it is that of what is compiled, also where only the preprocessor runs.
#[test]
fn the_preprocessor_sees_what_is_compiled() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scratch = Scratch::new();
    let source = scratch.write("k.cu", "int list[] = {__CUDA_ARCH_LIST__};\n");
    let run = |setting: Option<&str>| {
        let mut command = shim();
        command.arg(&nvcc).args(["-E", "-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_86,code=sm_86"]).arg(&source);
        setting.map(|s| command.env("DLINK_SHIM_ARCHS", s));
        must(&mut command)
    };
    assert!(run(None).contains("int list[] = {800,860};"));
    assert!(run(Some("one-per-major")).contains("int list[] = {800};"));
}
