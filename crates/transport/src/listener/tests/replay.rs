//! Replays of recorded native transfers.

use super::native::{connected, data, fin};
use super::*;
use crate::wire::{Codec, Wire};

/// Returns the datagrams of a transfer of 100 bytes that `codec` opened.
fn recording(codec: &Codec) -> [Vec<u8>; 3] {
    let mut syn = vec![0; codec.syn_len()];
    codec.encode_syn(&mut syn);
    [syn, data(codec, 0), fin(1, 1)]
}

/// Sends the recorded datagrams and returns the number of events that they cause.
fn replay(script: &mut Script, recording: &[Vec<u8>]) -> usize {
    script.events();
    for datagram in recording {
        script.recv('a', datagram);
        script.discard_replies();
    }
    script.events().len()
}

#[test]
fn replayed_transfer_is_stored_once() {
    for (seconds, removed) in [(1, false), (1, true), (26, false), (26, true), (3600, true)] {
        let (mut script, codec) = connected(true);
        let recording = recording(&codec);
        script.recv('a', &recording[1]).recv('a', &recording[2]);
        assert_eq!(script.listener.data('a').unwrap().len(), 100);
        script.listener.consume('a', 100);
        script.listener.confirm('a');
        if removed {
            // As a forged CLOSE does, or a new peer that needs the slot.
            script.listener.close('a');
        }
        script.at(seconds * SECOND);
        assert_eq!(replay(&mut script, &recording), 0, "{seconds} s, removed: {removed}");
        assert_eq!(script.listener.knows('a'), !removed);
    }
}

#[test]
fn replayed_syn_does_not_end_next_transfer() {
    let (script, codec) = connected(true);
    let first = recording(&codec);
    let (mut script, _) = native::reconnected(script, 8);
    assert_eq!(replay(&mut script, &first), 0);
    assert_eq!(script.listener.wire('a').and_then(Wire::connection_id), Some(8));
    assert_eq!(script.stats().replayed, 1);
}

#[test]
fn forgotten_ends_invalidate_cookies() {
    let (mut script, codec) = connected(true);
    script.listener.close('a');
    for id in 100..100 + 65_536 {
        script.listener.remember_end(script.now, Some(id));
    }
    assert_eq!(replay(&mut script, &recording(&codec)[..1]), 0, "the cookie is no longer valid");
    assert_eq!((script.stats().replayed, script.stats().retries), (0, 2));
}
