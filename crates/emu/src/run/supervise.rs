//! Outer process of `run`: relays packets, forwards signals and prints the report.

use std::io::{self, PipeReader};
use std::iter;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rdt_emulator::{Path, PathConfig};
use rdt_program::{Printer, exit};
use rdt_udp::{Waker, clock};
use rustix::event::{PollFd, PollFlags};

use super::address::{Block, v6};
use super::control::{Control, Message, Overflow};
use super::enclosing::{Enclosing, EnclosingRun};
use super::enter;
use super::network::Shape;
use super::permission_errors::Step;
use super::signals::Signals;
use super::stage::{InsideArgs, Stage};
use super::terminal::Foreground;
use super::tool::Tool;
use super::tun::{IpPackets, TunPort};
use crate::Failure;
use crate::account::Account;
use crate::account::DestinationName;
use crate::args::RunArgs;
use crate::calibration::Mode;
use crate::control_socket::{ControlSocket, InForce};
use crate::destinations::{By, Destination, OTHER, Selector, Table};
use crate::host::LossAlarm;
use crate::output::{Circumstances, Watchers};
use crate::paths::{Changes, Paths, PerDestination};
use crate::relay::Relay;
use crate::waiter::{Descriptors, Waiter, Waiting};
use crate::{stderr_log, talk};

/// Smallest MTU of an IPv6 link, bytes (RFC 8200, section 5).
const MIN_MTU_IPV6: u32 = 1280;
/// Exit code if the first inner process was killed: 128 + SIGKILL.
const EXIT_CODE_KILLED: u8 = 137;

const NOT_NESTED: &str = "this network has a device rdt0 but is not the near end of a run: this run is not nested, and has its \
                     own far end";

pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    args.output.check()?;
    if args.ipv6 && args.device_mtu < MIN_MTU_IPV6 {
        return Err(Failure::usage(format!("--device-mtu: IPv6 needs {MIN_MTU_IPV6} bytes")));
    }
    let (described, to) = args.paths.describe()?;
    args.output.check_inputs(iter::once(&described).chain(to.iter().map(|it| &it.described)))?;
    let (config, seed) = (described.config()?, described.seed());
    let to = routed(to, args.ipv6)?;
    let all = iter::once(&config).chain(to.iter().map(|(_, config)| config));
    args.calibration.check(all, Mode::Namespace)?;
    let _pipes = args.output.open_pipes()?;
    let control = args.control.as_deref().map(ControlSocket::bind).transpose()?;
    let mut signals = Signals::requests().map_err(Failure::system("cannot wait for signals"))?;
    let warnings = stderr_log()?;
    let internet = args.internet.map(Tool::find).transpose()?;
    let mut inside = Inside::start(args, internet, &to, warnings.clone())?;
    let in_force = || {
        let first = InForce::new(described, config.clone(), args.calibration.clone(), Mode::Namespace);
        to.iter().fold(first, |all, (it, config)| all.with(it, config.clone()))
    };
    let changes = control.as_ref().map(|control| control.serve(in_force(), warnings.clone())).transpose()?;
    let carried = carry((paths(&to, config, seed), changes), (seed, &to), &mut inside, &mut signals, args);
    inside.wait();
    // Restores Ctrl-C before the report, because its reader may be slow.
    signals.release();
    warnings.close();
    let (ended, Finished { accounts, destinations, watchers }) = carried?;
    // The report is printed even if the run failed, because packets may have been relayed.
    let (code, lost_before) = match ended {
        Ok((code, overflow)) => (code, overflow.map(Some)),
        Err(failure) => {
            talk(&failure.to_string());
            (failure.code(), [None; 2])
        }
    };
    let notes = internet.map(Tool::note).unwrap_or_default().to_owned();
    let destinations = names(&to, seed).into_iter().zip(destinations).collect();
    let circumstances = Circumstances { mode: "run", seed, lost_before, code, notes, destinations };
    Ok(args.output.finish(watchers, &accounts, &circumstances))
}

/// Destination, and the configuration of its path.
type Routed = (Destination, PathConfig);

