//! nvcc's options as one table: every spelling, whether a value follows, and whether commas split it.
//!
//! Source: `nvcc --help` of 11.8, 12.4, 13.0 and 13.5 (a test compares the table with each of them), and, for what the
//! help leaves out, the answers of those four to the option itself (`-Xcudafe`, `-Xfatbin`, `-Xcicc`, `-Xnvdisasm`,
//! which spellings take an attached value, and that `-MF` and `-qpp-config` take one at all).

/// How an option's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// No value; `--flag=x` is fatal in nvcc.
    Flag,
    /// One value, as the next word or after `=`.
    One,
    /// One value that nvcc splits at commas, and that may be given again.
    List,
}

/// One option of nvcc.
#[derive(Clone, Copy, Debug)]
pub struct NvccOption {
    /// The long name without its two dashes. It is also the name that the rest of the program uses.
    pub long: &'static str,
    /// The short name without its dash; empty when there is none.
    pub short: &'static str,
    /// Whether a value follows.
    pub arity: Arity,
    /// Whether the short form also takes its value attached (`-lfoo`).
    pub attached: bool,
}

impl PartialEq for NvccOption {
    fn eq(&self, other: &Self) -> bool {
        self.long == other.long
    }
}

const fn flag(long: &'static str, short: &'static str) -> NvccOption {
    NvccOption { long, short, arity: Arity::Flag, attached: false }
}
const fn one(long: &'static str, short: &'static str) -> NvccOption {
    NvccOption { long, short, arity: Arity::One, attached: false }
}
const fn one_attached(long: &'static str, short: &'static str) -> NvccOption {
    NvccOption { long, short, arity: Arity::One, attached: true }
}
const fn list(long: &'static str, short: &'static str) -> NvccOption {
    NvccOption { long, short, arity: Arity::List, attached: false }
}
const fn list_attached(long: &'static str, short: &'static str) -> NvccOption {
    NvccOption { long, short, arity: Arity::List, attached: true }
}

