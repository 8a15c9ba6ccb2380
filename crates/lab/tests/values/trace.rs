//! Captures whose counts, times and limits are known by hand.

use std::io::Cursor;
use std::time::Duration;

use rdt_lab::trace::{Limit, analyse, metrics, timeline};

use crate::capture::{
    ACK, BASE, Capture, ETHERNET, FIN, PSH, RAW, RST, SYN, figure, figures, only, pcap, pcap_with, read,
};
use crate::support::near;

/// Ten segments at 50 to 59 ms. The path loses segment 3: six duplicate ACKs arrive, and after the
/// third, at 96 ms, the sender repeats it. Every round trip takes 40 ms.
fn fast_retransmission() -> Capture {
    let mut capture = Capture::new();
    (0..10_u32).for_each(|n| capture.data(50 + u64::from(n), n));
    (1..=3_u32).for_each(|n| capture.ack(89 + u64::from(n), n));
    for at_ms in 94..100 {
        capture.ack(at_ms, 3);
        if at_ms == 96 {
            capture.data(96, 3);
        }
    }
    capture.ack(136, 10);
    capture.close(140, 10_000);
    capture
}

#[test]
fn fast_retransmission_has_counts_by_hand() {
    let connection = fast_retransmission().connection();
    figures(
        &connection,
        0,
        &[
            ("packets", 15.0),
            ("acks", 14.0),
            ("pure-acks", 2.0),
            ("unique-bytes", 10_000.0),
            ("data-packets", 11.0),
            ("data-bytes", 11_000.0),
            ("retransmitted", 1.0),
            ("retransmitted-bytes", 1_000.0),
            ("out-of-order", 0.0),
            ("pushed", 11.0),
            ("segment-max", 1_000.0),
            ("segment-mean", 1_000.0),
            ("mss", 1_460.0),
            ("stream-bytes", 10_000.0),
            ("missed-bytes", 0.0),
            ("initial-window-bytes", 10_000.0),
            ("initial-window-packets", 10.0),
            ("duplicate-acks", 6.0),
            ("triple-duplicate-acks", 1.0),
            ("retransmissions-max", 1.0),
            ("acked-cumulatively", 6.0),
            ("acks-after-loss", 1.0),
            ("acks-ambiguous", 0.0),
            // As in tcptrace, a sample is one byte more than was in flight.
            ("in-flight-max", 10_001.0),
        ],
    );
    figures(&connection, 1, &[("packets", 12.0), ("acks", 12.0), ("pure-acks", 10.0), ("data-packets", 0.0)]);
}

#[test]
fn fast_retransmission_has_times_by_hand() {
    let connection = fast_retransmission().connection();
    figures(
        &connection,
        0,
        &[
            // SYN, three segments and FIN; later segments waited for the lost one.
            ("rtt-samples", 5.0),
            ("rtt-min", 0.040),
            ("rtt-max", 0.040),
            ("rtt-mean", 0.040),
            ("rtt-deviation", 0.0),
            ("rtt-handshake", 0.040),
            ("rtt-full-samples", 3.0),
            ("retransmission-time-min", 0.043),
            ("retransmission-time-max", 0.043),
            ("data-time", 0.046),
            ("idle-max", 0.044),
            ("throughput", 10_000.0 * 8.0 / 0.18),
            ("goodput", 10_000.0 * 8.0 / 0.046),
            ("data-rate", 11_000.0 * 8.0 / 0.18),
        ],
    );
}

/// A segment at 100 ms, and again after 1, 2 and 4 s, each time without an answer but the last.
#[test]
fn backed_off_timeouts_have_times_by_hand() {
    let mut capture = Capture::new();
    for at_ms in [100, 1_100, 3_100, 7_100] {
        capture.data(at_ms, 0);
    }
    capture.ack(7_140, 1);
    let connection = capture.connection();
    figures(
        &connection,
        0,
        &[
            ("retransmitted", 3.0),
            ("retransmitted-bytes", 3_000.0),
            ("unique-bytes", 1_000.0),
            ("retransmissions-max", 3.0),
            ("retransmission-time-min", 1.0),
            ("retransmission-time-max", 4.0),
            ("retransmission-time-mean", 7.0 / 3.0),
            // Sample deviation of 1, 2 and 4.
            ("retransmission-time-deviation", (7.0_f64 / 3.0).sqrt()),
            ("acks-ambiguous", 1.0),
            ("rtt-ambiguous-mean", 0.040),
            ("rtt-samples", 1.0),
        ],
    );
    let timeline = timeline(&connection, 0);
    for (limit, seconds) in [(Limit::Start, 0.040), (Limit::Application, 0.060), (Limit::Recovery, 7.040)] {
        near(timeline.time(limit), seconds, 1e-9);
        near(timeline.share(limit), seconds / 7.140, 1e-9);
    }
    let stalls: Vec<_> = timeline.stalls.iter().map(|it| (it.cause, it.is_certain)).collect();
    assert_eq!(stalls, [(Limit::Recovery, true); 3]);
    for (stall, (begin_s, length_s)) in timeline.stalls.iter().zip([(0.1, 1.0), (1.1, 2.0), (3.1, 4.0)]) {
        near(stall.begin_s, begin_s, 1e-9);
        near(stall.length_s, length_s, 1e-9);
    }
    // 1,000 bytes in flight for 7.04 of 7.14 s.
    near(timeline.outstanding(), 1000.0 * 7.040 / 7.140, 1e-9);
}

