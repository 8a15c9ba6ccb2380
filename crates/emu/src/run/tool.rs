//! NAT programs of `--internet`, their arguments, and the addresses of their network.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::internet::Internet;

/// Device of the NAT in the far network.
pub(crate) const DEVICE: &str = "tap0";
/// Address by which programs inside reach the loopback addresses of the host. The network is that
/// for benchmarks (RFC 2544), which real hosts do not have.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Address at which the NAT passes lookups on to the name server of the host.
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);
/// Address of the far end in the network of the NAT.
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 100);
const PREFIX: u8 = 24;
/// The same addresses for IPv6. The network is that of slirp4netns, which cannot be changed.
pub(crate) const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
pub(crate) const NAME_SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3);
pub(crate) const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100);
pub(crate) const PREFIX6: u8 = 64;

/// NAT programs, in the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tool {
    Slirp4netns,
    Pasta,
}

impl Tool {
    /// pasta of 2023-03-09 (Debian 12) never ends a connection whose client ended its direction
    /// first.
    const ALL: [Self; 2] = [Self::Slirp4netns, Self::Pasta];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Slirp4netns => "slirp4netns",
            Self::Pasta => "pasta",
        }
    }

    const fn package(self) -> &'static str {
        match self {
            Self::Slirp4netns => "slirp4netns",
            Self::Pasta => "passt",
        }
    }

    /// Returns the program for `--internet`, if it is installed.
    pub(crate) fn find(asked: Internet) -> Result<Self, Failure> {
        let wanted: &[Self] = match asked {
            Internet::Auto => &Self::ALL,
            Internet::Slirp4netns => &[Self::Slirp4netns],
            Internet::Pasta => &[Self::Pasta],
        };
        let folders = env::var_os("PATH").unwrap_or_default();
        let is_there = |tool: &Self| env::split_paths(&folders).any(|it| is_program(&it.join(tool.name())));
        wanted.iter().copied().find(is_there).ok_or_else(|| Failure::unavailable(missing(wanted)))
    }

    /// Returns a line of the report about TCP, whose connections the NAT terminates on both sides.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::Slirp4netns => {
                "--internet: TCP from outside crossed the path as slirp4netns sends it, at most 64 KiB in a round trip"
            }
            Self::Pasta => {
                "--internet: TCP from outside crossed the path as pasta sends it, without congestion control"
            }
        }
    }

    /// Returns true if the program can pass IPv6 on in the current network. pasta (2023-03-09)
    /// needs a default route.
    pub(crate) fn passes_ipv6(self) -> bool {
        let has_route = || {
            let table = fs::read_to_string("/proc/thread-self/net/ipv6_route");
            table.is_ok_and(|table| has_default_route6(&table))
        };
        self == Self::Slirp4netns || has_route()
    }

    /// Returns the command that connects the network namespace at `network`.
    pub(super) fn command(self, network: &Path, mtu: u32, ipv6: bool) -> Command {
        let mut command = Command::new(self.name());
        match self {
            Self::Slirp4netns => {
                command.arg("--configure").arg(format!("--mtu={mtu}"));
                command.arg(format!("--cidr={}/{PREFIX}", Ipv4Addr::from_bits(HOST.to_bits() & !0xff)));
                if ipv6 {
                    command.arg("--enable-ipv6");
                }
                command.arg("--netns-type=path").arg(network).arg(DEVICE);
            }
            Self::Pasta => {
                command.args(["--foreground", "--config-net", "--ns-ifname", DEVICE]);
                // The program runs in the user namespace already, as its root.
                command.args(["--netns-only", "--runas", "0", "--no-netns-quit", "--netns"]).arg(network);
                command.arg("--mtu").arg(mtu.to_string());
                for (option, v4, v6) in [
                    ("--address", FAR, FAR6),
                    ("--gateway", HOST, HOST6),
                    ("--dns-forward", NAME_SERVER, NAME_SERVER6),
                ] {
                    command.arg(option).arg(v4.to_string());
                    if ipv6 {
                        command.arg(option).arg(v6.to_string());
                    }
                }
                if !ipv6 {
                    command.arg("--ipv4-only");
                }
                command.args(["--netmask", "255.255.255.0"]);
                // Forwards no ports, neither into the far network nor out of it.
                for option in ["--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"] {
                    command.args([option, "none"]);
                }
            }
        }
        command
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn missing(wanted: &[Tool]) -> String {
    let names: Vec<_> = wanted.iter().map(|tool| tool.name()).collect();
    let packages: Vec<_> = wanted.iter().map(|tool| tool.package()).collect();
    format!(
        "--internet needs the program {}, which is not on the PATH; install the package {}",
        names.join(" or "),
        packages.join(" or ")
    )
}

/// Looks in the kernel's table of IPv6 routes for one to `::/0` that is no entry of `lo`, which the
/// kernel has for unreachable addresses.
fn has_default_route6(table: &str) -> bool {
    table.lines().any(|line| {
        let mut columns = line.split_whitespace();
        let is_default = columns.next() == Some(&"0".repeat(32)) && columns.next() == Some("00");
        is_default && columns.next_back().is_some_and(|device| device != "lo")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_with_packages() {
        let both = missing(&Tool::ALL);
        assert!(both.contains("slirp4netns or pasta") && both.contains("slirp4netns or passt"), "{both}");
        let one = missing(&[Tool::Pasta]);
        assert!(one.contains("the program pasta,") && one.ends_with("the package passt"), "{one}");
    }

    #[test]
    fn folder_on_path_is_no_program() {
        assert!(is_program(Path::new("/bin/sh")));
        assert!(!is_program(Path::new("/bin")) && !is_program(Path::new("/dev/null")));
        assert!(!is_program(Path::new("/no/such/program")));
    }

    #[test]
    fn ipv6_default_route_is_one_of_a_device() {
        let route = |to: &str, length, device| {
            format!("{to} {length} {0} 00 {0} 0400 1 0 3 {device}\n", "0".repeat(32))
        };
        let zero = "0".repeat(32);
        assert!(has_default_route6(&route(&zero, "00", "eth0")));
        assert!(!has_default_route6(&route(&zero, "00", "lo")));
        assert!(!has_default_route6(&route(&zero, "08", "eth0")));
        assert!(!has_default_route6(&route("fd000000000000000000000000000000", "40", "eth0")));
        assert!(!has_default_route6(""));
    }
}
