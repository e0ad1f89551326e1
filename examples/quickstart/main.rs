//! `cargo run --example quickstart`: SCRAM's layout built with plain nvcc and with dlink-shim, side by side.
//!
//! A core library, its device-only archive (`libcore_nv.a`), and a plugin with a kernel of its own. The libraries are loaded
//! core first, then the plugin, under a probe that writes down what registers with the CUDA runtime; with a GPU the kernels also
//! run. Exit 0 only if everything registers in the shim's build and the stock build shows the fault.

#[path = "../../tests/support/load.rs"]
mod load;
#[path = "../../tests/support/toolkit.rs"]
mod toolkit;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let Some(nvcc) = find_nvcc() else {
        eprintln!("quickstart: no nvcc on PATH, none named by NVCC, and none could be fetched");
        return ExitCode::from(2);
    };
    let Some(shim) = find_shim() else {
        eprintln!("quickstart: target/*/dlink-shim is not built: run `cargo build` first");
        return ExitCode::from(2);
    };
    println!("nvcc: {}", nvcc.display());
    let cuda = nvcc.parent().and_then(Path::parent).expect("nvcc is in a bin directory").to_owned();
    let place = toolkit::target().join("quickstart");
    let stock = build(&place.join("stock"), &[&nvcc], &cuda);
    let ours = build(&place.join("dlink-shim"), &[&shim, &nvcc], &cuda);
    let words = ["./libcore.so", "./libplugin.so", "run:run_core", "run:run_plugin"];
    let (stock, ours) = (load::load(&stock, &cuda, &words), load::load(&ours, &cuda, &words));
    println!("\nloaded: libcore.so, then libplugin.so\n");
    println!("{:<16} {:<24} {:<24}", "kernel", "plain nvcc", "dlink-shim");
    let said = |n: usize| {
        if n == 1 {
            "registers".to_owned()
        } else if n == 0 {
            "NEVER REGISTERS".to_owned()
        } else {
            format!("registers {n} times")
        }
    };
    for kernel in ["core_kernel", "plugin_kernel"] {
        println!("{kernel:<16} {:<24} {:<24}", said(stock.times(kernel)), said(ours.times(kernel)));
    }
    for (a, b) in stock.stdout.lines().zip(ours.stdout.lines()).filter(|(a, _)| a.starts_with("run_")) {
        println!("{:<16} {:<24} {:<24}", "on this GPU", a, b);
    }
    let launched = ours.stdout.lines().filter(|l| l.starts_with("run_")).all(|l| l.ends_with(" ok"));
    let cured = ours.ok && ours.times("core_kernel") == 1 && ours.times("plugin_kernel") == 1 && launched;
    let fault = stock.times("plugin_kernel") == 0;
    println!(
        "\n{}",
        match (cured, fault) {
            (true, true) => "plain nvcc loses the plugin's kernel; dlink-shim registers all",
            (true, false) => "unexpected: plain nvcc registers everything here",
            (false, _) => "unexpected: dlink-shim's build does not register everything",
        }
    );
    ExitCode::from(u8::from(!(cured && fault)))
}

/// `NVCC`, else PATH, else fetched from PyPI.
fn find_nvcc() -> Option<PathBuf> {
    let named = std::env::var_os("NVCC").filter(|n| !n.is_empty()).map(PathBuf::from);
    let found = named.or_else(|| which::which("nvcc").ok()).map(|n| std::fs::canonicalize(&n).unwrap_or(n));
    // A masquerading shim or a script is no toolkit: only a directory with nvcc.profile is.
    found.filter(|n| n.with_file_name("nvcc.profile").exists()).or_else(|| {
        println!("fetching nvcc 13.0 from PyPI into target/ …");
        toolkit::nvcc("13.0")
    })
}

/// The program of the same profile as this example.
fn find_shim() -> Option<PathBuf> {
    let examples = std::env::current_exe().ok()?;
    let shim = examples.parent()?.parent()?.join("dlink-shim");
    shim.exists().then_some(shim)
}

/// Builds the layout in `place`, device code through `nvcc` (a program and its first words).
fn build(place: &Path, nvcc: &[&PathBuf], cuda: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(place);
    std::fs::create_dir_all(place).expect("target/ is writable");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let source = |name: &str| sources.join(name).display().to_string();
    let lib = format!("-L{}/lib64", cuda.display());
    let driver: Vec<String> = nvcc.iter().map(|p| p.display().to_string()).collect();
    let run = |words: &[&str]| {
        let status = Command::new(words[0]).args(&words[1..]).current_dir(place).status();
        assert!(status.as_ref().is_ok_and(|s| s.success()), "{words:?}: {status:?}");
    };
    let nvcc = |words: &[&str]| {
        let mut all: Vec<&str> = driver.iter().map(String::as_str).collect();
        all.extend(["-arch=sm_90", "-Xcompiler", "-fPIC"]);
        run(&[&all, words].concat());
    };
    // The core library and, for others' device links, its device code alone.
    nvcc(&["-dc", &source("core.cu"), "-o", "core.o"]);
    nvcc(&["-dlink", "core.o", "-o", "core_dlink.o"]);
    run(&["g++", "-shared", "-o", "libcore.so", "core.o", "core_dlink.o", &lib, "-lcudart"]);
    run(&["objcopy", "-j", ".nv*", "-j", "__nv*", "core.o", "core_nv.o"]);
    run(&["ar", "crs", "libcore_nv.a", "core_nv.o"]);
    // The plugin.
    nvcc(&["-dc", &source("plugin.cu"), "-o", "plugin.o"]);
    nvcc(&["-dlink", "plugin.o", "-L.", "-lcore_nv", "-o", "plugin_dlink.o"]);
    run(&["g++", "-shared", "-o", "libplugin.so", "plugin.o", "plugin_dlink.o", "-L.", "-lcore", &lib, "-lcudart"]);
    // What loads them.
    let include = format!("-I{}/include", cuda.display());
    run(&["g++", &include, &source("loader.cpp"), "-o", "loader", "-Wl,--no-as-needed", &lib, "-lcudart", "-ldl"]);
    run(&["gcc", "-shared", "-fPIC", &source("probe.c"), "-o", "probe.so", "-ldl"]);
    place.to_owned()
}
