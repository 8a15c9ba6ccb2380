//! Addresses of this host for tickets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Documentation addresses (RFC 5737, RFC 3849). Connecting a UDP socket to one selects the
/// default route and sends nothing.
const ELSEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Returns the addresses for a ticket of a program that listens on `bound`: `advertised` if given,
/// else `bound`. For an unspecified address: the source addresses of the default routes.
pub fn reachable(bound: SocketAddr, advertised: &[SocketAddr]) -> Vec<SocketAddr> {
    let port = bound.port();
    if !advertised.is_empty() {
        return advertised.to_vec();
    }
    if !bound.ip().is_unspecified() {
        return vec![SocketAddr::new(bound.ip().to_canonical(), port)];
    }
    let families = ELSEWHERE.iter().filter(|remote| remote.is_ipv4() || bound.is_ipv6());
    let found: Vec<_> = families.filter_map(|&remote| source_towards(remote)).collect();
    let found = if found.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { found };
    found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
}

/// Returns the source address of packets to a host; `None` without a route.
fn source_towards(remote: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Chooses a route. Any port will do.
    socket.connect((remote, 9)).ok()?;
    let source = socket.local_addr().ok()?.ip();
    (!source.is_unspecified()).then_some(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_or_advertised_addresses_are_taken() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let [bound, nat] = [address("10.0.0.1:7"), address("192.0.2.1:8")];
        assert_eq!(reachable(bound, &[]), [bound]);
        assert_eq!(reachable(address("[::ffff:10.0.0.1]:7"), &[]), [bound]);
        assert_eq!(reachable(address("[::]:7"), &[nat, bound]), [nat, bound]);
        assert_eq!(reachable(bound, &[nat; 9]).len(), 9, "a ticket of them is refused");
    }

    #[test]
    fn wildcard_gives_addresses_of_interfaces() {
        for wildcard in ["0.0.0.0:7", "[::]:7"] {
            let found = reachable(wildcard.parse().unwrap(), &[]);
            assert!(!found.is_empty());
            assert!(found.iter().all(|address| !address.ip().is_unspecified() && address.port() == 7));
            assert!(wildcard.starts_with('[') || found.iter().all(SocketAddr::is_ipv4));
        }
    }
}
