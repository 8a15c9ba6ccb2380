//! ICMP errors reported to a socket: datagrams that the network or a host could not deliver.

use std::io;
use std::net::SocketAddr;

/// Limit of destinations in [`RefusedPeers`]. Later ones are not named.
const MAX_REFUSED_PEERS: usize = 64;

/// Destinations at which no socket listens, by port-unreachable errors, and the number of errors.
#[derive(Debug, Default)]
pub(crate) struct RefusedPeers(Vec<(SocketAddr, u64)>);

impl RefusedPeers {
    #[cfg_attr(not(linux_api), expect(dead_code, reason = "other systems do not name the destination"))]
    pub(crate) fn note(&mut self, peer: SocketAddr) {
        if let Some((_, reports)) = self.0.iter_mut().find(|(known, _)| *known == peer) {
            *reports += 1;
        } else if self.0.len() < MAX_REFUSED_PEERS {
            self.0.push((peer, 1));
        }
    }

    /// Removes a destination and the number of its errors.
    pub(crate) fn take(&mut self) -> Option<(SocketAddr, u64)> {
        self.0.pop()
    }
}

/// Number of ICMP errors read together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IcmpErrors {
    /// Port unreachable errors: no socket at the destination.
    pub(crate) refused: u64,
    /// Other errors: no route to the destination.
    pub(crate) no_route: u64,
    pub(crate) newest_is_no_route: bool,
}

impl IcmpErrors {
    /// Adds `error`, which is newer than all others.
    pub(crate) fn note(&mut self, error: &io::Error) {
        use io::ErrorKind;
        self.newest_is_no_route =
            !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset);
        *if self.newest_is_no_route { &mut self.no_route } else { &mut self.refused } += 1;
    }

    pub(crate) fn or(mut self, error: &io::Error) -> Self {
        if self.count() == 0 {
            self.note(error);
        }
        self
    }

    pub(crate) fn count(&self) -> u64 {
        self.refused + self.no_route
    }
}

/// True for errors that ICMP messages cause: they are transient, and later datagrams may arrive.
pub(crate) fn is_soft(error: &io::Error) -> bool {
    use io::ErrorKind;
    let kind = matches!(
        error.kind(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown
    );
    kind || error.raw_os_error().is_some_and(is_soft_number)
}

/// True for errors of `icmp_err_convert` and `icmpv6_err_convert` that have no [`io::ErrorKind`].
#[cfg(target_os = "linux")]
fn is_soft_number(number: i32) -> bool {
    matches!(
        number,
        libc::ENOPROTOOPT | libc::EHOSTDOWN | libc::ENONET | libc::EOPNOTSUPP | libc::EPROTO | libc::EACCES
    )
}

#[cfg(not(target_os = "linux"))]
fn is_soft_number(_: i32) -> bool {
    false
}
