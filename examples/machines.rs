//! A sender and a listener that hand each other their datagrams, with no socket, no link and no clock: what the machines
//! alone do for a packet. `.ci/instructions` counts it. `cargo run --example machines -- native` (or `classic`).

use std::env;
use std::time::{Duration, Instant};

use rdt::driver::clock;
use rdt::transport::{
    Ecn, Endpoint, LinkProperties, Listener, ListenerConfig, ReceiverConfig, ReceiverEvent, Sender,
    SenderConfig, SenderEvent, TransmitBuf,
};

/// Bytes of the transfer, and of each packet's payload: small, so that its bytes hardly count.
const BYTES: u64 = 4 << 20;
const PAYLOAD: usize = 100;
/// From round to round.
const ROUND: Duration = Duration::from_micros(100);
/// Batches that leave in a round at most, of so many datagrams.
const BATCHES: usize = 4;
const BATCH: usize = 64;
/// One datagram of so many is lost, a different one each round trip.
const LOST: u64 = 1009;
/// There is no link, whatever is asked for.
const NO_LINK: LinkProperties =
    LinkProperties { rtt_s: 0.0, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };

fn main() {
    let format = env::args().nth(1).unwrap_or_else(|| "native".into());
    let mut config = match format.as_str() {
        "classic" => SenderConfig::new(256, NO_LINK),
        "native" => SenderConfig::native(7),
        other => panic!("there is no format {other}: classic or native"),
    };
    config.packet_size = config.packet_size - config.payload_size() + PAYLOAD;
    let mut pair = Pair::new(config);
    while !pair.is_finished() {
        pair.round();
    }
    let stats = pair.sender.stats();
    println!(
        "{format}: {} packets of data, {} of them again, and {} answers in {:?} of virtual time",
        BYTES.div_ceil(PAYLOAD as u64) + stats.retransmitted,
        stats.retransmitted,
        stats.datagrams_received,
        stats.elapsed(),
    );
}

/// The two, and what lies between them.
struct Pair {
    sender: Sender,
    listener: Listener<()>,
    now: Instant,
    out: TransmitBuf,
    written: u64,
    sent: u64,
}

impl Pair {
    fn new(config: SenderConfig) -> Self {
        let mut sender = Sender::new(config).expect("a valid configuration");
        sender.open().expect("a new sender opens");
        let mut listener = ListenerConfig::new(ReceiverConfig::reference());
        // Else it is drawn at random.
        listener.secret = Some([1; 32]);
        Self {
            sender,
            listener: Listener::new(listener),
            // An epoch for times that are made up from here on.
            now: clock::now(),
            out: TransmitBuf::new(BATCH),
            written: 0,
            sent: 0,
        }
    }

    /// What a round trip is made of.
    fn round(&mut self) {
        self.now += ROUND;
        advance_to(&mut self.sender, self.now);
        advance_to(&mut self.listener, self.now);
        for _ in 0..BATCHES {
            self.write();
            self.out.clear();
            if self.sender.poll_transmit(self.now, &mut self.out).is_none() {
                break;
            }
            for datagram in self.out.datagrams() {
                self.sent += 1;
                if !self.sent.is_multiple_of(LOST) {
                    self.listener.handle_datagram(self.now, (), self.out.ecn(), datagram);
                }
            }
        }
        while let Some(((), event)) = self.listener.poll_event() {
            if let ReceiverEvent::Finished { .. } = event {
                self.listener.confirm(());
            }
        }
        loop {
            self.out.clear();
            if self.listener.poll_transmit(self.now, &mut self.out).is_none() {
                break;
            }
            for datagram in self.out.datagrams() {
                self.sender.handle_datagram(self.now, (), Ecn::NotEct, datagram);
            }
        }
    }

    /// As much as the sender takes, until the end.
    fn write(&mut self) {
        while self.written < BYTES
            && let Ok(room @ 1..) = self.sender.spare().map(|spare| spare.len())
        {
            // What is there is as good as anything else.
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

/// Fires what is due.
fn advance_to(machine: &mut impl Endpoint, now: Instant) {
    if machine.poll_timeout().is_some_and(|deadline| deadline <= now) {
        machine.handle_timeout(now);
    }
}
