//! Load test of the proxy over the loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rdt_emulator::{Path, PathConfig};
use rdt_program::Printer;
use rdt_udp::{UdpIo, UdpOptions};

use super::max_rate::{self, Asked, COUNT_INTERVAL, RTT};
use super::{MEASUREMENT_MS, Throughput, load_generator};
use crate::json;
use crate::json_stream::JsonStream;
use crate::proxy::{End, HEADERS_IPV4, Limits, ProxySockets, serve};
use crate::relay::Observer;
use crate::waiter::Waiting;

/// The load generator is the only client.
const ONE_CLIENT: Limits = Limits { most: 1, idle: Duration::from_secs(60) };
/// RTT of the path under load; above 0, so that packets wait for their due times.
const SHORT_RTT: Duration = Duration::from_millis(1);
const FREE_ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

pub(super) fn measure(size: u16) -> io::Result<Throughput> {
    let flood = load_generator::Flood { size, pps: None, ms: MEASUREMENT_MS };
    let (end, ()) = carry(PathConfig::symmetric(SHORT_RTT, None), flood, ())?;
    let [forward, _] = end.accounts;
    Ok(Throughput::new(size, forward.ledger.delivered, json::percentiles(&forward.lateness)))
}

/// Measures the output of a link with the requested rate; `None` if the host was the bottleneck.
pub(super) fn hold(asked: Asked) -> io::Result<Option<max_rate::Delivered>> {
    let (reader, writer) = io::pipe()?;
    let reading = thread::spawn(move || io::read_to_string(reader));
    let live = JsonStream::start(Some(COUNT_INTERVAL), Box::new(writer));
    let (end, live) = carry(path(asked), asked.flood, live)?;
    drop(live.finish()?);
    let lines = reading.join().map_err(|_| ended())??;
    Ok(max_rate::delivered(&lines, HEADERS_IPV4).filter(|_| end.kept_up()))
}

/// Builds the path as `rdt-emu proxy` does: sockets see payload alone, so the link adds the bytes
/// of IP and UDP headers to each packet.
fn path(asked: Asked) -> PathConfig {
    let path = PathConfig::symmetric(RTT, asked.rate);
    PathConfig { forward: path.forward.overhead(HEADERS_IPV4), reverse: path.reverse.overhead(HEADERS_IPV4) }
}

fn carry<T: Observer>(path: PathConfig, flood: load_generator::Flood, observer: T) -> io::Result<(End, T)> {
    let target = UdpIo::bind(FREE_ADDRESS.into(), UdpOptions::default()).map_err(io::Error::other)?;
    let sockets =
        ProxySockets::bind(FREE_ADDRESS.into(), target.local_addr()?, ONE_CLIENT, Printer::discard())
            .map_err(io::Error::other)?;
    let (listen, stop): (SocketAddr, _) = (sockets.local_addr()?, sockets.stop());
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let reading = thread::spawn(move || load_generator::receive(target, || is_over.load(Ordering::Relaxed)));
    let sending = thread::spawn(move || {
        let sent = flood.send(listen);
        stop.wake();
        sent
    });
    let served = serve(sockets, Path::new(path, 0).into(), observer, Waiting::default());
    over.store(true, Ordering::Relaxed);
    for thread in [sending, reading] {
        thread.join().map_err(|_| ended())?.map_err(io::Error::other)?;
    }
    served
}

fn ended() -> io::Error {
    io::Error::other("a thread panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_path_counts_ip_and_udp_headers() {
        let PathConfig { forward, reverse } = path(Asked::new(1e6));
        assert_eq!([forward.overhead, reverse.overhead], [28; 2]);
    }
}
