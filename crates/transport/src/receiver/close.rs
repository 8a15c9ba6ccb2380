//! End of a transfer: handles the FIN, which in the native format may precede the last data, and
//! reports the end to the application.

use std::time::{Duration, Instant};

use super::{Receiver, ReceiverEvent, State};
use crate::Ecn;
use crate::wire::{Answer, Seal};

/// End of the stream, from a FIN that arrived before the last data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) seq: u64,
    pub(super) crc: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Fin {
    pub(super) seq: u64,
    pub(super) seal: Option<Seal>,
    /// True if the sender accepts an ACK, not only a FIN-ACK, as an answer to its FIN.
    pub(super) understands_ack: bool,
}

impl Receiver {
    pub(super) fn on_fin(&mut self, now: Instant, Fin { seq, seal, understands_ack }: Fin, ecn: Ecn) {
        if self.contradicts(seq, seal) {
            self.stats.unexpected += 1;
            if matches!(self.state, State::Finishing { .. }) {
                self.events.push_back(ReceiverEvent::Contradicted);
            }
            self.state = State::Broken;
            return;
        }
        match (self.state, seal) {
            (State::Finished { seq: finished, crc }, _) if seq == finished => {
                self.reply(Answer::FinAck { ack: seq, crc });
            }
            // A retransmission, and not a duplicate that arrived with the first FIN. The answer
            // shows that the receiver is alive while the application stores.
            (State::Finishing { seq: finishing, since }, _) if seq == finishing && now > since => {
                self.fin_repeated = true;
                match seal {
                    Some(Seal { packet_number, .. }) => self.stream.on_control(now, packet_number, ecn, true),
                    None if understands_ack => self.reply(Answer::Ack { ack: seq, window: 0 }),
                    // No answer, because the reference sender treats any answer as the FIN-ACK, and
                    // its window as the checksum.
                    None => {}
                }
            }
            (State::Open { mut end }, Some(Seal { crc, packet_number })) => {
                end.get_or_insert(End { seq, crc });
                self.state = State::Open { end };
                self.finish_if_complete(now);
                let early = matches!(self.state, State::Open { .. });
                self.stream.on_control(now, packet_number, ecn, early);
            }
            (State::Open { .. }, None) if self.is_complete(seq) => self.finish(now, seq),
            _ => self.stats.unexpected += 1,
        }
    }

    /// True if a native FIN contradicts an earlier one of this transfer, or its data. Some of it is
    /// forged, and the receiver cannot know what.
    fn contradicts(&self, seq: u64, seal: Option<Seal>) -> bool {
        let Some(Seal { crc, .. }) = seal else { return false };
        match self.state {
            State::Open { end } => end.map_or(seq < self.rcv_nxt(), |end| end != End { seq, crc }),
            State::Finishing { seq: finishing, .. } => {
                seq != finishing || self.config.checksum && crc != self.stream.buffer.crc()
            }
            _ => false,
        }
    }

    /// True if all data below `seq` has arrived, and none above.
    fn is_complete(&self, seq: u64) -> bool {
        seq == self.rcv_nxt() && self.stream.buffer.is_contiguous()
    }

    /// Ends the transfer if the FIN and all data have arrived.
    pub(super) fn finish_if_complete(&mut self, now: Instant) {
        let State::Open { end: Some(End { seq, crc }) } = self.state else { return };
        if !self.is_complete(seq) {
            return;
        }
        if self.config.checksum && self.stream.buffer.crc() != crc {
            self.state = State::Broken;
        } else {
            self.finish(now, seq);
        }
    }

    fn finish(&mut self, now: Instant, seq: u64) {
        self.state = State::Finishing { seq, since: now };
        self.stream.buffer.end();
        let elapsed = match (self.first_data_at, self.last_data_at) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        };
        let (bytes, crc) = (self.stream.buffer.bytes(), self.stream.buffer.crc());
        self.events.push_back(ReceiverEvent::Finished { bytes, crc, elapsed });
    }
}
