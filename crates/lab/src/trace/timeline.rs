//! Stalls of a sender, and the limit that binds at each time, from a capture alone.
//!
//! The limit between two segments follows from the segments up to the first of them. It is the
//! first that applies of: handshake; full window of the peer; nothing in flight; loss recovery;
//! short last segment; queue on the link; fewer bytes in flight than before; congestion window.

use serde_json::{Value as Json, json};

use super::connection::{Connection, Event};
use super::direction::{Direction, Kind};
use super::packet::MAX_SCALE;
use super::sequence::{Ack, number, seconds};

/// Shortest pause between data that is a stall, seconds and mean round-trip times.
const MIN_STALL_S: f64 = 0.1;
const STALL_ROUND_TRIPS: f64 = 3.0;
/// A round-trip time longer than the smallest by more than this share is due to a queue.
const QUEUE_SHARE: f64 = 0.1;
/// A sender with at least this number of segments fewer in flight than before, without a loss, is
/// application-limited.
const IDLE_SEGMENTS: u64 = 2;

/// Reason why a sender did not send faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The handshake.
    Start,
    /// The application had nothing to send: no data in flight, a short last segment, or fewer bytes
    /// in flight than before without a loss.
    Application,
    /// Loss recovery.
    Recovery,
    /// The receiver's window had no room for a segment.
    Window,
    /// None of the others, without a queue: the congestion window, or pacing.
    Congestion,
    /// None of the others, with a queue.
    Link,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 6] =
        [Self::Start, Self::Application, Self::Recovery, Self::Window, Self::Congestion, Self::Link];

    /// Words in metrics, and names for readers, in the order of [`Limit::ALL`].
    const NAMES: [(&str, &str); 6] = [
        ("start", "handshake"),
        ("application", "application"),
        ("recovery", "loss recovery"),
        ("window", "receiver window"),
        ("cwnd", "congestion window"),
        ("link", "link"),
    ];

    /// Returns the word in metrics.
    pub const fn word(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// Returns the name for readers.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// Pause between data.
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    /// Time of the last data before it, seconds from the first packet.
    pub begin_s: f64,
    /// Length, seconds.
    pub length_s: f64,
    /// Number of zero-window probes and keep-alives.
    pub probes: u64,
    /// Limit that bound for the longest time.
    pub cause: Limit,
    /// True if segments prove the cause.
    pub is_certain: bool,
}

/// Limits on one direction over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Seconds for which each limit bound, in the order of [`Limit::ALL`], where segments prove it.
    pub certain: [f64; 6],
    /// Seconds for which each limit probably bound, where segments do not prove it.
    pub likely: [f64; 6],
    /// Stalls.
    pub stalls: Vec<Stall>,
    /// True if the capture was made at this end, or nearer to it than to the peer.
    pub is_near: bool,
    /// Least number of bits by which the peer's windows must be scaled for the bytes in flight to
    /// fit, if the capture lacks the SYN that says the number.
    pub unknown_scale: Option<u32>,
    /// Largest window of the peer while it was the limit, bytes.
    pub window: u64,
    /// Smallest round-trip time, seconds.
    pub rtt_s: f64,
    /// Integral of the bytes in flight over time, byte seconds.
    byte_seconds: f64,
}

impl Timeline {
    /// Returns the mean number of bytes in flight over the time of the connection.
    pub fn outstanding(&self) -> f64 {
        let whole = self.duration();
        if whole > 0.0 { self.byte_seconds / whole } else { 0.0 }
    }

    fn duration(&self) -> f64 {
        Limit::ALL.iter().map(|limit| self.time(*limit)).sum()
    }

    /// Returns the seconds for which a limit bound.
    pub fn time(&self, limit: Limit) -> f64 {
        self.certain[limit as usize] + self.likely[limit as usize]
    }

    /// Returns the share of the connection's time for which a limit bound, 0 to 1.
    pub fn share(&self, limit: Limit) -> f64 {
        let whole = self.duration();
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
        if let Some(least) = self.unknown_scale {
            let least = if least > 0 { format!(" (at least {least} bits)") } else { String::new() };
            out.push(format!("{name}: the capture lacks the handshake with the window scale of its peer{least}, so only windows of 0 count as a limit"));
        }
        if self.share(Limit::Window) >= 0.05 && self.rtt_s > 0.0 && self.window > 0 {
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
            "window-scale-known": self.unknown_scale.is_none(),
        })
    }
}

