//! The load program of the engines `kernel` and `real`: runs flows of rdt, and of the kernel's TCP
//! and UDP, and prints what it counted. The flows cross the path of `rdt-emu run`, inside
//! its network namespaces, or the loopback device if there is no path.
//!
//! One process has the sockets of both ends, so that all flows share one clock. A second process
//! only holds the namespace of the far end.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | request | `request.rs` | flows and settings |
//! | end | `network.rs` | namespaces, sysctls and routes of both ends |
//! | counts | `counts.rs` | bytes in bins, samples of senders |
//! | TCP, UDP, rdt | `tcp.rs`, `udp.rs`, `rdt.rs` | senders and receivers |

mod counts;
mod network;
mod rdt;
pub mod request;
mod tcp;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdt_emulator::child_seed;
use rdt_udp::{TcpInfo, clock};

use crate::engine::error::EngineError;
use crate::engine::words::{connection_seed, ends, source};
use crate::flow::{Flow, FlowKind};
pub(crate) use counts::{CA_CWR, CA_LOSS, CA_RECOVERY, Counts, FlowCounts, Received, Sample, Sent};
use network::End;
use request::Request;

/// Port of the first flow; each flow has its own.
pub(crate) const FIRST_PORT: u16 = 5001;
/// Time between the preparation of all sockets and the start of the run, time 0.
const LEAD: Duration = Duration::from_millis(50);
/// Interval of the samples of `TCP_INFO`.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Longest wait at the end for datagrams in flight, in addition to [`Request::quiet`].
const MAX_DRAIN: Duration = Duration::from_secs(5);

