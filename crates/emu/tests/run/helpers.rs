//! Programs that the tests start in a run: ignored tests of this test program.

use std::env;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use rdt_udp::clock;
use socket2::{Domain, Protocol, Socket, Type};

/// Returns the command line of a helper in this file.
pub(crate) fn helper(name: &str) -> Vec<String> {
    program(&format!("helpers::{name}"))
}

/// Returns the command line of a helper, by its full test name.
pub(crate) fn program(test: &str) -> Vec<String> {
    let program = env::current_exe().unwrap().into_os_string().into_string().unwrap();
    [&program, test, "--exact", "--ignored", "--nocapture", "--quiet"].map(String::from).into()
}

/// Returns the rest of the helper's output line that begins with `word`.
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

/// Pings the far end three times; prints the shortest RTT in microseconds.
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

/// Sends three datagrams to a port of the far end that may be closed.
#[test]
#[ignore = "a program for other tests"]
fn send() {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    for number in 0..3 {
        socket.send_to(&[number], (peer(), 9)).unwrap();
    }
}

/// Server that echoes one datagram.
#[test]
#[ignore = "a program for other tests"]
fn echo() {
    let socket = UdpSocket::bind((env::var("RDT_LOCAL").unwrap(), 4242)).unwrap();
    let mut bytes = [0; 64];
    let (read, from) = socket.recv_from(&mut bytes).unwrap();
    socket.send_to(&bytes[..read], from).unwrap();
    // The network is removed with this program, so wait until the reply has departed.
    let _ = socket.recv_from(&mut bytes);
}

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

/// Number of datagrams that [`send_numbers`] sends.
pub(crate) const NUMBERED: u32 = 10_000;

/// Sends datagrams that end with their number, `burst` of them per millisecond.
pub(crate) fn send_numbers(socket: &UdpSocket, to: impl ToSocketAddrs + Copy, burst: u32) {
    let mut bytes = [0; 100];
    for number in 0..NUMBERED {
        bytes[96..].copy_from_slice(&number.to_be_bytes());
        socket.send_to(&bytes, to).unwrap();
        if number % burst == burst - 1 {
            #[expect(clippy::disallowed_methods, reason = "the relay is another process")]
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Looks up a name.
#[test]
#[ignore = "a program for other tests"]
fn look_up() {
    let found = ("server.example", 1).to_socket_addrs().ok().and_then(|mut found| found.next());
    println!("\nfound {found:?}");
}

/// Name server that gives every name one IPv4 address.
#[test]
#[ignore = "a program for other tests"]
fn name_server() {
    answer_names(&UdpSocket::bind((env::var("RDT_LOCAL").unwrap(), 53)).unwrap());
}

/// Answers queries for ever.
pub(crate) fn answer_names(socket: &UdpSocket) {
    let mut query = [0; 512];
    loop {
        let (length, from) = socket.recv_from(&mut query).unwrap();
        // RFC 1035, section 4.1: 12 bytes of header, the name, then type and class.
        let end = 12 + query[12..length].iter().position(|byte| *byte == 0).unwrap() + 5;
        let is_ipv4 = query[end - 4..end - 2] == [0, 1];
        let mut answer = query[..end].to_vec();
        // A response without error, to one question, and with no more than one answer.
        answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0]);
        if is_ipv4 {
            // The name of the question, type A, class IN, 60 s, 4 bytes.
            answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
        }
        socket.send_to(&answer, from).unwrap();
    }
}
