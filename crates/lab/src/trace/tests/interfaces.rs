//! One connection on several interfaces.

use super::*;

/// Returns a file with interfaces of these names, whose packets a function places: by number and
/// packet to the interfaces that have it, with delays in milliseconds.
fn placed(names: &[&str], place: impl Fn(usize, &TestPacket) -> Vec<(u32, u64)>) -> Vec<u8> {
    let mut transfer = TestTransfer::new();
    for trip in 0..4 {
        transfer.data(60 + u64::from(trip) * 100, trip).ack(110 + u64::from(trip) * 100, trip + 1);
    }
    let mut packets = Vec::new();
    for (n, it) in transfer.packets.iter().enumerate() {
        for (interface, delay_ms) in place(n, it) {
            packets.push((interface, (it.at_ms + delay_ms) * 1_000_000, it.ipv4(), ""));
        }
    }
    packets.sort_by_key(|(_, at_ns, ..)| *at_ns);
    pcapng(names, &packets)
}

/// Returns interfaces, packets and bytes of the only connection, and the hidden ones.
fn only(bytes: Vec<u8>) -> (Vec<usize>, [u64; 2], u64, u64) {
    let trace = read_bytes(bytes);
    let [connection] = &trace.connections[..] else { panic!("{} connections", trace.connections.len()) };
    let [a, b] = &connection.directions;
    (connection.interfaces.clone(), [a.packets, b.packets], a.data_bytes, trace.hidden)
}

#[test]
fn directions_on_two_interfaces_are_one_connection() {
    for names in [["east", "west"], ["", ""]] {
        let bytes = placed(&names, |_, it| vec![(u32::from(it.from == 1), 0)]);
        assert_eq!(only(bytes), (vec![0, 1], [6, 5], 4000, 0), "{names:?}");
    }
    // Bonded interfaces, and a third one that has nothing of it.
    let bytes = placed(&["a", "b", "c"], |n, _| vec![(u32::from(n % 3 == 0) * 2, 0)]);
    assert_eq!(only(bytes), (vec![2, 0], [6, 5], 4000, 0));
}

#[test]
fn packets_seen_twice_count_once() {
    // One direction on two interfaces, the other on a third.
    let bytes =
        placed(&["a", "b", "c"], |_, it| if it.from == 0 { vec![(0, 0), (1, 1)] } else { vec![(2, 0)] });
    assert_eq!(only(bytes), (vec![0, 1, 2], [6, 5], 4000, 0));
    // One interface has both directions, two others one each.
    let bytes = placed(&["a", "b", "c"], |_, it| vec![(0, 1), (1 + u32::from(it.from == 1), 0)]);
    assert_eq!(only(bytes), (vec![0], [6, 5], 4000, 2));
    // Both directions at both interfaces, 20 ms apart.
    let bytes =
        placed(
            &["near", "far"],
            |_, it| {
                if it.from == 0 { vec![(0, 0), (1, 20)] } else { vec![(1, 0), (0, 20)] }
            },
        );
    assert_eq!(only(bytes), (vec![0], [6, 5], 4000, 1));
}

#[test]
fn connection_that_moves_is_one() {
    let bytes = placed(&["a", "b"], |n, _| vec![(u32::from(n > 8), 0)]);
    assert_eq!(only(bytes), (vec![0, 1], [6, 5], 4000, 0));
}

#[test]
fn reused_ports_on_two_interfaces_are_two_connections() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    let first = transfer.packets.len();
    transfer.handshake();
    transfer.data(60, 0).ack(110, 1);
    for packet in &mut transfer.packets[first..] {
        (packet.at_ms, packet.seq) = (packet.at_ms + 1000, packet.seq.wrapping_add(700_000));
        packet.ack = packet.ack.wrapping_add(700_000);
    }
    let split: Vec<_> = transfer
        .packets
        .iter()
        .map(|it| (u32::from(it.from == 1), it.at_ms * 1_000_000, it.ipv4(), ""))
        .collect();
    let trace = read_bytes(pcapng(&["a", "b"], &split));
    let packets: Vec<_> =
        trace.connections.iter().map(|it| it.directions.clone().map(|it| it.packets)).collect();
    assert_eq!(packets, [[3, 2], [3, 2]]);
    let lines = table(&trace, 1);
    assert!(lines.contains("\tinterfaces:    a, b\n"), "{lines}");
}

#[test]
fn unnamed_interface_has_a_number() {
    let bytes = placed(&["", ""], |_, it| vec![(u32::from(it.from == 1), 0)]);
    let one = analyse(Cursor::new(bytes), Some("1")).expect("a capture");
    assert_eq!((one.connections.len(), one.connections[0].directions[0].packets), (1, 5));
    assert_eq!(one.extent.name(1), "1");
}

/// Views, unions, events and ranges of sequence numbers have limits.
#[test]
fn unacknowledged_segments_are_bounded() {
    let mut sequence = sequence::Sequence::default();
    for n in 0..1000 {
        sequence.sent(n * 20, n * 20 + 10, 0);
    }
    while sequence.ranges() > 10 && sequence.forget() {}
    assert!(sequence.ranges() <= 10);
    assert_eq!(sequence.sent(0, 10, 1).repeated, 10, "what was forgotten was sent");
}
