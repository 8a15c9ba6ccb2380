//! Ends of sessions, and of the programs: resets, refusals, lost peers, pauses.

use rdt_transport::RefuseReason;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::connect;
use crate::protocol::PeerEnd;

#[tokio::test(start_paused = true)]
async fn reset_is_reported_to_other_end() {
    let mut world = World::new("rtt 20ms", tickets);
    let link = world.link("anna", world.ticket());
    let (mut client, outcome) = world.session(&link);
    let target = world.target().await;
    drop(target);
    // As with TCP, the peer of a closed connection finds out by its next write.
    while client.write_all(b"data").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(end_of(outcome).await, Outcome::PeerFailed(PeerEnd::Reset)));
}

#[tokio::test(start_paused = true)]
async fn refused_target_is_reported_to_client() {
    let world = World::with_target("rtt 20ms", tickets, |_| Err(io::ErrorKind::ConnectionRefused.into()));
    let link = world.link("anna", world.ticket());
    link.test().await.unwrap();
    let (_client, outcome) = world.session(&link);
    let said = "the target refused the connection: no program listens there";
    assert!(matches!(end_of(outcome).await, Outcome::PeerFailed(end) if end.to_string() == said));

    let world = World::with_target("rtt 20ms", tickets, |_| Err(io::Error::other("no route")));
    let link = world.link("anna", world.ticket());
    let (_client, outcome) = world.session(&link);
    let said = "the target cannot be reached: no route";
    assert!(matches!(end_of(outcome).await, Outcome::PeerFailed(end) if end.to_string() == said));
}

