//! Proxy between real sockets of this host.

use std::net::UdpSocket;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rdt_emulator::{Bitrate, Direction, Link, LinkConfig, Loss, PathConfig, Probability, child_seed};
use rdt_program::Printer;
use rdt_udp::{PollSet, clock};

use super::clients::Clients;
use super::*;
use crate::port::{Buffers, Port};

const LOCALHOST: &str = "127.0.0.1:0";
/// Idle timeout that no test reaches.
const LONG: Duration = Duration::from_secs(60);

struct Running {
    address: SocketAddr,
    stop: Waker,
    thread: JoinHandle<io::Result<(End, ())>>,
}

impl Running {
    fn start(target: &UdpSocket, paths: impl Into<Paths> + Send + 'static, limits: Limits) -> Self {
        let target = target.local_addr().unwrap();
        let listen = SocketAddr::new(target.ip(), 0);
        let sockets = ProxySockets::bind(listen, target, limits, Printer::discard()).unwrap();
        let (address, stop) = (sockets.local_addr().unwrap(), sockets.stop());
        let thread = thread::spawn(move || serve(sockets, paths.into(), (), Waiting::Sleep));
        Self { address, stop, thread }
    }

    fn client(&self) -> UdpSocket {
        let socket = bound();
        socket.connect(self.address).unwrap();
        socket
    }

    fn end(self) -> End {
        self.stop.wake();
        let (end, ()) = self.thread.join().unwrap().unwrap();
        for account in &end.accounts {
            assert!(account.ledger.balances(), "{account:?}");
            assert_eq!(account.lateness.count(), account.ledger.delivered);
        }
        end
    }
}

fn bound() -> UdpSocket {
    let socket = UdpSocket::bind(LOCALHOST).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

const FEW: Limits = Limits { most: 2, idle: LONG };

fn percent(percent: f64) -> Probability {
    Probability::new(percent / 100.0).unwrap()
}

/// Returns a link with loss and other effects, none of which depends on time.
fn troubled() -> LinkConfig {
    LinkConfig::new(Bitrate::from_bps(1_000_000_000), Duration::from_millis(1))
        .loss(Loss::Bernoulli(percent(2.0)))
        .duplicate(percent(2.0))
        .corrupt(percent(2.0))
        .overhead(HEADERS_IPV4)
}

struct Model {
    link: Link,
    now: Instant,
}

impl Model {
    fn new(seed: u64, direction: Direction) -> Self {
        Self { link: Link::new(troubled(), seed, direction), now: clock::now() }
    }

    /// Sends packets through the model, one after another.
    fn carry(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for packet in packets {
            let _ = self.link.push(self.now, packet.clone());
            self.now += Duration::from_secs(1);
            out.extend(std::iter::from_fn(|| self.link.pop(self.now)).map(|delivery| delivery.packet));
        }
        out
    }
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 64];
    let len = socket.recv(&mut bytes).unwrap();
    bytes[..len].to_vec()
}

/// Sends numbered packets through the proxy, and replies back. Expects exactly the deliveries of
/// the model, in the same order.
fn agree(seed: u64, client: &UdpSocket, target: &UdpSocket, proxy: &Running, count: u32) {
    let packets: Vec<_> = (0..count).map(|number| number.to_be_bytes().to_vec()).collect();
    let [mut there, mut back] =
        [Direction::Forward, Direction::Reverse].map(|direction| Model::new(seed, direction));
    // So few at a time that no socket's buffer becomes full.
    for packets in packets.chunks(50) {
        for packet in packets {
            client.send(packet).unwrap();
        }
        let arrived = there.carry(packets);
        let mut from = proxy.address;
        for expected in &arrived {
            let mut bytes = [0; 64];
            let (len, sender) = target.recv_from(&mut bytes).unwrap();
            assert_eq!(&bytes[..len], expected, "seed {seed}");
            from = sender;
        }
        for packet in &arrived {
            target.send_to(packet, from).unwrap();
        }
        for expected in back.carry(&arrived) {
            assert_eq!(receive(client), expected, "seed {seed}");
        }
    }
}

