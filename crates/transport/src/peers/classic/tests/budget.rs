//! Budget of a small socket buffer: windows of one peer, and how active, silent and new peers
//! divide it.

use std::collections::BTreeMap;

use super::*;
use crate::WindowPolicy;
use rdt_testing::random;

/// Packets of full size that fit the buffer.
const ROOM: u32 = 120;
const FIXED: WindowPolicy = WindowPolicy::Fixed(80_000);
const FULL: [u8; 1464] = [7; 1464];

/// A buffer that holds [`ROOM`] packets, accounted as Linux does.
pub(super) const BUFFER: SocketBuffer = SocketBuffer {
    capacity: ROOM as u64 * 2304,
    charge: |payload| if payload > 600 { 2304 } else { 832 },
    useful_bytes: 20 << 20,
    useful_peer_bytes: 144 << 10,
    min_drain_rate: 2_000_000_000,
    min_host_delay: Duration::from_millis(1),
};

fn bounded(window: WindowPolicy) -> Config {
    let receiver = ReceiverConfig { window, ..ReceiverConfig::reference() };
    Config { socket_buffer: Some(BUFFER), ..Config::new(receiver) }
}

/// Returns the window in the ACK of packet `seq`.
fn window(script: &mut Script, peer: char, seq: u32) -> u32 {
    let [(to, FromReceiver::Ack(Ack { window, .. }))] = script.data(peer, seq, &FULL).replies()[..] else {
        panic!("one ACK")
    };
    assert_eq!(to, peer);
    u32::try_from(window).unwrap()
}

#[test]
fn window_grows_up_to_buffer_size() {
    let mut script = Script::connected(bounded(WindowPolicy::Growing { max: 80_000 }), "a");
    for seq in 0..300 {
        assert_eq!(window(&mut script, 'a', seq), (seq + 1).min(120));
    }
    assert_eq!(window(&mut script, 'a', 305), 126, "data beyond a hole has left the socket");
}

#[test]
fn peers_divide_buffer_without_withdrawing_offers() {
    let mut script = Script::new(bounded(FIXED));
    assert_eq!(script.syn('a', 0).replies(), [('a', syn_ack(0, 120))]);
    assert_eq!(
        script.syn('b', 0).replies(),
        [('b', syn_ack(0, 30))],
        "a quarter: a silent peer keeps at most half"
    );
    for seq in 0..30 {
        assert_eq!(window(&mut script, 'a', seq), 119 - seq, "offers are not withdrawn");
    }
    assert_eq!(window(&mut script, 'a', 30), 90, "all but the offer to b, which has sent nothing");
    assert_eq!(window(&mut script, 'b', 0), 30, "nothing is free");
    for seq in 31..61 {
        assert_eq!(window(&mut script, 'a', seq), 120 - seq, "above its share");
    }
    assert_eq!(window(&mut script, 'a', 61), 60);
    assert_eq!(window(&mut script, 'b', 1), 60);
    script.set.close_classic('b');
    assert_eq!(window(&mut script, 'a', 62), 120);
}

#[test]
fn finished_transfer_frees_its_share() {
    let mut script = Script::connected(bounded(FIXED), "ab");
    script.fin('b', 0);
    script.set.confirm_classic('b');
    script.replies();
    for seq in 0..3 {
        assert_eq!(window(&mut script, 'a', seq), 120);
    }
}

#[test]
fn every_peer_is_offered_two_packets() {
    let peers: String = ('a'..='z').collect();
    let config = Config { socket_buffer: Some(SocketBuffer { capacity: 3072, ..BUFFER }), ..bounded(FIXED) };
    let mut script = Script::connected(config, &peers);
    assert!(peers.chars().all(|peer| window(&mut script, peer, 0) == 2));
}

