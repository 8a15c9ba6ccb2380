//! Exit codes and sentences of copies that cannot begin or do not end well.

use rdt_program_testing::closed_pipe;
use rdt_program_testing::programs::pause;

use super::home::{Home, args, noise};

const RESUME: &str = "Run the same command again to resume";

#[test]
fn wrong_arguments_are_explained() {
    let home = Home::new();
    home.write("a", "text");
    for (line, part) in [
        (&["a", "b"][..], "no host in SRC or DEST"),
        (&["a"], "SRC... DEST"),
        (&["a", "rdt1abcdefghijklmnopqrstuvwxyz"], "ticket"),
        (&["a", "h:b", "--max-rate", "5"], "unit"),
        (&["a", "127.0.0.1::", "--listen-here"], "--listen-here is for HOST:PATH"),
        (&["--serv", "a"], "--serve"),
    ] {
        let ended = home.run(line);
        assert_eq!(ended.code, Some(64), "{line:?}: {ended:?}");
        assert!(ended.errors.contains(part), "{line:?}: {ended:?}");
    }
}

#[test]
fn help_alone_prints_help() {
    let home = Home::new();
    let [word, option] = ["help", "--help"].map(|word| home.run(&[word]));
    assert_eq!((word.code, &word.lines), (Some(0), &option.lines));
}

