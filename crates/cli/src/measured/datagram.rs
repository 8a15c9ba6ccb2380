//! Packets of `--wire udp`, a socket for them, and a source of numbered datagrams. A packet begins
//! with a header of 24 bytes: the magic bytes, its kind, a nonce, and the session's number. Fields
//! of its kind follow.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rdt_program::json::nanos;
use rdt_udp::{clock, forbid_fragments};
use socket2::{Domain, Socket, Type};

use super::connection::LOOK_INTERVAL;
use super::message::{ANSWER_BYTES, REPORT_BYTES, REQUEST_BYTES, Report, Request, Verdict, numbers, put};
use super::stream::Pace;

/// First bytes of each packet, with the version of the format.
const MAGIC: [u8; 8] = *b"rdt-udp1";
/// Length of the part that all packets have, bytes.
const HEADER: usize = 24;
/// Length of the headers of data: number and time of sending follow.
const DATA_HEADER: usize = HEADER + 16;
/// Smallest datagram, bytes: the end of a transfer fits into two, each of which has headers.
pub(super) const MIN_DATAGRAM: usize = 2 * DATA_HEADER;
pub(super) const MIN_BYTES: u64 = DATA_HEADER as u64;
/// Limit on the numbers of datagrams: centuries at any rate.
const NUMBER_LIMIT: u64 = 1 << 56;
/// Length of a packet that is answered: longer than any answer.
const ASK_BYTES: usize = 160;
pub(super) const MAX_DATAGRAM: usize = 65_507;
/// Datagrams that are sent between two looks at the clock and at Ctrl-C.
const BURST: u64 = 32;
/// Interval between two repetitions of the end of a reverse transfer, and of its confirmation.
pub(super) const END_INTERVAL: Duration = Duration::from_millis(200);
/// Time for which either is repeated without an answer.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a datagram after which the sending side shows that it is there.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Default receive buffer, bytes. It holds what arrives while the receiver is not scheduled.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Proof that a peer receives at its address.
pub(super) type Cookie = [u8; 16];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packet {
    /// Request, with the cookie of a [`Packet::Cookie`] or zeros.
    Request {
        cookie: Cookie,
        request: Request,
    },
    /// Answer to a request without a valid cookie.
    Cookie(Cookie),
    /// Answer to a request with a valid cookie.
    Answer(Verdict),
    /// Numbered datagram. `sent` is its send time, from the start of the data. In a reverse
    /// transfer the peer echoes `nonce`, which proves the peer's address; in others it is 0.
    Data {
        number: u64,
        sent: Duration,
        nonce: u32,
    },
    /// End of the data, with the number of datagrams that count.
    End {
        counted: u64,
    },
    Report(Report),
    /// Keep-alive of the client, with the nonce of the newest datagram that it received, or 0.
    KeepAlive {
        nonce: u32,
    },
    /// The client has received [`Packet::End`]. The server answers with the same packet.
    EndConfirmed,
}

impl Packet {
    /// Writes the packet to the start of `out`. Returns its length, of data the least one.
    pub(super) fn encode(&self, session: u64, out: &mut [u8; ASK_BYTES]) -> usize {
        out.fill(0);
        out[..8].copy_from_slice(&MAGIC);
        put(&mut out[16..], &[session]);
        let body = &mut out[HEADER..];
        let (kind, length) = match self {
            Self::Request { cookie, request } => {
                body[..16].copy_from_slice(cookie);
                body[16..16 + REQUEST_BYTES].copy_from_slice(&request.encode());
                (1, ASK_BYTES)
            }
            Self::Cookie(cookie) => {
                body[..16].copy_from_slice(cookie);
                (2, HEADER + 16)
            }
            Self::Answer(verdict) => {
                body[..ANSWER_BYTES].copy_from_slice(&verdict.encode());
                (3, HEADER + ANSWER_BYTES)
            }
            Self::Data { number, sent, .. } => {
                put(body, &[*number, nanos(*sent)]);
                (4, DATA_HEADER)
            }
            Self::End { counted } => {
                put(body, &[*counted]);
                (5, ASK_BYTES)
            }
            Self::Report(report) => {
                body[..REPORT_BYTES].copy_from_slice(&report.encode());
                (6, HEADER + REPORT_BYTES)
            }
            Self::KeepAlive { .. } => (7, HEADER),
            Self::EndConfirmed => (8, HEADER),
        };
        out[8] = kind;
        if let Self::Data { nonce, .. } | Self::KeepAlive { nonce } = self {
            out[12..16].copy_from_slice(&nonce.to_le_bytes());
        }
        length
    }