/// Every option, sorted by long name.
#[rustfmt::skip]
pub const OPTIONS: &[NvccOption] = &[
    one("Ofast-compile", "Ofc"),
    flag("Wconversion", "Wconversion"),
    flag("Wdefault-stream-launch", "Wdefault-stream-launch"),
    list("Werror", "Werror"),
    flag("Wext-lambda-captures-this", "Wext-lambda-captures-this"),
    flag("Wmissing-launch-bounds", "Wmissing-launch-bounds"),
    flag("Wno-deprecated-declarations", "Wno-deprecated-declarations"),
    flag("Wno-deprecated-gpu-targets", "Wno-deprecated-gpu-targets"),
    flag("Wreorder", "Wreorder"),
    flag("allow-unsupported-compiler", "allow-unsupported-compiler"),
    one("apply-controls", "apply-controls"),
    list("archive-options", "Xarchive"),
    one("archiver-binary", "arbin"),
    flag("augment-host-linker-script", "aug-hls"),
    one("brief-diagnostics", "brief-diag"),
    list("cicc-options", "Xcicc"),
    flag("clean-targets", "clean"),
    flag("compile", "c"),
    flag("compile-as-tools-patch", "astoolspatch"),
    one("compiler-bindir", "ccbin"),
    list("compiler-options", "Xcompiler"),
    one("compress-mode", "compress-mode"),
    flag("concat", "concat"),
    flag("cubin", "cubin"),
    flag("cuda", "cuda"),
    one("cudadevrt", "cudadevrt"),
    list("cudafe-options", "Xcudafe"),
    one("cudart", "cudart"),
    flag("debug", "g"),
    one("default-stream", "default-stream"),
    list_attached("define-macro", "D"),
    one("dependency-drive-prefix", "ddp"),
    one("dependency-output", "MF"),
    one("dependency-target-name", "MT"),
    flag("device-c", "dc"),
    flag("device-debug", "G"),
    one("device-entity-has-hidden-visibility", "device-entity-has-hidden-visibility"),
    flag("device-link", "dlink"),
    one("device-stack-protector", "device-stack-protector"),
    flag("device-w", "dw"),
    list("diag-error", "diag-error"),
    list("diag-suppress", "diag-suppress"),
    list("diag-warn", "diag-warn"),
    flag("disable-warnings", "w"),
    flag("display-error-number", "err-no"),
    flag("dlink-time-opt", "dlto"),
    flag("dont-use-profile", "noprof"),
    one("dopt", "dopt"),
    one("drive-prefix", "dp"),
    flag("dryrun", "dryrun"),
    flag("enable-tile", "enable-tile"),
    list("entries", "e"),
    flag("expt-extended-lambda", "expt-extended-lambda"),
    flag("expt-relaxed-constexpr", "expt-relaxed-constexpr"),
    flag("extended-lambda", "extended-lambda"),
    flag("extensible-whole-program", "ewp"),
    flag("extra-device-vectorization", "extra-device-vectorization"),
    flag("fatbin", "fatbin"),
    list("fatbin-options", "Xfatbin"),
    one("fdevice-sanitize", "fdevice-sanitize"),
    flag("fdevice-syntax-only", "fdevice-syntax-only"),
    one("fdevice-time-trace", "fdevice-time-trace"),
    one("fdevice-time-trace-granularity", "fdevice-time-trace-granularity"),
    one("fmad", "fmad"),
    one("fmax-errors", "fmax-errors"),
    flag("force-cl-env-setup", "force-cl-env-setup"),
    flag("forward-unknown-opts", "forward-unknown-opts"),
    flag("forward-unknown-to-host-compiler", "forward-unknown-to-host-compiler"),
    flag("forward-unknown-to-host-linker", "forward-unknown-to-host-linker"),
    one("frandom-seed", "frandom-seed"),
    one("ftemplate-backtrace-limit", "ftemplate-backtrace-limit"),
    one("ftemplate-depth", "ftemplate-depth"),
    one("ftz", "ftz"),
    flag("gen-opt-lto", "gen-opt-lto"),
    list("generate-code", "gencode"),
    flag("generate-dependencies", "M"),
    flag("generate-dependencies-with-compile", "MD"),
    flag("generate-dependency-targets", "MP"),
    flag("generate-line-info", "lineinfo"),
    flag("generate-nonsystem-dependencies", "MM"),
    flag("generate-nonsystem-dependencies-with-compile", "MMD"),
    one("gpu-architecture", "arch"),
    list("gpu-code", "code"),
    flag("help", "h"),
    one("host-linker-script", "hls"),
    flag("host-relocatable-link", ""),
    list_attached("include-path", "I"),
    one("input-drive-prefix", "idp"),
    flag("jobserver", "jobserver"),
    one("jump-table-density", "jtd"),
    flag("keep", "keep"),
    flag("keep-device-functions", "keep-device-functions"),
    one("keep-dir", "keep-dir"),
    flag("lib", "lib"),
    one("libdevice-directory", "ldir"),
    list_attached("library", "l"),
    list_attached("library-path", "L"),
    flag("link", "link"),
    list("linker-options", "Xlinker"),
    flag("list-gpu-arch", "arch-ls"),
    flag("list-gpu-code", "code-ls"),
    flag("lto", "lto"),
    flag("ltoir", "ltoir"),
    flag("m32", "m32"),
    flag("m64", "m64"),
    one_attached("machine", "m"),
    one("maxrregcount", "maxrregcount"),
    flag("no-align-double", ""),
    flag("no-compress", "no-compress"),
    flag("no-device-link", "nodlink"),
    flag("no-display-error-number", "no-err-no"),
    flag("no-exceptions", "noeh"),
    flag("no-host-device-initializer-list", "nohdinitlist"),
    flag("no-host-device-move-forward", "nohdmoveforward"),
    list("nvdisasm-options", "Xnvdisasm"),
    list("nvlink-options", "Xnvlink"),
    list("nvprune-options", "Xnvprune"),
    flag("objdir-as-tempdir", "objtemp"),
    list("optimization-info", "opt-info"),
    one_attached("optimize", "O"),
    list("options-file", "optf"),
    flag("optix-ir", "optix-ir"),
    one("output-directory", "odir"),
    one("output-file", "o"),
    list("pre-include", "include"),
    one("prec-div", "prec-div"),
    one("prec-sqrt", "prec-sqrt"),
    flag("preprocess", "E"),
    flag("profile", "pg"),
    flag("prune", "prune"),
    flag("ptx", "ptx"),
    list("ptxas-options", "Xptxas"),
    one("qpp-config", "qpp-config"),
    one("relocatable-device-code", "rdc"),
    flag("relocatable-link", "r"),
    flag("relocatable-ptx", "reloc-ptx"),
    flag("resource-usage", "res-usage"),
    flag("restrict", "restrict"),
    flag("run", "run"),
    list("run-args", "run-args"),
    flag("safety-compatibility", "safety-compat"),
    one("sanitize", "sanitize"),
    flag("save-temps", "save-temps"),
    flag("shared", "shared"),
    flag("simt-only", "simt-only"),
    flag("skip-ptx-semantics-check", "skip-ptx-semantics-check"),
    flag("source-in-ptx", "src-in-ptx"),
    one("split-compile", "split-compile"),
    one("split-compile-extended", "split-compile-extended"),
    one("static-global-template-stub", "static-global-template-stub"),
    one("std", "std"),
    one("stdlib", "stdlib"),
    list("system-include", "isystem"),
    one("target-directory", "target-dir"),
    one_attached("threads", "t"),
    flag("tile-only", "tile-only"),
    one("tile-preview", "tile-preview"),
    flag("tilebc", "tilebc"),
    flag("tilecubin", "tilecubin"),
    flag("tilefatbin", "tilefatbin"),
    list("tileiras-options", "Xtileiras"),
    one("time", "time"),
    list_attached("undefine-macro", "U"),
    flag("use-local-env", "use-local-env"),
    flag("use_fast_math", "use_fast_math"),
    flag("utf-8", "utf-8"),
    flag("verbose", "v"),
    flag("verbose2", "v2"),
    flag("version", "V"),
    one("version-ident", "dQ"),
    one("x", "x"),
];

