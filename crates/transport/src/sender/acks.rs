//! ACKs that arrive joined, the usual case where every packet is answered: the books are kept once
//! for all that only move the base, and each is a sample and a fact of its own. Whatever is no such
//! run is left to `input.rs`, which does the same one by one.

use std::time::{Duration, Instant};

use super::{Sender, State};
use crate::endpoint::one_by_one;
use crate::recovery::Recovery;
use crate::wire::Ack;
use crate::{Ecn, Endpoint, Trace};

/// So many are taken together at most: as many as kernels join.
const MOST: usize = 128;

impl Sender {
    /// See [`Endpoint::handle_datagrams`].
    pub(super) fn on_datagrams(&mut self, now: Instant, bytes: &[u8], stride: usize) -> usize {
        if bytes.is_empty() || self.config.wire.plain_ack_len() != Some(stride) {
            return one_by_one(self, now, (), Ecn::NotEct, bytes, stride);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut taken = self.take_acks(now, rest, stride);
            if taken == 0 {
                taken = stride.min(rest.len());
                self.handle_datagram(now, (), Ecn::NotEct, &rest[..taken]);
            }
            rest = &rest[taken..];
        }
        bytes.len().div_ceil(stride)
    }

    /// Takes the datagrams of `stride` bytes, that of an ACK, that `bytes` begins with as long as
    /// they move the base and leave something outstanding. Gives their bytes: 0 where more than
    /// that has to be done for each.
    fn take_acks(&mut self, now: Instant, bytes: &[u8], stride: usize) -> usize {
        let plain = self.state == State::Open
            && self.delivery.is_none()
            && matches!(self.recovery, Recovery::BaseOnly(_))
            && self.observer.is_none();
        if !plain {
            return 0;
        }
        let run = self.sample_run(now, bytes, stride);
        let Some(Run { count, una, wnd }) = run else { return 0 };
        self.stats.datagrams_received += count as u64;
        self.refusals = None;
        self.snd_wnd.on_ack(&Ack::plain(una, wnd), true, self.sent_packets.next_tx());
        self.board.acknowledge_unmarked(una);
        if let Recovery::BaseOnly(rules) = &mut self.recovery {
            rules.on_base_moved(now, self.rtt.rto(), true);
        }
        self.note_moved(now);
        self.trace_state(now);
        self.check();
        count * stride
    }

    /// Finds the run, and takes a sample of each of its ACKs by the segments that they cover.
    fn sample_run(&mut self, now: Instant, bytes: &[u8], stride: usize) -> Option<Run> {
        let Self { board, codec, rtt, sampler, .. } = self;
        let (snd_una, snd_nxt) = (board.snd_una(), board.snd_nxt());
        let mut run = Run { count: 0, una: snd_una, wnd: 0 };
        // What left together has one round trip.
        let mut trip: Option<(Instant, Duration)> = None;
        for datagram in bytes.chunks_exact(stride).take(MOST) {
            let Some((ack, wnd)) = codec.decode_plain_ack(datagram, run.una) else { break };
            if ack <= run.una || ack >= snd_nxt {
                break;
            }
            let (Some(first), Some(last)) = (board.numbered(run.una), board.numbered(ack - 1)) else { break };
            let time = match trip {
                Some((sent_at, time)) if sent_at == last.sent_at => time,
                _ => now.saturating_duration_since(last.sent_at),
            };
            trip = Some((last.sent_at, time));
            let sample = (first.sent_count == 1).then_some(time);
            if let Some(sample) = sample {
                rtt.on_sample(sample, 1);
            }
            if let Some(sampler) = sampler {
                let rto = rtt.rto();
                sampler.on(now, &Trace::AckReceived { ack, wnd, rto, deadline: Some(now + rto), sample });
            }
            run = Run { count: run.count + 1, una: ack, wnd };
        }
        (run.count > 0).then_some(run)
    }
}

/// ACKs one after the other.
struct Run {
    count: usize,
    /// The edge and the window of the last one.
    una: u64,
    wnd: u64,
}
