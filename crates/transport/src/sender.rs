//! Sender of one stream: transmission within the windows, loss recovery, close; and the handshake
//! of a classic transfer. `docs/PROTOCOL.md` and `docs/CLASSIC.md` have the rules and their
//! sources.
//!
//! [`Sender`] connects parts that own their state: the stream, the data in flight, loss recovery,
//! congestion control, the path, and the receiver's window and parameters. `transmit.rs` chooses
//! and sends packets, `ack.rs` processes ACKs, `close.rs` timeouts and the end.

mod ack;
mod ack_frequency;
mod blocked;
mod close;
mod coalesced_acks;
mod config;
mod congestion;
mod ecn;
mod encode;
mod give_up_timer;
mod handshake;
mod keep_alive;
mod known_path;
mod observer;
mod path;
mod path_mtu;
mod peer_window;
mod recent_loss;
mod stats;
mod stream;
mod transmit;
mod under_way;
mod way_back;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_crypto::PacketKey;

use crate::recovery::{Flight, LossRecovery};
use crate::send_buffer::{Cut, FramePool, Spare};
use crate::wire::{Codec, Numbering};
use crate::{ConfigError, Ecn, Endpoint, Observer, Phase, TransferError, TransmitBuf};
use blocked::BlockedTime;
pub use blocked::{Blocked, Waited};
use close::Closing;
pub use config::{Attempts, LossWindow, SenderConfig};
use congestion::CongestionControl;
pub use ecn::{EcnFailure, EcnState};
use give_up_timer::GiveUpTimer;
pub(crate) use handshake::Established;
use keep_alive::KeepAlive;
pub(crate) use known_path::KnownPath;
use observer::{Observers, Snapshot};
pub(crate) use path::INITIAL_RTT;
use path::Path;
use peer_window::Peer;
use stats::Counters;
pub use stats::SenderStats;
use stream::{LOOKAHEAD, SendStream};
use transmit::Step;

/// Below this RTT the zero-copy pool (1.5 MiB) sustains over 12 Gbit/s, so waiting for a pool
/// buffer is faster than copying.
const MAX_POOL_WAIT_RTT: Duration = Duration::from_millis(1);

/// Event for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// The handshake completed.
    Connected {
        /// Handshake RTT. Classic: from the last SYN.
        rtt: Duration,
    },
    /// The FIN-ACK arrived: all data was delivered.
    Finished {
        /// CRC-32 computed by the receiver (classic); 0 if it computes none.
        crc: u32,
    },
    /// The transfer ended without success.
    Failed {
        /// Phase in which it failed.
        phase: Phase,
        /// Reason of the failure.
        error: TransferError,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before [`Sender::open`].
    Idle,
    /// The SYN was sent `attempts` times, last at `sent_at`; with `send` it is due again (classic).
    Opening { attempts: u32, sent_at: Option<Instant>, send: bool },
    /// The handshake completed.
    Open,
    /// Finished, failed or aborted.
    Closed,
}

/// Sender of one stream: of a classic transfer, or inside of a [`Connection`](crate::Connection).
/// The application of a classic one calls [`Sender::open`], [`Sender::spare`] with
/// [`Sender::advance`] (or [`Sender::write`]) and [`Sender::finish`]; the driver calls
/// [`Endpoint`].
pub struct Sender {
    config: SenderConfig,
    codec: Codec,
    state: State,
    /// Send time of the first SYN (classic).
    first_syn_at: Option<Instant>,
    stream: SendStream,
    flight: Flight,
    recovery: Box<dyn LossRecovery>,
    congestion: CongestionControl,
    path: Path,
    peer: Peer,
    /// State of the FIN, once it may be sent.
    closing: Option<Closing>,
    /// Deadline of the timer of the SYN or the FIN.
    control_at: Option<Instant>,
    keep_alive: KeepAlive,
    give_up_timer: GiveUpTimer,
    blocked: BlockedTime,
    events: VecDeque<SenderEvent>,
    stats: Counters,
    observers: Observers,
}

