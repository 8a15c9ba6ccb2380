//! `rdt-recv`: the server, its log and its store.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use rdt_driver::{Application, Flow, SocketError, UdpIo, UdpOptions, Waiter, run};
use rdt_emulator::{Ledger, parse_bytes};
use rdt_server::{LinkMode, Server, ServerConfig, ServerStats};
use rdt_transport::{AckPolicy, Endpoint as _, ReceiverConfig, ReceiverEvent};
use serde_json::{Value, json};

use crate::args::{AckEvery, Switch};
use crate::console::{Console, talk};
use crate::format::{megabytes, rate_bps};
use crate::interrupt::Stop;
use crate::status::micros;
use crate::store::{Output, Store};
use crate::{Failure, RecvArgs, memory, target};

/// Packets that leave a link by more than this too late, at the 99th percentile, mean that the host did not
/// keep up.
const LATE: Duration = Duration::from_millis(1);
/// Before a link's deadline the thread stops sleeping by this much: the kernel wakes it later than asked.
pub(crate) const SPIN: Duration = Duration::from_micros(60);
/// How long the last transfer's sender must be quiet before the program exits, beyond the time that its link
/// takes: a FIN whose answer was lost is answered again.
const LINGER: Duration = Duration::from_secs(1);

/// How the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    Quiet,
    Text,
    /// Text on the standard error, because the standard output carries data.
    Talk,
    Json,
}

/// Runs the program.
pub(crate) fn command(args: &RecvArgs) -> Result<(), Failure> {
    let (config, seed) = configure(args)?;
    let output = Output::parse(args.output.as_deref())
        .map_err(|error| Failure::output(args.output.as_deref().unwrap_or("".as_ref()), error))?;
    if args.json && output == Output::Stdout {
        return Err(Failure::Usage("--json and --output - both want the standard output: choose one".into()));
    }
    let log = match (args.quiet, args.json, &output) {
        (_, true, _) => Log::Json,
        (true, ..) => Log::Quiet,
        (.., Output::Stdout) => Log::Talk,
        _ => Log::Text,
    };
    let mut io = bind(args)?;
    let spin = if config.link == LinkMode::None { Duration::ZERO } else { SPIN };
    let mut waiter = Waiter::new(io.socket(), spin).map_err(SocketError::Receive)?;
    let stop = Stop::default();
    stop.on_interrupt(waiter.waker());

    let console = Console::default();
    let mut app = Service::new(log, console.clone(), Store::new(output.clone()), stop.clone());
    app.exit_after_first = args.once || output == Output::Stdout;
    app.announce(args, io.local_addr().map_err(SocketError::Receive)?, seed);
    let mut server = Server::new(config);
    run(&mut server, &mut io, &mut app, &mut waiter)?;

    let unfinished = server.listener().has_unfinished();
    app.summary(&server.stats(), &io, seed);
    console.finish()?;
    if app.cut_short {
        Err(Failure::CutShort)
    } else if let Some((name, error)) = app.broken.take() {
        Err(Failure::Output { name, error })
    } else if stop.is_set() && unfinished {
        Err(Failure::Interrupted)
    } else {
        Ok(())
    }
}

fn configure(args: &RecvArgs) -> Result<(ServerConfig, Option<u64>), Failure> {
    let keep_payload = args.output.is_some();
    let reference = ReceiverConfig { keep_payload, ..ReceiverConfig::reference() };
    let memory = parse_bytes(&args.memory).map_err(|e| Failure::Usage(format!("--memory: {e}")))?;
    if memory < 1 << 20 {
        return Err(Failure::Usage("--memory must be at least 1mib".into()));
    }
    if args.max_peers == 0 {
        return Err(Failure::Usage("--max-peers must be at least 1".into()));
    }
    let seed = args.seed.unwrap_or_else(rand::random);
    let (receiver, link) = if args.dummy {
        (ReceiverConfig::dummy(), LinkMode::None)
    } else if args.no_link {
        (ReceiverConfig { max_datagram: usize::MAX, ..reference }, LinkMode::None)
    } else {
        (reference, LinkMode::Emulated { seed })
    };
    let ack = match args.ack_every {
        AckEvery::One => AckPolicy::EveryPacket,
        AckEvery::Batch => AckPolicy::Batch,
    };
    let mut config = ServerConfig::new(ReceiverConfig { ack, ..receiver }, link).with_memory(memory);
    config.listener.max_peers = args.max_peers;
    Ok((config, (link != LinkMode::None).then_some(seed)))
}

