//! Checks both streams of a connection by its datagrams alone, if it has no cipher: tracks what was
//! sent, what arrived and what the rules then allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdt::congestion::Cause;
use rdt::sim::NodeId;
use rdt::sim::payload;
use rdt::transport::drive::Budget;
use rdt::{Observer, Timer, Trace};

use crate::faults::plan::MSS;
use crate::faults::timers::Timers;
use crate::faults::wire::{self, AUTH, Ack, CLOSE, DATA, FIN, FIN_ACK, Packet, SYN};

/// Largest burst, bytes: one GSO batch.
const BATCH: u64 = 65_507 / MSS * MSS;
/// Transmissions between two skipped numbers.
const MIN_SKIP_DISTANCE: u32 = 128;

/// Sides of a connection, and the streams that they send.
pub(super) const INITIATOR: usize = 0;
pub(super) const RESPONDER: usize = 1;

/// Disjoint byte ranges that arrived, keyed by their start.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn insert(&mut self, mut start: u64, mut end: u64) {
        while let Some((&s, &e)) = self.0.range(..=end).next_back()
            && e >= start
        {
            (start, end) = (start.min(s), end.max(e));
            self.0.remove(&s);
        }
        self.0.insert(start, end);
    }

    fn holds(&self, start: u64, end: u64) -> bool {
        start >= end || self.0.range(..=start).next_back().is_some_and(|(_, e)| *e >= end)
    }

    fn first_missing(&self) -> u64 {
        self.0.get(&0).copied().unwrap_or(0)
    }
}

/// Token bucket at the pacing rate that the sender reports.
#[derive(Debug)]
struct Bucket {
    rate: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    fn capacity(rate: f64) -> f64 {
        // Two batches, or 1 ms on a path of low rate.
        (2.0 * BATCH as f64).min(rate / 1000.0).max(16.0 * MSS as f64)
    }

    fn settle(&mut self, now: Instant) {
        let gained = self.rate * now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + gained).min(Self::capacity(self.rate));
        self.at = self.at.max(now);
    }
}

/// State of one stream.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Packets outstanding at each timeout, and in Tahoe at each recovery, summed: the upper bound
    /// on what they send again.
    pub(super) at_stake: u64,
    /// Cumulative ACK at the last timeout, and the number of timeouts that found the same one.
    timed_out_at: Option<u64>,
    pub(super) in_a_row: u32,
    /// Packets that arrived before the AUTH that opens their connection.
    pub(super) early: u64,
    /// Count of packet numbers, sent or skipped, and its value after the last skipped one.
    transmissions: u32,
    skipped_at: u32,
    /// One past the last byte sent.
    sent: u64,
    /// Largest cumulative ACK and largest right edge of the window that reached the sender.
    acked: u64,
    edge: u64,
    /// Key phase of the packets that reach the sender. It may drop one of the phase before.
    phase: u16,
    /// As `acked`, without those that the sender may drop.
    acked_surely: u64,
    /// As `acked_surely`, without those that the sender may read in a later turn of their instant.
    acked_at_once: u64,
    /// Data, newest transmission and FIN that reached the receiver.
    arrived: Ranges,
    newest: Option<u32>,
    /// Newest transmission before the current instant: an event-loop turn may leave packets of one
    /// instant to the next turn.
    newest_before: Option<u32>,
    arrived_at: Option<Instant>,
    fin_arrived: bool,
    /// Right edge of the window that the receiver offered.
    offered: u64,
    bucket: Option<Bucket>,
}

/// Newest connection of the initiator.
#[derive(Debug, Default)]
struct Session {
    /// Connection ID of each side, once it is known: that of the packets which it gets.
    ids: [Option<u64>; 2],
    /// True once the responder knows the connection. Until then its packets are lost.
    is_open: bool,
    /// True once the responder has sent a sealed packet.
    has_answered: bool,
    /// Packets of the handshake and FINs that were sent.
    controls: u32,
    flows: [Flow; 2],
    /// Timers of each stream.
    timers: [Timers; 2],
}

