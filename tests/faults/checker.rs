//! Checks a transfer by its datagrams alone. It decodes packets itself (offsets:
//! `docs/PROTOCOL.md`) and tracks what was sent, what arrived and what the rules then allow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rdt::sim::payload;
use rdt::sim::{Interceptor, NodeId};
use rdt::transport::congestion::Cause;
use rdt::transport::drive::Budget;
use rdt::transport::{Observer, Timer, Trace};
use rdt_testing::packets;

use crate::faults::plan::MSS;

const SYN: u8 = 1;
const SYN_ACK: u8 = 3;
const DATA: u8 = 4;
const ACK: u8 = 6;
const FIN: u8 = 7;
const FIN_ACK: u8 = 8;
/// Limit on early data: bytes that may be sent before the SYN-ACK.
const MAX_EARLY_DATA_BYTES: u64 = 65_536;
/// Largest burst, bytes: one GSO batch.
const BATCH: u64 = 65_507 / MSS * MSS;
/// Transmissions between two skipped numbers.
const MIN_SKIP_DISTANCE: u32 = 128;

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

/// State of one connection, from its datagrams.
#[derive(Debug, Default)]
struct Connection {
    id: u64,
    /// Packets outstanding at each timeout, and in Tahoe at each recovery, summed.
    at_stake: u64,
    /// Cumulative ACK at the last timeout, and the number of timeouts that found the same one.
    timed_out_at: Option<u64>,
    in_a_row: u32,
    /// SYNs and FINs that the timer repeated.
    controls: u32,
    /// First packet number, and the count of later numbers, sent or skipped.
    first_tx: Option<u32>,
    transmissions: u32,
    /// The same count after the last skipped number.
    skipped_at: u32,
    /// One past the last byte sent.
    sent: u64,
    /// Largest cumulative ACK and largest right edge of the window that reached the sender. Early
    /// data needs no edge.
    acked: u64,
    /// As `acked`, without those that the sender may read in a later turn of their instant.
    acked_at_once: u64,
    edge: Option<u64>,
    /// SYN with a cookie, data, newest transmission (counted from 0) and FIN that reached the
    /// receiver. Packets that overtake that SYN are lost.
    open: bool,
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
    old_acks: Vec<Vec<u8>>,
}

/// State of the checker, and the first violation.
#[derive(Debug)]
pub(super) struct Checker {
    sender: NodeId,
    /// Bytes of the transfer.
    bytes: u64,
    forged: u32,
    /// True if the sender recovers as Tahoe does.
    pub(super) tahoe: bool,
    random: u64,
    /// Instant of the newest arrival at the sender, and datagrams that arrived then.
    arrivals: Option<(Instant, usize)>,
    connection: Connection,
    /// The receiver lost the connection in a restart: no rule holds for its answers.
    pub(super) forgotten: bool,
    pub(super) violation: Option<String>,
}

/// Handle of the checker, as path interceptor and as observer of the sender.
#[derive(Debug, Clone)]
pub(super) struct Shared(pub(super) Arc<Mutex<Checker>>);

fn u32_at(datagram: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(datagram[at..at + 4].try_into().unwrap())
}

fn u64_at(datagram: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(datagram[at..at + 8].try_into().unwrap())
}

/// Datagrams that a sender reads in one turn, before it sends.
fn turn() -> usize {
    Budget::default().receive
}

/// Decodes a variable-length integer and advances `rest`.
fn take_varint(rest: &mut &[u8]) -> u64 {
    let len = 1 + rest.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let (bytes, tail) = rest.split_at(len);
    *rest = tail;
    bytes.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F))
}

/// Fields of an ACK without its ECN counts, and of a SACK block (PROTOCOL, N5).
struct Ack {
    largest_received: u32,
    delay_us: u64,
    cumulative: u64,
    window: u64,
    missing: u64,
    duplicates: u64,
}

struct SackBlock {
    start: u64,
    end: u64,
}

