//! The sending machine: opens, keeps in flight what the windows allow, repairs losses, closes. It
//! wires its parts together and owns only the state and the receiver's window; `docs/PROTOCOL.md`
//! gives the rules and their sources. What leaves is decided in `output.rs`, what an answer means
//! in `input.rs`.

mod ack;
mod ack_frequency;
mod acks;
mod asking;
mod base;
mod blocked;
mod close;
mod config;
mod ecn;
mod handshake;
mod observer;
mod path_mtu;
mod peer_window;
mod runs;
mod stats;
mod syns;
mod timeout;
mod transmit;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::congestion::{Controller, DeliveryRate, Pacer, Prr};
use crate::planted;
use crate::recovery::{Expiry, Fate, Recovery, Rtt, Scoreboard, Segment, SentPacket, SentPackets};
use crate::send_buffer::{Cut, FramePool, SendBuffer, Spare};
use crate::wire::Codec;
use crate::wire::native::{CloseReason, Params};
use crate::{ConfigError, Ecn, Endpoint, Frame, Observer, Phase, Trace, TransferError, TransmitBuf};
use asking::Asking;
use blocked::Waiting;
pub use blocked::{Blocked, Waited};
use close::Closing;
pub use config::{Attempts, SenderConfig};
use ecn::PathEcn;
pub use ecn::{EcnFailure, EcnState};
use observer::Observed;
use path_mtu::PathMtu;
use peer_window::PeerWindow;
pub use stats::SenderStats;
use syns::Syns;
use timeout::{Persist, Refusals};

/// Written bytes beyond what was sent that the buffer takes, or the congestion window's if they are
/// fewer: several full batches for one connection, and not more than the caches hold for many.
const LOOKAHEAD: u64 = 256 * 1024;
/// Where round trips are shorter, memory that can be lent, 1.5 MiB, carries more than 12 Gbit/s: as
/// much as leaves it.
const PROMPT: Duration = Duration::from_millis(1);
/// Memory that packets are written to, and leave from together: what they carry is a little less.
const FRAME: u64 = Frame::SIZE as u64;
/// What is taken to be a batch before there was a full one, bytes: as much as any driver sends in
/// one call.
const FIRST_BATCH: u64 = 64 * 1024;
/// After this long with nothing in flight and nothing to send, the receiver is reminded that there
/// is a transfer, and after a third of the time that it says it waits: the reference forgets its
/// peers after 24 s of silence.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What the application is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// The SYN was answered.
    Connected {
        /// From the SYN to its answer, and from the last SYN where the format's answer does not say
        /// to which of them it is; where the answer was lost, but not those to the data that
        /// followed the SYN, the path's round trip as it is known.
        rtt: Duration,
    },
    /// The FIN-ACK arrived: everything was delivered.
    Finished {
        /// CRC-32 as the receiver computed it; 0 from one that does not check.
        crc: u32,
    },
    /// The transfer ended.
    Failed {
        /// What was going on.
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
    buffer: SendBuffer,
    board: Scoreboard,
    /// Every transmission, where the wire numbers them.
    sent_packets: SentPackets,
    rtt: Rtt,
    /// Mean of the last samples.
    mean_rtt: Option<Duration>,
    syns: Syns,
    /// What is lost and what is sent again; the timers of data.
    recovery: Recovery,
    congestion: Box<dyn Controller>,
    /// Its window within what the sender's own memory allows, bytes.
    cwnd: u64,
    delivery: Option<DeliveryRate>,
    prr: Option<Prr>,
    pacer: Option<Pacer>,
    snd_wnd: PeerWindow,
    /// Back-off of zero-window probes.
    persist: Persist,
    /// What the receiver says of itself, once it did.
    peer: Option<Params>,
    /// The search for the largest datagram, where the format lets segments be cut again.
    mtu: Option<PathMtu>,
    ecn: PathEcn,
    /// Payload of a full packet, bytes.
    mss: usize,
    /// The answer to the SYN, while another one opened the transfer.
    asking: Option<Asking>,
    /// The timer of the SYN or the FIN.
    control_at: Option<Instant>,
    /// When to remind the receiver, while the application has nothing to send.
    keep_alive: Option<Instant>,
    remind: bool,
    finishing: bool,
    /// The FIN, once it may leave.
    closing: Option<Closing>,
    /// While there are unsent bytes before this offset, a packet that is not full may go out if
    /// nothing is in flight.
    pushed: u64,
    /// Bytes declared lost since the controller last heard of an ACK.
    lost_since_ack: u64,
    /// Duplicates that the receiver reported so far.
    duplicates: u32,
    /// The newest transmission that the receiver reported.
    largest_tx: Option<u64>,
    /// The first transmission that left, or will, after the receiver was heard of.
    opened_tx: u64,
    /// Packets that an ACK may wait for, as the newest packet of data said; 0: as the handshake
    /// said.
    ack_every: u16,
    /// Payload of the last full batch of new segments, bytes; 0 before there was one.
    batch: u64,
    /// When the receiver was last heard of, or began to owe an answer.
    heard_at: Option<Instant>,
    /// Reports since then that nobody listens there.
    refusals: Option<Refusals>,
    waiting: Waiting,
    events: VecDeque<SenderEvent>,
    stats: SenderStats,
    /// Hears every fact.
    observer: Option<Observed>,
    /// Hears of round trips alone.
    sampler: Option<Box<dyn Observer>>,
}

