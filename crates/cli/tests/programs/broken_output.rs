//! Full disks and closed or paused pipes.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rdt_program_testing::closed_pipe;
use serde_json::json;

use super::data::array;
use super::process::{Program, Receiver, rdt_recv, rdt_send, send};
use super::status_lines::{EXHAUSTED, read};

/// Returns the command with a redirection, as a shell makes it.
#[cfg(unix)]
fn redirected(command: &Command, redirection: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$@\" {redirection}"), "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// A closed input is no empty one. `/dev/null` is, also if it is open for both directions.
#[cfg(unix)]
#[test]
fn closed_input_is_an_error_and_null_is_empty() {
    let receiver = Receiver::start("");
    for args in ["--file -", "-"] {
        let command = rdt_send(&receiver.args(args));
        let run = Program::start(&mut redirected(&command, "<&-")).ended().with_code(66);
        assert_eq!(run.stderr, "rdt-send: cannot read the standard input: it is closed\n", "{args}");
        for null in ["</dev/null", "<>/dev/null"] {
            Program::start(&mut redirected(&command, null)).ended().with_code(0);
        }
    }
}

#[cfg(unix)]
#[test]
fn closed_output_is_an_error() {
    let receiver = Receiver::start("");
    for command in [
        rdt_send(&receiver.args("--bytes 1000 --json")),
        rdt_send("--help"),
        rdt_send("--version"),
        rdt_recv("--help"),
    ] {
        let run = Program::start(&mut redirected(&command, ">&-")).ended().with_code(74);
        assert!(run.stderr.ends_with("cannot write the standard output: it is closed\n"), "{}", run.stderr);
        Program::start(&mut redirected(&command, "1<>/dev/null")).ended().with_code(0);
    }
    let run = Program::start(&mut redirected(&rdt_recv("--output - --bind 127.0.0.1:0"), ">&-")).ended();
    let run = run.with_code(74);
    assert!(run.stderr.ends_with("it is closed\n"), "{}", run.stderr);
}

/// Returns all files below `directory`, hidden ones included.
fn files(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[cfg(unix)]
#[test]
fn full_disk_ends_one_transfer_others_continue() {
    let cases = ["kept", "directory/"].map(|output| {
        let (directory, receiver) = receiver_of_small_files(output);
        // More than the store can queue, so that the last packets are refused however slow the disk
        // is.
        let large = Program::start(&mut rdt_send(&receiver.args("10 0 0 1000 --bytes 10mb --debug")));
        (directory, receiver, large)
    });
    for (directory, receiver, large) in cases {
        not_stored(&directory, &receiver);

        send(&receiver.args("10 0 0 1000 --bytes 3000")).with_code(0);
        let [small] = files(directory.path()).try_into().unwrap();
        assert!(fs::read(small).unwrap() == array(3000), "the bytes differ");

        let large = large.ended().with_code(5);
        assert!(!large.lines().iter().any(|line| line.contains("FIN")), "it was not told that all was taken");
        read(EXHAUSTED, large.lines().into_iter().find(|line| line.contains("reached max")).unwrap());
        assert_eq!(large.lines().last(), Some(&"Main:\tsend failed with status 5"));
        let end = receiver.interrupted().with_code(74);
        assert!(end.stderr.contains("could not be stored"), "{}", end.stderr);
    }
}

/// The disk may fail before or after the FIN arrives. In both cases the FIN-ACK must wait for the
/// disk.
#[cfg(unix)]
#[test]
fn transfer_lost_by_disk_is_not_confirmed() {
    for output in ["kept", "directory/"] {
        let (directory, receiver) = receiver_of_small_files(output);
        let large = send(&receiver.args("10 0 0 1000 --bytes 100kb --debug")).with_code(5);
        assert!(!large.lines().iter().any(|line| line.contains("FIN-ACK")), "it was told that all is well");
        let end = large.lines().last().copied().unwrap();
        assert!(
            end.ends_with("send failed with status 5") || end.ends_with("close failed with status 5"),
            "{end}"
        );
        not_stored(&directory, &receiver);
        receiver.interrupted().with_code(74);
    }
}

/// Starts a receiver with a file size limit of 8 blocks (4 or 8 KiB). Also returns its output
/// directory.
#[cfg(unix)]
fn receiver_of_small_files(output: &str) -> (tempfile::TempDir, Receiver) {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("directory")).unwrap();
    let path = directory.path().join(output);
    let args = ["--bind", "127.0.0.1:0", "--no-link", "--memory", "1mib", "--output", path.to_str().unwrap()];
    let receiver = Receiver::from(&mut super::process::rdt_recv_after("ulimit -f 8", &args));
    (directory, receiver)
}

