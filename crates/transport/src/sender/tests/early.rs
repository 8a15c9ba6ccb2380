//! Data that follows the SYN before it is answered.

use super::*;
use crate::wire::native::{self, Params, RETRY_LEN, SynAck, Versions};
use crate::wire::{FromSender, Near, Wire};
use crate::{Ecn, LossDetection, SenderConfig, TransmitBuf};

const ID: u64 = 7;
const RTT: u64 = 100;

/// A sender with a window of 3 packets whose first SYN was answered with a RETRY after 100 ms,
/// which is the time now.
fn asked(recovery: LossDetection) -> Script {
    let base = SenderConfig::native(ID);
    let packet_size = base.wire.data_header() + PAYLOAD;
    let config = SenderConfig { wire: Wire::Native { connection_id: ID }, recovery, packet_size, ..base };
    let config = SenderConfig { congestion: Algorithm::Fixed(3), pacing: false, window: 3, ..config };
    let mut script = Script::new(config);
    script.write(5 * PAYLOAD);
    assert_eq!(leaving(&mut script), ["SYN"]);
    script.at(RTT).recv_bytes(&retry());
    script
}

fn retry() -> Vec<u8> {
    let mut reply = vec![0; RETRY_LEN];
    native::encode_retry(ID, &[9; 32], &mut reply);
    reply
}

fn syn_ack(window: u64) -> Vec<u8> {
    syn_ack_to(1, window)
}

/// Returns the SYN-ACK that answers this one of the SYNs with the cookie.
fn syn_ack_to(attempt: u8, window: u64) -> Vec<u8> {
    let syn_ack = SynAck { window, params: Params { attempt, ..Params::default() } };
    let mut reply = vec![0; native::syn_ack_len(&syn_ack)];
    native::encode_syn_ack(ID, &syn_ack, &mut reply);
    reply
}

/// Returns an ACK: segments below `below` arrived, and packet `packet_number` is the newest.
fn ack(packet_number: u64, below: u64) -> Vec<u8> {
    let ack = native::Ack {
        largest_received: packet_number,
        echo_delay_us: 0,
        ack: below * PAYLOAD as u64,
        window: 1 << 20,
        packets: 0,
        duplicates: 0,
        ce: 0,
        ect: 0,
        overflow: None,
    };
    let mut reply = vec![0; native::ack_len(0)];
    let len = native::encode_ack(ID, &ack, &[], &mut reply);
    reply.truncate(len);
    reply
}

/// Returns the packets sent now: `SYN`, `SYN+` with a cookie, data as segment and transmission
/// number.
fn leaving(script: &mut Script) -> Vec<String> {
    let read = |datagram: &Vec<u8>| match FromSender::decode(datagram, Near::default()).unwrap() {
        FromSender::Syn(open) if open.cookie.is_some() => "SYN+".to_owned(),
        FromSender::Syn(_) => "SYN".to_owned(),
        FromSender::Data(piece) => format!("{}/{}", piece.seq / PAYLOAD as u64, piece.packet_number.unwrap()),
        FromSender::Close(_) => "CLOSE".to_owned(),
        other @ FromSender::Fin { .. } => panic!("{other:?}"),
    };
    script.datagrams().iter().map(read).collect()
}

#[test]
fn first_window_follows_syn_with_cookie() {
    let mut script = asked(LossDetection::Rack);
    assert_eq!(leaving(&mut script), ["SYN+", "0/0", "1/1", "2/2"]);
    assert_eq!((script.stats().srtt, script.stats().min_rtt), (None, None), "the link may not be there yet");
    assert_eq!(script.timer(), Some(ms(1100)), "the SYN's, for all of it");
    script.at(2 * RTT).recv_bytes(&syn_ack(1 << 20));
    assert_eq!(script.events(), [SenderEvent::Connected { rtt: ms(RTT) }]);
    assert_eq!(script.stats().srtt, Some(ms(RTT)));
    assert_eq!(leaving(&mut script), [""; 0]);
    script.recv_bytes(&ack(2, 3));
    assert_eq!(leaving(&mut script), ["3/3", "4/4"]);
    assert_eq!((script.stats().retransmitted, script.stats().min_rtt), (0, Some(ms(RTT))));
}

