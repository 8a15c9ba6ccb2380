//! The FIN and the checksum in its answer.

use crate::array::{array, crc32};
use crate::peer::{Packet, Peer};

#[test]
fn a_fin_is_repeated_until_its_answer_comes() {
    let mut peer = Peer::start("10 0.001 0 100 --power 9");
    peer.connect(1);
    assert_eq!(peer.serve(), 2);
    for _ in 0..5 {
        peer.expect(Packet::Fin(2));
    }
    peer.close(crc32(&array(9))).expect(0);
}

#[test]
fn a_wrong_checksum_is_exit_code_7() {
    let mut peer = Peer::start("10 0.001 0 100 --power 9");
    peer.connect(1);
    peer.serve();
    peer.close(crc32(&array(9)) ^ 1).expect(7);
}

#[test]
fn checksum_0_is_that_of_a_receiver_that_does_not_check() {
    let mut peer = Peer::start("10 0.001 0 100 --power 9");
    peer.connect(80_000);
    peer.serve();
    peer.close(0).expect(0);
}
