//! The FIN that is sent with the last data.

use super::*;
use crate::wire::native::{self, FIN_ACK_LEN, FinAck, Params, SackBlock, SynAck};
use crate::wire::{FromSender, Near, Wire};
use crate::{LossDetection, SenderConfig};

const ID: u64 = 7;

/// A sender with all of three segments and the FIN in flight, sent at 100 ms; the round trip is 100
/// ms.
fn closing() -> Script {
    let base = SenderConfig::native(ID);
    let packet_size = base.wire.data_header() + PAYLOAD;
    let wire = Wire::Native { connection_id: ID };
    let config = SenderConfig { wire, recovery: LossDetection::Rack, packet_size, ..base };
    let config = SenderConfig { congestion: Algorithm::Fixed(10), pacing: false, window: 10, ..config };
    let mut script = Script::new(config);
    script.write(3 * PAYLOAD).finish();
    assert_eq!(script.datagrams().len(), 1);
    let syn_ack = SynAck { window: 1 << 20, params: Params::default() };
    let mut reply = vec![0; native::syn_ack_len(&syn_ack)];
    native::encode_syn_ack(ID, &syn_ack, &mut reply);
    script.at(100).recv_bytes(&reply);
    assert_eq!(leaving(&mut script), ["0/0", "1/1", "2/2", "FIN 300/3"]);
    script.events();
    script
}

fn leaving(script: &mut Script) -> Vec<String> {
    let read = |datagram: &Vec<u8>| match FromSender::decode(datagram, Near::default()).unwrap() {
        FromSender::Data(piece) => format!("{}/{}", piece.seq / PAYLOAD as u64, piece.packet_number.unwrap()),
        FromSender::Fin { seq, seal, .. } => format!("FIN {seq}/{}", seal.unwrap().packet_number),
        other => panic!("{other:?}"),
    };
    script.datagrams().iter().map(read).collect()
}

/// Acknowledges segments below `below` and segments `blocks`; packet `packet_number` is the newest.
fn ack(script: &mut Script, packet_number: u64, below: u64, blocks: &[(u64, u64)]) {
    let mss = PAYLOAD as u64;
    let blocks: Vec<SackBlock> =
        blocks.iter().map(|(start, end)| SackBlock { start: start * mss, end: end * mss }).collect();
    let (ack, window) = (below * mss, 1 << 20);
    let ack = native::Ack {
        largest_received: packet_number,
        echo_delay_us: 0,
        ack,
        window,
        packets: 0,
        duplicates: 0,
        ce: 0,
        ect: 0,
        overflow: None,
    };
    let mut reply = vec![0; native::ack_len(blocks.len())];
    let len = native::encode_ack(ID, &ack, &blocks, &mut reply);
    reply.truncate(len);
    script.recv_bytes(&reply);
}

fn fin_ack(script: &mut Script) {
    let mut reply = vec![0; FIN_ACK_LEN];
    native::encode_fin_ack(ID, &FinAck { length: 300, crc: 5 }, &mut reply);
    script.recv_bytes(&reply);
}

#[test]
fn its_answer_acknowledges_all_that_no_ack_did() {
    let mut script = closing();
    script.at(200);
    fin_ack(&mut script);
    assert_eq!(script.events(), [SenderEvent::Finished { crc: 5 }]);
    let stats = script.stats();
    assert_eq!((stats.bytes_acked, stats.in_flight, stats.elapsed()), (300, 0, ms(100)));
    assert_eq!((script.timer(), leaving(&mut script)), (None, vec![]));
}

#[test]
fn lost_fin_leaves_again_after_quarter_rtt() {
    let mut script = closing();
    script.at(200);
    ack(&mut script, 2, 3, &[]);
    assert_eq!((script.timer(), leaving(&mut script)), (Some(ms(225)), vec![]));
    script.expire();
    assert_eq!(leaving(&mut script), ["FIN 300/4"]);
    // From now on the FIN has its own timer: the RTO of two samples of 100 ms, then twice that.
    assert_eq!(script.expire(), ms(225 + 250));
    assert_eq!(leaving(&mut script), ["FIN 300/5"]);
    assert_eq!(script.expire(), ms(475 + 500));
    assert_eq!(leaving(&mut script), ["FIN 300/6"]);
    script.at(1000);
    fin_ack(&mut script);
    assert_eq!(script.events(), [SenderEvent::Finished { crc: 5 }]);
}

