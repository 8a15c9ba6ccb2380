//! Sender in a format with packet numbers: effects of their echoes.

use super::*;
use crate::wire::Numbering;
use crate::wire::native::{self, Ack, Params, SackBlock, SynAck};
use crate::{LossDetection, RtoPolicy};

const ID: u64 = 7;

fn syn_ack() -> Vec<u8> {
    let syn_ack = SynAck { window: 1 << 20, params: Params::default() };
    let mut datagram = vec![0; native::syn_ack_len(&syn_ack)];
    native::encode_syn_ack(ID, &syn_ack, &mut datagram);
    datagram
}

fn ack(largest_received: u64, ack: u64, blocks: &[SackBlock]) -> Vec<u8> {
    let ack = Ack {
        largest_received,
        echo_delay_us: 0,
        ack,
        window: 1 << 20,
        packets: 0,
        duplicates: 0,
        ce: 0,
        ect: 0,
        overflow: None,
    };
    let mut datagram = vec![0; native::ack_len(blocks.len())];
    let len = native::encode_ack(ID, &ack, blocks, &mut datagram);
    datagram.truncate(len);
    datagram
}

/// Returns a sender that sent ten packets of 100 bytes at `rtt` ms.
fn flying(config: &SenderConfig, rtt: u64) -> Script {
    flying_from(0, config, rtt)
}

/// Like [`flying`]; the first of the ten is transmission `first_number`.
fn flying_from(first_number: u64, config: &SenderConfig, rtt: u64) -> Script {
    let mut script = Script::new(SenderConfig {
        packet_size: native::DATA_HEADER + PAYLOAD,
        pacing: false,
        ..config.clone()
    });
    script.sender.flight = Flight::new(Numbering::Bytes, first_number);
    assert_eq!(script.datagrams().len(), 1);
    script.at(rtt).recv_bytes(&syn_ack());
    script.write(10 * PAYLOAD);
    assert_eq!(script.datagrams().len(), 10);
    script
}

#[test]
fn sack_block_beyond_snd_nxt_is_dropped() {
    let mut script = flying(&SenderConfig::native(ID), 100);
    script.at(200).recv_bytes(&ack(5, 100, &[SackBlock { start: 300, end: 1001 }]));
    assert_eq!((script.stats().in_flight, script.stats().acks_beyond), (900, 1));
    script.recv_bytes(&ack(6, 100, &[SackBlock { start: 300, end: 1000 }]));
    assert_eq!((script.stats().acks_beyond, script.sender.flight.board.sacked()), (1, 700));
}

#[test]
fn echo_beyond_32_bits_names_its_transmission() {
    let first = (1 << 32) - 5;
    let mut script = flying_from(first, &SenderConfig::native(ID), 100);
    let newest = |script: &Script| (script.sender.flight.largest_acked(), script.stats().min_rtt);
    script.at(160).recv_bytes(&ack(first + 2, 300, &[]));
    assert_eq!(newest(&script), (Some(first + 2), Some(ms(60))));
    script.write(PAYLOAD);
    assert_eq!(script.datagrams().len(), 1);
    script.at(210).recv_bytes(&ack(first + 10, 1100, &[]));
    assert_eq!(newest(&script), (Some(first + 10), Some(ms(50))));
}

#[test]
fn answer_to_first_of_two_syns_is_sampled() {
    let mut script = Script::new(SenderConfig { pacing: false, ..SenderConfig::native(ID) });
    assert_eq!(script.datagrams().len(), 1);
    assert_eq!((script.at(1000).datagrams().len(), script.rto()), (1, ms(1000)));
    // The answer to the first SYN, 10 ms after the second.
    script.at(1010).recv_bytes(&syn_ack());
    assert_eq!((script.stats().min_rtt, script.rto()), (Some(ms(1010)), ms(3030)));
    script.write(10_000);
    script.datagrams();
    script.at(2020).recv_bytes(&ack(0, 1444, &[]));
    assert_eq!((script.stats().min_rtt, script.stats().srtt), (Some(ms(1010)), Some(ms(1010))));
}

#[test]
fn silence_ends_transfer_under_every_rule() {
    let rules = [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];
    for recovery in rules {
        let rto = RtoPolicy::Rfc6298 { min: ms(200), backoff_max: ms(6000) };
        let mut script = flying(&SenderConfig { recovery, rto, ..SenderConfig::native(ID) }, 100);
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
