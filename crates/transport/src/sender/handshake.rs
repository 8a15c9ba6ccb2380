//! Handshake: SYN, RETRY with a cookie, SYN-ACK, early data, and version negotiation.
//!
//! The native receiver answers the first SYN by a RETRY with a cookie, which gives a first RTT.
//! Early data follows the SYN with the cookie, up to 64 KiB. Until an answer arrives, only the SYN
//! is retransmitted, and its timer covers the early data. A SYN-ACK, or any ACK of early data,
//! completes the handshake.

use std::time::{Duration, Instant};

use super::congestion::CongestionControl;
use super::{Sender, SenderConfig, SenderEvent, State};
use crate::cookie::Cookie;
use crate::recovery::{Fate, RttQuality, Segment, Timing};
use crate::send_buffer::FramePool;
use crate::wire::Codec;
use crate::wire::native::{CloseReason, Params, Versions};
use crate::wire::sealed::SealedCodec;
use crate::{ConfigError, PacketKind, Phase, Trace, TransferError, TransmitBuf};

/// Divisor of `srtt`. A SYN-ACK is late if it comes `srtt` / 4 after the ACK of early data: the
/// initial reordering window (RFC 8985, section 6.2).
const SYN_ACK_REORDERING_DIVISOR: u32 = 4;
/// Limit of SYNs that request the parameters of an open transfer; afterwards the defaults apply.
/// With half of all packets lost each way, one transfer in thirty reaches it.
const PARAMS_RETRY_LIMIT: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Handshake {
    syns: Syns,
    request: Option<ParamsRequest>,
    /// First packet number sent after the first packet from the receiver arrived; the next one if
    /// none was sent since.
    pub(super) first_after_open: u64,
}

/// Result of a handshake that the connection completed (version 2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Established {
    /// Initial receive window of the peer, bytes.
    pub(crate) window: u64,
    /// Parameters of the peer as a receiver.
    pub(crate) params: Params,
    /// Round trip of the handshake.
    pub(crate) rtt: Duration,
    /// False if a packet of the handshake was repeated, so that `rtt` is ambiguous (Karn).
    pub(crate) is_rtt_sample: bool,
}

/// Retransmission of the SYN after an ACK of early data completed the handshake: only the SYN-ACK
/// carries the receiver's parameters. Data is not delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ParamsRequest {
    /// SYNs sent since the handshake completed.
    attempts: u32,
    /// True if a SYN is due.
    send: bool,
}

/// Send times of the SYNs with the current cookie, by attempt number. A native SYN-ACK names its
/// SYN, so the RTT sample is unambiguous (Karn).
#[derive(Debug, Default)]
pub(crate) struct Syns {
    sent_at: Vec<Instant>,
    /// Send time of the first SYN of all.
    first: Option<Instant>,
}

impl Syns {
    /// Starts to count again: the next SYN has another cookie.
    pub(crate) fn restart(&mut self) {
        self.sent_at.clear();
    }

    /// Returns the attempt number of the next SYN, from 1.
    pub(crate) fn next(&self) -> u8 {
        u8::try_from(self.sent_at.len()).map_or(u8::MAX, |sent| sent.saturating_add(1))
    }

    /// Records the transmission of the next SYN. SYNs beyond the largest attempt number share it.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.sent_at.truncate(usize::from(u8::MAX) - 1);
        self.sent_at.push(now);
    }

    /// Returns the time since the first SYN.
    fn elapsed(&self, now: Instant) -> Duration {
        self.first.map_or(Duration::ZERO, |first| now.saturating_duration_since(first))
    }

    /// Returns the send time of the SYN with this attempt number.
    pub(crate) fn sent_at(&self, attempt: u8) -> Option<Instant> {
        self.sent_at.get(usize::from(attempt).checked_sub(1)?).copied()
    }
}

impl Handshake {
    /// Returns the time since the first SYN.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        self.syns.elapsed(now)
    }

    /// True if the handshake completed without the receiver's parameters.
    pub(super) fn awaits_params(&self) -> bool {
        self.request.is_some()
    }

    /// True if a SYN that requests the receiver's parameters is due.
    pub(super) fn requests_params(&self) -> bool {
        self.request.is_some_and(|request| request.send)
    }

    /// Handles the timeout of a SYN that requests the receiver's parameters.
    pub(super) fn on_params_timeout(&mut self) {
        self.request = self
            .request
            .filter(|request| request.attempts < PARAMS_RETRY_LIMIT)
            .map(|request| ParamsRequest { send: true, ..request });
    }
}

