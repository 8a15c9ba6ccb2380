//! Estimated cost of one repetition of a cell: packets, and the time that it takes. The
//! distribution of cells to shards by this cost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use rdt_emulator::PathConfig;

use super::Plan;
use crate::cell::{Cell, CellId, EngineKind, Physics};
use crate::experiment::{Experiment, ExperimentError};
use crate::flow::{Flow, FlowKind};
use crate::statistics::number;

/// Processor time for one packet in virtual time, with its ACK, in nanoseconds. Measured: 5,760
/// transfers of 1.2 MB took 6.5 s on one core, and 480 flows of 99 s at 5 Mbit/s 40 s.
const NANOSECONDS_PER_PACKET: u64 = 1_500;
/// Processor time of a repetition besides its packets, in microseconds.
const MICROS_PER_REPETITION: u64 = 200;
/// Time of a repetition besides its traffic in engines of real time, in microseconds: creation of
/// namespaces and programs, and the wait for the last datagrams. Measured: 0.12 s with TCP, 0.45 s
/// with UDP.
const REAL_TIME_SETUP_MICROS: u64 = 300_000;
/// Assumed rate of a path without one, bits per second.
const UNLIMITED_BPS: f64 = 1e9;
/// Assumed size of packets, bytes.
const PACKET_BYTES: f64 = 1_500.0;
/// Assumed duration of a program of the engine `command`, seconds.
const COMMAND_SECONDS: f64 = 10.0;

/// Estimated cost of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Data packets to be sent.
    pub packets: u64,
    /// Time in microseconds: processor time in virtual time, else real time.
    pub micros: u64,
}

impl Cost {
    /// Returns the time in seconds.
    pub fn seconds(self) -> f64 {
        number(self.micros) / 1e6
    }

    /// Adds another cost.
    pub fn add(&mut self, other: Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.micros = self.micros.saturating_add(other.micros);
    }

    /// Returns the cost of this many repetitions.
    #[must_use]
    pub fn times(self, repetitions: u32) -> Self {
        let repetitions = u64::from(repetitions);
        Self {
            packets: self.packets.saturating_mul(repetitions),
            micros: self.micros.saturating_mul(repetitions),
        }
    }

    pub(super) fn of(cell: &Cell) -> Self {
        let physics = &cell.physics;
        // A link with a rate from a trace file is refused before it runs.
        let links: Vec<PathConfig> = physics.paths().collect();
        let mut packets = 0.0;
        let mut seconds: f64 = physics.duration.map_or(0.0, |duration| duration.as_secs_f64());
        for reverse in [false, true] {
            let rate = bottleneck(&links, reverse);
            let rtt: f64 = links.iter().map(|link| link.rtt().as_secs_f64()).sum();
            let mut transport_bits = 0.0;
            for flow in physics.flows.iter().filter(|flow| flow.reverse == reverse) {
                let rate = window_rate(flow, rtt).min(rate);
                let bits = offered_bits(flow, physics, rate);
                let end = flow.start.1.as_secs_f64() + bits / flow_rate(flow, rate);
                if physics.duration.is_none() {
                    seconds = seconds.max(end);
                }
                if flow.kind == FlowKind::Udp {
                    packets += bits / (8.0 * flow.size.map_or(PACKET_BYTES, f64::from));
                } else {
                    transport_bits += bits;
                }
            }
            let limit = physics.duration.map_or(f64::INFINITY, |duration| rate * duration.as_secs_f64());
            let full = physics.flows.iter().filter_map(|flow| flow.packet).max();
            packets += transport_bits.min(limit) / (8.0 * full.map_or(PACKET_BYTES, f64::from));
        }
        if physics.flows.is_empty() && physics.duration.is_none() {
            seconds = COMMAND_SECONDS;
        }
        let packets = whole(packets);
        let micros = if physics.engine.is_virtual() {
            MICROS_PER_REPETITION + packets.saturating_mul(NANOSECONDS_PER_PACKET) / 1_000
        } else {
            REAL_TIME_SETUP_MICROS.saturating_add(whole(seconds * 1e6))
        };
        Self { packets, micros }
    }
}

/// Costs of one or several plans. Cells that plans share count once.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    cells: BTreeMap<CellId, (EngineKind, Cost, u32)>,
}

/// Cost of the cells of one engine, with the least number of repetitions of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Number of distinct cells.
    pub cells: usize,
    /// Number of repetitions of all cells.
    pub repetitions: u64,
    /// Cost of these repetitions.
    pub cost: Cost,
}

impl Totals {
    /// Adds the cells of a plan.
    pub fn add(&mut self, plan: &Plan) {
        for cell in plan.distinct() {
            let (engine, least) = (cell.physics.engine, plan.least(cell));
            let known = self.cells.entry(cell.id).or_insert_with(|| (engine, Cost::of(cell), 0));
            known.2 = known.2.max(least);
        }
    }

