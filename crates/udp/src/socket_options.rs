//! Socket options: those that a user chooses, and those that this crate requests from the kernel.
//! Drop counter, receive offload, fragmentation, segment size and ECN codepoint have no safe
//! wrapper; they are set on Linux only, and other systems use their defaults.

use std::io;
use std::net::UdpSocket;

use socket2::Socket as RawSocket;

/// Options of a socket.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each of which a user may turn")]
pub struct UdpOptions {
    /// Requested receive buffer, bytes.
    pub receive_buffer: usize,
    /// Requested send buffer, bytes.
    pub send_buffer: usize,
    /// Send with segmentation offload (GSO), if the system supports it.
    pub gso: bool,
    /// Receive with offload (GRO), if the system supports it.
    pub gro: bool,
    /// Send large batches by reference (zero-copy), if the system supports it and the socket has
    /// one peer. Faster for a connection that has a processor and its cache to itself. With 64
    /// connections in one thread, copying is faster.
    pub by_reference: bool,
    /// Let this user's other sockets bind to the same port. The system distributes the peers.
    pub share_port: bool,
}

impl Default for UdpOptions {
    /// Returns 32 MiB in each direction (the kernel may grant less), offloads on, zero-copy off.
    fn default() -> Self {
        Self {
            receive_buffer: 32 << 20,
            send_buffer: 32 << 20,
            gso: true,
            gro: true,
            by_reference: false,
            share_port: false,
        }
    }
}

/// Requests buffer sizes; [`UdpStats`](crate::UdpStats) reports those granted. A receive buffer
/// smaller than the senders' windows overflows whenever the receiver is not scheduled for a moment,
/// so a privileged process requests more than the system's limit.
pub(crate) fn request_buffers(socket: &RawSocket, options: &UdpOptions) {
    let _ = socket.set_send_buffer_size(options.send_buffer);
    #[cfg(linux_api)]
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, options.receive_buffer).is_ok() {
        return;
    }
    let _ = socket.set_recv_buffer_size(options.receive_buffer);
}

/// Returns the number of messages dropped since the socket was created because its receive buffer
/// was full, modulo 2^32. Includes messages with a wrong checksum, and counts a coalesced (GRO)
/// message once. `None` if the system does not report it.
#[cfg(linux_api)]
#[expect(unsafe_code, reason = "SO_MEMINFO has no safe wrapper")]
pub(crate) fn receive_overflow(socket: &UdpSocket) -> Option<u64> {
    use std::os::fd::AsRawFd;
    /// Index of the drop counter (`SK_MEMINFO_DROPS`), the last of nine values.
    const DROPS: usize = 8;
    let mut values = [0_u32; DROPS + 1];
    let mut length = libc::socklen_t::try_from(size_of_val(&values)).ok()?;
    // SAFETY: the descriptor is open as long as `socket` is borrowed. The kernel writes at most
    // `length` bytes to `values`, and the number written to `length`; both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let complete = usize::try_from(length).is_ok_and(|n| n >= size_of_val(&values));
    (result == 0 && complete).then(|| u64::from(values[DROPS]))
}

#[cfg(not(linux_api))]
pub(crate) fn receive_overflow(_socket: &UdpSocket) -> Option<u64> {
    None
}

/// Sets the options of a new socket, as far as the kernel has them. Returns true if it receives
/// with offload (GRO), which `gro` asks for.
///
/// `SO_RXQ_OVFL` makes the kernel report its drop counter with each message. Fragmentation by this
/// host and by routers is allowed, as the classic programs do, so that 9000-byte packets can be
/// sent over Ethernet.
#[cfg(linux_api)]
pub(crate) fn prepare(socket: &UdpSocket, gro: bool) -> bool {
    let _ = set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT);
    if socket.local_addr().is_ok_and(|address| address.is_ipv6()) {
        let _ = set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT);
        let _ = set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0);
    }
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    gro || set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 0).is_err()
}