    /// Returns the session and the packet. One that asks for an answer is longer than any answer.
    pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let body = bytes.get(HEADER..)?;
        let [session] = numbers(&bytes[16..HEADER]);
        let nonce = u32::from_le_bytes(*bytes[12..16].first_chunk()?);
        let is_long = bytes.len() >= ASK_BYTES;
        let packet = match rest.first()? {
            1 if is_long => {
                Self::Request { cookie: *body.first_chunk()?, request: Request::decode(&body[16..])? }
            }
            2 => Self::Cookie(*body.first_chunk()?),
            3 => Self::Answer(Verdict::decode(body)?),
            4 if bytes.len() >= DATA_HEADER => {
                let [number, sent] = numbers(body);
                if number >= NUMBER_LIMIT {
                    return None;
                }
                Self::Data { number, sent: Duration::from_nanos(sent), nonce }
            }
            5 if is_long => {
                let [counted] = numbers(body);
                Self::End { counted }
            }
            6 => Self::Report(Report::decode(body)?),
            7 => Self::KeepAlive { nonce },
            8 => Self::EndConfirmed,
            _ => return None,
        };
        Some((session, packet))
    }

    /// Sends the packet by `send`. A packet that the host refuses counts as lost.
    pub(super) fn send(&self, session: u64, send: impl FnOnce(&[u8]) -> io::Result<usize>) {
        let mut bytes = [0; ASK_BYTES];
        let length = self.encode(session, &mut bytes);
        let _ = send(&bytes[..length]);
    }
}

/// Returns a socket bound to `address`, whose reads wait for [`LOOK_INTERVAL`].
pub(super) fn bind(address: SocketAddr, buffer: Option<usize>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    if let Some(bytes) = buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    let size = buffer.unwrap_or(RECEIVE_BUFFER);
    // A privileged process may exceed the system's limit.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, size).is_err() {
        socket.set_recv_buffer_size(size)?;
    }
    socket.set_read_timeout(Some(LOOK_INTERVAL))?;
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    forbid_fragments(&socket)?;
    Ok(socket)
}

/// Source of numbered datagrams at a constant rate.
#[derive(Debug)]
pub(super) struct Source {
    session: u64,
    /// Datagram under construction; its length is that of all but the last one.
    datagram: Vec<u8>,
    pace: Pace,
    /// Bytes to send; `None` without end.
    bytes: Option<u64>,
    /// Datagrams sent earlier than this after the start do not count.
    omit: Duration,
    pub(super) begun_at: Instant,
    /// Time of the last datagram or keep-alive.
    spoken_at: Instant,
    pub(super) nonce: u32,
    /// Errors "port unreachable" so far.
    pub(super) unreachable: u32,
    next: u64,
    pub(super) sent_bytes: u64,
    /// Datagrams that count, and those of them that the host refused.
    pub(super) counted: u64,
    pub(super) refused: u64,
    pub(super) counted_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// More is due.
    Now,
    At(Instant),
    Ended,
}

