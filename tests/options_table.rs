//! The options table against `nvcc --help`, and the crate's stated Rust version against what it is made of.

mod support;

use std::process::Command;

use dlink_shim::nvcc::options::{Arity, OPTIONS, lookup};
use support::toolkit;

#[test]
fn every_option_in_nvcc_help_is_in_the_table_with_its_arity() {
    for version in toolkit::VERSIONS {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        let help = support::must(Command::new(nvcc).arg("--help"));
        let mut count = 0;
        for line in help.lines().filter(|l| l.starts_with("--")) {
            let (names, short) = match line.trim_end().rsplit_once('(') {
                Some((names, short)) if line.trim_end().ends_with(')') => (names.trim(), Some(short.trim_end_matches(')'))),
                _ => (line.split("  ").next().unwrap().trim(), None),
            };
            let (long, value) = names.split_once(' ').map_or((names, ""), |(l, v)| (l, v.trim()));
            let (option, _) = lookup(long.as_bytes()).unwrap_or_else(|| panic!("nvcc {version}: {long} is not in the table"));
            assert_eq!(option.long, &long[2..], "nvcc {version}");
            // `-r` was first short for --host-relocatable-link (11.8, 12.4), then for --relocatable-link.
            if let Some(short) = short.filter(|_| long != "--host-relocatable-link") {
                assert_eq!(lookup(short.as_bytes()).map(|o| o.0.long), Some(option.long), "nvcc {version}: {short}");
            }
            let arity = match value {
                // The help leaves their values out, and nvcc wants them: `nvcc -MF` alone is "argument expected after '-MF'".
                "" if matches!(long, "--dependency-output" | "--qpp-config") => Arity::One,
                "" => Arity::Flag,
                list if list.ends_with(",...") => Arity::List,
                _ => Arity::One,
            };
            assert_eq!(option.arity, arity, "nvcc {version}: {long} {value}");
            count += 1;
        }
        assert!(count > 100, "nvcc {version}: only {count} options were found in its help");
    }
}

#[test]
fn options_with_a_value_want_one_and_flags_take_none() {
    let Some(nvcc) = toolkit::nvcc("13.5") else { return };
    // Two options want a value and still say nothing when it is missing at the very end of the line.
    let loud = |o: &&str| !matches!(*o, "Ofc" | "hls" | "");
    for option in OPTIONS.iter().filter(|o| loud(&o.short)) {
        let output = Command::new(&nvcc).args(["--dryrun", &format!("-{}", option.short)]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if text.contains("Unknown option") {
            continue; // an option of older toolkits
        }
        assert_eq!(text.contains("argument expected after"), option.arity != Arity::Flag, "-{}: {text}", option.short);
    }
}

#[test]
fn options_file_quoting_is_nvccs() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let place = support::Scratch::new();
    place.write("x.cu", "");
    let text = "-DA=1\r\n-DB=2\x0b3 \"-DC= 4\"\t-DD=\"5 6\"7 -DE=8\\ 9 -DF='a -DG=b'";
    place.write("x.rsp", text);
    let output = Command::new(nvcc).args(["--dryrun", "-c", "x.cu", "-optf", "x.rsp"]).current_dir(place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in dlink_shim::nvcc::words::split(text.as_bytes()).unwrap() {
        let macro_ = String::from_utf8(word.text[2..].to_vec()).unwrap();
        assert!(said.contains(&format!("-D \"{macro_}\"")), "{macro_:?} is not in {said}");
    }
}

#[test]
fn the_stated_rust_version_is_enough_for_every_dependency() {
    let text = support::must(
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(env!("CARGO_MANIFEST_DIR")),
    );
    let metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |v: &str| v.split('.').map(|p| p.parse::<u32>().unwrap()).collect::<Vec<_>>();
    let stated = number(env!("CARGO_PKG_RUST_VERSION"));
    for package in metadata["packages"].as_array().unwrap() {
        if let Some(needs) = package["rust_version"].as_str() {
            assert!(number(needs)[..2] <= stated[..2], "{} needs Rust {needs}", package["name"]);
        }
    }
}
