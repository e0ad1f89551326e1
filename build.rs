//! Links libgcc's unwinder in, so that the program needs no library but libc: each one that the dynamic linker has to find and map is
//! paid for by every call of nvcc (libgcc_s: 0.1 ms of 1, glibc 2.36).

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    // musl targets, and static ones, have the unwinder linked in already.
    if target("OS") != "linux" || target("ENV") != "gnu" || target("FEATURE").split(',').any(|f| f == "crt-static") {
        return;
    }
    // The standard library asks for `-lgcc_s`; this linker script, found first, gives it the static half of the same library.
    let directory = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    if std::fs::write(Path::new(&directory).join("libgcc_s.so"), "GROUP ( -lgcc_eh -lgcc )\n").is_ok() {
        println!("cargo:rustc-link-search=native={}", Path::new(&directory).display());
    }
}