impl Source {
    /// Returns the source that a request describes, at its rate or a lower one.
    pub(super) fn new(session: u64, request: &Request, rate: u64, begun_at: Instant) -> Self {
        let mut datagram = vec![0; usize::from(request.packet_size).max(MIN_DATAGRAM)];
        let mut header = [0; ASK_BYTES];
        let length = Packet::Data { number: 0, sent: Duration::ZERO, nonce: 0 }.encode(session, &mut header);
        datagram[..length].copy_from_slice(&header[..length]);
        Self {
            session,
            pace: Pace::new(Some(rate.max(1)), (datagram.len(), datagram.len()), begun_at),
            datagram,
            bytes: request.bytes,
            omit: request.omit,
            begun_at,
            spoken_at: begun_at,
            nonce: 0,
            unreachable: 0,
            next: 0,
            sent_bytes: 0,
            counted: 0,
            refused: 0,
            counted_bytes: 0,
        }
    }

    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.pace.due(now) >= self.datagram.len() as u64
    }

    /// Sends the datagrams that are due: after a stall, at most the burst of [`Pace`].
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<Due> {
        let size = self.datagram.len() as u64;
        for _ in 0..BURST {
            if !self.is_due(now) {
                break;
            }
            let left = self.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(self.sent_bytes));
            if left == 0 {
                return Ok(Due::Ended);
            }
            // The last datagram has room for its headers: the one before may be shorter.
            let length =
                if left > size && left - size < MIN_BYTES { left - MIN_BYTES } else { left.min(size) };
            self.send_one(usize::try_from(length).unwrap_or(0).max(DATA_HEADER), &mut send)?;
        }
        if self.bytes.is_some_and(|bytes| self.sent_bytes >= bytes) {
            return Ok(Due::Ended);
        }
        Ok(if self.is_due(now) { Due::Now } else { Due::At(self.pace.due_at(self.datagram.len())) })
    }

    /// True if this side must show that it is there: it has sent nothing for a while.
    pub(super) fn must_speak(&mut self, now: Instant) -> bool {
        let is_silent = now >= self.spoken_at + KEEP_ALIVE_INTERVAL;
        if is_silent {
            self.spoken_at = now;
        }
        is_silent
    }

    fn send_one(
        &mut self,
        length: usize,
        send: &mut impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let now = clock::now();
        let sent = now.saturating_duration_since(self.begun_at);
        let mut header = [0; ASK_BYTES];
        let end =
            Packet::Data { number: self.next, sent, nonce: self.nonce }.encode(self.session, &mut header);
        self.datagram[..end].copy_from_slice(&header[..end]);
        let is_refused = match send(&self.datagram[..length]) {
            Ok(_) => false,
            Err(error) if is_refusal(&error) => {
                self.unreachable += u32::from(error.kind() == ErrorKind::ConnectionRefused);
                true
            }
            Err(error) => return Err(error),
        };
        self.next += 1;
        self.spoken_at = now;
        self.sent_bytes += length as u64;
        self.pace.take(length);
        if sent >= self.omit {
            self.counted += 1;
            self.counted_bytes += length as u64;
            self.refused += u64::from(is_refused);
        }
        Ok(())
    }
}

/// True if the host may accept the next datagram: a queue was full, or an ICMP error was pending.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused)
        || rustix::io::Errno::from_io_error(error).is_some_and(|it| it == rustix::io::Errno::NOBUFS)
}

