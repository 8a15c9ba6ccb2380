//! UDP socket with system calls of its own, so that the limit does not change with the driver.
//! Linux only. Panics if a measurement would be meaningless.

use std::io;
use std::mem::zeroed;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use rdt_udp::clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// Limit on the datagrams of one call, as in a GSO message.
pub(crate) const SEGMENTS: usize = 64;
/// Largest UDP payload over IPv4, bytes; also the largest GSO message.
pub(crate) const LARGEST: usize = 65_507;
/// Time of busy polling before sleeping. A longer time does not increase the rate, a shorter one
/// sometimes reduces it.
const LOOK: Duration = Duration::from_micros(50);
/// Timeout of a read after which a datagram counts as lost, seconds.
const SILENCE: i64 = 5;
/// Requested size of each socket buffer, bytes.
const BUFFER: libc::c_int = 32 << 20;

/// A socket with one peer.
pub(crate) struct Plain {
    socket: UdpSocket,
    /// Bytes of each datagram.
    size: usize,
    /// True to use GSO and GRO.
    offload: bool,
    /// Headers for calls without offload.
    messages: Messages,
}

impl Plain {
    /// Creates a socket for datagrams of `size` bytes.
    pub(crate) fn bind(address: SocketAddr, size: usize, offload: bool) -> Self {
        let socket = UdpSocket::bind(address).expect("a free port");
        socket.set_nonblocking(true).expect("a socket may be told so");
        for (force, ask) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // Only root may exceed the system's limit.
            if set(&socket, libc::SOL_SOCKET, force, BUFFER).is_err() {
                set(&socket, libc::SOL_SOCKET, ask, BUFFER).expect("buffers can be asked for");
            }
        }
        Self { socket, size, offload, messages: Messages::new() }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr().expect("a bound socket has an address")
    }

    /// Connects to `peer` for sending; uses GSO if `offload` is true.
    pub(crate) fn connect(&self, peer: SocketAddr) {
        self.socket.connect(peer).expect("a route to the loopback");
        if self.offload {
            let size = libc::c_int::try_from(self.size).expect("a datagram's size");
            set(&self.socket, libc::SOL_UDP, libc::UDP_SEGMENT, size).expect("Linux 4.18 cuts messages");
        }
    }

    /// Waits for the first datagram, and connects to its sender; uses GRO if `offload` is true.
    pub(crate) fn accept(&self) {
        if self.offload {
            set(&self.socket, libc::SOL_UDP, libc::UDP_GRO, 1).expect("Linux 5.0 joins datagrams");
        }
        let (_, peer) = self.retry(PollFlags::IN, || self.socket.peek_from(&mut [0; 1]));
        self.socket.connect(peer).expect("a route to the loopback");
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends `bytes`, which are whole datagrams.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if self.offload || bytes.len() <= self.size {
            let sent = self.retry(PollFlags::OUT, || self.socket.send(bytes));
            assert_eq!(sent, bytes.len(), "a message leaves as a whole");
            return;
        }
        let Self { socket, size, messages, .. } = self;
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = retry(socket, PollFlags::OUT, || messages.send(socket, rest, *size));
            rest = &rest[sent..];
        }
    }

    /// Waits for datagrams, and reads those of one call one after another into `buffer`. Returns
    /// the number of bytes.
    pub(crate) fn receive_many(&mut self, buffer: &mut [u8]) -> usize {
        if self.offload {
            return self.receive(buffer);
        }
        let Self { socket, size, messages, .. } = self;
        retry(socket, PollFlags::IN, || messages.receive(socket, buffer, *size))
    }

    /// Waits for a message and reads it; returns its length.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> usize {
        self.retry(PollFlags::IN, || self.socket.recv(buffer))
    }

    pub(crate) fn try_receive(&self, buffer: &mut [u8]) -> Option<usize> {
        self.socket.recv(buffer).ok()
    }

    /// Repeats a call until it does not block.
    pub(crate) fn retry<T>(&self, ready: PollFlags, call: impl FnMut() -> io::Result<T>) -> T {
        retry(&self.socket, ready, call)
    }
}

fn retry<T>(socket: &UdpSocket, ready: PollFlags, mut call: impl FnMut() -> io::Result<T>) -> T {
    let mut since = None;
    loop {
        match call() {
            Ok(done) => return done,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("the loopback works: {error}"),
        }
        let now = clock::now();
        if now - *since.get_or_insert(now) < LOOK {
            // The other process may be queued on this processor.
            thread::yield_now();
        } else {
            sleep(socket, ready);
        }
    }
}

fn sleep(socket: &UdpSocket, ready: PollFlags) {
    let silence = Timespec { tv_sec: SILENCE, tv_nsec: 0 };
    let woken = poll(&mut [PollFd::new(socket, ready)], Some(&silence)).expect("waiting works");
    assert!(woken > 0, "something was lost: the socket's buffers are too small, see net.core.rmem_max");
}

#[expect(unsafe_code, reason = "neither std nor rustix has these options")]
fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "four")]
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads the four
    // bytes of `value`.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Headers of `sendmmsg` and `recvmmsg`, allocated once.
struct Messages {
    parts: [libc::iovec; SEGMENTS],
    headers: [libc::mmsghdr; SEGMENTS],
}

impl Messages {
    #[expect(unsafe_code, reason = "the structures of C have no constructors")]
    fn new() -> Self {
        // SAFETY: both are plain C data, for which all zeros is a valid value.
        let (parts, headers) = unsafe { (zeroed(), zeroed()) };
        Self { parts, headers }
    }

    /// Points headers to datagrams of `size` bytes in the `bytes` bytes at `start`. Returns the
    /// number of datagrams.
    fn point_to(&mut self, start: *mut u8, bytes: usize, size: usize) -> libc::c_uint {
        let mut count = 0;
        for ((part, header), at) in
            self.parts.iter_mut().zip(&mut self.headers).zip((0..).step_by(size)).take(bytes / size)
        {
            *part = libc::iovec { iov_base: start.wrapping_add(at).cast(), iov_len: size };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        count
    }

    /// Sends datagrams of `size` bytes, stored one after another. Returns the number of bytes sent.
    #[expect(unsafe_code, reason = "rustix builds the structures again for each call")]
    fn send(&mut self, socket: &UdpSocket, bytes: &[u8], size: usize) -> io::Result<usize> {
        let count = self.point_to(bytes.as_ptr().cast_mut(), bytes.len(), size);
        // SAFETY: the descriptor is open as long as `socket` is borrowed. The first `count` headers
        // point to `parts`, and these to parts of `bytes` with their true lengths, which the kernel
        // reads; all of them outlive the call.
        let sent = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _)
        };
        Ok(usize::try_from(sent).map_err(|_| io::Error::last_os_error())? * size)
    }

    /// Reads datagrams of `size` bytes one after another into `buffer`. Returns the number of
    /// bytes.
    #[expect(unsafe_code, reason = "rustix has no recvmmsg")]
    fn receive(&mut self, socket: &UdpSocket, buffer: &mut [u8], size: usize) -> io::Result<usize> {
        let count = self.point_to(buffer.as_mut_ptr(), buffer.len(), size);
        let no_timeout = std::ptr::null_mut();
        // SAFETY: the descriptor is open as long as `socket` is borrowed. The first `count` headers
        // point to `parts`, and these to disjoint parts of `buffer` with their true lengths; all of
        // them outlive the call.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                no_timeout,
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        let whole = self.headers[..got].iter().all(|header| header.msg_len as usize == size);
        assert!(whole, "whole datagrams");
        Ok(got * size)
    }
}