#[test]
fn delivered_fin_waits_for_receiver() {
    let mut script = closing();
    script.at(200);
    ack(&mut script, 3, 3, &[]);
    assert_eq!((script.timer(), leaving(&mut script)), (Some(ms(450)), vec![]), "a timeout, not a moment");
    script.expire();
    assert_eq!(leaving(&mut script), ["FIN 300/4"]);
}

#[test]
fn answered_fin_backs_off_to_half_second() {
    let mut script = closing();
    script.at(200);
    ack(&mut script, 3, 3, &[]);
    let mut last = script.now;
    for wait in [250, 250, 500, 500, 500, 500] {
        script.expire();
        assert_eq!(script.now - last, ms(wait));
        last = script.now;
        assert_eq!(leaving(&mut script).len(), 1);
        let packet_number = script.sender.flight.next_number() - 1;
        ack(&mut script, packet_number, 3, &[]);
    }
}

#[test]
fn fin_is_not_repeated_while_data_is_outstanding() {
    let mut script = closing();
    script.at(200);
    ack(&mut script, 3, 0, &[(1, 3)]);
    let mut last = script.timer().unwrap();
    // Timeouts, and a probe between each two.
    for _ in 0..12 {
        let sent = leaving(&mut script);
        assert!(sent.iter().all(|packet| packet.starts_with("0/")), "{sent:?}");
        last = script.expire();
    }
    leaving(&mut script);
    assert!(last > ms(2000));
    script.at(9000);
    ack(&mut script, 4, 3, &[]);
    assert_eq!(leaving(&mut script), [""; 0], "it was there already");
}

#[test]
fn overtaken_fin_is_lost() {
    let mut script = closing();
    script.at(200);
    ack(&mut script, 2, 0, &[(1, 3)]);
    assert_eq!(
        script.expire(),
        ms(200) + Duration::from_micros(37_500),
        "in the first round trips reordering is given rttvar"
    );
    assert_eq!(leaving(&mut script), ["0/4"]);
    script.at(310);
    ack(&mut script, 4, 3, &[]);
    assert_eq!(leaving(&mut script), ["FIN 300/5"], "at once");
}

#[test]
fn an_answer_before_all_was_sent_is_ignored() {
    let mut script = closing();
    let mut reply = vec![0; FIN_ACK_LEN];
    native::encode_fin_ack(ID, &FinAck { length: 299, crc: 5 }, &mut reply);
    script.recv_bytes(&reply);
    assert_eq!((script.events(), script.stats().stale), (vec![], 1));
}

#[test]
fn fin_gives_up_by_time() {
    let mut script = closing();
    script.at(200);
    ack(&mut script, 3, 3, &[]);
    let mut last = script.now;
    let mut fins = 0;
    while script.timer().is_some() {
        script.expire();
        assert!(script.now - last <= Duration::from_secs(1), "{fins} FINs");
        last = script.now;
        fins += leaving(&mut script).len();
        if fins == 30 {
            // The receiver has the FIN and is still storing: the give-up time starts again.
            let packet_number = script.sender.flight.next_number() - 1;
            ack(&mut script, packet_number, 3, &[]);
        }
        if fins < 30 {
            assert_eq!(script.events(), []);
        }
    }
    let failed = script.events();
    assert!(matches!(failed[..], [SenderEvent::Failed { phase: Phase::Close, .. }]), "{failed:?}");
    let took = script.now - script.epoch;
    assert!((Duration::from_secs(125)..Duration::from_secs(135)).contains(&took), "{took:?}, {fins} FINs");
}
