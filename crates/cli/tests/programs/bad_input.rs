//! Invalid input results in an error message of one line, and an exit code.

#[cfg(unix)]
use std::fs::{self, File};
#[cfg(unix)]
use std::io::Write as _;
use std::process::Command;

#[cfg(unix)]
use super::data::random;
#[cfg(unix)]
use super::process::Receiver;
use super::process::{Ended, Program, rdt_recv, rdt_send};

const ODD: [&str; 11] = ["NaN", "inf", "-1", "-inf", "1e400", "-1e400", "", " ", "ünï", "0x10", "1,5"];

/// Runs `program`, and checks its exit code and that its only message contains `word`.
#[track_caller]
pub(super) fn refused(program: &str, command: &mut Command, code: i32, word: &str) -> Ended {
    let run = Program::start(command).ended().with_code(code);
    assert_eq!(run.stderr.lines().count(), 1, "one line");
    let sentence = run.stderr.strip_prefix(&format!("{program}: ")).expect("the program's name first");
    assert!(sentence.to_lowercase().contains(word), "'{word}' is not in: {sentence}");
    run
}

#[test]
fn invalid_positional_arguments_are_refused() {
    for (position, word) in [(1, "w must"), (2, "rtt"), (3, "loss"), (4, "link")] {
        for odd in ODD {
            let mut args = ["local", "10", "0.1", "0", "100"];
            args[position] = odd;
            // The value is parsed as an option because of its hyphen.
            let word = if odd == "-inf" { "'-i'" } else { word };
            let run = refused("rdt-send", rdt_send("").args(args), 64, word);
            assert_eq!(run.stdout, b"");
        }
    }
}

#[cfg(unix)]
#[test]
fn outputs_are_different_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    for other in ["file", "sub/../file"] {
        let mut command = rdt_send("local --bytes 1kb --force --qlog");
        command.arg(at("file")).arg("--csv").arg(at(other));
        refused("rdt-send", &mut command, 64, "--qlog and --csv need two files");
    }
    assert!(!at("file").exists());
}

#[cfg(unix)]
#[test]
fn refused_receiver_creates_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = rdt_recv("--bind 0.0.0.0:0 --no-link --output");
    refused("rdt-recv", command.arg(format!("{}/new/", folder.path().display())), 64, "--ticket");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn values_out_of_range_are_refused() {
    for (args, word) in [
        ("local 0 0.1 0 100", "window"),
        ("local 4294967296 0.1 0 100", "w must"),
        ("local 1.5 0.1 0 100", "w must"),
        ("local 1000000 0.1 0 100", "memory"),
        ("local 1000 0.1 0 100 --memory 1mb", "memory"),
        ("local 10 30 0 100", "rtt"),
        ("local 10 0.1 1 100", "loss"),
        ("local 10 0.1 0/1 100", "loss"),
        ("local 10 0.1 0/-0.1 100", "loss"),
        ("local 10 0.1 0/ 100", "loss"),
        ("local 10 0.1 0.1/0.1/0.1 100", "loss"),
        ("local 10 0.1 5% 100", "loss"),
        ("local 10 0.1 0 0", "link rate"),
        ("local 10 0.1 0 10001", "link rate"),
        ("local 10 0.1 0 10mbit", "linkmbps"),
        ("local 10 0.1 0 100 --power 62", "--power"),
        ("local 10 0.1 0 100 --power 300", "--power"),
        ("local 10 0.1 0 100 --power -1", "-1"),
        ("local 10 0.1 0 100 --bytes x", "--bytes"),
        ("local 10 0.1 0 100 --bytes 1e3", "--bytes"),
        ("local 10 0.1 0 100 --bytes 20000000000gb", "--bytes"),
        ("local 10 0.1 0 100 --buffer 0", "buffer"),
        ("local 10 0.1 0 100 --buffer 1000001", "buffer"),
        ("local 10 0.1 0 100 --packet-size 8", "packet size"),
        ("local 10 0.1 0 100 --packet-size 65508", "packet size"),
        ("local 10 0.1 0 100 --packet-size x", "--packet-size"),
        ("local 10 0.1 0 100 --interval 2", "2s"),
        ("local 10 0.1 0 100 --interval 0s", "--interval"),
        ("local 10 0.1 0 100 --memory x", "--memory"),
        ("local 10 0.1 0 100 --attempts 0", "--attempts"),
        ("local 10 0.1 0 100 --attempts 3/50", "--attempts"),
        ("local 10 0.1 0 100 --attempts 3/0/50", "--attempts"),
        ("local 10 0.1 0 100 --attempts 3/50/50/50", "--attempts"),
        ("local 10 0.1 0 100 --attempts 4294967296", "--attempts"),
        ("local 10 0.1 0 100 --attempts -1", "--attempts"),
        ("local 10 0.1 0 100 --seed x", "--seed"),
        ("localhost 10 0.1 0 100 --seed 1", "--seed"),
        ("local 10 0.1 0 100 --power 5 --bytes 5", "--power"),
        ("local 10 0.1 0 100 --debug --json", "--debug"),
        ("local 10 0.1 0 100 --nothing", "--nothing"),
        ("local 10 0.1 0 100 extra", "extra"),
        ("local 10 0.1 0 100 - 1", "'1'"),
        ("local 10 0.1 0", "<linkmbps>"),
        ("", "<host> <w> <rtt> <loss> <linkmbps>"),
        ("host:65536 10 0.1 0 100", "port"),
        ("host: 10 0.1 0 100", "port"),
        (":22345 10 0.1 0 100", "host"),
        ("[::1 10 0.1 0 100", "]"),
        ("[::1]22345 10 0.1 0 100", ":port"),
        ("[localhost]:22345 10 0.1 0 100", "ipv6"),
        ("-1 10 0.1 0 100", "'-1'"),
    ] {
        assert_eq!(refused("rdt-send", &mut rdt_send(args), 64, word).stdout, b"", "{args}");
    }
    refused("rdt-send", rdt_send("").args(["", "10", "0.1", "0", "100"]), 64, "host");
}

