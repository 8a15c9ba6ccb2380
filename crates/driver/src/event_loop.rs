//! The loop of one thread that owns many machines, each with a socket and an application of its own. Answers are taken
//! from all who have some, then machines send a batch each in the order in which they came to have something to send,
//! and after a few batches there is another look. So what is in memory is what is in flight (if the machines share it:
//! [`FramePool`](rdt_transport::FramePool)) and nobody waits for more than a batch of each other.

mod turns;

use std::io;
use std::time::Duration;

use rdt_transport::Endpoint;
use rdt_udp::{BusyPoll, PollSet};

use crate::{Application, Connected, Waker, clock};
use turns::Turns;
pub use turns::{Ended, Member};

/// Batches sent between two looks at what arrived: until then nobody's memory is free again. Looking after each or each
/// second batch was no faster.
const BETWEEN_LOOKS: usize = 4;

/// Many machines on one thread.
pub struct Many<E, A> {
    turns: Turns<E, Connected, A>,
    watch: PollSet,
    busy_poll: BusyPoll,
    /// Who has not ended.
    left: usize,
}

impl<E: Endpoint<Peer = ()>, A: Application<E>> Many<E, A> {
    /// None yet.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn new() -> io::Result<Self> {
        Ok(Self { turns: Turns::new(), watch: PollSet::new()?, busy_poll: BusyPoll::new(), left: 0 })
    }

    /// A handle to have all applications asked.
    pub fn waker(&self) -> Waker {
        self.watch.waker()
    }

    /// One more.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn add(&mut self, member: Member<E, Connected, A>) -> io::Result<()> {
        let socket = member.socket.io().socket();
        self.watch.add(self.turns.next_key(), socket)?;
        self.turns.add(clock::now(), member);
        self.left += 1;
        Ok(())
    }

    /// Runs all of them until each has ended, on the thread that calls.
    ///
    /// # Errors
    /// The system's, when it is no more possible to wait. The end of one is not that of the others.
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

    /// Takes in what arrived and is due; waits for it if there is nothing else to do.
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
