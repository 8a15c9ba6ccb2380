//! Receives many messages in one call (`recvmmsg`, Linux). quinn-udp reserves 88 bytes for control
//! messages, too few for a coalesced message with a timestamp and a destination address: the kernel
//! then omits the ECN codepoint.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use quinn_udp::{EcnCodepoint, RecvMeta};
use socket2::{SockAddr, SockAddrStorage};

const MAX_MESSAGES: usize = 32;
/// Buffer size for the control messages of one message, bytes: timestamp (32), segment size (24),
/// drop counter (24), destination address (IPv4 32, IPv6 40), ECN codepoint (24 for each IP
/// version). A dual-stack socket may receive the last two for both versions.
const CONTROL_BYTES: usize = 224;

/// Buffer for the control messages of one message.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(crate) struct Control([u8; CONTROL_BYTES]);

impl Control {
    pub(crate) fn new() -> Self {
        Self([0; CONTROL_BYTES])
    }

    /// Makes the kernel write control messages to this buffer.
    pub(crate) fn attach(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
    }
}

/// Buffers for the source addresses and control messages of a receive call.
pub(crate) struct MessageHeaders {
    names: [SockAddrStorage; MAX_MESSAGES],
    controls: [Control; MAX_MESSAGES],
    /// Drop counter of the socket as reported with the newest message, modulo 2^32.
    pub(crate) overflow: u32,
}

impl MessageHeaders {
    pub(crate) fn new() -> Box<Self> {
        let names = std::array::from_fn(|_| SockAddrStorage::zeroed());
        Box::new(Self { names, controls: [Control::new(); MAX_MESSAGES], overflow: 0 })
    }

    /// Receives one message into each buffer of `rooms`, and its metadata into `metas`; at most
    /// [`MAX_MESSAGES`]. Returns the number of messages.
    #[expect(unsafe_code, reason = "rustix has no recvmmsg")]
    pub(crate) fn receive<'a>(
        &mut self,
        socket: &UdpSocket,
        rooms: impl Iterator<Item = &'a mut [u8]>,
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX_MESSAGES];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_MESSAGES];
        let mut count = 0;
        let headers = self.names.iter_mut().zip(&mut self.controls).zip(metas.iter());
        let unwritten = parts.iter_mut().zip(messages.iter_mut());
        for (((part, message), ((name, control), _)), room) in unwritten.zip(headers).zip(rooms) {
            let part = part.write(libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() });
            // SAFETY: plain C data, for which all zeros is a valid value.
            let header = &mut message.write(unsafe { std::mem::zeroed() }).msg_hdr;
            header.msg_name = (&raw mut *name).cast();
            header.msg_namelen = name.size_of();
            header.msg_iov = part;
            header.msg_iovlen = 1;
            control.attach(header);
            count += 1;
        }
        // SAFETY: the first `count` messages are written. They point to names, parts, rooms and
        // controls that outlive the call, are not borrowed elsewhere, and have the lengths given
        // here.
        let got = unsafe { recvmmsg(socket, messages.as_mut_ptr().cast(), count)? };
        for ((message, name), meta) in messages.iter().zip(&self.names).zip(metas).take(got) {
            // SAFETY: `got` is at most `count`, and the first `count` messages are written.
            let message = unsafe { message.assume_init_ref() };
            *meta = RecvMeta::default();
            // SAFETY: the kernel has written an address of this length, or the storage is zero.
            let address = unsafe { SockAddr::new(ptr::read(name), message.msg_hdr.msg_namelen) };
            meta.addr = address.as_socket().ok_or(io::ErrorKind::InvalidData)?;
            meta.len = message.msg_len as usize;
            meta.stride = meta.len;
            // SAFETY: the kernel has filled the control messages to which the header points.
            unsafe { read_control(&message.msg_hdr, meta, &mut self.overflow) };
        }
        Ok(got)
    }
}

