//! What reaches a host compiler or linker through dlink-shim, and when. The compilers here are scripts that write down their
//! words; the objects are real.

mod support;

use std::process::{Command, Output};

use support::{Scratch, must, shim};

/// A directory with `g++` (which answers to `-Wl,--version` as `says` does), objects with and without device code, and an archive.
struct Scene(Scratch);

const FATBIN: &str = ".section .nv_fatbin,\"a\"\n.globl f\nf: .skip 400000\n.section __nv_relfatbin,\"a\"\n.skip 200000\n";

impl Scene {
    fn new(says: &str) -> Self {
        let scratch = Scratch::new();
        let record = format!(
            "#!/bin/sh\ncase \"$*\" in *--version*) echo '{says}'; exit;; esac\nprintf '%s\\n' \"$@\" > '{}'\n\
             for w; do case $w in *fatbins-last.ld) cat \"${{w#-Wl,-T,}}\" > '{}';; esac; done\nexit 7\n",
            scratch.join("args").display(),
            scratch.join("script").display()
        );
        for name in ["bin/g++", "bin/ld", "bin/x86_64-linux-gnu-g++-12", "bin/ld.lld", "bin/ar"] {
            scratch.executable(name, &record);
        }
        for (name, text) in [("fat", FATBIN), ("plain", ".data\n.skip 900000\n"), ("bss", ".bss\n.skip 900000\n"), ("main", ".text\n")] {
            let source = scratch.write(format!("{name}.s"), text);
            must(Command::new("as").arg(source).arg("-o").arg(scratch.join(format!("{name}.o"))));
        }
        std::fs::create_dir(scratch.join("lib")).unwrap();
        must(Command::new("ar").args(["crs", "lib/libfat.a", "fat.o"]).current_dir(scratch.path()));
        must(Command::new("ar").args(["crsT", "lib/libthin.a", "fat.o"]).current_dir(scratch.path()));
        Self(scratch)
    }

    /// Runs words (of which the first is in `bin/`) through the shim with a limit of 500 KB.
    fn command(&self, words: &str) -> Command {
        let mut command = shim();
        let path = format!("{}:{}", self.0.join("bin").display(), std::env::var("PATH").unwrap());
        command.args(words.split(' ')).env("PATH", path).env("DLINK_SHIM_PLACE_LIMIT", "500K").current_dir(self.0.path());
        command
    }

    /// The words that reach the program, temporary paths as `TMP`, and what the shim says.
    fn run(&self, mut command: Command) -> (String, String) {
        let _ = std::fs::remove_file(self.0.join("args"));
        let output: Output = command.output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b""[..]), "{output:?}");
        let args = std::fs::read_to_string(self.0.join("args")).unwrap();
        let shown = |word: &str| match word.find("/dlink-shim-") {
            Some(at) => {
                let start = word[..at].rfind([',', '@', 'L']).map_or(0, |p| p + 1);
                let tail = word[at + 1..].split_once('/').unwrap().1;
                format!("{}TMP/{tail}", &word[..start])
            }
            None => word.to_owned(),
        };
        (args.lines().map(shown).collect::<Vec<_>>().join(" "), String::from_utf8(output.stderr).unwrap())
    }

    fn words(&self, words: &str) -> (String, String) {
        self.run(self.command(words))
    }
}

const PLACED: &str = "-Wl,-T,TMP/0-fatbins-last.ld ";

