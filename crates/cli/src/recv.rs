//! `rdt-recv`: one server per thread, with sockets that share a port.

pub(crate) mod app;
mod metrics;
pub(crate) mod store;

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use rdt_emulator::child_seed;
use rdt_endpoint::thread::{run, send_rest};
use rdt_endpoint::truesize;
use rdt_server::{LinkMode, Server, ServerConfig, ServerStats};
use rdt_transport::{AckPolicy, ReceiverConfig};
use rdt_trust::{TrustError, os_entropy};
use rdt_udp::{Offload, Remote, Shown, SocketError, UdpIo, UdpOptions, UdpStats, Waiter, clock};
use serde_json::json;

use crate::VERSION;
use crate::admission::{Admission, Rules};
use crate::args::{AckEvery, RecvArgs, target};
use crate::output::counters::{link_lines, socket_json, stats_json};
use crate::output::format::megabytes;
use crate::output::log::{EventLog, LogForm};
use crate::output::sockets::{limit_line, overflow_line, received_line, warnings};
use crate::resources;
use crate::socket::{self, FLUSH_TIMEOUT, bind_asked, bind_udp};
use app::ReceiverApp;
use metrics::{Published, Totals};
use rdt_program::exit::IO;
use rdt_program::files::raise_descriptor_limit;
use rdt_program::json::{self, nanos};
use rdt_program::{Failure, Stop, threads};
use store::{Output, Store, is_stdout};

/// Time of busy-polling before a link's deadline: the kernel wakes threads up to this much late.
pub(crate) const SPIN_BEFORE_DEADLINE: Duration = Duration::from_micros(60);
const CUT_SHORT: &str = "the transfer broke off: what was written to the output is not whole";

pub(crate) fn command(args: &RecvArgs) -> Result<(), Failure> {
    if let Some(wire) = args.kernel_wire() {
        return crate::measured::recv::command(args, wire);
    }
    for (option, is_given) in [("--max-rate", args.max_rate.is_some()), ("--no-reverse", args.no_reverse)] {
        if is_given {
            return Err(Failure::usage(format_args!(
                "{option} is for what the receiver sends, which it does with --measure, --wire tcp and --wire udp alone"
            )));
        }
    }
    let plan = Plan::new(args)?;
    let result = serve(&plan);
    plan.log.flush();
    result
}

fn serve(plan: &Plan<'_>) -> Result<(), Failure> {
    let sockets = bind(plan.args)?;
    let address = sockets[0].local_addr().map_err(SocketError::Receive)?;
    let admission = Admission::new(plan.args, address, &plan.log)?;
    let published = plan.args.metrics.metrics.map(|_| Published::new(sockets.len()));
    let metrics = plan.serve_metrics(published.as_ref())?;
    let stop = Stop::default();
    stop.on_interrupt();
    let worker = |(i, io)| Worker::new(plan, &admission, i, io, &stop, published.as_ref());
    let workers = sockets.into_iter().enumerate().map(worker);
    let workers = workers.collect::<Result<Vec<_>, _>>()?;
    let ends = threads::run(workers, Worker::run, || plan.announce(address, &admission, metrics)).map_err(
        |error| {
            let advice = "fewer --threads may do";
            Failure::unavailable(format_args!(
                "cannot have all threads that were asked for: {error}; {advice}"
            ))
        },
    )?;
    plan.conclude(ends)
}

struct Plan<'a> {
    args: &'a RecvArgs,
    config: ServerConfig,
    /// Seed of the emulated links; `None` without links.
    seed: Option<u64>,
    output: Output,
    max_files: usize,
    log: EventLog,
    once: bool,
}

