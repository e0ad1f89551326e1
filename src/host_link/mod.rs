//! Host links that come near 2 GiB because of the device code in them.
//!
//! `.nv_fatbin` and `__nv_relfatbin` lie between code and data, whose 32-bit references then overflow (`relocation truncated to
//! fit`). Nothing but 64-bit pointers refers to the two, so the linker in use is told to put them last. A command that is no host
//! link, or not understood, or far below the limit, stays as it is.

mod copies;
pub mod line;
pub mod linker;
pub mod remedy;
mod replace;
pub mod response;
pub mod setting;
pub mod weight;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use object::elf;

pub use linker::{Linker, Program};
pub use setting::{Setting, When};
use weight::{Weighed, Weight};

use crate::analysis::Files;
use crate::launch::Launch;
use crate::nvcc::CommandLine;
use crate::nvcc::command_line::ItemKind;
use crate::{Env, Error};
use line::Line;

/// `nvcc -dlink` does not compress what it links (13.0: 3.78 MB became of 0.50), so the image that a link by nvcc itself will hold
/// is guessed at this many times its relocatable copies.
const UNPACKED: u64 = 8;

/// A command that may be a host link, in a [`Launch`].
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The first of the launch's words that is the linking program's own.
    pub from: usize,
    /// The program.
    pub program: &'a OsStr,
    /// What it is; `None` for nvcc.
    pub kind: Option<Program>,
}

/// A host link to change.
#[derive(Clone, Debug)]
pub struct Placing {
    linker: Linker,
    weight: Weight,
    files: Vec<Weighed>,
    words: Words,
}

/// The words of the command, as far as replacing needs them.
#[derive(Clone, Debug)]
enum Words {
    /// With response files read in, and whether there was one.
    Plain(Vec<OsString>, bool),
    /// nvcc's.
    Nvcc(CommandLine),
}

/// What looking at a command came to.
#[derive(Clone, Debug)]
pub enum Finding {
    /// It needs placing and can't get it, for this reason.
    Leave(String),
    /// It is to be placed.
    Place(Box<Placing>),
}

/// Whether a command is certainly no host link, told before anything is read: most calls of a compiler.
pub fn is_none(launch: &Launch, call: &Call<'_>) -> bool {
    let compiles = |word: &OsString| {
        matches!(word.as_bytes(), b"-c" | b"-E" | b"-S" | b"-dc" | b"-dlink" | b"--compile" | b"--device-c" | b"--device-link")
    };
    !matches!(call.kind, Some(Program::Linker(_))) && launch.args.iter().skip(call.from).any(compiles)
}

