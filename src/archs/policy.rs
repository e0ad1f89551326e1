//! What may go: a policy's verdict on each code of a command. Pure.

use std::fmt;
use std::str::FromStr;

use super::gpu::{Code, Form, Gpu};

/// How to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// These, and whatever is the only code for some GPU that the command served.
    List(Vec<Gpu>),
    /// The lowest of each major: it runs on all that the others run on.
    OnePerMajor,
    /// What these GPUs need, whatever else the command served.
    Cover(Vec<Gpu>),
}

/// Why a policy could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// A word that is no GPU.
    #[error("`{0}` is no architecture (write 86 or 8.6; `one-per-major`, or `cover:` and a list, are the other choices)")]
    Word(String),
    /// Nothing in the list.
    #[error("the list is empty")]
    Empty,
}

/// What becomes of a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The code.
    pub code: Code,
    /// Whether it stays, and the reason.
    pub fate: Fate,
}

/// Stays or goes, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Stays as the policy has it.
    Kept,
    /// Stays although the policy names others.
    KeptBecause(&'static str),
    /// Goes: this machine code runs wherever it would have run.
    ServedBy(Code),
    /// Goes: every GPU that would compile it has other code.
    Redundant,
    /// Goes: none of the GPUs that must run needs it.
    NotAsked,
}

impl FromStr for Policy {
    type Err = BadPolicy;

    fn from_str(text: &str) -> Result<Self, BadPolicy> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("one-per-major") {
            return Ok(Self::OnePerMajor);
        }
        let (cover, list) = text.strip_prefix("cover:").map_or((false, text), |list| (true, list));
        let words = list.split(|c: char| matches!(c, ',' | ';') || c.is_whitespace()).filter(|w| !w.is_empty());
        let mut gpus = words.map(|w| Gpu::from_text(w).ok_or_else(|| BadPolicy::Word(w.into()))).collect::<Result<Vec<_>, _>>()?;
        gpus.sort_unstable();
        gpus.dedup();
        if gpus.is_empty() {
            return Err(BadPolicy::Empty);
        }
        Ok(if cover { Self::Cover(gpus) } else { Self::List(gpus) })
    }
}

impl Policy {
    /// The verdict on every code, in order and once each.
    ///
    /// With [`Policy::List`] and [`Policy::OnePerMajor`] every GPU that `codes` serve with machine code is still served with
    /// machine code, and every other one that can compile their PTX still can. With [`Policy::Cover`] this holds for the named GPUs.
    /// Code with a suffix and LTO code always stay.
    pub fn verdicts(&self, codes: &[Code]) -> Vec<Verdict> {
        let mut codes = codes.to_vec();
        codes.sort_unstable();
        codes.dedup();
        let mut verdicts: Vec<Verdict> = Vec::new();
        for &code in codes.iter().filter(|c| c.form == Form::Real) {
            let server = verdicts.iter().find(|v| v.stays() && v.code.runs_on(code.gpu)).map(|v| v.code);
            verdicts.push(Verdict { code, fate: self.real(code, server, &codes) });
        }
        self.ptx(&codes, &mut verdicts);
        verdicts.extend(codes.iter().filter(|c| c.form == Form::Lto).map(|&code| Verdict { code, fate: Fate::Kept }));
        verdicts
    }

    /// The fate of machine code, when all lower ones are decided; `server` is one of those that stay and runs in its place.
    fn real(&self, code: Code, server: Option<Code>, codes: &[Code]) -> Fate {
        if code.suffix.is_some() {
            return Fate::Kept;
        }
        match self {
            Self::Cover(gpus) if gpus.iter().any(|&g| best(codes, gpus, g) == Some(code)) => Fate::Kept,
            Self::Cover(_) => Fate::NotAsked,
            Self::List(gpus) if gpus.contains(&code.gpu) => Fate::Kept,
            Self::List(_) | Self::OnePerMajor => match server {
                Some(server) => Fate::ServedBy(server),
                None if matches!(self, Self::OnePerMajor) => Fate::Kept,
                None if code.gpu.is_desktop() => Fate::KeptBecause("nothing that stays runs on its GPUs"),
                None => Fate::KeptBecause("it is embedded or not known, and only its own code is sure to run there"),
            },
        }
    }

