//! `rdt-recv --output`: transfers are stored in order and exactly once, completely or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;

use super::broken_output::syn;
use super::data::{crc_json, random};
use super::process::{Program, Receiver, WAIT_LIMIT, rdt_recv, rdt_send, send};

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the names of files that are not hidden, which are complete.
fn visible(directory: &Path) -> Vec<String> {
    names(directory).into_iter().filter(|name| !name.starts_with('.')).collect()
}

/// Waits until the directory has the temporary files of `count` transfers, which may appear after
/// the first ACK. Fails if there are more.
#[expect(clippy::disallowed_methods, reason = "nothing tells when a file appears")]
fn hidden(directory: &Path, count: usize) {
    for _ in 0..WAIT_LIMIT.as_millis() {
        let hidden: Vec<_> = names(directory).into_iter().filter(|name| name.starts_with('.')).collect();
        match hidden.len() {
            found if found == count => return,
            found if found > count => panic!("one hidden file for each transfer: {hidden:?}"),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    panic!("nothing reached the disk");
}

fn piped_to(receiver: &Receiver, options: &str) -> Program {
    let args = receiver.args(&format!("500 0 0 1000 - {options}"));
    Program::start(rdt_send(&args).stdin(Stdio::piped()))
}

/// Returns the path in the receiver's line about a finished transfer.
fn kept_in(receiver: &Receiver, bytes: usize) -> String {
    let line = receiver.program.line(&format!("finished: {bytes} bytes"));
    let (_, path) = line.split_once(", kept in ").expect("a path");
    path.split_once("; RAM").unwrap().0.to_string()
}

#[test]
fn paused_pipe_is_stored_whole() {
    let directory = directory();
    let file = directory.path().join("kept");
    let receiver = Receiver::keeping(&file, "");
    let data = random((4 << 20) + 13, 1);
    let mut sender = piped_to(&receiver, "--interval 5ms");
    sender.feed(data.clone(), &[1, 1463, 100_000, 1464, 7, 262_144, 1_000_003, 2]);
    let run = sender.ended().with_code(0);
    assert_eq!(kept_in(&receiver, data.len()), file.display().to_string());
    assert!(fs::read(&file).unwrap() == data, "the bytes differ");
    assert!(run.line("Main:\ttransfer").ends_with(&format!("checksum {:X}", super::data::crc32(&data))));
    assert_eq!(names(directory.path()), ["kept"]);
}

#[test]
fn lossy_transfer_is_stored_exactly() {
    let directory = directory();
    let file = directory.path().join("kept");
    let receiver = Receiver::from(rdt_recv("--bind 127.0.0.1:0 --seed 3 --output").arg(&file));
    let mut sender =
        Program::start(rdt_send(&receiver.args("50 0.002 0.02/0.1 100 -")).stdin(Stdio::piped()));
    let data = random(200_000, 6);
    sender.feed(data.clone(), &[200_000]);
    sender.ended().with_code(0);
    assert!(fs::read(&file).unwrap() == data, "the bytes differ");
}

#[test]
fn memory_does_not_grow_with_input() {
    const BYTES: usize = 64 << 20;
    let receiver = Receiver::start("--no-link --once --json");
    let mut sender = piped_to(&receiver, "--json");
    sender.feed(vec![1; BYTES], &[BYTES]);
    for run in [sender.ended(), receiver.program.ended()] {
        let summary = run.with_code(0).summary();
        assert_eq!(summary["bytes"], BYTES);
        // The value is null if the system does not report memory, which passes here.
        assert!(summary["memory_peak_bytes"].as_u64() < Some(BYTES as u64 / 2), "{summary}");
    }
}

#[test]
fn directory_gets_one_file_per_transfer() {
    let directory = directory();
    let (source, kept) = (directory.path().join("source"), directory.path().join("kept"));
    fs::create_dir(&kept).unwrap();
    let receiver = Receiver::keeping(&kept, "");
    let mut expected = BTreeSet::new();
    for (size, options) in
        [(0, ""), (1, ""), (1464, ""), (2929, ""), (300_000, "--packet-size 9000"), (2_000_017, "")]
    {
        let data = random(size, 2);
        fs::write(&source, &data).unwrap();
        let args = receiver.args(&format!("500 0 0 1000 --json {options} --file"));
        let run = Program::start(rdt_send(&args).arg(&source)).ended().with_code(0);
        assert_eq!(run.summary()["crc32"].as_str(), Some(&*crc_json(&data)));
        let path = kept_in(&receiver, size);
        assert!(fs::read(&path).unwrap() == data, "{size} bytes differ");
        expected.insert(Path::new(&path).file_name().unwrap().to_str().unwrap().to_string());
    }
    assert_eq!(visible(&kept), expected.iter().cloned().collect::<Vec<_>>());
    for name in expected {
        let port = name.strip_prefix("127.0.0.1-").and_then(|rest| rest.strip_suffix(".bin"));
        // Two senders may get the same port, one after the other: PORT-2.
        let port = port.and_then(|rest| rest.split('-').next());
        assert!(port.is_some_and(|port| port.parse::<u16>().is_ok()), "{name} is an address and a port");
    }
}

#[test]
fn concurrent_senders_get_separate_files() {
    let directory = directory();
    let receiver = Receiver::keeping(directory.path(), "");
    let data = [random(400_000, 3), random(500_001, 4)];
    let mut senders = [(); 2].map(|()| piped_to(&receiver, "--interval 5ms"));
    for sender in &senders {
        sender.line("connected");
    }
    for (sender, data) in senders.iter_mut().zip(&data) {
        sender.feed(data.clone(), &[60_001]);
    }
    for (sender, data) in senders.into_iter().zip(&data) {
        sender.ended().with_code(0);
        assert!(fs::read(kept_in(&receiver, data.len())).unwrap() == *data, "the bytes differ");
    }
    assert_eq!(visible(directory.path()).len(), 2);
}

#[test]
fn output_to_stdout_exits_after_one_transfer() {
    let cases = [(3_000_001, "--file -"), (5, "-"), (0, "-")].map(|(size, from)| {
        let receiver = Receiver::from(&mut rdt_recv("--bind 127.0.0.1:0 --no-link --output -"));
        let data = random(size, 5);
        let args = receiver.args(&format!("500 0 0 1000 {from} --interval 5ms"));
        let mut sender = Program::start(rdt_send(&args).stdin(Stdio::piped()));
        sender.feed(data.clone(), &[700_001]);
        (receiver, data, sender)
    });
    for (receiver, data, sender) in cases {
        sender.ended().with_code(0);
        let run = receiver.program.ended().with_code(0);
        assert!(run.stdout == data, "{} bytes differ", data.len());
        let finished = format!("finished: {} bytes", data.len());
        assert!(run.stderr.contains(&finished), "the log is on the standard error");
    }
}

#[test]
fn quiet_ticket_stays_out_of_received_data() {
    for options in ["", "--quiet"] {
        let command = format!("--bind 127.0.0.1:0 --no-link --output - --ticket {options}");
        let receiver = Program::start(&mut rdt_recv(&command));
        let ticket = receiver.error_line("rdt1");
        send(&format!("{ticket} --bytes 3000")).with_code(0);
        assert!(receiver.ended().with_code(0).stdout == super::data::array(3000), "{options}");
    }
}

#[test]
fn second_sender_does_not_disturb_stdout_transfer() {
    let receiver = Receiver::from(&mut rdt_recv("--bind 127.0.0.1:0 --no-link --output -"));
    let mut first = piped_to(&receiver, "");
    first.write(&b"a".repeat(20_000));
    receiver.program.has_printed(1);
    let second = piped_to(&receiver, "--attempts 9").without_more_input().ended().with_code(5);
    assert!(second.stderr.contains("no answer"), "it is told nothing else");
    assert!(receiver.program.error_line("cannot store").contains("one transfer only"));
    first.write(&b"b".repeat(20_000));
    first.without_more_input().ended().with_code(0);
    let run = receiver.program.ended().with_code(0);
    assert!(run.stdout == [b"a".repeat(20_000), b"b".repeat(20_000)].concat(), "the bytes differ");
}

/// Returns a sender that has sent a SYN and received the SYN-ACK, and sends no data.
fn half_open(receiver: &Receiver) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(receiver.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.send(&syn()).unwrap();
    assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 12);
    socket
}

#[test]
fn syn_alone_does_not_take_stdout() {
    let receiver = Receiver::from(&mut rdt_recv("--bind 127.0.0.1:0 --no-link --output -"));
    let _half_open = half_open(&receiver);
    send(&receiver.args("10 0 0 1000 --bytes 3000")).with_code(0);
    assert!(receiver.program.ended().with_code(0).stdout == super::data::array(3000), "the bytes differ");
}

#[cfg(unix)]
#[test]
fn syns_alone_take_no_descriptors() {
    let directory = directory();
    let args = ["--bind", "127.0.0.1:0", "--no-link", "--output", directory.path().to_str().unwrap()];
    let receiver = Receiver::from(&mut super::process::rdt_recv_after("ulimit -n 30", &args));
    let senders: Vec<_> = (0..100).map(|_| half_open(&receiver)).collect();
    assert!(names(directory.path()).is_empty(), "nothing arrived");
    send(&receiver.args("10 0 0 1000 --bytes 3000")).with_code(0);
    let path = kept_in(&receiver, 3000);
    assert!(fs::read(path).unwrap() == super::data::array(3000), "the bytes differ");
    drop(senders);
    let run = receiver.interrupted().with_code(0);
    assert_eq!(run.remarks(), Vec::<&str>::new());
}

/// Returns a native sender whose first bytes are in a file of the receiver, and which pauses.
#[cfg(unix)]
fn paused(receiver: &Receiver, directory: &Path, files: usize) -> Program {
    let mut sender = Program::start(rdt_send(&receiver.args("-")).stdin(Stdio::piped()));
    sender.write(&b"n".repeat(30_000));
    hidden(directory, files);
    sender
}

#[cfg(unix)]
#[test]
fn files_beyond_limit_are_refused_as_busy() {
    const FILES: usize = 16;
    let directory = directory();
    let args = ["--bind", "127.0.0.1:0", "--no-link", "--output", directory.path().to_str().unwrap()];
    let receiver = Receiver::from(&mut super::process::rdt_recv_after("ulimit -n 40", &args));
    let mut senders: Vec<_> = (1..=FILES).map(|n| paused(&receiver, directory.path(), n)).collect();
    let refused = send(&receiver.args("--bytes 5000 --json")).with_code(8).summary();
    assert_eq!(refused["close_reason"], "refused");
    assert!(receiver.program.error_line("cannot store").ends_with("too many files are open (see ulimit -n)"));
    senders.pop().unwrap().without_more_input().ended().with_code(0);
    send(&receiver.args("--bytes 5000")).with_code(0);
    for sender in senders {
        sender.without_more_input().ended().with_code(0);
    }
    receiver.interrupted().with_code(0);
    assert_eq!(visible(directory.path()).len(), FILES + 1);
}

#[cfg(target_os = "linux")]
#[test]
fn soft_descriptor_limit_is_raised_to_hard_limit() {
    let args = ["--bind", "127.0.0.1:0"];
    let receiver = Receiver::from(&mut super::process::rdt_recv_after("ulimit -S -n 40", &args));
    let limits = receiver.program.proc("limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let [soft, hard, _] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
    assert_eq!(soft, hard);
}

#[test]
fn file_is_replaced_atomically_at_completion() {
    let directory = directory();
    let file = directory.path().join("kept");
    fs::write(&file, "old").unwrap();
    fs::hard_link(&file, directory.path().join("link")).unwrap();
    let receiver = Receiver::keeping(&file, "");
    let mut sender = piped_to(&receiver, "--interval 5ms --json");
    sender.write(&b"n".repeat(30_000));
    sender.line_where("base above 0", |l| l.contains("interval") && !l.contains("\"base_packets\":0,"));
    assert_eq!(fs::read(&file).unwrap(), b"old");
    hidden(directory.path(), 1);
    assert_eq!(visible(directory.path()), ["kept", "link"]);
    sender.without_more_input().ended().with_code(0);
    assert!(fs::read(&file).unwrap() == b"n".repeat(30_000));
    assert_eq!(
        fs::read(directory.path().join("link")).unwrap(),
        b"old",
        "nothing was written into the old file"
    );
    assert_eq!(names(directory.path()), ["kept", "link"]);
}

#[test]
fn synced_file_is_an_ordinary_file() {
    let directory = directory();
    for (output, expected) in [("", None), ("kept", Some("kept"))] {
        let receiver = Receiver::keeping(&directory.path().join(output), "--sync");
        send(&receiver.args("10 0 0 1000 --bytes 3000")).with_code(0);
        send(&receiver.args("--bytes 3000")).with_code(0);
        let path = kept_in(&receiver, 3000);
        assert!(fs::read(&path).unwrap() == super::data::array(3000), "the bytes differ");
        assert!(expected.is_none_or(|name| path.ends_with(name)), "{path}");
    }
    assert!(names(directory.path()).iter().all(|name| !name.starts_with('.')));
    for args in ["--sync", "--sync --output -"] {
        Program::start(&mut rdt_recv(&format!("--bind 127.0.0.1:0 {args}"))).ended().with_code(64);
    }
}

#[cfg(unix)]
#[test]
fn umask_sets_file_permissions() {
    use std::os::unix::fs::PermissionsExt;
    for (mask, mode) in [("022", 0o644), ("027", 0o640), ("077", 0o600), ("000", 0o666)] {
        let directory = directory();
        let file = directory.path().join("kept");
        let args = ["--bind", "127.0.0.1:0", "--no-link", "--output", file.to_str().unwrap()];
        let receiver = Receiver::from(&mut super::process::rdt_recv_after(&format!("umask {mask}"), &args));
        send(&receiver.args("10 0 0 1000 --bytes 3")).with_code(0);
        let found = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "umask {mask} gives {mode:o}, not {found:o}");
    }
}

#[cfg(unix)]
#[test]
fn killed_sender_leaves_no_file() {
    let directory = directory();
    fs::write(directory.path().join("other"), "old").unwrap();
    for output in ["", "kept"] {
        let receiver = Receiver::keeping(&directory.path().join(output), "");
        let mut sender = piped_to(&receiver, "--interval 5ms --json");
        sender.write(&b"n".repeat(30_000));
        sender.line_where("base above 0", |l| l.contains("interval") && !l.contains("\"base_packets\":0,"));
        hidden(directory.path(), 1);
        sender.signal("KILL");
        drop(sender);
        receiver.interrupted().with_code(130);
        assert_eq!(names(directory.path()), ["other"]);
    }
}

#[cfg(unix)]
#[test]
fn partial_files_of_killed_receiver_are_swept() {
    let directory = directory();
    let [killed, live] = [(); 2].map(|()| Receiver::keeping(directory.path(), ""));
    let senders = [paused(&killed, directory.path(), 1), paused(&live, directory.path(), 2)];
    killed.program.signal("KILL");
    drop(killed);
    assert_eq!(names(directory.path()).len(), 2);
    let _next = Receiver::keeping(directory.path(), "");
    assert_eq!(names(directory.path()).len(), 1, "that of the live receiver");
    let [_, sender] = senders;
    sender.without_more_input().ended().with_code(0);
    assert_eq!(visible(directory.path()).len(), 1);
}

#[test]
fn output_directory_is_created() {
    let directory = directory();
    let incoming = directory.path().join("incoming");
    let receiver = Receiver::keeping(&incoming.join(""), "");
    receiver.program.error_line(&format!("rdt-recv: created the directory {}", incoming.display()));
    send(&receiver.args("64 0.01 0 100 --power 10")).with_code(0);
    drop(receiver);
    assert_eq!(visible(&incoming).len(), 1);
    let again = Receiver::keeping(&incoming.join(""), "");
    assert!(!again.interrupted().stderr.contains("created"));
}

#[test]
fn missing_output_directory_is_refused_at_start() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("file"), "old").unwrap();
    for output in [path("none/file"), path("none/below/"), path("file/"), path("file/below")] {
        let mut command = rdt_recv("--bind 127.0.0.1:0 --no-link --output");
        let run = Program::start(command.arg(&output)).ended().with_code(74);
        assert!(run.stderr.contains(output.to_str().unwrap()) && run.stderr.lines().count() == 1);
    }
    assert_eq!(names(directory.path()), ["file"]);
}

