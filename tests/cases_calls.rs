//! How the program may be called, what it never changes, and how it ends: cases 27, 28, 29 and the shapes beside them.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{SHIM, Scratch, StandIn, shim, toolkit};

fn path_of(directories: &[&Path]) -> String {
    let own: Vec<String> = directories.iter().map(|d| d.display().to_string()).collect();
    format!("{}:/usr/bin:/bin", own.join(":"))
}

fn masquerade(program: &Path, path: &str) -> Command {
    let mut command = support::clean(Command::new(program));
    command.env("PATH", path);
    command
}

#[test]
fn case_27_what_build_systems_parse_is_nvccs_own() {
    for version in toolkit::VERSIONS {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        let scene = support::Fixtures::get().unwrap().scene();
        scene.write("x.cu", "__global__ void k() {}\n");
        let allow: Vec<&str> = toolkit::flags(version).to_vec();
        let lines: [&[&str]; 9] = [
            &["--version"],
            &["-V"],
            &["--help"],
            &["--dryrun", "-dlink", "plug.o", "-LL", "-lcore_nv", "-arch=sm_90", "-o", "/dev/null"],
            &["-v", "-E", "x.cu", "-o", "/dev/null"],
            &["-dlink", "-cubin", "-arch=sm_90", "plug.o", "-LL", "-lcore_nv", "-o", "out.cubin"],
            &["-dlink", "-fatbin", "-arch=sm_90", "plug.o", "-LL", "-lcore_nv", "-o", "out.fatbin"],
            &["-dlink", "nothere.o", "-o", "o"],
            &["-nonsense", "-dlink=true"],
        ];
        for line in lines {
            let run = |mut command: Command| {
                let output = command.args(line).args(&allow).current_dir(scene.path()).output().unwrap();
                // nvcc's temporary names hold its process number.
                let text = |bytes: &[u8]| {
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    text.split("tmpxft_")
                        .enumerate()
                        .map(|(i, t)| if i == 0 { t.to_owned() } else { t[t.find('_').unwrap_or(0)..].to_owned() })
                        .collect::<String>()
                };
                (output.status.code(), text(&output.stdout), text(&output.stderr))
            };
            let mut with = shim();
            with.arg(&nvcc);
            assert_eq!(run(with), run(support::clean(Command::new(&nvcc))), "nvcc {version}: {line:?}");
        }
    }
}

#[test]
fn case_28_symlink_hard_link_and_copy_find_the_real_nvcc_on_path() {
    let stand_in = StandIn::new();
    let place = Scratch::new();
    for kind in ["symlink", "hard", "copy"] {
        let name = place.join(kind).join("nvcc");
        std::fs::create_dir(name.parent().unwrap()).unwrap();
        match kind {
            "symlink" => symlink(SHIM, &name).unwrap(),
            "hard" if std::fs::hard_link(SHIM, &name).is_ok() => {}
            _ => support::install(SHIM, &name),
        }
        let path = path_of(&[name.parent().unwrap(), stand_in.nvcc.parent().unwrap()]);
        for program in [name.as_path(), Path::new("nvcc")] {
            let mut command = masquerade(program, &path);
            command.args(["-c", "x.cu"]);
            let reached = stand_in.reached(command);
            assert_eq!(reached.zero, stand_in.nvcc, "{kind}");
            assert_eq!(reached.words(), ["-c", "x.cu"]);
        }
    }
}

#[test]
fn case_28_beside_nvcc_real() {
    let stand_in = StandIn::new();
    let real = stand_in.nvcc.with_file_name("nvcc.real");
    std::fs::rename(&stand_in.nvcc, &real).unwrap();
    symlink(SHIM, &stand_in.nvcc).unwrap();
    let mut command = masquerade(&stand_in.nvcc, &path_of(&[]));
    command.arg("-c");
    assert_eq!(stand_in.reached(command).zero, real);
}

