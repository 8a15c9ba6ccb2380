//! Network in memory with virtual time, and an application that reads and writes streams.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rdt_crypto::Entropy;

use super::super::*;
use crate::connection::Closed;
use crate::peers::ConnectionSetConfig;
use crate::{Ecn, Endpoint};

/// Delay of every packet.
pub(super) const DELAY: Duration = Duration::from_millis(20);

pub(super) fn ip(address: &SocketAddr) -> IpAddr {
    address.ip()
}

/// Datagram in the network.
#[derive(Debug, Clone)]
pub(super) struct Datagram {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

/// What the network does to a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Deliver,
    Drop,
    /// Delivers it twice.
    Duplicate,
    /// Delivers it later than usual.
    Delay(Duration),
}

/// Stream of the application.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) outgoing: Vec<u8>,
    written: usize,
    pub(super) finish: bool,
    is_finished: bool,
    pub(super) incoming: Vec<u8>,
    pub(super) peer: Option<rdt_crypto::PublicKey>,
    pub(super) resumption: Option<rdt_crypto::ResumptionCookie>,
    pub(super) is_connected: bool,
    pub(super) closed: Option<Closed>,
}

pub(super) struct Host {
    pub(super) set: ConnectionSet<SocketAddr>,
    pub(super) address: SocketAddr,
    pub(super) streams: BTreeMap<ConnectionId, Stream>,
    /// What each accepted connection sends, and whether it then ends its stream.
    pub(super) reply: Option<Vec<u8>>,
    /// False for an application that leaves its streams unread.
    pub(super) is_reading: bool,
    /// True to release connections that are over.
    pub(super) releases: bool,
    /// Of the connections that it opens.
    pub(super) config: ConnectionConfig,
    seed: [u8; 32],
}

/// Decides about the datagram of this index.
type Rule = Box<dyn FnMut(usize, &mut Datagram) -> Fate>;

pub(super) struct Network {
    pub(super) now: Instant,
    pub(super) hosts: Vec<Host>,
    pub(super) rule: Rule,
    /// Everything that was sent.
    pub(super) log: Vec<Datagram>,
    /// Times at which it was sent.
    pub(super) sent_at: Vec<Instant>,
    in_flight: BTreeMap<(Instant, u64), Datagram>,
    count: u64,
    seed: u64,
    batch: TransmitBuf,
}