#[cfg(not(linux_api))]
pub(crate) fn prepare(_socket: &UdpSocket, gro: bool) -> bool {
    gro
}

/// Forbids fragmentation. A datagram larger than the path MTU fails with `EMSGSIZE`.
///
/// # Errors
/// The kernel does not have the option.
#[cfg(linux_api)]
pub fn forbid_fragments(socket: &UdpSocket) -> io::Result<()> {
    let v6 = socket.local_addr()?.is_ipv6();
    // On an IPv6 socket, the option of IPv4 is for datagrams to IPv4 addresses.
    set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
    if v6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
    }
    Ok(())
}

/// Makes the kernel report the destination address of each datagram.
#[cfg(linux_api)]
pub(crate) fn report_destination(socket: &UdpSocket) -> io::Result<()> {
    let v6 = socket.local_addr()?.is_ipv6();
    set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    if v6 { set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1) } else { Ok(()) }
}

/// Sets the default segment size of sends, bytes; 0 disables segmentation.
#[cfg(linux_api)]
pub(crate) fn set_segment(socket: &UdpSocket, size: usize) -> io::Result<()> {
    let size = libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX);
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, size)
}

#[cfg(not(linux_api))]
pub(crate) fn set_segment(_socket: &UdpSocket, _size: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets the default ECN codepoint of sends. If it fails, the old codepoint remains set.
#[cfg(linux_api)]
pub(crate) fn set_codepoint(socket: &UdpSocket, ecn: rdt_datagram::Ecn) -> io::Result<()> {
    let bits = libc::c_int::from(ecn.bits());
    let v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    let (level, name) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
    set_option(socket, level, name, bits)?;
    if v6 {
        // An IPv6 socket may send to IPv4 addresses too.
        let _ = set_option(socket, libc::IPPROTO_IP, libc::IP_TOS, bits);
    }
    Ok(())
}

#[cfg(not(linux_api))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as with system calls")]
pub(crate) fn set_codepoint(_socket: &UdpSocket, _ecn: rdt_datagram::Ecn) -> io::Result<()> {
    Ok(())
}

#[cfg(linux_api)]
#[expect(unsafe_code, reason = "these options have no safe wrapper")]
fn set_option(
    socket: &UdpSocket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let length = libc::socklen_t::try_from(size_of_val(&value)).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads `length`
    // bytes of `value`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[cfg(linux_api)]
mod tests {
    use super::*;

    #[test]
    fn overflow_counts_dropped_datagrams() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&receiver).set_recv_buffer_size(4096).unwrap();
        assert_eq!(receive_overflow(&receiver), Some(0));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sent = 0;
        for _ in 0..100 {
            sent += u64::from(sender.send_to(&[7; 1000], receiver.local_addr().unwrap()).is_ok());
        }
        receiver.set_nonblocking(true).unwrap();
        let mut received = 0;
        while receiver.recv(&mut [0; 2000]).is_ok() {
            received += 1;
        }
        assert!(received < sent, "100 kB do not fit");
        assert_eq!(receive_overflow(&receiver), Some(sent - received));
    }

    #[test]
    fn overflow_counts_coalesced_datagrams_once() {
        const SIZE: usize = 1000;
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&receiver).set_recv_buffer_size(4096).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        if set_option(&receiver, libc::SOL_UDP, libc::UDP_GRO, 1).is_err()
            || set_segment(&sender, SIZE).is_err()
        {
            return;
        }
        for _ in 0..5 {
            sender.send_to(&[7; 10 * SIZE], receiver.local_addr().unwrap()).unwrap();
        }
        receiver.set_nonblocking(true).unwrap();
        let mut received = 0;
        while receiver.recv(&mut [0; 10 * SIZE]).is_ok_and(|length| length == 10 * SIZE) {
            received += 1;
        }
        assert!(received < 5, "50 kB do not fit");
        assert_eq!(receive_overflow(&receiver), Some(5 - received), "of ten datagrams each");
    }
}
