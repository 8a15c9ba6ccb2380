//! Readers of the standard output or error that pause for longer than the senders' timeouts.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::data::random;
use super::keys::{key_of, send_as};
use super::process::{Program, Receiver, WAIT_LIMIT, rdt_recv, rdt_send, send};

/// More than all buffers between sender and reader together: pipe, queue and receive buffer.
const BYTES: usize = 12 << 20;

/// Pause of the reader, longer than all attempts and timeouts of the senders below.
const PAUSE: Duration = Duration::from_secs(3);

#[test]
fn transfer_waits_for_paused_reader() {
    let senders = ["500 0 0 1000 - --attempts 3/5/5 --quiet", "- --give-up 1s --quiet"];
    let cases = senders.map(|args| [BYTES, 100_000].map(|bytes| (args, bytes)));
    let cases = cases.into_iter().flatten().map(|(args, bytes)| thread::spawn(move || transfer(args, bytes)));
    for case in cases.collect::<Vec<_>>() {
        case.join().unwrap();
    }
}

/// Starts a receiver that writes to a pipe; returns it, the pipe and its address.
fn receiver() -> (Program, PipeReader, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = rdt_recv("--bind 127.0.0.1:0 --no-link --memory 16mib --output -");
    let receiver = Program::start(command.stdout(writer));
    drop(command);
    let address = receiver.error_line("initialized").rsplit(' ').next().unwrap().to_string();
    (receiver, reader, address)
}

#[test]
fn no_progress_ends_transfer_that_waits() {
    for (args, told) in [("500 0 0 1000", false), ("", true)] {
        let (receiver, _reader, address) = receiver();
        let run = send(&format!("{address} {args} --power 22 --no-progress 1s --quiet")).with_code(5);
        assert!(run.stderr.contains("answers, but took nothing for 1 s"), "{args}: {}", run.stderr);
        if told {
            // The CLOSE ends the transfer that had reserved the standard output.
            receiver.ended().with_code(74);
        }
    }
}

/// Reads one byte; panics if none comes in time, as when the sender could not connect.
fn first_byte(reader: &PipeReader) -> Vec<u8> {
    let mut reader = reader.try_clone().unwrap();
    let (tell, read) = channel();
    thread::spawn(move || {
        let mut byte = vec![0];
        tell.send(reader.read_exact(&mut byte).map(|()| byte))
    });
    read.recv_timeout(WAIT_LIMIT).unwrap().unwrap()
}

fn transfer(args: &str, bytes: usize) {
    let (receiver, mut reader, address) = receiver();
    let data = random(bytes, 7);
    let mut sender = Program::start(rdt_send(&format!("{address} {args}")).stdin(Stdio::piped()));
    sender.feed(data.clone(), &[BYTES]);
    // The first bytes were written, so this transfer has reserved the standard output.
    let mut kept = first_byte(&reader);
    let (_nobody, never) = channel::<()>();
    assert!(never.recv_timeout(PAUSE).is_err());
    let other = send(&format!("{address} --bytes 1000")).with_code(8);
    assert!(other.stderr.contains("closed the transfer"), "it is answered meanwhile: {}", other.stderr);
    reader.read_to_end(&mut kept).unwrap();
    sender.ended().with_code(0);
    receiver.ended().with_code(0);
    assert!(kept == data, "{args}: the bytes differ");
}

/// Writes to a pipe without a reader until it is full, and keeps it full.
fn fill(mut pipe: PipeWriter) {
    let (wrote, writes) = channel();
    // Ends when the pipe is closed.
    thread::spawn(move || {
        while pipe.write_all(&[b'\n'; 512]).is_ok() {
            let _ = wrote.send(());
        }
    });
    while writes.recv_timeout(Duration::from_millis(300)).is_ok() {}
}

#[test]
fn refusals_do_not_wait_for_paused_reader() {
    let folder = tempfile::tempdir().unwrap();
    let [anna, bert] = ["anna", "bert"].map(|name| folder.path().join(name));
    let list = folder.path().join("allow");
    std::fs::write(&list, key_of(&anna)).unwrap();
    let (_reader, writer) = std::io::pipe().unwrap();
    let options = format!("--bind 127.0.0.1:0 --no-link --allow {}", list.display());
    let receiver = Receiver::from(rdt_recv(&options).stderr(writer.try_clone().unwrap()));
    fill(writer);
    for (user, code) in [(&bert, 77), (&anna, 0), (&bert, 77)] {
        send_as(user, &receiver.args("--bytes 1000 --connect-give-up 5s")).with_code(code);
    }
}
