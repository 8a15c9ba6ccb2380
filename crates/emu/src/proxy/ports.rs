//! The exchange as a relay sees it: a near port, a far port, and something to wait on. All belong to one thread.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rdt_emulator::Delivery;

use super::exchange::{Exchange, Take};
use crate::port::{Buffers, Port, Sent};
use crate::wait::{Look, Seen};

/// The exchange, which its ports share.
pub(crate) type Shared = Rc<RefCell<Exchange>>;

/// The port of the clients.
pub(crate) struct Near {
    exchange: Shared,
    /// Packets that a full stage could not send.
    refused: u64,
}

/// The port of the target.
pub(crate) struct Far {
    exchange: Shared,
    /// As above.
    refused: u64,
}

/// What a relay between the two waits on.
pub(crate) struct Eyes(Shared);

/// All three.
pub(crate) fn of(exchange: &Shared) -> (Near, Far, Eyes) {
    let copy = || Rc::clone(exchange);
    (Near { exchange: copy(), refused: 0 }, Far { exchange: copy(), refused: 0 }, Eyes(copy()))
}

impl Port for Near {
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        self.exchange.borrow_mut().receive_near(budget, buffers, take)
    }

    fn send(&mut self, delivery: &mut Delivery) -> io::Result<Sent> {
        let mut exchange = self.exchange.borrow_mut();
        if exchange.to_clients.put(delivery) {
            self.refused += exchange.flush_near();
        }
        Ok(Sent::Taken)
    }

    fn flush(&mut self) -> io::Result<u64> {
        Ok(self.exchange.borrow_mut().flush_near() + mem::take(&mut self.refused))
    }

    fn poll_gone(&mut self, now: Instant) -> Option<u32> {
        self.exchange.borrow_mut().poll_gone(now)
    }

    fn next_check(&self) -> Option<Instant> {
        self.exchange.borrow().next_check()
    }
}

impl Port for Far {
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        Ok(self.exchange.borrow_mut().receive_far(budget, buffers, take))
    }

    fn send(&mut self, delivery: &mut Delivery) -> io::Result<Sent> {
        let mut exchange = self.exchange.borrow_mut();
        if exchange.to_target.put(delivery) {
            self.refused += exchange.flush_far();
        }
        Ok(Sent::Taken)
    }

    fn flush(&mut self) -> io::Result<u64> {
        Ok(self.exchange.borrow_mut().flush_far() + mem::take(&mut self.refused))
    }
}

impl Look for Eyes {
    fn look(&mut self, timeout: Option<Duration>) -> io::Result<Seen> {
        self.0.borrow_mut().look(timeout)
    }
}
