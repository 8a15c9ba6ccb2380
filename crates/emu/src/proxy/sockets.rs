//! Sockets of a proxy: the listener for clients, and one socket for each client towards the target.
//!
//! Owns the readiness of the sockets, and the warnings while the relay runs. A relay uses the
//! sockets as two ports.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rdt_emulator::{Delivery, Direction, Packet};
use rdt_program::Printer;
use rdt_udp::{DatagramIo, PollSet, Received, SocketError, UdpIo, UdpOptions, UdpStats, Waker};

use super::batch::{Batch, send_run};
use super::clients::{Addresses, Clients, Limits, Refusal, Totals};
use crate::host::LossAlarm;
use crate::port::{Buffers, Port, Sent, Take};
use crate::waiter::{PollPorts, Readiness};

/// Poll key of the listener. The key of a client's socket is its tag, which is below 2^31.
const LISTENER: usize = 1 << 31;
/// Interval at which a full socket is tried again.
const FULL_SOCKET_RETRY: Duration = Duration::from_millis(1);

/// Problems of which each kind is reported once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Full,
    NoSocket,
    Target,
    PortUnreachable,
    Client,
}

pub(crate) struct ProxySockets {
    target: SocketAddr,
    listener: UdpIo,
    set: PollSet,
    keys: Vec<usize>,
    listener_ready: bool,
    /// Tags of the clients whose sockets may be readable.
    ready: VecDeque<u32>,
    clients: Clients,
    to_clients: Batch,
    to_target: Batch,
    stuck: BTreeSet<u32>,
    listener_stuck: bool,
    /// Value of [`lost`](Self::lost) at the last check, forward first.
    lost: [u64; 2],
    lost_told: [u64; 2],
    told: BTreeSet<Trouble>,
    overflow: LossAlarm,
    warnings: Printer,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) listener: UdpStats,
    pub(crate) totals: Totals,
}

impl Counts {
    /// Returns the number of packets dropped in receive buffers, forward first; `None` if the
    /// system does not report them.
    pub(crate) fn overflow(&self) -> [Option<u64>; 2] {
        [self.listener.receive_overflow, self.totals.overflow]
    }

    /// Returns the number of packets that sockets accepted from the relay and then failed to send,
    /// forward first.
    fn lost(&self) -> [u64; 2] {
        [&self.totals.sockets, &self.listener]
            .map(|stats| stats.lost_no_buffers + stats.lost_too_big + stats.lost_other)
    }
}