#[test]
fn overlapping_segments_repeat_only_their_overlap() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    // Bytes 501 to 1,500: half of them are new.
    capture.add(60, 0, 501, 1, ACK, 1000);
    // Bytes 1 to 3,000: half of them are new, after all that was sent.
    capture.add(70, 0, 1, 1, ACK, 3000);
    capture.ack(110, 3);
    let connection = capture.connection();
    figures(
        &connection,
        0,
        &[
            ("unique-bytes", 3_000.0),
            ("data-bytes", 5_000.0),
            ("retransmitted", 2.0),
            ("retransmitted-bytes", 2_000.0),
            ("out-of-order", 0.0),
        ],
    );
}

#[test]
fn reordering_is_no_retransmission() {
    for (order, out_of_order) in [
        (&[0, 1, 2, 3][..], 0.0),
        (&[0, 2, 1, 3], 1.0),
        (&[0, 3, 2, 1], 2.0),
        (&[1, 0, 3, 2], 2.0),
        (&[3, 0, 1, 2], 3.0),
    ] {
        let mut capture = Capture::new();
        order.iter().zip(50..).for_each(|(n, at_ms)| capture.data(at_ms, *n));
        capture.ack(100, 4);
        let connection = capture.connection();
        let expected = [("out-of-order", out_of_order), ("retransmitted", 0.0), ("unique-bytes", 4_000.0)];
        figures(&connection, 0, &expected);
    }
}

/// RFC 5681: the third duplicate begins fast retransmission. A longer run of them is one.
#[test]
fn third_duplicate_is_counted_once() {
    for (duplicates, triple) in [(0_u32, 0.0), (1, 0.0), (2, 0.0), (3, 1.0), (4, 1.0), (9, 1.0)] {
        let mut capture = Capture::new();
        (0..3_u32).for_each(|n| capture.data(50 + u64::from(n), n));
        capture.ack(90, 1);
        (0..duplicates).for_each(|n| capture.ack(91 + u64::from(n), 1));
        let connection = capture.connection();
        figures(&connection, 0, &[("triple-duplicate-acks", triple)]);
        near(figure(&connection, 0, "duplicate-acks"), f64::from(duplicates), 1e-12);
    }
}

/// RFC 7323: the window is shifted left if both SYN have the option, but never in a SYN; above 14
/// it is 14.
#[test]
fn windows_are_scaled_if_both_ends_agree() {
    let scale = |bits| [3, 3, bits];
    for (mine, peers, shift) in [
        (&scale(2)[..], &scale(7)[..], 7),
        (&scale(7), &[], 0),
        (&[], &scale(7), 0),
        (&scale(0), &scale(0), 0),
        (&scale(3), &scale(15), 14),
    ] {
        let mut capture = Capture::with_options(mine, peers);
        capture.packets[1].window = 50_000;
        capture.data(50, 0);
        for (at_ms, window) in [(90, 100), (91, 300), (92, 200)] {
            capture.ack(at_ms, 1);
            capture.last().window = window;
        }
        let connection = capture.connection();
        let most = if mine.is_empty() || peers.is_empty() { 50_000.0 } else { 300.0 * f64::from(1 << shift) };
        figures(&connection, 1, &[("window-max", most), ("window-min", 100.0 * f64::from(1 << shift))]);
    }
}