/// State of the sender, as far as segments show it.
#[derive(Default)]
struct State {
    sender: usize,
    /// Full segment, bytes.
    segment: u64,
    /// True after the handshake.
    is_open: bool,
    /// End of the highest data sent.
    highest: u64,
    /// Highest cumulative acknowledgement. 0 before the first segment.
    acked: u64,
    /// Right edge of the peer's window. 0 before the first one.
    edge: u64,
    /// True if the scale of the peer's windows is unknown, so that only window 0 is a limit.
    is_unscaled: bool,
    /// Acknowledgement number that ends the current loss recovery.
    recovery: Option<u64>,
    /// True if the latest data was a short segment with PSH.
    is_short: bool,
    /// Most bytes in flight since the last recovery.
    largest_flight: u64,
    /// Latest and smallest round-trip time.
    rtt_s: f64,
    shortest_s: f64,
}

impl State {
    /// Returns the limit that binds until the next segment, and whether segments prove it.
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
        // ACKs clock out what the congestion window allows. A sender that sends less has no data.
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
        self.acked = self.acked.max(ack);
        let window = if self.is_unscaled { u64::MAX - ack } else { event.window.into() };
        self.edge = self.edge.max(ack + window);
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

/// Returns the least number of bits by which a peer's windows must be scaled, if the capture lacks
/// the SYN that says the number.
fn unknown_scale(mine: &Direction, peer: &Direction) -> Option<u32> {
    // A sample of the bytes in flight is one byte too large.
    let flight = mine.flight.most.saturating_sub(1);
    let fits = |bits: &u32| flight <= u64::from(peer.window.most) << bits;
    peer.shift(mine).is_none().then(|| (0..MAX_SCALE).find(fits).unwrap_or(MAX_SCALE))
}

/// Returns the limits on what an end of a connection sent, 0 or 1.
pub fn timeline(connection: &Connection, sender: usize) -> Timeline {
    let (mine, peer) = (&connection.directions[sender], &connection.directions[1 - sender]);
    let (ours, theirs) = (mine.sequence.rtt.least(), peer.sequence.rtt.least());
    let mut out = Timeline {
        // Next to the sender, the time from data to its ACK includes the path.
        is_near: ours >= theirs,
        rtt_s: ours.max(theirs),
        unknown_scale: unknown_scale(mine, peer),
        ..Timeline::default()
    };
    // With offload the largest packet of the capture has many segments.
    let segment = mine.largest.min(peer.mss.map_or(u32::MAX, u32::from)).max(1);
    let mut state = State {
        sender,
        segment: u64::from(segment),
        is_unscaled: out.unknown_scale.is_some(),
        rtt_s: ours,
        shortest_s: ours,
        ..State::default()
    };
    let mean = mine.sequence.rtt.mean().max(out.rtt_s);
    let mut pause = Pause { threshold_s: (STALL_ROUND_TRIPS * mean).max(MIN_STALL_S), ..Pause::default() };
    let mut last_ns = connection.first_ns;
    for event in &connection.events {
        let repairs = matches!(event.kind, Kind::Retransmission | Kind::OutOfOrder);
        let is_repair = event.from == sender && repairs && event.end > event.start;
        let (limit, is_certain) = match state.limit() {
            // The wait for a timeout is a part of the recovery that the retransmission begins.
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
    /// Shortest pause that is a stall.
    threshold_s: f64,
    /// Time of the last data, from the first packet.
    since_s: Option<f64>,
    probes: u64,
    /// As in [`Timeline`].
    certain: [f64; 6],
    likely: [f64; 6],
}

impl Pause {
    fn add(&mut self, limit: Limit, is_certain: bool, time: f64) {
        let times = if is_certain { &mut self.certain } else { &mut self.likely };
        times[limit as usize] += time;
    }

    /// Ends the pause if `event` has data. Returns it if it was a stall.
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