/// Configures the paths of destinations.
fn routed(to: Vec<Destination>, ipv6: bool) -> Result<Vec<Routed>, Failure> {
    let all = to.into_iter().map(|it| {
        let usage = |message: &str| Failure::usage(format!("--to {}: {message}", it.name));
        if it.selector.is_ipv6() && !ipv6 {
            return Err(usage("an IPv6 destination needs --ipv6"));
        }
        let config = it.described.config().map_err(|failure| usage(&failure.to_string()))?;
        Ok((it, config))
    });
    all.collect()
}

fn table(to: &[Routed]) -> Option<Table> {
    (!to.is_empty()).then(|| Table::new(to.iter().map(|(it, _)| it.selector)))
}

/// Creates one path, or one for each destination and one for all others, which is number 0.
fn paths(to: &[Routed], config: PathConfig, seed: u64) -> Paths {
    if to.is_empty() {
        return Path::new(config, seed).into();
    }
    let others = to.iter().zip(1..).map(|((it, config), number)| (config.clone(), it.seed(number, seed)));
    Paths::PerDestination(PerDestination::new(iter::once((config, seed)).chain(others)))
}

/// Names the paths that [`paths`] creates; none without destinations.
fn names(to: &[Routed], seed: u64) -> Vec<DestinationName> {
    if to.is_empty() {
        return Vec::new();
    }
    let other = DestinationName { name: OTHER.into(), to: None, seed };
    let others = to.iter().zip(1..).map(|((it, _), number)| DestinationName {
        name: it.name.clone(),
        to: Some(it.selector.to_string()),
        seed: it.seed(number, seed),
    });
    iter::once(other).chain(others).collect()
}

/// Result of the command: exit code, and packets lost before the relay read them.
type Ended = Result<(u8, Overflow), Failure>;

/// Relays packets while the command runs. A failure after the first packet is in [`Ended`].
fn carry(
    path: (Paths, Option<Changes>),
    (seed, to): (u64, &[Routed]),
    inside: &mut Inside,
    signals: &mut Signals,
    args: &RunArgs,
) -> Result<(Ended, Finished), Failure> {
    let devices = inside.devices(signals)?;
    let watchers = || args.output.watchers(IpPackets, seed, inside.warnings.clone(), names(to, seed));
    let table = table(to);
    // With a NAT, a lookup is refused by the name server of the host, for reasons of its own.
    let lookups = args.internet.is_none().then(|| inside.warnings.clone());
    let ports = move |devices: [Arc<OwnedFd>; 2]| {
        let [near, far] = devices;
        let by = |by| table.clone().map(|table| (table, by));
        [TunPort::new(near, lookups, by(By::Destination)), TunPort::new(far, None, by(By::Source))]
    };
    let relay = Worker::start(path, devices, watchers, ports, args.wait)?;
    let ended = match signals.next() {
        // The signal arrived before the command was started.
        Some(signal) => Ok((exit::SIGNAL + signal.number, Overflow::default())),
        None => inside.supervise(signals, &relay),
    };
    let (relayed, finished) = relay.finish().map_err(Failure::system("the relay stopped"))?;
    // An error of the relay takes precedence, because it ended the run.
    let ended = relayed.map_err(Failure::system("the relay stopped")).and(ended);
    Ok((ended, finished))
}

/// Connection of the outer process to the processes inside the namespaces.
struct Inside {
    control: Control,
    child: Child,
    /// Far device of a nested run, until the relay owns it; otherwise `None`.
    far: Option<OwnedFd>,
    terminal: Foreground,
    /// Warnings for the user, printed by another thread so that a slow reader delays no signal.
    warnings: Printer,
}

impl Inside {
    fn start(
        args: &RunArgs,
        internet: Option<Tool>,
        to: &[Routed],
        warnings: Printer,
    ) -> Result<Self, Failure> {
        let shape = Shape { mtu: args.device_mtu, ipv6: args.ipv6 };
        let (far, block) = match Enclosing::look().map_err(Step::Configure.forbidden())? {
            Enclosing::Run(outer) => {
                check_nested(args, outer)?;
                let (far, block) = shape.attach_inner(outer.block)?;
                (Some(far), block)
            }
            Enclosing::Device => {
                warnings.print(NOT_NESTED);
                (None, Block::OUTERMOST)
            }
            Enclosing::Host => (None, Block::OUTERMOST),
        };
        check_addresses(to.iter().map(|(it, _)| it.selector), block)?;
        let terminal = Foreground::look();
        let (control, theirs) = Control::pair().map_err(Failure::system("no control socket"))?;
        let inside = InsideArgs {
            stage: Stage::Enter,
            control: theirs.as_raw_fd(),
            mtu: args.device_mtu,
            ipv6: args.ipv6,
            user_namespace: !args.no_user_namespace && far.is_none(),
            foreground: terminal.is_for_command(),
            near: block.near(),
            peer: Block::OUTERMOST.far(),
            also: to
                .iter()
                .filter_map(|(it, _)| Some(format!("{}={}", it.name, it.selector.host()?)))
                .collect(),
            internet,
            server: args.server.clone(),
            command: args.command.clone(),
        };
        let child = enter::inside(&inside).spawn().map_err(Step::Again.forbidden())?;
        Ok(Self { control, child, far, terminal, warnings })
    }

