//! The peer's RESETs: the token that proves them, and the time from which they are believed.

use std::time::{Duration, Instant};

use rdt_crypto::ResetToken;

/// Time after an OPEN-ACK for which RESETs are ignored: they answer data that overtook the OPEN.
const LATE_RESETS: Duration = Duration::from_secs(2);

/// Token of the peer's RESETs.
pub(super) struct PeerResets {
    pub(super) token: ResetToken,
    /// Time from which they are believed.
    from: Instant,
}

impl PeerResets {
    pub(super) fn new(now: Instant, token: ResetToken) -> Self {
        Self { token, from: now }
    }

    /// Returns the token that came in an OPEN-ACK.
    pub(super) fn of_opened(now: Instant, token: ResetToken) -> Self {
        Self { token, from: now + LATE_RESETS }
    }

    /// True if a RESET with this token says that the peer does not know the connection.
    pub(super) fn is_believed(&self, now: Instant, token: &ResetToken) -> bool {
        now >= self.from && self.token == *token
    }
}
