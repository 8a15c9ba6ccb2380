//! Packets of one transfer over a UDP socket, by the event loop of the calling thread.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_endpoint::thread::{Application, Flow, run, send_memory, send_rest};
use rdt_program::{Failure, Stop};
use rdt_transport::{
    ConfigError, Endpoint, FramePool, InitiatorConfig, Observer, Sender, SenderEvent, SenderStats,
};
use rdt_trust::{Attempt, AttemptEnd, bind_towards};
use rdt_udp::{Connected, SocketError, UdpIo, UdpOptions, UdpStats, Waiter, clock};

use crate::connection::Protection;
use crate::host::Found;
use crate::socket::FLUSH_TIMEOUT;
use crate::source::{Sink, Source, fill};
use crate::transfer::{Outcome, Watch};

/// State machine of one transfer in each format, as the application drives it.
pub(crate) trait Machine: Endpoint<Peer = ()> {
    /// Opens the transfer to the peer of the socket; again to another one, or with other `keys`.
    fn open(
        &mut self,
        now: Instant,
        attempt: Attempt,
        keys: Option<InitiatorConfig>,
    ) -> Result<(), ConfigError>;

    fn observe(&mut self, observer: Box<dyn Observer>);

    fn progress(&mut self, now: Instant) -> Option<Progress>;

    /// Reads from `source` what fits, and ends the stream at its end; or takes what has arrived.
    fn work(&mut self, now: Instant, source: &mut Option<Box<dyn Source>>) -> io::Result<Option<Progress>>;

    /// Returns when to call [`Machine::work`] without input.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Ends the transfer. A native receiver gets a CLOSE.
    fn abort(&mut self, now: Instant);

    fn syns(&self) -> u64;

    fn stats(&self) -> SenderStats;

    /// Returns how the transfer is protected; `None` for a classic one, and before the handshake.
    fn protection(&self) -> Option<Protection>;
}

pub(crate) enum Progress {
    /// The handshake is complete. `rtt`, if given, is printed as the handshake's duration.
    Connected {
        rtt: Option<Duration>,
    },
    Ended(Outcome),
}

/// Socket of a transfer, and its state machine.
pub(crate) struct Packets<M> {
    pub(crate) machine: M,
    pub(crate) socket: Connected,
    /// Counters of the socket when the present address was first tried.
    earlier: UdpStats,
    waiter: Waiter,
    /// Number of SYNs sent until one was answered.
    answered_syns: u64,
}

/// Binds a socket that reaches `addresses`. Returns those that it reaches, too.
pub(crate) fn bind(
    addresses: &[SocketAddr],
    options: UdpOptions,
) -> Result<(UdpIo, Vec<SocketAddr>), SocketError> {
    let io = bind_towards(addresses, |any| UdpIo::bind(any, options))?;
    let is_ipv4 = io.local_addr().is_ok_and(|local| local.is_ipv4());
    let reached = addresses.iter().copied().filter(|to| to.is_ipv4() || !is_ipv4).collect();
    Ok((io, reached))
}

impl<M: Machine> Packets<M> {
    /// Prepares a transfer over `io`. The stream of the machine that `create` makes takes frames
    /// from the pool. Ctrl-C wakes its event loop.
    pub(crate) fn new(
        io: UdpIo,
        found: &Found,
        stop: &Stop,
        create: impl FnOnce(FramePool) -> Result<M, Failure>,
    ) -> Result<Self, Failure> {
        let waiter = Waiter::new(io.socket(), Duration::ZERO).map_err(SocketError::Receive)?;
        stop.add(waiter.waker());
        let mut socket = Connected::new(io, found.addresses[0]);
        if let Some(occupancy) = found.local.as_ref().and_then(|local| local.occupancy.as_ref()) {
            socket.limit(Arc::clone(occupancy));
        }
        let machine = create(send_memory(&mut socket))?;
        Ok(Self { machine, socket, earlier: UdpStats::default(), waiter, answered_syns: 0 })
    }

    pub(crate) fn waker(&self) -> rdt_udp::Waker {
        self.waiter.waker()
    }

