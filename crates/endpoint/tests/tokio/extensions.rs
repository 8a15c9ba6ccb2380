//! A caller's own congestion controller and observer, and reproducible networks.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rdt_endpoint::{Connect, Listen};
use rdt_transport::congestion::{AckEvent, CongestionEvent, Controller, Start};
use rdt_transport::{ConnectionConfig, Observer, Trace};
use tokio::time::Instant;

use crate::support::{Pair, identity, key, receive, send};

/// Controller with a constant window.
#[derive(Debug)]
struct Constant(Arc<AtomicU64>);

impl Controller for Constant {
    fn on_ack(&mut self, ack: &AckEvent) {
        self.0.fetch_add(ack.acked, Ordering::Relaxed);
    }

    fn on_congestion(&mut self, _: &CongestionEvent) {}

    fn on_mss(&mut self, _: u64) {}

    fn cwnd(&self) -> u64 {
        20_000
    }

    fn phase(&self) -> &'static str {
        "constant"
    }
}

/// Observer that notes the end of the stream in the newest ACK.
struct Acked(Arc<Mutex<u64>>);

impl Observer for Acked {
    fn on(&mut self, _: std::time::Instant, trace: &Trace) {
        if let Trace::AckReceived { ack, .. } = trace {
            *self.0.lock().unwrap() = *ack;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn own_controller_and_observer_are_used() {
    let pair = Pair::new("rtt 20ms rate 100mbit");
    let (acked, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(0)));
    let counter = Arc::clone(&acked);
    let config = ConnectionConfig::default()
        .controller(move |_: Start| -> Box<dyn Controller> { Box::new(Constant(Arc::clone(&counter))) });
    let connect = Connect::to(key()).config(config).observer({
        let seen = Arc::clone(&seen);
        move |_| Acked(Arc::clone(&seen))
    });
    let (mut client, mut server) = pair.connect_with(connect).await;
    let begin = Instant::now();
    let (sending, received) = tokio::join!(send(&mut client, 1_000_000), receive(&mut server));
    sending.unwrap();
    assert_eq!(received.unwrap(), 1_000_000);
    // 50 windows of 20,000 bytes, one each round trip.
    assert!((900..1200).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    client.delivered().await.unwrap();
    // The FIN-ACK may stand for the last ACK.
    assert!(acked.load(Ordering::Relaxed) > 900_000);
    assert!(*seen.lock().unwrap() > 900_000);
    let stats = client.stats().unwrap();
    assert_eq!((stats.sender.bytes_acked, stats.receiver.bytes), (1_000_000, 0));
}

#[tokio::test(start_paused = true)]
async fn listener_makes_observer_of_each_connection() {
    let seen = Arc::new(Mutex::new(Vec::<(SocketAddr, Arc<Mutex<u64>>)>::new()));
    let made = Arc::clone(&seen);
    let listen = Listen::new(identity()).observer(move |peer| {
        let acked = Arc::new(Mutex::new(0));
        made.lock().unwrap().push((peer, Arc::clone(&acked)));
        Acked(acked)
    });
    let pair = Pair::with("rtt 20ms rate 100mbit", listen);
    for len in [100_000, 200_000] {
        let (mut client, mut server) = pair.connect().await;
        let (sent, received) = tokio::join!(send(&mut server, len), receive(&mut client));
        sent.unwrap();
        assert_eq!(received.unwrap(), len);
        server.delivered().await.unwrap();
    }
    let seen = seen.lock().unwrap();
    let acked: Vec<_> = seen.iter().map(|(_, acked)| *acked.lock().unwrap()).collect();
    assert!(acked.len() == 2 && acked[0] > 50_000 && acked[1] > 150_000, "{acked:?}");
    assert!(seen.iter().all(|(peer, _)| *peer == pair.client.local_addr()));
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let pair = Pair::new("rtt 20ms rate 20mbit loss 2%");
            let begin = Instant::now();
            let (mut client, mut server) = pair.connect().await;
            let (sent, received) = tokio::join!(send(&mut client, 500_000), receive(&mut server));
            sent.unwrap();
            received.unwrap();
            (begin.elapsed(), pair.network.ledger())
        })
    };
    assert_eq!(run(), run());
}
