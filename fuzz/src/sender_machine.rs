//! A classic sender under an application's calls, a receiver's answers from the grammar, and time.

use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rdt_transport::congestion::Algorithm;
use rdt_transport::wire::FromSender;
use rdt_transport::{
    Ecn, Endpoint, LinkProperties, LossDetection, Sender, SenderConfig, SenderEvent, TransmitBuf,
};

use crate::grammar::{Damage, FromReceiver, Number};

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.01, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 10 };
/// Datagrams between two inputs: a sender that sends without end is a defect.
const MAX_DATAGRAMS: usize = 100_000;

#[derive(Debug, Arbitrary)]
struct Input {
    window: u8,
    congestion: u8,
    recovery: u8,
    pacing: bool,
    /// Whether the harness answers the handshake.
    handshake: bool,
    ops: Vec<Op>,
}

#[derive(Debug, Arbitrary)]
enum Op {
    Reply {
        packet: FromReceiver,
        damage: Damage,
    },
    /// Acknowledges a part of what was sent, as a receiver does, because random numbers alone
    /// seldom do.
    Ack {
        part: u8,
        window: u16,
    },
    Write {
        bytes: u16,
    },
    Advance {
        ms: u16,
    },
    ToDeadline,
    Push,
    Finish,
    Abort,
    Refused {
        reports: u8,
    },
}

struct Harness {
    sender: Sender,
    now: Instant,
    /// Number that the sender expects to be acknowledged.
    expected: u64,
    /// One past the last packet that was sent.
    sent: u64,
    /// True if the sender finished or failed: then a driver makes no further calls.
    is_over: bool,
    out: TransmitBuf,
}

pub fn run(data: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let Ok(mut sender) = Sender::new(config(&input)) else { return };
    if std::env::var_os("RDT_FUZZ_SHOW").is_some() {
        println!("{input:#?}");
        sender.observe(Box::new(Show));
    }
    sender.open().expect("a new sender opens");
    let (out, now) = (TransmitBuf::new(64), Instant::now());
    let mut harness = Harness { sender, now, expected: 0, sent: 0, is_over: false, out };
    harness.drain();
    if input.handshake {
        harness.connect();
    }
    for op in input.ops {
        if harness.is_over {
            return;
        }
        harness.apply(op);
        harness.drain();
    }
}

fn config(input: &Input) -> SenderConfig {
    let window = u32::from(input.window) + 1;
    let congestion = match input.congestion % 4 {
        0 => Algorithm::Fixed(window),
        1 => Algorithm::Reno,
        2 => Algorithm::Cubic,
        _ => Algorithm::Bbr,
    };
    let recovery = match input.recovery % 6 {
        0 => LossDetection::BaseOnly,
        1 => LossDetection::NewReno,
        2 => LossDetection::Sack,
        4 => LossDetection::Reno,
        5 => LossDetection::Tahoe,
        _ => LossDetection::Rack,
    };
    SenderConfig { congestion, recovery, pacing: input.pacing, ..SenderConfig::new(window, LINK) }
}

impl Harness {
    fn connect(&mut self) {
        self.now += Duration::from_millis(10);
        let answer = FromReceiver::Reply { flags: 0, window: 1000, ack: Number::Any(0) };
        self.receive(&mut answer.encode(self.expected));
        self.drain();
    }

    fn receive(&mut self, bytes: &mut [u8]) {
        self.sender.handle_datagram(self.now, (), Ecn::NotEct, bytes);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Reply { packet, damage } => {
                let mut bytes = packet.encode(self.expected);
                damage.apply(&mut bytes);
                self.receive(&mut bytes);
            }
            Op::Ack { part, window } => {
                let ack = self.expected + self.sent.saturating_sub(self.expected) * u64::from(part) / 255;
                let packet = FromReceiver::Reply { flags: 1, window: window.into(), ack: Number::Any(ack) };
                self.expected = ack;
                self.receive(&mut packet.encode(self.expected));
            }
            Op::Write { bytes } => {
                let _ = self.sender.write(&vec![7; usize::from(bytes)]);
            }
            Op::Advance { ms } => self.advance(self.now + Duration::from_millis(u64::from(ms))),
            Op::ToDeadline => {
                if let Some(deadline) = self.sender.poll_timeout() {
                    self.advance(deadline.max(self.now));
                }
            }
            Op::Push => self.sender.push(),
            Op::Finish => {
                let _ = self.sender.finish();
            }
            Op::Abort => self.sender.abort(),
            Op::Refused { reports } => self.sender.handle_refused(self.now, (), u64::from(reports)),
        }
    }

    fn advance(&mut self, to: Instant) {
        self.now = to;
        for _ in 0..1000 {
            match self.sender.poll_timeout() {
                Some(deadline) if deadline <= self.now && !self.is_over => {
                    self.sender.handle_timeout(self.now)
                }
                _ => return,
            }
            self.drain();
        }
        panic!("a timer stays due: {:?}", self.sender.stats());
    }

    /// Processes events and datagrams; every datagram must decode.
    fn drain(&mut self) {
        while let Some(event) = self.sender.poll_event() {
            self.is_over |= !matches!(event, SenderEvent::Connected { .. });
        }
        let mut datagrams = 0;
        loop {
            self.out.clear();
            if self.sender.poll_transmit(self.now, &mut self.out).is_none() {
                break;
            }
            let size = self.out.segment_size().max(1);
            for datagram in self.out.bytes().chunks(size) {
                datagrams += 1;
                assert!(datagrams < MAX_DATAGRAMS, "datagrams without end");
                let packet = FromSender::decode(datagram, self.sent).expect("a sender's datagram decodes");
                if let FromSender::Data(piece) = packet {
                    self.sent = self.sent.max(piece.seq + 1);
                }
            }
        }
        let stats = self.sender.stats();
        assert!(stats.snd_una <= stats.snd_nxt, "{} > {}", stats.snd_una, stats.snd_nxt);
    }
}

/// Prints every event of the sender, for a finding (`RDT_FUZZ_SHOW=1`).
struct Show;

impl rdt_transport::Observer for Show {
    fn on(&mut self, _: Instant, trace: &rdt_transport::Trace) {
        println!("{trace:?}");
    }
}
