//! The contract between a state machine and whoever drives it. Knows no protocol.

use std::time::Instant;

use crate::{Ecn, TransmitBuf};

/// A protocol machine: datagrams and time in, datagrams and events out.
///
/// Methods are of four kinds: `handle_*` put something in, `poll_transmit` takes datagrams out,
/// `poll_event` takes news for the application out, `poll_timeout` asks when to come back.
///
/// Whoever drives a machine keeps two rules:
/// - `now` never goes backwards from call to call, but for [`Endpoint::handle_datagram`], where it is the time
///   of arrival: it may lie before earlier calls by as long as the caller was busy with other things;
/// - after any call that takes `&mut self`, `poll_transmit` is drained before waiting: its silence together
///   with [`Endpoint::poll_timeout`] says that nothing will happen until then.
///
/// [`drive::turn`](crate::drive::turn) keeps both.
pub trait Endpoint {
    /// Who is at the other end of a datagram: `()` for a machine with one peer.
    type Peer: Copy;
    /// What the application is told.
    type Event;

    /// Takes one datagram that arrived at `now` with the codepoint `ecn`. Bad bytes are counted, never an error
    /// and never a panic.
    fn handle_datagram(&mut self, now: Instant, peer: Self::Peer, ecn: Ecn, datagram: &[u8]);

    /// Takes datagrams that arrived together: end to end, each of `stride` bytes but for a shorter last one (no bytes
    /// are one empty datagram). Says how many they were. To be the same as one call of
    /// [`Endpoint::handle_datagram`] for each, but a machine may do at once what they have in common.
    fn handle_datagrams(
        &mut self,
        now: Instant,
        peer: Self::Peer,
        ecn: Ecn,
        bytes: &[u8],
        stride: usize,
    ) -> usize {
        one_by_one(self, now, peer, ecn, bytes, stride)
    }

    /// The network reports, `reports` times since the last call, that nobody listens where datagrams went (ICMP: port
    /// unreachable). Anybody who can guess the ports can say so, and it may pass. A machine with many peers need not ask.
    fn handle_refused(&mut self, _now: Instant, _reports: u64) {}

    /// So many messages arrived since the last call and found the socket's buffer full: lost in this host, not in the
    /// network. A message may be many datagrams, and whose they were is not known.
    fn handle_overflow(&mut self, _messages: u64) {}

    /// Fires what is due at `now`; harmless if nothing is.
    fn handle_timeout(&mut self, now: Instant);

    /// Appends datagrams for one peer to `out` and names that peer; `None`, and `out` as it was, when
    /// there is nothing to send before the next input or deadline.
    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<Self::Peer>;

    /// When [`Endpoint::handle_timeout`] must be called next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next thing that the application should know.
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// [`Endpoint::handle_datagrams`] for a machine to which they have nothing in common.
pub fn one_by_one<E: Endpoint + ?Sized>(
    endpoint: &mut E,
    now: Instant,
    peer: E::Peer,
    ecn: Ecn,
    bytes: &[u8],
    stride: usize,
) -> usize {
    if bytes.is_empty() {
        endpoint.handle_datagram(now, peer, ecn, bytes);
        return 1;
    }
    let datagrams = bytes.chunks(stride.max(1));
    let count = datagrams.len();
    for datagram in datagrams {
        endpoint.handle_datagram(now, peer, ecn, datagram);
    }
    count
}