#[test]
fn no_more_follows_than_every_receiver_takes() {
    let base = SenderConfig::native(ID);
    let config = SenderConfig { congestion: Algorithm::Fixed(200), pacing: false, ..base };
    let mut script = Script::new(config);
    script.write(200 * 1172);
    script.datagrams();
    script.recv_bytes(&retry());
    assert_eq!(leaving(&mut script).len(), 1 + 55, "packets of 1200 bytes");
}

#[test]
fn lost_syn_resends_early_data_on_answer() {
    for rule in [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno] {
        let mut script = asked(rule);
        assert_eq!(leaving(&mut script).len(), 4);
        assert_eq!(script.expire(), ms(1100));
        assert_eq!(leaving(&mut script), ["SYN+"], "what follows it waits for the answer");
        script.at(1200).recv_bytes(&syn_ack_to(2, 1 << 20));
        assert_eq!(leaving(&mut script), ["0/3", "1/4", "2/5"], "{rule}");
        script.at(1300).recv_bytes(&ack(5, 3));
        assert_eq!(leaving(&mut script), ["3/6", "4/7"], "{rule}");
        let stats = script.stats();
        assert_eq!((stats.retransmitted, stats.timeouts, stats.recoveries), (3, 0, 0), "{rule}");
    }
}

#[test]
fn numbered_syn_ack_measures_long_rtt() {
    // The cookie arrives at once, because the receiver does not emulate the link yet.
    for (rtt, named) in [(1500, 1), (2500, 1), (1050, 1)] {
        let mut script = asked(LossDetection::Rack);
        assert_eq!(leaving(&mut script).len(), 4);
        while script.timer().is_some_and(|at| at < ms(RTT + rtt)) {
            script.expire();
            assert_eq!(leaving(&mut script), ["SYN+"]);
        }
        script.at(RTT + rtt).recv_bytes(&syn_ack_to(named, 1 << 20));
        assert_eq!(script.events(), [SenderEvent::Connected { rtt: ms(rtt) }]);
        assert_eq!((script.stats().srtt, script.stats().lost), (Some(ms(rtt)), 0));
        assert_eq!((leaving(&mut script), script.rto()), (vec![], 3 * ms(rtt)));
        script.recv_bytes(&ack(2, 3));
        assert_eq!(leaving(&mut script), ["3/3", "4/4"]);
        // The SYN-ACKs to the other SYNs arrive later.
        script.at(RTT + rtt + 1000).recv_bytes(&syn_ack_to(2, 1 << 20));
        let stats = script.stats();
        assert_eq!((stats.stale, stats.retransmitted, stats.timeouts, stats.probes), (1, 0, 0, 0));
    }
}

#[test]
fn answer_to_unsent_syn_gives_no_sample() {
    let mut script = asked(LossDetection::Rack);
    leaving(&mut script);
    script.expire();
    assert_eq!(leaving(&mut script), ["SYN+"]);
    script.at(1150).recv_bytes(&syn_ack_to(9, 1 << 20));
    assert_eq!((leaving(&mut script), script.stats().lost), (vec![], 0));
    // No RTT was measured, so there is no tail loss probe, and the timer waits as long as after a
    // lost SYN.
    assert_eq!(script.timer(), Some(ms(1150 + 3000)));
}

#[test]
fn data_ack_opens_without_syn_ack() {
    let mut script = asked(LossDetection::Rack);
    leaving(&mut script);
    script.at(2 * RTT).recv_bytes(&ack(1, 2));
    assert_eq!(script.events(), [SenderEvent::Connected { rtt: ms(RTT) }]);
    assert_eq!(leaving(&mut script), ["3/3", "4/4"]);
    script.at(210).recv_bytes(&syn_ack(50));
    assert_eq!((script.events(), script.stats().stale), (vec![], 0), "it was only late");
    script.recv_bytes(&syn_ack(50));
    assert_eq!(script.stats().stale, 1);
    script.at(300).recv_bytes(&ack(4, 5)).write(3 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 3, "the window is that of the ACK");
}

