//! `--internet`: a user-space NAT between the far end and the network of the host.
//!
//! ```text
//! CMD -- rdt0 == path == rdt0 -- far network -- tap0 -- slirp4netns, pasta -- sockets of the host
//! ```
//!
//! The program is started in the network of the host, but in the process namespace of the run, so
//! that the kernel kills it with the run.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use nix::sched::CloneFlags;
use nix::sys::signal::SigSet;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::process::Pid;
use tempfile::NamedTempFile;

use super::network::Shape;
use crate::Failure;
use crate::args::Internet;

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
/// Size limit of the part of the program's output that a failure is searched for in, bytes.
const MAX_LOG: u64 = 1 << 16;

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
    fn command(self, network: &Path, mtu: u32, ipv6: bool) -> Command {
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

/// Starts programs in the network in which it was created, by a thread that stays there.
pub(crate) struct HostNetwork {
    commands: Sender<Command>,
    started: Receiver<io::Result<Pid>>,
}

impl HostNetwork {
    pub(crate) fn keep() -> Self {
        let (commands, received) = channel::<Command>();
        let (starts, started) = channel();
        thread::spawn(move || {
            for mut command in received {
                let pid = command.spawn().map(|child| Pid::from_child(&child));
                if starts.send(pid).is_err() {
                    break;
                }
            }
        });
        Self { commands, started }
    }

    fn start(&self, command: Command) -> io::Result<Pid> {
        let gone = || io::Error::other("its thread ended");
        self.commands.send(command).map_err(|_| gone())?;
        self.started.recv().map_err(|_| gone())?
    }
}

/// NAT program that was started, until it is ready.
pub(crate) struct Nat {
    pub(crate) tool: Tool,
    pub(crate) pid: Pid,
    /// Its output.
    log: File,
    /// Mount point of the network namespace.
    network: NamedTempFile,
}

impl Nat {
    /// Starts the program for the network of the calling thread.
    pub(crate) fn start(tool: Tool, shape: Shape, host: &HostNetwork) -> Result<Self, Failure> {
        let network = NamedTempFile::new().map_err(Failure::system("no temporary file"))?;
        // The path in /proc would be refused: a NAT program drops the right to look into processes.
        mount_bind("/proc/thread-self/ns/net", network.path())
            .map_err(|errno| Failure::system("cannot name the far network")(errno.into()))?;
        let log = tempfile::tempfile().map_err(Failure::system("no temporary file"))?;
        let output = || log.try_clone().map(Stdio::from).map_err(Failure::system("no descriptor"));
        let mut command = tool.command(network.path(), shape.mtu, shape.ipv6);
        command.stdin(Stdio::null()).stdout(output()?).stderr(output()?).process_group(0);
        let prepare = || {
            // It keeps /etc/resolv.conf of the host, which names the server that it asks.
            nix::sched::unshare(CloneFlags::CLONE_NEWNS)?;
            Ok(SigSet::empty().thread_set_mask()?)
        };
        // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
        #[expect(unsafe_code, reason = "the program needs a mount namespace, and no blocked signals")]
        unsafe {
            command.pre_exec(prepare);
        }
        let pid = host.start(command).map_err(|error| super::not_run(tool.name(), &error))?;
        Ok(Self { tool, pid, log, network })
    }

    /// Returns true if the device of the NAT has a default route in the current network namespace.
    pub(crate) fn is_ready() -> bool {
        fs::read_to_string("/proc/thread-self/net/route").is_ok_and(|table| has_default_route(&table))
    }

    /// Describes the failure of a program that ended, by the last line of its output.
    pub(crate) fn ended(&mut self) -> Failure {
        let name = self.tool.name();
        let mut output = String::new();
        let read = self.log.rewind().and_then(|()| (&self.log).take(MAX_LOG).read_to_string(&mut output));
        let said = read.ok().and_then(|_| output.lines().rfind(|line| !line.trim().is_empty()));
        let said = said.map_or_else(String::new, |line| format!(": {}", line.trim()));
        Failure::unavailable(format!("--internet: {name} does not connect the far end{said}"))
    }

    /// Describes a program that still runs. Its output so far need not have to do with that.
    pub(crate) fn late(&self, timeout: Duration) -> Failure {
        let name = self.tool.name();
        Failure::unavailable(format!("--internet: {name} was not ready within {} s", timeout.as_secs()))
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        // A mount point cannot be removed.
        if let Err(error) = unmount(self.network.path(), UnmountFlags::DETACH) {
            tracing::debug!(%error, "the file of the far network stays");
        }
    }
}

/// Looks in the kernel's table of routes for one to 0.0.0.0 by the device of the NAT.
fn has_default_route(table: &str) -> bool {
    table.lines().any(|line| {
        let mut columns = line.split_whitespace();
        columns.next() == Some(DEVICE) && columns.next() == Some("00000000")
    })
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

/// Returns the address at which lookups are passed on. The NAT asks the first name server of the
/// host that has the family of this address, so it is that of the first one in `resolv_conf`.
pub(crate) fn name_server(resolv_conf: &str, ipv6: bool) -> IpAddr {
    let mut servers = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let first = servers.find_map(|it| it.trim().split('%').next()?.parse().ok());
    match first {
        Some(IpAddr::V6(_)) if ipv6 => NAME_SERVER6.into(),
        _ => NAME_SERVER.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn name_server_has_family_of_first_of_host() {
        for (text, ipv6, expected) in [
            ("nameserver 127.0.0.53\nnameserver ::1\n", true, "198.18.0.3"),
            ("# nameserver 192.0.2.1\nsearch example\nnameserver fe80::1%eth0\n", true, "fd00::3"),
            ("nameserver\t2001:db8::1\nnameserver 192.0.2.1\n", false, "198.18.0.3"),
            ("", true, "198.18.0.3"),
        ] {
            assert_eq!(name_server(text, ipv6).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn missing_programs_are_named_with_packages() {
        let both = missing(&Tool::ALL);
        assert!(both.contains("slirp4netns or pasta") && both.contains("slirp4netns or passt"), "{both}");
        let one = missing(&[Tool::Pasta]);
        assert!(one.contains("the program pasta,") && one.ends_with("the package passt"), "{one}");
    }

    #[test]
    fn default_route_of_device_is_found() {
        let route = |device, to| format!("Iface\tDestination\tGateway\n{device}\t{to}\t0264A8C0\t0003\n");
        assert!(has_default_route(&route("tap0", "00000000")));
        assert!(!has_default_route(&route("rdt0", "00000000")));
        assert!(!has_default_route(&route("tap0", "000012C6")));
    }

    #[test]
    fn folder_on_path_is_no_program() {
        assert!(is_program(Path::new("/bin/sh")));
        assert!(!is_program(Path::new("/bin")) && !is_program(Path::new("/dev/null")));
        assert!(!is_program(Path::new("/no/such/program")));
    }
}
