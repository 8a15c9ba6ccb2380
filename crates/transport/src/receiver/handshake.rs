//! Start of a receiver: the handshake of a classic transfer, or the result of a connection's.

use std::time::{Duration, Instant};

use super::flight_limit::BufferShare;
use super::{CLASSIC_SILENCE_LIMIT, Receiver, ReceiverConfig, ReceiverEvent, State, Stream};
use crate::wire::native::{DATA_HEADER, Params, TAG};
use crate::wire::{Answer, Numbering, Open};

/// Window and parameters that a side of a connection offers before its receiver exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    /// Transport parameters.
    pub(crate) params: Params,
    /// Initial receive window, bytes.
    pub(crate) window: u64,
}

impl Offer {
    /// Returns a receiver's offer, by its configuration, idle timeout and share of the buffer.
    pub(crate) fn new(
        now: Instant,
        config: ReceiverConfig,
        idle: Duration,
        share: Option<BufferShare>,
    ) -> Self {
        let mut receiver = Receiver::new(config);
        let window = receiver.open_stream(now, &Params::default(), share);
        Self { params: receiver.params(idle), window }
    }
}

impl Receiver {
    /// Returns the receiver of one stream of a connection whose handshake is complete. `peer` has
    /// the peer's parameters. The window of [`Offer`] left at `offered_at`.
    pub(crate) fn established(
        config: ReceiverConfig,
        peer: &Params,
        share: Option<BufferShare>,
        offered_at: Instant,
    ) -> Self {
        let mut receiver = Self::new(config);
        receiver.open_stream(offered_at, peer, share);
        receiver
    }

    /// Opens the stream of a connection. Returns the initial window, bytes.
    fn open_stream(&mut self, now: Instant, peer: &Params, share: Option<BufferShare>) -> u64 {
        self.share = share;
        let delay = Duration::from_micros(u64::from(peer.wanted_ack_delay_us));
        // ACKs become no less frequent and no later than configured.
        self.acks = self.config.acks.within(u32::from(peer.wanted_ack_every), delay);
        self.reports_drops = peer.overflow;
        self.overflow_before = self.overflow.filter(|_| self.reports_drops);
        self.start(Numbering::Bytes, 0);
        let Stream { buffer, flow, .. } = &mut self.stream;
        flow.offer(now, buffer)
    }

    /// Returns the parameters to announce to the peer of a connection, with this idle timeout.
    fn params(&self, idle: Duration) -> Params {
        // A packet larger than the largest window would leave only as a probe of that window.
        let window = usize::try_from(self.config.stream_window.max).unwrap_or(usize::MAX);
        let max_datagram = self.config.max_datagram.min(window.saturating_add(DATA_HEADER + TAG));
        Params {
            max_datagram: Params::clamp_datagram(max_datagram),
            ack_delay_max_us: u32::try_from(self.acks.max_delay.as_micros()).unwrap_or(u32::MAX),
            ack_every: u16::try_from(self.acks.every.max(1)).unwrap_or(u16::MAX),
            idle_timeout_ms: Params::clamp_idle(idle),
            ecn: true,
            ..Params::default()
        }
    }

    /// Handles a SYN (classic). It restarts the transfer, unless data arrives. If no data has
    /// arrived yet, no event is reported.
    pub(super) fn on_syn(&mut self, now: Instant, open: &Open) {
        match self.state {
            // The application is storing the transfer. The peer will retransmit the SYN. A transfer
            // on probation is unknown to the application, so a new one may replace it.
            State::Finishing { .. } if self.is_reported() => return self.stats.unexpected += 1,
            State::Open { .. } if self.first_data_at.is_none() && self.rcv_nxt() == open.seq => {}
            // Forged, or a late copy: its sender has sent data, so it has its answer.
            State::Open { .. } if self.is_live(now) => return self.stats.unexpected += 1,
            _ => {
                self.start(Numbering::Packets, open.seq);
                self.events.push_back(ReceiverEvent::Started);
            }
        }
        let Stream { buffer, flow, .. } = &mut self.stream;
        let window = flow.offer(now, buffer) - open.seq;
        self.reply(Answer::SynAck { ack: open.seq, window });
    }

    /// Starts a transfer whose first packet or byte has number `first`.
    fn start(&mut self, numbering: Numbering, first: u64) {
        // Adds the counts of the stream that ends here.
        self.stats = self.stats();
        let config = ReceiverConfig { acks: self.acks, ..self.config };
        self.stream = Stream::new(&config, numbering, first);
        if let Some(share) = self.share {
            self.stream.flow.limit.set_share(share);
        }
        self.first = first;
        self.first_data_at = None;
        self.last_data_at = None;
        self.duplicate_at = None;
        self.fin_repeated = false;
        // Its end was not reported, and never will be.
        let is_void = matches!(self.state, State::Finishing { .. });
        self.state = State::Open { end: None };
        self.readable_sent = false;
        self.events.retain(|event| {
            let is_end = matches!(event, ReceiverEvent::Finished { .. });
            *event != ReceiverEvent::Readable && !(is_void && is_end)
        });
    }

    /// True if the application may have heard of the classic transfer: it has passed its probation.
    fn is_reported(&self) -> bool {
        self.config.faithful || self.has_passed_probation()
    }

    /// True if a classic sender is there, so that no SYN restarts its transfer.
    fn is_live(&self, now: Instant) -> bool {
        let heard_at = self.last_data_at.max(self.duplicate_at);
        let is_recent = |at| now.saturating_duration_since(at) < CLASSIC_SILENCE_LIMIT;
        !self.config.faithful && heard_at.is_some_and(is_recent)
    }
}
