//! Arrival of sealed packets: opens the packets of a coalesced message (GRO) in place, and passes
//! data that follows on to the receiver in runs.

use std::time::Instant;

use rdt_crypto::{HEADER_BYTES, TAG_BYTES};

use super::super::Arrival;
use super::super::events::{Closed, RefuseReason};
use super::super::keys::{Dropped, Opened};
use super::super::proof::KeyProof;
use super::{MAX_FORGED_PACKETS, Streams};
use crate::Ecn;
use crate::wire::native::{Body, Close, DataRun, Header, Probe, RunFields, peek};
use crate::wire::{Ack, FromReceiver, WireError};

/// Bytes of packets that make a run: the payload is copied while the opened packets are in the L1
/// data cache, of which most processors have 32 KiB.
const MAX_RUN_BYTES: usize = 12 << 10;

/// Retransmission timeouts after a key update of the peer for which packets under its key before
/// are opened (RFC 9001, section 6.5).
const PREVIOUS_KEY_RTOS: u32 = 3;

/// Properties that all packets of one message share.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Message {
    pub(in super::super) now: Instant,
    pub(in super::super) ecn: Ecn,
    /// Length of each datagram but the last, bytes.
    pub(in super::super) stride: usize,
    /// Limit on what the incoming stream may hold, bytes.
    pub(in super::super) memory: u64,
}

/// Run of opened DATA packets that the receiver has not got yet.
#[derive(Debug, Clone, Copy)]
struct Pending {
    fields: RunFields,
    /// Position of the packets in the message.
    start: usize,
    end: usize,
}

impl Streams {
    /// Handles the leading sealed packets of a message that have the same kind and connection ID:
    /// opens them and passes their content on. `arrival` counts them.
    pub(in super::super) fn handle_run(
        &mut self,
        message: &Message,
        bytes: &mut [u8],
        arrival: &mut Arrival,
    ) -> Result<(), Closed> {
        let mut pending: Option<Pending> = None;
        let mut next = peek(datagram_at(bytes, 0, message.stride));
        while let Some(header) = next {
            let start = arrival.taken;
            let end = bytes.len().min(start + message.stride);
            arrival.taken = end;
            match self.opening.open(&header, &mut bytes[start..end]) {
                Ok(Opened { number, body, is_newest }) => {
                    // A connection that is closed counts each packet.
                    let fields = RunFields::of(&header, number, body).filter(|_| self.close.is_none());
                    arrival.authentic += end - start;
                    arrival.is_newest |= is_newest;
                    let is_appended = pending.as_mut().zip(fields).is_some_and(|(run, fields)| {
                        run.end == start && run.end - run.start < MAX_RUN_BYTES && run.append(&fields, end)
                    });
                    if !is_appended {
                        self.deliver(message, pending.take(), bytes)?;
                        if let Some(fields) = fields {
                            pending = Some(Pending { fields, start, end });
                        } else {
                            self.handle_packet(message, (&header, number), &bytes[start..end], arrival)?;
                        }
                    }
                }
                Err(dropped) => {
                    arrival.unauthentic += 1;
                    match dropped {
                        Dropped::Replayed => self.dropped.replayed += 1,
                        Dropped::Forged => self.dropped.unauthentic += 1,
                    }
                    if self.dropped.unauthentic >= MAX_FORGED_PACKETS && self.close.is_none() {
                        return Err(Closed::AeadLimit);
                    }
                }
            }
            next = peek(datagram_at(bytes, end, message.stride)).filter(|next| next.is_like(&header));
        }
        self.deliver(message, pending, bytes)
    }

    /// Notes that packets which the peer sealed arrived for the first time.
    pub(in super::super) fn on_authentic(&mut self, now: Instant) {
        self.silence.on_packet(now);
        if self.proof.as_deref_mut().is_some_and(KeyProof::on_authentic) {
            self.proof = None;
        }
        let Self { opening, sender, .. } = self;
        opening.keep_previous_until(|| now + sender.stats().rto * PREVIOUS_KEY_RTOS);
    }

