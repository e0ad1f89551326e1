//! Every way of switching the CMake module on, and what it must not disturb: on a small real project, with real nvcc.

mod support;

use std::process::Command;

use support::cmake::{Build, PROJECT, Version, module, small_project, text};
use support::{SHIM, Scratch, must, shim};

/// Configures the small project and gives its device links and the commands through the shim.
fn links(build: &Build, words: &[&str]) -> (Vec<String>, Vec<String>) {
    must(&mut build.configure(words));
    build.device_links_and_shimmed()
}

/// Exactly the project's device links (of `shl` and `plug`) go through.
fn assert_exactly_device_links((device, shimmed): (Vec<String>, Vec<String>)) {
    assert_eq!(device.len(), 2, "{device:#?}");
    assert_eq!(device, shimmed);
}

fn include() -> String {
    format!("-DCMAKE_PROJECT_INCLUDE={}", module().display())
}

macro_rules! build {
    ($version:expr, $generator:expr, $scratch:expr, $project:expr, $top:expr) => {
        match Build::new($version, $generator, &small_project(&$scratch, $project, $top), $scratch.join("build")) {
            Some(build) => build,
            None => return,
        }
    };
}

#[test]
fn top_level_includes_come_before_the_language_and_still_take() {
    let scratch = Scratch::new();
    let build = build!(Version::Debian, "Ninja", scratch, PROJECT, "");
    let word = format!("-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={}", module().display());
    assert_exactly_device_links(links(&build, &[&word]));
    build.build_twice();
}

#[test]
fn a_language_enabled_after_the_include_is_prefixed_too() {
    for (version, generator) in [(Version::Debian, "Unix Makefiles"), (Version::Newest, "Ninja")] {
        let scratch = Scratch::new();
        let build = build!(version, generator, scratch, "project(small LANGUAGES CXX)\nenable_language(CUDA)", "");
        assert_exactly_device_links(links(&build, &[&include()]));
        build.build_twice();
    }
}

#[test]
fn a_language_enabled_in_a_subdirectory_is_prefixed_there() {
    let scratch = Scratch::new();
    small_project(&scratch, "enable_language(CUDA)", "");
    std::fs::rename(scratch.join("src"), scratch.join("sub")).unwrap();
    scratch.write("src/CMakeLists.txt", "cmake_minimum_required(VERSION 3.19)\nproject(top LANGUAGES CXX)\nadd_subdirectory(sub)\n");
    std::fs::rename(scratch.join("sub"), scratch.join("src/sub")).unwrap();
    let Some(build) = Build::new(Version::Newest, "Unix Makefiles", &scratch.join("src"), scratch.join("build")) else { return };
    assert_exactly_device_links(links(&build, &[&include()]));
}

#[test]
fn find_package_works_from_an_installation_that_was_moved() {
    let scratch = Scratch::new();
    let build = build!(Version::Debian, "Ninja", scratch, &format!("{PROJECT}\nfind_package(DlinkShim REQUIRED)"), "");
    let prefix = scratch.join("moved here/prefix");
    let modules = prefix.join("lib/cmake/DlinkShim");
    std::fs::create_dir_all(&modules).unwrap();
    for file in std::fs::read_dir(module().parent().unwrap()).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, modules.join(path.file_name().unwrap())).unwrap();
    }
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    support::install(SHIM, &prefix.join("bin/dlink-shim"));
    let mut command = build.configure(&[&format!("-DCMAKE_PREFIX_PATH={}", prefix.display())]);
    must(command.arg("-UDlinkShim_EXECUTABLE"));
    let all = build.link_commands();
    let own = prefix.join("bin/dlink-shim").display().to_string();
    assert_eq!(all.iter().filter(|c| c.contains(&own)).count(), 2, "{all:#?}");
    build.build_twice();
    let version = must(build.configure(&[&format!("-DCMAKE_PREFIX_PATH={}", prefix.display())]).arg("-Wno-dev"));
    assert!(version.contains("device links go through"), "{version}");
}

