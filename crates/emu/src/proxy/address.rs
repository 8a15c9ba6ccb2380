//! Parsing of the addresses LISTEN and TARGET.

use std::net::{SocketAddr, UdpSocket};

use rdt_program::host_port::{self, HostPort};

use crate::Failure;

/// Resolves LISTEN and TARGET. If TARGET has several addresses, prefers one of LISTEN's IP version.
pub(crate) fn both(listen: &str, target: &str) -> Result<(SocketAddr, SocketAddr), Failure> {
    let listen = first("LISTEN", listen, |_| true)?;
    let target = first("TARGET", target, |address| address.is_ipv4() == listen.is_ipv4())?;
    if target.port() == 0 {
        return Err(Failure::usage("TARGET: port 0 cannot be reached"));
    }
    Ok((listen, target))
}

/// Returns true if datagrams sent to `target` arrive at a socket bound to `local`.
pub(crate) fn is_loop(local: SocketAddr, target: SocketAddr) -> bool {
    let is_own = || UdpSocket::bind((target.ip(), 0)).is_ok();
    local.port() == target.port() && (local.ip() == target.ip() || (local.ip().is_unspecified() && is_own()))
}

/// Returns the first address for which `suits` is true, or else the first one.
fn first(name: &str, text: &str, suits: impl Fn(&SocketAddr) -> bool) -> Result<SocketAddr, Failure> {
    let wrong = |what: &str| Failure::usage(format!("{name}: '{text}' {what}"));
    let HostPort { host, port } = text.parse().map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    let port = port.ok_or_else(|| wrong("has no port: write 127.0.0.1:9000 or [::1]:9000"))?;
    let addresses = host_port::resolve(&host, port);
    let address = addresses.iter().copied().find(suits).or(addresses.first().copied());
    address.ok_or_else(|| wrong("is no address, and no name that has one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_errors_name_the_argument() {
        let cases = [
            ("127.0.0.1", "127.0.0.1:1", "LISTEN: '127.0.0.1' has no port"),
            ("127.0.0.1:1", "localhost", "TARGET: 'localhost' has no port"),
            ("127.0.0.1:70000", "127.0.0.1:1", "LISTEN: '70000' is no port"),
            ("127.0.0.1:1", "127.0.0.256:1", "TARGET: '127.0.0.256:1' is no address, "),
            ("127.0.0.1:1", "127.0.0.1:0", "TARGET: port 0 cannot be reached"),
        ];
        for (listen, target, part) in cases {
            let error = both(listen, target).unwrap_err();
            assert!(error.to_string().starts_with(part), "{error}");
            assert_eq!(error.code(), rdt_program::exit::USAGE);
        }
    }

    #[test]
    fn target_that_equals_listen_is_loop() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(is_loop(address("127.0.0.1:5"), address("127.0.0.1:5")));
        assert!(is_loop(address("0.0.0.0:5"), address("127.0.0.1:5")));
        assert!(!is_loop(address("127.0.0.1:5"), address("127.0.0.1:6")));
        assert!(!is_loop(address("0.0.0.0:5"), address("192.0.2.1:5")));
    }
}