/// State of the checker, and the first violation.
#[derive(Debug)]
pub(super) struct Checker {
    responder: NodeId,
    /// Length of each stream, bytes.
    bytes: [u64; 2],
    /// Largest initial window, bytes.
    window: u64,
    /// True if the sides recover as Tahoe does.
    tahoe: bool,
    /// True if the handshake has an AUTH.
    has_auth: bool,
    /// Longest delay of an ACK; `None` if a side may end the connection early and answer nothing.
    max_ack_delay: Option<Duration>,
    /// Present address of the initiator: no host has an old one.
    pub(super) initiator: NodeId,
    /// Side that gets it, and number, of the control packet after each forged ACK, which has the
    /// same number. The packet is dropped as a copy.
    taken: BTreeSet<(usize, u32)>,
    /// Instant of the newest arrival at each side, and datagrams that arrived then.
    arrivals: [Option<(Instant, usize)>; 2],
    session: Session,
    /// The responder lost the connection in a restart: no rule holds for its answers.
    pub(super) forgotten: bool,
    pub(super) violation: Option<String>,
}

/// Datagrams that a side reads in one turn, before it sends.
fn turn() -> usize {
    Budget::default().receive
}

impl Checker {
    pub(super) fn new(
        [initiator, responder]: [NodeId; 2],
        bytes: [u64; 2],
        window: u64,
        tahoe: bool,
        has_auth: bool,
        max_ack_delay: Option<Duration>,
    ) -> Self {
        let (taken, arrivals, session) = (BTreeSet::new(), [None; 2], Session::default());
        let (forgotten, violation) = (false, None);
        Self {
            responder,
            bytes,
            window,
            tahoe,
            has_auth,
            max_ack_delay,
            initiator,
            taken,
            arrivals,
            session,
            forgotten,
            violation,
        }
    }

    pub(super) fn flow(&self, side: usize) -> &Flow {
        &self.session.flows[side]
    }

    /// Repetitions of packets of the handshake and of FINs.
    pub(super) fn controls(&self) -> u32 {
        // Two SYNs, an AUTH in some handshakes, and two FINs.
        self.session.controls.saturating_sub(4)
    }

    /// Returns the side that sends from this address.
    fn side(&self, from: NodeId) -> usize {
        if from == self.responder { RESPONDER } else { INITIATOR }
    }

    /// True for an old address of the initiator, that no host has.
    fn is_gone(&self, to: NodeId) -> bool {
        to != self.responder && to != self.initiator
    }

