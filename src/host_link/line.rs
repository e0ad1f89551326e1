//! What a host link command links: inputs, directories, scripts, and the words that choose the linker.
//!
//! A compiler's words are first turned into those that reach its linker; one reader then reads them, whichever program the
//! command names. Only words that name inputs matter, so a value taken for an input costs a look at a file that is no object.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::linker;
use crate::nvcc::CommandLine;
use crate::nvcc::command_line::ItemKind;
use crate::nvcc::device_link::OTHER_PHASES;

/// Where a word stands: the caller's word and a byte in it, or nvcc's item and value.
pub type Site = (usize, usize);

/// Something to link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// By path.
    Path(PathBuf, Site),
    /// By `-l`; `true` where the linker would take an archive only.
    Library(OsString, bool),
}

/// A host link as its linker reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Everything linked, in order.
    pub inputs: Vec<Input>,
    /// `-L` directories in order.
    pub directories: Vec<PathBuf>,
    /// Scripts given by `-T`.
    pub scripts: Vec<PathBuf>,
    /// Words that say where our sections go (`--section-order`, `--section-start=.nv_fatbin=…`).
    pub ordered: bool,
    /// The word of the last `-fuse-ld=` or `--ld-path=`.
    pub fuse: Option<OsString>,
    /// Words of the compiler that decide which linker it calls.
    pub deciding: Vec<OsString>,
}

/// Options of gcc and clang whose value is the next word, apart from those that reach the linker.
const DRIVER_VALUED: &[&[u8]] = &[
    b"--param",
    b"-A",
    b"-D",
    b"-G",
    b"-I",
    b"-MF",
    b"-MQ",
    b"-MT",
    b"-U",
    b"-Xanalyzer",
    b"-Xassembler",
    b"-Xclang",
    b"-Xpreprocessor",
    b"-arch",
    b"-aux-info",
    b"-b",
    b"-dumpbase",
    b"-dumpbase-ext",
    b"-dumpdir",
    b"-gcc-toolchain",
    b"-idirafter",
    b"-imacros",
    b"-imultilib",
    b"-include",
    b"-iprefix",
    b"-iquote",
    b"-isysroot",
    b"-isystem",
    b"-iwithprefix",
    b"-iwithprefixbefore",
    b"-mllvm",
    b"-o",
    b"-wrapper",
    b"-x",
];
/// Under these a compiler makes no image.
const NO_LINK: &[&[u8]] =
    &[b"-###", b"--help", b"--precompile", b"--version", b"-E", b"-M", b"-MM", b"-S", b"-c", b"-emit-ast", b"-fsyntax-only", b"-r"];
/// Options of the linkers whose value is the next word.
const LINKER_VALUED: &[&[u8]] = &[
    b"--defsym",
    b"--dynamic-linker",
    b"--dynamic-list",
    b"--entry",
    b"--format",
    b"--output",
    b"--retain-symbols-file",
    b"--section-start",
    b"--soname",
    b"--undefined",
    b"--version-script",
    b"--wrap",
    b"-F",
    b"-I",
    b"-Map",
    b"-R",
    b"-a",
    b"-b",
    b"-c",
    b"-e",
    b"-f",
    b"-fini",
    b"-h",
    b"-init",
    b"-m",
    b"-o",
    b"-plugin",
    b"-rpath",
    b"-rpath-link",
    b"-soname",
    b"-u",
    b"-y",
    b"-z",
];

type Word = (Vec<u8>, Site);

impl Line {
    /// From a compiler's words; `None` when they make no image.
    pub fn of_driver(words: &[OsString]) -> Option<Self> {
        Self::driver(&words.iter().enumerate().map(|(i, w)| (w.as_bytes().to_vec(), (i, 0))).collect::<Vec<_>>())
    }

    /// From a linker's words.
    pub fn of_linker(words: &[OsString]) -> Option<Self> {
        let mut line = Self::default();
        line.linker(&words.iter().enumerate().map(|(i, w)| (w.as_bytes().to_vec(), (i, 0))).collect::<Vec<_>>())?;
        Some(line)
    }

    /// From nvcc's words, when nvcc makes the host link too.
    pub fn of_nvcc(nvcc: &CommandLine) -> Option<Self> {
        let other = |phase: &&str| *phase != "no-device-link" && nvcc.has(phase);
        if OTHER_PHASES.iter().any(other) || nvcc.has("device-link") {
            return None;
        }
        let mut words: Vec<Word> = Vec::new();
        for (index, item) in nvcc.items.iter().enumerate() {
            match &item.kind {
                ItemKind::Input(name) => words.push((name.clone(), (index, 0))),
                ItemKind::Unknown(word) => words.push((word.clone(), (index, 0))),
                ItemKind::Flag(_) => {}
                ItemKind::Valued { option, values, .. } => {
                    for (value, v) in values.iter().enumerate() {
                        let site = (index, value);
                        let with = |prefix: &[u8]| ([prefix, &v.text].concat(), site);
                        match option.long {
                            "library" => words.push(with(b"-l")),
                            "library-path" => words.push(with(b"-L")),
                            "linker-options" => words.extend([(b"-Xlinker".to_vec(), site), with(b"")]),
                            "compiler-options" => words.push(with(b"")),
                            _ => {}
                        }
                    }
                }
            }
        }
        Self::driver(&words)
    }

