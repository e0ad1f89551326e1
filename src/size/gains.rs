//! What would make it smaller, computed from the files.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;

use super::{FileKind, Image, Sizes, shown};
use crate::archs::Policy;
use crate::archs::gpu::Code;
use crate::mapped_file::MappedFile;

/// How many images are packed to see how far they go, and how many bytes of each.
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: usize = 1 << 20;

/// What each remedy would give. The remedies overlap: they do not add up.
#[derive(Clone, Debug, Serialize)]
pub struct Gains {
    /// Compressing what is not compressed; an estimate.
    pub compression: Compression,
    /// Leaving out architectures.
    pub culling: Culling,
    /// Images that are there more than once.
    pub duplicates: Duplicates,
    /// Bytes of relocatable copies in linked images. They are needed where the driver links at load time.
    pub relocatable: u64,
}

/// What compression would give.
#[derive(Clone, Debug, Serialize)]
pub struct Compression {
    /// Always true: from packing a sample with a fast zstd, which packs less than the toolkit's.
    pub estimate: bool,
    /// Bytes that are stored as they are.
    pub uncompressed: u64,
    /// Bytes that were packed to see.
    pub sampled: u64,
    /// What became of them, as a share.
    pub ratio: f64,
    /// Bytes less.
    pub saved: u64,
}

/// What a policy of `DLINK_SHIM_ARCHS` would give.
#[derive(Clone, Debug, Serialize)]
pub struct Culling {
    /// The policy.
    pub policy: String,
    /// Bytes less.
    pub saved: u64,
    /// The same by architecture.
    pub dropped: BTreeMap<String, u64>,
}

/// What is there more than once.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Duplicates {
    /// Bytes of all copies but the first.
    pub saved: u64,
    /// How many copies.
    pub copies: u64,
    /// The bytes of those that are in another file than the first.
    pub across_files: u64,
}

/// The bytes of images, each file mapped once.
#[derive(Default)]
struct Payloads(HashMap<Arc<Path>, Option<MappedFile>>);

impl Payloads {
    fn of(&mut self, image: &Image) -> Option<&[u8]> {
        let place = image.place.as_ref()?;
        let map = self.0.entry(place.path.clone()).or_insert_with(|| MappedFile::open(&place.path).ok()).as_ref()?;
        map.get(usize::try_from(place.range.start).ok()?..usize::try_from(place.range.end).ok()?)
    }
}

impl Gains {
    /// Computes them.
    pub fn of(sizes: &Sizes, policy: &Policy, policy_text: &str) -> Self {
        let mut payloads = Payloads::default();
        let linked = sizes.files.iter().filter(|f| f.kind == FileKind::Image);
        Self {
            compression: compression(sizes, &mut payloads),
            culling: culling(sizes, policy, policy_text),
            duplicates: duplicates(sizes, &mut payloads),
            relocatable: linked.flat_map(|f| f.images()).filter(|i| i.relocatable).map(|i| i.stored).sum(),
        }
    }

    /// One line for each that gives something.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Compression { uncompressed, sampled, ratio, saved, .. } = self.compression;
        if saved > 0 {
            lines.push(format!(
                "compression (DLINK_SHIM_COMPRESS=size): at least {} less; an estimate: {} of {} uncompressed were packed, to {:.0} %",
                shown(saved),
                shown(sampled),
                shown(uncompressed),
                ratio * 100.0
            ));
        }
        let Culling { policy, saved, dropped } = &self.culling;
        let each: Vec<String> = dropped.iter().map(|(arch, bytes)| format!("{arch} {}", shown(*bytes))).collect();
        if *saved > 0 {
            lines.push(format!("fewer architectures (DLINK_SHIM_ARCHS={policy}): {} less: {}", shown(*saved), each.join(", ")));
        }
        let Duplicates { saved, copies, across_files } = self.duplicates;
        if saved > 0 {
            lines.push(format!("duplicates: {} in {copies} copies, {} of it in other files", shown(saved), shown(across_files)));
        }
        if self.relocatable > 0 {
            lines.push(format!(
                "relocatable copies in linked images: {}; not to be dropped: the driver needs them wherever it links at load time",
                shown(self.relocatable)
            ));
        }
        lines
    }
}

fn compression(sizes: &Sizes, payloads: &mut Payloads) -> Compression {
    let plain: Vec<&Image> = sizes.images().filter(|i| i.compression == "none" && i.place.is_some() && i.stored > 0).collect();
    let uncompressed: u64 = plain.iter().map(|i| i.stored).sum();
    let (mut sampled, mut packed) = (0u64, 0u64);
    let (mut passed, mut next) = (0u64, 0u64);
    for image in plain {
        passed += image.stored;
        // The image at each of so many equally spaced bytes.
        if passed <= next {
            continue;
        }
        next = passed.max(next + uncompressed / SAMPLES);
        let Some(bytes) = payloads.of(image) else { continue };
        let bytes = &bytes[..bytes.len().min(SAMPLE_BYTES)];
        sampled += bytes.len() as u64;
        packed += compress_to_vec(bytes, CompressionLevel::Fastest).len().min(bytes.len()) as u64;
    }
    let ratio = if sampled == 0 { 1.0 } else { packed as f64 / sampled as f64 };
    Compression { estimate: true, uncompressed, sampled, ratio, saved: (uncompressed as f64 * (1.0 - ratio)) as u64 }
}

fn culling(sizes: &Sizes, policy: &Policy, policy_text: &str) -> Culling {
    let mut dropped = BTreeMap::new();
    for unit in sizes.files.iter().flat_map(|f| &f.units) {
        for relocatable in [false, true] {
            let images = || unit.images.iter().filter(|i| i.relocatable == relocatable);
            let codes: Vec<Code> = images().filter_map(|i| i.code).collect();
            let verdicts = policy.verdicts(&codes);
            let gone = |code: &Option<Code>| verdicts.iter().any(|v| Some(v.code) == *code && !v.stays());
            for image in images().filter(|i| gone(&i.code)) {
                *dropped.entry(image.arch.clone()).or_insert(0) += image.stored;
            }
        }
    }
    Culling { policy: policy_text.to_owned(), saved: dropped.values().sum(), dropped }
}

fn duplicates(sizes: &Sizes, payloads: &mut Payloads) -> Duplicates {
    // Only images of equal size, kind and architecture are worth reading.
    let key = |i: &Image| i.place.as_ref().map(|p| (p.range.end - p.range.start, i.arch.clone(), i.relocatable));
    let mut alike: HashMap<_, Vec<(usize, &Image)>> = HashMap::new();
    for (number, file) in sizes.files.iter().enumerate() {
        for image in file.images() {
            if let Some(key) = key(image) {
                alike.entry(key).or_default().push((number, image));
            }
        }
    }
    let mut found = Duplicates::default();
    for images in alike.into_values().filter(|i| i.len() > 1) {
        let mut first: HashMap<u64, usize> = HashMap::new();
        for (file, image) in images {
            let Some(bytes) = payloads.of(image) else { continue };
            let mut hash = DefaultHasher::new();
            bytes.hash(&mut hash);
            let Some(&holder) = first.get(&hash.finish()) else {
                first.insert(hash.finish(), file);
                continue;
            };
            found.saved += image.stored;
            found.copies += 1;
            found.across_files += if holder == file { 0 } else { image.stored };
        }
    }
    found
}
