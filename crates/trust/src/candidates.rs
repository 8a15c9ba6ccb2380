//! Addresses of one peer: which of them to try, for how long, and which failure counts.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use rdt_endpoint::{ADDRESS_GIVE_UP, AttemptEnd};

/// One attempt to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Address to try.
    pub address: SocketAddr,
    /// Time for an answer.
    pub give_up: Duration,
}

/// Addresses that are tried in turn until one answers. Addresses without an answer are tried again,
/// each round for twice the time of the round before, because an answer takes longer than the first
/// attempt on a path with loss or with a long round trip.
#[derive(Debug)]
pub struct Candidates<F> {
    /// Addresses to try in this round.
    round: VecDeque<SocketAddr>,
    /// Addresses to try in the next round.
    silent: VecDeque<SocketAddr>,
    current: Attempt,
    /// Time for an answer in this round.
    attempt_time: Duration,
    /// `None`: never.
    give_up_at: Option<Instant>,
    /// First refusal without a proof, and its address.
    refusal: Option<(SocketAddr, F)>,
}

impl<F> Candidates<F> {
    /// Begins with the first address. All attempts together end after `give_up`. `None` without an
    /// address.
    pub fn new(now: Instant, addresses: &[SocketAddr], give_up: Duration) -> Option<Self> {
        let mut round: VecDeque<_> = addresses.iter().copied().collect();
        let address = round.pop_front()?;
        let mut candidates = Self {
            round,
            silent: VecDeque::new(),
            current: Attempt { address, give_up },
            attempt_time: ADDRESS_GIVE_UP,
            give_up_at: now.checked_add(give_up),
            refusal: None,
        };
        candidates.set_current(now, address);
        Some(candidates)
    }

    /// Returns the present attempt.
    pub fn current(&self) -> Attempt {
        self.current
    }

    /// Returns the next attempt after the end of the present one, which failed by `failure`.
    ///
    /// # Errors
    ///
    /// If it was the last one: the failure of all attempts, and its address. A refusal says more
    /// than addresses without an answer.
    pub fn next(&mut self, now: Instant, end: AttemptEnd, failure: F) -> Result<Attempt, (SocketAddr, F)> {
        let failed = (self.current.address, failure);
        match end {
            AttemptEnd::Final => return Err(failed),
            AttemptEnd::NoAnswer => self.silent.push_back(failed.0),
            AttemptEnd::NoProgram | AttemptEnd::Unproved => {}
        }
        let is_refused = end == AttemptEnd::Unproved || self.refusal.is_some();
        // After a refusal, the addresses that were not tried yet are tried once.
        if self.round.is_empty() && !is_refused {
            self.attempt_time = self.attempt_time.saturating_mul(2);
            self.round = std::mem::take(&mut self.silent);
        }
        let is_over = self.give_up_at.is_some_and(|at| at <= now);
        let failure = self.refusal.take().unwrap_or(failed);
        let Some(address) = self.round.pop_front().filter(|_| !is_over) else { return Err(failure) };
        self.refusal = is_refused.then_some(failure);
        self.set_current(now, address);
        Ok(self.current)
    }

    fn set_current(&mut self, now: Instant, address: SocketAddr) {
        let rest = self.give_up_at.map_or(Duration::MAX, |at| at.saturating_duration_since(now));
        let is_only = self.round.is_empty() && self.silent.is_empty() && self.refusal.is_none();
        let give_up = if is_only { rest } else { rest.min(self.attempt_time) };
        self.current = Attempt { address, give_up };
    }
}

