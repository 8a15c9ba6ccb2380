//! What a listener may do: its limits, each of which bounds what strangers can make grow.

use std::time::Duration;

use crate::ReceiverConfig;
use crate::receiver::{CLASSIC_IDLE, NATIVE_IDLE};

/// Limits of a listener, and the configuration of its receivers.
#[derive(Debug, Clone, Copy)]
pub struct ListenerConfig {
    /// Every receiver's configuration.
    pub receiver: ReceiverConfig,
    /// Peers at once; more are left unanswered.
    pub max_peers: usize,
    /// Bytes that all receivers together may hold, beyond holes or unread by the application. Of each, 128 KiB may be
    /// unread in any case.
    pub memory_limit: u64,
    /// The same for one receiver.
    pub peer_memory_limit: u64,
    /// Bytes, as the system charges them, that the buffer of the socket holds which all peers send to: windows are such
    /// that what is on its way has room there, but for what a network of some length holds. `u64::MAX` for no bound:
    /// where the way from the socket is long, as over an emulated link.
    pub socket_buffer: u64,
    /// A peer that is silent for this long is forgotten, where its format has no proof of address.
    pub idle: Duration,
    /// The same where it has one. A finished one may be forgotten after [`idle`](Self::idle), if there is no room for another.
    pub native_idle: Duration,
    /// What the cookies are made with that prove a peer's address; nobody may guess it. Without one, transfers
    /// whose wire knows cookies are left unanswered.
    pub secret: Option<[u8; 32]>,
}

impl ListenerConfig {
    /// Default limits: 4096 peers, 2 GiB in all, 512 MiB a peer (10 Gbit/s over 100 ms hold 125 MB, and four times that
    /// may lie beyond a hole while it is filled), 25 s of silence, 120 s of native peers.
    pub fn new(receiver: ReceiverConfig) -> Self {
        Self {
            receiver,
            max_peers: 4096,
            memory_limit: 2 << 30,
            peer_memory_limit: 512 << 20,
            socket_buffer: u64::MAX,
            idle: CLASSIC_IDLE,
            native_idle: NATIVE_IDLE,
            secret: None,
        }
    }
}
