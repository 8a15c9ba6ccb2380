//! The sending machine: opens, keeps a window of packets in flight, sends the base again when the timer
//! fires or on exactly the third duplicate ACK, closes. It wires its parts together and owns only the
//! state and the receiver's window; `docs/PROTOCOL.md` gives the rules and their sources.

mod config;
mod recovery;
mod rtt;
mod scoreboard;
mod send_buffer;
mod stats;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::wire::{self, FromReceiver, Syn};
use crate::{ConfigError, Endpoint, Observer, Phase, Resend, Trace, TransferError, TransmitBuf};
pub use config::{Attempts, SenderConfig};
use recovery::{Expiry, Recovery};
use rtt::RttEstimator;
use scoreboard::Scoreboard;
use send_buffer::SendBuffer;
pub use stats::SenderStats;

/// Written bytes beyond what was sent that the buffer takes, at least. Enough for several full batches.
const LOOKAHEAD: u64 = 256 * 1024;
/// After this long with nothing in flight and nothing to send, the receiver is reminded that there is a
/// transfer: the reference forgets its peers after 24 s of silence.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What the application is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// The SYN-ACK arrived.
    Connected {
        /// From the last SYN sent to its answer.
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
    /// SYN sent `attempts` times, last at `sent_at`.
    Opening { attempts: u32, sent_at: Option<Instant>, send: bool },
    /// Data may flow.
    Open,
    /// Everything is acknowledged and FIN was sent `attempts` times.
    Closing { attempts: u32, send: bool },
    /// Finished or failed.
    Closed,
}

/// The one thing that may be sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Syn { attempt: u32 },
    Resend(Resend),
    Fresh { len: usize },
    KeepAlive,
    Fin { attempt: u32 },
    Wait,
}

/// One transfer, seen from its sender. The application side is [`Sender::open`], [`Sender::spare`] with
/// [`Sender::advance`] (or [`Sender::write`]) and [`Sender::finish`]; the network side is [`Endpoint`].
pub struct Sender {
    config: SenderConfig,
    state: State,
    buffer: SendBuffer,
    board: Scoreboard,
    rtt: RttEstimator,
    /// Receiver's window, packets.
    snd_wnd: u32,
    /// The one timer, of the SYN, the base, or the FIN, and what it and duplicate ACKs decide.
    recovery: Recovery,
    /// When to remind the receiver, while the application has nothing to send.
    keep_alive: Option<Instant>,
    remind: bool,
    finishing: bool,
    /// While there are unsent bytes before this offset, a packet that is not full may go out if nothing is
    /// in flight.
    pushed: u64,
    events: VecDeque<SenderEvent>,
    stats: SenderStats,
    observer: Option<Box<dyn Observer>>,
}

