//! First process of the namespaces. When it ends, the kernel kills all other processes in them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::mem;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rdt_program::exit;
use rdt_udp::clock;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group};
use rustix::thread::LinkNameSpaceType;

use super::address::Block;
use super::control::{Control, Message, Overflow};
use super::enter;
use super::nat::{self, HostNetwork, Nat};
use super::network::{self, Beyond, Drops, Shape};
use super::programs::{self, Listening, Place};
use super::resolver;
use super::signals::Signals;
use super::stage::InsideArgs;
use super::terminal::Terminal;
use super::tool;
use crate::Failure;
use crate::talk;

const SERVER_START_TIMEOUT: Duration = Duration::from_secs(5);
/// Age from which a UDP socket at a port of the kernel's choice is taken for one of a server. One
/// that waits for the answer to a query is closed sooner.
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);
const PORT_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Interval of the reports of packets lost before the relay.
const LOSS_REPORT_INTERVAL: Duration = Duration::from_secs(1);
const NAT_START_TIMEOUT: Duration = Duration::from_secs(5);
const SERVER_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Sets up the networks, runs the server and the command, and returns the message with the exit
/// code.
pub(crate) fn init(args: &InsideArgs, control: &Control) -> Result<Message, Failure> {
    enter::end_with_parent().map_err(Failure::system("cannot follow the parent"))?;
    control.keep().map_err(Failure::system("no control socket"))?;
    let signals = Signals::requests_and_children().map_err(Failure::system("cannot wait for signals"))?;
    let has_own_mounts = keep_mounts_inside();
    if has_own_mounts {
        own_proc();
    }
    let terminal = args.foreground.then(Terminal::open).flatten();
    let mut init = Init {
        args,
        control,
        signals,
        terminal,
        drops: Vec::new(),
        command: None,
        server: None,
        nat: None,
        host6: None,
        destinations: destinations(&args.also),
        ending: false,
    };
    if args.internet.is_some() && !has_own_mounts {
        return Err(Failure::unavailable("--internet needs mounts of its own, which this host refuses"));
    }
    let far = init.networks()?;
    if has_own_mounts {
        own_sys();
        // A nested run has the file of the enclosing one.
        if far.is_some() {
            let of_host = || fs::read_to_string(resolver::RESOLV_CONF).unwrap_or_default();
            let outside = args.internet.map(|_| nat::name_server(&of_host(), init.host6.is_some()));
            resolver::ask_at(outside.unwrap_or_else(|| args.peer.into()));
        }
    }
    let answer = control.receive().map_err(Failure::system("cannot read the control socket"))?;
    if !matches!(answer, Some((Message::Go, _))) {
        // The outer process has ended or requests the end.
        return Ok(Message::Ended(exit::INTERRUPTED, Overflow::default()));
    }
    if let (Some(line), Some(far)) = (&args.server, &far) {
        init.serve(line, far.as_fd())?;
    }
    let code = init.command()?;
    init.end_server()?;
    Ok(Message::Ended(code, init.lost()))
}

struct Init<'a> {
    args: &'a InsideArgs,
    control: &'a Control,
    signals: Signals,
    terminal: Option<Terminal>,
    /// Drop counters of the near device, and of the far device unless this run is nested.
    drops: Vec<Drops>,
    command: Option<Pid>,
    /// Server process; `None` once it has ended.
    server: Option<Pid>,
    /// NAT process; `None` once it has ended.
    nat: Option<Pid>,
    /// IPv6 address of the host's loopback services, if the NAT passes IPv6 on.
    host6: Option<Ipv6Addr>,
    /// Names and addresses of the destinations of `--to`.
    destinations: Vec<(String, IpAddr)>,
    /// True once the command has ended. Then the end of the server is not reported.
    ending: bool,
}

