//! Programs between us and nvcc, the settings file, and what bad wiring says.

mod support;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use support::{SHIM, Scratch, StandIn, shim};

/// A program that runs its words after the first `skip`, as caches and ctest do.
fn runner(scratch: &Scratch, name: &str, skip: &str) -> String {
    scratch.executable(format!("runners/{name}"), &format!("#!/bin/sh\n{skip}\nexec \"$@\"\n")).display().to_string()
}

fn path_of(directories: &[&Path]) -> String {
    let own: Vec<String> = directories.iter().map(|d| d.display().to_string()).collect();
    format!("{}:/usr/bin:/bin", own.join(":"))
}

#[test]
fn programs_in_front_keep_their_words_and_nvccs_are_cured() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let nvcc = stand_in.nvcc.display().to_string();
    let cache = runner(&scene, "ccache", "");
    let ctest = runner(&scene, "ctest", "while [ \"$1\" != -- ]; do shift; done; shift");
    let fronts: [&[&str]; 6] = [
        &[&cache],
        &["env", "A=b c", &cache],
        &["env", "-u", "HOME"],
        &["nice", "-n", "1"],
        &[&ctest, "--launch", "--target-name", "x y", "--"],
        &["A=b c", "B=", &cache],
    ];
    for front in fronts {
        let mut command = shim();
        command.args(front).args([&nvcc, "-dlink", "plug.o", "-LL", "-lcore_nv", "-o", "o o"]).current_dir(scene.path());
        let reached = stand_in.reached(command);
        assert_eq!(reached.words(), ["-dlink", "plug.o", "-LL", "-o", "o o"], "{front:?}");
        assert_eq!((reached.zero.to_str().unwrap(), reached.stderr().as_str()), (nvcc.as_str(), ""));
        let assigned = front.iter().any(|w| w.starts_with("A="));
        assert_eq!(reached.var("A").is_some_and(|v| v == "b c"), assigned, "{front:?}");
    }
}

#[test]
fn temporary_files_outlive_the_programs_in_front() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let cache = runner(&scene, "sccache", "");
    scene.write("x.rsp", "-dlink plugdev.o -LL -lcore_nv");
    let mut command = shim();
    command.arg(cache).arg(&stand_in.nvcc).args(["-optf", "x.rsp"]).current_dir(scene.path());
    let reached = stand_in.reached(command);
    assert!(reached.line().contains("-include,") && !reached.new_files.is_empty(), "{reached:?}");
}

#[test]
fn a_shim_behind_the_cache_looks_at_nothing_again() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let cache = runner(&scene, "ccache", "");
    let place = Scratch::new();
    std::fs::create_dir(place.join("bin")).unwrap();
    symlink(SHIM, place.join("bin/nvcc")).unwrap();
    let mut command = shim();
    command.env("PATH", path_of(&[&place.join("bin"), stand_in.nvcc.parent().unwrap()]));
    command.args([&cache, "nvcc", "-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "o"]).current_dir(scene.path());
    let reached = stand_in.reached(command);
    assert_eq!(reached.zero, stand_in.nvcc);
    assert_eq!(reached.args.iter().filter(|a| a.to_string_lossy().starts_with("-include,")).count(), 1, "{reached:?}");
    // The cache in front of a shim that comes first of all shims.
    let mut command = support::clean(Command::new(&cache));
    command.env("PATH", path_of(&[&place.join("bin"), stand_in.nvcc.parent().unwrap()]));
    command.args(["nvcc", "-dlink", "plug.o", "-LL", "-lcore_nv"]).current_dir(scene.path());
    assert_eq!(stand_in.reached(command).words(), ["-dlink", "plug.o", "-LL"]);
}

#[test]
fn variables_with_nvccs_words_are_folded_where_they_stay_folded() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let cache = runner(&scene, "ccache", "");
    let nvcc = stand_in.nvcc.display().to_string();
    let line = [nvcc.as_str(), "-dlink", "plug.o", "-LL"];
    let run = |front: &[&str], set: Option<&str>| {
        let mut command = shim();
        command.args(front).args(line).current_dir(scene.path());
        command.envs(set.map(|s| ("NVCC_APPEND_FLAGS", s)));
        stand_in.reached(command)
    };
    for (front, set) in [(&[cache.as_str()][..], Some("-lcore_nv -O1")), (&["NVCC_APPEND_FLAGS=-lcore_nv -O1"], None)] {
        let reached = run(front, set);
        assert_eq!(reached.words(), ["-dlink", "plug.o", "-LL", "-O1"]);
        assert_eq!(reached.var("NVCC_APPEND_FLAGS"), None);
    }
    // `env` would set it again behind us.
    let reached = run(&["env", "NVCC_APPEND_FLAGS=-lcore_nv"], None);
    assert_eq!((reached.line(), reached.var("NVCC_APPEND_FLAGS").unwrap().to_str()), ("-dlink plug.o -LL".into(), Some("-lcore_nv")));
    assert!(reached.stderr().contains("sets NVCC_APPEND_FLAGS in front of nvcc") && reached.stderr().lines().count() == 1);
    // What env sets that needs no folding is seen, settings too.
    let reached = run(&["env", "LIBRARY_PATH=L", "DLINK_SHIM_MODE=off"], Some("-lcore_nv"));
    assert_eq!(reached.var("NVCC_APPEND_FLAGS").unwrap(), "-lcore_nv");
}