#[test]
fn include_by_module_path_and_from_a_toolchain_file() {
    for (project, toolchain) in [(format!("{PROJECT}\ninclude(DlinkShim)"), false), (PROJECT.to_owned(), true)] {
        let scratch = Scratch::new();
        let build = build!(Version::Debian, "Ninja", scratch, &project, "");
        let file = scratch.write("toolchain.cmake", format!("include(\"{}\")\n", module().display()));
        let word = match toolchain {
            true => format!("-DCMAKE_TOOLCHAIN_FILE={}", file.display()),
            false => format!("-DCMAKE_MODULE_PATH={}", module().parent().unwrap().display()),
        };
        assert_exactly_device_links(links(&build, &[&word]));
    }
}

#[test]
fn ctest_launchers_and_ours_both_run() {
    let scratch = Scratch::new();
    let build = build!(Version::Debian, "Ninja", scratch, PROJECT, "set(CTEST_USE_LAUNCHERS ON)\ninclude(CTest)");
    let (device, shimmed) = links(&build, &[&include()]);
    assert_eq!(device, shimmed);
    assert!(device.iter().all(|c| c.contains("--launch")), "{device:#?}");
    build.build_twice();
}

#[test]
fn multi_config_generators_work_in_every_configuration() {
    let scratch = Scratch::new();
    let build = build!(Version::Newest, "Ninja Multi-Config", scratch, PROJECT, "");
    must(&mut build.configure(&[&include()]));
    for config in ["Debug", "Release"] {
        let mut command = build.build();
        must(command.args(["--config", config]));
    }
    let rules = std::fs::read_to_string(build.directory.join("CMakeFiles/common.ninja")).unwrap();
    for config in ["Debug", "Release"] {
        let told = format!("--dlink-shim-shared={}/{config}/libshl.so", build.directory.display());
        assert_eq!(rules.lines().filter(|l| l.contains(&told)).count(), 1, "{config}");
    }
}

#[test]
fn a_target_opts_out_by_its_property_and_the_next_keeps_its_cure() {
    let scratch = Scratch::new();
    let top = "set_target_properties(plug PROPERTIES DLINK_SHIM_MODE OFF)\nset_target_properties(shl PROPERTIES DLINK_SHIM_KEEP \"x;y*\")";
    let build = build!(Version::Debian, "Ninja", scratch, PROJECT, top);
    let (device, _) = links(&build, &[&include()]);
    let of = |target: &str| device.iter().find(|c| c.contains(&format!("{target}.dir/cmake_device_link.o"))).unwrap().clone();
    assert!(of("plug").contains("--dlink-shim-mode=off"), "{device:#?}");
    assert!(of("shl").contains("--dlink-shim-keep=x:y*"), "{device:#?}");
    must(&mut build.build());
    let symbols = |library: &str| must(Command::new("nm").arg("-D").arg(build.directory.join(library)));
    let registers = |library: &str| symbols(library).lines().filter(|l| l.contains(" T __cudaRegisterLinkedBinary")).count();
    assert_eq!(registers("libplug.so"), 2, "stock: a stub for c.cu and one for the archive's a.cu");
}

#[test]
fn the_stub_in_the_shared_library_is_the_evidence_for_stripping() {
    let scratch = Scratch::new();
    let build = build!(Version::Debian, "Ninja", scratch, PROJECT, "");
    let (device, _) = links(&build, &[&include()]);
    must(&mut build.build());
    let plug = device.iter().find(|c| c.contains("plug.dir/cmake_device_link.o")).unwrap();
    let (_, words) = plug.split_once(SHIM).unwrap();
    let words = words.trim_start_matches('"').split_whitespace();
    let said = must(shim().arg("explain").arg("--").args(words).current_dir(&build.directory));
    assert!(said.contains("liba.a") && said.contains("strip") && said.contains("libshl.so"), "{said}");
    assert!(!said.lines().any(|l| l.starts_with("command:") && l.contains("--dlink-shim")), "{said}");
}

#[test]
fn a_static_library_before_the_shared_one_takes_the_proof_away() {
    let scratch = Scratch::new();
    let top = "add_library(other SHARED b2.cu)\ntarget_link_libraries(other PRIVATE a shl)";
    let build = build!(Version::Newest, "Ninja", scratch, PROJECT, top);
    scratch.write("src/b2.cu", "__global__ void b2_kernel(int *p) { *p = 1; }\n");
    let (device, _) = links(&build, &[&include()]);
    let other = device.iter().find(|c| c.contains("other.dir/cmake_device_link.o")).unwrap();
    assert!(other.contains("--dlink-shim-shared-later="), "{other}");
}

