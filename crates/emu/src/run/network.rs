//! Networks of both ends: each has a TUN device with addresses and routes.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6};
use std::os::fd::OwnedFd;

use nix::sched::CloneFlags;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use super::address::{self, Block};
use super::netlink::{Netlink, Packets};
use super::permission_errors::Step;
use super::tool::{FAR6, HOST6, PREFIX6, Tool};
use super::tun;
use crate::Failure;

/// Name of the only device besides `lo` in the namespace of a run.
pub(crate) const DEVICE: &str = "rdt0";
/// Queue length of a device, packets: 10 ms at a million packets per second, while the relay is
/// busy. Packets beyond it are lost before the link.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;
/// Routing table of the packets that go back to the near end, beside a NAT. The main table leads
/// everything but this run's own link to the NAT.
const BACK_TABLE: u8 = 100;

/// Addresses behind a device besides that of the opposite end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Beyond {
    /// None: a NAT leads to them ([`Shape::forward_to_nat`]).
    Nothing,
    Everything,
    /// Everything but the block of a nested run, whose packets the enclosing network would return.
    AllBut(Block),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) mtu: u32,
    pub(crate) ipv6: bool,
}

impl Shape {
    /// Moves the calling thread into a new network namespace with one TUN device that has
    /// `address`. Everything `beyond` the link is behind the device, too. Returns the device's
    /// descriptor.
    pub(crate) fn new_namespace(self, address: Ipv4Addr, beyond: Beyond) -> Result<OwnedFd, Failure> {
        nix::sched::unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Step::Network.forbidden()(errno.into()))?;
        self.quiet();
        let tun = tun::open().map_err(Step::OpenTun.forbidden())?;
        tun::attach(&tun, DEVICE).map_err(Step::MakeTun.forbidden())?;
        let configure = || {
            let netlink = Netlink::open()?;
            netlink.set_up(netlink.index("lo")?, None)?;
            let device = self.set_up(&netlink, DEVICE, address)?;
            match beyond {
                Beyond::Nothing => Ok(()),
                Beyond::Everything => self.route(&netlink, device, Ipv4Addr::UNSPECIFIED, 0),
                Beyond::AllBut(block) => {
                    self.route(&netlink, device, Ipv4Addr::UNSPECIFIED, 0)?;
                    self.refuse(&netlink, block)
                }
            }
        };
        configure().map_err(Step::Configure.forbidden())?;
        Ok(tun)
    }

    /// Creates a device for a nested run in the current namespace, and routes its block there.
    pub(crate) fn attach_inner(self, outer: Block) -> Result<(OwnedFd, Block), Failure> {
        let tun = tun::open().map_err(Step::OpenTun.forbidden())?;
        for number in 1..=address::MAX_CHILDREN {
            let Some(block) = outer.child(number) else {
                return Err(Failure::usage("runs can be nested at most six deep"));
            };
            let name = format!("rdt{number}");
            match tun::attach(&tun, &name) {
                Ok(()) => {}
                // Another nested run uses this name.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => continue,
                Err(error) => return Err(Step::Join.forbidden()(error)),
            }
            let configure = || {
                let netlink = Netlink::open()?;
                let device = self.set_up(&netlink, &name, block.far())?;
                let (network, prefix) = block.network();
                self.route(&netlink, device, network, prefix)?;
                self.forward()
            };
            configure().map_err(Step::Join.forbidden())?;
            return Ok((tun, block));
        }
        Err(Failure::usage(format!("at most {} runs fit inside one run", address::MAX_CHILDREN)))
    }

    fn set_up(self, netlink: &Netlink, name: &str, address: Ipv4Addr) -> io::Result<u32> {
        let device = netlink.index(name)?;
        if self.ipv6 {
            // No link-local address, because the kernel would announce it on the path.
            sysctl(&format!("ipv6/conf/{name}/addr_gen_mode"), "1");
        }
        netlink.set_up(device, Some((self.mtu, DEVICE_QUEUE_PACKETS)))?;
        for (address, prefix) in self.versions(address, address::LINK_PREFIX) {
            netlink.add_address(device, address, prefix)?;
        }
        Ok(device)
    }

    /// Returns an IPv4 prefix, and with IPv6 the corresponding one. 0 bits are all addresses.
    fn versions(self, to: Ipv4Addr, prefix: u8) -> impl Iterator<Item = (IpAddr, u8)> {
        let v6_prefix = if prefix == 0 { 0 } else { address::v6_prefix(prefix) };
        let v6 = self.ipv6.then(|| (address::v6(to).into(), v6_prefix));
        iter::once((to.into(), prefix)).chain(v6)
    }

    fn route(self, netlink: &Netlink, device: u32, to: Ipv4Addr, prefix: u8) -> io::Result<()> {
        self.versions(to, prefix).try_for_each(|(to, prefix)| netlink.add_route(to, prefix, device))
    }

    /// Refuses packets to the addresses of a block that have no route of their own.
    fn refuse(self, netlink: &Netlink, block: Block) -> io::Result<()> {
        let (network, prefix) = block.network();
        self.versions(network, prefix).try_for_each(|(to, prefix)| netlink.add_unreachable(to, prefix))
    }

    /// Forwards between the device of the path and that of a NAT in the current namespace, which is
    /// the far end of `block`.
    ///
    /// Hosts outside may have addresses of the block too. So the direction of a packet decides, not
    /// its address alone: only packets from the NAT, and those that the far end sends from its own
    /// address, go back to the block.
    pub(crate) fn forward_to_nat(self, nat: &str, block: Block) -> Result<(), Failure> {
        // The NAT asks for the hardware address of the sender, which is behind this device.
        let proxy_arp = || fs::write(format!("/proc/sys/net/ipv4/conf/{nat}/proxy_arp"), "1");
        // By the main table, packets of nested runs arrive on the wrong device.
        for scope in ["all", DEVICE] {
            sysctl(&format!("ipv4/conf/{scope}/rp_filter"), "0");
        }
        // ICMP errors to nested runs then leave from the far end's address.
        sysctl("ipv4/icmp_errors_use_inbound_ifaddr", "1");
        let route = || {
            let netlink = Netlink::open()?;
            let device = netlink.index(DEVICE)?;
            let (network, prefix) = block.network();
            netlink.add_route_in(BACK_TABLE, network.into(), prefix, device)?;
            netlink.add_rule(Packets::Through(nat), BACK_TABLE)?;
            netlink.add_rule(Packets::From(block.far()), BACK_TABLE)?;
            if self.ipv6 {
                netlink.add_route(address::v6(network).into(), address::v6_prefix(prefix), device)?;
            }
            Ok(())
        };
        proxy_arp().and_then(|()| route()).and_then(|()| self.forward()).map_err(Step::Configure.forbidden())
    }

    /// Enables forwarding between the devices of the current namespace.
    fn forward(self) -> io::Result<()> {
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        if self.ipv6 {
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
        }
        Ok(())
    }

    /// Stops packets that the kernel sends by itself, so that the first packet of the command is
    /// the first one on the path. Also permits unprivileged ping.
    fn quiet(self) {
        let disable = if self.ipv6 { "0" } else { "1" };
        for scope in ["all", "default"] {
            sysctl(&format!("ipv6/conf/{scope}/disable_ipv6"), disable);
            sysctl(&format!("ipv6/conf/{scope}/accept_ra"), "0");
            sysctl(&format!("ipv6/conf/{scope}/router_solicitations"), "0");
            // Without duplicates to detect, an address of a NAT's device can be used at once.
            sysctl(&format!("ipv6/conf/{scope}/accept_dad"), "0");
        }
        sysctl("ipv4/ping_group_range", "0 0");
    }
}