#[test]
fn closed_windows_are_counted_and_bind() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    capture.ack(90, 1);
    capture.last().window = 0;
    // The window opens 2 s later.
    capture.ack(2_090, 1);
    capture.data(2_100, 1);
    capture.ack(2_140, 2);
    let connection = capture.connection();
    figures(&connection, 1, &[("zero-windows", 1.0), ("window-max", 60_000.0), ("window-min", 60_000.0)]);
    // The larger window is an update, no duplicate ACK.
    figures(&connection, 0, &[("duplicate-acks", 0.0), ("idle-max", 2.050)]);
    let timeline = timeline(&connection, 0);
    near(timeline.time(Limit::Window), 2.0, 1e-9);
    let [stall] = &timeline.stalls[..] else { panic!("one stall: {:?}", timeline.stalls) };
    assert_eq!((stall.cause, stall.is_certain, stall.probes), (Limit::Window, true, 0));
    near(stall.length_s, 2.050, 1e-9);
}

/// Sequence numbers that pass 2^32 change no figure, wherever they do.
#[test]
fn wrapped_sequence_numbers_change_no_figure() {
    let plain = metrics(&fast_retransmission().connection());
    for first in [0, 1, 500, 1_000, 3_001, 5_500, 9_999, 10_000, 10_001, 10_002] {
        let mut capture = fast_retransmission();
        capture.base = 0_u32.wrapping_sub(first);
        assert_eq!(metrics(&capture.connection()), plain, "wraps at {first}");
    }
    let mut capture = fast_retransmission();
    capture.base = (1 << 31) - 5_000;
    assert_eq!(metrics(&capture.connection()), plain, "passes 2^31");
}

/// Segments a GiB apart, as a capture that misses most of a long transfer has them: the stream has
/// 5 GiB.
#[test]
fn streams_may_be_longer_than_sequence_space() {
    for base in [BASE, u32::MAX - 5, 0] {
        let mut capture = Capture { base, ..Capture::new() };
        for n in 0..5_u32 {
            let at_ms = 50 + u64::from(n);
            capture.add(at_ms, 0, 1_u32.wrapping_add(n << 30), 1, ACK, 1000);
            capture.add(at_ms, 1, 1, 1001_u32.wrapping_add(n << 30), ACK, 0);
        }
        // 5 GiB are 1 GiB modulo 2^32.
        let end = 1 + (1 << 30);
        capture.add(60, 0, end, 1, FIN | ACK, 0);
        let gib = 1_073_741_824.0;
        let expected =
            [("stream-bytes", 5.0 * gib), ("missed-bytes", 5.0 * gib - 5_000.0), ("unique-bytes", 5_000.0)];
        figures(&capture.connection(), 0, &expected);
    }
}

/// Ethernet pads frames to 60 bytes; a segment without data has 40 of IP. Padding is no data.
#[test]
fn padding_of_ethernet_is_no_data() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    capture.ack(90, 1);
    let frame = |(at_us, packet): &(u64, Vec<u8>)| {
        let mut frame = [vec![0; 12], vec![8, 0], packet.clone()].concat();
        frame.resize(frame.len().max(60), 0);
        (*at_us, frame)
    };
    let frames: Vec<_> = capture.ip().iter().map(frame).collect();
    let connection = only(pcap(ETHERNET, &frames));
    figures(
        &connection,
        0,
        &[("data-packets", 1.0), ("data-bytes", 1_000.0), ("frame-bytes", 60.0 + 60.0 + 1054.0)],
    );
    figures(&connection, 1, &[("data-packets", 0.0), ("pure-acks", 1.0)]);
}

#[test]
fn ip_options_are_no_data() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    capture.ack(90, 1);
    let packets: Vec<_> =
        capture.packets.iter().map(|it| (it.at_us, it.ipv4(BASE, &[1, 1, 1, 0, 7, 3, 4, 0]))).collect();
    let connection = only(pcap(RAW, &packets));
    figures(&connection, 0, &[("data-bytes", 1_000.0), ("packets", 3.0)]);
}

/// With segmentation offload the length in the header of IPv4 may be 0: then the frame tells it.
#[test]
fn offloaded_packets_have_the_length_of_their_frame() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    let mut packets = capture.ip();
    packets[3].1[2..4].fill(0);
    figures(&only(pcap(RAW, &packets)), 0, &[("data-bytes", 1_000.0), ("segment-max", 1_000.0)]);
}