    /// Opens the transfer to an address, and runs it to its end.
    pub(crate) fn run(
        &mut self,
        watch: &mut Watch,
        attempt: Attempt,
        keys: Option<InitiatorConfig>,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<Outcome, SocketError> {
        let now = clock::now();
        watch.opened(now);
        self.earlier = self.socket.io().stats();
        self.socket.set_peer(attempt.address);
        if let Err(error) = self.machine.open(now, attempt, keys) {
            return Ok(Outcome::Lost { end: AttemptEnd::Final, failure: Failure::usage(error) });
        }
        if let Some(observer) = observer {
            self.machine.observe(observer);
        }
        let mut application = Running { watch, answered_syns: &mut self.answered_syns, end: None };
        run(&mut self.machine, &mut self.socket, &mut application, &mut self.waiter)?;
        let end = application.end.unwrap_or(Outcome::Interrupted);
        // Sends the CLOSE of an interrupted transfer even if the socket is full.
        send_rest(&mut self.machine, &mut self.socket, &mut self.waiter, FLUSH_TIMEOUT);
        Ok(end)
    }

    /// Returns the number of SYNs sent to the present address until one was answered.
    pub(crate) fn syns(&self) -> u64 {
        if self.answered_syns > 0 { self.answered_syns } else { self.machine.syns() }
    }

    /// Returns the counters of the socket without the ICMP errors that another address caused.
    pub(crate) fn socket_stats(&self) -> UdpStats {
        errors_since(self.earlier, self.socket.io().stats())
    }
}

fn errors_since(earlier: UdpStats, now: UdpStats) -> UdpStats {
    UdpStats { unreachable: now.unreachable - earlier.unreachable, ..now }
}

/// Application of a transfer: reads the source, prints status lines and records the outcome.
struct Running<'a> {
    watch: &'a mut Watch,
    answered_syns: &'a mut u64,
    end: Option<Outcome>,
}

impl Running<'_> {
    fn on_progress<M: Machine>(&mut self, now: Instant, machine: &M, progress: Progress) {
        match progress {
            Progress::Connected { rtt } => {
                *self.answered_syns = machine.syns();
                self.watch.lines.connected(now, rtt, machine.protection());
            }
            Progress::Ended(outcome) => self.end = Some(outcome),
        }
    }

    fn work<M: Machine>(&mut self, now: Instant, machine: &mut M) {
        if self.watch.step(now, || machine.stats()).is_err() {
            self.end = Some(Outcome::Interrupted);
            return;
        }
        while self.end.is_none() {
            match machine.work(now, &mut self.watch.source) {
                Ok(Some(progress)) => self.on_progress(now, machine, progress),
                Ok(None) => return,
                Err(error) => self.end = Some(Outcome::Unreadable(error)),
            }
        }
    }
}

impl<M: Machine> Application<M> for Running<'_> {
    fn pump(&mut self, now: Instant, machine: &mut M) -> Flow {
        while self.end.is_none()
            && let Some(progress) = machine.progress(now)
        {
            self.on_progress(now, machine, progress);
        }
        if self.end.is_none() {
            self.work(now, machine);
        }
        if self.end.is_some() {
            self.watch.lines.show(None);
            // The receiver does not know of these, so send a CLOSE.
            if matches!(self.end, Some(Outcome::Interrupted | Outcome::Unreadable(_) | Outcome::Lost { .. }))
            {
                machine.abort(now);
            }
            return Flow::Done;
        }
        Flow::Wait(self.watch.lines.deadline().into_iter().chain(machine.deadline()).min())
    }
}

impl Machine for Sender {
    fn open(&mut self, _: Instant, _: Attempt, _: Option<InitiatorConfig>) -> Result<(), ConfigError> {
        // Fails only if it is open: one address is tried in the classic format.
        let _ = Self::open(self);
        Ok(())
    }

    fn observe(&mut self, observer: Box<dyn Observer>) {
        Self::observe(self, observer);
    }

    fn progress(&mut self, _: Instant) -> Option<Progress> {
        Some(match self.poll_event()? {
            // The RTT of the last SYN is printed, as by the reference sender.
            SenderEvent::Connected { rtt } => Progress::Connected { rtt: Some(rtt) },
            SenderEvent::Finished { crc } => Progress::Ended(Outcome::Finished { crc: Some(crc) }),
            SenderEvent::Failed { phase, error } => Progress::Ended(Outcome::Failed { phase, error }),
        })
    }

    fn work(&mut self, _: Instant, source: &mut Option<Box<dyn Source>>) -> io::Result<Option<Progress>> {
        fill(source, Sink::Sender(self)).map(|()| None)
    }

    fn abort(&mut self, _: Instant) {
        Self::abort(self);
    }

    fn syns(&self) -> u64 {
        Self::stats(self).datagrams_sent
    }

    fn stats(&self) -> SenderStats {
        Self::stats(self)
    }

    fn protection(&self) -> Option<Protection> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_earlier_address_do_not_count() {
        let stats = |unreachable| UdpStats { unreachable, lost_too_big: 1, ..UdpStats::default() };
        let since = errors_since(stats(2), stats(3));
        assert_eq!((since.unreachable, since.lost_too_big), (1, 1));
    }
}
