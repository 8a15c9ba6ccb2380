//! Give-up time of a native sender whose receiver no longer answers.

use super::*;
use crate::wire::Wire;
use crate::wire::native::{self, Params, SynAck};

const GIVE_UP: Duration = Duration::from_secs(3);

/// Connected after 10 ms.
fn connected() -> Script {
    connected_for(GIVE_UP)
}

fn connected_for(give_up: Duration) -> Script {
    let mut script = Script::new(SenderConfig { give_up, ..SenderConfig::native(7) });
    assert_eq!(script.datagrams().len(), 1, "a SYN");
    let syn_ack = SynAck { window: 1 << 20, params: Params::default() };
    let mut bytes = vec![0; native::syn_ack_len(&syn_ack)];
    native::encode_syn_ack(7, &syn_ack, &mut bytes);
    script.at(10).recv_bytes(&bytes);
    assert_eq!(script.events(), [SenderEvent::Connected { rtt: ms(10) }]);
    script
}

/// Fires every timer until the transfer ends, and returns when it ended.
fn ended(script: &mut Script) -> Duration {
    for _ in 0..100 {
        script.datagrams();
        let at = script.expire();
        if let [SenderEvent::Failed { phase: Phase::Send, error: TransferError::Timeout { .. } }] =
            script.events()[..]
        {
            return at;
        }
    }
    panic!("it never ends");
}

#[test]
fn backoff_does_not_extend_give_up_time() {
    let mut script = connected();
    script.at(20).write(5000);
    assert_eq!(ended(&mut script), ms(20) + GIVE_UP);
}

/// Answers everything with a closed window until the transfer ends; returns when it ended, and the
/// error.
fn ended_by_closed_window(script: &mut Script) -> (Duration, TransferError) {
    let newest = |script: &mut Script, datagrams: Vec<Vec<u8>>| {
        for _ in datagrams {
            let number = script.sender.flight.next_number() - 1;
            let answer = native::Ack { ack: 1000, ..super::native::answer_to(number) };
            super::native::recv_ack(script, &answer, &[]);
        }
    };
    for _ in 0..10_000 {
        let sent = script.datagrams();
        newest(script, sent);
        if let [SenderEvent::Failed { error, .. }] = &script.events()[..] {
            return (script.now - script.epoch, error.clone());
        }
        script.expire();
    }
    panic!("it never ends");
}

#[test]
fn closed_window_ends_transfer_after_no_progress() {
    let mut script = connected();
    script.at(20).write(5000);
    let (at, error) = ended_by_closed_window(&mut script);
    assert_eq!(error, TransferError::NoProgress(Duration::from_secs(300)));
    assert!((300..=340).contains(&at.as_secs()), "{at:?}: at the first probe after 300 s");
    let close = script.datagrams();
    let read = close.first().map(|datagram| FromSender::decode(datagram, wire::Near::default()));
    assert!(matches!(read, Some(Ok(FromSender::Close(_)))), "{close:?}");
    assert_eq!((script.datagrams().len(), script.timer()), (0, None));
}

#[test]
fn endless_storing_ends_transfer_after_no_progress() {
    let mut script = connected();
    script.at(20).write(1000).finish();
    let (at, error) = ended_by_closed_window(&mut script);
    assert_eq!(error, TransferError::NoProgress(Duration::from_secs(300)));
    assert!((300..=302).contains(&at.as_secs()), "{at:?}");
}

#[test]
fn application_pause_restarts_give_up_time() {
    let mut script = connected();
    script.at(9000).write(5000);
    assert_eq!(ended(&mut script), ms(9000) + GIVE_UP);
}

/// True if ICMP reports at these times, ms, end the transfer.
fn is_gone(script: &mut Script, reports: &[u64]) -> bool {
    for time in reports {
        let now = script.at(*time).now;
        script.sender.handle_refused(now, (), 1);
    }
    let gone = [SenderEvent::Failed { phase: Phase::Send, error: TransferError::Gone }];
    let events = script.events();
    assert!(events.is_empty() || events == gone && script.timer().is_none(), "{events:?}");
    !events.is_empty()
}

#[test]
fn port_unreachable_for_five_seconds_ends_transfer() {
    let patient = |wire| {
        let base = SenderConfig { give_up: Duration::MAX, ..SenderConfig::new(10, LINK) };
        let connected = if wire == Wire::Classic {
            Script::connected(base, 10, 10)
        } else {
            connected_for(Duration::MAX)
        };
        waiting(connected)
    };
    for wire in [Wire::Classic, Wire::Native { connection_id: 7 }] {
        assert!(is_gone(&mut patient(wire), &[100, 200, 300, 400, 5100]), "{wire:?}");
        assert!(!is_gone(&mut patient(wire), &[100, 200, 300, 400, 5099]), "{wire:?}: not long");
        assert!(!is_gone(&mut patient(wire), &[100, 200, 300, 5100]), "{wire:?}: not often");
    }
    // The receiver answers again, even if it repeats its last answer.
    let mut script = waiting(connected_for(Duration::MAX));
    assert!(!is_gone(&mut script, &[100, 200, 300, 400, 500]));
    let syn_ack = SynAck { window: 1 << 20, params: Params::default() };
    let mut bytes = vec![0; native::syn_ack_len(&syn_ack)];
    native::encode_syn_ack(7, &syn_ack, &mut bytes);
    script.at(600).recv_bytes(&bytes);
    assert!(!is_gone(&mut script, &[700, 800, 900, 5699]));
    assert!(is_gone(&mut script, &[5700]));
}

/// Some data is in flight.
fn waiting(mut script: Script) -> Script {
    script.write(5000);
    assert!(!script.datagrams().is_empty());
    script
}

#[test]
fn in_a_pause_reports_end_nothing() {
    assert!(!is_gone(&mut connected(), &[100, 200, 300, 400, 5100, 9000]), "nothing is awaited");
}

#[test]
fn port_unreachable_does_not_end_handshake() {
    let mut script = Script::new(SenderConfig { give_up: GIVE_UP, ..SenderConfig::native(7) });
    assert!(!is_gone(&mut script, &[1, 2, 3, 4, 5, 2000, 8000, 9000]));
    let mut classic = Script::new(SenderConfig::new(10, LINK));
    assert!(!is_gone(&mut classic, &[1, 2, 3, 4, 5, 6000]));
}
