//! A link kept as a plain list of packets and whole-number fractions, to compare the real one with.
//!
//! It recounts everything on every operation and shares no arithmetic with the link; only the loss
//! draws, which have tests of their own, are asked of the same place.

use super::*;

const OPERATIONS: u64 = 10_000;

#[test]
fn a_link_agrees_with_a_naive_model_after_every_operation() {
    let mut total = Ledger::default();
    for seed in 0..12 {
        let mut numbers = Numbers::new(seed);
        let config = random_config(&mut numbers);
        let mut bench = Bench::new(config, seed);
        for operation in 0..OPERATIONS {
            bench.step(&mut numbers);
            bench.check(&format!("seed {seed}, operation {operation}"));
        }
        total.merge(&bench.link.into_ledger());
    }
    assert!(total.balances(), "{total:?}");
    // The operations put every fate to the test.
    let dropped = DropCause::ALL.map(|cause| total.dropped(cause));
    assert!(
        dropped.iter().chain([&total.delivered, &total.discarded]).all(|&count| count > 100),
        "{total:?}"
    );
}

fn random_config(numbers: &mut Numbers) -> LinkConfig {
    let mut choose =
        |choices: &[u64]| -> u64 { choices[usize::try_from(numbers.below(choices.len() as u64)).unwrap()] };
    let none_if_zero = |value: u64| (value > 0).then_some(value);
    LinkConfig {
        loss: match choose(&[0, 1, 2]) {
            0 => Loss::None,
            1 => bernoulli(0.2),
            _ => Loss::script([0, 7, 8, 30, 999]),
        },
        rate: none_if_zero(choose(&[0, 999_983, 1_000_000, 9_999_991, 299])).map(Bitrate::from_bps),
        delay: ns(choose(&[0, 1, 333_333, 50_000_000])),
        queue: QueueLimit {
            packets: none_if_zero(choose(&[0, 1, 7, 40])).map(|packets| u32::try_from(packets).unwrap()),
            bytes: none_if_zero(choose(&[0, 1_500, 10_000])),
        },
        occupancy: [Occupancy::Waiting, Occupancy::WaitingAndInFlight]
            [usize::try_from(choose(&[0, 1])).unwrap()],
        overhead: u32::try_from(choose(&[0, 28])).unwrap(),
        memory_limit: choose(&[DEFAULT_MEMORY_LIMIT, 20_000]),
    }
}

/// A link and its model, fed the same operations.
struct Bench {
    link: Link,
    model: Model,
    start: Instant,
    /// Nanoseconds since the start.
    now: u64,
    step: String,
}

impl Bench {
    fn new(config: LinkConfig, seed: u64) -> Self {
        let step = format!("seed {seed}");
        let model = Model { config: config.clone(), seed, sent: Vec::new(), end: 0, max_occupancy: 0 };
        Self { link: Link::new(config, seed, Direction::Reverse), model, start: epoch(), now: 0, step }
    }

    fn step(&mut self, numbers: &mut Numbers) {
        match numbers.below(8) {
            0..=2 => self.push(self.now, numbers),
            // Straight on the heels of the last packet, or some time before it.
            3 => self.push(self.now.saturating_sub(numbers.below(1_000)), numbers),
            4 => self.now += numbers.below(3_000_000),
            5 => self.now += numbers.below(3),
            6 => self.pop(self.now),
            _ => {
                self.now += numbers.below(100_000);
                self.pop(self.now);
                self.pop(self.now);
            }
        }
    }

    fn push(&mut self, at: u64, numbers: &mut Numbers) {
        let packet = vec![0; usize::try_from(numbers.below(1_600)).unwrap()];
        let expected = self.model.push(at, packet.len() as u64);
        let actual = self.link.push(self.start + ns(at), packet).map_err(|dropped| dropped.cause);
        assert_eq!(actual, expected, "after {}", self.step);
    }

    fn pop(&mut self, at: u64) {
        let expected = self.model.pop(at);
        let delivery = self.link.pop(self.start + ns(at));
        let actual = delivery.map(|delivery| (delivery.due - self.start, delivery.packet.len() as u64));
        assert_eq!(actual, expected.map(|(due, len)| (ns(due), len)), "after {}", self.step);
    }

    fn check(&mut self, step: &str) {
        let ledger = self.link.ledger();
        assert!(ledger.balances(), "{step}: {ledger:?}");
        assert_eq!(*ledger, self.model.ledger(), "{step}");
        assert_eq!(self.link.held_bytes(), self.model.held(), "{step}");
        assert_eq!(
            self.link.next_wakeup(),
            self.model.first_inside().map(|record| self.start + ns(record.due)),
            "{step}"
        );
        step.clone_into(&mut self.step);
    }
}

/// Everything that was ever sent.
struct Model {
    config: LinkConfig,
    seed: u64,
    sent: Vec<Record>,
    /// End of the last service, in nanoseconds times the rate in millibit/s: an exact fraction.
    end: u128,
    max_occupancy: u64,
}

