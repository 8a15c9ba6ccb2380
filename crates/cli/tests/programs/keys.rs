//! Keys of encrypted transfers: known hosts, secrets and tickets; receivers that want encryption.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rdt_crypto::StaticKey;
use rdt_endpoint::blocking::Endpoint;
use rdt_endpoint::{Connect, ConnectError, EndpointConfig, Listen, StreamError, generate_key};
use rdt_testing::packets;
use rdt_transport::{Closed, RefuseReason, Service};
use rdt_trust::services::{COPIES, FILES, TUNNELS};
use rdt_trust::{Ticket, create_secret, load_or_create_identity, os_entropy};
use serde_json::Value;

use super::data::array;
use super::process::{Ended, Program, Receiver, rdt_recv, rdt_send, send};

/// Runs `rdt-send` as a user whose files are in `folder`.
pub(super) fn send_as(folder: &Path, args: &str) -> Ended {
    Program::start(rdt_send(args).env("XDG_CONFIG_HOME", folder)).ended()
}

/// Makes the key of the user whose files are in `folder`, and returns the public key.
pub(super) fn key_of(folder: &Path) -> String {
    let path = folder.join("rdt/identity");
    let (key, is_new) = load_or_create_identity(&path, &mut os_entropy().unwrap()).unwrap();
    assert!(is_new, "{}", path.display());
    key.public().to_string()
}

/// Returns the ticket of a receiver with `--json`.
pub(super) fn ticket_of(receiver: &Receiver) -> String {
    let event: Value = serde_json::from_str(&receiver.program.line("initialized")).unwrap();
    event["ticket"].as_str().unwrap().to_string()
}

/// Returns the files in `folder`.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Sends without encryption to a receiver that takes encrypted transfers alone.
fn refuses_unencrypted(address: SocketAddr) {
    let classic = Program::start(&mut rdt_send(&format!("{address} 9 0 0 1000 --bytes 9 --attempts 1/1/1")));
    let run = send(&format!("{address} --bytes 1000 --insecure --json")).with_code(8);
    assert!(run.stderr.contains("takes encrypted transfers alone: leave out --insecure"), "{}", run.stderr);
    assert_eq!(run.summary()["bytes"], 0);
    let run = classic.ended().with_code(5);
    assert!(run.stderr.contains("takes classic transfers only with its option --insecure"), "{}", run.stderr);
}

#[test]
fn new_key_is_kept_and_changed_one_refused() {
    let receiver = Receiver::start("--no-link");
    let folder = tempfile::tempdir().unwrap();
    let send = || send_as(folder.path(), &receiver.args("--bytes 1000 --json"));
    let first = send().with_code(0);
    assert!(first.stderr.contains(", new, added to "), "{}", first.stderr);
    let key = first.summary()["receiver_key"].as_str().unwrap().to_string();
    let own_key = receiver.program.error_line("own key ").replace("own key ", "").replace(' ', "");
    assert!(key.starts_with(&own_key), "{own_key} is no fingerprint of {key}");
    let again = send().with_code(0);
    assert!(!again.stderr.contains("new"), "{}", again.stderr);
    let known = folder.path().join("rdt/known_hosts");
    let line = fs::read_to_string(&known).unwrap();
    let other = StaticKey::from_bytes([9; 32]).public().to_string();
    assert!(line.contains(&key), "{line}");
    fs::write(&known, line.replace(&key, &other)).unwrap();
    let run = send().with_code(76);
    assert!(run.stderr.contains("HAS CHANGED"), "{}", run.stderr);
    assert_eq!((&run.summary()["exit_code"], &run.summary()["bytes"]), (&76.into(), &0.into()));
    assert_eq!(fs::read_to_string(&known).unwrap(), line.replace(&key, &other));
}

