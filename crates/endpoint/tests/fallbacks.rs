//! Transfers between real sockets during which the kernel stops supporting a send call. The
//! transfer completes with the next send call of the list, and the socket reports the failed call.

#![cfg(all(target_os = "linux", not(feature = "portable")))]

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::mpsc::{Sender as Told, channel};
use std::thread;
use std::time::{Duration, Instant};

use rdt_crypto::{Entropy, StaticKey};
use rdt_endpoint::thread::{Application, Flow, run, send_memory};
use rdt_endpoint::truesize::socket_buffer;
use rdt_server::{LinkMode, SenderId, Server, ServerConfig};
use rdt_transport::{
    AckPolicy, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig, Endpoint,
    InitiatorConfig, LinkProperties, ReceiverConfig, ReceiverEvent, ResponderConfig, Sender, SenderConfig,
    SenderEvent, Wire,
};
use rdt_udp::{Connected, Offload, Remote, SendCall, UdpIo, UdpOptions, UdpStats, Waiter};

/// Size of a transfer, bytes.
const BYTES: u64 = 4 << 20;
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

/// Application that sends the DWORD array, and disables send calls in the middle.
struct Sending {
    socket: Arc<UdpSocket>,
    losses: Vec<Loss>,
    written: u64,
    is_finished: bool,
    /// Connection (native), once its handshake is complete.
    connection: Option<ConnectionId>,
    until: Instant,
}

impl Sending {
    /// Disables the send calls if enough is acknowledged. Returns the number of bytes to be written
    /// by now: half of them are withheld until the change.
    fn limit(&mut self, acknowledged: u64) -> u64 {
        if acknowledged >= BEFORE {
            self.losses.drain(..).for_each(|loss| loss.strike(&self.socket));
        }
        if self.losses.is_empty() { BYTES } else { BYTES / 2 }
    }

    /// Writes up to byte `limit`. Returns the number of bytes.
    fn fill<'a>(&mut self, limit: u64, spare: impl Iterator<Item = &'a mut [u8]>) -> usize {
        let left = usize::try_from(limit - self.written).expect("4 MiB");
        let mut written = 0;
        for (byte, offset) in spare.flatten().take(left).zip(self.written..) {
            *byte = byte_at(offset);
            written += 1;
        }
        self.written += written as u64;
        written
    }

    /// True once, when all is written.
    fn is_end(&mut self) -> bool {
        self.written == BYTES && !std::mem::replace(&mut self.is_finished, true)
    }
}

impl Application<Sender> for Sending {
    fn pump(&mut self, now: Instant, sender: &mut Sender) -> Flow {
        assert!(now < self.until, "it does not end: {:?}", sender.stats());
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { .. } => return Flow::Done,
                SenderEvent::Failed { error, .. } => panic!("{error}"),
            }
        }
        let limit = self.limit(sender.stats().bytes_acked);
        while let n @ 1.. = self.fill(limit, sender.spare().expect("it is open")) {
            sender.advance(n);
        }
        if self.is_end() {
            sender.finish().expect("it is open");
        }
        Flow::Wait(Some(self.until))
    }
}

impl Application<ConnectionSet<()>> for Sending {
    fn pump(&mut self, now: Instant, set: &mut ConnectionSet<()>) -> Flow {
        assert!(now < self.until, "it does not end: {:?}", set.stats());
        while let Some((id, event)) = set.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } => self.connection = Some(id),
                ConnectionEvent::Delivered { .. } => return Flow::Done,
                ConnectionEvent::Closed(closed) => panic!("{closed}"),
                _ => {}
            }
        }
        let Some(id) = self.connection else { return Flow::Wait(Some(self.until)) };
        set.with(now, id, |connection| {
            let limit = self.limit(connection.stats().sender.bytes_acked);
            while let n @ 1.. = self.fill(limit, connection.spare().expect("it is open")) {
                connection.advance(n);
            }
            if self.is_end() {
                connection.finish();
            }
        });
        Flow::Wait(Some(self.until))
    }
}

/// Returns a byte of the array of 32-bit numbers (docs/PROTOCOL.md, section 1).
fn byte_at(offset: u64) -> u8 {
    u32::try_from(offset / 4).expect("4 MiB").to_le_bytes()[usize::try_from(offset % 4).expect("below 4")]
}

/// Application that compares each byte with the array, confirms the transfer and reports its size.
struct Receiving {
    read: u64,
    told: Told<u64>,
}

impl Receiving {
    fn read(&mut self, now: Instant, server: &mut Server<Remote>, sender: SenderId<Remote>) {
        while let data @ [_, ..] = server.data(sender).expect("it keeps the payload") {
            assert!(data.iter().zip(self.read..).all(|(byte, offset)| *byte == byte_at(offset)));
            let n = data.len();
            server.consume(now, sender, n);
            self.read += n as u64;
        }
    }
}

