//! `rdt-recv --wire tcp`: a thread for each connection.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdt_program::Failure;
use rdt_udp::clock;

use super::connection::{Connection, LOOK_INTERVAL};
use super::message::{REQUEST_BYTES, Report, Request, Verdict};
use super::peer_slots::{PeerSlot, PeerSlots};
use super::recv::{MAX_TIME, Server};
use super::stream::{CHUNK, Pace, Progress, SendError, is_pause, look, read_message, send, write_message};
use crate::source::DwordArray;

/// Time in which a new connection must send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const ONLY_MEASURES: &str = "this rdt-recv only measures: it sends to rdt-send --reverse, and stores nothing";
/// Longest silence of a peer: that of native senders.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for a peer to take what was sent at the end.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the looks at unacknowledged data.
const ACK_INTERVAL: Duration = Duration::from_millis(2);
/// Limit on peers that are refused at the same time because no slot is free. Each takes a thread.
const MAX_REFUSALS: usize = 16;
const STACK: usize = 256 << 10;

/// Accepts connections until the program is to end, and waits for those that exist.
pub(super) fn serve(listener: &TcpListener, server: &Arc<Server>) {
    // On Linux the timeout of reads is that of `accept`, too.
    let _ = socket2::SockRef::from(listener).set_read_timeout(Some(LOOK_INTERVAL));
    let refusals = PeerSlots::new(MAX_REFUSALS, None);
    while !server.is_closing() {
        server.log.poll(clock::now());
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_pause(&error) => continue,
            Err(_) => {
                // Such as too many open files: not gone at once.
                clock::sleep_until(clock::now() + LOOK_INTERVAL);
                continue;
            }
        };
        let slot = server.peers.take(peer);
        let is_busy = slot.is_none();
        // Above the limit of refusals, the connection is dropped without one.
        let Some(slot) = slot.or_else(|| refusals.take(peer)) else { continue };
        let server = Arc::clone(server);
        let serve = move || {
            let refusal = is_busy.then_some(Verdict::Busy);
            if let Ok(request) = admit(&server, &stream, refusal) {
                serve_request(&server, &stream, peer, slot, &request);
            }
        };
        let _ = thread::Builder::new().stack_size(STACK).spawn(serve);
    }
    // Transfers under way end first, unless the program is interrupted.
    server.wait_for_threads();
}

pub(super) fn serve_request(
    server: &Server,
    stream: &impl Connection,
    peer: SocketAddr,
    slot: PeerSlot,
    request: &Request,
) {
    let peer = (peer, stream.cipher());
    server.connected(peer, request);
    let ended = if request.is_reverse { send_to(server, stream, request) } else { receive(server, stream) };
    match &ended {
        Ok(report) => server.finished(peer, request, report),
        Err(_) => stream.reset(),
    }
    drop(slot);
    server.cleaned_up(peer, request, ended.is_err());
}

pub(super) enum Refusal {
    /// The peer sent no complete request; the text says what was missing.
    NoRequest(&'static str),
    Answered(Verdict),
}

/// Reads and answers the request, by `refusal` if there is one. Returns it if it is accepted.
pub(super) fn admit(
    server: &Server,
    stream: &impl Connection,
    refusal: Option<Verdict>,
) -> Result<Request, Refusal> {
    let missing = |_| Refusal::NoRequest(ONLY_MEASURES);
    let until = clock::now() + REQUEST_TIMEOUT;
    let mut message = [0; REQUEST_BYTES];
    stream.set_timeouts().map_err(missing)?;
    read_message(stream, &mut message, until, &server.stop).map_err(|error| match error.kind() {
        ErrorKind::TimedOut => Refusal::NoRequest("no request came"),
        _ => missing(error),
    })?;
    // A program that is no rdt-send gets no answer.
    let request = Request::decode(&message).ok_or(Refusal::NoRequest(ONLY_MEASURES))?;
    let verdict = match refusal.unwrap_or_else(|| server.judge(&request)) {
        Verdict::Accepted if request.congestion.is_some_and(|name| !stream.set_congestion(name)) => {
            Verdict::NoCongestionControl
        }
        verdict => verdict,
    };
    write_message(stream, &verdict.encode(), until, &server.stop)
        .map_err(|_| Refusal::NoRequest("no answer can be sent"))?;
    if verdict == Verdict::Accepted { Ok(request) } else { Err(Refusal::Answered(verdict)) }
}

fn receive(server: &Server, stream: &impl Connection) -> io::Result<Report> {
    let mut chunk = vec![0; CHUNK];
    let (mut bytes, mut first_at) = (0, None);
    let mut last_at = clock::now();
    loop {
        match stream.read_some(&mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                last_at = clock::now();
                first_at.get_or_insert(last_at);
                bytes += read as u64;
            }
            Err(error) if is_pause(&error) => look(last_at + IDLE_TIMEOUT, &server.stop)?,
            Err(error) => return Err(error),
        }
    }
    let elapsed = last_at.saturating_duration_since(first_at.unwrap_or(last_at));
    let report = Report { bytes, elapsed, ..Report::default() };
    write_message(stream, &report.encode(), clock::now() + END_TIMEOUT, &server.stop)?;
    end(server, stream)?;
    Ok(report)
}