impl Sender {
    /// Returns the sender of one stream of a connection whose handshake is complete (version 2). It
    /// sends DATA, FIN and keep-alives, sealed by `codec`; its replies come through
    /// [`Sender::handle_reply`].
    ///
    /// # Errors
    /// As [`Sender::new`].
    pub(crate) fn established(
        config: SenderConfig,
        codec: SealedCodec,
        memory: FramePool,
        now: Instant,
        peer: &Established,
    ) -> Result<Self, ConfigError> {
        let mut sender = Self::with_codec(config, Codec::Sealed(codec), memory)?;
        sender.open_established(now, peer);
        Ok(sender)
    }

    /// True if the state allows data: the handshake completed, or early data is allowed.
    pub(super) fn data_flows(&self) -> bool {
        match self.state {
            State::Open => true,
            State::Opening { .. } => self.peer.window.size() > 0,
            _ => false,
        }
    }

    pub(super) fn transmit_syn(&mut self, now: Instant, attempt: u32, out: &mut TransmitBuf) -> Option<()> {
        let syns = &mut self.handshake.syns;
        self.codec.number_syn(syns.next());
        self.codec.encode_syn(out.slot(self.codec.syn_len())?);
        if syns.next() > 1 {
            self.path.rtt.on_syn_again();
        }
        syns.on_sent(now);
        let rest = self.config.handshake_give_up.saturating_sub(syns.elapsed(now));
        let rto = self.config.syn_timeout(attempt).min(rest);
        self.state = State::Opening { attempts: attempt, sent_at: Some(now), send: false };
        self.control_at = Some(now + rto);
        self.trace_syn(now, u64::from(attempt - 1));
        self.observers.on(now, &Trace::SynSent { seq: 0, attempt, of: self.config.attempts.syn, rto });
        Some(())
    }

    /// Handles a RETRY: the SYN is sent at once with the cookie, and early data after it.
    pub(super) fn on_retry(&mut self, now: Instant, cookie: Cookie) {
        let State::Opening { attempts, sent_at: Some(sent_at), .. } = self.state else {
            return self.stats.stale += 1;
        };
        if !self.codec.take_cookie(cookie) {
            return;
        }
        self.handshake.syns.restart();
        // This attempt was answered, so it does not count.
        self.state =
            State::Opening { attempts: attempts.saturating_sub(1), sent_at: Some(sent_at), send: true };
        // Base-only recovery could not repair early data that arrives before the SYN.
        if self.recovery.marks_losses() {
            let quality = if attempts <= 1 { RttQuality::Provisional } else { RttQuality::Guessed };
            self.learn_path(now, now.saturating_duration_since(sent_at), quality);
            self.pace(now);
            self.peer.window.open(self.codec.max_early_data().min(self.config.early_data));
        }
    }

    pub(super) fn on_syn_ack(&mut self, now: Instant, ack: u64, window: u64, params: Option<Params>) {
        let first = match self.state {
            State::Opening { sent_at, .. } => sent_at.is_some(),
            State::Open => self.peer.params.is_none(),
            _ => false,
        };
        if let Some(Params { versions, .. }) =
            params.filter(|params| first && self.codec.is_downgrade(params.versions))
        {
            self.fail(Phase::Connect, TransferError::Downgrade(versions));
            self.state = State::Aborting { reason: CloseReason::Version };
            return;
        }
        match self.state {
            State::Opening { sent_at: Some(last), attempts, .. } if ack == 0 => {
                let answered = params.and_then(|params| self.handshake.syns.sent_at(params.attempt));
                let rtt = now.saturating_duration_since(answered.unwrap_or(last));
                let sampled = answered.is_some() || attempts <= 1;
                if !self.path.rtt.is_known() {
                    self.learn_path(
                        now,
                        rtt,
                        if sampled { RttQuality::Sampled } else { RttQuality::Guessed },
                    );
                } else if sampled {
                    self.path.rtt.on_sample(rtt, 1);
                }
                if let Some(sent_at) = answered {
                    // Early data that arrived before the SYN was dropped.
                    self.give_up_segments(|segment| segment.sent_at < sent_at);
                }
                self.peer.window.open(window);
                self.meet(params);
                self.pace(now);
                self.enter_open(now, rtt);
                self.observers.on(now, &Trace::SynAckReceived { ack, window, rto: self.path.rtt.rto() });
                self.close_if_done();
            }
            // An ACK of early data arrived first.
            State::Open if self.peer.params.is_none() && params.is_some() => self.meet(params),
            _ => self.stats.stale += 1,
        }
    }