#[test]
fn case_28_two_shims_in_a_chain_reach_nvcc_once_and_the_second_looks_at_nothing() {
    let stand_in = StandIn::new();
    let place = Scratch::new();
    for name in ["a/nvcc", "b/nvcc"] {
        std::fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
        support::install(SHIM, &place.join(name));
    }
    let path = path_of(&[&place.join("a"), &place.join("b"), stand_in.nvcc.parent().unwrap()]);
    let mut command = masquerade(Path::new("nvcc"), &path);
    command.args(["-c", "x.cu"]);
    let reached = stand_in.reached(command);
    assert_eq!((reached.zero, reached.args.len()), (stand_in.nvcc.clone().into(), 2));
    // Two that know only each other end with one clear line.
    let mut command = masquerade(Path::new("nvcc"), &path_of(&[&place.join("a"), &place.join("b")]));
    let output = command.arg("-c").output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("set DLINK_SHIM_NVCC"), "{output:?}");
}

#[test]
fn case_28_shim_then_ccache_then_shim() {
    // A compiler cache found as `nvcc` on PATH runs the next `nvcc` on PATH that is not itself, which is the shim again.
    let stand_in = StandIn::new();
    let place = Scratch::new();
    std::fs::create_dir(place.join("shim")).unwrap();
    symlink(SHIM, place.join("shim/nvcc")).unwrap();
    let cache = place.executable("cache/nvcc", "#!/bin/sh\nexec \"$FIRST_SHIM\" \"$@\"\n");
    let path = path_of(&[&place.join("shim"), cache.parent().unwrap(), stand_in.nvcc.parent().unwrap()]);
    let mut command = masquerade(Path::new("nvcc"), &path);
    command.env("FIRST_SHIM", place.join("shim/nvcc")).args(["-c", "x.cu"]);
    assert_eq!(stand_in.reached(command).zero, stand_in.nvcc);
    // Told to run the cache for ever, it gives up with a clear line.
    let mut command = masquerade(Path::new("nvcc"), &path);
    command.env("FIRST_SHIM", place.join("shim/nvcc")).env("DLINK_SHIM_NVCC", &cache);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("in a loop"), "{output:?}");
}

#[test]
fn a_symlink_into_a_toolkit_is_followed_so_that_nvcc_finds_its_parts() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let place = Scratch::new();
    place.write("x.cu", "__global__ void k() {}\n");
    symlink(&nvcc, place.join("nvcc")).unwrap();
    support::must(shim().arg(place.join("nvcc")).args(["-arch=sm_90", "-c", "x.cu"]).current_dir(place.path()));
}

#[test]
fn launcher_words_are_resolved_and_other_programs_run_untouched() {
    let stand_in = StandIn::new();
    let mut command = shim();
    command.env("PATH", path_of(&[stand_in.nvcc.parent().unwrap()])).args(["nvcc", "-c"]);
    assert_eq!(stand_in.reached(command).zero, stand_in.nvcc);
    let mut command = shim();
    command.current_dir(stand_in.scratch.path()).args(["bin/nvcc", "-c"]);
    assert_eq!(stand_in.reached(command).zero, stand_in.nvcc);
    let output = shim().args(["sh", "-c", "echo \"$0 $1\"; exit 7", "-dlink", "x"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(7), b"-dlink x\n".to_vec()));
    assert_eq!(shim().arg("no-such-program-here").output().unwrap().status.code(), Some(127));
}

#[test]
fn nvcc_equals_dlink_shim_takes_nvccs_words() {
    let stand_in = StandIn::new();
    for words in [&["-dlink", "a.o"][..], &["a.o", "-dlink"], &["x.cu", "-c"], &["-V", "x"]] {
        let mut command = shim();
        command.env("PATH", path_of(&[stand_in.nvcc.parent().unwrap()])).args(words);
        if words[0] == "-V" {
            let output = command.output().unwrap();
            assert!(String::from_utf8_lossy(&output.stdout).starts_with("dlink-shim "), "{output:?}");
            continue;
        }
        assert_eq!(stand_in.reached(command).words(), words);
    }
    let mut command = shim();
    command.env("PATH", "/bin").env("CUDA_HOME", stand_in.scratch.path()).arg("-c");
    assert_eq!(stand_in.reached(command).zero, stand_in.nvcc);
}

