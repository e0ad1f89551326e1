//! `examples/scram-make`: SCRAM's rules for a release area and a local area, switched on in each way that SCRAM has.

mod support;

use std::path::{Path, PathBuf};

use support::load::load;
use support::{Scratch, must, recipe, toolkit};

const ARCH: &str = "el9_amd64_gcc12";

struct Areas {
    scratch: Scratch,
    nvcc: PathBuf,
}

impl Areas {
    fn new(version: &str) -> Option<Self> {
        let nvcc = toolkit::nvcc(version).filter(|_| toolkit::has("make"))?;
        let areas = Self { scratch: Scratch::new(), nvcc };
        recipe::probe(areas.scratch.path(), areas.cuda());
        Some(areas)
    }

    fn cuda(&self) -> &Path {
        self.nvcc.parent().unwrap().parent().unwrap()
    }

    /// Builds both areas, twice, and gives the files.
    fn build(&self, name: &str, version: &str, words: &[&str], set: &[(&str, &str)]) -> recipe::Files {
        let build = self.scratch.join(name);
        let make = || {
            let mut make = recipe::command("make", &self.nvcc);
            make.arg("-C").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scram-make"));
            make.args(["-j2", "areas"]).arg(format!("BUILD={}", build.display())).arg(format!("CUDA={}", self.cuda().display()));
            make.arg(format!("EXTRA={}", toolkit::flags(version).join(" ")));
            must(make.args(words).envs(set.iter().copied()))
        };
        assert!(make().contains(">> Cuda device link"));
        let files = recipe::files(&build);
        let again = make();
        assert!(!again.contains(">>") && recipe::files(&build) == files, "{name}: the second build does something: {again}");
        files
    }

    /// The kernels that do not register once each, for two orders.
    fn lost(&self, name: &str) -> Vec<String> {
        let library = |area: &str, library: &str| format!("./{name}/{area}/lib/{ARCH}/lib{library}.so");
        let core = library("release", "Core");
        let [local, p, q] = ["Local", "PluginP", "PluginQ"].map(|l| library("local", l));
        let path: Vec<String> =
            ["release", "local"].map(|a| self.scratch.join(name).join(a).join("lib").join(ARCH).display().to_string()).into();
        // What the loader finds by name.
        for from in &path {
            for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
                let to = self.scratch.join(entry.file_name());
                let _ = std::fs::remove_file(&to);
                std::os::unix::fs::symlink(entry.path(), to).unwrap();
            }
        }
        let orders: [&[&str]; 2] = [&[&core, &local, &p, &q], &["--local", &q, &p, &local]];
        let mut lost = Vec::new();
        for order in orders {
            let seen = load(self.scratch.path(), self.cuda(), order);
            assert!(seen.ok, "{name}: {}", seen.stderr);
            for kernel in ["11core_kernel", "12local_kernel", "8p_kernel", "8q_kernel"] {
                if seen.times(kernel) != 1 {
                    lost.push(format!("{order:?}: {kernel}: {}", seen.times(kernel)));
                }
            }
        }
        lost
    }
}

fn stock_loses_kernels_and_two_words_cure(version: &str) {
    let Some(areas) = Areas::new(version) else { return };
    let stock = areas.build("stock", version, &[], &[]);
    assert!(areas.lost("stock").len() >= 4, "nvcc {version}: {:?}", areas.lost("stock"));
    recipe::same_names(&stock, &areas.build("ours", version, &["NVCC=dlink-shim nvcc"], &[]));
    assert_eq!(areas.lost("ours"), [""; 0], "nvcc {version}");
}

#[test]
fn areas_on_nvcc_11_8() {
    stock_loses_kernels_and_two_words_cure("11.8");
}

#[test]
fn areas_on_nvcc_12_4() {
    stock_loses_kernels_and_two_words_cure("12.4");
}

#[test]
fn areas_on_nvcc_13_5() {
    stock_loses_kernels_and_two_words_cure("13.5");
}

#[test]
fn every_switch_of_scram_cures() {
    let Some(areas) = Areas::new("13.0") else { return };
    let stock = areas.build("stock", "13.0", &[], &[]);
    assert!(areas.lost("stock").len() >= 4, "{:?}", areas.lost("stock"));
    let named = support::masquerade(&areas.scratch.join("shim-bin")).display().to_string();
    let by_name = format!("NVCC={named}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let snippet = format!("MAKEFILE_CUDA={}", root.join("wrapper-scripts/scram/Makefile.cuda.snippet").display());
    type Switch<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, &'a str)]);
    let switches: [Switch<'_>; 4] = [
        // make exports a command-line NVCC to us: it must not be taken for the real one.
        ("by-name", &[&by_name], &[]),
        ("environment", &[], &[("NVCC", &named)]),
        ("makefile-cuda", &[&snippet], &[]),
        ("prefix-assignments", &["SCRAM_PREFIX_COMPILER_COMMAND=dlink-shim LANG=C VAR=x"], &[]),
    ];
    for (name, words, set) in switches {
        recipe::same_names(&stock, &areas.build(name, "13.0", words, set));
        assert_eq!(areas.lost(name), [""; 0], "{name}");
    }
}

/// `scram` is a script that runs make with what SCRAM would give it: the recipe's own lines are run.
#[test]
fn the_recipes_lines_cure() {
    let Some(areas) = Areas::new("13.0") else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scram-make");
    areas.scratch.executable(
        "bin/scram",
        &format!("#!/bin/sh\nshift\nexec make -C {} areas BUILD=$BUILD CUDA={} \"$@\"\n", example.display(), areas.cuda().display()),
    );
    for (nth, name) in ["scram-nvcc", "scram-prefix"].iter().enumerate() {
        let mut shell = recipe::command("sh", &areas.nvcc);
        let path = shell.get_envs().find(|(k, _)| *k == "PATH").unwrap().1.unwrap().to_string_lossy().into_owned();
        shell.arg("-ec").arg(recipe::fenced("scram.md", nth)).env("BUILD", areas.scratch.join(name));
        must(shell.env("PATH", format!("{}:{path}", areas.scratch.join("bin").display())));
        assert_eq!(areas.lost(name), [""; 0], "{name}");
    }
}

#[test]
fn the_example_shows_the_fault_and_the_cure() {
    let Some(nvcc) = toolkit::nvcc("13.0").filter(|_| toolkit::has("make")) else { return };
    let scratch = Scratch::new();
    let mut make = recipe::command("make", &nvcc);
    make.arg("-C").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scram-make"));
    make.arg(format!("NVCC={}", nvcc.display())).arg(format!("BUILD={}", scratch.path().display()));
    let said = must(&mut make);
    assert!(said.contains("shim registers: core_kernel(int*) local_kernel(int*) p_kernel(int*) q_kernel(int*)"), "{said}");
}
