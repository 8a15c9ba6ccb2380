//! Arrival of DATA packets, alone or in runs.

use std::time::Instant;

use super::{Receiver, ReceiverEvent, State};
use crate::receive_buffer::Arrival;
use crate::wire::native::DataRun;
use crate::wire::{Answer, Piece};
use crate::{AckPolicy, Ecn};

impl Receiver {
    /// Same as [`Receiver::handle`] for a data packet.
    #[inline]
    pub(crate) fn handle_data(&mut self, now: Instant, piece: &Piece<'_>, ecn: Ecn, memory: u64) {
        self.stats.data += 1;
        self.stats.ce += u64::from(ecn == Ecn::Ce);
        let end = match self.state {
            State::Open { end } => end.unwrap_or(u64::MAX),
            // After the FIN, data is unexpected only in the classic format: a native sender
            // retransmits data whose ACKs were lost.
            State::Finishing { seq, .. } if piece.packet_number.is_some() => seq,
            State::Finished { seq, crc } if piece.packet_number.is_some() => {
                // One FIN-ACK answers all retransmissions of a batch.
                let answer = Answer::FinAck { ack: seq, crc };
                if self.replies.back() != Some(&answer) {
                    self.reply(answer);
                }
                return;
            }
            _ => return self.stats.unexpected += 1,
        };
        if piece.seq.saturating_add(piece.payload.len() as u64) > end {
            return self.stats.unexpected += 1;
        }
        let arrival = self.stream.insert(now, piece, ecn, memory);
        match arrival {
            Arrival { new: 1.., advanced, .. } => {
                self.stats.accepted += 1;
                self.stats.out_of_order += u64::from(advanced == 0);
                self.first_data_at.get_or_insert(now);
                self.last_data_at = Some(now);
                self.report_readable();
            }
            // Dropped, but acknowledged: the sender learns the window, and that this side lives.
            Arrival { next_refused: true, .. } => self.stats.no_memory += 1,
            Arrival { duplicate: 1.., .. } => {
                self.stats.duplicates += 1;
                self.duplicate_at = Some(now);
            }
            Arrival { no_room: 1.., .. } => return self.stats.no_memory += 1,
            _ => return self.stats.out_of_range += 1,
        }
        let is_next = arrival.advanced > 0 && self.config.ack == AckPolicy::Batch;
        if is_next && self.stream.selective.is_none() {
            self.ack_due = Some(now);
        } else {
            self.make_due_ack();
            self.answer(now);
        }
        self.finish_if_complete(now);
    }

    /// As [`Receiver::handle_data`] for each packet of a run, in one pass if all are in order.
    pub(crate) fn handle_run(&mut self, now: Instant, run: DataRun<'_>, ecn: Ecn, memory: u64) {
        let is_before_end = match self.state {
            State::Open { end } => end.is_none_or(|end| run.range().end <= end),
            _ => false,
        };
        if !is_before_end || !self.stream.append_run(now, run, ecn, memory) {
            return run.pieces().for_each(|piece| self.handle_data(now, &piece, ecn, memory));
        }
        let count = run.fields.count;
        self.stats.data += count;
        self.stats.ce += if ecn == Ecn::Ce { count } else { 0 };
        self.stats.accepted += count;
        self.first_data_at.get_or_insert(now);
        self.last_data_at = Some(now);
        self.report_readable();
        self.finish_if_complete(now);
    }

    fn report_readable(&mut self) {
        if !self.readable_sent && !self.stream.buffer.data().is_empty() {
            self.readable_sent = true;
            self.events.push_back(ReceiverEvent::Readable);
        }
    }
}
