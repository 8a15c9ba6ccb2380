//! Average windows in closed loop against published models. Ideal link: fixed RTT, no queue,
//! injected losses, at most one congestion event per RTT.

use std::time::{Duration, Instant};

use super::super::{Controller, Cubic, Reno};
use super::*;

const MSS: u64 = 1000;

/// Multiplier that decorrelates consecutive seeds.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Loss model.
trait Losses {
    fn next_is_lost(&mut self) -> bool;
}

/// Independent losses with a probability (Marsaglia's 64-bit xorshift).
struct Random {
    state: u64,
    probability: f64,
}

impl Losses for Random {
    fn next_is_lost(&mut self) -> bool {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are left")]
        let uniform = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        uniform < self.probability
    }
}

/// One packet in this many.
struct Periodic {
    period: u64,
    count: u64,
}

impl Losses for Periodic {
    fn next_is_lost(&mut self) -> bool {
        self.count += 1;
        self.count.is_multiple_of(self.period)
    }
}

/// Returns the time-averaged window, packets, over `rounds` RTTs after a warm-up of a tenth of
/// that.
fn average_window(
    controller: &mut dyn Controller,
    losses: &mut dyn Losses,
    rtt: Duration,
    rounds: u32,
) -> f64 {
    let mut now: Instant = start();
    let mut sum = 0;
    for round in 0..rounds + rounds / 10 {
        let flight = (controller.cwnd() / MSS).max(1);
        let mut lost = 0;
        for _ in 0..flight {
            now += rtt / u32::try_from(flight).unwrap();
            if losses.next_is_lost() {
                lost += MSS;
            } else {
                controller.on_ack(&AckEvent { srtt: rtt, latest_rtt: Some(rtt), ..ack(now, MSS) });
            }
        }
        if round >= rounds / 10 {
            sum += flight;
        }
        if lost > 0 {
            controller.on_congestion(&congestion(now, Cause::Loss, controller.cwnd()));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "an average of some digits")]
    let average = sum as f64 / f64::from(rounds);
    average
}

fn within(got: f64, model: f64, share: f64, what: &str) {
    println!("{what}: {got:.1}, the model says {model:.1}, ratio {:.3}", got / model);
    assert!((got / model - 1.0).abs() <= share, "{what}: {got} instead of {model}");
}

#[test]
fn reno_average_window_matches_square_root_law() {
    for (probability, rounds) in [(1e-2, 60_000), (1e-3, 60_000), (1e-4, 60_000)] {
        for seed in 1..=3 {
            let mut losses = Random { state: SPREAD.wrapping_mul(seed), probability };
            let mut reno = Reno::new(MSS, 10);
            let got = average_window(&mut reno, &mut losses, Duration::from_millis(100), rounds);
            within(got, (1.5 / probability).sqrt(), 0.15, &format!("p = {probability}, seed {seed}"));
        }
    }
}

#[test]
fn cubic_average_window_matches_rfc_formula() {
    // RFC 9438, section 5.1, where CUBIC is above Reno.
    for (rtt, probability, period) in [(0.1, 1e-4, 10_000), (0.1, 1e-5, 100_000), (0.2, 1e-4, 10_000)] {
        let mut cubic = Cubic::new(MSS, 10, false);
        cubic.hystart = None;
        let mut losses = Periodic { period, count: 0 };
        let got = average_window(&mut cubic, &mut losses, Duration::from_secs_f64(rtt), 20_000);
        let (c, beta) = (0.4_f64, 0.7);
        let model = (c * (3.0 + beta) / (4.0 * (1.0 - beta))).powf(0.25) * (rtt / probability).powf(0.75);
        within(got, model, 0.15, &format!("RTT {rtt} s, p = {probability}"));
    }
}

#[test]
fn cubic_matches_reno_on_short_rtt() {
    let rtt = Duration::from_millis(10);
    for seed in 1..=3 {
        let losses = || Random { state: SPREAD.wrapping_mul(seed), probability: 1e-3 };
        let reno = average_window(&mut Reno::new(MSS, 10), &mut losses(), rtt, 60_000);
        let mut cubic = Cubic::new(MSS, 10, false);
        cubic.hystart = None;
        let cubic = average_window(&mut cubic, &mut losses(), rtt, 60_000);
        within(cubic, reno, 0.15, &format!("CUBIC's window against Reno's, seed {seed}"));
    }
}
