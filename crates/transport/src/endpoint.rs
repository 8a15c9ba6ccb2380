//! Contract between a protocol state machine and its driver, for any protocol.

use std::time::Instant;

use crate::{Ecn, TransmitBuf};

/// Protocol state machine: datagrams and time in, datagrams and events out.
///
/// [`Sender`](crate::Sender) and [`ConnectionSet`](crate::ConnectionSet) implement it. A `Receiver`
/// does not: the set schedules the replies and timers of all its peers, also of a single one. The
/// type `Endpoint` of the crate `rdt-endpoint` is another thing: a UDP socket with its encrypted
/// connections.
///
/// Methods are of four kinds: `handle_*` take input, `poll_transmit` returns datagrams,
/// `poll_event` returns events for the application, and `poll_timeout` returns the time of the next
/// call.
///
/// A driver follows two rules, as [`drive::turn`](crate::drive::turn) does:
/// - `now` never goes backwards from call to call. The exception is [`Endpoint::handle_datagram`],
///   whose `now` is the time of arrival and may be earlier, by the time that the driver was busy.
/// - After any call that takes `&mut self`, the driver calls `poll_transmit` until it returns
///   `None`, and then waits for input or for [`Endpoint::poll_timeout`].
pub trait Endpoint {
    /// Address of a peer; `()` if there is only one.
    type Peer: Copy;
    /// Event for the application.
    type Event;

    /// Processes one datagram that arrived at `now` with the codepoint `ecn`. Invalid datagrams are
    /// counted; they cause no error and no panic. The call may overwrite `datagram`, so that an
    /// encrypted format can decrypt it in place.
    fn handle_datagram(&mut self, now: Instant, peer: Self::Peer, ecn: Ecn, datagram: &mut [u8]);

    /// Processes coalesced datagrams: `bytes` is their concatenation, each of `stride` bytes except
    /// for a shorter last one. Empty `bytes` are one empty datagram. Returns their number.
    ///
    /// The effect equals one call of [`Endpoint::handle_datagram`] for each, but an implementation
    /// may share work: a set computes the memory limit once, so an offered window may differ
    /// by the memory of the datagrams themselves.
    fn handle_datagrams(
        &mut self,
        now: Instant,
        peer: Self::Peer,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
        one_by_one(self, now, peer, ecn, bytes, stride)
    }

    /// Handles ICMP "port unreachable" errors for datagrams to a peer; `_reports` is their number
    /// since the last call. They can be forged by a host that guesses the ports, and the cause may
    /// be temporary. An endpoint with many peers may ignore them.
    fn handle_refused(&mut self, _now: Instant, _peer: Self::Peer, _reports: u64) {}

    /// Handles drops at the socket's full receive buffer; `_messages` is their number since the
    /// last call. The messages were lost in this host and not in the network. A message may have
    /// many coalesced datagrams, and their peer is unknown.
    fn handle_overflow(&mut self, _messages: u64) {}

    /// Handles timers that are due at `now`. Has no effect if none is.
    fn handle_timeout(&mut self, now: Instant);

    /// Appends datagrams for one peer to `out` and returns that peer. Returns `None` and leaves
    /// `out` unchanged if there is nothing to send before the next input or timeout.
    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<Self::Peer>;

    /// Returns the time of the next call of [`Endpoint::handle_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns the next event for the application.
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// Implements [`Endpoint::handle_datagrams`] by a call of [`Endpoint::handle_datagram`] for each.
pub fn one_by_one<E: Endpoint + ?Sized>(
    endpoint: &mut E,
    now: Instant,
    peer: E::Peer,
    ecn: Ecn,
    bytes: &mut [u8],
    stride: usize,
) -> usize {
    if bytes.is_empty() {
        endpoint.handle_datagram(now, peer, ecn, bytes);
        return 1;
    }
    let datagrams = bytes.chunks_mut(stride.max(1));
    let count = datagrams.len();
    for datagram in datagrams {
        endpoint.handle_datagram(now, peer, ecn, datagram);
    }
    count
}
