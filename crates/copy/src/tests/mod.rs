//! Whole copies between two tasks.

mod copies;
mod hostile;
mod policies;
mod resume;
mod support;
