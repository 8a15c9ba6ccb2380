//! One connection in its set: its address, and what the set counts of it.

use std::time::{Duration, Instant};

use super::address::PathProbe;
use super::{AddressKey, ConnectionId, ConnectionSet, Key, Slot};
use crate::connection::Connection;
use crate::peers::account::Account;
use crate::sender::earlier;

/// Time without data after which a connection is idle. Longer than round trips and outages, so that
/// no packet in flight finds a replay window that was cut.
const QUIET_TIME: Duration = Duration::from_secs(5);

/// State of one connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub(super) struct Entry<P> {
    /// Boxed so that the table of entries grows in small steps.
    pub(super) connection: Box<Connection>,
    /// Address that the peer has proved, or to which this side opened the connection.
    pub(super) peer: P,
    /// Connection ID of the peer under which the entry is in `Native::by_remote`.
    pub(super) remote_id: Option<u64>,
    /// New address of the peer, which is not proved yet.
    pub(super) probe: Option<Box<PathProbe<P>>>,
    /// Association to which the connection belongs.
    pub(super) association: Option<u64>,
    pub(super) account: Account,
    /// True if the application has no handle any more.
    pub(super) is_released: bool,
    /// True if the connection has ended and was released: it only repeats its last answers.
    pub(super) is_ended: bool,
    /// True if the connection has nothing more to do: it has no timer.
    pub(super) is_over: bool,
    /// True if the whole outgoing stream was delivered.
    is_delivered: bool,
    /// True if data arrived since `quiet_from`.
    pub(super) is_active: bool,
    /// Time from which the present quiet time counts; `None` before the first timer.
    quiet_from: Option<Instant>,
}

impl<P> Entry<P> {
    pub(super) fn new(peer: P, connection: Connection, slot: Slot, association: Option<u64>) -> Self {
        Self {
            connection: Box::new(connection),
            peer,
            remote_id: None,
            probe: None,
            association,
            account: Account { slot: Some(slot), ..Account::default() },
            is_released: false,
            is_ended: false,
            is_over: false,
            is_delivered: false,
            is_active: true,
            quiet_from: None,
        }
    }

    /// Returns the time at which something is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.is_over {
            return None;
        }
        let probe = self.probe.as_ref().and_then(|probe| probe.deadline());
        earlier(self.connection.poll_timeout(), probe)
    }

    /// Returns true once, when the whole outgoing stream was delivered.
    pub(super) fn notes_delivery(&mut self) -> bool {
        let was_delivered = std::mem::replace(&mut self.is_delivered, self.connection.is_delivered());
        self.is_delivered && !was_delivered
    }

    /// Handles a timer: releases memory if no data arrived for [`QUIET_TIME`].
    pub(super) fn on_timer(&mut self, now: Instant) {
        if self.quiet_from.is_some_and(|from| now.saturating_duration_since(from) < QUIET_TIME) {
            return;
        }
        self.quiet_from = Some(now);
        if !std::mem::take(&mut self.is_active) {
            self.connection.shrink();
        }
    }
}

impl<P: AddressKey> ConnectionSet<P> {
    /// Updates what the set knows of a connection after it changed, and queues it for transmission.
    pub(super) fn process_output(&mut self, id: u64) {
        self.update(id);
        self.queue(id);
    }

    /// Like [`process_output`](Self::process_output), without its timer: that is scheduled after
    /// the transmission, once for all that happened before.
    pub(super) fn process_input(&mut self, id: u64) {
        self.note(id);
        self.queue(id);
    }

    fn queue(&mut self, id: u64) {
        if let Some(entry) = self.native.connections.get_mut(&id)
            && !std::mem::replace(&mut entry.account.is_queued, true)
        {
            self.ready.push_back(Key::Native(id));
        }
    }

    /// Updates what the set knows of a connection after it changed.
    pub(super) fn update(&mut self, id: u64) {
        self.note(id);
        let Some(entry) = self.native.connections.get_mut(&id) else { return };
        let deadline = entry.deadline();
        self.timers.schedule(&mut entry.account, Key::Native(id), deadline);
    }

    /// Like [`update`](Self::update), without its timer.
    fn note(&mut self, id: u64) {
        let Some(entry) = self.native.connections.get_mut(&id) else { return };
        while let Some(event) = entry.connection.poll_event() {
            if !entry.is_released {
                self.native.events.push_back((ConnectionId(id), event));
            }
        }
        if !entry.connection.is_unanswered() {
            self.native.opening.remove(&id);
        }
        if let Some(remote_id) = entry.connection.remote_id()
            && entry.remote_id != Some(remote_id)
        {
            if let Some(before) = entry.remote_id.replace(remote_id) {
                self.native.by_remote.remove(&(before, id));
            }
            self.native.by_remote.insert((remote_id, id));
        }
        if let Some(associated) = entry.connection.take_associated() {
            entry.association =
                Some(self.native.held.insert(entry.peer, entry.connection.secret(), associated));
        }
        if entry.is_released && entry.connection.closed().is_some() {
            entry.connection.discard_aborted();
        }
        let offered = entry.connection.offered();
        let offered = (offered > 0).then_some(offered);
        self.memory.count(&mut entry.account, entry.connection.memory(), offered);
        if let Some(closed) = entry.connection.closed() {
            // The peer may be gone, so the next connection finds out by a handshake.
            if let Some(association) = entry.association.filter(|_| closed.is_silence()) {
                self.native.held.remove(association);
            }
            self.free_ended_slot(id);
        }
    }

    /// Notes whether a connection has nothing more to do; if so, removes it unless it has a handle.
    pub(super) fn remove_if_over(&mut self, now: Instant, id: u64) {
        let Some(entry) = self.native.connections.get_mut(&id) else { return };
        // The timer that ended the connection may have been handled at a later time than `now`.
        entry.is_over |= entry.connection.is_drained(now);
        if entry.is_over && entry.is_released {
            self.remember_path(now, id);
            self.remove(id);
        }
    }

    /// Removes a connection, if it is still there.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(mut entry) = self.native.connections.remove(&id) else { return };
        self.native.removed += 1;
        if let Some((fin_ack, repeated_until)) = entry.connection.last_fin_ack() {
            self.native.fin_acks.insert(id, fin_ack, repeated_until);
        }
        self.forget(&mut entry.account, Key::Native(id));
        if let Some(remote_id) = entry.remote_id {
            self.native.by_remote.remove(&(remote_id, id));
        }
        if let Some(ip_of) = self.config.ip_of {
            self.native.by_host.remove(ip_of(&entry.peer), id);
        }
        if let Some(association) = entry.association {
            let stats = entry.connection.stats();
            self.native.held.add_bytes(association, stats.sender.bytes_written + stats.receiver.bytes);
        }
        drop(entry);
        if self.native.connections.len() == 0 {
            self.native.pools.shrink();
            self.native.ended.forget();
        }
    }

    /// Handles the timer of a connection, if it is due.
    pub(in crate::peers) fn on_native_timer(&mut self, now: Instant, id: u64) {
        let Some(entry) = self.native.connections.get_mut(&id) else { return };
        entry.account.timer = None;
        let deadline = entry.deadline();
        if deadline.is_none_or(|at| at > now) {
            return self.timers.schedule(&mut entry.account, Key::Native(id), deadline);
        }
        entry.connection.handle_timeout(now);
        entry.on_timer(now);
        entry.is_over = entry.connection.is_drained(now);
        if let Some(probe) = &mut entry.probe
            && probe.handle_timeout(now)
        {
            entry.probe = None;
        }
        self.process_input(id);
    }
}
