//! Part of rdt (`rdt::sim` in the package `rdt-net`): simulation of transfers in virtual time.
//!
//! Emulated paths (*wires*) connect senders and servers, and several pairs may share a path. Equal
//! seeds give equal runs.
//!
//! A [`Simulation`] owns the clock, the nodes and the wires; a [`Scenario`] describes and runs one
//! transfer. A node is a sender or a server with its application, a set of connections, or a source
//! or a sink of datagrams without feedback. A native sender is a connection. The same function,
//! [`turn`](rdt_transport::drive::turn), drives senders, servers and real sockets.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | scenario | `scenario.rs` | description of one transfer, and its report |
//! | simulation | `simulation.rs` | clock, nodes, wires; the loop over events |
//! | network | `network.rs` | wires, inboxes, interceptors |
//! | nodes | `node.rs`, `node_id.rs` | nodes of all kinds; their identifiers and random numbers |
//! | sender | `sender_node.rs` | sender of one transfer to a server, and its outcome |
//! | server | `server_node.rs` | server, and the transfers that it received |
//! | connections | `connection_node.rs` | set of connections, and both streams of each |
//! | application | `application.rs`, `writer.rs` | what a sending application writes, and when |
//! | transfer | `transfer.rs`, `read_policy.rs` | what a receiving application reads, and when |
//! | bins | `bins.rs` | bytes counted in bins of time |
//! | payload | `payload.rs` | the generated array that is sent, here and by the programs |
//! | source, sink | `source.rs`, `sink.rs` | datagrams without feedback |
//! | limits | `limits.rs` | what kept a flow from sending faster, and for how long |
//! | marks | `marks.rs` | events of a sender with their times |
//! | queue series | `queue_series.rs` | queue of a link over time |
//! | observers | `observers.rs` | sampled metrics |
//! | window history | `window_history.rs` | a window's reductions, and growth between them |
#![forbid(unsafe_code)]

mod application;
mod bins;
mod connection_node;
mod limits;
mod marks;
mod network;
mod node;
mod node_id;
mod observers;
pub mod payload;
mod queue_series;
mod read_policy;
mod scenario;
mod sender_node;
mod server_node;
mod simulation;
mod sink;
mod source;
mod transfer;
mod window_history;
mod writer;

pub use application::Application;
pub use bins::Bins;
pub use connection_node::{ConnectionsNode, Exchange};
pub use limits::{LimitRecorder, Limits};
pub use marks::{Mark, Marks};
pub use network::{EcnRewrite, Interceptor, WireId};
pub use node_id::NodeId;
pub use observers::{Recorder, Series, Summary};
pub use queue_series::QueueSeries;
pub use rdt_server::{LinkMode, ServerConfig};
pub use read_policy::ReadPolicy;
pub use scenario::{Report, Scenario};
pub use sender_node::{Outcome, SenderNode};
pub use server_node::ServerNode;
pub use simulation::Simulation;
pub use sink::{Arrived, SinkNode};
pub use source::{Arrivals, Source, SourceNode};
pub use transfer::Transfer;
pub use window_history::{WindowHistory, WindowRecorder};
