//! Limits and surroundings: each command runs alone and through dlink-shim, and must end and speak the same.
//!
//! | what | what the caller sees |
//! |---|---|
//! | 20 descriptors, 64 MiB of address space, no core | as with nvcc alone, device links cured |
//! | no environment, PATH empty, HOME not set, another locale | as with nvcc alone |
//! | current directory deleted | as with nvcc alone |
//! | stdin, stdout, stderr closed | as with nvcc alone |
//! | options files nested ever deeper | as with nvcc alone, at every depth |
//! | nvcc missing, a directory, not executable, without its interpreter | one line on stderr; 127 where a shell says so, else 126 |

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{SHIM, Scratch, StandIn, clean, toolkit};

/// Exit code, stdout, stderr.
type Said = (Option<i32>, String, String);

fn run(mut command: Command) -> Said {
    let output = support::output(command.stdin(Stdio::null()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// `script` with nvcc, or with dlink-shim and nvcc, in `$@`.
fn both(script: &str, nvcc: &Path, words: &[&str], cwd: &Path, set: impl Fn(&mut Command)) -> (Said, Said) {
    let run = |front: Option<&str>| {
        let mut command = clean(Command::new("/bin/sh"));
        command.args(["-c", script, "sh"]).args(front).arg(nvcc).args(words).current_dir(cwd);
        set(&mut command);
        run(command)
    };
    (run(None), run(Some(SHIM)))
}

/// Objects, an archive and a source, and the lines to try on them: one that is passed through and two device links.
fn scene() -> Option<(Scratch, PathBuf)> {
    let nvcc = toolkit::nvcc("13.0")?;
    let scene = support::Fixtures::get()?.scene();
    scene.write("x.cu", "__global__ void k(int *p) { *p = 1; }\n");
    Some((scene, nvcc))
}

const LINES: [&[&str]; 4] = [
    &["--version"],
    &["-ptx", "-arch=sm_90", "x.cu", "-o", "x.ptx"],
    &["-arch=sm_90", "-dlink", "plug.o", "-LL", "-lcore_nv", "-o", "l.o"],
    &["-arch=sm_90", "-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "l.o"],
];

#[test]
fn twenty_descriptors_and_a_bare_or_foreign_environment_are_as_with_nvcc_alone() {
    let Some((scene, nvcc)) = scene() else { return };
    for script in [
        "ulimit -n 20; exec \"$@\"",
        "ulimit -c 0; ulimit -n 8; exec \"$@\"",
        "exec env -i \"$@\"",
        "exec env -i PATH=/usr/bin:/bin \"$@\"",
        "PATH= exec \"$@\"",
        "unset PATH HOME TMPDIR; exec \"$@\"",
        "unset HOME; LC_ALL=C exec \"$@\"",
        "LANG=ru_RU.KOI8-R LC_ALL=ja_JP.SJIS LANGUAGE=xx exec \"$@\"",
        "umask 777; exec \"$@\"",
    ] {
        for words in LINES {
            let (plain, ours) = both(script, &nvcc, words, scene.path(), |_| {});
            assert_eq!(ours, plain, "{script}: {words:?}");
        }
    }
}

#[test]
fn sixty_four_mebibytes_of_address_space_are_enough_for_us() {
    let Some((scene, nvcc)) = scene() else { return };
    let script = "ulimit -v 65536; exec \"$@\"";
    for words in [LINES[0], &["--dryrun", "-c", "x.cu", "-o", "/dev/null"], &["-nonsense"]] {
        let masked =
            |(code, out, err): Said| (code, out, err.split("tmpxft_").map(|t| t.get(17..).unwrap_or(t).to_owned()).collect::<Vec<_>>());
        let (plain, ours) = both(script, &nvcc, words, scene.path(), |_| {});
        assert_eq!(masked(ours), masked(plain), "{words:?}");
    }
    // What nvcc runs needs more, so the cure is looked at with a stand-in.
    let stand_in = StandIn::new();
    let mut command = clean(Command::new("sh"));
    command.args(["-c", script, "sh", SHIM]).arg(&stand_in.nvcc).args(LINES[3]).current_dir(scene.path());
    let reached = stand_in.reached(command);
    assert!(reached.line().contains("-include,") && reached.stderr().is_empty(), "{}{}", reached.line(), reached.stderr());
}

#[test]
fn a_deleted_current_directory_is_as_with_nvcc_alone() {
    let Some((scene, nvcc)) = scene() else { return };
    let script = "mkdir gone && cd gone && rmdir ../gone; exec \"$@\"";
    let at = |name: &str| scene.join(name).display().to_string();
    let (object, directory, output) = (at("plugdev.o"), format!("-L{}", at("L")), at("l.o"));
    let lines: [&[&str]; 4] = [
        &["--version"],
        &["-ptx", "x.cu"],
        &["-arch=sm_90", "-dlink", &object, &directory, "-lcore_nv", "-o", &output],
        &["-dlink", "plug.o", "-LL", "-lcore_nv"],
    ];
    for words in lines {
        let (plain, ours) = both(script, &nvcc, words, scene.path(), |_| {});
        assert_eq!(ours, plain, "{words:?}");
    }
}

#[test]
fn closed_standard_descriptors_are_as_with_nvcc_alone() {
    let Some((scene, nvcc)) = scene() else { return };
    let missing: &[&str] = &["-dlink", "nothere.o"];
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        for words in LINES.into_iter().chain([missing]) {
            let (plain, ours) = both(&format!("exec \"$@\" {closed}"), &nvcc, words, scene.path(), |_| {});
            assert_eq!(ours, plain, "{closed} {words:?}");
        }
    }
}

#[test]
fn options_files_nested_ever_deeper_end_as_with_nvcc_alone() {
    let scene = fixtures!().scene();
    for version in toolkit::VERSIONS {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        for depth in [2, 20, 60, 63, 64, 65, 200, 3000] {
            for last in ["--version", "-dlink plugdev.o -LL -lcore_nv -arch=sm_90 -o /dev/null --dryrun"] {
                for level in 0..depth {
                    let text = if level + 1 == depth { last.to_owned() } else { format!("-optf {}.rsp", level + 1) };
                    scene.write(format!("{level}.rsp"), text);
                }
                let (plain, ours) = both("exec \"$@\"", &nvcc, &["-optf", "0.rsp"], scene.path(), |_| {});
                let masked = |(code, out, err): Said| {
                    (code, out, err.lines().filter(|l| !l.contains("tmpxft_")).map(str::to_owned).collect::<Vec<_>>())
                };
                assert_eq!(masked(ours), masked(plain), "nvcc {version}: {depth} levels");
            }
        }
    }
}

#[test]
fn an_nvcc_that_can_not_run_is_one_line_and_a_shells_code() {
    let place = Scratch::new();
    std::fs::create_dir(place.join("directory")).unwrap();
    let plain = place.write("plain", "text\n");
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    place.executable("no-interpreter", "#!/no/such/interpreter\n");
    for (name, code) in [("missing", 127), ("directory", 126), ("plain", 126), ("no-interpreter", 127)] {
        let path = place.join(name);
        for by_setting in [false, true] {
            let mut command = support::shim();
            if by_setting {
                command.env("DLINK_SHIM_NVCC", &path);
            } else {
                // A path is taken for nvcc by its name.
                let nvcc = place.join("nvcc");
                let _ = std::fs::remove_file(&nvcc);
                std::os::unix::fs::symlink(&path, &nvcc).unwrap();
                command.arg(nvcc);
            }
            let (ours, stdout, stderr) = run({
                command.args(["-dlink", "x.o"]);
                command
            });
            assert_eq!((ours, stdout.as_str(), stderr.lines().count()), (Some(code), "", 1), "{name}, setting {by_setting}: {stderr}");
            assert!(stderr.starts_with("dlink-shim: error: "), "{stderr}");
        }
    }
    // A bare name that is nowhere, with a PATH that holds nothing.
    for path in ["", "/no/such/directory", ":::", "directory"] {
        let mut command = support::shim();
        command.env("PATH", path).args(["nvcc", "-c", "x.cu"]).current_dir(place.join("directory"));
        let (code, _, stderr) = run(command);
        assert_eq!((code, stderr.lines().count()), (Some(127), 1), "PATH={path}: {stderr}");
    }
}
