//! `wrapper-scripts/*.md`: the recipes' own lines, run on a small project each, built stock and through the recipe.
//!
//! The project is layout L3: a static library with a kernel in two shared libraries, each with a kernel of its own. Stock loses the
//! second's when both are loaded.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::load::load;
use support::{Scratch, must, python, recipe, toolkit};

struct Project {
    scratch: Scratch,
    nvcc: PathBuf,
    /// Where the packages of the recipe's tool are.
    tools: Option<PathBuf>,
    /// xmake 3.0 writes the host link's flags in an order that varies, and so links again sometimes, stock too.
    host_links_vary: bool,
    /// The two shared libraries, from the project's directory.
    libraries: [&'static str; 2],
}

impl Project {
    fn new(tools: Option<PathBuf>, files: &[(&str, &str)], libraries: [&'static str; 2]) -> Option<Self> {
        let nvcc = toolkit::nvcc("13.0")?;
        let scratch = Scratch::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for name in ["stock", "ours"] {
            for unit in ["s", "p1", "p2"] {
                scratch
                    .write(Path::new(name).join(unit).with_extension("cu"), std::fs::read(root.join("examples/layouts/unit.cu")).unwrap());
            }
            for (file, text) in files {
                scratch.write(Path::new(name).join(file), text);
            }
            std::os::unix::fs::symlink(root.join("wrapper-scripts"), scratch.join(name).join("wrapper-scripts")).unwrap();
        }
        let project = Self { scratch, nvcc, tools, host_links_vary: false, libraries };
        recipe::probe(project.scratch.path(), project.cuda());
        Some(project)
    }

    fn cuda(&self) -> &Path {
        self.nvcc.parent().unwrap().parent().unwrap()
    }

    fn run(&self, place: &str, lines: &str) {
        let mut shell = recipe::command("sh", &self.nvcc);
        let path = shell.get_envs().find(|(k, _)| *k == "PATH").unwrap().1.unwrap().to_string_lossy().into_owned();
        if let Some(tools) = &self.tools {
            shell = python::with(tools, shell);
            shell.env("PATH", format!("{}:{path}", tools.join("bin").display()));
        }
        let own = |name: &str| self.scratch.join(name);
        shell.env("CUDA_HOME", self.cuda()).env("CCACHE_DIR", own("ccache")).env("SCCACHE_DIR", own("sccache"));
        shell.env("SCCACHE_SERVER_UDS", own("sccache.socket")).env("SCCACHE_IDLE_TIMEOUT", "60");
        // xmake keeps its settings of all projects in a directory of the user's.
        shell.env("XMAKE_ROOT", "y").env("XMAKE_GLOBALDIR", own("xmake")).env("XMAKE_COLORTERM", "nocolor");
        must(shell.arg("-ec").arg(lines).current_dir(own(place)));
    }

    /// The project's own files: not what the recipe's lines themselves put beside it.
    fn files(&self, place: &str) -> recipe::Files {
        let mut files = recipe::files(&self.scratch.join(place));
        files.retain(|f, _| !["shim", "cuda-shim", "dlink-shim.ini"].iter().any(|own| f.starts_with(own)));
        files
    }

    fn lost(&self, place: &str) -> Vec<&'static str> {
        let libraries = self.libraries.map(|l| format!("./{place}/{l}"));
        let seen = load(self.scratch.path(), self.cuda(), &[&libraries[0], &libraries[1]]);
        assert!(seen.ok, "{}", seen.stderr);
        // The library's own kernel is in both images.
        let kernels = [("8s_kernel", 2), ("9p1_kernel", 1), ("9p2_kernel", 1)];
        kernels.iter().filter(|(k, n)| seen.times(k) != *n).map(|(k, _)| *k).collect()
    }

