//! Whole tunnels in virtual time: both ends in this process, with an emulated path between them.
//! TCP connections are pipes in memory.

mod ends;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rdt_endpoint::tokio::{Endpoint, Listener};
use rdt_endpoint::{Listen, Network};
use rdt_program::{Console, Failure, Printer, Remarks, TaskStop};
use rdt_testing::Watchdog;
use rdt_transport::congestion::Algorithm;
use rdt_trust::{ConnectOptions, Gate, ListenOptions, PathOptions, Remote, TicketUse, TrustError, serving};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::args::OutputArgs;
use crate::copy::Local;
use crate::link::Link;
use crate::report::Report;
use crate::serve;
use crate::session::{Outcome, carry};

const PATH: PathOptions = PathOptions {
    idle_timeout: Duration::from_secs(30),
    connect_give_up: Duration::from_secs(20),
    no_progress: Duration::from_secs(3600),
    cc: Algorithm::Bbr,
    max_rate: None,
};

const MAX_SESSIONS: usize = 100;

impl Local for DuplexStream {}

/// A running `serve`, and what its clients need.
struct World {
    folder: tempfile::TempDir,
    network: Network,
    report: Report,
    stop: watch::Sender<bool>,
    gate: Arc<Gate>,
    server: SocketAddr,
    places: Arc<Semaphore>,
    serving: JoinHandle<Result<usize, Failure>>,
    /// Far ends of the connections to the target.
    targets: mpsc::UnboundedReceiver<DuplexStream>,
    _watchdog: Watchdog,
}

impl World {
    fn new(path: &str, listen: impl FnOnce(ListenOptions, &tempfile::TempDir) -> ListenOptions) -> Self {
        Self::with_target(path, listen, |targets| {
            let (near, far) = duplex(64 << 10);
            targets.send(far).map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(near)
        })
    }

    fn with_target(
        path: &str,
        options: impl FnOnce(ListenOptions, &tempfile::TempDir) -> ListenOptions,
        dial: impl Fn(&mpsc::UnboundedSender<DuplexStream>) -> io::Result<DuplexStream> + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let network = Network::new(path, 7).unwrap();
        let report = Report::new(
            Console::default(),
            &OutputArgs { quiet: true, json: false },
            Remarks::in_background(),
        );
        let endpoint = Endpoint::on_network(&network).unwrap();
        let server = endpoint.local_addr();
        let identity = Some(folder.path().join("server"));
        let options = options(ListenOptions { identity, ..ListenOptions::default() }, &folder);
        let gate = options.gate(server, !options.open, &report.surroundings()).unwrap();
        let gate = Arc::new(gate);
        let (stop, flag) = watch::channel(false);
        let (tell, targets) = mpsc::unbounded_channel();
        let places = Arc::new(Semaphore::new(MAX_SESSIONS));
        let listener = serving::listen(&endpoint, &gate, PATH.connection(), &places).unwrap();
        let serving = tokio::spawn({
            let (report, places) = (report.clone(), Arc::clone(&places));
            async move {
                let shared = Arc::new((dial, tell));
                let dial = || {
                    let shared = Arc::clone(&shared);
                    async move { (shared.0)(&shared.1) }
                };
                serve::accept_all(listener, &places, dial, &report, &TaskStop::new(flag)).await
            }
        });
        Self {
            folder,
            network,
            report,
            stop,
            gate,
            server,
            places,
            serving,
            targets,
            _watchdog: Watchdog::new(),
        }
    }

    fn ticket(&self) -> Remote {
        let ticket = self.gate.issue(&[self.server], TicketUse::OneClient, 3600).unwrap();
        Remote::Ticket(ticket)
    }

    fn host(&self) -> Remote {
        Remote::Host { host: self.server.ip().to_string(), port: self.server.port() }
    }

    /// Returns the link of a client, whose files are known by its name.
    fn link(&self, client: &str, remote: Remote) -> Arc<Link> {
        self.link_over(Endpoint::on_network(&self.network).unwrap(), client, remote)
    }

    fn link_over(&self, endpoint: Endpoint, client: &str, remote: Remote) -> Arc<Link> {
        let file = |name: &str| Some(self.folder.path().join(format!("{client}-{name}")));
        let options = ConnectOptions {
            identity: file("identity"),
            known_hosts: file("known_hosts"),
            secret_file: None,
        };
        let dialer = options.dialer(&remote, &self.report.surroundings()).unwrap();
        Arc::new(Link::over(endpoint, remote, dialer, &PATH, &self.report))
    }

    /// Opens a connection through a link, and returns the client's end of it and its outcome.
    fn session(&self, link: &Arc<Link>) -> (DuplexStream, JoinHandle<Result<Outcome, Failure>>) {
        self.session_until(link, self.stop.subscribe())
    }

