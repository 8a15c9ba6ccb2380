//! `rdt-send --reverse` over an encrypted connection of rdt, whose responder sends.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use rdt_endpoint::blocking::{Endpoint, Stream};
use rdt_endpoint::{Connect, ConnectError, EndpointConfig, StreamError};
use rdt_transport::{InitiatorConfig, Phase};
use rdt_trust::Dialer;
use rdt_udp::clock;

use super::connection::Connection as _;
use super::course::{Course, lost};
use super::message::Request;
use super::tcp_client::{exchange, receive};
use crate::Failure;

/// Keys for a connection, and what a refusal means.
pub(super) struct Keys {
    pub(super) initiator: InitiatorConfig,
    /// `None` for HOST `local`.
    pub(super) dialer: Option<Dialer>,
}

impl Keys {
    /// Returns why a peer or this side refused a connection, if keys were the reason.
    fn refusal(&self, host: &str, error: &StreamError) -> Option<Failure> {
        let StreamError::Closed(closed) = error else { return None };
        self.dialer.as_ref()?.refusal(host, closed).map(Failure::from)
    }
}

/// Runs a transfer over a new connection to one of `addresses`.
pub(super) fn run(
    course: &mut Course<'_>,
    addresses: &[SocketAddr],
    request: &Request,
    keys: &Keys,
) -> Result<(), Failure> {
    let begun_at = clock::now();
    // Dropped last, after the stream: its drop would end the connection at once.
    let (_endpoint, stream) = connect_any(course, addresses, keys)?;
    let took = clock::now().saturating_duration_since(begun_at);
    stream.set_timeouts().map_err(|error| lost(Phase::Connect, error.to_string()))?;
    // The responder judges the keys after the connection is open for this side.
    let host = course.host;
    exchange(course, &stream, request, |error| {
        let closed = error.get_ref().and_then(|source| source.downcast_ref::<StreamError>())?;
        keys.refusal(host, closed)
    })?;
    course.connected(clock::now(), took, course.config.packet_size);
    let ended = receive(course, &stream);
    match &ended {
        Ok(()) => {
            // The peer waits for the end of this side's stream.
            let _ = stream.finish();
            let _ = stream.delivered();
        }
        Err(_) => stream.reset(),
    }
    ended
}

fn connect_any(
    course: &mut Course<'_>,
    addresses: &[SocketAddr],
    keys: &Keys,
) -> Result<(Endpoint, Stream), Failure> {
    let share = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let give_up = course.connect_give_up() / share;
    let mut last = lost(Phase::Connect, "the receiver has no address");
    for address in addresses {
        course.address = *address;
        let any = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint = EndpointConfig::new()
            .and_then(|config| Endpoint::bind(any, config))
            .map_err(|error| lost(Phase::Connect, format!("no socket can be had: {error}")))?;
        let connect = Connect::with(keys.initiator.clone());
        match endpoint.connect_timeout(*address, connect, give_up) {
            Ok(stream) => return Ok((endpoint, stream)),
            Err(_) if course.stop.is_set() => return Err(Failure::Interrupted),
            Err(error) => {
                if let ConnectError::Stream(error) = &error
                    && let Some(refusal) = keys.refusal(course.host, error)
                {
                    return Err(refusal);
                }
                last = lost(Phase::Connect, format!("no connection to {address}: {error}"));
            }
        }
    }
    Err(last)
}
