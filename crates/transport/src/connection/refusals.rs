//! Refusals without a proof, of the first packets of a connection: REFUSE, VERSIONS or ICMP "port
//! unreachable". Anyone could send one, so a single one is not believed.

use std::time::{Duration, Instant};

/// Packets in a row to which a refusal is the only answer before it is believed. One may be forged,
/// answer a packet that was changed on the path, or come from a program that is starting or being
/// replaced. A genuine answer arrives meanwhile.
const MAX_REFUSED: u32 = 2;
/// Least time between the first such refusal and the one that is believed.
const MIN_REFUSED_TIME: Duration = Duration::from_millis(900);

/// Refusals of the newest packets, SYNs or OPENs. Those of one packet count once, so a host that
/// forges them needs as long as packets take.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Number of refused packets.
    refused: u32,
    /// Newest of them, as a number that counts transmissions.
    newest: u32,
    /// Time of the refusal of the first of them.
    first_at: Option<Instant>,
}

impl Refusals {
    /// Forgets the refusals: the responder has answered this packet, or numbers start again.
    pub(super) fn restart(&mut self, newest: u32) {
        (self.refused, self.newest) = (0, newest);
    }

    /// Counts a refusal after `sent` transmissions. Returns true if it is believed.
    pub(super) fn on_refused(&mut self, now: Instant, sent: u32) -> bool {
        if self.refused == 0 {
            self.first_at = Some(now);
        }
        if sent > self.newest {
            self.newest = sent;
            self.refused += 1;
        }
        let has_lasted =
            self.first_at.is_some_and(|at| now.saturating_duration_since(at) >= MIN_REFUSED_TIME);
        self.refused >= MAX_REFUSED && has_lasted
    }
}
