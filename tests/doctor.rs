//! `dlink-shim doctor`: what it finds in real builds, and what it says of nvcc and the settings.

mod support;

use std::path::Path;
use std::process::Command;

use support::cmake::{Build, PROJECT, Version, small_project, text};
use support::{SHIM, Scratch, StandIn, must, shim};

/// The doctor's exit code and words.
fn doctor(words: &[&str], set: impl FnOnce(&mut Command)) -> (i32, String) {
    let mut command = shim();
    command.arg("doctor").args(words);
    set(&mut command);
    let output = command.output().unwrap();
    (output.status.code().unwrap(), text(&output))
}

fn of_build(directory: &Path, nvcc: &Path) -> (i32, String) {
    doctor(&["--build", directory.to_str().unwrap()], |c| {
        c.env("DLINK_SHIM_NVCC", nvcc);
    })
}

#[test]
fn a_cmake_build_with_the_launcher_variable_only_is_told_the_line_that_cures() {
    for (version, generator) in [(Version::Debian, "Ninja"), (Version::Debian, "Unix Makefiles"), (Version::Newest, "Ninja")] {
        let scratch = Scratch::new();
        let source = small_project(&scratch, PROJECT, "");
        let Some(build) = Build::new(version, generator, &source, scratch.join("build")) else { return };
        must(&mut build.configure(&[&format!("-DCMAKE_CUDA_COMPILER_LAUNCHER={SHIM}"), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]));
        let (code, said) = of_build(&build.directory, &build.nvcc);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("2 device link(s), 0 through dlink-shim; 3 compilation(s) by nvcc, 3 through"), "{said}");
        assert!(said.contains("CMake runs CMAKE_CUDA_COMPILER_LAUNCHER for compilations only"), "{said}");
        let (_, cure) = said.split_once("cure: ").unwrap();
        // The line itself cures, typed into a shell.
        let bin = Path::new(SHIM).parent().unwrap().display();
        let cmake = build.cmake.parent().filter(|p| p.is_absolute()).map(|p| format!("{}:", p.display())).unwrap_or_default();
        must(Command::new("sh").args(["-ec", cure.trim()]).env("PATH", format!("{bin}:{cmake}{}", std::env::var("PATH").unwrap())));
        let (code, said) = of_build(&build.directory, &build.nvcc);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("2 device link(s), 2 through dlink-shim") && said.contains("nothing to complain about"), "{said}");
    }
}

#[test]
fn a_shim_named_nvcc_as_the_compiler_counts_and_stock_does_not() {
    let scratch = Scratch::new();
    let source = small_project(&scratch, PROJECT, "");
    let Some(build) = Build::new(Version::Debian, "Ninja", &source, scratch.join("build")) else { return };
    let compiler = scratch.join("nvcc");
    support::install(SHIM, &compiler);
    let mut command = build.configure_with(&[&format!("-DCMAKE_CUDA_COMPILER={}", compiler.display())]);
    must(command.env("DLINK_SHIM_NVCC", &build.nvcc));
    let (code, said) = of_build(&build.directory, &build.nvcc);
    assert_eq!((code, said.contains("2 device link(s), 2 through")), (0, true), "{said}");
    std::fs::remove_dir_all(&build.directory).unwrap();
    must(&mut build.configure(&[]));
    let (code, said) = of_build(&build.directory, &build.nvcc);
    assert_eq!((code, said.contains("2 of 2 device links do not go through")), (1, true), "{said}");
    assert!(!said.contains("COMPILER_LAUNCHER"), "{said}");
}

