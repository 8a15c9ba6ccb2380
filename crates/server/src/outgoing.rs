//! Datagrams between the paths and the socket.

use std::collections::VecDeque;
use std::time::Instant;

use rdt_emulator::Direction;
use rdt_transport::{AddressKey, TransmitBuf};

use crate::SenderId;
use crate::links::{Datagram, Links};

/// Limit on the datagrams that wait for the socket. Further datagrams are dropped.
const MAX_OUTGOING: usize = 16 * 1024;

/// Datagrams that wait for the socket: each has left its reverse link, or its sender has no path.
#[derive(Debug)]
pub(crate) struct Outgoing<P> {
    queue: VecDeque<Datagram<P, Vec<u8>>>,
    pub(crate) dropped: u64,
}

impl<P: AddressKey> Outgoing<P> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), dropped: 0 }
    }

    pub(crate) fn push(&mut self, datagram: Datagram<P, Vec<u8>>, links: &mut Links<P>) {
        if self.queue.len() < MAX_OUTGOING {
            self.queue.push_back(datagram);
        } else {
            self.dropped += 1;
            links.recycle(datagram.bytes);
        }
    }

    /// Pushes a reply into the reverse link of its sender, or queues it if there is none.
    pub(crate) fn route(
        &mut self,
        now: Instant,
        sender: Option<SenderId<P>>,
        reply: &Datagram<P, &[u8]>,
        links: &mut Links<P>,
    ) {
        if let Some(sender) = sender.filter(|sender| links.contains(*sender)) {
            links.push(now, sender, reply, Direction::Reverse);
        } else {
            let bytes = links.copy(reply.bytes);
            self.push(Datagram { peer: reply.peer, ecn: reply.ecn, bytes }, links);
        }
    }

    /// Moves datagrams for one peer to `out`, and returns the peer.
    pub(crate) fn poll(&mut self, out: &mut TransmitBuf, links: &mut Links<P>) -> Option<P> {
        let &Datagram { peer, ecn, .. } = self.queue.front()?;
        let before = out.segments();
        out.set_ecn(ecn);
        while let Some(next) = self.queue.front()
            && (next.peer, next.ecn) == (peer, ecn)
            && let Some(slot) = out.slot(next.bytes.len())
        {
            slot.copy_from_slice(&next.bytes);
            if let Some(next) = self.queue.pop_front() {
                links.recycle(next.bytes);
            }
        }
        (out.segments() > before).then_some(peer)
    }
}
