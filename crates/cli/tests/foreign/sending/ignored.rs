//! Replies that a sender ignores.

use std::net::UdpSocket;
use std::time::Duration;

use crate::array::{array, crc32};
use crate::peer::{BRIEFLY, Packet, Peer, SLOWLY};
use crate::wire::{ACK, FIN, SYN, ack, fin_ack, reply, syn_ack};

/// Long enough for a reply to have an effect, short enough for all replies to be sent within one
/// timeout.
const MOMENT: Duration = Duration::from_millis(3);

/// Returns corruptions of a valid reply, with names.
fn spoilt(good: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut cases: Vec<_> = (0..12).map(|len| (format!("{len} bytes"), good[..len].to_vec())).collect();
    for extra in [1, 4, 16, 1460, 60_000] {
        cases.push((format!("{extra} bytes too many"), [good, &vec![0; extra]].concat()));
    }
    for (byte, bit) in
        [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 7), (2, 0), (2, 7), (3, 0), (3, 7)]
    {
        let mut bytes = good.to_vec();
        bytes[byte] ^= 1 << bit;
        cases.push((format!("byte {byte} ^ {:#x}", 1 << bit), bytes));
    }
    cases
}

fn add(cases: &mut Vec<(String, Vec<u8>)>, more: &[(&str, Vec<u8>)]) {
    cases.extend(more.iter().map(|(name, bytes)| ((*name).to_string(), bytes.clone())));
}

/// Sends a valid reply from a socket with another port.
fn send_from_other_port(peer: &Peer, bytes: &[u8]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.send_to(bytes, peer.raw.other()).expect("the loopback takes it");
}

#[test]
fn invalid_syn_acks_are_ignored() {
    let mut peer = Peer::start("10 0.1 0 14 --power 12");
    let mut cases = spoilt(&syn_ack(10, 0));
    for flags in [0, SYN, ACK, FIN, SYN | FIN, FIN | ACK, SYN | FIN | ACK] {
        cases.push((format!("flags {flags:#x}"), reply(flags, 10, 0)));
    }
    peer.expect(Packet::Syn);
    send_from_other_port(&peer, &syn_ack(10, 0));
    for (name, bytes) in &cases {
        peer.send(bytes);
        let came = peer.receive(MOMENT);
        // On a slow host the SYN may be retransmitted at this point.
        let nothing = matches!(came, None | Some(Packet::Syn));
        peer.raw.check(nothing, || format!("{name} is taken for a SYN-ACK: {came:?}"));
    }
    peer.send(&syn_ack(1, 0));
    peer.expect(Packet::Data(0));
    peer.complete().expect(0);
}

#[test]
fn invalid_acks_are_ignored() {
    let mut peer = Peer::start("10 0.1 0 14 --power 12");
    peer.connect_after(2 * SLOWLY, 1);
    peer.expect(Packet::Data(0));
    let mut cases = spoilt(&ack(10, 1));
    for flags in [0, SYN, FIN, SYN | ACK, SYN | FIN, FIN | ACK, SYN | FIN | ACK] {
        cases.push((format!("flags {flags:#x}"), reply(flags, 10, 1)));
    }
    add(
        &mut cases,
        &[
            ("an ACK of what was never sent", ack(10, 2)),
            ("an ACK of what will be sent", ack(10, 12)),
            ("an ACK beyond the last", ack(10, 13)),
            ("an ACK of 2^31", ack(10, 1 << 31)),
            ("an ACK of the largest number", ack(10, u32::MAX)),
            ("the SYN-ACK again", syn_ack(10, 0)),
            ("a FIN-ACK before the FIN", fin_ack(crc32(&array(12)), 12)),
            ("a FIN-ACK of the base", fin_ack(10, 0)),
        ],
    );
    send_from_other_port(&peer, &ack(10, 1));
    peer.nothing_new(BRIEFLY);
    for (name, bytes) in &cases {
        peer.send(bytes);
        let came = peer.receive(MOMENT);
        // On a slow host packet 0 may be retransmitted at this point.
        let nothing = matches!(came, None | Some(Packet::Data(0)));
        peer.raw.check(nothing, || format!("{name} is taken for an ACK: {came:?}"));
    }
    peer.send(&ack(2, 1));
    peer.expect_data(1..3);
    peer.nothing_new(BRIEFLY);
    peer.complete().expect(0);
}

#[test]
fn invalid_fin_acks_are_ignored() {
    let mut peer = Peer::start("10 0.1 0 14 --power 9");
    peer.connect_after(SLOWLY, 2);
    assert_eq!(peer.serve(), 2);
    let good = crc32(&array(9));
    // If accepted, each of these replies would cause exit code 7.
    let bad = good ^ 0xFFFF;
    let mut cases = spoilt(&fin_ack(bad, 2));
    for flags in [0, SYN, ACK, FIN, SYN | ACK, SYN | FIN, SYN | FIN | ACK] {
        cases.push((format!("flags {flags:#x}"), reply(flags, bad, 2)));
    }
    add(
        &mut cases,
        &[
            ("number 0", fin_ack(bad, 0)),
            ("number 1", fin_ack(bad, 1)),
            ("number 3", fin_ack(bad, 3)),
            ("the largest number", fin_ack(bad, u32::MAX)),
        ],
    );
    send_from_other_port(&peer, &fin_ack(bad, 2));
    for (_, bytes) in &cases {
        peer.send(bytes);
    }
    peer.close(good).expect(0);
}
