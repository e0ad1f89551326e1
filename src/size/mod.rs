//! Where the bytes of device code are, how far a link is from 2 GiB, and what would make it smaller.
//!
//! The rooms: [`read`] (files to [`File`]s, headers only), [`link`] (a host link command's inputs), [`gains`] (what compression,
//! culling and dropping duplicates would give), [`text`], [`html`] (the views; JSON is the structs themselves), [`split`]
//! (a partition of objects into libraries).

pub mod gains;
pub mod html;
pub mod link;
pub mod read;
pub mod split;
pub mod text;
mod treemap;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::archs::gpu::Code;
use crate::report::names;
pub use crate::report::names::bytes as shown;

/// What 32-bit references reach: between code and data of one image must lie less.
pub const REACH: u64 = 1 << 31;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A relocatable object.
    Object,
    /// An archive.
    Archive,
    /// A shared library or a program.
    Image,
    /// Device code without host code.
    Device,
}

/// A file with device code.
#[derive(Clone, Debug, Serialize)]
pub struct File {
    /// Its path.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Bytes that it takes in an image: of an object or archive all allocated sections (an upper bound: the linker takes the
    /// members it needs), of a linked image the span of its segments.
    pub allocated: u64,
    /// Its units.
    pub units: Vec<Unit>,
}

/// The device code of an object, an archive member, or one container of a linked image.
#[derive(Clone, Debug, Serialize)]
pub struct Unit {
    /// The member, the module id, or the number of the container.
    pub name: String,
    /// Its images.
    pub images: Vec<Image>,
}

/// One image: machine code, PTX, or LTO code for one architecture.
#[derive(Clone, Debug, Serialize)]
pub struct Image {
    /// `sm_80`, `compute_90`, `lto_90a`.
    pub arch: String,
    /// `cubin`, `ptx`, `lto` or `other`.
    pub kind: &'static str,
    /// For the device linker, not for the GPU: only needed at run time where the driver links.
    pub relocatable: bool,
    /// Bytes in the file, header included. Of images that are packed together each has its share.
    pub stored: u64,
    /// Bytes when unpacked.
    pub unpacked: u64,
    /// `none`, `lz4`, `zstd` or `other`.
    pub compression: &'static str,
    /// The same as `arch` for deciding.
    #[serde(skip)]
    pub code: Option<Code>,
    /// Where its payload is; nothing for one that is packed together with others.
    #[serde(skip)]
    pub place: Option<Place>,
}

/// A place in a file.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file; another one than the archive for members of a thin one.
    pub path: Arc<Path>,
    /// The bytes.
    pub range: Range<u64>,
}

/// All that was looked at.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sizes {
    /// Files with device code, the largest first.
    pub files: Vec<File>,
    /// Allocated bytes of objects and archives together, with or without device code: one link of them all.
    pub link: u64,
    /// What could not be read, one line each.
    pub failures: Vec<String>,
}

/// Bytes of some images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// In the file.
    pub stored: u64,
    /// Unpacked.
    pub unpacked: u64,
}

impl Bytes {
    fn add(&mut self, image: &Image) {
        self.stored = self.stored.saturating_add(image.stored);
        self.unpacked = self.unpacked.saturating_add(image.unpacked);
    }
    fn of<'a>(images: impl IntoIterator<Item = &'a Image>) -> Self {
        let mut bytes = Self::default();
        images.into_iter().for_each(|i| bytes.add(i));
        bytes
    }
}

impl File {
    /// All images.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.units.iter().flat_map(|u| &u.images)
    }
    /// Their bytes.
    pub fn bytes(&self) -> Bytes {
        Bytes::of(self.images())
    }
}

impl Unit {
    /// Its source file's name where the name is a module id.
    pub fn shown_name(&self) -> String {
        names::source_of(self.name.as_bytes()).unwrap_or_else(|| self.name.clone())
    }
    /// The bytes of its images.
    pub fn bytes(&self) -> Bytes {
        Bytes::of(&self.images)
    }
}

impl Image {
    /// `sm_80`, or `sm_80, relocatable`.
    pub fn label(&self) -> String {
        if self.relocatable { format!("{}, relocatable", self.arch) } else { self.arch.clone() }
    }
}

impl Sizes {
    /// All images.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.files.iter().flat_map(File::images)
    }

    /// Bytes by architecture and kind, the largest first.
    pub fn by_label(&self) -> Vec<(String, Bytes)> {
        by_label(self.images())
    }

    /// The most that one image has: a linked one, or all objects and archives together.
    pub fn largest(&self) -> u64 {
        let images = self.files.iter().filter(|f| f.kind == FileKind::Image).map(|f| f.allocated);
        images.chain([self.link]).max().unwrap_or(0)
    }
}

fn by_label<'a>(images: impl Iterator<Item = &'a Image>) -> Vec<(String, Bytes)> {
    let mut labels: BTreeMap<String, Bytes> = BTreeMap::new();
    images.for_each(|i| labels.entry(i.label()).or_default().add(i));
    let mut labels: Vec<_> = labels.into_iter().collect();
    labels.sort_by_key(|(_, b)| std::cmp::Reverse(b.stored));
    labels
}

/// Reads `500000`, `900M`, `1.8GiB`; K, M, G are powers of 1024.
pub fn size_from_text(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size (write 1900000000, 900M or 1.8GiB)");
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(wrong);
    }
    let value = number.parse::<f64>().map_err(|_| wrong())? * (1u64 << shift) as f64;
    if (0.0..1e18).contains(&value) { Ok(value as u64) } else { Err(wrong()) }
}

fn lossy<S: serde::Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(size_from_text("1900000000"), Ok(1_900_000_000));
        assert_eq!(size_from_text("900M"), Ok(900 << 20));
        assert_eq!(size_from_text("1.5GiB"), Ok(3 << 29));
        assert_eq!(size_from_text("2kb"), Ok(2048));
        for wrong in ["", "x", "-1", "1.2.3", "5Q", "99999999999G", "nan", "inf"] {
            assert!(size_from_text(wrong).is_err(), "{wrong}");
        }
    }
}
