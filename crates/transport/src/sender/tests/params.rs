//! Effects of the peer's transport parameters, and of a requested link.

use super::native::{ack, connected_to, leaving, small};
use super::*;
use crate::wire::native::LinkRequest;

/// Returns a sender with a window of three packets, of which all were sent at 100 ms.
fn flying(params: Params) -> Script {
    let config = SenderConfig { congestion: Algorithm::Fixed(3), window: 3, ..small() };
    let mut script = connected_to(config, params);
    script.write(5 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 3);
    script
}

#[test]
fn probe_waits_for_announced_ack_delay() {
    for delay_ms in [25, 80] {
        let mut script = flying(Params { ack_delay_max_us: 1000 * delay_ms, ..Params::default() });
        script.at(200);
        ack(&mut script, 2, 3, &[]);
        leaving(&mut script);
        script.at(300);
        ack(&mut script, 3, 4, &[]);
        // One segment is in flight. If the ACK delay is longer, the timer fires first.
        let wait = ms(200 + u64::from(delay_ms)).min(script.rto());
        assert_eq!(script.timer(), Some(ms(300) + wait), "{delay_ms} ms");
    }
}

#[test]
fn keep_alive_comes_at_third_of_idle_timeout() {
    for (idle_timeout_ms, reminder) in [(3000, 1000), (86_400_000, 10_000)] {
        let mut script = flying(Params { idle_timeout_ms, ..Params::default() });
        script.at(200);
        ack(&mut script, 2, 3, &[]);
        leaving(&mut script);
        ack(&mut script, 4, 5, &[]);
        let at = script.now + ms(reminder);
        assert_eq!(script.sender.poll_timeout(), Some(at), "{idle_timeout_ms} ms");
    }
}

#[test]
fn requested_link_adds_to_handshake_rtt() {
    let link = LinkRequest {
        rtt_us: 50_000,
        rate_bps: 1_000_000,
        loss_forward_ppb: 0,
        loss_reverse_ppb: 0,
        queue_bytes: 10_000,
    };
    let mut script = connected_to(SenderConfig { link_request: Some(link), ..small() }, Params::default());
    assert_eq!((script.rto(), script.stats().srtt), (ms(1000), None), "the link was not there yet");
    script.write(PAYLOAD);
    script.sender.push();
    leaving(&mut script);
    script.at(250);
    ack(&mut script, 0, 1, &[]);
    assert_eq!((script.stats().srtt, script.stats().min_rtt), (Some(ms(150)), Some(ms(150))));
}