#[test]
fn packet_fates_match_virtual_time() {
    let target = bound();
    let proxy = Running::start(&target, Path::new(troubled(), 11), FEW);
    agree(11, &proxy.client(), &target, &proxy, 10_000);
    let end = proxy.end();
    assert_eq!(end.counts.overflow().map(Option::unwrap_or_default), [0, 0]);
    for account in &end.accounts {
        let ledger = &account.ledger;
        assert!(ledger.dropped_loss > 100 && ledger.duplicated > 100 && ledger.corrupted > 100, "{ledger:?}");
        assert_eq!(
            (ledger.delivered, account.refused),
            (ledger.sent - ledger.dropped_loss + ledger.duplicated, 0)
        );
    }
    assert_eq!((end.accounts[0].ledger.sent, end.counts.totals.clients), (10_000, 1));
}

#[test]
fn per_client_paths_have_own_seeds() {
    let target = bound();
    let proxy = Running::start(&target, PerTag::new(troubled().into(), 5), FEW);
    for number in 0..2 {
        agree(child_seed(5, number), &proxy.client(), &target, &proxy, 500);
    }
    assert_eq!(proxy.end().accounts[0].ledger.sent, 1000);
}

#[test]
fn clients_share_path_and_get_own_answers() {
    let target = bound();
    let once = LinkConfig::default().loss(Loss::script([1]));
    let once = PathConfig::asymmetric(once, LinkConfig::default());
    let proxy = Running::start(&target, Path::new(once, 1), FEW);
    let clients = [proxy.client(), proxy.client()];
    // The link drops its second packet, whichever client sent it.
    for (client, text) in [(0, b"a"), (1, b"b"), (0, b"c"), (1, b"d")] {
        // Sent one after another to one socket, so they arrive in this order.
        clients[client].send(text).unwrap();
    }
    let mut ports = Vec::new();
    for expected in [b"a", b"c", b"d"] {
        let mut bytes = [0; 9];
        let (len, from) = target.recv_from(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], expected);
        ports.push(from);
    }
    assert!(ports[0] == ports[1] && ports[0] != ports[2]);
    for (text, to) in [(b"B", ports[2]), (b"A", ports[0])] {
        target.send_to(text, to).unwrap();
    }
    assert_eq!([receive(&clients[1]), receive(&clients[0])], [b"B", b"A"]);
    assert_eq!(proxy.end().counts.totals.clients, 2);
}

#[test]
fn excess_clients_are_rejected() {
    let target = bound();
    let proxy = Running::start(&target, Path::new(LinkConfig::default(), 1), Limits { most: 1, idle: LONG });
    let (first, second) = (proxy.client(), proxy.client());
    for (client, text) in [(&first, b"1"), (&second, b"2"), (&second, b"3"), (&first, b"4")] {
        client.send(text).unwrap();
    }
    assert_eq!([receive(&target), receive(&target)], [b"1", b"4"]);
    let end = proxy.end();
    assert_eq!((end.counts.totals.clients, end.counts.totals.turned_away), (1, 2));
    assert!(end.notes().contains("2 packets of other clients were turned away\n"), "{}", end.notes());
}

#[test]
fn full_proxy_replaces_longest_silent_client() {
    let target = bound();
    let mut set = PollSet::new(4).unwrap();
    let mut clients = Clients::new(target.local_addr().unwrap(), FEW);
    let start = clock::now();
    let mut admit = |clients: &mut Clients, port: u16, ms: u64| {
        let remote = SocketAddr::from(([127, 0, 0, 1], port)).into();
        clients.admit(remote, start + Duration::from_millis(ms), &mut set).ok()
    };
    assert_eq!([admit(&mut clients, 1, 0), admit(&mut clients, 2, 500)], [Some(0), Some(1)]);
    assert_eq!(admit(&mut clients, 3, 900), None, "none is silent for 1 s");
    clients.touch(0, start + Duration::from_secs(1));
    assert_eq!(admit(&mut clients, 3, 1499), None);
    assert_eq!(admit(&mut clients, 3, 1500), Some(2));
    assert_eq!((clients.poll_gone(), clients.poll_gone()), (Some(1), None), "the second was silent longest");
    assert_eq!([admit(&mut clients, 1, 1500), admit(&mut clients, 2, 1500)], [Some(0), None]);
    assert_eq!((clients.totals().clients, clients.totals().replaced), (3, 1));
}

