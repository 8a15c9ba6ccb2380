//! Open phase of a connection: both streams and the packets that carry them.

mod path_probes;
mod receive;
mod resets;
mod silence;
mod start;

use std::time::{Duration, Instant};

use rdt_crypto::ResetToken;

use super::close::{CLOSE_REPEATS, CloseSent};
use super::config::Confirm;
use super::events::{Closed, ConnectionEvent};
use super::initiator::Opening;
use super::keys::{OpeningKeys, SealingKeys};
use super::machine::Output;
use super::proof::KeyProof;
use super::released::Released;
use crate::receiver::Receiver;
use crate::wire::native::{self, Probe};
use crate::wire::native::{CloseReason, LinkRequest};
use crate::{Endpoint, Observer, ReceiverEvent, Sender, SenderEvent, TransferError, TransmitBuf};
use path_probes::PathProbes;
use resets::PeerResets;
use silence::Silence;

pub(super) use receive::Message;
pub(crate) use start::Established;

/// Packets that no key opens after which the connection ends: the integrity limit of
/// ChaCha20-Poly1305 (RFC 9001, section 6.6). That of AES-GCM is 2^52.
pub(super) const MAX_FORGED_PACKETS: u64 = 1 << 36;

/// Retransmission timeouts for which a complete connection repeats its answers: three of its peer's
/// FINs are lost in that time, with back-off.
const LINGER_RTOS: u32 = 8;
/// Limits of the time for which answers are repeated.
const LINGER: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(10);
/// Payload of a packet by which the replay window is sized, bytes: the smallest one in a bulk
/// transfer, on a path that carries no more than 548 bytes.
const SMALL_PAYLOAD: u64 = 508;

/// Streams and keys of an open connection.
pub(super) struct Streams {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) sealing: SealingKeys,
    pub(super) opening: OpeningKeys,
    resets: PeerResets,
    /// Proof of the local keys, repeated until the peer has shown that it arrived (initiator).
    pub(super) proof: Option<Box<KeyProof>>,
    /// OPEN-ACK to send, with the token of this side's RESETs (responder).
    pub(super) open_ack: Option<ResetToken>,
    pub(super) confirm: Confirm,
    probes: PathProbes,
    /// Body of an ACK that waits for a packet.
    ack: Option<Vec<u8>>,
    /// Memory of the newest ACK that had a packet of its own, for the next one.
    ack_memory: Vec<u8>,
    silence: Silence,
    /// False at the responder of a one-way connection.
    pub(super) has_own_stream: bool,
    /// Emulated link that the peer requests.
    pub(super) link: Option<LinkRequest>,
    /// True after the application wrote less than it wanted.
    pub(super) is_write_blocked: bool,
    pub(super) completion: Completion,
    /// State after the application has given up its handle, so that nothing is read.
    pub(super) released: Option<Box<Released>>,
    /// CLOSE to send, and to repeat while the peer goes on.
    close: Option<CloseSent>,
    pub(super) dropped: DroppedPackets,
}

/// Ends of both streams.
#[derive(Debug)]
pub(super) struct Completion {
    /// True if the peer has confirmed the outgoing stream, or there is none.
    pub(super) is_delivered: bool,
    /// True if the incoming stream is confirmed, or there is none.
    pub(super) is_received: bool,
    /// Time until which answers are repeated, once both streams are complete.
    linger_until: Option<Instant>,
}

impl Completion {
    /// Returns the state in which the streams that exist go on.
    const fn new(has_outgoing: bool, has_incoming: bool) -> Self {
        Self { is_delivered: !has_outgoing, is_received: !has_incoming, linger_until: None }
    }

    const fn is_complete(&self) -> bool {
        self.is_delivered && self.is_received
    }
}

/// Packets that were dropped as not the peer's.
#[derive(Debug, Default)]
pub(super) struct DroppedPackets {
    /// Those that no key opened.
    pub(super) unauthentic: u64,
    /// Those that had arrived before, or were too old to tell.
    pub(super) replayed: u64,
}

impl Streams {
    pub(super) fn observe(&mut self, observer: Box<dyn Observer>) {
        self.sender.observe(observer);
    }