impl ProxySockets {
    /// Binds the listener. Warnings while the proxy runs go to `warnings`.
    pub(crate) fn bind(
        listen: SocketAddr,
        target: SocketAddr,
        limits: Limits,
        warnings: Printer,
    ) -> Result<Self, SocketError> {
        let listener = UdpIo::bind(listen, UdpOptions { by_reference: false, ..UdpOptions::default() })?;
        let mut set = PollSet::new(limits.most + 2).map_err(SocketError::Receive)?;
        set.add(LISTENER, listener.socket()).map_err(SocketError::Receive)?;
        Ok(Self {
            target,
            listener,
            set,
            keys: Vec::new(),
            listener_ready: true,
            ready: VecDeque::new(),
            clients: Clients::new(target, limits),
            to_clients: Batch::default(),
            to_target: Batch::default(),
            stuck: BTreeSet::new(),
            listener_stuck: false,
            lost: [0; 2],
            lost_told: [0; 2],
            told: BTreeSet::new(),
            overflow: LossAlarm::default(),
            warnings,
        })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the shared map of client addresses, which is updated as clients come and go.
    pub(crate) fn addresses(&self) -> Addresses {
        self.clients.addresses()
    }

    pub(crate) fn stop(&self) -> Waker {
        self.set.waker()
    }

    fn counts(&self) -> Counts {
        Counts { listener: self.listener.stats(), totals: self.clients.totals() }
    }

    fn receive_near(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        let mut read = 0;
        let Self { listener, clients, set, told, warnings, target, .. } = self;
        while self.listener_ready && read < budget {
            let Some(batch) = listener.recv() else {
                self.listener_ready = false;
                break;
            };
            match clients.admit(batch.peer, batch.at, set) {
                Ok(tag) => read += hand_over(&batch, tag, buffers, take),
                Err(refusal) => {
                    let count = batch.bytes.len().div_ceil(batch.stride.max(1)).max(1);
                    clients.turn_away(count as u64);
                    read += count;
                    let (trouble, what) = match refusal {
                        Refusal::Full => {
                            (Trouble::Full, "there are as many clients as --max-clients allows".into())
                        }
                        Refusal::Socket(error) => {
                            (Trouble::NoSocket, format!("no socket towards {target}: {error}"))
                        }
                    };
                    if told.insert(trouble) {
                        warnings.print(&format!("{what}; {} is turned away", batch.peer.addr));
                    }
                }
            }
        }
        match self.listener.take_error() {
            Some(SocketError::Receive(error)) => Err(error),
            _ => Ok(read),
        }
    }

    /// Reads packets of the target, from one client's socket after another.
    fn receive_far(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> usize {
        let mut read = 0;
        while read < budget
            && let Some(tag) = self.ready.pop_front()
        {
            let Some(client) = self.clients.client_mut(tag) else { continue };
            if let Some(batch) = client.io.recv() {
                let at = batch.at;
                read += hand_over(&batch, tag, buffers, take);
                self.clients.touch(tag, at);
                self.ready.push_back(tag);
            } else if let Some(error) = client.io.take_error() {
                self.tell_once(Trouble::Target, |target| format!("{target}: {error}"));
            }
        }
        read
    }

    /// Sends the batch of one port. Returns the number of packets that were lost: those that could
    /// not be sent, and earlier ones whose loss a socket reports only in this call.
    fn flush(&mut self, near: bool) -> u64 {
        if near { self.flush_near() } else { self.flush_far() }
    }

    fn flush_near(&mut self) -> u64 {
        let Self { to_clients, clients, listener, listener_stuck, .. } = self;
        let refused = to_clients.send(|tag, run| {
            let Some(client) = clients.client_mut(tag) else { return 0 };
            let sent = send_run(listener, client.remote, run);
            *listener_stuck |= sent < run.len();
            sent
        });
        if let Some(error) = self.listener.take_error() {
            self.tell_once(Trouble::Client, |_| format!("a client: {error}"));
        }
        refused + self.newly_lost(Direction::Reverse)
    }

    fn flush_far(&mut self) -> u64 {
        let Self { to_target, clients, stuck, .. } = self;
        let mut failed = None;
        let refused = to_target.send(|tag, run| {
            let Some(client) = clients.client_mut(tag) else { return 0 };
            let sent = send_run(&mut client.io, (), run);
            if sent < run.len() {
                stuck.insert(tag);
            }
            failed = client.io.take_error().or(failed.take());
            sent
        });
        if let Some(error) = failed {
            self.tell_once(Trouble::Target, |target| format!("{target}: {error}"));
        }
        refused + self.newly_lost(Direction::Forward)
    }

    /// Returns the final counters, and the lost packets that no flush has returned, forward first.
    pub(crate) fn finish(&mut self) -> (Counts, [u64; 2]) {
        let counts = self.counts();
        self.lost = counts.lost();
        (counts, [Direction::Forward, Direction::Reverse].map(|direction| self.newly_lost(direction)))
    }

    fn newly_lost(&mut self, direction: Direction) -> u64 {
        let (lost, told) = (self.lost[direction as usize], &mut self.lost_told[direction as usize]);
        lost - mem::replace(told, lost)
    }

    /// Sends the rest of full sockets. Returns true if a socket is still full.
    fn resume(&mut self) -> bool {
        let Self { stuck, clients, listener, .. } = self;
        stuck.retain(|tag| clients.client_mut(*tag).is_some_and(|client| client.io.transmit_buf().is_none()));
        self.listener_stuck &= listener.transmit_buf().is_none();
        self.listener_stuck || !self.stuck.is_empty()
    }

    fn poll_ports(&mut self, timeout: Option<Duration>) -> io::Result<Readiness> {
        let retry = (self.listener_stuck || !self.stuck.is_empty()) && self.resume();
        let timeout = timeout.into_iter().chain(retry.then_some(FULL_SOCKET_RETRY)).min();
        self.keys.clear();
        // One poll reports all ready sockets, so no stop comes before packets that arrived earlier.
        let stopped = self.set.poll(timeout, &mut self.keys)?;
        for key in &self.keys {
            match u32::try_from(*key) {
                Ok(tag) if *key < LISTENER => {
                    if !self.ready.contains(&tag) {
                        self.ready.push_back(tag);
                    }
                }
                _ => self.listener_ready = true,
            }
        }
        Ok(match self.keys.is_empty() {
            _ if stopped => Readiness::Stop,
            true => Readiness::Nothing,
            false => Readiness::Packet,
        })
    }

    /// Returns the tag of a removed client, once for each. Checks counters at intervals, and warns.
    fn poll_gone(&mut self, now: Instant) -> Option<u32> {
        if self.clients.check(now, &mut self.set) {
            let counts = self.counts();
            if counts.totals.sockets.unreachable > 0 {
                self.tell_once(Trouble::PortUnreachable, |target| {
                    format!("{target}: no program listens there, the network reports")
                });
            }
            self.lost = counts.lost();
            let lost = counts.overflow().map(Option::unwrap_or_default);
            self.overflow.look(now, lost).iter().for_each(|sentence| self.warnings.print(sentence));
        }
        self.clients.poll_gone()
    }

    fn tell_once(&mut self, trouble: Trouble, what: impl FnOnce(SocketAddr) -> String) {
        if self.told.insert(trouble) {
            self.warnings.print(&what(self.target));
        }
    }
}

/// Passes the datagrams of a received message to the relay, and returns their number.
fn hand_over<P>(batch: &Received<'_, P>, tag: u32, buffers: &mut Buffers, take: Take<'_>) -> usize {
    let mut count = 0;
    let mut one = |datagram: &[u8]| {
        let mut buffer = buffers.take(datagram.len());
        buffer.extend_from_slice(datagram);
        take(buffers, batch.at, Packet::from(buffer).with_ecn(batch.ecn).with_tag(tag));
        count += 1;
    };
    if batch.bytes.is_empty() {
        one(&[]);
    }
    batch.bytes.chunks(batch.stride.max(1)).for_each(one);
    count
}

/// Sockets, shared by the ports and the waiter of a relay. All belong to one thread.
pub(crate) type Shared = Rc<RefCell<ProxySockets>>;

impl PollPorts for Shared {
    fn poll_ports(&mut self, timeout: Option<Duration>) -> io::Result<Readiness> {
        self.borrow_mut().poll_ports(timeout)
    }
}

/// Port towards the clients (near) or the target.
pub(crate) struct ProxyPort {
    sockets: Shared,
    near: bool,
    /// Packets that a full batch could not send.
    refused: u64,
}

impl ProxyPort {
    /// Creates the near and the far port.
    pub(crate) fn both(sockets: &Shared) -> [Self; 2] {
        [true, false].map(|near| Self { sockets: Rc::clone(sockets), near, refused: 0 })
    }
}

impl Port for ProxyPort {
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        let mut sockets = self.sockets.borrow_mut();
        if self.near {
            sockets.receive_near(budget, buffers, take)
        } else {
            Ok(sockets.receive_far(budget, buffers, take))
        }
    }

    fn send(&mut self, delivery: &mut Delivery) -> io::Result<Sent> {
        let mut sockets = self.sockets.borrow_mut();
        let batch = if self.near { &mut sockets.to_clients } else { &mut sockets.to_target };
        if batch.put(delivery) {
            self.refused += sockets.flush(self.near);
        }
        Ok(Sent::Taken)
    }

    fn flush(&mut self) -> io::Result<u64> {
        Ok(self.sockets.borrow_mut().flush(self.near) + mem::take(&mut self.refused))
    }

    fn poll_gone(&mut self, now: Instant) -> Option<u32> {
        self.sockets.borrow_mut().poll_gone(now)
    }

    fn next_check(&self) -> Option<Instant> {
        self.sockets.borrow().clients.next_check()
    }
}
