//! Packets that a receiver drops without a reply. Each is sent without a connection, and in the
//! middle of a transfer. The next valid packet must be answered as usual.

use crate::mode::{MODES, Mode};
use crate::process::Recv;
use crate::raw::Raw;
use crate::wire::{ACK, FIN, Link, SYN, ack, data, fin, fin_ack, header, syn, syn_ack};

/// Name of a case, and the bytes of its packet.
type Case = (String, Vec<u8>);

/// Checks that `cases` are dropped in this mode.
fn dropped(mode: Mode, recv: &Recv, cases: &[Case]) {
    // The sockets remain open, so that no later socket reuses a port.
    let mut senders: Vec<_> = cases.iter().map(|_| Raw::to(recv.address)).collect();
    for ((name, bytes), raw) in cases.iter().zip(&mut senders) {
        raw.send(bytes);
        raw.send(&syn(0));
        let reply = raw.wait();
        raw.check(reply == mode.syn_ack(0), || {
            format!("{mode:?}, without a connection: {name} is not dropped")
        });
    }
    let mut raw = Raw::to(recv.address);
    raw.ask(&syn(0), &mode.syn_ack(0));
    let mut payload = Vec::new();
    for ((name, bytes), seq) in cases.iter().zip(0..) {
        raw.send(bytes);
        raw.send(&data(seq, name.as_bytes()));
        payload.extend(name.as_bytes());
        let reply = raw.wait();
        raw.check(reply == mode.ack(seq + 1), || format!("{mode:?}, in a transfer: {name} is not dropped"));
    }
    let count = u32::try_from(cases.len()).expect("few cases");
    raw.ask(&fin(count), &mode.fin_ack(count, &payload));
    // Drops are checked after the end of the transfer too.
    for (name, bytes) in cases {
        raw.send(bytes);
        raw.send(&fin(count));
        let reply = raw.wait();
        let same = reply == mode.fin_ack(count, &payload);
        raw.check(same, || format!("{mode:?}, after a transfer: {name} is not dropped"));
    }
}

fn in_all_modes(cases: &[Case]) {
    for mode in MODES {
        dropped(mode, &mode.start(), cases);
    }
}

fn links(cases: &[(&str, Link)]) -> Vec<Case> {
    cases.iter().map(|(name, link)| ((*name).to_string(), link.syn(0))).collect()
}

const CLEAR: Link = Link::CLEAR;

#[test]
fn syn_with_impossible_link_is_dropped() {
    let mut cases = links(&[
        ("speed 0", Link { speed: 0.0, ..CLEAR }),
        ("speed -0", Link { speed: -0.0, ..CLEAR }),
        ("speed -1", Link { speed: -1.0, ..CLEAR }),
        ("speed next above 1e10", Link { speed: 1e10_f32.next_up(), ..CLEAR }),
        ("speed 1e11", Link { speed: 1e11, ..CLEAR }),
        ("RTT just below 0", Link { rtt: -f32::from_bits(1), ..CLEAR }),
        ("RTT -1", Link { rtt: -1.0, ..CLEAR }),
        ("RTT 30", Link { rtt: 30.0, ..CLEAR }),
        ("RTT 1000", Link { rtt: 1000.0, ..CLEAR }),
        ("buffer 0", Link { buffer: 0, ..CLEAR }),
        ("buffer 1000001", Link { buffer: 1_000_001, ..CLEAR }),
        ("buffer -1", Link { buffer: u32::MAX, ..CLEAR }),
    ]);
    for loss in [-1.0, -f32::from_bits(1), 1.0, 1.5, f32::MAX] {
        cases.extend(links(&[
            ("forward loss", Link { loss: [loss, 0.0], ..CLEAR }),
            ("return loss", Link { loss: [0.0, loss], ..CLEAR }),
        ]));
    }
    in_all_modes(&cases);
}

#[test]
fn syn_with_invalid_float_is_dropped() {
    let mut cases = Vec::new();
    for value in [f32::NAN, -f32::NAN, f32::from_bits(0x7F80_0001), f32::INFINITY, f32::NEG_INFINITY] {
        cases.extend(links(&[
            ("RTT", Link { rtt: value, ..CLEAR }),
            ("speed", Link { speed: value, ..CLEAR }),
            ("forward loss", Link { loss: [value, 0.0], ..CLEAR }),
            ("return loss", Link { loss: [0.0, value], ..CLEAR }),
        ]));
    }
    in_all_modes(&cases);
}

#[test]
fn wrong_magic_or_reserved_bits_are_dropped() {
    let good = [("SYN", syn(0)), ("data", data(0, b"wrong")), ("FIN", fin(0))];
    let mut cases = Vec::new();
    for (name, packet) in &good {
        for bit in 0..5 {
            let mut bytes = packet.clone();
            bytes[0] |= 1 << bit;
            cases.push((format!("{name} with bit {bit}"), bytes));
        }
        for (byte, bit) in [(1, 0), (1, 7), (2, 0), (2, 7), (3, 0), (3, 7)] {
            let mut bytes = packet.clone();
            bytes[byte] ^= 1 << bit;
            cases.push((format!("{name} with byte {byte} ^ {:#x}", 1 << bit), bytes));
        }
        // The first word in big-endian order is invalid.
        let mut bytes = packet.clone();
        bytes[..4].reverse();
        cases.push((format!("{name}, big-endian"), bytes));
    }
    in_all_modes(&cases);
}

