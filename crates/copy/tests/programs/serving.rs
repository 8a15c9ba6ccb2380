//! `--serve`: confinement, permissions, keys, several clients.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use rdt_program_testing::programs::pause;

use super::home::{Home, names, noise};
use super::killed::partial_bytes;
use super::tree::assert_same;

#[test]
fn nothing_outside_of_folder_is_reached() {
    let home = Home::new();
    home.write("secret", "outside");
    home.write("file", "text");
    home.folder("store/sub");
    symlink(home.path(""), home.path("store/way out")).unwrap();
    let before = names(&home.path(""));
    let serve = home.serve("store", &[]);
    let outside = home.show("secret");
    for path in ["../secret", "sub/../../secret", "way out/secret", &outside] {
        let ended = home.run(&[&serve.at(path), "stolen"]);
        assert!(matches!(ended.code, Some(8 | 23)), "{path}: {ended:?}");
        assert!(!home.path("stolen").exists(), "{path}");
    }
    let planted = home.show("planted");
    for path in ["../planted", "sub/../../planted", "way out/planted", &planted] {
        let ended = home.run(&["file", &serve.at(path)]);
        assert_ne!(ended.code, Some(0), "{path}: {ended:?}");
    }
    assert!(
        names(&home.path(""))
            .iter()
            .all(|name| before.contains(name) || ["anna", "server"].contains(&&**name))
    );
    assert_eq!(names(&home.path("store")), ["sub", "way out"]);
}

#[test]
fn permissions_limit_direction() {
    let home = Home::new();
    home.write("file", "text");
    home.write("out/file", "text");
    let serve = home.serve("out", &["--read-only"]);
    let ended = home.run(&["file", &serve.at("new")]);
    assert_eq!((ended.code, names(&home.path("out"))), (Some(8), vec!["file".to_owned()]), "{ended:?}");
    home.copy(&[&serve.at("file"), "got"]);

    let serve = home.serve("in", &["--write-only"]);
    home.copy(&["file", &serve.tickets[0]]);
    let ended = home.run(&[&serve.at("file"), "back"]);
    assert_eq!((ended.code, home.path("back").exists()), (Some(8), false), "{ended:?}");
}

#[test]
fn write_only_folder_keeps_and_hides_contents() {
    let home = Home::new();
    home.write("pin", "1234");
    home.write("in/pin", "56789");
    let serve = home.serve("in", &["--write-only"]);
    for (option, part) in [("--checksum", "tells no contents"), ("--overwrite", "be replaced")] {
        let ended = home.run(&[option, "pin", &serve.tickets[0]]);
        assert_eq!(ended.code, Some(8), "{ended:?}");
        assert!(ended.errors.contains(part), "{ended:?}");
    }
    assert_eq!(fs::read_to_string(home.path("in/pin")).unwrap(), "56789");
    let serve = home.serve("in", &["--write-only", "--allow-overwrite"]);
    assert_eq!(home.run(&["--checksum", "pin", &serve.tickets[0]]).code, Some(8));
    home.copy(&["--overwrite", "pin", &serve.tickets[0]]);
    assert_eq!(fs::read_to_string(home.path("in/pin")).unwrap(), "1234");
}

#[test]
fn allowed_key_copies_by_host_name() {
    let home = Home::new();
    home.write("store/file", "text");
    fs::write(home.path("allow"), "# none\n").unwrap();
    let serve = home.serve("store", &["--allow", "allow"]);
    assert_eq!(serve.tickets.len(), 0);
    let pull = |to: &str| home.run(&["--port", &serve.port, "127.0.0.1::file", to]);
    let ended = pull("one");
    assert_eq!(ended.code, Some(77), "{ended:?}");
    let key = ended.errors.lines().last().unwrap().to_owned();
    fs::write(home.path("allow"), format!("{key} anna\n")).unwrap();
    assert_eq!(pull("two").code, Some(0));
    assert_eq!(fs::read_to_string(home.path("two")).unwrap(), "text");
}

#[test]
fn shared_secret_or_open_admits() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::new();
    home.write("store/file", "text");
    let secret = home.write("secret", "mfrggzdfmztwq2lknnwg23tpobyxe43u\n");
    fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    for options in [&["--secret-file", "secret"][..], &["--open"]] {
        let serve = home.serve("store", options);
        let client = if options.len() == 2 { options } else { &[] };
        // Each server has a key of its own.
        let _ = fs::remove_file(home.path("anna/rdt/known_hosts"));
        home.copy(&[client, &["--port", &serve.port, "127.0.0.1::file", "got", "--overwrite"]].concat());
        assert_eq!(fs::read_to_string(home.path("got")).unwrap(), "text");
    }
}

