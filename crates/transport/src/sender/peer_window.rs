//! State reported by the receiver: its window (`SND.WND`) and its transport parameters; and the
//! persist timer of zero-window probes.

use std::time::Duration;

use crate::recovery::{Rtt, Scoreboard, Segment, WindowUpdate, doubled};
use crate::wire::native::Params;
use crate::wire::{Ack, Echo};

/// Upper limit of the interval of zero-window probes (RFC 6298, rule 2.5).
const MAX_PERSIST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Peer {
    /// Transport parameters of the SYN-ACK.
    pub(super) params: Option<Params>,
    pub(super) window: PeerWindow,
    persist: Persist,
    /// The receiver's count of duplicate packets.
    pub(super) duplicates: u32,
    /// Packets per ACK that the newest data packet requested; 0 stands for the number agreed in the
    /// handshake.
    pub(super) ack_every: u16,
}

/// Receive window. A reordered ACK does not change it (`SND.WL1` and `SND.WL2`; RFC 9293, section
/// 3.10.7.4).
#[derive(Debug, Default)]
pub(super) struct PeerWindow {
    /// Packets (classic) or bytes (native) from `snd_una` on.
    pub(super) size: u64,
    /// Echo (newest transmission received, and ACK delay) of the ACK that set the window. A larger
    /// packet number, or the same with a larger delay, shows a later ACK.
    set_by: Option<Echo>,
}

/// Persist timer: the interval of zero-window probes doubles with each probe that is answered with
/// a closed window (RFC 9293, section 3.8.6.1). An unanswered probe is retransmitted like any
/// segment.
#[derive(Debug, Default)]
struct Persist {
    answered: u32,
    /// Packet number of the last probe answered with a closed window.
    packet_number: Option<u64>,
}

impl PeerWindow {
    /// True if a full packet fits, which occupies `span` sequence numbers.
    pub(super) fn has_room(&self, span: u64) -> bool {
        self.size >= span
    }

    /// Adopts the window of an ACK, unless the ACK is reordered. `moved` is true if it advances
    /// `snd_una`. `next_number` is the next packet number.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, moved: bool, next_number: u64) {
        let late = |echo: Echo| {
            echo.packet_number >= next_number
                || self.set_by.is_some_and(|set_by| {
                    (echo.packet_number, echo.delay) < (set_by.packet_number, set_by.delay)
                })
        };
        if moved || !ack.echo.is_some_and(late) {
            self.size = ack.window;
            self.set_by = ack.echo;
        }
    }
}

impl Peer {
    /// Returns the receiver's idle timeout, if announced.
    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.params.map(|params| idle_timeout(&params))
    }

    /// Returns the largest datagram that the receiver accepts, bytes: the default before its
    /// parameters are known.
    pub(super) fn max_datagram(&self) -> usize {
        usize::from(self.params.unwrap_or_default().max_datagram)
    }

    /// Processes the count of duplicates in an ACK, modulo 2^32. A reordered ACK has an older
    /// count.
    pub(super) fn on_duplicates(&mut self, count: Option<u32>) {
        if let Some(count) = count.filter(|count| count.wrapping_sub(self.duplicates) <= u32::MAX / 2) {
            self.duplicates = count;
        }
    }

    /// Returns the effect of an ACK on the window; `before` is the window before this ACK. A full
    /// packet occupies `span` sequence numbers.
    pub(super) fn on_window(
        &mut self,
        ack: &Ack<'_>,
        before: u64,
        span: u64,
        board: &Scoreboard,
        rtt: &Rtt,
    ) -> WindowUpdate {
        let (has_room, was_closed) = (self.window.has_room(span), before < span);
        let persist = if has_room {
            self.persist = Persist::default();
            None
        } else {
            self.back_off(ack, board, rtt.rto())
        };
        let reopened = was_closed && has_room && was_refused(ack, board);
        WindowUpdate { has_room, was_closed, reopened, persist }
    }

    /// Doubles the interval of zero-window probes if this ACK answers one with a closed window, up
    /// to the receiver's idle timeout.
    fn back_off(&mut self, ack: &Ack<'_>, board: &Scoreboard, rto: Duration) -> Option<Duration> {
        let heard = |base: &&Segment| ack.echo.is_some_and(|echo| echo.packet_number >= base.packet_number);
        let packet_number = board.base().filter(heard).map(|base| base.packet_number)?;
        if self.persist.packet_number.replace(packet_number) == Some(packet_number) {
            return None;
        }
        let idle = idle_timeout(&self.params.unwrap_or_default());
        let interval = doubled(rto, self.persist.answered, MAX_PERSIST.min(idle / 3));
        self.persist.answered = self.persist.answered.saturating_add(1);
        Some(interval)
    }

    /// True if the timer of data is that of the next zero-window probe, and the previous probe was
    /// answered.
    pub(super) fn answered_probe(&self, board: &Scoreboard) -> bool {
        self.persist.packet_number.is_some()
            && self.persist.packet_number == board.base().map(|base| base.packet_number)
    }
}

fn idle_timeout(params: &Params) -> Duration {
    Duration::from_millis(u64::from(params.idle_timeout_ms))
}

/// True if this ACK shows that the base arrived and was refused: the ACK echoes its transmission.
/// If the base is the last segment, the echo of a later transmission (the FIN) suffices. Then the
/// base was refused or lost, and in both cases it may be retransmitted.
fn was_refused(ack: &Ack<'_>, board: &Scoreboard) -> bool {
    let last = |base: &Segment| base.end() == board.next_offset();
    let heard = |base: &Segment| {
        ack.echo.is_some_and(|echo| {
            echo.packet_number == base.packet_number || echo.packet_number > base.packet_number && last(base)
        })
    };
    board.base().is_some_and(heard)
}