    fn driver(words: &[Word]) -> Option<Self> {
        let mut line = Self::default();
        let mut linker: Vec<Word> = Vec::new();
        let mut at = 0;
        while let Some((text, site)) = words.get(at) {
            let text = text.as_slice();
            let deciding = &words[at..(at + 2).min(words.len())];
            let deciding: Vec<OsString> = deciding.iter().map(|w| OsString::from_vec(w.0.clone())).collect();
            let count = linker::decides(&deciding);
            if count > 0 {
                line.deciding.extend(deciding.into_iter().take(count));
                if let Some(word) = text.strip_prefix(b"-fuse-ld=").or_else(|| text.strip_prefix(b"--ld-path=")) {
                    line.fuse = Some(OsStr::from_bytes(word).to_owned());
                }
                at += count;
                continue;
            }
            at += 1;
            match text {
                _ if NO_LINK.contains(&text) || text.starts_with(b"-dump") || text.starts_with(b"-print-") => return None,
                b"-Xlinker" => {
                    linker.push(words.get(at)?.clone());
                    at += 1;
                }
                b"-l" | b"-L" | b"-T" | b"-e" | b"-u" | b"-z" => {
                    linker.extend([(text.to_vec(), *site), words.get(at)?.clone()]);
                    at += 1;
                }
                b"-static" | b"-static-pie" => linker.push((b"-static".to_vec(), *site)),
                _ if DRIVER_VALUED.contains(&text) => at += 1,
                _ if text.starts_with(b"-Wl,") => {
                    let mut start = 4;
                    for part in text[4..].split(|&b| b == b',') {
                        linker.push((part.to_vec(), (site.0, site.1 + start)));
                        start += part.len() + 1;
                    }
                }
                [b'-', b'l' | b'L' | b'T', ..] => linker.push((text.to_vec(), *site)),
                [b'-', ..] => {}
                _ => linker.push((text.to_vec(), *site)),
            }
        }
        line.linker(&linker)?;
        Some(line)
    }

