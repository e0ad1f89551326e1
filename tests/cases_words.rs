//! What reaches nvcc, word by word: the numbered cases 1 to 16, 19, 20, 30, 31 and 33. nvcc is a stand-in; the objects are real.

mod support;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use support::{Fixtures, Scratch, StandIn};

fn check(scene: &Scratch, words: &[&str], expected: &[&str]) {
    let reached = StandIn::new().run(scene.path(), words);
    assert_eq!(reached.words(), expected, "{}", reached.stderr());
    assert_eq!(reached.stderr(), "");
}

#[test]
fn case_1_an_unneeded_device_only_library_leaves_the_line_and_nvcc_is_execed() {
    let scene = fixtures!().scene();
    check(&scene, &["-dlink", "plug.o", "-LL", "-lcore_nv", "-o", "o"], &["-dlink", "plug.o", "-LL", "-o", "o"]);
    // exec: the stand-in has the process number that the shim was started with.
    let stand_in = StandIn::new();
    let pid = stand_in.scratch.executable("pid/nvcc", "#!/bin/sh\necho $$\n");
    let child = support::shim()
        .arg(pid)
        .args(["-dlink", "plug.o", "-LL", "-lcore_nv"])
        .current_dir(scene.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim(), id.to_string());
}

#[test]
fn case_3_only_the_stripped_name_leaves_a_comma_list() {
    let scene = fixtures!().scene();
    check(&scene, &["-dlink", "plug.o", "-LL", "-lcore_nv,other", "-o", "o"], &["-dlink", "plug.o", "-LL", "-lother", "-o", "o"]);
    check(&scene, &["-dlink", "plug.o", "-LL", "-l", "a,core_nv,b"], &["-dlink", "plug.o", "-LL", "-l", "a,b"]);
    check(&scene, &["-dlink", "plug.o", "-LL", "-l", "core_nv", "-lz"], &["-dlink", "plug.o", "-LL", "-lz"]);
    check(&scene, &["-dlink", "plug.o", "-LL", "-lcore_nv,", "-lz"], &["-dlink", "plug.o", "-LL", "-lz"]);
}

#[test]
fn case_4_long_spellings() {
    let scene = fixtures!().scene();
    check(
        &scene,
        &["--library=other,core_nv", "--library-path", "L,M", "--device-link", "plug.o", "--output-file=o"],
        &["--library=other", "--library-path", "L,M", "--device-link", "plug.o", "--output-file=o"],
    );
    check(&scene, &["--library", "core_nv", "-L=L", "-dlink", "plug.o"], &["-L=L", "-dlink", "plug.o"]);
}

#[test]
fn case_5_an_options_file_is_replaced_by_a_new_one_and_stays_as_it_was() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    fixtures.archive(&scene, "L x/libcore_nv.a", &["core_nv.o"]);
    let text = "-L\"L x\"\n  -lcore_nv -lcudadevrt\n";
    let file = scene.write("libs.rsp", text);
    let reached = StandIn::new().run(scene.path(), &["-dlink", "plug.o", "-o", "o", "--options-file", "libs.rsp"]);
    assert_eq!(reached.words().len(), 6);
    assert_eq!(reached.words()[..5], ["-dlink", "plug.o", "-o", "o", "--options-file"]);
    assert_eq!(reached.new_files, [b"-L\"L x\"\n   -lcudadevrt\n"]);
    assert_eq!(std::fs::read(file).unwrap(), text.as_bytes());
    assert!(!std::path::Path::new(&reached.args[5]).exists(), "the new file outlives the call");
}

#[test]
fn case_6_an_options_file_may_hold_everything() {
    let scene = fixtures!().scene();
    scene.write("all.rsp", "-dlink plug.o -LL -lcore_nv,other -o o");
    let reached = StandIn::new().run(scene.path(), &["-optf", "all.rsp"]);
    assert_eq!(reached.new_files, [b"-dlink plug.o -LL -lother -o o"]);
    let reached = StandIn::new().run(scene.path(), &["-optf=all.rsp"]);
    assert!(reached.line().starts_with("-optf=/"), "{}", reached.line());
    assert_eq!(reached.new_files.len(), 1);
}

