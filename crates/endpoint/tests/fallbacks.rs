//! Transfers between real sockets during which the kernel stops supporting a send call. The
//! transfer completes with the next send call of the list, and the socket reports the failed call.

#![cfg(all(target_os = "linux", not(feature = "portable")))]

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdt_crypto::{Entropy, PublicKey, StaticKey};
use rdt_endpoint::thread::{Application, Flow, run, send_memory};
use rdt_endpoint::truesize::socket_buffer;
use rdt_transport::{
    AckPolicy, ClassicConfig, Connection, ConnectionConfig, ConnectionEvent, ConnectionSet,
    ConnectionSetConfig, Endpoint, InitiatorConfig, LinkProperties, ReceiverConfig, ReceiverEvent,
    ResponderConfig, Sender, SenderConfig, SenderEvent, Spare,
};
use rdt_udp::{Connected, Offload, Remote, SendCall, UdpIo, UdpOptions, UdpStats, Waiter};

/// Size of a transfer, bytes, and its CRC-32 (docs/CLASSIC.md, section 1).
const BYTES: u64 = 4 << 20;
const CRC: u32 = 0x05B0_360D;
/// Bytes acknowledged when the send call stops working.
const BEFORE: u64 = BYTES / 4;

/// Send call that stops working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Segmentation offload: the kernel does not segment for a socket without checksums.
    Offload,
    /// A system call of the sending thread, which fails with this error number from then on.
    Call(libc::c_long, i32),
}

const NO_SENDFILE: Loss = Loss::Call(libc::SYS_sendfile, libc::EPERM);
const NO_SENDMMSG: Loss = Loss::Call(libc::SYS_sendmmsg, libc::ENOSYS);

impl Loss {
    fn strike(self, socket: &UdpSocket) {
        match self {
            Self::Offload => compute_no_checksums(socket),
            Self::Call(number, error) => refuse(number, error),
        }
    }
}

/// Stream of one of the formats.
trait Stream {
    fn acked(&self) -> u64;
    fn room(&mut self) -> Spare<'_>;
    fn advance(&mut self, n: usize);
    fn finish(&mut self);
}

impl Stream for Sender {
    fn acked(&self) -> u64 {
        self.stats().bytes_acked
    }

    fn room(&mut self) -> Spare<'_> {
        self.spare().unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        self.advance(n);
    }

    fn finish(&mut self) {
        self.finish().expect("it is open");
    }
}

impl Stream for Connection {
    fn acked(&self) -> u64 {
        self.stats().sender.bytes_acked
    }

    fn room(&mut self) -> Spare<'_> {
        self.spare().expect("it is open")
    }

    fn advance(&mut self, n: usize) {
        self.advance(n);
    }

    fn finish(&mut self) {
        self.finish();
    }
}

/// Application that sends the DWORD array, and disables send calls in the middle.
struct Sending {
    socket: Arc<UdpSocket>,
    losses: Vec<Loss>,
    written: u64,
    is_finished: bool,
    is_delivered: bool,
    until: Instant,
}

impl Sending {
    fn fill(&mut self, stream: &mut impl Stream) {
        if stream.acked() >= BEFORE {
            self.losses.drain(..).for_each(|loss| loss.strike(&self.socket));
        }
        // Half of the data is withheld until the change.
        let limit = if self.losses.is_empty() { BYTES } else { BYTES / 2 };
        while self.written < limit {
            let room = stream.room();
            if room.is_empty() {
                return;
            }
            let begin = self.written;
            for byte in room.flatten().take(usize::try_from(limit - begin).expect("4 MiB")) {
                *byte = byte_at(self.written);
                self.written += 1;
            }
            stream.advance(usize::try_from(self.written - begin).expect("4 MiB"));
        }
        if self.written == BYTES && !std::mem::replace(&mut self.is_finished, true) {
            stream.finish();
        }
    }
}

impl Application<Sender> for Sending {
    fn pump(&mut self, now: Instant, sender: &mut Sender) -> Flow {
        assert!(now < self.until, "it does not end: {:?}", sender.stats());
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { crc } => {
                    assert_eq!(crc, CRC, "as the receiver computed it");
                    self.is_delivered = true;
                    return Flow::Done;
                }
                SenderEvent::Failed { error, .. } => panic!("{error}"),
            }
        }
        self.fill(sender);
        Flow::Wait(Some(self.until))
    }
}

