//! One receiver alone, driven by a script of packets.

mod acks;
mod application;
mod blocks;
mod data;
mod model;
mod native_acks;
mod plain_acks;
mod promises;
mod reopened;
mod runs;
mod transfer;
mod unread;

use super::*;
use crate::wire::classic::decode_from_receiver;
use crate::wire::native::Params;
use crate::wire::{Ack, FromReceiver, FromSender, LinkProperties, Open, Piece};

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.1, speed_bps: 14e6, loss_forward: 0.0, loss_reverse: 0.0, buffer: 13 };
/// First sequence number that does not fit 32 bits.
const WRAP: u64 = 1 << 32;

/// A receiver, its clock, and the memory that it may use beyond holes.
struct Script {
    receiver: Receiver,
    epoch: Instant,
    now: Instant,
    memory: u64,
}

impl Script {
    /// A receiver before its SYN, faithful to the reference.
    fn new(config: ReceiverConfig) -> Self {
        let (config, epoch) = (ReceiverConfig { faithful: true, ..config }, rdt_testing::epoch());
        Self { receiver: Receiver::new(config), epoch, now: epoch, memory: 128 << 20 }
    }

    /// Returns a transfer that begins with packet `seq`. Its SYN-ACK and event were discarded.
    fn open_at(config: ReceiverConfig, seq: u32) -> Self {
        let mut script = Self::new(config);
        script.syn(seq);
        assert_eq!(script.replies().len(), 1);
        assert_eq!(script.events(), [ReceiverEvent::Started]);
        script
    }

    /// Returns the receiver of a connection's stream.
    fn native(config: ReceiverConfig) -> Self {
        let mut script = Self::new(config);
        script.receiver = Receiver::established(config, &Params::default(), None, script.now);
        script
    }

    /// Passes a native data packet to the receiver, which requests an immediate ACK if `ack_now`.
    fn native_data(&mut self, packet_number: u64, seq: u64, payload: &[u8], ack_now: bool) {
        let packet_number = Some(packet_number);
        let piece = Piece { seq, payload, packet_number, ack_now, ack_every: 0 };
        self.receiver.handle_data(self.now, &piece, Ecn::NotEct, self.memory);
    }

    /// Returns the selective ACKs that are sent now, with their blocks.
    fn native_acks(&mut self) -> Vec<(native::Ack, Vec<SackBlock>)> {
        let mut acks = Vec::new();
        while let Some((ack, blocks)) = self.receiver.take_ack(self.now) {
            acks.push((ack, blocks.to_vec()));
        }
        acks
    }

    /// A transfer from packet 0 that keeps its bytes.
    fn open() -> Self {
        Self::open_at(keeping(), 0)
    }

    fn at(&mut self, time: u64) -> &mut Self {
        self.now = self.epoch + Duration::from_millis(time);
        self
    }

    fn syn(&mut self, seq: u32) -> &mut Self {
        self.packet(&FromSender::Syn(Open { seq: u64::from(seq), link: LINK }))
    }

    fn data(&mut self, seq: u64, payload: &[u8]) -> &mut Self {
        self.packet(&FromSender::Data(Piece::classic(seq, payload)))
    }

    fn fin(&mut self, seq: u64) -> &mut Self {
        self.packet(&FromSender::Fin { seq, packet_number: None, understands_ack: false })
    }

    fn packet(&mut self, packet: &FromSender<'_>) -> &mut Self {
        self.receiver.handle(self.now, packet, Ecn::NotEct, self.memory);
        self
    }

    fn confirm(&mut self) -> &mut Self {
        self.receiver.confirm();
        self
    }

    fn replies(&mut self) -> Vec<FromReceiver<'static>> {
        let mut replies = Vec::new();
        while let Some(reply) = self.receiver.poll_reply() {
            replies.push(decode_from_receiver(&reply, self.receiver.rcv_nxt()).unwrap());
        }
        replies
    }

    fn events(&mut self) -> Vec<ReceiverEvent> {
        std::iter::from_fn(|| self.receiver.poll_event()).collect()
    }

    fn read(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let n @ 1.. = self.receiver.data().len() {
            bytes.extend_from_slice(self.receiver.data());
            self.receiver.consume(n);
        }
        bytes
    }
}

/// The reference receiver, except that it keeps the bytes.
fn keeping() -> ReceiverConfig {
    ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() }
}

fn syn_ack(ack: u64, window: u32) -> FromReceiver<'static> {
    FromReceiver::SynAck { ack, window: u64::from(window) }
}

fn ack(ack: u64, window: u32) -> FromReceiver<'static> {
    FromReceiver::Ack(Ack::plain(ack, u64::from(window)))
}

fn fin_ack(ack: u64, crc: u32) -> FromReceiver<'static> {
    FromReceiver::FinAck { ack, crc }
}
