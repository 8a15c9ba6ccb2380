//! Plan of one seed: the initiator's stream, the path and its faults.

use std::fmt;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rdt::SenderConfig;
use rdt::congestion::Algorithm;
use rdt::emulator::{
    Bitrate, GilbertElliott, Jitter, LinkConfig, Loss, Mtu, Outage, PathConfig, Probability, QueueLimit,
};
use rdt::transport::{LossDetection, WindowConfig};

/// Largest transfer, bytes.
const LARGEST: f64 = 2_000_000.0;
/// Payload of a full packet, bytes.
pub(super) const MSS: u64 = 1432;

/// Strict rules that hold for a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Random loss alone: the number of retransmissions is bounded.
    RandomLoss,
    /// Two packets lost in mid-transfer and no other fault: no timeout may happen.
    TwoLosses,
    /// Any combination of faults.
    Mixed,
}

/// Program that restarts in mid-transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    Initiator,
    /// Loses its connections.
    Responder,
}

/// Transfer and its faults.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) rate: u64,
    pub(super) rtt: Duration,
    pub(super) sender: SenderConfig,
    pub(super) window: WindowConfig,
    pub(super) memory: u64,
    pub(super) path: PathConfig,
    /// Mean loss rates, forward and reverse.
    pub(super) loss: (f64, f64),
    /// Begin and end of the interval in which the application does not read.
    pub(super) stall: Option<(Duration, Duration)>,
    pub(super) restart: Option<(Duration, Restart)>,
    /// ACKs in a thousand that are followed by a forged or old one.
    pub(super) forged: u32,
    /// True if no planned fault can end the transfer: it must finish.
    pub(super) must_finish: bool,
    /// True if the responder restarts, and no other fault can end the connection. It must finish or
    /// be reset.
    pub(super) must_hear: bool,
    /// Total time in which the path or the application stands still.
    pub(super) dead: Duration,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, bytes, rate, rtt, window, memory, loss, stall, restart, forged, .. } = self;
        let SenderConfig { congestion, recovery, pacing, .. } = self.sender;
        writeln!(
            f,
            "{kind:?}: {bytes} bytes, {rate} bit/s, {rtt:?}, loss {loss:.3?}, must finish: {}",
            self.must_finish
        )?;
        writeln!(f, "{congestion} {recovery}, paced: {pacing}, window {}, memory {memory}", window.max)?;
        writeln!(f, "stall {stall:?}, restart {restart:?}, forged {forged}")?;
        writeln!(f, "forward {:?}", self.path.forward)?;
        write!(f, "reverse {:?}", self.path.reverse)
    }
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        match seed % 8 {
            0 => Self::random_loss(seed, &mut rng),
            1 => Self::two_losses(seed, &mut rng),
            _ => Self::mixed(seed, &mut rng),
        }
    }

    /// Plan without faults.
    fn clean(seed: u64, rng: &mut SmallRng) -> Self {
        let bytes = match rng.random_range(0..20) {
            0 => 0.0,
            1..8 => LARGEST.powf(rng.random_range(0.0..1.0)),
            _ => rng.random_range(0.0..LARGEST),
        };
        let bytes = bytes as u64;
        let rtt = match rng.random_range(0..8) {
            0 => Duration::ZERO,
            1 => Duration::from_secs_f64(rng.random_range(0.3..1.5)),
            _ => Duration::from_secs_f64(10_f64.powf(rng.random_range(-4.0..-0.5))),
        };
        let rate = 10_f64.powf(rng.random_range(5.0..9.0)) as u64;
        Self {
            seed,
            kind: Kind::Mixed,
            bytes,
            rate,
            rtt,
            sender: sender(rng, seed),
            window: WindowConfig::new(64 << 20, MSS),
            memory: 128 << 20,
            path: PathConfig::symmetric(rtt, Bitrate::from_bps(rate)),
            loss: (0.0, 0.0),
            stall: None,
            restart: None,
            forged: 0,
            must_finish: true,
            must_hear: false,
            dead: Duration::ZERO,
        }
    }

    fn random_loss(seed: u64, rng: &mut SmallRng) -> Self {
        let mut plan = Self::clean(seed, rng);
        plan.kind = Kind::RandomLoss;
        plan.loss = (rng.random_range(0.0..0.3), rng.random_range(0.0..0.3));
        plan.path.forward.loss = Loss::Bernoulli(probability(plan.loss.0));
        plan.path.reverse.loss = Loss::Bernoulli(probability(plan.loss.1));
        plan.must_finish = plan.is_mild(0.2);
        plan
    }

    fn two_losses(seed: u64, rng: &mut SmallRng) -> Self {
        let mut plan = Self::clean(seed, rng);
        plan.kind = Kind::TwoLosses;
        plan.bytes = 200 * MSS;
        plan.rtt = Duration::from_millis(rng.random_range(20..400));
        plan.path = PathConfig::symmetric(plan.rtt, Bitrate::from_bps(1_000_000_000));
        plan.sender.congestion = Algorithm::Fixed(rng.random_range(24..64));
        // Two SYNs and a PATH probe precede the data.
        let first = rng.random_range(80..130);
        plan.path.forward.loss = Loss::script([first, first + rng.random_range(1..12)]);
        plan
    }

    fn mixed(seed: u64, rng: &mut SmallRng) -> Self {
        let mut plan = Self::clean(seed, rng);
        let mut forward = plan.path.forward.clone();
        let mut reverse = plan.path.reverse.clone();
        plan.queues(rng, &mut forward, &mut reverse);
        plan.loss = (Self::lossy(rng, &mut forward), Self::lossy(rng, &mut reverse));
        for link in [&mut forward, &mut reverse] {
            disorder(rng, link, plan.rtt);
        }
        plan.path = PathConfig { forward, reverse };
        plan.must_finish = plan.is_mild(0.1);
        if rng.random_bool(0.15) {
            plan.black_out(rng);
        }
        if rng.random_bool(0.08) {
            let at = plan.middle(rng);
            let size = if rng.random_bool(0.5) { 600 } else { 1280 };
            plan.path.forward.mtu = Mtu::unlimited().then(at, size);
            plan.must_finish = false;
        }
        if rng.random_bool(0.3) {
            plan.small_window(rng);
        }
        if rng.random_bool(0.2) {
            let from = plan.middle(rng);
            let pause = Duration::from_secs_f64(10_f64.powf(rng.random_range(-2.0..1.3)));
            plan.stall = Some((from, from + pause));
            plan.dead += pause;
        }
        if rng.random_bool(0.12) {
            let who = match rng.random_range(0..4) {
                0 | 1 => Restart::Responder,
                _ => Restart::Initiator,
            };
            plan.restart = Some((plan.middle(rng), who));
            plan.must_hear = plan.must_finish && who == Restart::Responder;
            plan.must_finish &= who == Restart::Initiator;
        }
        if rng.random_bool(0.25) {
            plan.forged = rng.random_range(1..200);
        }
        plan
    }

    /// Returns true if losses are rare and the RTO stays short. The timer then fires often before
    /// the receiver's idle timeout, because path and queues are short even when full.
    fn is_mild(&self, loss: f64) -> bool {
        let wait = |link: &LinkConfig, bytes: u64| {
            let most = link.queue.bytes.unwrap_or(u64::MAX);
            let most = most.min(link.queue.packets.map_or(u64::MAX, |packets| u64::from(packets) * 1472));
            let rate = link.rate.map_or(f64::INFINITY, Bitrate::as_bps_f64);
            most.min(bytes) as f64 * 8.0 / rate
        };
        // One ACK with a few blocks for each packet.
        let acks = self.bytes / MSS * 150;
        let queues = wait(&self.path.forward, self.bytes) + wait(&self.path.reverse, acks);
        self.loss.0 + self.loss.1 < loss && self.rtt.as_secs_f64() + queues < 1.0
    }

    fn queues(&self, rng: &mut SmallRng, forward: &mut LinkConfig, reverse: &mut LinkConfig) {
        let bdp = self.rate as f64 * self.rtt.as_secs_f64() / 8.0;
        let bytes = (bdp * rng.random_range(0.05..4.0)) as u64;
        forward.queue = match rng.random_range(0..3) {
            0 => QueueLimit::packets(rng.random_range(2..50)),
            1 => QueueLimit::bytes(bytes.max(2 * 1472)),
            _ => QueueLimit::UNLIMITED,
        };
        if rng.random_bool(0.2) {
            reverse.rate = Some(Bitrate::from_bps((self.rate / rng.random_range(1..20)).max(50_000)));
        }
    }

    /// Adds random or bursty loss up to 30 %; returns its mean.
    fn lossy(rng: &mut SmallRng, link: &mut LinkConfig) -> f64 {
        match rng.random_range(0..4) {
            0 => 0.0,
            1 => {
                let p = rng.random_range(0.0..0.3);
                link.loss = Loss::Bernoulli(probability(p));
                p
            }
            2 => {
                let p = 10_f64.powf(rng.random_range(-4.0..-1.5));
                link.loss = Loss::Bernoulli(probability(p));
                p
            }
            _ => {
                let bad = rng.random_range(1.0..20.0);
                let mean = rng.random_range(0.0..0.3);
                let r = 1.0 / bad;
                let p = mean * r / (1.0 - mean);
                let model = GilbertElliott::all_or_nothing(probability(p), probability(r));
                link.loss = Loss::GilbertElliott(model);
                // Bursts are counted in packets: at one packet each RTO, a burst outlasts many
                // timeouts.
                if bad > 1.5 { mean.max(0.1) } else { mean }
            }
        }
    }

    /// Draws a time, usually before the end.
    fn middle(&self, rng: &mut SmallRng) -> Duration {
        let ideal = self.rtt * 5 + Duration::from_secs_f64(self.bytes as f64 * 8.0 / self.rate as f64);
        ideal.mul_f64(rng.random_range(0.0..1.2))
    }

    fn black_out(&mut self, rng: &mut SmallRng) {
        let from = self.middle(rng);
        let long = rng.random_bool(0.15);
        let length = if long { rng.random_range(20.0..90.0) } else { rng.random_range(0.01..8.0) };
        let outage = Outage::once(from, from + Duration::from_secs_f64(length));
        let both = rng.random_range(0..3);
        if both != 1 {
            self.path.forward.outage = outage.clone();
        }
        if both != 0 {
            self.path.reverse.outage = outage;
        }
        self.dead += Duration::from_secs_f64(length);
        // The RTO backs off meanwhile: after a longer outage, a few more losses exceed the idle
        // timeout.
        self.must_finish &= length < 1.0;
    }

    /// Draws a small window with an odd size, and sometimes a small memory limit.
    fn small_window(&mut self, rng: &mut SmallRng) {
        let border = [0, 1, MSS - 1, rng.random_range(0..MSS)][rng.random_range(0..4)];
        let window = MSS * rng.random_range(1..24) + border;
        self.window = WindowConfig { initial: window, max: window, mss: MSS };
        if rng.random_bool(0.2) {
            self.memory = 192 << 10;
        }
    }

    /// Returns the plan of the responder's stream of `bytes` bytes.
    pub(super) fn answer(&self, bytes: u64) -> Self {
        let PathConfig { forward, reverse } = self.path.clone();
        let path = PathConfig { forward: reverse, reverse: forward };
        let (rate, loss) = (
            path.forward.rate.map_or(self.rate, |rate| rate.as_bps_f64() as u64),
            (self.loss.1, self.loss.0),
        );
        Self { bytes, rate, path, loss, ..self.clone() }
    }
}