fn read_ack(datagram: &[u8]) -> (Ack, Vec<SackBlock>) {
    let (largest_received, mut rest) = (u32_at(datagram, 16), &datagram[20..]);
    let [delay_us, ack, window, missing, duplicates] = std::array::from_fn(|_| take_varint(&mut rest));
    if datagram[3] & 0x40 != 0 {
        take_varint(&mut rest);
        take_varint(&mut rest);
    }
    let mut edge = ack;
    let blocks = (0..datagram[2]).map(|_| {
        let start = edge + take_varint(&mut rest);
        edge = start + take_varint(&mut rest);
        SackBlock { start, end: edge }
    });
    let blocks = blocks.collect();
    (Ack { largest_received, delay_us, cumulative: ack, window, missing, duplicates }, blocks)
}

/// Returns true if no byte was changed on the path.
fn is_whole(datagram: &[u8]) -> bool {
    if datagram.len() < 16 {
        return false;
    }
    let head = match datagram[1] {
        DATA if datagram.len() < 28 => return false,
        DATA => 28,
        _ => datagram.len(),
    };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&datagram[head..]);
    hasher.update(&datagram[..4]);
    hasher.update(&[0; 4]);
    hasher.update(&datagram[8..head]);
    hasher.finalize() == u32_at(datagram, 4)
}

impl Checker {
    pub(super) fn new(sender: NodeId, bytes: u64, forged: u32, seed: u64) -> Self {
        Self {
            sender,
            bytes,
            forged,
            tahoe: false,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            arrivals: None,
            connection: Connection::default(),
            forgotten: false,
            violation: None,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below.max(1)
    }

    fn rule(&mut self, holds: bool, what: impl FnOnce(&Connection) -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(what(&self.connection));
        }
    }

    /// Resets the state if the datagram has another connection ID, after a restart of the sender.
    fn follow(&mut self, datagram: &[u8]) {
        let id = u64_at(datagram, 8);
        if id != self.connection.id {
            self.connection = Connection { id, ..Connection::default() };
        }
    }

    fn sender_sent(&mut self, now: Instant, datagram: &[u8]) {
        self.follow(datagram);
        let kind = datagram[1];
        if matches!(kind, DATA | FIN) {
            self.number(u32_at(datagram, 16));
        }
        match kind {
            DATA => self.data_sent(now, u64_at(datagram, 20), &datagram[28..]),
            FIN => {
                let (length, bytes) = (u64_at(datagram, 20), self.bytes);
                self.rule(length == bytes, |c| format!("FIN of {length} after {} bytes", c.sent));
                let all = self.connection.sent == length;
                self.rule(all, |c| format!("FIN of {length}, sent {}", c.sent));
            }
            _ => {}
        }
    }

    fn timed_out(&mut self) {
        self.stake();
        let c = &mut self.connection;
        c.in_a_row += u32::from(c.timed_out_at.replace(c.acked) == Some(c.acked));
    }

    /// Counts the packets outstanding, all of which may be sent again.
    fn stake(&mut self) {
        let c = &mut self.connection;
        c.at_stake += (c.sent - c.acked).div_ceil(MSS);
    }

    /// Consecutive timeouts beyond the first, and SYNs and FINs that the timer repeated.
    pub(super) fn repeated(&self) -> (u32, u32) {
        (self.connection.in_a_row, self.connection.controls)
    }

    /// Packets outstanding at each timeout, and in Tahoe at each recovery, summed: the upper bound
    /// on what they send again.
    pub(super) fn at_stake(&self) -> u64 {
        self.connection.at_stake
    }

    fn number(&mut self, tx: u32) {
        let connection = &mut self.connection;
        let first = *connection.first_tx.get_or_insert(tx);
        let expected = first.wrapping_add(connection.transmissions);
        let step = tx.wrapping_sub(expected);
        connection.transmissions = connection.transmissions.wrapping_add(1).wrapping_add(step);
        let since = connection.transmissions.wrapping_sub(connection.skipped_at);
        let skips = step == 1 && since >= MIN_SKIP_DISTANCE;
        if skips {
            connection.skipped_at = connection.transmissions;
        }
        self.rule(step == 0 || skips, |_| format!("transmission {tx} instead of {expected}"));
    }

