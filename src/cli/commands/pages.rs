//! The texts of `dlink-shim --help`, and the same as man pages.
//!
//! A command's `after_long_help` is a list of sections: a title that ends in a colon, and indented lines that stay as they are.

use std::fmt::Write;

use clap_mangen::Man;
use roff::{Roff, roman};

use crate::settings;

pub const USAGE: &str = "\
dlink-shim /path/to/nvcc ARGS...
       nvcc ARGS...          (a link or copy of dlink-shim named nvcc)
       dlink-shim ARGS...    (NVCC=dlink-shim: nvcc's own words)
       dlink-shim COMMAND ...";

pub const ABOUT: &str = "Makes CUDA device linking across shared libraries register every kernel";

pub const LONG_ABOUT: &str = "\
Makes CUDA device linking across shared libraries register every kernel

dlink-shim stands in front of nvcc. It looks into each device link (`nvcc -dlink`, and the one inside `nvcc -shared a.o` or \
`nvcc a.o -o program`), leaves off the libraries and units that register in another image and are not needed here, guards \
those that are needed, and runs the real nvcc. Every other command, and whatever is not understood, runs exactly as without it.

In front of nvcc it has no options: the words are nvcc's, and the settings are variables. The commands below show what it does.";

/// The sections after the options of `dlink-shim --help`.
pub fn after_help() -> String {
    let mut text = String::from(
        "\
Ways to call it:
  make NVCC=\"dlink-shim /usr/local/cuda/bin/nvcc\"   as a launcher
  ln -s $(which dlink-shim) ~/shim/nvcc             by nvcc's name, with ~/shim first on PATH,
  cmake -DCMAKE_CUDA_COMPILER=~/shim/nvcc ...       or as CMake's compiler
  make NVCC=dlink-shim                              with nvcc's own words; it finds nvcc by itself
  ccache, sccache, env, `ctest --launch ... --` and VAR=value may stand in between.

Settings (environment variables, or lines of a file dlink-shim.conf beside the program):
",
    );
    for setting in settings::ALL {
        let _ = writeln!(text, "  {}={}", setting.name, setting.values);
        for line in wrapped(setting.help, 84) {
            let _ = writeln!(text, "      {line}");
        }
        if let Some(default) = setting.default {
            let _ = writeln!(text, "      Default: {default}");
        }
    }
    text.push_str(
        "
Exit status:
  In front of nvcc, nvcc's own, or death by the signal that ended it.
  127  there is no nvcc, or no such program
  126  it can't be run
  2    DLINK_SHIM_STRICT, and there was a reason for a warning; nvcc did not run

Files:
  A changed device link may need a mask object, a guard header or an options file. They are in a
  directory dlink-shim-XXXXXX under TMPDIR, /tmp or /var/tmp, which goes when nvcc ends, also by
  SIGINT or SIGTERM. SIGKILL leaves it behind, as it does nvcc's own temporary files.

Examples:
  dlink-shim explain -- nvcc -dlink a.o -Llib -lcore_nv -o d.o   what would be done, and why
  DLINK_SHIM_MODE=report make                                    the same for a whole build
  DLINK_SHIM_REPORT=$PWD/links.jsonl make -j8                    note what was done ...
  dlink-shim report links.jsonl --html links.html                ... and look at it",
    );
    text
}

/// Breaks at blanks.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A command's man page: what clap_mangen makes of its options, and our sections with their lines as they are.
pub fn man(command: clap::Command) -> std::io::Result<Vec<u8>> {
    let sections = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let subcommands = command.get_subcommands().any(|c| !c.is_hide_set());
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    for line in sections.lines() {
        match line.strip_suffix(':').filter(|l| !l.starts_with(' ')) {
            Some(title) => {
                roff.control("fi", []).control("SH", [title.to_uppercase().as_str()]).control("nf", []);
            }
            None => {
                roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
            }
        }
    }
    roff.control("fi", []).to_writer(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sources below a directory, as text.
    fn sources(directory: &std::path::Path) -> String {
        let entries = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path());
        entries.map(|p| if p.is_dir() { sources(&p) } else { std::fs::read_to_string(p).unwrap() }).collect()
    }

    #[test]
    fn every_variable_that_the_code_reads_is_described_once() {
        let text = sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        let code = text.lines().filter(|l| !l.contains("name: \"DLINK_SHIM_"));
        let read: std::collections::BTreeSet<&str> = code.flat_map(|l| l.split('"')).filter(|w| is_setting(w)).collect();
        let described: Vec<&str> = settings::ALL.iter().map(|s| s.name).collect();
        assert_eq!(described.iter().copied().collect::<std::collections::BTreeSet<_>>(), read);
        assert_eq!(described.len(), read.len());
    }

    /// A variable's whole name; the chain is between shims.
    fn is_setting(word: &str) -> bool {
        let rest = word.strip_prefix("DLINK_SHIM_").unwrap_or_default();
        !rest.is_empty() && rest != "CHAIN" && rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    }

    #[test]
    fn no_line_of_a_section_is_wider_than_the_help_and_each_section_has_a_title() {
        for command in std::iter::once(&super::super::command()).chain(super::super::command().get_subcommands()) {
            let Some(text) = command.get_after_long_help().map(ToString::to_string) else { continue };
            assert!(text.lines().next().is_some_and(|l| l.ends_with(':')), "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 98 && (line.is_empty() || line.starts_with("  ") || line.ends_with(':')), "{line}");
            }
        }
    }
}
