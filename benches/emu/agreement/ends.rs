//! Sender of numbered datagrams, and receiver that records arrival times.

use std::env;
use std::fs;
use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;

pub(crate) const COUNT: u32 = 10_000;
/// Payload of a datagram, bytes.
pub(crate) const PAYLOAD: usize = 100;
/// Number of datagrams in a burst, which is sent faster than the link's rate.
const BURST: u32 = 20;
/// Interval between bursts: the link is idle for three quarters of it.
const GAP: Duration = Duration::from_millis(4);
/// Read timeout that ends the measurement; longer than the path's delay.
const SILENCE: Duration = Duration::from_millis(500);
/// Read timeout for the first datagram.
const WAIT_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Number in the payload.
    pub(crate) number: u32,
    /// Kernel timestamp, ns since 1970.
    pub(crate) at_ns: u64,
    pub(crate) is_changed: bool,
}

pub(crate) fn send(to: SocketAddr) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    for number in 0..COUNT {
        if number % BURST == 0 {
            sleep(GAP);
        }
        socket.send_to(&payload(number), to).unwrap();
    }
}

pub(crate) fn receive(socket: &UdpSocket) -> Vec<Arrival> {
    setsockopt(socket, ReceiveTimestampns, &true).unwrap();
    socket.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    let mut arrivals = Vec::new();
    loop {
        let mut bytes = [0; PAYLOAD + 1];
        let mut control = nix::cmsg_space!(TimeSpec);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty());
        let (len, stamp) = match received {
            Ok(message) => {
                let stamp = message.cmsgs().unwrap().find_map(|control| match control {
                    ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
                    _ => None,
                });
                (message.bytes, Duration::from(stamp.unwrap()))
            }
            Err(Errno::EINTR) => continue,
            Err(errno) => {
                assert_eq!(std::io::Error::from(errno).kind(), ErrorKind::WouldBlock);
                return arrivals;
            }
        };
        assert_eq!(len, PAYLOAD);
        if arrivals.is_empty() {
            socket.set_read_timeout(Some(SILENCE)).unwrap();
        }
        let number = number(&bytes[..len]);
        let at_ns = u64::try_from(stamp.as_nanos()).unwrap();
        arrivals.push(Arrival { number, at_ns, is_changed: bytes[..len] != payload(number) });
    }
}

/// Runs the far end: receives datagrams, and writes the arrivals to `file`.
pub(crate) fn receive_to(file: &Path) {
    let address: SocketAddr = format!("{}:9", env::var("RDT_LOCAL").unwrap()).parse().unwrap();
    let arrivals = receive(&UdpSocket::bind(address).unwrap());
    let line = |it: &Arrival| format!("{} {} {}\n", it.number, it.at_ns, u8::from(it.is_changed));
    fs::write(file, arrivals.iter().map(line).collect::<String>()).unwrap();
}

pub(crate) fn read(file: &Path) -> Vec<Arrival> {
    let parse = |line: &str| {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [number, at_ns, is_changed] = words[..] else { panic!("{line}") };
        Arrival { number: u32::try_from(number).unwrap(), at_ns, is_changed: is_changed == 1 }
    };
    fs::read_to_string(file).unwrap().lines().map(parse).collect()
}

/// Runs the near end: sends datagrams, and waits until the receiver's read has timed out.
pub(crate) fn send_to_peer() {
    send(format!("{}:9", env::var("RDT_PEER").unwrap()).parse().unwrap());
    sleep(SILENCE * 3);
}

/// Returns a payload that ends with three copies of the number, of which one may have a flipped
/// bit.
fn payload(number: u32) -> [u8; PAYLOAD] {
    let mut bytes = [0; PAYLOAD];
    bytes[PAYLOAD - 12..].copy_from_slice(&[number.to_be_bytes(); 3].concat());
    bytes
}

/// Returns the number of a packet: the majority of the three copies at its end.
pub(crate) fn number(packet: &[u8]) -> u32 {
    let copies = packet[packet.len() - 12..].chunks(4);
    let copies: Vec<_> = copies.map(|copy| u32::from_be_bytes(copy.try_into().unwrap())).collect();
    if copies[0] == copies[1] { copies[0] } else { copies[2] }
}

#[expect(clippy::disallowed_methods, reason = "the path is another process")]
fn sleep(time: Duration) {
    thread::sleep(time);
}
