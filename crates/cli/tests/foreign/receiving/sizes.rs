//! Datagrams longer than an Ethernet frame.

use crate::array::{array, crc32};
use crate::mode::Mode;
use crate::process::Recv;
use crate::raw::Raw;
use crate::sender::transfer;
use crate::wire::{Link, MAX_WINDOW, data, fin, fin_ack, syn, syn_ack};

#[test]
fn no_link_accepts_and_checks_9000_byte_datagrams() {
    let recv = Mode::NoLink.start();
    let bytes = array(15);
    for piece in [1465, 7464, 8964, 8992, 65_499] {
        let mut raw = Raw::to(recv.address);
        let found = transfer(&mut raw, Link::CLEAR, &bytes, piece);
        raw.check(found == crc32(&bytes), || format!("pieces of {piece}: {found:X}"));
    }
}

#[test]
fn dummy_accepts_any_size_without_checksum() {
    let recv = Recv::start(&["--dummy"]);
    let mut raw = Raw::to(recv.address);
    raw.ask(&syn(0), &syn_ack(MAX_WINDOW, 0));
    for (seq, length) in (0..).zip([0, 1, 1464, 1465, 8992, 65_499]) {
        raw.ask(&data(seq, &vec![7; length]), &Mode::Dummy.ack(seq + 1));
    }
    raw.ask(&fin(6), &fin_ack(0, 6));
    let mut raw = Raw::to(recv.address);
    let found = transfer(&mut raw, Link::CLEAR, &array(15), 1464);
    raw.check(found == 0, || format!("a checksum: {found:X}"));
}