    /// Returns the totals of the engines that have cells.
    pub fn by_engine(&self) -> BTreeMap<EngineKind, Total> {
        let mut totals: BTreeMap<EngineKind, Total> = BTreeMap::new();
        for (engine, cost, repetitions) in self.cells.values() {
            let total = totals.entry(*engine).or_default();
            total.cells += 1;
            total.repetitions += u64::from(*repetitions);
            total.cost.add(cost.times(*repetitions));
        }
        totals
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, never negative")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Returns the lowest rate of the links in a direction, bits per second.
fn bottleneck(links: &[PathConfig], reverse: bool) -> f64 {
    let rates = links.iter().filter_map(|link| {
        let link = if reverse { &link.reverse } else { &link.forward };
        link.highest_rate().map(rdt_emulator::Bitrate::as_bps_f64)
    });
    rates.fold(UNLIMITED_BPS, f64::min)
}

/// Returns the rate that a flow's windows allow, bits per second.
fn window_rate(flow: &Flow, rtt: f64) -> f64 {
    let fixed = flow.cc.as_deref().and_then(|cc| cc.strip_prefix("fixed:")?.parse::<f64>().ok());
    let fixed = fixed.map_or(f64::INFINITY, |packets| packets * flow.packet.map_or(PACKET_BYTES, f64::from));
    let received = flow.window.map_or(f64::INFINITY, number);
    if rtt > 0.0 { fixed.min(received) * 8.0 / rtt } else { f64::INFINITY }
}

/// Returns the rate of a flow that has a link of `rate` for itself, bits per second.
fn flow_rate(flow: &Flow, rate: f64) -> f64 {
    let own = flow.rate.map_or(f64::INFINITY, number);
    let share = flow.on_off.map_or(1.0, |(on, off)| {
        let (on, off) = (on.as_secs_f64(), off.as_secs_f64());
        if on + off > 0.0 { on / (on + off) } else { 1.0 }
    });
    // A source of datagrams sends at its own rate, whatever the link carries.
    let rate = if flow.kind == FlowKind::Udp { own } else { own.min(rate) };
    (rate * share).max(1.0)
}

/// Returns the bits of payload that a flow sends if it has a link of `rate` for itself.
fn offered_bits(flow: &Flow, physics: &Physics, rate: f64) -> f64 {
    let end = [flow.stop, physics.duration].into_iter().flatten().min();
    let life = end.map(|end| end.saturating_sub(flow.start.0));
    let by_time = life.map_or(f64::INFINITY, |life| flow_rate(flow, rate) * life.as_secs_f64());
    let by_size = flow.bytes.map_or(f64::INFINITY, |bytes| number(bytes) * 8.0);
    let bits = by_time.min(by_size);
    if bits.is_finite() { bits } else { 0.0 }
}

/// Returns an error if the cell would never end, or in virtual time before its datagrams.
pub(super) fn check_end(experiment: &Experiment, cell: &Cell) -> Result<(), ExperimentError> {
    let physics = &cell.physics;
    if physics.duration.is_some_and(|duration| duration > Duration::ZERO) {
        return Ok(());
    }
    let endless = |flow: &&Flow| flow.bytes.is_none() && flow.stop.is_none();
    // The simulation ends with its last transfer, and waits for no source.
    let unawaited = |flow: &&Flow| flow.kind == FlowKind::Udp && physics.engine.is_virtual();
    let (flow, sentence) = if let Some(flow) = physics.flows.iter().find(endless) {
        let remedy = format!("write bytes or stop for flow {}, or for = \"10s\" for the run", flow.name);
        (flow, format!("it never ends: {remedy}"))
    } else if let Some(flow) = physics.flows.iter().find(unawaited) {
        let sentence = "in virtual time a run with datagrams needs an end: write for = \"10s\" for the run";
        (flow, sentence.to_owned())
    } else {
        return Ok(());
    };
    // A table with `count` has flows with its name and a number.
    let is_table_of = |name: &str| {
        let number = flow.name.strip_prefix(name);
        number.is_some_and(|it| it.is_empty() || it.parse::<u32>().is_ok())
    };
    let table = experiment.flows.iter().find(|table| is_table_of(&table.name));
    let place = table.map_or_else(Default::default, |table| table.place);
    Err(ExperimentError { place, message: format!("flow {}: {sentence}", flow.name) })
}

/// Deals the cells, the most costly first, each to the shard with the least cost so far (Graham's
/// longest-processing-time rule). All repetitions of a cell stay together, so that the rule that
/// ends them needs no other shard. Returns the cells of each shard in the order of the plan.
pub(super) fn deal(plan: &Plan, count: u32) -> Vec<Vec<&Cell>> {
    let mut cells: Vec<(Reverse<u64>, CellId)> =
        plan.distinct().map(|cell| (Reverse(plan.cost(cell).micros), cell.id)).collect();
    cells.sort_unstable();
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..count).map(|shard| Reverse((0, shard))).collect();
    let mut shard_of = BTreeMap::new();
    for (Reverse(cost), id) in cells {
        let Some(mut least) = loads.peek_mut() else { break };
        let Reverse((load, shard)) = *least;
        shard_of.insert(id, shard);
        // A cell without cost counts too, so that such cells are dealt evenly.
        *least = Reverse((load.saturating_add(cost.max(1)), shard));
    }
    let mut shards = vec![Vec::new(); count as usize];
    for cell in plan.distinct() {
        if let Some(shard) = shard_of.get(&cell.id) {
            shards[*shard as usize].push(cell);
        }
    }
    shards
}
