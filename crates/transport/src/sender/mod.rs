//! The sending machine: opens, keeps in flight what the windows allow, repairs losses, closes.
//! `docs/PROTOCOL.md` gives the rules and their sources.
//!
//! [`Sender`] wires parts together that own their state: the stream as it is written, the data in
//! flight, loss recovery, congestion control, the path, the receiver. `transmit.rs` decides what
//! leaves, `ack.rs` processes answers.

mod ack;
mod ack_frequency;
mod blocked;
mod close;
mod coalesced_acks;
mod config;
mod congestion;
mod ecn;
mod encode;
mod handshake;
mod keep_alive;
mod observer;
mod path;
mod path_mtu;
mod peer_window;
mod stats;
mod stream;
mod timeout;
mod transmit;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::congestion::Pacer;
use crate::recovery::{Flight, LossRecovery};
use crate::send_buffer::{Cut, FramePool, Spare};
use crate::wire::Codec;
use crate::wire::native::CloseReason;
use crate::{ConfigError, Ecn, Endpoint, Metrics, Observer, Phase, Timer, TransferError, TransmitBuf};
use ack::Prior;
use blocked::BlockedTime;
pub use blocked::{Blocked, Waited};
use close::Closing;
pub use config::{Attempts, SenderConfig};
use congestion::CongestionControl;
pub use ecn::{EcnFailure, EcnState};
use handshake::Handshake;
use keep_alive::KeepAlive;
use observer::{Observers, Snapshot};
use path::Path;
use peer_window::Peer;
pub use stats::SenderStats;
use stream::SendStream;
use timeout::Patience;

/// Below this RTT the zero-copy pool (1.5 MiB) sustains over 12 Gbit/s, so waiting for a pool
/// buffer is faster than copying.
const MAX_POOL_WAIT_RTT: Duration = Duration::from_millis(1);

/// Event for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// The SYN was answered.
    Connected {
        /// Handshake RTT, measured from the SYN that the SYN-ACK names. Classic names none: from
        /// the last SYN. If an ACK of early data opened the connection: the current `srtt`.
        rtt: Duration,
    },
    /// The FIN-ACK arrived: everything was delivered.
    Finished {
        /// CRC-32 as the receiver computed it; 0 from one that does not check.
        crc: u32,
    },
    /// The transfer ended.
    Failed {
        /// Phase in which it ended.
        phase: Phase,
        /// Why it ended.
        error: TransferError,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Made, not opened.
    Idle,
    /// SYN sent `attempts` times, last at `sent_at`. Data may follow it if there is a window
    /// already.
    Opening { attempts: u32, sent_at: Option<Instant>, send: bool },
    /// Data may flow, and the FIN.
    Open,
    /// Given up; the receiver is to be told why, once.
    Aborting { reason: CloseReason },
    /// Finished, failed or given up.
    Closed,
}

/// One transfer, seen from its sender. The application side is [`Sender::open`], [`Sender::spare`]
/// with [`Sender::advance`] (or [`Sender::write`]) and [`Sender::finish`]; the network side is
/// [`Endpoint`].
pub struct Sender {
    config: SenderConfig,
    codec: Codec,
    state: State,
    handshake: Handshake,
    stream: SendStream,
    flight: Flight,
    recovery: Box<dyn LossRecovery>,
    congestion: CongestionControl,
    path: Path,
    peer: Peer,
    /// The FIN, once it may leave.
    closing: Option<Closing>,
    /// The timer of the SYN or the FIN.
    control_at: Option<Instant>,
    keep_alive: KeepAlive,
    patience: Patience,
    blocked: BlockedTime,
    events: VecDeque<SenderEvent>,
    stats: SenderStats,
    observers: Observers,
}

impl Sender {
    /// Creates a sender that has not been opened.
    ///
    /// # Errors
    /// Every error of [`SenderConfig::validate`].
    pub fn new(config: SenderConfig) -> Result<Self, ConfigError> {
        Self::with_memory(config, FramePool::new())
    }

