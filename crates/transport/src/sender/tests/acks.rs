//! ACKs that arrive coalesced, compared with the same ACKs one by one.

use std::sync::{Arc, Mutex};

use super::*;
use crate::{Interest, Metrics, Observer, RtoPolicy};
use rdt_testing::random;

/// Events reported to an observer, and the last metrics.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    facts: Vec<(Instant, Trace)>,
    metrics: Option<Metrics>,
}

/// Observer of RTT samples only.
struct Sparing(Log);

impl Observer for Log {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut told = self.0.lock().unwrap();
        match trace {
            Trace::MetricsUpdated(metrics) => told.metrics = Some(*metrics),
            // The sender reports its timers after each call, and coalesced ACKs are one call.
            Trace::TimerSet { .. } | Trace::TimerCancelled { .. } => {}
            _ => told.facts.push((now, *trace)),
        }
    }
}

impl Observer for Sparing {
    fn on(&mut self, now: Instant, trace: &Trace) {
        assert!(matches!(trace, Trace::AckReceived { .. }), "told of nothing else: {trace:?}");
        self.0.on(now, trace);
    }

    fn interest(&self) -> Interest {
        Interest::RoundTrips
    }
}

/// Two senders that receive the same ACKs, one of them coalesced.
struct Pair {
    joined: Script,
    single: Script,
    logs: [Log; 2],
}

impl Pair {
    /// `heard` selects the observer: 0 for all events, 1 for RTT samples, 2 for none.
    fn new(config: &SenderConfig, heard: u64) -> Self {
        let logs = [Log::default(), Log::default()];
        let [joined, mut single] = logs.each_ref().map(|log| {
            let mut script = Script::new(config.clone());
            let sparing: Box<dyn Observer> = Box::new(Sparing(log.clone()));
            match heard {
                0 => script.sender.observe(Box::new(log.clone())),
                1 => script.sender.observe(Box::new(vec![sparing])),
                _ => {}
            }
            script
        });
        (single.epoch, single.now) = (joined.epoch, joined.now);
        let mut pair = Self { joined, single, logs };
        pair.both(|script| {
            script.sent();
            script.at(100).recv(&syn_ack(config.window));
        });
        pair
    }

    fn both(&mut self, act: impl Fn(&mut Script)) {
        act(&mut self.joined);
        act(&mut self.single);
    }

    fn recv(&mut self, bytes: &[u8], stride: usize) {
        let now = self.joined.now;
        let count = self.joined.sender.handle_datagrams(now, (), Ecn::NotEct, &mut bytes.to_vec(), stride);
        assert_eq!(count, bytes.len().div_ceil(stride).max(1));
        if bytes.is_empty() {
            self.single.recv_bytes(bytes);
        }
        for datagram in bytes.chunks(stride) {
            self.single.recv_bytes(datagram);
        }
    }

    /// Asserts that both senders have the same state, sent the same packets and reported the same
    /// events.
    fn compare(&mut self, at: &str) {
        let (joined, single) = (&mut self.joined, &mut self.single);
        assert_eq!(joined.events(), single.events(), "{at}");
        let (joined, single) = (&joined.sender, &single.sender);
        assert_eq!(format!("{:?}", joined.stats()), format!("{:?}", single.stats()), "{at}");
        assert_eq!(format!("{:?}", joined.path.rtt), format!("{:?}", single.path.rtt), "{at}");
        assert_eq!(format!("{:?}", joined.recovery), format!("{:?}", single.recovery), "{at}");
        assert_eq!(
            format!("{:?}", joined.congestion.controller),
            format!("{:?}", single.congestion.controller),
            "{at}"
        );
        assert_eq!(format!("{:?}", joined.flight.board), format!("{:?}", single.flight.board), "{at}");
        assert_eq!(format!("{:?}", joined.peer), format!("{:?}", single.peer), "{at}");
        assert_eq!(format!("{:?}", joined.state), format!("{:?}", single.state), "{at}");
        assert_eq!(
            joined.give_up_timer.unreachable.is_some(),
            single.give_up_timer.unreachable.is_some(),
            "{at}"
        );
        assert_eq!(joined.poll_timeout(), single.poll_timeout(), "{at}");
        let [joined, single] =
            self.logs.each_ref().map(|log| std::mem::take(&mut log.0.lock().unwrap().facts));
        assert_eq!(joined, single, "{at}");
        let [joined, single] = self.logs.each_ref().map(|log| log.0.lock().unwrap().metrics);
        assert_eq!(joined, single, "{at}");
    }
}

/// Returns ACKs of a receiver that acknowledges every packet, and occasionally some that it would
/// not send.
fn answers(random: &mut impl FnMut(u64) -> u64, stats: &SenderStats) -> Vec<u8> {
    let mut edge = stats.snd_una;
    let mut bytes = Vec::new();
    for _ in 0..=random(40) {
        let window = if random(20) == 0 { u32::try_from(random(3)).unwrap() } else { 60 };
        let reply = match random(40) {
            0 => ack(random(1 << 32), window),
            1 => ack(edge.saturating_sub(random(3)), window),
            2 => fin_ack(edge, window),
            3 => syn_ack(window),
            4 => ack(stats.snd_nxt + random(2), window),
            _ => {
                // Not every ACK arrives.
                edge += 1 + u64::from(random(6) == 0) * random(4);
                ack(edge, window)
            }
        };
        let mut datagram = encoded(&reply);
        if random(60) == 0 {
            datagram[usize::try_from(random(REPLY_LEN as u64)).unwrap()] ^= 1;
        }
        bytes.extend(datagram);
    }
    if random(10) == 0 {
        bytes.truncate(usize::try_from(random(bytes.len() as u64)).unwrap());
    }
    bytes
}

