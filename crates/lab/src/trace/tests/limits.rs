//! Stalls, and the limit that binds at each time.

use super::*;

#[test]
fn zero_window_makes_a_stall_with_probes() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1).window(0);
    // Probes without data name the byte before the next; their answers repeat the window.
    for at_ms in [310, 710] {
        transfer.push(at_ms, 0, 1000, Some(1), 0, 0, Vec::new());
        transfer.ack(at_ms + 50, 1).window(0);
    }
    // A probe with a byte of data.
    transfer.push(1510, 0, 1001, Some(1), 0, 1, Vec::new());
    transfer.ack(1560, 1);
    transfer.data(1560, 1).ack(1610, 2);
    let connection = transfer.connection();
    let [a, b] = &connection.directions;
    assert_eq!((b.window.zero, a.empty_probes, a.probes, a.probe_bytes), (3, 2, 1, 1));
    assert_eq!((a.retransmitted, a.keep_alives), (0, 0));
    let timeline = timeline(&connection, 0);
    assert_eq!(timeline.stalls.len(), 1, "{:?}", timeline.stalls);
    let stall = &timeline.stalls[0];
    assert_eq!((stall.cause, stall.probes, stall.is_certain), (Limit::Window, 3, true));
    assert!((stall.length_s - 1.5).abs() < 1e-9, "{stall:?}");
}

/// Ten segments each second, acknowledged after 50 ms.
#[test]
fn application_limits_between_bursts() {
    let mut transfer = TestTransfer::new();
    for second in 1..10 {
        (0..10).for_each(|n| {
            transfer.data(second * 1000, u32::try_from(second).expect("few") * 10 + n - 10);
        });
        transfer.ack(second * 1000 + 50, u32::try_from(second).expect("few") * 10);
    }
    let connection = transfer.connection();
    let paused = timeline(&connection, 0);
    assert!(paused.share(Limit::Application) > 0.9, "{paused:?}");
    let sum: f64 = Limit::ALL.iter().map(|limit| paused.share(*limit)).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert!(paused.stalls.iter().all(|stall| stall.cause == Limit::Application && stall.is_certain));
}

/// Ten segments each round trip, which fill the window.
#[test]
fn window_limits_if_it_is_filled() {
    let mut transfer = TestTransfer::new();
    transfer.packets[1].window = 10_000;
    for trip in 0..20 {
        (0..10).for_each(|n| {
            transfer.data(50 + u64::from(trip) * 50, trip * 10 + n);
        });
        transfer.ack(100 + u64::from(trip) * 50, trip * 10 + 10).window(10_000);
    }
    let closed = timeline(&transfer.connection(), 0);
    assert!(closed.share(Limit::Window) > 0.9, "{closed:?}");
    assert_eq!(closed.window, 10_000);
}

/// With offload a packet of the capture has many segments. 40,000 bytes leave room for 13 segments
/// in a window of 60,000.
#[test]
fn window_does_not_limit_while_segments_fit() {
    let mut transfer = TestTransfer::new();
    for trip in 0..20 {
        let (at_ms, seq) = (60 + u64::from(trip) * 50, 1 + trip * 40_000);
        transfer.push(at_ms, 0, seq, Some(1), PSH, 40_000, Vec::new());
        transfer.push(at_ms + 50, 1, 1, Some(seq + 40_000), 0, 0, Vec::new());
    }
    let timeline = timeline(&transfer.connection(), 0);
    assert!(timeline.share(Limit::Congestion) > 0.9, "{timeline:?}");
}

#[test]
fn timeout_is_recovery() {
    let mut transfer = TestTransfer::new();
    (0..4).for_each(|n| {
        transfer.data(60, n);
    });
    transfer.data(1060, 0).ack(1110, 4).data(1110, 4).ack(1160, 5);
    let timeline = timeline(&transfer.connection(), 0);
    assert!(timeline.share(Limit::Recovery) > 0.9, "{timeline:?}");
    assert_eq!(timeline.stalls.first().map(|stall| stall.cause), Some(Limit::Recovery));
}

/// Fills a window of 10,000 bytes, as the header has it.
fn filled(skipped: usize) -> Timeline {
    let mut transfer = TestTransfer::new();
    transfer.packets[1].window = 10_000;
    for trip in 0..20 {
        (0..10).for_each(|n| {
            transfer.data(50 + u64::from(trip) * 50, trip * 10 + n);
        });
        transfer.ack(100 + u64::from(trip) * 50, trip * 10 + 10).window(10_000);
    }
    transfer.packets.drain(..skipped);
    let connection = transfer.connection();
    timeline(&connection, connection.sender())
}

#[test]
fn window_of_unknown_scale_is_no_limit() {
    assert!(filled(0).share(Limit::Window) > 0.9);
    assert!(filled(1).share(Limit::Window) > 0.9, "the SYN-ACK alone says the scale");
    let unknown = filled(2);
    assert_eq!((unknown.share(Limit::Window), unknown.unknown_scale), (0.0, Some(0)));
    let sentence = "a: the capture lacks the handshake with the window scale of its peer, so only \
                    windows of 0 count as a limit";
    assert!(unknown.sentences("a").iter().any(|it| it == sentence), "{:?}", unknown.sentences("a"));
}

#[test]
fn flight_above_window_proves_scale() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    (1..41).for_each(|n| {
        transfer.data(110, n);
    });
    transfer.ack(160, 41).ack(161, 41).window(0);
    transfer.data(5000, 41);
    transfer.packets.drain(..2);
    for it in &mut transfer.packets {
        it.window = it.window.min(1000);
    }
    let timeline = timeline(&transfer.connection(), 0);
    assert_eq!(timeline.unknown_scale, Some(6), "40,000 bytes in 1,000");
    assert!(timeline.sentences("a").iter().any(|it| it.contains("(at least 6 bits)")));
    assert!(timeline.share(Limit::Window) > 0.9, "window 0 has no scale: {timeline:?}");
}

/// 44 bytes of each packet have the first option of a SYN, but not its window scale.
#[test]
fn scale_of_cut_options_is_unknown() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    let trace = read_bytes(pcap(RAW, &transfer.ipv4(), 44));
    let [a, b] = &trace.connections[0].directions;
    assert_eq!((a.mss, a.shift(b), b.shift(a)), (Some(1460), None, None));
}

#[test]
fn refused_scale_is_known() {
    let mut transfer = TestTransfer::new();
    transfer.packets[1].options = vec![2, 4, 5, 180];
    transfer.data(60, 0).ack(110, 1);
    let [a, b] = &transfer.connection().directions;
    assert_eq!((a.shift(b), b.shift(a)), (Some(0), Some(0)));
}
