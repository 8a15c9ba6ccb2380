//! `rdt-recv --measure`: connections of rdt, whose peers may have data sent to them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdt_endpoint::blocking::{Endpoint, Listener, Stream};
use rdt_endpoint::{EndpointConfig, Listen, PublicKey, generate_key};
use rdt_transport::{Confirm, ResponderConfig};
use rdt_udp::{SocketError, clock};

use super::connection::{LOOK_INTERVAL, TOO_MANY_PEERS};
use super::message::Verdict;
use super::peer_slots::{PeerSlot, PeerSlots};
use super::recv::Server;
use super::stream::is_pause;
use super::tcp_server::{IDLE_TIMEOUT, Refusal, admit, end, serve_request};
use crate::socket::bind_asked;

/// Connections that wait for a thread.
const BACKLOG: usize = 64;
/// Connections beyond each limit on peers, which are accepted, counted and closed with the reason.
const SPARE: usize = 8;
/// Stack of a connection's thread, bytes: it works on packets while it waits.
const STACK: usize = 2 << 20;
/// Wait for answers that may have to be repeated, at the end.
const END: Duration = Duration::from_secs(1);

/// Code of CLOSE to a peer that does not ask for data.
const NOT_ASKED: u32 = 3;

pub(super) fn listen(endpoint: &Endpoint, mut responder: ResponderConfig) -> Result<Listener, SocketError> {
    // The end of a foreign stream is not confirmed.
    responder.config.confirm = Confirm::ByApplication;
    responder.config.idle_timeout = IDLE_TIMEOUT;
    let listener = endpoint
        .listen(Listen { responder, backlog: BACKLOG, observer: None })
        .map_err(|error| SocketError::Receive(io::Error::other(error)))?;
    listener.set_timeout(Some(LOOK_INTERVAL));
    Ok(listener)
}

/// Binds the socket to `address`, or to the default port, with the limits of `slots`.
pub(super) fn bind(address: Option<SocketAddr>, slots: &PeerSlots) -> Result<Endpoint, SocketError> {
    let (max, max_per_source) = slots.limits();
    let bind = |address| {
        let mut config = EndpointConfig::new()?;
        config.max_connections = max.saturating_add(SPARE);
        config.max_connections_per_source = max_per_source.map(|most| most.saturating_add(SPARE));
        Endpoint::bind(address, config)
    };
    bind_asked(address, bind)
}

/// Returns a listener on the loopback interface that admits every peer, and its key.
pub(super) fn local(slots: &PeerSlots, unencrypted: bool) -> Result<(Listener, PublicKey), SocketError> {
    let identity = generate_key().map_err(SocketError::Receive)?;
    let endpoint = bind(Some((Ipv4Addr::LOCALHOST, 0).into()), slots)?;
    let key = identity.public();
    let mut responder = ResponderConfig::open(identity);
    responder.config.dangerously_unencrypted = unencrypted;
    Ok((listen(&endpoint, responder)?, key))
}

/// Accepts connections until the program is to end, and waits for those that exist.
pub(super) fn serve(listener: &Listener, server: &Arc<Server>) -> Result<(), SocketError> {
    let ended = accept_all(listener, server);
    server.wait_for_threads();
    listener.endpoint().wait_idle(Some(END));
    ended
}

fn accept_all(listener: &Listener, server: &Arc<Server>) -> Result<(), SocketError> {
    while !server.is_closing() {
        server.log.poll(clock::now());
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(error) if is_pause(&error) => continue,
            Err(error) => return Err(SocketError::Receive(error)),
        };
        let Some(peer) = stream.peer_addr() else { continue };
        let Some(slot) = server.peers.take(peer) else {
            stream.close(TOO_MANY_PEERS, Verdict::Busy.sentence());
            continue;
        };
        let (server, handle) = (Arc::clone(server), stream.try_clone());
        let run = move || serve_one(&server, &stream, peer, slot);
        if thread::Builder::new().stack_size(STACK).spawn(run).is_err() {
            handle.close(TOO_MANY_PEERS, Verdict::Busy.sentence());
        }
    }
    Ok(())
}

fn serve_one(server: &Server, stream: &Stream, peer: SocketAddr, slot: PeerSlot) {
    let text = match admit(server, stream, None) {
        Ok(request) => {
            serve_request(server, stream, peer, slot, &request);
            // No effect on a connection that was reset.
            return stream.confirm();
        }
        Err(Refusal::NoRequest(text)) => text,
        Err(Refusal::Answered(verdict)) => {
            // Fails once the peer has read the answer: it ends the connection.
            let _ = end(server, stream);
            verdict.sentence()
        }
    };
    // A connection that is only dropped would keep its slot until the peer ends it.
    stream.close(NOT_ASKED, text);
}
