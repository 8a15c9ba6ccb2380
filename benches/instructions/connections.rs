//! Cost of native connections alone at line rate: two connection sets exchange coalesced batches
//! as with GSO and GRO, without socket, link or clock. Counted by `.ci/instructions`. `cargo run
//! --bin connections -- one-way`, or another of the cases.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdt::crypto::{Aead, Entropy, StaticKey};
use rdt::transport::congestion::Algorithm;
use rdt::transport::{
    Connection, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig,
    Endpoint, InitiatorConfig, Observer, ReceiverConfig, ResponderConfig, SenderConfig, Trace, TransmitBuf,
};
use rdt::udp::clock;

/// Bytes of each stream, and payload bytes of each packet. Packets are small, so that the cost per
/// packet dominates.
const BYTES: u64 = 8 << 20;
const PAYLOAD: usize = 100;
/// Bytes of a packet besides its payload.
const OVERHEAD: usize = 40;
/// Window in packets.
const WINDOW: u32 = 8192;
/// Time from data to its ACK.
const TRIP: Duration = Duration::from_micros(50);
/// Number of batches per turn, as in `rdt_endpoint::thread`, and of datagrams per batch: as many of
/// 1472 bytes as one system call sends.
const BATCHES: usize = 4;
const BATCH: usize = 44;
/// In lossy cases one of this many datagrams is lost, a different one in each round trip.
const LOST: u64 = 1009;

/// Case that is counted, one row of the record.
struct Case {
    name: &'static str,
    /// Both sides send a stream.
    duplex: bool,
    lossy: bool,
    /// An observer counts the initiator's events.
    observed: bool,
    aead: Aead,
}

const PLAIN: Case = Case { name: "one-way", duplex: false, lossy: false, observed: false, aead: Aead::None };

const CASES: [Case; 6] = [
    PLAIN,
    Case { name: "one-way-lossy", lossy: true, ..PLAIN },
    Case { name: "one-way-observed", observed: true, ..PLAIN },
    Case { name: "duplex", duplex: true, ..PLAIN },
    Case { name: "one-way-aes", aead: Aead::Aes128Gcm, ..PLAIN },
    Case { name: "duplex-aes", duplex: true, aead: Aead::Aes128Gcm, ..PLAIN },
];

fn main() {
    let name = env::args().nth(1).unwrap_or_else(|| "one-way".into());
    let Some(case) = CASES.iter().find(|case| case.name == name) else {
        panic!("there is no case {name}: {}", CASES.map(|case| case.name).join(", "))
    };
    let mut pair = Pair::new(case);
    while !pair.is_finished() {
        pair.round();
    }
    let streams = if case.duplex { 2 } else { 1 };
    let [retransmitted, answers] = pair.ends.each_ref().iter().fold([0; 2], |[again, answers], end| {
        let stats = end.stats().sender;
        [again + stats.retransmitted, answers + stats.datagrams_received]
    });
    assert!(case.lossy || retransmitted == 0, "nothing was lost");
    let packets = streams * BYTES.div_ceil(PAYLOAD as u64) + retransmitted;
    let events = pair.events.load(Ordering::Relaxed);
    assert!(if case.observed { events > packets } else { events == 0 }, "{events} events");
    println!(
        "{name}: {packets} packets of data, {retransmitted} of them again, and {answers} answers in {:?} of virtual time, {events} events",
        pair.now - pair.started_at,
    );
}

/// Returns a configuration with a fixed window and without pacing, so that the cost of congestion
/// control is not counted.
fn config(case: &Case) -> ConnectionConfig {
    let default = ConnectionConfig::default();
    ConnectionConfig {
        sender: SenderConfig {
            congestion: Algorithm::Fixed(WINDOW),
            window: WINDOW,
            pacing: false,
            packet_size: PAYLOAD + OVERHEAD,
            ..default.sender
        },
        receiver: ReceiverConfig { keep_payload: false, ..default.receiver },
        one_way: !case.duplex,
        aead: case.aead.is_encrypted().then_some(case.aead),
        dangerously_unencrypted: !case.aead.is_encrypted(),
        ..default
    }
}

/// Observer that counts events.
struct Counter(Arc<AtomicU64>);

impl Observer for Counter {
    fn on(&mut self, _: Instant, _: &Trace) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One side, and what it has done.
struct End {
    set: ConnectionSet<()>,
    id: Option<ConnectionId>,
    /// Bytes still to be written; `None` after the end of the stream.
    left: Option<u64>,
    is_closed: bool,
}

impl End {
    /// `seed` makes all runs identical.
    fn new(seed: u8, left: Option<u64>) -> Self {
        let set = ConnectionSet::new(ConnectionSetConfig::default(), Entropy::from_seed([seed; 32]));
        Self { set, id: None, left, is_closed: false }
    }