/// Runs directly inside this one whose addresses the NAT is told of. libslirp 4.7 keeps 16
/// neighbours, among them this run and two addresses of the far end.
const MAX_ANNOUNCED: u32 = 12;

/// Connects the NAT of the current namespace, which is the far end of `block`, by IPv6. No host
/// outside has an address of the block, so the main table suffices.
pub(crate) fn connect_ipv6(nat: &str, tool: Tool, block: Block) -> Result<(), Failure> {
    let connect = || {
        let netlink = Netlink::open()?;
        let device = netlink.index(nat)?;
        // pasta has added both; slirp4netns leaves that to its user.
        unless_present(netlink.add_address(device, FAR6.into(), PREFIX6))?;
        unless_present(netlink.add_default_route(HOST6.into(), device))?;
        if tool == Tool::Pasta {
            // It sends all packets to the one hardware address that it knows.
            return Ok(());
        }
        let inner = (1..=MAX_ANNOUNCED).filter_map(|number| block.child(number));
        inner.chain([block]).try_for_each(|block| announce(address::v6(block.near())))
    };
    connect().map_err(Step::Configure.forbidden())
}

/// Tells the NAT that a neighbour with this address is behind its device, by an unsolicited
/// advertisement (RFC 4861, section 7.2.6), which it does not answer. slirp4netns (libslirp 4.7)
/// learns only the sender, not the target, so that answers of a proxy do not help.
fn announce(address: Ipv6Addr) -> io::Result<()> {
    const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
    const OVERRIDE: u8 = 0x20;
    let socket = rustix::net::socket_with(
        AddressFamily::INET6,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(rustix::net::ipproto::ICMPV6),
    )?;
    // The address is that of another namespace.
    sockopt::set_ipv6_freebind(&socket, true)?;
    // Section 4.4: no router may have forwarded it.
    sockopt::set_ipv6_unicast_hops(&socket, Some(255))?;
    rustix::net::bind(&socket, &SocketAddrV6::new(address, 0, 0, 0))?;
    // The kernel fills the checksum in.
    let mut message = vec![NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0];
    message.extend(address.octets());
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &SocketAddrV6::new(HOST6, 0, 0, 0))?;
    Ok(())
}

