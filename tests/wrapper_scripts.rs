//! `wrapper-scripts/`: each is run as its users would.

mod support;

use std::path::Path;

use support::{SHIM, StandIn};

#[test]
fn the_nvcc_script_goes_through_the_shim_and_never_finds_itself() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts");
    let path = format!("{}:{}:/usr/bin:/bin", scripts.display(), stand_in.nvcc.parent().unwrap().display());
    let mut command = support::clean(std::process::Command::new("nvcc"));
    command.args(["-dlink", "plug.o", "-LL", "-lcore_nv", "-o", "o o"]).env("PATH", path).env("DLINK_SHIM", SHIM).current_dir(scene.path());
    let reached = stand_in.reached(command);
    assert_eq!(
        (reached.words(), reached.zero),
        (["-dlink", "plug.o", "-LL", "-o", "o o"].map(str::to_owned).to_vec(), stand_in.nvcc.clone().into())
    );
}

#[test]
fn the_scram_lines_put_the_shim_before_nvcc() {
    if !support::toolkit::has("make") {
        return;
    }
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let snippet = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts/scram/Makefile.cuda.snippet");
    scene.write(
        "Makefile",
        format!("NVCC := {}\ninclude {}\nall:\n\t$(NVCC) -dlink plug.o -LL -lcore_nv\n", stand_in.nvcc.display(), snippet.display()),
    );
    let bin = Path::new(SHIM).parent().unwrap();
    let mut command = support::clean(std::process::Command::new("make"));
    command.current_dir(scene.path()).env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    assert_eq!(stand_in.reached(command).words(), ["-dlink", "plug.o", "-LL"]);
}

#[test]
fn the_install_script_lays_out_a_prefix_whose_parts_find_each_other() {
    let scratch = support::Scratch::new();
    let prefix = scratch.join("pre fix");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts/install.sh");
    support::must(std::process::Command::new("sh").arg(&script).arg(&prefix).arg(SHIM));
    for file in [
        "bin/dlink-shim",
        "lib/cmake/DlinkShim/DlinkShim.cmake",
        "lib/cmake/DlinkShim/DlinkShimConfig.cmake",
        "lib/dlink-shim/nvcc",
        "share/bash-completion/completions/dlink-shim",
        "share/fish/vendor_completions.d/dlink-shim.fish",
        "share/man/man1/dlink-shim-audit.1",
        "share/man/man1/dlink-shim.1",
        "share/zsh/site-functions/_dlink-shim",
    ] {
        assert!(std::fs::metadata(prefix.join(file)).is_ok_and(|m| m.is_file() && m.len() > 0), "{file}");
    }
    // The installed nvcc is the shim, and no symlink.
    assert!(!prefix.join("lib/dlink-shim/nvcc").is_symlink());
    let stand_in = StandIn::new();
    let mut command = support::clean(std::process::Command::new(prefix.join("lib/dlink-shim/nvcc")));
    command.arg("--version").env("DLINK_SHIM_NVCC", &stand_in.nvcc);
    assert_eq!(stand_in.reached(command).words(), ["--version"]);
    // Again over itself.
    support::must(std::process::Command::new("sh").arg(&script).arg(&prefix).arg(SHIM));
    let failed = std::process::Command::new("sh").arg(&script).arg(&prefix).arg("/no/such").output().unwrap();
    assert!(String::from_utf8_lossy(&failed.stderr).contains("/no/such is no program"), "{failed:?}");
}
