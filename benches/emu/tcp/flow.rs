//! Flows of kernel TCP over the path of `rdt-emu run`: sender, server that counts bytes, and
//! `TCP_INFO` of each connection. Used by the bench and the tests.

use std::env;
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use rdt_udp::clock;
use socket2::{Domain, Socket, Type};

/// Environment variable with the parameters of both ends ([`Wish`]).
pub(crate) const VARIABLE: &str = "RDT_TCP";
/// TCP port of the counting server.
const PORT: u16 = 5001;
const CHUNK: usize = 64 << 10;
/// Limit on the attempts to connect to the server, which may not listen yet, and their interval.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);

/// Parameters of both ends. The text form has the congestion control, then the numbers in the order
/// of the fields.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// Kernel name of the congestion control.
    pub(crate) congestion: String,
    /// Duration of sending, milliseconds.
    pub(crate) millis: u64,
    pub(crate) flows: usize,
    /// Size of both socket buffers, as with `iperf3 -w`, bytes; 0 for the kernel's default. The
    /// kernel advertises about this size as its window, because it reserves twice the size for its
    /// per-segment overhead.
    pub(crate) window: usize,
    /// 1 if selective acknowledgements (RFC 2018) are allowed, else 0.
    pub(crate) sack: u8,
    /// Time at the start that is not measured, milliseconds.
    pub(crate) omit: u64,
    /// Kernel's `tcp_recovery`: 1 for RACK, 0 for duplicate-ACK counts.
    pub(crate) recovery: u8,
}

impl Wish {
    /// Returns the parameters of one flow for `millis` milliseconds, with the kernel's defaults.
    pub(crate) fn new(congestion: &str, millis: u64) -> Self {
        Self { congestion: congestion.to_owned(), millis, flows: 1, window: 0, sack: 1, omit: 0, recovery: 1 }
    }

    pub(crate) fn asked() -> Self {
        env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).expect("a wish")
    }

    /// Sets `tcp_sack` and `tcp_recovery` in the network namespace of this end.
    fn set_rules(&self) {
        for (name, value) in [("tcp_sack", self.sack), ("tcp_recovery", self.recovery)] {
            fs::write(format!("/proc/sys/net/ipv4/{name}"), value.to_string()).expect("a network of its own");
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { congestion, millis, flows, window, sack, omit, recovery } = self;
        write!(f, "{congestion} {millis} {flows} {window} {sack} {omit} {recovery}")
    }
}

impl FromStr for Wish {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<_> = text.split(' ').collect();
        let [congestion, millis, flows, window, sack, omit, recovery] = words[..] else { return Err(()) };
        Ok(Self {
            congestion: congestion.to_owned(),
            millis: number(millis)?,
            flows: number(flows)?,
            window: number(window)?,
            sack: number(sack)?,
            omit: number(omit)?,
            recovery: number(recovery)?,
        })
    }
}

/// Result of one flow. The text form has the numbers in the order of the fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    /// Payload rate at the server, from accept to the last byte, bits per second.
    pub(crate) bps: f64,
    /// Time in which the sender had data to send, microseconds. Then the parts of that time limited
    /// by the receive window, and by the send buffer.
    pub(crate) busy_us: u64,
    pub(crate) window_us: u64,
    pub(crate) buffer_us: u64,
    /// 1 if both ends agreed on selective acknowledgements, else 0.
    pub(crate) sack: u8,
}

impl Flow {
    pub(crate) fn all(output: &str) -> Vec<Self> {
        let flows = output.lines().filter_map(|line| line.strip_prefix("flow ")?.parse().ok());
        flows.collect()
    }

    fn of(stream: &TcpStream, bytes: u64, micros: u64) -> Self {
        let info = TcpInfo::of(stream);
        // `TCPI_OPT_SACK` of linux/tcp.h.
        let sack = u8::from(info.head[5] & 2 != 0);
        let [busy_us, window_us, buffer_us] = info.limits;
        #[expect(clippy::cast_precision_loss, reason = "a few seconds, a few gigabytes")]
        let bps = bytes as f64 * 8e6 / micros as f64;
        Self { bps, busy_us, window_us, buffer_us, sack }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bps, busy_us, window_us, buffer_us, sack } = self;
        write!(f, "{bps} {busy_us} {window_us} {buffer_us} {sack}")
    }
}

