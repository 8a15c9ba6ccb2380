//! How late packets leave that come rarely: how well this host keeps a time.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_driver::clock;
use rdt_emulator::{Delivery, LinkConfig, Packet, Path};
use serde_json::Value;

use super::TIME;
use crate::json;
use crate::port::{Buffers, Port, Sent};
use crate::relay::Relay;
use crate::wait::{Descriptors, Stop, Wait, Waiter, Waiting};

/// From one packet to the next.
const INTERVAL: Duration = Duration::from_millis(1);

/// Percentiles of one packet a millisecond.
pub(super) fn lateness() -> io::Result<Value> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let fds = [socket.try_clone()?.into(), socket.into()].map(|fd: OwnedFd| Arc::new(fd));
    let begin = clock::now() + INTERVAL;
    let last = begin + Duration::from_millis(TIME);
    let port = Coming { next: begin, last };
    let mut relay = Relay::new(Path::new(LinkConfig::default(), 0), port, Coming { next: last, last }, ());
    let waiter = Waiter::new(Waiting::default(), Descriptors::new(fds, Stop::new()?));
    relay.run(&mut Until { waiter, last })?;
    let ([forward, _], ()) = relay.finish();
    Ok(json::lateness(&forward.lateness))
}

/// Packets that come at their times, and are read as soon as they can be: their due times are known, as those of
/// packets on a path with a delay are.
struct Coming {
    next: Instant,
    last: Instant,
}

impl Port for Coming {
    fn receive(
        &mut self,
        budget: usize,
        buffers: &mut Buffers,
        take: &mut dyn FnMut(&mut Buffers, Instant, Packet),
    ) -> io::Result<usize> {
        for read in 0..budget {
            if self.next >= self.last {
                return Ok(read);
            }
            let at = self.next;
            self.next += INTERVAL;
            let buffer = buffers.take(0);
            take(buffers, at, buffer.into());
        }
        Ok(budget)
    }

    fn send(&mut self, _packet: &mut Delivery) -> io::Result<Sent> {
        Ok(Sent::Taken)
    }
}

/// Waits until it is over.
struct Until {
    waiter: Waiter<Descriptors>,
    last: Instant,
}

impl Wait for Until {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        Ok(self.waiter.wait(Some(deadline.unwrap_or(self.last)))? && clock::now() < self.last)
    }
}
