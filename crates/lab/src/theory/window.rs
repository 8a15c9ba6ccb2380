//! Limits by the window and by the link, and the time of a transfer in slow start.

use super::{Conditions, Prediction};

/// Returns the goodput of a fixed window, bits per second: `packets` whole packets of `payload`
/// bytes a round trip, at most `link_bps`.
fn window_bps(packets: f64, payload: f64, rtt_s: f64, link_bps: Option<f64>) -> f64 {
    let by_window = packets * payload * 8.0 / rtt_s;
    link_bps.map_or(by_window, |link| link.min(by_window))
}

/// Returns the whole packets in a round trip, and whether that is exact. `None`: no window is
/// fixed.
fn packets(it: &Conditions) -> Option<(f64, bool)> {
    let received = it.window.map(|bytes| (bytes / it.payload).floor());
    if let Some(fixed) = it.fixed_window.filter(|fixed| received.is_none_or(|received| *fixed <= received)) {
        return Some((fixed, true));
    }
    let packets = received?;
    // The remainder of the window over packets per ACK waits for the delayed-ACK timer.
    let moving = if packets > it.ack_every { packets - packets % it.ack_every } else { packets };
    Some((moving, packets >= it.ack_every))
}

pub(super) fn window(it: &Conditions) -> Option<Prediction> {
    let (packets, exact) = packets(it)?;
    let value = window_bps(packets, it.payload, it.idle_rtt_s(), it.link_goodput_bps());
    Some(Prediction { value, valid: it.loss == 0.0 && exact })
}

pub(super) fn window_over_rtt(it: &Conditions) -> Option<Prediction> {
    let fixed = it.fixed_window.map(|packets| packets * it.payload);
    let bytes = [fixed, it.window].into_iter().flatten().reduce(f64::min)?;
    let value = window_bps(1.0, bytes, it.rtt_s, None);
    let fits = it.link_goodput_bps().is_none_or(|link| value < link);
    Some(Prediction { value, valid: it.loss == 0.0 && fits }).filter(|_| it.rtt_s > 0.0)
}

pub(super) fn link(it: &Conditions) -> Option<Prediction> {
    let link = it.link_goodput_bps()?;
    // The link is an upper bound, and predicts the goodput only if the window fills it.
    let fills = window(it).is_none_or(|by_window| by_window.value >= link);
    Some(Prediction { value: link, valid: it.loss == 0.0 && fills })
}

pub(super) fn rtt_of_window(it: &Conditions) -> Option<Prediction> {
    let packets = (it.window? / it.payload).floor();
    // The part of the window beyond the bandwidth-delay product waits in the queue.
    let value = (packets * it.on_link * 8.0 / it.rate_bps?).max(it.idle_rtt_s());
    Some(Prediction { value, valid: it.loss == 0.0 })
}

/// Returns the time of a transfer of `packets` packets without loss, seconds: the handshake, rounds
/// of slow start from `initial_window` packets on, each larger by the factor `growth`, until a
/// round fills the path, and the rest at the link's rate, a packet in `packet_s` seconds (Cardwell
/// et al., 2000).
fn slow_start_s(packets: f64, initial_window: f64, growth: f64, rtt_s: f64, packet_s: f64) -> f64 {
    let (mut left, mut window, mut time) = (packets, initial_window, 0.0);
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
    let packets = (it.bytes? / it.payload).ceil();
    // A round trip opens the connection, of TCP and of rdt.
    let value = it.rtt_s + slow_start_s(packets, it.initial_window, 2.0, it.rtt_s, packet_s);
    let window_fits =
        it.window.is_none_or(|bytes| bytes * 8.0 >= it.rate_bps.unwrap_or(f64::INFINITY) * it.rtt_s);
    Some(Prediction { value, valid: it.loss == 0.0 && window_fits })
}

#[cfg(test)]
mod tests {
    use super::super::conditions::tests::conditions;
    use super::*;
    use std::time::Duration;

    /// A published sweep: 34 Mbit/s, 10 ms, windows of 5,000 to 60,000 bytes, an ACK for two.
    #[test]
    fn windows_move_whole_pairs_of_packets() {
        let segments = [(5_000, 2.0), (10_000, 6.0), (16_357, 10.0), (25_000, 16.0), (40_000, 26.0)];
        for (bytes, moved) in segments {
            let it = conditions("rtt = '10ms'\nrate = '34mbit'\nheaders = 28", |flow| {
                flow.window = Some(bytes);
                flow.ack = Some((2, Duration::from_millis(25)));
            });
            let ours = window(&it).expect("a window").value;
            let expected = moved * 1432.0 * 8.0 / it.idle_rtt_s();
            assert!((ours / expected - 1.0).abs() < 1e-9, "window {bytes}: {ours} for {expected}");
            assert!(!link(&it).expect("a rate").valid, "window {bytes} does not fill the link");
        }
    }

    /// The window of 64 packets of 1,432 bytes leaves once in a round trip, which takes 10 ms and
    /// the 12 us in which the link transmits one packet at 1 Gbit/s.
    #[test]
    fn fixed_windows_need_no_window_of_the_receiver() {
        let at = |window| {
            conditions("rtt = '10ms'\nrate = '1gbit'\nheaders = 28", |flow| {
                flow.cc = Some("fixed:64".to_owned());
                flow.window = window;
            })
        };
        let near = |ours: Option<Prediction>, theirs: f64| {
            let ours = ours.expect("a window");
            assert!(ours.valid && (ours.value / theirs - 1.0).abs() < 1e-9, "{ours:?} for {theirs}");
        };
        let bits = 64.0 * 1432.0 * 8.0;
        near(window(&at(None)), bits / 0.010_012);
        near(window_over_rtt(&at(None)), bits / 0.010);
        near(window(&at(Some(10 * 1432))), bits / 6.4 / 0.010_012);
        let slow = conditions("rtt = '10ms'\nrate = '8mbit'\nheaders = 28", |flow| {
            flow.cc = Some("fixed:64".to_owned());
        });
        assert!(!window_over_rtt(&slow).expect("a window").valid, "the link is full");
    }

    #[test]
    fn the_link_limits_large_windows() {
        let it = conditions("rtt = '10ms'\nrate = '34mbit'\nheaders = 28", |flow| flow.window = Some(60_000));
        let ours = window(&it).expect("a window").value;
        assert!((ours / 32.73e6 - 1.0).abs() < 0.01, "{ours}");
        assert!(link(&it).expect("a rate").valid);
        let rtt = rtt_of_window(&it).expect("a window").value;
        assert!((rtt - 41.0 * 1500.0 * 8.0 / 34e6).abs() < 1e-6, "{rtt}");
    }

    #[test]
    fn short_transfers_take_whole_round_trips() {
        let time = |packets| slow_start_s(packets, 10.0, 2.0, 0.1, 0.0);
        for (packets, rounds) in [(10.0, 1.0), (11.0, 2.0), (30.0, 2.0), (70.0, 3.0), (150.0, 4.0)] {
            let expected = rounds * 0.1;
            assert!((time(packets) - expected).abs() < 1e-9, "{packets} packets: {}", time(packets));
        }
    }

    #[test]
    fn long_transfers_take_the_time_of_the_link() {
        let time = slow_start_s(1e6, 10.0, 2.0, 0.1, 1e-4);
        assert!((time / 100.0 - 1.0).abs() < 0.01, "{time}");
    }
}
