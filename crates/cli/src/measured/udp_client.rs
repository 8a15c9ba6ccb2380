//! `rdt-send --wire udp`: numbered datagrams at a constant rate, and the receiver's count of them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rdt_program::{Failure, Stop};
use rdt_transport::{Phase, SenderStats};
use rdt_trust::AttemptEnd;
use rdt_udp::{clock, wildcard_for};

use super::arrivals::Arrivals;
use super::connection::LOOK_INTERVAL;
use super::datagram::{
    Cookie, Due, END_INTERVAL, END_TIMEOUT, MAX_DATAGRAM, Packet, Source, bind, is_too_large,
};
use super::message::{Report, Request, TOO_LARGE, Verdict};
use super::stream::{is_pause, look};
use super::transfer::{MeasuredTransfer, lost, one_way_stats, refused_by, system};
use crate::args::SendArgs;
use crate::output::format::rate_bps;
use crate::transfer::{Outcome, Watch};

/// Interval at which an unanswered request, or the end of the data, is sent again.
const REPEAT: Duration = Duration::from_millis(500);
/// Number of "port unreachable" errors that end a transfer; a receiver that starts may cause one.
const MAX_REFUSED: u32 = 3;
/// Largest default of `--packet-size` over IPv6, bytes: Ethernet without the headers.
const IPV6_PACKET_SIZE: usize = 1452;
/// Time for which the sender waits at the end for datagrams that were overtaken.
const STRAGGLERS: Duration = Duration::from_millis(300);
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the signs of life in a reverse transfer.
const ALIVE_INTERVAL: Duration = Duration::from_millis(500);
/// Longest silence of a receiver that sends (`--reverse`).
const SILENCE: Duration = Duration::from_secs(10);

pub(super) fn run(transfer: &mut MeasuredTransfer<'_>, watch: &mut Watch, give_up: Duration) -> Outcome {
    let (mut client, took) = match Client::connect(transfer, watch, give_up) {
        Ok(connected) => connected,
        Err(outcome) => return outcome,
    };
    transfer.connected(watch, took, transfer.packet_size);
    Outcome::of(if transfer.request.is_reverse {
        client.receive_all(transfer, watch)
    } else {
        client.send_all(transfer, watch)
    })
}

fn packet_size(args: &SendArgs, address: SocketAddr) -> usize {
    let is_default = !args.given.iter().any(|option| option == "packet-size");
    if is_default && address.ip().to_canonical().is_ipv6() {
        return args.packet_size.min(IPV6_PACKET_SIZE);
    }
    args.packet_size
}

struct Client {
    socket: UdpSocket,
    session: u64,
    buffer: Vec<u8>,
    /// Number of "port unreachable" errors since the last request began.
    refused: u32,
}

impl Client {
    /// Asks the present address for a transfer. Returns the round trip, too.
    fn connect(
        transfer: &mut MeasuredTransfer<'_>,
        watch: &mut Watch,
        give_up: Duration,
    ) -> Result<(Self, Duration), Outcome> {
        transfer.packet_size = packet_size(transfer.args, watch.lines.address);
        transfer.request.packet_size = u16::try_from(transfer.packet_size).unwrap_or(u16::MAX);
        let mut client = Self::open(transfer, watch)?;
        let (verdict, took) = client.ask(watch, &transfer.request, give_up)?;
        refused_by(verdict)?;
        Ok((client, took))
    }

    fn open(transfer: &MeasuredTransfer<'_>, watch: &Watch) -> Result<Self, Failure> {
        let open = || {
            let socket = bind(wildcard_for(watch.lines.address), transfer.args.socket_buffer)?;
            socket.connect(watch.lines.address)?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| refused(Phase::Connect, &error))?;
        Ok(Self { socket, session: rand::random(), buffer: vec![0; MAX_DATAGRAM], refused: 0 })
    }

    fn receive_all(&mut self, transfer: &mut MeasuredTransfer<'_>, watch: &mut Watch) -> Result<(), Failure> {
        let mut received = Received::new(transfer.request.omit, clock::now());
        let ended = self.receive(&transfer.stats, watch, &mut received);
        transfer.stats = received.stats(&transfer.stats);
        transfer.report = Some(received.arrivals.report());
        transfer.sent_bps = received.sent_bps();
        transfer.sent_datagrams = Some(ended?);
        self.confirm_end(&watch.stop);
        Ok(())
    }

    fn send(&self, packet: Packet) {
        packet.send(self.session, |bytes| self.socket.send(bytes));
    }