impl Network {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: rdt_testing::epoch(),
            hosts: Vec::new(),
            rule: Box::new(|_, _| Fate::Deliver),
            log: Vec::new(),
            sent_at: Vec::new(),
            in_flight: BTreeMap::new(),
            count: 0,
            seed,
            batch: TransmitBuf::new(16),
        }
    }

    pub(super) fn add_host(&mut self, address: &str) -> usize {
        let config = super::set_config(self.now);
        self.add_host_with(address, config)
    }

    pub(super) fn add_host_with(&mut self, address: &str, config: ConnectionSetConfig<SocketAddr>) -> usize {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8] = u8::try_from(self.hosts.len()).unwrap();
        self.hosts.push(Host {
            set: ConnectionSet::new(config, Entropy::from_seed(seed)),
            address: address.parse().unwrap(),
            streams: BTreeMap::new(),
            reply: None,
            is_reading: true,
            releases: true,
            config: ConnectionConfig::default(),
            seed,
        });
        self.hosts.len() - 1
    }

    /// Replaces the set of a host, as if the program had been restarted.
    pub(super) fn restart(&mut self, host: usize) {
        let config = super::set_config(self.now);
        let host = &mut self.hosts[host];
        host.seed[31] += 1;
        host.set = ConnectionSet::new(config, Entropy::from_seed(host.seed));
        host.streams.clear();
    }

    /// Makes a host answer each SYN without a cookie by a RETRY.
    pub(super) fn require_proofs(&mut self, host: usize) {
        self.hosts[host].set.acceptor.retry = RetryPolicy::new(0);
    }

    /// Opens a connection from host `from` to host `to`, which sends `bytes` and ends its stream.
    pub(super) fn connect(
        &mut self,
        from: usize,
        to: usize,
        initiator: InitiatorConfig,
        bytes: &[u8],
    ) -> ConnectionId {
        let peer = self.hosts[to].address;
        let host = &mut self.hosts[from];
        let id = host.set.connect(self.now, peer, initiator, host.config.clone()).unwrap();
        let stream = Stream { outgoing: bytes.to_vec(), finish: true, ..Stream::default() };
        host.streams.insert(id, stream);
        id
    }

    /// Puts a datagram into the network, which arrives after the usual delay.
    pub(super) fn inject(&mut self, datagram: Datagram) {
        self.put(self.now + DELAY, datagram);
    }

    fn put(&mut self, at: Instant, datagram: Datagram) {
        self.count += 1;
        self.in_flight.insert((at, self.count), datagram);
    }

    fn send(&mut self, mut datagram: Datagram) {
        let index = self.log.len();
        self.log.push(datagram.clone());
        self.sent_at.push(self.now);
        let fate = (self.rule)(index, &mut datagram);
        let at = self.now + DELAY;
        match fate {
            Fate::Deliver => self.put(at, datagram),
            Fate::Drop => {}
            Fate::Duplicate => {
                self.put(at, datagram.clone());
                self.put(at, datagram);
            }
            Fate::Delay(by) => self.put(at + by, datagram),
        }
    }

    /// Runs until nothing happens any more, for at most `limit`.
    pub(super) fn run(&mut self, limit: Duration) {
        let end = self.now + limit;
        self.run_until(end, |_| false);
    }

    /// Runs until `is_done`, at most up to `end`. Returns true if it is done.
    pub(super) fn run_until(&mut self, end: Instant, mut is_done: impl FnMut(&Self) -> bool) -> bool {
        for _ in 0..1_000_000 {
            self.turn();
            if is_done(self) {
                return true;
            }
            let timers = self.hosts.iter().filter_map(|host| host.set.poll_timeout());
            let next = timers.chain(self.in_flight.keys().next().map(|(at, _)| *at)).min();
            match next {
                Some(next) if next <= end => self.now = self.now.max(next),
                _ => {
                    self.now = end;
                    return false;
                }
            }
        }
        panic!("virtual time stands still, seed {}", self.seed);
    }

    /// Delivers what is due and lets every host act.
    fn turn(&mut self) {
        while let Some((&(at, count), _)) = self.in_flight.first_key_value()
            && at <= self.now
        {
            let Some(mut datagram) = self.in_flight.remove(&(at, count)) else { return };
            if let Some(host) = self.hosts.iter_mut().find(|host| host.address == datagram.to) {
                host.set.handle_datagram(self.now, datagram.from, Ecn::NotEct, &mut datagram.bytes);
            }
        }
        for index in 0..self.hosts.len() {
            let now = self.now;
            let host = &mut self.hosts[index];
            if host.set.poll_timeout().is_some_and(|at| at <= now) {
                host.set.handle_timeout(now);
            }
            host.act(now);
            loop {
                self.batch.clear();
                let host = &mut self.hosts[index];
                let Some(to) = host.set.poll_transmit(now, &mut self.batch) else { break };
                assert!(!self.batch.is_empty());
                let from = host.address;
                let sent: Vec<_> =
                    self.batch.datagrams().map(|d| Datagram { from, to, bytes: d.to_vec() }).collect();
                for datagram in sent {
                    self.send(datagram);
                }
                self.hosts[index].act(now);
            }
        }
    }

    /// Returns the bytes that were sent to an address, and the bytes that were sent from it.
    pub(super) fn bytes_to_and_from(&self, address: SocketAddr) -> (usize, usize) {
        let (mut to, mut from) = (0, 0);
        for datagram in &self.log {
            to += if datagram.to == address { datagram.bytes.len() } else { 0 };
            from += if datagram.from == address { datagram.bytes.len() } else { 0 };
        }
        (to, from)
    }
}

impl Host {
    /// Handles events, reads everything and writes what is left.
    fn act(&mut self, now: Instant) {
        while let Some((id, event)) = self.set.poll_event() {
            let is_new = !self.streams.contains_key(&id);
            let stream = self.streams.entry(id).or_default();
            assert!(stream.closed.is_none(), "{event:?} after the end");
            match event {
                ConnectionEvent::Connected { peer, resumption } => {
                    stream.is_connected = true;
                    (stream.peer, stream.resumption) = (peer, resumption);
                    if let Some(reply) = self.reply.as_ref().filter(|_| is_new) {
                        stream.outgoing.clone_from(reply);
                        stream.finish = true;
                    }
                }
                ConnectionEvent::Closed(closed) => {
                    stream.closed = Some(closed);
                }
                _ => assert!(stream.is_connected, "{event:?} before the handshake"),
            }
        }
        for (id, stream) in &mut self.streams {
            stream.act(now, *id, self.is_reading, &mut self.set);
            if self.releases && stream.closed.is_some() {
                self.set.release(now, *id);
            }
        }
    }
}

impl Stream {
    /// True if everything was written.
    pub(super) fn is_written(&self) -> bool {
        self.is_connected && self.written == self.outgoing.len()
    }

    fn act(&mut self, now: Instant, id: ConnectionId, is_reading: bool, set: &mut ConnectionSet<SocketAddr>) {
        while let Some(unread) =
            set.get(id).map(Connection::data).filter(|unread| is_reading && !unread.is_empty())
        {
            self.incoming.extend_from_slice(unread);
            let len = unread.len();
            set.with(now, id, |connection| connection.consume(len));
        }
        if !self.is_connected || self.closed.is_some() || self.is_finished {
            return;
        }
        if self.written < self.outgoing.len() {
            let rest = &self.outgoing[self.written..];
            let written = set.with(now, id, |connection| {
                let written = connection.write(rest).unwrap_or(0);
                connection.push();
                written
            });
            self.written += written.unwrap_or(0);
        }
        if self.written == self.outgoing.len() && self.finish {
            self.is_finished = true;
            set.with(now, id, Connection::finish);
        }
    }
}
