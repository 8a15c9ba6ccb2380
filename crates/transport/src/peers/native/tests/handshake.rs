//! Handshakes on a network that loses, duplicates and delays single packets.

use std::time::Duration;

use super::*;
use crate::wire::native::{RETRY_LEN, encode_retry};

const REQUEST: &[u8] = b"request";
const REPLY: &[u8] = b"reply";

/// Number of packets at the start of a connection to which tests do something.
const POSITIONS: usize = 12;

/// All handshakes, without and with a RETRY.
fn handshakes() -> impl Iterator<Item = ((Pattern, bool), bool)> {
    [false, true].into_iter().flat_map(|is_retried| HANDSHAKES.map(|handshake| (handshake, is_retried)))
}

/// Runs one connection and returns the network afterwards.
fn exchange(
    seed: u64,
    ((pattern, has_secret), is_retried): ((Pattern, bool), bool),
    rule: impl Fn(usize) -> Fate + 'static,
) -> Network {
    let mut network = client_and_server(seed);
    if is_retried {
        network.require_proofs(SERVER);
    }
    network.rule = Box::new(move |index, _| rule(index));
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    let id = network.connect(CLIENT, SERVER, initiator(pattern, has_secret), REQUEST);
    network.run(Duration::from_secs(60));

    let case = format!("seed {seed} {pattern:?} secret {has_secret} retried {is_retried}");
    let ours = &network.hosts[CLIENT].streams[&id];
    assert_eq!((&*ours.incoming, &ours.closed), (REPLY, &Some(Closed::Finished)), "{case}");
    assert_eq!(ours.peer, Some(key(SERVER_KEY).public()), "{case}");
    assert_eq!(network.hosts[SERVER].streams.len(), 1, "{case}");
    let theirs = network.hosts[SERVER].streams.values().next().unwrap();
    assert_eq!((&*theirs.incoming, &theirs.closed), (REQUEST, &Some(Closed::Finished)), "{case}");
    assert_eq!(theirs.peer, (pattern != Pattern::Nk).then(|| key(CLIENT_KEY).public()), "{case}");
    for host in &network.hosts {
        assert!(host.set.is_empty(), "{case}: {:?}", host.set);
        assert_eq!(
            (host.set.memory(), host.set.half_open(), host.set.poll_timeout()),
            (0, 0, host.set.association_deadline()),
            "{case}"
        );
    }
    network
}

#[test]
fn every_pattern_connects() {
    for handshake in handshakes() {
        let network = exchange(1, handshake, |_| Fate::Deliver);
        let (stats, retries) = (network.hosts[SERVER].set.stats(), u64::from(handshake.1));
        assert_eq!((stats.syns, stats.retries), (1 + retries, retries));
        assert_eq!((stats.accepted, stats.unauthentic), (1, 0));
        assert_eq!((stats.malformed, stats.unknown, stats.refused), (0, 0, 0));
        assert_eq!(network.hosts[CLIENT].set.stats().unauthentic, 0);
    }
}

#[test]
fn single_lost_packet_only_delays() {
    for handshake in handshakes() {
        for lost in 0..POSITIONS {
            exchange(2, handshake, move |index| if index == lost { Fate::Drop } else { Fate::Deliver });
        }
    }
}

#[test]
fn single_duplicate_changes_nothing() {
    for handshake in handshakes() {
        for copied in 0..POSITIONS {
            let rule = move |index| if index == copied { Fate::Duplicate } else { Fate::Deliver };
            let network = exchange(3, handshake, rule);
            assert_eq!(network.hosts[SERVER].set.stats().accepted, 1);
        }
    }
}

#[test]
fn single_late_packet_changes_nothing() {
    for handshake in handshakes() {
        for late in 0..POSITIONS {
            for ms in [15, 3000] {
                let delay = Fate::Delay(Duration::from_millis(ms));
                exchange(4, handshake, move |index| if index == late { delay } else { Fate::Deliver });
            }
        }
    }
}

