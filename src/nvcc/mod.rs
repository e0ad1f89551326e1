//! nvcc's command line and nvcc itself: the options table, lossless reading, what is a device link, where nvcc is.

pub mod command_line;
pub mod device_link;
pub mod find;
pub mod options;
pub mod words;

pub use command_line::{CommandLine, NotUnderstood};
pub use device_link::{DeviceLink, Mention, Named, Site};
