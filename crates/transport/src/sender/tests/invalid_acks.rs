//! ACKs that no honest receiver sends: they end a native transfer.

use super::native::{MSS, ack, answer_to, connected_to, recv_ack, small};
use super::*;
use crate::wire::{Wire, native as format};

const SEED: u64 = 9;

/// Connected after 100 ms, with a fixed window of ten packets.
fn skipping(skip_seed: Option<u64>) -> Script {
    let config = SenderConfig { congestion: Algorithm::Fixed(10), window: 10, ..small() };
    connected_to(SenderConfig { skip_seed, ..config }, Params::default())
}

/// Returns the packet numbers of the packets sent now.
fn numbers(script: &mut Script) -> Vec<u64> {
    native::leaving(script).into_iter().map(|(_, number, _)| number).collect()
}

/// Acknowledges all data in order, ten packets every millisecond, until a number is skipped.
/// Returns that number and the segments sent so far, of which the last ten are outstanding.
fn up_to_skip(script: &mut Script) -> (u64, u64) {
    for round in 1..100 {
        script.write(10 * PAYLOAD);
        let sent = numbers(script);
        let next = script.sender.flight.next_number();
        let newest = *sent.last().unwrap();
        if next == newest + 2 {
            return (newest + 1, 10 * round);
        }
        script.at(100 + round);
        ack(script, newest, 10 * round, &[]);
    }
    panic!("no number of 1000 is skipped");
}

/// Checks that the stream has ended.
fn assert_ended(script: &mut Script) {
    let failed = SenderEvent::Failed { phase: Phase::Send, error: TransferError::InvalidAcks };
    assert_eq!(script.events(), [failed]);
    assert_eq!((script.timer(), script.datagrams().len()), (None, 0));
}

#[test]
fn ack_of_skipped_number_ends_transfer() {
    let mut script = skipping(Some(SEED));
    let (skipped, segments) = up_to_skip(&mut script);
    script.at(300);
    ack(&mut script, skipped, segments, &[]);
    assert_ended(&mut script);
}

#[test]
fn late_acks_beside_skipped_number_are_valid() {
    let mut script = skipping(Some(SEED));
    let (skipped, segments) = up_to_skip(&mut script);
    script.write(5 * PAYLOAD);
    script.at(300);
    ack(&mut script, skipped - 2, segments - 3, &[(segments - 2, segments - 1)]);
    ack(&mut script, skipped - 1, segments, &[]);
    assert_eq!(numbers(&mut script), (skipped + 1..skipped + 6).collect::<Vec<_>>());
    ack(&mut script, skipped + 1, segments + 1, &[]);
    ack(&mut script, skipped - 3, segments - 3, &[]);
    ack(&mut script, skipped + 5, segments + 5, &[]);
    assert_eq!((script.events(), script.stats().acks_beyond), (vec![], 0));
    assert_eq!(script.stats().bytes_acked, (segments + 5) * MSS);
}

#[test]
fn ack_of_data_newer_than_echo_ends_transfer() {
    for (below, blocks) in [(5, [].as_slice()), (0, [(3, 5)].as_slice())] {
        let mut script = skipping(None);
        script.write(10 * PAYLOAD);
        assert_eq!(numbers(&mut script).len(), 10);
        script.at(200);
        ack(&mut script, 3, below, blocks);
        assert_ended(&mut script);
    }
}

#[test]
fn hundred_acks_of_unsent_packets_end_transfer() {
    let (unsent, beyond) = (answer_to(10), native_ack_beyond());
    let block = format::SackBlock { start: 2 * MSS, end: 11 * MSS };
    for (ack, blocks) in [(unsent, vec![]), (beyond, vec![]), (answer_to(5), vec![block])] {
        let mut script = skipping(None);
        script.write(10 * PAYLOAD);
        assert_eq!(numbers(&mut script).len(), 10);
        script.at(200);
        for _ in 0..99 {
            recv_ack(&mut script, &ack, &blocks);
        }
        assert_eq!((script.events(), script.stats().acks_beyond), (vec![], 99));
        recv_ack(&mut script, &ack, &blocks);
        assert_ended(&mut script);
    }
}

fn native_ack_beyond() -> format::Ack {
    format::Ack { ack: 11 * MSS, window: 1 << 20, ..answer_to(9) }
}

#[test]
fn ended_stream_waits_for_no_pace() {
    let mut script = connected_to(SenderConfig::native(7), Params::default());
    script.write(30_000);
    assert!(!script.datagrams().is_empty());
    assert!(script.sender.blocked.paced_until().is_some(), "the rest of the window waits");
    script.at(58_000);
    script.sender.fail(TransferError::InvalidAcks);
    assert_ended(&mut script);
    assert_eq!(script.sender.poll_timeout(), None);
    assert_eq!((script.at(110_000).datagrams().len(), script.timer()), (0, None));
}

/// A receiver that has seen the first packet of a flight acknowledges all of it, although its
/// second batch is still under way.
#[test]
fn optimistic_receiver_is_caught() {
    for seed in 1..=20 {
        let mut script = skipping(Some(seed));
        let mut segments = 0;
        let caught = (1..400).find(|round| {
            let first = numbers(script.write(5 * PAYLOAD))[0];
            script.at(100 + 10 * round);
            assert_eq!(numbers(script.write(5 * PAYLOAD)).len(), 5);
            segments += 10;
            ack(&mut script, first + 9, segments, &[]);
            script.sender.state != State::Open
        });
        assert!(caught.is_some(), "seed {seed}");
    }
}

#[test]
fn numbers_are_skipped_with_seed_only() {
    let skips = |skip_seed| {
        let mut script = skipping(skip_seed);
        let mut skipped = Vec::new();
        for round in 1..=1000 {
            script.write(10 * PAYLOAD);
            let newest = *numbers(&mut script).last().unwrap();
            let next = script.sender.flight.next_number();
            skipped.extend((newest + 1..next).collect::<Vec<_>>());
            script.at(100 + round);
            ack(&mut script, newest, 10 * round, &[]);
        }
        skipped
    };
    assert_eq!(skips(None), []);
    let (first, second) = (skips(Some(1)), skips(Some(2)));
    assert!((30..=60).contains(&first.len()), "{} of 10,000", first.len());
    assert!(first.iter().filter(|number| second.contains(number)).count() < 10, "another seed, others");
    assert_eq!(first, skips(Some(1)), "the same seed, the same");
}

#[test]
fn classic_sender_skips_nothing() {
    let mut script = Script::connected(SenderConfig { skip_seed: Some(1), ..config(40) }, 100, 40);
    assert_eq!(script.sender.config().wire, Wire::Classic);
    for round in 0..20 {
        script.write(40 * PAYLOAD);
        assert_eq!(script.data().len(), 40);
        script.at(200 + round).recv(&super::ack(40 * (round + 1), 40));
    }
    for _ in 0..200 {
        script.recv(&super::ack(10_000, 1));
    }
    assert_eq!((script.events(), script.stats().acks_beyond), (vec![], 200));
}
