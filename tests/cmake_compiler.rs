//! The shim as CMake's CUDA compiler: by any name, as symlink, hard link or copy, found by cache variable or by environment.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::cmake::{Build, PROJECT, Version, small_project, text};
use support::{SHIM, Scratch, install, must};

/// What a test makes of the shim.
#[derive(Clone, Copy)]
enum Made {
    Symlink,
    HardLink,
    Copy,
}

fn made(how: Made, path: PathBuf) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match how {
        Made::Symlink => std::os::unix::fs::symlink(SHIM, &path).unwrap(),
        // Another file system than the target directory's can't have the same inode.
        Made::HardLink => std::fs::hard_link(SHIM, &path).unwrap_or_else(|_| install(SHIM, &path)),
        Made::Copy => install(SHIM, &path),
    }
    path
}

/// Both libraries register by themselves: the plugin's stub waits for its own unit only.
fn assert_cured(build: &Build) {
    let symbols = must(Command::new("nm").arg("-D").arg(build.directory.join("libplug.so")));
    let undefined = symbols.lines().filter(|l| l.contains(" U __cudaRegisterLinkedBinary")).count();
    let defined = symbols.lines().filter(|l| l.contains(" T __cudaRegisterLinkedBinary")).count();
    assert!(defined >= 1 && undefined == 0, "{symbols}");
    // Without words from the module no shared library is in sight, so the archive's unit is guarded.
    let guarded = must(Command::new("nm").arg(build.directory.join("CMakeFiles/plug.dir/cmake_device_link.o")));
    assert!(guarded.contains("__start___nv_module_id"), "{guarded}");
}

fn as_compiler(version: Version, generator: &'static str, how: Made, name: &str, environment: bool) {
    let scratch = Scratch::new();
    let source = small_project(
        &scratch,
        PROJECT,
        "find_package(CUDAToolkit REQUIRED)\nmessage(STATUS \"toolkit nvcc: ${CUDAToolkit_NVCC_EXECUTABLE}\")",
    );
    let Some(build) = Build::new(version, generator, &source, scratch.join("build")) else { return };
    let compiler = made(how, scratch.join("bin").join(name));
    let mut command = build.configure_with(&[]);
    match environment {
        true => command.env("CUDACXX", &compiler),
        false => command.arg(format!("-DCMAKE_CUDA_COMPILER={}", compiler.display())),
    };
    let said = text(&command.env("DLINK_SHIM_NVCC", &build.nvcc).output().unwrap());
    assert!(said.contains("CUDA compiler identification is NVIDIA 13.0"), "{said}");
    assert!(said.contains(&format!("toolkit nvcc: {}", build.nvcc.display())), "{said}");
    must(build.build().env("DLINK_SHIM_NVCC", &build.nvcc));
    assert_cured(&build);
    let again = must(build.build().env("DLINK_SHIM_NVCC", &build.nvcc));
    assert!(!again.contains("Building") && !again.contains("Linking"), "{again}");
}

#[test]
fn a_symlink_named_nvcc_as_cmake_cuda_compiler() {
    as_compiler(Version::Debian, "Ninja", Made::Symlink, "nvcc", false);
}

#[test]
fn a_copy_of_any_name_as_cmake_cuda_compiler() {
    as_compiler(Version::Newest, "Unix Makefiles", Made::Copy, "mynvcc", false);
}

#[test]
fn a_hard_link_named_nvcc_by_cudacxx() {
    as_compiler(Version::Newest, "Ninja", Made::HardLink, "nvcc", true);
}

#[test]
fn a_copy_of_any_name_by_cudacxx() {
    as_compiler(Version::Debian, "Unix Makefiles", Made::Copy, "site-nvcc", true);
}

#[test]
fn the_toolkit_is_found_through_a_shim_without_the_language() {
    for version in [Version::Debian, Version::Newest] {
        let scratch = Scratch::new();
        let lists = "cmake_minimum_required(VERSION 3.19)\nproject(t LANGUAGES CXX)\nfind_package(CUDAToolkit REQUIRED)\n\
                     message(STATUS \"found ${CUDAToolkit_VERSION} in ${CUDAToolkit_LIBRARY_ROOT}${CUDAToolkit_TARGET_DIR}\")\n";
        scratch.write("src/CMakeLists.txt", lists);
        let Some(build) = Build::new(version, "Ninja", &scratch.join("src"), scratch.join("build")) else { return };
        let shim = made(Made::Copy, scratch.join("bin/nvcc"));
        let mut command = build.configure_with(&[]);
        command.env("PATH", format!("{}:{}", shim.parent().unwrap().display(), std::env::var("PATH").unwrap()));
        let said = text(&command.env("DLINK_SHIM_NVCC", &build.nvcc).output().unwrap());
        let toolkit: &Path = build.nvcc.parent().unwrap().parent().unwrap();
        assert!(said.contains("found 13.0") && said.contains(&toolkit.display().to_string()), "{said}");
    }
}

#[test]
fn two_words_in_cudacxx_fail_with_the_line_that_is_right() {
    let scratch = Scratch::new();
    let source = small_project(&scratch, PROJECT, "");
    let Some(build) = Build::new(Version::Debian, "Ninja", &source, scratch.join("build")) else { return };
    let output = build.configure_with(&[]).env("CUDACXX", format!("{SHIM} {}", build.nvcc.display())).output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
    // CMake keeps what a compiler says in its log.
    let log = std::fs::read_to_string(build.directory.join("CMakeFiles/CMakeError.log")).unwrap();
    assert!(log.contains("CMake takes one word for the compiler") && log.contains("named `nvcc`"), "{log}");
}
