//! `rdt-recv --wire tcp`, `--wire udp` and `--measure`: counts what arrives, and sends generated
//! data to peers that ask for it.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdt_program::Failure;
use rdt_program::Stop;
use rdt_program::json::nanos;
use rdt_udp::{AddressedReads, Shown, SocketError, clock};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::connection::LOOK_INTERVAL;
use super::datagram::{MAX_DATAGRAM, MIN_BYTES, MIN_DATAGRAM};
use super::message::{Report, Request, Verdict, least_time};
use super::native_server::Listener;
use super::options::check_recv;
use super::peer_slots::PeerSlots;
use super::{Wire, datagram, native_server, tcp_server, udp_server};
use crate::VERSION;
use crate::admission::Admission;
use crate::args::RecvArgs;
use crate::host::Local;
use crate::output::format::{megabytes, rate_bps, seconds_and_kbps};
use crate::output::log::{EventLog, LogForm, name};
use crate::resources;
use crate::socket::bind_asked;

/// Limit on peers beside `--max-peers`: each TCP connection and each reverse transfer has a thread.
pub(super) const MAX_PEERS: usize = 512;
/// Longest reverse transfer: a day each for `--omit` and `--time`.
pub(super) const MAX_TIME: Duration = Duration::from_secs(2 * 86_400);
/// Default of `--max-rate` over UDP, which has no congestion control, bytes per second: 100 Mbit/s.
const UDP_MAX_RATE: u64 = 12_500_000;
/// Longest wait for the threads of an interrupted receiver.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
const BACKLOG: i32 = 256;

pub(super) struct Server {
    pub(super) wire: Wire,
    pub(super) log: EventLog,
    pub(super) peers: PeerSlots,
    pub(super) stop: Stop,
    max_rate: Option<u64>,
    no_reverse: bool,
    once: bool,
    totals: Mutex<Totals>,
}

/// Peer, and the name of its cipher: `None` for the kernel's transports.
pub(super) type LoggedPeer = (SocketAddr, Option<&'static str>);

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Totals {
    finished: u64,
    bytes: u64,
    unfinished: u64,
    /// Transfers that began and have neither finished nor been cleaned up.
    open: u64,
    /// Of the unfinished ones, those that ended because the program was interrupted.
    cut: u64,
}

pub(crate) fn command(args: &RecvArgs, wire: Wire) -> Result<(), Failure> {
    check_recv(&args.given, wire)?;
    let form = if args.json { LogForm::Json } else { LogForm::Text };
    let stop = Stop::default();
    stop.on_interrupt();
    let server = Arc::new(Server {
        log: EventLog::in_background(form, args.quiet)?,
        peers: PeerSlots::new(args.max_peers.min(MAX_PEERS), args.max_per_source),
        max_rate: args.max_rate.or((wire == Wire::Udp).then_some(UDP_MAX_RATE)),
        no_reverse: args.no_reverse,
        once: args.once,
        ..Server::new(wire, stop)
    });
    let (bound, admission) = if wire == Wire::Native {
        let io = native_server::bind(args.bind)?;
        let address = io.local_addr().map_err(SocketError::Receive)?;
        let admission = Admission::new(args, address, &server.log)?;
        let listener = Listener::new(io, &server, admission.responder(), admission.environment(0))?;
        (Bound::Native(Box::new(listener)), Some(admission))
    } else {
        (bind_asked(args.bind, |address| Bound::new(wire, address, args.socket_buffer))?, None)
    };
    server.announce(bound.address()?, admission.as_ref());
    let served = bound.serve(&server);
    server.conclude().and(served.map_err(Failure::from))
}

/// Starts a receiver on a thread of this process (HOST `local`).
pub(super) fn start_local(wire: Wire, buffer: Option<usize>, unencrypted: bool) -> Result<Local, Failure> {
    let stop = Stop::default();
    let server = Arc::new(Server::new(wire, stop.clone()));
    let (bound, key) = if wire == Wire::Native {
        let (listener, key) = Listener::local(&server, unencrypted)?;
        (Bound::Native(Box::new(listener)), Some(key))
    } else {
        let any = Some((Ipv4Addr::LOCALHOST, 0).into());
        (bind_asked(any, |address| Bound::new(wire, address, buffer))?, None)
    };
    let address = bound.address()?;
    let thread = thread::spawn(move || {
        // The transfers have their own failures.
        let _ = bound.serve(&server);
        Ok(None)
    });
    Ok(Local { address, key, occupancy: None, stop, thread: Mutex::new(Some(thread)) })
}

enum Bound {
    Tcp(TcpListener),
    Udp(UdpSocket, AddressedReads),
    Native(Box<Listener>),
}

impl Bound {
    fn new(wire: Wire, address: SocketAddr, buffer: Option<usize>) -> io::Result<Self> {
        if wire == Wire::Udp {
            let socket = datagram::bind(address, buffer)?;
            let reads = AddressedReads::new(&socket)?;
            return Ok(Self::Udp(socket, reads));
        }
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // Connections of an earlier receiver may still be closing.
        socket.set_reuse_address(true)?;
        if let Some(bytes) = buffer {
            // Before `listen`, because the handshake fixes the scale of the window.
            socket.set_recv_buffer_size(bytes)?;
            socket.set_send_buffer_size(bytes)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self::Tcp(socket.into()))
    }

    fn address(&self) -> Result<SocketAddr, SocketError> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Udp(socket, _) => socket.local_addr(),
            Self::Native(listener) => listener.local_addr(),
        }
        .map_err(SocketError::Receive)
    }

    fn serve(self, server: &Arc<Server>) -> Result<(), SocketError> {
        match self {
            Self::Tcp(listener) => tcp_server::serve(&listener, server),
            Self::Udp(socket, reads) => udp_server::serve(socket, reads, server),
            Self::Native(listener) => return listener.serve(server),
        }
        Ok(())
    }
}

