//! Small made-up captures, one for each rule.

use std::io::Cursor;

use super::capture::Torn;
use super::*;

const SYN: u8 = 2;
const FIN: u8 = 1;
const ACK: u8 = 16;
const PSH: u8 = 8;
/// Length of the data of a full segment.
const FULL: usize = 1000;

/// One packet of a capture.
#[derive(Clone)]
struct Made {
    at_ms: u64,
    from: usize,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    data: usize,
    options: Vec<u8>,
    id: u16,
}

impl Made {
    fn tcp(&self) -> Vec<u8> {
        let (source, target): (u16, u16) = if self.from == 0 { (40_000, 80) } else { (80, 40_000) };
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 1);
        let mut out = Vec::new();
        out.extend(source.to_be_bytes());
        out.extend(target.to_be_bytes());
        out.extend(self.seq.to_be_bytes());
        out.extend(self.ack.to_be_bytes());
        out.push(u8::try_from((20 + options.len()) / 4).expect("a header") << 4);
        out.push(self.flags);
        out.extend(self.window.to_be_bytes());
        out.extend([0; 4]);
        out.extend(options);
        out.resize(out.len() + self.data, 0x78);
        out
    }

    fn ipv4(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let length = u16::try_from(20 + tcp.len()).expect("a short packet").to_be_bytes();
        let id = self.id.to_be_bytes();
        let mut out = vec![0x45, 0, length[0], length[1], id[0], id[1], 0x40, 0, 64, 6, 0, 0];
        let ends = if self.from == 0 { [1, 2] } else { [2, 1] };
        for end in ends {
            out.extend([10, 0, 0, end]);
        }
        out.extend(tcp);
        out
    }

    fn ipv6(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let length = u16::try_from(tcp.len()).expect("a short packet").to_be_bytes();
        let mut out = vec![0x60, 0, 0, 0, length[0], length[1], 6, 64];
        let ends = if self.from == 0 { [1, 2] } else { [2, 1] };
        for end in ends {
            out.extend([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        }
        out.extend(tcp);
        out
    }
}

/// Transfer from end 0 to end 1 with relative sequence numbers. Both SYN are numbers 0.
struct Story {
    packets: Vec<Made>,
    base: u32,
}

impl Story {
    /// Begins with a handshake at 0, 50 and 50 ms.
    fn new() -> Self {
        Self::at(1_000_000)
    }

    fn at(base: u32) -> Self {
        let mut story = Self { packets: Vec::new(), base };
        story.handshake();
        story
    }

    fn handshake(&mut self) {
        self.push(0, 0, 0, None, SYN, 0, syn_options());
        self.push(50, 1, 0, Some(1), SYN, 0, syn_options());
        self.push(50, 0, 1, Some(1), 0, 0, Vec::new());
    }

    #[expect(clippy::too_many_arguments, reason = "fields of a packet")]
    fn push(
        &mut self,
        at_ms: u64,
        from: usize,
        seq: u32,
        ack: Option<u32>,
        flags: u8,
        data: usize,
        options: Vec<u8>,
    ) {
        let id = u16::try_from(self.packets.len() + 1).expect("few packets");
        self.packets.push(Made {
            at_ms,
            from,
            seq: seq.wrapping_add(self.base),
            ack: ack.map_or(0, |ack| ack.wrapping_add(self.base)),
            flags: flags | if ack.is_some() { ACK } else { 0 },
            window: 60_000,
            data,
            options,
            id,
        });
    }

    /// Sends a full segment: the n-th, from 0.
    fn data(&mut self, at_ms: u64, n: u32) -> &mut Self {
        self.push(at_ms, 0, 1 + n * 1000, Some(1), PSH, FULL, Vec::new());
        self
    }

    /// Acknowledges n segments.
    fn ack(&mut self, at_ms: u64, n: u32) -> &mut Self {
        self.push(at_ms, 1, 1, Some(1 + n * 1000), 0, 0, Vec::new());
        self
    }

    /// Acknowledges n segments, and selectively those from a to b for each block.
    fn sack(&mut self, at_ms: u64, n: u32, blocks: &[(u32, u32)]) -> &mut Self {
        let mut options = vec![5, u8::try_from(2 + blocks.len() * 8).expect("few blocks")];
        for edge in blocks.iter().flat_map(|(a, b)| [*a, *b]) {
            options.extend((1 + edge * 1000).wrapping_add(self.base).to_be_bytes());
        }
        self.push(at_ms, 1, 1, Some(1 + n * 1000), 0, 0, options);
        self
    }

    /// Sets the window of the last packet.
    fn window(&mut self, window: u16) -> &mut Self {
        self.packets.last_mut().expect("a packet").window = window;
        self
    }

    fn trace(&self) -> Trace {
        let packets: Vec<(u64, Vec<u8>)> = self.packets.iter().map(|it| (it.at_ms, it.ipv4())).collect();
        read_bytes(pcap(101, &packets, usize::MAX))
    }

    fn connection(&self) -> Connection {
        let mut trace = self.trace();
        assert_eq!(trace.connections.len(), 1);
        trace.connections.remove(0)
    }
}

fn syn_options() -> Vec<u8> {
    // MSS 1460, SACK permitted, timestamp, window scale 0.
    let mut options = vec![2, 4, 5, 180, 4, 2, 8, 10];
    options.extend([0; 8]);
    options.extend([3, 3, 0]);
    options
}

/// Returns a pcap file with times in milliseconds and packets of at most `snap` bytes.
fn pcap(link: u32, packets: &[(u64, Vec<u8>)], snap: usize) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(0xA1B2_C3D4_u32.to_le_bytes());
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend(65_535_u32.to_le_bytes());
    out.extend(link.to_le_bytes());
    for (at_ms, packet) in packets {
        let words = [
            u32::try_from(at_ms / 1000 + 1000).expect("a time"),
            u32::try_from(at_ms % 1000 * 1000).expect("a time"),
            u32::try_from(packet.len().min(snap)).expect("a length"),
            u32::try_from(packet.len()).expect("a length"),
        ];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(&packet[..packet.len().min(snap)]);
    }
    out
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(12 + body.len().next_multiple_of(4)).expect("a length").to_le_bytes();
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(length);
    out.extend(body);
    out.resize(8 + body.len().next_multiple_of(4), 0);
    out.extend(length);
    out
}