    /// Handles a VERSIONS packet: fails if the receiver supports none of the sender's versions. A
    /// host that sees the SYN could forge this, but cannot make the sender choose an older version.
    pub(super) fn on_versions(&mut self, versions: Versions) {
        let asked = matches!(self.state, State::Opening { sent_at: Some(_), .. });
        if !asked || versions.highest_common(Versions::OURS).is_some() {
            return self.stats.stale += 1;
        }
        self.fail(Phase::Connect, TransferError::Version(versions));
    }

    /// Completes the handshake because of an answer to early data: the SYN arrived, even if the
    /// SYN-ACK is lost.
    pub(super) fn open_by_answer(&mut self, now: Instant) {
        if let State::Opening { .. } = self.state {
            let srtt = self.path.rtt.srtt();
            self.enter_open(now, srtt);
            if self.closing.is_none() {
                self.handshake.request = Some(ParamsRequest { attempts: 0, send: false });
                self.control_at = Some(now + srtt / SYN_ACK_REORDERING_DIVISOR);
            }
        }
    }

    /// Begins to send in a connection whose handshake is complete (version 2): `rtt` is the
    /// handshake's, `window` and `params` are the peer's.
    pub(super) fn open_established(&mut self, now: Instant, peer: &Established) {
        // A receiver adds the link that it emulates after the handshake.
        let link = self.config.link_request.map(|link| Duration::from_micros(u64::from(link.rtt_us)));
        let quality = match link {
            _ if !peer.is_rtt_sample => RttQuality::Guessed,
            Some(_) => RttQuality::Provisional,
            None => RttQuality::Sampled,
        };
        self.learn_path(now, peer.rtt + link.unwrap_or_default(), quality);
        self.peer.window.open(peer.window);
        self.meet(Some(peer.params));
        self.pace(now);
        self.enter_open(now, peer.rtt);
    }

    /// Handles the first RTT: starts the estimator, the delivery rate and the controller.
    fn learn_path(&mut self, now: Instant, rtt: Duration, quality: RttQuality) {
        self.path.rtt.on_handshake(rtt, self.config.min_rto, quality);
        if self.flight.measure_from(now) {
            // After a loss in the handshake, no controller takes the path for a long one.
            let sample = (quality != RttQuality::Guessed).then_some(rtt);
            self.congestion.controller = self.config.controller(sample, self.path.mss);
        }
    }

    /// Adapts to a new path to the same peer (version 2): congestion control, path MTU discovery,
    /// ECN validation and the RTT start again. What is in flight counts as lost, without
    /// congestion: it says nothing about the new path (RFC 9000, section 9.4).
    pub(crate) fn on_path_changed(&mut self, now: Instant) {
        self.path.mtu = self.config.path_mtu();
        if let (Some(mtu), Some(params)) = (&mut self.path.mtu, self.peer.params) {
            mtu.limit(usize::from(params.max_datagram));
        }
        self.path.resize();
        self.path.restart(&self.config, self.flight.next_number(), self.flight.largest_acked());
        self.congestion = CongestionControl::new(&self.config, self.path.mss);
        self.resize();
        if let Some(params) = self.peer.params {
            self.adopt_ack_delay(&params);
        }
        self.recovery.forget_episode();
        self.give_up_segments(|_| true);
        if self.state == State::Open {
            let timing = Timing { rtt: &self.path.rtt, may_wait: self.may_wait() };
            self.recovery.on_open(now, &timing, &self.flight.board);
        }
        self.pace(now);
        self.after_call(now);
    }

    /// Adopts the receiver's transport parameters; `None` from a classic receiver.
    fn meet(&mut self, params: Option<Params>) {
        self.stop_params_request();
        self.peer.params = params;
        if !params.is_some_and(|params| params.ecn) {
            self.path.ecn.refuse();
        }
        if let Some(params) = params {
            self.adopt_ack_delay(&params);
        }
        if let (Some(mtu), Some(params)) = (&mut self.path.mtu, params) {
            mtu.limit(usize::from(params.max_datagram));
            self.resize();
        }
    }