fn sender(rng: &mut SmallRng, seed: u64) -> SenderConfig {
    let mut config = SenderConfig::native(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    config.congestion = match rng.random_range(0..6) {
        0 => Algorithm::Fixed(rng.random_range(1..64)),
        1 => Algorithm::Reno,
        2 | 3 => Algorithm::Cubic,
        _ => Algorithm::Bbr,
    };
    config.recovery = match rng.random_range(0..8) {
        0 => LossDetection::BaseOnly,
        // By the seed and not by a draw, so that the regression seeds keep their plans.
        1 | 2 => match seed % 5 {
            1 => LossDetection::Reno,
            2 => LossDetection::Tahoe,
            _ => LossDetection::NewReno,
        },
        3 | 4 => LossDetection::Sack,
        _ => LossDetection::Rack,
    };
    config.pacing = rng.random_bool(0.7);
    config
}

fn disorder(rng: &mut SmallRng, link: &mut LinkConfig, rtt: Duration) {
    let rare = |rng: &mut SmallRng| probability(10_f64.powf(rng.random_range(-4.0..-1.0)));
    if rng.random_bool(0.25) {
        let jitter = Jitter::uniform(rtt.mul_f64(rng.random_range(0.0..0.7)));
        link.jitter = Some(if rng.random_bool(0.5) { jitter.unordered() } else { jitter });
    }
    if rng.random_bool(0.2) {
        let extra = rtt.mul_f64(rng.random_range(0.01..1.5));
        *link = link.clone().reorder(rare(rng), extra);
    }
    if rng.random_bool(0.2) {
        link.duplicate = rare(rng);
    }
    if rng.random_bool(0.2) {
        link.corrupt = rare(rng);
    }
}

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}
