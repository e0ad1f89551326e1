//! `DLINK_SHIM_PLACE` and `DLINK_SHIM_PLACE_LIMIT`.

use crate::Env;

/// 1.8 GiB: what the linker adds (tables, thunks, headers) has room below the 2 GiB that its references reach.
pub const DEFAULT_LIMIT: u64 = (1 << 30) / 5 * 9;

/// When fatbins are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// When what would be linked comes near the limit.
    #[default]
    Auto,
    /// On every host link.
    Always,
    /// On none.
    Never,
}

/// The settings of this room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `DLINK_SHIM_PLACE`.
    pub when: When,
    /// `DLINK_SHIM_PLACE_LIMIT`, in bytes of allocated sections.
    pub limit: u64,
    /// A setting that could not be read, as a warning.
    pub complaint: Option<String>,
}

impl Setting {
    /// Reads the settings.
    pub fn from_env(env: &Env) -> Self {
        let text = |name: &str| env.get(name).map(|v| v.to_string_lossy().into_owned()).unwrap_or_default();
        let mut setting = Self { when: When::Auto, limit: DEFAULT_LIMIT, complaint: None };
        match text("DLINK_SHIM_PLACE").as_str() {
            "" | "auto" => {}
            "always" => setting.when = When::Always,
            "never" => setting.when = When::Never,
            other => {
                setting.complaint = Some(format!("DLINK_SHIM_PLACE is `{other}`, which is none of auto, always, never: taken as auto"));
            }
        }
        let limit = text("DLINK_SHIM_PLACE_LIMIT");
        match bytes(&limit) {
            Some(limit) => setting.limit = limit,
            None if limit.is_empty() => {}
            None => {
                let complaint =
                    format!("DLINK_SHIM_PLACE_LIMIT is `{limit}`, which is no number of bytes (`1800M`, `1.8G`): the default is used");
                setting.complaint.get_or_insert(complaint);
            }
        }
        setting
    }
}

/// A number of bytes, with K, M or G for its powers of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1u64 << 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(number) => (number, 1 << 20),
            None => text.strip_suffix(['G', 'g']).map_or((text, 1), |number| (number, 1 << 30)),
        },
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = number.parse().ok().filter(|_| plain && unit > 1)?;
    Some((number * unit as f64) as u64)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn bytes_have_suffixes_and_nothing_else() {
        for (text, expected) in [
            ("0", Some(0)),
            ("123", Some(123)),
            ("2K", Some(2048)),
            ("3m", Some(3 << 20)),
            ("1.5G", Some(3 << 29)),
            ("", None),
            ("G", None),
            ("1.5", None),
            ("-1", None),
            ("1T", None),
            ("infG", None),
            ("1e3K", None),
            ("99999999999999999999", None),
            ("99999999999G", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn words_that_are_no_setting_are_one_complaint() {
        let read = |place: &str, limit: &str| {
            Setting::from_env(&Env::new(&[("DLINK_SHIM_PLACE", place), ("DLINK_SHIM_PLACE_LIMIT", limit)], Path::new("/")))
        };
        assert_eq!(read("", ""), Setting { when: When::Auto, limit: DEFAULT_LIMIT, complaint: None });
        assert_eq!(read("always", "1K"), Setting { when: When::Always, limit: 1024, complaint: None });
        let odd = read("yes", "much");
        assert_eq!((odd.when, odd.limit), (When::Auto, DEFAULT_LIMIT));
        assert!(odd.complaint.unwrap().contains("`yes`"));
        assert!(read("never", "much").complaint.unwrap().contains("`much`"));
    }
}