#[test]
fn where_it_cannot_work_it_says_so() {
    let scratch = Scratch::new();
    let build = build!(Version::Debian, "Ninja", scratch, PROJECT, "");
    let fails = |words: &[&str], expected: &str| {
        let output = build.configure(words).output().unwrap();
        assert!(!output.status.success() && text(&output).contains(expected), "{}", text(&output));
        std::fs::remove_dir_all(&build.directory).unwrap();
    };
    fails(&[&include(), "-DDlinkShim_EXECUTABLE=/bin/true"], "/bin/true is not the dlink-shim program");
    fails(&[&include(), "-DDlinkShim_EXECUTABLE=DlinkShim_EXECUTABLE-NOTFOUND"], "no dlink-shim program found: put it on PATH");
    let late = "add_subdirectory(early)\ninclude(DlinkShim)";
    let lists = std::fs::read_to_string(scratch.join("src/CMakeLists.txt")).unwrap();
    scratch.write("src/early/CMakeLists.txt", "add_library(early SHARED e.cu)\n");
    scratch.write("src/early/e.cu", "__global__ void e_kernel() {}\n");
    scratch.write("src/CMakeLists.txt", lists + late);
    let output = build.configure(&[&format!("-DCMAKE_MODULE_PATH={}", module().parent().unwrap().display())]).output().unwrap();
    let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success() && said.contains("do not go through dlink-shim") && said.contains("/early"), "{said}");
}

#[test]
fn without_cuda_and_with_another_module_policy_nothing_changes() {
    let scratch = Scratch::new();
    scratch.write("src/CMakeLists.txt", "cmake_minimum_required(VERSION 3.10)\nproject(plain LANGUAGES C)\nadd_library(p SHARED p.c)\n");
    scratch.write("src/p.c", "int p;\n");
    let Some(build) = Build::new(Version::Debian, "Ninja", &scratch.join("src"), scratch.join("build")) else { return };
    let said = text(&build.configure(&[&include()]).output().unwrap());
    assert!(said.contains("the CUDA language is not enabled") && !said.contains("Warning at") && !said.contains("(dev)"), "{said}");
    build.build_twice();
}

#[test]
fn an_old_policy_level_configures_without_a_warning() {
    let scratch = Scratch::new();
    let build = build!(Version::Debian, "Ninja", scratch, PROJECT, "");
    let lists = scratch.join("src/CMakeLists.txt");
    let old = std::fs::read_to_string(&lists).unwrap().replace("VERSION 3.19", "VERSION 3.10");
    std::fs::write(lists, old).unwrap();
    let said = text(&build.configure(&[&include()]).output().unwrap());
    assert!(!said.contains("Warning at") && !said.contains("(dev)"), "{said}");
    build.build_twice();
    // There CMake keeps the property's word from the device link, which must not go unsaid.
    let lists = scratch.join("src/CMakeLists.txt");
    let text_of = std::fs::read_to_string(&lists).unwrap();
    std::fs::write(&lists, text_of + "set_target_properties(plug PROPERTIES DLINK_SHIM_MODE off)\n").unwrap();
    let said = text(&build.configure(&[&include()]).output().unwrap()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("Warning at") && said.contains("policy CMP0105 NEW"), "{said}");
}