#[test]
fn times_do_not_depend_on_the_format() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    capture.ack(93, 1);
    let packets = capture.ip();
    let plain = metrics(&only(pcap(RAW, &packets)));
    near(figure(&only(pcap(RAW, &packets)), 0, "rtt-max"), 0.043, 1e-9);
    for (magic, units, bytes) in [
        (0xA1B2_C3D4, 1, u32::to_be_bytes as fn(u32) -> [u8; 4]),
        (0xA1B2_3C4D, 1_000, u32::to_le_bytes),
        (0xA1B2_3C4D, 1_000, u32::to_be_bytes),
    ] {
        assert_eq!(metrics(&only(pcap_with(magic, units, bytes, RAW, &packets))), plain, "{magic:x}");
    }
    // pcapng: microseconds without the option, else powers of ten, or of two with the highest bit.
    for (resolution, units) in
        [(None, 1_000_000), (Some(6), 1_000_000), (Some(9), 1_000_000_000), (Some(0x94), 1 << 20)]
    {
        let connection = only(pcapng(resolution, units, &packets));
        near(figure(&connection, 0, "rtt-max"), 0.043, 1e-4);
        near(figure(&connection, 0, "rtt-handshake"), 0.040, 1e-4);
    }
}

/// Returns a pcapng file with one interface, whose times have this many units in a second.
fn pcapng(resolution: Option<u8>, units: u64, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, mut body: Vec<u8>| {
        body.resize(body.len().next_multiple_of(4), 0);
        let length = u32::try_from(12 + body.len()).expect("a length").to_le_bytes();
        [kind.to_le_bytes().to_vec(), length.to_vec(), body, length.to_vec()].concat()
    };
    let mut section = 0x1A2B_3C4D_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    let mut interface = vec![101, 0, 0, 0, 0, 0, 0, 0];
    interface.extend(resolution.into_iter().flat_map(|it| [9, 0, 1, 0, it, 0, 0, 0, 0, 0, 0, 0]));
    let mut out = block(0x0A0D_0D0A, section);
    out.extend(block(1, interface));
    for (at_us, packet) in packets {
        let at =
            u64::try_from(u128::from(at_us + 1_000_000) * u128::from(units) / 1_000_000).expect("a time");
        let length = u32::try_from(packet.len()).expect("a length");
        let [high, low] = [at >> 32, at & 0xFFFF_FFFF].map(|it| u32::try_from(it).expect("half of it"));
        let words = [0, high, low, length, length].map(u32::to_le_bytes).concat();
        out.extend(block(6, [words, packet.clone()].concat()));
    }
    out
}

/// Packets cut after `snap` bytes: figures come from the headers, and bytes that are missing are
/// counted.
#[test]
fn cut_packets_keep_their_figures() {
    let capture = fast_retransmission();
    let whole = metrics(&capture.connection());
    let mut bytes = pcap(RAW, &[]);
    for (at_us, packet) in capture.ip() {
        let length = u32::try_from(packet.len()).expect("a length");
        let kept = packet.len().min(60);
        let words = [
            1_000,
            u32::try_from(at_us).expect("below a second"),
            u32::try_from(kept).expect("small"),
            length,
        ];
        bytes.extend(words.map(u32::to_le_bytes).concat());
        bytes.extend(&packet[..kept]);
    }
    let connection = only(bytes);
    for ((name, ours), (_, theirs)) in metrics(&connection).iter().zip(&whole) {
        if !name.contains("truncated") {
            assert!((ours - theirs).abs() < 1e-12, "{name}: {ours} for {theirs}");
        }
    }
    // Of each packet of 1,040 bytes 60 are there.
    figures(&connection, 0, &[("truncated", 11.0), ("truncated-bytes", 11.0 * 980.0)]);
}

#[test]
fn other_packets_are_counted_apart() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    let mut packets = capture.ip();
    let udp = {
        let mut packet = packets[0].1.clone();
        packet[9] = 17;
        packet
    };
    // The second fragment of a packet has an offset, the first the flag for more.
    let [mut first, mut second] = [packets[3].1.clone(), packets[3].1.clone()];
    first[6] = 0x20;
    (second[6], second[7]) = (0, 125);
    packets.extend([(60_000, udp), (61_000, first), (62_000, second), (63_000, vec![0xFF; 40])]);
    let trace = read(pcap(RAW, &packets));
    assert_eq!((trace.others(), trace.fragments, trace.short, trace.extent.packets), (2, 2, 0, 8));
    figures(&trace.connections[0], 0, &[("packets", 3.0), ("data-bytes", 1_000.0)]);
}

