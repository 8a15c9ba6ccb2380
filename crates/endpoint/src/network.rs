//! Emulated network in one process: endpoints are connected by emulated paths instead of sockets.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use rdt_datagram::{DatagramIo, MAX_DATAGRAM, Received, TransmitBuf};
use rdt_emulator::spec::{PathSpec, Scope, SpecError};
use rdt_emulator::{Delivery, Direction, Ledger, Packet, Path, PathConfig};

use crate::address::PeerAddress;
use crate::clock::Clock;

/// UDP port of every endpoint on a network.
const PORT: u16 = 7300;
/// Bytes of IPv4 and UDP headers, which a packet occupies on a link in addition to its payload.
const HEADER_BYTES: u32 = 28;

/// Emulated network within the process. Every two endpoints on it are connected by a path of their
/// own with the same properties; clones are the same network.
///
/// Packet n of a path has the same fate whenever the network has the same seed. With tokio's paused
/// clock (`#[tokio::test(start_paused = true)]`) a whole test is reproducible and takes no real
/// time.
///
/// ```
/// use rdt_endpoint::Network;
///
/// let network = Network::new("rtt 50ms loss 1% rate 10mbit", 7)?;
/// # Ok::<_, rdt_emulator::spec::SpecError>(())
/// ```
#[derive(Clone)]
pub struct Network(Arc<Mutex<Switch>>);

struct Switch {
    config: PathConfig,
    seed: u64,
    hosts: BTreeMap<SocketAddr, Host>,
    /// Paths by the address that sent first, and the other one.
    paths: BTreeMap<(SocketAddr, SocketAddr), Path>,
    /// Number of addresses given out.
    addresses: u32,
}

#[derive(Default)]
struct Host {
    /// Addresses at the other ends of this host's paths.
    peers: Vec<SocketAddr>,
    driver: Option<Waker>,
    /// Time at which the driver looks for arrivals by itself; `None`: never.
    armed: Option<Instant>,
    /// True while no packet leaves or reaches this host.
    unplugged: bool,
}

impl Network {
    /// Creates a network of paths that `description` describes: keys and values of
    /// `docs/PATHS.md` alternately, such as `rtt 20ms rate 10mbit loss 1%`. A value with blanks is
    /// in quotes: `loss 'gilbert-elliott p=1% r=25%'`. An empty description is a perfect wire.
    ///
    /// # Errors
    /// If a key or a value is unknown. Traces of rates cannot be named, because no file is read.
    pub fn new(description: &str, seed: u64) -> Result<Self, SpecError> {
        let mut path = PathSpec::default();
        let words = words(description);
        let settings = words.chunks(2).map(|pair| (Scope::Both, pair[0], *pair.get(1).unwrap_or(&"")));
        path.set_all(settings)?;
        path.assume_headers(HEADER_BYTES);
        let no_files = |name: &str| Err(format!("{name} is not read: use Network::with_path"));
        Ok(Self::with_path(path.to_path_config(no_files)?, seed))
    }

    /// Creates a network of such paths. A path's forward direction is that of its first packet.
    pub fn with_path(config: impl Into<PathConfig>, seed: u64) -> Self {
        let (hosts, paths) = (BTreeMap::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Switch { config: config.into(), seed, hosts, paths, addresses: 0 })))
    }

    /// Drops all further packets from and to `address`, as if its cable was unplugged.
    pub fn unplug(&self, address: SocketAddr) {
        self.set_unplugged(address, true);
    }

    /// Ends [`Network::unplug`].
    pub fn plug_in(&self, address: SocketAddr) {
        self.set_unplugged(address, false);
    }

    /// Returns the counters of both directions of all paths together.
    pub fn ledger(&self) -> Ledger {
        let mut sum = Ledger::default();
        for path in self.lock().paths.values() {
            sum.merge(path.forward.ledger());
            sum.merge(path.reverse.ledger());
        }
        sum
    }

    pub(crate) fn port(&self, clock: Clock) -> Port {
        let mut switch = self.lock();
        switch.addresses += 1;
        let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + switch.addresses);
        let address = SocketAddr::new(ip.into(), PORT);
        switch.hosts.insert(address, Host::default());
        let batch = TransmitBuf::new(MAX_DATAGRAM);
        Port { network: self.clone(), address, clock, batch, current: None }
    }

    /// Returns the seed of the random numbers of the endpoint that is connected next.
    pub(crate) fn next_seed(&self) -> [u8; 32] {
        let switch = self.lock();
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&switch.seed.to_le_bytes());
        seed[8..12].copy_from_slice(&switch.addresses.to_le_bytes());
        seed
    }

    fn set_unplugged(&self, address: SocketAddr, unplugged: bool) {
        if let Some(host) = self.lock().hosts.get_mut(&address) {
            host.unplugged = unplugged;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Switch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("hosts", &self.lock().hosts.len()).finish_non_exhaustive()
    }
}