#[tokio::test(start_paused = true)]
async fn stop_of_serve_is_reported_to_client() {
    let mut world = World::new("rtt 20ms", tickets);
    let link = world.link("anna", world.ticket());
    let (_never, flag) = watch::channel(false);
    let (mut client, outcome) = world.session_until(&link, flag);
    let mut target = world.target().await;
    client.write_all(b"hello").await.unwrap();
    target.read_exact(&mut [0; 5]).await.unwrap();
    world.stop.send_replace(true);
    assert!(matches!(end_of(outcome).await, Outcome::PeerFailed(PeerEnd::Stopped)));
    assert_eq!(world.serving.await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn stop_delivers_stream_that_has_ended() {
    let mut world = World::new("rtt 2s loss 20%", tickets);
    let link = world.link("anna", world.ticket());
    let (stop, flag) = watch::channel(false);
    let (mut client, outcome) = world.session_until(&link, flag);
    let mut target = world.target().await;
    // One window. Packets of it are lost, and repeated after the stop.
    let bytes = pattern(14_000, 0);
    client.write_all(&bytes).await.unwrap();
    client.shutdown().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    stop.send_replace(true);
    assert!(matches!(end_of(outcome).await, Outcome::Stopped));
    let mut got = Vec::new();
    target.read_to_end(&mut got).await.unwrap();
    assert!(got == bytes, "{} bytes", got.len());
}

#[tokio::test(start_paused = true)]
async fn lost_path_ends_sessions_and_recovers() {
    let mut world = World::new("rtt 20ms", tickets);
    let link = world.link("anna", world.ticket());
    let (mut client, outcome) = world.session(&link);
    let mut target = world.target().await;
    client.write_all(b"hello").await.unwrap();
    target.read_exact(&mut [0; 5]).await.unwrap();
    world.network.unplug(world.server);
    let unplugged_at = Instant::now();
    let end = end_of(outcome).await;
    assert!(matches!(&end, Outcome::PeerFailed(PeerEnd::Lost(_))), "{end:?}");
    let silence = unplugged_at.elapsed();
    assert!((29..=41).contains(&silence.as_secs()), "{silence:?}");
    assert_eq!(client.read(&mut [0; 1]).await.unwrap_or(0), 0);
    assert!(link.open().await.is_err_and(|failure| failure.code() == rdt_program::exit::TIMEOUT));
    world.network.plug_in(world.server);
    let (client, _outcome) = world.session(&link);
    let target = world.target().await;
    let (at_client, at_target) = tokio::join!(exchange(client, vec![1; 10]), exchange(target, vec![2; 10]));
    assert_eq!((at_client, at_target), (vec![2; 10], vec![1; 10]));
}

#[tokio::test(start_paused = true)]
async fn undelivered_tail_is_no_finish() {
    let mut world = World::new("rtt 20ms", tickets);
    let link = world.link("anna", world.ticket());
    let (mut client, outcome) = world.session(&link);
    let mut target = world.target().await;
    target.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    world.network.unplug(world.server);
    client.write_all(b"tail").await.unwrap();
    client.shutdown().await.unwrap();
    let end = end_of(outcome).await;
    assert!(matches!(&end, Outcome::PeerFailed(PeerEnd::Lost(_))), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn session_waits_for_slow_target() {
    let mut world = World::new("rtt 20ms", tickets);
    let link = world.link("anna", world.ticket());
    let (mut client, outcome) = world.session(&link);
    let mut target = world.target().await;
    target.shutdown().await.unwrap();
    let bytes = pattern(200_000, 0);
    client.write_all(&bytes).await.unwrap();
    client.shutdown().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert!(!outcome.is_finished());
    let mut got = Vec::new();
    target.read_to_end(&mut got).await.unwrap();
    assert!(got == bytes);
    assert!(matches!(end_of(outcome).await, Outcome::Finished));
}

#[tokio::test(start_paused = true)]
async fn target_that_reads_nothing_ends_session() {
    let mut world = World::new("rtt 20ms", tickets);
    let link = world.link("anna", world.ticket());
    let (client, outcome) = world.session(&link);
    let _target = world.target().await;
    let (_reader, mut writer) = split(client);
    let started = Instant::now();
    let writing = tokio::spawn(async move { while writer.write_all(&[1; 10_000]).await.is_ok() {} });
    let end = end_of(outcome).await;
    assert!(matches!(&end, Outcome::PeerFailed(PeerEnd::Other(_))), "{end:?}");
    let waited = started.elapsed().as_secs();
    assert!((3600..3800).contains(&waited), "{waited} s");
    writing.await.unwrap();
}

/// Waits until a session under back-pressure cannot write.
async fn fill(client: &mut DuplexStream) {
    while timeout(Duration::from_secs(5), client.write_all(&[0; 8192])).await.is_ok() {}
}

#[tokio::test(start_paused = true)]
async fn lost_client_ends_session_whose_target_pauses() {
    let mut world = World::new("rtt 20ms", tickets);
    let endpoint = Endpoint::on_network(&world.network).unwrap();
    let address = endpoint.local_addr();
    let link = world.link_over(endpoint, "anna", world.ticket());
    let (mut client, _outcome) = world.session(&link);
    let mut target = world.target().await;
    fill(&mut client).await;
    assert_eq!(world.places.available_permits(), MAX_SESSIONS - 1);
    world.network.unplug(address);
    // The idle timeout is 30 s.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(target.write_all(b"x").await.is_err(), "the session has dropped its end");
    assert_eq!(world.places.available_permits(), MAX_SESSIONS);
}

#[tokio::test(start_paused = true)]
async fn session_counts_until_it_has_ended() {
    let world = World::new("rtt 20ms", open);
    let link = world.link("anna", world.host());
    link.test().await.unwrap();
    let sessions =
        Arc::clone(&world.places).acquire_many_owned(u32::try_from(MAX_SESSIONS).unwrap()).await.unwrap();
    let refused = link.test().await.unwrap_err();
    assert!(matches!(refused.cause(), Some(PeerEnd::Refused(RefuseReason::Busy))), "{refused}");
    drop(sessions);
    link.test().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopped_endpoint_ends_connect() {
    let world = World::new("rtt 20ms", tickets);
    let network = world.network.clone();
    let (endpoints, made) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = runtime.block_on(async { Endpoint::on_network(&network).unwrap() });
        endpoints.send(endpoint).unwrap();
        ended.recv().unwrap();
    });
    let link = world.link_over(made.recv().unwrap(), "anna", world.ticket());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (report, stop) = (world.report.clone(), TaskStop::new(world.stop.subscribe()));
    let connect =
        tokio::spawn(async move { connect::accept_all(&listener, MAX_SESSIONS, link, &report, &stop).await });
    assert!(!connect.is_finished());
    end.send(()).unwrap();
    other.join().unwrap();
    let failure = timeout(Duration::from_secs(60), connect).await.unwrap().unwrap().unwrap_err();
    assert_eq!(
        (failure.code(), &*failure.to_string()),
        (71, "the endpoint has ended: the endpoint is closed")
    );
}
