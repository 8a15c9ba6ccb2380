//! Cost of a classic transfer alone at line rate: a sender and a server exchange coalesced batches
//! as with GSO and GRO, without socket, link or clock. Counted by `.ci/instructions`. `cargo run
//! --bin machines -- classic`, or another of the cases; connections.rs counts native.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdt::server::{LinkMode, Server, ServerConfig};
use rdt::transport::{
    AckPolicy, Ecn, Endpoint, LinkProperties, Observer, ReceiverConfig, ReceiverEvent, Sender, SenderConfig,
    SenderEvent, Trace, TransmitBuf,
};
use rdt::udp::clock;

/// Bytes of the transfer, and payload bytes of each packet. Packets are small, so that the cost per
/// packet dominates.
const BYTES: u64 = 8 << 20;
const PAYLOAD: usize = 100;
/// Window in packets.
const WINDOW: u32 = 8192;
/// Time from data to its ACK.
const TRIP: Duration = Duration::from_micros(50);
/// Number of batches per turn, as in `rdt_endpoint::thread`, and of datagrams per batch: as many of
/// 1472 bytes as one system call sends.
const BATCHES: usize = 4;
const BATCH: usize = 44;
/// In lossy cases one of this many datagrams is lost, a different one in each round trip.
const LOST: usize = 1009;
/// Link that the SYN requests; it is not emulated.
const NO_LINK: LinkProperties =
    LinkProperties { rtt_s: 0.0, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };

/// Case that is counted, one row of the record.
struct Case {
    name: &'static str,
    ack: AckPolicy,
    lossy: bool,
    /// An observer counts the sender's events.
    observed: bool,
}

const CASES: [Case; 4] = [
    Case { name: "classic", ack: AckPolicy::EveryPacket, lossy: false, observed: false },
    Case { name: "classic-batch", ack: AckPolicy::Batch, lossy: false, observed: false },
    Case { name: "classic-lossy", ack: AckPolicy::EveryPacket, lossy: true, observed: false },
    Case { name: "classic-observed", ack: AckPolicy::EveryPacket, lossy: false, observed: true },
];

fn main() {
    let name = env::args().nth(1).unwrap_or_else(|| "classic".into());
    let Some(case) = CASES.iter().find(|case| case.name == name) else {
        panic!("there is no case {name}: {}", CASES.map(|case| case.name).join(", "))
    };
    let mut pair = Pair::new(case);
    while !pair.is_finished() {
        pair.round();
    }
    let stats = pair.sender.stats();
    assert!(case.lossy || stats.retransmitted == 0, "nothing was lost");
    let packets = BYTES.div_ceil(PAYLOAD as u64);
    let events = pair.events.load(Ordering::Relaxed);
    assert!(if case.observed { events > packets } else { events == 0 }, "{events} events");
    println!(
        "{name}: {} packets of data, {} of them again, and {} answers in {:?} of virtual time, {events} events",
        packets + stats.retransmitted,
        stats.retransmitted,
        stats.datagrams_received,
        stats.elapsed(),
    );
}

/// Returns the configuration: a fixed window, and small packets.
fn config() -> SenderConfig {
    let mut config = SenderConfig::new(WINDOW, NO_LINK);
    config.packet_size = config.packet_size - config.payload_size() + PAYLOAD;
    config
}

/// Observer that counts events.
struct Counter(Arc<AtomicU64>);

