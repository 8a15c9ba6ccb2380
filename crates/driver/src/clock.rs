//! The only reading of the time in the project's libraries.

use std::time::{Duration, Instant, SystemTime};

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// The monotonic time at which the kernel stamped something with `stamp` of the system's clock (time since
/// 1970), or now if the stamp makes no sense, because that clock was set in between.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn monotonic(stamp: Duration) -> Instant {
    /// A datagram that waited longer than this in the socket's buffer is an unlikely thing.
    const LONGEST: Duration = Duration::from_secs(10);
    let now = now();
    let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    match system.checked_sub(stamp) {
        Some(age) if age <= LONGEST => now.checked_sub(age).unwrap_or(now),
        _ => now,
    }
}
