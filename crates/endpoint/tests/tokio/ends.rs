//! Ends of connections, and their errors.

use std::io::ErrorKind;
use std::time::Duration;

use rdt_endpoint::tokio::Endpoint;
use rdt_endpoint::{Connect, ConnectError, Listen, Network, Stopped, StreamError};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{Closed, Confirm, ConnectionConfig, RefuseReason};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use crate::support::{Pair, SEED, identity, key, pattern, receive, send, typed};

#[tokio::test(start_paused = true)]
async fn dropped_stream_delivers_what_was_written() {
    let pair = Pair::new("rtt 20ms rate 10mbit loss 2%");
    let (mut client, mut server) = pair.connect().await;
    client.write_all(&pattern(100_000)).await.unwrap();
    drop(client);
    assert_eq!(receive(&mut server).await.unwrap(), 100_000);
    drop(server);
    tokio::join!(pair.client.wait_idle(), pair.listener.endpoint().wait_idle());
}

#[tokio::test(start_paused = true)]
async fn writes_fail_after_reader_is_dropped() {
    let pair = Pair::new("rtt 20ms rate 50mbit");
    let (mut client, server) = pair.connect().await;
    drop(server);
    let begin = Instant::now();
    let writing = async {
        loop {
            if let Err(error) = client.write(&[0; 1000]).await {
                return error;
            }
        }
    };
    let error = timeout(Duration::from_secs(60), writing).await.expect("an error");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(client.delivered().await.is_err());
    pair.listener.endpoint().wait_idle().await;
}

#[tokio::test(start_paused = true)]
async fn end_is_seen_beside_unread_bytes() {
    let pair = Pair::new("rtt 20ms");
    let (mut client, mut server) = pair.connect().await;
    client.write_all(&pattern(1000)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(timeout(Duration::from_secs(1), server.closed()).await.is_err());
    client.close(7, "");
    let closed = timeout(Duration::from_secs(60), server.closed()).await.unwrap();
    assert!(matches!(closed, StreamError::Closed(Closed::Peer { code: 7, .. })), "{closed}");
    let mut got = vec![0; 1000];
    server.read_exact(&mut got).await.unwrap();
    assert!(got == pattern(1000));

    let (mut client, mut server) = pair.connect().await;
    client.shutdown().await.unwrap();
    server.shutdown().await.unwrap();
    let closed = client.closed();
    let both = async { tokio::join!(receive(&mut client), receive(&mut server), closed) };
    let (_, _, closed) = timeout(Duration::from_secs(60), both).await.unwrap();
    assert!(matches!(closed, StreamError::Closed(Closed::Finished)), "{closed}");
}

#[tokio::test(start_paused = true)]
async fn unread_stream_is_not_delivered() {
    let pair = Pair::new("rtt 20ms");
    let (mut client, server) = pair.connect().await;
    send(&mut client, 1000).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(server);
    let error = client.delivered().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[tokio::test(start_paused = true)]
async fn write_to_one_way_responder_stream_fails() {
    let pair = Pair::new("rtt 20ms");
    let config = ConnectionConfig { one_way: true, ..ConnectionConfig::default() };
    let (mut client, mut server) = pair.connect_with(Connect::to(key()).config(config)).await;
    let written = timeout(Duration::from_secs(60), server.write(b"x")).await.expect("an answer");
    assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe);
    send(&mut client, 1000).await.unwrap();
    assert_eq!(receive(&mut server).await.unwrap(), 1000);
}

#[tokio::test(start_paused = true)]
async fn dropped_write_half_ends_stream() {
    let pair = Pair::new("rtt 20ms");
    let (client, mut server) = pair.connect().await;
    let (mut read, mut write) = client.into_split();
    write.write_all(&pattern(10)).await.unwrap();
    drop(write);
    assert_eq!(receive(&mut server).await.unwrap(), 10);
    server.write_all(b"answer").await.unwrap();
    drop(server);
    let mut got = String::new();
    read.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "answer");
}

