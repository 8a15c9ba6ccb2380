//! The controller as a whole: alone with made-up ACKs (`parts.rs`), and closed around a model of a bottleneck
//! (`path.rs`, `whole.rs`).

mod parts;
mod path;
mod rival;
mod whole;

use std::time::Instant;

/// Some instant to count from.
#[expect(clippy::disallowed_methods, reason = "any instant will do as the origin")]
pub(super) fn origin() -> Instant {
    Instant::now()
}
