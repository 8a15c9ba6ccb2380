//! Naive model of a link: a plain list of packets and whole-number fractions.
//!
//! It recounts all packets on every operation and uses no arithmetic of the link. Only the random
//! draws come from the same functions, which have their own tests.

use super::*;
use crate::delay::{Jitter, JitterShape, Reorder};
use crate::draw::Stage;
use crate::mtu::Mtu;
use crate::outage::Outage;
use crate::queue::{Incapable, Marking};

const OPERATIONS: u64 = 10_000;

#[test]
fn link_agrees_with_naive_model() {
    let mut total = Ledger::default();
    for seed in 0..24 {
        let mut numbers = Numbers::new(seed);
        let mut config = random_config(&mut numbers);
        if seed >= 12 {
            config = impaired(config, &mut numbers);
        }
        let mut bench = Bench::new(config, seed);
        for operation in 0..OPERATIONS {
            bench.step(&mut numbers);
            bench.check(&format!("seed {seed}, operation {operation}"));
        }
        total.merge(&bench.link.into_ledger());
    }
    assert!(total.balances(), "{total:?}");
    // The operations cover every cause of a drop except those of other disciplines, which
    // `departures` and `disciplines` cover.
    let causes = DropCause::ALL.iter().filter(|cause| !matches!(cause, DropCause::Head | DropCause::Aqm));
    let dropped = causes.map(|&cause| total.dropped(cause));
    assert!(dropped.chain([total.delivered, total.discarded]).all(|count| count > 100), "{total:?}");
    let happened = [total.duplicated, total.corrupted, total.reordered, total.marked];
    assert!(happened.iter().all(|&count| count > 100), "{total:?}");
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
        framing: u32::try_from(choose(&[0, 14])).unwrap(),
        memory_limit: choose(&[DEFAULT_MEMORY_LIMIT_BYTES, 20_000]),
        ..LinkConfig::default()
    }
}

/// Enables optional effects of a link, each in about half of the calls.
fn impaired(config: LinkConfig, numbers: &mut Numbers) -> LinkConfig {
    let mut maybe =
        |share: f64| if numbers.below(2) == 0 { Probability::ZERO } else { Probability::new(share).unwrap() };
    let (duplicate, corrupt, reorder) = (maybe(0.3), maybe(0.3), maybe(0.2));
    let mut choose = |count: u64| numbers.below(count);
    let shape = JitterShape::Uniform(ns(700_000));
    LinkConfig {
        duplicate,
        corrupt,
        outage: [Outage::None, Outage::periodic(ms(300), ms(40), ms(7))][usize::try_from(choose(2)).unwrap()]
            .clone(),
        mtu: [Mtu::unlimited(), Mtu::new(1_500).then(ms(900), 1_300)][usize::try_from(choose(2)).unwrap()]
            .clone(),
        reorder: (choose(2) == 0).then_some(Reorder { probability: reorder, extra: ns(2_345_678) }),
        jitter: [None, Some(Jitter { shape, keeps_order: true }), Some(Jitter { shape, keeps_order: false })]
            [usize::try_from(choose(3)).unwrap()],
        marking: [None, Some(Incapable::Pass), Some(Incapable::Drop)][usize::try_from(choose(3)).unwrap()]
            .map(|incapable| Marking { threshold: QueueLimit::packets(1), incapable }),
        ..config
    }
}

/// A link and its model, which execute the same operations.
struct Bench {
    link: Link,
    model: Model,
    start: Instant,
    /// Current time in nanoseconds since the start.
    now: u64,
    step: String,
}

impl Bench {
    fn new(config: LinkConfig, seed: u64) -> Self {
        let step = format!("seed {seed}");
        let model = Model { config: config.clone(), seed, ..Model::default() };
        Self { link: Link::new(config, seed, Direction::Reverse), model, start: epoch(), now: 0, step }
    }

