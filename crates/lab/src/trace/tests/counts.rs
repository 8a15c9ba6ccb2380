//! Counts, round-trip times and windows of a connection.

use super::super::fields::fields;
use super::*;
use crate::report::scale::Unit;

#[test]
fn handshake_gives_options_and_round_trip() {
    let connection = TestTransfer::new().connection();
    let [a, b] = &connection.directions;
    assert_eq!((a.mss, a.scale.bits(), a.sack_permitted, a.timestamps), (Some(1460), Some(0), true, true));
    assert_eq!(a.handshake_ns, Some(50_000_000));
    assert_eq!(b.handshake_ns, Some(0));
    assert_eq!((a.syns, b.syns, a.pure_acks), (1, 1, 1));
}

#[test]
fn late_ack_of_syn_keeps_handshake_round_trip() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(70, 1).ack(80, 0);
    assert_eq!(transfer.connection().directions[0].handshake_ns, Some(50_000_000));
}

#[test]
fn retransmission_gives_no_sample() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).data(61, 1).data(200, 0).ack(250, 1).ack(251, 2);
    let connection = transfer.connection();
    let a = &connection.directions[0];
    assert_eq!((a.unique_bytes, a.retransmitted, a.retransmitted_bytes), (2000, 1, 1000));
    // The second ACK waited for the retransmission.
    assert_eq!((a.sequence.ambiguous.count, a.sequence.after_loss), (1, 1));
    assert_eq!(a.sequence.rtt.count, 1, "of the SYN");
    assert_eq!(a.sequence.retransmission_times.count, 1);
}

#[test]
fn cumulative_ack_samples_last_segment() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).data(70, 1).ack(120, 2);
    let connection = transfer.connection();
    let sequence = &connection.directions[0].sequence;
    assert_eq!((sequence.rtt.count, sequence.cumulative), (2, 1));
    assert!((sequence.rtt.mean() - 0.05).abs() < 1e-9, "{}", sequence.rtt.mean());
}

#[test]
fn late_segment_is_out_of_order() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).data(61, 2).data(62, 1).ack(120, 3);
    let a = &transfer.connection().directions[0];
    assert_eq!((a.out_of_order, a.retransmitted, a.unique_bytes), (1, 0, 3000));
}

#[test]
fn third_duplicate_ack_counts_once() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1).data(120, 1).data(121, 2);
    for at_ms in 171..176 {
        transfer.ack(at_ms, 1);
    }
    let sequence = &transfer.connection().directions[0].sequence;
    assert_eq!((sequence.duplicate_acks, sequence.triple_duplicates), (5, 1));
    // A changed window is no duplicate.
    transfer.ack(180, 1).window(50_000);
    assert_eq!(transfer.connection().directions[0].sequence.duplicate_acks, 5);
}

#[test]
fn sack_and_duplicate_sack_are_told_apart() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).data(61, 1).data(62, 2).data(63, 3);
    transfer.sack(111, 0, &[(1, 2)]).sack(112, 0, &[(1, 2), (3, 4)]);
    transfer.sack(113, 2, &[(0, 1)]).sack(114, 2, &[(3, 4), (3, 4)]);
    let b = &transfer.connection().directions[1];
    assert_eq!((b.sacks, b.most_sack_blocks, b.dsacks), (4, 2, 2));
}

#[test]
fn wrapped_numbers_change_nothing() {
    let counts = |mut transfer: TestTransfer| {
        transfer
            .data(60, 0)
            .data(61, 1)
            .data(62, 2)
            .data(63, 3)
            .sack(112, 1, &[(2, 3)])
            .data(160, 1)
            .ack(210, 4);
        let connection = transfer.connection();
        let a = &connection.directions[0];
        let timeline = timeline(&connection, 0);
        (a.unique_bytes, a.retransmitted, a.sequence.clone().rtt, a.flight.most, timeline)
    };
    let plain = counts(TestTransfer::new());
    for base in [u32::MAX, u32::MAX - 1500, u32::MAX - 2000, u32::MAX - 4000, i32::MAX.cast_unsigned() - 1500]
    {
        assert_eq!(counts(TestTransfer::at(base)), plain, "{base}");
    }
}

