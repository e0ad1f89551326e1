//! What a process inherits besides words and environment reaches nvcc as without us: signals, descriptors, limits.
//!
//! Each caller starts `nvcc`, a program that writes down how it finds itself, alone and through dlink-shim; with a command that
//! becomes nvcc (compilation) and one that waits for it (a device link with a guard).

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use support::{SHIM, Scratch, must};

/// Called as `nvcc`, it writes its state to the file `STATE`. Otherwise it takes a state (letters, then `--`) and becomes the
/// program that follows.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int state(void) {
  char line[256];
  int open_at[64], flags[64];
  for (int fd = 0; fd < 64; fd++) { open_at[fd] = fcntl(fd, F_GETFD); flags[fd] = fcntl(fd, F_GETFL); }
  FILE *out = fopen(getenv("STATE"), "w"), *status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status))
    if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigCgt", 6) || !strncmp(line, "NoNewPrivs", 10))
      fputs(line, out);
  for (int fd = 0; fd < 64; fd++)
    if (open_at[fd] != -1) fprintf(out, "descriptor %d: %d, %x\n", fd, open_at[fd], flags[fd]);
  mode_t mask = umask(0);
  fprintf(out, "umask %o, nice %d, group %d, session %d, personality %x\n", mask, getpriority(PRIO_PROCESS, 0), getpgrp(), getsid(0),
          personality(0xffffffff));
  for (int which = 0; which < RLIM_NLIMITS; which++) {
    struct rlimit limit;
    getrlimit(which, &limit);
    fprintf(out, "limit %d: %lx %lx\n", which, limit.rlim_cur, limit.rlim_max);
  }
  return fclose(out) != 0;
}

int main(int count, char **words) {
  const char *name = strrchr(words[0], '/');
  if (name && !strcmp(name, "/nvcc")) return state();
  sigset_t blocked;
  sigemptyset(&blocked);
  struct rlimit limit;
  int at = 1;
  for (; strcmp(words[at], "--"); at++) {
    int number = atoi(words[at] + 1);
    switch (words[at][0]) {
      case 'i': signal(number, SIG_IGN); break;
      case 'b': sigaddset(&blocked, number); break;
      case 'c': close(number); break;
      case 'o': dup2(1, number); break;
      case 'u': umask(number); break;
      case 'n': nice(number); break;
      case 'f': getrlimit(RLIMIT_NOFILE, &limit); limit.rlim_cur = number; setrlimit(RLIMIT_NOFILE, &limit); break;
      case 's': getrlimit(RLIMIT_STACK, &limit); limit.rlim_cur = number << 10; setrlimit(RLIMIT_STACK, &limit); break;
      case 'p': personality(ADDR_NO_RANDOMIZE); break;
      case 'w': prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); break;
      default: return 3;
    }
  }
  sigprocmask(SIG_SETMASK, &blocked, NULL);
  execv(words[at + 1], words + at + 1);
  return 4;
}
"#;

/// The callers. 1 HUP, 2 INT, 3 QUIT, 10 USR1, 13 PIPE, 14 ALRM, 15 TERM, 17 CHLD, 21 TTIN.
const CALLERS: [&[&str]; 15] = [
    &[],
    &["i13"],
    &["i17"],
    &["i13", "i17", "i1", "i2", "i3", "i15"],
    &["i10", "i14", "i21"],
    &["b13"],
    &["b1", "b2", "b3", "b15", "b10", "b17"],
    &["i13", "b13", "i17", "b17"],
    &["c0"],
    &["c1"],
    &["c2"],
    &["c0", "c1", "c2"],
    &["o3", "o9", "o40", "c0"],
    &["u23", "n5", "f48", "s900"],
    &["p", "w"],
];

/// Builds the program.
fn build(scene: &Scratch) -> PathBuf {
    let (source, call) = (scene.write("state.c", PROGRAM), scene.join("call"));
    must(Command::new("gcc").args(["-O1", "-w", "-o"]).arg(&call).arg(source));
    call
}

/// The words of a device link that gets a guard.
const LINK: &[&str] = &["-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "out.o"];

#[test]
fn what_nvcc_inherits_is_what_its_caller_has() {
    let scene = fixtures!().scene();
    let (call, nvcc) = (build(&scene), scene.join("bin/nvcc"));
    std::fs::create_dir(scene.join("bin")).unwrap();
    support::install(&call, &nvcc);
    for caller in CALLERS {
        for words in [&["-c", "x.cu"], LINK] {
            let state = |front: Option<&str>, quiet: bool| {
                let written = scene.join("state.txt");
                let _ = std::fs::remove_file(&written);
                let mut command = support::clean(Command::new(&call));
                command.args(caller).arg("--").args(front).arg(&nvcc).args(words);
                command.current_dir(scene.path()).env("STATE", &written).stdin(Stdio::null());
                if quiet {
                    // So that there is no reason to wait for nvcc: this shows that otherwise there is one.
                    command.env("DLINK_SHIM_MODE", "off");
                }
                let output = support::output(&mut command);
                assert!(output.status.success(), "{caller:?} {words:?} {front:?}: {output:?}");
                std::fs::read_to_string(written).unwrap()
            };
            let plain = state(None, false);
            assert!(plain.contains("SigIgn") && plain.contains("umask"), "{plain}");
            assert_eq!(state(Some(SHIM), false), plain, "{caller:?} {words:?}");
            assert_eq!(state(Some(SHIM), true), plain, "{caller:?} {words:?}, nothing to do");
        }
    }
}

#[test]
fn nvccs_end_is_ours_where_the_caller_ignores_its_children() {
    let scene = fixtures!().scene();
    let call = build(&scene);
    for (script, code) in [("exit 7", 7), ("exit 0", 0)] {
        let nvcc = scene.executable("other/nvcc", &format!("#!/bin/sh\n{script}\n"));
        let mut command = support::clean(Command::new(&call));
        command.args(["i17", "--", SHIM]).arg(nvcc).args(LINK).current_dir(scene.path());
        assert_eq!(support::output(&mut command).status.code(), Some(code), "{script}");
    }
}

#[test]
fn output_that_nobody_reads_does_not_keep_nvcc_from_its_work() {
    // A device link about which there is much to say, to a stderr whose reader has gone.
    let scene = fixtures!().scene();
    let (call, nvcc) = (build(&scene), scene.executable("bin/nvcc", "#!/bin/sh\necho done > ran\nexit 3\n"));
    for ignored in [&["i13"][..], &[]] {
        let _ = std::fs::remove_file(scene.join("ran"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = support::clean(Command::new(&call));
        command.args(ignored).args(["--", SHIM]).arg(&nvcc).args(LINK);
        command.current_dir(scene.path()).env("DLINK_SHIM_LOG", "trace").stdout(writer.try_clone().unwrap()).stderr(writer);
        let status = command.status().unwrap();
        assert_eq!(status.code(), Some(3), "{ignored:?}: {status:?}");
        assert!(scene.join("ran").exists());
    }
}