impl Sender {
    /// A sender that has not been opened.
    ///
    /// # Errors
    /// What [`SenderConfig::validate`] finds.
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
        let congestion = config.controller(None, config.first_payload_size());
        Ok(Self {
            state: State::Idle,
            buffer: SendBuffer::new(codec.checks_packets(), memory),
            board: Scoreboard::new(codec.numbering()),
            sent_packets: SentPackets::new(planted::first_tx()),
            rtt: Rtt::new(config.rto),
            mean_rtt: None,
            syns: Syns::default(),
            recovery: Recovery::new(config.recovery, config.reordering),
            delivery: None,
            prr: None,
            pacer: config.pacing.then(|| Pacer::new(config.first_payload_size() as u64)),
            cwnd: config.within_memory(congestion.cwnd(), config.first_payload_size()),
            congestion,
            snd_wnd: PeerWindow::default(),
            persist: Persist::default(),
            peer: None,
            mss: config.first_payload_size(),
            mtu: config.path_mtu(),
            ecn: PathEcn::new(config.uses_ecn()),
            asking: None,
            control_at: None,
            keep_alive: None,
            remind: false,
            finishing: false,
            closing: None,
            pushed: 0,
            lost_since_ack: 0,
            duplicates: 0,
            largest_tx: None,
            opened_tx: 0,
            ack_every: 0,
            batch: 0,
            heard_at: None,
            refusals: None,
            waiting: Waiting::default(),
            events: VecDeque::new(),
            stats: SenderStats::default(),
            observer: None,
            sampler: None,
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

    /// Room for the application's next bytes, empty while enough is waiting to be sent. Fill its
    /// beginning, piece by piece, then call [`Sender::advance`] before anything else.
    ///
    /// # Errors
    /// [`TransferError::NotConnected`] before [`Sender::open`].
    pub fn spare(&mut self) -> Result<Spare<'_>, TransferError> {
        if self.state == State::Idle {
            return Err(TransferError::NotConnected);
        }
        let waiting = self.buffer.end() - self.board.next_offset();
        let most = self.cwnd.min(LOOKAHEAD).max(2 * self.mss as u64);
        // Frames are filled, whose packets leave together: what is written of one must not end
        // where the look ahead does. Of several no more than fit it; but never less than a window.
        let wanted = if self.cwnd >= LOOKAHEAD { most - FRAME + 1 } else { most };
        let asked = !self.finishing && self.state != State::Closed;
        let filled = waiting >= wanted || self.awaits_frames();
        self.waiting.on_asked(asked && filled);
        if !asked || filled {
            return Ok(Spare::default());
        }
        Ok(self.buffer.spare(self.cut()))
    }

    /// As [`Sender::spare`], but limited to whole packets that the windows let out now, and to
    /// `batches` batches. For an application that is asked between answers and sending
    /// ([`turn_with`](crate::drive::turn_with)): its bytes leave while they are in the cache, and a
    /// blocked sender holds no data that was never sent.
    ///
    /// # Errors
    /// As [`Sender::spare`].
    pub fn spare_now(&mut self, batches: usize) -> Result<Spare<'_>, TransferError> {
        if self.state == State::Idle {
            return Err(TransferError::NotConnected);
        }
        let waiting = self.buffer.end() - self.board.next_offset();
        let batch = if self.batch > 0 { self.batch } else { FIRST_BATCH };
        let most = batch.saturating_mul(batches as u64);
        let mss = self.mss as u64;
        let allowed = self.window_room();
        let wanted = allowed.min((most - most % mss).max(mss));
        let asked = !self.finishing && self.state != State::Closed;
        let filled = waiting >= wanted || self.awaits_frames();
        self.waiting.on_asked(asked && filled);
        if !asked || filled {
            return Ok(Spare::default());
        }
        // The last frame is filled, as far as the windows allow it.
        let spare = self.buffer.spare(self.cut());
        Ok(spare.within(usize::try_from(allowed - waiting).unwrap_or(usize::MAX)))
    }