#[test]
fn case_7_nested_options_files_are_relative_to_the_current_directory() {
    let scene = fixtures!().scene();
    scene.write("rsp/outer.rsp", "-dlink plug.o -optf rsp/inner.rsp -o o");
    scene.write("rsp/inner.rsp", "-LL \"-lcore_nv\" -lz");
    let reached = StandIn::new().run(scene.path(), &["-optf", "rsp/outer.rsp"]);
    assert_eq!(reached.new_files.len(), 2, "{}", reached.stderr());
    assert!(reached.new_files[0].starts_with(b"-dlink plug.o -optf /") && reached.new_files[0].ends_with(b".rsp -o o"));
    assert_eq!(reached.new_files[1], b"-LL  -lz");
    // An outer file that only sits between argv and a changed inner one keeps its other words.
    scene.write("loop.rsp", "-dlink plug.o -optf loop.rsp");
    check(&scene, &["-optf", "loop.rsp"], &["-optf", "loop.rsp"]);
}

#[test]
fn case_8_a_library_from_a_variable_is_gone_for_the_child_too() {
    let scene = fixtures!().scene();
    let with = |name: &str, value: &str| {
        StandIn::new().run_with(scene.path(), &["-dlink", "plug.o", "-LL"], |c| {
            c.env(name, value);
        })
    };
    let reached = with("NVCC_APPEND_FLAGS", "-lcore_nv \"-l a\"");
    assert_eq!(reached.words(), ["-dlink", "plug.o", "-LL", "-l a"]);
    assert_eq!(reached.var("NVCC_APPEND_FLAGS"), None);
    let reached = with("NVCC_PREPEND_FLAGS", "-lcore_nv -lz");
    assert_eq!(reached.words(), ["-lz", "-dlink", "plug.o", "-LL"]);
    assert_eq!(reached.var("NVCC_PREPEND_FLAGS"), None);
    let reached = with("NVCC_APPEND_FLAGS", "-lz");
    assert_eq!(reached.var("NVCC_APPEND_FLAGS").unwrap(), "-lz");
    assert_eq!(reached.words(), ["-dlink", "plug.o", "-LL"]);
}

#[test]
fn case_9_a_device_link_said_in_a_variable_is_one() {
    let scene = fixtures!().scene();
    let reached = StandIn::new().run_with(scene.path(), &["plug.o", "-LL", "-lcore_nv"], |c| {
        c.env("NVCC_PREPEND_FLAGS", "-dlink");
    });
    assert_eq!(reached.words(), ["plug.o", "-LL"]);
    assert_eq!(reached.var("NVCC_PREPEND_FLAGS").unwrap(), "-dlink");
}

fn check_untouched(scene: &Scratch, lines: &[&[&str]]) {
    for words in lines {
        check(scene, words, words);
    }
}

#[test]
fn case_10_a_swallowed_dlink_is_no_device_link() {
    let scene = fixtures!().scene();
    for head in [["-Xcompiler", "-dlink"], ["-I", "-dlink"], ["-D", "-dlink"], ["-o", "-dlink"]] {
        let compile = [&head[..], &["-dc", "plug.o", "-LL", "-lcore_nv"]].concat();
        check_untouched(&scene, &[&compile]);
        // Such a line links a program, with a device link inside: its words stay, and a mask is added.
        let program = [&head[..], &["plug.o", "-LL", "-lcore_nv"]].concat();
        assert_eq!(StandIn::new().run(scene.path(), &program).words()[..program.len()], program);
    }
    check_untouched(&scene, &[&["-I", "-dlink", "x.cu"]]);
}

#[test]
fn case_11_what_never_reaches_nvlink_stays() {
    let scene = fixtures!().scene();
    check_untouched(
        &scene,
        &[
            &["-Xcompiler", "-lcore_nv", "-LL", "-dlink", "plug.o"],
            &["-Xlinker", "L/libcore_nv.a", "-Xlinker=-lcore_nv", "-LL", "-dlink", "plug.o"],
        ],
    );
}

