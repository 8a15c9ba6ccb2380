//! The only reading of the time in the project's libraries.

use std::time::Instant;

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Instant {
    Instant::now()
}
