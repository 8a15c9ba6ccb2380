//! Codec of a sender for each format: writes the sender's packets, and decodes classic replies.

use super::native::{self, NativeCodec};
use super::{DataHeader, FromReceiver, LinkProperties, WireError, classic};

/// The format of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wire {
    /// Format of the reference programs: packet numbers and cumulative ACKs, in the clear, one way.
    #[default]
    Classic,
    /// Format of rdt: encrypted connections with a stream each way, byte offsets, packet numbers,
    /// selective ACKs.
    Native,
}

impl Wire {
    pub(crate) fn numbering(self) -> Numbering {
        match self {
            Self::Classic => Numbering::Packets,
            Self::Native => Numbering::Bytes,
        }
    }

    /// Returns the smallest allowed datagram size, bytes: a data packet with one byte (classic), or
    /// the shortest SYN of any version (native).
    pub(crate) fn smallest_packet(self) -> usize {
        match self {
            Self::Classic => classic::DATA_HEADER + 1,
            Self::Native => native::ANY_SYN,
        }
    }

    /// Returns the bytes of a data packet besides its payload.
    pub(crate) fn overhead(self) -> usize {
        match self {
            Self::Classic => classic::DATA_HEADER,
            Self::Native => native::DATA_HEADER + native::TAG,
        }
    }
}

/// Unit of sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// Sequence numbers count packets.
    Packets,
    /// Sequence numbers count bytes.
    Bytes,
}

/// The format of one transfer.
#[derive(Debug)]
pub(crate) enum Codec {
    Classic {
        /// Emulated link to request from the receiver.
        link: LinkProperties,
    },
    /// A connection owns the handshake, the packets of the control space and the opened replies.
    Native(NativeCodec),
}

impl Codec {
    pub(crate) fn wire(&self) -> Wire {
        match self {
            Self::Classic { .. } => Wire::Classic,
            Self::Native(_) => Wire::Native,
        }
    }

    pub(crate) fn numbering(&self) -> Numbering {
        self.wire().numbering()
    }

    /// True if transmissions are numbered and echoed (native).
    pub(crate) fn has_packet_numbers(&self) -> bool {
        self.numbering() == Numbering::Bytes
    }

    /// Returns the length of a data packet's header, bytes.
    pub(crate) fn data_header(&self) -> usize {
        self.wire().overhead() - self.data_trailer()
    }

    /// Returns the length of a data packet's trailer, bytes.
    pub(crate) fn data_trailer(&self) -> usize {
        match self {
            Self::Classic { .. } => 0,
            Self::Native(_) => native::TAG,
        }
    }

    /// Returns the length of a FIN, bytes. `again` is true for a retransmission: only that has the
    /// longer classic form, which other receivers may not accept.
    pub(crate) fn fin_len(&self, again: bool) -> usize {
        match self {
            Self::Classic { .. } if again => classic::ACK_AWARE_FIN_LEN,
            Self::Classic { .. } => classic::FIN_LEN,
            Self::Native(_) => native::FIN_LEN,
        }
    }

    pub(crate) fn keep_alive_len(&self, head: DataHeader) -> usize {
        match self {
            Self::Classic { .. } if head.seq == 0 => classic::SYN_LEN,
            Self::Classic { .. } | Self::Native(_) => self.wire().overhead(),
        }
    }

    /// Writes a SYN (classic): the connection sends the native one.
    pub(crate) fn encode_syn(&self, out: &mut [u8]) {
        match self {
            Self::Classic { link } => classic::encode_syn(0, link, out),
            Self::Native(_) => debug_assert!(false, "the connection sends the SYN"),
        }
    }

    /// Writes a keep-alive, which a receiver answers and does not deliver; `seq` is `snd_una`.
    /// Classic: an empty copy of the last packet acknowledged or, before the first one, the SYN.
    pub(crate) fn encode_keep_alive(&self, head: DataHeader, out: &mut [u8]) {
        match self {
            Self::Classic { .. } => match head.seq.checked_sub(1) {
                Some(seq) => classic::encode_data_header(seq, out),
                None => self.encode_syn(out),
            },
            Self::Native(codec) => codec.seal_data(&head, out),
        }
    }

    /// Writes the FIN of a stream; `seq` is `snd_nxt`.
    pub(crate) fn encode_fin(&self, head: DataHeader, out: &mut [u8]) {
        match self {
            Self::Classic { .. } => classic::encode_fin(head.seq, out),
            Self::Native(codec) => codec.seal_fin(head.packet_number, head.seq, out),
        }
    }

    /// Handles an ACK of everything below stream offset `una`.
    pub(crate) fn on_acknowledged(&mut self, una: u64) {
        if let Self::Native(codec) = self {
            codec.on_acknowledged(una);
        }
    }

    /// Decodes cumulative ACK and window of a classic ACK; `None` for any other packet.
    pub(crate) fn decode_plain_ack(&self, datagram: &[u8], snd_una: u64) -> Option<(u64, u64)> {
        match self {
            Self::Classic { .. } => classic::decode_plain_ack(datagram, snd_una),
            Self::Native(_) => None,
        }
    }

    /// Decodes a classic reply. Wrapped numbers are unwrapped around `snd_una`.
    pub(crate) fn decode<'d>(&self, datagram: &'d [u8], snd_una: u64) -> Result<FromReceiver<'d>, WireError> {
        match self {
            Self::Classic { .. } => classic::decode_from_receiver(datagram, snd_una),
            // The connection opens and decodes replies.
            Self::Native(_) => Err(WireError::Type),
        }
    }
}