/// Waits for the error of a transfer that could not be stored, and checks that no file remains.
#[cfg(unix)]
fn not_stored(directory: &tempfile::TempDir, receiver: &Receiver) {
    let sentence = receiver.program.error_line("cannot store the transfer of 127.0.0.1:");
    assert!(sentence.starts_with("rdt-recv: "), "{sentence}");
    receiver.program.line("cleaned up (unfinished)");
    assert!(files(directory.path()).is_empty(), "{:?}", files(directory.path()));
}

#[test]
fn failed_rename_is_not_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept");
    let receiver = Receiver::keeping(&path, "");
    // A directory of the file's name is created while the receiver runs.
    fs::create_dir(&path).unwrap();
    fs::write(path.join("old"), "").unwrap();
    let run = send(&receiver.args("10 0 0 1000 --bytes 5000")).with_code(5);
    assert_eq!(run.lines().last(), Some(&"Main:\tclose failed with status 5"));
    receiver.program.error_line("cannot store the transfer of 127.0.0.1:");
    assert_eq!(files(directory.path()), [path.join("old")]);
}

#[test]
fn native_sender_gets_close_when_storing_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept");
    let receiver = Receiver::keeping(&path, "");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("old"), "").unwrap();
    let run = send(&receiver.args("--bytes 5000 --json")).with_code(8);
    let summary = run.summary();
    assert_eq!(
        (&summary["exit_code"], &summary["close_reason"]),
        (&json!(8), &json!("storage")),
        "{summary}"
    );
    assert!(run.stderr.contains("it could not store the data: see what it printed"), "{}", run.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_under_stdout_exits_with_74() {
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    for args in ["local 10 0 0 1000 --bytes 5000", "local 10 0 0 1000 --bytes 5000 --json --quiet"] {
        let run = Program::start(rdt_send(args).stdout(full())).ended().with_code(74);
        let sentence = run.stderr.lines().last().unwrap();
        assert!(sentence.starts_with("rdt-send: cannot write the standard output: "), "{sentence}");
    }
    let receiver = Program::start(rdt_recv("--bind 127.0.0.1:0 --no-link --output -").stdout(full()));
    let address = receiver.error_line("initialized").rsplit(' ').next().unwrap().to_string();
    send(&format!("{address} 10 0 0 1000 --bytes 5000")).with_code(5);
    assert!(receiver.ended().with_code(74).stderr.contains("cannot store the transfer of 127.0.0.1:"));
}

/// A qlog at this path would replace the input file, or be mixed with the standard output.
#[cfg(target_os = "linux")]
#[test]
fn qlog_refuses_files_already_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, b"precious").unwrap();
    for (qlog, what) in [
        ("-", "--qlog needs the name of a file"),
        ("/dev/stdout", "the standard output"),
        ("/proc/self/fd/1", "the standard output"),
        ("/dev/stderr", "the standard error"),
        (data.to_str().unwrap(), "what is to be sent"),
    ] {
        let mut command = rdt_send(&format!("local --json --qlog {qlog} --file"));
        let run = Program::start(command.arg(&data)).ended().with_code(64);
        assert!(run.stderr.contains(what), "{qlog}: {}", run.stderr);
        assert_eq!((run.stdout.len(), run.stderr.lines().count()), (0, 1), "{qlog}: {}", run.stderr);
    }
    // The shell redirects the input.
    for option in ["--qlog", "--csv"] {
        let mut command = rdt_send(&format!("local - --force {option}"));
        command.arg(&data).stdin(fs::File::open(&data).unwrap());
        let run = Program::start(&mut command).ended().with_code(64);
        assert!(run.stderr.contains("what is to be sent"), "{}", run.stderr);
    }
    // The shell redirects the output to the same file under another name.
    let lines = directory.path().join("lines");
    let mut command = rdt_send("local --bytes 9000 --json --qlog");
    command.arg(&lines).stdout(fs::File::create(&lines).unwrap());
    let run = Program::start(&mut command).ended().with_code(64);
    assert!(run.stderr.contains("the standard output"), "{}", run.stderr);
    assert!(!Path::new("-").exists() && fs::read(&data).unwrap() == b"precious");
    send("local --bytes 9000 --quiet --qlog /dev/null").with_code(0);
}

