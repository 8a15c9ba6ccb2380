//! Unit tests of classic peers, driven by a script of datagrams. Peers are letters, times are
//! milliseconds.

mod budget;
mod coalesced;
mod datagrams;
mod floods;
mod memory;
mod peers;
mod random;
mod transmit;

use std::time::Duration;

use super::*;
use crate::peers::ConnectionSetConfig;
use crate::wire::classic::{self, REPLY_LEN, SYN_LEN, decode_from_receiver};
use crate::wire::{Ack, FromReceiver, FromSender, LinkProperties, Open};
use crate::{Ecn, Endpoint, ReceiverConfig, SocketBuffer};

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.1, speed_bps: 14e6, loss_forward: 0.0, loss_reverse: 0.0, buffer: 13 };
const MAGIC: [u8; 3] = [0xaa, 0x11, 0x83];
const SECOND: u64 = 1000;

/// Receivers and limits of a test.
#[derive(Clone, Copy)]
struct Config {
    receiver: ReceiverConfig,
    max_peers: usize,
    max_peers_per_source: Option<usize>,
    memory_limit: u64,
    peer_memory_limit: u64,
    socket_buffer: Option<SocketBuffer>,
    idle: Duration,
}

impl Config {
    fn new(receiver: ReceiverConfig) -> Self {
        Self {
            receiver,
            max_peers: 4096,
            max_peers_per_source: None,
            memory_limit: 2 << 30,
            peer_memory_limit: 512 << 20,
            socket_buffer: None,
            idle: ClassicConfig::new(receiver).idle,
        }
    }

    fn set<P: AddressKey>(&self) -> ConnectionSet<P> {
        ConnectionSet::classic_only(ConnectionSetConfig {
            classic: Some(ClassicConfig { receiver: self.receiver, idle: self.idle }),
            max_connections: self.max_peers,
            max_connections_per_source: self.max_peers_per_source,
            memory_limit: self.memory_limit,
            connection_memory_limit: self.peer_memory_limit,
            socket_buffer: self.socket_buffer,
            ..ConnectionSetConfig::default()
        })
    }
}

/// A set of classic peers and its clock.
struct Script {
    set: ConnectionSet<char>,
    epoch: Instant,
    now: Instant,
    batch: TransmitBuf,
}

impl Script {
    fn new(config: Config) -> Self {
        let epoch = rdt_testing::epoch();
        Self { set: config.set(), epoch, now: epoch, batch: TransmitBuf::new(64) }
    }

    /// Connects the given peers by their SYNs, and discards the replies and events.
    fn connected(mut config: Config, peers: &str) -> Self {
        config.receiver.faithful = true;
        let mut script = Self::new(config);
        for peer in peers.chars() {
            script.syn(peer, 0);
            assert_eq!(script.events(), [(peer, ReceiverEvent::Connected), (peer, ReceiverEvent::Started)]);
        }
        assert_eq!(script.replies().len(), peers.chars().count());
        script
    }

    /// Advances the clock to `time` ms, and fires all timers due by then.
    fn at(&mut self, time: u64) -> &mut Self {
        let end = self.epoch + Duration::from_millis(time);
        assert!(end >= self.now, "the script goes back to {time} ms");
        while let Some(due) = self.set.poll_timeout().filter(|due| *due <= end) {
            assert!(due >= self.now, "a timer in the past");
            self.now = due;
            self.set.handle_timeout(due);
        }
        self.now = end;
        self
    }

    fn recv(&mut self, peer: char, datagram: &[u8]) -> &mut Self {
        self.set.handle_datagram(self.now, peer, Ecn::NotEct, &mut datagram.to_vec());
        self
    }

    fn syn(&mut self, peer: char, seq: u32) -> &mut Self {
        self.recv(peer, &syn(seq, LINK))
    }

    fn data(&mut self, peer: char, seq: u32, payload: &[u8]) -> &mut Self {
        self.recv(peer, &packet(0, seq, payload))
    }

    fn fin(&mut self, peer: char, seq: u32) -> &mut Self {
        self.recv(peer, &packet(0x80, seq, &[]))
    }

    /// Returns all batches sent now: peer and decoded replies.
    fn batches(&mut self) -> Vec<(char, Vec<FromReceiver<'static>>)> {
        let mut batches = Vec::new();
        loop {
            self.batch.clear();
            let Some(peer) = self.set.poll_transmit(self.now, &mut self.batch) else { break };
            // Unwrapped near the middle of the range, numbers equal their 32 bits on the wire.
            let decode = |datagram: &[u8]| decode_from_receiver(datagram, 1 << 31).unwrap();
            batches.push((peer, self.batch.datagrams().map(decode).collect()));
        }
        assert!(self.batch.is_empty());
        batches
    }

    fn replies(&mut self) -> Vec<(char, FromReceiver<'static>)> {
        let flat = |(peer, replies): (char, Vec<_>)| replies.into_iter().map(move |reply| (peer, reply));
        self.batches().into_iter().flat_map(flat).collect()
    }

    /// Returns the replies of the next batch as bytes.
    fn datagrams(&mut self) -> Vec<Vec<u8>> {
        self.batch.clear();
        self.set.poll_transmit(self.now, &mut self.batch);
        self.batch.datagrams().map(<[u8]>::to_vec).collect()
    }

    fn events(&mut self) -> Vec<(char, ReceiverEvent)> {
        std::iter::from_fn(|| self.set.poll_classic_event()).collect()
    }

    /// True if the datagram has no effect: no reply, no event, no new peer.
    fn is_dropped(&mut self, peer: char, datagram: &[u8]) -> bool {
        let before = self.set.classic().active();
        self.recv(peer, datagram);
        self.replies().is_empty() && self.events().is_empty() && self.set.classic().active() == before
    }

    fn stats(&self) -> ClassicStats {
        self.set.classic().stats()
    }
}

/// The reference receiver: a SYN alone connects a classic peer, and restarts its transfer.
fn reference() -> Config {
    Config::new(ReceiverConfig { faithful: true, ..ReceiverConfig::reference() })
}

/// Like [`reference`], but keeps the payload.
fn keeping() -> Config {
    let mut config = reference();
    config.receiver.keep_payload = true;
    config
}

fn syn(seq: u32, link: LinkProperties) -> [u8; SYN_LEN] {
    let mut datagram = [0; SYN_LEN];
    classic::encode_syn(seq, &link, &mut datagram);
    datagram
}

/// A classic data packet or FIN, encoded by hand.
fn packet(flags: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
    [&[flags], &MAGIC[..], &seq.to_le_bytes(), payload].concat()
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

fn closed(unfinished: bool) -> ReceiverEvent {
    ReceiverEvent::Closed { unfinished }
}