    /// Waits for the descriptors of the devices; returns the near one first.
    fn devices(&mut self, signals: &mut Signals) -> Result<[Arc<OwnedFd>; 2], Failure> {
        match self.receive_mapping_ids(signals)? {
            Some((Message::Ready, fds)) => {
                let mut fds = fds.into_iter().rev().chain(self.far.take());
                let devices = fds.next().zip(fds.next());
                let (near, far) = devices.ok_or_else(|| lost("the process inside sent no device"))?;
                Ok([near, far].map(Arc::new))
            }
            Some((Message::Failed(code, sentence), _)) => Err(Failure::new(code, sentence)),
            _ => Err(lost("the process inside ended")),
        }
    }

    fn supervise(&self, signals: &mut Signals, relay: &Worker) -> Ended {
        self.control.send(&Message::Go, &[]).map_err(Failure::system("the process inside is gone"))?;
        let mut losses = LossAlarm::default();
        loop {
            let mut fds = [
                PollFd::new(&*signals, PollFlags::IN),
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&relay.ended, PollFlags::IN),
            ];
            super::wait(&mut fds, None)?;
            let [_, said, relay_ended] = fds.map(|fd| !fd.revents().is_empty());
            while let Some(signal) = signals.next() {
                if !signal.from_terminal {
                    // Fails if the inner process has ended, which `receive` reports.
                    let _ = self.control.send(&Message::Signal(signal.number), &[]);
                }
            }
            if said {
                match self.receive()? {
                    Some((Message::Lost(lost), _)) => {
                        losses
                            .look(clock::now(), lost)
                            .iter()
                            .for_each(|sentence| self.warnings.print(sentence));
                    }
                    Some((Message::Stopped(had_terminal), _)) => {
                        let terminal = self.terminal.stop(had_terminal);
                        let _ = self.control.send(&Message::Continue(terminal), &[]);
                    }
                    Some((Message::Ended(code, overflow), _)) => return Ok((code, overflow)),
                    Some((Message::Failed(code, sentence), _)) => {
                        return Err(Failure::new(code, sentence));
                    }
                    _ => {
                        return Err(Failure::new(EXIT_CODE_KILLED, "the first process inside was killed"));
                    }
                }
            }
            if relay_ended {
                // The relay has ended with an error, which is in its result.
                return Ok((exit::OS, Overflow::default()));
            }
        }
    }

    /// Receives the next message, after mapping user IDs if the inner process asks for it.
    fn receive_mapping_ids(&self, signals: &mut Signals) -> Result<Option<(Message, Vec<OwnedFd>)>, Failure> {
        let first = self.receive_unless_ended(signals)?;
        if !matches!(first, Some((Message::Unmapped, _))) {
            return Ok(first);
        }
        let mapped = enter::map_all_ids(self.child.id());
        if let Err(error) = &mapped {
            tracing::debug!(%error, "only root is mapped");
        }
        // Fails if the inner process has ended, which `receive` reports.
        let _ = self.control.send(&Message::Mapped(mapped.is_ok()), &[]);
        self.receive_unless_ended(signals)
    }

    /// Receives the next message, or fails if a signal that requests the end arrives before it.
    fn receive_unless_ended(
        &self,
        signals: &mut Signals,
    ) -> Result<Option<(Message, Vec<OwnedFd>)>, Failure> {
        loop {
            let mut fds = [PollFd::new(&*signals, PollFlags::IN), PollFd::new(&self.control, PollFlags::IN)];
            super::wait(&mut fds, None)?;
            if !fds[1].revents().is_empty() {
                return self.receive();
            }
            if let Some(signal) = signals.next() {
                return Err(super::before_start(signal.number));
            }
        }
    }

    fn receive(&self) -> Result<Option<(Message, Vec<OwnedFd>)>, Failure> {
        self.control.receive().map_err(Failure::system("cannot read the control socket"))
    }

    /// Waits until all inner processes have ended, and takes the terminal back.
    fn wait(self) {
        let Self { control, mut child, terminal, .. } = self;
        // Closing this socket makes the inner process exit.
        drop(control);
        if let Err(error) = child.wait() {
            tracing::debug!(%error, "cannot wait for the process inside");
        }
        terminal.take_back();
    }
}

