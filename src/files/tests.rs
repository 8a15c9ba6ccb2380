use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

use rdt_endpoint::blocking::{Stream, connect};
use rdt_endpoint::{Connect, StreamError};
use rdt_testing::Watchdog;
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{Closed, StreamName};
use rdt_trust::{Dialer, Ticket, os_entropy};
use tempfile::TempDir;

use super::send::send_as;
use super::*;

/// Files of both ends, and the receiver.
struct World {
    folder: TempDir,
    receiver: FileReceiver,
    _watchdog: Watchdog,
}

impl World {
    fn new() -> Self {
        let (folder, receiver) = (tempfile::tempdir().unwrap(), receiver());
        fs::create_dir(folder.path().join("kept")).unwrap();
        Self { folder, receiver, _watchdog: Watchdog::new() }
    }

    fn kept(&self) -> PathBuf {
        self.folder.path().join("kept")
    }

    /// Returns a file with these bytes.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns a file that takes long to send.
    fn huge_file(&self) -> PathBuf {
        let path = self.folder.path().join("huge");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        path
    }

    fn ticket(&self) -> Ticket {
        self.receiver.ticket().unwrap()
    }
}

/// Opens a connection of another client, which writes as it likes.
fn stream(ticket: &Ticket) -> Stream {
    let dialer = Dialer::of_ticket(rdt_endpoint::generate_key().unwrap(), ticket, &surroundings()).unwrap();
    connect(ticket.addresses()[0], Connect::with(dialer.initiator())).unwrap()
}

fn receiver() -> FileReceiver {
    FileReceiver::bind("127.0.0.1:0").unwrap()
}

/// Returns all files, hidden ones too.
fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn data() -> Vec<u8> {
    let mut random = rdt_testing::random(1);
    (0..1_000_001).map(|_| u8::try_from(random(256)).unwrap()).collect()
}

fn reason(error: &FileTransferError) -> Option<CloseReason> {
    match error {
        FileTransferError::Connection(StreamError::Closed(Closed::Peer { reason, .. })) => Some(*reason),
        _ => None,
    }
}

fn until_bytes_flow(handle: &TransferHandle) {
    while handle.bytes() == 0 {
        thread::yield_now();
    }
}

fn ended<T>(call: ScopedJoinHandle<'_, T>) -> T {
    call.join().unwrap()
}

#[test]
fn files_of_one_name_are_kept_side_by_side() {
    let world = World::new();
    let (path, ticket, bytes) = (world.file("data.bin", &data()), world.ticket(), data().len() as u64);
    for name in ["data.bin", "data-2.bin"] {
        let (here, there) = (TransferHandle::new(), TransferHandle::new());
        let (sent, received) = thread::scope(|scope| {
            let sending = scope.spawn(|| send_file_with(&ticket, &path, &here).unwrap());
            let received = world.receiver.receive_into_with(world.kept(), &there).unwrap();
            (ended(sending), received)
        });
        assert_eq!(
            (sent.bytes, received.bytes, received.path.clone()),
            (bytes, bytes, world.kept().join(name))
        );
        assert!(fs::read(&received.path).unwrap() == data(), "the bytes differ");
        assert_eq!(
            (here.bytes(), here.total(), there.bytes(), there.total()),
            (bytes, Some(bytes), bytes, None)
        );
        assert!(sent.bits_per_s() > 0.0 && received.bits_per_s() > 0.0);
    }
    assert_eq!(names(&world.kept()), ["data-2.bin", "data.bin"]);
}

#[test]
fn ticket_admits_one_client_and_others_disturb_nobody() {
    let world = World::new();
    let (path, known) = (world.file("empty", b""), world.ticket());
    let forged = Ticket::new(
        known.service(),
        known.addresses(),
        known.key(),
        false,
        u64::MAX,
        &mut os_entropy().unwrap(),
    );
    let held = world.ticket();
    stream(&held).close(0, "");
    for ticket in [forged.unwrap(), held] {
        let refusal = send_file(&ticket, &path).unwrap_err();
        assert!(matches!(refusal, FileTransferError::Ticket(TrustError::TicketRefused(_))), "{refusal}");
    }
    assert!(world.receiver.receive_into(world.kept()).is_err(), "the other client sent nothing");
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_file(&known, &path));
        assert_eq!(world.receiver.receive_into(world.kept()).unwrap().bytes, 0);
        assert_eq!(ended(sending).unwrap().bytes, 0);
    });
    assert_eq!(names(&world.kept()), ["empty"]);
}

#[test]
fn names_from_network_stay_in_directory() {
    let world = World::new();
    let (path, ticket) = (world.file("data", b"abc"), world.ticket());
    for (name, stored) in [
        ("../../up", "up"),
        ("/etc/rdt-test", "rdt-test"),
        (r"..\down", "down"),
        (".hidden", "hidden"),
        ("a\nb\u{1b}[2J", "a_b_[2J"),
    ] {
        let received = thread::scope(|scope| {
            scope.spawn(|| send_as(&ticket, &path, StreamName::new(name), &TransferHandle::new()).unwrap());
            world.receiver.receive_into(world.kept()).unwrap()
        });
        assert_eq!(received.path, world.kept().join(stored));
    }
    let received = thread::scope(|scope| {
        scope.spawn(|| send_as(&ticket, &path, StreamName::new(".."), &TransferHandle::new()).unwrap());
        world.receiver.receive_into(world.kept()).unwrap()
    });
    assert!(received.path.file_name().unwrap().to_str().unwrap().starts_with("127.0.0.1-"));
    assert_eq!(names(&world.kept()).len(), 6);
    assert_eq!(names(world.folder.path()), ["data", "kept"], "nothing beside it");
}