#[test]
fn tickets_are_for_one_client_each() {
    let home = Home::new();
    home.write("store/file", "text");
    let serve = home.serve("store", &["--tickets", "2", "--ticket-lifetime", "1h"]);
    assert_eq!(serve.tickets.len(), 2);
    home.copy(&[&serve.at("file"), "first"]);
    home.copy(&[&serve.at("file"), "again"]);
    let bob = |ticket: &str| home.start("bob", &[&format!("{ticket}:file"), "bobs"]).ended();
    let refused = bob(&serve.tickets[0]);
    assert_eq!(refused.code, Some(77), "{refused:?}");
    assert_eq!(bob(&serve.tickets[1]).code, Some(0));
    // A ticket in a file is not shown by `ps`.
    home.write("ticket", &serve.tickets[0]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(home.path("ticket"), fs::Permissions::from_mode(0o600)).unwrap();
    }
    home.copy(&["@ticket:file", "third"]);
}

/// Returns the most memory that a process has had, bytes.
#[cfg(target_os = "linux")]
fn peak_memory(program: &rdt_program_testing::programs::Program) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_files() {
    const LIMIT: u64 = 128 << 20;

    let home = Home::new();
    let block = noise(1, 1 << 20);
    home.write("tree/large", block.repeat(160));
    for index in 0..5000 {
        home.write(&format!("tree/{}/{index}", index % 50), &block[..1000]);
    }
    let serve = home.serve("store", &[]);
    home.copy(&["tree", &serve.tickets[0]]);
    home.copy(&[&serve.at("tree"), "back"]);
    // It has been destination and source, and did not forget its most.
    let peak = peak_memory(&serve.program);
    assert!(peak < LIMIT, "{peak} bytes");
}

#[test]
fn killed_client_goes_on_at_once() {
    let home = Home::new();
    home.write("tree/large", noise(5, 40 << 20));
    let serve = home.serve("store", &[]);
    let command = ["tree", &serve.at("new"), "--json"];
    let mut program = home.start("anna", &[&command[..], &["--max-rate", "160mbit"]].concat());
    program.event("connected");
    while partial_bytes(&home.path("store/new")) < 12 << 20 && !program.has_ended() {
        pause();
    }
    program.kill();
    program.ended();
    // The server waits for the killed client as long as its idle timeout.
    let ended = home.run(&command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.summary()["resumed_bytes"].as_u64().unwrap() > 0, "{ended:?}");
    assert_same(&home.path("tree"), &home.path("store/new"));
}

#[test]
fn replaced_client_is_told_why() {
    let home = Home::new();
    home.write("tree/large", noise(5, 20 << 20));
    let serve = home.serve("store", &[]);
    let command = ["tree", &serve.at("new")];
    let mut first = home.start("anna", &[&command[..], &["--max-rate", "8mbit"]].concat());
    while partial_bytes(&home.path("store/new")) == 0 && !first.has_ended() {
        pause();
    }
    home.copy(&command);
    let first = first.ended();
    assert_eq!(first.code, Some(8), "{first:?}");
    assert!(first.errors.contains("the same copy was started again"), "{first:?}");
}

#[test]
fn unread_remarks_stop_no_client() {
    let home = Home::new();
    home.write("store/file", "text");
    // The remarks on these are more than a pipe holds.
    for number in 0..900 {
        home.write(&format!("store/tree/.rdt-copy-{number:0100}"), "");
    }
    let line = ["--serve", "store", "--bind", "127.0.0.1", "--port", "0"];
    let mut serve = home.command("server", line);
    let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ticket = String::new();
    BufReader::new(serve.stdout.as_mut().unwrap()).read_line(&mut ticket).unwrap();
    let ticket = ticket.trim();
    let ended = ["tree", "tree", "file"]
        .map(|path| home.run(&["--connect-give-up", "5s", "-q", &format!("{ticket}:{path}"), "got/"]));
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert_eq!([0, 1, 2].map(|index: usize| ended[index].code), [Some(23), Some(23), Some(0)], "{ended:?}");
}

#[test]
fn clients_are_reported_and_stop_ends_serve() {
    let home = Home::new();
    home.write("store/file", "text");
    let serve = home.serve("store", &["--max-clients", "2"]);
    home.copy(&[&serve.at("file"), "got"]);
    let client = serve.program.event("client");
    assert_eq!(
        (&client["direction"], &client["path"], &client["client"]),
        (&"read".into(), &"file".into(), &1.into())
    );
    let end = serve.program.event("client_end");
    assert_eq!((&end["failures"], &end["text"]), (&0.into(), &serde_json::Value::Null));
    serve.program.signal("INT");
    let ended = serve.program.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    super::home::check_events(&ended);
}