#[cfg(unix)]
#[test]
fn qlog_is_private_and_replaces_nothing_unasked() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let directory = tempfile::tempdir().unwrap();
    let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
    let traced = |path: &Path, force: &str, code| {
        let mut command = rdt_send(&format!("local --bytes 9000 --quiet {force} --qlog"));
        Program::start(command.arg(path)).ended().with_code(code)
    };
    traced(&file, "", 0);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&file, "precious").unwrap();
    let run = traced(&file, "", 74);
    assert!(run.stderr.ends_with("it exists already: --force replaces it\n"), "{}", run.stderr);
    symlink(&file, &link).unwrap();
    for force in ["", "--force"] {
        assert!(traced(&link, force, 74).stderr.ends_with("it is a symbolic link\n"));
    }
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    traced(&file, "--force", 0);
    assert!(fs::read(&file).unwrap().len() > 100);
}

#[cfg(target_os = "linux")]
#[test]
fn qlog_write_error_is_reported_after_transfer() {
    let run = send("local 10 0 0 1000 --bytes 5000 --qlog /dev/full").with_code(74);
    assert!(run.lines().iter().any(|line| line.contains("FIN-ACK")), "the transfer came to its end");
    let sentence = run.stderr.lines().last().unwrap();
    assert!(sentence.starts_with("rdt-send: cannot write /dev/full: "), "{sentence}");
    let run = send("local 10 0 0 1000 --bytes 5000 --qlog /nowhere/at/all").with_code(74);
    assert!(run.stderr.starts_with("rdt-send: cannot write /nowhere/at/all: "), "{}", run.stderr);
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn thread_start_failure_exits_with_69() {
    let mut command = rdt_recv("--bind 127.0.0.1:0 --no-link");
    // The stacks of the threads need more address space than the limit.
    let run = Program::start(command.env("RUST_MIN_STACK", (1_u64 << 47).to_string())).ended().with_code(74);
    assert!(run.stderr.starts_with("rdt-recv: cannot write the standard output: "), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn closed_stdout_fails_json_alone() {
    for (options, code) in [("", 0), ("--debug", 0), ("--json", 74), ("--json --quiet", 74)] {
        for parallel in ["", "--parallel 2"] {
            if options == "--debug" && !parallel.is_empty() {
                continue;
            }
            let mut command = rdt_send(&format!("local 50 0.001 0 1000 --power 10 {options} {parallel}"));
            let run = Program::start(command.stdout(closed_pipe())).ended().with_code(code);
            let told = run.stderr.contains("rdt-send: cannot write the standard output: ");
            assert_eq!(told, code == 74, "{options} {parallel}: {}", run.stderr);
        }
    }
    // A failure of the transfer goes before.
    let mut command = rdt_send("127.0.0.1:0 --insecure --json");
    Program::start(command.stdout(closed_pipe())).ended().with_code(4);
    let mut command = rdt_recv("--bind 127.0.0.1:0 --no-link --json --quiet --ticket");
    let receiver = Program::start(command.stdout(closed_pipe()));
    receiver.error_line("rdt1");
    receiver.signal("INT");
    let run = receiver.ended().with_code(74);
    assert!(run.stderr.contains("rdt-recv: cannot write the standard output: "), "{}", run.stderr);
}

#[test]
fn broken_stdout_pipe_does_not_fail_text() {
    let mut command = rdt_send("local 50 0.001 0 1000 --power 14 --debug");
    let run = Program::start_for_one_line(&mut command).ended().with_code(0);
    assert!(!run.stderr.contains("panicked"));
    for command in [&mut rdt_send("--help"), &mut rdt_recv("--help")] {
        Program::start_for_one_line(command).ended().with_code(0);
    }
}

#[test]
fn broken_stdout_pipe_ends_output_transfer() {
    let mut command = rdt_recv("--bind 127.0.0.1:0 --no-link --output -");
    let receiver = Program::start_for_one_line(&mut command);
    let address = receiver.error_line("initialized").rsplit(' ').next().unwrap().to_string();
    // The sender prints megabytes of lines, and the reader exits after the first.
    let mut sender = Program::start(rdt_send(&format!("{address} 500 0 0 1000 -")).stdin(Stdio::piped()));
    sender.feed(b"line\n".repeat(1 << 20), &[5 << 20]);
    sender.ended().with_code(5);
    let run = receiver.ended().with_code(74);
    assert!(run.stderr.lines().last().unwrap().contains("not whole") && !run.stderr.contains("panicked"));
}

#[cfg(target_os = "linux")]
#[test]
fn paused_log_reader_delays_no_transfer() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::sync::mpsc::channel;
    use std::thread;

    let (reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    let mut reader = BufReader::new(reader);
    let receiver = Program::start(rdt_recv("--bind 127.0.0.1:0 --no-link").stdout(writer));
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let address = line.trim_end().rsplit(' ').next().unwrap();
    // Fills the pipe (at most 64 KiB), so that the printing thread blocks.
    let (filled, is_filled) = channel();
    let filling = thread::spawn(move || {
        filler.write_all(&vec![b'\n'; 1 << 16]).unwrap();
        filled.send(()).unwrap();
    });
    let _ = is_filled.recv_timeout(Duration::from_secs(1));

    for args in ["10 0 0 1000 --bytes 5000", "--bytes 5000"] {
        send(&format!("{address} {args}")).with_code(0);
    }
    receiver.signal("INT");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    filling.join().unwrap();
    receiver.ended().with_code(0);
    assert_eq!(rest.matches("finished: 5000 bytes").count(), 2, "{rest}");
}

/// Returns a SYN that requests 0.1 s, 1 Gbit/s, no loss, and a buffer of 50 packets.
pub(super) fn syn() -> Vec<u8> {
    let fields = [0.1_f32.to_le_bytes(), 1e9_f32.to_le_bytes(), [0; 4], [0; 4], 50_u32.to_le_bytes()];
    [&[0x20, 0xaa, 0x11, 0x83, 0, 0, 0, 0][..], &fields.concat()].concat()
}

#[test]
fn restart_after_stdout_write_exits_with_74() {
    let receiver = Receiver::from(&mut rdt_recv("--bind 127.0.0.1:0 --no-link --faithful --output -"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(receiver.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let answer_to = |datagram: &[u8]| {
        socket.send(datagram).unwrap();
        let mut answer = [0; 64];
        assert_eq!(socket.recv(&mut answer).unwrap(), 12);
    };
    answer_to(&syn());
    // No data was written yet, so the transfer may restart.
    answer_to(&syn());
    answer_to(b"\x00\xaa\x11\x83\x00\x00\x00\x00first line\n");
    receiver.program.has_printed(11);
    socket.send(&syn()).unwrap();
    let run = receiver.program.ended().with_code(74);
    assert_eq!(run.stdout, b"first line\n");
    assert!(run.stderr.lines().last().unwrap().contains("not whole"));
}

/// Where both outputs share a terminal or a file, a line that is written by two calls may have
/// another line in its middle. The test gives the program a datagram socket, whose datagrams are
/// what one call wrote.
#[cfg(unix)]
#[test]
fn each_line_is_written_by_one_call() {
    let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("array");
    fs::write(&path, array(1)).unwrap();
    let mut command = rdt_send(&format!("127.0.0.1:1 --give-up 1s --file {}", path.display()));
    let status = command.stdout(Stdio::null()).stderr(std::os::fd::OwnedFd::from(theirs)).status().unwrap();
    assert!(!status.success());
    let mut datagram = [0; 4096];
    let written: Vec<_> =
        std::iter::from_fn(|| ours.recv(&mut datagram).ok().map(|length| datagram[length - 1])).collect();
    assert!(!written.is_empty() && written.iter().all(|&last| last == b'\n'), "{written:?}");
}
