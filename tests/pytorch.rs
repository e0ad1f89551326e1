//! `examples/pytorch-extension` with the real `torch.utils.cpp_extension`: `PYTORCH_NVCC` of two words, and a shadow `CUDA_HOME`.

mod support;

use std::path::{Path, PathBuf};

use support::load::load;
use support::{SHIM, Scratch, must, python, recipe, toolkit};

struct Torch {
    scratch: Scratch,
    nvcc: PathBuf,
    torch: PathBuf,
    tools: PathBuf,
}

impl Torch {
    fn new(version: &str) -> Option<Self> {
        let nvcc = toolkit::nvcc(version)?;
        let tools = python::packages("torch-tools", &["setuptools==80.9.0", "ninja==1.13.0", "typing_extensions==4.15.0"])?;
        let torch = Self { scratch: Scratch::new(), nvcc, torch: python::torch(version)?, tools };
        recipe::probe(torch.scratch.path(), torch.cuda());
        Some(torch)
    }

    fn cuda(&self) -> &Path {
        self.nvcc.parent().unwrap().parent().unwrap()
    }

    /// Builds twice, after a recipe's lines, and gives the files; the second build does nothing.
    fn build(&self, name: &str, set: &[(&str, &str)], lines: &str) -> recipe::Files {
        let out = self.scratch.join(name);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pytorch-extension/build.sh");
        let run = || {
            let mut command = python::with(&self.tools, recipe::command("sh", &self.nvcc));
            command.arg("-ec").arg(format!("{lines}\nexec sh {} {}", script.display(), out.display())).current_dir(self.scratch.path());
            command.env("PYTHONPATH", format!("{}:{}", self.torch.display(), self.tools.display()));
            let path = format!("{}:{}:{}", self.tools.join("bin").display(), bin(SHIM), std::env::var("PATH").unwrap());
            command.env("PATH", format!("{}:{path}", bin(&self.nvcc))).env("CUDA_HOME", self.cuda());
            command.env("CCACHE_DIR", self.scratch.join("ccache")).env("CORE_NVCC", &self.nvcc);
            must(command.envs(set.iter().copied()))
        };
        run();
        let files = recipe::files(&out);
        run();
        // BuildExtension writes its ninja file and links the extension anew each time, with or without us.
        let objects = |files: &recipe::Files| {
            let mut files = recipe::products(files);
            files.retain(|f, _| f.extension().is_some_and(|e| e == "o"));
            files
        };
        assert_eq!(objects(&recipe::files(&out)), objects(&files), "{name}: the second build does something");
        files
    }

    /// How often each kernel registers, core library first.
    fn registers(&self, name: &str) -> (usize, usize) {
        let files = recipe::files(&self.scratch.join(name));
        let extension = files.keys().find(|f| f.to_string_lossy().starts_with("plugin.")).unwrap();
        let _ = std::fs::remove_file(self.scratch.join("libcore.so"));
        std::fs::copy(self.scratch.join(name).join("libcore.so"), self.scratch.join("libcore.so")).unwrap();
        let stubs = self.torch.join("torch/lib");
        for library in std::fs::read_dir(stubs).unwrap().map(|e| e.unwrap().path()) {
            std::fs::copy(&library, self.scratch.join(library.file_name().unwrap())).unwrap();
        }
        let seen = load(self.scratch.path(), self.cuda(), &["./libcore.so", &format!("./{name}/{}", extension.display())]);
        assert!(seen.ok, "{name}: {}", seen.stderr);
        (seen.times("core_kernel"), seen.times("plugin_kernel"))
    }
}

fn bin(program: impl AsRef<Path>) -> String {
    program.as_ref().parent().unwrap().display().to_string()
}

#[test]
fn an_extension_with_dlink_registers_through_pytorch_nvcc_and_through_a_shadow_cuda_home() {
    let Some(torch) = Torch::new("13.0") else { return };
    let stock = torch.build("stock", &[], "");
    assert_eq!(torch.registers("stock"), (1, 0));
    std::os::unix::fs::symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts"), torch.scratch.join("wrapper-scripts"))
        .unwrap();
    let (two_words, shadow) = (recipe::fenced("pytorch.md", 0), recipe::fenced("pytorch.md", 1));
    for (name, lines, set) in
        [("two-words", &two_words, &[][..]), ("shadow", &shadow, &[]), ("shadow-alone", &shadow, &[("TORCH_NO_COMPILER_WRAPPER", "1")])]
    {
        recipe::same_names(&stock, &torch.build(name, set, lines));
        assert_eq!(torch.registers(name), (1, 1), "{name}");
    }
}

#[test]
fn device_link_time_optimisation_registers_as_well() {
    let Some(torch) = Torch::new("13.0") else { return };
    for (name, nvcc, expected) in [("stock", "nvcc", (1, 0)), ("ours", "dlink-shim nvcc", (1, 1))] {
        torch.build(name, &[("PYTORCH_NVCC", nvcc), ("EXTRA_NVCC", "-gencode=arch=compute_90,code=lto_90")], "");
        assert_eq!(torch.registers(name), expected);
    }
}
