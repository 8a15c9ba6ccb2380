//! Endpoints with many connections.

use std::sync::Arc;
use std::time::Duration;

use rdt_crypto::{Entropy, StaticKey};
use rdt_endpoint::tokio::Endpoint;
use rdt_endpoint::{Connect, EndpointConfig, Listen, ListenError, Network};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::support::{Pair, SEED, identity, key, receive, send};

#[tokio::test(start_paused = true)]
async fn thousand_connections_echo_over_loss() {
    let pair = Pair::new("rtt 20ms rate 100mbit loss 1% queue none");
    let address = pair.listener.local_addr();
    let mut tasks = JoinSet::new();
    for _ in 0..1000 {
        let client = pair.client.clone();
        tasks.spawn(async move {
            let mut stream = client.connect(address, Connect::to(key())).await.unwrap();
            send(&mut stream, 5000).await.unwrap();
            assert_eq!(receive(&mut stream).await.unwrap(), 5000);
        });
    }
    for _ in 0..1000 {
        let stream = pair.listener.accept().await.unwrap();
        tasks.spawn(async move {
            let (mut read, mut write) = stream.into_split();
            assert_eq!(tokio::io::copy(&mut read, &mut write).await.unwrap(), 5000);
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    tokio::join!(pair.client.wait_idle(), pair.listener.endpoint().wait_idle());
}

#[tokio::test(start_paused = true)]
async fn endpoint_connects_and_accepts_at_once() {
    let network = Network::new("rtt 20ms", SEED).unwrap();
    let listeners =
        [(); 2].map(|()| Endpoint::on_network(&network).unwrap().listen(Listen::new(identity())).unwrap());
    let [a, b] = &listeners;
    let dial = |from: &rdt_endpoint::tokio::Listener, to: &rdt_endpoint::tokio::Listener| {
        let (endpoint, address) = (from.endpoint().clone(), to.local_addr());
        async move { endpoint.connect(address, Connect::to(key())).await }
    };
    let (ab, ba, at_b, at_a) = tokio::join!(dial(a, b), dial(b, a), b.accept(), a.accept());
    let (mut ab, mut at_b) = (ab.unwrap(), at_b.unwrap());
    send(&mut ab, 9).await.unwrap();
    assert_eq!(receive(&mut at_b).await.unwrap(), 9);
    assert_eq!(at_b.peer_addr(), Some(a.local_addr()));
    assert_eq!(ab.peer_addr(), Some(b.local_addr()));
    assert!(ba.is_ok() && at_a.is_ok());
}

#[tokio::test(start_paused = true)]
async fn peers_know_each_others_identity() {
    let pair = Pair::new("rtt 20ms");
    let ours = Arc::new(StaticKey::generate(&mut Entropy::from_seed([1; 32])));
    let (client, server) = pair.connect_with(Connect::to(key()).identity(Arc::clone(&ours))).await;
    assert_eq!((client.peer_identity(), server.peer_identity()), (Some(key()), Some(ours.public())));
    let (client, server) = pair.connect_with(Connect::trusting(|shown| *shown == key())).await;
    assert_eq!(client.peer_identity(), Some(key()));
    drop((client, server));
}

#[tokio::test(start_paused = true)]
async fn resumption_saves_round_trip_of_retry() {
    // A table without room for unproved addresses.
    let config = EndpointConfig::default().seed([3; 32]).max_half_open(3);
    let pair = Pair::serving("rtt 20ms", Listen::new(identity()), config);
    let (client, server) = pair.connect().await;
    let cookie = client.resumption_cookie().expect("every responder gives one");
    drop((client, server));
    let mut times = Vec::new();
    for (seed, resumption) in [(1, None), (2, Some(cookie))] {
        // With a key of its own, so outside of the association.
        let ours = Arc::new(StaticKey::generate(&mut Entropy::from_seed([seed; 32])));
        let connect = Connect::to(key()).identity(ours);
        let connect = resumption.into_iter().fold(connect, Connect::resumption);
        let begin = tokio::time::Instant::now();
        let to = pair.listener.local_addr();
        let stream = pair.client.connect(to, connect).await.unwrap();
        times.push(begin.elapsed().as_millis());
        drop(stream);
    }
    assert_eq!(times, [40, 20]);
}

#[tokio::test(start_paused = true)]
async fn full_backlog_refuses() {
    let pair = Pair::with("rtt 20ms", Listen::new(identity()).backlog(2));
    let to = pair.listener.local_addr();
    let mut kept = Vec::new();
    for expected in [true, true, false] {
        // Open at once after the first one, so a refusal is the end of the stream.
        let mut stream = pair.client.connect(to, Connect::to(key())).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stream.write_all(b"y").await.is_ok(), expected);
        kept.push(stream);
    }
    pair.listener.accept().await.unwrap();
    pair.client.connect(to, Connect::to(key())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn second_listener_is_refused_while_first_exists() {
    let network = Network::new("", SEED).unwrap();
    let endpoint = Endpoint::on_network(&network).unwrap();
    let listener = endpoint.listen(Listen::new(identity())).unwrap();
    let second = endpoint.listen(Listen::new(identity()));
    assert!(matches!(second, Err(ListenError::AlreadyListening)));
    drop(listener);
    endpoint.listen(Listen::new(identity())).unwrap();
}

#[tokio::test(start_paused = true)]
async fn closed_listener_leaves_its_successor_alone() {
    let pair = Pair::new("rtt 20ms");
    let endpoint = pair.listener.endpoint().clone();
    endpoint.close(0, "");
    let successor = endpoint.listen(Listen::new(identity())).unwrap();
    assert!(matches!(pair.listener.accept().await, Err(ListenError::Stopped(_))));
    let to = successor.local_addr();
    drop(pair.listener);
    let (client, server) = tokio::join!(pair.client.connect(to, Connect::to(key())), successor.accept());
    assert!(client.is_ok() && server.is_ok());
}

#[tokio::test(start_paused = true)]
async fn streams_are_accepted_in_order_of_handshakes() {
    let pair = Pair::new("rtt 20ms");
    let to = pair.listener.local_addr();
    let mut clients = Vec::new();
    for number in 0..5 {
        let mut stream = pair.client.connect(to, Connect::to(key())).await.unwrap();
        stream.write_all(&[number]).await.unwrap();
        clients.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for number in 0..5 {
        let mut byte = [0];
        pair.listener.accept().await.unwrap().read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, [number]);
    }
}
