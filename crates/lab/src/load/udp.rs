//! Flows of datagrams through the kernel's UDP: a source with a schedule, and a receiver that
//! counts. A datagram begins with its number (4 bytes) and the time at which it was sent, in
//! nanoseconds (8 bytes), both big endian.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rdt_sim::Source;
use socket2::{Socket, Type};

use super::network::End;
use super::tcp::is_pause;
use super::{LoadError, Shared};
use crate::flow::Flow;
use crate::flow::nanoseconds;

const MAX_DATAGRAM: usize = 65_507;
/// Receive buffer, bytes. It holds the datagrams that arrive while the receiver is not scheduled.
const RECEIVE_BUFFER: usize = 8 << 20;
/// A send call that takes longer was blocked by a full send buffer.
const BLOCKED: Duration = Duration::from_micros(200);

/// Returns a socket at `end` that receives the flow.
pub(super) fn receiver(end: &End, port: u16) -> Result<UdpSocket, LoadError> {
    end.open("cannot bind a port", || {
        let socket = Socket::new(end.domain(), Type::DGRAM, None)?;
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        }
        socket.bind(&SocketAddr::new(end.local, port).into())?;
        Ok(socket.into())
    })
}

/// Returns a socket at `end` that sends the flow.
pub(super) fn sender(flow: &Flow, end: &End, port: u16) -> Result<UdpSocket, LoadError> {
    end.open("cannot make a socket", || {
        let socket = Socket::new(end.domain(), Type::DGRAM, None)?;
        if let Some(bytes) = flow.send_buffer {
            socket.set_send_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        }
        socket.connect(&SocketAddr::new(end.peer, port).into())?;
        Ok(socket.into())
    })
}

/// Sends a source's datagrams when they are due, overdue ones as soon as the socket accepts them.
pub(super) fn send(source: &Source, socket: &UdpSocket, shared: &Shared) {
    let clock = shared.clock;
    let end = [source.stop, shared.duration].into_iter().flatten().min();
    let mut datagram = vec![0; source.payload];
    let (mut number, mut before) = (0_u64, 0);
    while source.packets.is_none_or(|limit| number < limit) {
        before = source.arrivals.time_of(number, source.payload as u64, before);
        let due = source.start + Duration::from_nanos(before);
        if end.is_some_and(|end| due.max(clock.now()) >= end) {
            break;
        }
        if clock.now() < due {
            clock.sleep_until(due);
        }
        let began = clock.now();
        #[expect(clippy::cast_possible_truncation, reason = "numbers count modulo 2^32")]
        datagram[..4].copy_from_slice(&(number as u32).to_be_bytes());
        datagram[4..12].copy_from_slice(&nanoseconds(began).to_be_bytes());
        let result = socket.send(&datagram);
        let spent = clock.now().saturating_sub(began);
        number += 1;
        let mut sent = shared.sent();
        sent.packets = number;
        if spent > BLOCKED {
            sent.blocked += spent;
        }
        match result {
            Ok(bytes) => sent.bytes += bytes as u64,
            Err(error) if is_refusal(&error) => sent.refused += 1,
            Err(error) => {
                drop(sent);
                return shared.fail(&format!("cannot send: {error}"));
            }
        }
    }
    shared.sent().ended = Some(clock.now());
}

/// True if the host refused this datagram, but may accept the next: a queue was full, an ICMP error
/// was pending, or the datagram is larger than the path MTU.
fn is_refusal(error: &std::io::Error) -> bool {
    is_pause(error.kind())
        || error.kind() == ErrorKind::ConnectionRefused
        || rustix::io::Errno::from_io_error(error)
            .is_some_and(|it| it == rustix::io::Errno::NOBUFS || it == rustix::io::Errno::MSGSIZE)
}

/// Counts datagrams until the program ends.
pub(super) fn receive(socket: &UdpSocket, shared: &Shared) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(error) if is_pause(error.kind()) => continue,
            Err(error) => return shared.fail(&format!("cannot receive: {error}")),
        };
        let now = shared.clock.now();
        let (Some(number), Some(sent)) = (
            buffer[..length].first_chunk().map(|it| u32::from_be_bytes(*it)),
            buffer[..length].get(4..12).and_then(|it| it.try_into().ok()).map(u64::from_be_bytes),
        ) else {
            continue;
        };
        let mut received = shared.received();
        received.latest = Some(now);
        if shared.duration.is_some_and(|end| now >= end) {
            received.late_packets += 1;
            continue;
        }
        received.add(now, length, shared.bin);
        received.arrived.count(now, number, Duration::from_nanos(sent), length as u64);
    }
}