/// Splits at blanks, except within quotes.
fn words(text: &str) -> Vec<&str> {
    let mut rest = text.trim_start();
    let mut words = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (inside, end) = if matches!(first, '\'' | '"') { (&rest[1..], first) } else { (rest, ' ') };
        let (word, after) = inside.split_once(end).unwrap_or((inside, ""));
        words.push(word);
        rest = after.trim_start();
    }
    words
}

impl Switch {
    /// Sends a datagram; drops it if there is no such host.
    fn push(&mut self, now: Instant, from: SocketAddr, to: SocketAddr, packet: Packet) {
        let unplugged = |host: &Host| host.unplugged;
        if self.hosts.get(&from).is_none_or(unplugged) || self.hosts.get(&to).is_none_or(unplugged) {
            return;
        }
        let (key, direction) = self.path_key(from, to);
        if !self.paths.contains_key(&key) {
            for (end, other) in [(from, to), (to, from)] {
                self.hosts.entry(end).or_default().peers.push(other);
            }
        }
        let seed = self.seed.wrapping_add(self.paths.len() as u64);
        let path = self.paths.entry(key).or_insert_with(|| Path::new(self.config.clone(), seed));
        // The ledger counts drops.
        let _ = path.push(direction, now, packet);
        let due = path.link_mut(direction).next_wakeup();
        if let (Some(due), Some(host)) = (due, self.hosts.get_mut(&to))
            && host.armed.is_none_or(|armed| due < armed)
            && let Some(driver) = &host.driver
        {
            host.armed = Some(due);
            driver.wake_by_ref();
        }
    }

    /// Returns the key of the path between two hosts, and the direction from `from` to `to`.
    fn path_key(&self, from: SocketAddr, to: SocketAddr) -> ((SocketAddr, SocketAddr), Direction) {
        if self.paths.contains_key(&(to, from)) {
            ((to, from), Direction::Reverse)
        } else {
            ((from, to), Direction::Forward)
        }
    }

    fn pop(&mut self, now: Instant, to: SocketAddr) -> Option<(SocketAddr, Delivery)> {
        let (_, from) = self.next_arrival(to).filter(|(due, _)| *due <= now)?;
        let (key, direction) = self.path_key(from, to);
        let delivery = self.paths.get_mut(&key)?.pop(direction, now)?;
        Some((from, delivery))
    }

    /// Returns when the next packet arrives at a host, and its sender.
    fn next_arrival(&self, to: SocketAddr) -> Option<(Instant, SocketAddr)> {
        let arrival = |from: &SocketAddr| {
            let (key, direction) = self.path_key(*from, to);
            let path = self.paths.get(&key)?;
            let link = if direction == Direction::Forward { &path.forward } else { &path.reverse };
            Some((link.next_wakeup()?, *from))
        };
        self.hosts.get(&to)?.peers.iter().filter_map(arrival).min()
    }
}