    /// Passes what happened in the streams to `report`. Returns the reason if the connection ended.
    pub(super) fn collect(
        &mut self,
        now: Instant,
        mut report: impl FnMut(ConnectionEvent),
    ) -> Option<Closed> {
        if self.close.is_some() {
            return None;
        }
        if let Some(closed) = self.collect_sent(&mut report) {
            return Some(closed);
        }
        while let Some(event) = self.receiver.poll_event() {
            match event {
                ReceiverEvent::Readable => report(ConnectionEvent::Readable),
                ReceiverEvent::Finished { bytes, elapsed, .. } => {
                    report(ConnectionEvent::Finished { bytes, elapsed });
                }
                _ => {}
            }
        }
        self.confirm_if_read();
        if std::mem::take(&mut self.is_write_blocked) {
            if self.sender.has_spare() {
                report(ConnectionEvent::Writable);
            } else {
                self.is_write_blocked = true;
            }
        }
        let is_complete = self.completion.is_complete();
        if is_complete && self.completion.linger_until.is_none() {
            // Only a side that sent a FIN-ACK may have to repeat it.
            let time = if self.receiver.is_finished() { self.linger() } else { Duration::ZERO };
            self.completion.linger_until = Some(now + time);
            return Some(Closed::Finished);
        }
        if self.is_key_used_up() {
            return Some(Closed::AeadLimit);
        }
        self.end_of_released(now)
    }