#[tokio::test(start_paused = true)]
async fn close_follows_bytes_that_arrived() {
    let pair = Pair::new("rtt 20ms");
    let (mut client, mut server) = pair.connect().await;
    client.write_all(&pattern(1000)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.close(42, "too busy");
    assert_eq!(client.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionAborted);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut got = vec![0; 1000];
    server.read_exact(&mut got).await.unwrap();
    assert_eq!(got, pattern(1000));
    let error = server.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let StreamError::Closed(Closed::Peer { reason, code, text }) = typed(&error) else { panic!("{error:?}") };
    assert_eq!((*reason, *code, text.as_str()), (CloseReason::Aborted, 42, "too busy"));
    assert_eq!(server.write(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(server.delivered().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn vanished_peer_fails_reads_and_writes() {
    let pair = Pair::new("rtt 20ms");
    let (client, server) = pair.connect().await;
    pair.network.unplug(pair.client.local_addr());
    let begin = Instant::now();
    let (mut read, mut write) = server.into_split();
    let mut byte = [0];
    let (read, written) = tokio::join!(read.read(&mut byte), async {
        loop {
            if let Err(error) = write.write(&[0; 1000]).await {
                return error;
            }
        }
    });
    assert_eq!((read.unwrap_err().kind(), written.kind()), (ErrorKind::TimedOut, ErrorKind::TimedOut));
    assert!(begin.elapsed() <= Duration::from_secs(31), "{:?}", begin.elapsed());
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_kept_alive() {
    let pair = Pair::new("rtt 20ms");
    let (mut client, mut server) = pair.connect().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    client.write_all(b"x").await.unwrap();
    server.read_exact(&mut [0]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropped_endpoint_closes_its_streams() {
    let Pair { network: _network, client: endpoint, listener, .. } = Pair::new("rtt 20ms");
    let (client, server) =
        tokio::join!(endpoint.connect(listener.local_addr(), Connect::to(key())), listener.accept());
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let other = endpoint.clone();
    drop(endpoint);
    client.write_all(b"x").await.unwrap();
    server.read_exact(&mut [0]).await.unwrap();
    drop(other);
    assert!(matches!(typed(&client.write(b"x").await.unwrap_err()), StreamError::Closed(Closed::Local)));
    assert_eq!(server.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn released_connection_outlives_its_endpoint() {
    let Pair { network: _network, client: endpoint, listener, .. } = Pair::new("rtt 20ms rate 10mbit");
    let (client, server) =
        tokio::join!(endpoint.connect(listener.local_addr(), Connect::to(key())), listener.accept());
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    client.write_all(&pattern(50_000)).await.unwrap();
    drop(client);
    drop(endpoint);
    assert_eq!(receive(&mut server).await.unwrap(), 50_000);
}

#[tokio::test(start_paused = true)]
async fn unaccepted_connection_is_closed_with_listener() {
    let Pair { network: _network, client: endpoint, listener, .. } = Pair::new("rtt 20ms");
    let mut client = endpoint.connect(listener.local_addr(), Connect::to(key())).await.unwrap();
    // The responder's handshake is complete with the first packet.
    client.write_all(b"x").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(listener);
    assert_eq!(client.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn refusals_have_kinds() {
    let refuse = Listen::new(identity()).admit(|_| Err(RefuseReason::NotAdmitted));
    let pair = Pair::with("rtt 20ms", refuse);
    let to = pair.listener.local_addr();
    let refused = pair.client.connect(to, Connect::to(key())).await.unwrap_err();
    let expected = |error: &ConnectError| {
        matches!(error, ConnectError::Stream(StreamError::Closed(Closed::Refused(RefuseReason::NotAdmitted))))
    };
    assert!(expected(&refused), "{refused:?}");
    assert_eq!(std::io::Error::from(refused).kind(), ErrorKind::ConnectionRefused);
    // The peer learns the key after the handshake of this side is complete.
    let mut opened = pair.client.connect(to, Connect::trusting(|_| true)).await.unwrap();
    assert_eq!(opened.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(opened.write(&[0]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);

    let pair = Pair::new("rtt 20ms");
    let to = pair.listener.local_addr();
    let distrusted = pair.client.connect(to, Connect::trusting(|_| false)).await.unwrap_err();
    assert_eq!(std::io::Error::from(distrusted).kind(), ErrorKind::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn connect_to_silent_address_times_out() {
    let network = Network::new("rtt 20ms", SEED).unwrap();
    let [client, silent] = [(); 2].map(|()| Endpoint::on_network(&network).unwrap());
    let mut config = ConnectionConfig::default();
    config.sender.handshake_give_up = Duration::from_secs(5);
    let begin = Instant::now();
    let error = client.connect(silent.local_addr(), Connect::to(key()).config(config)).await.unwrap_err();
    assert_eq!(std::io::Error::from(error).kind(), ErrorKind::TimedOut);
    assert!((5..=8).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn application_confirms_stored_stream() {
    let config = ConnectionConfig::default().confirm(Confirm::ByApplication);
    let pair = Pair::with("rtt 20ms", Listen::new(identity()).config(config));
    let (mut client, mut server) = pair.connect().await;
    send(&mut client, 1000).await.unwrap();
    receive(&mut server).await.unwrap();
    timeout(Duration::from_secs(60), client.delivered()).await.unwrap_err();
    server.confirm();
    assert_eq!(client.delivered().await.unwrap(), 1000);
}

#[tokio::test(start_paused = true)]
async fn closed_endpoint_fails_all_calls() {
    let pair = Pair::new("rtt 20ms");
    let (mut client, mut server) = pair.connect().await;
    pair.listener.endpoint().close(3, "maintenance");
    assert!(matches!(typed(&server.read(&mut [0]).await.unwrap_err()), StreamError::Closed(Closed::Local)));
    let error = client.read(&mut [0]).await.unwrap_err();
    assert!(error.to_string().ends_with("code 3 (maintenance)"), "{error}");
    let stopped = pair.listener.accept().await.unwrap_err();
    assert!(matches!(stopped, rdt_endpoint::ListenError::Stopped(Stopped::Closed)), "{stopped:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_delivers_or_says_so() {
    for reads in [true, false] {
        let pair = Pair::new("rtt 20ms");
        let (mut client, mut server) = pair.connect().await;
        send(&mut client, 100_000).await.unwrap();
        drop(client);
        let reading = async {
            if reads {
                assert_eq!(receive(&mut server).await.unwrap(), 100_000);
                server.shutdown().await.unwrap();
            }
        };
        let begin = Instant::now();
        let (is_delivered, ()) = tokio::join!(pair.client.shutdown(Duration::from_secs(5)), reading);
        assert_eq!(is_delivered, reads);
        assert!(begin.elapsed() <= Duration::from_secs(5));
    }
}