    fn rule(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    /// Follows a datagram of the initiator to its newest connection.
    fn follow(&mut self, datagram: &[u8]) {
        if let Some(id) = wire::id_of(datagram, SYN) {
            if self.session.ids[INITIATOR] != Some(id) {
                self.session = Session::default();
                self.taken.clear();
                self.session.ids[INITIATOR] = Some(id);
            }
            self.session.controls += 1;
        } else if wire::is_sealed(datagram) {
            let id = u64::from_le_bytes(datagram[8..16].try_into().unwrap());
            let before = self.session.ids[RESPONDER].replace(id);
            if before.is_some_and(|before| before != id) {
                // The responder forgot the handshake, which took place again: it has nothing.
                self.rule(!self.session.has_answered, || "a new handshake after an answer".to_owned());
                self.session.is_open = false;
                self.session.flows[INITIATOR].forget_arrivals();
            }
        }
    }

    pub(super) fn on_sent(&mut self, now: Instant, from: NodeId, datagram: &[u8]) {
        let side = self.side(from);
        if side == INITIATOR {
            self.follow(datagram);
        }
        let packet = wire::decode(datagram);
        let is_whole = packet.is_some() || !wire::is_sealed(datagram);
        self.rule(is_whole, || format!("a datagram of {} bytes has a wrong tag", datagram.len()));
        let Some(packet) = packet.filter(|packet| self.session.ids[1 - side] == Some(packet.id)) else {
            return;
        };
        if self.forgotten && side == RESPONDER {
            return;
        }
        self.session.has_answered |= side == RESPONDER;
        self.acked_in_time(now);
        let bytes = self.bytes;
        if matches!(packet.kind, DATA | FIN) {
            self.number(side, packet.number);
        }
        match packet.kind {
            DATA => self.data_sent(now, side, packet.offset, packet.payload),
            FIN => {
                self.session.controls += 1;
                let (length, sent) = (packet.offset, self.session.flows[side].sent);
                let all = length == bytes[side] && sent == length;
                self.rule(all, || format!("FIN of {length} after {sent} bytes"));
            }
            FIN_ACK => {
                let (length, other) = (packet.offset, 1 - side);
                let all = length == bytes[other] && self.flow(other).arrived.holds(0, length);
                self.rule(all, || format!("FIN-ACK of {length}"));
            }
            _ => {}
        }
        if let Some(ack) = &packet.ack {
            self.ack_sent(now, 1 - side, ack);
        }
        if packet.ack.is_some() || matches!(packet.kind, FIN_ACK | CLOSE) {
            self.session.timers[1 - side].answered();
        }
    }

    /// Checks that no ACK is late.
    fn acked_in_time(&mut self, now: Instant) {
        let late = self.session.timers.iter().any(|timers| timers.is_ack_late(now));
        self.rule(!late, || "an ACK is late".to_owned());
    }

    fn number(&mut self, side: usize, number: u32) {
        let flow = &mut self.session.flows[side];
        let expected = flow.transmissions;
        let step = number.wrapping_sub(expected);
        flow.transmissions = number.wrapping_add(1);
        let skips = step == 1 && flow.transmissions.wrapping_sub(flow.skipped_at) >= MIN_SKIP_DISTANCE;
        if skips {
            flow.skipped_at = flow.transmissions;
        }
        self.rule(step == 0 || skips, || format!("transmission {number} instead of {expected}"));
    }

    fn data_sent(&mut self, now: Instant, side: usize, offset: u64, payload: &[u8]) {
        if payload.is_empty() {
            return;
        }
        let end = offset + payload.len() as u64;
        let at_once = self.arrived_at(side, now) <= turn();
        let is_hasty = self.session.timers[side].is_hasty;
        self.rule(!is_hasty, || "a timeout without back-off".to_owned());
        let Flow { sent, acked, acked_surely, acked_at_once, edge, .. } = self.session.flows[side];
        let (edge, read) = (edge.max(self.window), if at_once { acked_surely } else { acked_at_once });
        self.rule(payload::matches(offset, payload), || format!("{offset}..{end} carries other bytes"));
        if end > sent {
            self.rule(offset <= sent, || format!("{offset}..{end} is sent after {sent}"));
            let probe = sent == acked;
            self.rule(probe || end <= edge, || format!("{offset}..{end} is beyond the window's {edge}"));
        } else {
            self.rule(end > read, || format!("{offset}..{end} is sent again, acknowledged {read}"));
        }
        let flow = &mut self.session.flows[side];
        flow.sent = sent.max(end);
        let Some(bucket) = &mut flow.bucket else { return };
        bucket.settle(now);
        let (level, rate) = (bucket.level, bucket.rate);
        bucket.level -= payload.len() as f64;
        // The last segment may differ in size from the one that the pacer waited for.
        let slack = MSS as f64 + 1.0;
        self.rule(level + slack >= payload.len() as f64, || {
            format!("{} bytes at {rate} bytes/s are {level} early", payload.len())
        });
    }

    /// Checks an ACK of the stream of `side`.
    fn ack_sent(&mut self, now: Instant, side: usize, ack: &Ack) {
        let flow = &self.session.flows[side];
        let Ack { largest: echo, cumulative, window, .. } = *ack;
        let (offered, missing) = (flow.offered, flow.arrived.first_missing());
        // An event-loop turn may leave some packets of one instant to the next turn.
        let read = if flow.arrived_at == Some(now) { flow.newest_before } else { flow.newest };
        let fresh = Some(echo) <= flow.newest && Some(echo) >= read || flow.fin_arrived;
        let newest = flow.newest;
        let hole =
            ack.blocks.iter().find(|(start, end)| *start <= cumulative || !flow.arrived.holds(*start, *end));
        let hole = hole.copied();
        self.rule(cumulative <= missing, || format!("ACK of {cumulative} without {missing}"));
        self.rule(cumulative + window >= offered, || format!("the window's edge goes back from {offered}"));
        self.rule(fresh, || format!("echo of {echo} when {newest:?} was the newest"));
        self.rule(hole.is_none(), || format!("SACK of {hole:?} that did not arrive"));
        self.session.flows[side].offered = cumulative + window;
    }

    /// Notes a datagram that arrived from one node at another.
    pub(super) fn on_arrived(&mut self, now: Instant, (from, to): (NodeId, NodeId), datagram: &[u8]) {
        let side = self.side(from);
        if self.is_gone(to) {
            return;
        }
        self.count_arrival(1 - side, now);
        let at_once = self.arrived_at(1 - side, now) <= turn();
        let of_session = |id| self.session.ids[1 - side] == Some(id);
        if wire::id_of(datagram, AUTH).is_some_and(of_session) {
            self.session.is_open = true;
        }
        let Some(packet) = wire::decode(datagram).filter(|packet| of_session(packet.id)) else { return };
        self.acked_in_time(now);
        self.session.timers[1 - side].heard();
        if !matches!(packet.kind, DATA | FIN) && self.taken.contains(&(1 - side, packet.number)) {
            return;
        }
        self.session.is_open |= !self.has_auth || side == RESPONDER;
        self.session.flows[1 - side].hear(&packet, at_once);
        let is_open = self.session.is_open;
        self.expect_ack(now, side, &packet);
        self.session.flows[side].receive(now, is_open, &packet);
    }

    /// Notes that a DATA packet from `side` must be acknowledged. Not an old one, which may be a
    /// copy, nor one of the key phase before, which may be dropped.
    fn expect_ack(&mut self, now: Instant, side: usize, packet: &Packet<'_>) {
        let Some(delay) = self.max_ack_delay else { return };
        let Session { flows, timers, has_answered, .. } = &mut self.session;
        let is_newest = packet.kind == DATA && Some(packet.number) > flows[side].newest;
        if is_newest && packet.phase == flows[1 - side].phase && *has_answered {
            timers[side].expect_ack(now + delay);
        }
    }

    /// Datagrams that arrived at a side at `now` so far. Those beyond [`turn`] may be read after it
    /// has sent again.
    fn arrived_at(&self, side: usize, now: Instant) -> usize {
        self.arrivals[side].filter(|(at, _)| *at == now).map_or(0, |(_, count)| count)
    }

    fn count_arrival(&mut self, side: usize, now: Instant) {
        self.arrivals[side] = Some((now, self.arrived_at(side, now) + 1));
    }

    /// Returns an ACK that acknowledges what was never sent, like the one in `datagram`, which
    /// arrived from one node at another.
    ///
    /// Not what may be sent before the side reads of it: a receiver that acknowledges what did not
    /// arrive cannot be told from one that has it.
    pub(super) fn forge(
        &mut self,
        now: Instant,
        (from, to): (NodeId, NodeId),
        datagram: &[u8],
        mut random: impl FnMut(u64) -> u64,
    ) -> Option<Vec<u8>> {
        // Of a responder that restarted, it is not known what was sent.
        if self.forgotten || self.is_gone(to) {
            return None;
        }
        let side = self.side(from);
        let packet = wire::decode(datagram).filter(|packet| self.session.ids[1 - side] == Some(packet.id))?;
        let mut ack = packet.ack.filter(|_| packet.kind == wire::ACK)?;
        let is_taken = self.taken.contains(&(1 - side, packet.number));
        if is_taken || self.arrived_at(1 - side, now) >= turn() {
            return None;
        }
        let sent = self.flow(1 - side).sent;
        ack.blocks.clear();
        if random(2) == 0 {
            ack.cumulative = sent + 1 + random(100_000);
        } else {
            let start = ack.cumulative + 1 + random(sent.saturating_sub(ack.cumulative));
            ack.blocks.push((start, sent.max(start) + 1 + random(5000)));
        }
        self.taken.insert((1 - side, packet.number + 1));
        self.count_arrival(1 - side, now);
        Some(wire::forge_ack(datagram, &ack))
    }
}

impl Flow {
    /// Starts with a receiver that has nothing of the stream.
    fn forget_arrivals(&mut self) {
        (self.arrived, self.newest, self.newest_before) = (Ranges::default(), None, None);
        (self.arrived_at, self.fin_arrived, self.offered) = (None, false, 0);
    }

