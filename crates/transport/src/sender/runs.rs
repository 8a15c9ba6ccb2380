//! Runs of segments: where nothing has to be decided for each of those that leave together, or that
//! one ACK covers, the books are kept once for all of them. Whatever is no such run is left to
//! `output.rs` and `input.rs`, which do the same one by one.

use std::ops::RangeInclusive;
use std::time::Instant;

use super::transmit::put_segment;
use super::{Sender, SentPacket, State};
use crate::recovery::scoreboard::Acked;
use crate::recovery::{Delivered, Recovery};
use crate::send_buffer::Cut;
use crate::send_buffer::Ready;
use crate::wire::DataHead;
use crate::{Frame, MAX_DATAGRAM, TransmitBuf, crc};

impl Sender {
    /// Encodes and accounts for as many full new segments as may leave one after the other: the
    /// usual case. Whatever it leaves over is left to `transmit_one`.
    pub(super) fn transmit_run(&mut self, now: Instant, out: &mut TransmitBuf) {
        let most = self.run_len();
        if most == 0 {
            return;
        }
        let (alone, starts) = (out.is_empty(), self.board.is_empty());
        let (count, full) = match self.lend_run(now, most, out) {
            Some(lent) => lent,
            None => self.copy_run(now, most, out),
        };
        if count == 0 {
            return;
        }
        if starts {
            self.start_flight(now);
        }
        self.note_run(now, count);
        if alone && full {
            self.batch = count * self.mss as u64;
        }
        let (rto, srtt) = (self.rtt.rto(), self.rtt.sampled());
        if starts {
            self.recovery.on_sent(now, rto, srtt, true);
        }
        if !starts || count > 1 {
            self.recovery.on_sent(now, rto, srtt, false);
        }
        self.stats.first_data_at.get_or_insert(now);
        self.stats.datagrams_sent += count;
        self.waiting.go(now);
    }

    /// How many full new segments may leave, if nothing else wants to leave and nobody wants to
    /// hear of each.
    fn run_len(&self) -> u64 {
        let busy = self.state != State::Open
            || self.observer.is_some()
            || (!self.board.is_empty() && self.board.in_flight() == 0)
            || self.prr.is_some()
            || self.next_repeat().is_some()
            || self.mtu_probe_len().is_some()
            || matches!(&self.recovery, Recovery::Engine(rules) if rules.probe_pending());
        if busy {
            return 0;
        }
        let mss = self.mss as u64;
        let written = (self.buffer.end() - self.board.next_offset()) / mss;
        let cwnd = self.cwnd.saturating_sub(self.board.in_flight()) / mss;
        let peer = self.snd_wnd.size().saturating_sub(self.board.flight_size()) / self.board.span(self.mss);
        written.min(cwnd).min(peer)
    }

    /// Lets at most so many segments leave from where they were written, as far as the pace allows;
    /// gives how many those are, and whether the batch takes no more. `None` if they lie elsewhere,
    /// or so few lie there that a copy makes the better batch.
    fn lend_run(&mut self, now: Instant, most: u64, out: &mut TransmitBuf) -> Option<(u64, bool)> {
        let cut = self.cut();
        if !out.is_empty() || !out.has_room(cut.header + cut.mss) {
            return None;
        }
        let most = most.min(out.max_segments() as u64);
        let ready = self.buffer.ready(cut) as u64;
        // Of a few that more follow, a copy makes the better batch.
        let followed = ready < most || self.buffer.end() > cut.offset + ready * cut.mss as u64;
        let few = ready.saturating_mul((cut.header + cut.mss) as u64) < Frame::MIN_ZERO_COPY_BYTES as u64;
        if ready == 0 || (few && followed) {
            return None;
        }
        let allowed = self.pacer.as_ref().map_or(most, |pacer| pacer.allows(now, cut.mss as u64, most));
        let count = ready.min(allowed);
        let Ok(packets @ 1..) = usize::try_from(count) else { return Some((0, false)) };
        let (seq, tx) = (self.board.snd_nxt(), self.sent_packets.next_tx());
        let (span, numbered) = (self.board.span(cut.mss), u64::from(self.delivery.is_some()));
        let last = self.is_last(cut.offset + count * cut.mss as u64);
        let (codec, frequency, in_flight) = (&self.codec, self.ack_frequency(), self.board.in_flight());
        let mut ack_every = 0;
        let head = |number: u64, header: &mut [u8], payload: &[u8]| {
            let asks = last && number + 1 == count;
            ack_every = frequency.every(in_flight + number * cut.mss as u64);
            let head = DataHead { seq: seq + number * span, tx: tx + number * numbered, asks, ack_every };
            let crc = codec.checks_packets().then(|| crc::hash(payload));
            codec.encode_data(head, crc.unwrap_or(0), header);
            crc
        };
        let Ready { frame, start } = self.buffer.lend(cut, packets, self.stats.retransmitted, head)?;
        self.ack_every = ack_every;
        let size = cut.header + cut.mss;
        out.borrow(frame, start, size, packets);
        Some((count, packets == out.max_segments() || (packets + 1) * size > MAX_DATAGRAM))
    }

