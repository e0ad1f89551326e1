//! Layout L1 built by GNU make in SCRAM's own sequence: a core library, its device-only archive, and two plugins.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::load::load;
use support::{SHIM, Scratch, toolkit};

fn build(version: &str, shim: bool) -> Option<(Scratch, PathBuf)> {
    let nvcc = toolkit::nvcc(version).filter(|_| toolkit::has("make"))?;
    let cuda = nvcc.parent().unwrap().parent().unwrap().to_owned();
    let scratch = Scratch::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // As SCRAM has it: NVCC= in Makefile.cuda, and the toolkit's bin on PATH.
    let path = format!("{}:{}", nvcc.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut make = support::clean(Command::new("make"));
    make.arg("-j2").arg("-f").arg(root.join("tests/support/l1.mk")).current_dir(scratch.path()).env("PATH", path);
    make.arg(format!("NVCC={}", if shim { SHIM.into() } else { nvcc.display().to_string() }));
    make.arg(format!("CUDA={}", cuda.display())).arg(format!("SRC={}/examples/quickstart", root.display()));
    make.arg(format!("EXTRA={}", toolkit::flags(version).join(" ")));
    support::must(&mut make);
    Some((scratch, cuda))
}

fn stock_starves_and_the_shims_registers(version: &str) {
    let Some((stock, cuda)) = build(version, false) else { return };
    let (shim, _) = build(version, true).unwrap();
    let orders: [&[&str]; 3] = [
        &["./libcore.so", "./libplugin.so", "./libsecond.so"],
        &["./libplugin.so", "./libsecond.so"],
        &["--local", "./libsecond.so", "./libplugin.so"],
    ];
    for order in orders {
        let seen = load(stock.path(), &cuda, order);
        assert!(seen.ok, "{}", seen.stderr);
        let starved = ["plugin_kernel", "second_kernel"].iter().filter(|k| seen.times(k) == 0).count();
        assert!(starved > 0, "nvcc {version}, stock, {order:?}: nothing starved, so the test proves nothing: {seen:?}");
        let seen = load(shim.path(), &cuda, order);
        assert!(seen.ok, "{}", seen.stderr);
        for kernel in ["core_kernel", "plugin_kernel", "second_kernel"] {
            assert_eq!(seen.times(kernel), 1, "nvcc {version}, shim, {order:?}: {kernel}: {seen:?}");
        }
        assert_eq!(seen.fatbins.len(), 3);
    }
}

#[test]
fn scram_plugins_on_nvcc_11_8() {
    stock_starves_and_the_shims_registers("11.8");
}

#[test]
fn scram_plugins_on_nvcc_12_4() {
    stock_starves_and_the_shims_registers("12.4");
}

#[test]
fn scram_plugins_on_nvcc_13_0() {
    stock_starves_and_the_shims_registers("13.0");
}

#[test]
fn scram_plugins_on_nvcc_13_5() {
    stock_starves_and_the_shims_registers("13.5");
}
