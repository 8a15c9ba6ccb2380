//! Streams over real UDP sockets on the loopback interface, for tokio and for threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdt_crypto::{Entropy, StaticKey};
use rdt_endpoint::{
    Connect, ConnectError, EndpointConfig, Listen, Network, Stopped, blocking, tokio as streams,
};
use rdt_testing::Watchdog;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn identity() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([9; 32])))
}

fn connect() -> Connect {
    Connect::to(identity().public())
}

fn any(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), 0)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn serve_echo(ip: &str) -> streams::Endpoint {
    let endpoint = streams::Endpoint::bind(any(ip), EndpointConfig::default()).unwrap();
    let listener = endpoint.listen(Listen::new(identity())).unwrap();
    tokio::spawn(async move {
        while let Ok(stream) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.into_split();
                tokio::io::copy(&mut read, &mut write).await.unwrap();
            });
        }
    });
    endpoint
}

async fn check_echo(to: SocketAddr, len: usize) {
    let stream = streams::connect(to, connect()).await.unwrap();
    let data = pattern(len);
    let mut got = Vec::new();
    let (mut read, mut write) = stream.into_split();
    let (sent, received) = tokio::join!(
        async {
            write.write_all(&data).await?;
            write.shutdown().await
        },
        read.read_to_end(&mut got)
    );
    sent.unwrap();
    received.unwrap();
    assert!(got == data);
}

#[tokio::test]
async fn tokio_echo_on_one_thread() {
    let _watchdog = Watchdog::new();
    let server = serve_echo("127.0.0.1");
    check_echo(server.local_addr(), 3_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tokio_echo_on_four_threads() {
    let _watchdog = Watchdog::new();
    let server = serve_echo("127.0.0.1");
    let clients = (0..20).map(|_| tokio::spawn(check_echo(server.local_addr(), 300_000)));
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn wildcard_ipv6_socket_serves_both_families() {
    let _watchdog = Watchdog::new();
    let server = serve_echo("::");
    let port = server.local_addr().port();
    for ip in ["127.0.0.1", "::1"] {
        let to = SocketAddr::new(ip.parse().unwrap(), port);
        if streams::Endpoint::bind(any(ip), EndpointConfig::default()).is_err() {
            rdt_testing::skipped(format!("this host has no address {ip}"));
            continue;
        }
        check_echo(to, 10_000).await;
    }
}

#[tokio::test]
async fn two_sided_idle_ends_after_release() {
    let _watchdog = Watchdog::new();
    let server = streams::Endpoint::bind(any("127.0.0.1"), EndpointConfig::default()).unwrap();
    let listener = server.listen(Listen::new(identity())).unwrap();
    let client = streams::Endpoint::bind(any("127.0.0.1"), EndpointConfig::default()).unwrap();
    let (near, far) = tokio::join!(client.connect(server.local_addr(), connect()), listener.accept());
    near.unwrap().close(0, "");
    drop(far);
    client.wait_idle().await;
}

#[test]
fn stream_fails_after_its_runtime() {
    let _watchdog = Watchdog::new();
    let (server, stream) = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = serve_echo("127.0.0.1");
            let stream = streams::connect(server.local_addr(), connect()).await.unwrap();
            assert!(tokio::time::timeout(Duration::from_millis(10), server.stopped()).await.is_err());
            (server, stream)
        })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut read, _write) = stream.into_split();
    let error = runtime.block_on(read.read(&mut [0])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert!(matches!(runtime.block_on(server.stopped()), Stopped::Closed));
}

/// Returns an address at which no socket listens.
#[cfg(target_os = "linux")]
fn closed_port() -> SocketAddr {
    std::net::UdpSocket::bind("127.0.0.77:0").and_then(|socket| socket.local_addr()).unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn tokio_connect_to_closed_port_is_refused() {
    let _watchdog = Watchdog::new();
    for from in ["127.0.0.1", "::"] {
        let Ok(endpoint) = streams::Endpoint::bind(any(from), EndpointConfig::default()) else {
            rdt_testing::skipped(format!("this host has no address {from}"));
            continue;
        };
        let connecting = endpoint.connect(closed_port(), connect());
        let error = tokio::time::timeout(Duration::from_secs(30), connecting).await.unwrap().unwrap_err();
        assert_eq!(std::io::Error::from(error).kind(), ErrorKind::ConnectionRefused, "{from}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn blocking_connect_to_closed_port_is_refused() {
    let _watchdog = Watchdog::new();
    let error = blocking::connect(closed_port(), connect()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

/// Starts a thread that echoes one stream at a time.
fn serve_blocking(listener: blocking::Listener) -> SocketAddr {
    let address = listener.local_addr();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || std::io::copy(&mut stream.try_clone(), &mut stream));
        }
    });
    address
}

fn check_blocking_echo(stream: &blocking::Stream, len: usize) {
    let data = pattern(len);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = stream;
            writer.write_all(&data).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        let mut reader = stream;
        reader.read_to_end(&mut got).unwrap();
        assert!(got == data);
    });
    assert_eq!(stream.delivered().unwrap(), len as u64);
}