pub(super) fn is_too_large(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::MSGSIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_survive_encoding_and_answers_are_shorter() {
        let request = Request { rate: Some(1), ..Request::default() };
        let asks = [Packet::Request { cookie: [7; 16], request }, Packet::End { counted: 9 }];
        let answers =
            [Packet::Cookie([3; 16]), Packet::Answer(Verdict::Busy), Packet::Report(Report::default())];
        let data = Packet::Data { number: 5, sent: Duration::from_nanos(6), nonce: 9 };
        let others = [data, Packet::KeepAlive { nonce: u32::MAX }, Packet::EndConfirmed];
        let mut bytes = [0; ASK_BYTES];
        for packet in asks.into_iter().chain(answers).chain(others) {
            let length = packet.encode(77, &mut bytes);
            assert_eq!(Packet::decode(&bytes[..length]), Some((77, packet)));
            assert_eq!(asks.contains(&packet), length == ASK_BYTES, "{packet:?}");
        }
    }

    #[test]
    fn numbers_beyond_limit_are_no_packets() {
        let mut bytes = [0; ASK_BYTES];
        for (number, is_packet) in [(NUMBER_LIMIT - 1, true), (NUMBER_LIMIT, false), (u64::MAX, false)] {
            let length = Packet::Data { number, sent: Duration::ZERO, nonce: 0 }.encode(1, &mut bytes);
            assert_eq!(Packet::decode(&bytes[..length]).is_some(), is_packet, "{number}");
        }
    }

    #[test]
    fn size_of_transfer_is_kept_to_byte() {
        for bytes in 40..2000 {
            let request = Request { packet_size: 80, bytes: Some(bytes), ..Request::default() };
            let mut source = Source::new(1, &request, u64::MAX, clock::now());
            let mut sum = 0;
            let send = |datagram: &[u8]| {
                assert!((DATA_HEADER..=80).contains(&datagram.len()), "{bytes}: {}", datagram.len());
                sum += datagram.len() as u64;
                Ok(datagram.len())
            };
            assert_eq!(source.send_due(source.begun_at + Duration::from_secs(1), send).unwrap(), Due::Ended);
            assert_eq!((sum, source.sent_bytes), (bytes, bytes));
        }
    }

    #[test]
    fn short_questions_are_no_packets() {
        let mut bytes = [0; ASK_BYTES];
        for packet in
            [Packet::Request { cookie: [0; 16], request: Request::default() }, Packet::End { counted: 1 }]
        {
            packet.encode(1, &mut bytes);
            assert_eq!(Packet::decode(&bytes[..ASK_BYTES - 1]), None, "{packet:?}");
        }
        for length in 0..HEADER {
            assert_eq!(Packet::decode(&bytes[..length]), None);
        }
    }

    #[test]
    fn stall_leaves_no_burst() {
        let begun_at = clock::now();
        let request = Request { packet_size: 1000, ..Request::default() };
        let mut source = Source::new(1, &request, 1_000_000, begun_at);
        let mut sent_at = |ms: u64| {
            let (at, before) = (begun_at + Duration::from_millis(ms), source.sent_bytes);
            while source.send_due(at, |bytes| Ok(bytes.len())).unwrap() == Due::Now {}
            source.sent_bytes - before
        };
        assert_eq!([sent_at(0), sent_at(1), sent_at(5)], [1000, 1000, 4000]);
        assert_eq!([sent_at(3000), sent_at(3001)], [11_000, 1000]);
    }

    #[test]
    fn source_follows_rate_and_size() {
        let begun_at = clock::now();
        let request = Request { packet_size: 100, bytes: Some(350), ..Request::default() };
        let mut source = Source::new(1, &request, 1000, begun_at);
        let mut lengths = Vec::new();
        let mut at = |ms: u64| {
            source.send_due(begun_at + Duration::from_millis(ms), |bytes| {
                lengths.push(bytes.len());
                Ok(bytes.len())
            })
        };
        assert_eq!(at(0).unwrap(), Due::At(begun_at + Duration::from_millis(100)));
        assert_eq!(at(50).unwrap(), Due::At(begun_at + Duration::from_millis(100)));
        // A wake-up that is up to 10 ms late does not delay the next datagram.
        assert_eq!(at(110).unwrap(), Due::At(begun_at + Duration::from_millis(200)));
        assert_eq!(at(200).unwrap(), Due::At(begun_at + Duration::from_millis(300)));
        assert_eq!(at(1000).unwrap(), Due::Ended);
        assert_eq!(lengths, [100, 100, 100, 50]);
        assert_eq!((source.counted, source.refused, source.sent_bytes), (4, 0, 350));
    }
}
