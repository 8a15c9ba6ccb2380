//! `rdt-send`: one transfer, its lines and its end.

use std::fs::File;
use std::io::{self, Stdin};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_driver::{
    Application, Connected, DwordArray, Fill, Flow, Piped, SocketError, Source, UdpIo, Waiter, Waker, clock,
    file_source, run,
};
use rdt_emulator::{parse_bytes, parse_duration};
use rdt_transport::{
    Attempts, ConfigError, Endpoint as _, LinkProperties, Phase, ReceiverConfig, Sender, SenderConfig,
    SenderEvent, SenderStats, TransferError, dword_array,
};
use serde_json::{Value, json};

use crate::console::{Console, talk};
use crate::debug_log::DebugLog;
use crate::figures::{link_lines, socket_json, stats_json};
use crate::format::{megabytes, rate_bps};
use crate::interrupt::Stop;
use crate::local::{LocalEnd, LocalReceiver};
use crate::receive::{draw_seed, overflow_line, udp_options};
use crate::status::{Status, Style, micros, next_line};
use crate::target::{self, Target};
use crate::{Failure, SendArgs, memory};

/// Largest power for which the array's length is a `u64`.
const MAX_POWER: u8 = 61;
/// Packets of router buffer beyond the window, unless told otherwise: room for retransmissions.
const EXTRA_BUFFER: u32 = 50;
/// Largest buffer that a receiver accepts, packets.
const MAX_BUFFER: u32 = 1_000_000;

/// Runs the program.
pub(crate) fn command(args: &SendArgs) -> Result<(), Failure> {
    let target = Target::parse(&args.host).map_err(Failure::Usage)?;
    let config = configure(args)?;
    let interval = parse_duration(&args.interval).map_err(|e| Failure::Usage(format!("--interval: {e}")))?;
    if interval < Duration::from_millis(1) {
        return Err(Failure::Usage("--interval must be at least 1ms".into()));
    }
    if args.seed.is_some() && target != Target::Local {
        return Err(Failure::Usage(
            "--seed is for HOST local: the link of another receiver is seeded there, with rdt-recv --seed"
                .into(),
        ));
    }
    let data = Data::parse(args)?;
    let style = if args.json { Style::Json { quiet: args.quiet } } else { Style::Text { quiet: args.quiet } };
    let start = clock::now();
    let console = Console::default();
    let status = Status::new(console.clone(), style, start, &config);
    status.parameters(&config);
    data.announce(&status);

    let (address, local) = match &target {
        Target::Local => {
            let seed = args.seed.unwrap_or_else(draw_seed);
            let options = udp_options(args.gso, args.gro);
            let local = LocalReceiver::start(seed, config.packet_size, config.memory_limit, options)?;
            (local.address, Some(local))
        }
        Target::Remote { host, port } => (lookup(host, *port, &status, start)?, None),
    };
    let mut transfer = Transfer::open(args, config, address, data, Pace { status, interval, start })?;
    if let Some(local) = &local {
        transfer.socket.limit(Arc::clone(&local.gauge));
    }
    let end = transfer.run();
    let receiver = local.map(LocalReceiver::finish).transpose()?;
    transfer.conclude(end, receiver.as_ref())?;
    console.finish()
}

