//! The commands that a build would run, as text: from Ninja, from CMake's Makefiles, or from what make printed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::no_look;
use crate::{Env, Error};

/// One command and where it runs.
pub struct Line {
    pub cwd: PathBuf,
    pub words: Vec<OsString>,
}

/// Where commands come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Ninja,
    CmakeMakefiles,
    MakeOutput,
}

/// Reads the commands of a build directory, or of a file that make's output went to.
pub fn read(path: &Path, env: &Env) -> Result<(Origin, Vec<Line>), Error> {
    let path = env.cwd().join(path);
    if path.is_file() {
        let text = std::fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        return Ok((Origin::MakeOutput, lines(&String::from_utf8_lossy(&text), env.cwd())));
    }
    if path.join("build.ninja").is_file() {
        return Ok((Origin::Ninja, lines(&ninja(&path)?, &path)));
    }
    let mut scripts = Vec::new();
    link_scripts(&path, 0, &mut scripts);
    if scripts.is_empty() {
        return Err(no_look(&path, "no build.ninja and no CMake link scripts; for other builds give it what `make -n` prints, as a file"));
    }
    scripts.sort();
    let mut all = Vec::new();
    for script in scripts {
        // <directory>/CMakeFiles/<target>.dir/dlink.txt runs in <directory>.
        let cwd = script.ancestors().nth(3).unwrap_or(&path).to_owned();
        let text = std::fs::read(&script).map_err(|source| Error::Read { path: script.clone(), source })?;
        all.extend(lines(&String::from_utf8_lossy(&text), &cwd));
    }
    Ok((Origin::CmakeMakefiles, all))
}

/// What ninja itself says that it would run; its manifest has includes and variables that are its own to read.
fn ninja(directory: &Path) -> Result<String, Error> {
    let output = Command::new("ninja").arg("-C").arg(directory).args(["-t", "commands"]).output();
    let output = output.map_err(|error| no_look(directory, format!("can't run ninja: {error}")))?;
    if !output.status.success() {
        return Err(no_look(directory, format!("ninja -t commands: {}", String::from_utf8_lossy(&output.stderr).trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// CMake's Makefiles keep each link in a file of its own.
fn link_scripts(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            if depth < 24 {
                link_scripts(&path, depth + 1, found);
            }
        } else if matches!(path.file_name().and_then(|n| n.to_str()), Some("dlink.txt" | "link.txt")) {
            found.push(path);
        }
    }
}

/// Lines of shell text, cut where one command ends and the next begins. What a shell could not read is no command of ours.
fn lines(text: &str, cwd: &Path) -> Vec<Line> {
    let mut all = Vec::new();
    let mut entered = vec![cwd.to_owned()];
    // make prints long commands over several lines.
    for line in text.replace("\\\n", " ").lines() {
        // `make[1]: Entering directory '/x'`, and the like when it leaves.
        if let Some((_, directory)) = line.split_once(": Entering directory '") {
            entered.push(entered[0].join(directory.trim_end_matches('\'')));
            continue;
        }
        if line.contains(": Leaving directory '") && entered.len() > 1 {
            entered.pop();
            continue;
        }
        let Some(words) = shlex::split(line) else { continue };
        let mut cwd = entered[entered.len() - 1].clone();
        // A semicolon may stick to the word before it.
        let cut = |w: String| match w.strip_suffix(';') {
            Some(word) if !word.is_empty() => vec![word.to_owned(), ";".to_owned()],
            _ => vec![w],
        };
        let words: Vec<String> = words.into_iter().flat_map(cut).collect();
        for command in words.split(|w| matches!(w.as_str(), "&&" | ";" | "||" | "|")) {
            match command {
                [] => {}
                [cd, directory] if cd == "cd" => cwd = cwd.join(directory),
                _ => all.push(Line { cwd: cwd.clone(), words: command.iter().map(OsString::from).collect() }),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_lines_become_commands_with_their_directories() {
        let text = "cd sub && nvcc -dlink \\\n  'a b.o' -o x.o && :\nmake[1]: Entering directory '/x y'\ng++ -shared x.o; ar crs l.a\n\
                    make[1]: Leaving directory '/x y'\nit's no command\nld x.o\n";
        let shown = |l: Line| format!("{}: {}", l.cwd.display(), l.words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join("|"));
        let all: Vec<String> = lines(text, Path::new("/b")).into_iter().map(shown).collect();
        assert_eq!(all, ["/b/sub: nvcc|-dlink|a b.o|-o|x.o", "/b/sub: :", "/x y: g++|-shared|x.o", "/x y: ar|crs|l.a", "/b: ld|x.o"]);
    }
}
