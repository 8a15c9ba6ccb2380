//! SYN, data and FIN: replies byte by byte, window, restart and end of a transfer.

use std::time::Duration;

use crate::array::{PUBLISHED, array, crc32};
use crate::mode::{MODES, Mode};
use crate::raw::Raw;
use crate::sender::transfer;
use crate::wire::{CAPTURED_SYN, Link, PIECE, data, fin, syn};

#[test]
fn two_packet_exchange_matches_bytes() {
    let recv = Mode::Reference.start();
    let mut raw = Raw::to(recv.address);
    let array = array(9);
    let zero = [&[0x00, 0xaa, 0x11, 0x83, 0, 0, 0, 0], &array[..1464]].concat();
    let one = [&[0x00, 0xaa, 0x11, 0x83, 1, 0, 0, 0], &array[1464..]].concat();
    raw.ask(&CAPTURED_SYN, &[0x60, 0xaa, 0x11, 0x83, 1, 0, 0, 0, 0, 0, 0, 0]);
    raw.ask(&zero, &[0x40, 0xaa, 0x11, 0x83, 1, 0, 0, 0, 1, 0, 0, 0]);
    raw.ask(&one, &[0x40, 0xaa, 0x11, 0x83, 2, 0, 0, 0, 2, 0, 0, 0]);
    raw.ask(
        &[0x80, 0xaa, 0x11, 0x83, 2, 0, 0, 0],
        &[0xc0, 0xaa, 0x11, 0x83, 0xe2, 0xa6, 0xec, 0x6f, 2, 0, 0, 0],
    );
}

#[test]
fn window_grows_from_1_to_80000() {
    for mode in MODES {
        let recv = mode.start();
        let mut raw = mode.raw(&recv);
        raw.ask(&syn(0), &mode.syn_ack(0));
        for seq in 0..300 {
            raw.ask(&data(seq, b"next"), &mode.ack(seq + 1));
        }
        raw.ask(&syn(79_997), &mode.syn_ack(79_997));
        for seq in 79_997..80_010 {
            raw.ask(&data(seq, b"next"), &mode.ack(seq + 1));
        }
    }
}

#[test]
fn syn_number_is_first_expected() {
    for mode in MODES {
        let recv = mode.start();
        for first in [0, 1, 2, 7, 79_999, 80_000, 80_001, 100_000, 1 << 31] {
            let mut raw = mode.raw(&recv);
            raw.ask(&syn(first), &mode.syn_ack(first));
            raw.ask(&data(first, b"payload"), &mode.ack(first + 1));
            raw.ask(&fin(first + 1), &mode.fin_ack(first + 1, b"payload"));
        }
    }
}

#[test]
fn repeated_syn_restarts_transfer() {
    for mode in MODES {
        let recv = mode.start();
        let mut raw = mode.raw(&recv);
        raw.ask(&syn(0), &mode.syn_ack(0));
        raw.ask(&syn(0), &mode.syn_ack(0));
        raw.ask(&data(0, b"forgotten"), &mode.ack(1));
        raw.ask(&data(9, b"held and forgotten"), &mode.ack(1));
        raw.ask(&syn(7), &mode.syn_ack(7));
        raw.ask(&data(7, b"kept "), &mode.ack(8));
        raw.ask(&data(8, b"too"), &mode.ack(9));
        raw.ask(&fin(9), &mode.fin_ack(9, b"kept too"));
    }
}

#[test]
fn repeated_syn_keeps_first_link() {
    let mode = Mode::Reference;
    let recv = mode.start();
    let mut raw = Raw::to(recv.address);
    let mut beat = mode.metronome(&recv);
    raw.ask(&Link { rtt: 0.3, ..Link::CLEAR }.syn(0), &mode.syn_ack(0));
    // RTT, loss and buffer of the later SYN have no effect: ten packets in a row are delivered,
    // with the delay of the first SYN's link.
    raw.send(&data(0, b"queued"));
    raw.send(&Link { rtt: 0.0, speed: 1e10, loss: [0.9999, 0.9999], buffer: 1 }.syn(7));
    for seq in 7..17 {
        raw.send(&data(seq, b"payload"));
    }
    beat.beat();
    raw.quiet(Duration::from_millis(50));
    // The packet in the link's queue is still delivered.
    raw.expect(&mode.ack(1));
    raw.expect(&mode.syn_ack(7));
    for seq in 7..17 {
        raw.expect(&mode.ack(seq + 1));
    }
    // Another connection has a link of its own.
    let mut other = Raw::to(recv.address);
    other.ask(&syn(0), &mode.syn_ack(0));
}

