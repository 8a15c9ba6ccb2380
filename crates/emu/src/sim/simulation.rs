//! Path in virtual time. Owns the packet numbers, by which each outcome is assigned to its packet.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use rdt_emulator::{DelayHistogram, Delivery, Direction, Packet, Path};

use super::rows::{Outcome, Row, Rows};
use super::schedule::Planned;
use crate::account::Account;

/// Limit on the late drops recorded per link. One push drops fewer, unless packets are empty.
const MAX_LATE_DROPS: usize = 1 << 20;

pub(super) struct Simulation {
    path: Path,
    begin: Instant,
    elapsed: Duration,
    /// Packets of each direction, forward first.
    sent: [Sent; 2],
}

/// Packets of one direction whose outcomes are not all known.
#[derive(Debug, Default)]
struct Sent {
    /// Number of the first packet in `packets`.
    first: u64,
    packets: VecDeque<Waiting>,
}

/// Packet with `left` unknown outcomes: two if it was duplicated.
#[derive(Debug)]
struct Waiting {
    at: Duration,
    left: u8,
}

impl Simulation {
    /// Creates a simulation whose schedules start at `begin`.
    pub(super) fn new(mut path: Path, begin: Instant) -> Self {
        path.start(begin);
        for link in [&mut path.forward, &mut path.reverse] {
            link.measure_queue_delays();
            link.keep_dropped(MAX_LATE_DROPS);
        }
        Self { path, begin, elapsed: Duration::ZERO, sent: <[Sent; 2]>::default() }
    }

    /// Writes a row for each outcome until `at`.
    pub(super) fn advance(&mut self, at: Duration, rows: &mut Rows<impl Write>) -> io::Result<()> {
        let until = self.begin + at;
        while let Some((due, direction)) = self.next_event().filter(|(due, _)| *due <= until) {
            self.elapsed = due.saturating_duration_since(self.begin);
            while let Some(delivery) = self.path.pop(direction, due) {
                rows.row(&self.delivered(direction, &delivery))?;
            }
            self.tell_late_drops(direction, rows)?;
        }
        Ok(())
    }

    /// Sends a packet. Packets must be sent in the order of their times.
    pub(super) fn send(&mut self, planned: Planned, rows: &mut Rows<impl Write>) -> io::Result<()> {
        let Planned { at, size, direction, ecn } = planned;
        self.elapsed = at;
        let before = *self.path.link_mut(direction).ledger();
        let n = before.sent;
        let packet = Packet::from(vec![0; size]).with_ecn(ecn).with_tag(tag(n));
        let result = self.path.push(direction, self.begin + at, packet);
        let copies = self.path.link_mut(direction).ledger().duplicated - before.duplicated;
        let left = u8::from(result.is_ok()) + u8::from(copies > 0);
        let sent = &mut self.sent[direction as usize];
        sent.forget();
        sent.packets.push_back(Waiting { at, left });
        if let Err(dropped) = result {
            let outcome = Outcome::Dropped(dropped.cause);
            rows.row(&Row {
                n,
                direction,
                sent: at,
                size,
                outcome,
                is_copy: false,
                is_corrupted: false,
                ecn,
            })?;
        }
        self.tell_late_drops(direction, rows)
    }

    /// Delivers the remaining packets. Returns the elapsed time and the accounts, forward first.
    pub(super) fn finish(mut self, rows: &mut Rows<impl Write>) -> io::Result<(Duration, [Account; 2])> {
        while let Some((due, _)) = self.next_event() {
            self.advance(due.saturating_duration_since(self.begin), rows)?;
        }
        let accounts = [self.path.forward, self.path.reverse].map(|link| Account {
            queue_delays: link.queue_delays().cloned().unwrap_or_default(),
            // Lateness does not exist in virtual time.
            lateness: DelayHistogram::default(),
            refused: 0,
            ledger: link.into_ledger(),
        });
        Ok((self.elapsed, accounts))
    }

    fn next_event(&self) -> Option<(Instant, Direction)> {
        let forward = self.path.forward.next_wakeup().map(|due| (due, Direction::Forward));
        let reverse = self.path.reverse.next_wakeup().map(|due| (due, Direction::Reverse));
        // If the times are equal, the forward packet is first.
        forward.into_iter().chain(reverse).min_by_key(|(due, _)| *due)
    }

    fn delivered(&mut self, direction: Direction, delivery: &Delivery) -> Row {
        let (n, sent) = self.settle(direction, delivery.tag);
        Row {
            n,
            direction,
            sent,
            size: delivery.packet.len(),
            outcome: Outcome::Delivered(delivery.due.saturating_duration_since(self.begin)),
            is_copy: delivery.is_copy,
            is_corrupted: delivery.is_corrupted,
            ecn: delivery.ecn,
        }
    }

    fn tell_late_drops(&mut self, direction: Direction, rows: &mut Rows<impl Write>) -> io::Result<()> {
        while let Some(dropped) = self.path.link_mut(direction).pop_dropped() {
            let (n, sent) = self.settle(direction, dropped.packet.tag);
            rows.row(&Row {
                n,
                direction,
                sent,
                size: dropped.packet.bytes.len(),
                outcome: Outcome::Dropped(dropped.cause),
                is_copy: dropped.is_copy,
                is_corrupted: false,
                ecn: dropped.packet.ecn,
            })?;
        }
        Ok(())
    }

    /// Records one outcome of the packet with this tag. Returns its number and its time of sending.
    fn settle(&mut self, direction: Direction, tag: u32) -> (u64, Duration) {
        let sent = &mut self.sent[direction as usize];
        let ahead = tag.wrapping_sub(self::tag(sent.first));
        let packet = sent.packets.get_mut(ahead as usize);
        let at = packet.map_or(Duration::ZERO, |packet| {
            packet.left = packet.left.saturating_sub(1);
            packet.at
        });
        (sent.first + u64::from(ahead), at)
    }
}

impl Sent {
    fn forget(&mut self) {
        while self.packets.front().is_some_and(|packet| packet.left == 0) {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

/// Returns the lower 32 bits of a packet's number. They identify the packet, because a link never
/// contains 2^32 packets.
const fn tag(n: u64) -> u32 {
    let [low @ .., _, _, _, _] = n.to_le_bytes();
    u32::from_le_bytes(low)
}
