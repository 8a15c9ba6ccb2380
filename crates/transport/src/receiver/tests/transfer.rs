//! Start, restart and end of a transfer.

use super::*;

#[test]
fn syn_ack_has_syn_number_and_its_window() {
    for (seq, window) in [
        (0, 1),
        (1, 1),
        (2, 2),
        (7, 7),
        (79_999, 79_999),
        (80_000, 80_000),
        (80_001, 80_000),
        (100_000, 80_000),
        (u32::MAX, 80_000),
    ] {
        let mut script = Script::new(ReceiverConfig::reference());
        script.syn(seq);
        assert_eq!(script.replies(), [syn_ack(u64::from(seq), window)]);
        assert_eq!(script.events(), [ReceiverEvent::Started]);
    }
}

#[test]
fn packets_before_syn_get_no_reply() {
    let mut script = Script::new(ReceiverConfig::reference());
    script.data(0, b"x").fin(0).confirm();
    assert_eq!((script.replies(), script.events()), (vec![], vec![]));
    assert!(!script.receiver.is_unfinished());
}

#[test]
fn repeated_syn_before_data_is_answered() {
    let mut script = Script::open();
    script.syn(0).syn(0);
    assert_eq!(script.replies(), [syn_ack(0, 1), syn_ack(0, 1)]);
    assert_eq!(script.events(), [], "nothing began again");
    script.data(0, b"x");
    assert_eq!(script.replies(), [ack(1, 1)]);
}

#[test]
fn syn_in_mid_transfer_restarts_it() {
    for seq in [0_u32, 1, 2, 7, 100_000] {
        let first = u64::from(seq);
        let mut script = Script::open();
        script.data(0, b"old").data(1, b"old").data(5, b"held").data(8, b"held");
        script.replies();
        script.syn(seq);
        let window = seq.clamp(1, 80_000);
        assert_eq!(script.replies(), [syn_ack(first, window)]);
        assert_eq!(script.receiver.memory(), 0, "what was held is forgotten");
        for (n, byte) in b"abcdefghij".iter().enumerate() {
            script.data(first + n as u64, &[*byte]);
            let next = first + n as u64 + 1;
            assert_eq!(script.replies(), [ack(next, u32::try_from(next).unwrap().min(80_000))]);
        }
        script.fin(first + 10).confirm();
        assert_eq!(script.replies(), [fin_ack(first + 10, crc32fast::hash(b"abcdefghij"))]);
    }
}

#[test]
fn syn_after_fin_starts_new_transfer() {
    let mut script = Script::open();
    script.data(0, b"first").fin(1).confirm();
    script.replies();
    script.events();
    script.syn(0);
    assert_eq!(script.replies(), [syn_ack(0, 1)]);
    assert_eq!(script.events(), [ReceiverEvent::Started]);
    script.data(0, b"second").fin(1).confirm();
    assert_eq!(script.replies(), [ack(1, 1), fin_ack(1, crc32fast::hash(b"second"))]);
}

#[test]
fn fin_needs_expected_number_and_no_hole() {
    let mut script = Script::open_at(ReceiverConfig::reference(), 0);
    script.data(0, b"a").data(1, b"b").data(3, b"d");
    script.replies();
    for seq in [0, 1, 2, 3, 4, 5] {
        script.fin(seq).confirm();
        assert_eq!((script.replies(), script.events()), (vec![], vec![]), "FIN {seq} with 3 held");
    }
    script.data(2, b"c");
    assert_eq!(script.replies(), [ack(4, 4)]);
    for seq in [0, 3, 5] {
        script.fin(seq).confirm();
        assert_eq!((script.replies(), script.events()), (vec![], vec![]), "FIN {seq}, expected 4");
    }
    script.fin(4).confirm();
    assert_eq!(script.replies(), [fin_ack(4, crc32fast::hash(b"abcd"))]);
}

#[test]
fn fin_is_answered_after_application_confirms() {
    let mut script = Script::open();
    script.data(0, b"abc");
    script.replies();
    script.events();
    script.fin(1).fin(1);
    let finished =
        ReceiverEvent::Finished { bytes: 3, crc: crc32fast::hash(b"abc"), elapsed: Duration::ZERO };
    assert_eq!(script.events(), [finished], "told once");
    assert_eq!(script.replies(), []);
    assert!(script.receiver.is_unfinished());
    script.confirm().confirm();
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc"))]);
    assert!(!script.receiver.is_unfinished());
}

#[test]
fn repeated_fin_is_answered_while_storing_if_understood() {
    let mut script = Script::open();
    script.data(0, b"abc").at(10).fin(1);
    script.replies();
    script.events();
    // Other implementations treat any answer as the FIN-ACK.
    script.at(50).fin(1).at(70).fin(1);
    assert_eq!(script.replies(), []);
    let heeding = |seq| FromSender::Fin { seq, packet_number: None, understands_ack: true };
    script.at(80).packet(&heeding(1)).at(90).packet(&heeding(0)).packet(&heeding(1));
    assert_eq!(script.replies(), [ack(1, 0); 2]);
    assert_eq!(script.events(), []);
    script.confirm();
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc"))]);
}

#[test]
fn syn_while_storing_gets_no_reply() {
    let mut script = Script::open();
    script.data(0, b"abc").fin(1);
    script.replies();
    script.syn(0);
    assert_eq!(script.replies(), []);
    assert_eq!(script.read(), b"abc", "what is being stored stays");
    script.confirm().syn(0);
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc")), syn_ack(0, 1)]);
}

#[test]
fn repeated_fin_gets_same_answer() {
    let mut script = Script::open();
    script.data(0, b"abc").fin(1).confirm();
    script.replies();
    script.events();
    script.fin(1).fin(1).fin(0).fin(2);
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc")); 2]);
    assert_eq!(script.events(), []);
}

#[test]
fn data_after_fin_gets_no_reply() {
    let mut script = Script::open();
    script.data(0, b"abc").fin(1);
    script.replies();
    script.data(0, b"abc").data(1, b"more");
    assert_eq!(script.replies(), [], "before the FIN-ACK");
    script.confirm().data(0, b"abc").data(1, b"more").data(2, b"more");
    assert_eq!(script.replies(), [fin_ack(1, crc32fast::hash(b"abc"))]);
    assert_eq!(script.read(), b"abc");
}

#[test]
fn fin_directly_after_syn_has_checksum_0() {
    for seq in [0_u32, 7] {
        let mut script = Script::open_at(keeping(), seq);
        script.fin(u64::from(seq)).confirm();
        assert_eq!(script.replies(), [fin_ack(u64::from(seq), 0)]);
        let finished = ReceiverEvent::Finished { bytes: 0, crc: 0, elapsed: Duration::ZERO };
        assert_eq!(script.events(), [finished]);
    }
}
