//! Relay loop in real time: packets enter the path on arrival, and leave it when they are due.
//!
//! The relay does not inspect packets. A packet enters the path with its arrival time, so a busy
//! relay delays packets only on departure. That delay is measured as lateness.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use rdt_emulator::{Delivery, Direction, Dropped, LateDrop, Packet};
use rdt_udp::clock;

use crate::account::{Account, Lane};
use crate::accounts::Accounts;
use crate::paths::{Change, Changes, Paths};
use crate::port::{Buffers, Port, Sent};
use crate::waiter::Wait;

/// Packets read from one port before the relay checks the clock and the other port again. Due
/// packets wait during these reads.
const READ_BUDGET_PACKETS: usize = 32;
/// Packets that a port may read beyond the budget: GRO coalesces up to 64.
const MAX_COALESCED_PACKETS: usize = 63;
/// Packets delivered before the ports are read again: more than were read, even if the path
/// duplicated each, so that the backlog of a late relay shrinks.
const MAX_DELIVERIES: usize = 2 * (READ_BUDGET_PACKETS + MAX_COALESCED_PACKETS) + 1;

/// Limit on the turns after the end is requested: 32,000 packets. So a peer that keeps sending
/// cannot delay the end for ever.
const MAX_LAST_TURNS: usize = 1000;

