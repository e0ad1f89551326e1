//! Whether anybody could put something else where a setting leads.
//!
//! Looked at on device links and by `doctor` alone: on a compilation it would cost more than it tells.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Env;

const WRITABLE_BY_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The settings whose value is a path that is run or written.
const PATHS: &[&str] = &["DLINK_SHIM_NVCC", "DLINK_SHIM_REPORT"];

/// A word about the first setting whose path leads through a place that every user of the machine may change.
pub fn complaint(env: &Env) -> Option<String> {
    let file = env.settings_file();
    let named = PATHS.iter().filter_map(|name| {
        let value = env.get(name).filter(|v| !v.is_empty())?;
        // A bare name is PATH's business, as for any shell.
        let path = Path::new(value);
        path.components().nth(1).is_some().then(|| (*name, env.cwd().join(path)))
    });
    let settings = (!file.settings.is_empty()).then(|| ("the settings file", file.path.clone()));
    named.chain(settings).find_map(|(name, path)| {
        let place = open_to_others(&path)?;
        Some(format!("{name} leads through {}, which every user of this machine can change", place.display()))
    })
}

/// The outermost part of `path` that any user may replace: a file or directory that others may write, or, where a sticky bit (as
/// on /tmp) lets only owners replace what is theirs, something that belongs to neither root nor us.
fn open_to_others(path: &Path) -> Option<PathBuf> {
    let us = rustix::process::geteuid().as_raw();
    let mut parts: Vec<&Path> = path.ancestors().filter(|p| !p.as_os_str().is_empty()).collect();
    parts.reverse();
    let mut below_sticky = false;
    for part in parts {
        // What is not there yet (a report) is made in the last directory that was.
        let Ok(link) = std::fs::symlink_metadata(part) else { return None };
        if below_sticky && link.uid() != 0 && link.uid() != us {
            return Some(part.to_owned());
        }
        let real = || std::fs::canonicalize(part).ok().and_then(|real| open_to_others(&real));
        if let Some(place) = link.is_symlink().then(real).flatten() {
            return Some(place);
        }
        let Ok(meta) = std::fs::metadata(part) else { return None };
        let open = meta.mode() & WRITABLE_BY_OTHERS != 0;
        below_sticky = open && meta.is_dir() && meta.mode() & STICKY != 0;
        if open && !below_sticky && (meta.is_dir() || meta.is_file()) {
            return Some(part.to_owned());
        }
    }
    None
}