#[test]
fn idle_client_makes_room() {
    let target = bound();
    let limits = Limits { most: 1, idle: Duration::from_millis(20) };
    let proxy = Running::start(&target, PerTag::new(LinkConfig::default().into(), 1), limits);
    proxy.client().send(b"x").unwrap();
    assert_eq!(receive(&target), b"x");
    let second = proxy.client();
    target.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut bytes = [0; 9];
    let begin = clock::now();
    while target.recv(&mut bytes).is_err() {
        assert!(clock::now() - begin < LONG);
        second.send(b"y").unwrap();
    }
    assert_eq!(bytes[0], b'y');
    let end = proxy.end();
    assert_eq!(end.counts.totals.clients, 2);
    assert!(end.accounts[0].ledger.sent >= 2, "what became of the packets of the first is known");
}

/// Only Linux reports ICMP errors to a socket that is not connected.
#[cfg(target_os = "linux")]
#[test]
fn missing_target_is_reported_at_once_and_finally() {
    let closed = bound().local_addr().unwrap();
    let limits = Limits { most: 1, idle: Duration::from_secs(2) };
    let (prints, said) = std::sync::mpsc::channel();
    let print = move |text: &str| prints.send(text.to_owned()).map_err(io::Error::other);
    let warnings = Printer::spawn(9, print).unwrap();
    let sockets = ProxySockets::bind(LOCALHOST.parse().unwrap(), closed, limits, warnings.clone()).unwrap();
    let (address, stop) = (sockets.local_addr().unwrap(), sockets.stop());
    let thread =
        thread::spawn(move || serve(sockets, Path::new(LinkConfig::default(), 1).into(), (), Waiting::Sleep));
    let proxy = Running { address, stop, thread };
    let client = proxy.client();
    client.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let begin = clock::now();
    let first = loop {
        if let Ok(sentence) = said.try_recv() {
            break sentence;
        }
        assert!(clock::now() - begin < LONG);
        client.send(b"x").unwrap();
        assert!(client.recv(&mut [0; 9]).is_err());
    };
    assert_eq!(first, format!("{closed}: no program listens there, the network reports"));
    let end = proxy.end();
    warnings.flush();
    assert!(said.try_recv().is_err(), "it is said once");
    assert_eq!(end.accounts[0].ledger.delivered, end.accounts[0].ledger.sent);
    assert!(
        end.notes().contains("ICMP errors reported that no program listens at the target"),
        "{}",
        end.notes()
    );
}

#[test]
fn empty_and_long_datagrams_pass() {
    let target = bound();
    let proxy = Running::start(&target, Path::new(LinkConfig::default(), 1), FEW);
    let client = proxy.client();
    for len in [0, 1, 1472, 9000, 0] {
        client.send(&vec![7; len]).unwrap();
        let mut bytes = vec![0; 10_000];
        let (read, from) = target.recv_from(&mut bytes).unwrap();
        assert_eq!(read, len);
        target.send_to(&bytes[..read], from).unwrap();
        assert_eq!(client.recv(&mut bytes).unwrap(), len);
    }
    proxy.end();
}

/// Only Linux has all of 127.0.0.0/8 on its loopback.
#[cfg(target_os = "linux")]
#[test]
fn answers_come_from_requested_address() {
    use std::net::IpAddr;

    let target = bound();
    let sockets = ProxySockets::bind(
        "0.0.0.0:0".parse().unwrap(),
        target.local_addr().unwrap(),
        FEW,
        Printer::discard(),
    )
    .unwrap();
    let (port, stop) = (sockets.local_addr().unwrap().port(), sockets.stop());
    let other = thread::spawn(move || {
        serve(sockets, Path::new(LinkConfig::default(), 1).into(), (), Waiting::Sleep).is_ok()
    });
    let client = bound();
    for last in [7, 8] {
        let asked = (IpAddr::from([127, 0, 0, last]), port).into();
        client.send_to(b"?", asked).unwrap();
        let (_, from) = target.recv_from(&mut [0; 9]).unwrap();
        target.send_to(b"!", from).unwrap();
        assert_eq!(client.recv_from(&mut [0; 9]).unwrap().1, asked);
    }
    stop.wake();
    assert!(other.join().unwrap());
}

