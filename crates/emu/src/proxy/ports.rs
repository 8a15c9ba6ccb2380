//! The two ports of the proxy for a relay, and the poll of both. They share the sockets, on one
//! thread.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rdt_emulator::Delivery;

use super::sockets::ProxySockets;
use crate::port::{Buffers, Port, Sent, Take};
use crate::waiter::{PollPorts, Readiness};

pub(crate) type Shared = Rc<RefCell<ProxySockets>>;

pub(crate) struct Near {
    sockets: Shared,
    /// Packets refused when a full batch was sent, since the last flush.
    refused: u64,
}

pub(crate) struct Far {
    sockets: Shared,
    /// Packets refused when a full batch was sent, since the last flush.
    refused: u64,
}

pub(crate) struct SharedPoll(Shared);

pub(crate) fn of(sockets: &Shared) -> (Near, Far, SharedPoll) {
    let copy = || Rc::clone(sockets);
    (Near { sockets: copy(), refused: 0 }, Far { sockets: copy(), refused: 0 }, SharedPoll(copy()))
}

impl Port for Near {
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        self.sockets.borrow_mut().receive_near(budget, buffers, take)
    }

    fn send(&mut self, delivery: &mut Delivery) -> io::Result<Sent> {
        let mut sockets = self.sockets.borrow_mut();
        if sockets.to_clients.put(delivery) {
            self.refused += sockets.flush_near();
        }
        Ok(Sent::Taken)
    }

    fn flush(&mut self) -> io::Result<u64> {
        Ok(self.sockets.borrow_mut().flush_near() + mem::take(&mut self.refused))
    }

    fn poll_gone(&mut self, now: Instant) -> Option<u32> {
        self.sockets.borrow_mut().poll_gone(now)
    }

    fn next_check(&self) -> Option<Instant> {
        self.sockets.borrow().next_check()
    }
}

impl Port for Far {
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        Ok(self.sockets.borrow_mut().receive_far(budget, buffers, take))
    }

    fn send(&mut self, delivery: &mut Delivery) -> io::Result<Sent> {
        let mut sockets = self.sockets.borrow_mut();
        if sockets.to_target.put(delivery) {
            self.refused += sockets.flush_far();
        }
        Ok(Sent::Taken)
    }

    fn flush(&mut self) -> io::Result<u64> {
        Ok(self.sockets.borrow_mut().flush_far() + mem::take(&mut self.refused))
    }
}

impl PollPorts for SharedPoll {
    fn poll_ports(&mut self, timeout: Option<Duration>) -> io::Result<Readiness> {
        self.0.borrow_mut().poll_ports(timeout)
    }
}
