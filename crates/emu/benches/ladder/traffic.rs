//! Traffic over a link: a load and its counter, pings and their answers.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use rdt_udp::{DatagramIo, UdpIo, UdpOptions, clock};
use socket2::Socket;

/// Bytes of a flood's datagrams.
const DATAGRAM: u16 = 1400;
/// And of the headers of UDP and IPv4, which a link counts too.
const HEADERS: u16 = 28;
/// Offered, of a link's rate.
const OFFERED: f64 = 1.03;
/// How long a flood lasts.
pub(crate) const FLOOD: Duration = Duration::from_secs(3);
/// How often it is written down how many bytes have arrived.
const WINDOW: Duration = Duration::from_millis(100);
/// Windows that are left out at the beginning and at the end.
const UNSTEADY: usize = 3;
/// How long a sender sleeps that is ahead of its rate.
const PAUSE: Duration = Duration::from_micros(500);
/// Pings, and the time from one to the next.
const PINGS: u32 = 200;
const INTERVAL: Duration = Duration::from_millis(10);
/// A ping that is not answered by then is lost.
const LOST: Duration = Duration::from_secs(1);
/// Bytes of a ping: the header of an ICMP echo request and its payload, the last of which are its
/// number.
pub(crate) const PING: usize = 64;

/// Floods a link of this rate.
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

/// Counts what arrives and tells at intervals how much it is by then: microseconds, bytes. Until
/// `tell` says that it is enough.
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

/// Bits per second of what was counted, without the beginning and the end.
pub(crate) fn steady(counts: &[(f64, f64)]) -> Option<f64> {
    let changes: Vec<_> =
        counts.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| pair[1]).collect();
    let inner = changes.get(UNSTEADY..changes.len().checked_sub(UNSTEADY)?)?;
    let (first, last) = (inner.first()?, inner.last()?);
    Some((last.1 - first.1) * 8e6 / (last.0 - first.0))
}

/// Pings from a connected socket; returns the round trips. Without another server at the far end,
/// `echo` answers.
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
