//! Connecting to a peer with several addresses: to the first one that answers.

use std::net::SocketAddr;
use std::time::Duration;

use rdt_endpoint::tokio::{Endpoint, Stream};
use rdt_endpoint::{Connect, ConnectError, StreamError};
use rdt_transport::{Closed, InitiatorConfig};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{ADDRESS_GIVE_UP, AttemptEnd, ChangedKeyProof, Dialer};

/// Head start of an address before the next one is tried too (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Tries the addresses that the endpoint's socket reaches, each some time after the one before,
/// with the parameters of `connect` and the keys of `dialer`. The first connection wins. A refusal
/// without a proof fails the race only if no other address answers. If the peer says that it has
/// another key than the file of known hosts, a second race asks for it, so that the user sees both.
///
/// # Errors
/// The refusal, or the failure of the last attempt.
pub async fn race(
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
    dialer: &Dialer,
    connect: impl Fn(InitiatorConfig) -> Connect,
) -> Result<(Stream, SocketAddr), ConnectError> {
    let is_ipv4 = endpoint.local_addr().is_ipv4();
    let reached = addresses.iter().copied().filter(|address| address.is_ipv4() || !is_ipv4);
    let (mut key_proof, mut keys) = (ChangedKeyProof::default(), dialer.initiator());
    loop {
        match race_with(endpoint, reached.clone(), || connect(keys.clone())).await {
            Ok(connected) => return Ok(connected),
            Err(error) => keys = key_proof.next(Some(dialer), error, ConnectError::closed)?,
        }
    }
}

/// Returns true for the end of a connection whose peer, or the path to it, is gone.
pub fn is_silent(closed: &Closed) -> bool {
    matches!(closed, Closed::TimedOut(_) | Closed::Idle | Closed::Unreachable | Closed::Reset)
}

async fn race_with(
    endpoint: &Endpoint,
    addresses: impl Iterator<Item = SocketAddr>,
    connect: impl Fn() -> Connect,
) -> Result<(Stream, SocketAddr), ConnectError> {
    let mut attempts = JoinSet::new();
    let mut rest = addresses.peekable();
    let (mut last, mut refusal) = (None, None);
    loop {
        if let Some(address) = rest.next() {
            let (endpoint, connect) = (endpoint.clone(), connect());
            attempts.spawn(async move {
                endpoint.connect(address, connect).await.map(|stream| (stream, address))
            });
        }
        let is_last = rest.peek().is_none();
        let next = async { if is_last { std::future::pending().await } else { sleep(ATTEMPT_DELAY).await } };
        let others_fail = async {
            match &refusal {
                Some((since, _)) => sleep_until(*since + ADDRESS_GIVE_UP).await,
                None => std::future::pending().await,
            }
        };
        let is_over = tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(connected))) => return Ok(connected),
                Some(Ok(Err(error))) => {
                    match error.closed().map_or(AttemptEnd::Final, AttemptEnd::of) {
                        AttemptEnd::Final => return Err(error),
                        AttemptEnd::Unproved if refusal.is_none() => {
                            refusal = Some((Instant::now(), error));
                        }
                        _ => last = Some(error),
                    }
                    false
                }
                None => is_last,
                // The task was cancelled with the runtime.
                Some(Err(_)) => false,
            },
            () = next => false,
            () = others_fail => true,
        };
        if is_over {
            let gone = || StreamError::from(Closed::Unreachable).into();
            return Err(refusal.map(|(_, error)| error).or(last).unwrap_or_else(gone));
        }
    }
}
