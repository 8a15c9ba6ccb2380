//! What a socket's error means for a transfer.

use std::io;

/// A socket that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Binding failed.
    #[error("cannot bind to {address}: {error}")]
    Bind {
        /// As asked for.
        address: std::net::SocketAddr,
        /// As the operating system says.
        error: io::Error,
    },
    /// The operating system refuses to send to the peer, and trying again will not help.
    #[error("cannot send: {0}")]
    Send(io::Error),
    /// Reading or waiting failed.
    #[error("cannot receive: {0}")]
    Receive(io::Error),
}

/// What one failed send means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendFailure {
    /// The socket's buffer is full: keep the batch.
    WouldBlock,
    /// An earlier datagram was answered by "unreachable": nothing is wrong with this one.
    Unreachable,
    /// The same, or the reason why this one cannot leave: which of them, the socket's reports tell.
    Soft,
    /// The kernel had no memory for it: the datagram is lost.
    NoBuffers,
    /// Longer than the interface can carry: the datagram is lost, and so will be every other of its size.
    TooBig,
    /// The kernel or the card refuses segmentation offload: send the datagrams one by one.
    Offload,
    /// The network, or a rule of this host, refuses: lost, and perhaps not the next one.
    Refused,
}

/// Names a failed send. `batched` says that it had more than one segment.
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

/// What one failed read means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    /// There is nothing to read.
    WouldBlock,
    /// Something that was sent did not arrive, and the network, or a host, says why: no reason to end (RFC 1122, section
    /// 4.2.3.9). Whoever waits for an answer knows when to give up.
    Unreachable,
    /// The socket is of no use any more.
    Fatal,
}

/// Names a failed read.
pub(crate) fn classify_read(error: &io::Error) -> ReadFailure {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::WouldBlock => ReadFailure::WouldBlock,
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => ReadFailure::Unreachable,
        // That an earlier datagram was too long is a report, too.
        _ if is_soft(error) || quinn_udp::is_msg_size_err(error) => ReadFailure::Unreachable,
        _ => ReadFailure::Fatal,
    }
}

/// True if the network made this error of a message of ICMP, or could have: it may pass, and other datagrams may arrive.
fn is_soft(error: &io::Error) -> bool {
    use io::ErrorKind;
    let kind = matches!(
        error.kind(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown
    );
    kind || error.raw_os_error().is_some_and(is_soft_number)
}

/// Those of the kernel's tables (`icmp_err_convert`, and for IPv6 `icmpv6_err_convert`) that have no kind of their own.
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

/// ENOBUFS on Linux, on macOS and the BSDs, and on Windows; std has no kind for it.
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

/// EIO from a card that cannot, EINVAL from a kernel or a route that cannot (Linux: the only system with
/// segmentation offload that may fail late).
fn is_offload_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(5 | 22))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_to_lose_a_datagram_are_told_from_reasons_to_stop() {
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
    fn linux_error_numbers() {
        let os = |code| classify(&io::Error::from_raw_os_error(code), false);
        assert_eq!(os(105), SendFailure::NoBuffers);
        assert_eq!(os(90), SendFailure::TooBig);
        assert_eq!(os(1), SendFailure::Refused);
        assert_eq!((os(113), os(13)), (SendFailure::Soft, SendFailure::Soft));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_network_reports_ends_no_reading_and_what_the_socket_says_of_itself_does() {
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
