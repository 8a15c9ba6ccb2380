//! Flows of the kernel's TCP: a sender that writes on a schedule, and a receiver that counts.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Socket, Type};

use super::network::End;
use super::{LoadError, Shared};
use crate::flow::{Flow, Reads};

/// Bytes of one read or write.
const CHUNK: usize = 64 << 10;
/// Timeout of a write, so that a flow stops in time.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);
/// Interval of the writes of a source with a rate, and of the reads of a receiver with one.
pub(super) const RATE_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes of the headers of IPv4 and TCP, and of IPv6 and TCP, without options.
const HEADERS: u32 = 40;
const HEADERS_IPV6: u32 = 60;

/// Returns a socket that listens at `end` with the receiver's words of the flow.
pub(super) fn listener(flow: &Flow, end: &End, port: u16) -> Result<TcpListener, LoadError> {
    end.open("cannot listen", || {
        let socket = socket(flow, end)?;
        if let Some(bytes) = flow.window {
            // Before `listen`, because the handshake fixes the scale of the window.
            socket.set_recv_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        }
        socket.bind(&SocketAddr::new(end.local, port).into())?;
        socket.listen(1)?;
        Ok(socket.into())
    })
}

/// Returns a socket at `end` with the sender's words of the flow.
pub(super) fn sender(flow: &Flow, end: &End) -> Result<Socket, LoadError> {
    let socket = end.open("cannot make a socket", || {
        let socket = socket(flow, end)?;
        if let Some(bytes) = flow.send_buffer {
            socket.set_send_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        }
        Ok(socket)
    })?;
    if let Some(name) = &flow.cc {
        rdt_udp::set_congestion(&socket, name)?;
    }
    Ok(socket)
}

fn socket(flow: &Flow, end: &End) -> std::io::Result<Socket> {
    let socket = Socket::new(end.domain(), Type::STREAM, None)?;
    if let Some(packet) = flow.packet {
        let headers = if end.local.is_ipv6() { HEADERS_IPV6 } else { HEADERS };
        socket.set_tcp_mss(packet.saturating_sub(headers))?;
    }
    Ok(socket)
}

/// Connects at the start of the flow, and writes until its end.
pub(super) fn send(flow: &Flow, socket: Socket, to: SocketAddr, shared: &Shared) {
    let clock = shared.clock;
    clock.sleep_until(flow.start.0);
    let begin = clock.now();
    let connected = socket.try_clone().and_then(|copy| {
        shared.sent().stream = Some(copy.into());
        socket.connect(&to.into())?;
        // Not before, because it would also limit the handshake.
        socket.set_write_timeout(Some(WRITE_TIMEOUT))
    });
    if let Err(error) = connected {
        return shared.fail(&format!("cannot connect: {error}"));
    }
    shared.sent().handshake = Some(clock.now().saturating_sub(begin));
    let mut stream: TcpStream = socket.into();
    if let Err(error) = write(flow, &mut stream, shared) {
        return shared.fail(&format!("cannot send: {error}"));
    }
    // Fails if the connection has failed, which the receiver reports.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    shared.sent().ended = Some(clock.now());
}

fn write(flow: &Flow, stream: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let clock = shared.clock;
    let end = [flow.stop, shared.duration].into_iter().flatten().min();
    let chunk = vec![0; CHUNK];
    let mut written = 0;
    loop {
        let now = clock.now();
        let left = flow.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(written));
        if left == 0 || end.is_some_and(|end| now >= end) {
            return Ok(());
        }
        let due = due(flow, now.saturating_sub(flow.start.0)).saturating_sub(written);
        if due == 0 {
            clock.sleep_until(now + RATE_INTERVAL);
            continue;
        }
        let length = usize::try_from(left.min(due)).unwrap_or(CHUNK).min(CHUNK);
        match stream.write(&chunk[..length]) {
            Ok(accepted) => {
                written += accepted as u64;
                shared.sent().bytes = written;
            }
            Err(error) if is_pause(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

/// True for errors after which a read or write can be repeated.
pub(super) fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Returns the number of bytes that are due `life` after the start of the flow. Without a rate
/// there is no limit, except 0 in pauses.
pub(super) fn due(flow: &Flow, life: Duration) -> u64 {
    let (active, is_pause) = match flow.on_off {
        Some((on, off)) if !(on + off).is_zero() => {
            let rounds = u32::try_from(life.as_nanos() / (on + off).as_nanos()).unwrap_or(u32::MAX);
            let rest = life.saturating_sub((on + off) * rounds);
            (on * rounds + rest.min(on), rest >= on)
        }
        _ => (life, false),
    };
    match flow.rate {
        Some(bps) => bytes_at(bps, active),
        None if is_pause => 0,
        None => u64::MAX,
    }
}

/// Returns the bytes that the application, which has read `bytes`, may read, and when to ask again.
pub(super) fn readable(reads: Reads, now: Duration, begin: Duration, bytes: u64) -> (u64, Duration) {
    match reads {
        Reads::Rate(bps) => {
            let due = bytes_at(bps, now.saturating_sub(begin));
            (due.saturating_sub(bytes), now + RATE_INTERVAL)
        }
        Reads::Stalled(from, span) if (from..from + span).contains(&now) => (0, from + span),
        Reads::AtOnce | Reads::Stalled(..) => (u64::MAX, now),
    }
}

fn bytes_at(bps: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(bps) * time.as_nanos() / 8_000_000_000).unwrap_or(u64::MAX)
}

/// Accepts one connection, and reads it to its end by the flow's rule.
pub(super) fn receive(flow: &Flow, listener: &TcpListener, shared: &Shared) {
    let stream = match listener.accept() {
        Ok((stream, _)) => stream,
        Err(error) => return shared.fail(&format!("cannot accept: {error}")),
    };
    match read(flow, stream, shared) {
        Ok(()) => shared.complete(),
        Err(error) => shared.fail(&format!("cannot receive: {error}")),
    }
}

fn read(flow: &Flow, mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let clock = shared.clock;
    let begin = clock.now();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        let (may, next) = readable(flow.reads, clock.now(), begin, bytes);
        if may == 0 {
            clock.sleep_until(next);
            continue;
        }
        let length = usize::try_from(may).unwrap_or(CHUNK).min(CHUNK);
        match stream.read(&mut chunk[..length]) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                bytes += read as u64;
                shared.read(read);
            }
            Err(error) if is_pause(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_stop_the_application() {
        let second = Duration::from_secs(1);
        let flow = Flow { rate: Some(8_000), on_off: Some((second, 2 * second)), ..Flow::new("a") };
        let due_at = |millis| due(&flow, Duration::from_millis(millis));
        assert_eq!([due_at(500), due_at(1_000), due_at(2_900), due_at(3_500)], [500, 1_000, 1_000, 1_500]);
        let flow = Flow { rate: None, ..flow };
        assert_eq!((due(&flow, second / 2), due(&flow, 2 * second)), (u64::MAX, 0));
        assert_eq!(due(&Flow::new("a"), second), u64::MAX);
    }
}
