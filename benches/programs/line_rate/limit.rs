//! Largest rate of the loopback interface: datagrams with at most [`CREDIT`] bytes in flight and no
//! reliability, over [plain sockets](super::plain), by the fastest methods known. Each side is a
//! process that runs this bench again.
//!
//! Checksums are computed over pieces as long as possible, before a copy, because pieces below 2
//! KiB and freshly written bytes are slower.

use std::env;
use std::net::SocketAddr;
use std::process::Command;

use libdeflater::Crc;
use rdt_sim::payload;
use rdt_udp::clock;
use serde_json::{Value, json};

use crate::common::{Program, number};
use crate::plain::{LARGEST, Plain, SEGMENTS};
use crate::zerocopy::{SLABS, ZeroCopy};

/// Limit on bytes in flight, and bytes between two acknowledgements.
const CREDIT: u64 = 1 << 20;
const ACK_EVERY: u64 = CREDIT / 4;
/// Bytes before the payload of each datagram with [`Work::Format`].
const HEADER: usize = 8;
/// Size of the source, which is sent in a cycle, bytes.
const SOURCE: usize = 256 << 10;

/// Work per byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// None: the same bytes are sent each time, and received bytes are not read.
    Bare,
    /// CRC-32 of every byte in place on each side; only the kernel copies. The minimum for a
    /// receiver that checks data without storing it, as `rdt-recv` without `--output`.
    Checksum,
    /// CRC-32 and one copy of every byte on each side, in addition to the kernel's two copies.
    Copy,
    /// CRC-32 on each side; the sender writes into zero-copy memory, the receiver computes in
    /// place.
    Reference,
    /// Like `Reference`, with the headers of the classic format. The CRC-32 excludes the headers,
    /// so the receiver computes it over one payload at a time.
    Format,
}

/// Roles of the child processes, given as the first argument.
const ROLES: [&str; 2] = ["limit-receiver", "limit-sender"];
const WORKS: [Work; 5] = [Work::Bare, Work::Checksum, Work::Copy, Work::Reference, Work::Format];

pub(crate) struct Outcome {
    /// Rate of whole datagrams, Gbit/s.
    pub(crate) gbps: f64,
    /// Processor time of both sides, seconds per GB.
    pub(crate) cpu_per_gb: f64,
}

/// Runs this process in its role, if it is a child process of [`measure`]; else returns false.
pub(crate) fn play() -> bool {
    let args: Vec<String> = env::args().collect();
    let Some(at) = args.iter().position(|arg| ROLES.contains(&arg.as_str())) else { return false };
    let blast = Blast::parse(&args[at + 1..]);
    println!("{}", if args[at] == ROLES[0] { blast.receive() } else { blast.send() });
    true
}

/// Measures a transfer of `bytes`, rounded up to whole datagrams of `size`.
pub(crate) fn measure(work: Work, size: usize, offload: bool, bytes: u64) -> Outcome {
    let myself = env::current_exe().expect("a running program has a path");
    let start = |role: &str, peer: &str| {
        let mut command = Command::new(&myself);
        let work = WORKS.iter().position(|known| *known == work).expect("all are listed");
        command.args([role, peer, &size.to_string(), &bytes.to_string()]);
        command.args([u8::from(offload).to_string(), work.to_string()]);
        Program::start(command)
    };
    let mut receiver = start(ROLES[0], "127.0.0.1:0");
    let address = receiver.line()["address"].as_str().expect("the first line has the address").to_string();
    let sent = start(ROLES[1], &address).last_line();
    let received = receiver.last_line();
    assert!(sent["crc"].is_u64() && sent["crc"] == received["crc"], "what was sent arrived");
    Outcome {
        gbps: number(&received, "gbps"),
        cpu_per_gb: (number(&sent, "cpu_s") + number(&received, "cpu_s")) / number(&received, "gb"),
    }
}

/// Parameters of one side. The sender sends datagrams; the receiver replies with byte counts of
/// eight bytes.
struct Blast {
    peer: SocketAddr,
    size: usize,
    bytes: u64,
    offload: bool,
    work: Work,
}

impl Blast {
    fn parse(args: &[String]) -> Self {
        let number = |i: usize| args[i].parse::<u64>().expect("the bench passes numbers");
        let index = |i: usize| usize::try_from(number(i)).expect("a small number");
        let size = index(1);
        Self {
            peer: args[0].parse().expect("the bench passes an address"),
            size,
            bytes: number(2).next_multiple_of(size as u64),
            offload: number(3) == 1,
            work: WORKS[index(4)],
        }
    }

    fn socket(&self, address: SocketAddr) -> Plain {
        Plain::bind(address, self.size, self.offload)
    }

    /// Returns the bytes of one call: whole datagrams.
    fn batch(&self) -> usize {
        let datagrams = if self.offload { (LARGEST / self.size).min(SEGMENTS) } else { SEGMENTS };
        datagrams.max(1) * self.size
    }

