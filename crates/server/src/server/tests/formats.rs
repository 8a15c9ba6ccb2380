//! Native connections beside classic peers.

use std::net::Ipv4Addr;

use rdt_testing::packets;
use rdt_transport::MAX_HALF_OPEN_PEERS;

use super::*;

#[test]
fn both_formats_count_towards_one_limit() {
    let mut world = World::with(true, None, 1000, |config| config.max_peers = 1);
    world.is_storing = false;
    assert!(world.run_until(Duration::from_secs(5), |world| world.server.active() == 1));
    let mut second = World::new(false, None, 1000);
    second.server = world.server;
    second.run(Duration::from_secs(5));
    assert_eq!(second.server.active(), 1);
    assert!(second.server.stats().classic.refused > 0);
}

#[test]
fn host_has_its_share_over_both_formats() {
    for is_native in [false, true] {
        let mut world = World::with(is_native, None, 1000, |config| {
            (config.max_peers, config.max_peers_per_source) = (8, Some(4));
        });
        world.is_storing = false;
        for open in 1..=4 {
            if open > 1 {
                world = world.next_client(is_native);
            }
            assert!(world.run_until(Duration::from_secs(5), |world| world.server.active() == open));
        }
        let mut other = world.next_client(!is_native);
        other.run(Duration::from_secs(5));
        assert_eq!(other.server.active(), 4);
        if is_native {
            assert!(other.server.stats().classic.refused > 0);
        } else {
            assert_eq!(other.closed(), Some(Closed::Refused(RefuseReason::Busy)));
        }
    }
}

#[test]
fn finished_classic_sender_leaves_its_place() {
    let mut world = World::with(false, None, 1000, |config| config.max_peers = 1);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_delivered));
    let mut next = world.next_client(true);
    assert!(next.run_until(Duration::from_secs(5), |world| world.is_delivered), "{:?}", next.closed());
    assert_eq!(next.server.classic().active(), 1, "the finished one repeats its FIN-ACK");
}

#[test]
fn server_with_one_place_repeats_lost_fin_ack() {
    let mut first = World::with(true, None, 1000, |config| config.max_peers = 1);
    let is_stored = |world: &World| matches!(world.events.last(), Some(ReceiverEvent::Finished { .. }));
    assert!(first.run_until(Duration::from_secs(5), is_stored));
    // The FIN-ACK is lost.
    first.in_flight.clear();
    let mut second = first.next_client(true);
    assert!(second.run_until(Duration::from_millis(100), |world| world.is_delivered));
    second.run(Duration::from_millis(10));
    std::mem::swap(&mut first.server, &mut second.server);
    first.now = second.now;
    assert!(first.run_until(Duration::from_secs(20), |world| world.is_delivered), "{:?}", first.closed());
}

/// Returns the answers of the server to a datagram.
fn answers(server: &mut Server<SocketAddr>, now: Instant, from: &str, datagram: &mut [u8]) -> Vec<Vec<u8>> {
    server.handle_datagram(now, address(from), Ecn::NotEct, datagram);
    let mut out = TransmitBuf::new(16);
    server.poll_transmit(now, &mut out);
    out.datagrams().map(<[u8]>::to_vec).collect()
}

#[test]
fn other_version_is_told_of_ours() {
    for classic in [false, true] {
        let mut world = World::with(true, None, 1000, |config| config.classic = classic);
        world.turn();
        let (_, (_, _, _, mut syn)) = world.in_flight.pop_first().expect("a SYN");
        syn[0] = 0xD7;
        packets::set_check(&mut syn);
        let answers = answers(&mut world.server, world.now, CLIENT, &mut syn);
        let id = packets::connection_id(&syn).unwrap();
        assert_eq!(answers, [packets::native(10, 1 << 2, id, &[])]);
        assert_eq!(world.server.stats().connections.other_versions, 1);
    }
}

#[test]
fn classic_is_ignored_without_permission() {
    let mut world = World::with(true, None, 10, |config| config.classic = false);
    let mut syn = packets::classic_syn(0.1, 1e6, [0.0; 2], 10);
    assert_eq!(answers(&mut world.server, world.now, "192.0.2.9:9", &mut syn), [[0; 0]; 0]);
    let mut two = syn.repeat(2);
    world.server.handle_datagrams(world.now, address(CLIENT), Ecn::NotEct, &mut two, syn.len());
    assert_eq!((world.server.stats().classic_dropped, world.server.unencrypted()), (3, 3));
    assert_eq!(world.server.classic().active(), 0);
}

#[test]
fn classic_flood_leaves_native_opens() {
    for link in [LinkMode::None, LinkMode::Emulated { seed: 1 }] {
        let mut world = World::with(true, None, 1000, |config| config.link = link);
        let mut source = 0;
        for open in 1..=20 {
            for _ in 0..MAX_HALF_OPEN_PEERS / 8 {
                source += 1;
                let from = SocketAddr::from((Ipv4Addr::from_bits(source), 7));
                let mut syn = packets::classic_syn(0.1, 1e6, [0.0; 2], 10);
                world.server.handle_datagram(world.now, from, Ecn::NotEct, &mut syn);
            }
            let is_open = world.run_until(Duration::from_secs(1), |world| world.is_delivered);
            assert!(is_open, "{link:?}, connection {open}: {:?}", world.closed());
            world = world.next_client(true);
        }
        let stats = world.server.stats();
        let dropped = u64::from(source) - MAX_HALF_OPEN_PEERS as u64;
        assert_eq!((stats.classic.admitted, stats.connections.accepted), (0, 20), "{link:?}");
        assert_eq!(stats.classic.half_open_dropped, dropped, "{link:?}");
    }
}

/// Links without memory hold no packet.
#[test]
fn connection_without_link_bypasses_full_links() {
    let mut world = World::with(true, None, 1000, |config| config.link_memory_limit = 0);
    let mut syn = packets::classic_syn(0.1, 1e6, [0.0; 2], 10);
    assert_eq!(answers(&mut world.server, world.now, "192.0.2.9:9", &mut syn), [[0; 0]; 0]);
    assert!(world.run_until(Duration::from_secs(1), |world| world.is_delivered));
    assert_eq!(world.server.links.paths.len(), 1, "that of the classic peer");
}

#[test]
fn coalesced_datagrams_of_both_formats_are_told_apart() {
    let mut world = World::with(true, None, 3000, |config| config.link = LinkMode::None);
    world.is_storing = false;
    world.run_until(Duration::from_secs(5), |world| world.server.active() == 1);
    // Of one address, and of one length: an unknown native packet and a classic one.
    let mut bytes = [0; 128];
    bytes[..64].copy_from_slice(&packets::native(4, 0, 1, &[0; 48]));
    (bytes[64], bytes[65]) = (packets::SYN, 0xAA);
    world.server.handle_datagrams(world.now, address(CLIENT), Ecn::NotEct, &mut bytes, 64);
    let stats = world.server.stats();
    assert_eq!((stats.connections.unknown, stats.classic.malformed), (1, 1));
}
