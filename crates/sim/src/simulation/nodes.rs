//! Nodes of a simulation: creation, and access by identifier.

use rdt_server::ServerConfig;
use rdt_transport::{
    ConfigError, ConnectionConfig, ConnectionId, ConnectionSetConfig, InitiatorConfig, ResponderConfig,
    Sender, SenderConfig,
};

use super::{NodeTimer, Simulation};
use crate::application::Application;
use crate::connection_node::ConnectionsNode;
use crate::node::{Node, NodeId, SenderNode, ServerNode};
use crate::sink::SinkNode;
use crate::source::{Source, SourceNode};

impl Simulation {
    /// Adds a server, and an application that reads and confirms its transfers.
    pub fn add_server(&mut self, config: ServerConfig) -> NodeId {
        self.add(Node::Server(Box::new(ServerNode::new(config, self.epoch))))
    }

    /// Adds a sender that connects to `server` immediately and transfers `bytes` bytes.
    ///
    /// # Errors
    /// As [`SenderConfig::validate`].
    pub fn add_sender(
        &mut self,
        config: SenderConfig,
        server: NodeId,
        bytes: u64,
    ) -> Result<NodeId, ConfigError> {
        self.add_application(config, server, Application::transfer(bytes))
    }

    /// Adds a sender that transfers to `server` what its application writes.
    ///
    /// # Errors
    /// As [`SenderConfig::validate`].
    ///
    /// # Panics
    /// If the application has a rate of zero, or empty periods of activity.
    pub fn add_application(
        &mut self,
        config: SenderConfig,
        server: NodeId,
        application: Application,
    ) -> Result<NodeId, ConfigError> {
        application.check();
        let sender = Sender::with_memory(config, self.frames.clone())?;
        let node = SenderNode::new(sender, server, application, self.epoch, self.now);
        Ok(self.add(Node::Sender(Box::new(node))))
    }

    /// Adds a node with connections. `seed` gives its keys and connection IDs.
    pub fn add_connections(&mut self, config: ConnectionSetConfig<NodeId>, seed: u64) -> NodeId {
        self.add(Node::Connections(Box::new(ConnectionsNode::new(config, seed))))
    }

    /// Accepts connections at a node; each sends a stream of `answer` bytes.
    ///
    /// # Panics
    /// If `id` is not a node with connections.
    pub fn listen(&mut self, id: NodeId, responder: ResponderConfig, answer: u64) {
        let node = self.connections_mut(id);
        node.set.listen(responder);
        node.answer = answer;
    }

    /// Opens a connection between two nodes with connections, and sends a stream of `bytes` bytes.
    ///
    /// # Errors
    /// As [`ConnectionSet::connect`](rdt_transport::ConnectionSet::connect).
    ///
    /// # Panics
    /// If `from` is not a node with connections.
    pub fn connect(
        &mut self,
        from: NodeId,
        to: NodeId,
        keys: InitiatorConfig,
        config: ConnectionConfig,
        bytes: u64,
    ) -> Result<ConnectionId, ConfigError> {
        let now = self.now;
        let node = self.connections_mut(from);
        let id = node.set.connect(now, to, keys, config)?;
        node.add(id, bytes);
        self.network.woken.push_back(from);
        Ok(id)
    }

    /// Gives the connections of a node another address, and returns it. They send from there, and
    /// get nothing that is on its way to the old one. The new address needs routes of its own.
    pub fn move_connections(&mut self, id: NodeId) -> NodeId {
        let gone = Node::Sink(Box::new(SinkNode::new(self.epoch)));
        let node = std::mem::replace(&mut self.nodes[id.index()], gone);
        self.add(node)
    }

    /// Returns a node with connections.
    ///
    /// # Panics
    /// If `id` is not one.
    pub fn connections(&self, id: NodeId) -> &ConnectionsNode {
        match &self.nodes[id.index()] {
            Node::Connections(node) => node,
            _ => panic!("node {} has no connections", id.0),
        }
    }

    /// Returns a node with connections to modify, for example to close one.
    ///
    /// # Panics
    /// If `id` is not one.
    pub fn connections_mut(&mut self, id: NodeId) -> &mut ConnectionsNode {
        self.network.woken.push_back(id);
        match &mut self.nodes[id.index()] {
            Node::Connections(node) => node,
            _ => panic!("node {} has no connections", id.0),
        }
    }

    /// Adds a sink of datagrams.
    pub fn add_sink(&mut self) -> NodeId {
        self.add(Node::Sink(Box::new(SinkNode::new(self.epoch))))
    }

    /// Adds a source that sends datagrams to `sink`.
    ///
    /// # Panics
    /// If the rate, the payload or the active periods are empty, or the datagrams have fewer than
    /// 12 bytes or more than 65,507.
    pub fn add_source(&mut self, config: Source, sink: NodeId) -> NodeId {
        config.check();
        let config = Source { start: config.start.max(self.elapsed()), ..config };
        let id = self.add(Node::Source(Box::new(SourceNode::new(config, sink, self.epoch))));
        self.sink_mut(sink).expect(id, &config);
        id
    }

    /// Returns a sender.
    ///
    /// # Panics
    /// If `id` is not a sender.
    pub fn sender(&self, id: NodeId) -> &SenderNode {
        match &self.nodes[id.index()] {
            Node::Sender(node) => node,
            _ => panic!("node {} is not a sender", id.0),
        }
    }

    /// Returns a sender to modify, for example to attach an observer.
    ///
    /// # Panics
    /// If `id` is not a sender.
    pub fn sender_mut(&mut self, id: NodeId) -> &mut SenderNode {
        match &mut self.nodes[id.index()] {
            Node::Sender(node) => node,
            _ => panic!("node {} is not a sender", id.0),
        }
    }

    /// Returns a server.
    ///
    /// # Panics
    /// If `id` is not a server.
    pub fn server(&self, id: NodeId) -> &ServerNode {
        match &self.nodes[id.index()] {
            Node::Server(node) => node,
            _ => panic!("node {} is not a server", id.0),
        }
    }

    pub(super) fn server_mut(&mut self, id: NodeId) -> &mut ServerNode {
        match &mut self.nodes[id.index()] {
            Node::Server(node) => node,
            _ => panic!("node {} is not a server", id.0),
        }
    }

    /// Returns a source of datagrams.
    ///
    /// # Panics
    /// If `id` is not a source.
    pub fn source(&self, id: NodeId) -> &SourceNode {
        match &self.nodes[id.index()] {
            Node::Source(node) => node,
            _ => panic!("node {} is not a source", id.0),
        }
    }

    /// Returns a sink of datagrams.
    ///
    /// # Panics
    /// If `id` is not a sink.
    pub fn sink(&self, id: NodeId) -> &SinkNode {
        match &self.nodes[id.index()] {
            Node::Sink(node) => node,
            _ => panic!("node {} is not a sink", id.0),
        }
    }

    pub(super) fn sink_mut(&mut self, id: NodeId) -> &mut SinkNode {
        match &mut self.nodes[id.index()] {
            Node::Sink(node) => node,
            _ => panic!("node {} is not a sink", id.0),
        }
    }

    fn add(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).expect("fewer nodes than 2^32 fit in memory"));
        self.nodes.push(node);
        self.timers.push(NodeTimer::default());
        self.network.add_inbox();
        self.network.woken.push_back(id);
        id
    }
}