/// A copy by the network has the same identification; a retransmission has its own.
#[test]
fn copies_by_the_network_have_equal_identifications() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    let copy = capture.packets[3].clone();
    capture.packets.push(copy);
    capture.data(300, 0);
    let connection = capture.connection();
    figures(&connection, 0, &[("network-copies", 1.0), ("data-packets", 3.0), ("unique-bytes", 1_000.0)]);
}

#[test]
fn resets_end_a_connection() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    capture.add(90, 1, 1, 1001, RST | ACK, 0);
    let connection = capture.connection();
    figures(&connection, 1, &[("resets", 1.0), ("packets", 2.0)]);
    figures(&connection, 0, &[("resets", 0.0), ("idle-max", 0.040)]);
}

/// A new SYN with another number after both ends closed is a second connection of the same ports.
#[test]
fn reused_ports_begin_a_new_connection() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    capture.ack(90, 1);
    capture.close(100, 1_000);
    capture.add(5_000, 0, 900_000, 0, SYN, 0);
    capture.add(5_040, 1, 700_000, 900_001, SYN | ACK, 0);
    capture.add(5_040, 0, 900_001, 700_001, ACK | PSH, 500);
    let trace = read(pcap(RAW, &capture.ip()));
    let bytes: Vec<f64> = trace.connections.iter().map(|it| figure(it, 0, "unique-bytes")).collect();
    assert_eq!(bytes, [1_000.0, 500.0]);
    // A repeated SYN of the same number is the same connection.
    let mut repeated = Capture::new();
    repeated.packets.insert(1, repeated.packets[0].clone());
    repeated.packets[1].at_us = 20_000;
    let connection = repeated.connection();
    figures(&connection, 0, &[("syns", 2.0), ("retransmitted", 1.0), ("unique-bytes", 0.0)]);
}

/// As in tshark, a connection lasts over any silence. In tcptrace four minutes end it.
#[test]
fn silence_ends_no_connection() {
    let mut capture = Capture::new();
    capture.data(50, 0);
    capture.data(3_600_050, 1);
    figures(&capture.connection(), 0, &[("unique-bytes", 2_000.0), ("idle-max", 3_600.0)]);
}

#[test]
fn sender_is_the_end_with_more_data() {
    let mut capture = Capture::new();
    capture.add(50, 0, 1, 1, ACK | PSH, 100);
    capture.add(90, 1, 1, 101, ACK | PSH, 1_400);
    capture.add(91, 1, 1_401, 101, ACK | PSH, 1_400);
    capture.add(92, 0, 101, 2_801, ACK, 0);
    let connection = capture.connection();
    assert_eq!(connection.sender(), 1);
    let metrics = metrics(&connection);
    let of = |name: &str| metrics.iter().find(|(it, _)| it == name).expect("a metric").1;
    near(of("unique-bytes"), 2_800.0, 1e-12);
    near(of("peer.unique-bytes"), 100.0, 1e-12);
    near(of("peer.pure-acks"), 2.0, 1e-12);
}

/// Shares of the limits are a partition of the time, for each end of every capture above.
#[test]
fn limits_share_the_whole_time() {
    let mut closed = Capture::new();
    closed.data(50, 0);
    closed.ack(90, 1);
    closed.last().window = 0;
    closed.ack(900, 1);
    closed.close(950, 1_000);
    for capture in [Capture::new(), fast_retransmission(), closed] {
        let connection = capture.connection();
        let whole = Duration::from_nanos(connection.last_ns - connection.first_ns).as_secs_f64();
        for end in [0, 1] {
            let timeline = timeline(&connection, end);
            near(Limit::ALL.iter().map(|limit| timeline.time(*limit)).sum(), whole, 1e-9);
        }
    }
}

/// Each file is cut at every byte: the packets before the cut are there, and no cut is an error.
#[test]
fn cut_files_keep_all_packets_before_the_cut() {
    let packets = fast_retransmission().ip();
    let whole = pcap(RAW, &packets);
    let mut ends = vec![24];
    for (_, packet) in &packets {
        ends.push(ends[ends.len() - 1] + 16 + packet.len());
    }
    for cut in (24..=whole.len()).step_by(7).chain(ends.iter().copied()) {
        let trace = analyse(Cursor::new(whole[..cut].to_vec()), None).expect("a capture");
        let complete = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!(trace.extent.packets, complete as u64, "cut after {cut} bytes");
        assert_eq!(trace.extent.torn.is_none(), ends.contains(&cut), "cut after {cut} bytes");
    }
}