/// Connection of one endpoint to a network.
pub(crate) struct Port {
    network: Network,
    address: SocketAddr,
    clock: Clock,
    batch: TransmitBuf,
    /// Delivery that [`DatagramIo::recv`] returned last.
    current: Option<Delivery>,
}

impl Port {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the task or thread to wake when a packet is on its way here.
    pub(crate) fn set_driver(&self, driver: &Waker) {
        if let Some(host) = self.network.lock().hosts.get_mut(&self.address) {
            host.driver = Some(driver.clone());
        }
    }

    /// Returns when the next packet arrives. The caller must look for it then.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        let mut switch = self.network.lock();
        let next = switch.next_arrival(self.address).map(|(due, _)| due);
        if let Some(host) = switch.hosts.get_mut(&self.address) {
            host.armed = next;
        }
        next
    }
}

impl DatagramIo for Port {
    type Peer = PeerAddress;

    fn recv(&mut self) -> Option<Received<'_, PeerAddress>> {
        let mut switch = self.network.lock();
        let (from, delivery) = loop {
            let popped = switch.pop((self.clock)(), self.address)?;
            if !switch.hosts.get(&self.address)?.unplugged {
                break popped;
            }
        };
        drop(switch);
        let Delivery { due, packet, ecn, .. } = self.current.insert(delivery);
        Some(Received { peer: from.into(), stride: packet.len(), bytes: packet, ecn: *ecn, at: *due })
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        self.batch.clear();
        Some(&mut self.batch)
    }

    fn flush(&mut self, peer: PeerAddress) {
        let mut switch = self.network.lock();
        let now = (self.clock)();
        for datagram in self.batch.datagrams() {
            let packet = Packet::from(datagram.to_vec()).with_ecn(self.batch.ecn());
            switch.push(now, self.address, peer.0.addr, packet);
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.network.lock().hosts.remove(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use rdt_testing::{epoch, ms};

    use super::*;

    /// Clock that stands still.
    fn origin() -> Instant {
        static ORIGIN: LazyLock<Instant> = LazyLock::new(epoch);
        *ORIGIN
    }

    fn send(port: &mut Port, to: &Port, payload: &[u8]) {
        let batch = port.transmit_buf().unwrap();
        batch.slot(payload.len()).unwrap().copy_from_slice(payload);
        port.flush(to.address.into());
    }

    #[test]
    fn description_has_quoted_values() {
        assert_eq!(words(" rtt 5ms  loss 'a b' x"), ["rtt", "5ms", "loss", "a b", "x"]);
        Network::new("", 1).unwrap();
        Network::new("rtt 5ms loss 'gilbert-elliott p=1% r=25%'", 1).unwrap();
        for wrong in ["rtt", "rtt 5", "colour red", "rate trace:x"] {
            Network::new(wrong, 1).unwrap_err();
        }
    }

    #[test]
    fn datagram_arrives_at_due_time() {
        let network = Network::new("delay 5ms", 1).unwrap();
        let (mut a, mut b) = (network.port(origin), network.port(|| origin() + ms(5)));
        send(&mut a, &b, b"hello");
        assert_eq!(b.next_arrival(), Some(origin() + ms(5)));
        let got = b.recv().unwrap();
        assert_eq!((got.peer, &*got.bytes, got.at), (a.address.into(), &b"hello"[..], origin() + ms(5)));
        assert!(b.recv().is_none());
        send(&mut b, &a, b"answer");
        assert!(a.recv().is_none(), "its clock is behind");
        assert_eq!(a.next_arrival(), Some(origin() + ms(10)));
    }

    #[test]
    fn unplugged_host_loses_packets() {
        let network = Network::new("", 1).unwrap();
        let (mut a, mut b) = (network.port(origin), network.port(origin));
        send(&mut a, &b, b"1");
        network.unplug(b.address);
        assert!(b.recv().is_none());
        send(&mut a, &b, b"2");
        network.plug_in(b.address);
        assert!(b.recv().is_none());
        send(&mut a, &b, b"3");
        assert_eq!(&*b.recv().unwrap().bytes, b"3");
    }
}
