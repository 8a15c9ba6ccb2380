//! The formats behind one face, for a sender: what the machine says is written in the format of its
//! transfer, and what a receiver answers is read into one vocabulary. What a format cannot say is
//! absent.

use std::time::Duration;

use super::native::{self, CloseReason, Params, SackBlocks, Versions};
use super::{FromReceiver, LinkProperties, Syn, WireError, classic};
use crate::cookie::Cookie;

/// The format of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wire {
    /// The course's: packet numbers and cumulative ACKs. What a receiver takes for granted until a
    /// SYN says more.
    #[default]
    Classic,
    /// Our own: byte offsets, selective ACKs, a number for every transmission.
    Native {
        /// Connection id, drawn at random. It identifies the connection, and a third party must
        /// guess it to inject packets.
        connection_id: u64,
    },
}

impl Wire {
    /// Number of the connection, where there is one.
    pub(crate) fn connection_id(self) -> Option<u64> {
        match self {
            Self::Classic => None,
            Self::Native { connection_id } => Some(connection_id),
        }
    }

    /// Unit of its sequence numbers.
    pub(crate) fn numbering(self) -> Numbering {
        match self {
            Self::Classic => Numbering::Packets,
            Self::Native { .. } => Numbering::Bytes,
        }
    }

    /// Bytes of an ACK that says nothing but the edge and the window, if the format has one.
    pub(crate) fn plain_ack_len(self) -> Option<usize> {
        match self {
            Self::Classic => Some(classic::REPLY_LEN),
            Self::Native { .. } => None,
        }
    }

    /// The least packet size of a sender, bytes: that of a data packet with one byte, or what a
    /// receiver must take to be able to answer.
    pub(crate) fn smallest_packet(self) -> usize {
        match self {
            Self::Classic => classic::DATA_HEADER + 1,
            Self::Native { .. } => native::SYN_MIN,
        }
    }

    /// Bytes before the payload of a data packet.
    pub(crate) fn data_header(self) -> usize {
        match self {
            Self::Classic => classic::DATA_HEADER,
            Self::Native { .. } => native::DATA_HEADER,
        }
    }
}

/// Unit of sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// Packets of the stream.
    Packets,
    /// Its bytes.
    Bytes,
}

/// An acknowledgment, in the format's numbers.
#[derive(Debug, Clone)]
#[expect(clippy::struct_field_names, reason = "`ack` is RFC 9293's word")]
pub(crate) struct Ack<'a> {
    /// Everything below it arrived.
    pub(crate) ack: u64,
    /// Numbers from `ack` on that may be sent.
    pub(crate) window: u64,
    /// SACK blocks beyond `ack`.
    pub(crate) sack: SackBlocks<'a>,
    /// The newest transmission that arrived.
    pub(crate) echo: Option<Echo>,
    /// Packets so far that brought nothing new.
    pub(crate) duplicates: Option<u32>,
    /// Codepoints so far.
    pub(crate) marks: Option<Marks>,
    /// Messages so far that found the buffer of the receiver's socket full.
    pub(crate) overflow: Option<u32>,
}

impl Ack<'_> {
    /// One of a format that says no more than this.
    pub(crate) fn plain(ack: u64, window: u64) -> Self {
        Self {
            ack,
            window,
            sack: SackBlocks::default(),
            echo: None,
            duplicates: None,
            marks: None,
            overflow: None,
        }
    }
}

/// With which codepoints packets of data arrived so far. Counts wrap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// All of them.
    pub(crate) packets: u32,
    /// With CE.
    pub(crate) ce: u32,
    /// With ECT(0) or ECT(1).
    pub(crate) ect: u32,
}

/// The newest transmission that a receiver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Echo {
    /// Its number.
    pub(crate) packet_number: u64,
    /// How long the receiver kept it before it answered.
    pub(crate) delay: Duration,
}

/// A packet from a receiver, in either format.
#[derive(Debug, Clone)]
pub(crate) enum Reply<'a> {
    SynAck {
        ack: u64,
        window: u64,
        params: Option<Params>,
    },
    Retry {
        cookie: Cookie,
    },
    Ack(Ack<'a>),
    FinAck {
        ack: u64,
        crc: u32,
    },
    Close {
        reason: CloseReason,
        /// The transmission that found no connection, where that is the reason.
        answers: Option<u64>,
    },
    /// It does not speak the SYN's version, but these.
    Versions(Versions),
}

/// The numbers of a packet of the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataHead {
    /// Its place in the stream.
    pub(crate) seq: u64,
    /// The number of this transmission.
    pub(crate) packet_number: u64,
    /// It is to be acknowledged at once, where the format can say so.
    pub(crate) ack_now: bool,
    /// Number of packets after which an ACK is due at the latest, in formats that carry it. 0: as
    /// agreed in the handshake.
    pub(crate) ack_every: u16,
}

