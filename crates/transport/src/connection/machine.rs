//! State machine of a connection: packets, timers and errors that its set passes to it, datagrams
//! and events that the set takes from it, and the steps from opening to open to ended.

use std::time::{Duration, Instant};

use rdt_crypto::ResetToken;

use super::events::{Closed, ConnectionEvent};
use super::initiator::{Opened, Opening, Progress};
use super::streams::{Message, Streams};
use super::within::Associated;
use super::{Connection, Stage};
use crate::receiver::BufferShare;
use crate::wire::native::{Clear, CloseReason, FIN_ACK_LEN};
use crate::{Ecn, Phase, Trace, TransmitBuf};

/// Result of the arrival of sealed packets, for the set of connections.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrival {
    /// Bytes of the packets that were handled.
    pub(crate) taken: usize,
    /// Packets that the peer did not seal, or that arrived before.
    pub(crate) unauthentic: u64,
    /// Bytes of packets that the peer sealed and that arrived for the first time.
    pub(crate) authentic: usize,
    /// True if one of them was the newest of its number space when it arrived.
    pub(crate) is_newest: bool,
    /// Random number of the newest probe of an address, if one of the packets answers that probe.
    pub(crate) path_answer: Option<u64>,
}

/// Output of a connection, for the set of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// There is nothing to send.
    Nothing,
    /// A batch after which there is nothing to send before the next input, write or timer.
    Last,
    /// A batch that others may follow.
    Batch,
}

impl Output {
    /// Returns a batch that others may follow, if one `is_sent`.
    pub(super) fn batch_if(is_sent: bool) -> Self {
        if is_sent { Self::Batch } else { Self::Nothing }
    }
}

impl Connection {
    pub(crate) fn remote_id(&self) -> Option<u64> {
        self.streams().map(|streams| streams.sealing.remote_id)
    }

    /// Handles the leading packets of a message that are sealed, of one kind and with this
    /// connection's ID. `memory` limits what the incoming stream may hold, bytes.
    pub(crate) fn handle_run(
        &mut self,
        now: Instant,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
        memory: u64,
    ) -> Arrival {
        let mut arrival = Arrival::default();
        let streams = match &mut self.stage {
            Stage::Open(streams) if !streams.is_reopening() || streams.awaits_open_ack() => streams,
            _ => return Arrival { taken: stride.min(bytes.len()), unauthentic: 1, ..arrival },
        };
        let handled = streams.handle_run(&Message { now, ecn, stride, memory }, bytes, &mut arrival);
        if arrival.authentic > 0 {
            streams.on_authentic(now);
        }
        match handled {
            Ok(()) if arrival.authentic > 0 => self.on_proven(),
            Ok(()) => {}
            Err(closed) => self.fail(now, closed),
        }
        self.after_call(now);
        arrival
    }

    /// Handles one datagram with this connection's ID that is not sealed.
    pub(crate) fn handle_clear(&mut self, now: Instant, datagram: &[u8]) {
        match &mut self.stage {
            Stage::Open(streams) => match Clear::decode(datagram) {
                Ok(Clear::Reset(token)) => {
                    if streams.is_reset_by(now, &token) {
                        self.fail(now, Closed::Reset);
                    } else if streams.is_forgotten_by(&token) && !streams.start_again(now) {
                        self.fail(now, Closed::Handshake);
                    }
                }
                Ok(Clear::Refuse(_)) if streams.is_refusable() => {
                    if !streams.start_again(now) {
                        self.fail(now, Closed::Handshake);
                    }
                }
                Ok(packet) => {
                    if let Some(handshake) = streams.reopening_mut() {
                        let progress = handshake.handle(now, &packet);
                        self.on_progress(now, progress);
                    }
                }
                Err(_) => {}
            },
            Stage::Opening(opening) => {
                if let Ok(packet) = Clear::decode(datagram) {
                    let progress = opening.handle(now, &packet);
                    self.on_progress(now, progress);
                }
            }
            Stage::Ended => {}
        }
        self.after_call(now);
    }