    fn data_sent(&mut self, now: Instant, offset: u64, payload: &[u8]) {
        if payload.is_empty() {
            return;
        }
        let end = offset + payload.len() as u64;
        let c = &self.connection;
        let (sent, acked, edge) = (c.sent, c.acked, c.edge.unwrap_or(MAX_EARLY_DATA_BYTES));
        let read = if self.arrived_at(now) > turn() { c.acked_at_once } else { acked };
        self.rule(payload::matches(offset, payload), |_| format!("{offset}..{end} carries other bytes"));
        if end > sent {
            self.rule(offset <= sent, |_| format!("{offset}..{end} is sent after {sent}"));
            let probe = sent == acked;
            self.rule(probe || end <= edge, |_| format!("{offset}..{end} is beyond the window's {edge}"));
        } else {
            self.rule(end > read, |_| format!("{offset}..{end} is sent again, acknowledged {read}"));
        }
        self.connection.sent = sent.max(end);
        if let Some(bucket) = &mut self.connection.bucket {
            bucket.settle(now);
            let (level, rate) = (bucket.level, bucket.rate);
            bucket.level -= payload.len() as f64;
            // The last segment may differ in size from the one that the pacer waited for.
            let slack = MSS as f64 + 1.0;
            self.rule(level + slack >= payload.len() as f64, |_| {
                format!("{} bytes at {rate} bytes/s are {level} early", payload.len())
            });
        }
    }

    fn receiver_sent(&mut self, now: Instant, datagram: &[u8]) {
        let kind = datagram[1];
        if u64_at(datagram, 8) != self.connection.id || self.forgotten {
            return;
        }
        match kind {
            SYN_ACK => self.connection.offered = self.connection.offered.max(u64_at(datagram, 16)),
            ACK => self.ack_sent(now, datagram),
            FIN_ACK => {
                let (length, bytes) = (u64_at(datagram, 16), self.bytes);
                let all = length == bytes && self.connection.arrived.holds(0, bytes);
                self.rule(all, |_| format!("FIN-ACK of {length}"));
            }
            _ => {}
        }
    }

    fn ack_sent(&mut self, now: Instant, datagram: &[u8]) {
        let c = &self.connection;
        let (Ack { cumulative: ack, window, .. }, blocks) = read_ack(datagram);
        let (offered, missing) = (c.offered, c.arrived.first_missing());
        let echo = u32_at(datagram, 16).wrapping_sub(c.first_tx.unwrap_or(0));
        // An event-loop turn may leave some packets of one instant to the next turn.
        let read = if c.arrived_at == Some(now) { c.newest_before } else { c.newest };
        let fresh = Some(echo) <= c.newest && Some(echo) >= read || c.fin_arrived;
        let newest = c.newest;
        self.rule(ack <= missing, |_| format!("ACK of {ack} without {missing}"));
        self.rule(ack + window >= offered, |_| format!("the window's edge goes back from {offered}"));
        self.rule(fresh, |_| format!("echo of {echo} when {newest:?} was the newest"));
        self.connection.offered = ack + window;
        for SackBlock { start, end } in blocks {
            let held = start > ack && self.connection.arrived.holds(start, end);
            self.rule(held, |_| format!("SACK of {start}..{end} that did not arrive"));
        }
    }

    fn receiver_got(&mut self, now: Instant, datagram: &[u8]) {
        if u64_at(datagram, 8) != self.connection.id {
            return;
        }
        let c = &mut self.connection;
        c.open |= datagram[1] == SYN && datagram[16] > 0;
        match datagram[1] {
            _ if !c.open => {}
            DATA => {
                let tx = u32_at(datagram, 16).wrapping_sub(c.first_tx.unwrap_or(0));
                if c.arrived_at.replace(now) != Some(now) {
                    c.newest_before = c.newest;
                }
                c.newest = c.newest.max(Some(tx));
                let offset = u64_at(datagram, 20);
                c.arrived.insert(offset, offset + datagram.len() as u64 - 28);
            }
            FIN => c.fin_arrived = true,
            _ => {}
        }
    }

    /// Datagrams that arrived at the sender at `now` so far. Those beyond [`turn`] may be read
    /// after it has sent again.
    fn arrived_at(&self, now: Instant) -> usize {
        self.arrivals.filter(|(at, _)| *at == now).map_or(0, |(_, count)| count)
    }

    fn count_arrival(&mut self, now: Instant) {
        self.arrivals = Some((now, self.arrived_at(now) + 1));
    }

