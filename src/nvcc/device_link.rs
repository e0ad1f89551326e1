//! What a command asks nvlink to link: is it a device link at all, which files and libraries, which directories.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::command_line::{CommandLine, ItemKind, NotUnderstood};

/// A place on the command line: one value of one item (an input is an item with the one value 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Index into [`CommandLine::items`].
    pub item: usize,
    /// Index of the value between the commas.
    pub value: usize,
}

/// How a file is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By path.
    Path(PathBuf),
    /// By `-l`.
    Library(OsString),
}

/// One mention of a file or library that reaches nvlink.
#[derive(Clone, Debug)]
pub struct Mention {
    /// What it names.
    pub named: Named,
    /// Where it stands. Two sites when `-Xnvlink -l -Xnvlink X` spells one library.
    pub sites: Vec<Site>,
    /// Whether it came through `-Xnvlink`, and so never reaches the host linker.
    pub nvlink_only: bool,
}

/// A command that runs nvlink and makes a stub.
#[derive(Clone, Debug, Default)]
pub struct DeviceLink {
    /// Everything linked, in order.
    pub mentions: Vec<Mention>,
    /// `-L` directories in order.
    pub directories: Vec<PathBuf>,
    /// Whether nvlink optimises at link time.
    pub lto: bool,
    /// Whether the same command also makes the host link (`nvcc a.o b.o -o program`, `nvcc -shared a.o -o a.so`): what
    /// leaves the device link must then still reach the host linker.
    pub implicit: bool,
}

/// Phase options under which nvcc runs no nvlink, or nvlink's result gets no stub (`-cubin`, `-fatbin`, `-r`), or the
/// output is text that build systems parse (`--dryrun`).
pub(crate) const OTHER_PHASES: &[&str] = &[
    "clean-targets",
    "compile",
    "cubin",
    "cuda",
    "device-c",
    "device-w",
    "dryrun",
    "fatbin",
    "fdevice-syntax-only",
    "generate-dependencies",
    "generate-nonsystem-dependencies",
    "help",
    "host-relocatable-link",
    "lib",
    "list-gpu-arch",
    "list-gpu-code",
    "ltoir",
    "no-device-link",
    "optix-ir",
    "preprocess",
    "ptx",
    "relocatable-link",
    "run",
    "tilebc",
    "tilecubin",
    "tilefatbin",
    "version",
];

/// Suffixes that nvcc takes for nvlink's input as they are.
const LINK_INPUTS: &[&str] = &["a", "cubin", "fatbin", "o", "obj", "ptx", "so"];
/// Suffixes of sources, which nvcc compiles first.
const SOURCES: &[&str] = &["c", "cc", "cpp", "cu", "cxx", "gpu", "i", "ii", "lto", "ltoir"];

/// Options of nvlink (11.8 to 13.5) that take the next word as their value.
const NVLINK_VALUED: &[&str] = &[
    "-Ofc",
    "-Xnvvm",
    "-Xptxas",
    "-arch",
    "-cpu-arch",
    "-ghls",
    "-kernels-used",
    "-m",
    "-maxrregcount",
    "-nvvmpath",
    "-o",
    "-split-compile",
    "-split-compile-extended",
    "-time",
    "-uidx",
    "-variables-used",
    "--arch",
    "--cpu-arch",
    "--gen-host-linker-script",
    "--kernels-used",
    "--machine",
    "--maxrregcount",
    "--nvvmpath",
    "--output-file",
    "--register-link-binaries",
    "--split-compile",
    "--time",
    "--uidx-file",
    "--variables-used",
    "--host-ccbin",
];

impl DeviceLink {
    /// Reads the device link out of a command: `Ok(None)` when the command is none.
    pub fn from_line(line: &CommandLine) -> Result<Option<Self>, NotUnderstood> {
        // Without a CUDA runtime nvcc leaves the device link out, even one that is asked for (11.8 to 13.5).
        if OTHER_PHASES.iter().any(|p| line.has(p)) || line.last_value("cudart") == Some(b"none") {
            return Ok(None);
        }
        let read = Self::read(line);
        if line.has("device-link") {
            return read.map(Some);
        }
        // Without the option it is a device link if some object on it has relocatable code, which the survey tells. What is
        // not understood here is most likely a compilation, or nvcc's own error.
        let links = |l: &Self| l.mentions.iter().any(|m| matches!(m.named, Named::Path(_))) && line.last_value("x").is_none();
        Ok(read.ok().filter(links).map(|l| Self { implicit: true, ..l }))
    }

