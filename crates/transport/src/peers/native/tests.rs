//! Sets of connections against each other in virtual time, over a small network in memory.

mod address;
mod associations;
mod exchanges;
mod flips;
mod floods;
mod forged;
mod handshake;
mod limits;
mod network;
mod refusals;
mod replay;
mod reset;
mod tampering;
mod unencrypted;
mod vectors;

use std::sync::Arc;

use rdt_crypto::{Entropy, Pattern, SharedSecret, StaticKey};

use super::*;
use crate::connection::{Closed, RefuseReason, Trust};
use crate::peers::{ConnectionSetConfig, Secrets};
use crate::{Ecn, Endpoint, Service};
use network::{Fate, Network, ip};

/// Hosts of most tests.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Patterns with and without a shared secret.
const HANDSHAKES: [(Pattern, bool); 6] = [
    (Pattern::Xx, false),
    (Pattern::Xx, true),
    (Pattern::Nk, false),
    (Pattern::Nk, true),
    (Pattern::Ik, false),
    (Pattern::Ik, true),
];

fn key(seed: u8) -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([seed; 32])))
}

fn secret() -> Arc<SharedSecret> {
    Arc::new(SharedSecret::from_array(&[7; 32]))
}

/// Configuration of a set with IP addresses and a wall clock.
fn set_config(now: Instant) -> ConnectionSetConfig<std::net::SocketAddr> {
    let unix_time = Some((now, 1_800_000_000));
    ConnectionSetConfig { ip_of: Some(ip), unix_time, ..ConnectionSetConfig::default() }
}

fn responder() -> ResponderConfig {
    ResponderConfig { secrets: Arc::new(vec![secret()]), ..ResponderConfig::open(key(SERVER_KEY)) }
}

const CLIENT_KEY: u8 = 1;
const SERVER_KEY: u8 = 2;

/// Keys of an initiator that uses this pattern.
fn initiator(pattern: Pattern, has_secret: bool) -> InitiatorConfig {
    InitiatorConfig {
        local: (pattern != Pattern::Nk).then(|| key(CLIENT_KEY)),
        remote: (pattern != Pattern::Xx).then(|| key(SERVER_KEY).public()),
        secret: has_secret.then(secret),
        ..InitiatorConfig::default()
    }
}

/// Configuration of connections that asks for no encryption, or does not.
fn connections(unencrypted: bool) -> ConnectionConfig {
    ConnectionConfig { dangerously_unencrypted: unencrypted, ..ConnectionConfig::default() }
}

/// A client and a listening server, of which each may ask for no encryption.
fn client_and_server_unencrypted(seed: u64, unencrypted: [bool; 2]) -> Network {
    let mut network = client_and_server(seed);
    network.hosts[CLIENT].config = connections(unencrypted[CLIENT]);
    let config = connections(unencrypted[SERVER]);
    network.hosts[SERVER].set.listen(ResponderConfig { config, ..responder() });
    network
}

/// A client and a listening server.
fn client_and_server(seed: u64) -> Network {
    let mut network = Network::new(seed);
    network.add_host("192.0.2.1:1000");
    network.add_host("198.51.100.1:2000");
    network.hosts[SERVER].set.listen(responder());
    network
}
