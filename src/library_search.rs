//! nvlink's rules for `-l`, which are not the host linker's.
//!
//! strace of nvlink 13.0.88 and 13.5.37: `libX.so` is looked for in *all* directories, and only then `libX.a` in the
//! same list; a found `.so` adds nothing and hides every `.a`. The list is `-L` in order, then nvcc's own two
//! directories, then `$LIBRARY_PATH`. `-l:name` looks for `lib:name.so`, so in practice finds nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The directories of one command.
#[derive(Clone, Debug, Default)]
pub struct Search {
    directories: Vec<PathBuf>,
}

impl Search {
    /// `directories` are the command's `-L`, relative ones against `cwd`; `nvcc` says where the toolkit is.
    pub fn new(directories: &[PathBuf], nvcc: Option<&Path>, library_path: Option<&OsStr>, cwd: &Path) -> Self {
        let mut all: Vec<PathBuf> = directories.iter().map(|d| cwd.join(d)).collect();
        if let Some(top) = nvcc.and_then(|n| n.parent()?.parent()) {
            let target = format!("targets/{}-linux/lib", std::env::consts::ARCH);
            // Which of these a toolkit uses depends on how it was packaged (its nvcc.profile says).
            for lib in [Path::new("lib64"), Path::new(&target), Path::new("lib")] {
                all.extend([top.join(lib).join("stubs"), top.join(lib)]);
            }
        }
        let environment = library_path.map(std::env::split_paths).into_iter().flatten();
        all.extend(environment.filter(|d| !d.as_os_str().is_empty()).map(|d| cwd.join(d)));
        Self { directories: all }
    }

    /// The file that nvlink opens for `-l name`.
    pub fn find(&self, name: &OsStr) -> Option<PathBuf> {
        [".so", ".a"].iter().find_map(|suffix| {
            let mut file = OsString::from("lib");
            file.push(name);
            file.push(suffix);
            self.directories.iter().map(|d| d.join(&file)).find(|p| p.exists())
        })
    }
}
