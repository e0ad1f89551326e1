//! Views of a plan.

pub mod json;
pub mod text;

use crate::plan::{Evidence, Need, UnitPlan, Verdict, shown_id};

/// The words for what is known of a unit's registrar.
fn evidence(evidence: &Evidence) -> String {
    match evidence {
        Evidence::PlainObject => "plain object".into(),
        Evidence::DeviceOnly => "device-only".into(),
        Evidence::StubIn(path) => format!("stub in {}", path.display()),
        Evidence::FullMember => "full archive member".into(),
    }
}

/// One word for a unit's verdict.
fn verdict(unit: &UnitPlan) -> &'static str {
    match unit.verdict {
        Verdict::Own => "own",
        Verdict::Strip => "strip",
        Verdict::Needed(_) => "needed",
        Verdict::Leave => "leave",
        Verdict::Excluded => "excluded",
    }
}

/// Why, where the verdict alone does not say it.
fn reason(unit: &UnitPlan) -> Option<String> {
    match &unit.verdict {
        Verdict::Needed(Need::Symbol { by, symbol }) => Some(format!("{} needs `{}`", shown_id(by), String::from_utf8_lossy(symbol))),
        Verdict::Needed(Need::Unknowable) => Some("what needs it can't be read".into()),
        Verdict::Excluded => Some("a stub on the line covers its id".into()),
        _ => None,
    }
}
