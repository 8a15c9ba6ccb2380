//! Sender in a format with packet numbers: effects of their echoes.

use super::native::{answer_to, connected_to, recv_ack, small};
use super::*;
use crate::wire::Numbering;
use crate::wire::native::{self, SackBlock};
use crate::{LossDetection, RtoPolicy};

fn ack(script: &mut Script, packet_number: u64, ack: u64, blocks: &[SackBlock]) {
    recv_ack(script, &native::Ack { ack, window: 1 << 20, ..answer_to(packet_number) }, blocks);
}

/// Returns a sender that sent ten packets of 100 bytes at 100 ms, which was the RTT. The first of
/// them is transmission `first_number`.
fn flying(first_number: u64, config: SenderConfig) -> Script {
    let mut script = connected_to(config, Params::default());
    script.sender.flight = Flight::new(Numbering::Bytes, first_number);
    script.sender.flight.measure_from(script.now);
    script.write(10 * PAYLOAD);
    assert_eq!(script.datagrams().len(), 10);
    script
}

#[test]
fn sack_block_beyond_snd_nxt_is_dropped() {
    let mut script = flying(0, small());
    script.at(200);
    ack(&mut script, 5, 100, &[SackBlock { start: 300, end: 1001 }]);
    assert_eq!((script.stats().in_flight, script.stats().acks_beyond), (900, 1));
    ack(&mut script, 6, 100, &[SackBlock { start: 300, end: 1000 }]);
    assert_eq!((script.stats().acks_beyond, script.sender.flight.board.sacked()), (1, 700));
}

#[test]
fn echo_beyond_32_bits_names_its_transmission() {
    let first = (1 << 32) - 5;
    let mut script = flying(first, small());
    let newest = |script: &Script| (script.sender.flight.largest_acked, script.stats().min_rtt);
    script.at(160);
    ack(&mut script, first + 2, 300, &[]);
    assert_eq!(newest(&script), (Some(first + 2), Some(ms(60))));
    script.write(PAYLOAD);
    assert_eq!(script.datagrams().len(), 1);
    script.at(210);
    ack(&mut script, first + 10, 1100, &[]);
    assert_eq!(newest(&script), (Some(first + 10), Some(ms(50))));
}

/// Returns `srtt` after an ACK up to `end` that echoes transmission `number` at `at` ms.
fn srtt_after(script: &mut Script, at: u64, number: u64, end: u64) -> Option<Duration> {
    script.at(at);
    ack(script, number, end, &[]);
    script.stats().srtt
}

#[test]
fn lone_retransmission_gives_full_rtt_sample() {
    let config = SenderConfig { recovery: LossDetection::BaseOnly, ..small() };
    // Eight packets are in flight behind the ACK of two, so one of four samples per RTT.
    let mut script = flying(0, config.clone());
    assert_eq!(srtt_after(&mut script, 180, 1, 200), Some(Duration::from_micros(99_375)));
    // The same ACK after a timeout is the only one of its RTT: nothing else is on its way.
    let mut script = flying(0, config);
    script.expire();
    let resent_at = u64::try_from((script.now - script.epoch).as_millis()).unwrap();
    assert_eq!(script.datagrams().len(), 1);
    assert_eq!(srtt_after(&mut script, resent_at + 80, 10, 200), Some(Duration::from_micros(97_500)));
}

#[test]
fn silence_ends_transfer_under_every_rule() {
    let rules = [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];
    for recovery in rules {
        let rto = RtoPolicy::Rfc6298 { min: ms(200), backoff_max: ms(6000) };
        let mut script = flying(0, SenderConfig { recovery, rto, ..small() });
        script.events();
        let mut events = Vec::new();
        while events.is_empty() && script.timer().is_some() {
            script.expire();
            script.datagrams();
            events = script.events();
        }
        assert!(matches!(events[..], [SenderEvent::Failed { phase: Phase::Send, .. }]), "{recovery}");
        let (after, limit) = (script.now - script.epoch, script.sender.config.give_up);
        assert!(after >= limit && after <= 3 * limit, "{recovery}: {after:?}");
    }
}
