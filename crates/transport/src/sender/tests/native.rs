//! The sender of a connection's stream: its requests to the receiver, and the rules that use SACK
//! blocks.

use std::sync::Arc;

use rdt_crypto::{Aead, PacketKey};

use super::*;
use crate::sender::KnownPath;
use crate::wire::native::{
    self, Body, FITTING_BLOCKS, HEADER, NativeCodec, SackBlock, TAG, ack_body_len, encode_ack_body, peek,
    take_ack,
};
use crate::{LossDetection, Reordering, SenderConfig, Wire};

pub(super) const MSS: u64 = PAYLOAD as u64;

/// Returns a configuration with packets of [`PAYLOAD`] bytes of payload, without pacing.
pub(super) fn small() -> SenderConfig {
    let packet_size = Wire::Native.overhead() + PAYLOAD;
    SenderConfig { pacing: false, packet_size, ..SenderConfig::native(7) }
}

/// Returns a sender with a window of 10 packets after a handshake RTT of 100 ms, which is the time
/// now.
fn connected(recovery: LossDetection) -> Script {
    connected_by(recovery, Algorithm::Fixed(10))
}

/// Like [`connected`], with another congestion control and its initial window of 10 packets.
pub(super) fn connected_by(recovery: LossDetection, congestion: Algorithm) -> Script {
    connected_to(SenderConfig { recovery, window: 10, congestion, ..small() }, Params::default())
}

/// Returns a sender whose peer has answered with `params` after 100 ms, which is the time now.
pub(super) fn connected_to(config: SenderConfig, params: Params) -> Script {
    connected_after(rdt_testing::epoch(), 100, config, params)
}

/// Like [`connected_to`], for a handshake that took `rtt` ms.
pub(super) fn connected_after(epoch: Instant, rtt: u64, config: SenderConfig, params: Params) -> Script {
    connected_on(epoch, rtt, config, params, None)
}

/// Like [`connected_after`], on a path that an earlier connection measured.
pub(super) fn connected_on(
    epoch: Instant,
    rtt: u64,
    config: SenderConfig,
    params: Params,
    known: Option<KnownPath>,
) -> Script {
    // Packets can be read without the key.
    let key = PacketKey::new(Aead::None, &[], [0; 12]);
    let (codec, rtt) = (NativeCodec::new(7, Arc::new(key)), ms(rtt));
    let peer = Established { window: 1 << 20, params, rtt, is_rtt_sample: true, is_remembered: false, known };
    let sender = Sender::established(config, codec, FramePool::new(), epoch + rtt, &peer).unwrap();
    let mut script = Script::of(sender, epoch);
    script.now = epoch + rtt;
    assert_eq!(script.events(), [SenderEvent::Connected { rtt }]);
    script
}

/// Returns number and contents of a packet.
pub(super) fn opened(datagram: &[u8]) -> (u64, Body<'_>) {
    let header = peek(datagram).expect("a sealed packet");
    let number = u64::from(header.number);
    (number, Body::decode(&header, number, &datagram[HEADER..datagram.len() - TAG], 0).unwrap())
}

/// Returns a DATA packet.
pub(super) fn piece(datagram: &[u8]) -> Piece<'_> {
    match opened(datagram).1 {
        Body::Data { piece, ack: None } => piece,
        other => panic!("{other:?}"),
    }
}

/// Returns the data sent now: segment index, packet number, and whether it requests an ACK.
pub(super) fn leaving(script: &mut Script) -> Vec<(u64, u64, bool)> {
    script.datagrams().iter().map(|datagram| read(datagram)).collect()
}

fn read(datagram: &[u8]) -> (u64, u64, bool) {
    let piece = piece(datagram);
    (piece.seq / MSS, piece.packet_number.unwrap(), piece.ack_now)
}

/// Acknowledges segments below `below` and segments `blocks`; packet `packet_number` is the newest.
pub(super) fn ack(script: &mut Script, packet_number: u64, below: u64, blocks: &[(u64, u64)]) {
    ack_with_window(script, packet_number, below, blocks, 1 << 20);
}

