//! Requests to the kernel for devices, addresses and routes, as the `ip` program sends them
//! (rtnetlink(7)), in the network namespace of the calling thread.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the constants are declared wider than the fields that they are for, and messages are short"
)]

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Packets of a routing rule.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packets<'a> {
    /// Packets with this source address.
    From(Ipv4Addr),
    /// Packets that were received by this device.
    Through(&'a str),
}

/// Connection to the kernel for requests about the network namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens a connection.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None, // NETLINK_ROUTE is 0.
        )?;
        Ok(Self { socket })
    }

    /// Returns the index of a device.
    ///
    /// # Errors
    /// There is no such device.
    pub fn index(&self, name: &str) -> io::Result<u32> {
        // This request works on a socket of any family.
        Ok(rustix::net::netdevice::name_to_index(&self.socket, name)?)
    }

    /// Enables a device. Optionally sets its MTU in bytes and its queue length in packets.
    pub(crate) fn set_up(&self, device: u32, mtu_and_queue: Option<(u32, u32)>) -> io::Result<()> {
        let up = (libc::IFF_UP as u32).to_ne_bytes();
        // struct ifinfomsg: family and type (none), index, flags, mask of the flags to change
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.put(&[0; 4]).put(&device.to_ne_bytes()).put(&up).put(&up);
        if let Some((mtu, queue)) = mtu_and_queue {
            message.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
            message.attribute(libc::IFLA_TXQLEN, &queue.to_ne_bytes());
        }
        self.ask(message)
    }

    pub(crate) fn add_address(&self, device: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        // The link has no other host, so duplicate address detection is not needed.
        let flags = if address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        // struct ifaddrmsg: family, prefix, flags, scope, index
        let mut message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.put(&[family(address), prefix, flags, libc::RT_SCOPE_UNIVERSE]).put(&device.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &octets(address)).attribute(libc::IFA_ADDRESS, &octets(address));
        self.ask(message)
    }

    /// Routes a prefix through a device. A prefix of 0 bits is the default route.
    pub(crate) fn add_route(&self, to: IpAddr, prefix: u8, device: u32) -> io::Result<()> {
        self.add_route_in(libc::RT_TABLE_MAIN, to, prefix, device)
    }

    /// Routes a prefix through a device, for the packets that look into this table.
    pub(crate) fn add_route_in(&self, table: u8, to: IpAddr, prefix: u8, device: u32) -> io::Result<()> {
        let mut message = Message::route((to, prefix), table, ON_LINK);
        message.attribute(libc::RTA_OIF, &device.to_ne_bytes());
        self.ask(message)
    }

    /// Adds the default route through a router behind a device.
    pub(crate) fn add_default_route(&self, router: IpAddr, device: u32) -> io::Result<()> {
        let beyond_link = [libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST];
        let mut message = Message::route((router, 0), libc::RT_TABLE_MAIN, beyond_link);
        message.attribute(libc::RTA_GATEWAY, &octets(router));
        message.attribute(libc::RTA_OIF, &device.to_ne_bytes());
        self.ask(message)
    }

    /// Makes the kernel refuse packets to a prefix, unless there is a route to a longer one.
    pub(crate) fn add_unreachable(&self, to: IpAddr, prefix: u8) -> io::Result<()> {
        let unreachable = [libc::RT_SCOPE_UNIVERSE, libc::RTN_UNREACHABLE];
        self.ask(Message::route((to, prefix), libc::RT_TABLE_MAIN, unreachable))
    }

    /// Makes IPv4 packets look into a table before the main one.
    pub(crate) fn add_rule(&self, of: Packets<'_>, table: u8) -> io::Result<()> {
        // linux/fib_rules.h: FR_ACT_TO_TBL, FRA_SRC and FRA_IIFNAME.
        const TO_TABLE: u8 = 1;
        const SOURCE: u16 = 2;
        const INPUT_DEVICE: u16 = 3;
        let source_bits = if matches!(of, Packets::From(_)) { 32 } else { 0 };
        // struct fib_rule_hdr: family, bits of destination and source, TOS, table, two unused
        // bytes, action; flags
        let mut message = Message::new(libc::RTM_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.put(&[libc::AF_INET as u8, 0, source_bits, 0, table, 0, 0, TO_TABLE]).put(&[0; 4]);
        match of {
            Packets::From(address) => message.attribute(SOURCE, &address.octets()),
            Packets::Through(device) => message.attribute(INPUT_DEVICE, format!("{device}\0").as_bytes()),
        };
        self.ask(message)
    }

    /// Routes one address through a device, with metrics (`RTAX_*` of linux/rtnetlink.h) that apply
    /// to TCP connections with this peer. Metrics that the kernel would otherwise adapt are locked.
    ///
    /// # Errors
    /// The kernel refuses the route, or there is already one to this address.
    pub fn add_host_route(&self, to: IpAddr, device: u32, metrics: &[(u16, u32)]) -> io::Result<()> {
        /// `RTAX_LOCK`: set of the metrics that are locked.
        const LOCK: u16 = 1;
        let prefix = if to.is_ipv4() { 32 } else { 128 };
        let mut message = Message::route((to, prefix), libc::RT_TABLE_MAIN, ON_LINK);
        message.attribute(libc::RTA_OIF, &device.to_ne_bytes());
        let locked = metrics.iter().fold(0_u32, |set, (metric, _)| set | 1 << metric);
        let mut nested = Message { bytes: Vec::new() };
        nested.attribute(LOCK, &locked.to_ne_bytes());
        for (metric, value) in metrics {
            nested.attribute(*metric, &value.to_ne_bytes());
        }
        message.attribute(libc::RTA_METRICS, &nested.bytes);
        self.ask(message)
    }

    /// Sends a request, and reads the kernel's answer, which is available at once.
    fn ask(&self, message: Message) -> io::Result<()> {
        rustix::net::send(&self.socket, &message.finish(), SendFlags::empty())?;
        let mut answer = [0; 1024];
        let (read, _) = rustix::net::recv(&self.socket, &mut answer, RecvFlags::empty())?;
        // struct nlmsghdr (16 bytes), then the error field of struct nlmsgerr: 0 or a negative
        // errno
        let error =
            answer[..read].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
        match error {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Scope and type of a route through a device.
const ON_LINK: [u8; 2] = [libc::RT_SCOPE_LINK, libc::RTN_UNICAST];

struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: i32) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        // struct nlmsghdr: length (set when finished), type, flags, sequence number, sender (set by
        // the kernel)
        let mut message = Self { bytes: vec![0; 4] };
        message.put(&kind.to_ne_bytes()).put(&flags.to_ne_bytes()).put(&[0; 8]);
        message
    }

    /// Returns the request for a new route to a prefix, in a table, of this scope and type.
    fn route((to, prefix): (IpAddr, u8), table: u8, [scope, kind]: [u8; 2]) -> Self {
        // struct rtmsg: family, bits of destination and source, TOS, table, protocol, scope, type;
        // flags
        let mut message = Self::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.put(&[family(to), prefix, 0, 0, table, libc::RTPROT_STATIC, scope, kind]).put(&[0; 4]);
        if prefix > 0 {
            message.attribute(libc::RTA_DST, &octets(to));
        }
        message
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends a struct rtattr: length including this header, type, and value padded to a multiple
    /// of 4 bytes.
    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let len = 4 + value.len() as u16;
        self.put(&len.to_ne_bytes()).put(&kind.to_ne_bytes()).put(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes
    }
}

fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}
