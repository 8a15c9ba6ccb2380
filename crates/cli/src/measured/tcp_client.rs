//! `rdt-send --wire tcp`: a connection of the kernel, with what its `TCP_INFO` says.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rdt_program::Failure;
use rdt_transport::congestion::Algorithm;
use rdt_transport::{Phase, SenderStats, TransferError};
use rdt_trust::AttemptEnd;
use rdt_udp::{TcpInfo, clock, set_congestion};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};

use super::connection::{LOOK_INTERVAL, congestion_of, reset, set_timeouts};
use super::limits::{Blocked, GiveUp};
use super::message::{ANSWER_BYTES, REPORT_BYTES, REQUEST_BYTES, Report, Verdict};
use super::session::Pipe;
use super::stream::{
    CHUNK, Flowed, Incoming, Outflow, Pace, Progress, SendError, is_pause, look, read_message, write_message,
};
use super::transfer::{MeasuredTransfer, foreign, lost, refused_by, system, unanswered};
use crate::exit::transfer_failure;
use crate::lines::SILENCE;
use crate::output::rtt_histogram::Recorder;
use crate::transfer::{Outcome, Watch};

/// Bytes that `tcpi_bytes_acked` counts beside the data: the SYN and the request.
const OVERHEAD: u64 = 1 + REQUEST_BYTES as u64;

pub(super) fn run(transfer: &mut MeasuredTransfer<'_>, watch: &mut Watch, give_up: Duration) -> Outcome {
    match connect(transfer, watch, give_up) {
        Ok((stream, took)) => Outcome::of(run_open(transfer, watch, &stream, took)),
        Err(outcome) => outcome,
    }
}

fn run_open(
    transfer: &mut MeasuredTransfer<'_>,
    watch: &mut Watch,
    stream: &TcpStream,
    took: Duration,
) -> Result<(), Failure> {
    if !transfer.request.is_reverse {
        transfer.congestion = congestion_of(stream);
        if let Some(name) = transfer.congestion.as_deref().filter(|name| !name.starts_with("bbr")) {
            // Those that rdt does not have, such as htcp and dctcp, are judged by losses, too.
            transfer.config.congestion = name.parse().unwrap_or(Algorithm::Cubic);
        }
    }
    exchange(transfer, watch, stream)?;
    let info = TcpInfo::of(stream).unwrap_or_default();
    transfer.connected(watch, took, info.mss.max(1) as usize);
    let ended = if transfer.request.is_reverse {
        receive(transfer, watch, stream)
    } else {
        send_all(transfer, watch, stream)
    };
    if ended.is_err() {
        reset(stream);
    }
    ended
}

/// Sends the request, and reads the answer to it.
fn exchange(transfer: &MeasuredTransfer<'_>, watch: &Watch, stream: &TcpStream) -> Result<(), Failure> {
    let until = clock::now() + transfer.config.handshake_give_up;
    let mut answer = [0; ANSWER_BYTES];
    write_message(stream, &transfer.request.encode(), until, &watch.stop)
        .and_then(|()| read_message(stream, &mut answer, until, &watch.stop))
        .map_err(|error| {
            if watch.stop.is_set() { Failure::interrupted() } else { unanswered(watch.lines.address, error) }
        })?;
    Verdict::decode(&answer).ok_or_else(foreign).and_then(refused_by)
}

/// Connects to the present address. Returns the round trip of the handshake, too.
fn connect(
    transfer: &MeasuredTransfer<'_>,
    watch: &mut Watch,
    give_up: Duration,
) -> Result<(TcpStream, Duration), Outcome> {
    let socket = prepare(transfer, watch)?;
    let begun_at = clock::now();
    handshake(watch, &socket, give_up).map_err(|error| not_connected(watch, &error))?;
    let elapsed = clock::now().saturating_duration_since(begun_at);
    let stream = TcpStream::from(socket);
    // The first round trip that the kernel measured: none if the SYN was repeated.
    let info = TcpInfo::of(&stream).unwrap_or_default();
    let took = Duration::from_micros(info.srtt_us.into());
    let took = if took.is_zero() { elapsed } else { took.min(elapsed) };
    set_timeouts(&stream).map_err(|error| refused(&error))?;
    Ok((stream, took))
}

fn prepare(transfer: &MeasuredTransfer<'_>, watch: &Watch) -> Result<Socket, Failure> {
    let create = || {
        let socket = Socket::new(Domain::for_address(watch.lines.address), Type::STREAM, None)?;
        if let Some(bytes) = transfer.args.socket_buffer {
            socket.set_send_buffer_size(bytes)?;
            socket.set_recv_buffer_size(bytes)?;
        }
        // Longer than `GiveUp`: the kernel gives up a receiver that answers without room, too.
        socket.set_tcp_user_timeout(Some(
            transfer.config.give_up.max(transfer.args.no_progress) + SILENCE * 10,
        ))?;
        Ok(socket)
    };
    let socket = create().map_err(|error| refused(&error))?;
    if let Some(name) = transfer.args.native.cc.filter(|_| !transfer.args.reverse) {
        set_congestion(&socket, &name.to_string()).map_err(Failure::usage)?;
    }
    Ok(socket)
}