/// Like [`ack`], with a receive window of `window` bytes.
pub(super) fn ack_with_window(
    script: &mut Script,
    packet_number: u64,
    below: u64,
    blocks: &[(u64, u64)],
    window: u64,
) {
    let blocks: Vec<SackBlock> =
        blocks.iter().map(|(start, end)| SackBlock { start: start * MSS, end: end * MSS }).collect();
    recv_ack(script, &native::Ack { ack: below * MSS, window, ..answer_to(packet_number) }, &blocks);
}

/// Like [`ack`], with a segment that arrived in part: `below` is in bytes.
pub(super) fn ack_bytes(script: &mut Script, packet_number: u64, below: u64, window: u64) {
    recv_ack(script, &native::Ack { ack: below, window, ..answer_to(packet_number) }, &[]);
}

/// Takes an ACK that leaves in the instant of its arrival: the way back takes no time.
pub(super) fn recv_ack(script: &mut Script, ack: &native::Ack, blocks: &[SackBlock]) {
    recv_ack_after(script, Duration::ZERO, ack, blocks);
}

/// Takes an ACK that was on its way for so long.
pub(super) fn recv_ack_after(script: &mut Script, took: Duration, ack: &native::Ack, blocks: &[SackBlock]) {
    let mut blocks = blocks.to_vec();
    blocks.sort_unstable_by_key(|block| block.start);
    let sent_us = u32::try_from((script.now - script.epoch).saturating_sub(took).as_micros()).unwrap();
    let ack = &native::Ack { sent_us, ..*ack };
    let mut body = vec![0; ack_body_len(blocks.len())];
    let len = encode_ack_body(ack, &blocks, &mut body);
    let ack = take_ack(&mut &body[..len], script.sender.next_number()).unwrap();
    script.sender.handle_reply(script.now, &FromReceiver::Ack(ack), len);
}

/// Returns an ACK that echoes packet `packet_number` and reports nothing else.
pub(super) fn answer_to(packet_number: u64) -> native::Ack {
    native::Ack {
        largest_received: packet_number,
        sent_us: 0,
        echo_delay_us: 0,
        ack: 0,
        window: 0,
        packets: 0,
        duplicates: 0,
        ce: 0,
        ect: 0,
        overflow: None,
    }
}

#[test]
fn fin_requests_ack_for_last_segment() {
    let mut script = connected(LossDetection::Rack);
    script.write(3 * PAYLOAD);
    assert_eq!(leaving(&mut script), [(0, 0, false), (1, 1, false), (2, 2, false)], "more may follow");
    script.write(2 * PAYLOAD).finish();
    let mut last = script.datagrams();
    let fin = last.pop().unwrap();
    assert_eq!(opened(&fin), (5, Body::Fin { length: 500, ack: None }));
    assert_eq!(
        last.iter().map(|datagram| read(datagram)).collect::<Vec<_>>(),
        [(3, 3, false), (4, 4, false)]
    );
}

#[test]
fn probe_replaces_earlier_rto() {
    let mut script = connected(LossDetection::Rack);
    script.write(2 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 2);
    script.at(200);
    ack(&mut script, 1, 2, &[]);
    script.write(2 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 2);
    // The timer is due after 250 ms (two samples of 100 ms), and two RTTs are 200 ms: the probe is
    // first.
    assert_eq!(script.rto(), ms(250));
    assert_eq!(script.expire(), ms(400));
    assert_eq!(leaving(&mut script), [(3, 4, true)]);
    assert_eq!((script.stats().probes, script.stats().timeouts), (1, 0));
    assert_eq!(script.expire(), ms(650), "the timer restarts with the probe");
    assert_eq!((script.stats().probes, script.stats().timeouts), (1, 1));
}

#[test]
fn probe_precedes_rto() {
    let mut script = connected(LossDetection::Rack);
    for round in 0..9 {
        script.write(PAYLOAD);
        leaving(&mut script);
        script.at(200 + 100 * round);
        ack(&mut script, round, round + 1, &[]);
    }
    assert_eq!(script.rto(), ms(200), "the samples do not vary");
    script.write(PAYLOAD);
    assert_eq!(leaving(&mut script), [(9, 9, false)]);
    // One segment: 100 ms, the deviation and the receiver's 25 ms.
    let probed = script.expire();
    assert!((ms(1127)..ms(1145)).contains(&probed), "{probed:?}");
    assert_eq!(leaving(&mut script), [(9, 10, true)]);
    assert_eq!((script.stats().probes, script.stats().timeouts), (1, 0));
    assert_eq!(script.expire(), probed + ms(200));
    assert_eq!((script.stats().probes, script.stats().timeouts), (1, 1));
}

