//! Sealing of what one stream sends: DATA and FIN, which have numbers of the data space.

use std::sync::Arc;

use rdt_crypto::{PacketKey, Space};

use super::super::{DataHeader, unwrap_near};
use super::header::{PHASES, TAG, peek};
use super::stream::{DATA_HEADER, encode_data_header, encode_fin_header};

/// Key and fields that all packets of one stream share in a key phase.
#[derive(Debug)]
pub(crate) struct NativeCodec {
    /// Connection ID of the receiver.
    pub(crate) connection_id: u64,
    /// Key phase of `key`.
    pub(crate) phase: u8,
    pub(crate) key: Arc<PacketKey>,
    /// Key before the last key update, while packets that it sealed may be retransmitted.
    pub(crate) previous: Option<PreviousKey>,
}

/// Key of the phase before the present one. Packets in flight are kept sealed, so retransmission
/// opens them by the key that sealed them.
#[derive(Debug)]
pub(crate) struct PreviousKey {
    key: Arc<PacketKey>,
    /// Stream offset from which on no packet was sealed by `key`.
    end: u64,
}

/// Returns the payload of a DATA packet that is not sealed.
pub(crate) fn payload_of(packet: &mut [u8]) -> &mut [u8] {
    let end = packet.len() - TAG;
    &mut packet[DATA_HEADER..end]
}

impl NativeCodec {
    /// Returns the codec of key phase 0.
    pub(crate) fn new(connection_id: u64, key: Arc<PacketKey>) -> Self {
        Self { connection_id, phase: 0, key, previous: None }
    }

    /// Moves to the next key phase. `una` is the first stream offset that is not acknowledged,
    /// `next` the first one that was not sent. Returns false without effect while packets of the
    /// phase before the present one are unacknowledged.
    pub(crate) fn update_key(&mut self, key: Arc<PacketKey>, una: u64, next: u64) -> bool {
        if self.previous.as_ref().is_some_and(|previous| una < previous.end) {
            return false;
        }
        self.previous = Some(PreviousKey { key: std::mem::replace(&mut self.key, key), end: next });
        self.phase = self.phase.wrapping_add(1);
        true
    }

    /// Drops the earlier key once all below offset `una` is acknowledged that it sealed.
    pub(crate) fn on_acknowledged(&mut self, una: u64) {
        self.previous.take_if(|previous| una >= previous.end);
    }

    /// Writes the header of a DATA packet around its payload and seals the packet in place.
    #[inline]
    pub(crate) fn seal_data(&self, data: &DataHeader, packet: &mut [u8]) {
        encode_data_header(self.connection_id, self.phase, data, false, packet);
        self.key.seal(Space::Data, data.packet_number, packet);
    }

    /// Same as [`NativeCodec::seal_data`], with the body of an ACK before the payload.
    pub(crate) fn seal_data_with_ack(&self, data: &DataHeader, ack: &[u8], packet: &mut [u8]) {
        encode_data_header(self.connection_id, self.phase, data, true, packet);
        packet[DATA_HEADER..DATA_HEADER + ack.len()].copy_from_slice(ack);
        self.key.seal(Space::Data, data.packet_number, packet);
    }

    /// Writes and seals the FIN of a stream of `length` bytes.
    pub(crate) fn seal_fin(&self, packet_number: u64, length: u64, packet: &mut [u8]) {
        encode_fin_header(self.connection_id, self.phase, packet_number, length, false, packet);
        self.key.seal(Space::Data, packet_number, packet);
    }

    /// Opens a copy of an own DATA packet and returns its payload. Its number is unwrapped around
    /// `near`.
    ///
    /// # Panics
    /// If neither this key nor the one before sealed the packet, or if it was changed.
    pub(crate) fn reopen<'a>(&self, packet: &'a mut [u8], near: u64) -> &'a [u8] {
        let header = peek(packet);
        let is_present = header.is_none_or(|header| header.phase() == self.phase % PHASES);
        let key = match &self.previous {
            Some(previous) if !is_present => &previous.key,
            _ => &self.key,
        };
        let number = header.and_then(|header| unwrap_near(header.number, near));
        let body = number.and_then(|number| key.open(Space::Data, number, packet).ok());
        let body = body.expect("frames hold packets that this key sealed");
        &body[DATA_HEADER - rdt_crypto::HEADER_BYTES..]
    }
}
