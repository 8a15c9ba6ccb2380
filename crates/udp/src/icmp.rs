//! ICMP errors reported to a socket: datagrams that the network or a host could not deliver.

use std::io;

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

/// Returns true if an ICMP message can cause this error. Such errors are transient: later datagrams
/// may arrive.
pub(crate) fn is_soft(error: &io::Error) -> bool {
    use io::ErrorKind;
    let kind = matches!(
        error.kind(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown
    );
    kind || error.raw_os_error().is_some_and(is_soft_number)
}

/// Returns true for the errors of the kernel's tables `icmp_err_convert` and `icmpv6_err_convert`
/// that have no [`io::ErrorKind`].
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