/// Binds; where nothing was asked for and the host has no IPv6, to all IPv4 interfaces.
fn bind(args: &RecvArgs) -> Result<UdpIo, Failure> {
    let address = target::parse_bind(args.bind.as_deref()).map_err(Failure::Usage)?;
    let options = udp_options(args.gso, args.gro);
    match UdpIo::bind(address, options) {
        Err(SocketError::Bind { error, .. })
            if args.bind.is_none() && error.kind() != std::io::ErrorKind::AddrInUse =>
        {
            let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, target::DEFAULT_PORT));
            Ok(UdpIo::bind(v4, options)?)
        }
        result => Ok(result?),
    }
}

pub(crate) fn udp_options(gso: Switch, gro: Switch) -> UdpOptions {
    UdpOptions { gso: gso == Switch::On, gro: gro == Switch::On, ..UdpOptions::default() }
}

/// The application on a server: stores and logs.
pub(crate) struct Service {
    log: Log,
    console: Console,
    store: Store,
    stop: Stop,
    pub(crate) exit_after_first: bool,
    /// Whose finished transfer ends the program.
    last: Option<SocketAddr>,
    finished: u64,
    bytes: u64,
    /// Bytes went to the standard output that belong to no complete transfer.
    pub(crate) cut_short: bool,
    /// What could not be written, if that ends the program.
    pub(crate) broken: Option<(String, std::io::Error)>,
}

impl Service {
    pub(crate) fn new(log: Log, console: Console, store: Store, stop: Stop) -> Self {
        Self {
            log,
            console,
            store,
            stop,
            exit_after_first: false,
            last: None,
            finished: 0,
            bytes: 0,
            cut_short: false,
            broken: None,
        }
    }

    fn announce(&self, args: &RecvArgs, address: SocketAddr, seed: Option<u64>) {
        let dummy = if args.dummy { "***** DUMMY receiver " } else { "" };
        self.line(&format!("{dummy}Receiver v{} has initialized on {address}", env!("CARGO_PKG_VERSION")));
        self.json(&json!({ "event": "initialized", "address": address.to_string(), "seed": seed }));
    }

    fn on_event(
        &mut self,
        now: Instant,
        server: &mut Server<SocketAddr>,
        peer: SocketAddr,
        event: ReceiverEvent,
    ) {
        match event {
            ReceiverEvent::Connected => {
                self.log_peer(peer, "connected", server.listener().active());
                self.json_peer(peer, "connected", true, server.listener().active());
            }
            ReceiverEvent::Started => {
                if let Err(error) = self.store.start(peer) {
                    self.give_up(server, peer, error);
                }
            }
            ReceiverEvent::Readable => self.read(server, peer),
            ReceiverEvent::Finished { bytes, crc, elapsed } => {
                self.read(server, peer);
                if !server.listener().knows(peer) {
                    return;
                }
                match self.store.finish(peer) {
                    Ok(path) => {
                        server.confirm(now, peer);
                        let path = path.map(|p| p.display().to_string());
                        self.on_finished(server, peer, &Finished { bytes, crc, elapsed, path });
                        if self.exit_after_first {
                            self.last.get_or_insert(peer);
                        }
                    }
                    Err(error) => self.give_up(server, peer, error),
                }
            }
            ReceiverEvent::Closed { unfinished } => {
                self.cut_short |= self.store.abort(peer);
                let what = if unfinished { "cleaned up (unfinished)" } else { "cleaned up" };
                self.log_peer(peer, what, server.listener().active());
                self.json_peer(peer, "cleaned_up", unfinished, server.listener().active());
            }
        }
    }

    fn read(&mut self, server: &mut Server<SocketAddr>, peer: SocketAddr) {
        let data = server.data(peer);
        let n = data.len();
        match self.store.write(peer, data) {
            Ok(()) => server.consume(peer, n),
            Err(error) => self.give_up(server, peer, error),
        }
    }