fn unless_present(added: io::Result<()>) -> io::Result<()> {
    match added {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        added => added,
    }
}

/// Adds addresses to the device of the current namespace. One that it has is no error.
pub(crate) fn add_addresses(addresses: &[(String, IpAddr)]) -> Result<(), Failure> {
    for (name, address) in addresses {
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        let added =
            Netlink::open().and_then(|netlink| netlink.add_address(netlink.index(DEVICE)?, *address, prefix));
        unless_present(added).map_err(|error| {
            Failure::usage(format!("--to {name}: the far end cannot have {address}: {error}"))
        })?;
    }
    Ok(())
}

/// Counter of the packets that the kernel dropped because the device was not read in time.
pub(crate) struct Drops(Option<File>);

impl Drops {
    /// Opens the counter of the current namespace. It can then be read from any namespace.
    pub(crate) fn here() -> Self {
        Self(File::open("/proc/thread-self/net/dev").ok())
    }

    /// Returns the number of dropped packets so far; 0 if it is unknown.
    pub(crate) fn count(&self) -> u64 {
        let read = |mut file: &File| {
            file.rewind().ok()?;
            dropped(&io::read_to_string(file).ok()?)
        };
        self.0.as_ref().and_then(read).unwrap_or_default()
    }
}

/// Parses the device's transmit drops from `/proc/net/dev` (`proc_pid_net(5)`). They follow eight
/// numbers about reception, and the bytes, packets and errors of transmission.
fn dropped(table: &str) -> Option<u64> {
    let numbers = table.lines().find_map(|line| line.trim_start().strip_prefix(DEVICE)?.strip_prefix(':'))?;
    numbers.split_whitespace().nth(11)?.parse().ok()
}

fn sysctl(name: &str, value: &str) {
    if let Err(error) = fs::write(format!("/proc/sys/net/{name}"), value) {
        tracing::debug!(%error, "net.{name} stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_drops_are_parsed() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
 rdt01:      21      22   23   24   25    26         27        28       29      30   31   32   33    34      35         36
  rdt0: 5853181  112363    0    0    0     0          0         0 534289156  356241    0   42    0     0       0          0
";
        assert_eq!(dropped(table), Some(42));
        assert_eq!(dropped("rdt0: 1 2"), None);
        assert_eq!(dropped(""), None);
    }
}