#[test]
fn probe_repaired_loss_halves_prior_flight() {
    let mut script = connected_by(LossDetection::Rack, Algorithm::Reno);
    script.write(10 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10);
    // The last segment is lost, and so are all ACKs of the others.
    script.expire();
    assert_eq!(leaving(&mut script), [(9, 10, true)]);
    ack(&mut script, 10, 10, &[]);
    // RFC 5681, equation 4.
    assert_eq!(script.stats().ssthresh, Some(5 * MSS));
}

#[test]
fn newreno_ignores_sack_blocks() {
    // The first of ten segments is lost. With SACK each ACK beyond the hole allows another segment;
    // the reference's rule keeps its window closed, and retransmits the base on the third.
    for (rule, after_each) in [
        (LossDetection::Sack, [vec![10], vec![11], vec![0, 12]]),
        (LossDetection::BaseOnly, [vec![], vec![], vec![0]]),
    ] {
        let mut script = connected(rule);
        script.write(20 * PAYLOAD);
        assert_eq!(leaving(&mut script).len(), 10);
        script.at(200);
        for (n, expected) in (1..).zip(after_each) {
            ack(&mut script, n, 0, &[(1, n + 1)]);
            let sent: Vec<u64> = leaving(&mut script).into_iter().map(|(segment, ..)| segment).collect();
            assert_eq!(sent, expected, "{rule}, ACK {n}");
        }
    }
}

#[test]
fn window_grows_per_ack_after_timeout() {
    // RFC 3465, section 2.3; two when everything sent before the timeout is acknowledged.
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        for rule in [LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly] {
            let mut script = connected_by(rule, congestion);
            script.write(40 * PAYLOAD);
            assert_eq!(leaving(&mut script).len(), 10);
            script.expire();
            assert_eq!(leaving(&mut script), [(0, 10, false)], "{rule}");
            let window = |script: &Script| script.stats().cwnd / MSS;
            let mut packet_number = 10;
            for (time, below, expected) in [(500, 2, 2), (501, 4, 3)] {
                assert_eq!(script.stats().timeouts, 1, "{rule}");
                script.at(time);
                ack(&mut script, packet_number, below, &[]);
                assert_eq!(window(&script), expected, "{congestion}, {rule}: {below} acknowledged");
                packet_number =
                    leaving(&mut script).last().map_or(packet_number, |(_, packet_number, _)| *packet_number);
            }
        }
    }
}

#[test]
fn reneging_receiver_is_given_up() {
    // Receivers may not renege (PROTOCOL.md, N3), so a timeout retransmits nothing that was
    // reported; a probe may.
    for rule in [LossDetection::Rack, LossDetection::Sack] {
        let mut script = connected(rule);
        script.write(3 * PAYLOAD);
        assert_eq!(leaving(&mut script).len(), 3);
        script.at(200);
        ack(&mut script, 2, 0, &[(1, 3)]);
        leaving(&mut script);
        script.at(210);
        ack(&mut script, 2, 1, &[]);
        let mut events = Vec::new();
        while events.is_empty() {
            assert!(script.expire() <= ms(210) + script.sender.config().give_up, "{rule}");
            assert!(leaving(&mut script).iter().all(|(_, _, ack_now)| *ack_now), "{rule}");
            events = script.events();
        }
        let failed = matches!(
            events[..],
            [SenderEvent::Failed { phase: Phase::Send, error: TransferError::Timeout { .. } }]
        );
        assert!(failed, "{rule}: {events:?}");
    }
}