#[test]
fn blocking_echo_over_sockets() {
    let _watchdog = Watchdog::new();
    let server = blocking::Endpoint::bind(any("127.0.0.1"), EndpointConfig::default()).unwrap();
    let to = serve_blocking(server.listen(Listen::new(identity())).unwrap());
    check_blocking_echo(&blocking::connect(to, connect()).unwrap(), 3_000_000);
}

#[test]
fn blocking_echo_over_network() {
    let _watchdog = Watchdog::new();
    let network = Network::new("rtt 2ms rate 100mbit loss 1%", 7).unwrap();
    let server = blocking::Endpoint::on_network(&network).unwrap();
    let to = serve_blocking(server.listen(Listen::new(identity())).unwrap());
    let client = blocking::Endpoint::on_network(&network).unwrap();
    check_blocking_echo(&client.connect(to, connect()).unwrap(), 200_000);
}

#[test]
fn blocking_and_tokio_speak_to_each_other() {
    let _watchdog = Watchdog::new();
    let server = blocking::Endpoint::bind(any("127.0.0.1"), EndpointConfig::default()).unwrap();
    let to = serve_blocking(server.listen(Listen::new(identity())).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check_echo(to, 100_000));
}

/// Returns a client and a server on an emulated network, then two on sockets.
fn blocking_pairs() -> [[blocking::Endpoint; 2]; 2] {
    let network = Network::new("", 7).unwrap();
    let bind = |()| blocking::Endpoint::bind(any("127.0.0.1"), EndpointConfig::default()).unwrap();
    [[(); 2].map(|()| blocking::Endpoint::on_network(&network).unwrap()), [(); 2].map(bind)]
}

#[test]
fn blocking_calls_end_after_timeouts() {
    let _watchdog = Watchdog::new();
    blocking_pairs().into_iter().for_each(check_timeouts);
}

fn check_timeouts([client, server]: [blocking::Endpoint; 2]) {
    let short = Duration::from_millis(20);
    let timeout = Some(short);
    let connected = client.connect_timeout(server.local_addr(), connect(), short);
    assert!(matches!(connected, Err(ConnectError::Timeout(_))), "nothing listens yet");
    let listener = server.listen(Listen::new(identity())).unwrap();
    listener.set_timeout(timeout);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut stream = client.connect(server.local_addr(), connect()).unwrap();
    listener.set_timeout(None);
    stream.write_all(b"x").unwrap();
    let _unread = listener.accept().unwrap();
    stream.set_read_timeout(timeout);
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_write_timeout(timeout);
    let block = vec![0; 1 << 20];
    let error = std::iter::repeat_with(|| stream.write(&block)).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(!client.wait_idle(timeout));
}

#[test]
fn dropped_blocking_endpoint_closes_streams() {
    let _watchdog = Watchdog::new();
    blocking_pairs().into_iter().for_each(check_dropped_endpoint);
}