    /// Waits a moment for the next packet of the session. `None` without one.
    fn receive_one(&mut self) -> io::Result<Option<(Packet, usize)>> {
        match self.socket.recv(&mut self.buffer) {
            Ok(length) => {
                let packet = Packet::decode(&self.buffer[..length]);
                Ok(packet.filter(|(session, _)| *session == self.session).map(|(_, packet)| (packet, length)))
            }
            Err(error) if is_pause(&error) => Ok(None),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.refused += 1;
                clock::sleep_until(clock::now() + LOOK_INTERVAL);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the request until it is answered. Returns the answer and the round trip.
    fn ask(
        &mut self,
        watch: &mut Watch,
        request: &Request,
        give_up: Duration,
    ) -> Result<(Verdict, Duration), Outcome> {
        let begun_at = clock::now();
        let mut cookie = Cookie::default();
        // `first_at`: time of the first request with this cookie.
        let (mut asked_at, mut first_at) = (None::<Instant>, None::<Instant>);
        watch.opened(begun_at);
        loop {
            let now = clock::now();
            if watch.stop.is_set() {
                return Err(Outcome::Interrupted);
            }
            if self.refused >= MAX_REFUSED {
                let hint = "is an rdt-recv --wire udp running there?";
                let sentence = format!("nothing listens on UDP port {}: {hint}", watch.lines.address);
                return Err(lost(Phase::Connect, sentence).into());
            }
            if now >= begun_at + give_up {
                let failure =
                    lost(Phase::Connect, format!("no answer from UDP port {}", watch.lines.address));
                return Err(Outcome::Lost { end: AttemptEnd::NoAnswer, failure });
            }
            if asked_at.is_none_or(|at| now >= at + REPEAT) {
                asked_at = Some(now);
                first_at.get_or_insert(now);
                self.send(Packet::Request { cookie, request: *request });
            }
            watch.lines.print(now, SenderStats::default);
            match self.receive_one() {
                // A repetition of a cookie is the answer to a repeated request.
                Ok(Some((Packet::Cookie(given), _))) if given != cookie => {
                    (cookie, asked_at, first_at) = (given, None, None);
                }
                Ok(Some((Packet::Answer(verdict), _))) => {
                    return Ok((verdict, clock::now().saturating_duration_since(first_at.unwrap_or(now))));
                }
                Ok(_) => {}
                Err(error) => return Err(refused(Phase::Connect, &error).into()),
            }
        }
    }

    fn send_all(&mut self, transfer: &mut MeasuredTransfer<'_>, watch: &mut Watch) -> Result<(), Failure> {
        let (begun_at, request) = (clock::now(), &transfer.request);
        let mut source = Source::new(self.session, request, request.rate.unwrap_or(1), begun_at);
        let ended = self.send_data(&transfer.stats, watch, &mut source);
        transfer.stats = sent(&transfer.stats, &source, clock::now());
        (transfer.sent_datagrams, transfer.refused) = (Some(source.counted), source.refused);
        ended?;
        let mut report = self.ask_report(watch, source.counted)?;
        if report.datagrams < source.counted {
            // Late datagrams may still be on the way.
            clock::sleep_until(clock::now() + STRAGGLERS);
            report = self.ask_report(watch, source.counted)?;
        }
        transfer.report = Some(report);
        Ok(())
    }

    fn send_data(&self, before: &SenderStats, watch: &mut Watch, source: &mut Source) -> Result<(), Failure> {
        loop {
            let now = clock::now();
            if watch.step(now, || sent(before, source, now))? {
                return Ok(());
            }
            let due = source.send_due(now, |bytes| self.socket.send(bytes));
            match due.map_err(|error| refused(Phase::Send, &error))? {
                Due::Now => {}
                Due::At(at) => clock::sleep_until(at.min(now + LOOK_INTERVAL)),
                Due::Ended => return Ok(()),
            }
            if source.unreachable >= MAX_REFUSED {
                return Err(gone(watch));
            }
            if source.must_speak(now) {
                self.send(Packet::KeepAlive { nonce: 0 });
            }
        }
    }

    fn ask_report(&mut self, watch: &Watch, counted: u64) -> Result<Report, Failure> {
        let until = clock::now() + REPORT_TIMEOUT;
        let mut asked_at = None::<Instant>;
        self.refused = 0;
        loop {
            let now = clock::now();
            if watch.stop.is_set() {
                return Err(Failure::interrupted());
            }
            if self.refused >= MAX_REFUSED {
                return Err(gone(watch));
            }
            if now >= until {
                return Err(lost(
                    Phase::Close,
                    "the receiver does not answer any more: its count is not known",
                ));
            }
            if asked_at.is_none_or(|at| now >= at + REPEAT) {
                asked_at = Some(now);
                self.send(Packet::End { counted });
            }
            let received = self.receive_one().map_err(|error| refused(Phase::Close, &error))?;
            if let Some((Packet::Report(report), _)) = received {
                return Ok(report);
            }
        }
    }

    /// Counts what the receiver sends. Returns the number of datagrams that it sent.
    fn receive(
        &mut self,
        before: &SenderStats,
        watch: &mut Watch,
        received: &mut Received,
    ) -> Result<u64, Failure> {
        let (mut heard_at, mut alive_at) = (received.last_at, received.last_at);
        let (mut newest, mut nonce) = (0, 0);
        let mut end: Option<(u64, Instant)> = None;
        loop {
            let now = clock::now();
            if received.begun_at.is_some() {
                watch.step(now, || received.stats(before))?;
            } else if watch.stop.is_set() {
                return Err(Failure::interrupted());
            }
            if let Some((counted, at)) = end
                && now >= at + STRAGGLERS
            {
                return Ok(counted);
            }
            if now >= heard_at + SILENCE {
                return Err(lost(Phase::Send, format!("nothing arrived for {} s", SILENCE.as_secs())));
            }
            if now >= alive_at {
                alive_at = now + ALIVE_INTERVAL;
                self.send(Packet::KeepAlive { nonce });
            }
            let packet = self.receive_one().map_err(|error| refused(Phase::Send, &error))?;
            let Some((packet, length)) = packet else { continue };
            heard_at = clock::now();
            match packet {
                Packet::Data { number, sent, nonce: given } => {
                    if number >= newest {
                        (newest, nonce) = (number, given);
                    }
                    if received.begun_at.is_none() {
                        watch.lines.begin(heard_at);
                    }
                    received.add(heard_at, number, sent, length);
                }
                Packet::End { counted } => {
                    end.get_or_insert((counted, now));
                    self.send(Packet::EndConfirmed);
                }
                Packet::Answer(verdict) => refused_by(verdict)?,
                _ => {}
            }
        }
    }

    /// Repeats the confirmation of the end until the receiver has it, or is gone.
    fn confirm_end(&mut self, stop: &Stop) {
        let until = clock::now() + END_TIMEOUT;
        let mut next_at = clock::now();
        self.refused = 0;
        while self.refused == 0 && look(until, stop).is_ok() {
            let now = clock::now();
            if now >= next_at {
                next_at = now + END_INTERVAL;
                self.send(Packet::EndConfirmed);
            }
            match self.receive_one() {
                Ok(Some((Packet::EndConfirmed, _))) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

struct Received {
    arrivals: Arrivals,
    /// Time of the first datagram, which comes a round trip after the request for the data.
    begun_at: Option<Instant>,
    last_at: Instant,
    /// Bytes, with those of the omitted start.
    total: u64,
    /// Number, time of sending and length of the first datagram and of the newest one.
    ends: Option<[(u64, Duration, usize); 2]>,
}

impl Received {
    fn new(omit: Duration, now: Instant) -> Self {
        Self { arrivals: Arrivals::new(omit, now), begun_at: None, last_at: now, total: 0, ends: None }
    }

    fn add(&mut self, now: Instant, number: u64, sent: Duration, length: usize) {
        self.begun_at.get_or_insert(now);
        self.last_at = now;
        self.total += length as u64;
        let this = (number, sent, length);
        let [_, newest] = self.ends.get_or_insert([this; 2]);
        *newest = this.max(*newest);
        self.arrivals.add(now, number, sent, length);
    }

    fn sent_bps(&self) -> Option<f64> {
        let [(first, begun, _), (newest, ended, length)] = self.ends?;
        let bytes = newest.saturating_sub(first).saturating_mul(length as u64);
        rate_bps(bytes, ended.saturating_sub(begun))
    }

    fn stats(&self, before: &SenderStats) -> SenderStats {
        one_way_stats(before, self.begun_at.unwrap_or(self.last_at), (self.last_at, self.total))
    }
}

fn sent(before: &SenderStats, source: &Source, now: Instant) -> SenderStats {
    one_way_stats(before, source.begun_at, (now, source.sent_bytes))
}

fn gone(watch: &Watch) -> Failure {
    lost(
        Phase::Send,
        format!(
            "nothing listens on UDP port {} any more: the receiver's count is not known",
            watch.lines.address
        ),
    )
}

fn refused(phase: Phase, error: &io::Error) -> Failure {
    if is_too_large(error) {
        return system(phase, TOO_LARGE, error);
    }
    system(phase, format_args!("the system refuses to send datagrams: {error}"), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_arrivals_has_no_idle_round_trip() {
        let asked_at = clock::now();
        let at = |ms| asked_at + Duration::from_millis(ms);
        let mut received = Received::new(Duration::ZERO, asked_at);
        for (number, ms) in [(0, 400), (1, 900), (2, 1400)] {
            received.add(at(ms), number, Duration::from_millis(ms), 1000);
        }
        let stats = received.stats(&SenderStats::default());
        assert_eq!((stats.elapsed(), stats.bytes_acked), (Duration::from_secs(1), 3000));
    }
}