    pub(super) fn on_progress(&mut self, now: Instant, progress: Progress) {
        let opened = match progress {
            Progress::Pending => return,
            Progress::Failed(closed) => return self.fail(now, closed),
            Progress::Opened(opened) => opened,
        };
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Opening(handshake) => self.open(now, *opened, handshake),
            Stage::Open(streams) => self.reopen(now, *opened, streams),
            Stage::Ended => {}
        }
    }

    /// Opens both streams.
    fn open(&mut self, now: Instant, opened: Opened, handshake: Box<Opening>) {
        let Opened { established, mut proof, peer, resumption, is_proven } = opened;
        let (hash, window) = (established.secrets.handshake_hash, established.window);
        let is_refusable = proof.is_refusable();
        if !is_refusable {
            self.associated = Associated::of(now, &established, peer, handshake.own_key).map(Box::new);
        }
        let streams = Streams::new(now, &handshake.config, established, handshake.env.clone());
        let Ok(mut streams) = streams else { return self.fail(now, Closed::Handshake) };
        proof.keep(handshake);
        streams.proof = Some(Box::new(proof));
        if let Some(mut observer) = self.observer.take() {
            observer.on(now, &Trace::SynAckReceived { ack: 0, window, rto: streams.sender.stats().rto });
            streams.observe(observer);
        }
        self.stage = Stage::Open(Box::new(streams));
        self.peer = Some(peer);
        self.handshake_hash = Some(hash);
        self.unproven = Some(Box::new(ConnectionEvent::Connected { peer: Some(peer), resumption }));
        if is_proven {
            self.on_proven();
        }
    }

    /// Continues the streams under the keys of a repeated handshake with the same peer.
    fn reopen(&mut self, now: Instant, opened: Opened, mut streams: Box<Streams>) {
        let Opened { established, proof, peer, .. } = opened;
        let (hash, is_same) = (established.secrets.handshake_hash, self.peer == Some(peer));
        let own_key = streams.reopening_mut().and_then(|handshake| handshake.own_key);
        let associated = Associated::of(now, &established, peer, own_key).map(Box::new);
        let is_reopened = is_same && streams.reopen(now, established, proof);
        self.stage = Stage::Open(streams);
        if is_reopened {
            self.handshake_hash = Some(hash);
            self.associated = associated;
        } else {
            self.fail(now, if is_same { Closed::Handshake } else { Closed::NotTrusted(peer) });
        }
    }

    /// Reports the end of the handshake: the responder has proved all its keys.
    fn on_proven(&mut self) {
        let Some(connected) = self.unproven.take() else { return };
        self.events.push_back(*connected);
        if self.is_finish_due {
            self.finish();
        }
    }

    /// Appends the next datagrams for the peer to the empty batch `out`.
    pub(crate) fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Output {
        let output = match &mut self.stage {
            Stage::Opening(opening) => {
                let has_sent = opening.transmit(now, out);
                if let Some(observer) = self.observer.as_mut().filter(|_| has_sent) {
                    observer.on(now, &opening.syn_trace(now));
                }
                Output::batch_if(has_sent)
            }
            Stage::Open(streams) => streams.poll_transmit(now, out),
            Stage::Ended => Output::Nothing,
        };
        self.after_call(now);
        output
    }

    /// Appends a path probe, to be sent to an address that is not validated yet.
    pub(crate) fn poll_path_probe(&mut self, random: u64, out: &mut TransmitBuf) -> bool {
        self.streams_mut().is_some_and(|streams| streams.poll_path_probe(random, out))
    }

    /// Sends an OPEN-ACK with the token of this side's RESETs.
    pub(crate) fn acknowledge_open(&mut self, token: ResetToken) {
        if let Some(streams) = self.streams_mut() {
            streams.open_ack = Some(token);
        }
    }

    /// Adapts to a new path: the peer's address changed.
    pub(crate) fn on_path_changed(&mut self, now: Instant) {
        if let Some(streams) = self.streams_mut() {
            streams.sender.on_path_changed(now);
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let ended = match &mut self.stage {
            Stage::Opening(opening) => opening.on_timeout(now).then_some(Closed::TimedOut(Phase::Connect)),
            Stage::Open(streams) => streams.handle_timeout(now),
            Stage::Ended => None,
        };
        if let Some(closed) = ended {
            self.fail(now, closed);
        }
        self.after_call(now);
    }

    /// Ends the connection as the idle timeout does.
    pub(crate) fn end_idle(&mut self, now: Instant) {
        self.fail(now, Closed::Idle);
        self.after_call(now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Opening(opening) => opening.poll_timeout(),
            Stage::Open(streams) => streams.poll_timeout(),
            Stage::Ended => None,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }

    /// True before the SYN-ACK.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.stage, Stage::Opening(_)) || self.is_reopening()
    }

    /// True until the peer has answered at all.
    #[inline]
    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_opening() || self.streams().is_some_and(Streams::awaits_open_ack)
    }

    /// Handles ICMP "port unreachable" errors.
    pub(crate) fn handle_refused(&mut self, now: Instant, reports: u64) {
        match &mut self.stage {
            Stage::Opening(opening) => {
                if opening.on_refused(now) {
                    self.fail(now, Closed::Unreachable);
                }
            }
            Stage::Open(streams) if streams.is_reopening() => {
                if streams.reopening_mut().is_some_and(|handshake| handshake.on_refused(now)) {
                    self.fail(now, Closed::Unreachable);
                }
            }
            Stage::Open(streams) if streams.awaits_open_ack() => {
                if streams.proof.as_mut().is_some_and(|proof| proof.on_refused(now)) {
                    self.fail(now, Closed::Unreachable);
                }
            }
            Stage::Open(streams) => {
                crate::Endpoint::handle_refused(&mut streams.sender, now, (), reports);
            }
            Stage::Ended => {}
        }
        self.after_call(now);
    }

    /// Counts time in which the clock stood still.
    pub(crate) fn on_suspended(&mut self, time: Duration) {
        match &mut self.stage {
            Stage::Opening(opening) => opening.on_suspended(time),
            Stage::Open(streams) => {
                if let Some(proof) = &mut streams.proof {
                    proof.on_suspended(time);
                }
            }
            Stage::Ended => {}
        }
    }

    pub(crate) fn is_reopening(&self) -> bool {
        self.streams().is_some_and(Streams::is_reopening)
    }

    /// Returns the memory of the incoming stream, bytes.
    #[inline]
    pub(crate) fn memory(&self) -> u64 {
        self.streams().map_or(0, |streams| streams.receiver.memory())
    }

    /// Discards what a released connection has received after an abort: it only repeats its CLOSE.
    pub(crate) fn discard_aborted(&mut self) {
        if let Some(streams) = self.streams_mut() {
            streams.discard_aborted();
        }
    }

    /// Returns the part of the socket's receive buffer that is offered to the peer and not filled;
    /// 0 after the end, when no data is taken.
    #[inline]
    pub(crate) fn offered(&self) -> u64 {
        let streams = self.streams().filter(|_| self.closed.is_none());
        streams.map_or(0, |streams| streams.receiver.offered())
    }

    /// Sets the part of the socket's receive buffer that the peer may fill.
    pub(crate) fn set_share(&mut self, share: BufferShare) {
        match &mut self.stage {
            Stage::Opening(opening) => opening.env.share = Some(share),
            Stage::Open(streams) => {
                if let Some(rtt) = streams.sender.min_rtt() {
                    streams.receiver.on_min_rtt(rtt);
                }
                streams.receiver.set_share(share);
            }
            Stage::Ended => {}
        }
    }

    /// Sets the number of drops in the socket's receive queue, modulo 2^32.
    pub(crate) fn set_overflow(&mut self, messages: Option<u32>) {
        if let Some(streams) = self.streams_mut() {
            streams.receiver.set_overflow(messages);
        }
    }

    pub(crate) fn shrink(&mut self) {
        self.events.shrink_to_fit();
        if let Some(streams) = self.streams_mut() {
            streams.shrink();
        }
    }

    /// True if the connection is over and nothing will be sent any more.
    #[inline]
    pub(crate) fn is_drained(&self, now: Instant) -> bool {
        match &self.stage {
            Stage::Opening(_) => false,
            Stage::Open(streams) => streams.is_drained(now),
            Stage::Ended => true,
        }
    }

    /// Returns a sealed FIN-ACK for after the connection, and until when it repeats that itself.
    pub(crate) fn last_fin_ack(&mut self) -> Option<([u8; FIN_ACK_LEN], Instant)> {
        self.streams_mut()?.last_fin_ack()
    }

    /// Ends the connection for a reason found here; the peer is told if it can act on it.
    fn fail(&mut self, now: Instant, closed: Closed) {
        let told = match closed {
            Closed::ProtocolBroken(_) | Closed::InvalidAcks | Closed::AeadLimit => {
                Some(CloseReason::Protocol)
            }
            Closed::Local | Closed::NoProgress(_) => Some(CloseReason::Aborted),
            _ => None,
        };
        self.end(now, closed, told.map(|reason| (reason, 0, "")));
    }

    pub(super) fn report_end(&mut self, closed: Closed) {
        self.unproven = None;
        self.closed = Some(closed.clone());
        self.events.push_back(ConnectionEvent::Closed(closed));
    }

    /// Makes the next update of the local key due.
    #[cfg(any(test, feature = "fuzzing"))]
    #[doc(hidden)]
    pub fn use_up_key(&mut self) {
        if let Some(streams) = self.streams_mut() {
            streams.sealing.use_up();
        }
    }

    /// Moves the streams' events after a call, and ends a connection that is complete or failed.
    pub(crate) fn after_call(&mut self, now: Instant) {
        let Stage::Open(streams) = &mut self.stage else { return };
        if self.closed.is_some() {
            return;
        }
        let events = &mut self.events;
        match streams.collect(now, |event| events.push_back(event)) {
            None => {}
            // The streams go on for a while, to repeat their last answers.
            Some(Closed::Finished) => self.report_end(Closed::Finished),
            Some(closed) => self.fail(now, closed),
        }
    }
}
