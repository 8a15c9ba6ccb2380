//! Whether this host kept up with the link that it was asked for. If it did not, what was measured is the host.

use std::mem;
use std::time::{Duration, Instant};

use rdt_emulator::{Delivery, Direction};
use rdt_server::Lateness;

use crate::relay::{Account, Books};
use crate::tap::Tap;

/// How late one packet in a hundred may be.
const LATE: Duration = Duration::from_millis(1);
/// How often it is looked whether the host keeps up.
const INTERVAL: Duration = Duration::from_secs(1);
/// Fewer packets are no reason to speak up before the end: the next interval is added.
const LEAST: u64 = 100;
pub(crate) const NAMES: [&str; 2] = ["forward", "reverse"];

/// What there is to say at the end, forward first; `overflow` is how many packets never came to the link.
pub(crate) fn shortcomings(accounts: &[Account; 2], overflow: [u64; 2]) -> Vec<String> {
    let mut sentences = Vec::new();
    for ((name, account), overflow) in NAMES.iter().zip(accounts).zip(overflow) {
        if overflow > 0 {
            sentences.push(format!(
                "{name}: {overflow} packets were lost before the link: this host, not the link, was the limit"
            ));
        }
        sentences.extend(late(name, &account.lateness));
    }
    sentences
}

fn late(name: &str, lateness: &Lateness) -> Option<String> {
    let p99 = lateness.quantile(0.99);
    (lateness.count() > 0 && p99 > LATE).then(|| {
        let millis = p99.as_secs_f64() * 1e3;
        format!("{name}: 1 % of the packets left {millis:.1} ms late or more: this host, not the link, was the limit")
    })
}

/// Says so while it happens, once for each direction. Each interval is judged by its own packets: after an hour of
/// punctual ones it takes no more late ones to be noticed than at the beginning.
pub(crate) struct Alarm {
    next: Option<Instant>,
    /// Of the packets of this interval.
    lateness: [Lateness; 2],
    said: [bool; 2],
    tell: fn(&str),
}

impl Alarm {
    pub(crate) fn new(tell: fn(&str)) -> Self {
        Self { next: None, lateness: [Lateness::new(), Lateness::new()], said: [false; 2], tell }
    }
}

impl Tap for Alarm {
    fn on_delivery(&mut self, direction: Direction, at: Instant, delivery: &Delivery) {
        self.lateness[direction as usize].record(at.saturating_duration_since(delivery.due));
    }

    fn on_turn(&mut self, at: Instant, _books: &Books<'_>) {
        if self.next.is_some_and(|next| at < next) {
            return;
        }
        self.next = Some(at + INTERVAL);
        self.judge();
    }
}

impl Alarm {
    /// An interval has ended.
    fn judge(&mut self) {
        for ((said, name), lateness) in self.said.iter_mut().zip(NAMES).zip(&mut self.lateness) {
            if lateness.count() < LEAST {
                continue;
            }
            let lateness = mem::take(lateness);
            if !*said && let Some(sentence) = late(name, &lateness) {
                *said = true;
                (self.tell)(&sentence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use rdt_driver::clock;
    use rdt_emulator::{Ledger, Link, LinkConfig, Packet, QueueDelays};

    use super::*;

    #[test]
    fn a_host_that_keeps_up_is_not_spoken_of() {
        let account = |late: u64, count: u32| {
            let mut lateness = Lateness::new();
            for number in 0..1000 {
                lateness.record(Duration::from_micros(if number < count { late } else { 10 }));
            }
            Account { ledger: Ledger::default(), lateness, refused: 0, queue_delays: QueueDelays::default() }
        };
        assert_eq!(shortcomings(&[account(900, 1000), account(5000, 9)], [0, 0]), [""; 0]);
        let said = shortcomings(&[account(5000, 20), account(0, 0)], [0, 7]);
        assert!(said[0].starts_with("forward: 1 % of the packets left 5.0 ms late"), "{said:?}");
        assert!(said[1].starts_with("reverse: 7 packets were lost before the link"), "{said:?}");
        assert_eq!(said.len(), 2);
    }

    #[test]
    fn late_packets_are_noticed_however_many_came_in_time_before() {
        thread_local! {
            static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        }
        let mut alarm = Alarm::new(|sentence| SAID.with_borrow_mut(|said| said.push(sentence.to_owned())));
        let mut link = Link::new(LinkConfig::default(), 1, Direction::Reverse);
        let due = clock::now();
        link.push(due, Packet::from(vec![0])).unwrap();
        let packet = link.pop(due).unwrap();
        let mut interval = |late: u64, count| {
            for _ in 0..count {
                alarm.on_delivery(Direction::Reverse, due + Duration::from_millis(late), &packet);
            }
            alarm.judge();
            SAID.take()
        };
        assert_eq!(interval(0, 1_000_000), [""; 0]);
        assert_eq!(interval(7, LEAST - 1), [""; 0], "too few");
        let said = interval(7, 1);
        assert!(
            said.len() == 1 && said[0].starts_with("reverse: 1 % of the packets left 7.0 ms late"),
            "{said:?}"
        );
        assert_eq!(interval(9, LEAST), [""; 0], "once");
    }
}