fn configure(args: &SendArgs) -> Result<SenderConfig, Failure> {
    let window: u32 = number(&args.window, "W", "a whole number of packets, at least 1")?;
    let (forward, reverse) = args.loss.split_once('/').unwrap_or((&args.loss, "0"));
    let loss = "a probability, or forward/reverse, each from 0 to below 1";
    let mbps: f64 = number(&args.link_mbps, "LINKMBPS", "a number of Mbps above 0")?;
    let link = LinkProperties {
        rtt_s: number(&args.rtt, "RTT", "a number of seconds from 0 to below 30")?,
        // Rounded once, so that 0.0005 Mbps is 500 bit/s.
        #[expect(clippy::cast_possible_truncation, reason = "the SYN carries an f32")]
        speed_bps: (mbps * 1e6) as f32,
        loss_forward: number(forward, "LOSS", loss)?,
        loss_reverse: number(reverse, "LOSS", loss)?,
        buffer: args.buffer.unwrap_or_else(|| window.saturating_add(EXTRA_BUFFER).min(MAX_BUFFER)),
    };
    let config = SenderConfig {
        packet_size: args.packet_size,
        attempts: attempts(&args.attempts)?,
        memory_limit: parse_bytes(&args.memory).map_err(|e| Failure::Usage(format!("--memory: {e}")))?,
        ..SenderConfig::new(window, link)
    };
    match config.validate() {
        Ok(()) => Ok(config),
        Err(error @ ConfigError::WindowTooLarge { .. }) => {
            Err(Failure::Usage(format!("{error}; a smaller W or a larger --memory helps")))
        }
        Err(error) => Err(error.into()),
    }
}

fn number<T: std::str::FromStr>(text: &str, name: &str, form: &str) -> Result<T, Failure> {
    text.trim().parse().map_err(|_| Failure::Usage(format!("{name} must be {form}, not '{text}'")))
}

/// Reads `--attempts`. One number is for what can wait long; a handshake that gets no answer should fail soon.
fn attempts(text: &str) -> Result<Attempts, Failure> {
    let count = |text: &str| text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    let counts: Option<Vec<_>> = text.split('/').map(count).collect();
    match counts.as_deref() {
        Some(&[syn, data, fin]) => Ok(Attempts { syn, data, fin }),
        Some(&[both]) => Ok(Attempts { data: both, fin: both, ..Attempts::default() }),
        _ => Err(Failure::Usage(format!(
            "--attempts must be SYN/DATA/FIN or one number, each a whole number, at least 1, not '{text}'"
        ))),
    }
}

fn lookup(host: &str, port: u16, status: &Status, start: Instant) -> Result<SocketAddr, Failure> {
    target::resolve(host, port).ok_or_else(|| {
        let time = clock::now().saturating_duration_since(start).as_secs_f64();
        status.text(&format!("[{time:.3}]\ttarget {host} is invalid"));
        failed(
            status,
            Phase::Connect,
            TransferError::InvalidName(host.into()),
            format!("no such host: {host}"),
        )
    })
}

/// Prints the course's line for a failure.
fn failed(status: &Status, phase: Phase, error: TransferError, sentence: String) -> Failure {
    status.text(&format!("Main:\t{phase} failed with status {}", error.status()));
    Failure::Transfer { phase, error, sentence }
}

/// What to send.
enum Data {
    Power(u8),
    Bytes(u64),
    File { name: String, file: File, bytes: u64 },
    Stdin(Stdin),
}

impl Data {
    fn parse(args: &SendArgs) -> Result<Self, Failure> {
        if let Some(text) = &args.bytes {
            let bytes = parse_bytes(text).map_err(|e| Failure::Usage(format!("--bytes: {e}")))?;
            return Ok(Self::Bytes(bytes));
        }
        match &args.file {
            Some(path) if path == Path::new("-") => Ok(Self::Stdin(io::stdin())),
            Some(path) => Self::open(path),
            None if args.stdin.is_some() => Ok(Self::Stdin(io::stdin())),
            None => match args.power.unwrap_or(20) {
                power @ 0..=MAX_POWER => Ok(Self::Power(power)),
                power => Err(Failure::Usage(format!("--power must be from 0 to {MAX_POWER}, not {power}"))),
            },
        }
    }

    fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let unreadable = |error| Failure::Input { name: name.clone(), error };
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(unreadable(io::Error::other("it is a directory")));
        }
        Ok(Self::File { name, file, bytes: metadata.len() })
    }

    fn announce(&self, status: &Status) {
        match self {
            // Nothing is prepared: the array is made as it is sent, so that 2^30 words take no memory.
            Self::Power(power) => status
                .text(&format!("Main:\tinitializing DWORD array with 2^{power} elements... done in 0 ms")),
            Self::Bytes(bytes) => status.text(&format!("Main:\tsending {bytes} bytes of the DWORD array")),
            Self::File { name, bytes, .. } => status.text(&format!("Main:\tsending {name}, {bytes} bytes")),
            Self::Stdin(_) => status.text("Main:\tsending the standard input"),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Power(_) | Self::Bytes(_) => "the array".into(),
            Self::File { name, .. } => name.clone(),
            Self::Stdin(_) => "the standard input".into(),
        }
    }

    fn source(self, waker: Waker) -> io::Result<Box<dyn Source>> {
        match self {
            Self::Power(power) => Ok(Box::new(DwordArray::new(dword_array::WORD << power))),
            Self::Bytes(bytes) => Ok(Box::new(DwordArray::new(bytes))),
            Self::File { file, .. } => file_source(file, waker),
            Self::Stdin(stdin) => Ok(Box::new(Piped::new(stdin, waker))),
        }
    }
}

/// What the checksum of a FIN-ACK says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Agreed,
    /// A receiver that does not check answers 0.
    Unchecked,
    Wrong,
}

impl Verdict {
    fn of(ours: u32, theirs: u32) -> Self {
        match theirs {
            _ if theirs == ours => Self::Agreed,
            0 => Self::Unchecked,
            _ => Self::Wrong,
        }
    }
}

/// How a transfer ended.
enum End {
    Finished { crc: u32 },
    Failed { phase: Phase, error: TransferError },
    Unreadable(io::Error),
    Interrupted,
}

/// Where and when the lines of a transfer are printed.
struct Pace {
    status: Status,
    interval: Duration,
    start: Instant,
}

/// The machine, its socket and its application.
struct Transfer {
    host: String,
    address: SocketAddr,
    sender: Sender,
    socket: Connected,
    waiter: Waiter,
    sending: Sending,
    input: String,
}

impl Transfer {
    fn open(
        args: &SendArgs,
        config: SenderConfig,
        address: SocketAddr,
        data: Data,
        pace: Pace,
    ) -> Result<Self, Failure> {
        let Pace { status, interval, start } = pace;
        let any: SocketAddr = if address.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let io = UdpIo::bind(any, udp_options(args.gso, args.gro))?;
        let waiter = Waiter::new(io.socket(), Duration::ZERO).map_err(SocketError::Receive)?;
        let stop = Stop::default();
        stop.add(waiter.waker());
        stop.on_interrupt();
        let input = data.name();
        let source =
            data.source(waiter.waker()).map_err(|error| Failure::Input { name: input.clone(), error })?;
        let mut sender = Sender::new(config)?;
        if args.debug {
            let console = Console::default();
            sender.observe(Box::new(DebugLog { console, start, peer: address }));
        }
        let host = args.host.clone();
        let sending = Sending {
            host: host.clone(),
            source: Some(source),
            stop,
            status,
            start,
            opened_at: start,
            syns: 0,
            interval,
            next_line: None,
            end: None,
            pending: false,
        };
        Ok(Self { host, address, sender, socket: Connected::new(io, address), waiter, sending, input })
    }

    fn run(&mut self) -> Result<(), SocketError> {
        // A new sender can be opened.
        let _ = self.sender.open();
        self.sending.opened_at = clock::now();
        run(&mut self.sender, &mut self.socket, &mut self.sending, &mut self.waiter)
    }