#[test]
fn duplicate_acks_keep_data_flowing_while_newreno_recovers() {
    // RFC 5681, section 3.2: of the 12 segments outstanding at the third duplicate, limited
    // transmit sent two, which step 2 excludes. So ssthresh is 5. RFC 9937 then sends one segment
    // for every second duplicate until 5 are in flight.
    let mut script = connected_by(LossDetection::NewReno, Algorithm::Reno);
    script.write(40 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10);
    script.at(200);
    let expected: [&[u64]; 9] = [&[10], &[11], &[0], &[], &[12], &[], &[13], &[], &[]];
    for (n, expected) in (1..).zip(expected) {
        ack(&mut script, n, 0, &[]);
        let sent: Vec<u64> = leaving(&mut script).into_iter().map(|(segment, ..)| segment).collect();
        assert_eq!(sent, expected, "duplicate {n}");
    }
    // One RTT later, `snd_una` passes the hole and the nine segments that duplicate ACKs reported,
    // which are not counted twice.
    script.at(300);
    ack(&mut script, 12, 10, &[]);
    let stats = script.stats();
    assert_eq!((stats.recoveries, stats.retransmitted, stats.timeouts), (1, 1, 0));
    assert_eq!(stats.ssthresh, Some(5 * MSS));
    assert!(stats.in_flight <= 5 * MSS + MSS, "{stats:?}");
}

#[test]
fn duplicate_acks_count_although_the_window_changes() {
    let mut script = connected_by(LossDetection::NewReno, Algorithm::Reno);
    script.write(10 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10);
    script.at(200);
    for n in 1..=3 {
        ack_with_window(&mut script, n, 0, &[], 100_000 - n);
    }
    assert_eq!(leaving(&mut script).first().map(|(segment, ..)| *segment), Some(0));
    // A window update echoes the same packet again.
    ack_with_window(&mut script, 3, 0, &[], 200_000);
    // The receiver had packet 4 already.
    let again = native::Ack { ack: 0, window: 100_000, duplicates: 1, ..answer_to(4) };
    recv_ack(&mut script, &again, &[]);
    let stats = script.stats();
    assert_eq!((stats.dup_acks, stats.recoveries), (3, 1));
}

#[test]
fn blind_timeout_resends_as_answers_come() {
    // The first and the sixth of ten segments are lost, and all ACKs. The window has room for all
    // of them.
    let mut script = connected(LossDetection::NewReno);
    script.write(40 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10);
    script.expire();
    let again = |script: &mut Script| -> Vec<u64> {
        leaving(script).into_iter().map(|(segment, ..)| segment).collect()
    };
    assert_eq!(again(&mut script), [0]);
    script.at(600);
    ack(&mut script, 10, 5, &[]);
    // Slow start; the second of these segments had arrived, which no ACK reported.
    assert_eq!(again(&mut script), [5, 6]);
    script.at(700);
    ack(&mut script, 11, 10, &[]);
    let stats = script.stats();
    assert_eq!((stats.retransmitted, stats.timeouts, stats.recoveries), (3, 1, 0));
    assert_eq!(again(&mut script).len(), 10, "new ones");
}

#[test]
fn flight_timeout_continues_in_slow_start() {
    let mut script = connected(LossDetection::NewReno);
    script.write(10 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10);
    script.expire();
    let (mut packet_number, mut below) = (10, 0);
    let mut rounds = Vec::new();
    while below < 10 {
        let again = leaving(&mut script).len() as u64;
        rounds.push(again);
        below += again;
        script.at_exactly(script.now - script.epoch + ms(100));
        ack(&mut script, packet_number + again - 1, below, &[]);
        packet_number += again;
    }
    assert_eq!((rounds, script.stats().retransmitted), (vec![1, 2, 4, 3], 10));
}

#[test]
fn two_holes_in_one_ack_are_no_reordering() {
    // Segments 0 and 4 of ten are lost, and so are the ACKs between them. So one ACK has both
    // blocks, newest first as receivers send them (PROTOCOL.md, N3).
    let config = SenderConfig { reordering: Reordering::OnceSeen, window: 10, ..small() };
    let config = SenderConfig { congestion: Algorithm::Fixed(10), ..config };
    let mut script = connected_to(config, Params::default());
    script.write(30 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10);
    script.at(200);
    ack(&mut script, 7, 0, &[(5, 8), (1, 4)]);
    let sent: Vec<u64> = leaving(&mut script).into_iter().map(|(segment, ..)| segment).collect();
    assert_eq!(sent[..2], [0, 4]);
    // A second pair of holes: if the first had counted as reordering, these would wait.
    script.at(300);
    let newest = 10 + sent.len() as u64 - 1;
    ack(&mut script, newest, 10, &[]);
    let sent = leaving(&mut script);
    script.at(400);
    let (_, last, _) = sent[sent.len() - 1];
    let next = sent[0].0;
    ack(&mut script, last, next, &[(next + 1, next + sent.len() as u64)]);
    assert_eq!(leaving(&mut script)[0].0, next, "at once");
}

