//! Stalls of a sender, and which limit binds, from a capture alone.
//!
//! The state between two segments follows from the first of them, in this order: handshake, closed
//! window of the peer, nothing to send, loss recovery, else congestion window or link.

use serde_json::{Value as Json, json};

use super::connection::{Connection, Event};
use super::direction::Kind;
use super::sequence::{Ack, number, seconds};

/// A stall is a pause between data of at least this time, and of this many round trips.
const MIN_STALL_S: f64 = 0.1;
const STALL_ROUND_TRIPS: f64 = 3.0;
/// Round-trip times above the smallest by more than this share mean a queue.
const QUEUE_SHARE: f64 = 0.1;

/// Segments that the sender left room for before, if it is limited by its application.
const IDLE_SEGMENTS: u64 = 2;

/// What kept a sender from sending faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The handshake.
    Start,
    /// The application had nothing to send: no data in flight, a short last segment, or fewer bytes
    /// in flight than before without a loss.
    Application,
    /// A loss was being repaired.
    Recovery,
    /// The receiver's window had no room for a segment.
    Window,
    /// None of the others, and round-trip times are short: the congestion window or its pace.
    Congestion,
    /// None of the others, and round-trip times show a queue.
    Link,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 6] =
        [Self::Start, Self::Application, Self::Recovery, Self::Window, Self::Congestion, Self::Link];

    /// Returns the word in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Application => "application",
            Self::Recovery => "recovery",
            Self::Window => "window",
            Self::Congestion => "cwnd",
            Self::Link => "link",
        }
    }

    /// Returns the name for readers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "handshake",
            Self::Application => "application",
            Self::Recovery => "loss recovery",
            Self::Window => "receiver window",
            Self::Congestion => "congestion window",
            Self::Link => "link",
        }
    }
}

/// Pause between data.
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    /// Time of the last data before it, seconds from the first packet.
    pub begin_s: f64,
    /// Length, seconds.
    pub length_s: f64,
    /// Probes of the peer's window, and keep-alives.
    pub probes: u64,
    /// The limit of the longest part.
    pub cause: Limit,
    /// True if segments prove the cause.
    pub is_certain: bool,
}

/// What kept one end from sending faster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Seconds in each limit, in the order of [`Limit::ALL`]: those that segments prove.
    pub certain: [f64; 6],
    /// The same for verdicts that follow from what segments do not show.
    pub likely: [f64; 6],
    /// Pauses between data.
    pub stalls: Vec<Stall>,
    /// True if the capture was made at this end, or nearer to it than to the peer.
    pub is_near: bool,
    /// Largest window of the peer while it bound, bytes.
    pub window: u64,
    /// Smallest round-trip time, seconds.
    pub rtt_s: f64,
    /// Byte seconds in flight.
    byte_seconds: f64,
}

impl Timeline {
    /// Returns the bytes in flight on average over the connection's life.
    pub fn outstanding(&self) -> f64 {
        let whole: f64 = Limit::ALL.iter().map(|limit| self.time(*limit)).sum();
        if whole > 0.0 { self.byte_seconds / whole } else { 0.0 }
    }

    /// Returns the seconds that are attributed to a limit.
    pub fn time(&self, limit: Limit) -> f64 {
        self.certain[limit as usize] + self.likely[limit as usize]
    }

    /// Returns the share of the connection's life that is attributed to a limit.
    pub fn share(&self, limit: Limit) -> f64 {
        let whole: f64 = Limit::ALL.iter().map(|limit| self.time(*limit)).sum();
        if whole > 0.0 { self.time(limit) / whole } else { 0.0 }
    }

