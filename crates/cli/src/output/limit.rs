//! Limit of a transfer: the reason why its data did not arrive earlier, by the waits of the sender,
//! its losses, and the round trip.

use std::time::Duration;

use rdt_transport::congestion::Algorithm;
use rdt_transport::{SenderConfig, SenderStats, Wire};

use super::format::g;

/// Shortest transfer that is judged: the start dominates a shorter one.
const MIN_ELAPSED: Duration = Duration::from_millis(100);

/// Share of `--max-rate` that a transfer must reach for waits of the pacer to be due to it.
const MIN_CAPPED_SHARE: f64 = 0.9;

/// Share of the requested link's rate from which the link is the limit, whatever the sender waits
/// for: a full link holds up ACKs, and so every window.
const MIN_LINK_SHARE: f64 = 0.9;

/// [`MIN_LINK_SHARE`] while the round trip shows a queue: the link was full except at the start.
const MIN_QUEUED_LINK_SHARE: f64 = 0.5;

/// [`MIN_LINK_SHARE`] for BBR with losses. Losses also come from the startup, in which BBR sends
/// more than the link carries.
const MIN_LOSSY_LINK_SHARE: f64 = 0.75;

/// A queue is full if the smoothed round trip exceeds the shortest one by this factor and by
/// [`MIN_QUEUE_TIME`]. Schedulers and offloads add a few milliseconds without a queue.
const QUEUE_FACTOR: f64 = 1.5;
const MIN_QUEUE_TIME: Duration = Duration::from_millis(10);

/// Share of the time that the growth of the window must take to be the limit.
const MIN_GROWTH_SHARE: f64 = 0.5;

/// Factors by which a congestion window grows in a round trip: slow start, and BBR's startup where
/// it paces, as it measures the path's rate early.
const SLOW_START_FACTOR: f64 = 2.0;
const BBR_STARTUP_FACTOR: f64 = 4.0;

/// Share of retransmitted bytes from which BBR reduces its rate: it tolerates less.
const MIN_BBR_LOSS: f64 = 0.01;

/// Reason for which data did not leave earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Fixed window, packets.
    Window(u32),
    Congestion,
    Receiver,
    Link,
    /// Rate of the path, which shows in a full queue or as BBR measured it.
    Path,
    /// Rate at which the sender paced its packets.
    Pacing,
    /// `--max-rate`, bytes per second.
    MaxRate(u64),
    /// Round trips in which the congestion window grew, or a single one.
    RoundTrips(u32),
    Application,
    /// Program itself: processor, system calls.
    Host,
}

/// Reason that held a transfer up longest, and its share of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limited {
    by: Limit,
    /// Share of the time between the first packet of data and the last ACK, 0 to 1.
    pub(crate) share: f64,
    /// Transfers that it limited, and all of them, if there were several at once.
    of_several: Option<(usize, usize)>,
    congestion: Algorithm,
    reductions: u64,
    retransmitted: u64,
    /// Shortest and smoothed round trip, if they show a full queue.
    queue: Option<(Duration, Duration)>,
    /// The receiver's window doubled in each round trip from one packet, for most of the time.
    is_opening: bool,
}

impl Limited {
    /// Returns what limited a transfer; `None` for one of less than 100 ms.
    pub(crate) fn of(config: &SenderConfig, stats: &SenderStats) -> Option<Self> {
        let evidence = Evidence::of(config, stats);
        if stats.elapsed() < MIN_ELAPSED {
            return None;
        }
        let (by, share) = evidence.limit()?;
        Some(Self {
            by,
            share: share.min(1.0),
            of_several: None,
            congestion: config.congestion,
            reductions: stats.recoveries + stats.ecn_reductions + stats.timeouts,
            retransmitted: stats.retransmitted,
            queue: evidence.queue(),
            is_opening: config.wire == Wire::Classic
                && evidence.growth(1, SLOW_START_FACTOR).1 > MIN_GROWTH_SHARE,
        })
    }

