//! ACKs that say nothing but the edge and the window, where every packet has one: written where they leave, one after the
//! other.

use super::Receiver;
use crate::TransmitBuf;
use crate::wire::{self, Answer};

impl Receiver {
    /// Writes those that [`Receiver::poll_reply`] would give next, as long as nothing else comes before them and the batch
    /// has room. Gives how many.
    pub(crate) fn fill_acks(&mut self, out: &mut TransmitBuf) -> u64 {
        // One that is due takes the place of the one before it.
        let Some(len) = self.wire.plain_ack_len().filter(|_| self.ack_due.is_none()) else { return 0 };
        let mut count = 0;
        while let Some(&Answer::Ack { ack, wnd }) = self.replies.front()
            && let Some(slot) = out.slot(len)
        {
            wire::encode_plain_ack(ack, wnd, slot);
            self.replies.pop_front();
            count += 1;
        }
        count
    }
}
