//! Start of an open connection: both streams and their keys, from the result of a handshake.

use std::time::{Duration, Instant};

use rdt_crypto::{Aead, ResetToken, Secrets, TrafficSecret};

use super::super::ConnectionEnv;
use super::super::config::ConnectionConfig;
use super::super::keys::{OpeningKeys, SealingKeys};
use super::super::proof::KeyProof;
use super::path_probes::PathProbes;
use super::resets::PeerResets;
use super::silence::Silence;
use super::{Completion, DroppedPackets, Streams};
use crate::receive_buffer::chunks::ChunkPool;
use crate::receiver::{BufferShare, Receiver};
use crate::sender::{Established as SenderStart, INITIAL_RTT, KnownPath, Sender};
use crate::wire::native::{Hello, Params};
use crate::{ConfigError, ReceiverConfig, SenderConfig, StreamName};

/// Result of a handshake, on either side.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) local_id: u64,
    pub(crate) remote_id: u64,
    pub(crate) is_initiator: bool,
    pub(crate) secrets: Secrets,
    pub(crate) aead: Aead,
    /// Initial receive window of the peer, bytes.
    pub(crate) window: u64,
    /// Transport parameters of the peer.
    pub(crate) params: Params,
    /// Name that the peer suggests for its stream, if the peer is the initiator.
    pub(crate) name: Option<StreamName>,
    /// Token of the peer's RESETs.
    pub(crate) peer_reset: ResetToken,
    /// Round trip of the handshake, if no packet of it was repeated.
    pub(crate) rtt: Option<Duration>,
    /// True if `rtt` is that of an earlier connection.
    pub(crate) is_remembered: bool,
    /// Time at which the local receive window was offered.
    pub(crate) offered_at: Instant,
}

impl Established {
    /// Returns the responder's side of a connection whose initiator introduced itself by `hello`.
    /// `ids` are the local and the remote connection ID.
    pub(crate) fn of_hello(
        ids: (u64, u64),
        secrets: Secrets,
        aead: Aead,
        hello: Hello,
        offered_at: Instant,
    ) -> Self {
        Self {
            local_id: ids.0,
            remote_id: ids.1,
            is_initiator: false,
            secrets,
            aead,
            window: hello.window,
            params: hello.params,
            name: hello.name,
            peer_reset: hello.reset_token,
            rtt: None,
            is_remembered: false,
            offered_at,
        }
    }

    fn sender_start(&self, known: Option<KnownPath>) -> SenderStart {
        SenderStart {
            window: self.window,
            params: self.params,
            rtt: self.rtt.unwrap_or(INITIAL_RTT),
            is_rtt_sample: self.rtt.is_some(),
            is_remembered: self.is_remembered && self.rtt.is_some(),
            known,
        }
    }

    fn receiver(&self, config: ReceiverConfig, share: Option<BufferShare>, chunks: ChunkPool) -> Receiver {
        let mut receiver = Receiver::established(config, &self.params, share, self.offered_at);
        receiver.set_pool(chunks);
        receiver
    }
}

impl Streams {
    pub(in super::super) fn new(
        now: Instant,
        config: &ConnectionConfig,
        peer: Established,
        env: ConnectionEnv,
    ) -> Result<Self, ConfigError> {
        let (start, base) = (peer.sender_start(env.known), &config.sender);
        let receiver = peer.receiver(config.receiver, env.share, env.memory.chunks);
        let (ours, theirs) = by_sender(peer.secrets, peer.is_initiator);
        let sealing = SealingKeys::new(now, peer.aead, ours, peer.remote_id, base.packet_size);
        let opening = OpeningKeys::new(peer.aead, theirs);
        let sender_config = SenderConfig {
            // The peer must not know it, so not one of the connection IDs.
            seed: env.skip_seed,
            skip_seed: Some(env.skip_seed),
            ..base.of_connection()
        };
        let codec = sealing.codec();
        let mut sender = Sender::established(sender_config, codec, env.memory.frames, now, &start)?;
        sender.set_nodelay(config.nodelay);
        let silence = Silence::new(now, config.idle_timeout, sender.peer_idle_timeout());
        let is_one_way = config.one_way || peer.params.is_one_way;
        let has_own_stream = peer.is_initiator || !is_one_way;
        if !has_own_stream {
            sender.abort();
        }
        Ok(Self {
            sender,
            receiver,
            sealing,
            opening,
            resets: PeerResets::new(now, peer.peer_reset),
            proof: None,
            open_ack: None,
            confirm: config.confirm,
            probes: PathProbes::new(now),
            ack: None,
            ack_memory: Vec::new(),
            silence,
            has_own_stream,
            link: peer.params.link,
            is_write_blocked: false,
            completion: Completion::new(has_own_stream, !is_one_way || !peer.is_initiator),
            released: None,
            close: None,
            dropped: DroppedPackets::default(),
        })
    }
}

impl Streams {
    /// Continues under the keys of a repeated handshake. The peer has nothing of the outgoing
    /// stream, so all of it is sent again. Returns false if the peer's configuration has changed.
    pub(in super::super) fn reopen(&mut self, now: Instant, peer: Established, mut proof: KeyProof) -> bool {
        let Some(handshake) = self.proof.take().and_then(|proof| proof.into_handshake()) else {
            return false;
        };
        let is_one_way = handshake.config.one_way || peer.params.is_one_way;
        if is_one_way != self.completion.is_received || peer.params.link != self.link {
            return false;
        }
        let start = peer.sender_start(None);
        let (ours, theirs) = by_sender(peer.secrets, peer.is_initiator);
        let packet_size = handshake.config.sender.packet_size;
        self.sealing = SealingKeys::new(now, peer.aead, ours, peer.remote_id, packet_size)
            .starting_at(self.sender.next_number());
        self.opening = OpeningKeys::new(peer.aead, theirs);
        self.resets = PeerResets::new(now, peer.peer_reset);
        self.sender.reopen(now, self.sealing.codec(), &start);
        self.silence.restart(now);
        self.probes.restart(now);
        proof.keep(handshake);
        self.proof = Some(Box::new(proof));
        true
    }
}

/// Returns the secrets for sealing and for opening packets.
fn by_sender(secrets: Secrets, is_initiator: bool) -> (TrafficSecret, TrafficSecret) {
    let Secrets { from_initiator: ours, from_responder: theirs, .. } = secrets;
    if is_initiator { (ours, theirs) } else { (theirs, ours) }
}