    fn ptx(&self, codes: &[Code], verdicts: &mut Vec<Verdict>) {
        let ptx: Vec<Code> = codes.iter().copied().filter(|c| c.form == Form::Ptx).collect();
        let plain: Vec<Code> = ptx.iter().copied().filter(|c| c.suffix.is_none()).collect();
        for &code in &ptx {
            let next = plain.iter().find(|p| p.gpu > code.gpu);
            let fate = match (next, self) {
                _ if code.suffix.is_some() => Fate::Kept,
                (None, _) => Fate::Kept,
                (Some(next), Self::Cover(gpus)) => {
                    // The newest PTX that a GPU can compile is what it would be given.
                    let served = |g: Gpu| verdicts.iter().any(|v| v.stays() && v.code.runs_on(g));
                    let needed = gpus.iter().any(|&g| code.compiles_for(g) && !next.compiles_for(g) && !served(g));
                    if needed { Fate::Kept } else { Fate::NotAsked }
                }
                (Some(next), _) => {
                    let kept = |g: Gpu| verdicts.iter().any(|v| v.stays() && (v.code.runs_on(g) || v.code.compiles_for(g)));
                    if Gpu::all_between(code.gpu, next.gpu).all(kept) { Fate::Redundant } else { Fate::Kept }
                }
            };
            verdicts.push(Verdict { code, fate });
        }
    }

    /// What the policy asks for and the codes can't give.
    pub fn unmet(&self, codes: &[Code]) -> Option<String> {
        let Self::Cover(gpus) = self else { return None };
        let plain = |c: &&Code| c.suffix.is_none() && c.form != Form::Lto;
        codes.iter().find(plain)?;
        let missed: Vec<String> =
            gpus.iter().filter(|&&g| !codes.iter().any(|c| c.runs_on(g) || c.compiles_for(g))).map(Gpu::to_string).collect();
        (!missed.is_empty()).then(|| format!("the command generates no code that runs on {}", missed.join(", ")))
    }
}

/// The machine code that serves `gpu`: of its generation the newest that all of the named GPUs of that generation can
/// share, so that one copy does for them.
fn best(codes: &[Code], gpus: &[Gpu], gpu: Gpu) -> Option<Code> {
    let serves = |c: &&Code, g: Gpu| c.runs_on(g);
    let has_any = |g: &Gpu| codes.iter().any(|c| c.runs_on(*g));
    let alike: Vec<Gpu> = if gpu.is_desktop() {
        gpus.iter().copied().filter(|g| g.is_desktop() && g.major() == gpu.major()).filter(has_any).collect()
    } else {
        vec![gpu]
    };
    codes.iter().filter(|c| serves(c, gpu) && alike.iter().all(|&g| serves(c, g))).max().copied()
}

impl Verdict {
    /// Whether the code stays.
    pub fn stays(&self) -> bool {
        matches!(self.fate, Fate::Kept | Fate::KeptBecause(_))
    }
    /// A line on it, where there is something to say.
    pub fn note(&self) -> Option<String> {
        let code = self.code;
        match &self.fate {
            Fate::Kept => None,
            Fate::KeptBecause(why) => Some(format!("kept {code}: {why}")),
            _ => Some(format!("dropped {code}: {}", self.fate)),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::KeptBecause(why) => f.write_str(why),
            Self::ServedBy(code) => write!(f, "{code} runs wherever it would"),
            Self::Redundant => f.write_str("every GPU that would compile it has other code"),
            Self::NotAsked => f.write_str("no GPU of the list needs it"),
        }
    }
}
