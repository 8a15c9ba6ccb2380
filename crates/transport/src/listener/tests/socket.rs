//! What peers may have on their way to a socket whose buffer is small.

use super::*;
use crate::WindowPolicy;

/// Three quarters of it have room for 120 packets of full size, each of which is charged 2304 bytes.
pub(super) const BUFFER: u64 = 120 * 2304 / 3 * 4;
pub(super) const FULL: [u8; 1464] = [7; 1464];

pub(super) fn bounded(window: WindowPolicy) -> ListenerConfig {
    let receiver = ReceiverConfig { window, ..ReceiverConfig::reference() };
    ListenerConfig { socket_buffer: BUFFER, ..ListenerConfig::new(receiver) }
}

/// The window that `peer` is told for packet `seq`.
pub(super) fn window(script: &mut Script, peer: char, seq: u32) -> u32 {
    let [(to, FromReceiver::Ack { wnd, .. })] = script.data(peer, seq, &FULL).replies()[..] else {
        panic!("one ACK")
    };
    assert_eq!(to, peer);
    wnd
}

#[test]
fn a_window_grows_up_to_what_the_buffer_has_room_for() {
    let mut script = Script::connected(bounded(WindowPolicy::Growing { max: 80_000 }), "a");
    for seq in 0..300 {
        assert_eq!(window(&mut script, 'a', seq), (seq + 1).min(120));
    }
    assert_eq!(window(&mut script, 'a', 305), 126, "what came beyond a hole has left the socket");
}

#[test]
fn peers_divide_the_buffer_and_no_right_edge_moves_back() {
    let mut script = Script::new(bounded(WindowPolicy::Fixed(80_000)));
    assert_eq!(script.syn('a', 0).replies(), [('a', syn_ack(0, 120))]);
    assert_eq!(script.syn('b', 0).replies(), [('b', syn_ack(0, 30))], "half of the half that a may not keep");
    for seq in 0..30 {
        assert_eq!(window(&mut script, 'a', seq), 119 - seq, "as far as was offered");
    }
    assert_eq!(window(&mut script, 'a', 30), 90, "what b was not offered, which has not sent");
    assert_eq!(window(&mut script, 'b', 0), 30, "there is no more");
    for seq in 31..61 {
        assert_eq!(window(&mut script, 'a', seq), 120 - seq, "it has more than its part");
    }
    assert_eq!(window(&mut script, 'a', 61), 60);
    assert_eq!(window(&mut script, 'b', 1), 60);
    script.listener.close('b');
    assert_eq!(window(&mut script, 'a', 62), 120);
}

#[test]
fn a_transfer_that_is_finished_leaves_its_part_to_others() {
    let mut script = Script::connected(bounded(WindowPolicy::Fixed(80_000)), "ab");
    script.fin('b', 0);
    script.listener.confirm('b');
    script.replies();
    for seq in 0..3 {
        assert_eq!(window(&mut script, 'a', seq), 120);
    }
}

#[test]
fn however_many_peers_there_are_two_packets_are_offered() {
    let peers: String = ('a'..='z').collect();
    let config = ListenerConfig { socket_buffer: 4096, ..bounded(WindowPolicy::Fixed(80_000)) };
    let mut script = Script::connected(config, &peers);
    assert!(peers.chars().all(|peer| window(&mut script, peer, 0) == 2));
}

#[test]
fn a_sender_that_waits_for_the_buffer_is_counted() {
    let mut script = Script::connected(bounded(WindowPolicy::Fixed(80_000)), "a");
    for seq in 0..1200 {
        if seq % 120 == 0 {
            // A window a millisecond.
            script.at(u64::from(seq / 120) + 1);
        }
        script.data('a', seq, &FULL);
    }
    let limited = script.stats().receivers.socket_limited;
    assert!((5..=10).contains(&limited), "{limited} of ten round trips");
}