#[test]
fn case_12_an_item_leaves_an_xnvlink_value() {
    let scene = fixtures!().scene();
    check(&scene, &["-dlink", "plug.o", "-LL", "-Xnvlink", "-lcore_nv"], &["-dlink", "plug.o", "-LL"]);
    check(&scene, &["-dlink", "plug.o", "-Xnvlink=-LL,-lcore_nv"], &["-dlink", "plug.o", "-Xnvlink=-LL"]);
    check(&scene, &["-dlink", "plug.o", "--nvlink-options", "L/libcore_nv.a"], &["-dlink", "plug.o"]);
    check(
        &scene,
        &["-dlink", "plug.o", "-Xnvlink", "-L,L", "-Xnvlink", "-l", "-Xnvlink=core_nv,-v"],
        &["-dlink", "plug.o", "-Xnvlink", "-L,L", "-Xnvlink=-v"],
    );
}

#[test]
fn case_13_a_shared_library_in_any_directory_hides_the_archive() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    fixtures.archive(&scene, "L1/libz.a", &["core_nv.o"]);
    scene.write("L2/libz.so", "GROUP ( /usr/lib/libz.so.1 )");
    check_untouched(&scene, &[&["-dlink", "plug.o", "-lz", "-LL1", "-LL2"]]);
    check(&scene, &["-dlink", "plug.o", "-lz", "-LL1"], &["-dlink", "plug.o", "-LL1"]);
}

#[test]
fn case_14_a_versioned_shared_library_hides_nothing() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    fixtures.archive(&scene, "L1/libz.a", &["core_nv.o"]);
    scene.write("L1/libz.so.1", "");
    check(&scene, &["-dlink", "plug.o", "-lz", "-LL1"], &["-dlink", "plug.o", "-LL1"]);
}

#[test]
fn case_15_library_path_is_searched() {
    let scene = fixtures!().scene();
    let reached = StandIn::new().run_with(scene.path(), &["-dlink", "plug.o", "-lcore_nv"], |c| {
        c.env("LIBRARY_PATH", "nope:L");
    });
    assert_eq!(reached.words(), ["-dlink", "plug.o"]);
}

#[test]
fn case_16_every_spelling_of_one_archive_goes() {
    let scene = fixtures!().scene();
    std::fs::create_dir(scene.join("rel")).unwrap();
    symlink("L/libcore_nv.a", scene.join("alias.a")).unwrap();
    check(
        &scene,
        &["-dlink", "L/libcore_nv.a", "plug.o", "./rel/../L/libcore_nv.a", "alias.a", "-LL", "-lcore_nv"],
        &["-dlink", "plug.o", "-LL"],
    );
}

#[test]
fn case_19_names_that_find_nothing_stay() {
    let scene = fixtures!().scene();
    check_untouched(
        &scene,
        &[
            &["-dlink", "plug.o", "-LL", "-library=core_nv"],
            &["-dlink", "plug.o", "-LL", "-l:libcore_nv.a"],
            &["-dlink", "plug.o", "-LL", "-lnope"],
            &["-dlink", "plug.o", "-library-path=L", "-lcore_nv"],
        ],
    );
}

#[test]
fn case_20_shared_beside_dlink_is_still_a_device_link() {
    let scene = fixtures!().scene();
    check(&scene, &["L/libcore_nv.a", "-shared", "-dlink", "plug.o", "-o", "o"], &["-shared", "-dlink", "plug.o", "-o", "o"]);
}

#[test]
fn case_30_bytes_of_paths_are_kept() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    let odd = [OsStr::from_bytes(b"o\xff\xfe x.o"), OsStr::new("a=b,\"c'.o"), OsStr::new("./-dash.o")];
    for name in odd {
        std::fs::copy(scene.join("plug.o"), scene.join(name)).unwrap();
    }
    let directory = OsStr::from_bytes(b"D \xff'\"");
    std::fs::create_dir(scene.join(directory)).unwrap();
    std::fs::copy(scene.join("L/libcore_nv.a"), scene.join(directory).join("libcore_nv.a")).unwrap();
    let path = OsStr::from_bytes(b"D \xff'\"/libcore_nv.a");
    let words = [OsStr::new("-dlink"), odd[0], OsStr::from_bytes(b"-D=\xc3"), odd[1], path, odd[2], OsStr::new("-o"), OsStr::new(" ")];
    let reached = StandIn::new().run(scene.path(), &words);
    assert_eq!(reached.args[..7], [words[0], words[1], words[2], words[3], words[5], words[6], words[7]]);
    assert_eq!(reached.args[7..], support::PROTECT);
    // And in an options file, where only the library's bytes go.
    let mut text = b"-dlink \"o\xff\xfe x.o\" -LL -lcore_nv  \"a=b,\\\"c'.o\"".to_vec();
    scene.write("x.rsp", &text);
    let reached = StandIn::new().run(scene.path(), &["-optf", "x.rsp"]);
    text.drain(21..30);
    assert_eq!(reached.new_files, [text]);
}