#[test]
fn fin_ack_has_checksum_despite_trailing_bytes() {
    for mode in MODES {
        let recv = mode.start();
        for trail in [0, 1, 4, 20, 21, 1464] {
            let mut raw = Raw::to(recv.address);
            raw.ask(&syn(0), &mode.syn_ack(0));
            raw.ask(&data(0, b"payload"), &mode.ack(1));
            let fin = [fin(1), vec![0xA5; trail]].concat();
            raw.ask(&fin, &mode.fin_ack(1, b"payload"));
        }
        // Some senders send the struct of the SYN as FIN.
        let mut raw = Raw::to(recv.address);
        raw.ask(&syn(0), &mode.syn_ack(0));
        let mut fin = syn(0);
        fin[0] = 0x80;
        raw.ask(&fin, &mode.fin_ack(0, b""));
    }
}

#[test]
fn fin_before_missing_data_is_ignored() {
    for mode in MODES {
        let recv = mode.start();
        let mut raw = Raw::to(recv.address);
        raw.ask(&syn(0), &mode.syn_ack(0));
        raw.ask(&data(0, b"a"), &mode.ack(1));
        // The number of the base is acknowledged, because packet 2 is buffered until packet 1
        // arrives.
        raw.ask(&data(2, b"c"), &mode.ack(1));
        for early in [0, 1, 2, 3, 4, u32::MAX] {
            raw.send(&fin(early));
        }
        raw.ask(&data(1, b"b"), &mode.ack(3));
        for wrong in [0, 1, 2, 4, 80_003, u32::MAX] {
            raw.send(&fin(wrong));
        }
        raw.ask(&fin(3), &mode.fin_ack(3, b"abc"));
    }
}

#[test]
fn after_fin_only_fin_and_syn_are_answered() {
    for mode in MODES {
        let recv = mode.start();
        let mut raw = Raw::to(recv.address);
        raw.ask(&syn(0), &mode.syn_ack(0));
        raw.ask(&data(0, b"payload"), &mode.ack(1));
        let end = mode.fin_ack(1, b"payload");
        raw.ask(&fin(1), &end);
        raw.ask(&fin(1), &end);
        for late in [data(0, b"payload"), data(1, b"more"), data(5, b"more"), fin(0), fin(2)] {
            raw.send(&late);
            raw.ask(&fin(1), &end);
        }
        raw.ask(&syn(3), &mode.syn_ack(3));
        raw.ask(&data(3, b"again"), &mode.ack(4));
        raw.ask(&fin(4), &mode.fin_ack(4, b"again"));
    }
}

#[test]
fn empty_transfer_has_checksum_0() {
    for mode in MODES {
        let recv = mode.start();
        let mut raw = Raw::to(recv.address);
        raw.ask(&syn(0), &mode.syn_ack(0));
        raw.ask(&fin(0), &[0xc0, 0xaa, 0x11, 0x83, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn payloads_of_any_length_are_concatenated() {
    let lengths = [0, 1, 1464, 3, 0, 0, 700, 1463, 2, 1464, 0];
    for mode in MODES {
        let recv = mode.start();
        let mut raw = Raw::to(recv.address);
        raw.ask(&syn(0), &mode.syn_ack(0));
        let bytes = array(12);
        let (mut sent, mut next) = (0, 0);
        for length in lengths {
            raw.ask(&data(next, &bytes[sent..sent + length]), &mode.ack(next + 1));
            sent += length;
            next += 1;
        }
        raw.ask(&fin(next), &mode.fin_ack(next, &bytes[..sent]));
    }
}

#[test]
fn foreign_sender_gets_published_checksums() {
    let recv = Mode::Reference.start();
    for (power, checksum, ..) in PUBLISHED {
        let mut raw = Raw::to(recv.address);
        let found = transfer(&mut raw, Link::CLEAR, &array(power), PIECE);
        raw.check(found == checksum, || format!("2^{power} words: {found:X}, not {checksum:X}"));
    }
}

#[test]
fn foreign_sender_survives_loss_both_ways() {
    let recv = Mode::Reference.start();
    let mut raw = Raw::to(recv.address);
    let link = Link { rtt: 0.01, speed: 1e8, loss: [0.05, 0.05], buffer: 40 };
    let bytes = array(14);
    let found = transfer(&mut raw, link, &bytes, PIECE);
    raw.check(found == crc32(&bytes), || format!("the checksum is {found:X}"));
}

#[test]
fn connections_are_independent() {
    for mode in MODES {
        let recv = mode.start();
        let (mut one, mut two) = (Raw::to(recv.address), Raw::to(recv.address));
        one.ask(&syn(0), &mode.syn_ack(0));
        two.send(&data(0, b"without a connection"));
        one.ask(&data(0, b"one"), &mode.ack(1));
        two.ask(&syn(50), &mode.syn_ack(50));
        one.ask(&data(2, b"held"), &mode.ack(1));
        two.ask(&data(50, b"two"), &mode.ack(51));
        two.ask(&fin(51), &mode.fin_ack(51, b"two"));
        one.ask(&data(1, b"hole"), &mode.ack(3));
        two.ask(&syn(0), &mode.syn_ack(0));
        one.ask(&fin(3), &mode.fin_ack(3, b"oneholeheld"));
        two.ask(&fin(0), &mode.fin_ack(0, b""));
    }
}