    /// The transfer cannot be stored: it ends unanswered, so that its sender does not take it for stored.
    fn give_up(&mut self, server: &mut Server<SocketAddr>, peer: SocketAddr, error: std::io::Error) {
        talk(&format!("rdt-recv: cannot store the transfer of {}: {error}", name(peer)));
        self.json(&json!({ "event": "store_failed", "peer": name(peer), "error": error.to_string() }));
        let to_stdout = self.store.abort(peer);
        server.close(peer);
        if to_stdout {
            self.cut_short = true;
        }
        // A transfer that another one keeps out of the standard output is no reason to end that one.
        if self.exit_after_first && error.kind() != std::io::ErrorKind::ResourceBusy {
            self.broken = Some((format!("the transfer of {}", name(peer)), error));
        }
    }

    fn on_finished(&mut self, server: &Server<SocketAddr>, peer: SocketAddr, end: &Finished) {
        self.finished += 1;
        self.bytes += end.bytes;
        let bps = rate_bps(end.bytes, end.elapsed);
        let kept = end.path.as_deref().map(|p| format!(", kept in {p}")).unwrap_or_default();
        let bytes = end.bytes;
        let what = format!(
            "finished: {bytes} bytes in {:.3} sec, {:.2} Kbps, checksum {:X}{kept}",
            end.elapsed.as_secs_f64(),
            bps.unwrap_or(0.0) / 1e3,
            end.crc,
        );
        if matches!(self.log, Log::Text | Log::Talk) {
            self.log_peer(peer, &what, server.listener().active());
        }
        let ledgers = server.path_ledgers(peer);
        self.json(&json!({
            "event": "finished",
            "peer": name(peer),
            "bytes": end.bytes,
            "elapsed_us": micros(end.elapsed),
            "rate_bps": bps,
            "crc32": format!("{:08x}", end.crc),
            "path": end.path,
            "forward": ledgers.map(|(forward, _)| ledger_json(forward)),
            "reverse": ledgers.map(|(_, reverse)| ledger_json(reverse)),
        }));
    }

    /// A line in the format of the reference receiver's log.
    fn log_peer(&self, peer: SocketAddr, what: &str, active: usize) {
        let ram = memory::read().now.unwrap_or(0);
        let time = jiff::Zoned::now().strftime("%m/%d/%y %H:%M:%S");
        self.line(&format!("[{time}] {} {what}; RAM {:.2} MB active {active}", name(peer), megabytes(ram)));
    }

    fn json_peer(&self, peer: SocketAddr, event: &str, unfinished: bool, active: usize) {
        self.json(&json!({
            "event": event,
            "peer": name(peer),
            "unfinished": unfinished,
            "memory_bytes": memory::read().now,
            "active": active,
        }));
    }

    fn line(&self, line: &str) {
        match self.log {
            Log::Text => self.console.line(line),
            Log::Talk => talk(line),
            Log::Quiet | Log::Json => {}
        }
    }

    fn json(&self, value: &Value) {
        if self.log == Log::Json {
            self.console.line(&value.to_string());
        }
    }

    /// The last lines: everything that was counted.
    fn summary(&self, stats: &ServerStats, io: &UdpIo, seed: Option<u64>) {
        self.line(&format!(
            "{} senders, {} transfers finished, {:.2} MB; at most {} at once; {:.2} MB held at most",
            stats.listener.admitted,
            self.finished,
            megabytes(self.bytes),
            stats.listener.max_active,
            megabytes(stats.listener.max_memory + stats.max_link_memory),
        ));
        if seed.is_some() {
            for line in link_lines(stats) {
                self.line(&line);
            }
        }
        let mut value = stats_json(stats);
        value["event"] = json!("summary");
        value["seed"] = json!(seed);
        value["finished"] = json!(self.finished);
        value["bytes"] = json!(self.bytes);
        value["memory_peak_bytes"] = json!(memory::read().peak);
        value["processor_us"] = json!(memory::processor_time().map(micros));
        value["socket"] = socket_json(io);
        self.json(&value);
    }
}

impl Application<Server<SocketAddr>> for Service {
    fn pump(&mut self, now: Instant, server: &mut Server<SocketAddr>) -> Flow {
        let mut busy = false;
        while let Some((peer, event)) = server.poll_event() {
            busy = true;
            self.on_event(now, server, peer, event);
        }
        let exit_at = self.last.map(|peer| server.quiet_at(peer, LINGER).unwrap_or(now));
        let over = exit_at.is_some_and(|at| at <= now);
        if self.stop.is_set() || self.cut_short || self.broken.is_some() || over {
            Flow::Done
        } else if busy {
            Flow::Again
        } else {
            Flow::Wait(exit_at)
        }
    }
}