/// Returns a pcapng file with interfaces of these names. A packet has its interface, its time in
/// nanoseconds, and a comment.
fn pcapng(names: &[&str], packets: &[(u32, u64, Vec<u8>, &str)]) -> Vec<u8> {
    let mut section = 0x1A2B_3C4D_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xFF; 8]);
    let mut out = block(0x0A0D_0D0A, &section);
    let option = |code: u16, value: &[u8]| {
        let mut out = code.to_le_bytes().to_vec();
        out.extend(u16::try_from(value.len()).expect("a length").to_le_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    };
    for name in names {
        let mut body = 101_u16.to_le_bytes().to_vec();
        body.extend([0; 6]);
        body.extend(option(2, name.as_bytes()));
        body.extend(option(9, &[9]));
        body.extend(option(0, &[]));
        out.extend(block(1, &body));
    }
    for (interface, at_ns, packet, comment) in packets {
        let mut body = interface.to_le_bytes().to_vec();
        let high = u32::try_from(at_ns >> 32).expect("a time");
        let low = u32::try_from(at_ns & 0xFFFF_FFFF).expect("a time");
        body.extend(high.to_le_bytes());
        body.extend(low.to_le_bytes());
        let length = u32::try_from(packet.len()).expect("a length").to_le_bytes();
        body.extend([length, length].concat());
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        if !comment.is_empty() {
            body.extend(option(1, comment.as_bytes()));
            body.extend(option(0, &[]));
        }
        out.extend(block(6, &body));
    }
    out
}

fn read_bytes(bytes: Vec<u8>) -> Trace {
    analyse(Cursor::new(bytes), None).expect("a capture")
}