#[test]
fn windows_are_scaled_after_handshake() {
    let mut transfer = TestTransfer::new();
    transfer.packets[0].options = vec![3, 3, 2];
    transfer.packets[1].options = vec![3, 3, 3];
    transfer.data(60, 0).ack(110, 1).window(1000);
    transfer.ack(120, 1).window(0);
    let [a, b] = &transfer.connection().directions;
    assert_eq!((b.window.most, b.window.least, b.window.zero), (8000, 8000, 1));
    assert_eq!(a.window.most, 240_000, "60,000 scaled by 2 bits");
}

#[test]
fn keep_alive_is_no_probe() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    transfer.push(5000, 0, 1000, Some(1), 0, 0, Vec::new());
    transfer.ack(5050, 1);
    let a = &transfer.connection().directions[0];
    assert_eq!((a.keep_alives, a.empty_probes), (1, 0));
}

#[test]
fn reused_ports_are_new_connections() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    transfer.push(110, 0, 1001, Some(1), FIN, 0, Vec::new());
    transfer.push(160, 1, 1, Some(1002), FIN, 0, Vec::new());
    transfer.push(160, 0, 1002, Some(2), 0, 0, Vec::new());
    let first = transfer.packets.len();
    transfer.handshake();
    for packet in &mut transfer.packets[first..] {
        (packet.at_ms, packet.seq) = (packet.at_ms + 1000, packet.seq.wrapping_add(700_000));
    }
    let trace = transfer.trace();
    assert_eq!(trace.connections.len(), 2);
    let lines = list(&trace);
    assert!(
        lines.starts_with("  1: 10.0.0.1:40000 - 10.0.0.2:80  0.160 s, 5 packets > 3 packets <"),
        "{lines}"
    );
}

/// Returns the number of connections if this follows a transfer on the same ports.
fn with(change: impl Fn(&mut TestTransfer)) -> usize {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    change(&mut transfer);
    transfer.trace().connections.len()
}

#[test]
fn syn_begins_connection_by_its_number() {
    let other = |it: &mut TestTransfer| it.push(1000, 0, 700_000, None, SYN, 0, syn_options());
    let again = |it: &mut TestTransfer| it.push(1000, 0, 0, None, SYN, 0, syn_options());
    assert_eq!(with(other), 2, "without FIN");
    assert_eq!(with(|it| it.push(1000, 0, 0_u32.wrapping_sub(9), None, SYN, 0, syn_options())), 2, "below");
    assert_eq!(with(again), 1, "a retransmission");
    for flag in [FIN, 4] {
        let closed = |it: &mut TestTransfer| it.push(900, 1, 1, Some(1001), flag, 0, Vec::new());
        assert_eq!(with(|it| (closed(it), again(it)).1), 2, "after FIN or RST");
    }
    // Ten minutes of silence end no connection.
    assert_eq!(with(|it| _ = it.data(600_000, 1)), 1);
}

#[test]
fn reuse_shows_in_capture_without_syn() {
    let mut transfer = TestTransfer::new();
    transfer.push(1000, 1, 700_000, Some(700_001), SYN, 0, syn_options());
    assert_eq!(transfer.trace().connections.len(), 1, "an answer to no SYN of the capture");
    transfer.packets.retain(|it| it.from == 1);
    assert_eq!(transfer.trace().connections.len(), 2, "one direction alone");
}

/// Metrics of captures have no unit beside their names: it follows from the name.
#[test]
fn units_of_figures_follow_from_their_names() {
    for field in fields(&TestTransfer::new().connection()).iter().filter(|it| !it.name.is_empty()) {
        let unit = match field.key().strip_prefix(field.name) {
            Some("_bps") => Unit::Rate,
            Some("_s") => Unit::Time,
            Some("_bytes") => Unit::Bytes,
            _ if field.name.ends_with("-bytes") => Unit::Bytes,
            _ => {
                let unit = Unit::of_metric(field.name);
                assert!(matches!(unit, Unit::None | Unit::Count), "{}: {unit:?}", field.name);
                continue;
            }
        };
        assert_eq!(Unit::of_metric(&format!("a.trace.peer.{}", field.name)), unit, "{}", field.name);
    }
}
