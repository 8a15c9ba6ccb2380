//! Whole copies between two tasks.

mod compression;
mod copies;
mod flights;
mod hostile;
mod modes;
mod policies;
mod races;
mod resume;
mod sources;
mod sparse;
mod special;
mod support;
