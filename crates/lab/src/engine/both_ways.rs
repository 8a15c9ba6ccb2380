//! Two flows in virtual time that are the two directions of one connection.

use rdt_sim::{NodeId, Simulation, WireId};
use rdt_transport::{ConnectionConfig, ConnectionSetConfig};

use super::EngineError;
use super::placed::{Observers, Placed, route};
use super::words::{
    Initiating, Responding, application, connection, connection_seed, ends, flow_error, read_policy, sender,
    server, start,
};
use crate::cell::Physics;
use crate::experiment::Measure;
use crate::flow::{Flow, FlowKind};

type Numbered<'a> = (&'a Flow, u64);

/// Returns the flow that is the other direction of a flow's connection.
pub(super) fn answer<'a>(flows: &'a [Flow], flow: &Flow) -> Option<Numbered<'a>> {
    let answers = |it: &Flow| it.answers.as_ref() == Some(&flow.name);
    flows.iter().zip(0..).find(|(it, _)| answers(it))
}

/// Checks that a flow that answers another can be the other direction of its connection.
pub(super) fn check(physics: &Physics, flow: &Flow) -> Result<(), EngineError> {
    let Some(name) = &flow.answers else { return Ok(()) };
    let refuse = |text: &str| Err(flow_error(flow, format!("answers = \"{name}\": {text}")));
    let Some(other) = physics.flows.iter().find(|it| it.name == *name) else {
        return refuse("there is no such flow");
    };
    if other.answers.is_some() || !matches!(other.kind, FlowKind::Rdt | FlowKind::Tcp) {
        return refuse("that flow opens no connection");
    }
    if physics.flows.iter().filter(|it| it.answers.as_ref() == Some(name)).count() > 1 {
        return refuse("several flows answer that one");
    }
    if other.reverse == flow.reverse {
        return refuse("both flows have the same direction: write reverse = true for one of them");
    }
    if (flow.cipher, flow.kind) != (other.cipher, other.kind) {
        return refuse("both flows have one kind and one cipher");
    }
    if physics.duration.is_none() {
        return refuse("write for, the time of the run");
    }
    Ok(())
}

/// Adds a connection: the first flow opens it, and the second answers.
pub(super) fn place<'a>(
    [(there, index), (back, back_index)]: [Numbered<'a>; 2],
    (seed, connections): (u64, u64),
    measure: &Measure,
    wires: &[WireId],
    simulation: &mut Simulation,
) -> Result<[Placed<'a>; 2], EngineError> {
    let [seed_there, seed_back] = [index, back_index].map(|index| connection_seed(connections, index));
    let starts = [start(there, seed, index), start(back, seed, back_index)];
    let (Initiating { config, initiator, .. }, Responding { mut responder, .. }) = ends(there, seed_there)?;
    let opener = both(config, back);
    responder.config = both(connection(back, sender(back, seed_back)?), there);
    let from = simulation.add_connections(ConnectionSetConfig::default(), seed_there);
    let to = simulation.add_connections(ConnectionSetConfig::default(), seed_back);
    simulation.listen(to, responder, application(back, starts[1]));
    route(there, (from, to), wires, simulation);
    let sides = [(there, starts[0], (from, to)), (back, starts[1], (to, from))];
    let placed = sides.map(|(flow, start, ends)| side(flow, start, ends, measure, simulation));
    if let [_, Placed { observers: Some(observers), .. }] = &placed {
        let observers = observers.clone();
        simulation.observe_accepted(to, move || observers.attached());
    }
    let id = simulation.connect(from, to, initiator, opener, application(there, starts[0]));
    let id = id.map_err(|error| flow_error(there, error))?;
    if let [Placed { observers: Some(observers), .. }, _] = &placed {
        let now = simulation.now();
        simulation.connections_mut(from).observe(now, id, observers.attached());
    }
    Ok(placed)
}

/// Makes a connection of one direction one of both, which receives `incoming`.
fn both(config: ConnectionConfig, incoming: &Flow) -> ConnectionConfig {
    let other = server(incoming, &config.sender).receiver;
    let mut receiver = ConnectionConfig::default().receiver;
    (receiver.stream_window, receiver.acks) = (other.stream_window, other.acks);
    let aead = config.aead.filter(|aead| aead.is_encrypted());
    ConnectionConfig { receiver, aead, one_way: false, ..config }
}

/// Prepares the measurement of one direction.
fn side<'a>(
    flow: &'a Flow,
    start: std::time::Duration,
    (from, to): (NodeId, NodeId),
    measure: &Measure,
    simulation: &mut Simulation,
) -> Placed<'a> {
    simulation.record_goodput(to, measure.series);
    if let Some(policy) = read_policy(flow) {
        simulation.set_read_policy(to, policy);
    }
    let limits = simulation.measure_limits_between((from, to));
    let observers = Observers::new(simulation, limits, (flow, start), measure);
    Placed { flow, start, from, to, both_ways: true, observers: Some(observers) }
}
