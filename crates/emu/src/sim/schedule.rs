//! Schedule of packets to send.
//!
//! Owns the notation and the order. Lines may be in any order; packets of the same time are sent in
//! the order of their lines. Packets are generated when they are due, so a line may stand for any
//! number of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rdt_emulator::{Bitrate, Direction, Ecn, parse_bitrate, parse_bytes, parse_duration};

/// Longest packet, bytes.
const MAX_PACKET_BYTES: u64 = 65_535;
/// Longest schedule: 100 years, which every clock can represent.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    /// Time since the start.
    pub(super) at: Duration,
    /// Packet size, bytes.
    pub(super) size: usize,
    pub(super) direction: Direction,
    pub(super) ecn: Ecn,
}

pub(super) struct Schedule {
    bursts: Vec<Burst>,
    /// Time of the next packet, and index, of each unfinished burst.
    next: BinaryHeap<Reverse<(Duration, usize)>>,
}

/// Packets of equal size at equal intervals.
#[derive(Debug, Clone)]
pub(super) struct Burst {
    first: Planned,
    count: u64,
    /// End of the burst: no packet is sent at this time or later.
    until: Duration,
    gap: Gap,
    /// Remainder of the division that gave the last interval between packets, added to the next
    /// one; see [`Bitrate::transmit_time`].
    remainder: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Gap {
    /// Transmission time of the packet at this rate.
    Rate(Bitrate),
    Time(Duration),
}

/// Error in a schedule, with the number of its line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub(super) struct ScheduleError {
    line: usize,
    message: String,
}

impl Schedule {
    pub(super) fn new(bursts: Vec<Burst>) -> Self {
        let next = bursts.iter().enumerate().filter(|(_, burst)| burst.has_next());
        let next = next.map(|(index, burst)| Reverse((burst.first.at, index))).collect();
        Self { bursts, next }
    }

    /// Parses the lines of a schedule; `#` begins a comment.
    pub(super) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let lines = (1..).zip(lines).filter(|(_, line)| !line.trim().is_empty());
        let burst = |(line, text)| Burst::parse(text).map_err(|message| ScheduleError { line, message });
        lines.map(burst).collect::<Result<_, _>>().map(Self::new)
    }
}

impl Iterator for Schedule {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let Reverse((_, index)) = self.next.pop()?;
        let burst = &mut self.bursts[index];
        let packet = burst.first;
        burst.advance();
        if burst.has_next() {
            self.next.push(Reverse((burst.first.at, index)));
        }
        Some(packet)
    }
}

impl Burst {
    pub(super) const fn new(at: Duration, size: usize, ecn: Ecn) -> Self {
        let first = Planned { at, size, direction: Direction::Forward, ecn };
        Self { first, count: 1, until: Duration::MAX, gap: Gap::Time(Duration::ZERO), remainder: 0 }
    }

    /// Repeats the packet at intervals of `gap` until `until`.
    pub(super) const fn repeated_until(self, gap: Gap, until: Duration) -> Self {
        Self { gap, until, count: u64::MAX, ..self }
    }

    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let (Some(time), Some(size)) = (words.next(), words.next()) else {
            return Err("a time and a size are needed, such as 10ms 1200".to_owned());
        };
        let at = parse_duration(time).map_err(|error| error.to_string())?;
        let bytes = parse_bytes(size).map_err(|error| error.to_string())?;
        let bytes = usize::try_from(bytes).ok().filter(|_| bytes <= MAX_PACKET_BYTES);
        let size = bytes.ok_or_else(|| {
            format!("'{size}' is out of range: a packet has at most {MAX_PACKET_BYTES} bytes")
        })?;
        let mut burst = Self::new(at, size, Ecn::NotEct);
        for word in words {
            burst.add(word)?;
        }
        let last = burst.gap(&mut 0).saturating_mul(u32::try_from(burst.count).unwrap_or(u32::MAX));
        if at.saturating_add(last) > MAX_DURATION {
            return Err("the packets last for more than 100 years".to_owned());
        }
        Ok(burst)
    }

    fn add(&mut self, word: &str) -> Result<(), String> {
        match word {
            "forward" => self.first.direction = Direction::Forward,
            "reverse" => self.first.direction = Direction::Reverse,
            "ect0" => self.first.ecn = Ecn::Ect0,
            "ect1" => self.first.ecn = Ecn::Ect1,
            "ce" => self.first.ecn = Ecn::Ce,
            _ => {
                let Some((count, gap)) = word.split_once('/') else {
                    return Err(format!(
                        "'{word}' is none of forward, reverse, ect0, ect1, ce, a count and a rate (100/5mbit) or a count and an interval (100/2ms)"
                    ));
                };
                let count =
                    count.parse::<u32>().map_err(|_| format!("'{count}' is not a number of packets"))?;
                self.count = count.into();
                self.gap = match (parse_bitrate(gap), parse_duration(gap)) {
                    (Ok(rate), _) => Gap::Rate(rate),
                    (_, Ok(time)) => Gap::Time(time),
                    _ => {
                        return Err(format!(
                            "'{gap}' is neither a rate such as 5mbit nor a time such as 2ms"
                        ));
                    }
                };
            }
        }
        Ok(())
    }

    fn has_next(&self) -> bool {
        self.count > 0 && self.first.at < self.until
    }

    fn advance(&mut self) {
        let mut remainder = self.remainder;
        self.first.at = self.first.at.saturating_add(self.gap(&mut remainder));
        self.remainder = remainder;
        self.count -= 1;
    }

    /// Returns the interval to the next packet; see [`Bitrate::transmit_time`] for `remainder`.
    fn gap(&self, remainder: &mut u64) -> Duration {
        match self.gap {
            Gap::Rate(rate) => rate.transmit_time(self.first.size, remainder),
            Gap::Time(time) => time,
        }
    }
}