/// Returns the number of acknowledged packets.
fn run(seed: u64) -> u64 {
    let mut random = random(seed);
    let window = 1 + u32::try_from(random(60)).unwrap();
    let attempts = Attempts { syn: 3, data: 50, fin: 50 };
    let rto = if seed.is_multiple_of(5) { SenderConfig::native(0).rto } else { RtoPolicy::Reference };
    let config = SenderConfig { attempts, rto, give_up: Duration::from_secs(1000), ..config(window) };
    let mut pair = Pair::new(&config, seed % 3);
    let mut clock = ms(100);
    for step in 0..600 {
        let at = format!("seed {seed} step {step}");
        match random(8) {
            0 | 1 => {
                let len = usize::try_from(random(9000)).unwrap();
                pair.both(|script| {
                    script.written += script.sender.write(&pattern(script.written, len)).unwrap();
                });
            }
            2 | 3 => assert_eq!(pair.joined.datagrams(), pair.single.datagrams(), "{at}"),
            4 => {
                let most = if random(4) == 0 { 800_000 } else { 40_000 };
                clock += Duration::from_micros(random(most));
                pair.both(|script| {
                    script.at_exactly(clock);
                });
            }
            5 if random(4) == 0 => {
                let now = pair.joined.now;
                pair.both(|script| script.sender.handle_refused(now, (), 1));
            }
            5 if step > 500 => pair.both(|script| script.sender.finish().unwrap()),
            _ => {
                let bytes = answers(&mut random, &pair.joined.stats());
                let stride = if random(30) == 0 { 1 + random(20) } else { REPLY_LEN as u64 };
                pair.recv(&bytes, usize::try_from(stride).unwrap());
            }
        }
        pair.compare(&at);
    }
    pair.joined.stats().snd_una
}

#[test]
fn coalesced_acks_equal_single_acks() {
    let moved = (0..60).filter(|seed| run(*seed) > 500).count();
    assert!(moved > 30, "only {moved} transfers got anywhere");
}

#[test]
fn observer_hears_of_each_coalesced_ack() {
    let log = Log::default();
    let mut script = Script::flowing(60, 60);
    script.sender.observe(Box::new(Sparing(log.clone())));
    assert_eq!(script.data().len(), 60);
    let mut acks: Vec<u8> = (1..=61).flat_map(|edge| encoded(&ack(edge.min(60), 60))).collect();
    let now = script.at(200).now;
    script.sender.handle_datagrams(now, (), Ecn::NotEct, &mut acks, REPLY_LEN);
    let stats = script.stats();
    assert_eq!((stats.snd_una, stats.datagrams_received, stats.stale), (60, 62, 1));
    let facts = std::mem::take(&mut log.0.lock().unwrap().facts);
    let edges = facts.iter().map(|(_, fact)| match fact {
        Trace::AckReceived { ack, sample, .. } => (*ack, *sample),
        other => panic!("{other:?}"),
    });
    assert!(edges.eq((1..=60).map(|edge| (edge, Some(ms(100))))), "{facts:?}");
}

#[test]
fn classic_sender_wraps_numbers_at_32_bits() {
    let wrap = 1_u64 << 32;
    let mut pair = Pair::new(&config(40), 2);
    pair.both(|script| {
        script.sender.flight.board.number_from(wrap - 5);
        script.write(12 * PAYLOAD).finish();
        let numbers =
            script.datagrams().into_iter().map(|datagram| match decode_from_sender(&datagram, wrap) {
                Ok(FromSender::Data(piece)) => piece.seq,
                other => panic!("{other:?}"),
            });
        assert!(numbers.eq(wrap - 5..wrap + 7));
        script.at(200);
    });
    let replies =
        |numbers: &[u64]| numbers.iter().flat_map(|number| encoded(&ack(*number, 40))).collect::<Vec<u8>>();
    pair.recv(&replies(&[wrap - 4, wrap - 1, wrap, wrap + 1]), REPLY_LEN);
    pair.compare("across the wrap");
    assert_eq!((pair.joined.stats().snd_una, pair.joined.stats().in_flight), (wrap + 1, 600));
    pair.recv(&replies(&[wrap - 1, wrap, wrap + 8]), REPLY_LEN);
    pair.compare("old ones and one of nothing sent");
    assert_eq!((pair.joined.stats().stale, pair.joined.stats().acks_beyond), (2, 1));
    pair.recv(&replies(&[wrap + 1; 3]), REPLY_LEN);
    pair.both(|script| {
        let repeated = script.datagrams();
        assert_eq!(repeated.len(), 1);
        assert_eq!(repeated[0][4..8], [1, 0, 0, 0], "the base");
        script.recv(&ack(wrap + 7, 40));
        assert_eq!(script.datagrams(), [[0x80, 0xaa, 0x11, 0x83, 7, 0, 0, 0]]);
        script.recv(&fin_ack(wrap + 7, 5));
    });
    assert_eq!(pair.joined.events(), [SenderEvent::Finished { crc: 5 }]);
}
