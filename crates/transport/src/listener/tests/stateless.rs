//! Stateless resets of packets of unknown connections.

use super::*;
use crate::wire::native::{self, Close, DATA_HEADER, FIN_LEN, Fin, Params};
use crate::wire::{Codec, Wire};

/// Packet number whose high half a decoder without a connection cannot know.
const TX: u64 = 0xF000_0000;

fn listener() -> Script {
    Script::new(ListenerConfig { secret: Some([1; 32]), ..keeping() })
}

fn codec(connection_id: u64) -> Codec {
    Codec::new(Wire::Native { connection_id }, LINK, Params::default())
}

fn data(connection_id: u64, packet_number: u64) -> Vec<u8> {
    let mut datagram = vec![0; DATA_HEADER];
    let header = DataHeader { packet_number, seq: 5, ack_now: false, ack_every: 0 };
    native::encode_data_header(connection_id, &header, 0, &mut datagram);
    datagram
}

fn fin(connection_id: u64, packet_number: u64) -> Vec<u8> {
    let mut datagram = vec![0; FIN_LEN];
    native::encode_fin(connection_id, &Fin { packet_number, length: 9, crc: 0 }, &mut datagram);
    datagram
}

fn close(connection_id: u64) -> Vec<u8> {
    let close = Close::new(CloseReason::Aborted, "");
    let mut datagram = vec![0; native::close_len(&close)];
    native::encode_close(connection_id, &close, &mut datagram);
    datagram
}

/// Performs the handshake of `peer` with this connection ID.
fn connect(script: &mut Script, peer: char, connection_id: u64) {
    let mut codec = codec(connection_id);
    for _ in 0..2 {
        let mut syn = vec![0; codec.syn_len()];
        codec.encode_syn(&mut syn);
        let replies = script.recv(peer, &syn).datagrams();
        if let Ok(FromReceiver::Retry(cookie)) = codec.decode(&replies[0], 0, 0) {
            assert!(codec.take_cookie(cookie));
        }
    }
    assert!(script.listener.knows(peer));
    script.events();
}

/// Drains the replies; returns the peers and packet numbers of the resets.
fn resets(script: &mut Script, connection_id: u64) -> Vec<(char, u64)> {
    let mut resets = Vec::new();
    while let Some((peer, reply)) = script.listener.poll_reply(script.now) {
        match codec(connection_id).decode(reply, 0, TX) {
            Ok(FromReceiver::Close(Close {
                reason: CloseReason::NoConnection,
                answers: Some(packet_number),
                ..
            })) => {
                resets.push((peer, packet_number));
            }
            other => panic!("{other:?}"),
        }
    }
    resets
}

#[test]
fn unknown_connection_gets_shorter_reset() {
    let mut script = listener();
    for packet in [data(7, TX), fin(7, TX)] {
        script.recv('a', &packet);
        let replies = script.datagrams();
        assert!(replies.len() == 1 && replies[0].len() < packet.len(), "{replies:02x?}");
        let reply = codec(7).decode(&replies[0], 0, TX);
        let reason = CloseReason::NoConnection;
        assert!(
            matches!(reply, Ok(FromReceiver::Close(Close { reason: why, answers: Some(TX), .. })) if why == reason),
            "{reply:?}"
        );
    }
    let stats = script.stats();
    assert_eq!((stats.no_connection, stats.resets, stats.malformed), (2, 2, 0));
    assert_eq!((script.listener.active(), script.events()), (0, vec![]), "no state is kept");
}

#[test]
fn other_packets_get_no_reset() {
    let mut script = listener();
    let reset = Close::to_unknown(TX);
    let mut no_connection = vec![0; native::close_len(&reset)];
    native::encode_close(7, &reset, &mut no_connection);
    let mut wrong_checksum = data(7, TX);
    wrong_checksum[20] ^= 1;
    let mut fin_ack = vec![0; native::FIN_ACK_LEN];
    native::encode_fin_ack(7, &native::FinAck { length: 9, crc: 0 }, &mut fin_ack);
    let ack = native::Ack {
        largest_received: 0,
        echo_delay_us: 0,
        ack: 0,
        window: 9,
        packets: 0,
        duplicates: 0,
        ce: 0,
        ect: 0,
        overflow: None,
    };
    let mut acked = vec![0; native::ack_len(0)];
    let len = native::encode_ack(7, &ack, &[], &mut acked);
    acked.truncate(len);
    for packet in [close(7), no_connection, wrong_checksum, fin_ack, acked, data(7, TX)[..27].to_vec()] {
        assert!(script.is_dropped('a', &packet), "{packet:02x?}");
    }
    // The classic format has no resets.
    for packet in [packet(0, 3, b"x"), packet(0x80, 3, &[]), packet(0x40, 3, &[0; 4])] {
        assert!(script.is_dropped('a', &packet), "{packet:02x?}");
    }
    assert_eq!(script.stats().resets, 0);
}

