//! Warnings that this host was slower than the link, so that measurements describe the host and not
//! the link.

use std::mem;
use std::time::{Duration, Instant};

use rdt_emulator::{DEFAULT_MEMORY_LIMIT_BYTES, DelayHistogram, Direction};
use rdt_program::Printer;

use crate::account::Account;
use crate::relay::{Event, Observer};

/// Limit on the 99th percentile of lateness; above it, the host counts as too slow.
const MAX_P99_LATENESS: Duration = Duration::from_millis(1);
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a warning is repeated while its cause lasts.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);
/// Fewest packets whose lateness is evaluated. An interval with fewer is extended by the next one.
const MIN_JUDGED_PACKETS: u64 = 100;
/// Phrase in every warning that the host was too slow; programs search for it. At the end of a run
/// ", was the limit" follows.
pub const BLAME: &str = "this host, not the link";
pub(crate) const NAMES: [&str; 2] = ["forward", "reverse"];

/// Returns warnings about the host after a run. `overflow` counts packets lost before the link.
pub(crate) fn shortcomings(accounts: &[Account; 2], overflow: [u64; 2]) -> Vec<String> {
    let mut sentences = Vec::new();
    for ((name, account), overflow) in NAMES.iter().zip(accounts).zip(overflow) {
        if overflow > 0 {
            sentences.push(lost(name, overflow, "was"));
        }
        if account.ledger.dropped_memory > 0 {
            sentences.push(no_memory(name, account.ledger.dropped_memory, "was"));
        }
        sentences.extend(late(name, &account.lateness, "was"));
    }
    sentences
}

/// Formats the warning about packets lost before the link. `verb` is "is" while the relay runs, and
/// "was" at the end.
fn lost(name: &str, packets: u64, verb: &str) -> String {
    format!("{name}: {packets} packets were lost before the link: {BLAME}, {verb} the limit")
}

/// Formats the warning about the memory limit of the links, which protects the host. Drops at queue
/// limits cause no warning, because these belong to the link.
fn no_memory(name: &str, packets: u64, verb: &str) -> String {
    let gib = DEFAULT_MEMORY_LIMIT_BYTES >> 30;
    format!(
        "{name}: {packets} packets were dropped because {gib} GiB of them were on the way: {BLAME}, {verb} the limit"
    )
}

fn late(name: &str, lateness: &DelayHistogram, verb: &str) -> Option<String> {
    let (count, p99) = (lateness.count(), lateness.quantile(0.99));
    (count > 0 && p99 > MAX_P99_LATENESS).then(|| {
        let which = if count < MIN_JUDGED_PACKETS {
            let (late, most) = (lateness.longer_than(MAX_P99_LATENESS), MAX_P99_LATENESS.as_millis());
            format!("{late} of {count} packets left more than {most} ms late")
        } else {
            format!("1 % of the packets left {:.1} ms late or more", p99.as_secs_f64() * 1e3)
        };
        format!("{name}: {which}: {BLAME}, {verb} the limit")
    })
}

/// Warns while the relay runs if packets are late, or dropped by the memory limit. Evaluates each
/// interval by its own packets, so that an hour without lateness does not mask a later problem.
pub(crate) struct Alarm {
    next: Option<Instant>,
    /// Lateness of the packets of the current interval, forward first.
    lateness: [DelayHistogram; 2],
    cooldown: [Cooldown; 2],
    memory: LossAlarm,
    warnings: Printer,
}

impl Alarm {
    pub(crate) fn new(warnings: Printer) -> Self {
        Self {
            next: None,
            lateness: [(); 2].map(|()| DelayHistogram::default()),
            cooldown: <[Cooldown; 2]>::default(),
            memory: LossAlarm { sentence: no_memory, ..LossAlarm::default() },
            warnings,
        }
    }