    /// Notes a packet of the receiver that reached the sender.
    fn hear(&mut self, packet: &Packet<'_>, at_once: bool) {
        if packet.phase == (self.phase + 1) % 4 {
            self.phase = packet.phase;
        }
        let Some(ack) = &packet.ack else { return };
        self.acked = self.acked.max(ack.cumulative);
        self.edge = self.edge.max(ack.cumulative + ack.window);
        if packet.phase == self.phase {
            self.acked_surely = self.acked_surely.max(ack.cumulative);
        }
        if at_once {
            self.acked_at_once = self.acked_surely;
        }
    }

    /// Notes a packet that reached the receiver.
    fn receive(&mut self, now: Instant, is_open: bool, packet: &Packet<'_>) {
        match packet.kind {
            DATA | FIN if !is_open => self.early += 1,
            DATA => {
                if self.arrived_at.replace(now) != Some(now) {
                    self.newest_before = self.newest;
                }
                self.newest = self.newest.max(Some(packet.number));
                self.arrived.insert(packet.offset, packet.offset + packet.payload.len() as u64);
            }
            FIN => self.fin_arrived = true,
            _ => {}
        }
    }

    /// Counts the packets outstanding, all of which may be sent again.
    fn stake(&mut self) {
        self.at_stake += (self.sent - self.acked.min(self.sent)).div_ceil(MSS);
    }

