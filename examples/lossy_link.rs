//! An emulated link between two sockets of one program: UDP pings over 20 ms, 1 Mbit/s, 20 % loss.
//!
//! `cargo run --example lossy_link`. For any program: `rdt-emu run --rtt 20ms --loss 20% -- CMD`.

use std::error::Error;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use rdt::clock;
use rdt::emulator::{Bitrate, Direction, Loss, Path, PathConfig, Probability};

const PINGS: u8 = 20;
const TIMEOUT: Duration = Duration::from_millis(100);

/// Relays datagrams between two sockets over `path`, until neither socket received one for 1 s.
fn relay(mut path: Path, near: &UdpSocket, far: &UdpSocket) -> Result<(), Box<dyn Error>> {
    let mut buffer = [0; 2048];
    let mut last = clock::now();
    for socket in [near, far] {
        socket.set_nonblocking(true)?;
    }
    while clock::now().duration_since(last) < Duration::from_secs(1) {
        for (from, to, direction) in [(near, far, Direction::Forward), (far, near, Direction::Reverse)] {
            while let Ok(n) = from.recv(&mut buffer) {
                last = clock::now();
                // An error means that the link dropped the packet, which the ledger counts by
                // cause.
                let _ = path.push(direction, last, buffer[..n].to_vec());
            }
            while let Some(delivery) = path.pop(direction, clock::now()) {
                to.send(&delivery.packet)?;
            }
        }
        thread::yield_now();
    }
    let (forward, reverse) = (path.forward.into_ledger(), path.reverse.into_ledger());
    println!(
        "forward: {} sent, {} lost; reverse: {} sent, {} lost",
        forward.sent, forward.dropped_loss, reverse.sent, reverse.dropped_loss
    );
    Ok(())
}

/// Returns two sockets that are connected to each other.
fn pair() -> Result<(UdpSocket, UdpSocket), Box<dyn Error>> {
    let (a, b) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    a.connect(b.local_addr()?)?;
    b.connect(a.local_addr()?)?;
    Ok((a, b))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = PathConfig::symmetric(Duration::from_millis(20), Bitrate::from_bps(1_000_000));
    config.forward = config.forward.loss(Loss::Bernoulli(Probability::new(0.2).ok_or("not a probability")?));
    let ((client, near), (far, server)) = (pair()?, pair()?);
    client.set_read_timeout(Some(TIMEOUT))?;
    server.set_read_timeout(Some(Duration::from_secs(1)))?;

    thread::scope(|scope| {
        let echo = scope.spawn(move || {
            let mut buffer = [0; 64];
            while let Ok(n) = server.recv(&mut buffer) {
                let _ = server.send(&buffer[..n]);
            }
        });
        let relay = scope.spawn(move || relay(Path::new(config, 7), &near, &far).map_err(|e| e.to_string()));
        for number in 0..PINGS {
            let sent = clock::now();
            client.send(&[number; 64])?;
            match client.recv(&mut [0; 64]) {
                Ok(_) => println!("ping {number}: {:.1} ms", sent.elapsed().as_secs_f64() * 1e3),
                Err(_) => println!("ping {number}: lost"),
            }
        }
        echo.join().map_err(|_| "the echo server panicked")?;
        Ok(relay.join().map_err(|_| "the relay panicked")??)
    })
}