impl Application<Server<Remote>> for Receiving {
    fn pump(&mut self, now: Instant, server: &mut Server<Remote>) -> Flow {
        while let Some((sender, event)) = server.poll_event() {
            match event {
                ReceiverEvent::Readable => self.read(now, server, sender),
                ReceiverEvent::Finished { .. } => {
                    self.read(now, server, sender);
                    server.confirm(now, sender);
                    self.told.send(self.read).expect("the test waits for it");
                    // The last turn sends the FIN-ACK.
                    return Flow::Done;
                }
                ReceiverEvent::Closed { unfinished } => assert!(!unfinished, "the sender failed"),
                _ => {}
            }
        }
        Flow::Wait(None)
    }
}

/// Returns a server of both formats with this key.
fn server(identity: Arc<StaticKey>, far: &UdpIo) -> Server<Remote> {
    let receiver =
        ReceiverConfig { ack: AckPolicy::Batch, keep_payload: true, ..ReceiverConfig::reference() };
    let mut config = ServerConfig::new(receiver, LinkMode::None);
    config.listener.socket_buffer = Some(socket_buffer(far.stats().receive_buffer));
    let mut server = Server::new(config);
    let (environment, entropy) = (ConnectionSetConfig::default(), Entropy::from_seed([2; 32]));
    server.listen(ResponderConfig::open(identity), environment, entropy);
    server
}

/// Runs a transfer between two threads. Returns the offloads of the sender before and after, and
/// its counters.
fn transfer(config: SenderConfig, gso: bool, losses: &[Loss]) -> (Offload, Offload, UdpStats) {
    let options = UdpOptions { gso, by_reference: true, ..UdpOptions::default() };
    let mut far = UdpIo::bind(([127, 0, 0, 1], 0).into(), options).expect("loopback has ports");
    let to = far.local_addr().expect("a bound socket has an address");
    let identity = Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])));
    let remote = Some(identity.public());
    let (told, arrived) = channel();
    let receiving = thread::spawn(move || {
        let mut waiter = Waiter::new(far.socket(), Duration::ZERO).expect("a poller");
        let mut server = server(identity, &far);
        run(&mut server, &mut far, &mut Receiving { read: 0, told }, &mut waiter).expect("it reads");
    });
    let losses = losses.to_vec();
    // A system call filter belongs to the thread and cannot be removed.
    let sending = thread::spawn(move || {
        let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), options).expect("loopback has ports");
        let until = rdt_udp::clock::now() + Duration::from_secs(60);
        let socket = io.socket();
        let mut waiter = Waiter::new(io.socket(), Duration::ZERO).expect("a poller");
        let mut io = Connected::new(io, to);
        let memory = send_memory(&mut io);
        let before = io.io().offload();
        let mut sending = Sending { socket, losses, written: 0, is_finished: false, connection: None, until };
        if config.wire == Wire::Classic {
            let mut sender = Sender::with_memory(config, memory).expect("a valid configuration");
            sender.open().expect("it is new");
            run(&mut sender, &mut io, &mut sending, &mut waiter).expect("it sends");
        } else {
            let (limits, entropy) = (ConnectionSetConfig::default(), Entropy::from_seed([1; 32]));
            let mut set = ConnectionSet::with_memory(limits, entropy, memory);
            let keys = InitiatorConfig { remote, ..InitiatorConfig::default() };
            let config = ConnectionConfig { sender: config, one_way: true, ..ConnectionConfig::default() };
            set.connect(rdt_udp::clock::now(), (), keys, config).expect("a valid configuration");
            run(&mut set, &mut io, &mut sending, &mut waiter).expect("it sends");
        }
        (before, io.io().offload(), io.io().stats())
    });
    let ways = sending.join().expect("the sender ends");
    assert_eq!(arrived.recv(), Ok(BYTES));
    receiving.join().expect("the receiver ends");
    ways
}

fn configs() -> [SenderConfig; 2] {
    let link =
        LinkProperties { rtt_s: 0.0, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 100 };
    [SenderConfig::new(512, link), SenderConfig::native(0)]
}

#[test]
fn without_sending_by_reference_batches_are_copied() {
    for config in configs() {
        let (before, after, stats) = transfer(config, true, &[NO_SENDFILE]);
        if before.by_reference {
            assert!(stats.sent_by_reference > 0 && !after.by_reference, "{after:?}");
        }
        assert_eq!((after.send_call, after.given_up), (before.send_call, before.given_up));
        assert_eq!(stats.lost_other, 0);
    }
}

#[test]
fn without_offload_many_leave_in_one_call() {
    for config in configs() {
        let (before, after, stats) = transfer(config, true, &[Loss::Offload]);
        if before.send_call != SendCall::Gso {
            return eprintln!("skipped: this system has no segmentation offload");
        }
        assert_eq!((after.send_call, after.by_reference), (SendCall::Sendmmsg, false));
        assert!(after.given_up.gso.is_some() && after.given_up.sendmmsg.is_none(), "{after:?}");
        assert_eq!(stats.lost_other, 0);
    }
}

#[test]
fn without_sendmmsg_either_datagrams_leave_one_by_one() {
    for (gso, losses) in [(false, &[NO_SENDMMSG][..]), (true, &[Loss::Offload, NO_SENDMMSG])] {
        for config in configs() {
            let (before, after, stats) = transfer(config, gso, losses);
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
