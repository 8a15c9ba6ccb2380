//! Nodes of a simulation: creation, and access by identifier.

use rdt_crypto::Entropy;
use rdt_server::ServerConfig;
use rdt_transport::{
    ConfigError, ConnectionConfig, ConnectionId, ConnectionSetConfig, InitiatorConfig, Observer,
    ResponderConfig, SenderConfig,
};

use super::{NodeTimer, Simulation};
use crate::application::Application;
use crate::connection_node::ConnectionsNode;
use crate::node::Node;
use crate::node_id::NodeId;
use crate::sender_node::{SenderEnv, SenderNode};
use crate::server_node::ServerNode;
use crate::sink::SinkNode;
use crate::source::{Source, SourceNode};

impl Simulation {
    /// Adds a server, and an application that reads and confirms its transfers. It takes classic
    /// transfers and connections.
    pub fn add_server(&mut self, config: ServerConfig) -> NodeId {
        let node = ServerNode::new(config, self.next_id(), self.epoch, self.now);
        self.add(Node::Server(Box::new(node)))
    }

    /// Adds a sender that connects to `server` immediately and transfers `bytes` bytes. A native
    /// one opens a connection; the seed of its configuration gives the keys and connection IDs.
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
        let node = self.new_sender(self.next_id(), config, server, application)?;
        Ok(self.add(Node::Sender(Box::new(node))))
    }

    pub(super) fn new_sender(
        &self,
        id: NodeId,
        config: SenderConfig,
        server: NodeId,
        application: Application,
    ) -> Result<SenderNode, ConfigError> {
        let (frames, cipher) = (self.frames.clone(), self.cipher);
        let env = SenderEnv { id, epoch: self.epoch, now: self.now, frames, cipher };
        SenderNode::new(config, server, application, &env)
    }

    /// Adds a node with connections. `seed` gives its keys and connection IDs.
    pub fn add_connections(&mut self, config: ConnectionSetConfig<NodeId>, seed: u64) -> NodeId {
        let node = self.new_connections(config, seed);
        self.add(Node::Connections(Box::new(node)))
    }

    pub(super) fn new_connections(&self, config: ConnectionSetConfig<NodeId>, seed: u64) -> ConnectionsNode {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        ConnectionsNode::new(config, Entropy::from_seed(key), self.frames.clone(), self.epoch)
    }

    /// Accepts connections at a node; the application of each answers with a stream, for example of
    /// a number of bytes.
    ///
    /// # Panics
    /// If `id` is not a node with connections, or as [`Simulation::add_application`].
    pub fn listen(&mut self, id: NodeId, responder: ResponderConfig, answer: impl Into<Application>) {
        let node = self.connections_mut(id);
        node.set.listen(responder);
        node.answer = answer.into();
        node.answer.check();
    }

    /// Observes the stream that this side sends in each connection that it accepts from now on.
    pub fn observe_accepted(&mut self, id: NodeId, observers: impl FnMut() -> Box<dyn Observer> + 'static) {
        self.connections_mut(id).observers = Some(Box::new(observers));
    }

    /// Opens a connection between two nodes with connections. The application writes a stream, for
    /// example of a number of bytes.
    ///
    /// # Errors
    /// As [`ConnectionSet::connect`](rdt_transport::ConnectionSet::connect).
    ///
    /// # Panics
    /// If `from` is not a node with connections, or as [`Simulation::add_application`].
    pub fn connect(
        &mut self,
        from: NodeId,
        to: NodeId,
        keys: InitiatorConfig,
        config: ConnectionConfig,
        application: impl Into<Application>,
    ) -> Result<ConnectionId, ConfigError> {
        let (now, application) = (self.now, application.into());
        application.check();
        self.connections_mut(from).open(now, to, (keys, config), application)
    }

    /// Gives a native sender, or a node with connections, another address, and returns it. It sends
    /// from there, and gets nothing that is on its way to the old one. The new address needs routes
    /// of its own. A server has the transfer under the old one.
    pub fn move_node(&mut self, id: NodeId) -> NodeId {
        let gone = Node::Sink(Box::new(SinkNode::new(self.epoch)));
        let node = std::mem::replace(&mut self.nodes[id.index()], gone);
        self.add(node)
    }

    /// Returns a node with connections.
    pub fn connections(&self, id: NodeId) -> &ConnectionsNode {
        let Node::Connections(node) = &self.nodes[id.index()] else { wrong_kind(id, "has no connections") };
        node
    }

    /// Returns a node with connections to modify, for example to close one.
    pub fn connections_mut(&mut self, id: NodeId) -> &mut ConnectionsNode {
        self.network.woken.push_back(id);
        let Node::Connections(node) = &mut self.nodes[id.index()] else {
            wrong_kind(id, "has no connections")
        };
        node
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
    pub fn sender(&self, id: NodeId) -> &SenderNode {
        let Node::Sender(node) = &self.nodes[id.index()] else { wrong_kind(id, "is not a sender") };
        node
    }

    /// Returns a sender to modify, for example to attach an observer.
    pub fn sender_mut(&mut self, id: NodeId) -> &mut SenderNode {
        let Node::Sender(node) = &mut self.nodes[id.index()] else { wrong_kind(id, "is not a sender") };
        node
    }

    /// Returns a server.
    pub fn server(&self, id: NodeId) -> &ServerNode {
        let Node::Server(node) = &self.nodes[id.index()] else { wrong_kind(id, "is not a server") };
        node
    }

    pub(super) fn server_mut(&mut self, id: NodeId) -> &mut ServerNode {
        let Node::Server(node) = &mut self.nodes[id.index()] else { wrong_kind(id, "is not a server") };
        node
    }

    /// Returns a source of datagrams.
    pub fn source(&self, id: NodeId) -> &SourceNode {
        let Node::Source(node) = &self.nodes[id.index()] else { wrong_kind(id, "is not a source") };
        node
    }

    /// Returns a sink of datagrams.
    pub fn sink(&self, id: NodeId) -> &SinkNode {
        let Node::Sink(node) = &self.nodes[id.index()] else { wrong_kind(id, "is not a sink") };
        node
    }

    pub(super) fn sink_mut(&mut self, id: NodeId) -> &mut SinkNode {
        let Node::Sink(node) = &mut self.nodes[id.index()] else { wrong_kind(id, "is not a sink") };
        node
    }

    fn next_id(&self) -> NodeId {
        NodeId(u32::try_from(self.nodes.len()).expect("fewer nodes than 2^32 fit in memory"))
    }

    fn add(&mut self, node: Node) -> NodeId {
        let id = self.next_id();
        self.nodes.push(node);
        self.timers.push(NodeTimer::default());
        self.network.add_inbox();
        self.network.woken.push_back(id);
        id
    }
}

/// Panics: the node is not of the kind that a method requires.
fn wrong_kind(id: NodeId, fault: &str) -> ! {
    panic!("node {} {fault}", id.0)
}