#[test]
fn lossy_network_connects_all() {
    for seed in 0..40 {
        let handshake = handshakes().nth(usize::try_from(seed).unwrap() % (2 * HANDSHAKES.len())).unwrap();
        exchange(seed, handshake, move |index| {
            let mut numbers = rdt_testing::Numbers::new(seed * 1000 + index as u64);
            match numbers.below(10) {
                0 => Fate::Drop,
                1 | 2 => Fate::Duplicate,
                3 => Fate::Delay(Duration::from_millis(numbers.below(200))),
                _ => Fate::Deliver,
            }
        });
    }
}

#[test]
fn resumption_cookie_saves_retry_once() {
    let mut network = client_and_server(5);
    network.require_proofs(SERVER);
    let first = network.connect(CLIENT, SERVER, initiator(Pattern::Xx, false), REQUEST);
    let end = network.now + Duration::from_secs(1);
    network.run_until(end, |network| network.hosts[CLIENT].streams[&first].is_connected);
    let resumption = network.hosts[CLIENT].streams[&first].resumption;
    assert!(resumption.is_some());
    for (round, retries) in [(1, 1), (2, 2)] {
        // With other keys, so outside of the association.
        let keys = InitiatorConfig { resumption, ..initiator(Pattern::Nk, round == 2) };
        let id = network.connect(CLIENT, SERVER, keys, REQUEST);
        let end = network.now + Duration::from_secs(5);
        assert!(network.run_until(end, |network| network.hosts[CLIENT].streams[&id].is_connected));
        let stats = network.hosts[SERVER].set.stats();
        assert_eq!((stats.retries, stats.resumed), (retries, 1), "round {round}");
    }
    network.run(Duration::from_secs(60));
    assert_eq!(network.hosts[SERVER].set.stats().accepted, 3);
}

#[test]
fn repeated_syn_gets_stored_syn_ack() {
    let mut network = client_and_server(6);
    network.rule = Box::new(|_, datagram| if datagram.bytes[1] == 3 { Fate::Drop } else { Fate::Deliver });
    network.connect(CLIENT, SERVER, initiator(Pattern::Xx, false), REQUEST);
    network.run(Duration::from_secs(10));
    let answers: Vec<_> = network.log.iter().filter(|d| d.bytes[1] == 3).collect();
    assert!(answers.len() > 2);
    for (n, answer) in (1..).zip(&answers) {
        assert_eq!((answer.bytes[16], &answer.bytes[24..]), (n, &answers[0].bytes[24..]));
    }
    assert_eq!(network.hosts[SERVER].set.half_open(), 1);
}

#[test]
fn silent_half_open_connection_expires() {
    let mut network = client_and_server(7);
    let is_auth_or_sealed = |kind| matches!(kind, 4..=12);
    network.rule =
        Box::new(move |_, d| if is_auth_or_sealed(d.bytes[1]) { Fate::Drop } else { Fate::Deliver });
    for handshake in HANDSHAKES {
        network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
    }
    let end = network.now + Duration::from_secs(9);
    network.run_until(end, |_| false);
    assert_eq!(network.hosts[SERVER].set.half_open(), HANDSHAKES.len());
    network.run(Duration::from_secs(120));
    assert_eq!((network.hosts[SERVER].set.half_open(), network.hosts[SERVER].streams.len()), (0, 0));
    assert_eq!(network.hosts[SERVER].set.stats().half_open_expired, HANDSHAKES.len() as u64);
    assert!(network.hosts[SERVER].set.poll_timeout().is_none());
}

/// The SYNs with a cookie are lost until it has expired.
#[test]
fn expired_cookie_gets_another_one() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server(10);
        network.require_proofs(SERVER);
        let start = network.now;
        network.hosts[SERVER].reply = Some(REPLY.to_vec());
        let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
        network.rule =
            Box::new(|_, d| if d.bytes[1] == 1 && d.bytes[16] > 0 { Fate::Drop } else { Fate::Deliver });
        network.run_until(start + Duration::from_secs(40), |_| false);
        network.rule = Box::new(|_, _| Fate::Deliver);
        network.run(Duration::from_secs(20));
        assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished), "{handshake:?}");
        assert_eq!(network.hosts[SERVER].set.stats().retries, 2);
    }
}