#[test]
fn insecure_transfer_shows_and_checks_no_key() {
    let receiver = Receiver::start("--no-link --insecure --json");
    let folder = tempfile::tempdir().unwrap();
    let run = send_as(folder.path(), &receiver.args("--bytes 1000 --insecure --json")).with_code(0);
    let summary = run.summary();
    let keys = ["wire", "cipher", "receiver_key", "checked"].map(|key| summary[key].clone());
    assert_eq!(keys, ["native".into(), "none".into(), Value::Null, true.into()]);
    assert!(!folder.path().join("rdt").exists(), "no key was made, and no host is known");
    let finished: Value = serde_json::from_str(&receiver.program.line("finished")).unwrap();
    let keys = ["wire", "cipher", "key", "secret"].map(|key| finished[key].clone());
    assert_eq!(keys, ["native".into(), "none".into(), Value::Null, false.into()]);
    let receiver = Receiver::start("--no-link --insecure");
    let run = send(&receiver.args("--bytes 1000 --insecure")).with_code(0);
    assert!(run.line("Main:\ttransfer finished").ends_with(", not encrypted"));
    let line = receiver.program.line(" finished: ");
    assert!(line.contains(" (native, not encrypted) ") && line.contains(", not authenticated"), "{line}");
}

#[test]
fn changed_key_is_proved_and_shown() {
    for (receiver, ways) in
        [("--no-link", &[("", 1), ("--parallel 3", 3)][..]), ("--measure", &[("--reverse", 1)])]
    {
        let receiver = Receiver::start(receiver);
        let (host, port) = (receiver.address.ip(), receiver.address.port());
        let new = receiver.program.error_line("own key ").replace("own key ", "");
        let old = StaticKey::from_bytes([9; 32]).public();
        let folder = tempfile::tempdir().unwrap();
        let known = folder.path().join("known");
        let line = format!("{host} {port} rdt-key-1 {old} 2026-11-23\n");
        fs::write(&known, &line).unwrap();
        for (way, transfers) in ways {
            let args = format!("--bytes 1000 --known-hosts {} {way}", known.display());
            let run = send_as(folder.path(), &receiver.args(&args)).with_code(76);
            for part in [format!("It was      {}", old.fingerprint()), format!("It is now   {new}")] {
                assert_eq!(run.stderr.matches(&part).count(), *transfers, "{way}: {}", run.stderr);
            }
        }
        assert_eq!(fs::read_to_string(&known).unwrap(), line);
    }
}

#[test]
fn wrong_or_missing_secret_exits_with_77() {
    let folder = tempfile::tempdir().unwrap();
    let [right, wrong] = ["right", "wrong"].map(|name| {
        let path = folder.path().join(name);
        create_secret(&path, &mut os_entropy().unwrap()).unwrap();
        path.display().to_string()
    });
    let receiver = Receiver::start(&format!("--no-link --secret-file {right}"));
    let send = |options: &str| send(&receiver.args(&format!("--bytes 1000 {options}")));
    send(&format!("--secret-file {right}")).with_code(0);
    for options in [format!("--secret-file {wrong}"), String::new()] {
        let run = send(&options).with_code(77);
        assert_eq!(run.lines().last(), Some(&"Main:\tconnect failed with status 77"));
        let start = format!("rdt-send: {} does not ", receiver.address);
        assert!(run.stderr.lines().any(|line| line.starts_with(&start)), "{}", run.stderr);
    }
}

#[test]
fn receiver_of_other_version_is_named() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let sender = Program::start(&mut rdt_send(&format!("{address} --bytes 1000")));
    // VERSIONS with version 5. One such answer may be forged.
    for _ in 0..2 {
        let mut syn = [0; 2048];
        let (len, from) = socket.recv_from(&mut syn).unwrap();
        let id = packets::connection_id(&syn[..len]).unwrap();
        socket.send_to(&packets::native(10, 1 << 5, id, &[]), from).unwrap();
    }
    let run = sender.ended().with_code(8);
    let sentence = format!("{address} ({address}) speaks version 5 of the native format, which this program");
    assert!(run.stderr.contains(&sentence), "{}", run.stderr);
    // After the first SYN it says that it waits.
    assert_eq!(run.stderr.lines().count(), 2, "{}", run.stderr);
}