#[test]
fn handshake_gives_options_and_round_trip() {
    let connection = Story::new().connection();
    let [a, b] = &connection.directions;
    assert_eq!((a.mss, a.scale, a.sack_permitted, a.timestamps), (Some(1460), Some(0), true, true));
    assert_eq!(a.handshake_ns, Some(50_000_000));
    assert_eq!(b.handshake_ns, Some(0));
    assert_eq!((a.syns, b.syns, a.pure_acks), (1, 1, 1));
}

#[test]
fn retransmission_gives_no_sample() {
    let mut story = Story::new();
    story.data(60, 0).data(61, 1).data(200, 0).ack(250, 1).ack(251, 2);
    let connection = story.connection();
    let a = &connection.directions[0];
    assert_eq!((a.unique_bytes, a.retransmitted, a.retransmitted_bytes), (2000, 1, 1000));
    // The first ACK is ambiguous; the second one waited for the retransmission.
    assert_eq!((a.sequence.ambiguous.count, a.sequence.after_loss), (1, 1));
    assert_eq!(a.sequence.rtt.count, 1, "that of the SYN");
    assert_eq!(a.sequence.retransmission_times.count, 1);
}

#[test]
fn cumulative_ack_samples_last_segment() {
    let mut story = Story::new();
    story.data(60, 0).data(70, 1).ack(120, 2);
    let connection = story.connection();
    let sequence = &connection.directions[0].sequence;
    assert_eq!((sequence.rtt.count, sequence.cumulative), (2, 1));
    assert!((sequence.rtt.mean() - 0.05).abs() < 1e-9, "{}", sequence.rtt.mean());
}

#[test]
fn late_segment_is_out_of_order() {
    let mut story = Story::new();
    story.data(60, 0).data(61, 2).data(62, 1).ack(120, 3);
    let a = &story.connection().directions[0];
    assert_eq!((a.out_of_order, a.retransmitted, a.unique_bytes), (1, 0, 3000));
}

#[test]
fn third_duplicate_ack_counts_once() {
    let mut story = Story::new();
    story.data(60, 0).ack(110, 1).data(120, 1).data(121, 2);
    for at_ms in 171..176 {
        story.ack(at_ms, 1);
    }
    let sequence = &story.connection().directions[0].sequence;
    assert_eq!((sequence.duplicate_acks, sequence.triple_duplicates), (5, 1));
    // A changed window is no duplicate.
    story.ack(180, 1).window(50_000);
    assert_eq!(story.connection().directions[0].sequence.duplicate_acks, 5);
}

#[test]
fn sack_and_duplicate_sack_are_told_apart() {
    let mut story = Story::new();
    story.data(60, 0).data(61, 1).data(62, 2).data(63, 3);
    story.sack(111, 0, &[(1, 2)]).sack(112, 0, &[(1, 2), (3, 4)]);
    story.sack(113, 2, &[(0, 1)]).sack(114, 2, &[(3, 4), (3, 4)]);
    let b = &story.connection().directions[1];
    assert_eq!((b.sacks, b.most_sack_blocks, b.dsacks), (4, 2, 2));
}

#[test]
fn wrapped_numbers_change_nothing() {
    let tell = |mut story: Story| {
        story
            .data(60, 0)
            .data(61, 1)
            .data(62, 2)
            .data(63, 3)
            .sack(112, 1, &[(2, 3)])
            .data(160, 1)
            .ack(210, 4);
        let connection = story.connection();
        let a = &connection.directions[0];
        let timeline = timeline(&connection, 0);
        (a.unique_bytes, a.retransmitted, a.sequence.clone().rtt, a.flight.most, timeline)
    };
    let plain = tell(Story::new());
    for base in [u32::MAX, u32::MAX - 1500, u32::MAX - 2000, u32::MAX - 4000, i32::MAX.cast_unsigned() - 1500]
    {
        assert_eq!(tell(Story::at(base)), plain, "{base}");
    }
}

