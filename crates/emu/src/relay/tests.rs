//! Relay between two scripted ports.

use std::collections::VecDeque;
use std::time::Duration;

use rdt_emulator::{
    Bitrate, Delivery, DropCause, Ledger, Link, LinkConfig, Loss, Path, PathConfig, Probability, QueueLimit,
    WifiConfig,
};

use super::*;
use crate::paths::PerTag;
use crate::port::Take;

/// Port with scripted arrivals, which records the packets sent to it.
#[derive(Default)]
struct Script {
    coming: VecDeque<(Instant, Vec<u8>)>,
    sent: Vec<Vec<u8>>,
    /// First byte of the packets that `send` refuses.
    refuses: Option<u8>,
    flushes: usize,
    /// Number of packets that each flush refuses.
    refused_late: u64,
    gone: Option<u32>,
    next_check: Option<Instant>,
}

impl Script {
    fn numbered(begin: Instant, count: u32) -> Self {
        let at = |n: u32| begin + Duration::from_micros(u64::from(n));
        Self { coming: (0..count).map(|n| (at(n), n.to_be_bytes().to_vec())).collect(), ..Self::default() }
    }
}

impl Port for Script {
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        let count = budget.min(self.coming.len());
        for (at, bytes) in self.coming.drain(..count) {
            let mut buffer = buffers.take(bytes.len());
            buffer.extend_from_slice(&bytes);
            take(buffers, at, buffer.into());
        }
        Ok(count)
    }

    fn send(&mut self, delivery: &mut Delivery) -> io::Result<Sent> {
        if self.refuses.is_some_and(|first| delivery.packet.first() == Some(&first)) {
            return Ok(Sent::Refused);
        }
        self.sent.push(delivery.packet.clone());
        Ok(Sent::Taken)
    }

    fn flush(&mut self) -> io::Result<u64> {
        self.flushes += 1;
        Ok(self.refused_late)
    }

    fn poll_gone(&mut self, _now: Instant) -> Option<u32> {
        self.gone.take()
    }

    fn next_check(&self) -> Option<Instant> {
        self.next_check
    }
}

/// Waits for the next deadline without sleeping, and ends when there is none.
struct UntilIdle;

impl Wait for UntilIdle {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        Ok(deadline.is_some())
    }
}

/// Observer that records events in order.
#[derive(Debug, Default, PartialEq)]
struct Record {
    arrivals: Vec<(Direction, Instant)>,
    drops: Vec<(Direction, DropCause, Vec<u8>)>,
    deliveries: Vec<(Direction, Instant, Vec<u8>)>,
}

impl Observer for Record {
    fn on(&mut self, event: &Event<'_>) {
        match *event {
            Event::Arrival(direction, at, _) => self.arrivals.push((direction, at)),
            Event::Drop(dropped) => {
                let (direction, _) = *self.arrivals.last().unwrap();
                self.drops.push((direction, dropped.cause, dropped.packet.clone()));
            }
            Event::Delivery(direction, at, delivery) => {
                assert!(at >= delivery.due);
                self.deliveries.push((direction, delivery.due, delivery.packet.clone()));
            }
            _ => {}
        }
    }
}

fn percent(percent: f64) -> Probability {
    Probability::new(percent / 100.0).unwrap()
}

/// Returns a path with loss, duplication and corruption. It does not reorder, because the result
/// would depend on the lateness of the relay.
fn troubled() -> PathConfig {
    let link = LinkConfig::new(Bitrate::from_bps(40_000_000), Duration::from_millis(3))
        .loss(Loss::Bernoulli(percent(1.0)))
        .queue(QueueLimit::packets(100))
        .duplicate(percent(1.0))
        .corrupt(percent(1.0));
    link.into()
}

/// Sends the packets through a link in virtual time, as the reference for a relay.
fn model(packets: &Script, direction: Direction, seed: u64, record: &mut Record) -> Ledger {
    let mut link = Link::new(troubled().forward, seed, direction);
    for (at, bytes) in &packets.coming {
        record.arrivals.push((direction, *at));
        if let Err(dropped) = link.push(*at, bytes.clone()) {
            record.drops.push((direction, dropped.cause, dropped.packet));
        }
    }
    while let Some(due) = link.next_wakeup() {
        record.deliveries.extend(link.pop(due).map(|delivery| (direction, due, delivery.packet)));
    }
    link.into_ledger()
}

