//! Short names for outputs, as people know them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// One label per path: what differs between them, and CMake's targets by their names.
pub fn labels(paths: &[&Path]) -> Vec<String> {
    let common = common_directory(paths);
    let rest: Vec<String> = paths.iter().map(|p| p.strip_prefix(&common).unwrap_or(p).to_string_lossy().into_owned()).collect();
    let short: Vec<String> = rest.iter().map(|r| cmake_target(r).unwrap_or_else(|| r.clone())).collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for label in &short {
        *count.entry(label).or_default() += 1;
    }
    short.iter().zip(&rest).map(|(s, r)| if count[s.as_str()] == 1 { s.clone() } else { r.clone() }).collect()
}

/// The directory that all paths are in.
pub fn common_directory(paths: &[&Path]) -> PathBuf {
    let Some((first, others)) = paths.split_first() else { return PathBuf::new() };
    let mut common = first.parent().unwrap_or(first).to_owned();
    for path in others {
        while !path.parent().is_some_and(|p| p.starts_with(&common)) {
            if !common.pop() {
                break;
            }
        }
    }
    common
}

/// `sub/CMakeFiles/name.dir/cmake_device_link.o` is target `sub/name`.
fn cmake_target(path: &str) -> Option<String> {
    let directory = path.strip_suffix("/cmake_device_link.o")?.strip_suffix(".dir")?;
    match directory.rsplit_once('/') {
        None => Some(directory.to_owned()),
        Some((top, name)) => {
            let top = top.strip_suffix("CMakeFiles")?;
            Some(format!("{top}{name}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_what_differs_and_name_cmake_targets() {
        let paths = ["/b/x/CMakeFiles/core.dir/cmake_device_link.o", "/b/CMakeFiles/app.dir/cmake_device_link.o", "/b/y/p_dlink.o"];
        let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
        assert_eq!(labels(&paths), ["x/core", "app", "y/p_dlink.o"]);
        assert_eq!(labels(&paths[2..]), ["p_dlink.o"]);
        assert_eq!(labels(&paths[..1]), ["cmake_device_link.o"]);
    }

    #[test]
    fn labels_that_would_be_equal_stay_whole() {
        let paths: Vec<&Path> = ["/b/CMakeFiles/a.dir/cmake_device_link.o", "/b/a"].iter().map(Path::new).collect();
        assert_eq!(labels(&paths), ["CMakeFiles/a.dir/cmake_device_link.o", "a"]);
    }
}