fn send_to(server: &Server, stream: &impl Connection, request: &Request) -> io::Result<Report> {
    let begun_at = clock::now();
    let mut data = DwordArray::new(request.bytes.unwrap_or(u64::MAX));
    let pace = Pace::new(server.rate(request), (0, CHUNK), begun_at);
    let ends_at = request.bytes.is_none().then(|| begun_at + request.omit + request.time);
    // Bytes written, and since when, to find a peer that reads nothing.
    let mut taken = (0, begun_at);
    let mut omitted = None;
    let mut progress = Progress::default();
    let sent = send(stream, &mut data, pace, &mut progress, |now, progress| {
        if progress.written > taken.0 {
            taken = (progress.written, now);
        }
        let is_late = now >= begun_at + MAX_TIME || now > taken.1 + IDLE_TIMEOUT;
        if server.stop.is_set() || is_late {
            return Err(Failure::interrupted());
        }
        if omitted.is_none() && now >= begun_at + request.omit {
            omitted = Some(if request.omit.is_zero() { Report::default() } else { stream.counters() });
        }
        Ok(ends_at.is_some_and(|at| at <= now))
    });
    sent.map_err(|error| match error {
        SendError::Stopped(_) => ErrorKind::Interrupted.into(),
        SendError::Read(error) | SendError::Write(error) => error,
    })?;
    await_acks(server, stream)?;
    let elapsed = clock::now().saturating_duration_since(begun_at);
    let counters = since(&omitted.unwrap_or_default(), stream.counters());
    let report = Report { bytes: progress.written, elapsed, ..counters };
    write_message(stream, &report.encode(), clock::now() + END_TIMEOUT, &server.stop)?;
    end(server, stream)?;
    Ok(report)
}

/// Waits until all data is acknowledged, so that the counters are those of all of it.
fn await_acks(server: &Server, stream: &impl Connection) -> io::Result<()> {
    let until = clock::now() + IDLE_TIMEOUT;
    while !stream.is_acknowledged() {
        look(until, &server.stop)?;
        clock::sleep_until(clock::now() + ACK_INTERVAL);
    }
    Ok(())
}

fn since(omitted: &Report, all: Report) -> Report {
    Report {
        retransmitted: all.retransmitted.saturating_sub(omitted.retransmitted),
        retransmitted_bytes: all.retransmitted_bytes.saturating_sub(omitted.retransmitted_bytes),
        timeouts: all.timeouts.map(|count| count.saturating_sub(omitted.timeouts.unwrap_or(0))),
        ..all
    }
}

/// Ends the outgoing stream, and waits for the end of the peer's: then it has read everything.
pub(super) fn end(server: &Server, stream: &impl Connection) -> io::Result<()> {
    stream.finish()?;
    let until = clock::now() + END_TIMEOUT;
    loop {
        match stream.read_some(&mut [0; 16]) {
            Ok(0) => return Ok(()),
            Ok(_) => return Err(ErrorKind::InvalidData.into()),
            Err(error) if is_pause(&error) => look(until, &server.stop)?,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_exclude_omitted_start() {
        let omitted =
            Report { retransmitted: 5, retransmitted_bytes: 70, timeouts: Some(1), ..Report::default() };
        let all = Report { retransmitted: 9, retransmitted_bytes: 100, timeouts: Some(1), ..omitted };
        let counted = since(&omitted, all);
        assert_eq!((counted.retransmitted, counted.retransmitted_bytes, counted.timeouts), (4, 30, Some(0)));
    }
}
