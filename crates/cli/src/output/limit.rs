//! Limit of a transfer: the reason for which its sender waited longest.

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

/// Reason for which data did not leave earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Fixed window, packets.
    Window(u32),
    /// Congestion window.
    Congestion,
    /// Window that the receiver offered.
    Receiver,
    /// Rate of the path: that of the requested link, or as BBR measured it.
    Link,
    /// Rate at which the sender paced the packets of its congestion window.
    Pacing,
    /// `--max-rate`, bytes per second.
    MaxRate(u64),
    /// Source of the data.
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
    /// Reductions of the congestion window.
    recoveries: u64,
    /// Packets sent again.
    retransmitted: u64,
}

impl Limited {
    /// Returns what limited a transfer; `None` for one of less than 100 ms.
    #[expect(clippy::cast_precision_loss, reason = "rates are compared to a tenth")]
    pub(crate) fn of(config: &SenderConfig, stats: &SenderStats) -> Option<Self> {
        let elapsed = stats.elapsed();
        if elapsed < MIN_ELAPSED {
            return None;
        }
        let rate = stats.bytes_acked as f64 / elapsed.as_secs_f64();
        if let Some(share) = link_rate(config).map(|link| rate / link).filter(|share| *share > MIN_LINK_SHARE)
        {
            return Some(Self::new(Limit::Link, share, stats));
        }
        let waited = &stats.waited;
        let window = match config.congestion {
            Algorithm::Fixed(packets) => Limit::Window(packets),
            _ => Limit::Congestion,
        };
        let sent = (stats.bytes_acked + stats.retransmitted_bytes) as f64 / elapsed.as_secs_f64();
        let pacing = match config.max_rate {
            Some(rate) if sent > MIN_CAPPED_SHARE * rate as f64 => Limit::MaxRate(rate),
            _ if config.congestion == Algorithm::Bbr => Limit::Link,
            _ => Limit::Pacing,
        };
        let known = [
            (window, waited.cwnd),
            (Limit::Receiver, waited.peer_window),
            (pacing, waited.pacing),
            (Limit::Application, waited.application),
        ];
        let rest = elapsed.saturating_sub(known.iter().map(|(_, time)| *time).sum());
        let all = known.into_iter().chain([(Limit::Host, rest)]);
        let (by, time) = all.max_by_key(|(_, time)| *time)?;
        Some(Self::new(by, time.as_secs_f64() / elapsed.as_secs_f64(), stats))
    }

    fn new(by: Limit, share: f64, stats: &SenderStats) -> Self {
        let (recoveries, retransmitted) = (stats.recoveries, stats.retransmitted);
        Self { by, share: share.min(1.0), recoveries, retransmitted }
    }

    /// Returns the key in the JSON output.
    pub(crate) fn name(&self) -> &'static str {
        match self.by {
            Limit::Window(_) => "window",
            Limit::Congestion => "congestion_window",
            Limit::Receiver => "receiver_window",
            Limit::Link => "link",
            Limit::Pacing => "pacing",
            Limit::MaxRate(_) => "max_rate",
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
                "a path with fewer losses helps, or --cc bbr if it is not used",
            ),
            Limit::Congestion => (
                "the congestion window".into(),
                "nothing was sent again, so it still grew or the path was full: a longer transfer tells",
            ),
            Limit::Receiver => (
                "the receiver's window".into(),
                "a larger net.ipv4.tcp_rmem or --socket-buffer there helps, and a faster receiver",
            ),
            Limit::Host => (
                "this host or the socket's send buffer".into(),
                "a larger --socket-buffer or net.ipv4.tcp_wmem may help",
            ),
            _ => return self.sentence(),
        };
        format!("limited by {what} for {:.0} % of the time: {help}", self.share * 100.0)
    }

    /// Returns a sentence with the limit, its share and what would help.
    #[expect(clippy::cast_precision_loss, reason = "a rate is printed to six digits")]
    pub(crate) fn sentence(&self) -> String {
        let (what, help) = match self.by {
            Limit::Window(packets) => {
                (format!("its window of {packets} packets"), "a larger W sends more in a round trip")
            }
            Limit::Congestion if self.recoveries > 0 => (
                format!("the congestion window, which {} losses or marks reduced", self.recoveries),
                "a path with fewer losses helps, or --cc bbr if it is not used",
            ),
            Limit::Congestion => {
                ("the congestion window".into(), "it still grew: a longer transfer is faster")
            }
            Limit::Receiver => (
                "the receiver's window".into(),
                "more --rwnd or --memory there helps, and a receiver that stores faster",
            ),
            Limit::Link => ("the link".into(), "nothing at either host makes it faster"),
            Limit::Pacing => (
                "pacing of its congestion window".into(),
                "a path with fewer losses or a longer transfer helps, or --cc bbr",
            ),
            Limit::MaxRate(rate) => {
                (format!("--max-rate {}mbit", g(rate as f64 * 8e-6)), "a larger one is faster")
            }
            Limit::Application => ("its input".into(), "a faster disk or program as the source helps"),
            Limit::Host => ("this host".into(), "more processor time or larger batches (--gso) help"),
        };
        format!("limited by {what} for {:.0} % of the time: {help}", self.share * 100.0)
    }
}

