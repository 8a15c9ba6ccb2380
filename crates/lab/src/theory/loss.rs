//! Limits by random loss.

use super::{Conditions, Prediction};

/// Constants of CUBIC: growth of the window in packets per second cubed, and multiplicative
/// decrease (RFC 9438, section 4.1).
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;

/// Packets for which the window of Reno grows once, b of its formulas. 1, with delayed ACKs too,
/// because rdt and Linux count the bytes that an ACK covers, not ACKs (RFC 3465).
pub const PACKETS_PER_GROWTH: f64 = 1.0;

/// Returns the goodput of Reno, bits per second (Mathis et al., 1997), for packets of `payload`
/// bytes, a window that grows once for `b` packets, and a share `loss` of packets lost.
fn mathis_bps(payload: f64, rtt_s: f64, b: f64, loss: f64) -> f64 {
    payload * 8.0 / rtt_s * (3.0 / (2.0 * b * loss)).sqrt()
}

/// Returns the goodput of Reno, bits per second, with timeouts of at least `rto_s` and a receiver's
/// window of at most `window` packets: formula 32 of Padhye et al., 2000.
pub fn pftk_bps(payload: f64, rtt_s: f64, b: f64, loss: f64, rto_s: f64, window: f64) -> f64 {
    let (p, q) = (loss, 1.0 - loss);
    // Probability that a loss in a window of w packets ends in a timeout.
    let timeout = |w: f64| {
        let others = 1.0 + q.powi(3) * (1.0 - q.powf((w - 3.0).max(0.0)));
        ((1.0 - q.powi(3)) * others / (1.0 - q.powf(w))).min(1.0)
    };
    // Mean length of a sequence of timeouts, in units of the first.
    let backoff =
        1.0 + p + 2.0 * p.powi(2) + 4.0 * p.powi(3) + 8.0 * p.powi(4) + 16.0 * p.powi(5) + 32.0 * p.powi(6);
    let base = (2.0 + b) / (3.0 * b);
    let mean_window = base + (8.0 * q / (3.0 * b * p) + base.powi(2)).sqrt();
    let packets_per_s = if mean_window < window {
        let end = timeout(mean_window);
        (q / p + mean_window + end / q) / (rtt_s * (b / 2.0 * mean_window + 1.0) + end * rto_s * backoff / q)
    } else {
        let end = timeout(window);
        (q / p + window + end / q)
            / (rtt_s * (b / 8.0 * window + q / (p * window) + 2.0) + end * rto_s * backoff / q)
    };
    packets_per_s * payload * 8.0
}

/// Returns the goodput of CUBIC, bits per second: the larger of its own response function (RFC
/// 9438, section 5.1) and that of its Reno-friendly region (section 4.3).
pub fn cubic_bps(payload: f64, rtt_s: f64, loss: f64) -> f64 {
    let own =
        (CUBIC_C * (3.0 + CUBIC_BETA) / (4.0 * (1.0 - CUBIC_BETA))).powf(0.25) * (rtt_s / loss).powf(0.75);
    let alpha = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
    let friendly = (alpha * (1.0 + CUBIC_BETA) / (2.0 * (1.0 - CUBIC_BETA) * loss)).sqrt();
    own.max(friendly) * payload * 8.0 / rtt_s
}

pub(super) fn mathis(it: &Conditions) -> Option<Prediction> {
    limited(it, mathis_bps(it.payload, it.idle_rtt_s(), PACKETS_PER_GROWTH, it.loss), 0.02)
}

pub(super) fn pftk(it: &Conditions) -> Option<Prediction> {
    let window = it.window.map_or(f64::INFINITY, |bytes| (bytes / it.payload).floor());
    let rtt_s = it.idle_rtt_s();
    let rto_s = it.min_rto_s.max(rtt_s);
    limited(it, pftk_bps(it.payload, rtt_s, PACKETS_PER_GROWTH, it.loss, rto_s, window), 0.2)
}

pub(super) fn cubic(it: &Conditions) -> Option<Prediction> {
    limited(it, cubic_bps(it.payload, it.idle_rtt_s(), it.loss), 0.02)
}

/// Limits a prediction to the goodput of a full link. It is valid for a loss up to `most`, and
/// below 0.9 of that goodput.
fn limited(it: &Conditions, bps: f64, most: f64) -> Option<Prediction> {
    if it.loss <= 0.0 || it.idle_rtt_s() <= 0.0 {
        return None;
    }
    let link = it.link_goodput_bps().unwrap_or(f64::INFINITY);
    Some(Prediction { value: bps.min(link), valid: it.loss <= most && bps < 0.9 * link })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(ours: f64, theirs: f64, tolerance: f64) {
        assert!((ours / theirs - 1.0).abs() < tolerance, "{ours} for {theirs}");
    }

    /// Values computed by hand: 2.5 % at 10 ms with 1,448 bytes is 8.97 Mbit/s; 5 % at 50 ms with
    /// 1,460 bytes is 1.28 Mbit/s.
    #[test]
    fn mathis_equals_computed_values() {
        near(mathis_bps(1448.0, 0.010, 1.0, 0.025), 8.973e6, 0.001);
        near(mathis_bps(1460.0, 0.050, 1.0, 0.05), 1.279e6, 0.001);
    }

    #[test]
    fn models_of_reno_agree_for_rare_losses() {
        use super::super::conditions::tests::conditions;
        let it = conditions("rtt = '100ms'\nloss = '0.001%/0'", |flow| {
            (flow.cc, flow.ack) = (Some("reno".to_owned()), Some((2, std::time::Duration::ZERO)));
        });
        let both = [mathis(&it), pftk(&it)].map(|it| it.expect("loss").value);
        near(both[1], both[0], 0.02);
    }

    #[test]
    fn pftk_approaches_mathis_for_rare_losses() {
        let (full, simple) =
            (pftk_bps(1448.0, 0.1, 2.0, 1e-5, 0.2, f64::INFINITY), mathis_bps(1448.0, 0.1, 2.0, 1e-5));
        near(full, simple, 0.02);
        // With hardly a loss a window of 20 packets gives 20 packets a round trip.
        near(pftk_bps(1448.0, 0.1, 2.0, 1e-6, 0.2, 20.0), 20.0 * 1448.0 * 8.0 / 0.1, 0.03);
        assert!(pftk_bps(1448.0, 0.1, 2.0, 0.1, 1.0, 1e9) < 0.6 * mathis_bps(1448.0, 0.1, 2.0, 0.1));
    }

    /// Table 1 of RFC 9438: average windows at a round trip of 100 ms, packets.
    #[test]
    fn cubic_equals_the_tables_of_its_rfc() {
        let packets = |loss: f64, rtt: f64| cubic_bps(1000.0, rtt, loss) * rtt / 8000.0;
        for (loss, average) in [(1e-2, 12.0), (1e-3, 38.0), (1e-4, 187.0), (1e-5, 1054.0), (1e-6, 5926.0)] {
            near(packets(loss, 0.1), average, 0.03);
        }
    }
}
