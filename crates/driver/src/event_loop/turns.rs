//! Order in which the endpoints of a thread send. Owns the members; makes no system call of its own
//! and does not wait.

use std::collections::VecDeque;
use std::time::Instant;

use rdt_transport::Endpoint;
use rdt_transport::drive::{Budget, Turn, send_out, take_in};
use rdt_udp::MAX_SEGMENTS;

use crate::run::BATCHES;
use crate::{Application, Flow, Refill, Socket, SocketError};

/// An endpoint with its socket and application.
#[derive(Debug)]
pub struct Member<E, S, A> {
    /// The protocol state machine.
    pub endpoint: E,
    /// Socket of the endpoint.
    pub socket: S,
    /// Application that supplies the endpoint's data and processes its events.
    pub application: A,
}

/// Member whose application is done, or whose socket failed.
#[derive(Debug)]
pub struct Ended<E, S, A> {
    /// The member in its last state.
    pub member: Member<E, S, A>,
    /// `Err` if the socket became unusable.
    pub result: Result<(), SocketError>,
}

struct Slot<E, S, A> {
    member: Member<E, S, A>,
    queued: bool,
    /// Last result of [`Application::pump`].
    flow: Flow,
    blocked: bool,
}

/// Members and their send queue. Keys are 0, 1, 2 in the order of [`Turns::add`].
pub(super) struct Turns<E, S, A> {
    slots: Vec<Option<Slot<E, S, A>>>,
    /// Time at which each member is due even without input; `None` without such a time. An array of
    /// its own, because all of them are read before each wait.
    deadlines: Vec<Option<Instant>>,
    /// Keys of the members that may have something to send, the one that has waited longest first.
    queue: VecDeque<usize>,
    ended: Vec<(usize, Ended<E, S, A>)>,
}

impl<E, S, A> Turns<E, S, A>
where
    E: Endpoint,
    S: Socket<Peer = E::Peer>,
    A: Application<E>,
{
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), deadlines: Vec::new(), queue: VecDeque::new(), ended: Vec::new() }
    }

    pub(super) fn next_key(&self) -> usize {
        self.slots.len()
    }

    /// Adds a member that is due at `now`; returns its key.
    pub(super) fn add(&mut self, now: Instant, member: Member<E, S, A>) -> usize {
        let flow = Flow::Wait(None);
        self.slots.push(Some(Slot { member, queued: false, flow, blocked: false }));
        self.deadlines.push(Some(now));
        self.slots.len() - 1
    }

    /// Returns true if no member has anything to send.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the earliest time at which a member is due without input.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.iter().flatten().min().copied()
    }

    pub(super) fn wake(&mut self, now: Instant) {
        for (slot, deadline) in self.slots.iter().zip(&mut self.deadlines) {
            *deadline = slot.as_ref().map(|_| now);
        }
    }

    pub(super) fn look_at_due(&mut self, now: Instant) {
        for key in 0..self.deadlines.len() {
            if self.deadlines[key].is_some_and(|deadline| deadline <= now) {
                self.look(now, key);
            }
        }
    }

    /// Processes the input and timers of a member, and queues it for sending.
    pub(super) fn look(&mut self, now: Instant, key: usize) {
        let Some(slot) = &mut self.slots[key] else { return };
        let mut turn = Turn::default();
        let Member { endpoint, socket, .. } = &mut slot.member;
        take_in(endpoint, socket, now, Budget::default(), &mut turn);
        // The member's next deadline is known only after its turn in [`Turns::send`].
        self.deadlines[key] = turn.more.then_some(now);
        if !slot.queued {
            slot.queued = true;
            self.queue.push_back(key);
        }
    }

    /// Removes the first member from the queue, calls its application, and sends at most one batch
    /// of it. A member that sent goes to the end of the queue. Returns the key of a member whose
    /// socket became full (true) or writable again (false).
    pub(super) fn send(&mut self, now: Instant) -> Option<(usize, bool)> {
        let key = self.queue.pop_front()?;
        let slot = self.slots[key].as_mut()?;
        let Member { endpoint, socket, application } = &mut slot.member;
        if slot.flow != Flow::Done {
            slot.flow = application.pump(now, endpoint);
        }
        let (mut turn, mut asks) = (Turn::default(), false);
        // A member alone in the queue may send several batches. A limit of one datagram means one
        // batch, because a batch is never split.
        let batches = if self.queue.is_empty() { BATCHES } else { 1 };
        send_out(endpoint, socket, now, (batches - 1) * MAX_SEGMENTS + 1, &mut turn, |endpoint| {
            asks |= application.refill(endpoint, batches) == Refill::Ask;
        });
        let error = socket.take_error();
        let goes_on = turn.more || turn.transmitted > 0;
        if error.is_some() || (slot.flow == Flow::Done && !goes_on) {
            self.end(key, error.map_or(Ok(()), Err));
            return None;
        }
        slot.queued = goes_on;
        if goes_on {
            self.queue.push_back(key);
        }
        let unread = self.deadlines[key].is_some_and(|deadline| deadline <= now);
        let again = unread || asks || slot.flow == Flow::Again;
        let wanted = if let Flow::Wait(wanted) = slot.flow { wanted } else { None };
        self.deadlines[key] = if again { Some(now) } else { turn.deadline.into_iter().chain(wanted).min() };
        let changed = std::mem::replace(&mut slot.blocked, turn.blocked) != turn.blocked;
        changed.then_some((key, turn.blocked))
    }

    /// Returns the members that ended since the last call, with their keys.
    pub(super) fn take_ended(&mut self) -> Vec<(usize, Ended<E, S, A>)> {
        std::mem::take(&mut self.ended)
    }

    fn end(&mut self, key: usize, result: Result<(), SocketError>) {
        self.deadlines[key] = None;
        if let Some(Slot { member, .. }) = self.slots[key].take() {
            self.ended.push((key, Ended { member, result }));
        }
    }

    #[cfg(test)]
    pub(super) fn member(&self, key: usize) -> Option<&Member<E, S, A>> {
        self.slots.get(key)?.as_ref().map(|slot| &slot.member)
    }

    #[cfg(test)]
    pub(super) fn member_mut(&mut self, key: usize) -> &mut Member<E, S, A> {
        &mut self.slots[key].as_mut().expect("it has not ended").member
    }
}
