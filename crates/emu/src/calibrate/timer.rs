//! Lateness of sparse packets: how precisely this host wakes the relay.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rdt_emulator::{Delivery, LinkConfig, Path};
use rdt_udp::clock;
use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use serde_json::Value;

use super::MEASUREMENT_MS;
use crate::json;
use crate::port::{Buffers, Port, Sent, Take};
use crate::relay::Relay;
use crate::waiter::{PollPorts, Readiness, Waiter, Waiting};

const INTERVAL: Duration = Duration::from_millis(1);
/// One-way delay of the path: packets are due halfway between two arrivals.
const DELAY: Duration = Duration::from_micros(10_500);

/// Measures the lateness percentiles with one packet per millisecond.
pub(super) fn lateness(waiting: Waiting) -> io::Result<Value> {
    let begin = clock::now() + INTERVAL;
    let arrivals =
        Arrivals { next: Rc::new(Cell::new(begin)), last: begin + Duration::from_millis(MEASUREMENT_MS) };
    let path = Path::new(LinkConfig::new(None, DELAY), 0);
    let mut relay = Relay::new(path, arrivals.clone(), Silent, ());
    relay.run(&mut Waiter::new(waiting, arrivals))?;
    let ([forward, _], ()) = relay.finish();
    Ok(json::percentiles(&forward.lateness))
}

/// Packets that become readable at given times, as on a socket: a poll reports them, and each
/// arrival wakes a sleeping caller.
#[derive(Clone)]
struct Arrivals {
    next: Rc<Cell<Instant>>,
    last: Instant,
}

impl Arrivals {
    fn seen(&self) -> Readiness {
        let now = clock::now();
        if now >= self.last {
            Readiness::Stop
        } else if now >= self.next.get() {
            Readiness::Packet
        } else {
            Readiness::Nothing
        }
    }
}

impl PollPorts for Arrivals {
    fn poll_ports(&mut self, timeout: Option<Duration>) -> io::Result<Readiness> {
        let until_next = self.next.get().saturating_duration_since(clock::now());
        let timeout = timeout.map_or(until_next, |timeout| timeout.min(until_next));
        // The same system call as with real descriptors, because it costs the same time.
        match poll(&mut [], Timespec::try_from(timeout).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(self.seen()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Port for Arrivals {
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        for read in 0..budget {
            if self.seen() != Readiness::Packet {
                return Ok(read);
            }
            let at = self.next.replace(self.next.get() + INTERVAL);
            let buffer = buffers.take(0);
            take(buffers, at, buffer.into());
        }
        Ok(budget)
    }

    fn send(&mut self, _packet: &mut Delivery) -> io::Result<Sent> {
        Ok(Sent::Taken)
    }
}

/// Far end that accepts every packet and sends none.
struct Silent;

impl Port for Silent {
    fn receive(&mut self, _budget: usize, _buffers: &mut Buffers, _take: Take<'_>) -> io::Result<usize> {
        Ok(0)
    }

    fn send(&mut self, _packet: &mut Delivery) -> io::Result<Sent> {
        Ok(Sent::Taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn arrivals(next: Instant, last: Instant) -> Arrivals {
        Arrivals { next: Rc::new(Cell::new(next)), last }
    }

    #[test]
    fn packet_is_readable_from_its_time_on() {
        let now = clock::now();
        let mut arrivals = arrivals(now, now + LONG);
        assert_eq!(arrivals.poll_ports(Some(LONG)).unwrap(), Readiness::Packet);
        let mut times = Vec::new();
        let mut take = |_: &mut Buffers, at, _| times.push(at);
        assert_eq!(arrivals.receive(1, &mut Buffers::default(), &mut take).unwrap(), 1);
        assert_eq!(times, [now]);
        arrivals.next.set(now + LONG / 2);
        assert_eq!(arrivals.poll_ports(Some(Duration::ZERO)).unwrap(), Readiness::Nothing);
        let none = arrivals.receive(9, &mut Buffers::default(), &mut |_, _, _| panic!("too early"));
        assert_eq!(none.unwrap(), 0);
    }

    #[test]
    fn sleep_ends_with_packet_or_stop() {
        let now = clock::now();
        let mut soon = arrivals(now + INTERVAL, now + LONG);
        assert_eq!(soon.poll_ports(Some(LONG)).unwrap(), Readiness::Packet);
        assert_eq!(arrivals(now, now).poll_ports(None).unwrap(), Readiness::Stop);
    }
}