    /// Adopts the longest delay of the receiver's ACKs.
    pub(super) fn adopt_ack_delay(&mut self, params: &Params) {
        let delay = Duration::from_micros(u64::from(params.ack_delay_max_us));
        self.recovery.set_max_ack_delay(delay);
        // A receiver that acknowledges every packet delays no ACK.
        self.path.rtt.set_max_ack_delay(if params.ack_every > 1 { delay } else { Duration::ZERO });
    }

    /// Marks segments in flight lost if `is_lost` is true for them. Not counted as congestion.
    pub(super) fn give_up_segments(&mut self, is_lost: impl Fn(&Segment) -> bool) {
        let in_flight = self.flight.board.segments().filter(|segment| segment.fate == Fate::InFlight);
        let offsets: Vec<u64> =
            in_flight.filter(|segment| is_lost(segment)).map(|segment| segment.offset).collect();
        for offset in offsets {
            self.flight.mark_lost(offset);
            self.stats.lost += 1;
        }
        self.flight.forget_resolved();
    }

    fn enter_open(&mut self, now: Instant, rtt: Duration) {
        self.state = State::Open;
        self.handshake.first_after_open = self.flight.next_number();
        self.control_at = None;
        self.give_up_timer.restart(now);
        self.keep_alive.restart(now, self.is_idle(), || self.peer.idle_timeout());
        let timing = Timing { rtt: &self.path.rtt, may_wait: self.may_wait() };
        self.recovery.on_open(now, &timing, &self.flight.board);
        self.stats.handshake_rtt = Some(rtt);
        self.events.push_back(SenderEvent::Connected { rtt });
        self.expect_fin_ack(now);
    }

    /// Stops the requests for parameters: they are known, or no longer needed.
    pub(super) fn stop_params_request(&mut self) {
        if self.handshake.request.take().is_some() {
            self.control_at = None;
        }
    }

    /// Sends the same bytes as before, so that the receiver recognises a retransmission of the SYN.
    pub(super) fn transmit_params_request(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        let attempt = self.handshake.request?.attempts + 1;
        self.codec.encode_syn(out.slot(self.codec.syn_len())?);
        // Back-off (RFC 6298, rule 5.5).
        let rto = self.path.rtt.rto().saturating_mul(1 << (attempt - 1).min(PARAMS_RETRY_LIMIT));
        self.handshake.request = Some(ParamsRequest { attempts: attempt, send: false });
        self.control_at = Some(now + rto);
        self.trace_syn(now, u64::from(attempt));
        self.observers.on(now, &Trace::SynSent { seq: 0, attempt, of: PARAMS_RETRY_LIMIT, rto });
        Some(())
    }

    /// True if a SYN is due although the handshake completed.
    pub(super) fn requests_params(&self) -> bool {
        self.state == State::Open && self.handshake.requests_params()
    }

    fn trace_syn(&mut self, now: Instant, number: u64) {
        let (offset, length) = (self.flight.board.next_offset(), self.codec.syn_len());
        self.observers.on_sent(now, PacketKind::Syn, (number, 0), offset, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syn_numbers_count_up_to_255() {
        let epoch = rdt_testing::epoch();
        let at = |n| epoch + Duration::from_secs(n);
        let mut syns = Syns::default();
        for n in 1..=300 {
            assert_eq!(u64::from(syns.next()), n.min(255));
            syns.on_sent(at(n));
        }
        assert_eq!([0, 1, 2, 254].map(|n| syns.sent_at(n)), [None, Some(at(1)), Some(at(2)), Some(at(254))]);
        assert_eq!(syns.sent_at(255), Some(at(300)));
        syns.restart();
        assert_eq!((syns.next(), syns.sent_at(1)), (1, None));
    }

    #[test]
    fn handshake_time_counts_from_the_first_syn() {
        let epoch = rdt_testing::epoch();
        let at = |n| epoch + Duration::from_secs(n);
        let mut handshake = Handshake::default();
        assert_eq!(handshake.elapsed(at(3)), Duration::ZERO);
        handshake.syns.on_sent(at(3));
        handshake.syns.restart();
        handshake.syns.on_sent(at(5));
        assert_eq!(handshake.elapsed(at(10)), Duration::from_secs(7));
    }
}