impl Sender {
    /// Returns an idle sender of a classic transfer, with a frame pool of its own.
    ///
    /// # Errors
    /// Every error of [`SenderConfig::validate`]. [`ConfigError::Keys`] for the native format,
    /// whose senders are in a [`ConnectionSet`](crate::ConnectionSet).
    pub fn new(config: SenderConfig) -> Result<Self, ConfigError> {
        Self::with_memory(config, FramePool::new())
    }

    /// Returns an idle sender that takes frames from `memory`.
    ///
    /// # Errors
    /// As [`Sender::new`].
    pub fn with_memory(config: SenderConfig, memory: FramePool) -> Result<Self, ConfigError> {
        if config.wire.numbering() == Numbering::Bytes {
            return Err(ConfigError::Keys);
        }
        let codec = Codec::Classic { link: config.link };
        Self::with_codec(config, codec, memory)
    }

    /// Returns an idle sender of packets in the format of `codec`.
    fn with_codec(config: SenderConfig, codec: Codec, memory: FramePool) -> Result<Self, ConfigError> {
        config.validate()?;
        let path = Path::new(&config, &codec);
        let mut flight = Flight::new(codec.numbering(), 0);
        if let Some(seed) = config.skip_seed {
            flight.skip_numbers(seed);
        }
        Ok(Self {
            state: State::Idle,
            first_syn_at: None,
            stream: SendStream::new(&codec, memory),
            flight,
            recovery: config.loss_recovery(),
            congestion: CongestionControl::new(&config, path.mss),
            path,
            peer: Peer::default(),
            closing: None,
            control_at: None,
            keep_alive: KeepAlive::default(),
            give_up_timer: GiveUpTimer::new(config.give_up, config.no_progress),
            blocked: BlockedTime::default(),
            events: VecDeque::new(),
            stats: Counters::default(),
            observers: Observers::new(codec.has_packet_numbers()),
            codec,
            config,
        })
    }

    /// Returns the next packet number, around which the numbers in ACKs are unwrapped.
    pub(crate) fn next_number(&self) -> u64 {
        self.flight.next_number()
    }

    /// Replaces the key of all further packets (native). Returns false without effect while
    /// packets that the key before the present one sealed may have to be opened for
    /// retransmission.
    pub(crate) fn update_key(&mut self, key: Arc<PacketKey>) -> bool {
        let (una, next) = (self.flight.board.una_offset(), self.flight.board.next_offset());
        match &mut self.codec {
            Codec::Native(codec) => codec.update_key(key, una, next),
            Codec::Classic { .. } => false,
        }
    }

    pub(crate) fn peer_idle_timeout(&self) -> Option<Duration> {
        self.peer.idle_timeout()
    }

