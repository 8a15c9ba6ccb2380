//! Connecting to a peer with several addresses: to the first one that answers (RFC 8305).

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rdt_transport::{Closed, ConnectionId};

use crate::config::Connect;
use crate::core::Shared;
use crate::error::ConnectError;

/// Head start of an address before the next one is tried too (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Time for an answer from an address while there are others, at the first attempt: two SYNs. Also
/// the time for the other addresses after one has refused without a proof.
pub const ADDRESS_GIVE_UP: Duration = Duration::from_secs(3);

/// Failed handshake at one address, classified by what it tells about the other addresses of the
/// peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// There was no answer: another address may give one.
    NoAnswer,
    /// No program listens at this address: another address may answer.
    NoProgram,
    /// The answer has no proof, so another address may still lead to the peer. A private address of
    /// a ticket may belong to another host in the client's network.
    Unproved,
    /// The peer itself answered, so another address would give the same answer.
    Final,
}

impl AttemptEnd {
    /// Classifies the end of a connection before it was open.
    pub fn of(closed: &Closed) -> Self {
        match closed {
            Closed::TimedOut(_) | Closed::Idle => Self::NoAnswer,
            Closed::Unreachable => Self::NoProgram,
            Closed::Refused(reason) if !reason.is_proved() => Self::Unproved,
            Closed::Version(_) => Self::Unproved,
            _ => Self::Final,
        }
    }
}

/// Binds a socket by `bind` that reaches these addresses. A host without IPv6 may still have IPv6
/// addresses of its peer, and reaches only the others.
pub fn bind_towards<T, E>(
    addresses: &[SocketAddr],
    bind: impl Fn(SocketAddr) -> Result<T, E>,
) -> Result<T, E> {
    let ipv4 = || bind((Ipv4Addr::UNSPECIFIED, 0).into());
    if !addresses.iter().any(SocketAddr::is_ipv6) {
        return ipv4();
    }
    match bind((Ipv6Addr::UNSPECIFIED, 0).into()) {
        Err(_) if addresses.iter().any(SocketAddr::is_ipv4) => ipv4(),
        result => result,
    }
}

/// Attempts to connect, each with a handle `S`, whose drop gives it up. The addresses are tried in
/// order, each some time after the one before, or once all attempts so far have failed. The first
/// connection wins. A refusal without a proof fails the race only if no other address answers.
pub(crate) struct Race<S> {
    connect: Connect,
    rest: VecDeque<SocketAddr>,
    attempts: Vec<(ConnectionId, S)>,
    /// Time at which the next address is tried.
    next_at: Option<Instant>,
    /// First refusal without a proof, and the time until which another address may answer.
    refusal: Option<(Instant, ConnectError)>,
    /// Newest other failure.
    last: Option<ConnectError>,
}

impl<S> Race<S> {
    /// Begins with the addresses that a socket bound to `local` reaches.
    pub(crate) fn new(local: SocketAddr, addresses: &[SocketAddr], connect: Connect) -> Self {
        let reached = addresses.iter().copied().filter(|address| reaches(local, *address));
        Self {
            connect,
            rest: interleaved(reached.collect()),
            attempts: Vec::new(),
            next_at: None,
            refusal: None,
            last: None,
        }
    }

    /// Ready with the first connection, or the failure. `handle` makes the handle of an attempt.
    pub(crate) fn poll(
        &mut self,
        shared: &Shared,
        cx: &Context<'_>,
        handle: impl Fn(ConnectionId) -> S,
    ) -> Poll<Result<S, ConnectError>> {
        loop {
            let now = (shared.clock)();
            if self.attempts.is_empty() || self.next_at.is_some_and(|at| at <= now) {
                self.begin_next(now, shared, &handle)?;
            }
            let had = self.attempts.len();
            if let Some(connected) = self.poll_attempts(now, shared, cx)? {
                return Poll::Ready(Ok(connected));
            }
            let is_late = self.refusal.as_ref().is_some_and(|(until, _)| *until <= now);
            if is_late || self.attempts.is_empty() && self.rest.is_empty() {
                return Poll::Ready(Err(self.failure()));
            }
            // A failed attempt says that the next address is to be tried at once.
            if self.attempts.len() < had && !self.rest.is_empty() {
                self.next_at = Some(now);
                continue;
            }
            let deadlines = [self.next_at, self.refusal.as_ref().map(|(until, _)| *until)];
            if let Some(at) = deadlines.into_iter().flatten().min() {
                shared.with(|core, _| core.set_alarm(at, cx));
            }
            return Poll::Pending;
        }
    }