#[test]
fn lost_parameters_are_requested_again() {
    let mut script = asked(LossDetection::Rack);
    leaving(&mut script);
    script.at(2 * RTT).recv_bytes(&ack(2, 3));
    leaving(&mut script);
    script.at(210).recv_bytes(&ack(4, 5));
    // A quarter of an RTT after the ACK that opened the connection, then with the back-off of the
    // timer.
    let rto = script.rto();
    let mut asked_at = Vec::new();
    while script.timer().is_some() {
        asked_at.push(script.expire());
        let questions = leaving(&mut script).iter().filter(|packet| *packet == "SYN+").count();
        assert_eq!(questions, usize::from(asked_at.len() <= 5), "{asked_at:?}");
    }
    let times: Vec<_> = (0..=5).map(|asked| ms(225) + rto * ((1 << asked) - 1)).collect();
    assert_eq!(asked_at, times, "and no more");
    assert_eq!(script.events(), [SenderEvent::Connected { rtt: ms(RTT) }], "it goes on without");
}

#[test]
fn parameters_are_not_requested_when_known_or_useless() {
    for answered in [true, false] {
        let mut script = asked(LossDetection::Rack);
        leaving(&mut script);
        script.at(2 * RTT).recv_bytes(&ack(2, 3));
        leaving(&mut script);
        script.at(210);
        if answered {
            script.recv_bytes(&syn_ack(1 << 20)).recv_bytes(&ack(4, 5));
            assert_eq!((script.timer(), leaving(&mut script)), (None, vec![]));
        } else {
            script.finish();
            assert_eq!(script.datagrams().len(), 1, "the FIN");
            script.at(225);
            assert_eq!(script.datagrams(), [[0; 0]; 0]);
        }
    }
}

#[test]
fn probe_repairs_lost_early_data() {
    let mut script = asked(LossDetection::Rack);
    leaving(&mut script);
    script.at(2 * RTT).recv_bytes(&syn_ack(1 << 20));
    assert_eq!(leaving(&mut script), [""; 0]);
    assert_eq!(script.expire(), ms(4 * RTT), "two round trips after the answer");
    assert_eq!(leaving(&mut script), ["3/3"]);
    script.at(5 * RTT);
    let mut reply = vec![0; native::ack_len(1)];
    let block = native::SackBlock { start: 300, end: 400 };
    let ack = native::Ack {
        largest_received: 3,
        echo_delay_us: 0,
        ack: 0,
        window: 1 << 20,
        packets: 1,
        duplicates: 0,
        ce: 0,
        ect: 0,
        overflow: None,
    };
    let len = native::encode_ack(ID, &ack, &[block], &mut reply);
    reply.truncate(len);
    script.recv_bytes(&reply);
    assert_eq!(leaving(&mut script), ["0/4", "1/5", "2/6"]);
    assert_eq!(script.stats().timeouts, 0);
}

#[test]
fn base_only_sends_no_early_data() {
    let mut script = asked(LossDetection::BaseOnly);
    assert_eq!(leaving(&mut script), ["SYN+"]);
    script.at(2 * RTT).recv_bytes(&syn_ack(1 << 20));
    assert_eq!(leaving(&mut script), ["0/0", "1/1", "2/2"]);
}

#[test]
fn abort_sends_close_once_data_flowed() {
    let mut script = asked(LossDetection::Rack);
    leaving(&mut script);
    script.sender.abort();
    assert_eq!(leaving(&mut script), ["CLOSE"]);
}

#[test]
fn foreign_versions_end_transfer_at_once() {
    let versions = |bits| {
        let mut reply = vec![0; native::VERSIONS_LEN];
        native::encode_versions(ID, Versions::from_bits(bits).unwrap(), &mut reply);
        reply
    };
    let mut script = Script::new(SenderConfig::native(ID));
    script.recv_bytes(&versions(0b1100));
    assert_eq!(script.stats().stale, 1, "nothing was asked yet");
    script.datagrams();
    script.recv_bytes(&versions(0b0110));
    assert_eq!((script.events(), script.stats().stale), (vec![], 2), "it lists ours, so it is forged");
    script.recv_bytes(&versions(0b1100));
    let events = script.events();
    let [SenderEvent::Failed { phase: Phase::Connect, error }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error.to_string(), "the receiver speaks version 2 or 3 of the protocol");
    assert_eq!((error.status(), script.timer()), (8, None));
}