/// Refuses destinations whose address at the far end would be that of the command.
fn check_addresses(to: impl IntoIterator<Item = Selector>, block: Block) -> Result<(), Failure> {
    let near: [IpAddr; 2] = [block.near().into(), v6(block.near()).into()];
    match to.into_iter().find(|selector| selector.host().is_some_and(|host| near.contains(&host))) {
        Some(selector) => Err(Failure::usage(format!("--to {selector}: this address is that of CMD"))),
        None => Ok(()),
    }
}

/// Refuses options that only an outermost run can have.
fn check_nested(args: &RunArgs, outer: EnclosingRun) -> Result<(), Failure> {
    let refusal = if args.server.is_some() {
        "--server: only the outermost of nested runs has its own far end"
    } else if args.internet.is_some() {
        "--internet: give it to the outermost of nested runs, whose far end is that of all"
    } else if args.ipv6 && !outer.ipv6 {
        "--ipv6: the enclosing run has no IPv6 addresses"
    } else {
        return Ok(());
    };
    Err(Failure::usage(refusal))
}

fn lost(what: &str) -> Failure {
    Failure::new(exit::OS, format!("cannot set up the network: {what}"))
}

struct Finished {
    accounts: [Account; 2],
    /// Accounts of each path, if there is one for each destination.
    destinations: Vec<[Account; 2]>,
    watchers: Watchers<IpPackets>,
}

struct Worker {
    stop: Waker,
    /// Pipe whose other end is closed when the thread ends.
    ended: PipeReader,
    /// Thread of the relay; returns its result, and the accounts.
    thread: JoinHandle<(io::Result<()>, Finished)>,
}

impl Worker {
    fn start(
        (path, changes): (Paths, Option<Changes>),
        devices: [Arc<OwnedFd>; 2],
        watchers: impl FnOnce() -> Result<Watchers<IpPackets>, Failure>,
        ports: impl FnOnce([Arc<OwnedFd>; 2]) -> [TunPort; 2] + Send + 'static,
        waiting: Waiting,
    ) -> Result<Self, Failure> {
        let descriptors = Descriptors::new(&devices).map_err(Failure::system("no event descriptor"))?;
        let stop = descriptors.waker();
        let (ended, running) = io::pipe().map_err(Failure::system("no pipe"))?;
        // Last of the steps that can fail: observers that were created must also be finished.
        let watchers = watchers()?;
        let thread = thread::spawn(move || {
            let [near, far] = ports(devices);
            let mut relay = Relay::new(path, near, far, watchers).with_changes(changes);
            let result = relay.run(&mut Waiter::new(waiting, descriptors));
            drop(running);
            let destinations = relay.destinations();
            let (accounts, watchers) = relay.finish();
            (result, Finished { accounts, destinations, watchers })
        });
        Ok(Self { stop, ended, thread })
    }

    fn finish(self) -> io::Result<(io::Result<()>, Finished)> {
        self.stop.wake();
        self.thread.join().map_err(|_| io::Error::other("its thread panicked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_command_is_no_destination() {
        let inner = Block::OUTERMOST.child(1).unwrap();
        for (block, selector, is_refused) in [
            (Block::OUTERMOST, "10.0.0.2", true),
            (Block::OUTERMOST, "fd72:6474::a00:2", true),
            (Block::OUTERMOST, "fd72:6474::a00:3", false),
            (inner, "10.0.0.2", false),
            (inner, "10.16.0.2", true),
            (inner, "fd72:6474::a10:2", true),
            (inner, "::/0", false),
        ] {
            let result = check_addresses([selector.parse().unwrap()], block);
            assert_eq!(result.is_err(), is_refused, "{selector} in {block:?}");
        }
    }
}
