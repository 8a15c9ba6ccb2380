//! Sends many datagrams to one peer in one call (`sendmmsg`, Linux).

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;

use rdt_datagram::Ecn;
use socket2::SockAddr;

use crate::Remote;
use crate::send_batch::{Datagrams, MAX_SEGMENTS};

/// Sends the first [`MAX_SEGMENTS`] datagrams to `peer`, without its address if the socket is
/// `connected`. Returns the number sent. Fails with the error of the first datagram.
#[expect(unsafe_code, reason = "rustix has no control messages for the source address and the codepoint")]
pub(crate) fn sendmmsg(
    socket: &UdpSocket,
    peer: Remote,
    connected: bool,
    datagrams: Datagrams<'_>,
) -> io::Result<usize> {
    let Datagrams { bytes, size, ecn } = datagrams;
    let to = SockAddr::from(peer.addr);
    let mut control = Control::new();
    control.put_source(peer.local);
    control.put_ecn(peer.addr.ip(), ecn);
    let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX_SEGMENTS];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_SEGMENTS];
    let mut count = 0;
    for (datagram, (part, message)) in
        bytes.chunks(size.max(1)).zip(parts.iter_mut().zip(messages.iter_mut()))
    {
        let part = part
            .write(libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() });
        // SAFETY: plain C data, for which all zeros is a valid value.
        let header = &mut message.write(unsafe { std::mem::zeroed() }).msg_hdr;
        if !connected {
            header.msg_name = to.as_ptr().cast_mut().cast();
            header.msg_namelen = to.len();
        }
        header.msg_iov = part;
        header.msg_iovlen = 1;
        if control.length > 0 {
            header.msg_control = control.messages.0.as_mut_ptr().cast();
            header.msg_controllen = control.length as _;
        }
        count += 1;
    }
    // SAFETY: the descriptor is open as long as `socket` is borrowed. The first `count` messages
    // are written and point to `to`, `parts`, `bytes` and `control`, which outlive the call. The
    // kernel only reads these four, and writes `msg_len` of the messages.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr().cast(), count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Control messages, the same for each datagram of a call.
struct Control {
    messages: Aligned,
    /// Bytes of `messages` in use.
    length: usize,
}

/// Buffer for a source address and an ECN codepoint, aligned for `cmsghdr`.
#[repr(align(8))]
struct Aligned([u8; CONTROL_BYTES]);

/// Size of the control messages, bytes: source address (40 for IPv6), ECN codepoint (24).
const CONTROL_BYTES: usize = 64;

impl Control {
    fn new() -> Self {
        Self { messages: Aligned([0; CONTROL_BYTES]), length: 0 }
    }

    /// Adds the source address; with `None`, the operating system chooses it.
    fn put_source(&mut self, local: Option<IpAddr>) {
        match local {
            None => {}
            Some(IpAddr::V4(ip)) => {
                let address = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
                let any = libc::in_addr { s_addr: 0 };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: any };
                self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            Some(IpAddr::V6(ip)) => {
                let address = libc::in6_addr { s6_addr: ip.octets() };
                let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
                self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
    }

    /// Adds the ECN codepoint, unless it is 0, for the destination's IP version.
    fn put_ecn(&mut self, to: IpAddr, ecn: Ecn) {
        if ecn == Ecn::NotEct {
            return;
        }
        let bits = libc::c_int::from(ecn.bits());
        match to.to_canonical() {
            IpAddr::V4(_) => self.put(libc::IPPROTO_IP, libc::IP_TOS, bits),
            IpAddr::V6(_) => self.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, bits),
        }
    }

    #[expect(unsafe_code, reason = "the layout of control messages is in macros")]
    #[expect(clippy::cast_ptr_alignment, reason = "the buffer is aligned for the header")]
    fn put<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, info: T) {
        #[expect(clippy::cast_possible_truncation, reason = "a few bytes")]
        let bytes = size_of::<T>() as libc::c_uint;
        // SAFETY: a computation on a number, without memory access.
        let space = unsafe { libc::CMSG_SPACE(bytes) } as usize;
        assert!(self.length + space <= CONTROL_BYTES, "room for all messages that there are");
        let header = self.messages.0[self.length..].as_mut_ptr().cast::<libc::cmsghdr>();
        // SAFETY: the buffer and the space of every message are aligned for a header. As asserted,
        // there is room for this header, `info` and padding, so CMSG_DATA points inside the buffer.
        unsafe {
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(info);
        }
        self.length += space;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::time::Duration;

    use super::*;

    fn bound(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }

    fn marked(bytes: &[u8], size: usize) -> Datagrams<'_> {
        Datagrams { bytes, size, ecn: Ecn::Ect0 }
    }

