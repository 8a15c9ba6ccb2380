//! `rdt-send --wire udp`: numbered datagrams at a constant rate, and the receiver's count of them.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rdt_program::talk;
use rdt_transport::{Phase, SenderStats, TransferError};
use rdt_udp::clock;

use super::arrivals::Arrivals;
use super::course::{Course, failure, lost};
use super::datagram::{Cookie, Due, MAX_DATAGRAM, Packet, Source, bind};
use super::message::{Report, Request, Verdict};
use super::stream::{LOOK_INTERVAL, is_pause};
use super::tcp_client::counted;
use crate::Failure;

/// Time after which a question is repeated.
const REPEAT: Duration = Duration::from_millis(500);
/// Unreachable ports that end the handshake: one report may be of a receiver that just starts.
const MAX_REFUSED: u32 = 3;
/// Time for datagrams that overtook each other at the end.
const STRAGGLERS: Duration = Duration::from_millis(300);
/// Longest wait for the receiver's count.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the signs of life in a reverse transfer.
const ALIVE_INTERVAL: Duration = Duration::from_millis(500);
/// Longest silence of a receiver that sends.
const SILENCE: Duration = Duration::from_secs(10);

/// Runs a transfer to the first of `addresses` that answers.
pub(super) fn run(
    course: &mut Course<'_>,
    addresses: &[SocketAddr],
    request: &Request,
) -> Result<(), Failure> {
    let share = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let give_up = course.connect_give_up() / share;
    let mut last = lost(Phase::Connect, "the receiver has no address");
    for address in addresses {
        course.address = *address;
        let mut client = Client::open(course, *address)?;
        match client.ask(course, request, give_up) {
            Ok((verdict, took)) => {
                Course::refused_by(verdict)?;
                course.connected(clock::now(), took, course.args.packet_size);
                return if request.is_reverse {
                    client.receive(course, request)
                } else {
                    client.send_all(course, request)
                };
            }
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

struct Client {
    socket: UdpSocket,
    session: u64,
    buffer: Vec<u8>,
}

impl Client {
    fn open(course: &Course<'_>, address: SocketAddr) -> Result<Self, Failure> {
        let any = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let open = || {
            let socket = bind(any, course.args.socket_buffer)?;
            socket.connect(address)?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| system(Phase::Connect, &error))?;
        Ok(Self { socket, session: rand::random(), buffer: vec![0; MAX_DATAGRAM] })
    }

    fn send(&self, packet: Packet) {
        packet.send(self.session, |bytes| self.socket.send(bytes));
    }

    /// Waits for the next packet of the session, a moment at most. `None` after that, and for
    /// others.
    fn receive_one(&mut self) -> io::Result<Option<(Packet, usize)>> {
        match self.socket.recv(&mut self.buffer) {
            Ok(length) => {
                let packet = Packet::decode(&self.buffer[..length]);
                Ok(packet.filter(|(session, _)| *session == self.session).map(|(_, packet)| (packet, length)))
            }
            Err(error) if is_pause(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends the request until it is answered. Returns the answer and the round trip.
    fn ask(
        &mut self,
        course: &Course<'_>,
        request: &Request,
        give_up: Duration,
    ) -> Result<(Verdict, Duration), Failure> {
        let begun_at = clock::now();
        let mut cookie = Cookie::default();
        let (mut asked_at, mut refused) = (None::<Instant>, 0);
        let mut say_at = (!course.status.is_quiet()).then_some(begun_at + 2 * REPEAT);
        loop {
            let now = clock::now();
            if course.stop.is_set() {
                return Err(Failure::Interrupted);
            }
            if now >= begun_at + give_up {
                return Err(lost(Phase::Connect, format!("no answer from UDP port {}", course.address)));
            }
            if asked_at.is_none_or(|at| now >= at + REPEAT) {
                asked_at = Some(now);
                self.send(Packet::Hello { cookie, request: *request });
            }
            if say_at.take_if(|at| *at <= now).is_some() {
                talk(&format!("rdt-send: waiting for a receiver at {}", course.address));
            }
            match self.receive_one() {
                Ok(Some((Packet::Cookie(given), _))) => (cookie, asked_at) = (given, None),
                Ok(Some((Packet::Answer(verdict), _))) => {
                    let took =
                        asked_at.map_or(Duration::ZERO, |at| clock::now().saturating_duration_since(at));
                    return Ok((verdict, took));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    refused += 1;
                    if refused == MAX_REFUSED {
                        return Err(lost(
                            Phase::Connect,
                            format!(
                                "nothing listens on UDP port {}: is an rdt-recv --wire udp running there?",
                                course.address
                            ),
                        ));
                    }
                    clock::sleep_until(now + LOOK_INTERVAL);
                }
                Err(error) => return Err(system(Phase::Connect, &error)),
            }
        }
    }

    /// Sends the datagrams, and asks for the receiver's count.
    fn send_all(&mut self, course: &mut Course<'_>, request: &Request) -> Result<(), Failure> {
        let begun_at = clock::now();
        let rate = request.rate.unwrap_or(1);
        let mut source = Source::new(self.session, request, rate, begun_at);
        loop {
            let now = clock::now();
            if course.step(now, |before| sent(before, &source, now))? {
                break;
            }
            let due = source.send_due(now, |bytes| self.socket.send(bytes));
            match due.map_err(|error| system(Phase::Send, &error))? {
                Due::Now => {}
                Due::At(at) => clock::sleep_until(at.min(now + LOOK_INTERVAL)),
                Due::Ended => break,
            }
        }
        course.stats = sent(&course.stats, &source, clock::now());
        (course.sent_datagrams, course.refused) = (source.counted, source.refused);
        let mut report = self.ask_report(course, source.counted)?;
        if report.datagrams < source.counted {
            // Late datagrams may be on the way still.
            clock::sleep_until(clock::now() + STRAGGLERS);
            report = self.ask_report(course, source.counted)?;
        }
        course.report = Some(report);
        Ok(())
    }

    fn ask_report(&mut self, course: &Course<'_>, counted: u64) -> Result<Report, Failure> {
        let until = clock::now() + REPORT_TIMEOUT;
        let mut asked_at = None::<Instant>;
        loop {
            let now = clock::now();
            if course.stop.is_set() {
                return Err(Failure::Interrupted);
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
            match self.receive_one() {
                Ok(Some((Packet::Report(report), _))) => return Ok(report),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    clock::sleep_until(now + LOOK_INTERVAL);
                }
                Err(error) => return Err(system(Phase::Close, &error)),
            }
        }
    }

    /// Counts what the receiver sends.
    fn receive(&mut self, course: &mut Course<'_>, request: &Request) -> Result<(), Failure> {
        let begun_at = clock::now();
        let mut arrivals = Arrivals::new(request.omit, begun_at);
        let (mut heard_at, mut last_at, mut total) = (begun_at, begun_at, 0);
        let mut alive_at = begun_at + ALIVE_INTERVAL;
        let mut end: Option<(u64, Instant)> = None;
        loop {
            let now = clock::now();
            course.step(now, |before| counted(before, begun_at, last_at, total))?;
            if end.is_some_and(|(_, at)| now >= at + STRAGGLERS) {
                break;
            }
            if now >= heard_at + SILENCE {
                return Err(lost(Phase::Send, format!("nothing arrived for {} s", SILENCE.as_secs())));
            }
            if now >= alive_at {
                alive_at = now + ALIVE_INTERVAL;
                self.send(Packet::Alive);
            }
            match self.receive_one() {
                Ok(Some((Packet::Data { number, sent }, length))) => {
                    (heard_at, last_at) = (clock::now(), clock::now());
                    total += length as u64;
                    arrivals.add(last_at, number, sent, length);
                }
                Ok(Some((Packet::End { counted }, _))) => {
                    heard_at = now;
                    end.get_or_insert((counted, now));
                    self.send(Packet::Done);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    clock::sleep_until(now + LOOK_INTERVAL);
                }
                Err(error) => return Err(system(Phase::Send, &error)),
            }
        }
        course.stats = counted(&course.stats, begun_at, last_at, total);
        course.sent_datagrams = end.map_or(0, |(datagrams, _)| datagrams);
        course.report = Some(arrivals.report());
        Ok(())
    }
}

/// Returns the counts of what was sent.
fn sent(before: &SenderStats, source: &Source, now: Instant) -> SenderStats {
    counted(before, source.begun_at, now, source.sent_bytes)
}

fn system(phase: Phase, error: &io::Error) -> Failure {
    failure(
        phase,
        TransferError::FailedSend(error.raw_os_error().unwrap_or(0)),
        format!("the system refuses to send datagrams: {error}"),
    )
}
