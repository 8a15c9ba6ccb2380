//! The FIN that is sent with the last data.

use super::native::{ack, connected_to, opened, small};
use super::*;
use crate::SenderConfig;
use crate::wire::native::Body;

/// A sender with all of three segments and the FIN in flight, sent at 100 ms; the round trip is 100
/// ms.
fn closing() -> Script {
    let config = SenderConfig { congestion: Algorithm::Fixed(10), window: 10, ..small() };
    let mut script = connected_to(config, Params::default());
    script.write(3 * PAYLOAD).finish();
    assert_eq!(leaving(&mut script), ["0/0", "1/1", "2/2", "FIN 300/3"]);
    script
}

fn leaving(script: &mut Script) -> Vec<String> {
    let read = |datagram: &Vec<u8>| match opened(datagram) {
        (number, Body::Data { piece, .. }) => format!("{}/{number}", piece.seq / PAYLOAD as u64),
        (number, Body::Fin { length, .. }) => format!("FIN {length}/{number}"),
        other => panic!("{other:?}"),
    };
    script.datagrams().iter().map(read).collect()
}

/// Answers the FIN of a stream of this length.
fn fin_ack(script: &mut Script, length: u64) {
    script.sender.handle_reply(script.now, &super::fin_ack(length, 0), 41);
}

#[test]
fn its_answer_acknowledges_all_that_no_ack_did() {
    let mut script = closing();
    script.at(200);
    fin_ack(&mut script, 300);
    assert_eq!(script.events(), [SenderEvent::Finished { crc: 0 }]);
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
    fin_ack(&mut script, 300);
    assert_eq!(script.events(), [SenderEvent::Finished { crc: 0 }]);
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
    fin_ack(&mut script, 299);
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
