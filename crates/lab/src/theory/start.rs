//! Time of a transfer that ends in or soon after slow start.

use super::{Conditions, Prediction};

/// Returns the time of a transfer of `packets` packets without loss, seconds: the handshake, rounds
/// of slow start from `initial_window` packets on, each larger by the factor `growth`, until a
/// round fills the path, and the rest at the link's rate, a packet in `packet_s` seconds (Cardwell
/// et al., 2000).
fn slow_start_s(packets: f64, initial_window: f64, growth: f64, rtt_s: f64, packet_s: f64) -> f64 {
    let handshake = rtt_s;
    let (mut left, mut window, mut time) = (packets, initial_window, handshake);
    while left > window && window * packet_s < rtt_s {
        left -= window;
        window *= growth;
        time += rtt_s;
    }
    // The last bytes need half a round trip to arrive and half for the acknowledgement.
    time + left * packet_s + rtt_s
}

pub(super) fn slow_start(it: &Conditions) -> Option<Prediction> {
    let packet_s = it.rate_bps.map_or(0.0, |bps| it.on_link * 8.0 / bps);
    let value = slow_start_s((it.bytes? / it.payload).ceil(), it.initial_window, 2.0, it.rtt_s, packet_s);
    let window_fits =
        it.window.is_none_or(|bytes| bytes * 8.0 >= it.rate_bps.unwrap_or(f64::INFINITY) * it.rtt_s);
    Some(Prediction::new(value, it.loss == 0.0 && window_fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_transfers_take_whole_round_trips() {
        let time = |packets| slow_start_s(packets, 10.0, 2.0, 0.1, 0.0);
        for (packets, rounds) in [(10.0, 1.0), (11.0, 2.0), (30.0, 2.0), (70.0, 3.0), (150.0, 4.0)] {
            let expected = 0.1 + rounds * 0.1;
            assert!((time(packets) - expected).abs() < 1e-9, "{packets} packets: {}", time(packets));
        }
    }

    #[test]
    fn long_transfers_take_the_time_of_the_link() {
        let time = slow_start_s(1e6, 10.0, 2.0, 0.1, 1e-4);
        assert!((time / 100.0 - 1.0).abs() < 0.01, "{time}");
    }
}
