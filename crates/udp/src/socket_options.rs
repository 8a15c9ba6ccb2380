//! What no library asks of the Linux kernel: how many messages a socket's buffer had no room for, to stop joining
//! received datagrams, and to cut those that are too large for a link. Elsewhere the system's defaults stay.

use std::net::UdpSocket;

/// Messages that arrived and found the socket's receive buffer full, since the socket was made (and those with a wrong
/// checksum, which loopback does not have). Datagrams that came joined are one. Counts modulo 2^32; `None` where it is
/// not told.
#[cfg(linux_api)]
#[expect(unsafe_code, reason = "SO_MEMINFO has no safe wrapper")]
pub(crate) fn receive_overflow(socket: &UdpSocket) -> Option<u64> {
    use std::os::fd::AsRawFd;
    /// Index of the drop count among the kernel's `SK_MEMINFO_*` values, the last of nine.
    const DROPS: usize = 8;
    let mut values = [0_u32; DROPS + 1];
    let mut length = libc::socklen_t::try_from(size_of_val(&values)).ok()?;
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel writes at most `length`
    // bytes to `values` and what it wrote to `length`, both of which outlive the call.
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

/// Lets the kernel say with each message how many found the socket's receive buffer full before it.
#[cfg(linux_api)]
pub(crate) fn report_overflow(socket: &UdpSocket) {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
}

#[cfg(not(linux_api))]
pub(crate) fn report_overflow(_socket: &UdpSocket) {}

/// Lets the kernel hand over every datagram by itself; true if that is so now.
#[cfg(linux_api)]
pub(crate) fn disable_receive_offload(socket: &UdpSocket) -> bool {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 0)
}

#[cfg(not(linux_api))]
pub(crate) fn disable_receive_offload(_socket: &UdpSocket) -> bool {
    true
}

/// Lets routers and this host cut datagrams that are larger than a link's MTU, as the course's programs do:
/// whoever asks for packets of 9000 bytes over Ethernet gets them.
#[cfg(linux_api)]
pub(crate) fn allow_fragments(socket: &UdpSocket) {
    let v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT);
    if v6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT);
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0);
    }
}

#[cfg(not(linux_api))]
pub(crate) fn allow_fragments(_socket: &UdpSocket) {}

/// Lets the kernel cut whatever is sent without a size of its own into datagrams of `size` bytes; 0 is off.
#[cfg(linux_api)]
pub(crate) fn set_segment(socket: &UdpSocket, size: usize) -> std::io::Result<()> {
    let size = libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX);
    if set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, size) {
        return Ok(());
    }
    Err(std::io::Error::last_os_error())
}

#[cfg(not(linux_api))]
pub(crate) fn set_segment(_socket: &UdpSocket, _size: usize) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Gives the socket a codepoint for whatever is sent without one of its own. One that fails changes nothing.
#[cfg(linux_api)]
pub(crate) fn set_codepoint(socket: &UdpSocket, ecn: rdt_datagram::Ecn) -> std::io::Result<()> {
    let bits = libc::c_int::from(ecn.bits());
    let v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    let (level, name) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
    if !set_option(socket, level, name, bits) {
        return Err(std::io::Error::last_os_error());
    }
    if v6 {
        // Such a socket may send over IPv4, too.
        set_option(socket, libc::IPPROTO_IP, libc::IP_TOS, bits);
    }
    Ok(())
}

#[cfg(not(linux_api))]
pub(crate) fn set_codepoint(_socket: &UdpSocket, _ecn: rdt_datagram::Ecn) -> std::io::Result<()> {
    Ok(())
}

/// True if the kernel took it.
#[cfg(linux_api)]
#[expect(unsafe_code, reason = "these options have no safe wrapper")]
fn set_option(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> bool {
    use std::os::fd::AsRawFd;
    let Ok(length) = libc::socklen_t::try_from(size_of_val(&value)) else { return false };
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads `length` bytes of
    // `value`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    result == 0
}

#[cfg(all(test, linux_api))]
mod tests {
    use super::*;

    #[test]
    fn datagrams_that_a_full_buffer_refuses_are_counted() {
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
    fn datagrams_that_came_joined_are_refused_as_one() {
        const SIZE: usize = 1000;
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&receiver).set_recv_buffer_size(4096).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        if !set_option(&receiver, libc::SOL_UDP, libc::UDP_GRO, 1) || set_segment(&sender, SIZE).is_err() {
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