    /// Returns sentences about the limits, the longest first.
    pub fn sentences(&self, name: &str) -> Vec<String> {
        let mut limits = Limit::ALL.to_vec();
        limits.sort_by(|a, b| self.time(*b).total_cmp(&self.time(*a)));
        let parts = limits.into_iter().filter(|limit| self.share(*limit) >= 0.0005).map(|limit| {
            let doubt = if self.likely[limit as usize] > self.certain[limit as usize] {
                " (less certain)"
            } else {
                ""
            };
            format!("{:.1} % {}{doubt}", self.share(limit) * 100.0, limit.name())
        });
        let mut out = vec![format!("{name}: {}", parts.collect::<Vec<_>>().join(", "))];
        if self.share(Limit::Window) >= 0.05 && self.rtt_s > 0.0 {
            out.push(format!(
                "{name}: the window of its peer, at most {} bytes while it binds, allows {:.3} Mbit/s at a round trip of {:.1} ms",
                self.window,
                number(self.window) * 8.0 / self.rtt_s / 1e6,
                self.rtt_s * 1e3
            ));
        }
        if !self.is_near {
            out.push(format!("{name}: the capture was made nearer to its peer, so bytes in flight, limits and causes are less certain"));
        }
        out
    }

    /// Returns limits and stalls as JSON.
    pub fn to_json(&self) -> Json {
        let limits: serde_json::Map<String, Json> = Limit::ALL
            .iter()
            .map(|limit| {
                let (certain, likely) = (self.certain[*limit as usize], self.likely[*limit as usize]);
                let value = json!({ "share": self.share(*limit), "certain_s": certain, "likely_s": likely });
                (limit.word().to_owned(), value)
            })
            .collect();
        let stalls = self.stalls.iter().map(|it| {
            json!({
                "begin_s": it.begin_s, "length_s": it.length_s, "probes": it.probes,
                "cause": it.cause.word(), "certain": it.is_certain,
            })
        });
        json!({
            "limits": limits,
            "outstanding-mean_bytes": self.outstanding(),
            "stalls": stalls.collect::<Vec<_>>(),
            "near": self.is_near,
        })
    }
}

/// State of the sender, as far as segments show it.
struct State {
    sender: usize,
    segment: u64,
    is_open: bool,
    highest: u64,
    acked: u64,
    edge: u64,
    /// Data that must be acknowledged until a recovery ends.
    recovery: Option<u64>,
    is_short: bool,
    /// Most bytes in flight since the last recovery.
    largest_flight: u64,
    rtt_s: f64,
    shortest_s: f64,
}

impl State {
    /// Returns the limit from now on, and whether segments prove it.
    fn limit(&self) -> (Limit, bool) {
        if !self.is_open || self.edge == 0 {
            return (Limit::Start, true);
        }
        let room = self.edge.saturating_sub(self.highest);
        if room < self.segment {
            return (Limit::Window, true);
        }
        if self.highest <= self.acked {
            return (Limit::Application, true);
        }
        if self.recovery.is_some() {
            return (Limit::Recovery, true);
        }
        if self.is_short {
            return (Limit::Application, false);
        }
        if self.rtt_s > self.shortest_s * (1.0 + QUEUE_SHARE) {
            return (Limit::Link, false);
        }
        // A sender that may send does so at an ACK. One that leaves room has nothing, or is paced.
        let has_room = self.flight() + IDLE_SEGMENTS * self.segment <= self.largest_flight;
        (if has_room { Limit::Application } else { Limit::Congestion }, false)
    }

    fn flight(&self) -> u64 {
        self.highest.saturating_sub(self.acked)
    }

    fn apply(&mut self, event: &Event) {
        if event.from != self.sender {
            self.answer(event);
            return;
        }
        let has_data = event.end > event.start;
        match event.kind {
            Kind::Retransmission | Kind::OutOfOrder if has_data && self.recovery.is_none() => {
                self.recovery = Some(self.highest.max(event.end));
            }
            Kind::New if has_data => {
                self.is_short = event.pushed && event.end - event.start < self.segment;
            }
            _ => {}
        }
        if event.kind != Kind::Probe {
            self.highest = self.highest.max(event.end);
        }
        self.is_open |= event.ack.is_some();
        if self.acked == 0 {
            self.acked = self.highest;
        }
        self.largest_flight = self.largest_flight.max(self.flight());
    }