    fn linker(&mut self, words: &[Word]) -> Option<()> {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let mut archives_only = false;
        let mut at = 0;
        while let Some((text, site)) = words.get(at) {
            let text = text.as_slice();
            at += 1;
            let prefixed = |prefixes: &[&str]| prefixes.iter().find_map(|p| text.strip_prefix(p.as_bytes()));
            match text {
                b"-r" | b"--relocatable" | b"-relocatable" | b"-i" | b"-Ur" | b"--version" | b"--help" => return None,
                b"-Bstatic" | b"--Bstatic" | b"-dn" | b"-non_shared" | b"-static" | b"--static" => archives_only = true,
                b"-Bdynamic" | b"--Bdynamic" | b"-dy" | b"-call_shared" => archives_only = false,
                b"-l" | b"--library" | b"-L" | b"--library-path" | b"-T" | b"--script" | b"-script" | b"-dT" | b"--default-script" => {
                    let value = &words.get(at)?.0;
                    at += 1;
                    match text {
                        b"-l" | b"--library" => self.inputs.push(Input::Library(OsStr::from_bytes(value).to_owned(), archives_only)),
                        b"-L" | b"--library-path" => self.directories.push(path(value)),
                        _ => self.scripts.push(path(value)),
                    }
                }
                _ if text.windows(10).any(|w| w == b".nv_fatbin") && text[0] == b'-' || text.starts_with(b"--section-order") => {
                    self.ordered = true
                }
                _ if LINKER_VALUED.contains(&text) => at += 1,
                // A response file of the linker's own: read by nobody here, so nothing is certain.
                [b'@', ..] => return None,
                [b'-', ..] => {
                    if let Some(value) = prefixed(&["-l", "--library="]) {
                        self.inputs.push(Input::Library(OsStr::from_bytes(value).to_owned(), archives_only));
                    } else if let Some(value) = prefixed(&["-L", "--library-path="]) {
                        self.directories.push(path(value));
                    } else if prefixed(&["-Ttext", "-Tdata", "-Tbss", "-Trodata", "-Tldata"]).is_some() {
                        // Addresses of sections, not scripts.
                    } else if let Some(value) = prefixed(&["-T", "--script=", "--default-script="]) {
                        self.scripts.push(path(value));
                    }
                }
                [] => {}
                _ => self.inputs.push(Input::Path(path(text), *site)),
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Env;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// Inputs with their sites, directories and scripts, as one text.
    fn shown(line: Option<Line>) -> String {
        let Some(line) = line else { return "no link".into() };
        let mut out: Vec<String> = Vec::new();
        for input in &line.inputs {
            out.push(match input {
                Input::Path(path, site) => format!("{}@{}.{}", path.display(), site.0, site.1),
                Input::Library(name, only) => format!("-l{}{}", name.display(), if *only { "!" } else { "" }),
            });
        }
        out.extend(line.directories.iter().map(|d| format!("L={}", d.display())));
        out.extend(line.scripts.iter().map(|s| format!("T={}", s.display())));
        out.extend(line.ordered.then(|| "ordered".into()));
        out.extend(line.fuse.iter().map(|f| format!("fuse={}", f.display())));
        out.extend((!line.deciding.is_empty()).then(|| format!("{:?}", line.deciding)));
        out.join(" ")
    }

    #[test]
    fn a_compilers_words_are_read_as_its_linker_gets_them() {
        for (line, expected) in [
            ("-shared a.o -o x.so b.a -lfoo -L d -Le", "a.o@1.0 b.a@4.0 -lfoo L=d L=e"),
            ("-Wl,-T,s.ld -Wl,--start-group,a.a,b.a,--end-group", "a.a@1.18 b.a@1.22 T=s.ld"),
            ("-Wl,-T -Wl,s.ld a.o", "a.o@2.0 T=s.ld"),
            ("-Xlinker -T -Xlinker s.ld -Xlinker a.o -T t.ld -Tu.ld", "a.o@5.0 T=s.ld T=t.ld T=u.ld"),
            ("-Wl,-Bstatic -lx -Wl,-Bdynamic -ly -l z", "-lx! -ly -lz"),
            ("-static a.o -lx", "a.o@1.0 -lx!"),
            ("-Wl,--section-start=.nv_fatbin=0x80000000 a.o", "a.o@1.0 ordered"),
            ("-Wl,-Ttext=0x1000 a.o -Wl,-soname,b.so,-rpath,/c.o", "a.o@1.0"),
            ("-x c++ -include b.h a.o -MF d.o", "a.o@4.0"),
            (
                "-fuse-ld=lld -B d -m64 a.o -fuse-ld=/x/ld.mold",
                "a.o@4.0 fuse=/x/ld.mold [\"-fuse-ld=lld\", \"-B\", \"d\", \"-m64\", \"-fuse-ld=/x/ld.mold\"]",
            ),
            ("-l:libx.a a.o", "-l:libx.a a.o@1.0"),
            ("-c a.cpp -o a.o", "no link"),
            ("-S a.c", "no link"),
            ("-E a.c", "no link"),
            ("-r a.o b.o", "no link"),
            ("-Wl,-r a.o", "no link"),
            ("-Wl,--relocatable a.o", "no link"),
            ("-Wl,--version", "no link"),
            ("-Wl,@x a.o", "no link"),
            ("a.o -Xlinker", "no link"),
            ("a.o -L", "no link"),
            ("-print-file-name=libc.a", "no link"),
            ("-dumpversion", "no link"),
        ] {
            assert_eq!(shown(Line::of_driver(&words(line))), expected, "{line}");
        }
    }

    #[test]
    fn a_linkers_own_words_are_read() {
        for (line, expected) in [
            ("-shared -o x.so a.o --library foo --library=bar --library-path=d -T s", "a.o@3.0 -lfoo -lbar L=d T=s"),
            ("--script=s a.o --section-order=X", "a.o@1.0 T=s ordered"),
            ("-m elf_x86_64 -z now -e f a.o -Map m.o", "a.o@6.0"),
            ("-r a.o", "no link"),
        ] {
            assert_eq!(shown(Line::of_linker(&words(line))), expected, "{line}");
        }
    }

    #[test]
    fn nvccs_host_link_is_read_from_its_own_words() {
        for (line, expected) in [
            ("-shared a.o -o x.so -lfoo,bar -LL", "a.o@1.0 -lfoo -lbar L=L"),
            ("a.o -Xlinker -T,s.ld -Xcompiler -fuse-ld=lld", "a.o@0.0 T=s.ld fuse=lld [\"-fuse-ld=lld\"]"),
            ("a.o -Xcompiler -Wl\\,-T\\,s.ld", "a.o@0.0 T=s.ld"),
            ("-nodlink a.o", "a.o@1.0"),
            ("-dlink a.o", "no link"),
            ("-c a.cu", "no link"),
            ("-dc a.cu", "no link"),
            ("-lib a.o", "no link"),
            ("-dryrun a.o", "no link"),
        ] {
            let nvcc = CommandLine::read(&words(line), &Env::new(&[], Path::new("/"))).unwrap();
            assert_eq!(shown(Line::of_nvcc(&nvcc)), expected, "{line}");
        }
    }
}
