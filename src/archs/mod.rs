//! Less device code by choice: architectures left out of a command (`DLINK_SHIM_ARCHS`) and code compressed
//! (`DLINK_SHIM_COMPRESS`).
//!
//! The rooms: [`gpu`] (which code runs where), [`policy`] (what may go; pure), [`spelling`] (how a command names its
//! architectures, and the same command with fewer), [`inputs`] (what a device link's objects hold), [`compression`]
//! (which flag this toolkit takes), [`toolkit`] (its version, its list of architectures).

pub mod compression;
pub mod gpu;
pub mod inputs;
pub mod policy;
pub mod spelling;
pub mod toolkit;

use std::path::Path;

pub use compression::Compress;
pub use policy::Policy;

use crate::Env;
use crate::nvcc::CommandLine;
use crate::nvcc::command_line::ItemKind;
use crate::plan::Scene;
use crate::rewrite::Changes;

/// What the settings ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// `DLINK_SHIM_ARCHS`.
    pub policy: Option<Policy>,
    /// `DLINK_SHIM_COMPRESS`.
    pub compress: Option<Compress>,
    /// A setting that could not be read, and so counts as not set.
    pub complaint: Option<String>,
}

/// What becomes of one command.
#[derive(Clone, Debug, Default)]
pub struct Slimming {
    /// The changes; none when the command stays as it is.
    pub changes: Changes,
    /// What was done and why, a line each.
    pub notes: Vec<String>,
    /// What was asked for and could not be done.
    pub warnings: Vec<String>,
}

/// Commands that make no fatbin, or that say something about nvcc. `-ptx`, `-cubin` and their like take one architecture only
/// (nvcc refuses more), so there is nothing to leave out.
const UNTOUCHED: &[&str] = &[
    "clean-targets",
    "cubin",
    "help",
    "list-gpu-arch",
    "list-gpu-code",
    "ltoir",
    "optix-ir",
    "ptx",
    "tilebc",
    "tilecubin",
    "tilefatbin",
    "version",
];
/// Commands that stop before fatbinary runs.
const WITHOUT_FATBIN: &[&str] = &["fdevice-syntax-only", "generate-dependencies", "generate-nonsystem-dependencies", "preprocess"];

impl Wishes {
    /// Reads the settings.
    pub fn from_env(env: &Env) -> Self {
        let text = |name: &str| env.get(name).map(|v| v.to_string_lossy().trim().to_owned()).filter(|v| !v.is_empty());
        let mut wishes = Self::default();
        if let Some(text) = text("DLINK_SHIM_ARCHS") {
            match text.parse() {
                Ok(policy) => wishes.policy = Some(policy),
                Err(why) => wishes.complaint = Some(format!("DLINK_SHIM_ARCHS is `{text}`: {why}: every architecture stays")),
            }
        }
        if let Some(text) = text("DLINK_SHIM_COMPRESS") {
            match Compress::from_word(&text) {
                Some(compress) => wishes.compress = Some(compress),
                None => {
                    wishes.complaint =
                        Some(format!("DLINK_SHIM_COMPRESS is `{text}`, which is neither size nor all: nothing is compressed"))
                }
            }
        }
        wishes
    }

    /// Whether there is anything to do at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Decides what becomes of a command. `scene` is what a device link's inputs hold.
    pub fn slimming(&self, line: &CommandLine, nvcc: &Path, scene: Option<&Scene>) -> Slimming {
        let mut slimming = Slimming::default();
        let inputs = line.items.iter().any(|i| matches!(i.kind, ItemKind::Input(_)));
        if !inputs || UNTOUCHED.iter().any(|p| line.has(p)) {
            return slimming;
        }
        slimming.warnings.extend(self.complaint.clone());
        if let Some(policy) = &self.policy {
            slimming.cull(policy, line, nvcc, scene);
        }
        if let Some(compress) = self.compress.filter(|_| !WITHOUT_FATBIN.iter().any(|p| line.has(p))) {
            slimming.compress(compress, line, nvcc);
        }
        slimming
    }
}

/// Whether a command that is no device link of objects alone may still run nvlink on objects, which then were not looked at.
fn compiles_and_links(line: &CommandLine) -> bool {
    let stops = ["compile", "cuda", "device-c", "device-w", "fatbin", "lib", "no-device-link"];
    let stops = stops.iter().chain(WITHOUT_FATBIN).any(|p| line.has(p));
    let object = |name: &[u8]| [&b".o"[..], b".a", b".obj", b".fatbin", b".cubin", b".ptx"].iter().any(|s| name.ends_with(s));
    !stops && line.items.iter().any(|i| matches!(&i.kind, ItemKind::Input(name) if object(name)))
}

impl Slimming {
    fn cull(&mut self, policy: &Policy, line: &CommandLine, nvcc: &Path, scene: Option<&Scene>) {
        let spelled = match spelling::Spelled::read(line, &|| toolkit::architectures(nvcc)) {
            Ok(spelled) => spelled,
            Err(why) => {
                self.warnings.push(format!("DLINK_SHIM_ARCHS: {why}: every architecture stays"));
                return;
            }
        };
        if scene.is_none() && compiles_and_links(line) {
            self.notes.push("every architecture stays: objects are linked by the command that compiles".into());
            return;
        }
        let mut verdicts = policy.verdicts(&spelled.codes());
        // Without any architecture nvcc would take one of its own choice.
        if !verdicts.is_empty() && !verdicts.iter().any(policy::Verdict::stays) {
            self.warnings.push("DLINK_SHIM_ARCHS: nothing that the command generates would stay: every architecture stays".into());
            return;
        }
        self.warnings.extend(policy.unmet(&spelled.codes()).map(|why| format!("DLINK_SHIM_ARCHS: {why}")));
        if let Some(scene) = scene {
            inputs::prove(&mut verdicts, scene);
        }
        self.notes.extend(verdicts.iter().filter_map(policy::Verdict::note));
        spelled.keep(&verdicts, &mut self.changes);
    }

    fn compress(&mut self, compress: Compress, line: &CommandLine, nvcc: &Path) {
        if compression::is_chosen(line) {
            return;
        }
        match compress.flag(toolkit::version(nvcc)) {
            Some(flag) => {
                self.notes.push(format!("compress: {flag}"));
                self.changes.added.push(flag.into());
            }
            None => self
                .warnings
                .push(format!("DLINK_SHIM_COMPRESS: the version of the toolkit of {} is not known: nothing is compressed", nvcc.display())),
        }
    }
}
