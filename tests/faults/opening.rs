//! What is opened by a seed: keys, cipher, and what the responder answers.

use rdt::{
    Aead, Confirm, ConnectionConfig, Entropy, InitiatorConfig, PublicKey, ReceiverConfig, ResponderConfig,
    SharedSecret, StaticKey,
};
use std::sync::Arc;
use std::time::Duration;

use crate::faults::plan::Plan;

/// Idle timeout of both sides: longer than a sender waits for an answer.
pub(super) const IDLE: Duration = Duration::from_secs(120);

pub(super) struct Opening {
    pub(super) keys: InitiatorConfig,
    pub(super) config: ConnectionConfig,
    pub(super) responder: ResponderConfig,
    /// Length of the responder's stream, bytes.
    pub(super) answer: u64,
}

fn key(seed: u64, side: u8) -> Arc<StaticKey> {
    let mut bytes = [side; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Arc::new(StaticKey::generate(&mut Entropy::from_seed(bytes)))
}

/// Returns the cipher of one seed in four; the datagrams of the others can be checked.
fn cipher(seed: u64) -> Option<Aead> {
    match seed / 8 % 8 {
        0 => Some(Aead::Aes128Gcm),
        1 => Some(Aead::ChaCha20Poly1305),
        _ => None,
    }
}

impl Opening {
    pub(super) fn of(plan: &Plan) -> Self {
        let seed = plan.seed;
        let one_way = seed.is_multiple_of(5);
        let config = ConnectionConfig {
            sender: plan.sender.clone(),
            receiver: ReceiverConfig {
                stream_window: plan.window,
                checksum: false,
                keep_payload: true,
                ..ReceiverConfig::reference()
            },
            idle_timeout: IDLE,
            confirm: Confirm::OnRead,
            one_way,
            nodelay: seed.is_multiple_of(7),
            aead: cipher(seed),
            dangerously_unencrypted: cipher(seed).is_none(),
        };
        let (ours, theirs) = (key(seed, 1), key(seed, 2));
        let remote: Option<PublicKey> = (!seed.is_multiple_of(3)).then(|| theirs.public());
        let secret = seed.is_multiple_of(4).then(|| Arc::new(SharedSecret::from_array(&[9; 32])));
        let local = (seed % 3 != 1).then_some(ours);
        let keys = InitiatorConfig { local, remote, secret: secret.clone(), ..InitiatorConfig::default() };
        let secrets = Arc::new(secret.into_iter().collect::<Vec<_>>());
        let responder = ResponderConfig { config: config.clone(), secrets, ..ResponderConfig::open(theirs) };
        let answer = match seed % 7 {
            _ if one_way => 0,
            0 | 1 => plan.bytes,
            2 | 3 => plan.bytes / 9,
            4 => 1,
            _ => 0,
        };
        Self { keys, config, responder, answer }
    }

    /// True if only the initiator has a stream with data.
    pub(super) fn is_plain(&self) -> bool {
        self.answer == 0
    }
}