impl Application<ConnectionSet<()>> for Sending {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<()>) -> Flow {
        assert!(now < self.until, "it does not end");
        let mut writable = None;
        while let Some((id, event)) = set.poll_event() {
            match event {
                ConnectionEvent::Delivered { .. } => {
                    self.is_delivered = true;
                    return Flow::Done;
                }
                ConnectionEvent::Closed(closed) => panic!("{closed}"),
                _ => writable = Some(id),
            }
        }
        if let Some(id) = writable {
            set.with(now, id, |connection| self.fill(connection));
        }
        Flow::Wait(Some(self.until))
    }
}

/// Returns a byte of the array of 32-bit numbers (docs/CLASSIC.md, section 1).
fn byte_at(offset: u64) -> u8 {
    u32::try_from(offset / 4).expect("4 MiB").to_le_bytes()[usize::try_from(offset % 4).expect("below 4")]
}

/// Application that receives one transfer, and compares it.
struct Receiving {
    bytes: u64,
}

impl Application<ConnectionSet<Remote>> for Receiving {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<Remote>) -> Flow {
        let mut is_finished = false;
        while let Some((peer, event)) = set.poll_classic_event() {
            match event {
                ReceiverEvent::Finished { crc, bytes, .. } => {
                    assert_eq!(crc, CRC);
                    self.bytes = bytes;
                    set.confirm_classic(peer);
                    is_finished = true;
                }
                ReceiverEvent::Closed { unfinished } => assert!(!unfinished, "the sender failed"),
                _ => {}
            }
        }
        while let Some((id, event)) = set.poll_event() {
            is_finished |= matches!(event, ConnectionEvent::Finished { .. });
            set.with(now, id, |connection| {
                while let length @ 1.. = connection.data().len() {
                    let is_equal =
                        connection.data().iter().zip(self.bytes..).all(|(a, at)| *a == byte_at(at));
                    assert!(is_equal, "what was sent");
                    connection.consume(length);
                    self.bytes += length as u64;
                }
            });
        }
        // The last turn sends the FIN-ACK.
        if is_finished { Flow::Done } else { Flow::Wait(None) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Classic,
    Native,
}

const FORMATS: [Format; 2] = [Format::Classic, Format::Native];

/// Receives a transfer of either format.
fn receive(mut far: UdpIo, identity: Arc<StaticKey>) {
    let mut waiter = Waiter::new(far.socket(), Duration::ZERO).expect("a poller");
    let receiver = ReceiverConfig { ack: AckPolicy::Batch, ..ReceiverConfig::reference() };
    let limits = ConnectionSetConfig {
        classic: Some(ClassicConfig::new(receiver)),
        socket_buffer: Some(socket_buffer(far.stats().receive_buffer)),
        ..ConnectionSetConfig::default()
    };
    let mut set = ConnectionSet::new(limits, Entropy::from_seed([1; 32]));
    set.listen(ResponderConfig::open(identity));
    let mut receiving = Receiving { bytes: 0 };
    run(&mut set, &mut far, &mut receiving, &mut waiter).expect("it reads");
    assert_eq!(receiving.bytes, BYTES);
}

fn send(format: Format, mut io: Connected, losses: &[Loss], key: PublicKey) -> Connected {
    let until = rdt_udp::clock::now() + Duration::from_secs(60);
    let socket = io.io().socket();
    let mut waiter = Waiter::new(io.io().socket(), Duration::ZERO).expect("a poller");
    let memory = send_memory(&mut io);
    let losses = losses.to_vec();
    let mut sending = Sending { socket, losses, written: 0, is_finished: false, is_delivered: false, until };
    let ended = match format {
        Format::Classic => {
            let link = LinkProperties {
                rtt_s: 0.0,
                speed_bps: 1e9,
                loss_forward: 0.0,
                loss_reverse: 0.0,
                buffer: 100,
            };
            let mut sender = Sender::with_memory(SenderConfig::new(512, link), memory).expect("a valid one");
            sender.open().expect("it is new");
            run(&mut sender, &mut io, &mut sending, &mut waiter)
        }
        Format::Native => {
            let (limits, entropy) = (ConnectionSetConfig::default(), Entropy::from_seed([2; 32]));
            let mut set = ConnectionSet::with_memory(limits, entropy, memory);
            let initiator = InitiatorConfig { remote: Some(key), ..InitiatorConfig::default() };
            let config = ConnectionConfig { one_way: true, ..ConnectionConfig::default() };
            set.connect(rdt_udp::clock::now(), (), initiator, config).expect("a valid configuration");
            run(&mut set, &mut io, &mut sending, &mut waiter)
        }
    };
    ended.expect("it sends");
    assert!(sending.is_delivered);
    io
}

/// Runs a transfer between two threads. Returns the offloads of the sender before and after, and
/// its counters.
fn transfer(format: Format, gso: bool, losses: &[Loss]) -> (Offload, Offload, UdpStats) {
    let options = UdpOptions { gso, by_reference: true, ..UdpOptions::default() };
    let bind = move || UdpIo::bind(([127, 0, 0, 1], 0).into(), options).expect("loopback has ports");
    let far = bind();
    let to = far.local_addr().expect("a bound socket has an address");
    let identity = Arc::new(StaticKey::from_bytes([7; 32]));
    let key = identity.public();
    thread::scope(|scope| {
        let receiving = scope.spawn(move || receive(far, identity));
        // A system call filter belongs to the thread and cannot be removed.
        let sending = scope.spawn(move || {
            let io = Connected::new(bind(), to);
            let before = io.io().offload();
            let io = send(format, io, losses, key);
            (before, io.io().offload(), io.io().stats())
        });
        receiving.join().expect("the receiver ends");
        sending.join().expect("the sender ends")
    })
}

#[test]
fn without_sending_by_reference_batches_are_copied() {
    for format in FORMATS {
        let (before, after, stats) = transfer(format, true, &[NO_SENDFILE]);
        if before.by_reference {
            assert!(stats.sent_by_reference > 0 && !after.by_reference, "{after:?}");
        }
        assert_eq!((after.send_call, after.given_up), (before.send_call, before.given_up));
        assert_eq!(stats.lost_other, 0);
    }
}

#[test]
fn without_offload_many_leave_in_one_call() {
    for format in FORMATS {
        let (before, after, stats) = transfer(format, true, &[Loss::Offload]);
        if before.send_call != SendCall::Gso {
            return rdt_testing::skipped("this system has no segmentation offload");
        }
        assert_eq!((after.send_call, after.by_reference), (SendCall::Sendmmsg, false));
        assert!(after.given_up.gso.is_some() && after.given_up.sendmmsg.is_none(), "{after:?}");
        assert_eq!(stats.lost_other, 0);
    }
}

#[test]
fn without_sendmmsg_either_datagrams_leave_one_by_one() {
    for (gso, losses) in [(false, &[NO_SENDMMSG][..]), (true, &[Loss::Offload, NO_SENDMMSG])] {
        for format in FORMATS {
            let (before, after, stats) = transfer(format, gso, losses);
            assert_ne!(before.send_call, SendCall::Single);
            assert_eq!((after.send_call, after.send_segments), (SendCall::Single, 1));
            assert_eq!(after.given_up.gso.is_some(), before.send_call == SendCall::Gso, "{after:?}");
            assert_eq!(after.given_up.sendmmsg, Some(libc::ENOSYS));
            assert_eq!(stats.lost_other, 0);
        }
    }
}

#[expect(unsafe_code, reason = "SO_NO_CHECK has no safe wrapper")]
fn compute_no_checksums(socket: &UdpSocket) {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).expect("four bytes");
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads `length`
    // bytes of `on`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const on).cast(),
            length,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Makes system call `number` fail with `error` in this thread from now on, by a seccomp filter as
/// sandboxes use them.
#[expect(unsafe_code, reason = "filters of system calls have no safe wrapper")]
fn refuse(number: libc::c_long, error: i32) {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step =
        |code: u32, jf, k| libc::sock_filter { code: u16::try_from(code).expect("a code"), jt: 0, jf, k };
    let mut steps = [
        // The number of the system call is the first field of the filter's input.
        step(LOAD, 0, 0),
        step(JUMP_IF_EQUAL, 1, u32::try_from(number).expect("a call")),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | error.cast_unsigned()),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
    // SAFETY: both calls concern this thread alone; the program and its steps outlive the second,
    // which copies them.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}
