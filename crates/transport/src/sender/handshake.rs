//! The handshake: the SYN, its answers, and the data that follows it before it is answered.
//!
//! Once the receiver has asked for its cookie the path's round trip is about known, and where the
//! format grants a first window, that much of the stream follows the SYN that shows the cookie.
//! Until the SYN is answered its timer stands for everything that was sent: nothing else is sent
//! again. Any answer of the transfer opens it.

use std::time::{Duration, Instant};

use super::{Fate, Sender, SenderEvent, State};
use crate::congestion::DeliveryRate;
use crate::cookie::Cookie;
use crate::recovery::Recovery;
use crate::recovery::RttQuality;
use crate::wire::native::{CloseReason, Params, Versions};
use crate::{PacketKind, Phase, Trace, TransferError, TransmitBuf};

impl Sender {
    /// True if data may be sent, as far as the state is concerned.
    pub(super) fn data_flows(&self) -> bool {
        match self.state {
            State::Open => true,
            State::Opening { .. } => self.snd_wnd.size() > 0,
            _ => false,
        }
    }

    pub(super) fn transmit_syn(&mut self, now: Instant, attempt: u32, out: &mut TransmitBuf) -> Option<()> {
        self.codec.number_syn(self.syns.next());
        self.codec.encode_syn(out.slot(self.codec.syn_len())?);
        if self.syns.next() > 1 {
            self.rtt.on_syn_again();
        }
        self.syns.on_sent(now);
        let rest = self.config.handshake_give_up.saturating_sub(self.syns.elapsed(now));
        let rto = self.config.syn_timeout(attempt).min(rest);
        self.state = State::Opening { attempts: attempt, sent_at: Some(now), send: false };
        self.control_at = Some(now + rto);
        self.trace_sent(now, PacketKind::Syn, u64::from(attempt - 1), 0, None);
        self.trace(now, &Trace::SynSent { seq: 0, attempt, of: self.config.attempts.syn, rto });
        Some(())
    }

    /// The receiver wants its cookie with the SYN: it goes at once, and data after it.
    pub(super) fn on_retry(&mut self, now: Instant, cookie: Cookie) {
        let State::Opening { attempts, sent_at: Some(sent_at), .. } = self.state else {
            return self.stats.stale += 1;
        };
        if !self.codec.take_cookie(cookie) {
            return;
        }
        self.syns.restart();
        // The receiver answered this attempt, so it does not count.
        self.state =
            State::Opening { attempts: attempts.saturating_sub(1), sent_at: Some(sent_at), send: true };
        // Rules that never mark a segment lost could not repair a flight that was sent in vain.
        if let Recovery::Engine(_) = self.recovery {
            let quality = if attempts <= 1 { RttQuality::Provisional } else { RttQuality::Guessed };
            self.learn_path(now, now.saturating_duration_since(sent_at), quality);
            self.pace(now);
            self.snd_wnd.open(self.codec.first_window());
        }
    }

    pub(super) fn on_syn_ack(&mut self, now: Instant, ack: u64, wnd: u64, params: Option<Params>) {
        let first = match self.state {
            State::Opening { sent_at, .. } => sent_at.is_some(),
            State::Open => self.peer.is_none(),
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
                let answered = params.and_then(|params| self.syns.sent_at(params.attempt));
                let rtt = now.saturating_duration_since(answered.unwrap_or(last));
                let sampled = answered.is_some() || attempts <= 1;
                if self.delivery.is_none() {
                    self.learn_path(
                        now,
                        rtt,
                        if sampled { RttQuality::Sampled } else { RttQuality::Guessed },
                    );
                } else if sampled {
                    self.rtt.on_sample(rtt, 1);
                }
                if let Some(sent_at) = answered {
                    self.give_up_before(sent_at);
                }
                self.snd_wnd.open(wnd);
                self.meet(params);
                self.pace(now);
                self.enter_open(now, rtt);
                self.trace(now, &Trace::SynAckReceived { ack, wnd, rto: self.rtt.rto() });
                self.close_if_done();
            }
            // Another answer was faster.
            State::Open if self.peer.is_none() && params.is_some() => self.meet(params),
            _ => self.stats.stale += 1,
        }
    }

    /// The receiver speaks other versions, of which this sender has none. Anybody who sees the SYN
    /// could say so, but not that the receiver speaks the version that it was asked in.
    pub(super) fn on_versions(&mut self, versions: Versions) {
        let asked = matches!(self.state, State::Opening { sent_at: Some(_), .. });
        if !asked || versions.highest_common(Versions::OURS).is_some() {
            return self.stats.stale += 1;
        }
        self.fail(Phase::Connect, TransferError::Version(versions));
    }

    /// Something answers what followed the SYN, so the SYN arrived, whatever became of its own
    /// answer.
    pub(super) fn open_by_answer(&mut self, now: Instant) {
        if let State::Opening { .. } = self.state {
            self.enter_open(now, self.rtt.srtt());
            self.await_params(now);
        }
    }

    /// The first round trip is over.
    fn learn_path(&mut self, now: Instant, rtt: Duration, quality: RttQuality) {
        self.rtt.on_handshake(rtt, self.config.min_rto, quality);
        if self.codec.numbers_transmissions() {
            self.delivery = Some(DeliveryRate::new(now));
            self.congestion = self.config.controller(Some(rtt), self.mss);
        }
    }

    /// The receiver says of itself what its format can say.
    fn meet(&mut self, params: Option<Params>) {
        self.stop_asking();
        self.peer = params;
        if !params.is_some_and(|params| params.ecn) {
            self.ecn.refuse();
        }
        if let (Recovery::Engine(rules), Some(params)) = (&mut self.recovery, params) {
            rules.set_max_ack_delay(Duration::from_micros(u64::from(params.ack_delay_max_us)));
        }
        if let (Some(mtu), Some(params)) = (&mut self.mtu, params) {
            mtu.limit(usize::from(params.max_datagram));
            self.resize();
        }
    }

    /// The SYN of `sent_at` was answered and not an earlier one, which was lost then, or its answer
    /// was; and what followed that one found no transfer. It says nothing of congestion.
    fn give_up_before(&mut self, sent_at: Instant) {
        let in_vain = self.board.segments().filter(|s| s.fate == Fate::InFlight && s.sent_at < sent_at);
        let offsets: Vec<u64> = in_vain.map(|segment| segment.offset).collect();
        for offset in offsets {
            self.board.mark_lost(offset);
            self.stats.lost += 1;
        }
        self.sent_packets.forget_resolved(&self.board);
    }

    fn enter_open(&mut self, now: Instant, rtt: Duration) {
        self.state = State::Open;
        self.opened_tx = self.sent_packets.next_tx();
        self.control_at = None;
        self.heard_at = Some(now);
        self.keep_alive = self.is_idle().then(|| now + self.reminder());
        let timing = self.timing();
        if let Recovery::Engine(rules) = &mut self.recovery {
            rules.rearm(now, &timing, &self.board);
        }
        self.stats.handshake_rtt = Some(rtt);
        self.events.push_back(SenderEvent::Connected { rtt });
        self.expect_fin_ack(now);
    }
}