/// Returns the payload rate of the requested link, bytes per second; `None` without a link.
#[expect(clippy::cast_precision_loss, reason = "rates are compared to a tenth")]
fn link_rate(config: &SenderConfig) -> Option<f64> {
    let bps = match (config.wire, config.link_request) {
        (Wire::Classic, _) => f64::from(config.link.speed_bps),
        (Wire::Native { .. }, link) => link?.rate_bps as f64,
    };
    Some(bps / 8.0 * config.payload_size() as f64 / config.packet_size as f64)
}

#[cfg(test)]
mod tests {
    use rdt_driver::clock;
    use rdt_transport::{LinkProperties, Waited};

    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn limited(config: &SenderConfig, waited: Waited, elapsed: u64) -> Option<(&'static str, u32)> {
        let start = clock::now();
        let stats = SenderStats {
            waited,
            first_data_at: Some(start),
            last_ack_at: Some(start + ms(elapsed)),
            ..SenderStats::default()
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
        Limited::of(config, &stats).map(|limited| (limited.name(), (limited.share * 100.0) as u32))
    }

    #[test]
    fn longest_wait_names_limit() {
        let (fixed, bbr) = (
            SenderConfig { congestion: Algorithm::Fixed(8), ..SenderConfig::native(0) },
            SenderConfig::native(0),
        );
        let cwnd = Waited { cwnd: ms(800), application: ms(100), ..Waited::default() };
        assert_eq!(limited(&fixed, cwnd, 1000), Some(("window", 80)));
        assert_eq!(limited(&bbr, cwnd, 1000), Some(("congestion_window", 80)));
        let waits = [
            ("receiver_window", Waited { peer_window: ms(600), cwnd: ms(100), ..Waited::default() }),
            ("link", Waited { pacing: ms(600), ..Waited::default() }),
            ("application", Waited { application: ms(600), ..Waited::default() }),
        ];
        for (name, waited) in waits {
            assert_eq!(limited(&bbr, waited, 1000), Some((name, 60)));
        }
        let pacing = Waited { pacing: ms(600), ..Waited::default() };
        let reno = SenderConfig { congestion: Algorithm::Reno, ..bbr.clone() };
        assert_eq!(limited(&reno, pacing, 1000), Some(("pacing", 60)));
        // Nothing was sent in this time.
        let capped = SenderConfig { max_rate: Some(1000), ..bbr.clone() };
        assert_eq!(limited(&capped, pacing, 1000), Some(("link", 60)));
        assert_eq!(limited(&bbr, Waited::default(), 1000), Some(("host", 100)));
        assert_eq!(limited(&bbr, cwnd, 99), None, "too short");
    }

    #[test]
    fn kernel_sentences_name_its_options() {
        let config = SenderConfig { congestion: Algorithm::Cubic, ..SenderConfig::native(0) };
        let sentence = |waited: Waited, retransmitted: u64| {
            let start = clock::now();
            let stats = SenderStats {
                waited,
                retransmitted,
                first_data_at: Some(start),
                last_ack_at: Some(start + ms(1000)),
                ..SenderStats::default()
            };
            Limited::of(&config, &stats).unwrap().sentence_of_kernel()
        };
        let cwnd = Waited { cwnd: ms(800), ..Waited::default() };
        assert!(sentence(cwnd, 7).contains("while 7 packets were sent again for 80 %"));
        assert!(sentence(cwnd, 0).contains("nothing was sent again"));
        let window = Waited { peer_window: ms(800), ..Waited::default() };
        let sentence = sentence(window, 0);
        assert!(sentence.contains("--socket-buffer") && !sentence.contains("--rwnd"), "{sentence}");
    }

    #[test]
    fn full_link_is_limit_whatever_is_waited_for() {
        let start = clock::now();
        // 1 Mbit/s: 122,622 bytes of payload in a second.
        let link =
            LinkProperties { rtt_s: 0.1, speed_bps: 1e6, loss_forward: 0.0, loss_reverse: 0.0, buffer: 9 };
        for (bytes, name) in [(115_000, "link"), (105_000, "window")] {
            let stats = SenderStats {
                bytes_acked: bytes,
                waited: Waited { cwnd: ms(900), ..Waited::default() },
                first_data_at: Some(start),
                last_ack_at: Some(start + ms(1000)),
                ..SenderStats::default()
            };
            let limited = Limited::of(&SenderConfig::new(10, link), &stats).unwrap();
            assert_eq!(limited.name(), name);
        }
    }
}
