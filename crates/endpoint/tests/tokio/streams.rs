//! Data of streams: order, half-close, back-pressure.

use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use crate::support::{Pair, pattern, receive, send};

#[tokio::test(start_paused = true)]
async fn both_directions_carry_data_over_loss() {
    let pair = Pair::new("rtt 20ms rate 50mbit loss 1%");
    let (client, server) = pair.connect().await;
    let data = pattern(1_000_000);
    let side = async |stream: rdt_endpoint::tokio::Stream| {
        let (mut read, mut write) = stream.into_split();
        let mut got = Vec::new();
        let (sent, received) = tokio::join!(
            async {
                write.write_all(&data).await?;
                write.shutdown().await?;
                Ok::<_, std::io::Error>(write.delivered().await?)
            },
            read.read_to_end(&mut got)
        );
        assert_eq!(sent.unwrap(), data.len() as u64);
        received.unwrap();
        assert!(got == data);
    };
    tokio::join!(side(client), side(server));
    assert!(pair.network.ledger().dropped_loss > 0);
}

#[tokio::test(start_paused = true)]
async fn half_closed_stream_still_reads() {
    let pair = Pair::new("rtt 20ms");
    let (mut client, mut server) = pair.connect().await;
    send(&mut client, 1000).await.unwrap();
    assert_eq!(receive(&mut server).await.unwrap(), 1000);
    assert_eq!(server.read(&mut [0; 9]).await.unwrap(), 0, "the end is repeated");
    // After the end of the one direction.
    send(&mut server, 200_000).await.unwrap();
    assert_eq!(receive(&mut client).await.unwrap(), 200_000);
    for stream in [&mut client, &mut server] {
        assert_eq!(stream.write(b"more").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }
    assert_eq!((client.delivered().await.unwrap(), server.delivered().await.unwrap()), (1000, 200_000));
}

#[tokio::test(start_paused = true)]
async fn small_write_arrives_after_half_a_round_trip() {
    let pair = Pair::new("rtt 20ms");
    let (mut client, mut server) = pair.connect().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    client.write_all(b"x").await.unwrap();
    server.read_exact(&mut [0]).await.unwrap();
    assert_eq!(begin.elapsed().as_millis(), 10);
}

#[tokio::test(start_paused = true)]
async fn vectored_write_takes_all_slices() {
    let pair = Pair::new("");
    let (mut client, mut server) = pair.connect().await;
    assert!(client.is_write_vectored());
    let slices = [&b"one "[..], b"", b"two ", b"three"].map(IoSlice::new);
    let written = poll_fn(|cx| Pin::new(&mut client).poll_write_vectored(cx, &slices)).await.unwrap();
    assert_eq!(written, 13);
    assert_eq!(client.write(b"").await.unwrap(), 0);
    client.shutdown().await.unwrap();
    let mut got = String::new();
    server.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "one two three");
}

#[tokio::test(start_paused = true)]
async fn unread_data_stops_writer() {
    let pair = Pair::new("rtt 10ms rate 1gbit");
    let (mut client, mut server) = pair.connect().await;
    let block = pattern(251 * 400);
    let mut written = 0;
    // Ends when a write waits for ten seconds.
    while let Ok(result) = timeout(Duration::from_secs(10), client.write(&block)).await {
        let n = result.unwrap();
        written += n;
        assert!(written < 1 << 30, "no back-pressure");
        if n < block.len() {
            let rest = timeout(Duration::from_secs(10), client.write_all(&block[n..])).await;
            if rest.is_err() {
                break;
            }
            written += block.len() - n;
        }
    }
    println!("{written} bytes written before the writer waited");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let reader = tokio::spawn(async move {
        let mut got = 0;
        let mut block = vec![0; 1 << 20];
        while let n @ 1.. = server.read(&mut block).await.unwrap() {
            got += n;
        }
        got
    });
    // The first byte shows that the window has opened again.
    client.write_all(b"x").await.unwrap();
    client.shutdown().await.unwrap();
    assert!(reader.await.unwrap() > written);
}
