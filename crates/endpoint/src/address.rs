//! Address of a peer, with the local address that replies leave from; wildcard addresses, and the
//! ID of the local host.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use rdt_udp::Remote;

/// Returns the boot ID and the name of this host, by which reset tokens differ between hosts that
/// share an identity. They change when the host starts again. Empty on other systems than Linux.
pub fn host_id() -> String {
    ["random/boot_id", "hostname"]
        .map(|file| std::fs::read_to_string(format!("/proc/sys/kernel/{file}")).unwrap_or_default())
        .concat()
}

/// Address of a peer. Equality, order and hash compare IP address and port only. A reply to a
/// first packet carries the local address too, which must not look like a change of the peer's
/// address, and neither must another IPv6 flow label.
#[derive(Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) Remote);

impl PeerAddress {
    fn key(&self) -> (IpAddr, u16) {
        (self.0.addr.ip().to_canonical(), self.0.addr.port())
    }

    pub(crate) fn ip(&self) -> IpAddr {
        self.key().0
    }

    /// Returns the address with an IPv4-mapped IPv6 address as plain IPv4.
    pub(crate) fn canonical(&self) -> SocketAddr {
        let (ip, port) = self.key();
        match self.0.addr {
            SocketAddr::V6(v6) if ip.is_ipv6() => SocketAddr::V6(v6),
            _ => SocketAddr::new(ip, port),
        }
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(addr: SocketAddr) -> Self {
        Self(addr.into())
    }
}

impl PartialEq for PeerAddress {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for PeerAddress {}

impl PartialOrd for PeerAddress {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PeerAddress {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for PeerAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.canonical().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn host_id_has_boot_and_name() {
        let id = host_id();
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert!(id.len() > 36 && id.ends_with(&name), "{id}");
        assert_eq!(id, host_id());
    }

    #[test]
    fn local_address_and_mapping_do_not_distinguish_peers() {
        let plain: PeerAddress = "192.0.2.1:9".parse::<SocketAddr>().unwrap().into();
        let mapped: PeerAddress = "[::ffff:192.0.2.1]:9".parse::<SocketAddr>().unwrap().into();
        let answered = PeerAddress(Remote { local: "192.0.2.7".parse().ok(), ..mapped.0 });
        assert_eq!((plain, plain), (mapped, answered));
        assert_eq!(answered.canonical(), plain.0.addr);
        assert_ne!(plain, "192.0.2.1:10".parse::<SocketAddr>().unwrap().into());
    }
}