    /// Returns what limited several transfers at once for the largest part of their times together.
    /// Each has its limit and its time. `None` if none has a limit.
    pub(crate) fn of_several(all: &[(Option<Self>, Duration)]) -> Option<Self> {
        let whole: Duration = all.iter().map(|(_, time)| *time).sum();
        let limits = || all.iter().filter_map(|(limit, time)| limit.map(|limit| (limit, *time)));
        let same = |name| limits().filter(move |(limit, _)| limit.name() == name);
        let time = |name| -> f64 { same(name).map(|(limit, time)| limit.share * time.as_secs_f64()).sum() };
        let by_time = |a: &Self, b: &Self| time(a.name()).total_cmp(&time(b.name()));
        let most = limits().map(|(limit, _)| limit).max_by(by_time)?;
        let name = most.name();
        Some(Self {
            share: time(name) / whole.as_secs_f64(),
            of_several: Some((same(name).count(), all.len())),
            reductions: same(name).map(|(limit, _)| limit.reductions).sum(),
            retransmitted: same(name).map(|(limit, _)| limit.retransmitted).sum(),
            ..most
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.by {
            Limit::Window(_) => "window",
            Limit::Congestion => "congestion_window",
            Limit::Receiver => "receiver_window",
            Limit::Link | Limit::Path => "link",
            Limit::Pacing => "pacing",
            Limit::MaxRate(_) => "max_rate",
            Limit::RoundTrips(_) => "round_trips",
            Limit::Application => "application",
            Limit::Host => "host",
        }
    }

    /// Returns the sentence of [`Limited::sentence`] for a connection of the kernel.
    #[cfg(target_os = "linux")]
    pub(crate) fn sentence_of_kernel(&self) -> String {
        let (what, help) = match self.by {
            Limit::Congestion if self.retransmitted > 0 => (
                format!("the congestion window, while {} packets were sent again", self.retransmitted),
                self.fewer_losses(),
            ),
            Limit::Congestion => (
                "the congestion window".into(),
                "nothing was sent again, so it still grew or the path was full: a longer transfer tells",
            ),
            Limit::RoundTrips(_) => {
                ("the round trips in which its window grew".into(), "a longer transfer is faster")
            }
            Limit::Receiver if self.queue.is_none() => (
                "the receiver's window".into(),
                "a larger net.ipv4.tcp_rmem or --socket-buffer there helps, and a faster receiver",
            ),
            Limit::Host => (
                "this host or the socket's send buffer".into(),
                "a larger --socket-buffer or net.ipv4.tcp_wmem may help",
            ),
            _ => return self.sentence(),
        };
        self.with_share(&what, help)
    }

    /// Returns a sentence with the limit, its share and what would help.
    #[expect(clippy::cast_precision_loss, reason = "a rate is printed to six digits")]
    pub(crate) fn sentence(&self) -> String {
        let (what, help) = match self.by {
            Limit::Window(packets) => {
                let what = format!("its window of {packets} packets{}", self.losses());
                (what, "a larger W sends more in a round trip")
            }
            Limit::Congestion => (format!("the congestion window{}", self.losses()), self.window_help()),
            Limit::Receiver if self.is_opening => (
                "the receiver's window, which doubles from one packet in each round trip".into(),
                "a longer transfer is faster",
            ),
            Limit::Receiver => match self.queue {
                Some(queue) => (
                    format!("the receiver's window, {}", rise(queue)),
                    "a larger one may only lengthen the queue there or at the link",
                ),
                None => (
                    "the receiver's window".into(),
                    "more --rwnd or --memory there helps, and a receiver that stores faster",
                ),
            },
            Limit::Link => ("the link".into(), "nothing at either host makes it faster"),
            Limit::Path => (
                self.queue
                    .map_or("the path's rate".into(), |queue| format!("the path's rate, {}", rise(queue))),
                "only a faster link, or a faster receiver if that is slower, helps",
            ),
            Limit::Pacing => match self.congestion {
                Algorithm::Bbr => {
                    (format!("pacing at the rate that BBR measured{}", self.losses()), self.window_help())
                }
                _ => (format!("pacing of its congestion window{}", self.losses()), self.window_help()),
            },
            Limit::MaxRate(rate) => {
                (format!("--max-rate {}mbit", g(rate as f64 * 8e-6)), "a larger one is faster")
            }
            Limit::RoundTrips(1) => {
                (format!("1 round trip{}", self.losses()), "only a shorter path is faster")
            }
            Limit::RoundTrips(trips) => (
                format!("{trips} round trips in which its window grew"),
                "a longer transfer or a larger --initial-window is faster",
            ),
            Limit::Application => ("its input".into(), "a faster disk or program as the source helps"),
            Limit::Host => ("this host".into(), "more processor time or larger batches (--gso) help"),
        };
        self.with_share(&what, help)
    }

    fn with_share(&self, what: &str, help: &str) -> String {
        let several = self.of_several.map(|(some, all)| format!(", in {some} of {all} transfers"));
        format!(
            "limited by {what} for {:.0} % of the time{}: {help}",
            self.share * 100.0,
            several.unwrap_or_default()
        )
    }

    /// Returns what follows the name of a limit that losses or marks lowered.
    fn losses(&self) -> String {
        match (self.congestion, self.reductions, self.retransmitted) {
            (_, _, 0) | (Algorithm::Fixed(_), 0, _) if self.reductions == 0 => String::new(),
            (Algorithm::Fixed(_) | Algorithm::Bbr, ..) => {
                format!(", while {} packets were sent again,", self.retransmitted)
            }
            (_, reductions, _) => format!(", which {reductions} losses or marks reduced,"),
        }
    }

    fn window_help(&self) -> &'static str {
        match (self.reductions + self.retransmitted, self.congestion) {
            (0, Algorithm::Bbr) => "a longer transfer may be faster",
            (0, _) => "it still grew: a longer transfer is faster",
            _ => self.fewer_losses(),
        }
    }

    fn fewer_losses(&self) -> &'static str {
        match self.congestion {
            Algorithm::Bbr => "a path with fewer losses helps",
            _ => "a path with fewer losses helps, or --cc bbr",
        }
    }
}