#[test]
fn relay_matches_model_in_virtual_time() {
    for seed in [1, 77] {
        let begin = clock::now();
        let (near, far) = (Script::numbered(begin, 10_000), Script::numbered(begin, 3000));
        let mut expected = Record::default();
        let ledgers = [(&near, Direction::Forward), (&far, Direction::Reverse)]
            .map(|(script, direction)| model(script, direction, seed, &mut expected));
        let mut relay = Relay::new(Path::new(troubled(), seed), near, far, Record::default());
        relay.run(&mut UntilIdle).unwrap();
        let (accounts, record) = relay.finish();
        for direction in [Direction::Forward, Direction::Reverse] {
            let of = |record: &Record| -> (Vec<_>, Vec<_>, Vec<_>) {
                let mine = |each: &Direction| *each == direction;
                (
                    record.arrivals.iter().filter(|each| mine(&each.0)).copied().collect(),
                    record.drops.iter().filter(|each| mine(&each.0)).cloned().collect(),
                    record.deliveries.iter().filter(|each| mine(&each.0)).cloned().collect(),
                )
            };
            assert!(of(&record) == of(&expected), "seed {seed}, {direction:?}");
        }
        for (account, ledger) in accounts.iter().zip(ledgers) {
            assert_eq!(account.ledger, ledger, "seed {seed}");
            assert!(ledger.dropped_loss > 0 && ledger.duplicated > 0 && ledger.corrupted > 0, "{ledger:?}");
            assert_eq!(account.lateness.count(), ledger.delivered);
        }
    }
}

#[test]
fn refused_packets_are_counted_separately() {
    let far = Script { refuses: Some(0), refused_late: 1, ..Script::default() };
    let near =
        Script { coming: [(clock::now(), vec![0]), (clock::now(), vec![1])].into(), ..Script::default() };
    let mut relay = Relay::new(Path::new(PathConfig::default(), 1), near, far, ());
    relay.run(&mut UntilIdle).unwrap();
    assert_eq!((relay.far.sent.as_slice(), relay.far.flushes), ([vec![1]].as_slice(), 1));
    let ([forward, _], ()) = relay.finish();
    assert_eq!((forward.ledger.delivered, forward.refused), (2, 2));
}

#[test]
fn packets_in_flight_at_end_are_discarded() {
    struct AtOnce;
    impl Wait for AtOnce {
        fn wait(&mut self, _deadline: Option<Instant>) -> io::Result<bool> {
            Ok(false)
        }
    }
    let slow = LinkConfig::new(None, Duration::from_secs(3600));
    let near = Script::numbered(clock::now(), 5);
    let mut relay = Relay::new(Path::new(slow, 1), near, Script::default(), ());
    relay.run(&mut AtOnce).unwrap();
    let ([forward, _], ()) = relay.finish();
    assert_eq!((forward.ledger.sent, forward.ledger.discarded), (5, 5));
}

#[test]
fn wifi_directions_share_air_time() {
    let arrivals = |far: u32| {
        let begin = clock::now();
        let wifi = LinkConfig::default().wifi(WifiConfig::b());
        let (near, far) = (Script::numbered(begin, 1), Script::numbered(begin, far));
        let mut relay = Relay::new(Path::new(wifi, 1), near, far, Record::default());
        relay.run(&mut UntilIdle).unwrap();
        let record = relay.finish().1;
        record.deliveries.iter().map(|(_, due, _)| *due).max().unwrap() - begin
    };
    assert!(arrivals(1) > arrivals(0), "what comes back waits for what goes forward");
}

#[test]
fn path_of_gone_client_is_closed() {
    let slow = LinkConfig::new(None, Duration::from_secs(3600));
    let near = Script { gone: Some(0), ..Script::numbered(clock::now(), 5) };
    let mut relay = Relay::new(PerTag::new(slow.into(), 1), near, Script::default(), ());
    relay.run(&mut UntilIdle).unwrap();
    let ([forward, _], ()) = relay.finish();
    assert_eq!((forward.ledger.sent, forward.ledger.discarded), (5, 5));
}

#[test]
fn wait_ends_at_next_port_check() {
    struct Waits(Option<Instant>);
    impl Wait for Waits {
        fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
            self.0 = deadline;
            Ok(false)
        }
    }
    let (now, hour) = (clock::now(), Duration::from_secs(3600));
    let check = now + hour / 2;
    for packets in [0, 1] {
        let slow = LinkConfig::new(None, hour);
        let near = Script { next_check: Some(check), ..Script::numbered(now, packets) };
        let mut waits = Waits(None);
        Relay::new(Path::new(slow, 1), near, Script::default(), ()).run(&mut waits).unwrap();
        assert_eq!(waits.0, Some(check));
    }
}
