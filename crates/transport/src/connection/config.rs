//! Configuration of connections, and what the initiator of one knows beforehand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdt_crypto::{Aead, PublicKey, ResumptionCookie, SharedSecret, StaticKey};

use crate::congestion::{Algorithm, ControllerFactory};
use crate::{ReceiverConfig, SenderConfig, Service};

/// When the incoming stream is confirmed, so that the peer learns that all of it was delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confirm {
    /// When the application has read the whole stream.
    #[default]
    OnRead,
    /// When the application calls [`Connection::confirm`](super::Connection::confirm), for example
    /// after it has stored the stream.
    ByApplication,
}

/// Parameters of a connection.
#[derive(Debug, Clone)]
pub struct ConnectionConfig {
    /// The outgoing stream: congestion control, window, pacing, size of datagrams, time limits. Its
    /// `wire`, `seed` and `skip_seed` are ignored: each connection has its own.
    pub sender: SenderConfig,
    /// The incoming stream: window and frequency of ACKs.
    pub receiver: ReceiverConfig,
    /// Silence of the peer after which the connection ends, 1 s to a day. An idle side sends
    /// keep-alives, so only a peer that is gone is silent.
    pub idle_timeout: Duration,
    /// When the incoming stream is confirmed.
    pub confirm: Confirm,
    /// True if only the initiator sends a stream.
    pub one_way: bool,
    /// True to send small writes at once, each in a packet of its own. False, the default, to let a
    /// packet that is not full wait for the ACK of an earlier one (draft-minshall-nagle-01).
    pub nodelay: bool,
    /// Preferred AEAD; `None`: AES-128-GCM if both sides have instructions for it, else
    /// ChaCha20-Poly1305. [`Aead::None`] counts as no preference.
    pub aead: Option<Aead>,
    /// **Dangerous: true gives all protection of data up.** Every host on the path reads what is
    /// sent, and can change it or put in its own without being noticed; a checksum finds accidents
    /// alone. Only the handshake is protected: keys, secrets and the names in it. For teaching,
    /// simulations and measurements.
    ///
    /// An initiator with true offers [`Aead::None`] alone, so no responder without it accepts. A
    /// responder with true also accepts such initiators; all others it serves encrypted. False by
    /// default. [`ConnectionStats::aead`](super::ConnectionStats::aead) says what was agreed.
    pub dangerously_unencrypted: bool,
}

impl ConnectionConfig {
    /// Chooses a built-in congestion controller for the outgoing stream.
    #[must_use]
    pub fn congestion(mut self, congestion: Algorithm) -> Self {
        self.sender.congestion = congestion;
        self.sender.controller_factory = None;
        self
    }

    /// Uses a congestion controller of the caller's own for the outgoing stream.
    #[must_use]
    pub fn controller(mut self, factory: impl ControllerFactory + 'static) -> Self {
        self.sender.controller_factory = Some(Arc::new(factory));
        self
    }

    /// Limits the rate of the outgoing stream, bytes per second, retransmissions included.
    #[must_use]
    pub fn max_rate(mut self, bytes_per_s: u64) -> Self {
        self.sender.max_rate = Some(bytes_per_s);
        self
    }

    /// Limits the time for the handshake, 180 s by default.
    #[must_use]
    pub fn handshake_timeout(mut self, limit: Duration) -> Self {
        self.sender.handshake_give_up = limit;
        self
    }

    /// Limits the peer's silence.
    #[must_use]
    pub fn idle_timeout(self, idle_timeout: Duration) -> Self {
        Self { idle_timeout, ..self }
    }

    /// Chooses when the incoming stream is confirmed.
    #[must_use]
    pub fn confirm(self, confirm: Confirm) -> Self {
        Self { confirm, ..self }
    }

    /// Has only the initiator send a stream.
    #[must_use]
    pub fn one_way(self) -> Self {
        Self { one_way: true, ..self }
    }

    /// Chooses whether small writes are sent at once, each in a packet of its own.
    #[must_use]
    pub fn nodelay(self, nodelay: bool) -> Self {
        Self { nodelay, ..self }
    }

    /// Returns the payload of a full packet of the outgoing stream, bytes.
    pub fn payload_size(&self) -> usize {
        self.sender.of_connection().payload_size()
    }
}

impl Default for ConnectionConfig {
    /// Returns two streams with BBR, RACK-TLP and pacing, datagrams of up to 1472 bytes, and an
    /// idle timeout of 30 s. A peer that answers may leave the outgoing stream unread for ever (RFC
    /// 9293, section 3.8.6.1).
    fn default() -> Self {
        Self {
            sender: SenderConfig { no_progress: Duration::MAX, ..SenderConfig::native(0) },
            receiver: ReceiverConfig { checksum: false, keep_payload: true, ..ReceiverConfig::reference() },
            idle_timeout: Duration::from_secs(30),
            confirm: Confirm::OnRead,
            one_way: false,
            nodelay: false,
            aead: None,
            dangerously_unencrypted: false,
        }
    }
}

/// Decision of the initiator on a responder's key that it did not know. Called while the set of
/// connections is locked: must not wait, and must not call the set.
pub type Trust = Arc<dyn Fn(&PublicKey) -> bool + Send + Sync>;

/// Keys and proofs of the side that opens a connection.
#[derive(Clone, Default)]
pub struct InitiatorConfig {
    /// Own static key. Without one the responder does not learn who connects.
    pub local: Option<Arc<StaticKey>>,
    /// Static key of the responder. Without it, the responder sends its key, and
    /// [`trust`](Self::trust) decides.
    pub remote: Option<PublicKey>,
    /// Secret that both sides know.
    pub secret: Option<Arc<SharedSecret>>,
    /// Cookie of an earlier connection to the same responder, which saves a round trip.
    pub resumption: Option<ResumptionCookie>,
    /// Round trip to the responder, if it is known: the SYN is first repeated after three of them
    /// instead of 1 s. `None` for the newest that a connection to the same host measured.
    pub rtt: Option<Duration>,
    /// Application protocol; a responder that speaks another one is refused.
    pub service: Service,
    /// Asked about the responder's key if [`remote`](Self::remote) is `None`, before the responder
    /// learns the local key. `None` trusts every key: a host on the path can pose as the responder.
    pub trust: Option<Trust>,
}

impl fmt::Debug for InitiatorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitiatorConfig")
            .field("local", &self.local)
            .field("remote", &self.remote)
            .field("secret", &self.secret)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