/// A real device link through an options file, so that a temporary file must outlive the call, with a stand-in that waits.
fn waiting(script: &str) -> Option<(Scratch, Scratch, Command)> {
    let scene = support::Fixtures::get()?.scene();
    scene.write("x.rsp", "-dlink plug.o -LL -lcore_nv");
    let place = Scratch::new();
    let nvcc = place.executable("nvcc", script);
    std::fs::create_dir(place.join("tmp")).unwrap();
    let mut command = shim();
    command.arg(nvcc).args(["-optf", "x.rsp"]).current_dir(scene.path()).env("TMPDIR", place.join("tmp")).stdout(Stdio::piped());
    Some((scene, place, command))
}

#[test]
fn case_29_signals_reach_nvcc_and_the_end_is_its_end() {
    for (name, signal) in [("INT", 2), ("TERM", 15)] {
        let script = format!(
            "#!/bin/sh\ntrap 'echo got; trap - {name}; kill -{name} $$' {name}\necho ready\nwhile :; do read -r x < /dev/zero; done\n"
        );
        let script =
            script.replace("while :; do read -r x < /dev/zero; done", "mkfifo \"$0.fifo\"; while :; do read -r x < \"$0.fifo\"; done");
        let Some((_scene, place, mut command)) = waiting(&script) else { return };
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let made = std::fs::read_dir(place.join("tmp")).unwrap().count();
        assert_eq!(made, 1);
        support::must(Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()));
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((rest.as_str(), status.signal()), ("got\n", Some(signal)));
        assert_eq!(std::fs::read_dir(place.join("tmp")).unwrap().count(), 0, "temporary files stay behind");
    }
}

#[test]
fn case_29_exit_codes_descriptors_and_jobserver_variables_pass_through() {
    let script = "#!/bin/sh\necho \"fd $(cat <&9) flags $MAKEFLAGS\"\nexit 42\n";
    let Some((_scene, place, command)) = waiting(script) else { return };
    let given = place.write("given", "nine");
    let mut outer = support::clean(Command::new("sh"));
    outer.arg("-c").arg("exec \"$@\" 9< \"$GIVEN\"").arg("sh").arg(SHIM).args(command.get_args());
    outer.current_dir(command.get_current_dir().unwrap()).env("GIVEN", given).env("MAKEFLAGS", "-j8 --jobserver-auth=3,4");
    let output = outer.output().unwrap();
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fd nine flags -j8 --jobserver-auth=3,4\n");
}

#[test]
fn explain_names_the_library_the_unit_and_the_evidence() {
    let Some(fixtures) = support::Fixtures::get() else { return };
    let scene = fixtures.scene();
    let stand_in = StandIn::new();
    let explain = |json: bool, words: &[&str]| {
        let mut command = shim();
        command.arg("explain").args(json.then_some("--json")).arg("--").arg(&stand_in.nvcc).args(words).current_dir(scene.path());
        support::must(&mut command)
    };
    let text = explain(false, &["-dlink", "plug.o", "-LL", "-lcore_nv", "-o", "o"]);
    assert!(text.contains("core_nv: strip: no unit that stays needs its 2 unit(s), which are device-only"), "{text}");
    assert!(text.contains("L/libcore_nv.a") && text.contains("(core_nv.o): device-only: strip"), "{text}");
    assert!(
        text.contains(&format!("command: {} -dlink plug.o -LL -o o -Xcompiler -fvisibility=protected", stand_in.nvcc.display())),
        "{text}"
    );
    let text = explain(true, &["-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "o"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["files"][1]["verdict"], "cure");
    assert_eq!(json["files"][1]["units"][0]["verdict"], "mask");
    assert_eq!(json["files"][1]["units"][1]["verdict"], "guard");
    assert!(json["notes"][0].as_str().unwrap().contains("1 device variable(s)"), "{json}");
    assert!(json["files"][1]["units"][1]["reason"].as_str().unwrap().contains("_Z6helperi"));
    assert_eq!(explain(false, &["-c", "x.cu"]).lines().count(), 1);
    let bad = shim().args(["explain", "--", "/no/such/nvcc", "-dlink"]).output().unwrap();
    assert_eq!(bad.status.code(), Some(127));
    assert_eq!(String::from_utf8_lossy(&bad.stderr).lines().count(), 1);
}