    /// Evaluates the interval if it has ended. `memory` returns the packets dropped by the memory
    /// limit so far, forward first.
    fn look(&mut self, at: Instant, memory: impl FnOnce() -> [u64; 2]) {
        if at < *self.next.get_or_insert(at + CHECK_INTERVAL) {
            return;
        }
        self.memory.look(at, memory()).iter().for_each(|sentence| self.warnings.print(sentence));
        self.next = Some(at + CHECK_INTERVAL);
        for ((cooldown, name), lateness) in self.cooldown.iter_mut().zip(NAMES).zip(&mut self.lateness) {
            if lateness.count() < MIN_JUDGED_PACKETS {
                continue;
            }
            if let Some(sentence) = late(name, &mem::take(lateness), "is").filter(|_| cooldown.ends(at)) {
                self.warnings.print(&sentence);
            }
        }
    }
}

impl Observer for Alarm {
    fn on(&mut self, event: &Event<'_>) {
        match *event {
            Event::Delivery(direction, at, delivery) => {
                self.lateness[direction as usize].record(at.saturating_duration_since(delivery.due));
            }
            Event::Turn(at, accounts) => {
                let dropped = |direction| accounts.paths.ledger(direction).dropped_memory;
                self.look(at, || [Direction::Forward, Direction::Reverse].map(dropped));
            }
            _ => {}
        }
    }
}

/// Warns while the relay runs if the host loses packets. [`LossAlarm::default`] words the warning
/// for packets lost before the link.
#[derive(Debug)]
pub(crate) struct LossAlarm {
    /// Formats the warning from direction, packet count and verb.
    sentence: fn(&str, u64, &str) -> String,
    said: [u64; 2],
    cooldown: [Cooldown; 2],
}

impl Default for LossAlarm {
    fn default() -> Self {
        Self { sentence: lost, said: [0; 2], cooldown: <[Cooldown; 2]>::default() }
    }
}

impl LossAlarm {
    /// Returns the warnings due at `at`. `lost` counts the packets lost so far, forward first.
    pub(crate) fn look(&mut self, at: Instant, lost: [u64; 2]) -> Vec<String> {
        let mut sentences = Vec::new();
        for (index, name) in NAMES.into_iter().enumerate() {
            if lost[index] > self.said[index] && self.cooldown[index].ends(at) {
                self.said[index] = lost[index];
                sentences.push((self.sentence)(name, lost[index], "is"));
            }
        }
        sentences
    }
}

/// Rate limit of one warning, with the time of the last one.
#[derive(Debug, Default)]
struct Cooldown(Option<Instant>);

