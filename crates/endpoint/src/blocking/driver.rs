//! Driver of an endpoint: reads arriving datagrams and handles timers.
//!
//! Exactly one thread at a time runs the event loop ("drives"). If a single application thread is
//! blocked in a call, that thread drives, so a datagram wakes the thread that wants it. Otherwise
//! the endpoint's own thread drives. While application threads drive, the endpoint's thread polls
//! every 500 us whether it must take over.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdt_udp::{SocketError, clock};

use super::wait::{DriverWaker, Wait, waker, with_context};
use crate::core::{Core, Shared};
use crate::error::Stopped;

/// Delay of output after input has woken an application thread, whose next write or read sends it,
/// so that ACKs travel with its data. Much longer than a wake-up, much shorter than a delayed ACK.
const OUTPUT_GRACE: Duration = Duration::from_micros(250);
/// Interval at which the endpoint's thread checks whether application threads still drive. After a
/// call has stopped driving, a timer may be this late: much less than a delayed ACK.
const TAKEOVER_POLL_INTERVAL: Duration = Duration::from_micros(500);
/// Polls during one call, 10 ms in all, before the endpoint's thread sleeps until that call ends.
const POLLS_BEFORE_SLEEP: u32 = 20;

/// Driver of one endpoint. Shared by its thread and its calls.
pub(super) struct Driver {
    shared: Arc<Shared>,
    /// Held by the thread that drives.
    wait: Mutex<Wait>,
    /// Exists for a socket. On an emulated network, only the endpoint's thread drives.
    waker: Option<Arc<DriverWaker>>,
    thread: OnceLock<Thread>,
    /// Number of calls that are blocked.
    waiting: AtomicUsize,
    /// Number of calls that have driven.
    calls: AtomicU64,
    /// True if a single call, blocked while the endpoint's thread drove, should drive instead.
    is_requested: AtomicBool,
    /// True if the endpoint's thread sleeps until the driving call ends.
    is_asleep: AtomicBool,
}

struct Turn {
    more: bool,
    deadline: Option<Instant>,
    is_blocked: bool,
    has_woken: bool,
}

impl Driver {
    pub(super) fn spawn(shared: Arc<Shared>, wait: Wait) -> io::Result<Arc<Self>> {
        let driver = Arc::new(Self::new(shared, wait));
        let own = Arc::clone(&driver);
        let run = move || {
            let _abandon = Abandon(&own.shared);
            own.run();
        };
        let thread = thread::Builder::new().name("rdt-endpoint".to_owned()).spawn(run)?;
        driver.thread.get_or_init(|| thread.thread().clone());
        Ok(driver)
    }

    /// Creates the driver of an endpoint whose thread does not run yet.
    fn new(shared: Arc<Shared>, wait: Wait) -> Self {
        Self {
            shared,
            waker: wait.driver_waker(),
            wait: Mutex::new(wait),
            thread: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            is_requested: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
        }
    }

    /// Waits until `poll` is ready. Returns `None` after `timeout`.
    pub(super) fn block_on<T>(
        &self,
        timeout: Option<Duration>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        with_context(|cx| {
            if let Poll::Ready(value) = poll(cx) {
                return Some(value);
            }
            // A timeout beyond the clock's range is none.
            let deadline = timeout.and_then(|timeout| clock::now().checked_add(timeout));
            let is_alone = self.waiting.fetch_add(1, Ordering::SeqCst) == 0;
            let waiting = Waiting(&self.waiting);
            if is_alone && let Some(driver_waker) = &self.waker {
                if let Some(wait) = self.try_lock() {
                    return Call::new(self, driver_waker, wait, waiting).drive(deadline, cx, poll);
                }
                self.is_requested.store(true, Ordering::Relaxed);
            }
            park(deadline, cx, poll)
        })
    }