#[test]
fn windows_are_scaled_after_handshake() {
    let mut story = Story::new();
    story.packets[0].options = vec![3, 3, 2];
    story.packets[1].options = vec![3, 3, 3];
    story.data(60, 0).ack(110, 1).window(1000);
    story.ack(120, 1).window(0);
    let [a, b] = &story.connection().directions;
    assert_eq!((b.window.most, b.window.least, b.window.zero), (8000, 8000, 1));
    assert_eq!(a.window.most, 240_000, "60,000 scaled by 2 bits");
}

#[test]
fn zero_window_makes_a_stall_with_probes() {
    let mut story = Story::new();
    story.data(60, 0).ack(110, 1).window(0);
    // Probes without data repeat the number before; their answers repeat the window.
    for at_ms in [310, 710] {
        story.push(at_ms, 0, 1000, Some(1), 0, 0, Vec::new());
        story.ack(at_ms + 50, 1).window(0);
    }
    // This probe has a byte.
    story.push(1510, 0, 1001, Some(1), 0, 1, Vec::new());
    story.ack(1560, 1);
    story.data(1560, 1).ack(1610, 2);
    let connection = story.connection();
    let [a, b] = &connection.directions;
    assert_eq!((b.window.zero, a.empty_probes, a.probes, a.probe_bytes), (3, 2, 1, 1));
    assert_eq!((a.retransmitted, a.keep_alives), (0, 0));
    let timeline = timeline(&connection, 0);
    assert_eq!(timeline.stalls.len(), 1, "{:?}", timeline.stalls);
    let stall = &timeline.stalls[0];
    assert_eq!((stall.cause, stall.probes, stall.is_certain), (Limit::Window, 3, true));
    assert!((stall.length_s - 1.5).abs() < 1e-9, "{stall:?}");
}

#[test]
fn keep_alive_is_no_probe() {
    let mut story = Story::new();
    story.data(60, 0).ack(110, 1);
    story.push(5000, 0, 1000, Some(1), 0, 0, Vec::new());
    story.ack(5050, 1);
    let a = &story.connection().directions[0];
    assert_eq!((a.keep_alives, a.empty_probes), (1, 0));
}

#[test]
fn limits_sum_to_the_whole() {
    // Ten segments each second, acknowledged after 50 ms: the application pauses.
    let mut story = Story::new();
    for second in 1..10 {
        (0..10).for_each(|n| {
            story.data(second * 1000, u32::try_from(second).expect("few") * 10 + n - 10);
        });
        story.ack(second * 1000 + 50, u32::try_from(second).expect("few") * 10);
    }
    let connection = story.connection();
    let paused = timeline(&connection, 0);
    assert!(paused.share(Limit::Application) > 0.9, "{paused:?}");
    let sum: f64 = Limit::ALL.iter().map(|limit| paused.share(*limit)).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert!(paused.stalls.iter().all(|stall| stall.cause == Limit::Application && stall.is_certain));
    // The same numbers, closed by a window of ten segments for all of the time.
    let mut story = Story::new();
    story.packets[1].window = 10_000;
    for trip in 0..20 {
        (0..10).for_each(|n| {
            story.data(50 + u64::from(trip) * 50, trip * 10 + n);
        });
        story.ack(100 + u64::from(trip) * 50, trip * 10 + 10).window(10_000);
    }
    let closed = timeline(&story.connection(), 0);
    assert!(closed.share(Limit::Window) > 0.9, "{closed:?}");
    assert_eq!(closed.window, 10_000);
}

#[test]
fn timeout_is_recovery() {
    let mut story = Story::new();
    (0..4).for_each(|n| {
        story.data(60, n);
    });
    story.data(1060, 0).ack(1110, 4).data(1110, 4).ack(1160, 5);
    let timeline = timeline(&story.connection(), 0);
    assert!(timeline.share(Limit::Recovery) > 0.9, "{timeline:?}");
    assert_eq!(timeline.stalls.first().map(|stall| stall.cause), Some(Limit::Recovery));
}

