//! Event loop of one thread with many protocol endpoints, each with a socket and an application.
//! First all received datagrams are processed. Then endpoints send one batch each, in the order in
//! which they had something to send. After [`BETWEEN_LOOKS`] batches, input is read again. So only
//! data in flight occupies memory (if the endpoints share a
//! [`FramePool`](rdt_transport::FramePool)), and an endpoint waits for at most one batch of each
//! other endpoint.

mod turns;

use std::io;
use std::time::Duration;

use rdt_transport::Endpoint;
use rdt_udp::{BusyPoll, Policy, PollSet};

use crate::{Application, Connected, Waker, clock};
use turns::Turns;
pub use turns::{Ended, Member};

/// Batches sent between two reads of input, because only received ACKs free memory. Reading after
/// one or two batches was not faster.
const BETWEEN_LOOKS: usize = 4;
/// Limit on the sockets that one poll reports as readable.
const MAX_EVENTS: usize = 64;

/// Event loop of many [`Member`]s on one thread.
pub struct Many<E, A> {
    turns: Turns<E, Connected, A>,
    watch: PollSet,
    busy_poll: BusyPoll,
    /// Number of members that have not ended.
    left: usize,
}

impl<E: Endpoint<Peer = ()>, A: Application<E>> Many<E, A> {
    /// Creates an empty loop.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            turns: Turns::new(),
            watch: PollSet::new(MAX_EVENTS)?,
            busy_poll: BusyPoll::new(Policy::Brief),
            left: 0,
        })
    }

    /// Returns a handle that makes the loop call [`Application::pump`] of all members.
    pub fn waker(&self) -> Waker {
        self.watch.waker()
    }

    /// Adds a member.
    ///
    /// # Errors
    ///
    /// Fails if the operating system cannot watch the member's socket.
    pub fn add(&mut self, member: Member<E, Connected, A>) -> io::Result<()> {
        let socket = member.socket.io().socket();
        self.watch.add(self.turns.next_key(), socket)?;
        self.turns.add(clock::now(), member);
        self.left += 1;
        Ok(())
    }

    /// Runs all members on the calling thread until each has ended.
    ///
    /// # Errors
    ///
    /// Fails only if waiting for the sockets fails; the failure of one member is in its [`Ended`].
    pub fn run(mut self) -> io::Result<Vec<Ended<E, Connected, A>>> {
        let (mut ended, mut ready) = (Vec::new(), Vec::new());
        while self.left > 0 {
            self.look(&mut ready)?;
            for _ in 0..BETWEEN_LOOKS {
                if self.turns.is_idle() {
                    break;
                }
                if let Some((key, full)) = self.turns.send(clock::now()) {
                    self.watch.set_write_interest(key, full)?;
                }
            }
            for (key, end) in self.turns.take_ended() {
                self.watch.remove(key)?;
                self.left -= 1;
                ended.push(end);
            }
        }
        Ok(ended)
    }

    /// Processes input and due timers. Waits for them if no member has anything to send.
    fn look(&mut self, ready: &mut Vec<usize>) -> io::Result<()> {
        let (now, watch) = (clock::now(), &mut self.watch);
        let mut woken = false;
        let mut poll = |time: Option<Duration>| {
            woken |= watch.poll(time, ready)?;
            Ok(woken || !ready.is_empty())
        };
        let deadline = self.turns.deadline();
        if !self.turns.is_idle() || deadline.is_some_and(|deadline| deadline <= now) {
            poll(Some(Duration::ZERO))?;
        } else {
            self.busy_poll.wait(now, deadline, poll)?;
        }
        let now = clock::now();
        if woken {
            self.turns.wake(now);
        }
        self.turns.look_at_due(now);
        for key in ready.drain(..) {
            self.turns.look(now, key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