    /// Same as [`session`](Self::session), in a program that is stopped by a flag of its own.
    fn session_until(
        &self,
        link: &Arc<Link>,
        stop: watch::Receiver<bool>,
    ) -> (DuplexStream, JoinHandle<Result<Outcome, Failure>>) {
        let (near, far) = duplex(64 << 10);
        let (report, stop) = (self.report.clone(), TaskStop::new(stop));
        let link = Arc::clone(link);
        let outcome = tokio::spawn(async move {
            let stream = link.open().await?;
            Ok(carry(&report, &stop, "test", near, stream).await)
        });
        (far, outcome)
    }

    async fn target(&mut self) -> DuplexStream {
        self.targets.recv().await.unwrap()
    }
}

fn tickets(options: ListenOptions, _: &tempfile::TempDir) -> ListenOptions {
    options
}

fn open(options: ListenOptions, _: &tempfile::TempDir) -> ListenOptions {
    ListenOptions { open: true, ..options }
}

fn pattern(length: usize, salt: u8) -> Vec<u8> {
    (0..length).map(|i| u8::try_from(i % 251).unwrap() ^ salt).collect()
}

/// Sends all bytes and the end, and returns all that arrives until its end.
async fn exchange(stream: DuplexStream, bytes: Vec<u8>) -> Vec<u8> {
    let (mut reader, mut writer) = split(stream);
    let send = async move {
        writer.write_all(&bytes).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    tokio::join!(send, reader.read_to_end(&mut got)).1.unwrap();
    got
}

async fn end_of(outcome: JoinHandle<Result<Outcome, Failure>>) -> Outcome {
    outcome.await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn both_directions_arrive_over_path_with_loss() {
    let mut world = World::new("rtt 40ms rate 50mbit loss 2%", tickets);
    let link = world.link("anna", world.ticket());
    link.test().await.unwrap();
    let (client, outcome) = world.session(&link);
    let target = world.target().await;
    let (up, down) = (pattern(1_500_000, 0), pattern(700_000, 0x55));
    let (at_client, at_target) = tokio::join!(exchange(client, up.clone()), exchange(target, down.clone()));
    assert!(at_target == up && at_client == down);
    assert!(matches!(end_of(outcome).await, Outcome::Finished));
    world.stop.send_replace(true);
    assert_eq!(world.serving.await.unwrap().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn connections_do_not_wait_for_each_other() {
    let mut world = World::new("rtt 20ms", tickets);
    let link = world.link("anna", world.ticket());
    // The first target never reads: its connection is blocked by back-pressure.
    let (mut blocked, _outcome) = world.session(&link);
    let _target = world.target().await;
    let blocking = tokio::spawn(async move { while blocked.write_all(&[0; 8192]).await.is_ok() {} });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!blocking.is_finished());
    let mut sessions = Vec::new();
    for i in 0..64 {
        let (client, outcome) = world.session(&link);
        let target = world.target().await;
        let bytes = pattern(10_000 + i, 0);
        let got = tokio::spawn(exchange(client, bytes.clone()));
        sessions.push((bytes, got, tokio::spawn(exchange(target, Vec::new())), outcome));
    }
    for (bytes, at_client, at_target, outcome) in sessions {
        assert!(at_target.await.unwrap() == bytes && at_client.await.unwrap().is_empty());
        assert!(matches!(end_of(outcome).await, Outcome::Finished));
    }
}

#[tokio::test(start_paused = true)]
async fn half_close_passes_through() {
    let mut world = World::new("rtt 20ms", tickets);
    let link = world.link("anna", world.ticket());
    let (mut client, outcome) = world.session(&link);
    let mut target = world.target().await;
    client.write_all(b"request").await.unwrap();
    client.shutdown().await.unwrap();
    let mut request = Vec::new();
    target.read_to_end(&mut request).await.unwrap();
    assert_eq!(request, b"request");
    tokio::time::sleep(Duration::from_secs(300)).await;
    target.write_all(b"late answer").await.unwrap();
    target.shutdown().await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"late answer", "keep-alives held the idle connection for 300 s");
    assert!(matches!(end_of(outcome).await, Outcome::Finished));
}

#[test]
fn remarks_do_not_wait_for_paused_reader() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let printer = Printer::spawn(10, move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let output = OutputArgs { quiet: false, json: false };
    let report = Report::new(Console::default(), &output, Remarks::Background(printer.unwrap()));
    for _ in 0..1000 {
        (report.surroundings().say)("refused a peer");
    }
    drop(go);
}

#[test]
fn quiet_program_still_shows_new_keys() {
    let (prints, printed) = std::sync::mpsc::channel();
    let printer = Printer::spawn(10, move |line| {
        let _ = prints.send(line.to_owned());
        Ok(())
    });
    let output = OutputArgs { quiet: true, json: false };
    let report = Report::new(Console::default(), &output, Remarks::Background(printer.unwrap()));
    (report.surroundings().say)("made a new key");
    (report.surroundings().warn)("key of the host, new");
    report.summary(0).unwrap();
    assert_eq!(printed.try_iter().collect::<Vec<_>>(), ["rdt-tunnel: key of the host, new"]);
}

#[tokio::test(start_paused = true)]
async fn ticket_is_for_first_client_only() {
    let world = World::new("rtt 20ms", tickets);
    let ticket = world.ticket();
    let anna = world.link("anna", ticket.clone());
    anna.test().await.unwrap();
    anna.test().await.unwrap();
    // The same client after a restart.
    world.link("anna", ticket.clone()).test().await.unwrap();
    let refused = world.link("bob", ticket).test().await.unwrap_err();
    assert!(matches!(refused.cause(), Some(TrustError::TicketRefused(_))), "{refused}");
    assert_eq!(refused.code(), 77);
    world.link("bob", world.ticket()).test().await.unwrap();
}

/// Makes a ticket whose first address is that of another program, which does not know it, and
/// returns the other program. Private addresses in a ticket may be those of other hosts where the
/// client is.
fn ambiguous_ticket(world: &World) -> (Remote, (Endpoint, Listener)) {
    let other = Endpoint::on_network(&world.network).unwrap();
    let address = other.local_addr();
    let identity = Some(world.folder.path().join("other"));
    let options = ListenOptions { identity, ..ListenOptions::default() };
    let gate = Arc::new(options.gate(address, true, &world.report.surroundings()).unwrap());
    let responder = gate.responder(PATH.connection());
    let listener = other.listen(Listen::with(responder)).unwrap();
    let ticket = world.gate.issue(&[address, world.server], TicketUse::OneClient, 3600).unwrap();
    (Remote::Ticket(ticket), (other, listener))
}

#[tokio::test(start_paused = true)]
async fn refusal_of_other_host_is_not_final() {
    let world = World::new("rtt 20ms", tickets);
    let (ticket, _other) = ambiguous_ticket(&world);
    world.link("anna", ticket).test().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn refusal_counts_if_other_addresses_are_silent() {
    let world = World::new("rtt 20ms", tickets);
    let (ticket, _other) = ambiguous_ticket(&world);
    world.network.unplug(world.server);
    let start = Instant::now();
    let refused = world.link("anna", ticket).test().await.unwrap_err();
    assert!(matches!(refused.cause(), Some(TrustError::TicketRefused(_))), "{refused}");
    // The refusal has no proof, so it takes two SYNs.
    assert_eq!(start.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn ticket_of_restarted_server_is_refused() {
    let old = World::new("rtt 20ms", tickets);
    let Remote::Ticket(ticket) = old.ticket() else { panic!("a host") };
    let text = ticket.to_string();
    // Another world has the same addresses and another key.
    let new = World::new("rtt 20ms", tickets);
    assert_eq!(old.server, new.server);
    let refused = new.link("anna", Remote::parse(&text, 1).unwrap()).test().await.unwrap_err();
    assert!(matches!(refused.code(), 5 | 8 | 77), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn key_without_permission_is_refused() {
    let world = World::new("rtt 20ms", |options, folder| {
        let path = folder.path().join("allow");
        std::fs::write(&path, "# none\n").unwrap();
        ListenOptions { allow: Some(path), ..options }
    });
    let link = world.link("anna", world.host());
    let refused = link.test().await.unwrap_err();
    let Some(TrustError::KeyRefused { key, .. }) = refused.cause() else { panic!("{refused}") };
    assert_eq!(refused.code(), 77);
    std::fs::write(world.folder.path().join("allow"), format!("{key} anna\n")).unwrap();
    link.test().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn changed_key_is_refused_by_client() {
    let world = World::new("rtt 20ms", open);
    world.link("anna", world.host()).test().await.unwrap();
    let known = world.folder.path().join("anna-known_hosts");
    let line = std::fs::read_to_string(&known).unwrap();
    let server = world.gate.identity().public().to_string();
    assert!(line.contains(&server), "{line}");
    let other = rdt_crypto::StaticKey::from_bytes([9; 32]).public().to_string();
    std::fs::write(&known, line.replace(&server, &other)).unwrap();
    let refused = world.link("anna", world.host()).test().await.unwrap_err();
    assert_eq!(refused.code(), 76, "{refused}");
    let text = refused.to_string();
    let now = format!("It is now   {}", world.gate.identity().public().fingerprint());
    assert!(text.contains("HAS CHANGED") && text.contains(&now), "{text}");
    assert!(!std::fs::read_to_string(&known).unwrap().contains(&server), "the file keeps the old key");
}