#[test]
fn a_link_over_the_limit_gets_the_script_before_all_other_words() {
    let scene = Scene::new("GNU ld (GNU Binutils) 2.40");
    scene.0.write("all.rsp", "-shared 'fat.o'\n-o x.so");
    scene.0.write("insert.ld", "SECTIONS { .mine : { *(.mine) } } INSERT AFTER .data;");
    for words in [
        "g++ -shared fat.o -o x.so",
        "x86_64-linux-gnu-g++-12 -shared fat.o -o x.so",
        "ccache g++ -shared fat.o -o x.so",
        "env A=b g++ fat.o -o x",
        "g++ @all.rsp",
        "g++ main.o -Llib -lfat -o x",
        "g++ main.o lib/libfat.a",
        "g++ main.o lib/libthin.a",
        "g++ main.o -Wl,--start-group,lib/libfat.a,--end-group",
        "g++ main.cpp -x c++ -Xlinker fat.o",
        "g++ fat.o -Wl,-T,insert.ld",
    ] {
        if words.starts_with("ccache") {
            scene.0.executable("bin/ccache", "#!/bin/sh\nexec \"$@\"\n");
        }
        let (reached, said) = scene.words(words);
        let own = words.split_once("++-12 ").or_else(|| words.split_once("g++ ")).unwrap().1;
        assert_eq!((reached, said), (format!("{PLACED}{own}"), String::new()), "{words}");
        assert!(std::fs::read_to_string(scene.0.join("script")).unwrap().ends_with("INSERT AFTER .bss;\n"));
    }
    let (reached, _) = scene.words("ld -shared fat.o");
    assert_eq!(reached, "-T TMP/0-fatbins-last.ld -shared fat.o");
    let tmp = scene.0.join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let mut command = scene.command("g++ -shared fat.o");
    command.env("TMPDIR", &tmp);
    scene.run(command);
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0, "temporary files are gone");
}

#[test]
fn every_other_command_runs_as_it_was_given_and_nothing_is_said() {
    let scene = Scene::new("GNU ld (GNU Binutils) 2.40");
    scene.0.write("placed.ld", "SECTIONS { .nv_fatbin : { *(.nv_fatbin) } }");
    scene.0.write("open.rsp", "fat.o 'x");
    for words in [
        "g++ -c main.cpp fat.o",
        "g++ -E fat.o",
        "g++ -r fat.o -o x.o",
        "g++ -Wl,-r fat.o -o x.o",
        "ld -r fat.o -o x.o",
        "g++ plain.o -o x",
        "g++ main.o bss.o -o x",
        "g++ main.o -o x",
        "g++ main.cpp -o x",
        "g++ main.o -Llib -lnone",
        "g++ fat.o -Wl,-T,placed.ld",
        "g++ fat.o -Wl,--section-start=.nv_fatbin=0x80000000",
        "g++ fat.o -Wl,--section-order=TEXT",
        "g++ @open.rsp",
        "g++ @none.rsp fat.o",
        "g++ fat.o -Xlinker",
        "ar crs x.a fat.o",
    ] {
        let (reached, said) = scene.words(words);
        assert_eq!((reached.as_str(), said.as_str()), (words.split_once(' ').unwrap().1, ""), "{words}");
    }
    let thrice = "lib/libfat.a ./lib/../lib/libfat.a -Llib -lfat";
    let mut once = scene.command(&format!("g++ {thrice}"));
    once.env("DLINK_SHIM_PLACE_LIMIT", "1M");
    assert_eq!(scene.run(once), (thrice.to_owned(), String::new()), "an archive counts once");
    for (name, value) in
        [("DLINK_SHIM_PLACE", "never"), ("DLINK_SHIM_MODE", "off"), ("DLINK_SHIM_PLACE_LIMIT", "1M"), ("DLINK_SHIM_PLACE_LIMIT", "")]
    {
        let mut command = scene.command("g++ fat.o");
        command.env(name, value);
        assert_eq!(scene.run(command), ("fat.o".into(), String::new()), "{name}={value}");
    }
}

#[test]
fn a_shared_library_in_sight_hides_the_archive_unless_the_link_is_static() {
    let scene = Scene::new("GNU ld (GNU Binutils) 2.40");
    scene.0.write("lib/libfat.so", "");
    assert_eq!(scene.words("g++ main.o -Llib -lfat").0, "main.o -Llib -lfat");
    for words in ["-static main.o -Llib -lfat", "main.o -Llib -Wl,-Bstatic -lfat", "main.o -Llib -l:libfat.a"] {
        assert_eq!(scene.words(&format!("g++ {words}")).0, format!("{PLACED}{words}"));
    }
}