    fn step(&mut self, numbers: &mut Numbers) {
        match numbers.below(8) {
            0..=2 => self.push(self.now, numbers),
            // At the time of the last operation, or before it.
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
        let bytes = vec![0; usize::try_from(numbers.below(1_600)).unwrap()];
        // Derived and not drawn, so that the seeds still produce the operations that they were
        // chosen for.
        let ecn = Ecn::from_bits((bytes.len() / 3 % 4).try_into().unwrap());
        let tag = u32::try_from(self.model.packets).unwrap();
        let expected = self.model.push(at, bytes.len() as u64, ecn);
        let packet = Packet { bytes, ecn, tag };
        let actual = self.link.push(self.start + ns(at), packet).map_err(|dropped| dropped.cause);
        assert_eq!(actual, expected, "after {}", self.step);
    }

    fn pop(&mut self, at: u64) {
        let expected = self.model.pop(at);
        let delivery = self.link.pop(self.start + ns(at));
        let actual = delivery.map(|delivery| {
            let flipped: u32 = delivery.packet.iter().map(|byte| byte.count_ones()).sum();
            Popped {
                due: u64::try_from((delivery.due - self.start).as_nanos()).unwrap(),
                len: delivery.packet.len() as u64,
                number: delivery.tag.into(),
                ecn: delivery.ecn,
                flipped,
            }
        });
        assert_eq!(actual, expected, "after {}", self.step);
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

/// What a delivery must equal.
#[derive(Debug, PartialEq)]
struct Popped {
    due: u64,
    len: u64,
    number: u64,
    ecn: Ecn,
    /// Number of bits that differ from the packet as pushed.
    flipped: u32,
}

/// Naive model: the records of all packets sent since the start.
#[derive(Default)]
struct Model {
    config: LinkConfig,
    seed: u64,
    /// Number of packets pushed, without copies.
    packets: u64,
    /// Records of the pushed packets and their second copies.
    sent: Vec<Record>,
    /// End of the last service, in nanoseconds times the rate in millibit/s: an exact fraction.
    end: u128,
    max_occupancy: u64,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy)]
struct Record {
    number: u64,
    is_copy: bool,
    len: u64,
    entered: u64,
    starts: u64,
    ends: u64,
    due: u64,
    ecn: Ecn,
    is_marked: bool,
    is_corrupted: bool,
    is_held_back: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Inside,
    Delivered,
    Dropped(DropCause),
}

impl Model {
    fn push(&mut self, at: u64, len: u64, ecn: Ecn) -> Result<(), DropCause> {
        let now = self.sent.last().map_or(at, |last| last.entered.max(at));
        let number = self.packets;
        self.packets += 1;
        let result = self.offer(now, number, len, ecn, false);
        if result.is_ok() && self.happens(self.config.duplicate, Stage::Duplicate, number, false) {
            let _ = self.offer(now, number, len, ecn, true);
        }
        result
    }

    fn offer(&mut self, now: u64, number: u64, len: u64, ecn: Ecn, is_copy: bool) -> Result<(), DropCause> {
        let (starts, end, ends) = self.times(now, len);
        let arrival = if is_copy { None } else { self.loss(now, number, len) };
        let cause = arrival.or_else(|| self.refusal(now, starts, len, ecn));
        let (due, is_held_back) = self.due(ends, number, is_copy);
        let is_above = self.is_above(self.config.marking.map(|marking| marking.threshold), now, starts, len);
        let is_corrupted = len > 0 && self.happens(self.config.corrupt, Stage::Corrupt, number, is_copy);
        let state = cause.map_or(State::Inside, State::Dropped);
        let is_marked = is_above && ecn != Ecn::NotEct && ecn != Ecn::Ce;
        let ecn = if is_marked { Ecn::Ce } else { ecn };
        let record = Record {
            number,
            is_copy,
            len,
            entered: now,
            starts,
            ends,
            due,
            ecn,
            is_marked,
            is_corrupted,
            is_held_back,
            state,
        };
        self.sent.push(record);
        self.max_occupancy = self.max_occupancy.max(self.counted(now).count() as u64);
        if let Some(cause) = cause {
            return Err(cause);
        }
        self.end = end;
        Ok(())
    }

    fn pop(&mut self, at: u64) -> Option<Popped> {
        let place = self.next_out()?;
        let record = &mut self.sent[place];
        if record.due > at {
            return None;
        }
        record.state = State::Delivered;
        let &mut Record { due, len, number, ecn, is_corrupted, .. } = record;
        Some(Popped { due, len, number, ecn, flipped: u32::from(is_corrupted) })
    }

    fn draw(&self, stage: Stage, number: u64, is_copy: bool) -> u64 {
        let draws = Draws { seed: self.seed, direction: Direction::Reverse, index: number };
        if is_copy { draws.of_duplicate().at(stage) } else { draws.at(stage) }
    }

    fn happens(&self, probability: Probability, stage: Stage, number: u64, is_copy: bool) -> bool {
        probability.happens(self.draw(stage, number, is_copy))
    }

    /// Returns the start of service in nanoseconds, its end in the unit of [`Model::end`], and its
    /// end in nanoseconds.
    fn times(&self, now: u64, len: u64) -> (u64, u128, u64) {
        let Some(rate) = self.config.rate else {
            return (now, 0, now);
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
        (nanos(start), end, nanos(end))
    }

    /// Returns the due time of a packet whose service ends at `ends`, and whether it is reordered.
    fn due(&self, ends: u64, number: u64, is_copy: bool) -> (u64, bool) {
        let LinkConfig { delay, jitter, reorder, .. } = self.config;
        let mut due = ends + u64::try_from(delay.as_nanos()).unwrap();
        if let Some(Jitter { shape: JitterShape::Uniform(spread), .. }) = jitter {
            let share = u128::from(self.draw(Stage::Jitter, number, is_copy)) * spread.as_nanos();
            due += u64::try_from(share >> 64).unwrap();
        }
        if let Some(Reorder { probability, extra }) = reorder
            && self.happens(probability, Stage::Reorder, number, is_copy)
        {
            return (due + u64::try_from(extra.as_nanos()).unwrap(), true);
        }
        if jitter.is_none_or(|jitter| jitter.keeps_order) {
            let others = self.taken().filter(|record| !record.is_held_back);
            due = others.map(|record| record.due).fold(due, u64::max);
        }
        (due, false)
    }

    fn loss(&self, now: u64, number: u64, len: u64) -> Option<DropCause> {
        let LinkConfig { loss, outage, mtu, .. } = &self.config;
        let since = ns(now - self.sent.first().map_or(now, |first| first.entered));
        if loss.decide_at(since, self.seed, Direction::Reverse, number) {
            return Some(DropCause::Loss);
        }
        if outage.is_down(since) {
            return Some(DropCause::Outage);
        }
        let size = usize::try_from(len).unwrap() + self.config.overhead as usize;
        mtu.frames(since, size).is_none().then_some(DropCause::TooLong)
    }

    fn refusal(&self, now: u64, starts: u64, len: u64, ecn: Ecn) -> Option<DropCause> {
        let LinkConfig { queue, marking, memory_limit, .. } = self.config;
        if self.is_above(Some(queue), now, starts, len) {
            return Some(DropCause::QueueFull);
        }
        if let Some(Marking { threshold, incapable: Incapable::Drop }) = marking
            && ecn == Ecn::NotEct
            && self.is_above(Some(threshold), now, starts, len)
        {
            return Some(DropCause::Congestion);
        }
        (self.held() + len.max(64) > memory_limit).then_some(DropCause::Memory)
    }

    /// Returns whether an arriving packet exceeds `limit`.
    fn is_above(&self, limit: Option<QueueLimit>, now: u64, starts: u64, len: u64) -> bool {
        let waiting = self.config.occupancy == Occupancy::Waiting;
        let mut packets = self.counted(now).count() as u64;
        let mut bytes: u64 = self.counted(now).map(|record| self.wire(record.len)).sum();
        if waiting {
            packets += 1;
            bytes += self.wire(len);
        }
        let exceeds = limit.is_some_and(|limit| {
            limit.packets.is_some_and(|limit| packets > limit.into())
                || limit.bytes.is_some_and(|limit| bytes > limit)
        });
        exceeds && !(waiting && starts == now)
    }

    fn taken(&self) -> impl Iterator<Item = &Record> {
        self.sent.iter().filter(|record| !matches!(record.state, State::Dropped(_)))
    }

    /// Returns the admitted packets that count towards the queue limit at `now`.
    fn counted(&self, now: u64) -> impl Iterator<Item = &Record> {
        let leaves = |record: &Record| match self.config.occupancy {
            Occupancy::Waiting => record.starts,
            Occupancy::WaitingAndInFlight => record.due,
        };
        self.taken().filter(move |record| leaves(record) > now)
    }

    fn wire(&self, len: u64) -> u64 {
        len + u64::from(self.config.overhead) + u64::from(self.config.framing)
    }

    fn inside(&self) -> impl Iterator<Item = &Record> {
        self.sent.iter().filter(|record| record.state == State::Inside)
    }

    /// Returns the packet that is due first; of equal due times, the packet that arrived first.
    fn next_out(&self) -> Option<usize> {
        let inside = |place: &usize| self.sent[*place].state == State::Inside;
        (0..self.sent.len()).filter(inside).min_by_key(|&place| (self.sent[place].due, place))
    }

    fn first_inside(&self) -> Option<&Record> {
        self.next_out().map(|place| &self.sent[place])
    }

    fn held(&self) -> u64 {
        self.inside().map(|record| record.len.max(64)).sum()
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger { max_occupancy: self.max_occupancy, ..Ledger::default() };
        let mut busy = 0;
        for record in &self.sent {
            let len = record.len;
            if !matches!(record.state, State::Dropped(_)) {
                busy += record.ends - record.starts;
                ledger.corrupted += u64::from(record.is_corrupted);
                ledger.reordered += u64::from(record.is_held_back);
                ledger.marked += u64::from(record.is_marked);
            }
            if record.is_copy {
                ledger.duplicated += 1;
                ledger.duplicated_bytes += len;
            } else {
                ledger.sent += 1;
                ledger.sent_bytes += len;
            }
            match record.state {
                State::Inside => {
                    ledger.in_flight += 1;
                    ledger.in_flight_bytes += len;
                }
                State::Delivered => {
                    ledger.delivered += 1;
                    ledger.delivered_bytes += len;
                }
                State::Dropped(cause) => ledger.on_dropped(cause, len),
            }
        }
        ledger.busy = ns(busy);
        ledger
    }
}
