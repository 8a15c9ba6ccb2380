//! Simulation in virtual time: any number of senders and servers, connected by wires that they may
//! share. A wire is an emulated path. Runs are as fast as the processor allows, and equal for equal
//! seeds.
//!
//! A [`Simulation`] owns the clock, the nodes and the wires; a [`Scenario`] describes and runs one
//! transfer. Nodes are driven by the same [`turn`](rdt_transport::drive::turn) as real sockets.
#![forbid(unsafe_code)]

mod event_queue;
mod network;
mod node;
mod observers;
mod read_policy;
mod scenario;
mod simulation;

pub use network::{EcnRewrite, Interceptor, WireId};
pub use node::{NodeId, Outcome, SenderNode, ServerNode, Transfer};
pub use observers::{Recorder, Series, WindowReductions};
pub use read_policy::ReadPolicy;
pub use scenario::{Report, Scenario};
pub use simulation::Simulation;
