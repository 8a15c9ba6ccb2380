//! Nodes of a simulation, of all kinds.

use std::time::Instant;

use crate::connection_node::ConnectionsNode;
use crate::sender_node::SenderNode;
use crate::server_node::ServerNode;
use crate::sink::SinkNode;
use crate::source::SourceNode;

pub(crate) enum Node {
    Sender(Box<SenderNode>),
    Server(Box<ServerNode>),
    Connections(Box<ConnectionsNode>),
    Source(Box<SourceNode>),
    Sink(Box<SinkNode>),
}

impl Node {
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        match self {
            Self::Sender(node) => node.pump(now),
            Self::Server(node) => node.pump(now),
            Self::Connections(node) => node.pump(now),
            Self::Source(_) | Self::Sink(_) => false,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Sender(node) => node.deadline(),
            Self::Server(node) => node.deadline(),
            Self::Connections(node) => node.deadline(),
            Self::Source(node) => node.deadline(),
            Self::Sink(_) => None,
        }
    }
}
