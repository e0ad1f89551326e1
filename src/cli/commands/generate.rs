//! `dlink-shim generate`: the CMake module, completions and man pages, for those who have nothing but the program.

use std::path::PathBuf;

use clap_complete::Shell;

use super::{command, pages, say};
use crate::{Env, Error};

/// Writes the CMake module, shell completions and man pages
#[derive(clap::Args)]
#[command(hide = true)]
#[command(after_long_help = "\
Examples:
  dlink-shim generate cmake build; cmake -DCMAKE_PROJECT_INCLUDE=$PWD/build/DlinkShim.cmake build
  dlink-shim generate completions bash > /usr/share/bash-completion/completions/dlink-shim
  dlink-shim generate completions zsh > /usr/share/zsh/vendor-completions/_dlink-shim
  dlink-shim generate completions fish > /usr/share/fish/vendor_completions.d/dlink-shim.fish
  dlink-shim generate man /usr/share/man/man1")]
pub struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Writes DlinkShim.cmake and DlinkShimConfig.cmake, as in wrapper-scripts/cmake
    Cmake {
        /// An existing directory
        directory: PathBuf,
    },
    /// Prints the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Writes dlink-shim.1 and a page per command
    Man {
        /// An existing directory
        directory: PathBuf,
    },
}

/// The module, so that an installation by cargo alone has it.
const CMAKE: [(&str, &str); 2] = [
    ("DlinkShim.cmake", include_str!("../../../wrapper-scripts/cmake/DlinkShim.cmake")),
    ("DlinkShimConfig.cmake", include_str!("../../../wrapper-scripts/cmake/DlinkShimConfig.cmake")),
];

impl Generate {
    /// Prints or writes what was asked for.
    pub fn run(self, env: &Env) -> Result<u8, Error> {
        let write =
            |path: PathBuf, text: &[u8]| std::fs::write(env.cwd().join(&path), text).map_err(|source| Error::Write { path, source });
        match self.what {
            What::Cmake { directory } => {
                for (name, text) in CMAKE {
                    write(directory.join(name), text.as_bytes())?;
                }
            }
            What::Completions { shell } => {
                let mut text = Vec::new();
                clap_complete::generate(shell, &mut command(), "dlink-shim", &mut text);
                // clap_complete 4.6.12 writes the bash function's own name in two ways when the program's has a dash, and so
                // completes no option of any command.
                say(&String::from_utf8_lossy(&text).replace("dlink__subcmd__shim", "dlink__shim"));
            }
            What::Man { directory } => {
                let mut all = command().disable_help_subcommand(true);
                all.build();
                let commands = all.get_subcommands().filter(|c| !c.is_hide_set()).cloned();
                for one in commands.chain([all.clone()]) {
                    let name = one.get_display_name().unwrap_or(one.get_name()).to_owned();
                    let path = directory.join(format!("{name}.1"));
                    let page = pages::man(one).map_err(|source| Error::Write { path: path.clone(), source })?;
                    write(path, &page)?;
                }
            }
        }
        Ok(0)
    }
}