impl Sender {
    /// A sender that has not been opened.
    ///
    /// # Errors
    /// What [`SenderConfig::validate`] finds.
    pub fn new(config: SenderConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            state: State::Idle,
            buffer: SendBuffer::new(),
            board: Scoreboard::default(),
            rtt: RttEstimator::default(),
            snd_wnd: 0,
            recovery: Recovery::default(),
            keep_alive: None,
            remind: false,
            finishing: false,
            pushed: 0,
            events: VecDeque::new(),
            stats: SenderStats::default(),
            observer: None,
        })
    }

    /// Tells `observer` every fact from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
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

    /// Room for the application's next bytes, empty while enough is waiting to be sent. Fill its beginning,
    /// then call [`Sender::advance`].
    ///
    /// # Errors
    /// [`TransferError::NotConnected`] before [`Sender::open`].
    pub fn spare(&mut self) -> Result<&mut [u8], TransferError> {
        if self.state == State::Idle {
            return Err(TransferError::NotConnected);
        }
        let waiting = self.buffer.end() - self.board.next_offset();
        let lookahead = LOOKAHEAD.max(2 * self.config.payload_size() as u64);
        if self.finishing || waiting >= lookahead || self.state == State::Closed {
            return Ok(&mut []);
        }
        Ok(self.buffer.spare())
    }

    /// Takes the first `n` bytes of [`Sender::spare`] into the stream.
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
            let n = spare.len().min(bytes.len() - taken);
            if n == 0 {
                return Ok(taken);
            }
            spare[..n].copy_from_slice(&bytes[taken..taken + n]);
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

    /// True if the window would let a packet out and only the application's bytes are missing.
    pub fn wants_data(&self) -> bool {
        self.state == State::Open && !self.finishing && self.window_open() && self.fresh_len() == 0
    }

    /// Counters and gauges as they stand.
    pub fn stats(&self) -> SenderStats {
        SenderStats {
            snd_una: self.board.snd_una(),
            snd_nxt: self.board.snd_nxt(),
            window: self.effective_window(),
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
            bytes_written: self.buffer.end(),
            crc: self.buffer.crc(),
            ..self.stats.clone()
        }
    }

    /// The configuration that this sender runs with.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    fn next(&self) -> Next {
        match self.state {
            State::Opening { attempts, send: true, .. } => Next::Syn { attempt: attempts + 1 },
            State::Closing { attempts, send: true } => Next::Fin { attempt: attempts + 1 },
            State::Open => match (self.recovery.pending(), self.fresh_len()) {
                (Some(resend), _) => Next::Resend(resend),
                (None, len) if len > 0 && self.window_open() => Next::Fresh { len },
                _ if self.remind => Next::KeepAlive,
                _ => Next::Wait,
            },
            _ => Next::Wait,
        }
    }

    /// Bytes that the next new packet would carry; 0 if it must wait for more.
    fn fresh_len(&self) -> usize {
        let waiting = self.buffer.end() - self.board.next_offset();
        let full = self.config.payload_size();
        match usize::try_from(waiting) {
            Ok(rest) if rest < full => {
                let pushed = self.pushed > self.board.next_offset() && self.board.flight_size() == 0;
                if self.finishing || pushed { rest } else { 0 }
            }
            _ => full,
        }
    }

    /// min(W, receiver's window), but at least 1: a window of 0 is probed with one packet at the pace of
    /// the timer, since this protocol has no other way to learn that it opened.
    fn effective_window(&self) -> u32 {
        if self.stats.handshake_rtt.is_none() {
            return 0;
        }
        self.config.window.min(self.snd_wnd).max(1)
    }

    fn window_open(&self) -> bool {
        self.board.flight_size() < u64::from(self.effective_window())
    }

    /// Encodes and accounts for one packet; false if there is none or it does not fit `out`.
    fn transmit_one(&mut self, now: Instant, out: &mut TransmitBuf) -> bool {
        let sent = match self.next() {
            Next::Syn { attempt } => self.transmit_syn(now, attempt, out),
            Next::Resend(resend) => self.transmit_again(now, resend, out),
            Next::Fresh { len } => self.transmit_fresh(now, len, out),
            Next::KeepAlive => self.transmit_keep_alive(now, out),
            Next::Fin { attempt } => self.transmit_fin(now, attempt, out),
            Next::Wait => None,
        };
        self.stats.datagrams_sent += u64::from(sent.is_some());
        sent.is_some()
    }

    fn transmit_syn(&mut self, now: Instant, attempt: u32, out: &mut TransmitBuf) -> Option<()> {
        wire::encode_syn(&Syn { seq: 0, link: self.config.link }, out.slot(wire::SYN_LEN)?);
        let rto = self.config.syn_timeout();
        self.state = State::Opening { attempts: attempt, sent_at: Some(now), send: false };
        self.recovery.arm(now, rto);
        self.trace(now, &Trace::SynSent { seq: 0, attempt, of: self.config.attempts.syn, rto });
        Some(())
    }

    fn transmit_fresh(&mut self, now: Instant, len: usize, out: &mut TransmitBuf) -> Option<()> {
        let slot = out.slot(wire::DATA_HEADER + len)?;
        let (seq, offset) = (self.board.snd_nxt(), self.board.next_offset());
        wire::encode_data_header(seq, slot);
        self.buffer.copy_to(offset, &mut slot[wire::DATA_HEADER..]);
        if self.board.flight_size() == 0 {
            self.recovery.arm(now, self.rtt.rto());
            self.keep_alive = None;
            self.remind = false;
        }
        // A packet's payload is at most 65,499 bytes.
        self.board.push(now, u32::try_from(len).unwrap_or(u32::MAX));
        self.stats.first_data_at.get_or_insert(now);
        self.trace_data(now, seq, 1, None);
        Some(())
    }

    fn transmit_again(&mut self, now: Instant, resend: Resend, out: &mut TransmitBuf) -> Option<()> {
        let base = *self.board.base()?;
        let slot = out.slot(wire::DATA_HEADER + base.len as usize)?;
        wire::encode_data_header(self.board.snd_una(), slot);
        self.buffer.copy_to(base.offset, &mut slot[wire::DATA_HEADER..]);
        self.board.resend_base(now);
        self.recovery.on_resent(now, self.rtt.rto());
        match resend {
            Resend::Timeout => self.stats.timeouts += 1,
            Resend::DupAcks => self.stats.fast_retransmits += 1,
        }
        self.trace_data(now, self.board.snd_una(), base.sent_count + 1, Some(resend));
        Some(())
    }

    /// An empty copy of the last packet acknowledged, which every receiver answers and none delivers; before
    /// the first one, the SYN.
    fn transmit_keep_alive(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        match self.board.snd_una().checked_sub(1) {
            Some(seq) => wire::encode_data_header(seq, out.slot(wire::DATA_HEADER)?),
            None => wire::encode_syn(&Syn { seq: 0, link: self.config.link }, out.slot(wire::SYN_LEN)?),
        }
        self.remind = false;
        self.keep_alive = Some(now + KEEP_ALIVE);
        self.stats.keep_alives += 1;
        Some(())
    }

    fn transmit_fin(&mut self, now: Instant, attempt: u32, out: &mut TransmitBuf) -> Option<()> {
        let seq = self.board.snd_nxt();
        wire::encode_fin(seq, out.slot(wire::FIN_LEN)?);
        let rto = self.rtt.rto();
        self.state = State::Closing { attempts: attempt, send: false };
        self.recovery.arm(now, rto);
        self.trace(now, &Trace::FinSent { seq, attempt, of: self.config.attempts.fin, rto });
        Some(())
    }

    fn on_syn_ack(&mut self, now: Instant, ack: u64, wnd: u32) {
        let State::Opening { sent_at: Some(sent_at), .. } = self.state else { return self.stats.stale += 1 };
        if ack != 0 {
            return self.stats.stale += 1;
        }
        let rtt = now.saturating_duration_since(sent_at);
        self.rtt.on_handshake(rtt, self.config.min_rto);
        self.snd_wnd = wnd;
        self.state = State::Open;
        self.recovery.stop();
        self.keep_alive = Some(now + KEEP_ALIVE);
        self.stats.handshake_rtt = Some(rtt);
        self.events.push_back(SenderEvent::Connected { rtt });
        self.trace(now, &Trace::SynAckReceived { ack, wnd, rto: self.rtt.rto() });
        self.close_if_done();
    }

    fn on_ack(&mut self, now: Instant, ack: u64, wnd: u32) {
        if self.state != State::Open || ack < self.board.snd_una() {
            return self.stats.stale += 1;
        }
        if ack > self.board.snd_nxt() {
            return self.stats.acks_beyond += 1;
        }
        self.snd_wnd = wnd;
        let Some(acked) = self.board.acknowledge(now, ack) else {
            return self.on_dup_ack(now, ack, wnd);
        };
        if let Some(sample) = acked.sample {
            self.rtt.on_sample(sample);
        }
        let idle = self.board.flight_size() == 0;
        self.recovery.on_base_moved(now, self.rtt.rto(), !idle);
        self.keep_alive = idle.then(|| now + KEEP_ALIVE);
        self.buffer.release(acked.end_offset);
        self.stats.bytes_acked = acked.end_offset;
        self.stats.last_ack_at = Some(now);
        let (rto, deadline) = (self.rtt.rto(), self.recovery.deadline());
        self.trace(now, &Trace::AckReceived { ack, wnd, rto, deadline, sample: acked.sample });
        self.close_if_done();
    }

    fn on_dup_ack(&mut self, now: Instant, ack: u64, wnd: u32) {
        let Some(base) = self.board.base() else { return self.stats.stale += 1 };
        self.stats.dup_acks += 1;
        let dup_acks = self.recovery.on_dup_ack(base, self.config.attempts.data);
        self.trace(now, &Trace::DupAckReceived { ack, wnd, dup_acks });
    }

    fn on_fin_ack(&mut self, now: Instant, ack: u64, crc: u32) {
        if !matches!(self.state, State::Closing { attempts: 1.., .. }) || ack != self.board.snd_nxt() {
            return self.stats.stale += 1;
        }
        self.state = State::Closed;
        self.recovery.stop();
        self.events.push_back(SenderEvent::Finished { crc });
        self.trace(now, &Trace::FinAckReceived { ack, crc });
    }

    /// Begins to close once every byte that will ever be written is acknowledged.
    fn close_if_done(&mut self) {
        if self.state == State::Open
            && self.finishing
            && self.board.flight_size() == 0
            && self.fresh_len() == 0
        {
            self.state = State::Closing { attempts: 0, send: true };
            self.recovery.stop();
            self.keep_alive = None;
        }
    }

    fn fail(&mut self, phase: Phase, packet: u64, attempts: u32) {
        self.state = State::Closed;
        self.recovery.stop();
        self.keep_alive = None;
        let error = TransferError::Timeout { packet, attempts };
        self.events.push_back(SenderEvent::Failed { phase, error });
    }

    fn trace_data(&mut self, now: Instant, seq: u64, attempt: u32, resend: Option<Resend>) {
        if self.observer.is_some() {
            let (of, rto) = (self.config.attempts.data, self.rtt.rto());
            let deadline = self.recovery.deadline().unwrap_or(now);
            self.trace(now, &Trace::DataSent { seq, attempt, of, rto, deadline, resend });
        }
    }

    fn trace(&mut self, now: Instant, trace: &Trace) {
        if let Some(observer) = &mut self.observer {
            observer.on(now, trace);
        }
    }

    /// The invariants that hold between calls.
    fn check(&self) {
        debug_assert!(self.board.next_offset() <= self.buffer.end());
        debug_assert!(self.recovery.pending().is_none() || self.board.flight_size() > 0);
        debug_assert!(
            self.state != State::Open
                || self.board.flight_size() == 0
                || self.recovery.deadline().is_some()
                || self.recovery.pending().is_some(),
            "packets in flight need a timer"
        );
    }
}