fn handshake(watch: &mut Watch, socket: &Socket, give_up: Duration) -> io::Result<()> {
    let until = clock::now() + give_up;
    watch.opened(clock::now());
    socket.set_nonblocking(true)?;
    match socket.connect(&watch.lines.address.into()) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
            return Err(error);
        }
        _ => {}
    }
    let wait = Timespec::try_from(LOOK_INTERVAL).map_err(io::Error::other)?;
    while poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&wait)).unwrap_or(0) == 0 {
        look(until, &watch.stop)?;
        watch.lines.print(clock::now(), SenderStats::default);
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)
}

fn not_connected(watch: &Watch, error: &io::Error) -> Outcome {
    if watch.stop.is_set() {
        return Outcome::Interrupted;
    }
    let address = watch.lines.address;
    let sentence = match error.kind() {
        ErrorKind::ConnectionRefused => {
            format!("nothing listens on TCP port {address}: is an rdt-recv --wire tcp running there?")
        }
        ErrorKind::TimedOut => format!("no answer from TCP port {address}"),
        _ => format!("cannot connect to {address}: {error}"),
    };
    let is_silent = error.kind() == ErrorKind::TimedOut;
    let end = if is_silent { AttemptEnd::NoAnswer } else { AttemptEnd::NoProgram };
    Outcome::Lost { end, failure: lost(Phase::Connect, sentence) }
}

/// Sends the data, and waits for the receiver's count of it.
fn send_all(
    transfer: &mut MeasuredTransfer<'_>,
    watch: &mut Watch,
    stream: &TcpStream,
) -> Result<(), Failure> {
    let begun_at = clock::now();
    let mut sender = SendingSide {
        stream,
        before: transfer.stats.clone(),
        begun_at,
        has_input: transfer.args.file.is_some(),
        blocked: Blocked::new(transfer.congestion.as_deref()),
        give_up: GiveUp::new(begun_at, transfer.config.give_up, transfer.args.no_progress),
        look_at: begun_at + LOOK_INTERVAL,
        srtt: watch.lines.measure.rtt().recorder(),
        flow: Outflow::new(Pace::new(transfer.args.max_rate, (0, CHUNK), begun_at)),
    };
    let ended = sender.run(watch, &transfer.input);
    sender.blocked.add(sender.flow.progress.blocked, &TcpInfo::of(stream).unwrap_or_default());
    transfer.stats = sender.stats(clock::now());
    let (written, message) = (sender.flow.progress.written, ended?);
    let report = Report::decode(&message).filter(|report| report.bytes == written).ok_or_else(|| {
        transfer_failure(Phase::Close, TransferError::Protocol, "the receiver counted other bytes")
    })?;
    transfer.report = Some(report);
    (transfer.stats.bytes_acked, transfer.stats.snd_una, transfer.stats.snd_nxt) =
        (written, written, written);
    Ok(())
}

struct SendingSide<'a> {
    stream: &'a TcpStream,
    /// Counts before the data.
    before: SenderStats,
    begun_at: Instant,
    /// The data is that of a file.
    has_input: bool,
    blocked: Blocked,
    give_up: GiveUp,
    /// Time of the next look at `give_up` and the smoothed RTT.
    look_at: Instant,
    srtt: Recorder,
    flow: Outflow,
}

