//! Start of a stream: the handshake of a classic transfer, or the result of a connection's.

use std::time::{Duration, Instant};

use super::{KnownPath, Sender, SenderConfig, SenderEvent, State};
use crate::recovery::{Fate, RttQuality, Segment, Timing};
use crate::send_buffer::FramePool;
use crate::wire::native::{NativeCodec, Params};
use crate::wire::{Codec, classic};
use crate::{ConfigError, PacketKind, Trace, TransmitBuf};

/// Result of a handshake that the connection completed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Established {
    /// Initial receive window of the peer, bytes.
    pub(crate) window: u64,
    /// Transport parameters of the peer.
    pub(crate) params: Params,
    /// Round trip of the handshake.
    pub(crate) rtt: Duration,
    /// False if a packet of the handshake was repeated, so that `rtt` is ambiguous (Karn).
    pub(crate) is_rtt_sample: bool,
    /// True if `rtt` is that of an earlier connection.
    pub(crate) is_remembered: bool,
    /// Path as an earlier connection measured it.
    pub(crate) known: Option<KnownPath>,
}

impl Sender {
    /// Returns the sender of one stream of a connection whose handshake is complete. It sends DATA,
    /// FIN and keep-alives, sealed by `codec`; its replies come through [`Sender::handle_reply`].
    pub(crate) fn established(
        config: SenderConfig,
        codec: NativeCodec,
        memory: FramePool,
        now: Instant,
        peer: &Established,
    ) -> Result<Self, ConfigError> {
        let mut sender = Self::with_codec(config, Codec::Native(codec), memory)?;
        // A receiver adds the link that it emulates after the handshake.
        let link = sender.config.link_request.map(|link| Duration::from_micros(u64::from(link.rtt_us)));
        let quality = match link {
            None if peer.is_remembered => RttQuality::Remembered,
            _ if !peer.is_rtt_sample => RttQuality::Guessed,
            Some(_) => RttQuality::Provisional,
            None => RttQuality::Sampled,
        };
        // A requested link is not part of the path that is known.
        let known = peer.known.filter(|_| link.is_none());
        sender.learn_path(now, peer.rtt + link.unwrap_or_default(), quality, known);
        sender.peer.window.size = peer.window;
        sender.peer.params = Some(peer.params);
        sender.adopt_ack_delay(&peer.params);
        if let Some(mtu) = &mut sender.path.mtu {
            mtu.limit(usize::from(peer.params.max_datagram));
            sender.resize();
        }
        if peer.is_remembered {
            let initial = u64::from(sender.config.initial_window) * sender.path.mss as u64;
            sender.congestion.early = Some(known.map_or(0, |known| known.early).max(initial));
        }
        if !peer.params.ecn || known.is_some_and(|known| known.refuses_ecn) {
            sender.path.ecn.refuse();
        }
        sender.pace(now);
        sender.enter_open(now, peer.rtt);
        Ok(sender)
    }

    pub(super) fn transmit_syn(&mut self, now: Instant, attempt: u32, out: &mut TransmitBuf) -> Option<()> {
        self.codec.encode_syn(out.slot(classic::SYN_LEN)?);
        let first = *self.first_syn_at.get_or_insert(now);
        let rest = self.config.handshake_give_up.saturating_sub(now.saturating_duration_since(first));
        let rto = self.config.syn_timeout(attempt).min(rest);
        self.state = State::Opening { attempts: attempt, sent_at: Some(now), send: false };
        self.control_at = Some(now + rto);
        let (offset, number) = (self.flight.board.next_offset(), u64::from(attempt - 1));
        self.observers.on_sent(now, PacketKind::Syn, (number, 0), offset, classic::SYN_LEN);
        self.observers.on(now, &Trace::SynSent { seq: 0, attempt, of: self.config.attempts.syn, rto });
        Some(())
    }

    pub(super) fn on_syn_ack(&mut self, now: Instant, ack: u64, window: u64) {
        match self.state {
            State::Opening { sent_at: Some(last), attempts, .. } if ack == 0 => {
                let rtt = now.saturating_duration_since(last);
                let quality = if attempts <= 1 { RttQuality::Sampled } else { RttQuality::Guessed };
                self.learn_path(now, rtt, quality, None);
                self.peer.window.size = window;
                self.path.ecn.refuse();
                self.pace(now);
                self.enter_open(now, rtt);
                self.observers.on(now, &Trace::SynAckReceived { ack, window, rto: self.path.rtt.rto() });
                self.close_if_done();
            }
            _ => self.stats.stale += 1,
        }
    }

    /// Handles the first RTT: starts the estimator, the delivery rate and the controller.
    fn learn_path(&mut self, now: Instant, rtt: Duration, quality: RttQuality, known: Option<KnownPath>) {
        if let (Some(mtu), Some(known)) = (&mut self.path.mtu, known) {
            mtu.confirm(known.packet_size);
            self.path.resize();
        }
        self.path.rtt.on_handshake(rtt, self.config.min_rto, quality);
        if self.flight.measure_from(now) {
            // After a loss in the handshake, no controller takes the path for a long one.
            let sample = (quality != RttQuality::Guessed).then_some(rtt);
            // Without an RTT the rate of a known window is unknown.
            let window = known.filter(|_| sample.is_some()).map_or(0, |known| known.window);
            self.congestion.controller = self.config.controller(sample, window, self.path.mss);
        }
    }

    /// Adapts to a new path to the same peer (native): congestion control, path MTU discovery,
    /// ECN validation and the RTT start again. What is in flight counts as lost, without
    /// congestion: it says nothing about the new path (RFC 9000, section 9.4).
    pub(crate) fn on_path_changed(&mut self, now: Instant) {
        self.path.mtu = self.config.path_mtu();
        if let (Some(mtu), Some(params)) = (&mut self.path.mtu, self.peer.params) {
            mtu.limit(usize::from(params.max_datagram));
        }
        self.path.resize();
        self.path.restart(&self.config, self.flight.next_number(), self.flight.largest_acked);
        self.congestion.restart(&self.config, self.path.mss);
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

    /// Continues after a new handshake with a peer that has nothing of the stream: `codec` seals
    /// under the new keys.
    pub(crate) fn reopen(&mut self, now: Instant, codec: NativeCodec, peer: &Established) {
        self.codec = Codec::Native(codec);
        self.peer.window.size = peer.window;
        self.peer.params = Some(peer.params);
        self.give_up_timer.restart(now);
        self.on_path_changed(now);
        if !peer.params.ecn {
            self.path.ecn.refuse();
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
            self.flight.board.mark_lost(offset);
            self.stats.lost += 1;
        }
        self.flight.forget_resolved();
    }

    fn enter_open(&mut self, now: Instant, rtt: Duration) {
        self.state = State::Open;
        self.control_at = None;
        self.give_up_timer.restart(now);
        self.keep_alive.restart(now, self.is_idle(), || self.peer.idle_timeout());
        let timing = Timing { rtt: &self.path.rtt, may_wait: self.may_wait() };
        self.recovery.on_open(now, &timing, &self.flight.board);
        self.stats.handshake_rtt = Some(rtt);
        self.events.push_back(SenderEvent::Connected { rtt });
    }
}