#[test]
fn closed_stdout_fails_json_alone() {
    let home = Home::new();
    home.write("a", "text");
    let serve = home.serve("store", &[]);
    for (options, code) in [(&[][..], 0), (&["--json"], 74)] {
        let mut command =
            home.command("anna", ["a", &*serve.tickets[0]].into_iter().chain(options.iter().copied()));
        let output = command.stdout(closed_pipe()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

#[test]
fn open_address_without_rule_is_refused() {
    let home = Home::new();
    let ended = home.run(&["--serve", ".", "--port", "0", "--tickets", "0"]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.errors.contains("can be reached from other hosts"), "{ended:?}");
    let ended = home.run(&["--serve", ".", "--port", "0", "--open", "--tickets", "1"]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.errors.contains("leave out --tickets"), "{ended:?}");
    let ended = home.run(&["--serve", "missing", "--port", "0"]);
    assert_eq!(ended.code, Some(66), "{ended:?}");
}

#[test]
fn silent_and_unknown_hosts_have_codes() {
    let home = Home::new();
    home.write("a", "text");
    let ended = home.run(&["a", "no.such.name.invalid::"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let ended = home.run(&["a", "127.0.0.1::", "--port", "9", "--connect-give-up", "1s"]);
    assert_eq!(ended.code, Some(5), "{ended:?}");
}

#[test]
fn failures_of_ssh_are_explained() {
    let home = Home::new();
    home.write("a", "text");
    let fake = home.fake_ssh();
    for (options, code, part) in [
        (
            &["-e", &*fake, "--remote-program", "no-such-program"][..],
            127,
            "has no no-such-program: install it",
        ),
        (&["-e", "/no/such/ssh"], 69, "cannot run /no/such/ssh"),
        (&["-e", "sh -c 'exit 255'"], 69, "ssh has no connection to host"),
        (&["-e", "sh -c 'exit 4'"], 69, "ended with exit code 4"),
        (&["-e", "sh -c 'exec yes'"], 69, "prints more than 64 KiB before"),
    ] {
        let ended = home.run(&[options, &["a", "host:"]].concat());
        assert_eq!(ended.code, Some(code), "{options:?}: {ended:?}");
        assert!(ended.errors.contains(part), "{options:?}: {ended:?}");
    }
}

#[test]
fn missing_source_fails_alone() {
    let home = Home::new();
    home.write("a", "text");
    let serve = home.serve("store", &[]);
    let ended = home.run(&["a", "missing", &serve.tickets[0]]);
    assert_eq!(ended.code, Some(23), "{ended:?}");
    assert!(ended.errors.contains("missing: "), "{ended:?}");
    assert!(home.path("store/a").exists());
}

#[test]
fn ctrl_c_says_how_to_resume() {
    let home = Home::new();
    let bytes = noise(1, 20_000_000);
    home.write("file", &bytes);
    let serve = home.serve("store", &[]);
    home.write("first", "text");
    let args = ["--max-rate", "8mbit", "--json", "first", "file", &serve.tickets[0]];
    let copy = home.start("anna", &args);
    // More than the first file has arrived.
    while copy.event("progress")["bytes"].as_u64().unwrap() <= 4 {}
    copy.signal("INT");
    let ended = copy.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.errors.contains(RESUME) && ended.errors.contains("so far "), "{ended:?}");
    super::home::check_events(&ended);
    let summary = ended.summary();
    assert_eq!((&summary["exit_code"], &summary["failures"]), (&130.into(), &0.into()));
    assert!(summary["sent_bytes"].as_u64().unwrap() > 4 && summary["elapsed_ns"].as_u64().unwrap() > 0);
    assert!(!home.path("store/file").exists());
    home.copy(&["file", &serve.tickets[0]]);
    assert!(std::fs::read(home.path("store/file")).unwrap() == bytes);
}

#[test]
fn lost_peer_says_how_to_resume() {
    let home = Home::new();
    home.write("file", noise(1, 20_000_000));
    let serve = home.serve("store", &[]);
    let args = ["--max-rate", "8mbit", "--idle-timeout", "2s", "file", &serve.tickets[0]];
    let mut copy = home.start("anna", &args);
    while std::fs::read_dir(home.path("store")).unwrap().next().is_none() {
        assert!(!copy.has_ended(), "{:?}", copy.ended());
        pause();
    }
    serve.program.signal("KILL");
    let ended = copy.ended();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.errors.contains(RESUME), "{ended:?}");
    // The ticket has ended with the program that printed it.
    assert!(ended.errors.contains("with a new ticket if the program there was restarted"), "{ended:?}");
    let again = home.serve("store", &[]);
    assert_eq!(home.copy(&["file", &again.tickets[0]])["files"], 1);
}

#[test]
fn stopped_server_is_named() {
    let home = Home::new();
    home.write("file", noise(1, 20_000_000));
    let serve = home.serve("store", &[]);
    let mut copy = home.start("anna", &["--max-rate", "8mbit", "file", &serve.tickets[0]]);
    while std::fs::read_dir(home.path("store")).unwrap().next().is_none() {
        assert!(!copy.has_ended(), "{:?}", copy.ended());
        pause();
    }
    serve.program.signal("TERM");
    let (client, server) = (copy.ended(), serve.program.ended());
    assert_eq!((client.code, server.code), (Some(8), Some(130)), "{client:?} {server:?}");
    assert!(client.errors.contains("rdt-copy was stopped there"), "{client:?}");
}

#[test]
fn far_side_ends_with_killed_client() {
    let home = Home::new();
    home.write("file", noise(1, 20_000_000));
    let by_ssh = home.by_ssh();
    let options = [&args(&by_ssh)[..], &["--max-rate", "8mbit", "file", "host:copy"]].concat();
    let mut copy = home.start("anna", &options);
    while super::killed::partial_bytes(&home.path("")) == 0 {
        assert!(!copy.has_ended(), "{:?}", copy.ended());
        pause();
    }
    copy.signal("KILL");
    drop(copy);
    let id = std::fs::read_to_string(home.path("fake-ssh.pid")).unwrap();
    let proc = std::path::PathBuf::from(format!("/proc/{}", id.trim()));
    for _ in 0..rdt_program_testing::programs::WAIT_LIMIT.as_millis() / 10 {
        if !cfg!(target_os = "linux") || !proc.exists() {
            return;
        }
        pause();
    }
    panic!("the far side still runs");
}
