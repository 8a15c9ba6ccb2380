//! A relay between two UDP sockets of the loopback, flooded.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdt_driver::clock;
use rdt_emulator::{Delivery, Packet, Path, PathConfig};

use super::{TIME, Throughput, flood};
use crate::json;
use crate::port::{Buffers, Port, Sent};
use crate::relay::Relay;
use crate::wait::{Descriptors, Stop, Waiter};

/// The path's round trip, so that packets wait for their times.
const RTT: Duration = Duration::from_millis(1);

/// What comes through of datagrams of this size.
pub(super) fn measure(size: u16) -> io::Result<Throughput> {
    let ((sender, near), (far, receiver)) = (pair()?, pair()?);
    let ends = [near.try_clone()?, far.try_clone()?].map(|socket| Arc::new(OwnedFd::from(socket)));
    let stop = Stop::new()?;
    let mut relay =
        Relay::new(Path::new(PathConfig::symmetric(RTT, None), 0), port(near)?, port(far.try_clone()?)?, ());
    let reading = thread::spawn(move || flood::receive(&receiver));
    let asked = stop.clone();
    let sending = thread::spawn(move || {
        flood::send(&sender, size, TIME);
        asked.set();
    });
    let result = relay.run(&mut Waiter::new(Descriptors::new(ends, stop)));
    // A datagram of no bytes ends the reader, unless it finds no room.
    far.set_nonblocking(false)?;
    while !reading.is_finished() {
        far.send(&[])?;
        thread::yield_now();
    }
    let ended = || io::Error::other("a thread ended by itself");
    sending.join().map_err(|_| ended())?;
    reading.join().map_err(|_| ended())??;
    result?;
    let ([forward, _], ()) = relay.finish();
    Ok(Throughput::new(size, forward.ledger.delivered, json::lateness(&forward.lateness)))
}

/// Two connected sockets.
fn pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let [one, other] = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    one.connect(other.local_addr()?)?;
    other.connect(one.local_addr()?)?;
    Ok((one, other))
}

fn port(socket: UdpSocket) -> io::Result<SocketPort> {
    socket.set_nonblocking(true)?;
    Ok(SocketPort { socket, scratch: vec![0; 65_536].into() })
}

/// A datagram a call.
struct SocketPort {
    socket: UdpSocket,
    scratch: Box<[u8]>,
}

impl Port for SocketPort {
    fn receive(
        &mut self,
        budget: usize,
        buffers: &mut Buffers,
        take: &mut dyn FnMut(&mut Buffers, Instant, Packet),
    ) -> io::Result<usize> {
        for read in 0..budget {
            let len = match self.socket.recv(&mut self.scratch) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(read),
                Err(error) => return Err(error),
            };
            let mut buffer = buffers.take(len);
            buffer.extend_from_slice(&self.scratch[..len]);
            take(buffers, clock::now(), buffer.into());
        }
        Ok(budget)
    }

    fn send(&mut self, packet: &mut Delivery) -> io::Result<Sent> {
        Ok(if self.socket.send(&packet.packet).is_ok() { Sent::Taken } else { Sent::Refused })
    }
}
