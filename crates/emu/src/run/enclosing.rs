//! Detects whether a run is started inside another run, by the device name: environment variables
//! may have been cleared, or carried into another network.

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;

use super::address::{self, Block};
use super::network::DEVICE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EnclosingRun {
    pub(crate) block: Block,
    pub(crate) ipv6: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enclosing {
    Host,
    Run(EnclosingRun),
    /// There is a device of a run, but this is its far end, or it has other addresses.
    Device,
}

impl Enclosing {
    pub(crate) fn look() -> io::Result<Self> {
        let of_device = getifaddrs()?.filter(|entry| entry.interface_name == DEVICE);
        // An entry without an address counts too: the device exists.
        let addresses: Vec<_> = of_device
            .map(|entry| {
                let address = entry.address?;
                let v4 = || address.as_sockaddr_in().map(|v4| v4.ip().into());
                let v6 = || address.as_sockaddr_in6().map(|v6| v6.ip().into());
                v4().or_else(v6)
            })
            .collect();
        Ok(Self::known_by(&addresses))
    }

    /// Classifies the addresses of the device; `None` is an address of another family.
    fn known_by(addresses: &[Option<IpAddr>]) -> Self {
        let block = addresses.iter().flatten().find_map(|address| match address {
            IpAddr::V4(address) => Block::with_near_end(*address),
            IpAddr::V6(_) => None,
        });
        match block {
            Some(block) => {
                let v6 = IpAddr::V6(address::v6(block.near()));
                Self::Run(EnclosingRun { block, ipv6: addresses.contains(&Some(v6)) })
            }
            None if addresses.is_empty() => Self::Host,
            None => Self::Device,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_detected_by_device_addresses() {
        let known_by = |addresses: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|address| address.parse().ok()).collect();
            Enclosing::known_by(&addresses)
        };
        let run = |ipv6| Enclosing::Run(EnclosingRun { block: Block::OUTERMOST.child(1).unwrap(), ipv6 });
        assert_eq!(known_by(&[]), Enclosing::Host);
        assert_eq!(known_by(&["a packet socket's", "10.16.0.2"]), run(false));
        assert_eq!(known_by(&["", "10.16.0.2", "fe80::1", "fd72:6474::a10:2"]), run(true));
        assert_eq!(known_by(&["", "10.0.0.1"]), Enclosing::Device, "the far end");
        assert_eq!(known_by(&[""]), Enclosing::Device, "without an address");
    }
}