impl<'a> Plan<'a> {
    fn new(args: &'a RecvArgs) -> Result<Self, Failure> {
        let (config, seed) = configure(args)?;
        if args.json && args.output.as_deref().is_some_and(is_stdout) {
            return Err(Failure::usage("--json and --output - both want the standard output: choose one"));
        }
        // Before the folder of --output is created.
        let any = (Ipv6Addr::UNSPECIFIED, target::DEFAULT_PORT).into();
        Rules::new(args, args.bind.unwrap_or(any))?;
        let output = Output::parse(args.output.as_deref(), args.force).map_err(|error| {
            Failure::output(args.output.as_deref().unwrap_or("".as_ref()).display(), &error)
        })?;
        if args.sync && output.is_stream() {
            return Err(Failure::usage("--sync is for files: this output may be none"));
        }
        if args.threads > 1 && output.is_stream() {
            return Err(Failure::usage("this --output takes one transfer, so one thread is all it needs"));
        }
        let form = match &output {
            _ if args.json => LogForm::Json,
            Output::Stdout => LogForm::Talk,
            _ => LogForm::Text,
        };
        let once = args.once || output.is_stream();
        // In the background, because network threads print.
        let log = EventLog::in_background(form, args.quiet)?.faithful(args.faithful);
        let max_files = resources::max_open_files(raise_descriptor_limit(), args.threads);
        Ok(Self { args, config, seed, output, max_files, log, once })
    }

    /// Starts to answer scrapes, and returns the address.
    fn serve_metrics(&self, published: Option<&Published>) -> Result<Option<SocketAddr>, Failure> {
        let Some((published, address)) = published.zip(self.args.metrics.metrics) else { return Ok(None) };
        let cannot = |error| Failure::bind(address, error);
        published.serve(address).map(Some).map_err(cannot)
    }

    fn announce(&self, address: SocketAddr, admission: &Admission, metrics: Option<SocketAddr>) {
        let args = self.args;
        let dummy = if args.dummy { "***** DUMMY receiver " } else { "" };
        self.log.line(&format!("{dummy}Receiver v{VERSION} has initialized on {}", Shown(address)));
        if self.seed.is_some() && args.ack_every == AckEvery::Batch {
            self.log.aside(
                "--ack-every batch has no effect: packets leave an emulated link one by one (see --no-link)",
            );
        }
        if let Some(seed) = self.seed {
            self.log.line(&format!("links draw from seed {seed}"));
        }
        let key = admission.key();
        // Not among the lines of the log, which are as in the reference.
        self.log.aside(&format!("own key {}", key.fingerprint()));
        self.log.json(json!({
            "event": "initialized", "address": Shown(address).to_string(), "seed": self.seed.map(json::seed), "threads": args.threads,
            "key": key.to_string(), "ticket": admission.ticket, "exposed": admission.is_exposed,
            "metrics": metrics.map(|address| Shown(address).to_string()),
        }));
        if let Some(address) = metrics {
            self.log.aside(&format!("metrics at http://{}/metrics", Shown(address)));
        }
        if let Some(warning) = admission.warning() {
            self.log.talk(&warning);
        }
        if let Some(ticket) = &admission.ticket {
            self.log.result(ticket);
        }
    }

    /// Prints the last lines, and returns the failure that determines the exit code.
    fn conclude(&self, mut ends: Vec<WorkerEnd>) -> Result<(), Failure> {
        let Some(mut total) = ends.pop() else { return Ok(()) };
        for end in ends {
            total.merge(end);
        }
        // No transfer is active any more, so a slow reader may take its time.
        self.log.flush();
        self.summary(&total);
        self.log.finish().map_err(Failure::stdout)?;
        let Totals { not_stored, not_synced, .. } = total.totals;
        let sentence = match total.failure {
            Some(failure) => return Err(failure),
            None if not_stored > 0 => format!("{not_stored} of the transfers could not be stored"),
            None if not_synced > 0 => format!(
                "{not_synced} of the transfers are kept in files whose names may not outlive a loss of power"
            ),
            None => return Ok(()),
        };
        Err(Failure::new(IO, sentence))
    }

