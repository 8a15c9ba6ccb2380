//! File transfers of the library at one end, and a program at the other.

use std::fs;
use std::process::Stdio;
use std::thread;

use rdt::{FileReceiver, FileTransferError, Ticket, TransferHandle};

use super::data::random;
use super::keys::ticket_of;
use super::process::{Program, Receiver, rdt_send, send};

#[test]
fn library_sends_to_program() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("data.tar"), folder.path().join("kept"));
    fs::write(&path, random(3_000_000, 1)).unwrap();
    fs::create_dir(&kept).unwrap();
    let receiver = Receiver::keeping(&kept, "--ticket --json");
    let ticket: Ticket = ticket_of(&receiver).parse().unwrap();
    for name in ["data.tar", "data-2.tar"] {
        assert_eq!(rdt::send_file(&ticket, &path).unwrap().bytes, 3_000_000);
        assert!(fs::read(kept.join(name)).unwrap() == random(3_000_000, 1), "the bytes differ");
    }
    send(&format!("{ticket} --bytes 1000")).with_code(77);
}

#[test]
fn program_sends_to_library() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("data.tar"), folder.path().join("kept"));
    fs::write(&path, random(3_000_000, 2)).unwrap();
    fs::create_dir(&kept).unwrap();
    let receiver = FileReceiver::bind("127.0.0.1:0").unwrap();
    let ticket = receiver.ticket().unwrap().to_string();
    let sending = thread::spawn(move || {
        let mut command = rdt_send(&ticket);
        Program::start(command.arg("--file").arg(path)).ended().with_code(0)
    });
    let received = receiver.receive_into(&kept).unwrap();
    sending.join().unwrap();
    assert_eq!((received.path.clone(), received.bytes), (kept.join("data.tar"), 3_000_000));
    assert!(fs::read(received.path).unwrap() == random(3_000_000, 2), "the bytes differ");
}

#[test]
fn library_is_refused_with_ticket_of_another() {
    let receiver = Receiver::start("--ticket --json");
    let ticket: Ticket = ticket_of(&receiver).parse().unwrap();
    send(&format!("{ticket} --bytes 1000")).with_code(0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::write(&path, b"abc").unwrap();
    let refusal = rdt::send_file(&ticket, path).unwrap_err();
    assert!(matches!(refusal, FileTransferError::Ticket(_)), "{refusal}");
}

#[test]
fn program_learns_that_library_cannot_store() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, handle) = (folder.path().join("kept"), TransferHandle::new());
    fs::create_dir(&kept).unwrap();
    let receiver = FileReceiver::bind("127.0.0.1:0").unwrap();
    let ticket = receiver.ticket().unwrap();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.receive_into_with(&kept, &handle));
        let mut command = rdt_send(&format!("{ticket} --file -"));
        let mut sender = Program::start(command.stdin(Stdio::piped()));
        sender.write(b"abc");
        while handle.bytes() == 0 {
            thread::yield_now();
        }
        fs::remove_dir_all(&kept).unwrap();
        let run = sender.without_more_input().ended().with_code(8);
        assert!(run.stderr.contains("could not store"), "{}", run.stderr);
        assert!(matches!(receiving.join().unwrap(), Err(FileTransferError::File { .. })));
    });
}
