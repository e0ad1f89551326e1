//! Every layout of device code across shared libraries, on every toolkit: built, loaded in every order, and seen through the
//! registration probe. `examples/layouts/layouts.py` holds the layouts and says what each cell must be: with the shim on all
//! images everything registers; with the shim on some, nothing is lost that stock has and that the stock images do not lose by
//! themselves. The tables stay in `target/layouts/`.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{SHIM, Scratch, toolkit};

/// `layouts.py` with the program under test.
fn script(nvcc: &Path, out: &Scratch) -> Command {
    let mut command = support::clean(Command::new("python3"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/layouts/layouts.py"));
    command.arg("--nvcc").arg(nvcc).args(["--shim", SHIM, "--out"]).arg(out.path());
    command
}

fn matrix(version: &str, words: &[&str]) {
    let Some(nvcc) = toolkit::nvcc(version) else { return };
    let scratch = Scratch::new();
    let mut command = script(&nvcc, &scratch);
    let rows = scratch.join("rows.json");
    command.args(words).arg("--json").arg(&rows);
    command.arg(format!("--flags={}", toolkit::flags(version).join(" ")));
    let output = command.output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    // `.ci/run` prints these at the end.
    let tables = toolkit::target().join("layouts");
    std::fs::create_dir_all(&tables).unwrap();
    let name = format!("{version}-{}.txt", words[1].replace(',', "-"));
    std::fs::write(tables.join(name), format!("nvcc {version}, {}\n{table}", words.join(" "))).unwrap();
    assert!(output.status.success(), "nvcc {version}\n{table}{}", String::from_utf8_lossy(&output.stderr));
    // A table in which plain nvcc has no fault proves nothing.
    let faults = table.lines().filter(|l| l.contains(" no ")).count();
    assert!(faults > 10, "nvcc {version}: {faults} faults only\n{table}");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(rows).unwrap()).unwrap();
    support::audited::says_what_the_probe_sees(version, scratch.path(), &rows);
}

/// Those of the named linkers that are installed.
fn linkers(names: &str) -> String {
    let installed = |l: &&str| toolkit::has(&if *l == "mold" { "mold".to_owned() } else { format!("ld.{l}") });
    names.split(',').filter(installed).collect::<Vec<_>>().join(",")
}

#[test]
fn layouts_on_nvcc_11_8() {
    matrix("11.8", &["--ld", &linkers("bfd,lld")]);
}

#[test]
fn layouts_on_nvcc_12_4() {
    matrix("12.4", &["--ld", &linkers("bfd,lld")]);
}

#[test]
fn layouts_on_nvcc_13_0_with_every_linker() {
    matrix("13.0", &["--ld", &linkers("bfd,gold,lld,mold")]);
}

#[test]
fn layouts_on_nvcc_13_5() {
    matrix("13.5", &["--ld", &linkers("bfd,lld")]);
}

#[test]
fn layouts_under_link_flags_visibility_strip_partial_links_and_clang() {
    let clang = if toolkit::has("clang++") { ",clang" } else { "" };
    // How shimmed images get on with stock ones is seen without these.
    matrix("13.0", &["--variants", &format!("hidden,Bsymbolic,as-needed,gc-sections,stripped,relr,O2,ld-r{clang}"), "--whole"]);
}

#[test]
fn layouts_with_link_time_optimisation() {
    matrix("13.0", &["--variants", "dlto", "--whole"]);
}

#[test]
fn a_guarded_object_is_the_same_for_the_same_inputs_and_names_no_temporary_file() {
    let fixtures = fixtures!();
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scene = fixtures.scene();
    let link = |tmp: &str, output: &str| {
        std::fs::create_dir_all(scene.join(tmp)).unwrap();
        let mut command = support::shim();
        command.arg(&nvcc).args(["-arch=sm_90", "-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", output]);
        support::must(command.current_dir(scene.path()).env("TMPDIR", scene.join(tmp)));
        assert_eq!(std::fs::read_dir(scene.join(tmp)).unwrap().count(), 0, "temporary files stay behind");
        std::fs::read(scene.join(output)).unwrap()
    };
    let (first, second) = (link("tmp1", "o1"), link("a-longer-tmp", "o2"));
    assert!(first == second, "two links of the same inputs differ");
    assert!(!first.windows(11).any(|w| w == b"dlink-shim-" || w == b"tmpxft_0000"), "the object holds a temporary name");
}

/// Builds the named layouts with nvcc 13.0; gives their place and the toolkit.
fn built(layouts: &str) -> Option<(Scratch, PathBuf)> {
    let nvcc = toolkit::nvcc("13.0")?;
    let cuda = nvcc.parent().unwrap().parent().unwrap().to_owned();
    let scratch = Scratch::new();
    support::must(script(&nvcc, &scratch).args(["--layouts", layouts, "--variants", "plain"]));
    Some((scratch, cuda))
}

#[test]
fn a_guarded_plugin_can_be_closed_and_opened_again() {
    let Some((scratch, cuda)) = built("L2,L4") else { return };
    for layout in ["L2", "L4"] {
        let built = scratch.join(format!("{layout}-bfd-plain-11"));
        let kernel = if layout == "L2" { "q2_kernel" } else { "p2_kernel" };
        let again = ["close:./libsecond.so", "./libsecond.so"];
        let words = [&["./libfirst.so", "./libsecond.so"][..], &again, &again].concat();
        let seen = support::load::load(&built, &cuda, &words);
        assert!(seen.ok, "{}", seen.stderr);
        assert_eq!(seen.times(kernel), 3, "{layout}: {seen:?}");
    }
}

#[test]
fn registration_order_inside_an_image_is_that_of_stock_nvcc() {
    let Some((scratch, cuda)) = built("L3,L6-pull") else { return };
    for (layout, program, words) in [("L6-pull", "program", &[][..]), ("L3", "loader", &["./libfirst.so"])] {
        let kernels = |shim: &str| {
            let built = scratch.join(format!("{layout}-bfd-plain-{shim}"));
            let seen = support::load::run(&built, &cuda, &built.join(program), words);
            seen.kernels.into_iter().map(|(_, kernel)| kernel).collect::<Vec<_>>()
        };
        assert_eq!(kernels("11"), kernels("00"), "{layout}");
        assert!(kernels("11").len() >= 2);
    }
}