    fn stats(&self) -> rdt::transport::ConnectionStats {
        self.id.and_then(|id| self.set.get(id)).map(Connection::stats).unwrap_or_default()
    }

    /// Handles events, then writes as much as fits.
    fn pump(&mut self, now: Instant) {
        while let Some((id, event)) = self.set.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } => self.id = Some(id),
                ConnectionEvent::Closed(_) => self.is_closed = true,
                _ => {}
            }
        }
        let Self { set, id: Some(id), left: left @ Some(_), .. } = self else { return };
        set.with(now, *id, |connection| Self::write(left, connection));
    }

    /// Writes; the payload is whatever the buffer contains.
    fn write(left: &mut Option<u64>, connection: &mut Connection) {
        while let Some(rest) = left {
            let Ok(room @ 1..) = connection.spare().map(|spare| spare.len()) else { return };
            let n = room.min(usize::try_from(*rest).unwrap_or(usize::MAX));
            connection.advance(n);
            *rest -= n as u64;
            if *rest == 0 {
                connection.finish();
                *left = None;
            }
        }
    }
}

/// Both sides, with the state of the exchange.
struct Pair {
    /// Initiator and responder.
    ends: [End; 2],
    now: Instant,
    started_at: Instant,
    out: TransmitBuf,
    /// Copy of `out` that is delivered, as a network makes one.
    arriving: Vec<u8>,
    /// Datagrams of the initiator so far, and whether some of them are lost.
    sent: u64,
    is_lossy: bool,
    /// Events of the initiator, if it is observed.
    events: Arc<AtomicU64>,
}

impl Pair {
    fn new(case: &Case) -> Self {
        // Start of virtual time.
        let now = clock::now();
        let identity = Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])));
        let mut ends = [End::new(1, Some(BYTES)), End::new(2, case.duplex.then_some(BYTES))];
        let initiator = InitiatorConfig { remote: Some(identity.public()), ..InitiatorConfig::default() };
        ends[1].set.listen(ResponderConfig { config: config(case), ..ResponderConfig::open(identity) });
        let id = ends[0].set.connect(now, (), initiator, config(case)).expect("a valid configuration");
        let events = Arc::default();
        if case.observed {
            let counter = Box::new(Counter(Arc::clone(&events)));
            ends[0].set.with(now, id, |connection| connection.observe(counter));
        }
        Self {
            ends,
            now,
            started_at: now,
            out: TransmitBuf::new(BATCH),
            arriving: Vec::new(),
            sent: 0,
            is_lossy: case.lossy,
            events,
        }
    }

    /// Performs a turn of each side.
    fn round(&mut self) {
        let mut any = false;
        for side in [0, 1] {
            any |= self.carry(side);
            self.now += TRIP;
        }
        let timers = self.ends.iter().filter_map(|end| end.set.poll_timeout()).min();
        if !any && let Some(due) = timers {
            self.now = self.now.max(due);
        }
        for end in &mut self.ends {
            if end.set.poll_timeout().is_some_and(|due| due <= self.now) {
                end.set.handle_timeout(self.now);
            }
        }
    }

    /// Carries the datagrams of one turn of a side. Returns false if there were none.
    fn carry(&mut self, side: usize) -> bool {
        for batch in 0..BATCHES {
            self.ends[side].pump(self.now);
            self.out.clear();
            if self.ends[side].set.poll_transmit(self.now, &mut self.out).is_none() {
                return batch > 0;
            }
            self.deliver(side);
        }
        true
    }

    /// Delivers the batch of a side as coalesced datagrams, without those that are lost.
    fn deliver(&mut self, side: usize) {
        let Self { ends, now, out, arriving, sent, is_lossy, .. } = self;
        arriving.clear();
        let size = out.segment_size();
        if *is_lossy && side == 0 {
            for datagram in out.bytes().chunks(size) {
                *sent += 1;
                if !sent.is_multiple_of(LOST) {
                    arriving.extend_from_slice(datagram);
                }
            }
        } else {
            arriving.extend_from_slice(out.bytes());
        }
        let mut rest = arriving.as_mut_slice();
        while !rest.is_empty() {
            let taken = ends[1 - side].set.handle_datagrams(*now, (), out.ecn(), rest, size);
            rest = rest.split_at_mut((taken * size).min(rest.len())).1;
        }
    }

    fn is_finished(&self) -> bool {
        self.ends.iter().all(|end| end.is_closed)
    }
}