#[test]
fn directory_that_cannot_be_written_is_found_before_a_sender() {
    let world = World::new();
    for path in [world.folder.path().join("none"), world.file("file", b"")] {
        let error = world.receiver.receive_into(&path).unwrap_err();
        assert!(matches!(error, FileTransferError::File { path: of, .. } if of == path));
    }
}

#[test]
fn sender_learns_that_storing_failed() {
    let world = World::new();
    let handle = TransferHandle::new();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| world.receiver.receive_into_with(world.kept(), &handle));
        let mut stream = stream(&world.ticket());
        stream.write_all(b"abc").unwrap();
        until_bytes_flow(&handle);
        fs::remove_dir_all(world.kept()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let error = stream.delivered().unwrap_err().into();
        assert_eq!(reason(&error), Some(CloseReason::Storage));
        assert!(matches!(ended(receiving).unwrap_err(), FileTransferError::File { .. }));
    });
    assert!(!world.kept().exists());
}

#[test]
fn unreadable_file_is_found_before_a_connection() {
    let world = World::new();
    for (path, kind) in
        [(world.folder.path().join("none"), ErrorKind::NotFound), (world.kept(), ErrorKind::InvalidInput)]
    {
        match send_file(&world.ticket(), &path).unwrap_err() {
            FileTransferError::File { path: of, source } => assert_eq!((of, source.kind()), (path, kind)),
            error => panic!("{error}"),
        }
    }
}

#[test]
fn cancelled_transfer_leaves_no_file() {
    let world = World::new();
    let (path, ticket) = (world.huge_file(), world.ticket());
    for is_sender in [true, false] {
        let handles = [TransferHandle::new(), TransferHandle::new()];
        let errors = thread::scope(|scope| {
            let sending = scope.spawn(|| send_file_with(&ticket, &path, &handles[0]).unwrap_err());
            let receiving =
                scope.spawn(|| world.receiver.receive_into_with(world.kept(), &handles[1]).unwrap_err());
            handles.iter().for_each(until_bytes_flow);
            handles[usize::from(!is_sender)].cancel();
            [ended(sending), ended(receiving)]
        });
        let [own, other] = if is_sender { [0, 1] } else { [1, 0] }.map(|of| &errors[of]);
        assert!(matches!(own, FileTransferError::Cancelled), "{own}");
        assert_eq!(reason(other), Some(CloseReason::Aborted), "{other}");
        assert!(other.to_string().contains(CANCELLED), "{other}");
        assert_eq!(names(&world.kept()), [""; 0]);
    }
}

#[test]
fn wait_for_sender_is_cancelled() {
    let world = World::new();
    let handle = TransferHandle::new();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| world.receiver.receive_into_with(world.kept(), &handle));
        handle.cancel();
        assert!(matches!(ended(receiving), Err(FileTransferError::Cancelled)));
    });
    let path = world.file("data", b"abc");
    let sent = send_file_with(&world.ticket(), path, &handle);
    assert!(matches!(sent, Err(FileTransferError::Cancelled)), "a handle is for one transfer");
    assert_eq!(names(&world.kept()), [""; 0]);
}

#[test]
fn failed_sender_leaves_no_file() {
    let world = World::new();
    let handle = TransferHandle::new();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| world.receiver.receive_into_with(world.kept(), &handle));
        let mut stream = stream(&world.ticket());
        stream.write_all(b"abc").unwrap();
        until_bytes_flow(&handle);
        stream.close(7, "gone");
        assert_eq!(reason(&ended(receiving).unwrap_err()), Some(CloseReason::Aborted));
    });
    assert_eq!(names(&world.kept()), [""; 0]);
}

#[cfg(feature = "tokio")]
mod futures {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn file_arrives() {
        let world = World::new();
        let receiver = crate::tokio::FileReceiver::bind("127.0.0.1:0").unwrap();
        let (path, ticket) = (world.file("data.bin", &data()), receiver.ticket().unwrap());
        let (sent, received) =
            tokio::join!(crate::tokio::send_file(&ticket, path), receiver.receive_into(world.kept()));
        assert_eq!(sent.unwrap().bytes, received.unwrap().bytes);
        assert!(fs::read(world.kept().join("data.bin")).unwrap() == data(), "the bytes differ");
    }

    #[tokio::test]
    async fn dropped_future_cancels() {
        let world = World::new();
        let receiver = crate::tokio::FileReceiver::bind("127.0.0.1:0").unwrap();
        let (path, ticket, handle) = (world.huge_file(), receiver.ticket().unwrap(), TransferHandle::new());
        let receiving = async {
            let sending = crate::tokio::send_file_with(&ticket, path, &handle);
            assert!(timeout(Duration::from_millis(300), sending).await.is_err());
        };
        let ((), received) = tokio::join!(receiving, receiver.receive_into(world.kept()));
        assert_eq!(reason(&received.unwrap_err()), Some(CloseReason::Aborted));
        assert_eq!(names(&world.kept()), [""; 0]);
    }
}
