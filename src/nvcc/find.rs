//! Where the real nvcc is, and how a chain of wrappers ends.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Env, Error};

/// The variable in which wrappers of one command tell each other that they have been through: `dev:inode` of each
/// shim and of each nvcc run, comma-separated.
pub const CHAIN: &str = "DLINK_SHIM_CHAIN";
/// A chain this long is a loop that the file identities did not catch.
const MAX_CHAIN: usize = 16;

/// The files one command has been through.
#[derive(Clone, Debug, Default)]
pub struct Chain(Vec<(u64, u64)>);

impl Chain {
    /// Reads the chain that an outer shim left in the environment.
    pub fn from_env(env: &Env) -> Self {
        let text = env.get(CHAIN).map(|v| v.to_string_lossy().into_owned()).unwrap_or_default();
        let id = |part: &str| part.split_once(':').and_then(|(d, i)| Some((d.parse().ok()?, i.parse().ok()?)));
        Self(text.split(',').filter_map(id).collect())
    }

    /// Whether another shim has already looked at this command.
    pub fn is_inner(&self) -> bool {
        !self.0.is_empty()
    }

    /// The chain with this program and the nvcc that it runs, as the variable's text.
    pub fn with(&self, nvcc: Option<&Path>) -> OsString {
        let ids = self.0.iter().copied().chain(this_program()).chain(nvcc.and_then(identity));
        ids.map(|(d, i)| format!("{d}:{i}")).collect::<Vec<_>>().join(",").into()
    }

    fn holds(&self, path: &Path) -> bool {
        identity(path).is_some_and(|id| self.0.contains(&id))
    }
}

/// Device and inode of a file, symlinks followed.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

fn this_program() -> Option<(u64, u64)> {
    // Asked for several times per call, and /proc is slow.
    static IDENTITY: OnceLock<Option<(u64, u64)>> = OnceLock::new();
    *IDENTITY.get_or_init(|| identity(Path::new("/proc/self/exe")).or_else(|| identity(&std::env::current_exe().ok()?)))
}

fn is_this_program(path: &Path) -> bool {
    identity(path).is_some_and(|id| Some(id) == this_program())
}

/// What named the nvcc that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `DLINK_SHIM_NVCC`.
    Setting,
    /// The launcher's word.
    Word,
    /// An `nvcc.real` beside the masquerade.
    Beside,
    /// `CUDA_PATH` or `CUDA_HOME`.
    Home(&'static str),
    /// `PATH`.
    Path,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Setting => "DLINK_SHIM_NVCC",
            Self::Word => "the command's word",
            Self::Beside => "nvcc.real beside the shim",
            Self::Home(variable) => variable,
            Self::Path => "PATH",
        })
    }
}

/// Finds the real nvcc; see [`find`].
pub fn nvcc(env: &Env, chain: &Chain, word: Option<&OsStr>, called_as: Option<&OsStr>) -> Result<PathBuf, Error> {
    find(env, chain, word, called_as).map(|(path, _)| path)
}