#[test]
fn other_programs_pass_through_with_their_assignments() {
    let run = |words: &[&str]| {
        let output = shim().args(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["A=b c", "C=", "sh", "-c", "echo \"$A,${C-unset}\"; exit 3"]), (Some(3), "b c,\n".into(), String::new()));
    assert_eq!(run(&["env", "A=b", "sh", "-c", "echo $A"]).1, "b\n");
    let scratch = Scratch::new();
    scratch.write("x.c", "int x;\n");
    for words in [&["gcc", "-c", "x.c", "-o", "nvcc"][..], &["ar", "crs", "x.a", "nvcc"], &["ranlib", "x.a"]] {
        support::must(shim().args(words).current_dir(scratch.path()));
    }
    if support::toolkit::has("cmake") {
        support::must(shim().args(["cmake", "-E", "rm", "-f", "x.a"]).current_dir(scratch.path()));
        assert!(!scratch.join("x.a").exists());
    }
}

#[test]
fn a_device_link_behind_words_that_are_not_understood_runs_as_it_is_with_one_warning() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let time = runner(&scene, "time", "shift");
    let run = |words: &[&str], set: &[(&str, &str)]| {
        let mut command = shim();
        command.arg(&time).args(words).envs(set.iter().copied()).current_dir(scene.path());
        stand_in.reached(command)
    };
    let nvcc = stand_in.nvcc.to_str().unwrap();
    let link = ["-p", nvcc, "-dlink", "plug.o", "-LL", "-lcore_nv"];
    let reached = run(&link, &[]);
    assert_eq!(reached.words(), link[2..]);
    assert!(reached.stderr().contains("not looked at") && reached.stderr().lines().count() == 1, "{}", reached.stderr());
    assert_eq!(run(&link, &[("DLINK_SHIM_MODE", "off")]).stderr(), "");
    assert_eq!(run(&["-p", nvcc, "-c", "x.cu"], &[]).stderr(), "");
    // The line that the warning asks for.
    let reached = run(&[&["-p", SHIM], &link[1..]].concat(), &[]);
    assert_eq!((reached.words().len(), reached.stderr()), (3, String::new()));
    let mut command = shim();
    command.args(["no", "nvcc", "-dlink"]).env("DLINK_SHIM_STRICT", "1");
    assert_eq!(command.output().unwrap().status.code(), Some(2));
}

#[test]
fn bad_wiring_is_one_line_that_names_the_mistake_and_the_right_line() {
    let scratch = Scratch::new();
    for (words, code, said) in [
        (
            &[][..],
            127,
            "without a command: the build rule or variable that should name nvcc here is empty; write `dlink-shim /path/to/nvcc",
        ),
        (&["A=b"], 127, "without a command"),
        (&[""], 127, "the program's name is empty"),
        (&["", "nvcc", "-dlink"], 127, "write `dlink-shim /path/to/nvcc"),
        (&["/no/nvcc", "-dlink"], 127, "no nvcc found as `/no/nvcc`: set DLINK_SHIM_NVCC"),
        (&["no-such-program", "x"], 127, "no program `no-such-program`: dlink-shim wants a program and its words"),
        (&["ccache nvcc", "-dlink"], 127, "no program `ccache nvcc`: these words came as one: leave out the quotes"),
        (&["ccache /no/nvcc", "-dlink"], 127, "no nvcc found as `ccache /no/nvcc`: these words came as one"),
        (&["-dlink", "a.o"], 127, "no nvcc found: set DLINK_SHIM_NVCC to the real nvcc, or put its directory on PATH"),
        (&["-vV"], 127, "write `dlink-shim sccache nvcc`"),
        (&["-E", "/tmp/x/testfile.c"], 127, "name a hard link of dlink-shim `nvcc` after sccache"),
        (&["/", "x"], 126, "can't run /"),
    ] {
        let output = shim().args(words).env("PATH", scratch.path()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{words:?}: {stderr}");
        assert!(stderr.starts_with("dlink-shim: error: "), "{stderr}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{words:?}: {stderr}");
    }
    // CMake asks this of `CUDACXX="dlink-shim /path/to/nvcc"`.
    let mut asked = shim();
    let output = asked.arg("--version").env("CUDACXX", format!("{SHIM} /x/nvcc")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("CMake takes one word for the compiler") && stderr.lines().count() == 1, "{stderr}");
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("dlink-shim "));
    let output = shim().arg("--version").env("CUDACXX", "/x/nvcc").output().unwrap();
    assert_eq!(output.stderr, b"");
}

