//! `rdt-send --wire tcp`: a connection of the kernel, with what its `TCP_INFO` says.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rdt_program::Failure;
use rdt_transport::congestion::Algorithm;
use rdt_transport::{Phase, SenderStats, TransferError};
use rdt_trust::AttemptEnd;
use rdt_udp::{TcpInfo, clock, set_congestion};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};

use super::connection::{Connection, LOOK_INTERVAL, congestion_of};
use super::limits::{Blocked, GiveUp};
use super::message::{ANSWER_BYTES, REPORT_BYTES, REQUEST_BYTES, Report, Request, Verdict};
use super::stream::{CHUNK, Pace, Progress, SendError, is_pause, look, read_message, send, write_message};
use super::transfer::{MeasuredTransfer, NotConnected, lost, one_way_stats, system};
use crate::exit::transfer_failure;
use crate::lines::SILENCE;
use crate::output::rtt_histogram::Recorder;
use crate::source::Source;

/// Bytes that `tcpi_bytes_acked` counts beside the data: the SYN and the request.
const OVERHEAD: u64 = 1 + REQUEST_BYTES as u64;

pub(super) fn run(
    transfer: &mut MeasuredTransfer<'_>,
    addresses: &[SocketAddr],
    request: &Request,
    data: &mut dyn Source,
) -> Result<(), Failure> {
    let (stream, took) = transfer.connect_any(addresses, |transfer, give_up| connect(transfer, give_up))?;
    if !request.is_reverse {
        transfer.congestion = congestion_of(&stream);
        if let Some(name) = transfer.congestion.as_deref().filter(|name| !name.starts_with("bbr")) {
            // Those that rdt does not have, such as htcp and dctcp, are judged by losses, too.
            transfer.config.congestion = name.parse().unwrap_or(Algorithm::Cubic);
        }
    }
    exchange(transfer, &stream, request, |_| None)?;
    let info = TcpInfo::of(&stream).unwrap_or_default();
    transfer.connected(clock::now(), took, info.mss.max(1) as usize);
    let ended =
        if request.is_reverse { receive(transfer, &stream) } else { send_all(transfer, &stream, data) };
    if ended.is_err() {
        stream.reset();
    }
    ended
}

/// Sends the request, and reads the answer to it. `refusal` knows what some errors mean.
pub(super) fn exchange(
    transfer: &MeasuredTransfer<'_>,
    stream: &impl Connection,
    request: &Request,
    refusal: impl FnOnce(&io::Error) -> Option<Failure>,
) -> Result<(), Failure> {
    let until = clock::now() + transfer.config.handshake_give_up;
    let mut answer = [0; ANSWER_BYTES];
    write_message(stream, &request.encode(), until, &transfer.stop)
        .and_then(|()| read_message(stream, &mut answer, until, &transfer.stop))
        .map_err(|error| refusal(&error).unwrap_or_else(|| no_answer(transfer, &error)))?;
    let verdict = Verdict::decode(&answer).ok_or_else(|| {
        transfer_failure(
            Phase::Connect,
            TransferError::Protocol,
            "the program at this address is no rdt-recv of measurements",
        )
    })?;
    MeasuredTransfer::refused_by(verdict)
}

/// Connects to the present address. Returns the round trip of the handshake, too.
fn connect(
    transfer: &mut MeasuredTransfer<'_>,
    give_up: Duration,
) -> Result<(TcpStream, Duration), NotConnected> {
    let socket = prepare(transfer)?;
    let begun_at = clock::now();
    handshake(transfer, &socket, give_up).map_err(|error| not_connected(transfer, &error))?;
    let elapsed = clock::now().saturating_duration_since(begun_at);
    let stream = TcpStream::from(socket);
    // The first round trip that the kernel measured: none if the SYN was repeated.
    let info = TcpInfo::of(&stream).unwrap_or_default();
    let took = Duration::from_micros(info.srtt_us.into());
    let took = if took.is_zero() { elapsed } else { took.min(elapsed) };
    stream.set_timeouts().map_err(|error| refused(&error))?;
    Ok((stream, took))
}