#[test]
fn arrivals_beyond_a_full_list_are_no_reordering() {
    // Every second segment is lost. An ACK has blocks for the newest of the others alone, the next
    // one for the older ones.
    let config = SenderConfig { reordering: Reordering::UntilLoss, window: 60, ..small() };
    let config = SenderConfig { congestion: Algorithm::Fixed(60), ..config };
    let mut script = connected_to(config, Params::default());
    script.write(90 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 60);
    let arrived: Vec<(u64, u64)> = (1..60).step_by(2).map(|segment| (segment, segment + 1)).collect();
    let (older, newest) = arrived.split_at(arrived.len() - FITTING_BLOCKS);
    script.at(200);
    ack(&mut script, 59, 0, newest);
    script.at(201);
    ack(&mut script, 59, 0, older);
    assert_eq!(leaving(&mut script).len(), 30);
    script.expire();
    let again = leaving(&mut script);
    assert_eq!(again.first().map(|(segment, ..)| *segment), Some(0));
    let after = |script: &Script| script.now - script.epoch + ms(100);
    script.at_exactly(after(&script));
    ack(&mut script, 89 + again.len() as u64, 90, &[]);
    // The first loss was waited for. The next one is if reordering was seen.
    script.write(60 * PAYLOAD);
    let sent = leaving(&mut script);
    script.at_exactly(after(&script));
    ack(&mut script, sent[sent.len() - 1].1, 90, &[(91, 90 + sent.len() as u64)]);
    assert_eq!(leaving(&mut script).first().map(|(segment, ..)| *segment), Some(90), "at once");
}

#[test]
fn a_push_asks_for_its_answer_at_once() {
    let mut script = connected(LossDetection::Rack);
    script.write(PAYLOAD / 2);
    script.sender.push();
    assert_eq!(leaving(&mut script), [(0, 0, false)], "the answer of the application may carry the ACK");
    script.write(PAYLOAD / 2);
    script.sender.push();
    assert_eq!(leaving(&mut script).iter().map(|(.., ack_now)| *ack_now).collect::<Vec<_>>(), [true]);
    script.at(200);
    ack_bytes(&mut script, 1, MSS, 1 << 20);
    // Only the last of the pushed data.
    script.write(3 * PAYLOAD);
    script.sender.push();
    assert_eq!(
        leaving(&mut script).iter().map(|(.., ack_now)| *ack_now).collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[test]
fn spurious_timeout_raises_rto_without_burst() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        let config = SenderConfig { congestion, window: 100, initial_window: 20, ..small() };
        let mut script =
            connected_to(SenderConfig { recovery: LossDetection::Rack, ..config }, Params::default());
        script.write(100 * PAYLOAD);
        assert_eq!(leaving(&mut script).len(), 20);
        // All packets are delayed by a second. First the probe is due, then the timer.
        while script.stats().timeouts == 0 {
            script.expire();
            leaving(&mut script);
        }
        let window = script.stats().cwnd;
        assert_eq!(window, MSS);
        script.at(1100);
        ack(&mut script, 9, 10, &[]);
        let stats = script.stats();
        assert_eq!((stats.spurious, stats.timeouts), (1, 1), "{congestion}: {stats:?}");
        // Step 8: the sender sends no more than what arrived, up to the initial window; slow start
        // restores the window.
        assert!(stats.cwnd <= stats.in_flight + 10 * MSS, "{congestion}: {stats:?}");
        assert!(leaving(&mut script).len() <= 10, "{congestion}");
        // Step 9: the sample of 1 s is the round trip, and half of it its deviation.
        assert!(script.rto() >= ms(1000 + 4 * 500), "{congestion}: {:?}", script.rto());
        let newest = script.sender.flight.next_number() - 1;
        let all = script.sender.flight.board.next_offset() / MSS;
        script.at(1200);
        ack(&mut script, newest, all, &[]);
        assert!(!leaving(&mut script).is_empty());
        // The second delay of that length.
        while script.timer().is_some_and(|at| at < ms(2300)) {
            script.expire();
            leaving(&mut script);
        }
        assert_eq!(script.stats().timeouts, 1, "{congestion}");
    }
}

