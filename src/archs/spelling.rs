//! How a command names what it generates, and the same command with less of it.
//!
//! Tried on nvcc 11.8, 12.4, 13.0 and 13.5: `-gencode` options and `-arch` add up; the last `-arch` counts and `-code` lists
//! add up; `-arch=sm_N` alone means machine code and PTX, `-arch=compute_N` alone means PTX; `-code` needs a virtual `-arch`;
//! in `-gencode` the keys may change places, and a list stands in brackets or double quotes.

use super::gpu::{Code, Form, Gpu};
use super::policy::Verdict;
use crate::nvcc::CommandLine;
use crate::nvcc::command_line::ItemKind;
use crate::rewrite::Changes;

/// Every code that a command generates, with the words that say so.
#[derive(Debug, Default)]
pub struct Spelled {
    /// `-gencode` options.
    generated: Vec<Generated>,
    /// The last `-arch`.
    arch: Option<Arch>,
    /// All `-arch` items: the earlier ones would count if the last one went.
    arch_items: Vec<usize>,
    /// All `-code` items and their codes.
    code_items: Vec<(usize, Vec<Code>)>,
}

#[derive(Debug)]
struct Generated {
    item: usize,
    arch: Vec<u8>,
    codes: Vec<Code>,
}

#[derive(Debug, PartialEq)]
enum Arch {
    /// `-arch=sm_N` or `lto_N`: the virtual architecture is of the same number.
    Own(Code),
    /// `-arch=compute_N`, whose codes `-code` may list.
    Virtual(Code),
    /// `-arch=all` or `all-major`.
    Many(Vec<Code>),
    /// `-arch=native`: what this machine has; it is the caller's wish to have just that.
    Native,
}

/// Why nothing is changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// A value that no nvcc known to us takes.
    #[error("`{0}` is not understood")]
    Value(String),
    /// An option of which it is not known whether the next word is its value.
    #[error("option `{0}` is not known")]
    Option(String),
    /// `-arch=all` of a toolkit that does not say what that is.
    #[error("nvcc does not say which architectures `{0}` stands for")]
    All(String),
}