fn prepare(transfer: &MeasuredTransfer<'_>) -> Result<Socket, Failure> {
    let create = || {
        let socket = Socket::new(Domain::for_address(transfer.lines.address), Type::STREAM, None)?;
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

fn handshake(transfer: &mut MeasuredTransfer<'_>, socket: &Socket, give_up: Duration) -> io::Result<()> {
    let until = clock::now() + give_up;
    transfer.lines.opened(clock::now(), false);
    socket.set_nonblocking(true)?;
    match socket.connect(&transfer.lines.address.into()) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
            return Err(error);
        }
        _ => {}
    }
    let wait = Timespec::try_from(LOOK_INTERVAL).map_err(io::Error::other)?;
    while poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&wait)).unwrap_or(0) == 0 {
        look(until, &transfer.stop)?;
        transfer.lines.print(clock::now(), SenderStats::default);
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)
}

fn not_connected(transfer: &MeasuredTransfer<'_>, error: &io::Error) -> NotConnected {
    if transfer.stop.is_set() {
        return Failure::interrupted().into();
    }
    let address = transfer.lines.address;
    let sentence = match error.kind() {
        ErrorKind::ConnectionRefused => {
            format!("nothing listens on TCP port {address}: is an rdt-recv --wire tcp running there?")
        }
        ErrorKind::TimedOut => format!("no answer from TCP port {address}"),
        _ => format!("cannot connect to {address}: {error}"),
    };
    let is_silent = error.kind() == ErrorKind::TimedOut;
    let end = if is_silent { AttemptEnd::NoAnswer } else { AttemptEnd::NoProgram };
    NotConnected { end, failure: lost(Phase::Connect, sentence) }
}

fn no_answer(transfer: &MeasuredTransfer<'_>, error: &io::Error) -> Failure {
    if transfer.stop.is_set() {
        return Failure::interrupted();
    }
    lost(
        Phase::Connect,
        format!(
            "{} did not answer the request ({error}): it may have too many peers, or does not measure",
            transfer.lines.address
        ),
    )
}

/// Sends the data, and waits for the receiver's count of it.
fn send_all(
    transfer: &mut MeasuredTransfer<'_>,
    stream: &TcpStream,
    data: &mut dyn Source,
) -> Result<(), Failure> {
    let begun_at = clock::now();
    let mut sender = SendingSide {
        stream,
        begun_at,
        has_input: transfer.args.file.is_some(),
        blocked: Blocked::new(transfer.congestion.as_deref()),
        give_up: GiveUp::new(begun_at, transfer.config.give_up, transfer.args.no_progress),
        look_at: begun_at + LOOK_INTERVAL,
        srtt: transfer.lines.measure.rtt().recorder(),
    };
    let mut progress = Progress::default();
    let ended = sender.run(transfer, data, &mut progress);
    sender.blocked.add(progress.blocked, &TcpInfo::of(stream).unwrap_or_default());
    transfer.stats = sender.stats(&transfer.stats, clock::now(), &progress);
    let (written, message) = (progress.written, ended?);
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
    begun_at: Instant,
    /// The data is that of a file.
    has_input: bool,
    blocked: Blocked,
    give_up: GiveUp,
    /// Time of the next look at `give_up` and the smoothed RTT.
    look_at: Instant,
    srtt: Recorder,
}