#[test]
fn full_queue_marks_ect_and_keeps_codepoints() {
    use rdt_emulator::{Marking, QueueLimit};
    use rdt_udp::{DatagramIo, Ecn, UdpIo, UdpOptions};

    let mut target = UdpIo::bind(LOCALHOST.parse().unwrap(), UdpOptions::default()).unwrap();
    // A packet of 22 bytes occupies the link for 22 ms, so later packets queue.
    let slow = LinkConfig::new(Bitrate::from_bps(8_000), Duration::ZERO)
        .marking(Marking::above(QueueLimit::packets(1)));
    let proxy = Running::start(&target.socket().try_clone().unwrap(), Path::new(slow, 1), FEW);
    let mut client = UdpIo::bind(LOCALHOST.parse().unwrap(), UdpOptions::default()).unwrap();
    for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::Ect0, Ecn::NotEct] {
        let batch = client.transmit_buf().unwrap();
        batch.set_ecn(ecn);
        batch.slot(22).unwrap().fill(1);
        client.flush(proxy.address.into());
    }
    let mut came = Vec::new();
    while came.len() < 4 {
        if let Some(batch) = target.recv() {
            came.extend(batch.bytes.chunks(batch.stride).map(|_| batch.ecn));
        }
        thread::yield_now();
    }
    assert_eq!(came, [Ecn::Ect1, Ecn::Ect0, Ecn::Ce, Ecn::NotEct]);
    assert_eq!(proxy.end().accounts[0].ledger.marked, 1);
}

#[test]
fn relay_learns_next_client_check() {
    let target = bound();
    let idle = Duration::from_millis(100);
    let limits = Limits { most: 1, idle };
    let sockets = ProxySockets::bind(
        LOCALHOST.parse().unwrap(),
        target.local_addr().unwrap(),
        limits,
        Printer::discard(),
    )
    .unwrap();
    let address = sockets.local_addr().unwrap();
    let [mut near, _] = ProxyPort::both(&Rc::new(RefCell::new(sockets)));
    assert_eq!(near.next_check(), None, "no client");
    bound().send_to(b"x", address).unwrap();
    let mut came = None;
    while came.is_none() {
        near.receive(1, &mut Buffers::default(), &mut |_, at, packet| came = Some((at, packet.tag))).unwrap();
    }
    let (at, tag) = came.unwrap();
    let check = near.next_check().unwrap();
    assert!(check > at && check < at + idle, "{:?}", check - at);
    assert_eq!(near.poll_gone(check), None, "it was not idle for long enough");
    let check = near.next_check().unwrap();
    assert_eq!(near.poll_gone(check.max(at + idle)), Some(tag));
    assert_eq!(near.next_check(), None, "no client is left");
}

#[test]
fn longest_datagrams_pass_both_ways() {
    for (address, len) in [("127.0.0.1:0", 65_507), ("[::1]:0", 65_527)] {
        let Ok(target) = UdpSocket::bind(address) else {
            rdt_testing::skipped(format!("this host has no {address}"));
            continue;
        };
        target.set_read_timeout(Some(LONG)).unwrap();
        let proxy = Running::start(&target, Path::new(LinkConfig::default(), 1), FEW);
        let client = UdpSocket::bind(address).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        client.connect(proxy.address).unwrap();
        let mut bytes = vec![7; 1 << 16];
        for len in [len, 1] {
            assert_eq!(client.send(&bytes[..len]).unwrap(), len);
            let (came, from) = target.recv_from(&mut bytes).unwrap();
            target.send_to(&bytes[..came], from).unwrap();
            assert_eq!((came, client.recv(&mut bytes).unwrap()), (len, len));
        }
        assert_eq!(
            proxy.end().accounts.map(|account| (account.ledger.delivered, account.refused)),
            [(2, 0); 2]
        );
    }
}