    pub(super) fn wait_for<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        loop {
            if let Some(value) = self.block_on(None, &mut poll) {
                return value;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wait> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Wait>> {
        match self.wait.try_lock() {
            Ok(wait) => Some(wait),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Runs the endpoint's thread until the endpoint is closed and has no connection.
    fn run(&self) {
        let waker = waker(self.waker.as_ref());
        let cx = Context::from_waker(&waker);
        let mut wait = self.lock();
        loop {
            let turn = self.turn(&cx);
            if self.shared.with(|core, _| core.is_over()) {
                return;
            }
            // Let the woken call drive when it blocks next.
            if turn.has_woken
                && self.is_requested.swap(false, Ordering::Relaxed)
                && self.waiting.load(Ordering::SeqCst) <= 1
            {
                self.shared.with(Core::suspend_timers);
                drop(wait);
                wait = self.wait_for_takeover();
            } else if !turn.more {
                self.wait(&mut wait, turn.deadline, turn.is_blocked);
            }
        }
    }

    /// Waits until this thread must drive again: calls are blocked and none of them drives, or no
    /// call has driven for one interval.
    fn wait_for_takeover(&self) -> MutexGuard<'_, Wait> {
        let mut calls = self.calls.load(Ordering::Relaxed);
        let mut polls = 0;
        loop {
            thread::park_timeout(TAKEOVER_POLL_INTERVAL);
            let now = self.calls.load(Ordering::Relaxed);
            let has_driven = std::mem::replace(&mut calls, now) != now;
            if let Some(wait) = self.try_lock()
                && (!has_driven || self.waiting.load(Ordering::SeqCst) > 0)
            {
                return wait;
            }
            polls = if has_driven { 0 } else { polls + 1 };
            if polls < POLLS_BEFORE_SLEEP {
                continue;
            }
            polls = 0;
            self.sleep_until_free();
            if self.waiting.load(Ordering::SeqCst) > 0
                && let Some(wait) = self.try_lock()
            {
                return wait;
            }
        }
    }

    /// Sleeps until the driving call ends.
    fn sleep_until_free(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in the drop of `Call`: it sees the flag, or the lock is free.
        fence(Ordering::SeqCst);
        while self.is_asleep.load(Ordering::Relaxed) && self.try_lock().is_none() {
            thread::park();
        }
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Sends pending output, reads datagrams, handles timers and sends what follows.
    fn turn(&self, cx: &Context<'_>) -> Turn {
        self.shared.with(|core, now| {
            core.set_driver(cx);
            let mut more = core.is_output_pending && core.output(now).more;
            core.io.set_readable();
            more |= core.input(now).more;
            let has_woken = core.is_output_pending;
            if !has_woken {
                more |= core.output(now).more;
            }
            let grace = has_woken.then(|| now + OUTPUT_GRACE);
            Turn { more, deadline: core.arm(grace), is_blocked: core.is_blocked, has_woken }
        })
    }

    fn wait(&self, wait: &mut Wait, deadline: Option<Instant>, writable: bool) {
        if let Err(error) = wait.wait(deadline, writable) {
            let error = Arc::new(SocketError::Receive(error));
            self.shared.with(|core, _| core.stop(Stopped::Socket(error)));
        }
    }
}

/// Parks the calling thread until `poll` is ready. Returns `None` after the deadline.
fn park<T>(
    deadline: Option<Instant>,
    cx: &mut Context<'_>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    loop {
        match deadline.map(|deadline| deadline.saturating_duration_since(clock::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
        }
        if let Poll::Ready(value) = poll(cx) {
            return Some(value);
        }
    }
}

/// Counts a waiting call until it ends.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Call that drives the endpoint while it waits.
struct Call<'a> {
    driver: &'a Driver,
    driver_waker: &'a Arc<DriverWaker>,
    /// `None` once the call has stopped driving.
    wait: Option<MutexGuard<'a, Wait>>,
    waiting: Option<Waiting<'a>>,
}

impl<'a> Call<'a> {
    fn new(
        driver: &'a Driver,
        driver_waker: &'a Arc<DriverWaker>,
        wait: MutexGuard<'a, Wait>,
        waiting: Waiting<'a>,
    ) -> Self {
        driver.calls.fetch_add(1, Ordering::Relaxed);
        driver_waker.start();
        Self { driver, driver_waker, wait: Some(wait), waiting: Some(waiting) }
    }

    fn drive<T>(
        mut self,
        deadline: Option<Instant>,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let waker = waker(Some(self.driver_waker));
        let driver_cx = Context::from_waker(&waker);
        loop {
            let turn = self.driver.turn(&driver_cx);
            if let Poll::Ready(value) = poll(cx) {
                return Some(value);
            }
            if deadline.is_some_and(|deadline| deadline <= clock::now()) {
                return None;
            }
            if !turn.more
                && !self.driver_waker.take_woke_itself()
                && let Some(wait) = &mut self.wait
            {
                let until = [turn.deadline, deadline].into_iter().flatten().min();
                self.driver.wait(wait, until, turn.is_blocked);
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let driver = self.driver;
        if thread::panicking() {
            driver.shared.with(Core::abandon);
        }
        // The endpoint's thread polls soon, so no timer needs to wake a driver until then.
        driver.shared.with(Core::suspend_timers);
        self.driver_waker.end();
        self.wait = None;
        self.waiting = None;
        fence(Ordering::SeqCst);
        let is_asleep = driver.is_asleep.swap(false, Ordering::Relaxed);
        if (is_asleep || driver.waiting.load(Ordering::SeqCst) > 0)
            && let Some(thread) = driver.thread.get()
        {
            thread.unpark();
        }
    }
}

/// Ends the endpoint with its thread, also after a panic: otherwise calls would wait for ever.
struct Abandon<'a>(&'a Shared);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.with(Core::abandon);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::mpsc;

    use rdt_crypto::{Entropy, StaticKey};
    use rdt_testing::Watchdog;

    use super::super::Endpoint;
    use super::*;
    use crate::config::{Connect, EndpointConfig, Listen};
    use crate::io::Io;

    /// Beside other load the endpoint's thread may drive for long, so there is no limit on the
    /// number of rounds.
    #[test]
    fn waiting_call_takes_driving_over() {
        let _watchdog = Watchdog::new();
        let key = Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])));
        let bind = || Endpoint::bind("127.0.0.1:0", EndpointConfig::default()).unwrap();
        let (client, server) = (bind(), bind());
        let listener = server.listen(Listen::new(Arc::clone(&key))).unwrap();
        let mut near = client.connect(server.local_addr(), Connect::to(key.public())).unwrap();
        let mut byte = [0];
        near.write_all(&byte).unwrap();
        let mut far = listener.accept().unwrap();
        far.read_exact(&mut byte).unwrap();
        let calls = || [&client.1, &server.1].map(|driver| driver.calls.load(Ordering::Relaxed));
        thread::scope(|scope| {
            scope.spawn(move || {
                while byte == [0] {
                    far.write_all(&byte).unwrap();
                    far.read_exact(&mut byte).unwrap();
                }
            });
            let mut is_driven = false;
            while !is_driven {
                let before = calls();
                for _ in 0..200 {
                    near.read_exact(&mut byte).unwrap();
                    near.write_all(&byte).unwrap();
                }
                let after = calls();
                // Each round trip has one wait of each side.
                is_driven = (0..2).all(|side| after[side] - before[side] > 150);
                near.read_exact(&mut byte).unwrap();
                near.write_all(&[u8::from(is_driven)]).unwrap();
            }
        });
        for driver in [&client.1, &server.1] {
            assert_eq!(driver.waiting.load(Ordering::SeqCst), 0);
        }
    }

    /// The endpoint has no connection, so no timer ends the wait of `accept` either.
    #[test]
    fn close_wakes_accept_that_drives() {
        let _watchdog = Watchdog::new();
        let key = Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])));
        let config = EndpointConfig::default();
        let io = Io::bind("127.0.0.1:0", config.udp).unwrap();
        let wait = Wait::on(&io).unwrap();
        let shared = Shared::new(io, config, clock::now).unwrap();
        let driver = Driver::new(Arc::clone(&shared), wait);
        let backlog = shared.with(|core, _| core.listen(Listen::new(key))).unwrap();
        let (ended, end) = mpsc::channel();
        let polls = AtomicUsize::new(0);
        let is_closed = thread::scope(|scope| {
            scope.spawn(|| {
                let accepted = driver.wait_for(|cx| {
                    let accepted = shared.with(|core, _| core.poll_accept(cx, &backlog));
                    polls.fetch_add(1, Ordering::SeqCst);
                    accepted
                });
                ended.send(accepted.is_err()).unwrap();
            });
            while polls.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            shared.with(|core, now| core.close_all(now, 0, ""));
            let is_closed = end.recv_timeout(Duration::from_secs(20));
            // Lets the call go on if it was not woken.
            shared.with(|core, _| core.wake_driver());
            is_closed
        });
        assert_eq!(is_closed, Ok(true));
        assert_eq!(driver.calls.load(Ordering::Relaxed), 1, "the call drove");
    }
}