/// Event of a relay.
pub(crate) enum Event<'a> {
    /// A packet arrives, before it enters the link. Packets of a direction are numbered from 0 in
    /// this order.
    Arrival(Direction, Instant, &'a Packet),
    /// The link dropped the packet that arrived last.
    Drop(&'a Dropped),
    /// The link dropped a packet after it had accepted it, or its duplicate. Reported at the end of
    /// the relay's turn, for up to [`late_drops`](Observer::late_drops) packets per turn.
    LateDrop(Direction, &'a LateDrop),
    /// Number of late drops of a direction beyond those. Reported once, at the end.
    FreedDrops(u64),
    /// A packet departs from the link at this time, which is not before its due time.
    Delivery(Direction, Instant, &'a Delivery),
    /// A turn of the relay's loop ends at this time.
    Turn(Instant, &'a Accounts<'a>),
    /// A path was changed.
    Change(&'a Change),
}

pub(crate) trait Observer {
    fn on(&mut self, event: &Event<'_>);

    /// Returns the number of late drops per turn that are recorded for [`Event::LateDrop`].
    fn late_drops(&self) -> usize {
        0
    }

    /// Returns the time, if there is one, by which a turn must take place even without packets.
    fn next_turn(&self) -> Option<Instant> {
        None
    }
}

impl Observer for () {
    fn on(&mut self, _event: &Event<'_>) {}
}

/// Path between two ports. Packets received at the near port travel forward.
pub(crate) struct Relay<N, F, T = ()> {
    near: N,
    far: F,
    paths: Paths,
    forward: Lane,
    reverse: Lane,
    buffers: Buffers,
    changes: Pending,
    observer: T,
}

impl<N: Port, F: Port, T: Observer> Relay<N, F, T> {
    /// Creates a relay, and starts the schedules of its path.
    pub(crate) fn new(paths: impl Into<Paths>, near: N, far: F, observer: T) -> Self {
        let mut paths = paths.into();
        paths.watch(observer.late_drops());
        paths.start(clock::now());
        Self {
            near,
            far,
            paths,
            forward: Lane::new(Direction::Forward),
            reverse: Lane::new(Direction::Reverse),
            buffers: Buffers::default(),
            changes: Pending::default(),
            observer,
        }
    }

    /// Takes changes of the path from this queue, before packets are read.
    pub(crate) fn with_changes(mut self, changes: Option<Changes>) -> Self {
        if changes.is_some() {
            self.paths.allow_changes();
        }
        self.changes.queue = changes;
        self
    }

    /// Relays packets until `wait` reports the end.
    pub(crate) fn run(&mut self, wait: &mut impl Wait) -> io::Result<()> {
        loop {
            let read = self.turn()?;
            // If more packets may wait, do not sleep, only check whether the relay must end.
            let deadline = if read { Some(clock::now()) } else { self.next_wakeup() };
            if !wait.wait(deadline)? {
                return self.last_turns();
            }
        }
    }

    /// Reads the packets that arrived before the end, so that the account includes them.
    fn last_turns(&mut self) -> io::Result<()> {
        for _ in 0..MAX_LAST_TURNS {
            if !self.turn()? {
                break;
            }
        }
        Ok(())
    }

    /// Returns the final accounts of each path, forward first; empty unless there is one for each
    /// destination.
    #[cfg(target_os = "linux")]
    pub(crate) fn destinations(&self) -> Vec<[Account; 2]> {
        let mut all = self.paths.accounts(clock::now());
        all.iter_mut().flatten().for_each(|account| account.ledger.abandon());
        all
    }

    /// Discards the packets on the path. Returns the accounts, forward first, and the observer.
    pub(crate) fn finish(mut self) -> ([Account; 2], T) {
        for direction in [Direction::Forward, Direction::Reverse] {
            self.observer.on(&Event::FreedDrops(self.paths.freed_drops(direction)));
        }
        let now = clock::now();
        let mut accounts = [self.forward, self.reverse].map(|lane| self.paths.account(&lane, now));
        for account in &mut accounts {
            account.ledger.abandon();
        }
        (accounts, self.observer)
    }

    /// Delivers due packets and reads arrivals. Returns true if more arrivals may wait.
    fn turn(&mut self) -> io::Result<bool> {
        let Self { near, far, paths, forward, reverse, buffers, changes, observer } = self;
        changes.fetch();
        let now = forward.deliver(paths, far, buffers, observer)?;
        reverse.deliver(paths, near, buffers, observer)?;
        let mut more = forward.collect(paths, near, buffers, changes, observer)?;
        // A packet without delay is due on arrival.
        forward.deliver(paths, far, buffers, observer)?;
        more |= reverse.collect(paths, far, buffers, changes, observer)?;
        if !more {
            changes.apply(clock::now(), paths, observer);
        }
        reverse.deliver(paths, near, buffers, observer)?;
        for direction in [Direction::Forward, Direction::Reverse] {
            while let Some(dropped) = paths.pop_dropped(direction) {
                observer.on(&Event::LateDrop(direction, &dropped));
            }
        }
        while let Some(tag) = near.poll_gone(now) {
            paths.remove(tag);
        }
        observer.on(&Event::Turn(now, &Accounts { paths, lanes: [forward, reverse] }));
        Ok(more)
    }

    /// Returns when the next packet is due, or the near port or the observer requires a turn.
    fn next_wakeup(&self) -> Option<Instant> {
        let others = self.near.next_check().into_iter().chain(self.observer.next_turn());
        let others = others.chain(self.changes.next_check());
        self.paths.next_wakeup().into_iter().chain(others).min()
    }
}

/// Changes of the path that wait until the packets that arrived before them have been read.
#[derive(Default)]
struct Pending {
    queue: Option<Changes>,
    fetched: VecDeque<Change>,
}

/// Interval in which an idle relay looks for changes, which its waiter does not see.
const CHANGE_INTERVAL: Duration = Duration::from_millis(20);

impl Pending {
    /// Returns when to look for changes again; `None` if the path cannot change.
    fn next_check(&self) -> Option<Instant> {
        self.queue.as_ref().map(|_| clock::now() + CHANGE_INTERVAL)
    }

    fn fetch(&mut self) {
        if let Some(queue) = &self.queue {
            self.fetched.extend(queue.try_iter());
        }
    }

    /// Applies the changes made until `now`.
    fn apply(&mut self, now: Instant, paths: &mut Paths, observer: &mut impl Observer) {
        while self.fetched.front().is_some_and(|change| change.at <= now)
            && let Some(change) = self.fetched.pop_front()
        {
            match paths.change(change.path, change.at, change.config.clone()) {
                Ok(()) => observer.on(&Event::Change(&change)),
                // The thread of the socket has tried it before.
                Err(error) => tracing::error!(%error, "the path did not change"),
            }
        }
    }
}

impl Lane {
    /// Reads packets from `from` into the path. Returns true if more may wait.
    fn collect(
        &mut self,
        paths: &mut Paths,
        from: &mut impl Port,
        buffers: &mut Buffers,
        changes: &mut Pending,
        observer: &mut impl Observer,
    ) -> io::Result<bool> {
        let direction = self.direction;
        let read = from.receive(READ_BUDGET_PACKETS, buffers, &mut |buffers, at, packet| {
            changes.apply(at, paths, observer);
            observer.on(&Event::Arrival(direction, at, &packet));
            if let Err(dropped) = paths.push(direction, at, packet) {
                observer.on(&Event::Drop(&dropped));
                buffers.give(dropped.packet);
            }
        })?;
        Ok(read >= READ_BUDGET_PACKETS)
    }

    /// Sends due packets to `to`, and returns the last reading of the clock.
    fn deliver(
        &mut self,
        paths: &mut Paths,
        to: &mut impl Port,
        buffers: &mut Buffers,
        observer: &mut impl Observer,
    ) -> io::Result<Instant> {
        let mut now = clock::now();
        let mut delivered = 0;
        while delivered < MAX_DELIVERIES
            && let Some(mut delivery) = paths.pop(self.direction, now)
        {
            let late = now.saturating_duration_since(delivery.due);
            self.lateness.record(late);
            observer.on(&Event::Delivery(self.direction, now, &delivery));
            let refused = to.send(&mut delivery)? == Sent::Refused;
            self.refused += u64::from(refused);
            paths.on_delivered(self.direction, delivery.tag, late, refused);
            buffers.give(delivery.packet);
            delivered += 1;
            now = clock::now();
        }
        if delivered > 0 {
            self.refused += to.flush()?;
        }
        Ok(now)
    }
}

#[cfg(test)]
mod tests;
