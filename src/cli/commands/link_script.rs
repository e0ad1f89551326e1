//! `dlink-shim link-script`: the remedy for links over 2 GiB, for builds that call the linker without dlink-shim.

use std::path::PathBuf;

use super::say;
use crate::host_link::{Linker, remedy};
use crate::{Env, Error};

/// Writes the linker script for links over 2 GiB
///
/// The script keeps device code out of the way of 32-bit references. What is printed are the words for the link.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  dlink-shim link-script -o fatbins-last.ld            GNU ld, lld
  dlink-shim link-script --linker mold                 words only
  LDFLAGS += $(shell dlink-shim link-script -o fatbins-last.ld)    in a Makefile")]
pub struct LinkScript {
    /// The linker: bfd (GNU ld), lld, mold or gold
    #[arg(long, default_value = "bfd")]
    linker: String,
    /// The file to write; without it the script goes to stdout. mold needs none
    #[arg(short, long)]
    output: Option<PathBuf>,
}

impl LinkScript {
    /// Writes the script, and the words.
    pub fn run(self, env: &Env) -> Result<u8, Error> {
        let linker = if self.linker == "ld" { Some(Linker::Bfd) } else { Linker::from_word(&self.linker) };
        match (linker, self.output) {
            (Some(Linker::Bfd | Linker::Lld), None) => say(remedy::SCRIPT),
            (Some(Linker::Bfd | Linker::Lld), Some(output)) => {
                let path = env.cwd().join(&output);
                // Unchanged where it is the same, so that no build system links again.
                if std::fs::read(&path).ok().as_deref() != Some(remedy::SCRIPT.as_bytes()) {
                    std::fs::write(&path, remedy::SCRIPT).map_err(|source| Error::Write { path, source })?;
                }
                say(&format!("{}\n", quoted(&format!("-Wl,-T,{}", output.display()))));
            }
            (Some(Linker::Mold), _) => say(&format!("{} -Wl,{}\n", quoted(&format!("-Wl,{}", remedy::ORDER)), remedy::SEGMENTS.join(","))),
            (Some(Linker::Gold), _) => {
                return Err(Error::Usage(
                    "gold takes no such script: put dlink-shim in front of the link (`dlink-shim g++ -fuse-ld=gold …`), which gives \
                     it flagged copies of the inputs, or use another linker"
                        .into(),
                ));
            }
            (None, _) => return Err(Error::Usage(format!("no remedy is known for the linker `{}`: bfd, lld, mold or gold", self.linker))),
        }
        Ok(0)
    }
}

/// A word for the shell, in which make and CMake run links.
fn quoted(word: &str) -> String {
    if word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=./,+@%:".contains(&b)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_for_the_shell_are_quoted_where_they_must_be() {
        assert_eq!(super::quoted("-Wl,-T,a/b.ld"), "-Wl,-T,a/b.ld");
        assert_eq!(super::quoted("a b's"), "'a b'\\''s'");
    }
}
