//! One line of the build report (`DLINK_SHIM_REPORT`): a device link, what was decided, and what that cost.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::json::Link;

/// Counts up when a reader of older lines would misunderstand a newer one.
pub const SCHEMA: u32 = 1;

/// What became of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// nvcc got a changed line.
    Cured,
    /// Nothing to change: nvcc got the line as given.
    AsGiven,
    /// `DLINK_SHIM_MODE=report`: the decisions were shown, nvcc got the line as given.
    Reported,
    /// Something was not understood or failed: nvcc got the line as given, and a cure may be missing.
    Left,
    /// `DLINK_SHIM_STRICT`: nvcc did not run.
    Refused,
}

/// A line of the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// The directory in which the command ran.
    pub cwd: String,
    /// What the command makes, as it names it.
    pub output: String,
    /// The words to dlink-shim (`--dlink-shim-…`), then nvcc's as given.
    pub args: Vec<String>,
    /// `fix` or `report`.
    pub mode: String,
    /// What became of the command.
    pub outcome: Outcome,
    /// Why, when it was left or refused.
    pub reason: Option<String>,
    /// Time from the start of the shim until nvcc's, without writing this line, in microseconds.
    pub shim_us: u64,
    /// Bytes of device code (see `bytes` of the units) that the decisions keep out of the device link.
    pub unlinked_bytes: u64,
    /// The device link.
    #[serde(flatten)]
    pub link: Link,
}

impl Entry {
    /// Where the output is. Links of one output at different times are one.
    pub fn place(&self) -> PathBuf {
        // Collecting drops `.` and doubled slashes; `..` may lead through a symbolic link and stays.
        Path::new(&self.cwd).join(&self.output).components().collect()
    }

    /// Whether the decisions took effect, or would have.
    pub fn was_decided(&self) -> bool {
        matches!(self.outcome, Outcome::Cured | Outcome::AsGiven | Outcome::Reported)
    }
}