#[test]
fn truncated_packets_keep_their_length() {
    let mut story = Story::new();
    story.data(60, 0).sack(110, 1, &[(2, 3)]);
    let packets: Vec<(u64, Vec<u8>)> = story.packets.iter().map(|it| (it.at_ms, it.ipv4())).collect();
    let trace = read_bytes(pcap(101, &packets, 60));
    let [a, b] = &trace.connections[0].directions;
    assert_eq!((a.unique_bytes, a.truncated, a.truncated_bytes), (1000, 1, 980));
    assert_eq!((b.sacks, a.frame_bytes), (1, 60 + 40 + 1040));
    // 30 bytes are less than both headers.
    assert_eq!(read_bytes(pcap(101, &packets, 30)).short, 5);
}

#[test]
fn link_types_have_equal_results() {
    let mut story = Story::new();
    story.data(60, 0).ack(110, 1);
    let before = |header: &[u8], ip: fn(&Made) -> Vec<u8>| -> Vec<(u64, Vec<u8>)> {
        let packet = |it: &Made| (it.at_ms, [header, &ip(it)].concat());
        story.packets.iter().map(packet).collect()
    };
    let ethernet = |kind: &[u8]| [&[0; 12], kind].concat();
    let cooked = [vec![0; 14], vec![0x08, 0]].concat();
    let cooked_2 = [vec![0x86, 0xDD], vec![0; 18]].concat();
    for (link, packets) in [
        (1, before(&ethernet(&[0x08, 0]), Made::ipv4)),
        (1, before(&ethernet(&[0x86, 0xDD]), Made::ipv6)),
        (1, before(&ethernet(&[0x81, 0, 0, 7, 0x08, 0]), Made::ipv4)),
        (12, before(&[], Made::ipv4)),
        (101, before(&[], Made::ipv6)),
        (113, before(&cooked, Made::ipv4)),
        (276, before(&cooked_2, Made::ipv6)),
        (0, before(&[2, 0, 0, 0], Made::ipv4)),
    ] {
        let trace = read_bytes(pcap(link, &packets, usize::MAX));
        let a = &trace.connections[0].directions[0];
        assert_eq!((a.unique_bytes, a.packets, a.sequence.rtt.count), (1000, 3, 2), "link type {link}");
    }
}

#[test]
fn packet_on_two_interfaces_counts_once() {
    let mut story = Story::new();
    story.data(60, 0).ack(110, 1).data(120, 1).data(320, 1).ack(370, 2);
    let mut packets = Vec::new();
    for it in &story.packets {
        let at_ns = it.at_ms * 1_000_000;
        let is_dropped = it.at_ms == 120;
        // Interface 0 is at the end that begins, and the path takes 25 ms.
        let (near, far) =
            if it.from == 0 { (at_ns, at_ns + 25_000_000) } else { (at_ns, at_ns - 25_000_000) };
        packets.push((0, near, it.ipv4(), if is_dropped { "dropped: loss" } else { "" }));
        if !is_dropped {
            packets.push((1, far, it.ipv4(), ""));
        }
        if it.at_ms == 60 {
            packets.push((0, near, it.ipv4(), "second copy dropped: queue"));
        }
    }
    let bytes = pcapng(&["near", "far"], &packets);
    let trace = read_bytes(bytes.clone());
    assert_eq!((trace.connections.len(), trace.hidden), (1, 1));
    assert_eq!(trace.extent.interfaces, ["near", "far"]);
    let connection = &trace.connections[0];
    let a = &connection.directions[0];
    assert_eq!((connection.interface, a.packets, a.retransmitted), (0, 5, 1));
    assert_eq!(a.dropped, 2, "that which arrived, and the copy");
    let far = analyse(Cursor::new(bytes), Some(1)).expect("a capture");
    let a = &far.connections[0].directions[0];
    assert_eq!((a.packets, a.retransmitted, a.dropped), (4, 0, 0));
}