/// How one word that starts with `-` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// The value, if any, is the next word.
    Separate,
    /// The value starts at this byte of the word (after `=`, or right after the short name).
    Inside(usize),
}

/// Finds the option that `word` spells, or `None` if nvcc knows no such option.
///
/// Exact names win over attached values, so `-lto` is the flag and `-lfoo` a library; names are never abbreviated
/// (`--device-li` is fatal) and a long name needs two dashes (`-library=a` is the library `ibrary=a`).
pub fn lookup(word: &[u8]) -> Option<(&'static NvccOption, Spelling)> {
    let equals = word.iter().position(|&b| b == b'=');
    let name = &word[..equals.unwrap_or(word.len())];
    let exact = match name {
        [b'-', b'-', long @ ..] => by_long(long),
        [b'-', short @ ..] if !short.is_empty() => OPTIONS.iter().find(|o| o.short.as_bytes() == short),
        _ => None,
    };
    if let Some(option) = exact {
        return match (option.arity, equals) {
            (Arity::Flag, Some(_)) => None,
            (_, Some(at)) => Some((option, Spelling::Inside(at + 1))),
            (_, None) => Some((option, Spelling::Separate)),
        };
    }
    if word.starts_with(b"--") {
        return None;
    }
    OPTIONS.iter().find(|o| o.attached && word.len() > 2 && o.short.as_bytes() == &word[1..2]).map(|o| (o, Spelling::Inside(2)))
}

fn by_long(name: &[u8]) -> Option<&'static NvccOption> {
    OPTIONS.binary_search_by(|o| o.long.as_bytes().cmp(name)).ok().map(|i| &OPTIONS[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_spelling_is_unique() {
        assert!(OPTIONS.is_sorted_by(|a, b| a.long < b.long));
        let mut shorts: Vec<_> = OPTIONS.iter().map(|o| o.short).filter(|s| !s.is_empty()).collect();
        shorts.sort_unstable();
        assert!(shorts.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn an_exact_name_wins_over_an_attached_value() {
        assert_eq!(lookup(b"-lto").unwrap().0.long, "lto");
        assert_eq!(lookup(b"-lfoo").unwrap(), (lookup(b"-l").unwrap().0, Spelling::Inside(2)));
        assert_eq!(lookup(b"-library=a").unwrap().0.long, "library");
        assert_eq!(lookup(b"-library=a").unwrap().1, Spelling::Inside(2));
        assert_eq!(lookup(b"--library=a").unwrap().1, Spelling::Inside(10));
        assert_eq!(lookup(b"-DX=1").unwrap(), (lookup(b"-D").unwrap().0, Spelling::Inside(2)));
    }

    #[test]
    fn what_nvcc_calls_fatal_is_no_option() {
        for word in ["--device-li", "-dlink=true", "--dlink-nope", "-of", "-", "--", "--m", "-Wl,x"] {
            assert!(lookup(word.as_bytes()).is_none(), "{word}");
        }
    }
}