    /// Returns the number of bytes that the peer has acknowledged in order.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.flight.board.una_offset()
    }

    /// True if data is buffered before the windows allow it to be sent. Not so if the receive
    /// window holds no more than that buffer: many connections share a socket then, and what they
    /// would buffer exceeds the CPU's caches.
    pub(crate) fn buffers_ahead(&self) -> bool {
        self.state != State::Open || self.peer.window.size > LOOKAHEAD
    }

    /// Starts the handshake.
    ///
    /// # Errors
    /// [`TransferError::AlreadyConnected`] the second time.
    pub fn open(&mut self) -> Result<(), TransferError> {
        if self.state != State::Idle {
            return Err(TransferError::AlreadyConnected);
        }
        self.state = State::Opening { attempts: 0, sent_at: None, send: true };
        Ok(())
    }

    /// Reports events to `observer` from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.set(observer);
    }

    /// Returns room for the application's next bytes; empty while enough unsent data is buffered.
    /// Fill its beginning, slice by slice, then call [`Sender::advance`] before anything else.
    ///
    /// # Errors
    /// [`TransferError::NotConnected`] before [`Sender::open`].
    pub fn spare(&mut self) -> Result<Spare<'_>, TransferError> {
        let wanted = SendStream::lookahead(self.congestion.cwnd, self.path.mss);
        self.spare_within(wanted, u64::MAX)
    }

    /// Like [`Sender::spare`], but limited to whole packets that can be sent now, and to `batches`
    /// batches. For an application that writes between input and output of a turn
    /// ([`turn_with`](crate::drive::turn_with)): its bytes are sent while they are in the cache,
    /// and a blocked sender buffers no unsent data.
    ///
    /// # Errors
    /// As [`Sender::spare`].
    pub fn spare_now(&mut self, batches: usize) -> Result<Spare<'_>, TransferError> {
        let allowed = self.window_room();
        let wanted = allowed.min(self.stream.batches(batches, self.path.mss));
        // The last frame is filled as far as the windows allow.
        self.spare_within(wanted, allowed)
    }

    /// Returns room unless `wanted` unsent bytes are buffered already. Filling the room leaves at
    /// most `most` unsent bytes in the buffer.
    fn spare_within(&mut self, wanted: u64, most: u64) -> Result<Spare<'_>, TransferError> {
        if self.state == State::Idle {
            return Err(TransferError::NotConnected);
        }
        let cut = self.cut();
        let waiting = self.stream.end() - cut.offset;
        let asked = !self.stream.finishing && self.state != State::Closed;
        let filled = waiting >= wanted || self.awaits_frames();
        self.blocked.on_asked(asked && filled);
        if !asked || filled {
            return Ok(Spare::default());
        }
        let spare = self.stream.buffer.spare(cut, most);
        Ok(spare.within(usize::try_from(most - waiting).unwrap_or(usize::MAX)))
    }

    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.path.rtt.min_rtt
    }

    /// True if the zero-copy pool is exhausted and a frame will return soon. Copied packets would
    /// wait in the receiver's socket until they are out of the CPU's caches.
    fn awaits_frames(&self) -> bool {
        let prompt = self.path.rtt.sampled().is_some_and(|srtt| srtt < MAX_POOL_WAIT_RTT);
        prompt && !self.flight.board.is_empty() && self.stream.buffer.is_exhausted()
    }

    /// Returns the presumable division of unsent data into packets.
    fn cut(&self) -> Cut {
        let Path { header, trailer, mss, .. } = self.path;
        Cut { offset: self.flight.board.next_offset(), header, mss, trailer }
    }

    /// Appends the first `n` bytes of [`Sender::spare`] to the stream.
    ///
    /// # Panics
    /// If `n` exceeds the room. There is none after [`Sender::finish`].
    pub fn advance(&mut self, n: usize) {
        assert!(n == 0 || !self.stream.finishing, "the stream is finished");
        self.stream.buffer.advance(n);
    }

    /// Appends as much of `bytes` as fits to the stream and returns the number of bytes.
    ///
    /// # Errors
    /// [`TransferError::NotConnected`] before [`Sender::open`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, TransferError> {
        let mut taken = 0;
        loop {
            let spare = self.spare()?;
            let n = spare.copy_from(&bytes[taken..]);
            if n == 0 {
                return Ok(taken);
            }
            self.advance(n);
            taken += n;
        }
    }

    /// Allows the data written so far to be sent in a packet that is not full, unless an earlier
    /// such packet is unacknowledged (draft-minshall-nagle-01). For sources that pause.
    pub fn push(&mut self) {
        self.stream.pushed = self.stream.end();
    }

    /// Releases memory that an idle sender does not need.
    pub(crate) fn shrink(&mut self) {
        self.events.shrink_to_fit();
        self.flight.shrink();
        self.stream.buffer.shrink();
    }

    /// Returns a snapshot of counters and gauges.
    pub fn stats(&self) -> SenderStats {
        SenderStats::of(self)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    /// Returns the window in full packets, at least 1; 0 before the handshake completes.
    fn window_packets(&self) -> u32 {
        if self.stats.handshake_rtt.is_none() {
            return 0;
        }
        let mss = self.path.mss;
        let peer = self.peer.window.size / self.flight.board.span(mss);
        let packets = peer.min(self.congestion.cwnd / mss as u64).max(1);
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// True if the receive window has room for a full packet.
    fn has_room(&self) -> bool {
        self.peer.window.has_room(self.flight.board.span(self.path.mss))
    }

    fn phase(&self) -> Phase {
        match self.state {
            _ if self.closing.is_some_and(|closing| closing.is_sent()) => Phase::Close,
            State::Opening { .. } => Phase::Connect,
            _ => Phase::Send,
        }
    }

    /// Returns the earliest deadline of the timers of SYN, data and FIN.
    fn timer(&self) -> Option<Instant> {
        earlier(self.recovery.deadline(), self.control_at)
    }

    /// Returns the deadline of each of [`Timer::ALL`].
    fn timers(&self) -> [Option<Instant>; 4] {
        let [retransmission, probe, reordering] = self.recovery.timers();
        [retransmission, probe, reordering, self.control_at]
    }

    /// Ends a call that may have changed the state: reports the changes to observers.
    fn after_call(&mut self, now: Instant) {
        if self.observers.take_everything() {
            let snapshot = Snapshot::of(self);
            self.observers.on_snapshot(now, snapshot);
        }
        self.check();
    }

    /// Checks the invariants between calls, with debug assertions on.
    fn check(&self) {
        let board = &self.flight.board;
        board.check();
        debug_assert!(board.next_offset() <= self.stream.end());
        debug_assert!(
            self.state != State::Open
                || board.is_empty()
                || self.recovery.deadline().is_some()
                || self.recovery.next(board).is_some(),
            "packets in flight need a timer"
        );
    }

    /// Appends packets to `out` until it is full. Returns false if there is nothing more to send
    /// before the next input, write or timer.
    pub(crate) fn fill(&mut self, now: Instant, out: &mut TransmitBuf) -> bool {
        let step = if matches!(self.state, State::Opening { send: true, .. }) {
            // The SYN has a batch of its own, because the packets behind it have another ECN
            // codepoint.
            self.transmit_next(now, out)
        } else {
            if self.state == State::Open {
                out.set_ecn(self.path.ecn.codepoint());
            }
            let idle = self.stats.last_ack_at.filter(|_| self.flight.board.is_empty());
            if idle.is_some_and(|since| now.saturating_duration_since(since) > self.path.rtt.rto()) {
                self.congestion.restart_after_idle(&self.config, self.path.mss);
            }
            loop {
                self.close_if_done();
                match self.transmit_next(now, out) {
                    Step::Sent => {}
                    step => break step,
                }
            }
        };
        self.after_call(now);
        step != Step::Waits
    }
}

impl Endpoint for Sender {
    type Peer = ();
    type Event = SenderEvent;

    fn handle_datagram(&mut self, now: Instant, (): (), _: Ecn, datagram: &mut [u8]) {
        self.stats.datagrams_received += 1;
        self.on_datagram(now, datagram);
        self.after_call(now);
    }

    fn handle_datagrams(&mut self, now: Instant, (): (), _: Ecn, bytes: &mut [u8], stride: usize) -> usize {
        self.on_datagrams(now, bytes, stride)
    }

    fn handle_refused(&mut self, now: Instant, (): (), reports: u64) {
        self.on_refused(now, reports);
        self.after_call(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let timers = self.timers();
        self.observers.on_timers_due(now, timers);
        self.keep_alive.expire(now, self.state == State::Open);
        if self.control_at.is_some_and(|at| at <= now) {
            self.control_at = None;
            self.on_control_timeout(now);
        }
        if self.recovery.deadline().is_some_and(|at| at <= now) {
            self.on_data_timeout(now);
        }
        self.after_call(now);
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        let before = out.segments();
        self.fill(now, out);
        (out.segments() > before).then_some(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earlier(earlier(self.timer(), self.keep_alive.at), self.blocked.paced_until())
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }
}

/// Returns the earlier of two deadlines.
#[inline]
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