    fn summary(&self, total: &WorkerEnd) {
        let stats = &total.stats;
        self.log.line(&format!(
            "{} senders, {} transfers finished, {:.2} MB; at most {} at once; {:.2} MB held at most",
            stats.senders(),
            total.totals.finished,
            megabytes(total.totals.bytes),
            stats.max_active,
            megabytes(stats.max_memory()),
        ));
        if let packets @ 1.. = stats.classic_dropped + stats.connections.unencrypted {
            self.log.line(&format!("{packets} packets of unencrypted senders refused"));
        }
        if self.seed.is_some() {
            for line in link_lines(stats) {
                self.log.line(&line);
            }
        }
        let limited = limit_line("socket's", &total.socket, &stats.receivers);
        for line in overflow_line("socket's", &total.socket).into_iter().chain(limited) {
            self.log.line(&line);
        }
        let used = received_line(&total.socket, &total.offload);
        for line in warnings(&total.socket, &total.offload).into_iter().chain(used) {
            self.log.aside(&line);
        }
        let mut value = stats_json(stats);
        value["event"] = json!("summary");
        value["seed"] = json!(self.seed.map(json::seed));
        value["finished"] = json!(total.totals.finished);
        value["bytes"] = json!(total.totals.bytes);
        value["not_stored"] = json!(total.totals.not_stored);
        value["not_synced"] = json!(total.totals.not_synced);
        value["memory_peak_bytes"] = json!(resources::memory().peak);
        value["processor_ns"] = json!(resources::processor_time().map(nanos));
        value["lines_left_out"] = json!(self.log.dropped());
        value["socket"] = socket_json(&total.socket, total.offload);
        self.log.summary(value);
    }
}

/// Draws a random seed below 2^53, which JSON readers that use doubles represent exactly.
pub(crate) fn draw_seed() -> u64 {
    rand::random::<u64>() >> (u64::BITS - f64::MANTISSA_DIGITS)
}

struct Worker {
    server: Server<Remote>,
    io: UdpIo,
    service: ReceiverApp,
    waiter: Waiter,
    stop: Stop,
}

struct WorkerEnd {
    stats: ServerStats,
    socket: UdpStats,
    offload: Offload,
    totals: Totals,
    failure: Option<Failure>,
}

impl Worker {
    fn new(
        plan: &Plan<'_>,
        admission: &Admission,
        index: usize,
        io: UdpIo,
        stop: &Stop,
        published: Option<&Published>,
    ) -> Result<Self, Failure> {
        let mut config = plan.config;
        config.classic = admission.classic;
        if let (LinkMode::Emulated { seed }, 1..) = (config.link, index) {
            // The first thread uses the seed itself, as a single thread does.
            config.link = LinkMode::Emulated { seed: child_seed(seed, index as u64) };
        }
        if config.link == LinkMode::None && !plan.args.dummy {
            config.socket_buffer = Some(truesize::socket_buffer(io.stats().receive_buffer));
        }
        let spin = if plan.seed.is_some() { SPIN_BEFORE_DEADLINE } else { Duration::ZERO };
        let waiter = Waiter::new(io.socket(), spin).map_err(SocketError::Receive)?;
        stop.add(waiter.waker());
        let waker = waiter.waker();
        let wake = move || waker.wake();
        let store = Store::new(plan.output.clone(), plan.args.sync, plan.max_files, wake)
            .map_err(|error| Failure::output("what arrives", &error))?;
        let mut service = ReceiverApp::new(plan.log.clone(), store, stop.clone());
        service.exit_after_first = plan.once;
        service.publisher = published.map(|published| published.publisher(index, clock::now()));
        service.peer_log.is_remark_due = !admission.unencrypted;
        let mut server = Server::new(config);
        let entropy = os_entropy().map_err(TrustError::Entropy)?;
        server.listen(admission.responder(), admission.environment(index), entropy);
        Ok(Self { server, io, service, waiter, stop: stop.clone() })
    }