/// Why the load program cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The program was started by hand.
    #[error("this command is for the engines 'kernel' and 'real' to start, inside 'rdt-emu run'")]
    NotInside,
    /// The request cannot be parsed.
    #[error("the request is not one of this version")]
    Request,
    /// A flow has words that the load program cannot apply.
    #[error(transparent)]
    Word(#[from] EngineError),
    /// A sysctl cannot be set.
    #[error("cannot set {0} = {1} in a network namespace: {2}")]
    Sysctl(String, String, io::Error),
    /// The kernel lacks a congestion control.
    #[error(transparent)]
    Congestion(#[from] rdt_udp::NoCongestionControl),
    /// Any other step failed.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

impl LoadError {
    fn system(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System(step, error)
    }
}

/// Runs the flows of the request in a file, and returns the counts for the engine. The file `far`
/// in the same folder has the process number of the far end.
pub fn run(file: &Path) -> Result<Vec<u8>, LoadError> {
    let bytes = std::fs::read(file).map_err(LoadError::system("cannot read the request"))?;
    let request: Request = postcard::from_bytes(&bytes).map_err(|_| LoadError::Request)?;
    let ends = if request.has_path {
        End::both(&file.with_file_name(FAR_FILE), request.ipv6)?
    } else {
        End::loopback()
    };
    for (end, metrics) in ends.iter().zip(&request.metrics) {
        end.set(&request, metrics)?;
    }
    let mut prepared = Vec::new();
    for (index, flow) in (0_u16..).zip(&request.flows) {
        prepared.push(prepare(flow, index, &request, &ends)?);
    }
    let clock = Clock::start(LEAD);
    let running: Vec<Arc<Shared>> =
        request.flows.iter().map(|flow| Arc::new(Shared::new(flow, clock, &request))).collect();
    for (both, shared) in prepared.into_iter().zip(&running) {
        for work in both {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || work(&shared));
        }
    }
    sample(&running, &request);
    let processor = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let processor = processor.try_into().unwrap_or_default();
    drain(&running, clock);
    let flows = running.iter().map(|shared| shared.take()).collect();
    let counts = Counts { flows, processor, zero_monotonic: clock.monotonic_zero() };
    postcard::to_allocvec(&counts)
        .map_err(|error| LoadError::System("cannot write the counts", io::Error::other(error)))
}

/// Keeps the namespace of the far end for the request in `file`. Returns on errors only.
///
/// # Errors
/// The process number cannot be written, or no port can be bound.
pub fn far(file: &Path) -> Result<(), LoadError> {
    network::stay(&file.with_file_name(FAR_FILE))
}

/// File beside the request with the process number of the far end.
pub(crate) const FAR_FILE: &str = "far";

/// Work of a thread, with its sockets.
type Work = Box<dyn FnOnce(&Shared) + Send>;

/// Opens a flow's sockets. Returns the work of receiver and sender, which end with the program.
fn prepare(
    flow: &Flow,
    index: u16,
    request: &Request,
    [near, far]: &[End; 2],
) -> Result<[Work; 2], LoadError> {
    let (from, to) = if flow.reverse { (far, near) } else { (near, far) };
    let port = FIRST_PORT + index;
    let address = SocketAddr::new(to.local, port);
    match flow.kind {
        FlowKind::Udp => {
            // The same seed as in virtual time, so the random gaps are equal.
            let source = source(flow, flow.start.0, child_seed(request.seed, index.into()))?;
            let (receiver, sender) = (udp::receiver(to, port)?, udp::sender(flow, from, port)?);
            Ok([
                Box::new(move |shared| udp::receive(&receiver, shared)),
                Box::new(move |shared| udp::send(&source, &sender, shared)),
            ])
        }
        FlowKind::Tcp => {
            let (listener, sender) = (tcp::listener(flow, to, port)?, tcp::sender(flow, from)?);
            Ok([
                Box::new(move |shared| tcp::receive(&shared.flow, &listener, shared)),
                Box::new(move |shared| tcp::send(&shared.flow, sender, address, shared)),
            ])
        }
        FlowKind::Classic => Err(EngineError::Word("the classic format runs in virtual time".into()).into()),
        FlowKind::Rdt => {
            let (initiating, responding) = ends(flow, connection_seed(request.seed, index.into()))?;
            let (receiver, sender) =
                (rdt::socket(to, port, request.offload)?, rdt::socket(from, 0, request.offload)?);
            let has_path = request.has_path;
            Ok([
                Box::new(move |shared| rdt::receive(receiver, responding, shared)),
                Box::new(move |shared| rdt::send(sender, address, initiating, has_path, shared)),
            ])
        }
    }
}

/// State of a flow that its threads share.
#[derive(Debug)]
struct Shared {
    flow: Flow,
    clock: Clock,
    bin: Duration,
    duration: Option<Duration>,
    quiet: Duration,
    sent: Mutex<Sent>,
    received: Mutex<Received>,
    samples: Mutex<Vec<(Duration, Sample)>>,
}

impl Shared {
    fn new(flow: &Flow, clock: Clock, request: &Request) -> Self {
        Self {
            flow: flow.clone(),
            clock,
            bin: request.bin,
            duration: request.duration,
            quiet: request.quiet,
            sent: Mutex::default(),
            received: Mutex::default(),
            samples: Mutex::default(),
        }
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sampled(&self, at: Duration, sample: Sample) {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).push((at, sample));
    }

    /// Returns the time, unless the run has ended.
    fn now(&self) -> Option<Duration> {
        Some(self.clock.now()).filter(|now| self.duration.is_none_or(|end| *now < end))
    }

    /// Counts bytes that the receiver has just read, unless the run has ended.
    fn read(&self, bytes: usize) {
        if let Some(now) = self.now() {
            self.received().add(now, bytes, self.bin);
        }
    }

    /// Records the end of the stream, unless the run has ended, which also stops the sender.
    fn complete(&self) {
        let now = self.now();
        self.received().completed = now;
    }

    fn fail(&self, sentence: &str) {
        self.sent().error.get_or_insert(sentence.to_owned());
    }

    /// True if the flow has ended by itself.
    fn has_ended(&self) -> bool {
        if self.sent().error.is_some() {
            return true;
        }
        if self.flow.kind != FlowKind::Udp {
            return self.received().completed.is_some();
        }
        let ended = self.sent().ended;
        ended.is_some_and(|at| self.is_quiet(at))
    }

    /// True if no datagram has arrived for the time `quiet` since the last arrival or `ended`.
    fn is_quiet(&self, ended: Duration) -> bool {
        let latest = self.received().latest.map_or(ended, |latest| latest.max(ended));
        self.clock.now() >= latest + self.quiet
    }

    /// Returns the counts so far, and begins new ones.
    fn take(&self) -> FlowCounts {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let received = std::mem::take(&mut *self.received());
        FlowCounts {
            sent: std::mem::take(&mut self.sent()),
            received: Received { datagrams: (&received.arrived).into(), ..received },
            samples: std::mem::take(&mut samples),
        }
    }
}

/// Samples the kernel's connections at intervals until the run ends. The last sample of each is
/// from the end of its data or of the run. Senders of rdt take their own samples.
fn sample(flows: &[Arc<Shared>], request: &Request) {
    let Some(clock) = flows.first().map(|shared| shared.clock) else { return };
    let mut is_done = vec![false; flows.len()];
    let mut next = Duration::ZERO;
    loop {
        clock.sleep_until(request.duration.map_or(next, |end| next.min(end)));
        let now = clock.now();
        for (shared, is_done) in flows.iter().zip(&mut is_done) {
            if *is_done {
                continue;
            }
            *is_done = shared.has_ended();
            let info = shared.sent().stream.as_ref().and_then(|stream| TcpInfo::of(stream).ok());
            if let Some(info) = info.filter(TcpInfo::is_connected) {
                shared.sampled(now, info.into());
            }
        }
        if is_done.iter().all(|it| *it) || request.duration.is_some_and(|end| now >= end) {
            return;
        }
        while next <= now {
            next += SAMPLE_INTERVAL;
        }
    }
}

/// Waits until no datagram is in flight. Then those that have not arrived count as lost.
fn drain(flows: &[Arc<Shared>], clock: Clock) {
    let end = clock.now();
    let quiet = flows.first().map_or(Duration::ZERO, |shared| shared.quiet);
    let datagrams = || flows.iter().filter(|shared| shared.flow.kind == FlowKind::Udp);
    while clock.now() < end + MAX_DRAIN + quiet && !datagrams().all(|shared| shared.is_quiet(end)) {
        clock.sleep_until(clock.now() + SAMPLE_INTERVAL);
    }
}

/// Clock of a run. Time 0 is the start that all flows share.
#[derive(Debug, Clone, Copy)]
struct Clock {
    zero: Instant,
}

impl Clock {
    /// Starts a clock that reaches 0 after `lead`.
    fn start(lead: Duration) -> Self {
        Self { zero: clock::now() + lead }
    }

    /// Returns the time since 0; 0 before.
    fn now(self) -> Duration {
        self.at(clock::now())
    }

    /// Returns the time of `instant`; 0 before.
    fn at(self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.zero)
    }

    /// Returns time 0 on the system's monotonic clock, which the path reports by. Time 0 is past.
    fn monotonic_zero(self) -> Duration {
        let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::try_from(monotonic).unwrap_or_default().saturating_sub(self.now())
    }

    fn instant(self, time: Duration) -> Instant {
        self.zero + time
    }

    fn sleep_until(self, time: Duration) {
        clock::sleep_until(self.zero + time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counts_after_the_end_of_the_run() {
        let counted = |duration| {
            let request = Request {
                flows: Vec::new(),
                ipv6: false,
                has_path: false,
                offload: true,
                seed: 1,
                bin: Duration::from_secs(1),
                duration,
                quiet: Duration::ZERO,
                sysctls: Vec::new(),
                metrics: [Vec::new(), Vec::new()],
            };
            let shared = Shared::new(&Flow::new("a"), Clock::start(Duration::ZERO), &request);
            shared.read(1);
            shared.complete();
            let received = shared.received();
            (received.bytes, received.completed.is_some())
        };
        assert_eq!((counted(None), counted(Some(Duration::ZERO))), ((1, true), (0, false)));
    }
}