/// The format of one transfer.
#[derive(Debug)]
pub(crate) enum Codec {
    Classic { link: LinkProperties },
    Native { connection_id: u64, syn: native::Syn },
}

impl Codec {
    /// `link` is what the receiver is asked to emulate; `params` is what a sender says of itself
    /// where the format can say it.
    pub(crate) fn new(wire: Wire, link: LinkProperties, params: Params) -> Self {
        match wire {
            Wire::Classic => Self::Classic { link },
            Wire::Native { connection_id } => {
                Self::Native { connection_id, syn: native::Syn { cookie: None, params } }
            }
        }
    }

    pub(crate) fn numbering(&self) -> Numbering {
        match self {
            Self::Classic { .. } => Numbering::Packets,
            Self::Native { .. } => Numbering::Bytes,
        }
    }

    /// True if every transmission has a number of its own, which the receiver echoes.
    pub(crate) fn numbers_transmissions(&self) -> bool {
        self.numbering() == Numbering::Bytes
    }

    /// Bytes before the payload of a data packet.
    pub(crate) fn data_header(&self) -> usize {
        match self {
            Self::Classic { .. } => classic::DATA_HEADER,
            Self::Native { .. } => native::DATA_HEADER,
        }
    }

    /// Numbers that may follow the SYN before it is answered: none where the receiver says first
    /// how many, and none while the SYN has nothing to show.
    pub(crate) fn first_window(&self) -> u64 {
        match self {
            Self::Native { syn: native::Syn { cookie: Some(_), .. }, .. } => native::FIRST_WINDOW,
            Self::Classic { .. } | Self::Native { .. } => 0,
        }
    }

    /// True if the FIN may leave with the last of the data: the receiver keeps it until it has all
    /// of it.
    pub(crate) fn fin_follows_data(&self) -> bool {
        match self {
            Self::Classic { .. } => false,
            Self::Native { .. } => true,
        }
    }

    pub(crate) fn syn_len(&self) -> usize {
        match self {
            Self::Classic { .. } => classic::SYN_LEN,
            Self::Native { syn, .. } => native::syn_len(syn),
        }
    }

    /// Bytes of the FIN, which is `again` sent or for the first time. Of foreign receivers some may
    /// not know the longer form.
    pub(crate) fn fin_len(&self, again: bool) -> usize {
        match self {
            Self::Classic { .. } if again => classic::ACK_AWARE_FIN_LEN,
            Self::Classic { .. } => classic::FIN_LEN,
            Self::Native { .. } => native::FIN_LEN,
        }
    }

    pub(crate) fn keep_alive_len(&self, head: DataHead) -> usize {
        match self {
            Self::Classic { .. } if head.seq == 0 => classic::SYN_LEN,
            Self::Classic { .. } => classic::DATA_HEADER,
            Self::Native { .. } => native::DATA_HEADER,
        }
    }

    pub(crate) fn encode_syn(&self, out: &mut [u8]) {
        match self {
            Self::Classic { link } => classic::encode_syn(&Syn { seq: 0, link: *link }, out),
            Self::Native { connection_id, syn } => native::encode_syn(*connection_id, syn, out),
        }
    }

    /// The next SYN is the sender's `attempt`-th, where the format can say so.
    pub(crate) fn number_syn(&mut self, attempt: u8) {
        if let Self::Native { syn, .. } = self {
            syn.params.attempt = attempt;
        }
    }

    /// True if every packet has a check, for which [`Codec::encode_data`] needs the CRC-32 of its
    /// payload.
    pub(crate) fn checks_packets(&self) -> bool {
        matches!(self, Self::Native { .. })
    }

    /// Writes the header before the payload in `out`, whose CRC-32 is `payload_crc` where packets
    /// have a check.
    pub(crate) fn encode_data(&self, head: DataHead, payload_crc: u32, out: &mut [u8]) {
        match self {
            Self::Classic { .. } => classic::encode_data_header(head.seq, out),
            Self::Native { connection_id, .. } => {
                native::encode_data_header(*connection_id, &data_header(head), payload_crc, out);
            }
        }
    }

    /// Something that every receiver answers and none delivers; `seq` is `snd_una`. In the classic
    /// format an empty copy of the last packet acknowledged or, before the first one, the SYN.
    pub(crate) fn encode_keep_alive(&self, head: DataHead, out: &mut [u8]) {
        match self {
            Self::Classic { .. } => match head.seq.checked_sub(1) {
                Some(seq) => classic::encode_data_header(seq, out),
                None => self.encode_syn(out),
            },
            Self::Native { connection_id, .. } => {
                native::encode_data_header(*connection_id, &data_header(head), 0, out);
            }
        }
    }

