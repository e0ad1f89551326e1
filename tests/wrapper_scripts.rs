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