    /// Prints the last lines and decides how the program ends.
    fn conclude(&mut self, end: Result<(), SocketError>, receiver: Option<&LocalEnd>) -> Result<(), Failure> {
        let stats = self.sender.stats();
        let end = match end {
            Ok(()) => self.sending.end.take().unwrap_or(End::Interrupted),
            Err(error) => self.socket_failure(&error, &stats),
        };
        let now = clock::now();
        let mut received = None;
        let status = &mut self.sending.status;
        let failure = match end {
            End::Finished { crc } => {
                status.finished(&stats);
                received = Some(crc);
                match Verdict::of(stats.crc, crc) {
                    Verdict::Agreed => None,
                    Verdict::Unchecked => {
                        talk("the receiver did not check the data: it answered checksum 0");
                        None
                    }
                    Verdict::Wrong => Some(Failure::Checksum { ours: stats.crc, theirs: crc }),
                }
            }
            End::Failed { phase, error } => {
                let sentence = self.sentence(&error);
                Some(failed(&self.sending.status, phase, error, sentence))
            }
            End::Unreadable(error) => Some(Failure::Input { name: self.input.clone(), error }),
            End::Interrupted => {
                status.interrupted(now, &stats);
                Some(Failure::Interrupted)
            }
        };
        let ran = stats.handshake_rtt.is_some() || receiver.is_some();
        if ran && !self.sending.status.is_quiet() {
            talk_about(receiver);
        }
        let code = failure.as_ref().map_or(0, Failure::code);
        let mut summary = self.summary(&stats, code, receiver);
        summary["crc32_received"] = json!(received.map(|crc| format!("{crc:08x}")));
        let checked = received.is_some_and(|crc| Verdict::of(stats.crc, crc) != Verdict::Unchecked);
        summary["checked"] = json!(checked);
        self.sending.status.summary(&summary);
        failure.map_or(Ok(()), Err)
    }

    fn socket_failure(&self, error: &SocketError, stats: &SenderStats) -> End {
        let phase = match (stats.handshake_rtt, stats.snd_una == stats.snd_nxt) {
            (None, _) => Phase::Connect,
            (_, false) => Phase::Send,
            (_, true) => Phase::Close,
        };
        let number = |e: &io::Error| e.raw_os_error().unwrap_or(0);
        let (arrow, verb, error) = match error {
            SocketError::Send(e) => ("-->", "sendto", TransferError::FailedSend(number(e))),
            SocketError::Receive(e) => ("<--", "recvfrom", TransferError::FailedRecv(number(e))),
            other => unreachable!("a bound socket does not fail to bind: {other}"),
        };
        let time = clock::now().saturating_duration_since(self.sending.start).as_secs_f64();
        if let TransferError::FailedSend(number) | TransferError::FailedRecv(number) = error {
            self.sending.status.text(&format!("[{time:6.3}] {arrow} failed {verb} with {number}"));
        }
        End::Failed { phase, error }
    }

    /// What happened and what to do about it.
    fn sentence(&self, error: &TransferError) -> String {
        let (io, stats) = (self.socket.io().stats(), self.sender.stats());
        let (host, address) = (&self.host, self.address);
        match error {
            TransferError::Timeout { .. } if io.lost_too_big > 0 => format!(
                "packets of {} bytes do not fit the network to {host}: choose a smaller --packet-size",
                self.sender.config().packet_size
            ),
            TransferError::Timeout { attempts, .. } if host == "local" => {
                format!("the link that was asked for let no answer through in {attempts} attempts")
            }
            TransferError::Timeout { packet, attempts } if stats.handshake_rtt.is_some() => {
                self.silence(&stats, *packet, *attempts)
            }
            TransferError::Timeout { .. } if io.unreachable > 0 => {
                format!("nobody listens at {host} ({address}): start rdt-recv there, or check the port")
            }
            TransferError::Timeout { attempts, .. } => format!(
                "no answer from {host} ({address}) after {attempts} attempts: is rdt-recv running there, and does the path let UDP through?"
            ),
            TransferError::FailedSend(number) | TransferError::FailedRecv(number) => {
                format!("{host} ({address}): {}", io::Error::from_raw_os_error(*number))
            }
            other => other.to_string(),
        }
    }

