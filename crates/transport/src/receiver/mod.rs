//! The receiving machine of one peer: reassembles, answers every packet, computes the CRC-32 and closes.
//! It wires its parts together and owns only the state and the replies; `docs/PROTOCOL.md` gives the rules.
//! Admission, idle clean-up and the peer's address are the listener's.

mod config;
mod reassembly;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::wire::{FromReceiver, FromSender};
pub use config::{AckPolicy, ReceiverConfig, WindowPolicy};
use reassembly::{Insert, Keep, Reassembly};

/// Replies kept for a caller that does not take them; then the oldest goes, as if the network had lost it.
const MAX_REPLIES: usize = 4096;

/// What the application is told about one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A new peer was admitted.
    Connected,
    /// A transfer begins; what came before it and was not finished is void.
    Started,
    /// There are bytes to read; told again only for bytes that arrive after the application read some.
    Readable,
    /// Everything arrived. The FIN is answered once the application confirms
    /// ([`Receiver::confirm`]), so that it may refuse what it could not store.
    Finished {
        /// Bytes of the transfer.
        bytes: u64,
        /// Their CRC-32; 0 if it is not computed.
        crc: u32,
        /// From the first to the last data packet.
        elapsed: Duration,
    },
    /// The peer was silent for too long, or the application ended it; nothing more will come of it.
    Closed {
        /// True if a transfer was under way.
        unfinished: bool,
    },
}

/// What a receiver counted. Packets unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Data packets that arrived.
    pub data: u64,
    /// Of these, new ones.
    pub accepted: u64,
    /// Of these, new ones beyond a hole.
    pub out_of_order: u64,
    /// Data packets that were here before.
    pub duplicates: u64,
    /// Data packets whose number is too far from the next expected one; dropped.
    pub out_of_range: u64,
    /// Data packets beyond a hole for which there was no memory; dropped.
    pub no_memory: u64,
    /// Data or FINs that the state has no use for: data after the FIN, a FIN before the data is complete.
    pub unexpected: u64,
    /// Payload bytes in order.
    pub bytes: u64,
    /// Replies made.
    pub replies: u64,
    /// Of these, thrown away because nobody took them fast enough.
    pub replies_dropped: u64,
}