/// Calls `recvmmsg` until no signal interrupts it, and returns the number of messages.
///
/// # Safety
/// The first `count` messages are written, and point to memory that the kernel may write.
#[expect(unsafe_code, reason = "rustix has no recvmmsg")]
unsafe fn recvmmsg(socket: &UdpSocket, messages: *mut libc::mmsghdr, count: u32) -> io::Result<usize> {
    loop {
        // SAFETY: `socket` keeps the descriptor open; the caller answers for the messages.
        let got = unsafe { libc::recvmmsg(socket.as_raw_fd(), messages, count, 0, ptr::null_mut()) };
        if let Ok(got) = usize::try_from(got) {
            return Ok(got);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Reads the control messages of a header into `meta` and `overflow`.
///
/// # Safety
///
/// The control messages must be as the kernel wrote them.
#[expect(unsafe_code, reason = "the layout of control messages is in macros")]
unsafe fn read_control(header: &libc::msghdr, meta: &mut RecvMeta, overflow: &mut u32) {
    // SAFETY: the caller guarantees valid control messages.
    for message in unsafe { control_messages(header) } {
        match message.kind() {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                let time: Option<libc::timespec> = message.value();
                meta.timestamp = time.and_then(|time| {
                    Some(Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?))
                });
            }
            // The kernel omits the drop counter while it is 0.
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => *overflow = message.value().unwrap_or(*overflow),
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let size = message.value::<libc::c_int>().and_then(|size| usize::try_from(size).ok());
                meta.stride = size.unwrap_or(meta.stride);
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                meta.ecn = message.value().and_then(EcnCodepoint::from_bits);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let class = message.value::<libc::c_int>().and_then(|class| u8::try_from(class).ok());
                meta.ecn = class.and_then(EcnCodepoint::from_bits);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info: Option<libc::in_pktinfo> = message.value();
                let ip = info.map(|info| Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into());
                meta.dst_ip = ip.or(meta.dst_ip);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let info: Option<libc::in6_pktinfo> = message.value();
                meta.dst_ip =
                    info.map(|info| IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr))).or(meta.dst_ip);
            }
            _ => {}
        }
    }
}

/// Iterates over the control messages of a header.
///
/// # Safety
///
/// The control messages must be as the kernel wrote them, and outlive the iterator.
#[expect(unsafe_code, reason = "the layout of control messages is in macros")]
pub(crate) unsafe fn control_messages(header: &libc::msghdr) -> impl Iterator<Item = Message> {
    // SAFETY: the caller guarantees valid control messages.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: the macro returns a pointer to the next header within the control messages, or null.
    let next = |message: &*mut libc::cmsghdr| unsafe { libc::CMSG_NXTHDR(header, *message) };
    let some = |message: *mut libc::cmsghdr| (!message.is_null()).then_some(message);
    std::iter::successors(some(first), move |message| some(next(message))).map(|message| Message(message))
}

/// Control message within a buffer that the kernel filled.
pub(crate) struct Message(*const libc::cmsghdr);

impl Message {
    /// Returns level and type.
    #[expect(unsafe_code, reason = "the layout of control messages is in macros")]
    pub(crate) fn kind(&self) -> (libc::c_int, libc::c_int) {
        // SAFETY: the pointer is to a header within the control messages, aligned for it.
        unsafe { ((*self.0).cmsg_level, (*self.0).cmsg_type) }
    }

    /// Returns the value of the control message; `None` if the message is shorter than `T`.
    #[expect(unsafe_code, reason = "the layout of control messages is in macros")]
    pub(crate) fn value<T: Copy>(&self) -> Option<T> {
        #[expect(clippy::cast_possible_truncation, reason = "a few bytes")]
        let size = size_of::<T>() as libc::c_uint;
        // SAFETY: the value follows the header, with the length in `cmsg_len`. Every bit pattern is
        // a valid value of the integers and C structures that callers read.
        unsafe {
            let complete = (*self.0).cmsg_len >= libc::CMSG_LEN(size) as _;
            complete.then(|| libc::CMSG_DATA(self.0).cast::<T>().read_unaligned())
        }
    }
}