struct Record {
    len: u64,
    entered: u64,
    starts: u64,
    due: u64,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Inside,
    Delivered,
    Dropped(DropCause),
}

impl Model {
    fn push(&mut self, at: u64, len: u64) -> Result<(), DropCause> {
        let now = self.sent.last().map_or(at, |last| last.entered.max(at));
        let (starts, end, due) = self.times(now, len);
        let state = self.cause(now, starts, len).map_or(State::Inside, State::Dropped);
        let result = match state {
            State::Dropped(cause) => Err(cause),
            State::Inside | State::Delivered => {
                self.end = end;
                Ok(())
            }
        };
        self.sent.push(Record { len, entered: now, starts, due, state });
        self.max_occupancy = self.max_occupancy.max(self.counted(now).count() as u64);
        result
    }

    fn pop(&mut self, at: u64) -> Option<(u64, u64)> {
        let record = self.sent.iter_mut().find(|record| record.state == State::Inside)?;
        if record.due > at {
            return None;
        }
        record.state = State::Delivered;
        Some((record.due, record.len))
    }

    /// Start in nanoseconds, end as in [`Model::end`], and due time in nanoseconds.
    fn times(&self, now: u64, len: u64) -> (u64, u128, u64) {
        let delay = u64::try_from(self.config.delay.as_nanos()).unwrap();
        let Some(rate) = self.config.rate else {
            return (now, 0, now + delay);
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive whole number"
        )]
        let millibps = rate.as_bps_f64() as u128 * 1_000;
        let start = self.end.max(u128::from(now) * millibps);
        let end = start + u128::from(self.wire(len)) * 8 * 1_000_000_000_000;
        let nanos = |fraction: u128| u64::try_from(fraction / millibps).unwrap();
        (nanos(start), end, nanos(end) + delay)
    }

    fn cause(&self, now: u64, starts: u64, len: u64) -> Option<DropCause> {
        let LinkConfig { loss, queue, occupancy, memory_limit, .. } = &self.config;
        if loss.decide(self.seed, Direction::Reverse, self.sent.len() as u64) {
            return Some(DropCause::Loss);
        }
        let waiting = *occupancy == Occupancy::Waiting;
        let mut packets = self.counted(now).count() as u64;
        let mut bytes: u64 = self.counted(now).map(|record| self.wire(record.len)).sum();
        if waiting {
            packets += 1;
            bytes += self.wire(len);
        }
        let full = queue.packets.is_some_and(|limit| packets > limit.into())
            || queue.bytes.is_some_and(|limit| bytes > limit);
        if full && !(waiting && starts == now) {
            return Some(DropCause::QueueFull);
        }
        (self.held() + len.max(64) > *memory_limit).then_some(DropCause::Memory)
    }

    /// Those let in that count against the queue limit at `now`.
    fn counted(&self, now: u64) -> impl Iterator<Item = &Record> {
        let leaves = |record: &Record| match self.config.occupancy {
            Occupancy::Waiting => record.starts,
            Occupancy::WaitingAndInFlight => record.due,
        };
        let taken = self.sent.iter().filter(|record| !matches!(record.state, State::Dropped(_)));
        taken.filter(move |record| leaves(record) > now)
    }

    fn wire(&self, len: u64) -> u64 {
        len + u64::from(self.config.overhead)
    }

    fn inside(&self) -> impl Iterator<Item = &Record> {
        self.sent.iter().filter(|record| record.state == State::Inside)
    }

    fn first_inside(&self) -> Option<&Record> {
        self.inside().next()
    }

    fn held(&self) -> u64 {
        self.inside().map(|record| record.len.max(64)).sum()
    }

    fn ledger(&self) -> Ledger {
        let mut busy = 0;
        let mut ledger = Ledger { max_occupancy: self.max_occupancy, ..Ledger::default() };
        for Record { len, state, starts, due, .. } in &self.sent {
            if !matches!(state, State::Dropped(_)) {
                busy += u128::from(due - starts) - self.config.delay.as_nanos();
            }
            ledger.sent += 1;
            ledger.sent_bytes += len;
            let (packets, bytes) = match state {
                State::Inside => (&mut ledger.in_flight, &mut ledger.in_flight_bytes),
                State::Delivered => (&mut ledger.delivered, &mut ledger.delivered_bytes),
                State::Dropped(DropCause::Loss) => (&mut ledger.dropped_loss, &mut ledger.dropped_loss_bytes),
                State::Dropped(DropCause::QueueFull) => {
                    (&mut ledger.dropped_queue, &mut ledger.dropped_queue_bytes)
                }
                State::Dropped(DropCause::Memory) => {
                    (&mut ledger.dropped_memory, &mut ledger.dropped_memory_bytes)
                }
            };
            *packets += 1;
            *bytes += len;
        }
        ledger.busy = ns(u64::try_from(busy).unwrap());
        ledger
    }
}
