//! Limits of a listener. Each bounds something that unauthenticated datagrams could make grow.

use std::time::Duration;

use crate::ReceiverConfig;
use crate::receiver::CLASSIC_IDLE;

/// Limits of a listener and the configuration of its receivers.
#[derive(Debug, Clone, Copy)]
pub struct ListenerConfig {
    /// Configuration of every receiver.
    pub receiver: ReceiverConfig,
    /// Largest number of connected peers at once, with those of a
    /// [`ConnectionSet`](crate::ConnectionSet) on the socket. A quarter of these slots is kept for
    /// the set, whose peers prove their addresses. Further SYNs are ignored.
    pub max_peers: usize,
    /// Largest number of connected peers of one source, if sources are known
    /// ([`Listener::limit_sources`](crate::Listener::limit_sources)).
    pub max_peers_per_source: u32,
    /// Bytes that all receivers together may hold, beyond holes or unread by the application. Each
    /// receiver may hold 128 KiB of unread data regardless.
    pub memory_limit: u64,
    /// Memory limit of one receiver, bytes.
    pub peer_memory_limit: u64,
    /// Receive buffer of the socket, which limits the windows of all peers together. `None` for no
    /// limit, as behind emulated links, which delay packets after they left the socket.
    pub socket_buffer: Option<SocketBuffer>,
    /// Idle timeout of peers.
    pub idle: Duration,
}

/// Receive buffer of the socket that all peers of a listener share, as the system accounts for it.
/// `rdt_endpoint::truesize` has these values.
#[derive(Debug, Clone, Copy)]
pub struct SocketBuffer {
    /// Usable size, in bytes as [`charge`](Self::charge) counts them.
    pub capacity: u64,
    /// Returns the bytes charged to the buffer for a datagram with this many bytes of payload; 0
    /// counts as 1.
    pub charge: fn(u64) -> u64,
    /// Bytes in flight of all peers together beyond which throughput no longer rises.
    pub useful_bytes: u64,
    /// Bytes in flight of one peer beyond which its throughput no longer rises, whatever the number
    /// of peers.
    pub useful_peer_bytes: u64,
    /// Lower limit of the rate at which busy hosts process data, bytes per second; 0 counts as 1.
    pub min_drain_rate: u64,
    /// Part of an RTT spent in idle hosts, by wake-ups and batching.
    pub min_host_delay: Duration,
}

impl ListenerConfig {
    /// Returns the default limits: 4096 peers, of which one source may have half; 2 GiB of memory,
    /// of which 512 MiB a peer (four times the 125 MB that 10 Gbit/s over 100 ms have in flight,
    /// because data beyond a hole waits until it is filled); an idle timeout of 25 s.
    pub fn new(receiver: ReceiverConfig) -> Self {
        Self {
            receiver,
            max_peers: 4096,
            max_peers_per_source: 2048,
            memory_limit: 2 << 30,
            peer_memory_limit: 512 << 20,
            socket_buffer: None,
            idle: CLASSIC_IDLE,
        }
    }
}

impl SocketBuffer {
    /// Returns the bytes in flight beyond which the throughput of this many peers together no
    /// longer rises.
    pub(super) fn useful(&self, peers: u64) -> u64 {
        self.useful_bytes.max(peers * self.useful_peer_bytes)
    }
}