struct Finished {
    bytes: u64,
    crc: u32,
    elapsed: Duration,
    path: Option<String>,
}

/// What the links did, for people.
pub(crate) fn link_lines(stats: &ServerStats) -> Vec<String> {
    let mut lines = vec![ledger_line("forward", &stats.forward), ledger_line("reverse", &stats.reverse)];
    let late = &stats.lateness;
    if late.count() > 0 {
        let us = |q: f64| late.quantile(q).as_secs_f64() * 1e6;
        lines.push(format!(
            "lateness of the link: p50 {:.0} us, p99 {:.0} us, max {:.0} us over {} packets",
            us(0.5),
            us(0.99),
            late.max().as_secs_f64() * 1e6,
            late.count(),
        ));
    }
    if fell_behind(stats) {
        lines.push(
            "this host did not keep up with the link: packets left it over 1 ms late; measured times are too long"
                .into(),
        );
    }
    lines
}

fn fell_behind(stats: &ServerStats) -> bool {
    stats.lateness.quantile(0.99) > LATE || stats.outgoing_dropped > 0
}

fn ledger_line(direction: &str, ledger: &Ledger) -> String {
    format!(
        "{direction} link: {} sent = {} delivered + {} lost + {} dropped (queue full) + {} dropped (memory) + {} discarded + {} in flight",
        ledger.sent,
        ledger.delivered,
        ledger.dropped_loss,
        ledger.dropped_queue,
        ledger.dropped_memory,
        ledger.discarded,
        ledger.in_flight,
    )
}

/// Everything that a server counted, with units in the keys.
pub(crate) fn stats_json(stats: &ServerStats) -> Value {
    let (listener, receivers) = (&stats.listener, &stats.listener.receivers);
    let late = &stats.lateness;
    json!({
        "senders": listener.admitted,
        "max_active": listener.max_active,
        "memory_held_max_bytes": listener.max_memory + stats.max_link_memory,
        "datagrams_received": listener.received,
        "dropped": {
            "malformed": listener.malformed,
            "too_long": listener.too_long,
            "no_connection": listener.no_connection,
            "refused": listener.refused,
            "out_of_range": receivers.out_of_range,
            "no_memory": receivers.no_memory,
            "unexpected": receivers.unexpected,
            "outgoing": stats.outgoing_dropped,
        },
        "data_packets": receivers.data,
        "duplicates": receivers.duplicates,
        "out_of_order": receivers.out_of_order,
        "forward": ledger_json(&stats.forward),
        "reverse": ledger_json(&stats.reverse),
        "lateness_p50_ns": nanos(late.quantile(0.5)),
        "lateness_p99_ns": nanos(late.quantile(0.99)),
        "lateness_max_ns": nanos(late.max()),
        "fell_behind": fell_behind(stats),
    })
}

pub(crate) fn socket_json(io: &UdpIo) -> Value {
    let (stats, offload) = (io.stats(), io.offload());
    json!({
        "sent": stats.sent,
        "send_calls": stats.send_calls,
        "received": stats.received,
        "receive_calls": stats.receive_calls,
        "blocked": stats.blocked,
        "lost_no_buffers": stats.lost_no_buffers,
        "lost_too_big": stats.lost_too_big,
        "lost_other": stats.lost_other,
        "unreachable": stats.unreachable,
        "receive_overflow": stats.receive_overflow,
        "receive_buffer_bytes": stats.receive_buffer,
        "send_buffer_bytes": stats.send_buffer,
        "send_segments": offload.send_segments,
        "receive_segments": offload.receive_segments,
    })
}

fn ledger_json(ledger: &Ledger) -> Value {
    json!({
        "sent": ledger.sent,
        "delivered": ledger.delivered,
        "dropped_loss": ledger.dropped_loss,
        "dropped_queue": ledger.dropped_queue,
        "dropped_memory": ledger.dropped_memory,
        "discarded": ledger.discarded,
        "in_flight": ledger.in_flight,
        "delivered_bytes": ledger.delivered_bytes,
        "busy_us": micros(ledger.busy),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A peer as people know it: IPv4 without its IPv6 clothes.
fn name(peer: SocketAddr) -> String {
    SocketAddr::new(peer.ip().to_canonical(), peer.port()).to_string()
}
