//! Abortive end of a connection: a CLOSE, repeated while the peer goes on sending.

use super::keys::SealingKeys;
use super::streams::seal_slot;
use crate::TransmitBuf;
use crate::wire::native::CloseReason;
use crate::wire::native::{self, Close};

/// Largest number of CLOSEs that are sent after the first one, in answer to packets of the peer.
pub(super) const CLOSE_REPEATS: u32 = 3;

/// CLOSE that this side sends.
#[derive(Debug)]
pub(super) struct CloseSent {
    reason: CloseReason,
    code: u32,
    text: Box<str>,
    is_due: bool,
    /// Number of CLOSEs that may still leave.
    left: u32,
    /// Packets of the peer until the next repetition, which doubles.
    packets: u32,
    wait: u32,
}

impl CloseSent {
    /// Creates a CLOSE that leaves at once, and up to `repeats` times more.
    pub(super) fn new(reason: CloseReason, code: u32, text: &str, repeats: u32) -> Self {
        Self { reason, code, text: text.into(), is_due: true, left: repeats + 1, packets: 0, wait: 1 }
    }

    /// Ends a connection silently: the peer knows, or cannot be told.
    pub(super) fn none() -> Self {
        Self { is_due: false, left: 0, ..Self::new(CloseReason::Aborted, 0, "", 0) }
    }

    /// Handles an authentic packet that the peer sent meanwhile.
    pub(super) fn on_packet(&mut self) {
        self.packets += 1;
        if self.packets >= self.wait && self.left > 0 {
            self.packets = 0;
            self.wait *= 2;
            self.is_due = true;
        }
    }

    pub(super) fn transmit(&mut self, sealing: &mut SealingKeys, out: &mut TransmitBuf) -> bool {
        if !self.is_due {
            return false;
        }
        let Self { reason, code, ref text, .. } = *self;
        let is_sent = seal_slot(sealing, native::close_len(text), out, |header, packet| {
            native::encode_close(header, &Close { reason, code, text }, packet);
        });
        if is_sent {
            self.is_due = false;
            self.left -= 1;
        }
        is_sent
    }
}
