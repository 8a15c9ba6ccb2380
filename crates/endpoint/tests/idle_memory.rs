//! Memory of idle connections, counted by the allocator. A program of its own, because the counter
//! counts all threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

use rdt_crypto::{Entropy, PublicKey, StaticKey};
use rdt_endpoint::tokio::{Endpoint, Listener, Stream};
use rdt_endpoint::{Connect, Listen, Network};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex;

/// Connections of the test. The limit holds for any number of them.
const CONNECTIONS: isize = 1000;
/// Most bytes of one idle connection in its endpoint, all in all.
const LIMIT: isize = 8 * 1024;
/// Connections that are open at once, and closed.
const CONNECTIONS_TO_CLOSE: isize = 400;
/// Most bytes that both endpoints keep after that.
const LEFT_LIMIT: isize = 256 * 1024;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);
/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::const_new(());

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

/// Two endpoints on an emulated network, of which one listens.
struct World {
    client: Endpoint,
    listener: Listener,
    key: PublicKey,
}

impl World {
    fn new() -> Self {
        let network = Network::new("rtt 2ms", 7).unwrap();
        let identity = Arc::new(StaticKey::generate(&mut Entropy::from_seed([9; 32])));
        let client = Endpoint::on_network(&network).unwrap();
        let key = identity.public();
        let listener = Endpoint::on_network(&network).unwrap().listen(Listen::new(identity)).unwrap();
        Self { client, listener, key }
    }

    /// Opens a connection, both of whose directions carry data.
    async fn connect(&mut self) -> (Stream, Stream) {
        let connecting = self.client.connect(self.listener.local_addr(), Connect::to(self.key));
        let (near, far) = tokio::join!(connecting, self.listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        near.write_all(&vec![1; 20_000]).await.unwrap();
        far.read_exact(&mut vec![0; 20_000]).await.unwrap();
        far.write_all(&vec![1; 20_000]).await.unwrap();
        near.read_exact(&mut vec![0; 20_000]).await.unwrap();
        (near, far)
    }
}

/// Returns the allocated memory after two minutes, in which keep-alives pass, bytes.
async fn used_later() -> isize {
    tokio::time::sleep(Duration::from_secs(120)).await;
    ALLOCATED.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn idle_connection_takes_at_most_8_kib() {
    let _alone = ALONE.lock().await;
    let mut world = World::new();
    let mut streams = Vec::new();
    let mut used = Vec::new();
    for _ in 0..2 {
        for _ in 0..CONNECTIONS {
            streams.push(world.connect().await);
        }
        used.push(used_later().await);
    }
    // The difference leaves out what endpoints need without connections.
    let each = (used[1] - used[0]) / (2 * CONNECTIONS);
    println!("{each} bytes for each side of a connection");
    assert!(each <= LIMIT, "{each} bytes");
}

#[tokio::test(start_paused = true)]
async fn closed_connections_leave_no_memory() {
    let _alone = ALONE.lock().await;
    let mut world = World::new();
    let mut used = vec![used_later().await];
    for _ in 0..3 {
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS_TO_CLOSE {
            streams.push(world.connect().await);
        }
        drop(streams);
        used.push(used_later().await);
    }
    // Queues of the network and buffers of the sockets stay.
    assert!(used[1] - used[0] <= LEFT_LIMIT, "{used:?}");
    assert!(used[3] - used[1] <= 4096, "more with each connection: {used:?}");
}