impl Endpoint for Sender {
    type Peer = ();
    type Event = SenderEvent;

    fn handle_datagram(&mut self, now: Instant, (): (), datagram: &[u8]) {
        self.stats.datagrams_received += 1;
        match wire::decode_from_receiver(datagram, self.board.snd_una()) {
            Ok(FromReceiver::SynAck { ack, wnd }) => self.on_syn_ack(now, ack, wnd),
            Ok(FromReceiver::Ack { ack, wnd }) => self.on_ack(now, ack, wnd),
            Ok(FromReceiver::FinAck { ack, crc }) => self.on_fin_ack(now, ack, crc),
            Err(_) => self.stats.malformed += 1,
        }
        self.check();
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.keep_alive.is_some_and(|at| at <= now) {
            self.keep_alive = None;
            self.remind = self.state == State::Open;
        }
        if !self.recovery.expire(now) {
            return;
        }
        let limit = self.config.attempts;
        match self.state {
            State::Opening { attempts, .. } if attempts >= limit.syn => {
                self.fail(Phase::Connect, 0, attempts);
            }
            State::Opening { attempts, sent_at, .. } => {
                self.state = State::Opening { attempts, sent_at, send: true };
            }
            State::Open => {
                if self.recovery.on_timeout(self.board.base(), limit.data) == Expiry::Exhausted {
                    let seq = self.board.snd_una();
                    self.trace(now, &Trace::AttemptsExhausted { seq });
                    self.fail(Phase::Send, seq, limit.data);
                }
            }
            State::Closing { attempts, .. } if attempts >= limit.fin => {
                self.fail(Phase::Close, self.board.snd_nxt(), attempts);
            }
            State::Closing { attempts, .. } => self.state = State::Closing { attempts, send: true },
            State::Idle | State::Closed => {}
        }
        self.check();
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        let before = out.segments();
        while self.transmit_one(now, out) {}
        self.check();
        (out.segments() > before).then_some(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match (self.recovery.deadline(), self.keep_alive) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests;