impl Init<'_> {
    /// Creates the networks of both ends, sends their devices to the outer process, and enters the
    /// near network. The far end of a nested run is in the enclosing network instead.
    fn networks(&mut self) -> Result<Option<File>, Failure> {
        let args = self.args;
        let shape = Shape { mtu: args.mtu, ipv6: args.ipv6 };
        let block = self.block()?;
        let mut far = None;
        let mut devices: Vec<OwnedFd> = Vec::new();
        if block == Block::OUTERMOST {
            if let Some(tool) = args.internet.filter(|_| args.ipv6) {
                self.host6 = tool.passes_ipv6().then_some(tool::HOST6);
                if self.host6.is_none() {
                    talk("--internet: the host has no IPv6 route, so pasta passes only IPv4 on");
                }
            }
            // Only the thread of `host` stays in the network of the host.
            let host = args.internet.map(|tool| (tool, HostNetwork::keep()));
            let beyond = if host.is_some() { Beyond::Nothing } else { Beyond::Everything };
            devices.push(shape.new_namespace(block.far(), beyond)?);
            if host.is_none() {
                network::add_addresses(&self.destinations)?;
            }
            far = Some(present_network()?);
            self.drops.push(Drops::here());
            if let Some((tool, host)) = host {
                let outside = Shape { ipv6: self.host6.is_some(), ..shape };
                self.connect(Nat::start(tool, outside, &host)?)?;
                shape.forward_to_nat(tool::DEVICE, block)?;
                if outside.ipv6 {
                    network::connect_ipv6(tool::DEVICE, tool, block)?;
                }
            }
        }
        let beyond = if far.is_some() { Beyond::Everything } else { Beyond::AllBut(block) };
        devices.push(shape.new_namespace(block.near(), beyond)?);
        self.drops.insert(0, Drops::here());
        let fds: Vec<_> = devices.iter().map(AsFd::as_fd).collect();
        self.control.send(&Message::Ready, &fds).map_err(Failure::system("cannot hand the devices out"))?;
        Ok(far)
    }

    /// Waits until the NAT of the current network is ready.
    fn connect(&mut self, mut nat: Nat) -> Result<(), Failure> {
        self.nat = Some(nat.pid);
        let latest = clock::now() + NAT_START_TIMEOUT;
        while !Nat::is_ready() {
            self.sleep(Some(PORT_CHECK_INTERVAL))?;
            // Reads SIGCHLD.
            if let Some(signal) = self.signals.next() {
                return Err(super::before_start(signal.number));
            }
            self.reap();
            if self.nat.is_none() {
                return Err(nat.ended());
            }
            if clock::now() > latest {
                return Err(nat.late(NAT_START_TIMEOUT));
            }
        }
        Ok(())
    }

    fn block(&self) -> Result<Block, Failure> {
        Block::with_near_end(self.args.near)
            .ok_or_else(|| Failure::usage(format!("{} is not the near end of a network", self.args.near)))
    }

    fn serve(&mut self, line: &OsStr, far: BorrowedFd<'_>) -> Result<(), Failure> {
        let here = present_network()?;
        go_to(far)?;
        let place = Place { local: self.block()?.far(), peer: self.args.near, ..self.place() };
        let server =
            programs::start_server(line, &place).map_err(Failure::system("cannot start the server"))?;
        self.server = Some(server);
        let latest = clock::now() + SERVER_START_TIMEOUT;
        let mut perhaps_since = None;
        while self.server.is_some() {
            let now = clock::now();
            match Listening::look() {
                Listening::Yes => break,
                Listening::Perhaps if now >= *perhaps_since.get_or_insert(now) + QUERY_TIMEOUT => break,
                Listening::Perhaps => {}
                Listening::No => perhaps_since = None,
            }
            if now >= latest {
                let seconds = SERVER_START_TIMEOUT.as_secs();
                talk(&format!("the server listens at no port after {seconds} s; CMD starts"));
                break;
            }
            self.sleep(Some(PORT_CHECK_INTERVAL))?;
            if self.signals.any() {
                break;
            }
            self.reap();
        }
        go_to(here.as_fd())
    }

    fn command(&mut self) -> Result<u8, Failure> {
        let args = self.args;
        if let Some(signal) = self.signals.next() {
            return Ok(exit::SIGNAL + signal.number);
        }
        let place = self.place();
        let command = programs::start(&args.command, &place, self.terminal.as_ref()).map_err(|error| {
            let name = args.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            super::not_run(&name, &error)
        })?;
        self.command = Some(command);
        let mut lost = Overflow::default();
        loop {
            if let Some(code) = self.reap() {
                return Ok(code);
            }
            self.sleep(Some(LOSS_REPORT_INTERVAL))?;
            if mem::replace(&mut lost, self.lost()) != lost {
                // If sending fails, the next `sleep` detects it.
                let _ = self.control.send(&Message::Lost(lost), &[]);
            }
            while let Some(signal) = self.signals.next() {
                // The terminal has sent this signal to the command too.
                if !signal.from_terminal {
                    pass_on(signal.number, command);
                }
            }
        }
    }

    /// Addresses for the command.
    fn place(&self) -> Place {
        let Self { args, destinations, .. } = self;
        let host = args.internet.map(|_| tool::HOST.into());
        let hosts = [host, self.host6.map(IpAddr::from)];
        let destinations = destinations.clone();
        Place { local: args.near, peer: args.peer, ipv6: args.ipv6, hosts, destinations }
    }

    fn lost(&self) -> Overflow {
        let count = |place| self.drops.get(place).map(Drops::count).unwrap_or_default();
        [count(0), count(1)]
    }

    fn end_server(&mut self) -> Result<(), Failure> {
        self.ending = true;
        self.reap();
        if let Some(server) = self.server {
            let _ = kill_process_group(server, Signal::TERM);
        }
        let latest = clock::now() + SERVER_STOP_TIMEOUT;
        while let (Some(_), Some(rest)) = (self.server, left(latest)) {
            self.sleep(Some(rest))?;
            while self.signals.next().is_some() {}
            self.reap();
        }
        Ok(())
    }

    /// Waits for a signal, the end of a child or a message. Queues signals that arrive as messages.
    /// Fails if the outer process has ended.
    fn sleep(&mut self, timeout: Option<Duration>) -> Result<(), Failure> {
        let mut fds = [PollFd::new(&self.signals, PollFlags::IN), PollFd::new(self.control, PollFlags::IN)];
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        super::wait(&mut fds, timeout.as_ref())?;
        if fds[1].revents().is_empty() {
            return Ok(());
        }
        match self.control.receive() {
            Ok(Some((Message::Signal(number), _))) => {
                self.signals.push(number);
                Ok(())
            }
            Ok(Some((Message::Continue(terminal), _))) => {
                self.resume(terminal);
                Ok(())
            }
            Ok(Some(_)) => Ok(()),
            // The kernel kills all other processes in the namespaces when this one exits. That is
            // after files such as that of a NAT are removed.
            Ok(None) | Err(_) => Err(Failure::new(exit::INTERRUPTED, "the outer process has ended")),
        }
    }

    /// Collects children that have ended or stopped. Returns the exit code of an ended command.
    fn reap(&mut self) -> Option<u8> {
        let mut end = None;
        while let Some((pid, status)) = next_change() {
            let is_command = Some(pid) == self.command;
            let Some(code) = exit_code(status) else {
                if is_command {
                    self.on_stop(pid);
                }
                continue;
            };
            if is_command {
                end = Some(code);
                self.command = None;
            } else if Some(pid) == self.nat {
                self.nat = None;
                if !self.ending {
                    talk(&format!("the program of --internet ended with code {code}"));
                }
            } else if Some(pid) == self.server {
                self.server = None;
                if code != 0 && !self.ending {
                    talk(&format!("the server ended with code {code}"));
                }
            }
        }
        end
    }
}