#[test]
fn damaged_ticket_is_refused() {
    let key = StaticKey::from_bytes([1; 32]).public();
    let address = "127.0.0.1:9".parse().unwrap();
    let ticket = Ticket::new(FILES, &[address], key, false, 60, &mut os_entropy().unwrap()).unwrap();
    let ticket = ticket.to_string();
    for (args, code, part) in [
        (ticket[..60].to_string(), 64, "not copied whole"),
        (ticket.replacen("rdt1a", "rdt1q", 1), 64, "one letter is wrong"),
        (format!("{ticket} --insecure"), 64, "leave out --insecure"),
        (format!("{ticket} 1 0 0 1"), 64, "--wire native"),
        ("@/nowhere/ticket".to_string(), 66, "cannot read the ticket"),
    ] {
        let run = send(&args).with_code(code);
        assert!(run.stderr.contains(part) && !run.stderr.contains(&ticket), "{args}: {}", run.stderr);
    }
}

#[test]
fn ticket_of_other_program_is_refused() {
    let key = StaticKey::from_bytes([1; 32]).public();
    let address = "127.0.0.1:9".parse().unwrap();
    for (service, program) in [(COPIES, "rdt-copy --serve: use rdt-copy"), (Service::NONE, "another program")]
    {
        let ticket = Ticket::new(service, &[address], key, false, 60, &mut os_entropy().unwrap()).unwrap();
        let run = send(&format!("{ticket} --bytes 1000")).with_code(64);
        let sentence = format!("rdt-send: the ticket was printed by {program}");
        assert!(run.stderr.starts_with(&sentence) && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
}

#[test]
fn other_program_at_host_is_named() {
    for options in ["", "--insecure", "--reverse"] {
        let endpoint = Endpoint::bind("127.0.0.1:0", EndpointConfig::default()).unwrap();
        let mut listen = Listen::new(generate_key().unwrap()).service(TUNNELS);
        listen.responder.config.dangerously_unencrypted = true;
        let listener = endpoint.listen(listen).unwrap();
        let run = send(&format!("{} --bytes 1000 {options}", endpoint.local_addr())).with_code(8);
        let part = "is rdt-tunnel serve: use rdt-tunnel connect";
        assert!(run.stderr.contains(part) && run.stderr.lines().count() == 1, "{options}: {}", run.stderr);
        listener.set_timeout(Some(Duration::from_millis(1)));
        listener.accept().expect_err("it hears nothing of it");
    }
}

#[test]
fn client_of_other_service_stores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::keeping(folder.path(), "--json");
    for service in [COPIES, Service::NONE] {
        let connect = Connect::trusting(|_| panic!("no key is asked about")).service(service);
        let Err(ConnectError::Stream(StreamError::Closed(closed))) =
            Endpoint::bind("127.0.0.1:0", EndpointConfig::default())
                .unwrap()
                .connect(receiver.address, connect)
        else {
            panic!("it was refused")
        };
        assert_eq!(closed, Closed::Refused(RefuseReason::OtherService(FILES)));
    }
    let run = receiver.interrupted().with_code(0);
    assert!(!run.stdout.windows(9).any(|word| word == b"connected"), "no transfer is counted");
    assert_eq!(files_in(folder.path()).len(), 0);
}

/// The clock of the sender does not decide: the ticket may be good for the sender that has used it.
#[test]
fn expired_ticket_is_refused_by_receiver() {
    let receiver = Receiver::start("--ticket --json");
    let known: Ticket = ticket_of(&receiver).parse().unwrap();
    let entropy = &mut os_entropy().unwrap();
    let old = Ticket::new(known.service(), known.addresses(), known.key(), false, 60, entropy).unwrap();
    let run = send(&format!("{old} --bytes 1000")).with_code(77);
    assert!(run.stderr.contains("does not know the ticket, which has expired"), "{}", run.stderr);
}

#[test]
fn storing_for_other_hosts_needs_permission() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = |options: &str| {
        let mut command = rdt_recv(&format!("--bind 0.0.0.0:0 --no-link {options}"));
        command.arg("--output").arg(folder.path());
        command
    };
    for options in ["", "--wire native"] {
        let run = Program::start(&mut receiver(options)).ended().with_code(64);
        assert_eq!(run.lines(), Vec::<&str>::new());
        for part in ["rdt-recv: 0.0.0.0:", "can be reached from other hosts", "--ticket", "--open"] {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
    }
    let open = Receiver::from(&mut receiver("--open"));
    let address = SocketAddr::from(([127, 0, 0, 1], open.address.port()));
    send(&format!("{address} --bytes 1000")).with_code(0);
    refuses_unencrypted(address);
    assert_eq!(files_in(folder.path()).len(), 1);
    let warning = "hosts on the path can change them unnoticed";
    Program::start(&mut receiver("--insecure --quiet")).error_line(warning);
    let insecure = Receiver::from(&mut receiver("--insecure --json --ticket"));
    insecure.program.line("\"exposed\":true");
    insecure.program.error_line(warning);
    let host = format!("127.0.0.1:{}", insecure.address.port());
    for (options, code) in [("", 77), ("--insecure", 0), ("9 0 0 1000", 0)] {
        send(&format!("{host} {options} --bytes 1000")).with_code(code);
    }
    let insecure = Receiver::from(&mut receiver("--insecure"));
    let host = format!("127.0.0.1:{}", insecure.address.port());
    for options in ["", "--insecure", "9 0 0 1000"] {
        send(&format!("{host} {options} --bytes 1000")).with_code(0);
    }
}

#[test]
fn ticket_admits_only_its_first_user() {
    let folder = tempfile::tempdir().unwrap();
    let kept = tempfile::tempdir().unwrap();
    let receiver = Receiver::keeping(kept.path(), "--ticket --json");
    let ticket = ticket_of(&receiver);
    let [anna, bert] = ["anna", "bert"].map(|name| folder.path().join(name));
    let key = key_of(&anna);
    let send = |user: &Path, host: &str| send_as(user, &format!("{host} --bytes 100kb --json"));
    let run = send(&anna, &ticket).with_code(0);
    assert_eq!(run.summary()["host"], receiver.address.to_string(), "the ticket is a secret");
    let finished: Value = serde_json::from_str(&receiver.program.line("finished")).unwrap();
    assert_eq!((&finished["key"], &finished["secret"]), (&key.into(), &true.into()));
    let run = send(&bert, &ticket).with_code(77);
    assert!(run.stderr.contains("it was used by another client"), "{}", run.stderr);
    assert_eq!(run.summary()["bytes"], 0);
    let run = send(&bert, &receiver.address.to_string()).with_code(77);
    assert!(run.stderr.contains("does not admit this key"), "{}", run.stderr);
    refuses_unencrypted(receiver.address);
    let [file] = files_in(kept.path()).try_into().unwrap();
    assert!(fs::read(file).unwrap() == array(100_000), "the bytes differ");
    send(&anna, &ticket).with_code(0);
    assert_eq!(files_in(kept.path()).len(), 2);
}

#[test]
fn ticket_is_printed_in_quiet_mode() {
    for (options, is_on_stdout) in [("--quiet", true), ("--quiet --json", false)] {
        let receiver = Program::start(&mut rdt_recv(&format!("--bind 127.0.0.1:0 --ticket {options}")));
        let ticket = if is_on_stdout { receiver.line("rdt1") } else { receiver.error_line("rdt1") };
        send(&format!("{ticket} --bytes 1000")).with_code(0);
    }
}

#[test]
fn second_address_of_ticket_is_tried() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // No program listens at the discard port.
    let addresses = format!("--advertise 127.0.0.1:9 --advertise {free}");
    let receiver =
        Receiver::from(&mut rdt_recv(&format!("--bind {free} --no-link --ticket --json {addresses}")));
    let run = send(&format!("{} --bytes 1000 --json", ticket_of(&receiver))).with_code(0);
    assert_eq!(
        (&run.summary()["address"], &run.summary()["bytes"]),
        (&free.to_string().into(), &1000.into())
    );
}

