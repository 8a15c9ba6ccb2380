//! Codec of a sender for each format: writes the sender's packets and decodes replies into one
//! set of types. Fields that a format lacks are `None`.

use super::native::{self, CloseReason, Params, Versions};
use super::sealed::{self, SealedCodec};
use super::{DataHeader, FromReceiver, LinkProperties, WireError, classic};
use crate::StreamName;
use crate::cookie::Cookie;

/// The format of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wire {
    /// Format of the reference programs: sequence numbers of packets and cumulative ACKs. A
    /// receiver assumes it before a SYN.
    #[default]
    Classic,
    /// Format of rdt: byte offsets, packet numbers, selective ACKs.
    Native {
        /// Random connection ID. A third party must guess it to inject packets.
        connection_id: u64,
    },
}

impl Wire {
    /// Returns the format of the streams of an encrypted connection, whose packets the codec seals.
    pub(crate) fn of_connection(connection_id: u64) -> Self {
        Self::Native { connection_id }
    }

    /// Returns the connection ID (native).
    pub(crate) fn connection_id(self) -> Option<u64> {
        match self {
            Self::Classic => None,
            Self::Native { connection_id } => Some(connection_id),
        }
    }

    /// Returns the unit of sequence numbers.
    pub(crate) fn numbering(self) -> Numbering {
        match self {
            Self::Classic => Numbering::Packets,
            Self::Native { .. } => Numbering::Bytes,
        }
    }

    /// Returns the length of an ACK with nothing but cumulative ACK and window (classic), bytes.
    pub(crate) fn plain_ack_len(self) -> Option<usize> {
        match self {
            Self::Classic => Some(classic::REPLY_LEN),
            Self::Native { .. } => None,
        }
    }

    /// Returns the smallest allowed datagram size, bytes: a data packet with one byte (classic), or
    /// the smallest size that receivers must accept (native).
    pub(crate) fn smallest_packet(self) -> usize {
        match self {
            Self::Classic => classic::DATA_HEADER + 1,
            Self::Native { .. } => native::SYN_MIN,
        }
    }

    /// Returns the length of a data packet's header and tag, bytes.
    pub(crate) fn data_header(self) -> usize {
        match self {
            Self::Classic => classic::DATA_HEADER,
            Self::Native { .. } => sealed::DATA_HEADER + sealed::TAG,
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
        link: LinkProperties,
    },
    Native {
        connection_id: u64,
        /// SYN without its name.
        syn: native::Syn<'static>,
        name: Option<StreamName>,
    },
    /// Version 2 of the native format. A connection owns the handshake, the packets of the control
    /// space and the opening of replies.
    Sealed(SealedCodec),
}

impl Codec {
    /// Returns the codec of a transfer. `link` is the requested emulated link (classic), `params`
    /// the sender's transport parameters (native).
    pub(crate) fn new(wire: Wire, link: LinkProperties, params: Params) -> Self {
        match wire {
            Wire::Classic => Self::Classic { link },
            Wire::Native { connection_id } => Self::Native {
                connection_id,
                syn: native::Syn { cookie: None, params, name: None },
                name: None,
            },
        }
    }

    /// Sets the name of the stream, which SYNs suggest (native).
    pub(crate) fn with_name(mut self, suggested: Option<StreamName>) -> Self {
        if let Self::Native { name, .. } = &mut self {
            *name = suggested;
        }
        self
    }

    pub(crate) fn numbering(&self) -> Numbering {
        match self {
            Self::Classic { .. } => Numbering::Packets,
            Self::Native { .. } | Self::Sealed(_) => Numbering::Bytes,
        }
    }

    /// True if transmissions are numbered and echoed (native).
    pub(crate) fn has_packet_numbers(&self) -> bool {
        self.numbering() == Numbering::Bytes
    }

    /// Returns the length of a data packet's header, bytes.
    pub(crate) fn data_header(&self) -> usize {
        match self {
            Self::Classic { .. } => classic::DATA_HEADER,
            Self::Native { .. } => native::DATA_HEADER,
            Self::Sealed(_) => sealed::DATA_HEADER,
        }
    }

    /// Returns the length of a data packet's trailer, bytes.
    pub(crate) fn data_trailer(&self) -> usize {
        match self {
            Self::Classic { .. } | Self::Native { .. } => 0,
            Self::Sealed(_) => sealed::TAG,
        }
    }

    /// Returns the bytes of a data packet besides its payload.
    pub(crate) fn overhead(&self) -> usize {
        self.data_header() + self.data_trailer()
    }

    /// Returns the limit on early data, bytes: 0 in the classic format, and without a cookie.
    pub(crate) fn max_early_data(&self) -> u64 {
        match self {
            Self::Native { syn: native::Syn { cookie: Some(_), .. }, .. } => native::MAX_EARLY_DATA_BYTES,
            Self::Classic { .. } | Self::Native { .. } | Self::Sealed(_) => 0,
        }
    }

    /// True if the FIN may be sent before the data is acknowledged (native): the receiver keeps it
    /// until all data has arrived.
    pub(crate) fn fin_follows_data(&self) -> bool {
        match self {
            Self::Classic { .. } => false,
            Self::Native { .. } | Self::Sealed(_) => true,
        }
    }

