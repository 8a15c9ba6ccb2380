//! The receiver's window (`SND.WND`), and which ACK told of it: one that others overtook tells
//! nothing of it any more (`SND.WL1` and `SND.WL2` of RFC 9293, section 3.10.7.4). Knows no
//! segments.

use crate::planted::{self, Bug};
use crate::wire::{Ack, Echo};

/// What the receiver takes.
#[derive(Debug, Default)]
pub(super) struct PeerWindow {
    /// In the wire's numbers, from `snd_una` on.
    size: u64,
    /// What the ACK echoed that told of it. ACKs have no numbers of their own, but what they echo
    /// and for how long they waited with it says in which order they were made.
    told_with: Option<Echo>,
}

impl PeerWindow {
    /// In the wire's numbers, from `snd_una` on.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Before any ACK, this much is offered.
    pub(super) fn open(&mut self, size: u64) {
        self.size = size;
    }

    /// Takes what an ACK says that is not below `snd_una`, unless it is late; `moved` if it is
    /// above. Transmissions below `next_tx` were sent.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, moved: bool, next_tx: u64) {
        let late = |echo: Echo| {
            echo.tx >= next_tx
                || self.told_with.is_some_and(|told| (echo.tx, echo.delay) < (told.tx, told.delay))
        };
        if moved || !ack.echo.is_some_and(late) || planted::is(Bug::StaleAck) {
            self.size = ack.wnd;
            self.told_with = ack.echo;
        }
    }
}