#[test]
fn probe_waits_for_announced_ack_delay() {
    for delay_ms in [25, 80] {
        let mut script = asked(LossDetection::Rack);
        leaving(&mut script);
        let params = Params { ack_delay_max_us: 1000 * delay_ms, ..Params::default() };
        let syn_ack = SynAck { window: 1 << 20, params };
        let mut reply = vec![0; native::syn_ack_len(&syn_ack)];
        native::encode_syn_ack(ID, &syn_ack, &mut reply);
        script.at(2 * RTT).recv_bytes(&reply).recv_bytes(&ack(2, 3));
        leaving(&mut script);
        script.at(3 * RTT).recv_bytes(&ack(3, 4));
        // One segment is in flight. If the ACK delay is longer, the timer fires first.
        let wait = ms(2 * RTT + u64::from(delay_ms)).min(script.rto());
        assert_eq!(script.timer(), Some(ms(3 * RTT) + wait), "{delay_ms} ms");
    }
}

#[test]
fn better_common_version_reveals_downgrade() {
    for (ours, fails) in [(0b10, false), (0b110, true)] {
        let mut script = asked(LossDetection::Rack);
        let Codec::Native { syn, .. } = &mut script.sender.codec else { panic!() };
        syn.params.versions = Versions::from_bits(ours).unwrap();
        leaving(&mut script);
        let params = Params { versions: Versions::from_bits(0b1110).unwrap(), ..Params::default() };
        let syn_ack = SynAck { window: 1 << 20, params };
        let mut reply = vec![0; native::syn_ack_len(&syn_ack)];
        native::encode_syn_ack(ID, &syn_ack, &mut reply);
        script.at(2 * RTT).recv_bytes(&reply);
        let closes = script.datagrams();
        let events = script.events();
        if !fails {
            assert_eq!((closes.len(), events), (0, vec![SenderEvent::Connected { rtt: ms(RTT) }]));
            continue;
        }
        let [close] = &closes[..] else { panic!("{closes:?}") };
        let close = native::decode_from_sender(close, 0);
        assert!(matches!(close, Ok(FromSender::Close(close)) if close.reason == CloseReason::Version));
        let [SenderEvent::Failed { phase: Phase::Connect, error }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(*error, TransferError::Downgrade(params.versions));
        assert_eq!((error.status(), script.timer(), script.datagrams().len()), (8, None, 0));
    }
}

#[test]
fn early_data_has_own_batch_and_codepoint() {
    let config = SenderConfig { packet_size: native::SYN_MIN, ..SenderConfig::native(ID) };
    let mut script = Script::new(config);
    script.sender.write(b"hi").unwrap();
    script.sender.push();
    assert_eq!(leaving(&mut script), ["SYN"]);
    script.at(RTT).recv_bytes(&retry());
    let mut out = TransmitBuf::new(64);
    let mut batches = Vec::new();
    while script.sender.poll_transmit(script.now, &mut out).is_some() {
        batches.push((out.segments(), out.ecn()));
        out.clear();
    }
    assert_eq!(batches, [(1, Ecn::NotEct), (1, Ecn::Ect0)]);
}

#[test]
fn keep_alive_comes_at_third_of_idle_timeout() {
    for (idle_timeout_ms, reminder) in [(3000, 1000), (86_400_000, 10_000)] {
        let mut script = asked(LossDetection::Rack);
        leaving(&mut script);
        let syn_ack = SynAck { window: 1 << 20, params: Params { idle_timeout_ms, ..Params::default() } };
        let mut reply = vec![0; native::syn_ack_len(&syn_ack)];
        native::encode_syn_ack(ID, &syn_ack, &mut reply);
        script.at(2 * RTT).recv_bytes(&reply);
        leaving(&mut script);
        script.recv_bytes(&ack(2, 3));
        leaving(&mut script);
        script.recv_bytes(&ack(4, 5));
        let at = script.now + Duration::from_millis(reminder);
        assert_eq!(script.sender.poll_timeout(), Some(at), "{idle_timeout_ms} ms");
    }
}