#[test]
fn rtts_limited_by_buffer_are_counted() {
    let mut script = Script::connected(bounded(FIXED), "a");
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

/// Sends packets of `peer` 1 us apart, which is no path delay; returns the window of the last ACK.
fn send(script: &mut Script, peer: char, packets: std::ops::Range<u32>) -> u32 {
    let mut send = |seq| {
        script.now += Duration::from_micros(1);
        window(script, peer, seq)
    };
    packets.map(&mut send).last().expect("the range is not empty")
}

fn many(count: u32) -> impl Iterator<Item = char> {
    (0..count).map(|n| char::from_u32(0x4e00 + n).expect("a letter of a large block"))
}

#[test]
fn forged_syns_reserve_at_most_half() {
    let mut script = Script::connected(bounded(FIXED), "a");
    send(&mut script, 'a', 0..200);
    for peer in many(500) {
        script.syn(peer, 0);
    }
    script.replies();
    assert_eq!(send(&mut script, 'a', 200..400), ROOM / 2);
    script.at(5000);
    assert_eq!(send(&mut script, 'a', 400..600), ROOM / 2, "also after long silence");
}

#[test]
fn silent_peer_keeps_offer_but_not_share() {
    let peers: String = many(12).collect();
    let mut script = Script::connected(bounded(FIXED), &peers);
    for seq in 0..100 {
        for peer in peers.chars() {
            send(&mut script, peer, seq..seq + 1);
        }
    }
    let [busy, others @ ..] = &peers.chars().collect::<Vec<_>>()[..] else {
        unreachable!("there are twelve")
    };
    assert_eq!(send(&mut script, *busy, 100..120), ROOM / 12);
    script.at(90);
    assert_eq!(send(&mut script, *busy, 120..140), ROOM / 12, "90 ms are no silence");
    script.at(400);
    assert_eq!(send(&mut script, *busy, 140..300), ROOM / 2, "eleven hold 110, of which 60 are reserved");
    for peer in &others[6..] {
        script.fin(*peer, 100);
        script.set.confirm_classic(*peer);
    }
    script.replies();
    assert_eq!(send(&mut script, *busy, 300..500), ROOM - 6 * 10, "six hold 60");
}

#[test]
fn new_peer_gets_share_as_others_shrink() {
    let mut script = Script::connected(bounded(FIXED), "a");
    send(&mut script, 'a', 0..200);
    assert_eq!(script.syn('b', 0).replies(), [('b', syn_ack(0, 2))], "the offers to a fill the buffer");
    assert_eq!(send(&mut script, 'b', 0..2), 2);
    assert_eq!(send(&mut script, 'a', 200..220), 100, "offers are not withdrawn");
    assert_eq!(send(&mut script, 'b', 2..3), 20);
    assert_eq!(send(&mut script, 'a', 220..300), 60);
    assert_eq!(send(&mut script, 'b', 3..4), 60);
    script.at(1000);
    assert_eq!(send(&mut script, 'a', 300..400), 60);
    assert_eq!(send(&mut script, 'b', 4..14), 60);
    script.at(2000);
    assert_eq!(send(&mut script, 'b', 14..30), 60);
    assert_eq!(send(&mut script, 'a', 400..500), 60);
}

#[test]
fn large_buffer_is_limited_to_useful_bytes() {
    let config =
        Config { socket_buffer: Some(SocketBuffer { capacity: 3 << 28, ..BUFFER }), ..bounded(FIXED) };
    let mut script = Script::connected(config, "a");
    assert_eq!(send(&mut script, 'a', 0..5000), (20 << 20) / 2304);
    let mut script = Script::connected(config, "abcd");
    let windows = (0..7000).map(|seq| "abcd".chars().map(|peer| window(&mut script, peer, seq)).sum::<u32>());
    assert!(windows.last().is_some_and(|all| (9090..=9102).contains(&all)));
    assert_eq!(script.stats().receivers.socket_limited, 0, "a larger buffer would not help");
    let mut script = Script::connected(config, &many(500).collect::<String>());
    for peer in many(500) {
        send(&mut script, peer, 0..1);
    }
    let mut late = many(500).skip(200);
    assert!(late.all(|peer| send(&mut script, peer, 1..70) == 64), "each peer has a full batch");
}

/// A peer of the random test: its next packet, the right edge of its window, and the time of its
/// newest packet in ms.
#[derive(Clone, Copy)]
struct Peer {
    next: u32,
    edge: u32,
    sent: Option<u64>,
    /// True if the peer never sends data.
    is_forged: bool,
}

/// Returns the packets offered to all peers and not sent, and the upper limit of that number at
/// `time`.
fn offered(peers: &BTreeMap<char, Peer>, time: u64) -> (u32, u32) {
    let held = |peer: &Peer| peer.edge - peer.next;
    let is_quiet = |peer: &&Peer| peer.sent.is_none_or(|sent| sent + 100 <= time);
    let quiet: u32 = peers.values().filter(is_quiet).map(held).sum();
    let least = 2 * u32::try_from(peers.len()).expect("a few");
    (peers.values().map(held).sum(), ROOM + least + quiet.saturating_sub(ROOM / 2))
}

fn run(seed: u64) {
    let mut random = random(seed);
    let mut script = Script::new(bounded(FIXED));
    let (mut peers, mut time) = (BTreeMap::<char, Peer>::new(), 0);
    for step in 0..1000 {
        time += 1 + if random(10) == 0 { random(400) } else { random(2) };
        script.at(time);
        let name = char::from(b'a' + u8::try_from(random(12)).unwrap());
        let before = offered(&peers, time).0;
        match peers.get_mut(&name) {
            None => {
                let [(_, FromReceiver::SynAck { window, .. })] = script.syn(name, 0).replies()[..] else {
                    panic!("one answer")
                };
                let window = u32::try_from(window).unwrap();
                let mut peer = Peer { next: 0, edge: window, sent: None, is_forged: random(3) == 0 };
                if !peer.is_forged {
                    // Immediately, so that the RTT is short and no path allowance is added.
                    peer = Peer { next: 1, edge: window.max(1 + send(&mut script, name, 0..1)), ..peer };
                    peer.sent = Some(time);
                }
                peers.insert(name, peer);
            }
            Some(_) if random(40) == 0 => {
                script.set.close_classic(name);
                peers.remove(&name);
            }
            Some(peer) if peer.is_forged => {}
            Some(peer) => {
                // Coalesced, as from a socket, sometimes with a hole.
                let first = peer.next + u32::try_from(random(20) / 19).unwrap();
                let most = u64::from(peer.edge.saturating_sub(first));
                let end = first + u32::try_from(random(most + 1)).unwrap();
                if first < end {
                    let mut bytes = (first..end).flat_map(|seq| packet(0, seq, &FULL)).collect::<Vec<_>>();
                    script.set.handle_datagrams(script.now, name, Ecn::NotEct, &mut bytes, 8 + FULL.len());
                    *peer = Peer { next: end, sent: Some(time), ..*peer };
                }
                for (to, reply) in script.replies() {
                    let FromReceiver::Ack(Ack { ack, window, .. }) = reply else {
                        panic!("{reply:?} to {to}")
                    };
                    peer.edge = peer.edge.max(u32::try_from(ack + window).unwrap());
                }
            }
        }
        let (after, most) = offered(&peers, time);
        // When many silent peers resume, the sum may exceed the limit, but does not grow.
        let least = if after > before + 2 { most } else { u32::MAX };
        assert!(after <= least, "step {step}: {before}, now {after} of {most} packets");
    }
    script.at(time + 26 * SECOND);
    assert_eq!(script.set.classic().active(), 0);
    script.events();
    assert_eq!(script.syn('A', 0).replies(), [('A', syn_ack(0, ROOM))], "removed peers hold nothing");
}

#[test]
fn random_offers_fit_buffer() {
    for seed in 0..200 {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "the failing seed is {seed}");
    }
}