#[test]
fn torn_file_is_read_to_its_end() {
    let mut story = Story::new();
    story.data(60, 0).ack(110, 1);
    let packets: Vec<(u64, Vec<u8>)> = story.packets.iter().map(|it| (it.at_ms, it.ipv4())).collect();
    let whole = pcap(101, &packets, usize::MAX);
    for cut in [1, 20, 40] {
        let trace = read_bytes(whole[..whole.len() - cut].to_vec());
        assert_eq!(trace.extent.packets, 4, "{cut}");
        let torn = Some(Torn { offset: whole.len() - 56, ends: true });
        assert_eq!(trace.extent.torn, torn, "{cut}");
        let sentence = &remarks(&trace, "file.pcap")[0];
        let end = "it ends within a packet or block at byte 1288; the 4 packets before it are analysed";
        assert_eq!(sentence, &format!("file.pcap is not whole: {end}"));
    }
    assert_eq!(read_bytes(whole).extent.torn, None);
}

#[test]
fn huge_blocks_are_damage() {
    let mut bytes = pcapng(&["near"], &[]);
    let good = bytes.len();
    bytes.extend(6_u32.to_le_bytes());
    bytes.extend(0xFFFF_FFF0_u32.to_le_bytes());
    bytes.extend([0; 100]);
    let trace = read_bytes(bytes);
    assert_eq!(trace.extent.torn.map(|torn| torn.offset), Some(good));
    let error = |bytes: &[u8]| analyse(Cursor::new(bytes.to_vec()), None).expect_err("no capture");
    for no_capture in [&b""[..], b"GET / HTTP/1.1", &[0; 4]] {
        assert_eq!(error(no_capture), CaptureError::Format);
    }
}

#[test]
fn reused_ports_are_new_connections() {
    let mut story = Story::new();
    story.data(60, 0).ack(110, 1);
    story.push(110, 0, 1001, Some(1), FIN, 0, Vec::new());
    story.push(160, 1, 1, Some(1002), FIN, 0, Vec::new());
    story.push(160, 0, 1002, Some(2), 0, 0, Vec::new());
    let first = story.packets.len();
    story.handshake();
    for packet in &mut story.packets[first..] {
        (packet.at_ms, packet.seq) = (packet.at_ms + 1000, packet.seq.wrapping_add(700_000));
    }
    let trace = story.trace();
    assert_eq!(trace.connections.len(), 2);
    let lines = list(&trace);
    assert!(
        lines.starts_with("  1: 10.0.0.1:40000 - 10.0.0.2:80  0.160 s, 5 packets > 3 packets <"),
        "{lines}"
    );
}

#[test]
fn page_has_graphs_of_the_sender() {
    let mut story = Story::new();
    story.data(60, 0).data(61, 1).data(62, 2).sack(112, 0, &[(1, 2)]).data(160, 0).ack(210, 3).window(0);
    let trace = story.trace();
    let choice = Choice {
        file: "made.pcap".to_owned(),
        connections: vec![0],
        between: None,
        command: "rdt-lab trace made.pcap".to_owned(),
        remarks: Vec::new(),
    };
    let report = report(&trace, &choice);
    let section = &report.sections[0];
    let ids: Vec<&str> = section.figures.iter().map(|scene| scene.id.as_str()).collect();
    assert_eq!(ids, ["flow-1-a-b-sequence", "flow-1-a-b-rtt", "flow-1-a-b-series"]);
    let table = crate::report::export::csv(&section.figures[0]);
    assert!(table.contains("retransmitted or out of order,measured,segment,0.16,1000,0,1000,"), "{table}");
    assert!(table.contains("SACK blocks,measured,segment,0.112,2000,1000,2000,"), "{table}");
    let page = crate::report::html(&report);
    assert!(page.contains("loss recovery") && !page.contains("claims hold"));
    let xplot = crate::report::export::xplot(&section.figures[0], 0).expect("numeric axes");
    assert!(xplot.contains("line 160 0 160 1") || xplot.contains("line 0.16 0 0.16 1"), "{xplot}");
}
