//! How socket addresses are printed.

use std::fmt;
use std::net::SocketAddr;

/// Prints an address as programs take it: an IPv6 zone by the name of its interface, inside of the
/// brackets (RFC 4007, section 11), and an IPv4-mapped address as plain IPv4.
#[derive(Debug, Clone, Copy)]
pub struct Shown(pub SocketAddr);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ip, port) = (self.0.ip().to_canonical(), self.0.port());
        match self.0 {
            SocketAddr::V6(v6) if ip.is_ipv6() => match interface(v6.scope_id()) {
                Some(name) => write!(f, "[{ip}%{name}]:{port}"),
                None => self.0.fmt(f),
            },
            _ => SocketAddr::new(ip, port).fmt(f),
        }
    }
}

/// Returns the name of an interface; `None` if there is none, or the system cannot say.
fn interface(index: u32) -> Option<String> {
    #[cfg(target_os = "linux")]
    if index != 0 {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        return rustix::net::netdevice::index_to_name(socket, index).ok();
    }
    let _ = index;
    None
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, SocketAddrV6};

    use super::*;

    #[test]
    fn zone_is_inside_of_brackets() {
        let shown = |text: &str| Shown(text.parse().unwrap()).to_string();
        assert_eq!(shown("192.0.2.1:5"), "192.0.2.1:5");
        assert_eq!(shown("[::ffff:192.0.2.1]:5"), "192.0.2.1:5");
        assert_eq!(shown("[2001:db8::1]:5"), "[2001:db8::1]:5");
        let zoned = |index| Shown(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 5, 0, index).into()).to_string();
        assert_eq!(zoned(u32::MAX), "[::1%4294967295]:5", "no interface");
        #[cfg(target_os = "linux")]
        assert_eq!(zoned(1), "[::1%lo]:5");
    }
}
