//! A UDP socket with system calls of its own, for a limit that does not move with the driver that is measured beside
//! it. Linux only; panics where a measurement would mean nothing.

use std::io::{self, IoSlice};
use std::mem::zeroed;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use rdt_driver::clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use rustix::time::Timespec;

/// Datagrams in one call at most, as a message with segmentation offload has.
pub(crate) const SEGMENTS: usize = 64;
/// Bytes of the largest datagram over IPv4, and of what is cut into datagrams.
pub(crate) const LARGEST: usize = 65_507;
/// How long a side looks at its socket again and again before it sleeps. With more it is no faster, with less slower at
/// times.
const LOOK: Duration = Duration::from_micros(50);
/// Silence after which something was lost, seconds.
const SILENCE: i64 = 5;
/// Bytes of each buffer of the socket that are asked for.
const BUFFER: libc::c_int = 32 << 20;

/// A socket with one peer.
pub(crate) struct Plain {
    socket: UdpSocket,
    /// Bytes of each datagram.
    size: usize,
    /// The kernel cuts what is sent and joins what arrives.
    offload: bool,
}

impl Plain {
    /// A socket for datagrams of `size` bytes.
    pub(crate) fn bind(address: SocketAddr, size: usize, offload: bool) -> Self {
        let socket = UdpSocket::bind(address).expect("a free port");
        socket.set_nonblocking(true).expect("a socket may be told so");
        for (force, ask) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // Only the system's administrator may exceed the limits that it has.
            if set(&socket, libc::SOL_SOCKET, force, BUFFER).is_err() {
                set(&socket, libc::SOL_SOCKET, ask, BUFFER).expect("buffers can be asked for");
            }
        }
        Self { socket, size, offload }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr().expect("a bound socket has an address")
    }

    /// Will send to `peer`; with offload the kernel cuts what it gets into datagrams.
    pub(crate) fn connect(&self, peer: SocketAddr) {
        self.socket.connect(peer).expect("a route to the loopback");
        if self.offload {
            let size = libc::c_int::try_from(self.size).expect("a datagram's size");
            set(&self.socket, libc::SOL_UDP, libc::UDP_SEGMENT, size).expect("Linux 4.18 cuts messages");
        }
    }

    /// Will receive from whoever sends first, and waits for it; with offload the kernel joins datagrams.
    pub(crate) fn accept(&self) {
        if self.offload {
            set(&self.socket, libc::SOL_UDP, libc::UDP_GRO, 1).expect("Linux 5.0 joins datagrams");
        }
        let (_, peer) = self.retry(PollFlags::IN, || self.socket.peek_from(&mut [0; 1]));
        self.socket.connect(peer).expect("a route to the loopback");
    }

    /// The socket itself, for calls that are not here.
    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends `bytes`, which are whole datagrams.
    pub(crate) fn send(&self, bytes: &[u8]) {
        if self.offload || bytes.len() <= self.size {
            let sent = self.retry(PollFlags::OUT, || self.socket.send(bytes));
            assert_eq!(sent, bytes.len(), "a message leaves as a whole");
            return;
        }
        let mut parts = [IoSlice::new(&[]); SEGMENTS];
        let mut count = 0;
        for (part, datagram) in parts.iter_mut().zip(bytes.chunks(self.size)) {
            *part = IoSlice::new(datagram);
            count += 1;
        }
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; SEGMENTS] =
            std::array::from_fn(|_| SendAncillaryBuffer::default());
        let mut messages: Vec<_> = parts[..count]
            .iter()
            .zip(&mut controls)
            .map(|(part, control)| MMsgHdr::new(std::slice::from_ref(part), control))
            .collect();
        let mut gone = 0;
        while gone < count {
            gone += self.retry(PollFlags::OUT, || {
                Ok(sendmmsg(&self.socket, &mut messages[gone..], SendFlags::empty())?)
            });
        }
    }

    /// Waits for datagrams and reads as many as one call gives, end to end: says how many bytes.
    pub(crate) fn receive_many(&self, buffer: &mut [u8]) -> usize {
        if self.offload {
            return self.receive(buffer);
        }
        self.retry(PollFlags::IN, || receive_many(&self.socket, buffer, self.size))
    }

    /// Waits for a message and reads it: says how many bytes.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> usize {
        self.retry(PollFlags::IN, || self.socket.recv(buffer))
    }

    /// Reads a message if there is one.
    pub(crate) fn try_receive(&self, buffer: &mut [u8]) -> Option<usize> {
        self.socket.recv(buffer).ok()
    }

    /// Calls until it is not refused for now.
    pub(crate) fn retry<T>(&self, ready: PollFlags, mut call: impl FnMut() -> io::Result<T>) -> T {
        let mut since = None;
        loop {
            match call() {
                Ok(done) => return done,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("the loopback works: {error}"),
            }
            let now = clock::now();
            if now - *since.get_or_insert(now) < LOOK {
                // Whoever shares this processor may be the one that is waited for.
                thread::yield_now();
            } else {
                self.sleep(ready);
            }
        }
    }

    fn sleep(&self, ready: PollFlags) {
        let silence = Timespec { tv_sec: SILENCE, tv_nsec: 0 };
        let woken = poll(&mut [PollFd::new(&self.socket, ready)], Some(&silence)).expect("waiting works");
        assert!(woken > 0, "something was lost: the socket's buffers are too small, see net.core.rmem_max");
    }
}

#[expect(unsafe_code, reason = "neither std nor rustix has these options")]
fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "four")]
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads the four bytes of `value`.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads datagrams of `size` bytes each, one behind the other; says how many bytes.
#[expect(unsafe_code, reason = "rustix has no recvmmsg")]
fn receive_many(socket: &UdpSocket, buffer: &mut [u8], size: usize) -> io::Result<usize> {
    // SAFETY: both are plain C data, for which all zeros is a value.
    let (mut parts, mut messages): ([libc::iovec; SEGMENTS], [libc::mmsghdr; SEGMENTS]) =
        unsafe { (zeroed(), zeroed()) };
    let mut count = 0;
    for datagram in buffer.chunks_exact_mut(size).take(SEGMENTS) {
        parts[count] = libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: size };
        messages[count].msg_hdr.msg_iov = &raw mut parts[count];
        messages[count].msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
    let length = count as libc::c_uint;
    // SAFETY: the descriptor is open as long as `socket` is borrowed. The first `count` messages point to `parts`, and
    // these to disjoint parts of `buffer`, with their true lengths; all of them outlive the call.
    let got = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            length,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    assert!(messages[..got].iter().all(|message| message.msg_len as usize == size), "whole datagrams");
    Ok(got * size)
}