    /// Creates a sender that shares its memory with others.
    ///
    /// # Errors
    /// As [`Sender::new`].
    pub fn with_memory(config: SenderConfig, memory: FramePool) -> Result<Self, ConfigError> {
        config.validate()?;
        let codec = config.codec();
        Ok(Self {
            state: State::Idle,
            handshake: Handshake::default(),
            stream: SendStream::new(codec.checks_packets(), codec.fin_follows_data(), memory),
            flight: Flight::new(codec.numbering(), 0),
            recovery: config.loss_recovery(),
            congestion: CongestionControl::new(&config),
            path: Path::new(&config),
            peer: Peer::default(),
            closing: None,
            control_at: None,
            keep_alive: KeepAlive::default(),
            patience: Patience::new(config.give_up),
            blocked: BlockedTime::default(),
            events: VecDeque::new(),
            stats: SenderStats::default(),
            observers: Observers::new(codec.numbers_transmissions()),
            codec,
            config,
        })
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

    /// Tells `observer` every event that it is interested in from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.set(observer);
    }

    /// Room for the application's next bytes, empty while enough is waiting to be sent. Fill its
    /// beginning, piece by piece, then call [`Sender::advance`] before anything else.
    ///
    /// # Errors
    /// [`TransferError::NotConnected`] before [`Sender::open`].
    pub fn spare(&mut self) -> Result<Spare<'_>, TransferError> {
        let wanted = SendStream::lookahead(self.congestion.cwnd, self.path.mss);
        self.spare_within(wanted, u64::MAX)
    }

    /// As [`Sender::spare`], but limited to whole packets that the windows let out now, and to
    /// `batches` batches. For an application that is asked between answers and sending
    /// ([`turn_with`](crate::drive::turn_with)): its bytes leave while they are in the cache, and a
    /// blocked sender holds no data that was never sent.
    ///
    /// # Errors
    /// As [`Sender::spare`].
    pub fn spare_now(&mut self, batches: usize) -> Result<Spare<'_>, TransferError> {
        let allowed = self.window_room();
        let wanted = allowed.min(self.stream.batches(batches, self.path.mss));
        // The last frame is filled, as far as the windows allow it.
        self.spare_within(wanted, allowed)
    }

    /// Room for the next bytes unless `wanted` wait to be sent already; at most as many as make
    /// `most` wait.
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
        let spare = self.stream.buffer.spare(cut);
        Ok(spare.within(usize::try_from(most - waiting).unwrap_or(usize::MAX)))
    }

    /// True if the zero-copy pool is exhausted and a frame will soon come back: packets from other
    /// memory would wait in the receiver's socket until no cache holds them.
    fn awaits_frames(&self) -> bool {
        let prompt = self.path.rtt.sampled().is_some_and(|srtt| srtt < MAX_POOL_WAIT_RTT);
        prompt && !self.flight.board.is_empty() && self.stream.buffer.is_exhausted()
    }

    /// How what was not sent yet will be cut, as far as is known.
    fn cut(&self) -> Cut {
        Cut { offset: self.flight.board.next_offset(), header: self.path.header, mss: self.path.mss }
    }

    /// Takes the first `n` bytes of [`Sender::spare`] into the stream.
    ///
    /// # Panics
    /// If there was no room for them.
    pub fn advance(&mut self, n: usize) {
        self.stream.buffer.advance(n);
    }

    /// Copies as much of `bytes` as fits into the stream and says how much that was.
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

    /// Lets what was written so far leave in a packet that is not full, once nothing is in flight
    /// (RFC 1122, section 4.2.3.4): for sources that pause.
    pub fn push(&mut self) {
        self.stream.pushed = self.stream.end();
    }

    /// No more bytes will be written: the rest leaves, then the FIN.
    ///
    /// # Errors
    /// [`TransferError::NotConnected`] before [`Sender::open`].
    pub fn finish(&mut self) -> Result<(), TransferError> {
        if self.state == State::Idle {
            return Err(TransferError::NotConnected);
        }
        self.stream.finishing = true;
        self.close_if_done();
        Ok(())
    }

    /// Gives the transfer up; the receiver is told, where the format can say it.
    pub fn abort(&mut self) {
        let told = self.data_flows() && self.codec.close_len() > 0;
        let reason = CloseReason::Aborted;
        self.state = if told { State::Aborting { reason } } else { State::Closed };
        self.stop_timers();
    }

    /// True if the window would let a packet out and only the application's bytes are missing.
    #[cfg(test)]
    pub(crate) fn wants_data(&self) -> bool {
        let allowed = self.windows_allow(self.path.mss).is_ok();
        self.data_flows() && !self.stream.finishing && allowed && self.fresh_len() == 0
    }

    /// Counters and gauges as they stand.
    pub fn stats(&self) -> SenderStats {
        let (board, rtt) = (&self.flight.board, &self.path.rtt);
        SenderStats {
            snd_una: board.snd_una(),
            snd_nxt: board.snd_nxt(),
            window: self.window_packets(),
            cwnd: self.congestion.controller.cwnd(),
            ssthresh: self.congestion.controller.ssthresh(),
            in_flight: board.in_flight(),
            srtt: rtt.sampled(),
            min_rtt: rtt.min_rtt(),
            rto: rtt.rto(),
            bytes_written: self.stream.end(),
            crc: self.stream.buffer.crc(),
            waited: self.blocked.times(),
            ecn: self.path.ecn.state(),
            ..self.stats.clone()
        }
    }

    /// The configuration that this sender runs with.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    /// The window in force in full packets, at least 1; 0 before the handshake.
    fn window_packets(&self) -> u32 {
        if self.stats.handshake_rtt.is_none() {
            return 0;
        }
        let mss = self.path.mss;
        let peer = self.peer.window.size() / self.flight.board.span(mss);
        let packets = peer.min(self.congestion.cwnd / mss as u64).max(1);
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// The receiver takes a full packet.
    fn has_room(&self) -> bool {
        self.peer.window.has_room(self.flight.board.span(self.path.mss))
    }

    /// The phase that an application sees.
    fn phase(&self) -> Phase {
        match self.state {
            // All of a short transfer may be there before its SYN is answered.
            _ if self.closing.is_some_and(|closing| closing.is_sent()) => Phase::Close,
            State::Opening { .. } => Phase::Connect,
            _ => Phase::Send,
        }
    }

    fn fail(&mut self, phase: Phase, error: TransferError) {
        self.close();
        self.events.push_back(SenderEvent::Failed { phase, error });
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.stop_timers();
    }

    fn stop_timers(&mut self) {
        self.recovery.stop();
        self.control_at = None;
        self.keep_alive.stop();
        self.blocked.finish();
    }

    /// When the timer of the SYN, of data or of the FIN fires.
    fn timer(&self) -> Option<Instant> {
        earlier(self.recovery.deadline(), self.control_at)
    }

    /// When each of [`Timer::ALL`] fires.
    fn timers(&self) -> [Option<Instant>; 4] {
        let mut timers = self.recovery.timers();
        timers[Timer::Control.index()] = self.control_at;
        timers
    }

    /// Ends a call that may have changed the state: tells observers of it.
    fn after_call(&mut self, now: Instant) {
        if self.observers.takes_snapshots() {
            let snapshot = self.snapshot();
            self.observers.on_snapshot(now, snapshot);
        }
        self.check();
    }

    #[cold]
    fn snapshot(&self) -> Snapshot {
        let (rtt, controller) = (&self.path.rtt, &self.congestion.controller);
        let srtt = rtt.sampled();
        let metrics = Metrics {
            cwnd: controller.cwnd(),
            ssthresh: controller.ssthresh(),
            in_flight: self.flight.board.in_flight(),
            snd_wnd: self.peer.window.size(),
            srtt: srtt.unwrap_or_default(),
            rttvar: srtt.map_or(Duration::ZERO, |_| rtt.rttvar()),
            min_rtt: rtt.min_rtt().unwrap_or_default(),
            latest_rtt: None,
            pacing_rate: self.congestion.pacer.as_ref().and_then(Pacer::rate),
            delivery_rate: None,
        };
        Snapshot { timers: self.timers(), blocked: self.blocked.reason(), phase: controller.phase(), metrics }
    }

    /// Checks the invariants that hold between calls.
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
}

impl Endpoint for Sender {
    type Peer = ();
    type Event = SenderEvent;

    fn handle_datagram(&mut self, now: Instant, (): (), _: Ecn, datagram: &[u8]) {
        self.stats.datagrams_received += 1;
        self.on_datagram(now, datagram);
        self.after_call(now);
    }

    fn handle_datagrams(&mut self, now: Instant, (): (), _: Ecn, bytes: &[u8], stride: usize) -> usize {
        self.on_datagrams(now, bytes, stride)
    }

    fn handle_refused(&mut self, now: Instant, reports: u64) {
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
        if matches!(self.state, State::Opening { send: true, .. }) || self.requests_params() {
            // The SYN has a batch of its own: the packets behind it leave with another codepoint.
            self.transmit_next(now, out);
        } else {
            if self.data_flows() {
                out.set_ecn(self.path.ecn.codepoint());
            }
            self.close_if_done();
            while self.transmit_next(now, out) {
                self.close_if_done();
            }
        }
        self.after_call(now);
        (out.segments() > before).then_some(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earlier(earlier(self.timer(), self.keep_alive.deadline()), self.blocked.paced_until())
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