impl SendingSide<'_> {
    /// Sends the data and its end. Returns the report, not decoded.
    fn run(
        &mut self,
        transfer: &mut MeasuredTransfer<'_>,
        data: &mut dyn Source,
        progress: &mut Progress,
    ) -> Result<[u8; REPORT_BYTES], Failure> {
        let (stream, input) = (self.stream, transfer.input.clone());
        let pace = Pace::new(transfer.args.max_rate, (0, CHUNK), self.begun_at);
        let step = |now, progress: &_| self.step(transfer, now, progress, false);
        send(stream, data, pace, progress, step).map_err(|error| match error {
            SendError::Stopped(failure) => failure,
            SendError::Read(error) => Failure::input(&input, &error),
            SendError::Write(error) => broken(&error),
        })?;
        stream.finish().map_err(|error| broken(&error))?;
        let mut message = [0; REPORT_BYTES];
        let mut rest = &mut message[..];
        while !rest.is_empty() {
            let now = clock::now();
            self.step(transfer, now, progress, true)?;
            match stream.read_some(rest) {
                Ok(0) => return Err(broken(&ErrorKind::UnexpectedEof.into())),
                Ok(length) => rest = &mut rest[length..],
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(broken(&error)),
            }
            // What the socket holds leaves under the same limits as before.
            progress.blocked += clock::now().saturating_duration_since(now);
        }
        Ok(message)
    }

    /// Does what is due. Returns true if the data must end now. `is_end`: all data is written.
    fn step(
        &mut self,
        transfer: &mut MeasuredTransfer<'_>,
        now: Instant,
        progress: &Progress,
        is_end: bool,
    ) -> Result<bool, Failure> {
        if self.blocked.is_due(progress.blocked)
            && let Ok(info) = TcpInfo::of(self.stream)
        {
            self.blocked.add(progress.blocked, &info);
        }
        if now >= self.look_at
            && let Ok(info) = TcpInfo::of(self.stream)
        {
            self.look_at = now + LOOK_INTERVAL;
            if info.srtt_us > 0 {
                self.srtt.record(Duration::from_micros(info.srtt_us.into()));
            }
            let counts = (acknowledged(&info, progress.written), progress.written);
            self.give_up.check(now, &info, counts, !is_end)?;
        }
        transfer.step(now, |before| self.stats(before, now, progress))
    }

    /// Returns the state of the connection in the terms of native senders.
    fn stats(&self, before: &SenderStats, now: Instant, progress: &Progress) -> SenderStats {
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
pub(super) fn receive(transfer: &mut MeasuredTransfer<'_>, stream: &impl Connection) -> Result<(), Failure> {
    let begun_at = clock::now();
    let mut received = (begun_at, 0);
    let ended = receive_data(transfer, stream, begun_at, &mut received);
    transfer.stats = one_way_stats(&transfer.stats, begun_at, received);
    let report = ended?;
    transfer.stats.retransmitted = report.retransmitted;
    transfer.stats.retransmitted_bytes = report.retransmitted_bytes;
    transfer.stats.timeouts = report.timeouts.unwrap_or(0);
    transfer.stats.srtt = Some(report.srtt).filter(|srtt| !srtt.is_zero());
    transfer.stats.min_rtt = Some(report.min_rtt).filter(|rtt| !rtt.is_zero());
    transfer.stats.cwnd = report.cwnd;
    transfer.congestion = report.congestion.map(str::to_owned);
    transfer.report = Some(report);
    Ok(())
}

/// Counts the data, and returns the report at its end.
fn receive_data(
    transfer: &mut MeasuredTransfer<'_>,
    stream: &impl Connection,
    begun_at: Instant,
    (heard_at, bytes): &mut (Instant, u64),
) -> Result<Report, Failure> {
    let mut chunk = vec![0; CHUNK + REPORT_BYTES];
    // The last bytes, which are the report if no more follow.
    let mut kept = 0;
    let longest = transfer.args.time.map(|time| time + transfer.args.omit.unwrap_or_default());
    let give_up = transfer.config.give_up;
    loop {
        let now = clock::now();
        transfer.step(now, |before| one_way_stats(before, begun_at, (*heard_at, *bytes)))?;
        let is_late = longest.is_some_and(|time| now >= begun_at + time + give_up);
        if is_late || now >= *heard_at + give_up {
            return Err(lost(Phase::Send, format!("nothing arrived for {} s", give_up.as_secs())));
        }
        match stream.read_some(&mut chunk[kept..]) {
            Ok(0) => break,
            Ok(read) => {
                *heard_at = clock::now();
                let all = kept + read;
                kept = all.min(REPORT_BYTES);
                *bytes += (all - kept) as u64;
                chunk.copy_within(all - kept..all, 0);
            }
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(broken(&error)),
        }
    }
    let report = Report::decode(&chunk[..kept]).filter(|report| report.bytes == *bytes);
    report.ok_or_else(|| lost(Phase::Send, "the receiver ended the connection before its data was complete"))
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