/// AUTH and the first sealed packet come from another port than the SYN.
#[test]
fn rebinding_during_handshake_connects() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server(11);
        network.hosts[SERVER].reply = Some(REPLY.to_vec());
        let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
        let end = network.now + Duration::from_secs(5);
        assert!(network.run_until(end, |network| network.log.last().is_some_and(|d| d.bytes[1] == 3)));
        let old = network.hosts[CLIENT].address;
        let new = "192.0.2.1:1001".parse().unwrap();
        network.rule = Box::new(move |_, datagram| {
            if datagram.from == old {
                datagram.from = new;
            }
            if datagram.to == old {
                return Fate::Drop;
            }
            if datagram.to == new {
                datagram.to = old;
            }
            Fate::Deliver
        });
        network.run(Duration::from_secs(60));
        assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished), "{handshake:?}");
        assert_eq!(network.hosts[SERVER].set.stats().moved, 1);
    }
}

#[test]
fn set_without_listen_answers_no_syn() {
    let mut network = client_and_server(8);
    network.hosts[SERVER].set.stop_listening();
    network.connect(CLIENT, SERVER, initiator(Pattern::Xx, false), REQUEST);
    network.run(Duration::from_secs(5));
    let (to_client, _) = network.bytes_to_and_from(network.hosts[CLIENT].address);
    assert_eq!(to_client, 0);
}

/// A host that is known: the lost SYN is repeated after three round trips instead of 1 s.
#[test]
fn lost_syn_to_known_host_is_repeated_after_three_rtts() {
    for is_known in [false, true] {
        let mut network = client_and_server(13);
        if is_known {
            let first = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), REQUEST);
            network.run(Duration::from_secs(1));
            assert!(network.hosts[CLIENT].streams[&first].is_connected);
        }
        let mut is_lost = false;
        network.rule = Box::new(move |_, datagram| {
            let loses = datagram.bytes[1] == 1 && !std::mem::replace(&mut is_lost, true);
            if loses { Fate::Drop } else { Fate::Deliver }
        });
        let start = network.now;
        // With other keys, so outside of the association.
        let id = network.connect(CLIENT, SERVER, initiator(Pattern::Nk, false), REQUEST);
        let end = start + Duration::from_secs(5);
        assert!(network.run_until(end, |network| network.hosts[CLIENT].streams[&id].is_connected));
        let (took, rtt) = (network.now - start, 2 * network::DELAY);
        let expected = if is_known { 4 * rtt } else { Duration::from_secs(1) + rtt };
        assert!((expected..expected + Duration::from_millis(3)).contains(&took), "{is_known}: {took:?}");
    }
}