    /// Writes the FIN of a stream with this checksum; `seq` is `snd_nxt`.
    pub(crate) fn encode_fin(&self, head: DataHead, crc: u32, out: &mut [u8]) {
        match self {
            Self::Classic { .. } => classic::encode_fin(head.seq, out),
            Self::Native { connection_id, .. } => {
                let fin = native::Fin { packet_number: head.packet_number, length: head.seq, crc };
                native::encode_fin(*connection_id, &fin, out);
            }
        }
    }

    /// Bytes of the packet that says that the sender gave up; 0 if the format has none.
    pub(crate) fn close_len(&self) -> usize {
        match self {
            Self::Classic { .. } => 0,
            Self::Native { .. } => native::close_len(&native::Close::new(CloseReason::Aborted, "")),
        }
    }

    /// Writes it.
    pub(crate) fn encode_close(&self, reason: CloseReason, out: &mut [u8]) {
        if let Self::Native { connection_id, .. } = self {
            native::encode_close(*connection_id, &native::Close::new(reason, ""), out);
        }
    }

    /// True if the receiver, which speaks `theirs`, was kept from a version that is better than
    /// that of this format.
    pub(crate) fn is_downgrade(&self, theirs: Versions) -> bool {
        match self {
            Self::Classic { .. } => false,
            Self::Native { syn, .. } => syn.params.versions.is_downgrade(theirs),
        }
    }

    /// Takes the cookie that a receiver wants with the SYN; false if the format has none, or if it
    /// is not the first: a receiver that never has enough must not keep its sender asking.
    pub(crate) fn take_cookie(&mut self, cookie: Cookie) -> bool {
        match self {
            Self::Classic { .. } => false,
            Self::Native { syn, .. } => syn.cookie.replace(cookie).is_none(),
        }
    }

    /// Reads the edge and the window of an ACK that says nothing else ([`Wire::plain_ack_len`]), as
    /// [`Codec::decode`] would; `None` if it is anything else.
    pub(crate) fn decode_plain_ack(&self, datagram: &[u8], snd_una: u64) -> Option<(u64, u64)> {
        match (self, classic::decode_from_receiver(datagram, snd_una)) {
            (Self::Classic { .. }, Ok(FromReceiver::Ack { ack, window })) => Some((ack, u64::from(window))),
            _ => None,
        }
    }

    /// Reads a reply. Wrapped numbers are unwrapped around `snd_una` and `next_number`.
    pub(crate) fn decode<'d>(
        &self,
        datagram: &'d [u8],
        snd_una: u64,
        next_number: u64,
    ) -> Result<Reply<'d>, WireError> {
        match self {
            Self::Classic { .. } => classic::decode_from_receiver(datagram, snd_una).map(Reply::from),
            Self::Native { connection_id, .. } => {
                if native::connection_id(datagram) != Some(*connection_id) {
                    return Err(WireError::Connection);
                }
                native::decode_from_receiver(datagram, next_number).map(Reply::from)
            }
        }
    }
}

fn data_header(head: DataHead) -> native::DataHeader {
    native::DataHeader {
        packet_number: head.packet_number,
        offset: head.seq,
        ack_now: head.ack_now,
        ack_every: head.ack_every,
    }
}

impl From<FromReceiver> for Reply<'_> {
    fn from(reply: FromReceiver) -> Self {
        match reply {
            FromReceiver::SynAck { ack, window } => {
                Self::SynAck { ack, window: u64::from(window), params: None }
            }
            FromReceiver::Ack { ack, window } => Self::Ack(Ack::plain(ack, u64::from(window))),
            FromReceiver::FinAck { ack, crc } => Self::FinAck { ack, crc },
        }
    }
}

impl<'d> From<native::FromReceiver<'d>> for Reply<'d> {
    fn from(reply: native::FromReceiver<'d>) -> Self {
        match reply {
            native::FromReceiver::SynAck(native::SynAck { window, params }) => {
                Self::SynAck { ack: 0, window, params: Some(params) }
            }
            native::FromReceiver::Retry(cookie) => Self::Retry { cookie },
            native::FromReceiver::Ack { ack, sack } => Self::Ack(Ack {
                ack: ack.ack,
                window: ack.window,
                sack,
                echo: Some(Echo {
                    packet_number: ack.largest_received,
                    delay: Duration::from_micros(u64::from(ack.echo_delay_us)),
                }),
                duplicates: Some(ack.duplicates),
                marks: Some(Marks { packets: ack.packets, ce: ack.ce, ect: ack.ect }),
                overflow: ack.overflow,
            }),
            native::FromReceiver::FinAck(native::FinAck { length, crc }) => Self::FinAck { ack: length, crc },
            native::FromReceiver::Close(close) => {
                Self::Close { reason: close.reason, answers: close.answers }
            }
            native::FromReceiver::Versions(versions) => Self::Versions(versions),
        }
    }
}