impl SendingSide<'_> {
    /// Sends the data and its end. Returns the report, not decoded.
    fn run(&mut self, watch: &mut Watch, input: &str) -> Result<[u8; REPORT_BYTES], Failure> {
        let mut stream = self.stream;
        self.send(watch, input)?;
        stream.finish().map_err(|error| broken(&error))?;
        let mut message = [0; REPORT_BYTES];
        let mut rest = &mut message[..];
        while !rest.is_empty() {
            let now = clock::now();
            self.step(watch, now, true)?;
            match Pipe::read(&mut stream, rest) {
                Ok(0) => return Err(broken(&ErrorKind::UnexpectedEof.into())),
                Ok(length) => rest = &mut rest[length..],
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(broken(&error)),
            }
            // What the socket holds leaves under the same limits as before.
            self.flow.progress.blocked += clock::now().saturating_duration_since(now);
        }
        Ok(message)
    }

    /// Sends the data until it ends, by time if not by itself.
    fn send(&mut self, watch: &mut Watch, input: &str) -> Result<(), Failure> {
        let mut stream = self.stream;
        loop {
            let now = clock::now();
            if self.step(watch, now, false)? {
                return Ok(());
            }
            let Some(data) = &mut watch.source else { return Ok(()) };
            let waited = match self.flow.step(now, &mut **data, |bytes| Pipe::write(&mut stream, bytes)) {
                Ok(Flowed::Went) => continue,
                Ok(Flowed::Ended) => return Ok(()),
                Ok(Flowed::Paced(at)) => (at, &mut self.flow.progress.pacing),
                Ok(Flowed::Starved(at)) => (at, &mut self.flow.progress.reading),
                Err(SendError::Read(error)) => return Err(Failure::input(input, &error)),
                Err(SendError::Write(error)) if is_pause(&error) => continue,
                Err(SendError::Write(error)) => return Err(broken(&error)),
            };
            clock::sleep_until(waited.0);
            *waited.1 += clock::now().saturating_duration_since(now);
        }
    }

    /// Does what is due. Returns true if the data must end now. `is_end`: all data is written.
    fn step(&mut self, watch: &mut Watch, now: Instant, is_end: bool) -> Result<bool, Failure> {
        let Progress { blocked, written, .. } = self.flow.progress;
        if self.blocked.is_due(blocked)
            && let Ok(info) = TcpInfo::of(self.stream)
        {
            self.blocked.add(blocked, &info);
        }
        if now >= self.look_at
            && let Ok(info) = TcpInfo::of(self.stream)
        {
            self.look_at = now + LOOK_INTERVAL;
            if info.srtt_us > 0 {
                self.srtt.record(Duration::from_micros(info.srtt_us.into()));
            }
            let counts = (acknowledged(&info, written), written);
            self.give_up.check(now, &info, counts, !is_end)?;
        }
        watch.step(now, || self.stats(now))
    }

    /// Returns the state of the connection in the terms of native senders.
    fn stats(&self, now: Instant) -> SenderStats {
        let (before, progress) = (&self.before, &self.flow.progress);
        let Ok(info) = TcpInfo::of(self.stream) else { return before.clone() };
        let us = Duration::from_micros;
        let written = progress.written;
        let acked = acknowledged(&info, written);
        let mss = u64::from(info.mss.max(1));
        SenderStats {
            snd_una: acked,
            snd_nxt: written.saturating_sub(info.unsent_bytes.into()).max(acked),
            bytes_acked: acked,
            bytes_written: written,
            window: u32::try_from(info.cwnd_bytes().min(info.peer_window.into()) / mss).unwrap_or(u32::MAX),
            cwnd: info.cwnd_bytes(),
            ssthresh: info.ssthresh_bytes(),
            in_flight: mss * u64::from(info.in_flight),
            srtt: (info.srtt_us > 0).then(|| us(info.srtt_us.into())),
            min_rtt: (info.min_rtt_us > 0 && info.min_rtt_us < u32::MAX).then(|| us(info.min_rtt_us.into())),
            rto: us(info.rto_us.into()),
            timeouts: info.timeouts.map_or(0, u64::from),
            fast_retransmits: u64::from(info.retransmitted),
            retransmitted: info.retransmitted.into(),
            retransmitted_bytes: info.retransmitted_bytes,
            datagrams_sent: info.data_segments_sent.into(),
            waited: self.blocked.waited(progress, self.has_input),
            first_data_at: Some(self.begun_at),
            last_ack_at: Some(now),
            ..before.clone()
        }
    }
}

fn acknowledged(info: &TcpInfo, written: u64) -> u64 {
    info.acknowledged_bytes.saturating_sub(OVERHEAD).min(written)
}

/// Receives generated data, at whose end the sender's report is.
fn receive(
    transfer: &mut MeasuredTransfer<'_>,
    watch: &mut Watch,
    stream: &TcpStream,
) -> Result<(), Failure> {
    let longest = transfer.args.time.map(|time| time + transfer.args.omit.unwrap_or_default());
    let mut incoming = Incoming::new(clock::now(), transfer.config.give_up, longest);
    let ended = receive_data(&transfer.stats, watch, stream, &mut incoming);
    transfer.received(&incoming);
    ended
}

/// Takes the data, and the report at its end.
fn receive_data(
    before: &SenderStats,
    watch: &mut Watch,
    mut stream: &TcpStream,
    incoming: &mut Incoming,
) -> Result<(), Failure> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let now = clock::now();
        watch.step(now, || incoming.stats(before))?;
        if now >= incoming.give_up_at() {
            return Err(incoming.silence());
        }
        match Pipe::read(&mut stream, &mut chunk) {
            Ok(0) => return incoming.complete(),
            Ok(read) => incoming.take(clock::now(), &chunk[..read]),
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(broken(&error)),
        }
    }
}

fn broken(error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::Interrupted {
        return Failure::interrupted();
    }
    lost(Phase::Send, format!("the connection ended: {error}"))
}

fn refused(error: &io::Error) -> Failure {
    system(Phase::Connect, format_args!("the system refuses a TCP connection: {error}"), error)
}