    /// All memory that can be lent is, and it will not be long before some comes back: what left in
    /// other memory would wait in the receiver's socket until it is in nobody's cache.
    fn awaits_frames(&self) -> bool {
        let prompt = self.rtt.sampled().is_some_and(|srtt| srtt < PROMPT);
        prompt && !self.board.is_empty() && self.buffer.is_exhausted()
    }

    /// How what was not sent yet will be cut, as far as is known.
    fn cut(&self) -> Cut {
        Cut { offset: self.board.next_offset(), header: self.config.wire.data_header(), mss: self.mss }
    }

    /// Takes the first `n` bytes of [`Sender::spare`] into the stream.
    ///
    /// # Panics
    /// If there was no room for them.
    pub fn advance(&mut self, n: usize) {
        self.buffer.advance(n);
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
        self.pushed = self.buffer.end();
    }

    /// No more bytes will be written: the rest leaves, then the FIN.
    ///
    /// # Errors
    /// [`TransferError::NotConnected`] before [`Sender::open`].
    pub fn finish(&mut self) -> Result<(), TransferError> {
        if self.state == State::Idle {
            return Err(TransferError::NotConnected);
        }
        self.finishing = true;
        self.close_if_done();
        Ok(())
    }

    /// Gives the transfer up; the receiver is told, where the format can say it.
    pub fn abort(&mut self) {
        let told = self.data_flows() && self.codec.close_len() > 0;
        let reason = CloseReason::Aborted;
        self.state = if told { State::Aborting { reason } } else { State::Closed };
        self.recovery.stop();
        self.control_at = None;
        self.keep_alive = None;
    }

    /// True if the window would let a packet out and only the application's bytes are missing.
    #[cfg(test)]
    pub(crate) fn wants_data(&self) -> bool {
        self.data_flows() && !self.finishing && self.windows_allow(self.mss).is_ok() && self.fresh_len() == 0
    }