#[test]
fn what_make_prints_is_read_options_files_and_directories_included() {
    let stand_in = StandIn::new();
    let scratch = Scratch::new();
    scratch.write("sub/all.rsp", "-dlink a.o -o a_dlink.o");
    let nvcc = stand_in.nvcc.display();
    let log = scratch.write(
        "make.log",
        format!(
            "echo building; {nvcc} -dc a.cu -o a.o\nmake[1]: Entering directory '{0}/sub'\n{nvcc} -optf all.rsp\nmake[1]: Leaving directory '{0}/sub'\n\
             dlink-shim {nvcc} -dlink b.o \\\n  -o b_dlink.o\nccache {nvcc} -dlink c.o -o c_dlink.o\n{nvcc} -shared d.o -o libd.so\ng++ -shared a_dlink.o\n",
            scratch.path().display()
        ),
    );
    let (code, said) = of_build(&log, &stand_in.nvcc);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("4 device link(s), 1 through dlink-shim; 1 compilation(s)"), "{said}");
    for output in ["a_dlink.o", "c_dlink.o", "libd.so"] {
        assert!(said.contains(&format!("not through: {output}")), "{output}: {said}");
    }
    assert!(said.contains(&format!("cure: make NVCC=\"dlink-shim {nvcc}\"")), "{said}");
}

#[test]
fn pytorch_builds_get_pytorchs_variable() {
    let scratch = Scratch::new();
    let stand_in = StandIn::new();
    if !support::toolkit::has("ninja") {
        return;
    }
    let rules = |nvcc: &str| {
        format!(
            "nvcc = {nvcc}\ncuda_dlink_post_cflags = -dlink -lext\nrule cuda_devlink\n  command = $nvcc $in -o $out $cuda_dlink_post_cflags\n\
             build dlink.o: cuda_devlink k.o\n"
        )
    };
    scratch.write("build.ninja", rules(&stand_in.nvcc.display().to_string()));
    let (code, said) = of_build(scratch.path(), &stand_in.nvcc);
    assert_eq!((code, said.contains("cure: export PYTORCH_NVCC=\"dlink-shim /")), (1, true), "{said}");
    scratch.write("build.ninja", rules(&format!("dlink-shim {}", stand_in.nvcc.display())));
    assert_eq!(of_build(scratch.path(), &stand_in.nvcc).0, 0);
}

#[test]
fn nvcc_settings_and_where_they_come_from_are_shown() {
    let stand_in = StandIn::new();
    let home = stand_in.nvcc.parent().unwrap().parent().unwrap().to_owned();
    let (code, said) = doctor(&[], |c| {
        c.env("CUDA_HOME", &home).env("DLINK_SHIM_KEEP", "x,y").env("PATH", "/nowhere");
    });
    assert!(code == 0 && said.contains("(CUDA_HOME)") && said.contains("DLINK_SHIM_KEEP = x,y (environment)"), "{said}");
    let (code, said) = doctor(&["--json"], |c| {
        c.env("DLINK_SHIM_NVCC", &stand_in.nvcc).env("DLINK_SHIM_MODE", "off").env("PATH", "/nowhere");
    });
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, json["wiring"]["nvcc"]["why"].as_str()), (1, Some("DLINK_SHIM_NVCC")), "{said}");
    assert_eq!(json["findings"][0]["cure"], "unset DLINK_SHIM_MODE");
    let (code, said) = doctor(&[], |c| {
        c.env("PATH", "/nowhere");
    });
    assert!(code == 1 && said.contains("no nvcc found") && said.contains("export DLINK_SHIM_NVCC="), "{said}");
}

#[test]
fn a_command_is_read_as_the_wrapper_would() {
    let stand_in = StandIn::new();
    let nvcc = stand_in.nvcc.to_str().unwrap();
    let (code, said) = doctor(&["--", "dlink-shim", "ccache", nvcc, "-dlink", "a.o"], |_| {});
    assert!(code == 0 && said.contains("nvcc's words after other programs") && said.contains("(the command's word)"), "{said}");
    let (_, said) = doctor(&["--", "g++", "-shared"], |c| {
        c.env("DLINK_SHIM_NVCC", nvcc);
    });
    assert!(said.contains("no nvcc: runs as it is given"), "{said}");
}

#[test]
fn what_cannot_be_looked_at_is_one_line_and_exit_2() {
    let scratch = Scratch::new();
    let (code, said) = doctor(&["--build", scratch.path().to_str().unwrap()], |_| {});
    assert_eq!(code, 2);
    assert!(said.contains("no build.ninja and no CMake link scripts") && said.lines().count() == 1, "{said}");
    assert_eq!(doctor(&["--build", "/nowhere/at/all"], |_| {}).0, 2);
}