#[test]
fn directories_that_ninja_drops_from_long_device_links_are_named() {
    let scratch = Scratch::new();
    let top = "target_link_directories(plug PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/extern)\ntarget_link_libraries(plug PRIVATE ext)";
    let build = build!(Version::Debian, "Ninja", scratch, PROJECT, top);
    must(&mut build.configure(&[&include()]));
    let rule = std::fs::read_to_string(build.directory.join("build.ninja")).unwrap();
    let directory = scratch.join("src/extern").display().to_string();
    assert!(rule.contains(&format!("--dlink-shim-directory={directory}")), "the module tells the shim");
    // What such a link looks like, with the options file that Ninja would write.
    std::fs::create_dir(scratch.join("src/extern")).unwrap();
    must(Command::new(&build.nvcc).current_dir(scratch.join("src")).args(["-arch=sm_90", "-dc", "a.cu", "b.cu"]));
    must(Command::new("ar").current_dir(scratch.join("src")).args(["crs", "extern/libext.a", "a.o"]));
    scratch.write("src/plug.rsp", "b.o\n-lext -lcudadevrt");
    let mut command = shim();
    command.arg(&build.nvcc).arg(format!("--dlink-shim-directory={directory}"));
    command.args(["-arch=sm_90", "-dlink", "--options-file", "plug.rsp", "-o", "dlink.o"]).current_dir(scratch.join("src"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("-lext: ") && said.contains("Ninja generator drops -L") && said.lines().count() == 1, "{said}");
}

#[test]
fn the_launcher_variable_alone_compiles_and_links_as_ever() {
    let scratch = Scratch::new();
    let build = build!(Version::Debian, "Ninja", scratch, PROJECT, "");
    let (device, shimmed) = links(&build, &[&format!("-DCMAKE_CUDA_COMPILER_LAUNCHER={SHIM}")]);
    assert_eq!(device.len(), 2);
    assert!(shimmed.iter().all(|c| !c.contains(" -dlink ")), "a CMake whose launcher sees device links: tell it in the README");
    build.build_twice();
}

#[test]
fn rule_launch_link_passes_ar_ranlib_cmake_and_the_host_compiler_through() {
    for generator in ["Ninja", "Unix Makefiles"] {
        let scratch = Scratch::new();
        let rule = format!("set_property(GLOBAL PROPERTY RULE_LAUNCH_LINK \"{SHIM}\")");
        let build = build!(Version::Debian, generator, scratch, PROJECT, &rule);
        must(&mut build.configure(&[]));
        build.build_twice();
        let (device, shimmed) = build.device_links_and_shimmed();
        assert!(device.iter().all(|d| shimmed.contains(d)) && shimmed.len() > device.len(), "{shimmed:#?}");
        let symbols = must(Command::new("nm").arg("-D").arg(build.directory.join("libplug.so")));
        assert!(symbols.contains("__cudaRegisterLinkedBinary"), "{symbols}");
    }
}

#[test]
fn legacy_find_package_cuda_links_through_the_environment_variable() {
    let scratch = Scratch::new();
    let lists = "cmake_minimum_required(VERSION 3.19)\nproject(legacy LANGUAGES CXX)\nset(CMAKE_POSITION_INDEPENDENT_CODE ON)\n\
                 find_package(CUDA REQUIRED)\nset(CUDA_SEPARABLE_COMPILATION ON)\nset(CUDA_NVCC_FLAGS -arch=sm_90 -Xcompiler -fPIC)\ncuda_add_library(k SHARED k.cu)\n";
    scratch.write("src/CMakeLists.txt", lists);
    scratch.write("src/k.cu", "__global__ void k_kernel(int *p) { *p = 1; }\nvoid k(int *p) { k_kernel<<<1, 1>>>(p); }\n");
    let Some(build) = Build::new(Version::Debian, "Unix Makefiles", &scratch.join("src"), scratch.join("build")) else { return };
    let toolkit = build.nvcc.parent().unwrap().parent().unwrap();
    let mut command = build.configure_with(&["-Wno-dev"]);
    must(command.env("CUDA_NVCC_EXECUTABLE", SHIM).env("CUDA_PATH", toolkit).env("CUDA_BIN_PATH", toolkit));
    must(build.build().env("DLINK_SHIM_NVCC", &build.nvcc));
    assert!(build.directory.join("libk.so").exists());
}

#[test]
fn the_example_runs_as_its_readme_says_and_is_the_readmes_project() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = root.join("examples/cmake-plugin");
    let read = |file: std::path::PathBuf| std::fs::read_to_string(file).unwrap();
    assert!(read(root.join("README.md")).contains(&read(example.join("CMakeLists.txt"))), "the README shows the example's CMakeLists.txt");
    assert!(read(example.join("README.md")).contains("`cmake -P compare.cmake`"));
    let Some(cmake) = Version::Debian.program() else { return };
    let Some(nvcc) = support::toolkit::nvcc("13.0") else { return };
    let scratch = Scratch::new();
    let mut command = Command::new(cmake);
    command.current_dir(example).arg(format!("-DNVCC={}", nvcc.display())).arg(format!("-DSHIM={SHIM}"));
    let output = command.arg(format!("-DBUILD={}", scratch.join("build").display())).args(["-P", "compare.cmake"]).output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("stock registers: core_kernel shared_kernel\n"), "{said}");
    assert!(said.contains("shim registers: core_kernel plugin_kernel shared_kernel\n"), "{said}");
}
