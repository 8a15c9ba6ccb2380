//! When a receiver that answers no more is given up, in the native format.

use super::*;
use crate::wire::native::{self, Params, SynAck};

const GIVE_UP: Duration = Duration::from_secs(3);

/// Connected after 10 ms.
fn connected() -> Script {
    let mut script = Script::new(SenderConfig { give_up: GIVE_UP, ..SenderConfig::native(7) });
    assert_eq!(script.datagrams().len(), 1, "a SYN");
    let syn_ack = SynAck { window: 1 << 20, params: Params::default() };
    let mut bytes = vec![0; native::syn_ack_len(&syn_ack)];
    native::encode_syn_ack(7, &syn_ack, &mut bytes);
    script.at(10).recv_bytes(&bytes);
    assert_eq!(script.events(), [SenderEvent::Connected { rtt: ms(10) }]);
    script
}

/// Lets every timer fire until the transfer ends, and says when.
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
fn the_time_is_kept_although_the_timer_backs_off() {
    let mut script = connected();
    script.at(20).write(5000);
    assert_eq!(ended(&mut script), ms(20) + GIVE_UP);
}

#[test]
fn a_pause_of_the_application_is_no_silence_of_the_receiver() {
    let mut script = connected();
    script.at(9000).write(5000);
    assert_eq!(ended(&mut script), ms(9000) + GIVE_UP);
}