/// Finds the real nvcc and says what named it.
///
/// `word` is what a launcher call named (a path or a bare name), `called_as` the path under which a masquerading shim
/// was called. In order: `DLINK_SHIM_NVCC`, the launcher's word, an `nvcc.real` beside the masquerade, `CUDA_PATH/bin`,
/// `CUDA_HOME/bin`, PATH; a file that is this program, or that the chain has been through, is passed over.
pub fn find(env: &Env, chain: &Chain, word: Option<&OsStr>, called_as: Option<&OsStr>) -> Result<(PathBuf, Source), Error> {
    if chain.0.len() > MAX_CHAIN {
        return Err(Error::Loop);
    }
    if let Some(named) = env.get("DLINK_SHIM_NVCC").filter(|v| !v.is_empty()) {
        let found = resolve(named, env).ok_or_else(|| not_runnable(named, env))?;
        if is_this_program(&found) {
            return Err(Error::NvccIsShim { path: found });
        }
        return Ok((toolkit_path(found), Source::Setting));
    }
    if let Some(word) = word {
        let usable = |p: &PathBuf| !is_this_program(p) && !chain.holds(p);
        let found = if word.as_bytes().contains(&b'/') { resolve(word, env).filter(usable) } else { on_path(word, env).find(usable) };
        if let Some(found) = found {
            return Ok((toolkit_path(found), Source::Word));
        }
        // A path that is not there is the caller's mistake, not a reason to pick another toolkit.
        if word.as_bytes().contains(&b'/') && resolve(word, env).is_none() {
            return Err(not_runnable(word, env));
        }
    }
    let beside = called_as.and_then(|c| resolve(c, env)).and_then(|p| Some(p.parent()?.join("nvcc.real"))).filter(|p| is_executable(p));
    let beside = beside.map(|p| (p, Source::Beside));
    let homes = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(|v| Some((env.get(v).filter(|h| !h.is_empty())?, v)));
    let homes = homes.map(|(home, v)| (env.cwd().join(home).join("bin/nvcc"), Source::Home(v))).filter(|(p, _)| is_executable(p));
    let path = on_path(OsStr::new("nvcc"), env).map(|p| (p, Source::Path));
    let candidates: Vec<(PathBuf, Source)> = beside.into_iter().chain(homes).chain(path).collect();
    let others = || candidates.iter().filter(|(p, _)| !is_this_program(p));
    let found = others().find(|(p, _)| !chain.holds(p)).or_else(|| others().find(|(p, _)| has_profile(p)));
    found.cloned().map(|(p, source)| (toolkit_path(p), source)).ok_or(Error::NvccNotFound { named: None })
}

/// The first program of a name on `PATH`.
pub fn first_on_path(name: &OsStr, env: &Env) -> Option<PathBuf> {
    on_path(name, env).next()
}

/// nvcc finds its toolkit from argv[0]'s directory, so a symlink outside of a toolkit is followed into it. Nothing
/// else is: a symlink named `nvcc` may lead to a driver that goes by its name (ccache).
fn toolkit_path(found: PathBuf) -> PathBuf {
    if !has_profile(&found)
        && let Ok(real) = std::fs::canonicalize(&found)
        && has_profile(&real)
        && real.file_name().is_some_and(|n| n.as_bytes().starts_with(b"nvcc"))
    {
        return real;
    }
    found
}

/// A directory with `nvcc.profile` beside `nvcc` is a toolkit.
fn has_profile(nvcc: &Path) -> bool {
    nvcc.with_file_name("nvcc.profile").is_file()
}

fn resolve(named: &OsStr, env: &Env) -> Option<PathBuf> {
    if named.as_bytes().contains(&b'/') {
        let path = env.cwd().join(named);
        return is_executable(&path).then_some(path);
    }
    on_path(named, env).next()
}

/// Why a named nvcc can't be run: what is there and no program ends as in a shell (126), what is not there otherwise (127).
fn not_runnable(named: &OsStr, env: &Env) -> Error {
    let there = std::fs::metadata(env.cwd().join(named)).ok().filter(|_| named.as_bytes().contains(&b'/'));
    let Some(metadata) = there else { return Error::NvccNotFound { named: Some(named.to_owned()) } };
    let why = if metadata.is_dir() { std::io::ErrorKind::IsADirectory } else { std::io::ErrorKind::PermissionDenied };
    Error::Run { program: named.to_owned(), source: why.into() }
}

fn on_path(name: &OsStr, env: &Env) -> impl Iterator<Item = PathBuf> {
    let path = env.get("PATH").map(OsStr::to_owned);
    let cwd = env.cwd().to_owned();
    let found: Vec<PathBuf> = which::which_in_all(name, path, &cwd).into_iter().flatten().collect();
    found.into_iter().map(move |p| cwd.join(p))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0)
}
