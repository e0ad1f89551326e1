//! The settings, from three places: the `DLINK_SHIM_*` variables of the environment, a [`mod@file`] beside the program, and words that
//! the command itself carries ([`told`]).

pub mod file;
pub mod told;
pub mod trust;

use std::path::PathBuf;

use crate::Env;
use crate::archs;
use crate::plan::Wishes;
pub use told::Told;

/// What the wrapper does with a device link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Cure it.
    #[default]
    Fix,
    /// Say on stderr what would be done, and run the command untouched.
    Report,
    /// Run everything untouched and look at nothing.
    Off,
}

/// A setting as help, man pages and `doctor` show it.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// The variable.
    pub name: &'static str,
    /// What it may be.
    pub values: &'static str,
    /// What it is when it is not set or empty; `None` where that is nothing at all.
    pub default: Option<&'static str>,
    /// What it does, in plain sentences.
    pub help: &'static str,
}

/// Every setting there is.
pub const ALL: &[Described] = &[
    Described {
        name: "DLINK_SHIM_NVCC",
        values: "PATH",
        default: Some("the launcher's word, nvcc.real beside a link named nvcc, CUDA_PATH, CUDA_HOME, PATH"),
        help: "The real nvcc.",
    },
    Described {
        name: "DLINK_SHIM_MODE",
        values: "fix|report|off",
        default: Some("fix"),
        help: "fix: cure device links. report: say on stderr what would be done, and run the command untouched. off: run everything untouched and look at nothing.",
    },
    Described {
        name: "DLINK_SHIM_STRICT",
        values: "0|1",
        default: Some("0"),
        help: "1: what would be a warning is an error, and nvcc does not run.",
    },
    Described {
        name: "DLINK_SHIM_KEEP",
        values: "NAMES",
        default: None,
        help: "Libraries that are never touched: names or globs (`core_nv`, `lib*_nv.a`), between commas, colons or blanks.",
    },
    Described { name: "DLINK_SHIM_STRIP", values: "NAMES", default: None, help: "Libraries that are left off whatever the analysis says." },
    Described { name: "DLINK_SHIM_GUARD", values: "NAMES", default: None, help: "Libraries of which every unit is guarded." },
    Described {
        name: "DLINK_SHIM_REPORT",
        values: "FILE",
        default: None,
        help: "Each device link adds one line of JSON to FILE, also under `make -j`; `dlink-shim report FILE` reads it. Use an absolute path: a relative one is taken from the directory in which each command runs.",
    },
    Described {
        name: "DLINK_SHIM_PLACE",
        values: "auto|always|never",
        default: Some("auto"),
        help: "Whether host links get their device code placed last, clear of the 2 GiB limit. auto: those that come near it.",
    },
    Described {
        name: "DLINK_SHIM_PLACE_LIMIT",
        values: "BYTES",
        default: Some("1.8G"),
        help: "How many bytes of allocated sections are near the limit; K, M and G may follow.",
    },
    Described {
        name: "DLINK_SHIM_ARCHS",
        values: "LIST|one-per-major|cover:LIST",
        default: None,
        help: "Leaves GPU architectures out of compilations and device links. one-per-major: machine code of the lowest minor, which runs on the higher ones. LIST (`80,90`): these, and whatever is the only code for some GPU. With both, every GPU that was served still is. cover:LIST: what these GPUs need, and no more. Embedded GPUs, PTX and suffixes (90a) are minded. What was dropped: DLINK_SHIM_LOG=info, or explain.",
    },
    Described {
        name: "DLINK_SHIM_COMPRESS",
        values: "size|all",
        default: None,
        help: "Compresses device code, in compilations and device links that don't choose for themselves. size: --compress-mode=size with CUDA 13 and later. all, and size before that: -Xfatbin=-compress-all.",
    },
    Described {
        name: "DLINK_SHIM_LOG",
        values: "FILTER",
        default: None,
        help: "info: one line on stderr per file of each device link. Or any filter of Rust's tracing, such as `dlink_shim=debug`.",
    },
];

/// All settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `DLINK_SHIM_MODE`.
    pub mode: Mode,
    /// `DLINK_SHIM_STRICT`: a warning is an error.
    pub strict: bool,
    /// `DLINK_SHIM_KEEP`, `DLINK_SHIM_STRIP`, `DLINK_SHIM_GUARD`.
    pub wishes: Wishes,
    /// `DLINK_SHIM_REPORT`: the file to which every device link adds a line.
    pub report: Option<PathBuf>,
    /// `DLINK_SHIM_ARCHS`, `DLINK_SHIM_COMPRESS`.
    pub slim: archs::Wishes,
    /// A setting that could not be read, as a warning.
    pub complaint: Option<String>,
}

impl Mode {
    /// Reads `fix`, `report` or `off`.
    pub fn from_word(word: &[u8]) -> Option<Self> {
        match word {
            b"fix" => Some(Self::Fix),
            b"report" => Some(Self::Report),
            b"off" => Some(Self::Off),
            _ => None,
        }
    }
}

/// A list of globs over library names.
fn globs(text: &str) -> Vec<String> {
    text.split([',', ' ', ':']).filter(|g| !g.is_empty()).map(str::to_owned).collect()
}

impl Settings {
    /// Reads the settings.
    pub fn from_env(env: &Env) -> Self {
        let text = |name: &str| env.get(name).map(|v| v.to_string_lossy().into_owned()).unwrap_or_default();
        let globs = |name: &str| globs(&text(name));
        let mut complaint = env.settings_file().complaint.clone();
        let mode = match text("DLINK_SHIM_MODE").as_str() {
            "" => Mode::Fix,
            word => Mode::from_word(word.as_bytes()).unwrap_or_else(|| {
                complaint.get_or_insert_with(|| format!("DLINK_SHIM_MODE is `{word}`, which is none of fix, report, off: taken as fix"));
                Mode::Fix
            }),
        };
        let strict = !matches!(text("DLINK_SHIM_STRICT").as_str(), "" | "0");
        Self {
            mode,
            strict,
            wishes: Wishes { keep: globs("DLINK_SHIM_KEEP"), strip: globs("DLINK_SHIM_STRIP"), guard: globs("DLINK_SHIM_GUARD") },
            report: env.get("DLINK_SHIM_REPORT").filter(|v| !v.is_empty()).map(PathBuf::from),
            slim: archs::Wishes::from_env(env),
            complaint,
        }
    }

    /// Takes in what the command itself says. `DLINK_SHIM_MODE=off` stays off: it is the switch for a whole build.
    pub fn told(mut self, told: &Told) -> Self {
        if let Some(mode) = told.mode.filter(|_| self.mode != Mode::Off) {
            self.mode = mode;
        }
        self.wishes.keep.extend_from_slice(&told.wishes.keep);
        self.wishes.strip.extend_from_slice(&told.wishes.strip);
        self.wishes.guard.extend_from_slice(&told.wishes.guard);
        if let Some(word) = told.unknown.first() {
            self.complaint.get_or_insert_with(|| format!("`{}` is not known to this version of dlink-shim: passed over", word.display()));
        }
        self
    }
}
