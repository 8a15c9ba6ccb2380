//! State of an endpoint, which its streams, its driver and its handles share: the connections, the
//! I/O, and the tasks that wait for them.
//!
//! All methods are `poll_*` functions of tasks. The blocking interface calls them with a waker that
//! unparks its thread. A call that writes sends the packets. The driver reads arriving datagrams
//! and handles timers.

mod accept;
pub(crate) mod handles;
mod streams;
mod turn;
mod wakers;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::truesize;
use rdt_crypto::{PublicKey, ResetKey, ResumptionCookie};
use rdt_transport::{Closed, ConnectionId, ConnectionSet, ConnectionSetConfig};

use crate::address::{PeerAddress, host_id};
use crate::clock::Clock;
use crate::config::{EndpointConfig, ObserverFactory};
use crate::error::Stopped;
use crate::io::Io;
pub(crate) use accept::Backlog;
use wakers::{Waiting, Wakes};

/// Time of day on emulated networks, seconds since 1970: a test must not depend on the real one.
const EMULATED_UNIX_TIME: u64 = 1_800_000_000;

/// Endpoint as its handles see it.
pub(crate) struct Shared {
    core: Mutex<Core>,
    pub(crate) clock: Clock,
    pub(crate) address: SocketAddr,
}

/// State behind the lock.
#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub(crate) struct Core {
    set: ConnectionSet<PeerAddress>,
    pub(crate) io: Io,
    /// State of every connection with a handle, or in the accept queue.
    connections: BTreeMap<ConnectionId, Entry>,
    /// Connections that no call of `accept` has returned yet.
    accepted: VecDeque<ConnectionId>,
    /// Length of `accepted`, for the limit on new connections. Exists while there is a listener.
    backlog: Option<Backlog>,
    /// Maker of the listener's observers.
    observer: Option<Arc<ObserverFactory>>,
    acceptors: Waiting,
    /// Tasks that wait until there are no connections, or until nothing works any more.
    idlers: Waiting,
    /// True if a stream has one reading and one writing task, of which the newest waker counts, as
    /// `AsyncRead` and `AsyncWrite` demand. False for threads.
    pub(crate) has_one_task: bool,
    driver: Option<Waker>,
    /// Tasks that the driver wakes at these times.
    alarms: Vec<(Instant, Waker)>,
    /// Time at which the driver runs by itself; `None`: never.
    armed: Option<Instant>,
    /// Latest time at which input was handled. Datagrams may arrive after the caller read the
    /// clock, and output must not be earlier.
    present: Option<Instant>,
    /// Time for which this host was suspended before the latest turn.
    suspended: Duration,
    /// True after input has woken tasks, until their next call or the driver sends the output. It
    /// waits so that they may write first: then ACKs travel with their data.
    pub(crate) is_output_pending: bool,
    /// True while the socket's send buffer is full: the driver waits until it is writable.
    pub(crate) is_blocked: bool,
    /// True once no handle of the endpoint is left.
    is_closed: bool,
    /// True after a shutdown, whose limit was the last time to wait.
    is_shut_down: bool,
    /// Reason why nothing works any more.
    stopped: Option<Stopped>,
    wakes: Wakes,
}

/// State of a connection with a handle.
#[derive(Default)]
struct Entry {
    is_connected: bool,
    peer: Option<PublicKey>,
    resumption: Option<Box<ResumptionCookie>>,
    /// True once the outgoing stream is finished: nothing more can be written.
    is_finished: bool,
    /// Length of the outgoing stream, once the peer's application has confirmed it.
    delivered: Option<u64>,
    closed: Option<Closed>,
    readers: Waiting,
    writers: Waiting,
    /// Tasks that wait for the handshake, the delivery or the end.
    watchers: Waiting,
}

impl Entry {
    fn wake_all(&mut self, wakes: &mut Wakes) {
        for waiting in [&mut self.readers, &mut self.writers, &mut self.watchers] {
            waiting.wake(wakes);
        }
    }
}

impl Shared {
    pub(crate) fn new(io: Io, config: EndpointConfig, clock: Clock) -> std::io::Result<Arc<Self>> {
        let address = io.local_addr()?;
        let unix_time =
            if io.socket().is_some() { rdt_udp::clock::unix_time_s() } else { EMULATED_UNIX_TIME };
        let limits = ConnectionSetConfig {
            classic: None,
            max_connections: config.max_connections,
            max_connections_per_source: config.max_connections_per_source,
            max_half_open: config.max_half_open,
            memory_limit: config.memory_limit,
            connection_memory_limit: config.connection_memory_limit,
            socket_buffer: io.receive_buffer().map(truesize::socket_buffer),
            ip_of: Some(PeerAddress::ip),
            local_ip_of: Some(|address| address.0.local),
            unix_time: Some((clock(), unix_time)),
            reset_scope: ResetKey::scope(&host_id(), address, 0),
        };
        let core = Core {
            set: ConnectionSet::new(limits, config.into_entropy()?),
            io,
            connections: BTreeMap::new(),
            accepted: VecDeque::new(),
            backlog: None,
            observer: None,
            acceptors: Waiting::default(),
            idlers: Waiting::default(),
            has_one_task: false,
            driver: None,
            alarms: Vec::new(),
            armed: None,
            present: None,
            suspended: rdt_udp::clock::suspended(),
            is_output_pending: false,
            is_blocked: false,
            is_closed: false,
            is_shut_down: false,
            stopped: None,
            wakes: Wakes::default(),
        };
        Ok(Arc::new(Self { core: Mutex::new(core), clock, address }))
    }

    /// Runs `work` on the core at the present time, then wakes tasks.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let mut core = self.lock();
        let now = (self.clock)();
        let result = work(&mut core, now);
        let wakes = std::mem::take(&mut core.wakes);
        drop(core);
        wakes.wake();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
