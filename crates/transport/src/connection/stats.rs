//! Counters of a connection.

use rdt_crypto::Aead;

use super::streams::Streams;
use crate::{ReceiverStats, SenderStats};

/// Counters and gauges of a connection. Before the handshake is complete, all are zero.
#[derive(Debug, Clone, Default)]
pub struct ConnectionStats {
    /// The own stream, and the path.
    pub sender: SenderStats,
    /// The peer's stream.
    pub receiver: ReceiverStats,
    /// AEAD of both directions.
    pub aead: Option<Aead>,
    /// Packets with this connection's ID that no key of the peer had sealed.
    pub unauthentic: u64,
    /// Packets that had arrived before: copies of the network, or replays.
    pub replayed: u64,
}

impl ConnectionStats {
    pub(super) fn of(streams: &Streams) -> Self {
        Self {
            sender: streams.sender.stats(),
            receiver: streams.receiver.stats(),
            aead: Some(streams.sealing.aead()),
            unauthentic: streams.unauthentic,
            replayed: streams.replayed,
        }
    }
}