/// Binds a socket by `bind` to the address that was asked for, else to this port of all interfaces:
/// of IPv4 alone if the host has no IPv6.
pub fn bind_or_any<T>(
    asked: Option<SocketAddr>,
    port: u16,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<T, (SocketAddr, io::Error)> {
    if let Some(address) = asked {
        return bind(address).map_err(|error| (address, error));
    }
    let [ipv6, ipv4] = [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    match bind(ipv6) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err((ipv6, error)),
        Err(_) => bind(ipv4).map_err(|error| (ipv4, error)),
        Ok(bound) => Ok(bound),
    }
}

#[cfg(test)]
mod tests {
    use rdt_transport::wire::native::Versions;
    use rdt_transport::{Closed, Phase, RefuseReason};

    use super::*;

    const SILENT: Closed = Closed::TimedOut(Phase::Connect);
    const SECRET: Closed = Closed::Refused(RefuseReason::Secret);

    fn addresses(count: u8) -> Vec<SocketAddr> {
        (1..=count).map(|last| SocketAddr::from(([192, 0, 2, last], 5))).collect()
    }

    /// Addresses in the order of the attempts, by their last byte, and the seconds of each attempt.
    /// `end_of` returns the end of an attempt, and the time that it took.
    fn attempts(
        count: u8,
        give_up: Duration,
        end_of: impl Fn(u8, Duration) -> (Closed, Duration),
    ) -> (Vec<(u8, u64)>, (u8, Closed)) {
        let last_byte = |address: SocketAddr| match address {
            SocketAddr::V4(address) => address.ip().octets()[3],
            SocketAddr::V6(_) => 0,
        };
        let mut now = rdt_testing::epoch();
        let mut candidates = Candidates::new(now, &addresses(count), give_up).unwrap();
        let mut found = Vec::new();
        loop {
            let Attempt { address, give_up } = candidates.current();
            found.push((last_byte(address), give_up.as_secs()));
            let (closed, took) = end_of(last_byte(address), give_up);
            now += took;
            if let Err((address, closed)) = candidates.next(now, AttemptEnd::of(&closed), closed) {
                return (found, (last_byte(address), closed));
            }
        }
    }

    #[test]
    fn silent_addresses_are_tried_again_for_longer() {
        let (found, failure) = attempts(2, Duration::from_secs(30), |_, give_up| (SILENT, give_up));
        assert_eq!(found, [(1, 3), (2, 3), (1, 6), (2, 6), (1, 12)]);
        assert_eq!(failure, (1, SILENT));
        let (found, _) = attempts(1, Duration::from_secs(30), |_, give_up| (SILENT, give_up));
        assert_eq!(found, [(1, 30)]);
    }

    #[test]
    fn address_without_program_is_tried_once() {
        let end = |address, give_up| match address {
            1 => (Closed::Unreachable, Duration::from_secs(1)),
            _ => (SILENT, give_up),
        };
        let (found, _) = attempts(2, Duration::from_secs(60), end);
        assert_eq!(found, [(1, 3), (2, 59)]);
        let (found, failure) =
            attempts(2, Duration::from_secs(60), |_, _| (Closed::Unreachable, Duration::from_secs(1)));
        assert_eq!((found.len(), failure), (2, (2, Closed::Unreachable)));
    }

    /// The other addresses get one attempt each, and the refusal is the failure.
    #[test]
    fn refusal_without_proof_is_not_final() {
        for refusal in [SECRET, Closed::Version(Versions::OURS)] {
            let end = |address, give_up| match address {
                2 => (refusal.clone(), Duration::ZERO),
                _ => (SILENT, give_up),
            };
            let (found, failure) = attempts(3, Duration::from_secs(60), end);
            assert_eq!(found, [(1, 3), (2, 3), (3, 3)]);
            assert_eq!(failure, (2, refusal.clone()));
        }
    }

    #[test]
    fn answer_of_peer_is_final() {
        for closed in [Closed::Refused(RefuseReason::NotAdmitted), Closed::Handshake] {
            let end = |address, _| match address {
                1 => (SECRET, Duration::ZERO),
                _ => (closed.clone(), Duration::ZERO),
            };
            let (found, failure) = attempts(3, Duration::from_secs(60), end);
            assert_eq!((found, failure), (vec![(1, 3), (2, 3)], (2, closed.clone())));
        }
    }

    #[test]
    fn host_without_ipv6_listens_on_ipv4() {
        let without_ipv6 = |any: SocketAddr| {
            if any.is_ipv6() { Err(io::ErrorKind::Unsupported.into()) } else { Ok(any) }
        };
        assert_eq!(bind_or_any(None, 5, without_ipv6).unwrap(), "0.0.0.0:5".parse().unwrap());
        assert_eq!(bind_or_any(None, 5, Ok).unwrap(), "[::]:5".parse().unwrap());
        let in_use = |_| Err::<(), _>(io::ErrorKind::AddrInUse.into());
        assert!(bind_or_any(None, 5, in_use).unwrap_err().0.is_ipv6());
    }
}