/// A private address of a ticket may be that of another host where the sender is.
#[test]
fn refusal_of_other_host_is_not_final() {
    let other = Receiver::start("--no-link --ticket --json");
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = format!("--advertise {} --advertise {free}", other.address);
    let receiver =
        Receiver::from(&mut rdt_recv(&format!("--bind {free} --no-link --ticket --json {addresses}")));
    let run = send(&format!("{} --bytes 1000 --json", ticket_of(&receiver))).with_code(0);
    assert_eq!(run.summary()["address"], free.to_string());
}

#[test]
fn allow_file_admits_listed_keys() {
    let folder = tempfile::tempdir().unwrap();
    let [anna, bert] = ["anna", "bert"].map(|name| folder.path().join(name));
    let list = folder.path().join("allow");
    fs::write(&list, format!("{} anna\n", key_of(&anna))).unwrap();
    let receiver = Receiver::start(&format!("--no-link --allow {}", list.display()));
    let send = |user: &Path| send_as(user, &receiver.args("--bytes 1000"));
    send(&anna).with_code(0);
    let bert_key = key_of(&bert);
    let run = send(&bert).with_code(77);
    assert!(
        run.stderr.ends_with(&format!("add this line to the file of --allow\n{bert_key}\n")),
        "{}",
        run.stderr
    );
    receiver.program.error_line(&format!("refused the peer with key {bert_key}: it is not allowed"));
    refuses_unencrypted(receiver.address);
    fs::write(&list, format!("{bert_key}\n")).unwrap();
    send(&bert).with_code(0);
    send(&anna).with_code(77);
}

