//! Connecting to a peer with the keys of a dialer.

use std::net::SocketAddr;

use rdt_endpoint::tokio::{Endpoint, Stream};
use rdt_endpoint::{Connect, ConnectError};
use rdt_transport::{Closed, InitiatorConfig};

use crate::{ChangedKeyProof, Dialer};

/// Connects to the first of these addresses that answers, with the parameters of `connect` and the
/// keys of `dialer`. If the peer says that it has another key than the file of known hosts, a
/// second attempt asks for it, so that the user sees both.
///
/// # Errors
/// The refusal, or the failure of the last attempt.
pub async fn race(
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
    dialer: &Dialer,
    connect: impl Fn(InitiatorConfig) -> Connect,
) -> Result<Stream, ConnectError> {
    let (mut key_proof, mut keys) = (ChangedKeyProof::default(), dialer.initiator());
    loop {
        match endpoint.connect(addresses, connect(keys)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => keys = key_proof.next(Some(dialer), error, ConnectError::closed)?,
        }
    }
}

/// Returns true for the end of a connection whose peer, or the path to it, is gone.
pub fn is_silent(closed: &Closed) -> bool {
    matches!(closed, Closed::TimedOut(_) | Closed::Idle | Closed::Unreachable | Closed::Reset)
}