    /// Builds stock with `stock`, ours with the recipe's `lines`, and each again by its last line.
    fn holds(&self, stock: &str, lines: &str) {
        for (place, lines) in [("stock", stock), ("ours", lines)] {
            self.run(place, lines);
            let products = || {
                let mut products = recipe::products(&self.files(place));
                products.retain(|f, _| !self.host_links_vary || f.extension().is_some_and(|e| e != "so"));
                products
            };
            let made = products();
            self.run(place, lines.lines().last().unwrap());
            assert_eq!(products(), made, "the second build does something: {lines}");
        }
        recipe::same_names(&self.files("stock"), &self.files("ours"));
        assert_eq!(self.lost("stock"), ["8s_kernel", "9p2_kernel"], "stock");
        assert_eq!(self.lost("ours"), [""; 0], "{lines}");
    }

    fn clean(&self) {
        self.run("ours", "rm -rf *.o *.a *.so shim");
        self.run("stock", "rm -rf *.o *.a *.so");
    }
}

/// One library by `-dlink`, one by Kokkos' pattern.
const MAKEFILE: &str = "\
NVCC ?= nvcc
include $(wildcard lines.mk)
FLAGS = -arch=sm_90 -Xcompiler -fPIC
USES_p1 = -DUSES=s
USES_p2 = -DUSES=s
all: libfirst.so libsecond.so
%.o: %.cu
\t$(NVCC) $(FLAGS) -dc -DNAME=$* $(USES_$*) $< -o $@
libs.a: s.o
\tar crs $@ $<
libfirst.so: p1.o libs.a
\t$(NVCC) $(FLAGS) -dlink p1.o -L. -ls -o p1_dlink.o
\tg++ -shared p1.o p1_dlink.o -L. -ls -L$(CUDA_HOME)/lib64 -lcudart -o $@
libsecond.so: p2.o libs.a
\t$(NVCC) $(FLAGS) -rdc=true -cudart shared -shared p2.o libs.a -o $@
.SECONDARY:
";

fn make(tools: Option<PathBuf>) -> Option<Project> {
    Project::new(tools, &[("Makefile", MAKEFILE)], ["libfirst.so", "libsecond.so"]).filter(|_| toolkit::has("make"))
}

#[test]
fn makefiles_by_variable_by_line_and_by_path() {
    let Some(project) = make(None) else { return };
    project.holds("make", &recipe::fenced("makefile.md", 0));
    project.clean();
    project.holds("make", &recipe::fenced("makefile.md", 2));
    project.clean();
    project.scratch.write("ours/lines.mk", recipe::fenced("makefile.md", 1));
    project.scratch.write("stock/lines.mk", "");
    project.holds("make", "make");
}

#[test]
fn caches_in_makefiles() {
    let Some(project) = make(None).filter(|_| toolkit::has("ccache")) else { return };
    for nth in 0..3 {
        project.holds("make", &recipe::fenced("ccache.md", nth));
        project.clean();
    }
}

#[test]
fn meson_by_a_native_file() {
    let Some(tools) = python::packages("meson", &["meson==1.12.1", "ninja==1.13.0"]) else { return };
    let build = "\
project('layout', 'cuda')
rdc = ['-rdc=true', '-arch=sm_90']
s = static_library('s', 's.cu', cuda_args: rdc + ['-DNAME=s'], pic: true)
foreach n : ['1', '2']
  shared_library('l' + n, 'p' + n + '.cu', cuda_args: rdc + ['-DNAME=p' + n, '-DUSES=s'],
                 link_args: rdc + ['-cudart=shared'], link_with: s)
endforeach
";
    let files = [("meson.build", build)];
    let Some(project) = Project::new(Some(tools), &files, ["build/libl1.so", "build/libl2.so"]) else { return };
    project.scratch.write("ours/dlink-shim.ini", recipe::fenced("meson.md", 0));
    project.scratch.write("stock/dlink-shim.ini", "");
    project.holds(&recipe::fenced("meson.md", 1), &recipe::fenced("meson.md", 1));
}

#[test]
fn setuptools_by_a_shadow_cuda_home() {
    let Some(tools) = python::packages("setuptools", &["setuptools==80.9.0"]) else { return };
    // As projects with a build_ext of their own do it.
    let setup = "\
import os, subprocess
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NVCC = [os.environ['CUDA_HOME'] + '/bin/nvcc', '-arch=sm_90', '-Xcompiler', '-fPIC']

class Build(build_ext):
    def build_extension(self, ext):
        target = self.get_ext_fullpath(ext.name)
        if os.path.exists(target):
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        run = lambda *words: subprocess.run(words, check=True)
        if not os.path.exists('libs.a'):
            run(*NVCC, '-dc', '-DNAME=s', 's.cu', '-o', 's.o')
            run('ar', 'crs', 'libs.a', 's.o')
        n = ext.name
        run(*NVCC, '-dc', '-DNAME=' + n, '-DUSES=s', n + '.cu', '-o', n + '.o')
        run(*NVCC, '-dlink', n + '.o', 'libs.a', '-o', n + '_dlink.o')
        run('g++', '-shared', n + '.o', n + '_dlink.o', 'libs.a', '-L' + os.environ['CUDA_HOME'] + '/lib64', '-lcudart', '-o', target)

    def get_ext_filename(self, name):
        return name + '.so'

setup(name='layout', py_modules=[], ext_modules=[Extension(n, [n + '.cu']) for n in ('p1', 'p2')], cmdclass={'build_ext': Build})
";
    let Some(project) = Project::new(Some(tools), &[("setup.py", setup)], ["p1.so", "p2.so"]) else { return };
    project.holds("python3 setup.py build_ext --inplace", &recipe::fenced("setuptools.md", 0));
}

#[test]
fn xmake_by_a_shadow_of_its_cuda_directory() {
    let Some(tools) = python::packages("xmake", &["xmake-wheel==3.0.0"]) else { return };
    let lua = "\
add_cugencodes('sm_90')
add_cuflags('-Xcompiler -fPIC', {force = true})
add_links('cudart')
target('s')
  set_kind('static')
  add_files('s.cu')
  add_defines('NAME=s')
for _, n in ipairs({'1', '2'}) do
  target('l' .. n)
    set_kind('shared')
    add_files('p' .. n .. '.cu')
    add_defines('NAME=p' .. n, 'USES=s')
    add_deps('s')
end
";
    let libraries = ["build/linux/x86_64/release/libl1.so", "build/linux/x86_64/release/libl2.so"];
    let Some(mut project) = Project::new(Some(tools), &[("xmake.lua", lua)], libraries) else { return };
    project.host_links_vary = true;
    project.holds("xmake f -y --cuda=\"$CUDA_HOME\"\nxmake", &recipe::fenced("xmake.md", 0));
}

#[test]
fn every_recipe_is_short_and_says_whether_it_is_run() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts");
    for path in std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "md")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.contains("Run by the tests") || first.contains("Not run here"), "{path:?}: {first}");
        assert!(text.lines().count() <= 25, "{path:?}");
    }
}

#[test]
fn the_shadow_script_takes_only_a_toolkit_and_never_a_foreign_directory() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scratch = Scratch::new();
    scratch.write("mine/file", "");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts/shadow-cuda-home.sh");
    let cuda = nvcc.parent().unwrap().parent().unwrap();
    let run = |real: &Path, dest: &Path| Command::new(&script).arg(real).arg(dest).arg(support::SHIM).output().unwrap();
    for (real, dest) in [(scratch.path(), scratch.join("new")), (cuda, scratch.join("mine"))] {
        let output = run(real, &dest);
        assert!(!output.status.success() && !dest.join("bin").exists());
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    }
    let dest = scratch.join("a b");
    for _ in 0..2 {
        assert!(run(cuda, &dest).status.success());
    }
    scratch.write("x.cu", "__global__ void k() {}\n");
    let mut compile = support::clean(Command::new(dest.join("bin/nvcc")));
    must(compile.args(["-arch=sm_90", "-dc", "x.cu"]).env("PATH", "/usr/bin:/bin").current_dir(scratch.path()));
}
