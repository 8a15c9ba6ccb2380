//! Memory of idle connections, counted by the allocator. A program of its own, because the counter
//! counts all threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use rdt_crypto::{Entropy, StaticKey};
use rdt_endpoint::tokio::Endpoint;
use rdt_endpoint::{Connect, Listen, Network};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Connections of the test. The limit holds for any number of them.
const CONNECTIONS: isize = 1000;
/// Most bytes of one idle connection in its endpoint, all in all.
const LIMIT: isize = 8 * 1024;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: all calls go to the system's allocator, with the caller's arguments.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[tokio::test(start_paused = true)]
async fn idle_connection_takes_at_most_8_kib() {
    let network = Network::new("rtt 2ms", 7).unwrap();
    let identity = Arc::new(StaticKey::generate(&mut Entropy::from_seed([9; 32])));
    let client = Endpoint::on_network(&network).unwrap();
    let listener = Endpoint::on_network(&network).unwrap().listen(Listen::new(identity.clone())).unwrap();
    let mut streams = Vec::new();
    let mut connect = async || {
        let connecting = client.connect(listener.local_addr(), Connect::to(identity.public()));
        let (near, far) = tokio::join!(connecting, listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        // Both directions have carried data.
        near.write_all(&vec![1; 20_000]).await.unwrap();
        far.read_exact(&mut vec![0; 20_000]).await.unwrap();
        far.write_all(&vec![1; 20_000]).await.unwrap();
        near.read_exact(&mut vec![0; 20_000]).await.unwrap();
        streams.push((near, far));
    };
    let mut used = Vec::new();
    for _ in 0..2 {
        for _ in 0..CONNECTIONS {
            connect().await;
        }
        // Keep-alives pass in this time.
        tokio::time::sleep(std::time::Duration::from_secs(120)).await;
        used.push(ALLOCATED.load(Ordering::Relaxed));
    }
    // The difference leaves out what endpoints need without connections.
    let each = (used[1] - used[0]) / (2 * CONNECTIONS);
    println!("{each} bytes for each side of a connection");
    assert!(each <= LIMIT, "{each} bytes");
}
