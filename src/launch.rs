//! Running a program: exec when nothing must outlive the call, otherwise spawn, wait, and end as the child ended.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use rustix::process::Signal;
use signal_hook::iterator::Signals;

use crate::{Error, process};

/// What ends a build from outside.
const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// The signals that end a build, held back from the moment at which there is something to clean up.
pub struct Interrupts(Signals);

impl Interrupts {
    /// From now on these signals end nothing by themselves. Those that whoever called us ignores (nohup, `&` in a script) stay
    /// ignored, for nvcc, too: a handler would come out of exec as the default.
    pub fn hold() -> std::io::Result<Self> {
        let ignored = ignored();
        let held = ENDING.iter().map(|s| s.as_raw()).filter(|s| ignored >> (s - 1) & 1 == 0);
        Signals::new(held).map(Self)
    }

    /// Lets go of them: one that came meanwhile ends us now.
    pub fn let_go(mut self) {
        if let Some(signal) = self.0.pending().next() {
            ended_by(signal);
        }
    }
}

/// The ignored signals as proc(5) shows them, bit 0 for signal 1; none where there is no /proc.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:")).and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.unwrap_or(0)
}

/// A program about to run.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What to run; its word zero is the same.
    pub program: OsString,
    /// Its words.
    pub args: Vec<OsString>,
    /// Variables to set for it.
    pub set: Vec<(OsString, OsString)>,
    /// Variables to take away from it.
    pub unset: Vec<&'static str>,
}

impl Launch {
    /// `program` with `args` and the environment as it is.
    pub fn new(program: impl Into<OsString>, args: &[OsString]) -> Self {
        Self { program: program.into(), args: args.to_vec(), set: Vec::new(), unset: Vec::new() }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        for name in &self.unset {
            command.env_remove(name);
        }
        for (name, value) in &self.set {
            command.env(name, value);
        }
        process::pass_on(&mut command);
        command
    }

    /// Becomes the program. Returns only if that failed.
    pub fn exec(&self) -> Error {
        Error::Run { program: self.program.clone(), source: self.command().exec() }
    }

    /// Runs the program while `keep` (temporary files) stays alive, passes the held signals on to it, and reports its end as
    /// our own: the same exit code, or death by the same signal.
    pub fn run<T>(&self, Interrupts(mut signals): Interrupts, keep: T) -> Result<u8, Error> {
        let failed = |source| Error::Run { program: self.program.clone(), source };
        if let Some(signal) = signals.pending().next() {
            drop(keep);
            return Ok(ended_by(signal));
        }
        let mut child = self.command().spawn().map_err(failed)?;
        let handle = signals.handle();
        let pid = rustix::process::Pid::from_child(&child);
        let forwarder = std::thread::spawn(move || {
            for signal in signals.forever() {
                // Not reaped before this thread has ended, so the number is still this child's.
                if let Some(&signal) = ENDING.iter().find(|s| s.as_raw() == signal) {
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
        });
        // Waits without reaping, so that a signal that comes now can't hit a stranger with the same number.
        let exited = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        while matches!(rustix::process::waitid(rustix::process::WaitId::Pid(pid), exited), Err(rustix::io::Errno::INTR)) {}
        handle.close();
        let _ = forwarder.join();
        let status = child.wait().map_err(failed)?;
        drop(keep);
        if let Some(signal) = status.signal() {
            return Ok(ended_by(signal));
        }
        Ok(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
    }
}

/// Dies by the signal. What comes back is for signals whose default is not death: the shell's convention says it best.
fn ended_by(signal: i32) -> u8 {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    128u8.wrapping_add(signal as u8)
}
