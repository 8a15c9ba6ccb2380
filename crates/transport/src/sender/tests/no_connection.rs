//! Stateless resets by the receiver, and when the sender believes them.

use super::native::{answer_to, connected_by, connected_to, recv_ack};
use super::*;
use crate::wire::Wire;
use crate::wire::native::{self, Close, Params, RETRY_LEN, SynAck};
use crate::{LossDetection, SenderConfig};

const ID: u64 = 7;

/// Returns a stateless reset that answers packet `packet_number`.
fn no_connection(packet_number: u64) -> Vec<u8> {
    let close = Close::to_unknown(packet_number);
    let mut reply = vec![0; native::close_len(&close)];
    native::encode_close(ID, &close, &mut reply);
    reply
}

/// Returns a sender that sent segments 0 to 9 after its SYN was answered.
fn flowing() -> Script {
    let mut script = connected_by(LossDetection::Rack, Algorithm::Fixed(10));
    script.write(20 * PAYLOAD);
    assert_eq!(script.datagrams().len(), 10);
    script
}

fn failed(phase: Phase) -> [SenderEvent; 1] {
    [SenderEvent::Failed { phase, error: TransferError::Closed(CloseReason::NoConnection) }]
}

/// Returns a sender whose data followed the SYN with a cookie: the SYN was lost, or was overtaken.
fn opening() -> Script {
    let base = SenderConfig::native(ID);
    let packet_size = base.wire.data_header() + PAYLOAD;
    let config = SenderConfig { wire: Wire::Native { connection_id: ID }, packet_size, ..base };
    let config = SenderConfig { congestion: Algorithm::Fixed(3), pacing: false, window: 3, ..config };
    let mut script = Script::new(config);
    script.write(3 * PAYLOAD).finish();
    assert_eq!(script.datagrams().len(), 1);
    let mut retry = vec![0; RETRY_LEN];
    native::encode_retry(ID, &[9; 32], &mut retry);
    script.at(100).recv_bytes(&retry);
    assert_eq!(script.datagrams().len(), 5, "SYN, three segments and the FIN");
    script
}

fn syn_ack() -> Vec<u8> {
    let syn_ack = SynAck { window: 1 << 20, params: Params::default() };
    let mut reply = vec![0; native::syn_ack_len(&syn_ack)];
    native::encode_syn_ack(ID, &syn_ack, &mut reply);
    reply
}

#[test]
fn forgetful_receiver_ends_transfer() {
    let mut script = flowing();
    script.at(200).recv_bytes(&no_connection(3));
    assert_eq!(script.events(), failed(Phase::Send));
    assert_eq!((script.datagrams().len(), script.timer()), (0, None), "it is not answered");
    script.recv_bytes(&no_connection(4));
    assert_eq!((script.events(), script.stats().stale), (vec![], 1));
}

#[test]
fn failed_transfer_waits_for_no_pace() {
    let mut script = connected_to(SenderConfig::native(ID), Params::default());
    script.write(30_000);
    assert!(!script.datagrams().is_empty());
    assert!(script.sender.blocked.paced_until().is_some(), "the rest of the window waits");
    let newest = script.sender.flight.next_number() - 1;
    script.at(58_000).recv_bytes(&no_connection(newest));
    assert_eq!(script.events(), failed(Phase::Send));
    assert_eq!(script.timer(), None);
    assert_eq!((script.at(110_000).datagrams().len(), script.timer()), (0, None));
}

#[test]
fn early_data_proves_no_forgotten_connection() {
    let mut script = opening();
    script.at(200);
    for packet_number in 0..4 {
        script.recv_bytes(&no_connection(packet_number));
    }
    assert_eq!((script.events(), script.stats().stale), (vec![], 4), "it overtook the SYN");
    script.recv_bytes(&syn_ack());
    assert_eq!(script.events().len(), 1);
    for packet_number in 0..4 {
        script.recv_bytes(&no_connection(packet_number));
    }
    assert_eq!((script.events(), script.stats().stale), (vec![], 8), "the SYN-ACK overtook these");
    script.expire();
    let again = script.datagrams().len() as u64;
    assert!(again > 0);
    script.recv_bytes(&no_connection(4 + again));
    assert_eq!(script.events(), [], "nothing of that number was sent yet");
    script.recv_bytes(&no_connection(4));
    assert_eq!(script.events(), failed(Phase::Close));
}

#[test]
fn later_delivery_disproves_forgotten_connection() {
    let mut script = flowing();
    script.at(200);
    recv_ack(&mut script, &native::Ack { window: 1 << 20, ..answer_to(5) }, &[]);
    for packet_number in 0..=5 {
        script.recv_bytes(&no_connection(packet_number));
    }
    assert_eq!((script.events(), script.stats().stale), (vec![], 6), "a copy went astray");
    script.recv_bytes(&no_connection(6));
    assert_eq!(script.events(), failed(Phase::Send));
}

#[test]
fn keep_alive_reveals_forgotten_connection() {
    let mut script = flowing();
    script.at(200);
    recv_ack(&mut script, &native::Ack { ack: 1000, window: 1 << 20, ..answer_to(9) }, &[]);
    script.datagrams();
    script.at(300);
    recv_ack(&mut script, &native::Ack { ack: 2000, window: 1 << 20, ..answer_to(19) }, &[]);
    assert_eq!(script.datagrams().len(), 0);
    script.at(10_300);
    assert_eq!(script.datagrams().len(), 1);
    script.recv_bytes(&no_connection(20));
    assert_eq!(script.events(), failed(Phase::Send));
}

#[test]
fn unknown_connection_ends_closing_sender() {
    let mut script = flowing();
    script.finish().at(200);
    recv_ack(&mut script, &native::Ack { ack: 1000, window: 1 << 20, ..answer_to(9) }, &[]);
    let left = script.datagrams().len() as u64;
    script.at(300);
    recv_ack(&mut script, &native::Ack { ack: 2000, window: 1 << 20, ..answer_to(9 + left) }, &[]);
    script.at(20_000);
    assert_eq!(script.datagrams().len(), 1, "the FIN, again");
    script.recv_bytes(&no_connection(10 + left));
    assert_eq!(script.events(), failed(Phase::Close));
    assert_eq!(script.stats().bytes_acked, 2000, "all that is known");
}

#[test]
fn other_connections_are_none_of_its_business() {
    let mut script = flowing();
    let mut reply = vec![0; 20];
    native::encode_close(ID + 1, &Close::to_unknown(3), &mut reply);
    script.recv_bytes(&reply);
    assert_eq!((script.events(), script.stats().malformed), (vec![], 1));
}