    /// Why a receiver that answered once may answer no more.
    fn silence(&self, stats: &SenderStats, packet: u64, attempts: u32) -> String {
        let (host, address) = (&self.host, self.address);
        let size = self.sender.config().packet_size;
        // Reports about SYNs may be from before the receiver started; the SYN that it answered has none.
        let gone = self.socket.io().stats().unreachable >= self.sending.syns;
        if !gone && stats.snd_una == 0 && stats.snd_nxt > 0 && size > ReceiverConfig::REFERENCE_DATAGRAM {
            return format!(
                "no answer from {host} ({address}) to packets of {size} bytes: more than {} needs rdt-recv --no-link or --dummy",
                ReceiverConfig::REFERENCE_DATAGRAM,
            );
        }
        let gone = if gone { "; it is gone" } else { "" };
        format!(
            "the receiver at {host} ({address}) stopped answering: no answer to packet {packet} after {attempts} attempts{gone}"
        )
    }

    fn summary(&self, stats: &SenderStats, code: u8, receiver: Option<&LocalEnd>) -> Value {
        let elapsed = stats.elapsed();
        json!({
            "event": "summary",
            "exit_code": code,
            "host": self.host,
            "address": self.address.to_string(),
            "bytes": stats.bytes_acked,
            "elapsed_us": micros(elapsed),
            "goodput_bps": rate_bps(stats.bytes_acked, elapsed),
            "ideal_bps": self.sending.status.ideal_bps(stats),
            "packets": stats.snd_una,
            "retransmitted": stats.timeouts + stats.fast_retransmits,
            "timeouts": stats.timeouts,
            "fast_retransmits": stats.fast_retransmits,
            "dup_acks": stats.dup_acks,
            "dropped": {
                "malformed": stats.malformed,
                "stale": stats.stale,
                "acks_beyond": stats.acks_beyond,
                "strangers": self.socket.strangers(),
            },
            "srtt_us": micros(stats.srtt),
            "rto_us": micros(stats.rto),
            "handshake_rtt_us": stats.handshake_rtt.map(micros),
            "crc32": format!("{:08x}", stats.crc),
            "memory_peak_bytes": memory::read().peak,
            "processor_us": memory::processor_time().map(micros),
            "socket": socket_json(&self.socket.io().stats(), self.socket.io().offload()),
            "seed": receiver.map(|end| end.seed),
            "receiver": receiver.map(receiver_json),
        })
    }
}

/// Everything that the embedded receiver counted.
fn receiver_json(end: &LocalEnd) -> Value {
    let mut value = stats_json(&end.stats);
    value["socket"] = socket_json(&end.socket, end.offload);
    value
}

/// What the embedded receiver's link did, what this host did to it, and what to do about it.
fn receiver_lines(end: &LocalEnd) -> Vec<String> {
    let (forward, reverse) = (&end.stats.forward, &end.stats.reverse);
    let mut lines = link_lines(&end.stats);
    lines.extend(overflow_line("receiver's socket", &end.socket));
    let no_memory = forward.dropped_memory + reverse.dropped_memory;
    if no_memory > 0 {
        lines.push(format!("{no_memory} packets found the link's memory full: a larger --memory holds more"));
    }
    if forward.dropped_loss + reverse.dropped_loss > 0 {
        lines.push(format!("the same losses again: --seed {}", end.seed));
    }
    lines
}

/// What the embedded receiver did, and what the process took.
fn talk_about(receiver: Option<&LocalEnd>) {
    for line in receiver.map(receiver_lines).unwrap_or_default() {
        talk(&line);
    }
    if let Some(peak) = memory::read().peak {
        talk(&format!("peak memory of the process: {:.2} MB", megabytes(peak)));
    }
}

/// The application on a sender: reads the source and prints the lines.
struct Sending {
    host: String,
    source: Option<Box<dyn Source>>,
    stop: Stop,
    status: Status,
    start: Instant,
    opened_at: Instant,
    /// SYNs sent until one was answered.
    syns: u64,
    interval: Duration,
    next_line: Option<Instant>,
    end: Option<End>,
    pending: bool,
}

