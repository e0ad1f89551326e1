//! The `DLINK_SHIM_*` variables, of the environment or of the settings file.

use crate::Env;
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
    /// A setting that could not be read, as a warning.
    pub complaint: Option<String>,
}

impl Settings {
    /// Reads the settings.
    pub fn from_env(env: &Env) -> Self {
        let text = |name: &str| env.get(name).map(|v| v.to_string_lossy().into_owned()).unwrap_or_default();
        let globs = |name: &str| text(name).split([',', ' ', ':']).filter(|g| !g.is_empty()).map(str::to_owned).collect();
        let mut complaint = env.settings_file().complaint.clone();
        let mode = match text("DLINK_SHIM_MODE").as_str() {
            "" | "fix" => Mode::Fix,
            "report" => Mode::Report,
            "off" => Mode::Off,
            other => {
                complaint.get_or_insert_with(|| format!("DLINK_SHIM_MODE is `{other}`, which is none of fix, report, off: taken as fix"));
                Mode::Fix
            }
        };
        let strict = !matches!(text("DLINK_SHIM_STRICT").as_str(), "" | "0");
        Self {
            mode,
            strict,
            wishes: Wishes { keep: globs("DLINK_SHIM_KEEP"), strip: globs("DLINK_SHIM_STRIP"), guard: globs("DLINK_SHIM_GUARD") },
            complaint,
        }
    }
}
