//! Handshake of a receiver: answers SYNs, adopts the sender's parameters and sends its own.

use std::time::{Duration, Instant};

use super::flight_limit::BufferShare;
use super::{CLASSIC_SILENCE_LIMIT, Receiver, ReceiverConfig, ReceiverEvent, State, Stream};
use crate::StreamName;
use crate::wire::native::{MAX_SACK_BLOCKS, Params, SMALLEST_PATH, most_blocks};
use crate::wire::sealed::{DATA_HEADER, TAG};
use crate::wire::{Answer, Open, Wire};

/// Window and parameters that a side of a connection offers before its receiver exists (version 2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    /// Transport parameters.
    pub(crate) params: Params,
    /// Initial receive window, bytes.
    pub(crate) window: u64,
}

impl Offer {
    /// Returns the offer at `now` of a receiver with this configuration, idle timeout and share of
    /// the socket's buffer.
    pub(crate) fn new(
        now: Instant,
        config: ReceiverConfig,
        idle: Duration,
        share: Option<BufferShare>,
    ) -> Self {
        let mut receiver = Receiver::new(config);
        receiver.set_idle(idle);
        let window = receiver.open_stream(now, 0, Params::default(), share);
        Self { params: receiver.params(), window }
    }
}

impl Receiver {
    /// Returns the receiver of one stream of a connection whose handshake is complete (version 2).
    /// `wanted` has the peer's requests as a sender. The window of [`Offer`] left at `offered_at`.
    pub(crate) fn established(
        config: ReceiverConfig,
        connection_id: u64,
        wanted: Params,
        share: Option<BufferShare>,
        offered_at: Instant,
    ) -> Self {
        let mut receiver = Self::new(config);
        receiver.open_stream(offered_at, connection_id, wanted, share);
        receiver
    }

    /// Opens the stream without SYN-ACK and event, which the connection has instead. Returns the
    /// initial window, bytes.
    fn open_stream(
        &mut self,
        now: Instant,
        connection_id: u64,
        wanted: Params,
        share: Option<BufferShare>,
    ) -> u64 {
        self.share = share;
        let wire = Wire::of_connection(connection_id);
        self.on_syn(now, &Open { wire, seq: 0, cookie: None, link: None, params: Some(wanted), name: None });
        self.events.clear();
        match self.replies.pop_back() {
            Some(Answer::SynAck { window, .. }) => window,
            _ => 0,
        }
    }

    pub(super) fn params(&self) -> Params {
        // A packet larger than the largest window would leave only as a probe of that window.
        let window = usize::try_from(self.config.stream_window.max).unwrap_or(usize::MAX);
        let max_datagram = self.config.max_datagram.min(window.saturating_add(DATA_HEADER + TAG));
        Params {
            max_datagram: Params::clamp_datagram(max_datagram),
            ack_delay_max_us: u32::try_from(self.acks.max_delay.as_micros()).unwrap_or(u32::MAX),
            ack_every: u16::try_from(self.acks.every.max(1)).unwrap_or(u16::MAX),
            idle_timeout_ms: Params::clamp_idle(self.idle),
            ecn: true,
            ..Params::default()
        }
    }

    /// Handles a SYN. With the current connection ID it is a retransmission. Without connection ID
    /// (classic) it restarts the transfer, unless data arrives. If no data has arrived yet, no
    /// event is reported.
    pub(super) fn on_syn(&mut self, now: Instant, open: &Open<'_>) {
        let copy = open.wire.connection_id().is_some() && open.wire == self.wire;
        match self.state {
            // The application is storing the transfer. The peer will retransmit the SYN. A transfer
            // on probation is unknown to the application, so a new one may replace it.
            State::Finishing { .. } if self.is_reported(open) => return self.stats.unexpected += 1,
            State::Open { .. } | State::Finished { .. } if copy => {}
            State::Open { .. }
                if open.wire == self.wire && self.first_data_at.is_none() && self.rcv_nxt() == open.seq => {}
            // Forged, or a late copy: its sender has sent data, so it has its answer.
            State::Open { .. } if self.is_live(now, open) => return self.stats.unexpected += 1,
            _ => {
                self.wire = open.wire;
                self.name = open.name.and_then(StreamName::new);
                self.adopt(open.params);
                // Adds the counts of the stream that ends here.
                self.stats = self.stats();
                let config = ReceiverConfig { acks: self.acks, ..self.config };
                self.stream = Stream::new(&config, open.wire.numbering(), open.seq, self.max_blocks);
                if let Some(share) = self.share {
                    self.stream.flow.limit.set_share(share);
                }
                self.first = open.seq;
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
                self.events.push_back(ReceiverEvent::Started);
            }
        }
        // Data after an earlier transmission of the SYN may already have arrived beyond the window.
        let Stream { buffer, flow, .. } = &mut self.stream;
        let window = flow.offer(now, buffer) - open.seq;
        self.reply(Answer::SynAck { ack: open.seq, window, attempt: open.attempt() });
        if copy {
            self.repeat_answer();
        }
    }

    /// True if the application may have heard of the transfer: it has passed its probation, or its
    /// format has none.
    fn is_reported(&self, open: &Open<'_>) -> bool {
        let has_probation = open.wire.connection_id().or(self.wire.connection_id()).is_none();
        !has_probation || self.config.faithful || self.has_passed_probation()
    }

    /// True if a SYN must not restart the classic transfer, because its sender is there: it sends a
    /// keep-alive every 10 s.
    fn is_live(&self, now: Instant, open: &Open<'_>) -> bool {
        let is_classic = open.wire == self.wire && open.wire.connection_id().is_none();
        let heard_at = self.last_data_at.max(self.duplicate_at);
        let is_recent = |at| now.saturating_duration_since(at) < CLASSIC_SILENCE_LIMIT;
        is_classic && !self.config.faithful && heard_at.is_some_and(is_recent)
    }

    /// Repeats the answer to the data that followed an earlier copy of the SYN. A sender that
    /// received no answer assumes that the data was lost with its SYN, and would retransmit all of
    /// it.
    fn repeat_answer(&mut self) {
        match (self.state, &mut self.stream.selective) {
            (State::Finished { seq, crc }, _) => self.reply(Answer::FinAck { ack: seq, crc }),
            (_, Some(acks)) if self.first_data_at.is_some() => acks.request(),
            _ => {}
        }
    }

    /// Adopts the sender's requests in its SYN. ACKs become no less frequent and no later than
    /// configured.
    fn adopt(&mut self, params: Option<Params>) {
        let configured = self.config.acks;
        self.acks = params.map_or(configured, |want| {
            let delay = Duration::from_micros(u64::from(want.ack_delay_max_us));
            configured.within(u32::from(want.ack_every), delay)
        });
        self.reports_drops = params.is_some_and(|want| want.overflow);
        self.overflow_before = self.overflow.filter(|_| self.reports_drops);
        // An ACK must fit the path MTU, which may be as small as the sender's datagram limit.
        let longest = |want: Params| usize::from(want.max_datagram).min(SMALLEST_PATH);
        self.max_blocks = params.map_or(MAX_SACK_BLOCKS, |want| most_blocks(longest(want)));
    }
}
