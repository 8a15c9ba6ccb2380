//! Virtual time: any number of senders and servers, joined by wires that they may share, run as fast as the
//! processor allows and give the same events on every run with the same seeds.
//!
//! A [`Simulation`] owns the clock, the nodes and the wires; a [`Scenario`] describes one transfer in a few
//! numbers and runs it. Nodes are driven by the same [`turn`](rdt_transport::drive::turn) as real sockets.
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
