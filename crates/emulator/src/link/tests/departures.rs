//! Naive model of a link whose discipline decides on departure: a plain list of packets.
//!
//! Like [`model`](super::model), it recounts all packets on every operation.

use super::*;
use crate::delay::Reorder;
use crate::draw::Stage;
use crate::queue::{CoDelConfig, Discipline};

const OPERATIONS: u64 = 3_000;

#[test]
fn departure_disciplines_agree_with_naive_model() {
    let mut totals = [Ledger::default(); 2];
    for seed in 0..48 {
        let mut numbers = Numbers::new(seed);
        let mut bench = Bench::new(random_config(&mut numbers), seed);
        for operation in 0..OPERATIONS {
            bench.step(&mut numbers);
            bench.check(&format!("seed {seed}, operation {operation}"));
        }
        let is_codel = bench.model.config.discipline != Discipline::DropHead;
        totals[usize::from(is_codel)].merge(&bench.link.into_ledger());
    }
    let [head, codel] = totals;
    for total in totals {
        assert!(total.balances(), "{total:?}");
        let happened = [total.dropped_loss, total.dropped_memory, total.dropped_queue, total.discarded];
        let effects = [total.duplicated, total.corrupted, total.reordered, total.delivered];
        assert!(happened.iter().chain(&effects).all(|&count| count > 100), "{total:?}");
    }
    assert!(head.dropped_head > 1_000 && head.dropped_aqm == 0, "{head:?}");
    assert!(codel.dropped_aqm > 1_000 && codel.marked > 100 && codel.dropped_head == 0, "{codel:?}");
}

