//! `rdt-recv --measure`: encrypted connections of rdt, whose peers may have data sent to them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdt_endpoint::blocking::{Endpoint, Listener, Stream};
use rdt_endpoint::{EndpointConfig, Listen, PublicKey, generate_key};
use rdt_transport::ResponderConfig;
use rdt_udp::{SocketError, clock};

use super::connection::Connection as _;
use super::recv::{MAX_PEERS, Server};
use super::stream::LOOK_INTERVAL;
use super::tcp_server::serve_one;

/// Connections that wait for a thread.
const BACKLOG: usize = 64;
/// Stack of a connection's thread, bytes: it works on packets while it waits.
const STACK: usize = 2 << 20;
/// Wait for answers that may have to be repeated, at the end.
const END: Duration = Duration::from_secs(1);

/// Returns a listener at `address` for the peers that `responder` admits.
pub(super) fn listen(endpoint: &Endpoint, responder: ResponderConfig) -> Result<Listener, SocketError> {
    let listener = endpoint
        .listen(Listen { responder, backlog: BACKLOG })
        .map_err(|error| SocketError::Receive(std::io::Error::other(error)))?;
    listener.set_timeout(Some(LOOK_INTERVAL));
    Ok(listener)
}

pub(super) fn bind(address: SocketAddr) -> Result<Endpoint, SocketError> {
    let bind = || {
        let mut config = EndpointConfig::new()?;
        config.max_connections = MAX_PEERS;
        Endpoint::bind(address, config)
    };
    bind().map_err(|error| SocketError::Bind { address, error })
}

/// Returns a listener on the loopback interface that admits every peer, and its key.
pub(super) fn local() -> Result<(Listener, PublicKey), SocketError> {
    let identity = generate_key().map_err(SocketError::Receive)?;
    let endpoint = bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let key = identity.public();
    Ok((listen(&endpoint, ResponderConfig::open(identity))?, key))
}

/// Accepts connections until the program is to end, and waits for those that exist.
pub(super) fn serve(listener: &Listener, server: &Arc<Server>) {
    while !server.is_closing() {
        server.log.poll(clock::now());
        let Ok(stream) = listener.accept() else { continue };
        let Some(peer) = stream.peer_addr() else { continue };
        // Without a place or a thread, the connection is dropped.
        let Some(place) = server.places.take(peer) else { continue };
        let server = Arc::clone(server);
        let run = move || {
            if stream.set_timeouts().is_ok() {
                serve_one(&server, &stream, peer, place);
            }
            confirm_end(&stream);
        };
        let _ = thread::Builder::new().stack_size(STACK).spawn(run);
    }
    server.wait_for_threads();
    listener.endpoint().wait_idle(Some(END));
}

/// Ends the own stream. The endpoint delivers what was written.
fn confirm_end(stream: &Stream) {
    // Fails if the connection has ended.
    let _ = stream.finish();
}