fn check_dropped_endpoint([client, server]: [blocking::Endpoint; 2]) {
    let listener = server.listen(Listen::new(identity())).unwrap();
    let mut near = client.connect(server.local_addr(), connect()).unwrap();
    near.write_all(b"x").unwrap();
    let mut far = listener.accept().unwrap();
    far.read_exact(&mut [0]).unwrap();
    drop(client);
    assert_eq!(far.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(near.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
}

/// As at the end of `main`: the stream is dropped after its last write, then its endpoint.
#[test]
fn dropped_stream_and_endpoint_deliver_what_was_written() {
    let _watchdog = Watchdog::new();
    for [client, server] in blocking_pairs() {
        let listener = server.listen(Listen::new(identity())).unwrap();
        let data = pattern(3_000_000);
        let reader = thread::spawn(move || {
            let mut got = Vec::new();
            listener.accept().unwrap().read_to_end(&mut got).map(|_| got)
        });
        let mut stream = client.connect(server.local_addr(), connect()).unwrap();
        stream.write_all(&data).unwrap();
        drop((stream, client));
        assert!(reader.join().unwrap().unwrap() == data);
    }
}

/// The limit of a shutdown is the last wait, also for what a dropped stream has left.
#[test]
fn endpoint_that_was_shut_down_waits_no_more() {
    let network = Network::new("", 8).unwrap();
    let [client, server] = [(); 2].map(|()| blocking::Endpoint::on_network(&network).unwrap());
    let _listener = server.listen(Listen::new(identity())).unwrap();
    let mut stream = client.connect(server.local_addr(), connect()).unwrap();
    network.unplug(server.local_addr());
    stream.write_all(&pattern(1000)).unwrap();
    drop(stream);
    let (done, ended) = std::sync::mpsc::channel();
    let closer = thread::spawn(move || {
        let is_delivered = client.shutdown(Duration::ZERO);
        drop(client);
        done.send(is_delivered)
    });
    // Less than the wait of a drop, by far.
    assert_eq!(ended.recv_timeout(Duration::from_secs(15)), Ok(false));
    closer.join().unwrap().unwrap();
}

/// Writes a byte and reads its echo, `count` times.
fn ping(stream: &mut blocking::Stream, count: usize) {
    for index in 0..count {
        let byte = [u8::try_from(index % 256).unwrap()];
        let mut echo = [0];
        stream.write_all(&byte).unwrap();
        stream.read_exact(&mut echo).unwrap();
        assert_eq!(echo, byte);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "other threads must wait meanwhile")]
fn blocking_calls_share_one_driver() {
    let _watchdog = Watchdog::new();
    for [client, server] in blocking_pairs() {
        let to = serve_blocking(server.listen(Listen::new(identity())).unwrap());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut stream = client.connect(to, connect()).unwrap();
                    ping(&mut stream, 100);
                    // Longer than the rests of the endpoint's thread.
                    thread::sleep(Duration::from_millis(30));
                    ping(&mut stream, 100);
                    drop(stream);
                    check_blocking_echo(&client.connect(to, connect()).unwrap(), 500_000);
                });
            }
        });
        assert!(client.wait_idle(None));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "other threads must wait meanwhile")]
fn waiting_blocking_call_outlives_driving_one() {
    let _watchdog = Watchdog::new();
    for [client, server] in blocking_pairs() {
        let listener = server.listen(Listen::new(identity())).unwrap();
        let mut streams = [(); 2].map(|()| client.connect(server.local_addr(), connect()).unwrap());
        let mut peers = streams.each_mut().map(|stream| {
            stream.write_all(b"x").unwrap();
            let mut peer = listener.accept().unwrap();
            peer.read_exact(&mut [0]).unwrap();
            peer
        });
        let [first, second] = &mut streams;
        thread::scope(|scope| {
            // The first read drives, times out, and leaves the second one to the endpoint's thread.
            scope.spawn(|| {
                first.set_read_timeout(Some(Duration::from_millis(50)));
                assert_eq!(first.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            });
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                second.read_exact(&mut [0]).unwrap();
            });
            thread::sleep(Duration::from_millis(100));
            peers[1].write_all(b"y").unwrap();
        });
    }
}

#[tokio::test]
async fn error_of_bind_has_its_kind() {
    let taken = std::net::UdpSocket::bind(any("127.0.0.1")).unwrap();
    let address = taken.local_addr().unwrap();
    let tokio = streams::Endpoint::bind(address, EndpointConfig::default()).unwrap_err();
    let threads = blocking::Endpoint::bind(address, EndpointConfig::default()).unwrap_err();
    for error in [tokio, threads] {
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains("choose another port"), "{error}");
    }
}

#[test]
fn configuration_prints_no_seed() {
    let printed = format!("{:?}", EndpointConfig::default().seed([171; 32]));
    assert!(printed.contains("max_half_open") && !printed.contains("171"), "{printed}");
}
