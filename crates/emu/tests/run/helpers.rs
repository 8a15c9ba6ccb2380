//! Programs that the tests run inside: this test program itself, asked for one of its tests that are ignored.

use std::env;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use rdt_driver::clock;
use socket2::{Domain, Protocol, Socket, Type};

/// The command for one of them.
pub(crate) fn helper(name: &str) -> Vec<String> {
    let program = env::current_exe().unwrap().into_os_string().into_string().unwrap();
    let test = format!("helpers::{name}");
    [&program, &test, "--exact", "--ignored", "--nocapture", "--quiet"].map(String::from).into()
}

/// What a helper printed after this word.
pub(crate) fn said<'a>(output: &'a str, word: &str) -> &'a str {
    output
        .lines()
        .find_map(|line| line.strip_prefix(word))
        .unwrap_or_else(|| panic!("no {word} in {output}"))
        .trim()
}

fn peer() -> Ipv4Addr {
    env::var("RDT_PEER").unwrap().parse().unwrap()
}

/// Three pings of the far end: prints the shortest round-trip time in microseconds.
#[test]
#[ignore = "a program for other tests"]
fn ping() {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4)).unwrap();
    socket.connect(&SocketAddr::from((peer(), 0)).into()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut round_trips = Vec::new();
    for number in 0..3 {
        let begin = clock::now();
        // Type 8 is an echo request; the kernel fills in identifier and checksum.
        socket.send(&[8, 0, 0, 0, 0, 0, 0, number]).unwrap();
        let read = (&socket).read(&mut [0; 64]).unwrap();
        assert_eq!(read, 8);
        round_trips.push(clock::now() - begin);
    }
    println!("\nrtt_us {}", round_trips.iter().min().unwrap().as_micros());
    println!("peer {}", peer());
}

/// Three datagrams to a port of the far end that may be closed.
#[test]
#[ignore = "a program for other tests"]
fn send() {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    for number in 0..3 {
        socket.send_to(&[number], (peer(), 9)).unwrap();
    }
}

/// Sends back one datagram.
#[test]
#[ignore = "a program for other tests"]
fn echo() {
    let socket = UdpSocket::bind((env::var("RDT_LOCAL").unwrap(), 4242)).unwrap();
    let mut bytes = [0; 64];
    let (read, from) = socket.recv_from(&mut bytes).unwrap();
    socket.send_to(&bytes[..read], from).unwrap();
    // The answer leaves through the network that ends with this program, so this program stays.
    let _ = socket.recv_from(&mut bytes);
}

/// Asks for it.
#[test]
#[ignore = "a program for other tests"]
fn ask() {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((peer(), 4242)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.send(b"hello").unwrap();
    let mut bytes = [0; 64];
    let read = socket.recv(&mut bytes).unwrap();
    println!("\necho {}", std::str::from_utf8(&bytes[..read]).unwrap());
}

/// How many datagrams [`send_numbered`] sends.
pub(crate) const NUMBERED: u32 = 10_000;
/// How long their IP packets are, bytes.
pub(crate) const NUMBERED_BYTES: usize = 20 + 8 + 100;

/// Sends them: datagrams that end with their number, three times, so slowly that the way to the path loses none.
pub(crate) fn send_numbers(socket: &UdpSocket, to: impl ToSocketAddrs + Copy) {
    let mut bytes = [0; NUMBERED_BYTES - 28];
    for number in 0..NUMBERED {
        let copies = [number.to_be_bytes(); 3].concat();
        bytes[NUMBERED_BYTES - 28 - 12..].copy_from_slice(&copies);
        socket.send_to(&bytes, to).unwrap();
        if number % 20 == 19 {
            #[expect(clippy::disallowed_methods, reason = "the relay is another process")]
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
#[ignore = "a program for other tests"]
fn send_numbered() {
    send_numbers(&UdpSocket::bind("0.0.0.0:0").unwrap(), (peer(), 9));
    // What is on the way when this program ends is not delivered.
    #[expect(clippy::disallowed_methods, reason = "the relay is another process")]
    std::thread::sleep(Duration::from_millis(500));
}