#[test]
fn receiver_flags_are_dropped() {
    let mut cases = Vec::new();
    for flags in [ACK, SYN | ACK, SYN | FIN, FIN | ACK, SYN | FIN | ACK] {
        for length in [8, 12, 28, 100] {
            let mut bytes = syn(0);
            bytes[0] = flags;
            bytes.resize(length, 0);
            cases.push((format!("flags {flags:#x} in {length} bytes"), bytes));
        }
    }
    for (name, bytes) in [("ACK", ack(1, 0)), ("SYN-ACK", syn_ack(1, 0)), ("FIN-ACK", fin_ack(0, 0))] {
        cases.push((name.into(), bytes));
    }
    in_all_modes(&cases);
}

#[test]
fn packets_of_wrong_length_are_dropped() {
    let mut cases = Vec::new();
    for length in (8..28).chain([29, 30, 36, 56, 1472]) {
        let mut bytes = syn(0);
        bytes.resize(length, 0);
        cases.push((format!("SYN of {length} bytes"), bytes));
    }
    for length in 0..8 {
        cases.push((format!("SYN of {length} bytes"), syn(0)[..length].into()));
        cases.push((format!("data of {length} bytes"), data(0, b"")[..length].into()));
        cases.push((format!("FIN of {length} bytes"), fin(0)[..length].into()));
    }
    in_all_modes(&cases);
}

#[test]
fn datagrams_over_1472_bytes_are_dropped() {
    let mut cases = Vec::new();
    for length in [1473, 1474, 1500, 9000, 65_507] {
        for (name, mut bytes) in [("data", header(0, 0)), ("FIN", fin(0)), ("SYN", syn(0)), ("zeros", vec![])]
        {
            bytes.resize(length, 0);
            cases.push((format!("{name} of {length} bytes"), bytes));
        }
    }
    let mode = Mode::Reference;
    let recv = mode.start();
    dropped(mode, &recv, &cases);
    // Sent in the middle of a transfer, with the expected number.
    let mut raw = Raw::to(recv.address);
    raw.ask(&syn(0), &mode.syn_ack(0));
    raw.send(&data(0, &[1; 1465]));
    raw.ask(&data(0, &[1; 1464]), &mode.ack(1));
    raw.send(&[fin(1), vec![0; 1465]].concat());
    raw.ask(&[fin(1), vec![0; 1464]].concat(), &mode.fin_ack(1, &[1; 1464]));
}

#[test]
fn data_and_fin_without_connection_are_dropped() {
    let cases: Vec<Case> = [0, 1, 79_999, u32::MAX]
        .into_iter()
        .flat_map(|seq| [("data", data(seq, b"payload")), ("empty data", data(seq, b"")), ("FIN", fin(seq))])
        .map(|(name, bytes)| (name.to_string(), bytes))
        .collect();
    for mode in MODES {
        let recv = mode.start();
        let mut other = Raw::to(recv.address);
        other.ask(&syn(0), &mode.syn_ack(0));
        let mut senders: Vec<_> = cases.iter().map(|_| Raw::to(recv.address)).collect();
        for ((name, bytes), raw) in cases.iter().zip(&mut senders) {
            raw.send(bytes);
            raw.send(&syn(5));
            let reply = raw.wait();
            raw.check(reply == mode.syn_ack(5), || format!("{mode:?}: {name} is not dropped"));
        }
        other.ask(&fin(0), &mode.fin_ack(0, b""));
    }
}

#[test]
fn values_at_the_limits_are_accepted() {
    let cases = [
        ("speed 0.5", Link { speed: 0.5, ..CLEAR }),
        ("the least speed", Link { speed: f32::from_bits(1), ..CLEAR }),
        ("speed 1e10", Link { speed: 1e10, ..CLEAR }),
        ("RTT 0", Link { rtt: 0.0, ..CLEAR }),
        ("RTT -0", Link { rtt: -0.0, ..CLEAR }),
        ("RTT next below 30", Link { rtt: 30.0_f32.next_down(), ..CLEAR }),
        ("forward loss 0.9999", Link { loss: [0.9999, 0.0], ..CLEAR }),
        ("return loss 0.9999", Link { loss: [0.0, 0.9999], ..CLEAR }),
        ("loss -0", Link { loss: [-0.0, -0.0], ..CLEAR }),
        ("buffer 1", Link { buffer: 1, ..CLEAR }),
        ("buffer 1000000", Link { buffer: 1_000_000, ..CLEAR }),
    ];
    for mode in MODES {
        let recv = mode.start();
        let mut senders: Vec<_> = cases.iter().map(|_| Raw::to(recv.address)).collect();
        for ((name, link), raw) in cases.iter().zip(&mut senders) {
            raw.send(&link.syn(0));
            // The event is logged before the link delays or drops the SYN.
            let connected = recv.event("connected");
            let peer = raw.address().to_string();
            raw.check(connected["peer"] == peer, || format!("{mode:?}: {name} is not accepted"));
            if mode != Mode::Reference {
                raw.expect(&mode.syn_ack(0));
            }
        }
    }
}