    fn read(line: &CommandLine) -> Result<Self, NotUnderstood> {
        let forwards = ["forward-unknown-to-host-compiler", "forward-unknown-to-host-linker", "forward-unknown-opts"];
        let forwards = forwards.iter().any(|f| line.has(f));
        let mut link = Self { lto: line.has("dlink-time-opt") || line.has("lto"), ..Self::default() };
        let mut nvlink = Vec::new();
        for (item, i) in line.items.iter().enumerate() {
            match &i.kind {
                ItemKind::Unknown(word) if !forwards => return Err(NotUnderstood::UnknownOption(lossy(word))),
                ItemKind::Input(name) => link.input(name, Site { item, value: 0 })?,
                ItemKind::Valued { option, values, .. } => {
                    for (value, v) in values.iter().enumerate() {
                        let site = Site { item, value };
                        match option.long {
                            "library" if !v.text.is_empty() => link.library(&v.text, vec![site], false),
                            "library-path" if !v.text.is_empty() => link.directories.push(path(&v.text)),
                            "gpu-architecture" | "gpu-code" | "generate-code" => link.lto |= v.text.windows(4).any(|w| w == b"lto_"),
                            "nvlink-options" if !v.text.is_empty() => nvlink.push((site, v.text.as_slice())),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        link.nvlink_words(&nvlink)?;
        Ok(link)
    }

    fn input(&mut self, name: &[u8], site: Site) -> Result<(), NotUnderstood> {
        match suffix(name) {
            Some(s) if SOURCES.contains(&s) => Err(NotUnderstood::SourceInput(lossy(name))),
            Some(s) if LINK_INPUTS.contains(&s) => {
                self.mentions.push(Mention { named: Named::Path(path(name)), sites: vec![site], nvlink_only: false });
                Ok(())
            }
            // nvcc itself refuses it ("Don't know what to do with"), in its own words.
            _ => Err(NotUnderstood::Input(lossy(name))),
        }
    }

    fn library(&mut self, name: &[u8], sites: Vec<Site>, nvlink_only: bool) {
        self.mentions.push(Mention { named: Named::Library(OsString::from_vec(name.to_vec())), sites, nvlink_only });
    }

    /// `-Xnvlink` values are words of nvlink's own command line, which nvcc writes unquoted into a shell command.
    fn nvlink_words(&mut self, words: &[(Site, &[u8])]) -> Result<(), NotUnderstood> {
        let mut rest = words.iter();
        while let Some(&(site, word)) = rest.next() {
            if word.iter().any(|b| b" \t\n\"'`$\\;&|<>(){}*?[]~#,".contains(b)) {
                return Err(NotUnderstood::Other(format!("`{}` in -Xnvlink holds more than one plain word", lossy(word))));
            }
            let mut value = |attached: &[u8]| {
                if attached.is_empty() {
                    rest.next().map(|&(s, w)| (vec![site, s], w.to_vec()))
                } else {
                    Some((vec![site], attached.strip_prefix(b"=").unwrap_or(attached).to_vec()))
                }
            };
            let (library, taken) = if let Some(tail) = word.strip_prefix(b"--library-path") {
                (false, value(tail))
            } else if let Some(tail) = word.strip_prefix(b"--library") {
                (true, value(tail))
            } else if let Some(tail) = word.strip_prefix(b"-L") {
                (false, value(tail))
            } else if matches!(word, b"-lto" | b"--link-time-opt" | b"-dlto" | b"--dlto") {
                self.lto = true;
                continue;
            } else if let Some(tail) = word.strip_prefix(b"-l") {
                (true, value(tail))
            } else if word.starts_with(b"-optf") || word.starts_with(b"--options-file") {
                return Err(NotUnderstood::Other("an options file of nvlink's own".into()));
            } else if NVLINK_VALUED.iter().any(|o| o.as_bytes() == word) {
                rest.next();
                continue;
            } else if word.starts_with(b"-") {
                continue;
            } else {
                self.mentions.push(Mention { named: Named::Path(path(word)), sites: vec![site], nvlink_only: true });
                continue;
            };
            let Some((sites, text)) = taken else {
                return Err(NotUnderstood::MissingValue(lossy(word)));
            };
            if library {
                self.library(&text, sites, true);
            } else {
                self.directories.push(path(&text));
            }
        }
        Ok(())
    }
}

/// Whether nvcc would take a word for an input file by its suffix. Used to tell `NVCC=dlink-shim`'s first word from a
/// program to launch.
pub fn looks_like_input(word: &[u8]) -> bool {
    suffix(word).is_some_and(|s| SOURCES.contains(&s) || LINK_INPUTS.contains(&s))
}

fn suffix(name: &[u8]) -> Option<&str> {
    let base = name.rsplit(|&b| b == b'/').next()?;
    let dot = base.iter().rposition(|&b| b == b'.')?;
    std::str::from_utf8(&base[dot + 1..]).ok()
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
