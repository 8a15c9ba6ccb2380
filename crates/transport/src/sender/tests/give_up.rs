//! Give-up time of a native sender whose receiver no longer answers.

use super::native::{answer_to, connected_after, recv_ack};
use super::*;
use crate::wire::{Wire, native};

const GIVE_UP: Duration = Duration::from_secs(3);

/// Connected after 10 ms.
fn connected() -> Script {
    connected_for(GIVE_UP)
}

fn connected_for(give_up: Duration) -> Script {
    let config = SenderConfig { give_up, ..SenderConfig::native(7) };
    connected_after(rdt_testing::epoch(), 10, config, Params::default())
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
            recv_ack(script, &native::Ack { ack: 1000, ..answer_to(number) }, &[]);
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
    for wire in [Wire::Classic, Wire::Native] {
        assert!(is_gone(&mut patient(wire), &[100, 200, 300, 400, 5100]), "{wire:?}");
        assert!(!is_gone(&mut patient(wire), &[100, 200, 300, 400, 5099]), "{wire:?}: not long");
        assert!(!is_gone(&mut patient(wire), &[100, 200, 300, 5100]), "{wire:?}: not often");
    }
    // The receiver answers again, even if it repeats its last answer.
    let mut script = waiting(connected_for(Duration::MAX));
    assert!(!is_gone(&mut script, &[100, 200, 300, 400, 500]));
    script.at(600);
    script.sender.handle_reply(script.now, &fin_ack(0, 0), 41);
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
    let mut classic = Script::new(SenderConfig::new(10, LINK));
    assert!(!is_gone(&mut classic, &[1, 2, 3, 4, 5, 6000]));
}