    fn timed_out(&mut self) {
        self.stake();
        self.in_a_row += u32::from(self.timed_out_at.replace(self.acked) == Some(self.acked));
    }

    fn paced(&mut self, now: Instant, rate: u64) {
        let rate = rate.max(1) as f64;
        // Observed from a moment on at which the sender may have a full bucket.
        let full = Bucket { rate, level: Bucket::capacity(rate), at: now };
        let bucket = self.bucket.get_or_insert(full);
        bucket.settle(now);
        bucket.rate = rate;
        bucket.level = bucket.level.min(Bucket::capacity(rate));
    }
}

/// Observer of the stream of one side.
#[derive(Debug, Clone)]
pub(super) struct Watch(pub(super) Arc<Mutex<Checker>>, pub(super) usize);

impl Observer for Watch {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut checker = self.0.lock().unwrap();
        let tahoe = checker.tahoe;
        let Session { flows, timers, .. } = &mut checker.session;
        let flow = &mut flows[self.1];
        match *trace {
            Trace::Paced { rate } => flow.paced(now, rate),
            Trace::TimerExpired { timer: Timer::Retransmission } => flow.timed_out(),
            Trace::RecoveryBegan { cause: Cause::Timeout } => timers[self.1].timed_out(now),
            Trace::RecoveryBegan { cause: Cause::Loss } if tahoe => flow.stake(),
            _ => {}
        }
    }
}