    /// Encodes at most so many segments, as far as the pace allows and there is room; gives how
    /// many that are, and whether the room was too little.
    fn copy_run(&mut self, now: Instant, most: u64, out: &mut TransmitBuf) -> (u64, bool) {
        let cut @ Cut { offset: first, header, .. } = self.cut();
        let (mss, seq, tx) = (self.mss as u64, self.board.snd_nxt(), self.sent_packets.next_tx());
        let (span, numbered) = (self.board.span(self.mss), u64::from(self.delivery.is_some()));
        let (frequency, in_flight) = (self.ack_frequency(), self.board.in_flight());
        let unready = self.buffer.unready(cut);
        let most = most.min(unready.unwrap_or(most));
        let most = self.pacer.as_ref().map_or(most, |pacer| pacer.allows(now, mss, most));
        let mut count = 0;
        while count < most {
            let Some(slot) = out.slot(header + self.mss) else { return (count, true) };
            let offset = first + count * mss;
            let (seq, tx) = (seq + count * span, tx + count * numbered);
            self.ack_every = frequency.every(in_flight + count * mss);
            let head = DataHead { seq, tx, asks: self.is_last(offset + mss), ack_every: self.ack_every };
            let crc = put_segment(&self.codec, &mut self.buffer, head, offset, slot);
            self.buffer.sent(self.mss, crc);
            count += 1;
        }
        if unready == Some(count) {
            // What follows leaves from where it lies, in a batch of its own.
            out.close();
        }
        (count, false)
    }

    /// Accounts for so many full new segments, which left one after the other.
    fn note_run(&mut self, now: Instant, count: u64) {
        let (offset, mss, tx) = (self.board.next_offset(), self.mss as u64, self.sent_packets.next_tx());
        // A packet's payload is at most 65,499 bytes.
        let len = u32::try_from(self.mss).unwrap_or(u32::MAX);
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, count * mss);
        }
        let Some(delivery) = &mut self.delivery else {
            return self.board.push_run(now, len, count, |_| tx);
        };
        let state = delivery.on_sent(now, mss, self.board.in_flight());
        self.sent_packets.push_run(SentPacket { offset: Some(offset), state }, mss, count);
        self.board.push_run(now, len, count, |n| tx + n);
        self.congestion.on_sent(now, count * mss, self.board.in_flight(), delivery.app_limited());
    }

    /// Takes the cumulative edge of an ACK if all that it covers is one run; `None` if it is not,
    /// and nothing is done. `largest_tx` is the newest transmission that the receiver has. Then
    /// gives as well whether the path turned out to carry larger datagrams.
    pub(super) fn acknowledge_run(
        &mut self,
        now: Instant,
        ack: u64,
        largest_tx: Option<u64>,
    ) -> Option<(Acked, bool)> {
        let repairs = matches!(&self.recovery, Recovery::Engine(rules) if rules.episode().is_some());
        if self.observer.is_some() || repairs {
            return None;
        }
        let run @ (first, last) = self.board.plain_run(ack)?;
        let (txs, next_tx, srtt) = (first.tx..=last.tx, self.sent_packets.next_tx(), self.rtt.srtt());
        let packet = self.sent_packets.get(first.tx).filter(|_| self.sent_packets.has(&txs))?;
        // The edge of an ACK before may lie inside the first one.
        if packet.offset != Some(first.offset) {
            return None;
        }
        let delivery = self.delivery.as_mut()?;
        for (bytes, state) in self.sent_packets.together(txs.clone()) {
            delivery.on_delivered(now, &state, bytes);
        }
        if let Recovery::Engine(rules) = &mut self.recovery {
            // Those between tell nothing that these two do not.
            for segment in [&first, &last] {
                rules.on_delivered(&Delivered { now, segment, largest_tx, next_tx, srtt });
            }
        }
        let grown = self.try_size_of(&txs);
        Some((self.board.acknowledge_run(ack, &run), grown))
    }

    /// The transmissions arrived; true if one of them tried a larger datagram.
    fn try_size_of(&mut self, txs: &RangeInclusive<u64>) -> bool {
        let Some(mtu) = &mut self.mtu else { return false };
        let tried = mtu.probe().filter(|tx| txs.contains(tx));
        mtu.on_delivered(tried.unwrap_or(*txs.end()))
    }
}