impl Spelled {
    /// Reads a command. `architectures` says what the toolkit can generate code for.
    pub fn read(line: &CommandLine, architectures: &dyn Fn() -> Option<Vec<Gpu>>) -> Result<Self, Unproven> {
        let mut spelled = Self::default();
        let mut unknown = None;
        for (index, item) in line.items.iter().enumerate() {
            match &item.kind {
                ItemKind::Unknown(word) => unknown = unknown.or(Some(word)),
                ItemKind::Valued { option, values, .. } => match option.long {
                    "generate-code" => spelled.generated.push(generated(index, &joined(values))?),
                    "gpu-architecture" => spelled.arch(index, &joined(values), architectures)?,
                    "gpu-code" => {
                        let codes = values.iter().filter(|v| !v.text.is_empty()).map(|v| code(&v.text)).collect::<Result<_, _>>()?;
                        spelled.code_items.push((index, codes));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        let forwards = ["forward-unknown-to-host-compiler", "forward-unknown-to-host-linker", "forward-unknown-opts"];
        match unknown {
            Some(word) if !spelled.codes().is_empty() && !forwards.iter().any(|f| line.has(f)) => Err(Unproven::Option(lossy(word))),
            _ => Ok(spelled),
        }
    }

    fn arch(&mut self, item: usize, text: &[u8], architectures: &dyn Fn() -> Option<Vec<Gpu>>) -> Result<(), Unproven> {
        self.arch_items.push(item);
        self.arch = Some(match text {
            b"native" => Arch::Native,
            b"all" | b"all-major" => {
                let gpus = architectures().ok_or_else(|| Unproven::All(lossy(text)))?;
                Arch::Many(many(&gpus, text == b"all").ok_or_else(|| Unproven::All(lossy(text)))?)
            }
            _ => match code(text)? {
                c if c.form == Form::Ptx => Arch::Virtual(c),
                c => Arch::Own(c),
            },
        });
        Ok(())
    }

    /// Every code, as often as it is named.
    pub fn codes(&self) -> Vec<Code> {
        let listed = self.code_items.iter().flat_map(|(_, codes)| codes).copied();
        let mut codes: Vec<Code> = self.generated.iter().flat_map(|g| &g.codes).copied().chain(listed).collect();
        match &self.arch {
            Some(Arch::Own(code)) if code.form == Form::Real => codes.extend([*code, Code { form: Form::Ptx, ..*code }]),
            Some(Arch::Own(code)) => codes.push(*code),
            Some(Arch::Virtual(code)) if self.code_items.is_empty() => codes.push(*code),
            Some(Arch::Many(many)) => codes.extend(many),
            _ => {}
        }
        codes
    }

    /// Leaves out what does not stay.
    pub fn keep(&self, verdicts: &[Verdict], changes: &mut Changes) {
        let stays = |code: &Code| verdicts.iter().find(|v| v.code == *code).is_none_or(Verdict::stays);
        let staying = |codes: &[Code]| -> Vec<Code> { codes.iter().copied().filter(|c| stays(c)).collect() };
        for Generated { item, arch, codes } in &self.generated {
            let kept = staying(codes);
            if kept.len() != codes.len() {
                changes.values.insert(*item, (!kept.is_empty()).then(|| generate(arch, &kept)));
            }
        }
        let mut kept_codes = 0;
        for (item, codes) in &self.code_items {
            let kept = staying(codes);
            kept_codes += kept.len();
            if kept.len() != codes.len() {
                changes.values.insert(*item, (!kept.is_empty()).then(|| list(&kept)));
            }
        }
        let mut go = |words: &[Code]| {
            changes.values.extend(self.arch_items.iter().map(|&i| (i, None)));
            for code in words {
                let arch = Code { form: Form::Ptx, ..*code }.to_string();
                let value = generate(arch.as_bytes(), std::slice::from_ref(code));
                changes.added.extend(["-gencode".into(), String::from_utf8_lossy(&value).into_owned().into()]);
            }
        };
        match &self.arch {
            Some(Arch::Own(own)) if own.form == Form::Real => {
                let both = [*own, Code { form: Form::Ptx, ..*own }];
                let kept = staying(&both);
                if kept.len() != both.len() {
                    go(&kept);
                }
            }
            Some(Arch::Virtual(own)) if self.code_items.is_empty() && !stays(own) => go(&[]),
            Some(Arch::Virtual(_)) if !self.code_items.is_empty() && kept_codes == 0 => go(&[]),
            Some(Arch::Many(many)) => {
                let kept = staying(many);
                if kept.len() != many.len() {
                    go(&kept);
                }
            }
            _ => {}
        }
    }
}

/// What `all` and `all-major` stand for: machine code for every architecture, or for the lowest one and those of minor 0, and
/// PTX for the newest of minor 0.
fn many(gpus: &[Gpu], all: bool) -> Option<Vec<Code>> {
    let lowest = gpus.iter().min()?;
    let newest = gpus.iter().filter(|g| g.0.is_multiple_of(10)).max()?;
    let named = gpus.iter().filter(|g| all || g.0.is_multiple_of(10) || *g == lowest);
    let real = named.map(|g| Code::new(Form::Real, g.0));
    Some(real.chain([Code::new(Form::Ptx, newest.0)]).collect())
}

/// Reads `arch=compute_80,code=[sm_80,compute_80]`.
fn generated(item: usize, text: &[u8]) -> Result<Generated, Unproven> {
    let wrong = || Unproven::Value(lossy(text));
    let (mut arch, mut codes) = (None, None);
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let at = rest.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
        let (key, value) = (&rest[..at], &rest[at + 1..]);
        let (value, after) = match value.first() {
            Some(b'[') => enclosed(&value[1..], b']').ok_or_else(wrong)?,
            Some(b'"') => enclosed(&value[1..], b'"').ok_or_else(wrong)?,
            _ => value.split_at(value.iter().position(|&b| b == b',').unwrap_or(value.len())),
        };
        let slot = match key {
            b"arch" => &mut arch,
            b"code" => &mut codes,
            _ => return Err(wrong()),
        };
        if slot.replace(value.trim_ascii()).is_some() {
            return Err(wrong());
        }
        let after = after.trim_ascii();
        rest = match after.split_first() {
            None => after,
            Some((b',', next)) => next.trim_ascii_start(),
            Some(_) => return Err(wrong()),
        };
    }
    let (arch, codes) = arch.zip(codes).ok_or_else(wrong)?;
    if code(arch).is_ok_and(|c| c.form != Form::Ptx) || code(arch).is_err() {
        return Err(wrong());
    }
    let codes = codes.split(|&b| b == b',').map(code).collect::<Result<_, _>>()?;
    Ok(Generated { item, arch: arch.to_vec(), codes })
}

/// What comes before and after the closing byte.
fn enclosed(text: &[u8], close: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&b| b == close)?;
    Some((&text[..at], &text[at + 1..]))
}

fn code(text: &[u8]) -> Result<Code, Unproven> {
    Code::from_text(text).ok_or_else(|| Unproven::Value(lossy(text)))
}

fn joined(values: &[crate::nvcc::command_line::Value]) -> Vec<u8> {
    values.iter().map(|v| v.raw.as_slice()).collect::<Vec<_>>().join(&b',')
}

fn list(codes: &[Code]) -> Vec<u8> {
    codes.iter().map(Code::to_string).collect::<Vec<_>>().join(",").into_bytes()
}

fn generate(arch: &[u8], codes: &[Code]) -> Vec<u8> {
    let (open, close): (&[u8], &[u8]) = if codes.len() == 1 { (b"", b"") } else { (b"[", b"]") };
    [b"arch=", arch, b",code=", open, &list(codes), close].concat()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
