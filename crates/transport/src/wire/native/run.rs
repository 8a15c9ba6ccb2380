//! Opened DATA packets that lie one after another, as receive offload (GRO) joins them.

use std::ops::Range;

use super::super::{PacketKind, Piece};
use super::header::{Header, TAG, peek};
use super::stream::{DATA_HEADER, ack_request, has_ack};

/// Fields of consecutive DATA packets without ACKs: numbers and payloads follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunFields {
    /// Number of the first packet.
    pub(crate) packet_number: u64,
    /// Number of packets, at least 1.
    pub(crate) count: u64,
    /// Stream offset of the first payload byte.
    pub(crate) seq: u64,
    /// Payload of all packets, bytes, at least 1.
    pub(crate) len: u64,
    /// True if a packet requests an immediate ACK.
    pub(crate) ack_now: bool,
    /// Smallest number of packets per ACK that a packet requests; 0: as agreed in the handshake.
    pub(crate) ack_every: u16,
}

impl RunFields {
    /// Returns the fields of an opened packet. `None` unless it is valid DATA with payload alone.
    #[inline]
    pub(crate) fn of(header: &Header, packet_number: u64, body: &[u8]) -> Option<Self> {
        if header.kind != PacketKind::Data || has_ack(header) {
            return None;
        }
        let (seq, payload) = body.split_first_chunk()?;
        let (seq, len) = (u64::from_le_bytes(*seq), payload.len() as u64);
        if len == 0 || seq.checked_add(len).is_none() {
            return None;
        }
        let (ack_now, ack_every) = ack_request(header);
        Some(Self { packet_number, count: 1, seq, len, ack_now, ack_every })
    }

    /// Adds the next packet. Returns false without effect if it does not follow this run.
    #[inline]
    pub(crate) fn append(&mut self, next: &Self) -> bool {
        let follows = self.packet_number.checked_add(self.count) == Some(next.packet_number)
            && self.seq + self.len == next.seq
            && (self.ack_every == 0) == (next.ack_every == 0);
        if follows {
            self.count += next.count;
            self.len += next.len;
            self.ack_now |= next.ack_now;
            self.ack_every = self.ack_every.min(next.ack_every);
        }
        follows
    }
}

/// Run of DATA packets with their memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataRun<'a> {
    pub(crate) fields: RunFields,
    /// The opened packets, each `stride` bytes long; the last may be shorter.
    pub(crate) packets: &'a [u8],
    pub(crate) stride: usize,
}

impl<'a> DataRun<'a> {
    /// Returns the stream offsets of the payload.
    pub(crate) fn range(&self) -> Range<u64> {
        self.fields.seq..self.fields.seq + self.fields.len
    }

    /// Returns the length of the largest payload, bytes.
    pub(crate) fn largest_payload(&self) -> u64 {
        payload_of(&self.packets[..self.stride.min(self.packets.len())]).len() as u64
    }

    /// Returns the payload of each packet.
    pub(crate) fn payloads(self) -> impl Iterator<Item = &'a [u8]> {
        self.packets.chunks(self.stride).map(payload_of)
    }

    pub(crate) fn pieces(self) -> impl Iterator<Item = Piece<'a>> {
        let RunFields { mut seq, packet_number, .. } = self.fields;
        (packet_number..).zip(self.packets.chunks(self.stride)).map(move |(number, packet)| {
            let (payload, start) = (payload_of(packet), seq);
            seq += payload.len() as u64;
            let (ack_now, ack_every) = peek(packet).as_ref().map_or((false, 0), ack_request);
            Piece { seq: start, payload, packet_number: Some(number), ack_now, ack_every }
        })
    }
}

fn payload_of(packet: &[u8]) -> &[u8] {
    packet.get(DATA_HEADER..packet.len().saturating_sub(TAG)).unwrap_or_default()
}
