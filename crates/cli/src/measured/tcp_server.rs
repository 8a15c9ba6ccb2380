//! `rdt-recv --wire tcp`: a thread for each connection.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rdt_udp::clock;

use super::connection::{LOOK_INTERVAL, reset, set_timeouts};
use super::message::Verdict;
use super::peer_slots::PeerSlots;
use super::recv::Server;
use super::session::{End, Session, Step};
use super::stream::is_pause;

/// Limit on peers that are refused at the same time because no slot is free. Each takes a thread.
const MAX_REFUSALS: usize = 16;
const STACK: usize = 256 << 10;

/// Accepts connections until the program is to end, and waits for those that exist.
pub(super) fn serve(listener: &TcpListener, server: &Arc<Server>) {
    // On Linux the timeout of reads is that of `accept`, too.
    let _ = socket2::SockRef::from(listener).set_read_timeout(Some(LOOK_INTERVAL));
    let refusals = PeerSlots::new(MAX_REFUSALS, None);
    while !server.is_closing() {
        server.log.poll(clock::now());
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_pause(&error) => continue,
            Err(_) => {
                // Such as too many open files: not gone at once.
                clock::sleep_until(clock::now() + LOOK_INTERVAL);
                continue;
            }
        };
        let slot = server.peers.take(peer);
        let is_busy = slot.is_none();
        // Above the limit of refusals, the connection is dropped without one.
        let Some(slot) = slot.or_else(|| refusals.take(peer)) else { continue };
        if set_timeouts(&stream).is_err() {
            continue;
        }
        let session = Session::new(clock::now(), (peer, None), slot, is_busy.then_some(Verdict::Busy));
        let server = Arc::clone(server);
        let serve = move || serve_one(&server, &stream, session);
        let _ = thread::Builder::new().stack_size(STACK).spawn(serve);
    }
    // Transfers under way end first, unless the program is interrupted.
    server.wait_for_threads();
}

fn serve_one(server: &Server, mut stream: &TcpStream, mut session: Session) {
    loop {
        match session.step(clock::now(), server, &mut stream) {
            // Reads and writes have waited a moment.
            Step::Again | Step::Wait(None) => {}
            Step::Wait(Some(at)) => clock::sleep_until(at),
            Step::Ended(End::Broken) => return reset(stream),
            Step::Ended(_) => return,
        }
    }
}