impl Sending {
    fn fill(&mut self, sender: &mut Sender) -> Result<(), io::Error> {
        self.pending = false;
        while let Some(source) = &mut self.source {
            // The sender was opened before the loop began.
            let Ok(spare) = sender.spare() else { return Ok(()) };
            if spare.is_empty() {
                return Ok(());
            }
            match source.read(spare)? {
                Fill::Bytes(n) => sender.advance(n),
                Fill::Pending => {
                    sender.push();
                    self.pending = true;
                    return Ok(());
                }
                Fill::End => {
                    self.source = None;
                    let _ = sender.finish();
                }
            }
        }
        Ok(())
    }

    fn on_event(&mut self, now: Instant, sender: &Sender, event: SenderEvent) {
        match event {
            SenderEvent::Connected { .. } => {
                self.next_line = Some(now + self.interval);
                self.syns = sender.stats().datagrams_sent;
                self.status.connected(now, &self.host, now.saturating_duration_since(self.opened_at));
            }
            SenderEvent::Finished { crc } => {
                self.status.fin_ack(now, &sender.stats(), crc);
                self.end = Some(End::Finished { crc });
            }
            SenderEvent::Failed { phase, error } => self.end = Some(End::Failed { phase, error }),
        }
    }
}

impl Application<Sender> for Sending {
    fn pump(&mut self, now: Instant, sender: &mut Sender) -> Flow {
        while let Some(event) = sender.poll_event() {
            self.on_event(now, sender, event);
        }
        if self.end.is_none() && self.stop.is_set() {
            self.end = Some(End::Interrupted);
        }
        if self.end.is_none()
            && let Err(error) = self.fill(sender)
        {
            self.end = Some(End::Unreadable(error));
        }
        if self.end.is_some() {
            return Flow::Done;
        }
        if let Some(next) = self.next_line
            && next <= now
        {
            self.status.interval(now, &sender.stats());
            self.next_line = Some(next_line(next, self.interval, now));
        }
        Flow::Wait(self.next_line)
    }
}

#[cfg(test)]
mod tests {
    use rdt_driver::{Offload, UdpStats};
    use rdt_server::{Server, ServerConfig};

    use super::*;

    #[test]
    fn attempts_are_three_numbers_or_one() {
        let read = |text| attempts(text).ok();
        assert_eq!(read("3/50/50"), Some(Attempts::default()));
        assert_eq!(read("1/2/3"), Some(Attempts { syn: 1, data: 2, fin: 3 }));
        assert_eq!(read("500"), Some(Attempts { syn: 3, data: 500, fin: 500 }));
        for bad in ["", "0", "1/2", "1/2/3/4", "1/0/3", "1//3", "-1", "1.5", "4294967296", "x"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_receiver_that_answers_0_did_not_check() {
        assert_eq!(Verdict::of(5, 5), Verdict::Agreed);
        assert_eq!(Verdict::of(0, 0), Verdict::Agreed);
        assert_eq!(Verdict::of(5, 0), Verdict::Unchecked);
        assert_eq!(Verdict::of(0, 5), Verdict::Wrong);
    }

    #[test]
    fn what_this_host_had_no_room_for_is_told_with_its_remedy() {
        let offload = Offload { send_segments: 1, receive_segments: 1 };
        let stats = Server::<SocketAddr>::new(ServerConfig::reference(1)).stats();
        let mut end = LocalEnd { seed: 1, stats, socket: UdpStats::default(), offload };
        let with = |end: &LocalEnd, word: &str| receiver_lines(end).iter().any(|line| line.contains(word));
        assert!(!with(&end, "--memory") && !with(&end, "sysctl"));
        end.stats.reverse.dropped_memory = 1;
        end.socket.receive_overflow = Some(7);
        assert!(with(&end, "--memory"));
        assert!(with(&end, "7 datagrams found the receiver's socket buffer"));
        assert_eq!(receiver_json(&end)["socket"]["receive_overflow"], 7);
    }
}
