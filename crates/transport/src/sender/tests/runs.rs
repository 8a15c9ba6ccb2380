//! Runs of segments, compared with single segments: of two senders, one sends batches of one
//! segment, processes segments one by one, and is observed.

use std::collections::VecDeque;

use super::native::{answer_to, connected_after, opened, recv_ack};
use super::*;
use crate::receiver::{Receiver, ReceiverConfig};
use crate::wire::native::{self, Body, SackBlock};
use crate::{LossDetection, Observer, Reordering};
use rdt_testing::random;

/// Round trip of the handshake, ms.
const RTT: u64 = 10;

/// Observer that does nothing.
struct Hears;

impl Observer for Hears {
    fn on(&mut self, _: Instant, _: &Trace) {}
}

/// Two senders, the receiver of what both send, and the datagrams in flight.
struct Pair {
    single: Script,
    runs: Script,
    receiver: Receiver,
    clock: Duration,
    there: VecDeque<Vec<u8>>,
    back: VecDeque<(native::Ack, Vec<SackBlock>)>,
}

impl Pair {
    fn new(config: &SenderConfig) -> Self {
        let epoch = rdt_testing::epoch();
        let params = Params { ecn: true, ..Params::default() };
        let connected = || connected_after(epoch, RTT, config.clone(), params);
        let mut single = connected();
        single.sender.observe(Box::new(Hears));
        single.batch = TransmitBuf::new(1);
        single.sender.flight.one_by_one = true;
        let runs = connected();
        let receiver = Receiver::established(ReceiverConfig::reference(), &params, None, epoch);
        let (there, back) = (VecDeque::new(), VecDeque::new());
        Self { single, runs, receiver, clock: ms(RTT), there, back }
    }

    fn now(&self) -> Instant {
        self.single.epoch + self.clock
    }

    fn wait(&mut self, time: Duration) {
        self.clock += time;
        self.single.at_exactly(self.clock);
        self.runs.at_exactly(self.clock);
    }

    fn write(&mut self, bytes: &[u8]) {
        assert_eq!(self.single.sender.write(bytes), self.runs.sender.write(bytes));
    }

    /// Sends all that the windows allow, and loses one datagram in `lost`; 0 for none.
    fn send(&mut self, random: &mut impl FnMut(u64) -> u64, lost: u64) {
        let (single, runs) = (self.single.datagrams(), self.runs.datagrams());
        assert_eq!(single, runs);
        self.there.extend(runs.into_iter().filter(|_| lost == 0 || random(lost) > 0));
    }

    /// Delivers `count` datagrams to the receiver, which answers.
    fn deliver(&mut self, count: u64) {
        let now = self.now();
        for _ in 0..count {
            let Some(datagram) = self.there.pop_front() else { break };
            let Body::Data { piece, .. } = opened(&datagram).1 else { panic!("{datagram:?}") };
            self.receiver.handle_data(now, &piece, Ecn::Ect0, 1 << 30);
            while !self.receiver.data().is_empty() {
                self.receiver.consume(self.receiver.data().len());
            }
        }
        while let Some((ack, blocks)) = self.receiver.take_ack(now) {
            self.back.push_back((ack, blocks.to_vec()));
        }
    }

    fn answer(&mut self, ack: &native::Ack, blocks: &[SackBlock]) {
        recv_ack(&mut self.single, ack, blocks);
        recv_ack(&mut self.runs, ack, blocks);
    }

    /// Asserts that both senders have the same visible state and the same records of transmissions.
    fn compare(&self, at: &str) {
        let (single, runs) = (&self.single.sender, &self.runs.sender);
        assert_eq!(format!("{:?}", single.stats()), format!("{:?}", runs.stats()), "{at}");
        assert_eq!(format!("{:?}", single.flight.rate), format!("{:?}", runs.flight.rate), "{at}");
        assert_eq!(format!("{:?}", single.recovery), format!("{:?}", runs.recovery), "{at}");
        assert_eq!(
            format!("{:?}", single.congestion.controller),
            format!("{:?}", runs.congestion.controller),
            "{at}"
        );
        assert_eq!(format!("{:?}", single.path.mtu), format!("{:?}", runs.path.mtu), "{at}");
        assert_eq!(format!("{:?}", single.flight.board), format!("{:?}", runs.flight.board), "{at}");
        assert_eq!(single.flight.sent.first(), runs.flight.sent.first(), "{at}");
        assert_eq!(single.poll_timeout(), runs.poll_timeout(), "{at}");
    }
}

fn config(random: &mut impl FnMut(u64) -> u64) -> SenderConfig {
    let pick = |index: u64| usize::try_from(index).unwrap();
    let window = 2 + u32::try_from(random(60)).unwrap();
    let congestion =
        [Algorithm::Fixed(window), Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr][pick(random(4))];
    let rules = [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];
    SenderConfig {
        window,
        congestion,
        recovery: rules[pick(random(4))],
        reordering: [Reordering::UntilLoss, Reordering::OnceSeen][pick(random(2))],
        pacing: random(2) == 0,
        packet_size: [300, 1472][pick(random(2))],
        give_up: Duration::from_secs(1000),
        ..SenderConfig::native(7)
    }
}

/// An ACK that no honest receiver would send: any cumulative ACK, inside of segments too, and any
/// echo.
fn lie(random: &mut impl FnMut(u64) -> u64, sender: &Sender) -> native::Ack {
    let (una, sent) = (sender.flight.board.una_offset(), sender.flight.board.next_offset());
    let (ack, number) = (una + random(sent - una + 1), random(sender.flight.next_number() + 1));
    native::Ack { ack, window: 1 << 20, ..answer_to(number) }
}

/// Returns the number of bytes that arrived in order.
fn run(seed: u64) -> u64 {
    let mut random = random(seed);
    let mut pair = Pair::new(&config(&mut random));
    let lost = [0, 100, 10][usize::try_from(seed % 3).unwrap()];
    let lies = seed.is_multiple_of(4);
    for step in 0..600 {
        match random(8) {
            0 => pair.write(&pattern(step, 20_000)),
            1 | 2 => pair.send(&mut random, lost),
            3 | 4 => pair.deliver(1 + random(40)),
            5 => pair.wait(Duration::from_micros(random(20_000))),
            6 if lies && random(6) == 0 => {
                let ack = lie(&mut random, &pair.runs.sender);
                pair.answer(&ack, &[]);
            }
            6 if lost > 0 && pair.there.len() > 1 => pair.there.swap(0, 1),
            _ => {
                for _ in 0..random(4) {
                    let Some((ack, blocks)) = pair.back.pop_front() else { break };
                    pair.answer(&ack, &blocks);
                }
            }
        }
        pair.compare(&format!("seed {seed} step {step}"));
    }
    pair.receiver.rcv_nxt()
}

#[test]
fn run_state_equals_single_segments() {
    let moved = (0..48).filter(|seed| run(*seed) > 50_000).count();
    assert!(moved > 24, "only {moved} transfers got anywhere");
}
