//! Virtual time: any number of senders and servers, joined by wires that they may share, run as fast as the
//! processor allows and give the same events on every run with the same seeds.
//!
//! A [`Simulation`] owns the clock, the nodes and the wires; a [`Scenario`] describes one transfer in a few
//! numbers and runs it. Nodes are driven by the same [`turn`](rdt_transport::drive::turn) as real sockets.
#![forbid(unsafe_code)]

mod agenda;
mod network;
mod node;
mod reading;
mod record;
mod reductions;
mod scenario;
mod simulation;

pub use network::{Remark, Tap, WireId};
pub use node::{NodeId, Outcome, SenderNode, ServerNode, Transfer};
pub use reading::Reading;
pub use record::{Recorder, Series};
pub use reductions::Reductions;
pub use scenario::{Report, Scenario};
pub use simulation::Simulation;