impl Observer for Counter {
    fn on(&mut self, _: Instant, _: &Trace) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sender and server, with the state of the exchange.
struct Pair {
    sender: Sender,
    server: Server<()>,
    now: Instant,
    out: TransmitBuf,
    /// Copy of `out` that is delivered, as a network makes one.
    arriving: Vec<u8>,
    written: u64,
    /// Number of datagrams to deliver before the next loss.
    until_loss: usize,
    /// Events of the sender, if it is observed.
    events: Arc<AtomicU64>,
}

impl Pair {
    fn new(case: &Case) -> Self {
        let mut sender = Sender::new(config()).expect("a valid configuration");
        let events = Arc::default();
        if case.observed {
            sender.observe(Box::new(Counter(Arc::clone(&events))));
        }
        sender.open().expect("a new sender opens");
        let receiver = ReceiverConfig { ack: case.ack, ..ReceiverConfig::reference() };
        Self {
            sender,
            server: Server::new(ServerConfig::new(receiver, LinkMode::None)),
            // Start of virtual time.
            now: clock::now(),
            out: TransmitBuf::new(BATCH),
            arriving: Vec::new(),
            written: 0,
            until_loss: if case.lossy { LOST } else { usize::MAX },
            events,
        }
    }

    /// Performs a turn of the sender, then one of the server.
    fn round(&mut self) {
        let sent = self.carry_data();
        self.now += TRIP;
        advance_to(&mut self.server, self.now);
        let answered = self.carry_answers();
        if !sent && !answered {
            let due = [self.sender.poll_timeout(), self.server.poll_timeout()];
            self.now = due.into_iter().flatten().min().map_or(self.now, |due| due.max(self.now));
        }
        advance_to(&mut self.sender, self.now);
    }

    /// Sends the datagrams of one turn. Returns false if there were none.
    fn carry_data(&mut self) -> bool {
        self.write();
        for batch in 0..BATCHES {
            self.out.clear();
            if self.sender.poll_transmit(self.now, &mut self.out).is_none() {
                return batch > 0;
            }
            self.deliver();
        }
        true
    }

    /// Delivers the batch as coalesced datagrams, without those that are lost.
    fn deliver(&mut self) {
        let Self { server, now, out, arriving, until_loss, .. } = self;
        arriving.clear();
        arriving.extend_from_slice(out.bytes());
        let (size, mut rest) = (out.segment_size(), arriving.as_mut_slice());
        while !rest.is_empty() {
            let (arriving, others) = rest.split_at_mut(until_loss.saturating_mul(size).min(rest.len()));
            if !arriving.is_empty() {
                *until_loss -= server.handle_datagrams(*now, (), out.ecn(), arriving, size);
            }
            rest = others;
            if !rest.is_empty() {
                let lost = size.min(rest.len());
                rest = &mut rest[lost..];
                *until_loss = LOST - 1;
            }
        }
    }

    /// Delivers the ACKs. Returns false if there were none.
    fn carry_answers(&mut self) -> bool {
        while let Some((sender, event)) = self.server.poll_event() {
            if let ReceiverEvent::Finished { .. } = event {
                self.server.confirm(self.now, sender);
            }
        }
        let mut answered = false;
        loop {
            self.out.clear();
            if self.server.poll_transmit(self.now, &mut self.out).is_none() {
                return answered;
            }
            self.arriving.clear();
            self.arriving.extend_from_slice(self.out.bytes());
            let size = self.out.segment_size();
            self.sender.handle_datagrams(self.now, (), Ecn::NotEct, &mut self.arriving, size);
            answered = true;
        }
    }

    /// Writes as much data as may be sent now, until the end of the transfer.
    fn write(&mut self) {
        while self.written < BYTES
            && let Ok(room @ 1..) = self.sender.spare_now(BATCHES).map(|spare| spare.len())
        {
            // The payload is whatever the buffer contains.
            let rest = usize::try_from(BYTES - self.written).unwrap_or(usize::MAX);
            let n = room.min(rest);
            self.sender.advance(n);
            self.written += n as u64;
            if self.written == BYTES {
                self.sender.finish().expect("it was opened");
            }
        }
    }

    fn is_finished(&mut self) -> bool {
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { crc } => {
                    assert_eq!(crc, self.sender.stats().crc);
                    return true;
                }
                SenderEvent::Failed { phase, error } => panic!("{phase}: {error}"),
            }
        }
        false
    }
}

fn advance_to(machine: &mut impl Endpoint, now: Instant) {
    if machine.poll_timeout().is_some_and(|deadline| deadline <= now) {
        machine.handle_timeout(now);
    }
}