#[test]
fn wire_native_takes_encrypted_transfers_only() {
    let receiver = Receiver::start("--no-link --wire native");
    send(&receiver.args("--bytes 1000")).with_code(0);
    refuses_unencrypted(receiver.address);
    receiver.program.error_line("refused an unencrypted sender");
    let lines = receiver.interrupted().with_code(0).lines().join("\n");
    assert!(lines.contains(" packets of unencrypted senders refused"), "{lines}");
}

#[cfg(unix)]
#[test]
fn plain_receiver_starts_without_identity() {
    use std::os::unix::fs::PermissionsExt as _;
    let sender = tempfile::tempdir().unwrap();
    // Other users may read this identity.
    let exposed = tempfile::tempdir().unwrap();
    key_of(exposed.path());
    let identity = exposed.path().join("rdt/identity");
    fs::set_permissions(&identity, fs::Permissions::from_mode(0o644)).unwrap();
    // Not even root can make files in /proc, nor below a file.
    let missing = identity.join("folder");
    for folder in [exposed.path(), Path::new("/proc"), &missing] {
        let start = |options: &str| {
            let mut command = rdt_recv(&format!("--bind 127.0.0.1:0 --no-link {options}"));
            command.env("XDG_CONFIG_HOME", folder);
            command
        };
        let receiver = Receiver::from(&mut start(""));
        receiver.program.error_line("a key for this run");
        send(&receiver.args("9 0 0 1000 --bytes 1000")).with_code(0);
        send_as(sender.path(), &receiver.args("--bytes 1000")).with_code(0);
        Program::start(&mut start("--ticket")).ended().with_code(66);
    }
}

#[test]
fn receiver_without_its_key_files_exits_with_66() {
    for option in ["--allow", "--secret-file"] {
        let run =
            Program::start(&mut rdt_recv(&format!("--bind 127.0.0.1:0 {option} /nowhere/file"))).ended();
        assert!(run.stderr.contains("/nowhere/file"), "{}", run.stderr);
        run.with_code(66);
    }
}
