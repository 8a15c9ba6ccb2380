//! Connections of rdt as both kinds of transfers use them: how they are protected, and when they
//! end.

use std::time::Duration;

use rdt_crypto::{Aead, PublicKey};
use rdt_transport::{ConnectionConfig, SenderConfig, Wire};

/// Least silence of the receiver after which the connection ends: three keep-alives.
const MIN_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Protection {
    pub(crate) aead: Aead,
    /// Key of the receiver; `None` without encryption.
    pub(crate) receiver: Option<PublicKey>,
}

impl Protection {
    /// Returns the protection of a connection; `None` before its handshake.
    pub(crate) fn of(aead: Option<Aead>, receiver: Option<PublicKey>) -> Option<Self> {
        let (aead, receiver) = (aead?, receiver?);
        Some(Self { aead, receiver: aead.is_encrypted().then_some(receiver) })
    }

    /// Returns the protection in words, for the last lines of a transfer.
    pub(crate) fn remark(&self) -> String {
        match self.aead {
            Aead::None => "not encrypted".into(),
            aead => format!("encrypted by {}", aead_name(aead)),
        }
    }
}

fn aead_name(aead: Aead) -> &'static str {
    match aead {
        Aead::Aes128Gcm => "AES-128-GCM",
        Aead::Aes256Gcm => "AES-256-GCM",
        Aead::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        Aead::None => "none",
    }
}

pub(crate) fn idle_timeout(sender: &SenderConfig) -> Duration {
    sender.give_up.max(MIN_IDLE_TIMEOUT)
}

/// Returns the name of a format in JSON.
pub(crate) fn wire_name(wire: Wire) -> &'static str {
    match wire {
        Wire::Classic => "classic",
        Wire::Native => "native",
    }
}

/// Returns the payload of a full packet, bytes.
pub(crate) fn payload_size(config: &SenderConfig) -> usize {
    match config.wire {
        Wire::Classic => config.payload_size(),
        Wire::Native => {
            ConnectionConfig { sender: config.clone(), ..ConnectionConfig::default() }.payload_size()
        }
    }
}