    fn sender_got(&mut self, now: Instant, datagram: &[u8]) -> Vec<Vec<u8>> {
        let at_once = self.arrived_at(now) <= turn();
        let c = &mut self.connection;
        if u64_at(datagram, 8) != c.id {
            return Vec::new();
        }
        match datagram[1] {
            SYN_ACK => c.edge = c.edge.max(Some(u64_at(datagram, 16))),
            ACK => {
                let (Ack { cumulative: ack, window, .. }, _) = read_ack(datagram);
                c.acked = c.acked.max(ack);
                if at_once {
                    c.acked_at_once = c.acked;
                }
                c.edge = c.edge.max(Some(ack + window));
                if self.forged > 0 {
                    return self.forge(now, datagram);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Occasionally returns an ACK that no receiver would send now: an old one, one of unsent data,
    /// or one with a SACK block of unsent data.
    fn forge(&mut self, now: Instant, datagram: &[u8]) -> Vec<Vec<u8>> {
        if self.connection.old_acks.len() < 64 {
            self.connection.old_acks.push(datagram.to_vec());
        }
        if self.random(1000) >= u64::from(self.forged) {
            return Vec::new();
        }
        let (mut forged, _) = read_ack(datagram);
        let (ack, sent, id) = (forged.cumulative, self.connection.sent, self.connection.id);
        let mut blocks = Vec::new();
        match self.random(3) {
            0 => {
                let old = self.random(self.connection.old_acks.len() as u64) as usize;
                return vec![self.connection.old_acks[old].clone()];
            }
            // What is not sent yet would be sent before the sender reads of it: a receiver that
            // acknowledges what did not arrive cannot be told from one that has it.
            _ if self.arrived_at(now) >= turn() => return Vec::new(),
            1 => forged.cumulative = sent + 1 + self.random(100_000),
            _ => {
                let start = ack + 1 + self.random(sent.saturating_sub(ack));
                blocks.push(SackBlock { start, end: sent.max(start) + 1 + self.random(5000) });
            }
        }
        let mut body = forged.largest_received.to_le_bytes().to_vec();
        let Ack { delay_us, cumulative: ack, window, missing, duplicates, .. } = forged;
        let mut edge = ack;
        let fields = [delay_us, ack, window, missing, duplicates].into_iter();
        let steps = blocks.iter().flat_map(|block| {
            let start = std::mem::replace(&mut edge, block.end);
            [block.start - start, block.end - block.start]
        });
        fields.chain(steps).for_each(|value| packets::varint(value, &mut body));
        vec![packets::native(ACK, blocks.len() as u16, id, &body)]
    }
}

impl Interceptor for Shared {
    fn on_sent(&mut self, now: Instant, from: NodeId, _: NodeId, datagram: &[u8]) {
        let mut checker = self.0.lock().unwrap();
        if !is_whole(datagram) {
            checker.rule(false, |_| format!("a datagram of {} bytes has a wrong check", datagram.len()));
        } else if from == checker.sender {
            checker.sender_sent(now, datagram);
        } else {
            checker.receiver_sent(now, datagram);
        }
    }

    fn on_arrived(&mut self, now: Instant, from: NodeId, _: NodeId, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut checker = self.0.lock().unwrap();
        let to_sender = from != checker.sender;
        if to_sender {
            checker.count_arrival(now);
        }
        if !is_whole(datagram) {
            return Vec::new();
        }
        if !to_sender {
            checker.receiver_got(now, datagram);
            return Vec::new();
        }
        let forged = checker.sender_got(now, datagram);
        for _ in &forged {
            checker.count_arrival(now);
        }
        forged
    }
}

impl Observer for Shared {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut checker = self.0.lock().unwrap();
        let rate = match *trace {
            Trace::Paced { rate } => rate,
            Trace::TimerExpired { timer: Timer::Retransmission } => return checker.timed_out(),
            Trace::RecoveryBegan { cause: Cause::Loss } if checker.tahoe => return checker.stake(),
            Trace::TimerExpired { timer: Timer::Control } => {
                checker.connection.controls += 1;
                return;
            }
            _ => return,
        };
        let rate = rate.max(1) as f64;
        let full = Bucket { rate, level: 2.0 * MSS as f64, at: now };
        let bucket = checker.connection.bucket.get_or_insert(full);
        bucket.settle(now);
        bucket.rate = rate;
        bucket.level = bucket.level.min(Bucket::capacity(rate));
    }
}
