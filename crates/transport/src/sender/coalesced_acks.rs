//! Classic ACKs that arrive coalesced (GRO) and only advance `snd_una`: each gives an RTT sample,
//! and only the last one is processed.

use std::time::{Duration, Instant};

use super::observer::{CoalescedAck, Observers};
use crate::recovery::{Flight, Rtt};
use crate::wire::Codec;

/// Limit of ACKs processed together, at least as many as GRO coalesces.
const MAX_COALESCED_ACKS: usize = 128;

/// ACKs whose RTT samples were taken, and that the last one represents.
pub(super) struct AckRun {
    pub(super) count: usize,
    /// Cumulative ACK and window of the last ACK.
    pub(super) edge: u64,
    pub(super) window: u64,
}

/// Takes RTT samples of the ACKs of `stride` bytes at the start of `bytes`, as long as each
/// advances `snd_una` and leaves data outstanding. `None` if the first one does not.
pub(super) fn coalesce(
    now: Instant,
    bytes: &[u8],
    stride: usize,
    flight: &Flight,
    codec: &Codec,
    rtt: &mut Rtt,
    observers: &mut Observers,
) -> Option<AckRun> {
    let board = &flight.board;
    let (snd_una, snd_nxt) = (board.snd_una(), board.snd_nxt());
    let mut observers = observers.attached();
    let mut run = AckRun { count: 0, edge: snd_una, window: 0 };
    // Segments of one batch have one RTT.
    let mut trip: Option<(Instant, Duration)> = None;
    for datagram in bytes.chunks_exact(stride).take(MAX_COALESCED_ACKS) {
        let Some((ack, window)) = codec.decode_plain_ack(datagram, run.edge) else { break };
        if ack <= run.edge || ack >= snd_nxt {
            break;
        }
        let Some(last) = board.numbered(ack - 1) else { break };
        // Most often each packet has an ACK.
        let alone = ack == run.edge + 1;
        let Some(first) = (if alone { Some(last) } else { board.numbered(run.edge) }) else { break };
        let time = match trip {
            Some((sent_at, time)) if sent_at == last.sent_at => time,
            _ => now.saturating_duration_since(last.sent_at),
        };
        trip = Some((last.sent_at, time));
        let sample = (first.sent_count == 1).then_some(time);
        if let Some(sample) = sample {
            rtt.on_sample(sample, 1);
        }
        if let Some(observers) = &mut observers {
            let bytes = last.end() - first.offset;
            let coalesced = CoalescedAck { ack, window, bytes, length: stride, sample };
            observers.on_coalesced_ack(now, &coalesced, rtt.rto());
        }
        run = AckRun { count: run.count + 1, edge: ack, window };
    }
    (run.count > 0).then_some(run)
}
