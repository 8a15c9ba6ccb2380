//! Peers with several addresses or a name, rules about peers, and configurations that are used
//! again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdt_crypto::{Entropy, PublicKey, SharedSecret, StaticKey};
use rdt_endpoint::tokio::Endpoint;
use rdt_endpoint::{Connect, ConnectError, EndpointConfig, Listen, StreamError, blocking};
use rdt_transport::{Closed, ConnectionConfig, Observer, RefuseReason, Trace};
use tokio::time::Instant;

use crate::support::{Pair, identity, key};

fn other_key(seed: u8) -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([seed; 32])))
}

fn refusal(result: Result<rdt_endpoint::tokio::Stream, ConnectError>) -> RefuseReason {
    match result.map(|_| ()) {
        Err(ConnectError::Stream(StreamError::Closed(Closed::Refused(reason)))) => reason,
        other => panic!("{other:?}"),
    }
}

/// Addresses at which no endpoint is.
fn silent(count: u8) -> Vec<SocketAddr> {
    (1..=count).map(|last| SocketAddr::from(([10, 9, 9, last], 7300))).collect()
}

/// Connects to these addresses; returns the milliseconds until the end.
async fn timed(
    pair: &Pair,
    addresses: &[SocketAddr],
    connect: Connect,
) -> (Result<SocketAddr, ConnectError>, u128) {
    let begin = Instant::now();
    let result = pair.client.connect(addresses, connect).await;
    (result.map(|stream| stream.peer_addr().unwrap()), begin.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn silent_addresses_delay_by_head_start() {
    let pair = Pair::new("rtt 20ms");
    let to = pair.listener.local_addr();
    let addresses = [silent(2), vec![to], silent(5)].concat();
    let (connected, elapsed) = timed(&pair, &addresses, Connect::to(key())).await;
    assert_eq!((connected.unwrap(), elapsed), (to, 520));
}

#[tokio::test(start_paused = true)]
async fn slow_first_address_wins_without_second() {
    let pair = Pair::new("rtt 400ms");
    let to = pair.listener.local_addr();
    let (connected, elapsed) = timed(&pair, &[vec![to], silent(1)].concat(), Connect::to(key())).await;
    assert_eq!((connected.unwrap(), elapsed), (to, 400));
}

#[tokio::test(start_paused = true)]
async fn silence_of_all_addresses_times_out() {
    let pair = Pair::new("rtt 20ms");
    let config = ConnectionConfig::default().handshake_timeout(Duration::from_secs(5));
    let (failed, elapsed) = timed(&pair, &silent(3), Connect::to(key()).config(config)).await;
    let error = std::io::Error::from(failed.unwrap_err());
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!((5500..9000).contains(&elapsed), "{elapsed}");
}

#[tokio::test(start_paused = true)]
async fn proved_refusal_ends_race() {
    let pair = Pair::with("rtt 20ms", Listen::new(identity()).admit(|_| Err(RefuseReason::NotAdmitted)));
    let addresses = [vec![pair.listener.local_addr()], silent(3)].concat();
    let (refused, elapsed) = timed(&pair, &addresses, Connect::to(key())).await;
    assert!(matches!(refused.unwrap_err().closed(), Some(Closed::Refused(RefuseReason::NotAdmitted))));
    assert_eq!(elapsed, 20);
}

/// Any host could have refused so: it is believed at the second SYN, and the others have three
/// seconds more.
#[tokio::test(start_paused = true)]
async fn unproved_refusal_waits_for_other_addresses() {
    let pair = Pair::new("rtt 20ms");
    let listener = Endpoint::on_network(&pair.network).unwrap().listen(Listen::new(other_key(3))).unwrap();
    let (wrong, right) = (listener.local_addr(), pair.listener.local_addr());
    let (connected, elapsed) = timed(&pair, &[wrong, right], Connect::to(key())).await;
    assert_eq!((connected.unwrap(), elapsed), (right, 270));
    let (refused, elapsed) = timed(&pair, &[vec![wrong], silent(1)].concat(), Connect::to(key())).await;
    assert!(matches!(refused.unwrap_err().closed(), Some(Closed::Refused(RefuseReason::WrongKey))));
    assert_eq!(elapsed, 4020);
}

#[tokio::test(start_paused = true)]
async fn peer_without_reached_address_is_error() {
    let pair = Pair::new("rtt 20ms");
    for addresses in [&[][..], &["[2001:db8::1]:7300".parse().unwrap()]] {
        let (failed, _) = timed(&pair, addresses, Connect::to(key())).await;
        assert_eq!(
            failed.unwrap_err().to_string(),
            "no address to connect to: the peer has no address that this socket reaches"
        );
    }
}

#[test]
fn blocking_race_has_the_same_head_start() {
    let network = rdt_endpoint::Network::new("rtt 20ms", 7).unwrap();
    let [server, client] = [(); 2].map(|()| blocking::Endpoint::on_network(&network).unwrap());
    let listener = server.listen(Listen::new(identity())).unwrap();
    let addresses = [silent(1), vec![listener.local_addr()]].concat();
    let begin = rdt_udp::clock::now();
    let stream = client.connect(&addresses[..], Connect::to(key())).unwrap();
    assert_eq!(stream.peer_addr(), Some(listener.local_addr()));
    assert!(begin.elapsed() >= Duration::from_millis(250), "{:?}", begin.elapsed());
    drop((stream, listener.accept().unwrap()));
    assert!(client.shutdown(Duration::from_secs(20)), "the attempt that lost is over");
}

/// Listens on IPv4 alone, whereas the name may have an IPv6 address first.
#[tokio::test]
async fn names_lead_to_the_listening_address() {
    let listening = Endpoint::bind("127.0.0.1:0", EndpointConfig::default()).unwrap();
    let listener = listening.listen(Listen::new(identity())).unwrap();
    let port = listener.local_addr().port();
    let name = format!("localhost:{port}");
    let (near, far) =
        tokio::join!(rdt_endpoint::tokio::connect(&name, Connect::to(key())), listener.accept());
    assert_eq!(far.unwrap().local_addr().port(), port);
    near.unwrap();
    let thread = std::thread::spawn(move || {
        let no_port = blocking::connect("localhost", Connect::to(key())).unwrap_err();
        assert!(no_port.to_string().starts_with("no address to connect to: "), "{no_port}");
        blocking::connect(("localhost", port), Connect::to(key())).map(drop)
    });
    listener.accept().await.unwrap();
    thread.join().unwrap().unwrap();
}

/// Counts its calls.
struct Count(Arc<Mutex<Vec<SocketAddr>>>, SocketAddr);

impl Observer for Count {
    fn on(&mut self, _: std::time::Instant, _: &Trace) {
        let mut seen = self.0.lock().unwrap();
        if !seen.contains(&self.1) {
            seen.push(self.1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clone_of_connect_opens_again() {
    let pair = Pair::new("rtt 20ms");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let connect = Connect::to(key()).identity(other_key(5)).observer({
        let seen = Arc::clone(&seen);
        move |peer| Count(Arc::clone(&seen), peer)
    });
    let mut peers: Vec<Option<PublicKey>> = Vec::new();
    for _ in 0..2 {
        let (near, far) = pair.connect_with(connect.clone()).await;
        near.close(0, "");
        peers.push(far.peer_identity());
    }
    assert_eq!(peers, [Some(other_key(5).public()); 2]);
    assert_eq!(*seen.lock().unwrap(), [pair.listener.local_addr()]);
}

#[test]
fn clones_of_configuration_have_keys_of_their_own() {
    let config = EndpointConfig::default().max_connections(3).memory_limit(1 << 20);
    assert_eq!((config.clone().max_connections, config.clone().memory_limit), (3, 1 << 20));
    assert_eq!(config.seed, None, "equal seeds would give equal keys");
}

#[tokio::test(start_paused = true)]
async fn listener_admits_keys_that_know_secret() {
    let secret = |byte| Arc::new(SharedSecret::from_array(&[byte; 16]));
    let listen = Listen::new(identity()).allow([other_key(5).public()]).secret(secret(1));
    let pair = Pair::with("rtt 20ms", listen);
    let to = pair.listener.local_addr();
    let connect = |connect: Connect| pair.client.connect(to, connect);
    let known = Connect::to(key()).identity(other_key(5));
    assert_eq!(refusal(connect(known.clone()).await), RefuseReason::Secret);
    assert_eq!(refusal(connect(known.clone().secret(secret(2))).await), RefuseReason::Secret);
    let other = Connect::to(key()).identity(other_key(6)).secret(secret(1));
    assert_eq!(refusal(connect(other).await), RefuseReason::NotAdmitted);
    connect(known.secret(secret(1))).await.unwrap();
}