impl FromStr for Flow {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<_> = text.split(' ').collect();
        let [bps, busy, window, buffer, sack] = words[..] else { return Err(()) };
        Ok(Self {
            bps: number(bps)?,
            busy_us: number(busy)?,
            window_us: number(window)?,
            buffer_us: number(buffer)?,
            sack: number(sack)?,
        })
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, ()> {
    text.parse().map_err(|_| ())
}

/// First part of `struct tcp_info` of linux/tcp.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct TcpInfo {
    /// Eight one-byte fields, of which byte 5 has the options.
    head: [u8; 8],
    /// Forty 32-bit words up to the delivery rate; some pairs of words are 64-bit values.
    words: [[u32; 20]; 2],
    /// `tcpi_busy_time`, `tcpi_rwnd_limited`, `tcpi_sndbuf_limited`, microseconds.
    limits: [u64; 3],
}

impl TcpInfo {
    #[expect(unsafe_code, reason = "no crate in use here wraps this option")]
    fn of(stream: &TcpStream) -> Self {
        let mut info = Self::default();
        let size = libc::socklen_t::try_from(size_of::<Self>()).expect("few");
        let mut len = size;
        // SAFETY: the socket is open, and the kernel writes at most `len` bytes to `info`, which
        // consists of integers and has that length.
        let result = unsafe {
            let place = (&raw mut info).cast();
            libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut len)
        };
        assert!(result == 0 && len == size, "what the kernel knows of it: {result}, {len} bytes");
        info
    }
}

fn address(name: &str) -> IpAddr {
    env::var(name).ok().and_then(|text| text.parse().ok()).expect("an address, as in a run")
}

/// Counts the bytes of each connection, and sends them with the elapsed microseconds back at its
/// end. Never returns.
pub(crate) fn count() {
    let wish = Wish::asked();
    wish.set_rules();
    let listener = socket(&wish);
    listener.bind(&SocketAddr::new(address("RDT_LOCAL"), PORT).into()).expect("a port that is free");
    listener.listen(16).expect("a socket that listens");
    loop {
        let (connection, _) = listener.accept().expect("a connection");
        let wish = wish.clone();
        thread::spawn(move || count_one(&wish, &connection.into()));
    }
}

fn count_one(wish: &Wish, mut stream: &TcpStream) {
    let (mut begin, mut bytes, mut chunk) = (clock::now(), 0_u64, vec![0; CHUNK]);
    let mut omit = Some(begin + Duration::from_millis(wish.omit)).filter(|_| wish.omit > 0);
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        bytes += read as u64;
        if omit.is_some_and(|end| clock::now() >= end) {
            (begin, bytes, omit) = (clock::now(), 0, None);
        }
    }
    let micros = u64::try_from((clock::now() - begin).as_micros()).expect("less than a millennium");
    // Fails if the sender has ended.
    let _ = stream.write_all(&[bytes.to_be_bytes(), micros.to_be_bytes()].concat());
}

/// Sends all flows concurrently, and prints the result of each.
pub(crate) fn send() {
    let wish = Wish::asked();
    wish.set_rules();
    let flows: Vec<_> = (0..wish.flows)
        .map(|_| {
            let wish = wish.clone();
            thread::spawn(move || send_one(&wish))
        })
        .collect();
    for flow in flows {
        println!("\nflow {}", flow.join().expect("it sends to the end"));
    }
}

fn send_one(wish: &Wish) -> Flow {
    let mut stream = connected(wish);
    rustix::net::sockopt::set_tcp_congestion(&stream, &wish.congestion).expect("a kernel that has it");
    let (begin, chunk) = (clock::now(), vec![0; CHUNK]);
    while clock::now() - begin < Duration::from_millis(wish.millis) {
        stream.write_all(&chunk).expect("a reader");
    }
    stream.shutdown(Shutdown::Write).expect("an end");
    let mut answer = [[0; 8]; 2];
    for number in &mut answer {
        stream.read_exact(number).expect("what was counted");
    }
    let [bytes, micros] = answer.map(u64::from_be_bytes);
    Flow::of(&stream, bytes, micros)
}

fn connected(wish: &Wish) -> TcpStream {
    let peer = SocketAddr::new(address("RDT_PEER"), PORT).into();
    for _ in 0..TRIES {
        let socket = socket(wish);
        match socket.connect(&peer) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => sleep(PAUSE),
            result => {
                result.expect("a way to the counter");
                return socket.into();
            }
        }
    }
    panic!("no server counts");
}

fn socket(wish: &Wish) -> Socket {
    let socket = Socket::new(Domain::for_address((Ipv4Addr::LOCALHOST, 0).into()), Type::STREAM, None)
        .expect("a socket");
    if wish.window > 0 {
        socket.set_send_buffer_size(wish.window).expect("a send buffer");
        socket.set_recv_buffer_size(wish.window).expect("a receive buffer");
    }
    socket
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn sleep(time: Duration) {
    thread::sleep(time);
}
