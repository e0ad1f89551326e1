//! Compressed device code: the flag that this toolkit takes.
//!
//! Tried on 11.8, 12.4, 13.0 and 13.5: `-Xfatbin=-compress-all` is taken by all, at both steps; `--compress-mode=size`, which
//! makes smaller code, by 13.0 and 13.5 and refused by the older two. By default machine code of whole-program compilations and of
//! device links is not compressed at all.

use crate::nvcc::CommandLine;
use crate::nvcc::command_line::ItemKind;

/// `DLINK_SHIM_COMPRESS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compress {
    /// As small as the toolkit can.
    Size,
    /// Everything, in the toolkit's usual way.
    All,
}

impl Compress {
    /// Reads `size` or `all`.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "size" => Some(Self::Size),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    /// The flag, for a toolkit of this version (major, minor).
    pub fn flag(self, version: Option<(u32, u32)>) -> Option<&'static str> {
        let (major, _) = version?;
        match (self, major) {
            (_, ..11) => None,
            (Self::Size, 13..) => Some("--compress-mode=size"),
            _ => Some("-Xfatbin=-compress-all"),
        }
    }
}

/// Whether the caller has said something about compression.
pub fn is_chosen(line: &CommandLine) -> bool {
    line.items.iter().any(|item| match &item.kind {
        ItemKind::Flag(option) => option.long == "no-compress",
        ItemKind::Valued { option, values, .. } => {
            let compress = |text: &[u8]| text.windows(8).any(|w| w == b"compress");
            option.long == "compress-mode" || (option.long == "fatbin-options" && values.iter().any(|v| compress(&v.text)))
        }
        _ => false,
    })
}