    /// Serves senders until the program stops. Then stops the other workers, and sends a CLOSE to
    /// native senders with unfinished transfers.
    fn run(mut self) -> WorkerEnd {
        let result = run(&mut self.server, &mut self.io, &mut self.service, &mut self.waiter);
        let unfinished = self.server.has_unfinished() || self.service.is_storing();
        let interrupted = self.stop.is_interrupted() && unfinished;
        self.stop.set();
        // Without waiting for the store, because senders retransmit until they receive the CLOSE.
        self.server.abort_unfinished(clock::now());
        send_rest(&mut self.server, &mut self.io, &mut self.waiter, FLUSH_TIMEOUT);
        let failure = match result {
            Err(error) => Some(error.into()),
            Ok(()) if self.service.cut_short => Some(Failure::new(IO, CUT_SHORT)),
            Ok(()) => match self.service.broken.take() {
                Some((name, error)) => Some(Failure::output(name, &error)),
                None => interrupted.then(Failure::interrupted),
            },
        };
        WorkerEnd {
            stats: self.server.stats(),
            socket: self.io.stats(),
            offload: self.io.offload(),
            totals: self.service.totals,
            failure,
        }
    }
}

impl WorkerEnd {
    fn merge(&mut self, other: Self) {
        self.stats.merge(&other.stats);
        self.socket.merge(&other.socket);
        self.offload.merge(&other.offload);
        self.totals.merge(other.totals);
        // Any other failure takes precedence over an interruption.
        if self.failure.as_ref().is_none_or(Failure::is_interrupted) && other.failure.is_some() {
            self.failure = other.failure;
        }
    }
}

fn configure(args: &RecvArgs) -> Result<(ServerConfig, Option<u64>), Failure> {
    let keep_payload = args.output.is_some();
    let reference = ReceiverConfig { keep_payload, faithful: args.faithful, ..ReceiverConfig::reference() };
    let memory = args.memory.unwrap_or_else(resources::default_packet_memory);
    let seed = args.seed.unwrap_or_else(draw_seed);
    let (receiver, link) = if args.dummy {
        (ReceiverConfig { faithful: args.faithful, ..ReceiverConfig::dummy() }, LinkMode::None)
    } else if args.no_link {
        (ReceiverConfig { max_datagram: usize::MAX, ..reference }, LinkMode::None)
    } else {
        (reference, LinkMode::Emulated { seed })
    };
    let ack = match args.ack_every {
        AckEvery::One => AckPolicy::EveryPacket,
        AckEvery::Batch => AckPolicy::Batch,
    };
    let threads = args.threads as u64;
    let mut config =
        ServerConfig::new(ReceiverConfig { ack, ..receiver }, link).with_memory(memory / threads);
    config.receiver.acks = args.ack.unwrap_or_default();
    let window = &mut config.receiver.stream_window.max;
    let most = config.peer_memory_limit;
    match args.rwnd {
        Some(rwnd) if rwnd > most => {
            return Err(Failure::usage(format_args!(
                "--rwnd {rwnd} is more than one sender may hold, {most} bytes: a larger --memory allows it, 8 times --rwnd a thread"
            )));
        }
        Some(rwnd) => *window = rwnd,
        None => *window = (*window).min(most),
    }
    config.max_peers = args.max_peers.div_ceil(args.threads);
    config.max_peers_per_source = args.max_per_source.map(|most| most.div_ceil(args.threads));
    Ok((config, (link != LinkMode::None).then_some(seed)))
}

/// Binds a socket for each thread, all to one port.
fn bind(args: &RecvArgs) -> Result<Vec<UdpIo>, Failure> {
    let options = UdpOptions {
        share_port: args.threads > 1,
        ..socket::of_receiver(args.threads, args.socket_buffer, args.offload.options())
    };
    let first = bind_asked(args.bind, |address| bind_first(address, options))?;
    let address = first.local_addr().map_err(SocketError::Receive)?;
    let mut sockets = vec![first];
    for _ in 1..args.threads {
        sockets.push(UdpIo::bind(address, options)?);
    }
    Ok(sockets)
}

/// Binds the first socket of a port. With `SO_REUSEPORT` it would share the port with another
/// receiver of this user, so the port is first bound without that option.
fn bind_first(address: SocketAddr, options: UdpOptions) -> io::Result<UdpIo> {
    if options.share_port && address.port() != 0 {
        bind_udp(address, UdpOptions { share_port: false, ..options })?;
    }
    bind_udp(address, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_seed_fits_53_bits() {
        assert!((0..1000).all(|_| draw_seed() < 1 << 53));
    }
}