/// Looks at a command. `None`: no host link, not understood, or nothing to do.
pub fn look(launch: &Launch, call: &Call<'_>, env: &Env, setting: &Setting) -> Option<Finding> {
    let args = launch.args.get(call.from..)?;
    let words = match call.kind {
        Some(_) => {
            let (words, response) = response::expanded(args, env.cwd())?;
            Words::Plain(words, response)
        }
        None => Words::Nvcc(CommandLine::read(args, &without(env, launch)).ok()?),
    };
    let line = match (&words, call.kind) {
        (Words::Nvcc(nvcc), _) => Line::of_nvcc(nvcc)?,
        (Words::Plain(words, _), Some(Program::Linker(_))) => Line::of_linker(words)?,
        (Words::Plain(words, _), _) => Line::of_driver(words)?,
    };
    if line.inputs.is_empty() || line.ordered {
        return None;
    }
    let files = weight::files(&line, &directories(call, env), env.cwd());
    let forced = setting.when == When::Always;
    let links_device_code = matches!(&words, Words::Nvcc(nvcc) if !nvcc.has("no-device-link"));
    let enough = if links_device_code { setting.limit / (UNPACKED + 1) } else { setting.limit };
    let mut weight = weight::of_files(&files, if forced { 0 } else { enough });
    let image = if links_device_code { weight.relocatable.saturating_mul(UNPACKED) } else { 0 };
    weight.linked = weight.linked.saturating_add(image);
    if !forced && (weight.total() < setting.limit || weight.fatbins() == 0) {
        return None;
    }
    let leave = |why: &str| Some(Finding::Leave(format!("{}, and {why}", weight.shown())));
    match scripts(&line, &words, env) {
        Scripts::Add => {}
        Scripts::Placed => return None,
        Scripts::Full(script) => {
            return leave(&format!(
                "{script} says itself where sections go: put .nv_fatbin and __nv_relfatbin behind .bss in it (`dlink-shim link-script` shows how)"
            ));
        }
    }
    let Some(linker) = linker_of(launch, call, &line, &words, env) else {
        return leave("the linker is none of GNU ld, gold, lld, mold, so it can't be told to put device code last");
    };
    if matches!(linker, Linker::Gold | Linker::Mold) && !line.scripts.is_empty() {
        return leave(&format!("{linker} with a linker script can't be told to put device code last"));
    }
    // The flag is one of x86-64 alone; what mold 1.10 makes for aarch64 links, and aborts at its first exception.
    if matches!(linker, Linker::Gold | Linker::Mold) && ![0, elf::EM_X86_64.0].contains(&weight.machine) {
        return leave(&format!("{linker} is not known to place device code well on this machine: use GNU ld or lld"));
    }
    if linker == Linker::Gold && image >= setting.limit {
        return leave(
            "gold can't be given a changed copy of what nvcc's own device link makes: link by g++ after `nvcc -dlink`, or use another linker",
        );
    }
    Some(Finding::Place(Box::new(Placing { linker, weight, files, words })))
}

impl Placing {
    /// What is done, in a line.
    pub fn shown(&self) -> String {
        let how = match self.linker {
            Linker::Bfd | Linker::Lld => "a linker script",
            Linker::Gold => "a flag on copies of the inputs",
            Linker::Mold => "the section order",
        };
        format!("{}: {how} makes {} put that last", self.weight.shown(), self.linker)
    }

    /// Changes the command; `files` must outlive it.
    pub fn apply(&self, launch: &mut Launch, call: &Call<'_>, files: &mut Files) -> Result<(), Error> {
        match self.linker {
            Linker::Bfd | Linker::Lld => {
                let script = files.add("fatbins-last.ld", remedy::SCRIPT.as_bytes())?;
                add(launch, call, &remedy::script_words(&script));
            }
            Linker::Mold => {
                add(launch, call, &[remedy::ORDER.into()]);
                add_last(launch, call, &remedy::SEGMENTS.map(OsString::from));
            }
            Linker::Gold => {
                replace::with_copies(self, launch, call, files)?;
                add_last(launch, call, &remedy::NO_RELRO.map(OsString::from));
            }
        }
        Ok(())
    }
}

/// Adds linker words, before all others where order could matter.
fn add(launch: &mut Launch, call: &Call<'_>, words: &[OsString]) {
    match call.kind {
        Some(Program::Linker(_)) => drop(launch.args.splice(call.from..call.from, words.iter().cloned())),
        Some(Program::Driver) => launch.args.insert(call.from, joined("-Wl,", words, "")),
        None => add_last(launch, call, words),
    }
}

/// Adds linker words behind all others.
fn add_last(launch: &mut Launch, call: &Call<'_>, words: &[OsString]) {
    match call.kind {
        Some(Program::Linker(_)) => launch.args.extend(words.iter().cloned()),
        Some(Program::Driver) => launch.args.push(joined("-Wl,", words, "")),
        // nvcc (11.8 to 13.5) cuts such a value at blanks outside of double quotes.
        None if words.iter().any(|w| w.as_bytes().contains(&b' ')) => launch.args.extend(["-Xlinker".into(), joined("\"", words, "\"")]),
        None => launch.args.extend(["-Xlinker".into(), joined("", words, "")]),
    }
}