fn random_config(numbers: &mut Numbers) -> LinkConfig {
    let mut choose =
        |choices: &[u64]| -> u64 { choices[usize::try_from(numbers.below(choices.len() as u64)).unwrap()] };
    let none_if_zero = |value: u64| (value > 0).then_some(value);
    let share = |percent: u64| Probability::new(f64::from(u32::try_from(percent).unwrap()) / 100.0).unwrap();
    let codel = CoDelConfig {
        target: ns(choose(&[0, 500_000, 5_000_000])),
        interval: ms(4),
        ecn: choose(&[0, 1]) > 0,
    };
    LinkConfig {
        discipline: [Discipline::DropHead, Discipline::CoDel(codel)]
            [usize::try_from(choose(&[0, 1])).unwrap()],
        loss: [Loss::None, bernoulli(0.2)][usize::try_from(choose(&[0, 1])).unwrap()].clone(),
        rate: none_if_zero(choose(&[0, 999_983, 1_000_000, 9_999_991, 9_999_991, 299]))
            .map(Bitrate::from_bps),
        delay: ns(choose(&[0, 1, 333_333, 50_000_000])),
        queue: QueueLimit {
            packets: none_if_zero(choose(&[0, 1, 7, 40])).map(|packets| u32::try_from(packets).unwrap()),
            bytes: none_if_zero(choose(&[0, 1_000, 10_000])),
        },
        occupancy: [Occupancy::Waiting, Occupancy::WaitingAndInFlight]
            [usize::try_from(choose(&[0, 1])).unwrap()],
        overhead: u32::try_from(choose(&[0, 28])).unwrap(),
        memory_limit: choose(&[DEFAULT_MEMORY_LIMIT_BYTES, 20_000]),
        duplicate: share(choose(&[0, 30])),
        corrupt: share(choose(&[0, 30])),
        reorder: [None, Some(Reorder { probability: share(20), extra: ns(2_345_678) })]
            [usize::try_from(choose(&[0, 1])).unwrap()],
        ..LinkConfig::default()
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
        let model = Model { config: config.clone(), seed, ..Model::default() };
        let mut link = Link::new(config, seed, Direction::Forward);
        link.keep_dropped(usize::MAX);
        Self { link, model, start: epoch(), now: 0, step: format!("seed {seed}") }
    }

    fn step(&mut self, numbers: &mut Numbers) {
        match numbers.below(8) {
            0..=2 => self.push(self.now, numbers),
            // Before the last operation, which may have been a pop with later departures.
            3 => self.push(self.now.saturating_sub(numbers.below(1_000_000)), numbers),
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
        let ecn = Ecn::from_bits((bytes.len() / 3 % 4).try_into().unwrap());
        let tag = u32::try_from(self.model.packets).unwrap();
        let expected = self.model.push(at, bytes.len() as u64, ecn);
        let packet = Packet { bytes, ecn, tag };
        let actual = self.link.push(self.start + ns(at), packet).map_err(|dropped| dropped.cause);
        assert_eq!(actual, expected, "after {}", self.step);
    }

    fn pop(&mut self, at: u64) {
        let expected = self.model.pop(at);
        let actual = self.link.pop(self.start + ns(at)).map(|delivery| {
            let flipped = delivery.packet.iter().map(|byte| byte.count_ones()).sum::<u32>() > 0;
            let due = u64::try_from((delivery.due - self.start).as_nanos()).unwrap();
            (due, delivery.packet.len() as u64, u64::from(delivery.tag), delivery.ecn, flipped)
        });
        assert_eq!(actual, expected, "after {}", self.step);
    }

    fn check(&mut self, step: &str) {
        let dropped: Vec<_> = std::iter::from_fn(|| self.link.pop_dropped())
            .map(|drop| ((drop.at - self.start).as_nanos(), drop.cause, u64::from(drop.packet.tag)))
            .collect();
        assert_eq!(dropped, std::mem::take(&mut self.model.dropped), "{step}");
        let ledger = self.link.ledger();
        assert!(ledger.balances(), "{step}: {ledger:?}");
        assert_eq!(*ledger, self.model.ledger(), "{step}");
        assert_eq!(self.link.held_bytes(), self.model.held(), "{step}");
        let wakeup = self.model.next_wakeup().map(|at| self.start + ns(at));
        assert_eq!(self.link.next_wakeup(), wakeup, "{step}");
        step.clone_into(&mut self.step);
    }
}

/// Naive model: the records of all packets sent since the start.
#[derive(Default)]
struct Model {
    config: LinkConfig,
    seed: u64,
    /// Number of packets pushed, without copies.
    packets: u64,
    sent: Vec<Record>,
    /// End of the last service, in nanoseconds times the rate in millibit/s: an exact fraction.
    end: u128,
    /// Earliest time at which the next packet can enter, in nanoseconds since the start.
    reached: u64,
    codel: NaiveCoDel,
    /// Time in nanoseconds, cause and packet number of each drop.
    dropped: Vec<(u128, DropCause, u64)>,
    max_occupancy: u64,
}

#[derive(Clone, Copy)]
struct Record {
    number: u64,
    is_copy: bool,
    len: u64,
    ecn: Ecn,
    is_marked: bool,
    entered: u64,
    starts: u64,
    ends: u64,
    due: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Waiting,
    Sent,
    Delivered,
    Dropped(DropCause),
}

/// CoDel of RFC 8289, section 5, in whole nanoseconds.
#[derive(Default)]
struct NaiveCoDel {
    first_above: u64,
    drop_next: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
    max_packet: u64,
}

impl NaiveCoDel {
    fn law(at: u64, interval: Duration, count: u64) -> u64 {
        // `2 * interval / sqrt(count)`, halved and rounded to the nearest nanosecond.
        at + u64::try_from((4 * interval.as_nanos().pow(2) / u128::from(count)).isqrt().div_ceil(2)).unwrap()
    }

    /// Returns whether CoDel may drop a packet with this queueing delay and the bytes queued behind
    /// it. Stored times are 1 ns too high, so that 0 means none.
    fn ok_to_drop(&mut self, config: CoDelConfig, now: u64, sojourn: u64, behind: u64) -> bool {
        if u128::from(sojourn) < config.target.as_nanos() || behind <= self.max_packet {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now + 1 + u64::try_from(config.interval.as_nanos()).unwrap();
            return false;
        }
        now + 1 >= self.first_above
    }
}

impl Model {
    fn push(&mut self, at: u64, len: u64, ecn: Ecn) -> Result<(), DropCause> {
        let now = if self.packets == 0 { at } else { self.reached.max(at) };
        self.reached = now;
        let number = self.packets;
        self.packets += 1;
        let record = Record {
            number,
            is_copy: false,
            len,
            ecn,
            is_marked: false,
            entered: now,
            starts: 0,
            ends: 0,
            due: 0,
            state: State::Waiting,
        };
        self.offer(now, record)?;
        if self.config.duplicate.happens(self.draw(Stage::Duplicate, &record))
            && let Err(cause) = self.offer(now, Record { is_copy: true, ..record })
        {
            self.dropped.push((now.into(), cause, number));
        }
        Ok(())
    }

    fn offer(&mut self, now: u64, record: Record) -> Result<(), DropCause> {
        let is_lost =
            !record.is_copy && self.config.loss.decide(self.seed, Direction::Forward, record.number);
        let cause = if is_lost { Some(DropCause::Loss) } else { self.refusal(now, &record) };
        if let Some(cause) = cause {
            self.sent.push(Record { state: State::Dropped(cause), ..record });
            return Err(cause);
        }
        self.sent.push(record);
        self.codel.max_packet = self.codel.max_packet.max(self.wire(&record));
        self.serve(now, 0);
        self.max_occupancy = self.max_occupancy.max(self.occupancy(now).0);
        Ok(())
    }

    /// Serves the packets due before an arrival, and drops from the head to make room. Returns the
    /// cause if the arriving packet is dropped.
    fn refusal(&mut self, now: u64, record: &Record) -> Option<DropCause> {
        self.serve(now, 0);
        let waiting = self.waiting();
        let may_come = |model: &Self| !model.is_full(now, record);
        if self.config.discipline == Discipline::DropHead && !may_come(self) {
            // Drop as few packets as necessary, or none if even an empty queue has no room.
            let states = |model: &mut Self, count: usize, state| {
                waiting[..count].iter().for_each(|&place| model.sent[place].state = state);
            };
            let enough = (1..=waiting.len()).find(|&count| {
                states(self, count, State::Dropped(DropCause::Head));
                may_come(self)
            });
            match enough {
                None => states(self, waiting.len(), State::Waiting),
                Some(count) => {
                    let gone = waiting[..count].iter();
                    self.dropped
                        .extend(gone.map(|&place| (now.into(), DropCause::Head, self.sent[place].number)));
                }
            }
        }
        if self.is_full(now, record) {
            return Some(DropCause::QueueFull);
        }
        (self.held() + record.len.max(64) > self.config.memory_limit).then_some(DropCause::Memory)
    }

    fn is_full(&self, now: u64, record: &Record) -> bool {
        let (mut packets, mut bytes) = self.occupancy(now);
        if self.config.occupancy == Occupancy::Waiting {
            if self.start(now) == now {
                return false;
            }
            packets += 1;
            bytes += self.wire(record);
        }
        let QueueLimit { packets: most_packets, bytes: most_bytes } = self.config.queue;
        most_packets.is_some_and(|most| packets > most.into()) || most_bytes.is_some_and(|most| bytes > most)
    }

    /// Returns the packets and bytes that count towards the queue limit.
    fn occupancy(&self, now: u64) -> (u64, u64) {
        let in_flight = self.config.occupancy == Occupancy::WaitingAndInFlight;
        let counted = |record: &&Record| match record.state {
            State::Waiting => true,
            State::Sent | State::Delivered => in_flight && record.due > now,
            State::Dropped(_) => false,
        };
        let counted = self.sent.iter().filter(counted);
        counted.fold((0, 0), |(packets, bytes), record| (packets + 1, bytes + self.wire(record)))
    }

    /// Serves all packets whose service starts by `until - ahead`.
    fn serve(&mut self, until: u64, ahead: u64) {
        while let Some(&first) = self.waiting().first() {
            let start = self.start(self.sent[first].entered);
            if start + ahead > until {
                return;
            }
            self.reached = self.reached.max(start);
            let leaving = match self.config.discipline {
                Discipline::CoDel(config) => self.dequeue(config, start),
                _ => first,
            };
            self.send(leaving);
        }
    }

    /// Returns the index of the packet that CoDel sends at `now`, after its drops.
    fn dequeue(&mut self, config: CoDelConfig, now: u64) -> usize {
        let (mut head, mut ok) = self.look(config, now);
        if self.codel.dropping {
            self.codel.dropping = ok;
            while self.codel.dropping && now >= self.codel.drop_next {
                let is_marked = self.mark_or_drop(config, now, head);
                self.codel.count += 1;
                if !is_marked {
                    (head, ok) = self.look(config, now);
                    self.codel.dropping = ok;
                }
                if ok {
                    self.codel.drop_next =
                        NaiveCoDel::law(self.codel.drop_next, config.interval, self.codel.count);
                }
                if is_marked {
                    break;
                }
            }
        } else if ok {
            if !self.mark_or_drop(config, now, head) {
                head = self.look(config, now).0;
            }
            let codel = &mut self.codel;
            let delta = codel.count - codel.last_count;
            let recent = u128::from(now.saturating_sub(codel.drop_next)) < 16 * config.interval.as_nanos();
            codel.dropping = true;
            codel.count = if delta > 1 && recent { delta } else { 1 };
            codel.last_count = codel.count;
            codel.drop_next = NaiveCoDel::law(now, config.interval, codel.count);
        }
        head
    }

    /// Returns the index of the oldest waiting packet, and whether CoDel may drop it.
    fn look(&mut self, config: CoDelConfig, now: u64) -> (usize, bool) {
        let waiting = self.waiting();
        let behind = waiting[1..].iter().map(|&place| self.wire(&self.sent[place])).sum();
        let sojourn = now - self.sent[waiting[0]].entered;
        (waiting[0], self.codel.ok_to_drop(config, now, sojourn, behind))
    }

    /// Marks a packet and returns true, or drops the packet and returns false.
    fn mark_or_drop(&mut self, config: CoDelConfig, now: u64, place: usize) -> bool {
        let record = &mut self.sent[place];
        if config.ecn && record.ecn != Ecn::NotEct {
            record.is_marked = record.ecn != Ecn::Ce;
            record.ecn = Ecn::Ce;
            return true;
        }
        record.state = State::Dropped(DropCause::Aqm);
        self.dropped.push((now.into(), DropCause::Aqm, record.number));
        false
    }

    fn send(&mut self, place: usize) {
        let record = self.sent[place];
        let (starts, end, ends) = self.times(record.entered, self.wire(&record));
        self.end = end;
        let LinkConfig { delay, reorder, .. } = self.config;
        let mut due = ends + u64::try_from(delay.as_nanos()).unwrap();
        if let Some(Reorder { probability, extra }) = reorder
            && probability.happens(self.draw(Stage::Reorder, &record))
        {
            due += u64::try_from(extra.as_nanos()).unwrap();
        }
        self.sent[place] = Record { starts, ends, due, state: State::Sent, ..record };
    }

    fn pop(&mut self, at: u64) -> Option<(u64, u64, u64, Ecn, bool)> {
        self.serve(at, u64::try_from(self.config.delay.as_nanos()).unwrap());
        let place = self.next_out().filter(|&place| self.sent[place].due <= at)?;
        self.sent[place].state = State::Delivered;
        let record = self.sent[place];
        Some((record.due, record.len, record.number, record.ecn, self.is_corrupted(&record)))
    }

    /// Returns the served packet that is due first; of equal due times, the one served first.
    fn next_out(&self) -> Option<usize> {
        let sent = |place: &usize| self.sent[*place].state == State::Sent;
        (0..self.sent.len()).filter(sent).min_by_key(|&place| (self.sent[place].due, place))
    }

    fn next_wakeup(&self) -> Option<u64> {
        let due = self.next_out().map(|place| self.sent[place].due);
        let delay = u64::try_from(self.config.delay.as_nanos()).unwrap();
        let departure = self.waiting().first().map(|&first| self.start(self.sent[first].entered) + delay);
        if due.is_some() && self.config.reorder.is_none() {
            due
        } else {
            due.into_iter().chain(departure).min()
        }
    }

    /// Returns the indices of the waiting packets, oldest first.
    fn waiting(&self) -> Vec<usize> {
        (0..self.sent.len()).filter(|&place| self.sent[place].state == State::Waiting).collect()
    }

    /// Returns when service of a packet that entered at `entered` starts, if it is the next.
    fn start(&self, entered: u64) -> u64 {
        self.times(entered, 0).0
    }

    /// Returns the start of service in nanoseconds, its end in the unit of [`Model::end`], and its
    /// end in nanoseconds.
    fn times(&self, entered: u64, bytes: u64) -> (u64, u128, u64) {
        let Some(rate) = self.config.rate else {
            return (entered, 0, entered);
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive whole number"
        )]
        let millibps = rate.as_bps_f64() as u128 * 1_000;
        let start = self.end.max(u128::from(entered) * millibps);
        let end = start + u128::from(bytes) * 8 * 1_000_000_000_000;
        let nanos = |fraction: u128| u64::try_from(fraction / millibps).unwrap();
        (nanos(start), end, nanos(end))
    }

    fn draw(&self, stage: Stage, record: &Record) -> u64 {
        let draws = Draws { seed: self.seed, direction: Direction::Forward, index: record.number };
        if record.is_copy { draws.of_duplicate().at(stage) } else { draws.at(stage) }
    }

    fn is_corrupted(&self, record: &Record) -> bool {
        record.len > 0 && self.config.corrupt.happens(self.draw(Stage::Corrupt, record))
    }

    fn wire(&self, record: &Record) -> u64 {
        record.len + u64::from(self.config.overhead)
    }

    fn held(&self) -> u64 {
        let held = self.sent.iter().filter(|record| matches!(record.state, State::Waiting | State::Sent));
        held.map(|record| record.len.max(64)).sum()
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger { max_occupancy: self.max_occupancy, ..Ledger::default() };
        for record in &self.sent {
            let len = record.len;
            if record.is_copy {
                ledger.on_duplicated(len);
            } else {
                ledger.on_sent(len);
            }
            match record.state {
                State::Dropped(cause) => ledger.on_dropped(cause, len),
                State::Waiting | State::Sent | State::Delivered => ledger.on_admitted(len, Duration::ZERO, 0),
            }
            if record.state == State::Delivered {
                ledger.on_delivered(len);
            }
            if matches!(record.state, State::Sent | State::Delivered) {
                ledger.busy += ns(record.ends - record.starts);
                ledger.corrupted += u64::from(self.is_corrupted(record));
                let reorder = self.config.reorder.map(|reorder| reorder.probability);
                let held_back = reorder.is_some_and(|p| p.happens(self.draw(Stage::Reorder, record)));
                ledger.reordered += u64::from(held_back);
            }
            ledger.marked += u64::from(record.is_marked);
        }
        ledger
    }
}
