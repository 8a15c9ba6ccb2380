//! The FIN, and the checksum of the FIN-ACK.

use crate::array::{array, crc32};
use crate::peer::{Packet, Peer};

#[test]
fn fin_is_repeated_until_answered() {
    let mut peer = Peer::start("10 0.001 0 100 --power 9");
    peer.connect(1);
    assert_eq!(peer.serve(), 2);
    for _ in 0..5 {
        peer.expect(Packet::Fin(2));
    }
    peer.close(crc32(&array(9))).expect(0);
}

#[test]
fn wrong_checksum_exits_with_7() {
    let mut peer = Peer::start("10 0.001 0 100 --power 9");
    peer.connect(1);
    peer.serve();
    peer.close(crc32(&array(9)) ^ 1).expect(7);
}

#[test]
fn checksum_0_means_unchecked() {
    let mut peer = Peer::start("10 0.001 0 100 --power 9");
    peer.connect(80_000);
    peer.serve();
    peer.close(0).expect(0);
}
