//! Host links on their way through: the fatbins of a big one are placed.

use std::ffi::{OsStr, OsString};

use super::call::file_name;
use super::front::Front;
use super::tell;
use super::wrap::{Untouched, quietly, start_log, warn};
use crate::analysis::{self, Files};
use crate::host_link::{self, Call, Finding, Program, Setting, When};
use crate::launch::Launch;
use crate::settings::{Mode, Settings, Told};
use crate::{Env, Error};

/// What must outlive the changed command.
type Kept = Option<analysis::Kept>;

/// A launcher call of a program that is no nvcc.
pub(super) fn program(
    launch: &mut Launch,
    assignments: &[(&OsStr, &OsStr)],
    words: &[OsString],
    told: &Told,
    env: &Env,
) -> Result<Kept, Error> {
    let is_linking = |name: &[u8]| Program::from_name(name).is_some();
    let Some((front, rest)) = Front::programs_before(is_linking, words) else { return Ok(None) };
    let Some(program) = rest.first() else { return Ok(None) };
    let front = Front { assignments: assignments.to_vec(), ..front };
    let env = &env.changed(front.all_changes());
    let settings = Settings::from_env(env).told(told);
    let call = Call { from: words.len() - rest.len(), program, kind: Program::from_name(file_name(program)) };
    placed(launch, &call, env, &settings)
}

/// A call of nvcc, which may make the host link itself.
pub(super) fn nvcc(launch: &mut Launch, untouched: &Untouched, env: &Env, settings: &Settings) -> Result<Kept, Error> {
    let call = Call { from: untouched.before, program: untouched.nvcc.as_os_str(), kind: None };
    placed(launch, &call, env, settings)
}

fn placed(launch: &mut Launch, call: &Call<'_>, env: &Env, settings: &Settings) -> Result<Kept, Error> {
    let setting = Setting::from_env(env);
    if settings.mode == Mode::Off || setting.when == When::Never || host_link::is_none(launch, call) {
        return Ok(None);
    }
    if let Some(complaint) = &setting.complaint {
        warn(settings, complaint)?;
    }
    let found = match quietly(|| host_link::look(launch, call, env, &setting)) {
        Some(None) => return Ok(None),
        Some(Some(found)) => found,
        None => {
            warn(settings, "a bug in dlink-shim, please report it; the command runs as it was given")?;
            return Ok(None);
        }
    };
    start_log(env);
    let placing = match found {
        Finding::Leave(why) => {
            warn(settings, &format!("{why}; the command runs as it was given"))?;
            return Ok(None);
        }
        Finding::Place(placing) => placing,
    };
    tracing::info!("{}", placing.shown());
    if settings.mode == Mode::Report {
        tell(&format!("{}\n", placing.shown()));
        return Ok(None);
    }
    let mut files = Files::default();
    let mut changed = launch.clone();
    match placing.apply(&mut changed, call, &mut files) {
        Ok(()) => *launch = changed,
        Err(error) => {
            warn(settings, &format!("{}, but {error}; the command runs as it was given", placing.shown()))?;
            return Ok(None);
        }
    }
    Ok(files.kept)
}
