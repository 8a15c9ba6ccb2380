//! Waits of a relay for a packet, a due time or the end. Measured:
//! docs/measurements/2026-11-21-emulator.md.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_udp::{BusyPoll, Policy, clock};
#[cfg(target_os = "linux")]
use rdt_udp::{PollSet, Waker};

/// Time before a deadline at which sleeping ends, because the kernel wakes threads late.
pub(crate) const SPIN: Duration = Duration::from_micros(60);

/// How a relay spends the time between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Waiting {
    /// Busy-poll on one processor while packets pass, so that no packet is late by a wake-up
    #[default]
    Spin,
    /// Sleep between packets, which frees the processor but delays packets by a wake-up
    Sleep,
}

pub(crate) trait Wait {
    /// Waits until a port is ready, `deadline` is near, or the end is requested; may return early.
    /// Returns false if the end is requested.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    Nothing,
    Packet,
    Stop,
}

pub(crate) trait PollPorts {
    /// Polls until a port is ready, the end is requested or `timeout` is over; may return early.
    fn poll_ports(&mut self, timeout: Option<Duration>) -> io::Result<Readiness>;
}

/// Waits on the ports of one thread.
pub(crate) struct Waiter<L> {
    ports: L,
    busy_poll: BusyPoll,
}

impl<L: PollPorts> Waiter<L> {
    pub(crate) fn new(waiting: Waiting, ports: L) -> Self {
        let policy = match waiting {
            Waiting::Spin => Policy::WhilePacketsPass,
            Waiting::Sleep => Policy::Brief,
        };
        Self { ports, busy_poll: BusyPoll::new(policy) }
    }
}

impl<L: PollPorts> Wait for Waiter<L> {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        let Self { ports, busy_poll } = self;
        let begin = clock::now();
        let sleep_until = deadline.map(|deadline| deadline.checked_sub(SPIN).unwrap_or(begin));
        let mut seen = Readiness::Nothing;
        if sleep_until.is_some_and(|until| until <= begin) {
            std::hint::spin_loop();
            // Poll even without time left: a path that is never idle would miss the end otherwise.
            seen = ports.poll_ports(Some(Duration::ZERO))?;
            if seen == Readiness::Packet {
                busy_poll.note_ready();
            }
        } else {
            busy_poll.wait(begin, sleep_until, |timeout| {
                seen = ports.poll_ports(timeout)?;
                Ok(seen != Readiness::Nothing)
            })?;
        }
        Ok(seen != Readiness::Stop)
    }
}

/// Two ports that are file descriptors. Using the waker requests the end.
#[cfg(target_os = "linux")]
pub(crate) struct Descriptors {
    set: PollSet<OwnedFd>,
    ready: Vec<usize>,
    stopped: bool,
}

#[cfg(target_os = "linux")]
impl Descriptors {
    pub(crate) fn new(ports: &[Arc<OwnedFd>; 2]) -> io::Result<Self> {
        let mut set = PollSet::new(ports.len() + 1)?;
        for (key, port) in ports.iter().enumerate() {
            set.add(key, Arc::clone(port))?;
        }
        Ok(Self { set, ready: Vec::new(), stopped: false })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.set.waker()
    }
}

#[cfg(target_os = "linux")]
impl PollPorts for Descriptors {
    fn poll_ports(&mut self, timeout: Option<Duration>) -> io::Result<Readiness> {
        self.ready.clear();
        self.stopped = self.stopped || self.set.poll(timeout, &mut self.ready)?;
        Ok(match self.ready.is_empty() {
            _ if self.stopped => Readiness::Stop,
            true => Readiness::Nothing,
            false => Readiness::Packet,
        })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
