//! Floods of forged packets over real sockets. Each forged sender has an address of its own in
//! 127.0.0.0/8.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rdt_udp::clock;

use super::broken_output::syn;
use super::process::{Program, Receiver, rdt_send};

/// Packets of a flood between two pauses of 10 ms: 5000 a second.
const BURST: usize = 50;
/// Forged senders before the first honest one: more than the receiver has places.
const FORGED: u32 = 6000;
/// Memory that a flood may cost the receiver, bytes.
const MEMORY: u64 = 8 << 20;

/// Sends `packets` from the `n`th forged address.
fn forge(n: u32, to: SocketAddr, packets: &[&[u8]]) {
    let address = Ipv4Addr::from_bits(0x7f01_0001 + n % 0xf0_0000);
    let socket = UdpSocket::bind((address, 0)).expect("all of 127.0.0.0/8 is local");
    for packet in packets {
        socket.send_to(packet, to).expect("the loopback takes it");
    }
}

#[test]
fn classic_syn_flood_leaves_native_opens() {
    let receiver = Receiver::start("");
    let native = || Program::start(&mut rdt_send(&receiver.args("--bytes 5000")));
    native().ended().with_code(0);
    let (before, receiver_address) = (receiver.program.resident_bytes(), receiver.address);
    let (end, ended) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let slowest = thread::scope(|scope| {
        scope.spawn(move || {
            let mut sent = 0..;
            while ended.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Timeout) {
                sent.by_ref().take(BURST).for_each(|n| forge(n, receiver_address, &[&syn()]));
                if sent.start == FORGED {
                    tell.send(()).expect("the test waits for it");
                }
            }
        });
        told.recv().expect("the flood goes on");
        let opens = (0..10).map(|_| {
            let start = clock::now();
            native().ended().with_code(0);
            clock::now() - start
        });
        let slowest = opens.max();
        drop(end);
        slowest
    });
    assert!(slowest.is_some_and(|time| time < Duration::from_secs(5)), "{slowest:?}");
    let after = receiver.program.resident_bytes();
    assert!(after <= before + MEMORY, "{before} bytes of memory became {after}");
    let run = receiver.interrupted();
    assert!(!run.lines().iter().any(|line| line.contains("] 127.1.")), "a line for a forged sender");
}

#[test]
fn pairs_of_spoofed_packets_open_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::keeping(directory.path(), "");
    let threads = || {
        let status = receiver.program.proc("status");
        status.lines().find(|line| line.starts_with("Threads:")).map(str::to_owned)
    };
    let before = threads();
    let data = b"\x00\xaa\x11\x83\x00\x00\x00\x00spoofed";
    for n in 0..1500 {
        forge(n, receiver.address, &[&syn(), data]);
    }
    Program::start(&mut rdt_send(&receiver.args("--bytes 5000"))).ended().with_code(0);
    assert!(before.is_some() && threads() == before, "{before:?} became {:?}", threads());
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let run = receiver.interrupted().with_code(0);
    assert!(!run.lines().iter().any(|line| line.contains("] 127.1.")), "a line for a forged sender");
}

#[test]
fn forged_syn_and_fin_finish_no_transfer() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::keeping(directory.path(), "--once");
    let fin = b"\x80\xaa\x11\x83\x00\x00\x00\x00";
    for n in 0..500 {
        forge(n, receiver.address, &[&syn(), fin]);
    }
    Program::start(&mut rdt_send(&receiver.args("10 0 0 1000 --bytes 0"))).ended().with_code(0);
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 1, "the honest empty transfer");
    let run = receiver.program.ended().with_code(0);
    let finished = run.lines().iter().filter(|line| line.contains("finished: 0 bytes")).count();
    assert_eq!(finished, 1, "{:?}", run.lines());
}

#[test]
fn lines_of_unknown_peers_are_limited_and_counted() {
    let receiver = Receiver::start("--faithful --no-link");
    let start = clock::now();
    for n in 0..500 {
        forge(n, receiver.address, &[&syn()]);
    }
    receiver.program.line("unknown peers left out");
    Program::start(&mut rdt_send(&receiver.args("--bytes 5000"))).ended().with_code(0);
    let run = receiver.interrupted();
    let seconds = (clock::now() - start).as_secs() + 1;
    let lines = run.lines();
    let printed = lines.iter().filter(|line| line.contains(" connected;")).count() as u64;
    assert!(printed <= 20 + 10 * seconds, "{printed} lines in {seconds} s");
    let counts = |end: &str| {
        let words = lines.iter().filter_map(|line| line.split_once(end)?.0.rsplit(' ').next());
        words.map(|word| word.parse::<u64>().expect("a number")).sum::<u64>()
    };
    let senders = counts(" senders, ");
    assert!(senders > 400, "{senders}");
    assert_eq!(printed + counts(" lines of unknown peers left out"), senders);
    assert!(lines.iter().any(|line| line.contains("finished: 5000 bytes")), "a known peer has its line");
}
