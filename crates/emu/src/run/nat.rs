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
use std::net::Ipv4Addr;
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

use crate::args::Internet;
use crate::failure::Failure;

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
        wanted.iter().copied().find(is_there).ok_or_else(|| Failure::Forbidden(missing(wanted)))
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

    /// Returns the command that connects the network namespace at `network`.
    fn command(self, network: &Path, mtu: u32) -> Command {
        let mut command = Command::new(self.name());
        match self {
            Self::Slirp4netns => {
                command.arg("--configure").arg(format!("--mtu={mtu}"));
                command.arg(format!("--cidr={}/{PREFIX}", Ipv4Addr::from_bits(HOST.to_bits() & !0xff)));
                command.arg("--netns-type=path").arg(network).arg(DEVICE);
            }
            Self::Pasta => {
                command.args(["--foreground", "--ipv4-only", "--config-net", "--ns-ifname", DEVICE]);
                // The program runs in the user namespace already, as its root.
                command.args(["--netns-only", "--runas", "0", "--no-netns-quit", "--netns"]).arg(network);
                command.arg("--mtu").arg(mtu.to_string());
                for (option, address) in
                    [("--address", FAR), ("--gateway", HOST), ("--dns-forward", NAME_SERVER)]
                {
                    command.arg(option).arg(address.to_string());
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
    pub(crate) fn start(tool: Tool, mtu: u32, host: &HostNetwork) -> Result<Self, Failure> {
        let network = NamedTempFile::new().map_err(Failure::system("no temporary file"))?;
        // The path in /proc would be refused: a NAT program drops the right to look into processes.
        mount_bind("/proc/thread-self/ns/net", network.path())
            .map_err(|errno| Failure::system("cannot name the far network")(errno.into()))?;
        let log = tempfile::tempfile().map_err(Failure::system("no temporary file"))?;
        let output = || log.try_clone().map(Stdio::from).map_err(Failure::system("no descriptor"));
        let mut command = tool.command(network.path(), mtu);
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
        let pid = host.start(command).map_err(|error| Failure::NotRun { name: tool.name().into(), error })?;
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
        Failure::Forbidden(format!("--internet: {name} does not connect the far end{said}"))
    }

    /// Describes a program that still runs. Its output so far need not have to do with that.
    pub(crate) fn late(&self, timeout: Duration) -> Failure {
        let name = self.tool.name();
        Failure::Forbidden(format!("--internet: {name} was not ready within {} s", timeout.as_secs()))
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