    /// Counters and gauges as they stand.
    pub fn stats(&self) -> SenderStats {
        SenderStats {
            snd_una: self.board.snd_una(),
            snd_nxt: self.board.snd_nxt(),
            window: self.window_packets(),
            cwnd: self.congestion.cwnd(),
            ssthresh: self.congestion.ssthresh(),
            in_flight: self.board.in_flight(),
            srtt: self.rtt.sampled(),
            min_rtt: self.rtt.min_rtt(),
            rto: self.rtt.rto(),
            bytes_written: self.buffer.end(),
            crc: self.buffer.crc(),
            waited: self.waiting.times(),
            ecn: self.ecn.state(),
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
        let mss = self.mss as u64;
        let peer = self.snd_wnd.size() / self.board.span(self.mss);
        let packets = peer.min(self.cwnd / mss).max(1);
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// What is going on, as an application sees it.
    fn phase(&self) -> Phase {
        match self.state {
            // All of a short transfer may be there before its SYN is answered.
            _ if self.closing.is_some_and(|closing| closing.is_sent()) => Phase::Close,
            State::Opening { .. } => Phase::Connect,
            _ => Phase::Send,
        }
    }

    /// See [`KEEP_ALIVE`].
    fn reminder(&self) -> Duration {
        let waits = self.peer.map(|peer| Duration::from_millis(u64::from(peer.idle_timeout_ms)));
        waits.map_or(KEEP_ALIVE, |waits| KEEP_ALIVE.min(waits / 3))
    }

    fn fail(&mut self, phase: Phase, error: TransferError) {
        self.state = State::Closed;
        self.recovery.stop();
        self.control_at = None;
        self.keep_alive = None;
        self.events.push_back(SenderEvent::Failed { phase, error });
    }

    /// When the timer of the SYN, of data or of the FIN fires.
    fn timer(&self) -> Option<Instant> {
        earlier(self.recovery.deadline(), self.control_at)
    }

    /// The timer of a SYN or FIN is due.
    fn on_control_timeout(&mut self, now: Instant) {
        let limit = self.config.attempts.syn;
        let silent = self.syns.elapsed(now) >= self.config.handshake_give_up;
        match self.state {
            State::Opening { attempts, .. } if attempts >= limit || silent => {
                self.fail(self.phase(), TransferError::Timeout { packet: 0, attempts });
            }
            State::Opening { attempts, sent_at, .. } => {
                self.state = State::Opening { attempts, sent_at, send: true };
            }
            State::Open if self.asking.is_some() => self.on_params_timeout(),
            State::Open => self.on_fin_timeout(now),
            State::Idle | State::Aborting { .. } | State::Closed => {}
        }
    }

    /// A timer of data is due.
    fn on_data_timeout(&mut self, now: Instant) {
        let limit = self.config.attempts.data;
        let facts = self.quiet_outcome(now);
        self.note_probe_due(now);
        // The timer backs off, but not beyond the time at which the receiver is given up.
        let (rto, next_rto) = (self.rtt.rto(), self.rtt.backed_off().min(self.patience(now)));
        let (lost_to, prior) = (self.silent_for(), self.prior());
        match &mut self.recovery {
            Recovery::BaseOnly(rules) => {
                if !rules.expire(now) {
                    return;
                }
                match rules.on_timeout(self.board.base(), limit) {
                    Expiry::Exhausted => self.exhaust(now, limit),
                    Expiry::Resend => self.on_base_timeout(now),
                    Expiry::Nothing => {}
                }
            }
            Recovery::Engine(rules) => {
                let expired = rules.expire(&facts, rto, next_rto, &mut self.board, &mut self.sent_packets);
                self.on_losses(now, expired, prior, lost_to);
            }
        }
    }

    /// The base was sent as often as it may be.
    fn exhaust(&mut self, now: Instant, attempts: u32) {
        let seq = self.board.snd_una();
        self.trace(now, &Trace::AttemptsExhausted { seq });
        self.fail(self.phase(), TransferError::Timeout { packet: seq, attempts });
    }

    /// The invariants that hold between calls.
    fn check(&self) {
        self.board.check();
        debug_assert!(self.board.next_offset() <= self.buffer.end());
        debug_assert!(
            self.state != State::Open
                || self.board.is_empty()
                || self.recovery.deadline().is_some()
                || self.next_repeat().is_some(),
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
        self.trace_state(now);
        self.check();
    }

    fn handle_datagrams(&mut self, now: Instant, (): (), _: Ecn, bytes: &[u8], stride: usize) -> usize {
        self.on_datagrams(now, bytes, stride)
    }

    fn handle_refused(&mut self, now: Instant, reports: u64) {
        self.on_refused(now, reports);
        self.trace_state(now);
        self.check();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.trace_expired(now);
        if self.keep_alive.is_some_and(|at| at <= now) {
            self.keep_alive = None;
            self.remind = self.state == State::Open;
        }
        if self.control_at.is_some_and(|at| at <= now) {
            self.control_at = None;
            self.on_control_timeout(now);
        }
        if self.recovery.deadline().is_some_and(|at| at <= now) {
            self.on_data_timeout(now);
        }
        self.trace_state(now);
        self.check();
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        let before = out.segments();
        if matches!(self.state, State::Opening { send: true, .. }) || self.asks() {
            // Nothing shares the SYN's batch: what follows leaves with another codepoint.
            self.transmit_one(now, out);
        } else {
            if self.data_flows() {
                out.set_ecn(self.ecn.codepoint());
            }
            self.transmit_run(now, out);
            self.close_if_done();
            while self.transmit_one(now, out) {
                self.transmit_run(now, out);
                self.close_if_done();
            }
        }
        self.trace_state(now);
        self.check();
        (out.segments() > before).then_some(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earlier(earlier(self.timer(), self.keep_alive), self.waiting.paced_until())
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