impl ReceiverStats {
    /// Adds another receiver's counts.
    pub fn merge(&mut self, other: &Self) {
        self.data += other.data;
        self.accepted += other.accepted;
        self.out_of_order += other.out_of_order;
        self.duplicates += other.duplicates;
        self.out_of_range += other.out_of_range;
        self.no_memory += other.no_memory;
        self.unexpected += other.unexpected;
        self.bytes += other.bytes;
        self.replies += other.replies;
        self.replies_dropped += other.replies_dropped;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No SYN yet.
    Listening,
    /// Data may come.
    Open,
    /// The FIN was accepted and waits for the application.
    Finishing { seq: u64 },
    /// The FIN is answered, and answered again when repeated.
    Finished { seq: u64, crc: u32 },
}

/// One peer's transfers, seen from their receiver.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    state: State,
    reassembly: Reassembly,
    replies: VecDeque<FromReceiver>,
    events: VecDeque<ReceiverEvent>,
    readable_told: bool,
    first_data_at: Option<Instant>,
    last_data_at: Option<Instant>,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver that waits for its SYN.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            state: State::Listening,
            reassembly: Self::empty(&config, 0),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            readable_told: false,
            first_data_at: None,
            last_data_at: None,
            stats: ReceiverStats::default(),
        }
    }

    /// Takes one packet. `memory` is how many bytes may be held beyond holes.
    pub fn handle(&mut self, now: Instant, packet: &FromSender<'_>, memory: u64) {
        match *packet {
            FromSender::Syn(syn) => self.on_syn(u64::from(syn.seq)),
            FromSender::Data { seq, payload } => self.on_data(now, seq, payload, memory),
            FromSender::Fin { seq } => self.on_fin(seq),
        }
    }

    /// The next packet for the peer.
    pub fn poll_reply(&mut self) -> Option<FromReceiver> {
        self.replies.pop_front()
    }

    /// True if [`Receiver::poll_reply`] has something.
    pub fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The next thing that the application should know.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// In-order bytes that were not consumed.
    pub fn data(&self) -> &[u8] {
        self.reassembly.data()
    }

    /// Takes the first `n` bytes of [`Receiver::data`] as read.
    pub fn consume(&mut self, n: usize) {
        self.reassembly.consume(n);
        self.readable_told = false;
    }

    /// Answers the FIN: the application has stored what [`ReceiverEvent::Finished`] told of.
    pub fn confirm(&mut self) {
        if let State::Finishing { seq } = self.state {
            let crc = self.reassembly.crc();
            self.state = State::Finished { seq, crc };
            self.reply(FromReceiver::FinAck { ack: seq, crc });
        }
    }

    /// Number of the next packet expected: what the peer's numbers are unwrapped around.
    pub fn rcv_nxt(&self) -> u64 {
        self.reassembly.rcv_nxt()
    }

    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        self.reassembly.memory()
    }

    /// True if a transfer began and its FIN was not answered.
    pub fn is_unfinished(&self) -> bool {
        matches!(self.state, State::Open | State::Finishing { .. })
    }

    /// Counters as they stand.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    fn empty(config: &ReceiverConfig, first: u64) -> Reassembly {
        let keep = Keep { payload: config.keep_payload, checksum: config.checksum };
        Reassembly::new(first, u64::from(config.range), keep)
    }

    /// Every SYN starts the transfer again from its number, even in mid-transfer; only one that finds
    /// nothing to start again is no news to the application.
    fn on_syn(&mut self, seq: u64) {
        match self.state {
            // The application is storing the transfer: the peer will ask again.
            State::Finishing { .. } => return self.stats.unexpected += 1,
            State::Open if self.first_data_at.is_none() && self.rcv_nxt() == seq => {}
            _ => {
                self.reassembly = Self::empty(&self.config, seq);
                self.first_data_at = None;
                self.last_data_at = None;
                self.state = State::Open;
                self.readable_told = false;
                self.events.retain(|event| *event != ReceiverEvent::Readable);
                self.events.push_back(ReceiverEvent::Started);
            }
        }
        self.reply(FromReceiver::SynAck { ack: seq, wnd: self.config.window.window(seq) });
    }

    fn on_data(&mut self, now: Instant, seq: u64, payload: &[u8], memory: u64) {
        self.stats.data += 1;
        if self.state != State::Open {
            return self.stats.unexpected += 1;
        }
        let bytes = self.reassembly.bytes();
        match self.reassembly.insert(seq, payload, memory) {
            Insert::Accepted { moved } => {
                self.stats.bytes += self.reassembly.bytes() - bytes;
                self.stats.accepted += 1;
                self.stats.out_of_order += u64::from(moved == 0);
                self.first_data_at.get_or_insert(now);
                self.last_data_at = Some(now);
                self.tell_readable();
            }
            Insert::Duplicate => self.stats.duplicates += 1,
            Insert::OutOfRange => return self.stats.out_of_range += 1,
            Insert::NoMemory => return self.stats.no_memory += 1,
        }
        let ack = self.rcv_nxt();
        self.reply(FromReceiver::Ack { ack, wnd: self.config.window.window(ack) });
    }

    fn on_fin(&mut self, seq: u64) {
        match self.state {
            State::Finished { seq: finished, crc } if seq == finished => {
                self.reply(FromReceiver::FinAck { ack: seq, crc });
            }
            State::Open if seq == self.rcv_nxt() && self.reassembly.is_contiguous() => {
                self.state = State::Finishing { seq };
                let elapsed = match (self.first_data_at, self.last_data_at) {
                    (Some(first), Some(last)) => last.saturating_duration_since(first),
                    _ => Duration::ZERO,
                };
                let (bytes, crc) = (self.reassembly.bytes(), self.reassembly.crc());
                self.events.push_back(ReceiverEvent::Finished { bytes, crc, elapsed });
            }
            _ => self.stats.unexpected += 1,
        }
    }

    fn tell_readable(&mut self) {
        if !self.readable_told && !self.reassembly.data().is_empty() {
            self.readable_told = true;
            self.events.push_back(ReceiverEvent::Readable);
        }
    }

    fn reply(&mut self, reply: FromReceiver) {
        if self.config.ack == AckPolicy::Batch
            && let FromReceiver::Ack { ack, .. } = reply
            && let Some(waiting @ FromReceiver::Ack { .. }) = self.replies.back_mut()
            && matches!(*waiting, FromReceiver::Ack { ack: earlier, .. } if earlier < ack)
        {
            *waiting = reply;
            return;
        }
        if self.replies.len() >= MAX_REPLIES {
            self.replies.pop_front();
            self.stats.replies_dropped += 1;
        }
        self.stats.replies += 1;
        self.replies.push_back(reply);
    }
}

#[cfg(test)]
mod tests;