#[test]
fn always_places_every_host_link_and_no_compilation() {
    let scene = Scene::new("GNU ld (GNU Binutils) 2.40");
    let forced = |words: &str| {
        let mut command = scene.command(words);
        command.env("DLINK_SHIM_PLACE", "always");
        scene.run(command).0
    };
    assert_eq!(forced("g++ main.o"), format!("{PLACED}main.o"));
    assert_eq!(forced("g++ main.cpp -o x"), format!("{PLACED}main.cpp -o x"));
    assert_eq!(forced("g++ -c main.cpp"), "-c main.cpp");
    assert_eq!(scene.words("DLINK_SHIM_PLACE=always g++ main.o").0, format!("{PLACED}main.o"));
}

#[test]
fn each_linker_gets_the_remedy_that_works_with_it() {
    let order = "--section-order=EHDR PHDR RODATA TEXT .tdata .tbss DATA BSS __nv_relfatbin .nv_fatbin";
    let gold = |fuse| format!("-LTMP/libraries TMP/0/fat.o -Wl,TMP/1/libfat.a,-z,now -lfat -Llib main.o{fuse} -Wl,-z,norelro");
    for (says, fuse, expected) in [
        ("LLD 19.1.7 (compatible with GNU linkers)", "", format!("{PLACED}fat.o -Wl,lib/libfat.a,-z,now -lfat -Llib main.o")),
        (
            "mold 2.37 (compatible with GNU ld)",
            "",
            format!("-Wl,{order} fat.o -Wl,lib/libfat.a,-z,now -lfat -Llib main.o -Wl,-z,separate-loadable-segments,-z,norelro"),
        ),
        ("GNU gold (GNU Binutils) 1.16", "", gold("")),
        ("what", " -fuse-ld=gold", gold(" -fuse-ld=gold")),
        ("what", " -fuse-ld=bfd", format!("{PLACED}fat.o -Wl,lib/libfat.a,-z,now -lfat -Llib main.o -fuse-ld=bfd")),
    ] {
        let scene = Scene::new(says);
        let (reached, said) = scene.words(&format!("g++ fat.o -Wl,lib/libfat.a,-z,now -lfat -Llib main.o{fuse}"));
        assert_eq!((reached, said), (expected, String::new()), "{says}{fuse}");
    }
    let scene = Scene::new("what");
    assert_eq!(scene.words("ld.lld fat.o").0, "-T TMP/0-fatbins-last.ld fat.o");
}

#[test]
fn what_cannot_be_placed_is_one_warning_and_the_untouched_command() {
    let scene = Scene::new("Wild 0.5 (compatible with GNU linkers)");
    scene.0.write("full.ld", "SECTIONS { .text : { *(.text) } }");
    for (words, expected) in [
        ("g++ fat.o", "the linker is none of GNU ld, gold, lld, mold"),
        ("g++ fat.o -Wl,-T,full.ld -fuse-ld=bfd", "full.ld says itself where sections go"),
        ("g++ fat.o -T full.ld -fuse-ld=mold", "full.ld says itself"),
        ("g++ main.o lib/libthin.a -fuse-ld=gold", "a thin archive"),
    ] {
        let (reached, said) = scene.words(words);
        assert_eq!(reached, words.strip_prefix("g++ ").unwrap());
        assert!(said.starts_with("dlink-shim: warning: ") && said.contains(expected) && said.lines().count() == 1, "{words}: {said}");
    }
    let mut strict = scene.command("g++ fat.o");
    let output = strict.env("DLINK_SHIM_STRICT", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let mut odd = scene.command("g++ main.o");
    odd.env("DLINK_SHIM_PLACE", "yes");
    let (reached, said) = scene.run(odd);
    assert!(reached == "main.o" && said.contains("none of auto, always, never"), "{said}");
}

#[test]
fn report_mode_says_what_would_be_done() {
    let scene = Scene::new("GNU ld (GNU Binutils) 2.40");
    let mut command = scene.command("g++ fat.o");
    command.env("DLINK_SHIM_MODE", "report");
    let (reached, said) = scene.run(command);
    assert_eq!(reached, "fat.o");
    assert_eq!(said, "this link holds up to 0.6 MiB, 0.6 MiB of it device code: a linker script makes GNU ld put that last\n");
}