#[test]
fn invalid_receiver_arguments_are_refused() {
    for (args, code, word) in [
        ("--bind 127.0.0.1:65536", 64, "port"),
        ("--bind [::1", 64, "]"),
        ("--bind no.such.name.invalid", 64, "--bind"),
        // TEST-NET-3 (RFC 5737): no interface has such an address.
        ("--bind 203.0.113.77:0", 69, "203.0.113.77"),
        ("--dummy --no-link", 64, "--no-link"),
        ("--dummy --output x", 64, "--output"),
        ("--dummy --seed 1", 64, "--seed"),
        ("--no-link --seed 1", 64, "--seed"),
        ("--json --output -", 64, "--output"),
        ("--memory 1kb", 64, "--memory"),
        ("--memory x", 64, "--memory"),
        ("--max-peers 0", 64, "--max-peers"),
        ("--max-peers -1", 64, "-1"),
        ("--seed x", 64, "--seed"),
        ("--wire classic", 64, "--wire"),
        ("--wire native --insecure", 64, "--insecure"),
        ("--wire native --faithful", 64, "--faithful"),
        ("--wire native --ack-every batch", 64, "--ack-every"),
        ("--open --allow x", 64, "--allow"),
        ("--open --secret-file x", 64, "--secret-file"),
        ("--open --ticket", 64, "--ticket"),
        ("--ticket-lifetime 1h", 64, "--ticket"),
        ("--advertise 127.0.0.1:1", 64, "--ticket"),
        ("--nothing", 64, "--nothing"),
        ("extra", 64, "extra"),
    ] {
        assert_eq!(refused("rdt-recv", &mut rdt_recv(args), code, word).stdout, b"", "{args}");
    }
    let nine = format!("--bind 127.0.0.1:0 --ticket {}", "--advertise 127.0.0.1:1 ".repeat(9));
    refused("rdt-recv", &mut rdt_recv(&nine), 64, "more than 8 addresses");
    refused("rdt-recv", rdt_recv("--bind").arg(""), 64, "--bind");
    refused("rdt-recv", rdt_recv("--output").arg(""), 64, "--output");
}

#[test]
fn unknown_host_exits_with_3() {
    for host in ["no.such.host.invalid", "no.such.host.invalid:9", "ünïcode.invalid", "a b.invalid"] {
        let run = refused("rdt-send", rdt_send("").args([host, "10", "0.1", "0", "100"]), 3, "no such host");
        let name = host.trim_end_matches(":9");
        let [.., invalid, last] = run.lines()[..] else { panic!("too few lines") };
        assert_eq!(super::status_lines::read("[%.3f]\ttarget %s", invalid)[1], format!("{name} is invalid"));
        assert_eq!(last, "Main:\tconnect failed with status 3");
        assert!(run.stderr.contains(name));
    }
}

#[test]
fn refused_send_exits_with_4() {
    // No socket is ever bound to port 0.
    let run = refused("rdt-send", &mut rdt_send("127.0.0.1:0 10 0.1 0 100"), 4, "127.0.0.1:0");
    let [.., refusal, last] = run.lines()[..] else { panic!("too few lines") };
    super::status_lines::read("[%6.3f] --> failed sendto with %d", refusal);
    assert_eq!(last, "Main:\tconnect failed with status 4");
}