#[test]
fn case_31_an_output_may_be_named_dlink_and_a_value_makes_no_flag() {
    let scene = fixtures!().scene();
    check(&scene, &["-o", "-dlink", "plug.o", "-dlink", "-LL", "-lcore_nv"], &["-o", "-dlink", "plug.o", "-dlink", "-LL"]);
    check_untouched(&scene, &[&["-dlink=true", "plug.o", "-LL", "-lcore_nv"], &["--dlink", "plug.o", "-LL", "-lcore_nv"]]);
}

#[test]
fn case_33_thousands_of_objects_and_long_lines_keep_their_order() {
    let scene = fixtures!().scene();
    std::fs::create_dir(scene.join("objects")).unwrap();
    let object = std::fs::read(scene.join("plug.o")).unwrap();
    // Host-only objects in the number that a large library has; one with device code.
    let empty = scene.write("e.c", "");
    support::must(std::process::Command::new("gcc").arg("-c").arg(empty).arg("-o").arg(scene.join("e.o")));
    let names: Vec<String> = (0..3000).map(|i| format!("objects/a-rather-long-name-to-pass-the-limit-{i:05}.o")).collect();
    for name in &names {
        std::fs::hard_link(scene.join("e.o"), scene.join(name)).unwrap();
    }
    std::fs::remove_file(scene.join(&names[1500])).unwrap();
    std::fs::write(scene.join(&names[1500]), object).unwrap();
    scene.write("o.rsp", format!("-dlink {} -LL -lcore_nv -o o", names.join("\n")));
    let reached = StandIn::new().run(scene.path(), &["-optf", "o.rsp"]);
    assert_eq!(reached.new_files, [format!("-dlink {} -LL  -o o", names.join("\n")).into_bytes()]);
    let mut words: Vec<&str> = vec!["-dlink", "-LL", "-lcore_nv"];
    words.extend(names.iter().map(String::as_str));
    let reached = StandIn::new().run(scene.path(), &words);
    words.remove(2);
    assert!(reached.line().len() > 128 << 10);
    assert_eq!(reached.words(), words);
}