fn joined(start: &str, words: &[OsString], end: &str) -> OsString {
    let mut joined = OsString::from(start);
    for (i, word) in words.iter().enumerate() {
        joined.push(if i > 0 { "," } else { "" });
        joined.push(word);
    }
    joined.push(end);
    joined
}

/// The environment as the launched program will have it.
fn without<'e>(env: &'e Env, launch: &Launch) -> Cow<'e, Env> {
    env.changed(launch.unset.iter().map(|name| crate::env::Change::Unset((*name).into())))
}

/// Where a linker looks after `-L`: `LIBRARY_PATH`, the toolkit for nvcc, and the usual places of this machine.
fn directories(call: &Call<'_>, env: &Env) -> Vec<PathBuf> {
    let mut all = Vec::new();
    if call.kind.is_none()
        && let Some(top) = std::path::Path::new(call.program).parent().and_then(|bin| bin.parent())
    {
        all.extend([top.join("lib64"), top.join("lib")]);
    }
    let environment = env.get("LIBRARY_PATH").map(std::env::split_paths).into_iter().flatten();
    all.extend(environment.filter(|d| !d.as_os_str().is_empty()).map(|d| env.cwd().join(d)));
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    for top in ["/usr/local", "/usr", ""] {
        all.extend([format!("{top}/lib/{triple}").into(), format!("{top}/lib64").into(), format!("{top}/lib").into()]);
    }
    all
}

enum Scripts {
    /// Ours can be added.
    Add,
    /// The fatbins are placed already.
    Placed,
    /// The caller's script replaces the default one.
    Full(String),
}

fn scripts(line: &Line, words: &Words, env: &Env) -> Scripts {
    if let Words::Nvcc(nvcc) = words {
        let own = |i: &ItemKind| matches!(i, ItemKind::Valued { option, .. } if option.long == "host-linker-script");
        if nvcc.has("augment-host-linker-script") || nvcc.items.iter().any(|i| own(&i.kind)) {
            return Scripts::Full("nvcc's own host linker script".into());
        }
    }
    for script in &line.scripts {
        let places = std::iter::once(env.cwd().join(script)).chain(line.directories.iter().map(|d| env.cwd().join(d).join(script)));
        let text = places.filter(|p| p.metadata().is_ok_and(|m| m.is_file() && m.len() < 1 << 20)).find_map(|p| std::fs::read(p).ok());
        let text = text.unwrap_or_default();
        let holds = |word: &[u8]| text.windows(word.len()).any(|w| w == word);
        if holds(b".nv_fatbin") {
            return Scripts::Placed;
        }
        if !holds(b"INSERT") {
            return Scripts::Full(script.display().to_string());
        }
    }
    Scripts::Add
}

/// The linker in use: by name if a name says so, otherwise by asking.
fn linker_of(launch: &Launch, call: &Call<'_>, line: &Line, words: &Words, env: &Env) -> Option<Linker> {
    if let Some(Program::Linker(Some(linker))) = call.kind {
        return Some(linker);
    }
    if let Some(linker) = line.fuse.as_ref().and_then(|f| Linker::from_word(f.to_str()?)) {
        return Some(linker);
    }
    let program = match words {
        Words::Plain(..) => call.program.to_owned(),
        Words::Nvcc(nvcc) => {
            let named = nvcc.last_value("compiler-bindir").map(|c| OsStr::from_bytes(c).to_owned());
            let named = named.or_else(|| env.get("NVCC_CCBIN").map(OsStr::to_owned)).unwrap_or_else(|| "g++".into());
            if env.cwd().join(&named).is_dir() { PathBuf::from(named).join("g++").into() } else { named }
        }
    };
    Linker::asked(&program, &line.deciding, call.kind.unwrap_or(Program::Driver), &launch.set)
}

impl Weight {
    /// What would be linked, in words.
    fn shown(&self) -> String {
        let size = |bytes: u64| match bytes {
            0..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
            _ => format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30)),
        };
        format!("this link holds up to {}, {} of it device code", size(self.total()), size(self.fatbins()))
    }
}