impl Server {
    /// Returns the state of a receiver for peers of this process.
    fn new(wire: Wire, stop: Stop) -> Self {
        Self {
            wire,
            log: EventLog::quiet(),
            peers: PeerSlots::new(MAX_PEERS, Some(MAX_PEERS)),
            stop,
            max_rate: None,
            no_reverse: false,
            once: false,
            totals: Mutex::default(),
        }
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn judge(&self, request: &Request) -> Verdict {
        if request.is_reverse && self.no_reverse {
            return Verdict::NoReverse;
        }
        let is_bounded =
            request.bytes.is_some() || (!request.time.is_zero() && request.time + request.omit <= MAX_TIME);
        let has_rate = request.rate.is_some_and(|rate| rate > 0);
        let has_size = (MIN_DATAGRAM..=MAX_DATAGRAM).contains(&usize::from(request.packet_size))
            && request.bytes.is_none_or(|bytes| self.takes_all(request, bytes));
        let is_valid = match (request.is_reverse, self.wire) {
            (false, wire) => wire != Wire::Native,
            (true, Wire::Tcp | Wire::Native) => is_bounded && request.rate != Some(0),
            (true, Wire::Udp) => is_bounded && has_rate && has_size,
        };
        if is_valid { Verdict::Accepted } else { Verdict::Invalid }
    }

    /// True if this number of bytes can be sent in [`MAX_TIME`], and in datagrams.
    fn takes_all(&self, request: &Request, bytes: u64) -> bool {
        let most = self.rate(request).unwrap_or(u64::MAX).saturating_mul(MAX_TIME.as_secs());
        (MIN_BYTES..=most).contains(&bytes)
    }

    /// Returns the rate of a reverse transfer, bytes per second: as requested, at most as allowed.
    pub(super) fn rate(&self, request: &Request) -> Option<u64> {
        request.rate.into_iter().chain(self.max_rate).min()
    }

    fn announce(&self, address: SocketAddr, admission: Option<&Admission>) {
        let name = self.wire.name();
        let mut event = json!({
            "event": "initialized", "address": Shown(address).to_string(), "threads": 1, "wire": name,
        });
        self.log.line(&format!(
            "Receiver v{VERSION} of {name} measurements has initialized on {}",
            Shown(address)
        ));
        if let Some(admission) = admission {
            let key = admission.key();
            self.log.aside(&format!("own key {}", key.fingerprint()));
            event["key"] = json!(key.to_string());
            event["ticket"] = json!(admission.ticket);
        } else {
            self.log
                .aside("not encrypted: any host that reaches this address can send, and nothing is stored");
        }
        self.log.json(event);
        if let Some(ticket) = admission.and_then(|admission| admission.ticket.as_deref()) {
            self.log.result(ticket);
        }
    }

    pub(super) fn connected(&self, peer: LoggedPeer, request: &Request) {
        self.totals().open += 1;
        let what = if request.is_reverse { "connected, to receive" } else { "connected" };
        self.peer_event(peer, ("connected", what), request, true);
    }

    /// Logs and counts a transfer that is complete.
    pub(super) fn finished(&self, peer: LoggedPeer, request: &Request, report: &Report) {
        {
            let mut totals = self.totals();
            totals.finished += 1;
            totals.open = totals.open.saturating_sub(1);
            totals.bytes += report.bytes;
        }
        let elapsed = match self.wire {
            Wire::Udp => {
                let rate = if request.is_reverse { self.rate(request) } else { request.rate };
                report.elapsed.max(least_time(rate, report.bytes))
            }
            Wire::Tcp | Wire::Native => report.elapsed,
        };
        let verb = if request.is_reverse { "sent" } else { "finished" };
        let (bytes, (seconds, kbps)) = (report.bytes, seconds_and_kbps(report.bytes, elapsed));
        let mut what = format!("{verb}: {bytes} bytes in {seconds:.3} sec, {kbps:.2} Kbps");
        let mut event = self.event("finished", peer, request);
        event["bytes"] = json!(bytes);
        event["elapsed_ns"] = json!(nanos(elapsed));
        event["rate_bps"] = json!(rate_bps(bytes, elapsed));
        if self.wire == Wire::Udp && !request.is_reverse {
            let jitter = report.jitter.as_secs_f64() * 1e3;
            // Cannot fail: writes to a `String`.
            let _ = write!(what, ", {} datagrams, jitter {jitter:.3} ms", report.datagrams);
            event["packets"] = json!(report.datagrams);
            event["reordered"] = json!(report.reordered);
            event["duplicates"] = json!(report.duplicates);
            event["jitter_ns"] = json!(nanos(report.jitter));
        }
        self.line(clock::now(), peer, &what);
        self.log.json(event);
        if self.once {
            self.stop.close();
        }
    }

    pub(super) fn cleaned_up(&self, peer: LoggedPeer, request: &Request, unfinished: bool) {
        let what = if unfinished { "cleaned up (unfinished)" } else { "cleaned up" };
        // Read first: a program that sees the line may stop this one, which cuts no transfer then.
        let is_cut = self.stop.is_interrupted();
        self.peer_event(peer, ("cleaned_up", what), request, unfinished);
        if unfinished {
            let mut totals = self.totals();
            totals.unfinished += 1;
            totals.cut += u64::from(is_cut);
            totals.open = totals.open.saturating_sub(1);
        }
    }

    /// Waits until all peers have ended, or a moment if the program is interrupted.
    pub(super) fn wait_for_threads(&self) {
        while self.peers.counts().active > 0 && !self.stop.is_set() {
            clock::sleep_until(clock::now() + LOOK_INTERVAL);
        }
        let until = clock::now() + STOP_TIMEOUT;
        while self.totals().open > 0 && clock::now() < until {
            clock::sleep_until(clock::now() + Duration::from_millis(10));
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.stop.is_closing() || self.stop.is_set()
    }

    fn line(&self, now: Instant, (peer, cipher): LoggedPeer, what: &str) {
        let remark = match cipher {
            Some("none") => ", not encrypted",
            _ => "",
        };
        let peer = format!("{} ({}{remark})", name(peer), self.wire.name());
        self.log.peer_line(now, &peer, ("INFO", what), self.peers.counts().active);
    }

    /// Returns an event of a peer, with its cipher if the wire has ciphers.
    fn event(&self, event: &str, (peer, cipher): LoggedPeer, request: &Request) -> Value {
        let mut event = json!({
            "event": event,
            "peer": name(peer),
            "wire": self.wire.name(),
            "direction": if request.is_reverse { "send" } else { "receive" },
        });
        if let Some(cipher) = cipher {
            event["cipher"] = json!(cipher);
        }
        event
    }

    fn peer_event(&self, peer: LoggedPeer, (event, what): (&str, &str), request: &Request, unfinished: bool) {
        let now = clock::now();
        // A host that connects again and again must not fill the log.
        if !self.log.has_line(now) {
            return;
        }
        self.line(now, peer, what);
        let mut event = self.event(event, peer, request);
        event["unfinished"] = json!(unfinished);
        event["memory_bytes"] = json!(self.log.memory(now));
        event["active"] = json!(self.peers.counts().active);
        self.log.json(event);
    }

    fn conclude(&self) -> Result<(), Failure> {
        let totals = *self.totals();
        let counts = self.peers.counts();
        self.log.report_left_out();
        // No transfer is active any more, so wait for a slow reader.
        self.log.flush();
        self.log.line(&format!(
            "{} senders, {} transfers finished, {:.2} MB; at most {} at once",
            counts.senders,
            totals.finished,
            megabytes(totals.bytes),
            counts.max_active,
        ));
        self.log.summary(json!({
            "event": "summary",
            "wire": self.wire.name(),
            "senders": counts.senders,
            "max_active": counts.max_active,
            "refused": counts.refused,
            "finished": totals.finished,
            "unfinished": totals.unfinished + totals.open,
            "bytes": totals.bytes,
            "memory_peak_bytes": resources::memory().peak,
            "processor_ns": resources::processor_time().map(nanos),
            "lines_left_out": self.log.dropped(),
        }));
        self.log.finish().map_err(Failure::stdout)?;
        let is_cut = self.stop.is_interrupted() && totals.cut + totals.open > 0;
        if is_cut { Err(Failure::interrupted()) } else { Ok(()) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::measured) fn server(wire: Wire, no_reverse: bool, max_rate: Option<u64>) -> Server {
        Server { max_rate, no_reverse, peers: PeerSlots::new(1, None), ..Server::new(wire, Stop::default()) }
    }

    #[test]
    fn reverse_transfers_must_be_bounded_and_allowed() {
        let timed = Request { is_reverse: true, time: Duration::from_secs(1), ..Request::default() };
        let tcp = server(Wire::Tcp, false, None);
        assert_eq!(tcp.judge(&timed), Verdict::Accepted);
        assert_eq!(tcp.judge(&Request { bytes: Some(1), ..timed }), Verdict::Accepted);
        assert_eq!(tcp.judge(&Request { time: Duration::ZERO, ..timed }), Verdict::Invalid);
        assert_eq!(tcp.judge(&Request { time: MAX_TIME * 2, ..timed }), Verdict::Invalid);
        assert_eq!(server(Wire::Tcp, true, None).judge(&timed), Verdict::NoReverse);
        let forward = Request { is_reverse: false, ..timed };
        assert_eq!(server(Wire::Native, false, None).judge(&forward), Verdict::Invalid);
        let udp = server(Wire::Udp, false, None);
        let rated = Request { rate: Some(1), packet_size: 1472, ..timed };
        assert_eq!(udp.judge(&rated), Verdict::Accepted);
        let sized = Request { bytes: Some(172_800), time: Duration::ZERO, ..rated };
        assert_eq!(udp.judge(&sized), Verdict::Accepted);
        for bad in [
            Request { rate: None, ..rated },
            Request { packet_size: 79, ..rated },
            Request { packet_size: 65_508, ..rated },
            Request { bytes: Some(39), ..sized },
            // More than two days at a byte a second.
            Request { bytes: Some(172_801), ..sized },
        ] {
            assert_eq!(udp.judge(&bad), Verdict::Invalid);
        }
    }

    #[test]
    fn lower_of_both_rates_counts() {
        let rate =
            |own, asked| server(Wire::Tcp, false, own).rate(&Request { rate: asked, ..Request::default() });
        assert_eq!(rate(None, None), None);
        assert_eq!([rate(Some(5), None), rate(None, Some(5)), rate(Some(5), Some(9))], [Some(5); 3]);
    }
}
