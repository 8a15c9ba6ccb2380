//! Limits on transmissions of a packet.

use std::thread;

use crate::peer::{Packet, Peer};
use crate::wire::ack;

#[test]
fn fifty_attempts_then_status_5() {
    // Run in parallel, because each case takes fifty timeouts of 40 ms.
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = Peer::start(LINE);
            peer.connect(1);
            gives_up(peer, &[Packet::Data(0); 50], "Main:\tsend failed with status 5");
        });
        scope.spawn(|| {
            // A fast retransmission counts as an attempt.
            let mut peer = Peer::start(LINE);
            peer.connect(1);
            for _ in 0..3 {
                peer.send(&ack(1, 0));
            }
            gives_up(peer, &[Packet::Data(0); 50], "Main:\tsend failed with status 5");
        });
        scope.spawn(|| {
            let mut peer = Peer::start(LINE);
            peer.connect(1);
            assert_eq!(peer.serve(), 2);
            gives_up(peer, &[Packet::Fin(2); 49], "Main:\tclose failed with status 5");
        });
    });
}

const LINE: &str = "10 0.001 0 100 --power 9";

fn gives_up(mut peer: Peer, packets: &[Packet], line: &str) {
    assert_eq!(peer.listen(), packets);
    peer.finish().expect(5).printed(line);
}
