//! Files that are sent and received: names that hostile peers suggest, files in progress, files
//! that change while they are sent.

mod checked;
mod names;
mod partial;

pub use checked::CheckedFile;
pub use names::{name_of_peer, stored_name, suggested_name};
pub use partial::{PartialFile, sweep};
