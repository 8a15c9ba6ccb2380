//! Traffic over a link: a load, the counter of its bytes, and pings with their replies.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use rdt_udp::{DatagramIo, UdpIo, UdpOptions, clock};
use socket2::Socket;

/// Payload of the load's datagrams, bytes.
const DATAGRAM: u16 = 1400;
/// UDP and IPv4 headers, which the link counts too, bytes.
const HEADERS: u16 = 28;
/// Load as a share of the link's rate.
const OFFERED: f64 = 1.03;
pub(crate) const FLOOD: Duration = Duration::from_secs(3);
/// Interval at which the received bytes are reported.
const WINDOW: Duration = Duration::from_millis(100);
/// Number of intervals that are ignored at the start, and at the end.
const UNSTEADY: usize = 3;
/// Sleep of a sender that is ahead of its rate.
const PAUSE: Duration = Duration::from_micros(500);
/// Number of pings, and their interval.
const PINGS: u32 = 200;
const INTERVAL: Duration = Duration::from_millis(10);
/// Timeout of a ping.
const LOST: Duration = Duration::from_secs(1);
/// Size of a ping, bytes: ICMP echo header and payload, which ends with its number.
pub(crate) const PING: usize = 64;

/// Sends the load for a link with a rate of `bps` bits per second.
pub(crate) fn flood(to: SocketAddr, bps: f64) {
    let mut io = UdpIo::bind((Ipv4Addr::UNSPECIFIED, 0).into(), UdpOptions::default()).expect("a socket");
    let per_second = bps * OFFERED / 8.0 / f64::from(DATAGRAM + HEADERS);
    let (begin, mut sent) = (clock::now(), 0.0);
    loop {
        let elapsed = clock::now() - begin;
        if elapsed >= FLOOD {
            return;
        }
        let due = elapsed.as_secs_f64() * per_second;
        let Some(batch) = io.transmit_buf().filter(|_| sent < due) else {
            sleep(PAUSE);
            continue;
        };
        while sent < due && batch.slot(DATAGRAM.into()).is_some() {
            sent += 1.0;
        }
        io.flush(to.into());
    }
}

/// Receives datagrams, and calls `tell` at intervals with the elapsed microseconds and the bytes so
/// far, until `tell` returns false.
pub(crate) fn count(mut io: UdpIo, mut tell: impl FnMut(u128, usize) -> bool) {
    let (begin, mut next, mut bytes) = (clock::now(), WINDOW, 0);
    loop {
        while let Some(batch) = io.recv() {
            bytes += batch.bytes.len() + batch.bytes.len() / usize::from(DATAGRAM) * usize::from(HEADERS);
        }
        let elapsed = clock::now() - begin;
        if elapsed >= next {
            next += WINDOW;
            if !tell(elapsed.as_micros(), bytes) {
                return;
            }
        }
        sleep(PAUSE);
    }
}

/// Returns the mean rate without the start and the end, bits per second.
pub(crate) fn steady(counts: &[(f64, f64)]) -> Option<f64> {
    let changes: Vec<_> =
        counts.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| pair[1]).collect();
    let inner = changes.get(UNSTEADY..changes.len().checked_sub(UNSTEADY)?)?;
    let (first, last) = (inner.first()?, inner.last()?);
    Some((last.1 - first.1) * 8e6 / (last.0 - first.0))
}

/// Sends pings from a connected socket, and returns the RTTs. If the far end has no server, `echo`
/// replies.
pub(crate) fn ping(near: &Socket, echo: Option<&UdpSocket>) -> Vec<Duration> {
    const ECHO_REQUEST: u8 = 8;
    near.set_nonblocking(true).expect("a socket that does not block");
    let (mut sent, mut round_trips) = (Vec::new(), Vec::new());
    let mut message = [0; PING];
    message[0] = ECHO_REQUEST;
    let begin = clock::now();
    loop {
        let elapsed = clock::now() - begin;
        let number = u32::try_from(sent.len()).expect("few");
        if number < PINGS && elapsed >= INTERVAL * number {
            message[PING - 4..].copy_from_slice(&number.to_be_bytes());
            sent.push(clock::now());
            near.send(&message).expect("a ping is sent");
        }
        let mut bytes = [0; PING];
        if let Some((echo, (len, from))) =
            echo.and_then(|echo| Some((echo, echo.recv_from(&mut bytes).ok()?)))
        {
            echo.send_to(&bytes[..len], from).expect("an answer is sent");
        }
        if std::io::Read::read(&mut &*near, &mut bytes).is_ok() {
            let number = u32::from_be_bytes(bytes[PING - 4..].try_into().expect("four bytes"));
            round_trips.push(clock::now() - sent[number as usize]);
        }
        if round_trips.len() == PINGS as usize || elapsed > INTERVAL * PINGS + LOST {
            return round_trips;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "neither end replies, so no thread waits for it")]
fn sleep(time: Duration) {
    thread::sleep(time);
}
