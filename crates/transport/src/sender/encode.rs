//! Encoding of data packets into a batch: in place, where the application wrote the payload, or as
//! copies.

use super::ack_frequency::AckFrequency;
use crate::send_buffer::{Cut, Ready, SendBuffer};
use crate::wire::{Codec, DataHeader, classic, native};
use crate::{Frame, MAX_DATAGRAM, TransmitBuf};

/// Headers of consecutive data packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    /// Sequence number of the first packet, and the step to the next.
    pub(super) seq: u64,
    pub(super) span: u64,
    /// Packet number of the first packet, and the step to the next.
    pub(super) packet_number: u64,
    pub(super) number_step: u64,
    /// Payload of each packet, bytes.
    pub(super) len: u64,
    /// Index of the packet that requests an immediate ACK; [`Self::NONE`] if none does.
    pub(super) ack_now: u64,
    pub(super) frequency: AckFrequency,
    /// Bytes in flight before the first packet.
    pub(super) in_flight: u64,
}

impl Heads {
    /// Value of `ack_now` that stands for no packet.
    pub(super) const NONE: u64 = u64::MAX;

    #[inline]
    pub(super) fn nth(&self, n: u64) -> DataHeader {
        DataHeader {
            seq: self.seq + n * self.span,
            packet_number: self.packet_number + n * self.number_step,
            ack_now: self.ack_now == n,
            ack_every: self.frequency.packets_per_ack(self.in_flight + n * self.len),
        }
    }
}

/// Run of new segments of one length to encode.
pub(super) struct Segments<'a> {
    pub(super) codec: &'a Codec,
    pub(super) buffer: &'a mut SendBuffer,
    pub(super) heads: Heads,
    pub(super) cut: Cut,
    /// Number of segments, at least 1.
    pub(super) count: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Encoded {
    pub(super) count: u64,
    pub(super) full: bool,
}

impl Segments<'_> {
    /// Encodes the segments: behind the body of an ACK, in place, or as copies. In place only if
    /// `resent` is given, the number of retransmissions so far. `None` without room for the ACK.
    pub(super) fn encode(
        &mut self,
        ack: Option<&[u8]>,
        resent: Option<u64>,
        out: &mut TransmitBuf,
    ) -> Option<Encoded> {
        if let Some(ack) = ack {
            return self.encode_with_ack(ack, out);
        }
        let in_place = resent.and_then(|resent| self.encode_in_place(resent, out));
        Some(in_place.unwrap_or_else(|| self.encode_copies(out)))
    }

    /// Encodes the segments in place. `resent` is the number of retransmissions so far. `None` if
    /// the payload is not laid out for that, or if the segments are so few that copies make a
    /// better batch.
    fn encode_in_place(&mut self, resent: u64, out: &mut TransmitBuf) -> Option<Encoded> {
        let Self { codec, buffer, heads, cut, count } = self;
        let size = cut.packet_len();
        if !out.is_empty() || !out.has_room(size) {
            return None;
        }
        let most = (*count).min(out.max_segments() as u64);
        let ready = buffer.ready(*cut) as u64;
        // If these segments are copied, the next ones fit the same batch.
        let followed = ready < most || buffer.end() > cut.offset + ready * cut.mss as u64;
        let few = ready.saturating_mul(size as u64) < Frame::MIN_ZERO_COPY_BYTES as u64;
        if ready == 0 || (few && followed) {
            return None;
        }
        let count = ready.min(most);
        let packets = usize::try_from(count).ok()?;
        let (cut, heads) = (*cut, *heads);
        // The format is chosen once, so that each loop has no branch for it.
        let ready = match codec {
            Codec::Classic { .. } => buffer.send_in_place(cut, packets, resent, |number, packet| {
                classic::encode_data_header(heads.nth(number).seq, packet);
            }),
            Codec::Native(codec) => buffer.seal_in_place(cut, packets, resent, |number, packet| {
                codec.seal_data(&heads.nth(number), packet);
            }),
        };
        let Ready { frame, start } = ready?;
        out.borrow(frame, start, size, packets);
        let full = packets == out.max_segments() || (packets + 1) * size > MAX_DATAGRAM;
        Some(Encoded { count, full })
    }

    /// Copies a single segment into the batch, behind the body of an ACK (native). `None` if the
    /// batch has no room.
    fn encode_with_ack(&mut self, ack: &[u8], out: &mut TransmitBuf) -> Option<Encoded> {
        let Codec::Native(codec) = self.codec else { return None };
        let slot = out.slot(self.cut.packet_len() + ack.len())?;
        let payload = native::DATA_HEADER + ack.len()..slot.len() - native::TAG;
        self.buffer.copy_to(self.cut.offset, &mut slot[payload]);
        codec.seal_data_with_ack(&self.heads.nth(0), ack, slot);
        Some(Encoded { count: 1, full: false })
    }

    /// Copies as many segments into the batch as fit.
    fn encode_copies(&mut self, out: &mut TransmitBuf) -> Encoded {
        let (codec, heads, cut, wanted) = (self.codec, self.heads, self.cut, self.count);
        let buffer = &mut *self.buffer;
        let unready = if wanted > 1 { buffer.unready(cut) } else { None };
        let most = wanted.min(unready.unwrap_or(wanted));
        let mut count = 0;
        while count < most {
            let Some(slot) = out.slot(cut.packet_len()) else {
                return Encoded { count, full: true };
            };
            put_segment(codec, buffer, heads.nth(count), cut.offset + count * heads.len, slot);
            count += 1;
        }
        if unready == Some(count) {
            // The next segments can be sent in place, in a batch of their own.
            out.close();
        }
        Encoded { count, full: false }
    }
}

/// Writes a segment with the payload at stream offset `offset`.
pub(super) fn put_segment(
    codec: &Codec,
    buffer: &mut SendBuffer,
    head: DataHeader,
    offset: u64,
    slot: &mut [u8],
) {
    match codec {
        Codec::Classic { .. } => {
            let (header, payload) = slot.split_at_mut(classic::DATA_HEADER);
            classic::encode_data_header(head.seq, header);
            buffer.copy_to(offset, payload);
        }
        Codec::Native(codec) => {
            let payload = native::payload_of(slot);
            buffer.copy_opened(offset, payload, |packet| codec.reopen(packet, head.packet_number));
            codec.seal_data(&head, slot);
        }
    }
}
