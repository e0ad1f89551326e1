//! Looks at what is already built: which stubs wait for which units, who will call them, and what therefore never registers.
//!
//! [`files`] finds and reads images, [`image`] says what matters of one, [`scope`] what a load order leads to, [`findings`] what
//! is wrong with a set, [`kernels`] the names of what is lost.

pub mod files;
pub mod findings;
pub mod image;
pub mod kernels;
mod registrars;
pub mod scope;

pub use findings::{Finding, Kind, Note};
pub use image::{Call, Entry, Image};

/// A set of images, looked at and judged.
#[derive(Debug, Default)]
pub struct Audit {
    /// Finished images, those without device-linked code too.
    pub images: Vec<Image>,
    /// How many files were looked at.
    pub files: usize,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What is worth knowing.
    pub notes: Vec<Note>,
    /// What could not be looked at, one line each.
    pub failures: Vec<String>,
}

impl Audit {
    /// Judges what was read. `known`: the images are those of one process, in lookup order.
    ///
    /// Of several copies of one image, only one can matter: a build tree and its installation do not meet in a process.
    pub fn of(mut seen: files::Seen, known: bool) -> Self {
        let mut images: Vec<Image> = Vec::new();
        for image in seen.images.drain(..) {
            match images.iter_mut().find(|other| image.is_linked() && files::are_copies(other, &image)) {
                Some(first) => first.copies.push(image.path),
                None => images.push(image),
            }
        }
        seen.images = images;
        let (findings, notes) = findings::judge(&seen.images, known);
        Self { images: seen.images, files: seen.files, findings, notes, failures: seen.failures }
    }
}
