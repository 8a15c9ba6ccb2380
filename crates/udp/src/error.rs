//! Socket errors, and the meaning of each failed send or read.

use std::fmt;
use std::io;

use crate::Shown;
use crate::icmp::is_soft;

/// Error that makes a socket unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Binding failed.
    #[error("cannot bind to {}: {}", Shown(*address), BindReason(error))]
    Bind {
        /// Address that was requested.
        address: std::net::SocketAddr,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The operating system refuses to send to the peer, and a retry would fail too.
    #[error("cannot send: {0}")]
    Send(io::Error),
    /// Reading from the socket or waiting for it failed.
    #[error("cannot receive: {0}")]
    Receive(io::Error),
}

impl SocketError {
    /// Returns the kind of the operating system's error.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Bind { error, .. } | Self::Send(error) | Self::Receive(error) => error.kind(),
        }
    }
}

impl From<SocketError> for io::Error {
    /// Returns the error of the operating system.
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Bind { error, .. } | SocketError::Send(error) | SocketError::Receive(error) => error,
        }
    }
}

/// Reason why an address cannot be bound, with a remedy.
struct BindReason<'a>(&'a io::Error);

impl fmt::Display for BindReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.kind() {
            io::ErrorKind::AddrInUse => "another program uses it; choose another port, or 0 for a free one",
            io::ErrorKind::AddrNotAvailable => "this host does not have the address",
            io::ErrorKind::InvalidInput => "the address wants a zone, as [fe80::1%eth0]:22345",
            io::ErrorKind::PermissionDenied => "this user may not; ports from 1024 on are for everyone",
            _ => return self.0.fmt(f),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendFailure {
    /// The send buffer is full: the batch must be sent later.
    WouldBlock,
    /// ICMP port unreachable of an earlier datagram. This one was not sent, and may be retried.
    Unreachable,
    /// ICMP error of an earlier datagram or refusal of this one: the error queue shows which.
    Soft,
    /// The kernel had no memory: the datagram is lost.
    NoBuffers,
    /// Longer than the interface MTU: the datagram is lost, and others of its size would be too.
    TooBig,
    /// The kernel or the network card refuses segmentation offload: send datagrams one by one.
    Offload,
    /// Refused by the network or a local rule: lost, but the next one may be accepted.
    Refused,
}

/// Classifies a failed send. `batched` is true if it had more than one segment.
pub(crate) fn classify(error: &io::Error, batched: bool) -> SendFailure {
    use io::ErrorKind;
    if quinn_udp::is_msg_size_err(error) {
        return SendFailure::TooBig;
    }
    match error.kind() {
        ErrorKind::WouldBlock => SendFailure::WouldBlock,
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => SendFailure::Unreachable,
        _ if is_soft(error) => SendFailure::Soft,
        ErrorKind::OutOfMemory => SendFailure::NoBuffers,
        _ if is_no_buffers(error) => SendFailure::NoBuffers,
        _ if batched && is_offload_refused(error) => SendFailure::Offload,
        _ => SendFailure::Refused,
    }
}

/// True if the host will never send to this address: EINVAL (an IPv6 address without its zone),
/// EACCES (a broadcast address). Without a route or against a rule of a firewall it may send later.
pub(crate) fn is_lasting(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || error.raw_os_error() == Some(13)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    WouldBlock,
    /// ICMP error of a sent datagram: the transfer goes on until it times out (RFC 1122, 4.2.3.9).
    Unreachable,
    Fatal,
}

pub(crate) fn classify_read(error: &io::Error) -> ReadFailure {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::WouldBlock => ReadFailure::WouldBlock,
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => ReadFailure::Unreachable,
        // EMSGSIZE reports that an earlier datagram was too long.
        _ if is_soft(error) || quinn_udp::is_msg_size_err(error) => ReadFailure::Unreachable,
        _ => ReadFailure::Fatal,
    }
}

/// True for ENOBUFS, which has no [`io::ErrorKind`], by its number on Linux, Windows and the BSDs.
fn is_no_buffers(error: &io::Error) -> bool {
    let code = if cfg!(target_os = "linux") {
        105
    } else if cfg!(windows) {
        10055
    } else {
        55
    };
    error.raw_os_error() == Some(code)
}

/// Returns true for EIO (the network card cannot segment) and EINVAL (the kernel or the route
/// cannot). Other systems than Linux never refuse offload after they announced it.
fn is_offload_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(5 | 22))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bind_errors_say_the_address_once() {
        let sentence = |address: &str, code| {
            let (address, error) = (address.parse().unwrap(), io::Error::from(code));
            SocketError::Bind { address, error }.to_string()
        };
        let in_use =
            "cannot bind to 127.0.0.1:5: another program uses it; choose another port, or 0 for a free one";
        assert_eq!(sentence("127.0.0.1:5", io::ErrorKind::AddrInUse), in_use);
        let zoneless = sentence("[fe80::1]:5", io::ErrorKind::InvalidInput);
        assert_eq!(zoneless, "cannot bind to [fe80::1]:5: the address wants a zone, as [fe80::1%eth0]:22345");
        assert_eq!(sentence("[::1]:5", io::ErrorKind::OutOfMemory), "cannot bind to [::1]:5: out of memory");
    }

    #[test]
    fn send_errors_are_classified() {
        let kind = |kind| classify(&io::Error::from(kind), false);
        assert_eq!(kind(io::ErrorKind::WouldBlock), SendFailure::WouldBlock);
        assert_eq!(kind(io::ErrorKind::ConnectionRefused), SendFailure::Unreachable);
        assert_eq!(kind(io::ErrorKind::NetworkUnreachable), SendFailure::Soft);
        let batched = |code| classify(&io::Error::from_raw_os_error(code), true);
        assert_eq!((batched(5), batched(22)), (SendFailure::Offload, SendFailure::Offload));
        assert_eq!(
            batched(1),
            SendFailure::Refused,
            "a rule against one peer is no reason to change for all"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_send_errors_are_classified() {
        let os = |code| classify(&io::Error::from_raw_os_error(code), false);
        assert_eq!(os(105), SendFailure::NoBuffers);
        assert_eq!(os(90), SendFailure::TooBig);
        assert_eq!(os(1), SendFailure::Refused);
        assert_eq!((os(113), os(13)), (SendFailure::Soft, SendFailure::Soft));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn icmp_errors_do_not_end_reading() {
        use libc::{
            EACCES, EBADF, ECONNREFUSED, ECONNRESET, EFAULT, EHOSTDOWN, EHOSTUNREACH, EINVAL, EIO, EMSGSIZE,
        };
        use libc::{
            ENETDOWN, ENETUNREACH, ENOMEM, ENONET, ENOPROTOOPT, ENOTCONN, ENOTSOCK, EOPNOTSUPP, EPERM, EPROTO,
        };
        let os = |code| classify_read(&io::Error::from_raw_os_error(code));
        assert_eq!(os(libc::EAGAIN), ReadFailure::WouldBlock);
        let reports = [
            ECONNREFUSED,
            ECONNRESET,
            EHOSTUNREACH,
            ENETUNREACH,
            ENETDOWN,
            EHOSTDOWN,
            ENONET,
            ENOPROTOOPT,
            EOPNOTSUPP,
            EPROTO,
            EACCES,
            EMSGSIZE,
        ];
        for code in reports {
            assert_eq!(os(code), ReadFailure::Unreachable, "error {code}");
        }
        for code in [EBADF, ENOTCONN, ENOTSOCK, ENOMEM, EFAULT, EINVAL, EIO, EPERM] {
            assert_eq!(os(code), ReadFailure::Fatal, "error {code}");
        }
    }
}