    /// Passes the outgoing stream's events to `report`. Returns the reason if the connection ended.
    fn collect_sent(&mut self, report: &mut impl FnMut(ConnectionEvent)) -> Option<Closed> {
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { .. } => {
                    self.completion.is_delivered = true;
                    report(ConnectionEvent::Delivered { bytes: self.sender.stats().bytes_written });
                }
                SenderEvent::Failed { phase, error } => {
                    return Some(match error {
                        TransferError::Gone => Closed::Unreachable,
                        TransferError::NoProgress(limit) => Closed::NoProgress(limit),
                        TransferError::InvalidAcks => Closed::InvalidAcks,
                        _ => Closed::TimedOut(phase),
                    });
                }
            }
        }
        None
    }

    /// Confirms the incoming stream once the application has read all of it.
    fn confirm_if_read(&mut self) {
        if !self.completion.is_received
            && (self.confirm == Confirm::OnRead || self.is_released_unused())
            && self.receiver.is_read()
        {
            self.confirm();
        }
    }

    pub(super) fn confirm(&mut self) {
        self.receiver.confirm();
        self.completion.is_received |= self.receiver.is_finished();
    }

    /// Ends the streams; a CLOSE leaves next.
    pub(super) fn close(&mut self, now: Instant, reason: CloseReason, code: u32, text: &str) {
        self.completion.linger_until = Some(now + self.linger());
        self.sender.abort();
        self.proof = None;
        self.close = Some(CloseSent::new(reason, code, text, CLOSE_REPEATS));
    }

    /// Discards what has arrived, if the streams were aborted.
    pub(super) fn discard_aborted(&mut self) {
        if self.close.is_some() && self.receiver.memory() > 0 {
            self.receiver.discard();
        }
    }

    /// Returns the time for which the last answers are repeated.
    fn linger(&self) -> Duration {
        (self.sender.stats().rto * LINGER_RTOS).clamp(*LINGER.start(), *LINGER.end())
    }

    /// Ends the streams without a CLOSE.
    pub(super) fn stop(&mut self) {
        self.sender.abort();
        self.proof = None;
        self.close = Some(CloseSent::none());
        self.completion.linger_until = None;
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Output {
        if let Some(close) = &mut self.close {
            return Output::batch_if(close.transmit(&mut self.sealing, out));
        }
        if let Some(handshake) = self.reopening_mut() {
            return Output::batch_if(handshake.transmit(now, out));
        }
        if self.transmit_control(now, out) {
            return Output::Batch;
        }
        if self.is_key_used_up() {
            return Output::Nothing;
        }
        if let Some(ack) = self.ack.take() {
            return Output::batch_if(self.transmit_ack(ack, out));
        }
        if self.receiver.has_ack_to_carry() && self.has_own_stream && self.sender.can_carry_ack(now) {
            self.receiver.request_ack();
        }
        if let Some(ack) = self.next_ack(now) {
            self.sender.carry_ack(ack);
        }
        let has_more = self.has_own_stream && self.sender.fill(now, out);
        self.ack = self.sender.take_carried_ack();
        // A shorter packet may end the batch; else it has a batch of its own.
        if let Some(ack) = self.ack.take_if(|ack| out.is_empty() || out.has_room(native::ack_len(ack.len())))
        {
            self.transmit_ack(ack, out);
        }
        match (out.is_empty(), has_more || self.ack.is_some()) {
            (true, _) => Output::Nothing,
            (false, true) => Output::Batch,
            (false, false) => Output::Last,
        }
    }

    /// Appends a packet of the handshake, a path probe or a FIN-ACK, if one is due.
    fn transmit_control(&mut self, now: Instant, out: &mut TransmitBuf) -> bool {
        if let Some(proof) = &mut self.proof
            && proof.transmit(now, &mut self.sealing, out)
        {
            return true;
        }
        self.update_key(now);
        if self.is_key_used_up() {
            return false;
        }
        if let Some(token) = self.open_ack.take() {
            return seal_slot(&mut self.sealing, native::OPEN_ACK_LEN, out, |header, packet| {
                native::encode_open_ack(header, &token, packet);
            });
        }
        if let Some(probe) = self.probes.take() {
            return seal_probe(&mut self.sealing, probe, out);
        }
        self.receiver.take_fin_ack().is_some_and(|length| {
            seal_slot(&mut self.sealing, native::FIN_ACK_LEN, out, |header, packet| {
                native::encode_fin_ack(header, length, packet);
            })
        })
    }

    /// Returns the body of the ACK to send now.
    fn next_ack(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (ack, blocks) = self.receiver.take_ack(now)?;
        let mut body = std::mem::take(&mut self.ack_memory);
        body.clear();
        body.resize(native::ack_body_len(blocks.len()), 0);
        let len = native::encode_ack_body(&ack, blocks, &mut body);
        let window = ack.window;
        body.truncate(len);
        self.opening.cover(window / SMALL_PAYLOAD);
        Some(body)
    }

    fn transmit_ack(&mut self, body: Vec<u8>, out: &mut TransmitBuf) -> bool {
        let has_sent = seal_slot(&mut self.sealing, native::ack_len(body.len()), out, |header, packet| {
            native::encode_ack(header, &body, packet);
        });
        self.ack_memory = body;
        self.receiver.on_ack_left_alone();
        has_sent
    }

    /// Updates the local key if it is due, or requests the proof that the update waits for. ACKs of
    /// the outgoing stream are such a proof. A side that sends none gets it from a path probe.
    fn update_key(&mut self, now: Instant) {
        let Self { sealing, sender, probes, .. } = self;
        let phase = sealing.phase();
        let is_unproven = sealing.update_if_due(now, sender.next_number(), |key| sender.update_key(key));
        if sealing.phase() != phase {
            probes.restart(now);
        } else if is_unproven {
            probes.ask_for_key_phase(now, sender.stats().rto, || sealing.probe());
        }
    }

    /// True if the local key may only seal a CLOSE.
    fn is_key_used_up(&self) -> bool {
        self.sealing.is_used_up(self.sender.next_number())
    }

    pub(super) fn poll_path_probe(&mut self, random: u64, out: &mut TransmitBuf) -> bool {
        self.probes.asked_for(random);
        self.close.is_none() && seal_probe(&mut self.sealing, Probe { is_response: false, random }, out)
    }

    /// Handles timers that are due. Returns the reason if the connection ended.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Closed> {
        if self.close.is_some() || self.completion.linger_until.is_some() {
            return None;
        }
        if now >= self.silence.deadline() && !self.is_reopening() {
            return Some(if self.awaits_proof() {
                Closed::TimedOut(crate::Phase::Connect)
            } else {
                Closed::Idle
            });
        }
        if let Some(handshake) = self.reopening_mut() {
            return handshake.on_timeout(now).then_some(Closed::TimedOut(crate::Phase::Connect));
        }
        if let Some(proof) = &mut self.proof
            && proof.on_timeout(now)
        {
            return Some(Closed::TimedOut(crate::Phase::Connect));
        }
        self.opening.on_timeout(now);
        if self.quiet_deadline().is_some_and(|at| at <= now) {
            self.silence.on_probe(now);
            self.probes.ask(self.sealing.probe());
        }
        self.sender.handle_timeout(now);
        None
    }

    /// Returns the time at which a side whose outgoing stream is complete probes the path. It sends
    /// no keep-alives, so without the probe its peer would not learn that its address has changed.
    fn quiet_deadline(&self) -> Option<Instant> {
        if !self.completion.is_delivered || self.completion.is_received {
            return None;
        }
        Some(self.silence.probe_deadline())
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if self.close.is_some() || self.completion.linger_until.is_some() {
            return self.completion.linger_until;
        }
        if let Some(handshake) = self.proof.as_deref().and_then(KeyProof::restarted) {
            return handshake.poll_timeout();
        }
        // Asked several times for each packet.
        let mut first = self.silence.deadline();
        let mut add = |deadline: Option<Instant>| first = deadline.map_or(first, |at| at.min(first));
        if self.has_own_stream {
            add(self.sender.poll_timeout());
        }
        add(self.receiver.deadline());
        add(self.opening.deadline());
        add(self.proof.as_deref().and_then(KeyProof::deadline));
        add(self.release_deadline());
        add(self.quiet_deadline());
        Some(first)
    }

    pub(super) fn is_drained(&self, now: Instant) -> bool {
        let is_over = self.completion.linger_until.is_none_or(|until| until <= now);
        is_over && (self.completion.linger_until.is_some() || self.close.is_some())
    }

    /// Returns a sealed FIN-ACK, if this side has confirmed the peer's stream and the connection is
    /// complete, and the time until which the connection repeats it.
    pub(super) fn last_fin_ack(&mut self) -> Option<([u8; native::FIN_ACK_LEN], Instant)> {
        let until =
            self.completion.linger_until.filter(|_| self.close.is_none() && self.receiver.is_finished())?;
        let (mut packet, length) = ([0; native::FIN_ACK_LEN], self.receiver.rcv_nxt());
        self.sealing.seal(&mut packet, |header, packet| native::encode_fin_ack(header, length, packet));
        Some((packet, until))
    }

    /// True if the peer has forgotten a handshake that was not complete, by its token.
    pub(super) fn is_forgotten_by(&self, token: &ResetToken) -> bool {
        let awaits_proof = self.awaits_proof() && self.close.is_none() && !self.is_reopening();
        awaits_proof && self.resets.token.of_half_open() == *token
    }

    /// True if the responder has not proved yet that it opened the connection.
    fn awaits_proof(&self) -> bool {
        self.proof.as_deref().is_some_and(|proof| !proof.is_answered)
    }

    pub(super) fn is_refusable(&self) -> bool {
        self.close.is_none() && self.proof.as_deref().is_some_and(KeyProof::is_refusable)
    }

    pub(super) fn awaits_open_ack(&self) -> bool {
        self.proof.as_deref().is_some_and(KeyProof::is_unanswered_open)
    }

    fn on_open_ack(&mut self, now: Instant, token: ResetToken) {
        if self.proof.as_deref().is_some_and(KeyProof::is_open) {
            self.proof = None;
            self.resets = PeerResets::of_opened(now, token);
        }
    }

    /// True if the peer does not know the connection, by its token.
    pub(super) fn is_reset_by(&self, now: Instant, token: &ResetToken) -> bool {
        self.close.is_none() && !self.is_reopening() && self.resets.is_believed(now, token)
    }

    /// True while the handshake takes place again.
    pub(super) fn is_reopening(&self) -> bool {
        self.proof.as_deref().is_some_and(|proof| proof.restarted().is_some())
    }

    pub(super) fn start_again(&mut self, now: Instant) -> bool {
        self.proof.as_deref_mut().is_some_and(|proof| proof.restart(now))
    }

    /// Returns the handshake while it takes place again. Nothing else is sent meanwhile.
    pub(super) fn reopening_mut(&mut self) -> Option<&mut Opening> {
        self.proof.as_deref_mut().and_then(KeyProof::restarted_mut)
    }

    pub(super) fn heard_at(&self) -> Instant {
        self.silence.heard_at
    }

    pub(super) fn shrink(&mut self) {
        self.opening.shrink();
        self.receiver.shrink();
        self.ack_memory = Vec::new();
        // Data in flight needs its records, and more follows it.
        if self.sender.stats().in_flight == 0 {
            self.sender.shrink();
        }
    }
}

pub(super) fn seal_probe(sealing: &mut SealingKeys, probe: Probe, out: &mut TransmitBuf) -> bool {
    seal_slot(sealing, native::PATH_LEN, out, |header, packet| native::encode_path(header, &probe, packet))
}

/// Appends a packet of the control space to `out`, if there is room.
pub(super) fn seal_slot(
    sealing: &mut SealingKeys,
    len: usize,
    out: &mut TransmitBuf,
    encode: impl FnOnce(&native::ControlHeader, &mut [u8]),
) -> bool {
    let Some(slot) = out.slot(len) else { return false };
    sealing.seal(slot, encode);
    true
}