    fn answer(&mut self, event: &Event) {
        let Some(ack) = event.ack else { return };
        self.is_open |= !event.control;
        // A SYN-ACK acknowledges a number that is no data, but has the first window.
        self.acked = self.acked.max(ack);
        self.edge = self.edge.max(ack).max(ack + u64::from(event.window));
        if event.window == 0 && ack >= self.acked {
            self.edge = ack;
        }
        if self.recovery.is_some_and(|until| ack >= until) {
            self.recovery = None;
            self.largest_flight = 0;
        }
        if let Ack::Sample(ns) = event.meaning {
            self.rtt_s = seconds(ns);
        }
    }
}

/// Returns what kept one end from sending faster.
pub fn timeline(connection: &Connection, sender: usize) -> Timeline {
    let (mine, peer) = (&connection.directions[sender], &connection.directions[1 - sender]);
    let (ours, theirs) = (mine.sequence.rtt.least(), peer.sequence.rtt.least());
    let mut out = Timeline {
        // Segments wait for ACKs where the path lies between.
        is_near: ours >= theirs,
        rtt_s: ours.max(theirs),
        ..Timeline::default()
    };
    let mut state = State {
        sender,
        segment: u64::from(mine.largest.max(1)),
        is_open: false,
        highest: 0,
        acked: 0,
        edge: 0,
        recovery: None,
        is_short: false,
        largest_flight: 0,
        rtt_s: ours,
        shortest_s: ours,
    };
    let mean = mine.sequence.rtt.mean().max(out.rtt_s);
    let mut pause = Pause { threshold_s: (STALL_ROUND_TRIPS * mean).max(MIN_STALL_S), ..Pause::default() };
    let mut last_ns = connection.first_ns;
    for event in &connection.events {
        let repairs = matches!(event.kind, Kind::Retransmission | Kind::OutOfOrder);
        let is_repair = event.from == sender && repairs && event.end > event.start;
        let (limit, is_certain) = match state.limit() {
            // What was waited for is a repair, of a loss that nothing showed before.
            (Limit::Congestion | Limit::Link | Limit::Application, _) if is_repair => (Limit::Recovery, true),
            other => other,
        };
        let time = seconds(event.at_ns.saturating_sub(last_ns));
        last_ns = last_ns.max(event.at_ns);
        let times = if is_certain { &mut out.certain } else { &mut out.likely };
        times[limit as usize] += time;
        pause.add(limit, is_certain, time);
        out.byte_seconds += time * number(state.flight());
        if limit == Limit::Window {
            out.window = out.window.max(state.edge.saturating_sub(state.acked));
        }
        state.apply(event);
        if event.from == sender {
            let at_s = seconds(event.at_ns.saturating_sub(connection.first_ns));
            out.stalls.extend(pause.segment(event, at_s));
        }
    }
    out
}

/// Time since the last data.
#[derive(Default)]
struct Pause {
    threshold_s: f64,
    since_s: Option<f64>,
    probes: u64,
    certain: [f64; 6],
    likely: [f64; 6],
}

impl Pause {
    fn add(&mut self, limit: Limit, is_certain: bool, time: f64) {
        let times = if is_certain { &mut self.certain } else { &mut self.likely };
        times[limit as usize] += time;
    }

    /// Ends at data. Returns the stall, if it was long enough.
    fn segment(&mut self, event: &Event, at_s: f64) -> Option<Stall> {
        if matches!(event.kind, Kind::Probe | Kind::KeepAlive) {
            self.probes += 1;
            return None;
        }
        if event.end == event.start {
            return None;
        }
        let ended = std::mem::take(self);
        self.threshold_s = ended.threshold_s;
        self.since_s = Some(at_s);
        let begin_s = ended.since_s?;
        let length_s = at_s - begin_s;
        if length_s < ended.threshold_s {
            return None;
        }
        let time = |limit: Limit| ended.certain[limit as usize] + ended.likely[limit as usize];
        let longest = |a: &&Limit, b: &&Limit| time(**a).total_cmp(&time(**b));
        let cause = *Limit::ALL.iter().max_by(longest)?;
        let is_certain = ended.certain[cause as usize] >= ended.likely[cause as usize];
        Some(Stall { begin_s, length_s, probes: ended.probes, cause, is_certain })
    }
}