/// Describes a rise of the round trip, for the line that names what limited the transfer.
fn rise((shortest, smoothed): (Duration, Duration)) -> String {
    let ms = |rtt: Duration| g(rtt.as_secs_f64() * 1e3);
    format!("with a round trip that rose from {} ms to {} ms,", ms(shortest), ms(smoothed))
}

struct Evidence<'a> {
    config: &'a SenderConfig,
    stats: &'a SenderStats,
    elapsed: Duration,
    /// Payload of the retransmissions over all payload sent.
    loss: f64,
    /// Rate of all payload sent, bytes per second.
    sent: f64,
}

impl<'a> Evidence<'a> {
    #[expect(clippy::cast_precision_loss, reason = "rates are compared to a tenth")]
    fn of(config: &'a SenderConfig, stats: &'a SenderStats) -> Self {
        let elapsed = stats.elapsed();
        let sent = (stats.bytes_acked + stats.retransmitted_bytes) as f64;
        let loss = stats.retransmitted_bytes as f64 / sent.max(1.0);
        Self { config, stats, elapsed, loss, sent: sent / elapsed.as_secs_f64() }
    }

    fn limit(&self) -> Option<(Limit, f64)> {
        let link = self.link_share();
        if link > MIN_LINK_SHARE {
            return Some((Limit::Link, link));
        }
        let waited = &self.stats.waited;
        let before = waited.cwnd + waited.pacing + waited.peer_window + waited.application;
        // The wait for the FIN-ACK is not one for data.
        let last_acks = waited.last_acks.min(self.elapsed.saturating_sub(before));
        let network = waited.cwnd + waited.pacing + last_acks;
        let host = self.elapsed.saturating_sub(before + last_acks);
        let waits = [network, waited.peer_window, waited.application, host];
        let (longest, time) = waits.into_iter().enumerate().max_by_key(|(_, time)| *time)?;
        let is_full = link > MIN_QUEUED_LINK_SHARE && self.queue().is_some();
        let by = match longest {
            0 | 1 if is_full => return Some((Limit::Link, link)),
            0 => return Some(self.limit_of_network(last_acks, network)),
            1 => Limit::Receiver,
            2 => Limit::Application,
            _ => Limit::Host,
        };
        Some((by, self.share(time)))
    }