#[test]
fn timeouts_back_off_to_one_second() {
    // RFC 6298, rules 2.2 to 2.5 and 5.5, with at least 200 ms and a back-off to 1 s. Handshake
    // RTT, the intervals between timeouts while they grow, and the interval afterwards, ms.
    const TABLE: [(u64, &[u64], u64); 4] =
        [(1, &[200, 400, 800], 1000), (100, &[300, 600], 1000), (1000, &[], 3000), (2500, &[], 7500)];
    for (rtt, growing, steady) in TABLE {
        for recovery in [LossDetection::Sack, LossDetection::NewReno] {
            let config = SenderConfig { recovery, pacing: false, ..SenderConfig::native(7) };
            let mut script = connected_after(rdt_testing::epoch(), rtt, config, Params::default());
            script.write(PAYLOAD);
            script.sender.push();
            assert_eq!(script.datagrams().len(), 1);
            let mut last = ms(rtt);
            let mut waited = Vec::new();
            while script.timer().is_some() {
                let at = script.expire();
                waited.push(u64::try_from(at.saturating_sub(last).as_millis()).unwrap());
                last = at;
                script.datagrams();
            }
            // The give-up time shortens the last interval.
            let rest = waited.split_off(growing.len());
            assert_eq!(waited, growing, "{rtt} ms, {recovery}");
            assert!(rest[..rest.len() - 1].iter().all(|wait| *wait == steady), "{rtt} ms, {recovery}");
            assert_eq!(last, ms(rtt) + script.sender.config().give_up);
        }
    }
}

/// The paced retransmission is void when its time comes, so nothing is left to wait for.
#[test]
fn acknowledged_retransmission_leaves_no_pacing_timer() {
    let (congestion, recovery) = (Algorithm::Fixed(10), LossDetection::Sack);
    let config = SenderConfig { congestion, recovery, pacing: true, ..small() };
    let mut script = connected_to(config, Params::default());
    let room = script.sender.spare_now(1).unwrap().len();
    assert_eq!(room, 1000);
    script.sender.advance(room);
    assert!(script.sender.spare_now(1).unwrap().is_empty(), "the application filled the window");
    let mut sent = 0;
    while sent < 10 {
        sent += leaving(&mut script).len();
        if let Some(due) = script.sender.blocked.paced_until() {
            script.at_exactly(due - script.epoch);
        }
    }
    script.at(300);
    ack(&mut script, 9, 0, &[(5, 10)]);
    assert_eq!(leaving(&mut script).len(), 2);
    let due = script.sender.blocked.paced_until().expect("the repairs are paced");
    script.at_exactly(due - script.epoch);
    ack(&mut script, 9, 10, &[]);
    assert_eq!(leaving(&mut script), []);
    assert!(script.sender.poll_timeout().is_none_or(|at| at > script.now), "a timer in the past");
}

#[test]
fn idle_sender_keeps_no_records_of_keep_alives() {
    let mut script = connected(LossDetection::Rack);
    script.write(PAYLOAD);
    leaving(&mut script);
    script.at(200);
    ack(&mut script, 0, 1, &[]);
    for count in 1..100 {
        script.expire_keep_alive();
        assert_eq!(leaving(&mut script).len(), 1);
        let flight = &script.sender.flight;
        assert_eq!(flight.next_number(), count + 1);
        assert!(flight.sent.first().is_none_or(|(packet_number, _)| packet_number == count), "{count}");
    }
}

#[test]
fn late_ack_does_not_reset_duplicate_count() {
    let mut script = connected(LossDetection::NewReno);
    script.write(10 * PAYLOAD);
    leaving(&mut script);
    script.at(200);
    let answer = |packet_number, duplicates| native::Ack {
        ack: MSS,
        window: 1 << 20,
        duplicates,
        ..answer_to(packet_number)
    };
    recv_ack(&mut script, &answer(1, 1), &[]);
    // This ACK was sent before the one above, which overtook it.
    recv_ack(&mut script, &answer(0, 0), &[]);
    recv_ack(&mut script, &answer(2, 1), &[]);
    recv_ack(&mut script, &answer(3, 1), &[]);
    assert_eq!(script.stats().recoveries, 0);
    recv_ack(&mut script, &answer(4, 1), &[]);
    assert_eq!(script.stats().recoveries, 1, "the third duplicate ACK");
}
