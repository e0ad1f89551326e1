//! dlink-shim reads an nvcc device-link command, looks into what it links, decides per unit, and hands nvcc a line that
//! can't starve a registration.
//!
//! The rooms, in the order in which a command passes them: [`cli`] (how we were called), [`settings`] (what we were told),
//! [`nvcc`] (the command line, losslessly), [`library_search`] and [`survey`] (which files, what is in them, by [`object`]), [`plan`] (verdicts;
//! pure), [`rewrite`] (the new line), [`launch`] (exec, or spawn and wait; [`process`] has what is passed on unchanged). On request [`archs`] leaves out and compresses device
//! code, and [`host_link`] keeps big host links clear of the 2 GiB limit.
//!
//! The other exits: [`report`] shows plans and whole builds, [`audit`] and [`inspection`] what is built, [`size`] where its bytes
//! are, [`doctor`] how dlink-shim is wired in.
#![deny(unsafe_code)]

#[forbid(unsafe_code)]
pub mod analysis;
#[forbid(unsafe_code)]
pub mod archs;
#[forbid(unsafe_code)]
pub mod audit;
#[forbid(unsafe_code)]
pub mod checked_file;
#[forbid(unsafe_code)]
pub mod cli;
#[forbid(unsafe_code)]
pub mod doctor;
#[forbid(unsafe_code)]
pub mod env;
#[forbid(unsafe_code)]
mod error;
#[forbid(unsafe_code)]
pub mod host_link;
#[forbid(unsafe_code)]
pub mod inspection;
#[forbid(unsafe_code)]
pub mod launch;
#[forbid(unsafe_code)]
pub mod library_search;
pub mod mapped_file;
#[forbid(unsafe_code)]
pub mod nvcc;
#[forbid(unsafe_code)]
pub mod object;
#[forbid(unsafe_code)]
pub mod plan;
pub mod process;
#[forbid(unsafe_code)]
pub mod report;
#[forbid(unsafe_code)]
pub mod rewrite;
#[forbid(unsafe_code)]
pub mod settings;
#[forbid(unsafe_code)]
pub mod size;
#[forbid(unsafe_code)]
pub mod span;
#[forbid(unsafe_code)]
pub mod survey;
mod without_libm;

pub use cli::run;
pub use env::Env;
pub use error::Error;
