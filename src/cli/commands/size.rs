//! `dlink-shim size`: where the bytes of device code are.

use std::io::IsTerminal;
use std::path::PathBuf;

use super::say;
use crate::archs::Policy;
use crate::size::gains::Gains;
use crate::size::{html, link, read, shown, size_from_text, split, text};
use crate::{Env, Error};

const EXAMPLES: &str = "\
Exit status:
  0  read
  1  past the limit
  2  something could not be read

Examples:
  dlink-shim size libmagma.so                         by architecture, unit and kind
  dlink-shim size build/                              everything below a directory
  dlink-shim size --link 'g++ -shared a.o -L. -lk'    what this link would have
  dlink-shim size --limit 1.8GiB --html size.html libmagma.so
  dlink-shim size --max 1.5GiB --name magma build/    libraries below that size";

/// Shows where the bytes of device code are, and what would make it smaller
///
/// Bytes per library, unit, architecture and kind, in the file and unpacked; how far a link is from 2 GiB; and what compression, fewer
/// architectures and dropping duplicates would give. Nothing is built, run or changed.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Size {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// End with 1 when an image, or all objects and archives together, have more allocated bytes than this (1900000000, 1.8GiB)
    #[arg(long, value_name = "BYTES", value_parser = size_from_text)]
    limit: Option<u64>,
    /// Also write a page with a treemap
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A host link command, as a shell would write it: its objects and archives are looked at
    #[arg(long, value_name = "COMMAND")]
    link: Option<String>,
    /// The policy of DLINK_SHIM_ARCHS to estimate
    #[arg(long, value_name = "POLICY", default_value = "one-per-major")]
    archs: String,
    /// Propose to divide the objects and archives into so many libraries
    #[arg(long, value_name = "N", conflicts_with = "max")]
    split: Option<usize>,
    /// Propose to divide them into libraries of at most so many bytes
    #[arg(long, value_name = "BYTES", value_parser = size_from_text)]
    max: Option<u64>,
    /// The libraries' name in the CMake lines of a proposal
    #[arg(long, value_name = "NAME", default_value = "part")]
    name: String,
    /// Files and directories
    #[arg(required_unless_present = "link")]
    paths: Vec<PathBuf>,
}

impl Size {
    /// Prints the sizes.
    pub fn run(self, env: &Env) -> Result<u8, Error> {
        let policy: Policy = self.archs.parse().map_err(|why| Error::Usage(format!("--archs: {why}")))?;
        let mut paths = self.paths.clone();
        if let Some(command) = &self.link {
            paths.extend(link::inputs(command, env.cwd()).map_err(Error::Usage)?);
        }
        let wish = self.split.map(split::Wish::Parts).or(self.max.map(split::Wish::Max));
        if let Some(wish) = wish {
            return self.split(wish, &paths);
        }
        let sizes = read::look(&paths);
        let gains = Gains::of(&sizes, &policy, &self.archs);
        let past = self.limit.filter(|limit| sizes.largest() > *limit);
        if self.json {
            let value = serde_json::json!({
                "files": sizes.files,
                "link": sizes.link,
                "reach": crate::size::REACH,
                "largest": sizes.largest(),
                "limit": self.limit,
                "past_limit": past.is_some(),
                "gains": gains,
                "failures": sizes.failures,
            });
            say(&format!("{value:#}\n"));
        } else {
            say(&text::report(&sizes, &gains, bars(env)));
        }
        if let Some(path) = &self.html {
            std::fs::write(path, html::page(&sizes, &gains)).map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        for failure in &sizes.failures {
            eprintln!("dlink-shim: error: {failure}");
        }
        if let Some(limit) = past {
            eprintln!("dlink-shim: {} allocated bytes are past the limit of {}", shown(sizes.largest()), shown(limit));
        }
        Ok(match (sizes.failures.is_empty(), past) {
            (false, _) => 2,
            (true, Some(_)) => 1,
            (true, None) => 0,
        })
    }

    fn split(&self, wish: split::Wish, paths: &[PathBuf]) -> Result<u8, Error> {
        let (graph, failures) = split::Graph::read(&read::files(paths));
        for failure in &failures {
            eprintln!("dlink-shim: error: {failure}");
        }
        if !failures.is_empty() {
            return Ok(2);
        }
        let plan = split::plan(&graph, wish).map_err(|why| Error::Usage(why.to_string()))?;
        let cmake = split::snippet(&plan, &self.name);
        if self.json {
            say(&format!("{:#}\n", serde_json::json!({ "plan": plan, "cmake": cmake })));
        } else {
            say(&format!("{}\n# CMake\n{cmake}", split::report(&plan)));
        }
        Ok(0)
    }
}

/// Bars only where somebody looks at them.
fn bars(env: &Env) -> Option<text::Bars> {
    if !std::io::stdout().is_terminal() || env.get("TERM").is_some_and(|t| t == "dumb") {
        return None;
    }
    let told = env.get("COLUMNS").and_then(|c| c.to_str()?.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|s| usize::from(s.ws_col)).filter(|w| *w > 0);
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|v| env.get(v).filter(|l| !l.is_empty()));
    let utf8 = locale.is_some_and(|l| l.to_string_lossy().to_ascii_lowercase().replace('-', "").contains("utf8"));
    Some(text::Bars { width: told.or_else(asked).unwrap_or(80), blocks: utf8 })
}