    fn deliver(&mut self, message: &Message, run: Option<Pending>, bytes: &[u8]) -> Result<(), Closed> {
        let Some(Pending { fields, start, end }) = run else { return Ok(()) };
        self.check_expects_data()?;
        let run = DataRun { fields, packets: &bytes[start..end], stride: message.stride };
        self.receiver.handle_run(message.now, run, message.ecn, message.memory);
        Ok(())
    }

    fn check_expects_data(&self) -> Result<(), Closed> {
        if self.completion.is_received && !self.receiver.is_finished() {
            return Err(Closed::ProtocolBroken(WireError::Type));
        }
        Ok(())
    }

    fn handle_packet(
        &mut self,
        message: &Message,
        (header, number): (&Header, u64),
        packet: &[u8],
        arrival: &mut Arrival,
    ) -> Result<(), Closed> {
        if let Some(close) = &mut self.close {
            close.on_packet();
            return Ok(());
        }
        let &Message { now, ecn, memory, .. } = message;
        let len = packet.len();
        let near = self.sender.next_number();
        // By reference, because a body has 200 bytes and most packets need few of them.
        let decoded = Body::decode(header, number, &packet[HEADER_BYTES..len - TAG_BYTES], near);
        let body = match &decoded {
            Ok(body) => body,
            Err(error) => return Err(Closed::ProtocolBroken(*error)),
        };
        match body {
            Body::Data { piece, ack } => {
                self.on_ack(now, ack.as_ref(), len);
                self.check_expects_data()?;
                self.receiver.handle_data(now, piece, ecn, memory);
            }
            Body::Ack(ack) => self.on_ack(now, Some(ack), len),
            &Body::Fin { length, ref ack } => {
                self.on_ack(now, ack.as_ref(), len);
                self.receiver.on_fin(now, length, Some(number), true, ecn);
                if self.receiver.is_broken() {
                    return Err(Closed::ProtocolBroken(WireError::Sequence));
                }
            }
            &Body::FinAck { length } => {
                let reply = FromReceiver::FinAck { ack: length, crc: 0 };
                self.sender.handle_reply(now, &reply, len);
            }
            Body::Close(close) => return Err(self.reason_of(close)),
            Body::Path(probe) => self.on_path(*probe, arrival),
            Body::OpenAck(token) => self.on_open_ack(now, *token),
        }
        Ok(())
    }

    /// Returns why the peer has closed the connection.
    fn reason_of(&self, &Close { reason, code, text }: &Close<'_>) -> Closed {
        // A responder refuses the initiator after its AUTH, and sends nothing else before.
        let is_first = self.awaits_proof();
        match RefuseReason::named(reason.code()).filter(|_| is_first) {
            Some(refusal) => Closed::Refused(refusal),
            None => Closed::Peer { reason, code, text: text.to_owned() },
        }
    }

    /// Handles a path probe, or the answer to one.
    fn on_path(&mut self, Probe { is_response, random }: Probe, arrival: &mut Arrival) {
        if !is_response {
            self.probes.answer(random);
            return;
        }
        self.sealing.on_path_answer(random);
        if self.probes.has_asked_for(random) {
            arrival.path_answer = Some(random);
        }
    }

    fn on_ack(&mut self, now: Instant, ack: Option<&Ack<'_>>, len: usize) {
        if let Some(ack) = ack {
            if let Some(echo) = ack.echo {
                self.sealing.on_ack(echo.packet_number);
            }
            self.sender.handle_reply(now, &FromReceiver::Ack(*ack), len);
        }
    }
}

impl Pending {
    /// Adds the packet that ends at `end` of the message. Returns false if it does not follow.
    #[inline]
    fn append(&mut self, fields: &RunFields, end: usize) -> bool {
        let is_appended = self.fields.append(fields);
        if is_appended {
            self.end = end;
        }
        is_appended
    }
}

/// Returns the datagram at this place of a message; empty after the last one.
fn datagram_at(bytes: &[u8], at: usize, stride: usize) -> &[u8] {
    &bytes[at..bytes.len().min(at + stride)]
}
