//! Classic receivers of a set under packets of several peers, reads by the application,
//! and time.

use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rdt_transport::wire::{FromReceiver, WireError};
use rdt_transport::{
    ClassicConfig, ConnectionSet, ConnectionSetConfig, Ecn, Endpoint, ReceiverConfig, ReceiverEvent,
    TransmitBuf,
};

use crate::grammar::{Damage, FromSender, Number};

const PEERS: u8 = 4;
/// Bytes of all receivers together; small, so that the limit is reached.
const MEMORY: u64 = 64 << 10;
/// Bytes of one peer that may be unread beyond the limit, and the largest datagram.
const SLACK: u64 = (128 << 10) + 1500;
/// Datagrams between two inputs: a set that answers without end is a defect.
const MAX_REPLIES: usize = 10_000;

#[derive(Debug, Arbitrary)]
struct Input {
    dummy: bool,
    ops: Vec<Op>,
}

#[derive(Debug, Arbitrary)]
enum Op {
    Packet {
        peer: u8,
        packet: FromSender,
        damage: Damage,
        ecn: u8,
    },
    /// Data in order, because random numbers alone seldom extend a stream.
    Next {
        peer: u8,
        len: u16,
    },
    Advance {
        ms: u16,
    },
    Consume {
        peer: u8,
        bytes: u16,
    },
    Confirm {
        peer: u8,
    },
    Close {
        peer: u8,
    },
    Overflow {
        messages: u8,
    },
}

struct Harness {
    set: ConnectionSet<u8>,
    now: Instant,
    /// Number of the next packet that each receiver expects.
    expected: [u64; PEERS as usize],
    out: TransmitBuf,
}

pub fn run(data: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let receiver = if input.dummy { ReceiverConfig::dummy() } else { ReceiverConfig::reference() };
    let receiver = ReceiverConfig { keep_payload: !input.dummy, ..receiver };
    let config = ConnectionSetConfig {
        classic: Some(ClassicConfig::new(receiver)),
        memory_limit: MEMORY,
        connection_memory_limit: MEMORY / 2,
        ..ConnectionSetConfig::default()
    };
    let mut harness = Harness {
        set: ConnectionSet::classic_only(config),
        now: Instant::now(),
        expected: [0; PEERS as usize],
        out: TransmitBuf::new(64),
    };
    for op in input.ops {
        harness.apply(op);
        harness.drain();
        let memory = harness.set.memory();
        assert!(memory <= MEMORY + u64::from(PEERS) * SLACK, "{memory} bytes held");
    }
}

impl Harness {
    fn apply(&mut self, op: Op) {
        let now = self.now;
        match op {
            Op::Packet { peer, packet, damage, ecn } => {
                let peer = peer % PEERS;
                let mut bytes = packet.encode(self.expected[usize::from(peer)]);
                damage.apply(&mut bytes);
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(ecn % 4)];
                self.set.handle_datagram(now, peer, ecn, &mut bytes);
            }
            Op::Next { peer, len } => {
                let peer = peer % PEERS;
                let packet = FromSender::Data { seq: Number::Near(0), len };
                let mut bytes = packet.encode(self.expected[usize::from(peer)]);
                self.set.handle_datagram(now, peer, Ecn::Ect0, &mut bytes);
            }
            Op::Advance { ms } => {
                self.now += Duration::from_millis(u64::from(ms));
                for _ in 0..100 {
                    match self.set.poll_timeout() {
                        Some(deadline) if deadline <= self.now => self.set.handle_timeout(self.now),
                        _ => return,
                    }
                    self.drain();
                }
                panic!("a timer stays due");
            }
            Op::Consume { peer, bytes } => {
                let unread = self.set.classic().data(peer % PEERS).unwrap_or_default().len();
                let n = unread.min(usize::from(bytes));
                self.set.consume_classic(peer % PEERS, n);
            }
            Op::Confirm { peer } => self.set.confirm_classic(peer % PEERS),
            Op::Close { peer } => self.set.close_classic(peer % PEERS),
            Op::Overflow { messages } => self.set.handle_overflow(u64::from(messages)),
        }
    }

    /// Processes events and replies, and learns from the replies what the receivers expect.
    fn drain(&mut self) {
        while let Some((_, event)) = self.set.poll_classic_event() {
            if let ReceiverEvent::Finished { bytes, .. } = event {
                assert!(bytes < u64::MAX);
            }
        }
        let mut replies = 0;
        loop {
            self.out.clear();
            let Some(peer) = self.set.poll_transmit(self.now, &mut self.out) else { return };
            let size = self.out.segment_size().max(1);
            for reply in self.out.bytes().chunks(size) {
                replies += 1;
                assert!(replies < MAX_REPLIES, "answers without end");
                learn(&mut self.expected[usize::from(peer)], reply);
            }
        }
    }
}

fn learn(expected: &mut u64, reply: &[u8]) {
    match FromReceiver::decode(reply, *expected) {
        Ok(FromReceiver::SynAck { ack, .. }) => *expected = ack,
        Ok(FromReceiver::Ack(ack)) => *expected = ack.ack,
        // The harness drew a number far from the one that it knows.
        Ok(FromReceiver::FinAck { .. }) | Err(WireError::Sequence) => {}
        Err(error) => panic!("a reply does not decode: {error}"),
    }
}