/// The responder forgets the handshake after its SYN-ACK because its table is full. After a restart
/// it does not know whether data had arrived, so the connection ends.
#[test]
fn forgotten_handshake_starts_again() {
    for handshake in HANDSHAKES {
        for is_restarted in [false, true] {
            let mut network = client_and_server(12);
            network.hosts[SERVER].reply = Some(REPLY.to_vec());
            let request = vec![7; 100_000];
            let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), &request);
            let (start, end) = (network.now, network.now + Duration::from_secs(5));
            assert!(network.run_until(end, |network| network.log.last().is_some_and(|d| d.bytes[1] == 3)));
            if is_restarted {
                network.restart(SERVER);
            }
            network.hosts[SERVER].set.stop_listening();
            network.hosts[SERVER].set.listen(responder());
            network.run(Duration::from_secs(60));
            let (ours, case) = (&network.hosts[CLIENT].streams[&id], format!("{handshake:?} {is_restarted}"));
            let stats = network.hosts[CLIENT].set.stats();
            assert_eq!(stats.resets_received, 1, "{case}: {stats:?}");
            if is_restarted {
                assert_eq!(ours.closed, Some(Closed::Reset), "{case}");
                continue;
            }
            assert_eq!((&*ours.incoming, &ours.closed), (REPLY, &Some(Closed::Finished)), "{case}");
            let theirs: Vec<_> = network.hosts[SERVER].streams.values().collect();
            assert_eq!(theirs.len(), 1, "{case}");
            assert_eq!(
                (&theirs[0].incoming, &theirs[0].closed),
                (&request, &Some(Closed::Finished)),
                "{case}"
            );
            // The second SYN leaves 1 s after the first.
            let is_syn = |(datagram, _): &(&network::Datagram, &Instant)| datagram.bytes[1] == 1;
            let syns: Vec<_> = network.log.iter().zip(&network.sent_at).filter(is_syn).collect();
            assert_eq!(syns.len(), 2, "{case}");
            assert_eq!(*syns[1].1 - start, Duration::from_secs(1), "{case}");
        }
    }
}

/// Each handshake is forgotten, three times in a row. The application writes and ends its stream
/// meanwhile.
#[test]
fn handshake_starts_again_as_often_as_it_is_forgotten() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server(14);
        network.hosts[SERVER].reply = Some(REPLY.to_vec());
        let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
        for _ in 0..3 {
            let (end, before) = (network.now + Duration::from_secs(5), network.log.len());
            let is_syn_ack = |network: &Network| network.log[before..].iter().any(|d| d.bytes[1] == 3);
            assert!(network.run_until(end, is_syn_ack), "{handshake:?}");
            network.hosts[SERVER].set.stop_listening();
            network.hosts[SERVER].set.listen(responder());
            network.run(Duration::from_millis(100));
        }
        let stream = network.hosts[CLIENT].streams.get_mut(&id).unwrap();
        stream.outgoing.extend_from_slice(b" and more");
        stream.finish = true;
        network.run(Duration::from_secs(60));
        assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished), "{handshake:?}");
        let theirs: Vec<_> = network.hosts[SERVER].streams.values().collect();
        assert_eq!((theirs.len(), &*theirs[0].incoming), (1, &b"request and more"[..]), "{handshake:?}");
        assert_eq!(network.hosts[CLIENT].set.stats().resets_received, 3, "{handshake:?}");
    }
}

/// The responder has delivered a request, and its answers are lost. After its restart the
/// initiator does not send the request again.
#[test]
fn delivered_request_is_not_sent_again() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server(15);
        let server = network.hosts[SERVER].address;
        network.rule = Box::new(move |_, datagram| {
            let is_lost = datagram.from == server && datagram.bytes[1] != 3;
            if is_lost { Fate::Drop } else { Fate::Deliver }
        });
        let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
        network.run(Duration::from_secs(2));
        network.restart(SERVER);
        network.hosts[SERVER].set.listen(responder());
        network.rule = Box::new(|_, _| Fate::Deliver);
        network.run(Duration::from_secs(60));
        assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Reset), "{handshake:?}");
        assert!(network.hosts[SERVER].streams.is_empty(), "{handshake:?}");
    }
}

#[test]
fn many_connections_take_turns() {
    const CONNECTIONS: usize = 50;
    const BYTES: usize = 200_000;
    let mut network = client_and_server(9);
    network.hosts[SERVER].reply = Some(Vec::new());
    let ids: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), &vec![n.to_le_bytes()[0]; BYTES])
        })
        .collect();
    network.run(Duration::from_secs(100));
    for id in ids {
        assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished));
    }
    let incoming: Vec<_> = network.hosts[SERVER].streams.values().map(|stream| &stream.incoming).collect();
    assert!(incoming.iter().all(|bytes| bytes.len() == BYTES && bytes.iter().all(|byte| *byte == bytes[0])));
}