/// Job control: the command appears as a job of the shell outside.
impl Init<'_> {
    /// Reports that the command was stopped. If it has a terminal, the whole run must stop, as it
    /// would if the command had no process group of its own.
    fn on_stop(&self, command: Pid) {
        if let Some(terminal) = &self.terminal {
            // If sending fails, the next `sleep` detects it.
            let _ = self.control.send(&Message::Stopped(terminal.is_with(command)), &[]);
        }
    }

    /// Resumes the command, in the foreground of the terminal if `with_terminal`.
    fn resume(&self, with_terminal: bool) {
        let Some(command) = self.command else { return };
        if let Some(terminal) = self.terminal.as_ref().filter(|_| with_terminal)
            && let Err(error) = terminal.give_to(command)
        {
            tracing::debug!(%error, "the command goes on in the background");
        }
        // Fails if the command has just ended.
        let _ = kill_process_group(command, Signal::CONT);
    }
}

/// Mounts a read-only /sys that shows the near network instead of the host's. If that is refused,
/// programs see that of the host.
fn own_sys() {
    const CGROUPS: &str = "/sys/fs/cgroup";
    let groups = File::open(CGROUPS);
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if let Err(error) = rustix::mount::mount("sysfs", "/sys", "sysfs", flags, None) {
        tracing::debug!(%error, "/sys stays that of the host");
        return;
    }
    // Programs find their memory limit there, and the new /sys has no such mount.
    let Ok(groups) = groups else { return };
    let groups = format!("/proc/self/fd/{}", groups.as_raw_fd());
    if let Err(error) = rustix::mount::mount_bind_recursive(groups, CGROUPS) {
        tracing::debug!(%error, "the command finds no control groups");
    }
}