    fn begin_next(
        &mut self,
        now: Instant,
        shared: &Shared,
        handle: impl Fn(ConnectionId) -> S,
    ) -> Result<(), ConnectError> {
        if let Some(address) = self.rest.pop_front() {
            let connect = self.connect.clone();
            let id = shared.with(|core, now| core.connect(now, address, connect))?;
            self.attempts.push((id, handle(id)));
        }
        self.next_at = (!self.rest.is_empty()).then_some(now + ATTEMPT_DELAY);
        Ok(())
    }

    /// Returns the connection of the first attempt that has one, and removes attempts that failed.
    fn poll_attempts(
        &mut self,
        now: Instant,
        shared: &Shared,
        cx: &Context<'_>,
    ) -> Result<Option<S>, ConnectError> {
        let mut at = 0;
        while let Some((id, _)) = self.attempts.get(at) {
            match shared.with(|core, _| core.poll_connected(*id, cx)) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(())) => return Ok(Some(self.attempts.remove(at).1)),
                Poll::Ready(Err(error)) => {
                    self.attempts.remove(at);
                    self.note(now, error.into())?;
                }
            }
        }
        Ok(None)
    }

    /// Notes the failure of an attempt.
    fn note(&mut self, now: Instant, error: ConnectError) -> Result<(), ConnectError> {
        match error.closed().map_or(AttemptEnd::Final, AttemptEnd::of) {
            AttemptEnd::Final => return Err(error),
            AttemptEnd::Unproved if self.refusal.is_none() => {
                self.refusal = Some((now + ADDRESS_GIVE_UP, error));
            }
            _ => self.last = Some(error),
        }
        Ok(())
    }

    fn failure(&mut self) -> ConnectError {
        let refusal = self.refusal.take().map(|(_, error)| error);
        refusal.or(self.last.take()).unwrap_or_else(|| {
            let kind = io::ErrorKind::AddrNotAvailable;
            io::Error::new(kind, "the peer has no address that this socket reaches").into()
        })
    }
}

/// Returns whether packets from `local` can reach an address. An IPv6 wildcard takes IPv4 too.
fn reaches(local: SocketAddr, address: SocketAddr) -> bool {
    match (local, address) {
        (SocketAddr::V4(_), SocketAddr::V6(to)) => to.ip().to_ipv4_mapped().is_some(),
        (SocketAddr::V6(from), SocketAddr::V4(_)) => {
            from.ip().is_unspecified() || from.ip().to_ipv4_mapped().is_some()
        }
        _ => true,
    }
}

/// Alternates between the families of addresses, beginning with that of the first one (RFC 8305,
/// section 4).
fn interleaved(addresses: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let is_ipv4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == is_ipv4);
    let longest = first.len().max(second.len());
    (0..longest).flat_map(|at| [first.get(at), second.get(at)]).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_alternate_from_first_address() {
        let v6 = ["[2001:db8::1]:5", "[2001:db8::2]:5", "[2001:db8::3]:5"].map(address);
        let v4 = ["192.0.2.1:5", "192.0.2.2:5"].map(address);
        assert_eq!(interleaved([&v6[..], &v4].concat()), [v6[0], v4[0], v6[1], v4[1], v6[2]]);
        assert_eq!(interleaved([&v4[..], &v6[..1]].concat()), [v4[0], v6[0], v4[1]]);
        assert!(interleaved(Vec::new()).is_empty());
    }

    #[test]
    fn sockets_reach_their_family() {
        let [v4, mapped, v6] = ["192.0.2.1:5", "[::ffff:192.0.2.1]:5", "[2001:db8::1]:5"].map(address);
        for (local, expected) in [
            ("0.0.0.0:1", [true, true, false]),
            ("[::]:1", [true, true, true]),
            ("[::1]:1", [false, true, true]),
        ] {
            assert_eq!([v4, mapped, v6].map(|to| reaches(address(local), to)), expected, "{local}");
        }
    }

    #[test]
    fn host_without_ipv6_uses_ipv4_addresses() {
        let without_ipv6 = |any: SocketAddr| if any.is_ipv6() { Err(()) } else { Ok(any) };
        let [v4, v6] = ["192.0.2.1:5", "[2001:db8::1]:5"].map(address);
        for addresses in [&[v4][..], &[v6, v4], &[v4, v6]] {
            assert!(bind_towards(addresses, without_ipv6).unwrap().is_ipv4());
        }
        assert_eq!(bind_towards(&[v6], without_ipv6), Err(()));
        assert!(bind_towards(&[v4, v6], Ok::<_, ()>).unwrap().is_ipv6());
    }
}
