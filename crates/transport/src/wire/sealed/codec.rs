//! Sealing of what one stream sends: DATA and FIN, which have numbers of the data space.

use std::sync::Arc;

use rdt_crypto::{PacketKey, Space};

use super::super::{DataHeader, unwrap_near};
use super::header::{TAG, peek};
use super::stream::{DATA_HEADER, encode_data_header, encode_fin_header};

/// Key and fields that all packets of one stream share in a key phase.
#[derive(Debug)]
pub(crate) struct SealedCodec {
    /// Connection ID of the receiver.
    pub(crate) connection_id: u64,
    /// Key phase of `key`.
    pub(crate) phase: u8,
    pub(crate) key: Arc<PacketKey>,
}

/// Returns the payload of a DATA packet that is not sealed.
pub(crate) fn payload_of(packet: &mut [u8]) -> &mut [u8] {
    let end = packet.len() - TAG;
    &mut packet[DATA_HEADER..end]
}

impl SealedCodec {
    /// Writes the header of a DATA packet around its payload and seals the packet in place.
    #[inline]
    pub(crate) fn seal_data(&self, data: &DataHeader, packet: &mut [u8]) {
        encode_data_header(self.connection_id, self.phase, data, false, packet);
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
    /// If another key sealed the packet, or if it was changed.
    pub(crate) fn reopen<'a>(&self, packet: &'a mut [u8], near: u64) -> &'a [u8] {
        let number = peek(packet).and_then(|header| unwrap_near(header.number, near));
        let body = number.and_then(|number| self.key.open(Space::Data, number, packet).ok());
        let body = body.expect("frames hold packets that this key sealed");
        &body[DATA_HEADER - rdt_crypto::HEADER_BYTES..]
    }
}