#[test]
fn ended_connection_leaves_with_output_before_timer() {
    let mut network = client_and_server(7);
    network.hosts[SERVER].reply = Some(REPLY.to_vec());
    network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), REQUEST);
    let end = network.now + Duration::from_secs(60);
    let is_closed = |host: &network::Host| host.streams.values().any(|stream| stream.closed.is_some());
    assert!(network.run_until(end, |network| network.hosts.iter().all(is_closed)));
    let mut batch = TransmitBuf::new(16);
    for host in &mut network.hosts {
        for _ in 0..100 {
            let Some(deadline) = host.set.poll_timeout() else { break };
            host.set.handle_timeout(deadline);
            batch.clear();
            let before = deadline.checked_sub(Duration::from_micros(1)).unwrap();
            while host.set.poll_transmit(before, &mut batch).is_some() {
                batch.clear();
            }
        }
        assert!(host.set.is_empty(), "{:?}", host.set);
    }
}

/// The number of a SYN names it among those of all cookies.
#[test]
fn later_retry_leaves_rtt_of_earlier_syn() {
    let mut network = client_and_server(1);
    network.require_proofs(SERVER);
    network.hosts[SERVER].reply = Some(Vec::new());
    // SYN, RETRY, SYN, and its SYN-ACK, which is late. The next SYN is lost.
    let late = Duration::from_millis(1100);
    network.rule = Box::new(move |index, _| match index {
        3 => Fate::Delay(late),
        4 => Fate::Drop,
        _ => Fate::Deliver,
    });
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), REQUEST);
    network.run(Duration::from_millis(900));
    let mut bytes = vec![0; RETRY_LEN];
    encode_retry(id.0, &[3; 32], &mut bytes);
    let (from, to) = (network.hosts[SERVER].address, network.hosts[CLIENT].address);
    network.inject(network::Datagram { from, to, bytes });
    // The SYN with the other cookie leaves 0.1 s before the SYN-ACK arrives.
    let sample = |network: &Network| network.hosts[CLIENT].set.get(id)?.stats().sender.handshake_rtt;
    let end = network.now + Duration::from_secs(1);
    assert!(network.run_until(end, |network| sample(network).is_some()));
    assert_eq!(sample(&network), Some(2 * network::DELAY + late));
}

/// Without a loss, the round trip is measured. A repeated packet measures none, so the path does
/// not look long and the first window stays that of a short one.
#[test]
fn lost_handshake_packet_measures_no_rtt() {
    const SYN_ACK: u8 = 3;
    const AUTH: u8 = 11;
    const PATH: u8 = 12;
    for (pattern, lost) in [
        (Pattern::Xx, None),
        (Pattern::Ik, None),
        (Pattern::Xx, Some(SYN_ACK)),
        (Pattern::Ik, Some(SYN_ACK)),
        (Pattern::Xx, Some(AUTH)),
        (Pattern::Ik, Some(PATH)),
    ] {
        let mut network = client_and_server(5);
        let mut left = lost;
        network.rule = Box::new(move |_, datagram| {
            let is_lost = left.take_if(|kind| *kind == datagram.bytes[1]).is_some();
            if is_lost { Fate::Drop } else { Fate::Deliver }
        });
        let id = network.connect(CLIENT, SERVER, initiator(pattern, false), b"");
        // The client sends nothing but its proof.
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
        let end = network.now + Duration::from_secs(10);
        assert!(network.run_until(end, |network| !network.hosts[SERVER].streams.is_empty()));
        let host = &network.hosts[SERVER];
        let theirs = *host.streams.keys().next().unwrap();
        let stats = host.set.get(theirs).unwrap().stats().sender;
        let rtt = lost.is_none().then_some(2 * network::DELAY);
        assert_eq!(stats.srtt, rtt, "{pattern:?} {lost:?}");
        assert!(stats.cwnd <= 10 * 1472, "{pattern:?} {lost:?}: {} bytes", stats.cwnd);
    }
}
