//! End of a transfer: its FIN, which may precede the last data (native), and its report.

use std::time::{Duration, Instant};

use super::{Receiver, ReceiverEvent, State};
use crate::Ecn;
use crate::wire::Answer;

impl Receiver {
    /// Handles the FIN of a stream that ends at `seq`. `packet_number` is that of the transmission
    /// (native). `understands_ack`: the sender accepts an ACK, not only a FIN-ACK, as an answer.
    pub(crate) fn on_fin(
        &mut self,
        now: Instant,
        seq: u64,
        packet_number: Option<u64>,
        understands_ack: bool,
        ecn: Ecn,
    ) {
        if packet_number.is_some() && self.contradicts(seq) {
            self.stats.unexpected += 1;
            self.state = State::Broken;
            return;
        }
        match (self.state, packet_number) {
            (State::Finished { seq: finished, crc }, _) if seq == finished => {
                self.reply(Answer::FinAck { ack: seq, crc });
            }
            // A retransmission, and not a duplicate that arrived with the first FIN. The answer
            // shows that the receiver is alive while the application stores.
            (State::Finishing { seq: finishing, since }, _) if seq == finishing && now > since => {
                self.fin_repeated = true;
                match packet_number {
                    Some(packet_number) => self.stream.on_control(now, packet_number, ecn, true),
                    None if understands_ack => self.reply(Answer::Ack { ack: seq, window: 0 }),
                    // The reference takes any answer as the FIN-ACK, its window as the checksum.
                    None => {}
                }
            }
            (State::Open { end }, Some(packet_number)) => {
                self.state = State::Open { end: end.or(Some(seq)) };
                self.finish_if_complete(now);
                let early = matches!(self.state, State::Open { .. });
                self.stream.on_control(now, packet_number, ecn, early);
            }
            (State::Open { .. }, None) if self.is_complete(seq) => self.finish(now, seq),
            _ => self.stats.unexpected += 1,
        }
    }

    /// True if a native FIN contradicts an earlier one of this stream, or its data.
    fn contradicts(&self, seq: u64) -> bool {
        match self.state {
            State::Open { end } => end.map_or(seq < self.rcv_nxt(), |end| end != seq),
            State::Finishing { seq: finishing, .. } => seq != finishing,
            _ => false,
        }
    }

    /// True if all data below `seq` has arrived, and none above.
    fn is_complete(&self, seq: u64) -> bool {
        seq == self.rcv_nxt() && self.stream.buffer.is_contiguous()
    }

    /// Ends the transfer if the FIN and all data have arrived.
    #[inline]
    pub(super) fn finish_if_complete(&mut self, now: Instant) {
        if let State::Open { end: Some(seq) } = self.state
            && self.is_complete(seq)
        {
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