impl Cooldown {
    /// Returns true if a warning is allowed at `at`, and records it as the last one.
    fn ends(&mut self, at: Instant) -> bool {
        let ends = self.0.is_none_or(|last| at.saturating_duration_since(last) >= WARNING_INTERVAL);
        if ends {
            self.0 = Some(at);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rdt_emulator::{DelayHistogram, Ledger, Link, LinkConfig, Packet};
    use rdt_udp::clock;

    use super::*;

    #[test]
    fn host_that_keeps_up_has_no_warnings() {
        let account = |late: u64, count: u32| {
            let mut lateness = DelayHistogram::default();
            for number in 0..1000 {
                lateness.record(Duration::from_micros(if number < count { late } else { 10 }));
            }
            Account {
                ledger: Ledger::default(),
                lateness,
                refused: 0,
                queue_delays: DelayHistogram::default(),
            }
        };
        assert_eq!(shortcomings(&[account(900, 1000), account(5000, 9)], [0, 0]), [""; 0]);
        let said = shortcomings(&[account(5000, 20), account(0, 0)], [0, 7]);
        assert!(said[0].starts_with("forward: 1 % of the packets left 5.0 ms late"), "{said:?}");
        assert!(said[1].starts_with("reverse: 7 packets were lost before the link"), "{said:?}");
        assert_eq!(said.len(), 2);
        let few = shortcomings(&[account(0, 0), few([5000, 10, 10, 3000])], [0, 0]);
        assert_eq!(
            few,
            ["reverse: 2 of 4 packets left more than 1 ms late: this host, not the link, was the limit"]
        );
    }

    /// Creates an account of packets with these latenesses, microseconds.
    fn few<const N: usize>(late: [u64; N]) -> Account {
        let mut lateness = DelayHistogram::default();
        for late in late {
            lateness.record(Duration::from_micros(late));
        }
        Account { ledger: Ledger::default(), lateness, refused: 0, queue_delays: DelayHistogram::default() }
    }

    /// Returns a printer, and a function that removes and returns what it has printed.
    fn recording() -> (Printer, impl Fn() -> Vec<String>) {
        let (prints, printed) = std::sync::mpsc::channel();
        let print = move |text: &str| prints.send(text.to_owned()).map_err(io::Error::other);
        let printer = Printer::spawn(9, print).unwrap();
        let queue = printer.clone();
        (printer, move || {
            queue.flush();
            printed.try_iter().collect()
        })
    }

    #[test]
    fn memory_drops_warn_at_once_and_finally() {
        let mut account = few([]);
        account.ledger.dropped_memory = 3;
        let told = shortcomings(&[few([]), account], [0, 0]);
        let sentence = |verb| {
            let what = "3 packets were dropped because 1 GiB of them were on the way";
            format!("reverse: {what}: this host, not the link, {verb} the limit")
        };
        assert_eq!(told, [sentence("was")]);

        let (warnings, said) = recording();
        let mut alarm = Alarm::new(warnings);
        let begin = clock::now();
        let mut said_after = |seconds, dropped| {
            alarm.look(begin + Duration::from_secs(seconds), || [0, dropped]);
            said()
        };
        assert_eq!(
            [said_after(0, 3), said_after(1, 3), said_after(2, 9)],
            [vec![], vec![sentence("is")], vec![]]
        );
    }

    #[test]
    fn late_packets_warn_at_once_then_periodically() {
        let (warnings, said) = recording();
        let mut alarm = Alarm::new(warnings);
        let mut link = Link::new(LinkConfig::default(), 1, Direction::Reverse);
        let begin = clock::now();
        link.push(begin, Packet::from(vec![0])).unwrap();
        let packet = link.pop(begin).unwrap();
        let mut now = begin;
        alarm.look(now, || [0; 2]);
        let mut second = |late: u64, count| {
            for _ in 0..count {
                let at = begin + Duration::from_millis(late);
                alarm.on(&Event::Delivery(Direction::Reverse, at, &packet));
            }
            now += CHECK_INTERVAL / 2;
            alarm.look(now, || [0; 2]);
            assert_eq!(said(), [""; 0], "no second has passed");
            now += CHECK_INTERVAL / 2;
            alarm.look(now, || [0; 2]);
            said()
        };
        // A million punctual packets do not dilute the next interval.
        assert_eq!(second(0, 1_000_000), [""; 0]);
        assert_eq!(second(7, MIN_JUDGED_PACKETS - 1), [""; 0], "too few");
        let sentence =
            "reverse: 1 % of the packets left 7.0 ms late or more: this host, not the link, is the limit";
        assert_eq!(second(7, 1), [sentence]);
        for _ in 0..9 {
            assert_eq!(second(7, MIN_JUDGED_PACKETS), [""; 0], "it has just been said");
        }
        assert_eq!(second(7, MIN_JUDGED_PACKETS), [sentence], "it goes on");
        assert_eq!(second(0, MIN_JUDGED_PACKETS), [""; 0]);
    }

    #[test]
    fn losses_before_link_warn_at_once_then_periodically() {
        let mut alarm = LossAlarm::default();
        let begin = clock::now();
        let mut at = |seconds, lost| alarm.look(begin + Duration::from_secs(seconds), lost);
        assert_eq!(at(0, [0, 0]), [""; 0]);
        let said = at(1, [3, 0]);
        assert_eq!(
            said,
            ["forward: 3 packets were lost before the link: this host, not the link, is the limit"]
        );
        assert_eq!(at(2, [9, 0]), [""; 0], "it has just been said");
        assert!(at(3, [9, 1])[0].starts_with("reverse: 1 packets"), "the other direction was not");
        assert!(at(11, [9, 1])[0].starts_with("forward: 9 packets"));
        assert_eq!(at(99, [9, 1]), [""; 0], "no more were lost");
    }
}
