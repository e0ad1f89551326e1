//! Which device code runs on which GPU.
//!
//! A cubin runs on the same major and the same or a higher minor (CUDA's documentation; nvlink 13.x takes them so). That is
//! not promised between desktop and embedded parts, nor among the latter, so each embedded part is a line of its own. PTX
//! is compiled at load time for its own architecture and every later one. Code with the suffix `a` runs on that one
//! architecture, with `f` on its family.

use std::fmt;

/// The GPUs for which the rule of minors is known to hold. 12.1 (GB10) is among them: wheels with sm_120 alone run there.
/// What is not in this list is a line of its own: embedded (5.3, 6.2, 7.2, 8.7, 8.8, 10.1, 11.0), or newer than this list.
const DESKTOP: &[u32] = &[20, 21, 30, 35, 37, 50, 52, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120, 121];
/// Embedded GPUs of the generations that are complete: no other number will come up to 9.9.
const EMBEDDED: &[u32] = &[32, 53, 62, 72, 87, 88];
/// From here on there may be GPUs that this program has not heard of.
const OPEN: u32 = 100;

/// A GPU, as 10 × major + minor (86 for 8.6, 103 for 10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpu(pub u32);

/// What a code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// `sm_N`: machine code.
    Real,
    /// `compute_N`: PTX.
    Ptx,
    /// `lto_N`: code for the device linker.
    Lto,
}

/// One code that a command generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    /// What it is.
    pub form: Form,
    /// For which GPU.
    pub gpu: Gpu,
    /// `a` or `f`.
    pub suffix: Option<u8>,
}

impl Gpu {
    /// The generation.
    pub fn major(self) -> u32 {
        self.0 / 10
    }
    /// Whether machine code of lower minors is known to run on it, and its own on higher ones.
    pub fn is_desktop(self) -> bool {
        DESKTOP.contains(&self.0)
    }
    /// Every GPU from `from` up to but without `to` that there is or may come to be.
    pub fn all_between(from: Self, to: Self) -> impl Iterator<Item = Self> {
        (from.0..to.0).filter(|n| *n >= OPEN || DESKTOP.contains(n) || EMBEDDED.contains(n)).map(Self)
    }
    /// Reads `86`, `8.6`, `sm_86` or `compute_86`.
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_")).unwrap_or(text);
        let number = match digits.split_once('.') {
            Some((major, minor)) if minor.len() == 1 => number(major)? * 10 + number(minor)?,
            Some(_) => return None,
            None => number(digits)?,
        };
        (20..1000).contains(&number).then_some(Self(number))
    }
}

/// Only digits, and not many.
fn number(text: &str) -> Option<u32> {
    (text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

impl Code {
    /// A plain one.
    pub const fn new(form: Form, gpu: u32) -> Self {
        Self { form, gpu: Gpu(gpu), suffix: None }
    }
    /// Reads `sm_86`, `compute_90a`, `lto_80`, as nvcc spells them.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (form, rest) = [("sm_", Form::Real), ("compute_", Form::Ptx), ("lto_", Form::Lto)]
            .into_iter()
            .find_map(|(prefix, form)| Some((form, text.strip_prefix(prefix)?)))?;
        let suffix = rest.bytes().last().filter(|b| matches!(b, b'a' | b'f'));
        let digits = &rest[..rest.len() - usize::from(suffix.is_some())];
        let number = number(digits).filter(|n| (10..1000).contains(n))?;
        Some(Self { form, gpu: Gpu(number), suffix })
    }
    /// Whether this machine code runs on `gpu`. Code with a suffix is asked for nothing: it stays whatever runs on it.
    pub fn runs_on(self, gpu: Gpu) -> bool {
        self.form == Form::Real
            && self.suffix.is_none()
            && (self.gpu == gpu || (self.gpu.is_desktop() && gpu.is_desktop() && self.gpu.major() == gpu.major() && self.gpu <= gpu))
    }
    /// Whether this PTX can be compiled for `gpu` at load time.
    pub fn compiles_for(self, gpu: Gpu) -> bool {
        self.form == Form::Ptx && self.suffix.is_none() && self.gpu <= gpu
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major(), self.0 % 10)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::Real => "sm",
            Form::Ptx => "compute",
            Form::Lto => "lto",
        };
        write!(f, "{form}_{}{}", self.gpu.0, self.suffix.map(char::from).map(String::from).unwrap_or_default())
    }
}
