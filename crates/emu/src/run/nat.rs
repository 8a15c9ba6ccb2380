//! `--internet`: a user-space NAT between the far end and the network of the host.
//!
//! ```text
//! CMD -- rdt0 == path == rdt0 -- far network -- tap0 -- slirp4netns, pasta -- sockets of the host
//! ```
//!
//! The program is started in the network of the host, but in the process namespace of the run, so
//! that the kernel kills it with the run.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
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
use super::tool::{DEVICE, NAME_SERVER, NAME_SERVER6, Tool};
use crate::Failure;

/// Size limit of the part of the program's output that a failure is searched for in, bytes.
const MAX_LOG: u64 = 1 << 16;

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
    fn default_route_of_device_is_found() {
        let route = |device, to| format!("Iface\tDestination\tGateway\n{device}\t{to}\t0264A8C0\t0003\n");
        assert!(has_default_route(&route("tap0", "00000000")));
        assert!(!has_default_route(&route("rdt0", "00000000")));
        assert!(!has_default_route(&route("tap0", "000012C6")));
    }
}