    fn send(&self) -> Value {
        let mut socket = self.socket(([127, 0, 0, 1], 0).into());
        socket.connect(self.peer);
        let most = self.batch();
        let mut source = vec![0; SOURCE + most];
        payload::fill(0, &mut source);
        let mut out = Out::new(self.work, most, self.size);
        let (mut sent, mut acked, mut crc) = (0, 0, Crc::new());
        while acked < self.bytes {
            let batch = most.min(usize::try_from(self.bytes - sent).unwrap_or(most));
            if batch == 0 || sent + batch as u64 - acked > CREDIT {
                acked = newest_count(&socket, acked);
                continue;
            }
            let at = usize::try_from(sent % SOURCE as u64).expect("an index");
            let headers = if self.work == Work::Format { batch / self.size * HEADER } else { 0 };
            let bytes = &source[at..at + batch - headers];
            if self.work != Work::Bare {
                crc.update(bytes);
            }
            out.send(&mut socket, bytes, batch);
            sent += batch as u64;
        }
        json!({ "cpu_s": cpu(), "crc": crc.sum() })
    }

    fn receive(&self) -> Value {
        let mut socket = self.socket(self.peer);
        println!("{}", json!({ "address": socket.local_addr().to_string() }));
        let mut message = vec![0; self.batch().max(LARGEST)];
        let mut kept = vec![0_u8; SOURCE + message.len()];
        let (mut got, mut told, mut crc) = (0, 0, Crc::new());
        socket.accept();
        let start = clock::now();
        while got < self.bytes {
            let n = socket.receive_many(&mut message);
            match self.work {
                Work::Bare => {}
                Work::Copy => {
                    crc.update(&message[..n]);
                    let at = usize::try_from(got % SOURCE as u64).expect("an index");
                    kept[at..at + n].copy_from_slice(&message[..n]);
                }
                Work::Checksum | Work::Reference => crc.update(&message[..n]),
                Work::Format => message[..n].chunks(self.size).for_each(|d| crc.update(&d[HEADER..])),
            }
            got += n as u64;
            if got - told >= ACK_EVERY || got >= self.bytes {
                socket.send(&got.to_le_bytes());
                told = got;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is printed to two decimals")]
        let gb = got as f64 / 1e9;
        json!({ "gbps": gb * 8.0 / seconds, "gb": gb, "cpu_s": cpu(), "crc": crc.sum() })
    }
}

/// Memory from which datagrams are sent.
enum Out {
    /// The source itself.
    Source,
    /// A buffer to which the bytes are copied.
    Copy(Vec<u8>),
    /// Zero-copy slabs, used in turn.
    Reference(Slabs),
}

/// Zero-copy slabs, used in turn. Their number is such that a slab is reused after [`CREDIT`]
/// bytes.
struct Slabs {
    memory: ZeroCopy,
    count: usize,
    next: usize,
    /// Payload after each header, bytes; `None` without headers.
    payload: Option<usize>,
}

impl Out {
    /// Prepares batches of up to `most` bytes in datagrams of `size`.
    fn new(work: Work, most: usize, size: usize) -> Self {
        match work {
            Work::Bare | Work::Checksum => Self::Source,
            Work::Copy => Self::Copy(vec![0; most]),
            Work::Reference | Work::Format => {
                let count = usize::try_from(CREDIT).expect("a megabyte").div_ceil(most);
                assert!(count <= SLABS, "batches of {most} bytes are too small to lend");
                let memory = ZeroCopy::new().expect("the kernel sends files");
                let payload = (work == Work::Format).then_some(size - HEADER);
                Self::Reference(Slabs { memory, count, next: 0, payload })
            }
        }
    }

    /// Sends `bytes`, which with headers are `len` bytes.
    fn send(&mut self, socket: &mut Plain, bytes: &[u8], len: usize) {
        match self {
            Self::Source => socket.send(bytes),
            Self::Copy(own) => {
                own[..len].copy_from_slice(bytes);
                socket.send(&own[..len]);
            }
            Self::Reference(slabs) => {
                slabs.write(bytes);
                slabs.memory.send(socket, slabs.next, len);
                slabs.next = (slabs.next + 1) % slabs.count;
            }
        }
    }
}

impl Slabs {
    fn write(&mut self, bytes: &[u8]) {
        let slab = self.memory.slab(self.next);
        let Some(payload) = self.payload else {
            slab[..bytes.len()].copy_from_slice(bytes);
            return;
        };
        for (number, (datagram, bytes)) in
            slab.chunks_mut(HEADER + payload).zip(bytes.chunks(payload)).enumerate()
        {
            datagram[..HEADER].copy_from_slice(&(number as u64).to_le_bytes());
            datagram[HEADER..][..bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// Waits for a byte count from the receiver, and returns the newest that has arrived.
fn newest_count(socket: &Plain, before: u64) -> u64 {
    let mut count = [0; 8];
    socket.receive(&mut count);
    let mut newest = before.max(u64::from_le_bytes(count));
    while socket.try_receive(&mut count).is_some() {
        newest = newest.max(u64::from_le_bytes(count));
    }
    newest
}

/// Returns the processor time of this process, seconds.
fn cpu() -> f64 {
    rdt_cli::processor_time().map_or(f64::NAN, |time| time.as_secs_f64())
}