/// Mounts a /proc of the new process namespace. If that is refused, programs see that of the host.
fn own_proc() {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if let Err(error) = rustix::mount::mount("proc", "/proc", "proc", flags, None) {
        tracing::debug!(%error, "/proc stays that of the host");
    }
}

/// Keeps later mounts inside the mount namespace: by default they would appear on the host too.
/// Returns false if that is refused.
fn keep_mounts_inside() -> bool {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let changed = rustix::mount::mount_change("/", private);
    if let Err(error) = changed {
        tracing::debug!(%error, "/proc and /sys stay those of the host");
    }
    changed.is_ok()
}

/// Parses the further addresses of the far end, each NAME=ADDRESS.
fn destinations(also: &[String]) -> Vec<(String, IpAddr)> {
    let parse = |text: &String| {
        let (name, address) = text.split_once('=')?;
        Some((name.to_owned(), address.parse().ok()?))
    };
    also.iter().filter_map(parse).collect()
}

fn present_network() -> Result<File, Failure> {
    File::open("/proc/thread-self/ns/net").map_err(Failure::system("cannot find the network namespace"))
}

fn go_to(network: BorrowedFd<'_>) -> Result<(), Failure> {
    rustix::thread::move_into_link_name_space(network, Some(LinkNameSpaceType::Network))
        .map_err(|errno| Failure::system("cannot change to the other network")(errno.into()))
}

fn pass_on(number: u8, to: Pid) {
    if let Some(signal) = Signal::from_named_raw(number.into()) {
        // Fails if the process has already ended.
        let _ = kill_process(to, signal);
    }
}

/// Returns the process id and status of a child that has ended or stopped; `None` without one.
fn next_change() -> Option<(Pid, WaitStatus)> {
    rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED).ok()?
}

/// Returns the exit code of a child as a shell reports it; `None` if it has not ended.
fn exit_code(status: WaitStatus) -> Option<u8> {
    let signal = || status.terminating_signal().map(|signal| i32::from(exit::SIGNAL) + signal);
    let code = status.exit_status().or_else(signal)?;
    // Codes are at most 255, signals at most 64.
    Some(u8::try_from(code).unwrap_or(u8::MAX))
}

fn left(latest: Instant) -> Option<Duration> {
    Some(latest.saturating_duration_since(clock::now())).filter(|rest| !rest.is_zero())
}
