//! Loads: of one connection of the classic format, and of all native connections of one socket.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use rdt_endpoint::thread::{Application, Flow, Refill};
use rdt_sim::payload;
use rdt_transport::{
    Closed, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, Endpoint as _, InitiatorConfig,
    Sender, SenderEvent,
};
use rdt_udp::{Remote, clock};

/// Time of each record, and the bytes acknowledged by then.
pub(crate) type Marks = Vec<(Instant, u64)>;

/// Application that sends until the end time, and records the acknowledged bytes at two times.
pub(crate) struct Load {
    written: u64,
    plan: [Instant; 2],
    pub(crate) marks: Marks,
    /// CRC-32 of the receiver; `None` before the end of the transfer.
    pub(crate) crc: Option<u32>,
}

impl Load {
    /// Creates an application that records at both times, and ends at the second.
    pub(crate) fn new(plan: [Instant; 2]) -> Self {
        Self { written: 0, plan, marks: Vec::new(), crc: None }
    }
}

impl Application<Sender> for Load {
    fn pump(&mut self, now: Instant, sender: &mut Sender) -> Flow {
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { crc } => self.crc = Some(crc),
                SenderEvent::Failed { phase, error } => panic!("{phase}: {error}"),
            }
        }
        if self.crc.is_some() {
            return Flow::Done;
        }
        let mark = self.plan.get(self.marks.len()).copied();
        if mark.is_some_and(|mark| mark <= now) {
            self.marks.push((now, sender.stats().bytes_acked));
            if self.marks.len() == self.plan.len() {
                sender.finish().expect("it was opened");
            }
        }
        Flow::Wait(mark)
    }

    fn refill(&mut self, sender: &mut Sender, batches: usize) -> Refill {
        while let Ok(spare) = sender.spare_now(batches)
            && !spare.is_empty()
        {
            let before = self.written;
            for piece in spare {
                payload::fill(self.written, piece);
                self.written += piece.len() as u64;
            }
            sender.advance(usize::try_from(self.written - before).expect("it is in memory"));
        }
        Refill::Done
    }
}

/// Handshakes at the same time: more would wait for the receiver's limit on answers.
const HANDSHAKES: usize = 8;

/// Application of all connections of one socket. They send until the end time.
pub(crate) struct Loads {
    peer: Remote,
    config: ConnectionConfig,
    connections: usize,
    connected: usize,
    delivered: usize,
    plan: [Instant; 2],
    source: Vec<u8>,
    /// Connections with room, in the order in which they got it.
    writable: VecDeque<ConnectionId>,
    pub(crate) marks: BTreeMap<ConnectionId, Marks>,
    /// Packets of each connection that were sent again, until the second record.
    pub(crate) retransmitted: Vec<u64>,
}

impl Loads {
    pub(crate) fn new(
        peer: Remote,
        config: ConnectionConfig,
        connections: usize,
        plan: [Instant; 2],
    ) -> Self {
        let mut source = vec![0; 1 << 16];
        payload::fill(0, &mut source);
        let marks = BTreeMap::new();
        Self {
            peer,
            config,
            connections,
            connected: 0,
            delivered: 0,
            plan,
            source,
            writable: VecDeque::new(),
            marks,
            retransmitted: Vec::new(),
        }
    }

    fn connect(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) {
        while self.marks.len() < self.connections.min(self.connected + HANDSHAKES) {
            let initiator = InitiatorConfig { trust: Some(Arc::new(|_| true)), ..InitiatorConfig::default() };
            let id =
                set.connect(now, self.peer, initiator, self.config.clone()).expect("a valid configuration");
            self.marks.insert(id, Vec::new());
        }
    }

    /// Records the bytes of all connections, and ends the streams at the second time. Returns when
    /// to record next.
    fn record(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> Option<Instant> {
        let recorded = self.marks.values().next().map_or(0, Vec::len);
        let mark = *self.plan.get(recorded)?;
        if now < mark {
            return Some(mark);
        }
        assert_eq!(self.connected, self.connections, "all are open");
        let is_last = recorded + 1 == self.plan.len();
        for (id, marks) in &mut self.marks {
            let stats = set.with(now, *id, |connection| {
                if is_last {
                    connection.finish();
                }
                connection.stats().sender
            });
            let stats = stats.expect("it is open");
            marks.push((now, stats.bytes_acked));
            if is_last {
                self.retransmitted.push(stats.retransmitted);
            }
        }
        self.plan.get(recorded + 1).copied()
    }
}

impl Application<ConnectionSet<Remote>> for Loads {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> Flow {
        self.connect(now, set);
        while let Some((id, event)) = set.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } => {
                    self.connected += 1;
                    self.writable.push_back(id);
                }
                ConnectionEvent::Delivered { .. } => self.delivered += 1,
                ConnectionEvent::Closed(closed) if closed != Closed::Finished => panic!("{closed}"),
                ConnectionEvent::Writable => self.writable.push_back(id),
                _ => {}
            }
        }
        if self.delivered == self.connections {
            return Flow::Done;
        }
        Flow::Wait(self.record(now, set))
    }

    /// Writes to a few connections, whose data is then sent while it is in the cache.
    fn refill(&mut self, set: &mut ConnectionSet<Remote>, batches: usize) -> Refill {
        let now = clock::now();
        for id in self.writable.drain(..batches.min(self.writable.len())) {
            set.with(
                now,
                id,
                |connection| {
                    while connection.write(&self.source).is_ok_and(|written| written > 0) {}
                },
            );
        }
        if self.writable.is_empty() { Refill::Done } else { Refill::Ask }
    }
}
