//! Flows in a simulation: their nodes, routes and observers.

use std::time::Duration;

use rdt_sim::{LimitRecorder, Marks, NodeId, Recorder, Simulation, WindowRecorder, WireId};
use rdt_transport::Observer;

use super::flow_metrics::{fixed_warm_up, keeps_series};
use crate::experiment::Measure;
use crate::flow::Flow;

pub(super) struct Placed<'a> {
    pub(super) flow: &'a Flow,
    pub(super) start: Duration,
    /// Node that sends: a sender, a source, or one with a connection.
    pub(super) from: NodeId,
    /// Node that receives: a server, a sink, or one with a connection.
    pub(super) to: NodeId,
    /// True if both nodes have one connection, with another flow the other way.
    pub(super) both_ways: bool,
    /// Observers of the sender. `None` for a source.
    pub(super) observers: Option<Observers>,
}

/// Observers of one sender. Clones share their results.
#[derive(Clone)]
pub(super) struct Observers {
    pub(super) samples: Recorder,
    pub(super) marks: Marks,
    /// Reasons for which it waited.
    pub(super) limits: LimitRecorder,
    /// Reductions and growth of its window.
    pub(super) window: WindowRecorder,
}

/// Connects the nodes of a flow by the links, backwards for a reversed flow.
pub(super) fn route(
    flow: &Flow,
    (from, to): (NodeId, NodeId),
    wires: &[WireId],
    simulation: &mut Simulation,
) {
    let (near, far) = if flow.reverse { (to, from) } else { (from, to) };
    simulation.route_over(near, far, wires);
}

impl Observers {
    /// Creates a sender's observers. Without stored series, samples after a warm-up are summarised.
    pub(super) fn new(
        simulation: &Simulation,
        limits: LimitRecorder,
        (flow, start): (&Flow, Duration),
        measure: &Measure,
    ) -> Self {
        let samples = match fixed_warm_up(flow, start, measure).filter(|_| !keeps_series(measure)) {
            Some(from) => Recorder::summarising(simulation.epoch(), measure.series, from),
            None => Recorder::new(simulation.epoch(), measure.series),
        };
        let marks = Marks::new(simulation.epoch());
        Self { samples, marks, limits, window: WindowRecorder::default() }
    }

    /// Returns the observer to attach, which shares its results with these.
    pub(super) fn attached(&self) -> Box<dyn Observer> {
        let all: Vec<Box<dyn Observer>> = vec![
            Box::new(self.samples.clone()),
            Box::new(self.marks.clone()),
            Box::new(self.limits.clone()),
            Box::new(self.window.clone()),
        ];
        Box::new(all)
    }
}