#[cfg(unix)]
#[test]
fn symbolic_link_is_replaced_only_with_force() {
    let directory = directory();
    let [link, target] = ["link", "target"].map(|name| directory.path().join(name));
    fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let mut command = rdt_recv("--bind 127.0.0.1:0 --no-link --output");
    let run = Program::start(command.arg(&link)).ended().with_code(74);
    assert!(run.stderr.contains("it is a symbolic link: --force replaces it"), "{}", run.stderr);
    let receiver = Receiver::keeping(&link, "--force --once");
    send(&receiver.args("64 0.01 0 100 --bytes 1000")).with_code(0);
    receiver.program.ended().with_code(0);
    assert_eq!(fs::symlink_metadata(&link).unwrap().len(), 1000);
    assert_eq!(fs::read(&target).unwrap(), b"old");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_written_through() {
    let directory = directory();
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let receiver = Receiver::keeping(&pipe, "");
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    let sent = random(100_000, 3);
    let input = directory.path().join("input");
    fs::write(&input, &sent).unwrap();
    send(&receiver.args(&format!("64 0.01 0 100 --file {}", input.display()))).with_code(0);
    receiver.program.ended().with_code(0);
    assert_eq!(reader.join().unwrap(), sent);
    assert!(!fs::symlink_metadata(&pipe).unwrap().is_file());
    let receiver = Receiver::keeping(Path::new("/dev/null"), "");
    send(&receiver.args("64 0.01 0 100 --bytes 1000")).with_code(0);
    receiver.program.ended().with_code(0);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}