    /// Returns the limit of a transfer that waited for the network longest, `network` in all.
    fn limit_of_network(&self, last_acks: Duration, network: Duration) -> (Limit, f64) {
        let (waited, link) = (&self.stats.waited, self.link_share());
        let is_paced = waited.pacing > waited.cwnd;
        if let Some(rate) = self.config.max_rate.filter(|rate| is_paced && self.reaches(*rate)) {
            return (Limit::MaxRate(rate), self.share(waited.pacing));
        }
        let is_bbr = self.config.congestion == Algorithm::Bbr;
        let fixed = match self.config.congestion {
            Algorithm::Fixed(packets) => Some(packets),
            _ => None,
        };
        if fixed.is_none() {
            let factor = if is_bbr && is_paced { BBR_STARTUP_FACTOR } else { SLOW_START_FACTOR };
            let (trips, share) = self.growth(self.config.initial_window, factor);
            if share > MIN_GROWTH_SHARE.max(link) {
                return (Limit::RoundTrips(trips), share);
            }
        }
        if last_acks > waited.cwnd + waited.pacing {
            return (Limit::RoundTrips(1), self.share(last_acks));
        }
        // Without losses BBR's rate is what the path delivered, unless a requested link is faster.
        let is_measured = is_bbr && is_paced && self.loss < MIN_BBR_LOSS && self.link_rate().is_none();
        let least = if self.loss < MIN_BBR_LOSS { MIN_QUEUED_LINK_SHARE } else { MIN_LOSSY_LINK_SHARE };
        if is_bbr && link > least {
            return (Limit::Link, link);
        }
        let by = match fixed {
            _ if is_measured || self.queue().is_some() => Limit::Path,
            Some(packets) if !is_paced => Limit::Window(packets),
            _ if is_paced => Limit::Pacing,
            _ => Limit::Congestion,
        };
        (by, self.share(network))
    }

    fn share(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.elapsed.as_secs_f64()
    }

    #[expect(clippy::cast_precision_loss, reason = "rates are compared to a tenth")]
    fn reaches(&self, max_rate: u64) -> bool {
        self.sent > MIN_CAPPED_SHARE * max_rate as f64
    }

    /// Returns the share of the requested link that was used; 0 without a request.
    fn link_share(&self) -> f64 {
        self.link_rate().map_or(0.0, |rate| self.sent / rate)
    }

    /// Returns the payload rate of the requested link, bytes per second; `None` without a link.
    #[expect(clippy::cast_precision_loss, reason = "rates are compared to a tenth")]
    fn link_rate(&self) -> Option<f64> {
        let config = self.config;
        let bps = match (config.wire, config.link_request) {
            (Wire::Classic, _) => f64::from(config.link.speed_bps),
            (Wire::Native, link) => link?.rate_bps as f64,
        };
        Some(bps / 8.0 * config.payload_size() as f64 / config.packet_size as f64)
    }

    /// Returns the shortest and the smoothed round trip, if they show a full queue.
    fn queue(&self) -> Option<(Duration, Duration)> {
        let (shortest, smoothed) = self.stats.min_rtt.zip(self.stats.srtt)?;
        let least = shortest.mul_f64(QUEUE_FACTOR).max(shortest + MIN_QUEUE_TIME);
        (smoothed > least).then_some((shortest, smoothed))
    }

    /// Returns the number of round trips in which a window grew, and their share of the time. By
    /// the model that the window grows from `first` packets by `factor` in each round trip, until
    /// the rate stays constant: after k round trips, the rest takes at most
    /// bytes / (first * factor^k) of them.
    #[expect(clippy::cast_precision_loss, reason = "the numbers of bytes are below 2^53")]
    #[expect(clippy::cast_possible_truncation, reason = "saturates")]
    fn growth(&self, first: u32, factor: f64) -> (u32, f64) {
        let Some(rtt) = self.stats.min_rtt.filter(|rtt| !rtt.is_zero()) else { return (0, 0.0) };
        let elapsed = self.elapsed.as_secs_f64() / rtt.as_secs_f64();
        let windows = self.stats.bytes_acked as f64 / (f64::from(first) * self.config.payload_size() as f64);
        // Without a constant rate, the windows sum up to the whole.
        let all = (1..64).find(|k| factor.powi(*k) > windows).unwrap_or(64);
        let trips = (0..all).find(|k| f64::from(*k) + windows / factor.powi(*k) <= elapsed).unwrap_or(all);
        let share = f64::from(trips) / elapsed;
        // A window may have grown faster.
        (trips.min(elapsed.round().max(1.0) as i32).unsigned_abs(), share)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