    /// Sends seven bytes in datagrams of three; returns the datagrams that arrive, and their
    /// source.
    fn pass(from: &UdpSocket, to: &UdpSocket, local: Option<IpAddr>) -> (Vec<Vec<u8>>, SocketAddr) {
        let peer = Remote { addr: to.local_addr().unwrap(), local };
        assert_eq!(sendmmsg(from, peer, false, marked(b"aaabbbc", 3)).unwrap(), 3);
        let mut source = None;
        let mut read = || {
            let mut buffer = [0; 10];
            let (length, from) = to.recv_from(&mut buffer).unwrap();
            source = Some(from);
            buffer[..length].to_vec()
        };
        (vec![read(), read(), read()], source.unwrap())
    }

    #[test]
    fn datagrams_arrive_separately_last_shorter() {
        let (from, to) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
        let (datagrams, source) = pass(&from, &to, None);
        assert_eq!(datagrams, [&b"aaa"[..], b"bbb", b"c"]);
        assert_eq!(source, from.local_addr().unwrap());
    }

    #[test]
    fn connected_socket_sends_without_address() {
        let (from, to) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
        let peer = Remote::from(to.local_addr().unwrap());
        assert!(sendmmsg(&from, peer, true, marked(b"aab", 2)).is_err(), "not connected yet");
        from.connect(peer.addr).unwrap();
        assert_eq!(sendmmsg(&from, peer, true, marked(b"aab", 2)).unwrap(), 2);
        assert_eq!(to.recv_from(&mut [0; 9]).unwrap(), (2, from.local_addr().unwrap()));
    }

    #[test]
    fn source_address_is_the_requested_one() {
        let (from, to) = (bound("0.0.0.0:0"), bound("127.0.0.1:0"));
        for last in [1, 7] {
            let local = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
            assert_eq!(pass(&from, &to, Some(local)).1.ip(), local);
        }
    }

    #[test]
    fn ipv6_and_dual_stack_sockets_send() {
        let (Ok(from), Ok(to)) = (UdpSocket::bind("[::]:0"), UdpSocket::bind("[::1]:0")) else {
            return rdt_testing::skipped("this host has no IPv6");
        };
        assert_eq!(pass(&from, &to, Some(Ipv6Addr::LOCALHOST.into())).1.ip(), Ipv6Addr::LOCALHOST);
        let to = bound("127.0.0.1:0");
        let mapped = |ip: Ipv4Addr| IpAddr::V6(ip.to_ipv6_mapped());
        let peer = Remote {
            addr: (mapped(Ipv4Addr::LOCALHOST), to.local_addr().unwrap().port()).into(),
            local: Some(mapped(Ipv4Addr::new(127, 0, 0, 7))),
        };
        assert_eq!(sendmmsg(&from, peer, false, marked(b"aabb", 2)).unwrap(), 2);
        assert_eq!(to.recv_from(&mut [0; 9]).unwrap().1.ip(), IpAddr::from([127, 0, 0, 7]));
    }

    #[test]
    fn one_call_sends_64_datagrams_at_most() {
        let (from, to) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
        let peer = Remote::from(to.local_addr().unwrap());
        assert_eq!(sendmmsg(&from, peer, false, marked(&[0; MAX_SEGMENTS + 9], 1)).unwrap(), MAX_SEGMENTS);
    }
}