#[test]
fn empty_words_and_no_words_are_nvccs_own_affair() {
    let stand_in = StandIn::new();
    let place = Scratch::new();
    symlink(SHIM, place.join("nvcc")).unwrap();
    let path = path_of(&[stand_in.nvcc.parent().unwrap()]);
    for words in [&["", "-v", "__cmake_determine_cuda"][..], &[]] {
        let mut command = support::clean(Command::new(place.join("nvcc")));
        command.args(words).env("PATH", &path);
        assert_eq!(stand_in.reached(command).args, words);
    }
    let mut command = shim();
    command.args(["", "-v", "__cmake_determine_cuda"]).env("PATH", &path);
    assert_eq!(stand_in.reached(command).args, ["", "-v", "__cmake_determine_cuda"]);
}

#[test]
fn a_file_beside_the_program_makes_settings_and_the_environment_beats_it() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let place = Scratch::new();
    support::masquerade(place.path());
    std::fs::create_dir(place.join("elsewhere")).unwrap();
    symlink(place.join("nvcc"), place.join("elsewhere/nvcc")).unwrap();
    let conf = |text: String| drop(place.write("dlink-shim.conf", text));
    let run = |program: &str, set: &[(&str, &str)]| {
        let mut command = support::clean(Command::new(place.join(program)));
        command.args(["-dlink", "plug.o", "-LL", "-lcore_nv"]).env("PATH", "/usr/bin:/bin").current_dir(scene.path());
        stand_in.reached({
            command.envs(set.iter().copied());
            command
        })
    };
    conf(format!("# for Bazel\nDLINK_SHIM_NVCC={}\n", stand_in.nvcc.display()));
    for program in ["nvcc", "elsewhere/nvcc"] {
        let reached = run(program, &[]);
        assert_eq!((reached.words(), reached.stderr()), (["-dlink", "plug.o", "-LL"].map(str::to_owned).to_vec(), String::new()));
    }
    conf(format!("DLINK_SHIM_NVCC={}\nDLINK_SHIM_MODE=off\n", stand_in.nvcc.display()));
    assert_eq!(run("nvcc", &[]).words().len(), 4);
    assert_eq!(run("nvcc", &[("DLINK_SHIM_MODE", "fix")]).words().len(), 3);
    // A line that is none: one warning, and the rest counts.
    conf(format!("DLINK_SHIM_NVCC={}\nDLINK_SHIM_NVC=/x\nnonsense\n", stand_in.nvcc.display()));
    let reached = run("nvcc", &[]);
    assert_eq!(reached.words().len(), 3);
    let line = format!("dlink-shim: warning: {}, line 2: `DLINK_SHIM_NVC=/x` is no setting", place.join("dlink-shim.conf").display());
    assert!(reached.stderr().starts_with(&line) && reached.stderr().lines().count() == 1, "{}", reached.stderr());
    // One that can't be read is a warning, too.
    std::fs::remove_file(place.join("dlink-shim.conf")).unwrap();
    std::fs::create_dir(place.join("dlink-shim.conf")).unwrap();
    let reached = run("nvcc", &[("DLINK_SHIM_NVCC", stand_in.nvcc.to_str().unwrap())]);
    assert_eq!(reached.words().len(), 3);
    assert!(reached.stderr().contains("its settings are not used") && reached.stderr().lines().count() == 1, "{}", reached.stderr());
}
