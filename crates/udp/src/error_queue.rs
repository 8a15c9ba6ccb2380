//! Error queue of a socket (`IP_RECVERR`, Linux): ICMP errors, each with the destination of the
//! datagram that caused it. quinn-udp returns the host that reported the error instead, without a
//! port.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use socket2::{SockAddr, SockAddrStorage};

use crate::recvmmsg::{Control, control_messages};

/// "Destination unreachable" of ICMP, and its code "fragmentation needed", which is no failure of
/// the destination (RFC 792).
const ICMP_UNREACHABLE: u8 = 3;
const ICMP_FRAGMENTATION_NEEDED: u8 = 4;
/// "Destination unreachable" of `ICMPv6` (RFC 4443, section 3.1).
const ICMP6_UNREACHABLE: u8 = 1;

/// Entry of the error queue.
#[derive(Debug)]
pub(crate) struct Report {
    /// Destination of the datagram that caused the error.
    pub(crate) destination: Option<SocketAddr>,
    /// Number of the error.
    pub(crate) error: i32,
    /// False for an error of this host, and for a datagram that was too long.
    pub(crate) is_unreachable: bool,
}

/// Removes the oldest entry of the error queue; `None` if it is empty.
#[expect(unsafe_code, reason = "rustix has no error queue")]
pub(crate) fn take(socket: &UdpSocket) -> io::Result<Option<Report>> {
    let mut name = SockAddrStorage::zeroed();
    let mut control = Control::new();
    // The kernel returns the beginning of the datagram that caused the error.
    let mut byte = [0_u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    // SAFETY: plain C data, for which all zeros is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = name.size_of();
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    control.attach(&mut header);
    loop {
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the descriptor is open as long as `socket` is borrowed. The header points to
        // storage that outlives the call, with the lengths given here.
        if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) } >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Ok(None),
            _ => return Err(error),
        }
    }
    // SAFETY: the kernel has written an address of this length, or the storage is zero.
    let destination = unsafe { SockAddr::new(name, header.msg_namelen) }.as_socket();
    let mut report = Report { destination, error: 0, is_unreachable: false };
    // SAFETY: the kernel has filled the control messages to which the header points.
    let messages = unsafe { control_messages(&header) };
    for message in messages {
        let kinds = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
        if kinds.contains(&message.kind())
            && let Some(error) = message.value::<libc::sock_extended_err>()
        {
            report.error = i32::try_from(error.ee_errno).unwrap_or_default();
            report.is_unreachable = match (error.ee_origin, error.ee_type, error.ee_code) {
                (libc::SO_EE_ORIGIN_ICMP, ICMP_UNREACHABLE, code) => code != ICMP_FRAGMENTATION_NEEDED,
                (libc::SO_EE_ORIGIN_ICMP6, ICMP6_UNREACHABLE, _) => true,
                _ => false,
            };
        }
    }
    Ok(Some(report))
}