#[test]
fn unreadable_file_exits_with_66() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().join("none"), directory.path().into()] {
        let mut command = rdt_send("local 10 0.1 0 100 --file");
        let run = refused("rdt-send", command.arg(&path), 66, "cannot read");
        assert!(run.stderr.contains(path.to_str().unwrap()));
        assert_eq!(run.stdout, b"");
    }
}

#[cfg(unix)]
#[test]
fn read_error_during_transfer_exits_with_66() {
    let directory = File::open(std::env::temp_dir()).unwrap();
    let run = Program::start(rdt_send("local 10 0 0 100 - --quiet").stdin(directory)).ended().with_code(66);
    assert!(run.stderr.starts_with("rdt-send: cannot read the standard input: "), "{}", run.stderr);
}

/// Sends a file over a slow link, in both formats and as standard input, and calls `change` when
/// the transfer has begun. The transfer must fail and leave no file.
#[cfg(unix)]
fn change_while_sent(change: fn(&mut File)) {
    for (link, by_name) in
        [("--rtt 20ms --rate 50mbit", true), ("200 0.02 0 50", true), ("--rtt 20ms --rate 50mbit -", false)]
    {
        let directory = tempfile::tempdir().unwrap();
        let (source, kept) = (directory.path().join("source"), directory.path().join("kept"));
        fs::create_dir(&kept).unwrap();
        fs::write(&source, random(8 << 20, 1)).unwrap();
        let receiver = Receiver::from(rdt_recv("--bind 127.0.0.1:0 --output").arg(&kept));
        let mut command = rdt_send(&receiver.args(link));
        if by_name {
            command.arg("--file").arg(&source);
        } else {
            command.stdin(File::open(&source).unwrap());
        }
        let sender = Program::start(&mut command);
        sender.line("connected");
        change(&mut File::options().write(true).open(&source).unwrap());
        let run = sender.ended().with_code(66);
        let name = if by_name { source.to_str().unwrap() } else { "the standard input" };
        let sentence = format!("rdt-send: cannot read {name}: it changed while it was sent");
        assert_eq!(run.stderr.lines().last(), Some(&*sentence), "{link}");
        receiver.interrupted();
        assert_eq!(fs::read_dir(&kept).unwrap().count(), 0, "{link}");
    }
}

#[cfg(unix)]
#[test]
fn file_cut_while_sent_exits_66() {
    change_while_sent(|file| file.set_len(4 << 20).unwrap());
}

#[cfg(unix)]
#[test]
fn file_overwritten_while_sent_exits_66() {
    change_while_sent(|file| file.write_all(b"new").unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn arguments_without_utf8_are_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let odd = OsStr::from_bytes(b"\xff\xfe");
    refused("rdt-send", rdt_send("local 10 0.1 0").arg(odd), 64, "utf-8");
    refused("rdt-send", rdt_send("local 10 0.1 0 100 --file").arg(odd), 66, "cannot read");
    refused("rdt-recv", rdt_recv("--bind").arg(odd), 64, "utf-8");
}

#[test]
fn zero_rate_is_refused_with_advice() {
    for option in ["--rate 0", "--max-rate 0", "--max-rate 0mbit"] {
        refused("rdt-send", &mut rdt_send(&format!("local {option}")), 64, "such as 10mbit, or leave it out");
    }
    refused("rdt-recv", &mut rdt_recv("--measure --max-rate 0"), 64, "such as 10mbit, or leave it out");
}

#[test]
fn misspelled_option_gets_nearest() {
    let run = refused("rdt-send", &mut rdt_send("--fil x local"), 64, "is it --file?");
    assert!(run.stderr.contains("unexpected argument '--fil'"), "{}", run.stderr);
    refused("rdt-recv", &mut rdt_recv("--onc"), 64, "is it --once?");
}

#[test]
fn sixth_argument_is_one_too_many() {
    for extra in ["200", "file.bin"] {
        let args = format!("local 64 0.1 0 100 {extra}");
        refused("rdt-send", &mut rdt_send(&args), 64, &format!("'{extra}' is one argument too many"));
    }
}

#[test]
fn missing_receiver_is_named_after_a_second() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    for args in ["64 0.1 0 100", "--insecure"] {
        let program = Program::start(&mut rdt_send(&format!("{address} {args}")));
        program.error_line(&format!("rdt-send: waiting for a receiver at {address}"));
        program.signal("INT");
        program.ended().with_code(130);
    }
}
