//! Encoding of packets of data into a batch: in place, from where the application wrote them, or as
//! copies.

use super::ack_frequency::AckFrequency;
use crate::send_buffer::{Cut, Ready, SendBuffer};
use crate::wire::{Codec, DataHead};
use crate::{Frame, MAX_DATAGRAM, TransmitBuf, crc};

/// Headers of packets of data that leave one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    /// Sequence number of the first one, and the numbers that each takes.
    pub(super) seq: u64,
    pub(super) span: u64,
    /// Transmission number of the first one, and the step to the next.
    pub(super) packet_number: u64,
    pub(super) number_step: u64,
    /// Bytes of each.
    pub(super) len: u64,
    /// Index of the one that is to be acknowledged at once; [`Self::NONE`] if none is.
    pub(super) ack_now: u64,
    pub(super) frequency: AckFrequency,
    /// Bytes in flight before the first one.
    pub(super) in_flight: u64,
}

impl Heads {
    /// No index of a packet.
    pub(super) const NONE: u64 = u64::MAX;

    #[inline]
    pub(super) fn nth(&self, n: u64) -> DataHead {
        DataHead {
            seq: self.seq + n * self.span,
            packet_number: self.packet_number + n * self.number_step,
            ack_now: self.ack_now == n,
            ack_every: self.frequency.every(self.in_flight + n * self.len),
        }
    }
}

/// New segments of one length that may leave together.
pub(super) struct Segments<'a> {
    pub(super) codec: &'a Codec,
    pub(super) buffer: &'a mut SendBuffer,
    pub(super) heads: Heads,
    pub(super) cut: Cut,
    /// At least 1.
    pub(super) count: u64,
}

/// Segments that were encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoded {
    pub(super) count: u64,
    /// The batch takes no more.
    pub(super) full: bool,
}

impl Segments<'_> {
    /// Encodes them in place. `resent` is the number of retransmissions so far. `None` if they were
    /// not written so that they can leave from there, or if so few were that a copy makes the
    /// better batch.
    pub(super) fn encode_in_place(&mut self, resent: u64, out: &mut TransmitBuf) -> Option<Encoded> {
        let Self { codec, buffer, heads, cut, count } = self;
        let size = cut.header + cut.mss;
        if !out.is_empty() || !out.has_room(size) {
            return None;
        }
        let most = (*count).min(out.max_segments() as u64);
        let ready = buffer.ready(*cut) as u64;
        // Of a few that more follow, a copy makes the better batch.
        let followed = ready < most || buffer.end() > cut.offset + ready * cut.mss as u64;
        let few = ready.saturating_mul(size as u64) < Frame::MIN_ZERO_COPY_BYTES as u64;
        if ready == 0 || (few && followed) {
            return None;
        }
        let count = ready.min(most);
        let packets = usize::try_from(count).ok()?;
        let (codec, heads) = (*codec, *heads);
        let head = |number: u64, header: &mut [u8], payload: &[u8]| {
            let crc = codec.checks_packets().then(|| crc::hash(payload));
            codec.encode_data(heads.nth(number), crc.unwrap_or(0), header);
            crc
        };
        let Ready { frame, start } = buffer.send_in_place(*cut, packets, resent, head)?;
        out.borrow(frame, start, size, packets);
        let full = packets == out.max_segments() || (packets + 1) * size > MAX_DATAGRAM;
        Some(Encoded { count, full })
    }

    /// Copies as many of them into the batch as there is room for.
    pub(super) fn encode_copies(&mut self, out: &mut TransmitBuf) -> Encoded {
        let (codec, heads, cut, wanted) = (self.codec, self.heads, self.cut, self.count);
        let buffer = &mut *self.buffer;
        let unready = if wanted > 1 { buffer.unready(cut) } else { None };
        let most = wanted.min(unready.unwrap_or(wanted));
        let mut count = 0;
        while count < most {
            let Some(slot) = out.slot(cut.header + cut.mss) else {
                return Encoded { count, full: true };
            };
            let crc = put_segment(codec, buffer, heads.nth(count), cut.offset + count * heads.len, slot);
            buffer.sent(cut.mss, crc);
            count += 1;
        }
        if unready == Some(count) {
            // The segments behind these leave from where they lie, in a batch of their own.
            out.close();
        }
        Encoded { count, full: false }
    }
}

/// Writes a whole segment from `offset` of the stream; gives its payload's CRC-32, where packets
/// have a check. That is read where the payload comes from: where it goes, it may not be in the
/// cache yet.
pub(super) fn put_segment(
    codec: &Codec,
    buffer: &mut SendBuffer,
    head: DataHead,
    offset: u64,
    slot: &mut [u8],
) -> Option<u32> {
    let (header, payload) = slot.split_at_mut(codec.data_header());
    let crc = codec.checks_packets().then(|| buffer.checksum(offset, payload.len()));
    codec.encode_data(head, crc.unwrap_or(0), header);
    buffer.copy_to(offset, payload);
    crc
}