    /// Returns the length of a SYN, bytes; 0 if the sender sends none.
    pub(crate) fn syn_len(&self) -> usize {
        match self {
            Self::Classic { .. } => classic::SYN_LEN,
            Self::Native { syn, name, .. } => native::syn_len(&named(syn, name.as_ref())),
            Self::Sealed(_) => 0,
        }
    }

    /// Returns the length of a FIN, bytes. `again` is true for a retransmission: only that has the
    /// longer classic form, which other receivers may not accept.
    pub(crate) fn fin_len(&self, again: bool) -> usize {
        match self {
            Self::Classic { .. } if again => classic::ACK_AWARE_FIN_LEN,
            Self::Classic { .. } => classic::FIN_LEN,
            Self::Native { .. } => native::FIN_LEN,
            Self::Sealed(_) => sealed::FIN_LEN,
        }
    }

    pub(crate) fn keep_alive_len(&self, head: DataHeader) -> usize {
        match self {
            Self::Classic { .. } if head.seq == 0 => classic::SYN_LEN,
            Self::Classic { .. } => classic::DATA_HEADER,
            Self::Native { .. } | Self::Sealed(_) => self.overhead(),
        }
    }

    pub(crate) fn encode_syn(&self, out: &mut [u8]) {
        match self {
            Self::Classic { link } => classic::encode_syn(0, link, out),
            Self::Native { connection_id, syn, name } => {
                native::encode_syn(*connection_id, &named(syn, name.as_ref()), out);
            }
            Self::Sealed(_) => debug_assert!(false, "the connection sends the SYN"),
        }
    }

    /// Sets the attempt number of the next SYN (native).
    pub(crate) fn number_syn(&mut self, attempt: u8) {
        if let Self::Native { syn, .. } = self {
            syn.params.attempt = attempt;
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
            Self::Native { connection_id, .. } => {
                native::encode_data_header(*connection_id, &head, 0, out);
            }
            Self::Sealed(codec) => codec.seal_data(&head, out),
        }
    }

    /// Writes the FIN of a stream with this checksum; `seq` is `snd_nxt`.
    pub(crate) fn encode_fin(&self, head: DataHeader, crc: u32, out: &mut [u8]) {
        match self {
            Self::Classic { .. } => classic::encode_fin(head.seq, out),
            Self::Native { connection_id, .. } => {
                let fin = native::Fin { packet_number: head.packet_number, length: head.seq, crc };
                native::encode_fin(*connection_id, &fin, out);
            }
            Self::Sealed(codec) => codec.seal_fin(head.packet_number, head.seq, out),
        }
    }

    /// Returns the length of a CLOSE, bytes; 0 if the sender sends none.
    pub(crate) fn close_len(&self) -> usize {
        match self {
            Self::Classic { .. } | Self::Sealed(_) => 0,
            Self::Native { .. } => native::close_len(&native::Close::new(CloseReason::Aborted, "")),
        }
    }

    /// Writes a CLOSE (native).
    pub(crate) fn encode_close(&self, reason: CloseReason, out: &mut [u8]) {
        if let Self::Native { connection_id, .. } = self {
            native::encode_close(*connection_id, &native::Close::new(reason, ""), out);
        }
    }

    /// Handles an ACK of everything below stream offset `una`.
    pub(crate) fn on_acknowledged(&mut self, una: u64) {
        if let Self::Sealed(codec) = self {
            codec.on_acknowledged(una);
        }
    }

    /// True if a downgrade attack prevented a better version, given the receiver's versions.
    pub(crate) fn is_downgrade(&self, theirs: Versions) -> bool {
        match self {
            Self::Classic { .. } | Self::Sealed(_) => false,
            Self::Native { syn, .. } => syn.params.versions.is_downgrade(theirs),
        }
    }

    /// Puts a cookie into the SYN. Returns false in formats without one, and for a second cookie: a
    /// receiver must not make the sender retry forever.
    pub(crate) fn take_cookie(&mut self, cookie: Cookie) -> bool {
        match self {
            Self::Classic { .. } | Self::Sealed(_) => false,
            Self::Native { syn, .. } => syn.cookie.replace(cookie).is_none(),
        }
    }

    /// Decodes cumulative ACK and window of a classic ACK, as [`Codec::decode`] would. `None` for
    /// any other packet.
    pub(crate) fn decode_plain_ack(&self, datagram: &[u8], snd_una: u64) -> Option<(u64, u64)> {
        match self {
            Self::Classic { .. } => classic::decode_plain_ack(datagram, snd_una),
            Self::Native { .. } | Self::Sealed(_) => None,
        }
    }

    /// Decodes a reply. Wrapped numbers are unwrapped around `snd_una` and `next_number`.
    pub(crate) fn decode<'d>(
        &self,
        datagram: &'d [u8],
        snd_una: u64,
        next_number: u64,
    ) -> Result<FromReceiver<'d>, WireError> {
        match self {
            Self::Classic { .. } => classic::decode_from_receiver(datagram, snd_una),
            Self::Native { connection_id, .. } => {
                if native::connection_id(datagram) != Some(*connection_id) {
                    return Err(WireError::Connection);
                }
                native::decode_from_receiver(datagram, next_number)
            }
            // The connection opens and decodes replies.
            Self::Sealed(_) => Err(WireError::Type),
        }
    }
}

/// Returns the SYN with the name of its stream.
fn named<'a>(syn: &native::Syn<'a>, name: Option<&'a StreamName>) -> native::Syn<'a> {
    native::Syn { name: name.map(StreamName::as_str), ..*syn }
}