#[test]
fn known_address_gets_no_reset() {
    let mut script = listener();
    connect(&mut script, 'a', 7);
    assert!(script.is_dropped('a', &data(8, 3)), "from the previous connection or the next one");
    script.syn('b', 0).replies();
    script.events();
    assert!(script.is_dropped('b', &data(8, 3)), "a classic peer");
    assert_eq!((script.stats().no_connection, script.stats().resets), (2, 0));
}

#[test]
fn connection_at_other_address_is_not_reset() {
    let mut script = listener();
    connect(&mut script, 'a', 7);
    assert!(script.is_dropped('b', &data(7, TX)));
    // The known address times out.
    script.at(121_000);
    script.events();
    script.recv('b', &data(7, TX));
    assert_eq!(resets(&mut script, 7), [('b', TX)]);
}

#[test]
fn timed_out_peer_gets_reset() {
    let mut script = listener();
    connect(&mut script, 'a', 7);
    script.recv('a', &data(7, 0)).datagrams();
    script.at(121_000);
    assert_eq!(script.events().last(), Some(&('a', closed(true))));
    script.recv('a', &fin(7, TX));
    assert_eq!(resets(&mut script, 7), [('a', TX)]);
}

#[test]
fn close_precedes_reset_of_removed_peer() {
    let mut script = listener();
    connect(&mut script, 'a', 7);
    script.listener.refuse('a', CloseReason::Storage);
    script.recv('a', &data(7, 0));
    let reasons: Vec<_> = (0..2)
        .map(|_| {
            let (_, reply) = script.listener.poll_reply(script.now).unwrap();
            match codec(7).decode(reply, 0, 0) {
                Ok(FromReceiver::Close(Close { reason, .. })) => reason,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(reasons, [CloseReason::Storage, CloseReason::NoConnection]);
}

#[test]
fn run_of_packets_gets_one_reset() {
    let mut script = listener();
    for n in 0..1000 {
        script.recv('a', &data(7, TX + n));
    }
    assert_eq!(resets(&mut script, 7), [('a', TX + 999)]);
    assert_eq!((script.stats().no_connection, script.stats().resets), (1000, 1));
}

#[test]
fn resets_are_rate_limited() {
    let mut script = listener();
    let mut answers = 0;
    for round in 0..1000_u64 {
        script.at(round);
        for peer in ['a', 'b', 'c', 'd', 'e'] {
            for id in [7, 9] {
                script.recv(peer, &data(id, round));
            }
        }
        while script.listener.poll_reply(script.now).is_some() {
            answers += 1;
        }
    }
    assert!((1900..=2000).contains(&answers), "{answers} answers in the first second");
    let stats = script.stats();
    assert_eq!((stats.no_connection, stats.resets, stats.stateless_dropped), (10_000, answers, 0));
}

#[test]
fn random_unknown_packets_are_not_amplified() {
    let seed = 0x5EED_0007_u64;
    let mut bits = seed;
    let mut random = move |end: u64| {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        (bits >> 11) % end
    };
    let mut script = listener();
    for round in 0..20_000_u64 {
        script.at(round * 2);
        let (id, packet_number) = (random(3), random(1 << 32));
        let mut packet = match random(3) {
            0 => data(id, packet_number),
            1 => fin(id, packet_number),
            _ => close(id),
        };
        if random(2) == 0 {
            let at = usize::try_from(random(packet.len() as u64)).unwrap();
            packet[at] ^= 1 << random(8);
        }
        script.recv('a', &packet);
        let replies = script.datagrams();
        let answered: usize = replies.iter().map(Vec::len).sum();
        assert!(answered < packet.len(), "seed {seed:#x}, round {round}: {packet:02x?}");
    }
    assert_eq!((script.listener.active(), script.events()), (0, vec![]), "seed {seed:#x}");
    assert!(script.stats().resets > 5000, "seed {seed:#x}: {:?}", script.stats());
}
