//! Cancel safety: calls are dropped while they wait, and repeated.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rdt_endpoint::Connect;
use rdt_testing::random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::support::{Pair, key, pattern};

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

#[tokio::test(start_paused = true)]
async fn dropped_reads_and_writes_lose_nothing() {
    let pair = Pair::new("rtt 20ms rate 10mbit loss 1%");
    let (mut client, mut server) = pair.connect().await;
    let data = pattern(500_000);
    let expected = data.clone();
    let writer = tokio::spawn(async move {
        let (mut at, mut cancelled, mut draw) = (0, 0, random(1));
        while at < data.len() {
            let end = data.len().min(at + 1 + size(draw(20_000)));
            match timeout(Duration::from_millis(draw(4)), client.write(&data[at..end])).await {
                Ok(written) => at += written.unwrap(),
                Err(_) => cancelled += 1,
            }
        }
        client.shutdown().await.unwrap();
        client.delivered().await.unwrap();
        cancelled
    });
    let (mut got, mut cancelled, mut draw) = (Vec::new(), 0, random(2));
    loop {
        let mut block = vec![0; 1 + size(draw(20_000))];
        match timeout(Duration::from_millis(draw(4)), server.read(&mut block)).await {
            Ok(read) => match read.unwrap() {
                0 => break,
                n => got.extend_from_slice(&block[..n]),
            },
            Err(_) => cancelled += 1,
        }
    }
    assert!(got == expected);
    let cancelled = (cancelled, writer.await.unwrap());
    assert!(cancelled.0 > 10 && cancelled.1 > 10, "{cancelled:?} calls were dropped");
}

#[tokio::test(start_paused = true)]
async fn dropped_accept_loses_no_connection() {
    let pair = Pair::new("rtt 20ms");
    let to = pair.listener.local_addr();
    let client = pair.client.clone();
    let connecting = tokio::spawn(async move {
        let mut streams = Vec::new();
        for _ in 0..20 {
            let mut stream = client.connect(to, Connect::to(key())).await.unwrap();
            stream.write_all(b"x").await.unwrap();
            streams.push(stream);
        }
        streams
    });
    let mut accepted = Vec::new();
    // A handshake takes 40 ms.
    for _ in 0..1000 {
        if let Ok(stream) = timeout(Duration::from_millis(7), pair.listener.accept()).await {
            accepted.push(stream.unwrap());
        }
    }
    assert_eq!((accepted.len(), connecting.await.unwrap().len()), (20, 20));
}

#[tokio::test(start_paused = true)]
async fn dropped_connect_leaves_no_connection() {
    let pair = Pair::new("rtt 20ms");
    let to = pair.listener.local_addr();
    // The handshake takes 20 ms.
    for wait in (0..60).step_by(5) {
        let connected =
            timeout(Duration::from_millis(wait), pair.client.connect(to, Connect::to(key()))).await;
        assert_eq!(connected.is_ok(), wait > 20, "after {wait} ms");
    }
    while let Ok(stream) = timeout(Duration::from_secs(1), pair.listener.accept()).await {
        drop(stream);
    }
    tokio::join!(pair.client.wait_idle(), pair.listener.endpoint().wait_idle());
}

#[tokio::test(start_paused = true)]
async fn call_dropped_at_each_await_can_be_repeated() {
    let pair = Pair::new("rtt 20ms");
    let (mut client, mut server) = pair.connect().await;
    let mut cx = Context::from_waker(Waker::noop());
    let mut block = [0; 100];
    for _ in 0..3 {
        assert!(pin!(server.read(&mut block)).poll(&mut cx).is_pending());
        assert!(pin!(pair.listener.accept()).poll(&mut cx).is_pending());
        assert!(pin!(server.delivered()).poll(&mut cx).is_pending());
    }
    assert!(matches!(pin!(client.write(b"hello")).poll(&mut cx), Poll::Ready(Ok(5))));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(pin!(server.read(&mut block)).poll(&mut cx), Poll::Ready(Ok(5))));
    assert_eq!(&block[..5], b"hello");
}
