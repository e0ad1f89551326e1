//! The `DLINK_SHIM_*` variables, of the environment or of the settings file.

use super::told::Told;
use crate::Env;
use crate::archs;
use crate::plan::Wishes;

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

/// All settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `DLINK_SHIM_MODE`.
    pub mode: Mode,
    /// `DLINK_SHIM_STRICT`: a warning is an error.
    pub strict: bool,
    /// `DLINK_SHIM_KEEP`, `DLINK_SHIM_STRIP`, `DLINK_SHIM_GUARD`.
    pub wishes: Wishes,
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
pub(super) fn globs(text: &str) -> Vec<String> {
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