#[test]
fn case_2_a_needed_unit_is_guarded_and_the_others_are_masked() {
    let scene = fixtures!().scene();
    let reached = StandIn::new().run(scene.path(), &["-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "o"]);
    let words = reached.words();
    assert_eq!(words[..5], ["-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o"]);
    assert!(words[6].ends_with("mask.o") && words[7] == "-Xcompiler" && words[8].starts_with("-include,/"), "{words:?}");
    let header = reached.new_files.iter().map(|f| String::from_utf8_lossy(f)).find(|f| f.contains("#include")).unwrap().into_owned();
    let units = header.lines().filter(|l| l.starts_with("DLINK_SHIM_UNIT(")).collect::<Vec<_>>();
    assert!(units.len() == 1 && units[0].contains("devfn_cu"), "{units:?}");
    assert!(!header.lines().any(|l| l.starts_with("DLINK_SHIM_PULL(")), "a device-only unit has no archive member to pull");
    assert!(!std::path::Path::new(&words[6]).exists());
}

#[test]
fn own_units_are_protected_unless_the_command_speaks_of_visibility_itself() {
    let scene = fixtures!().scene();
    let run = |words: &[&str]| StandIn::new().run(scene.path(), words).args;
    assert_eq!(run(&["-dlink", "plug.o"]), [&["-dlink", "plug.o"][..], &support::PROTECT].concat());
    for words in
        [&["-dlink", "plug.o", "-Xcompiler", "-O2,-fvisibility=hidden"][..], &["-dlink", "plug.o", "-ccbin", "icpx"], &["-c", "x.cu"]]
    {
        assert_eq!(run(words), words);
    }
}

#[test]
fn case_17_a_second_copy_of_a_library_leaves_the_line() {
    let scene = fixtures!().scene();
    std::fs::create_dir(scene.join("M")).unwrap();
    std::fs::copy(scene.join("L/libcore_nv.a"), scene.join("M/libcopy.a")).unwrap();
    let reached = StandIn::new().run(scene.path(), &["-dlink", "plugdev.o", "M/libcopy.a", "L/libcore_nv.a"]);
    assert_eq!(reached.words()[..3], ["-dlink", "plugdev.o", "M/libcopy.a"]);
    assert!(!reached.line().contains("libcore_nv.a"));
    // The same file by another path is named once, too (older nvlink refuses any repetition).
    let reached = StandIn::new().run(scene.path(), &["-dlink", "plugdev.o", "L/libcore_nv.a", "-LL", "-lcore_nv"]);
    assert!(!reached.line().contains("-lcore_nv"), "{}", reached.line());
}

#[test]
fn case_18_an_object_and_an_archive_that_holds_it() {
    let fixtures = fixtures!();
    let scene = fixtures.scene();
    fixtures.archive(&scene, "L/libplug.a", &["plug.o"]);
    check(&scene, &["-dlink", "plug.o", "L/libplug.a"], &["-dlink", "plug.o"]);
    // Only a part of it is a copy: a mask would take the object's unit as well. Left as it is, and said.
    fixtures.archive(&scene, "L/libmore.a", &["plug.o", "core.o"]);
    let reached = StandIn::new().run(scene.path(), &["-dlink", "plug.o", "L/libmore.a"]);
    assert_eq!(reached.words()[..3], ["-dlink", "plug.o", "L/libmore.a"]);
    assert!(reached.stderr().contains("is also in plug.o: left as it is; link one of them only"), "{}", reached.stderr());
    assert!(!reached.line().contains("mask.o"));
}

#[test]
fn archives_alone_are_the_commands_own() {
    let scene = fixtures!().scene();
    check_untouched(&scene, &[&["-dlink", "-LL", "-lcore_nv", "-o", "o"]]);
}

#[test]
fn the_users_word_beats_the_analysis() {
    let scene = fixtures!().scene();
    let words = ["-dlink", "plug.o", "-LL", "-lcore_nv"];
    let kept = StandIn::new().run_with(scene.path(), &words, |c| {
        c.env("DLINK_SHIM_KEEP", "x,core*");
    });
    assert_eq!(kept.words(), words);
    let words = ["-dlink", "plugdev.o", "-LL", "-lcore_nv"];
    let gone = StandIn::new().run_with(scene.path(), &words, |c| {
        c.env("DLINK_SHIM_STRIP", "libcore_nv.a");
    });
    assert_eq!(gone.words(), words[..3]);
}

#[test]
fn report_mode_says_it_and_off_looks_at_nothing() {
    let scene = fixtures!().scene();
    let words = ["-dlink", "plug.o", "-LL", "-lcore_nv"];
    let report = StandIn::new().run_with(scene.path(), &words, |c| {
        c.env("DLINK_SHIM_MODE", "report");
    });
    assert_eq!(report.words(), words);
    assert!(report.stderr().contains("core_nv: strip: no unit that stays needs its 2 unit(s)"), "{}", report.stderr());
    assert!(report.output.stdout.is_empty());
    let off = StandIn::new().run_with(scene.path(), &words, |c| {
        c.env("DLINK_SHIM_MODE", "off");
    });
    assert_eq!((off.words(), off.stderr()), (words.map(str::to_owned).to_vec(), String::new()));
}

#[test]
fn fixtures_are_what_the_cases_say() {
    let fixtures: Fixtures = fixtures!();
    use dlink_shim::object::{self, Content};
    let scene = fixtures.scene();
    let Content::Archive(members) = object::inspect(&scene.join("L/libcore_nv.a")).unwrap() else { panic!() };
    assert_eq!(members.len(), 2);
    assert!(members.iter().all(|m| m.units.len() == 1 && m.units[0].device_only));
    let Content::Object(plug) = object::inspect(&scene.join("plug.o")).unwrap() else { panic!() };
    assert!(!plug.units[0].device_only);
}
