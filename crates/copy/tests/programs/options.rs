//! Every option of a copy, by its effect.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};

use rdt_program_testing::programs::{has, output};

use super::home::{Home, PROGRAM, args, names, noise};

#[test]
fn existing_file_that_differs_needs_option() {
    let home = Home::new();
    home.write("a.txt", "new text");
    home.write("store/a.txt", "old");
    let serve = home.serve("store", &[]);
    let stored = || fs::read_to_string(home.path("store/a.txt")).unwrap();

    let ended = home.run(&["a.txt", &serve.tickets[0]]);
    assert_eq!(ended.code, Some(23), "{ended:?}");
    assert!(ended.errors.contains("not copied: a.txt: "), "{ended:?}");
    assert!(ended.errors.contains("--overwrite") && ended.errors.contains("1 not copied"), "{ended:?}");
    assert_eq!(stored(), "old");

    home.copy(&["--keep-both", "a.txt", &serve.tickets[0]]);
    assert_eq!(
        (stored(), names(&home.path("store"))),
        ("old".into(), vec!["a (2).txt".into(), "a.txt".into()])
    );

    home.copy(&["--overwrite", "a.txt", &serve.tickets[0]]);
    assert_eq!(stored(), "new text");
}

#[test]
fn checksum_finds_change_of_same_size_and_time() {
    let home = Home::new();
    let [one, other] = [home.write("a", "aaaa"), home.write("store/a", "bbbb")];
    let time = one.metadata().unwrap().modified().unwrap();
    fs::File::open(&other).unwrap().set_modified(time).unwrap();
    let serve = home.serve("store", &[]);
    assert_eq!(home.copy(&["a", &serve.tickets[0]])["skipped"], 1);
    let summary = home.copy(&["--checksum", "--overwrite", "a", &serve.tickets[0]]);
    assert_eq!(summary["files"], 1);
    assert_eq!(fs::read_to_string(&other).unwrap(), "aaaa");
    assert_eq!(home.copy(&["--checksum", "a", &serve.tickets[0]])["skipped"], 1);
}

#[test]
fn exclude_leaves_out_patterns() {
    let home = Home::new();
    for name in ["p/main.c", "p/main.o", "p/target/x", "p/sub/b.o", "p/sub/keep"] {
        home.write(name, name);
    }
    let serve = home.serve("store", &[]);
    home.copy(&["--exclude", "*.o", "--exclude", "target/", "p", &serve.tickets[0]]);
    assert_eq!(names(&home.path("store/p")), ["main.c", "sub"]);
    assert_eq!(names(&home.path("store/p/sub")), ["keep"]);
    home.copy(&["--exclude", "main.*", &serve.at("p"), "back"]);
    assert_eq!(names(&home.path("back")), ["sub"]);
}

#[test]
fn exclude_leaves_out_named_sources() {
    let home = Home::new();
    for name in ["a.c", "a.o", "target/x", "other/target/x", "other/a.o", "keep/target"] {
        home.write(name, name);
    }
    let options = ["--exclude", "*.o", "--exclude", "target/", "--exclude", "/keep"];
    let sources = ["a.c", "a.o", "target", "keep"];
    let serve = home.serve("store", &[]);
    home.copy(&[&options[..], &sources, &[&serve.tickets[0]]].concat());
    assert_eq!(names(&home.path("store")), ["a.c", "keep"]);
    assert_eq!(names(&home.path("store/keep")), ["target"]);
    home.copy(&[&options[..], &["other/target/", "other/a.o", &serve.tickets[0]]].concat());
    assert_eq!(names(&home.path("store")), ["a.c", "keep"]);

    let from = home.serve(".", &[]);
    let sources = sources.map(|name| from.at(name));
    home.copy(&[&options[..], &sources.each_ref().map(String::as_str), &["back/"]].concat());
    assert_eq!(names(&home.path("back")), ["a.c", "keep"]);
    let absent = ["absent.c", "absent.o"].map(|name| from.at(name));
    let ended = home.run(&[&options[..], &absent.each_ref().map(String::as_str), &["back"]].concat());
    assert!(ended.errors.contains("not copied: absent.c"), "{ended:?}");
}

#[test]
fn useless_and_doubtful_patterns_are_named() {
    let home = Home::new();
    home.write("p/sub/file", "text");
    let serve = home.serve("store", &[]);
    let ended = home.run(&["--exclude", "./sub", "p", &serve.tickets[0]]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.errors.contains("pattern './sub' to exclude matches nothing"), "{ended:?}");
    let ended = home.run(&["--exclude", "p/sub", "p", &serve.tickets[0]]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.errors.contains("--exclude 'p/sub' begins inside of p") && ended.errors.contains("'/sub'"),
        "{ended:?}"
    );
}

#[test]
fn far_patterns_are_expanded_there() {
    let home = Home::new();
    for name in ["store/a.jpg", "store/b.jpg", "store/.c.jpg", "store/notes"] {
        home.write(name, name);
    }
    let serve = home.serve("store", &[]);
    home.copy(&[&serve.at("*.jpg"), "by-ticket/"]);
    let by_ssh = home.by_ssh();
    home.copy(&[&args(&by_ssh)[..], &["host:store/*.jpg", "by-ssh/"]].concat());
    for folder in ["by-ticket", "by-ssh"] {
        assert_eq!(names(&home.path(folder)), ["a.jpg", "b.jpg"]);
    }
    let ended = home.run(&[&serve.at("*.gif"), "by-ticket"]);
    assert_eq!(ended.code, Some(23), "{ended:?}");
    assert!(ended.errors.contains("not copied: *.gif: no name matches"), "{ended:?}");
    home.copy(&[&args(&by_ssh)[..], &["host:store/../store/./", "all/"]].concat());
    assert!(home.path("all/notes").exists());
}

#[test]
fn follow_copies_what_links_lead_to() {
    let home = Home::new();
    home.write("p/file", "text");
    symlink("file", home.path("p/link")).unwrap();
    symlink(".", home.path("p/loop")).unwrap();
    let serve = home.serve("store", &[]);
    let ended = home.run(&["--follow", "p", &serve.tickets[0], "--json"]);
    assert!(matches!(ended.code, Some(0 | 23)), "{ended:?}");
    let link = home.path("store/p/link");
    assert!(link.symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(link).unwrap(), "text");
}

#[test]
fn dry_run_prints_names_and_copies_nothing() {
    let home = Home::new();
    home.write("p/new", "text");
    home.write("p/old", "text");
    let serve = home.serve("store", &[]);
    home.copy(&["p/old", &serve.at("p/")]);
    let ended = home.run(&["--dry-run", "p", &serve.tickets[0]]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.lines, ["p/new"], "{ended:?}");
    assert!(ended.errors.contains("1 would be copied, 1 skipped"), "{ended:?}");
    assert_eq!(names(&home.path("store/p")), ["old"]);
}

#[test]
fn special_modes_are_dropped_unless_asked() {
    let home = Home::new();
    let file = home.write("file", "text");
    fs::set_permissions(&file, Permissions::from_mode(0o4755)).unwrap();
    let serve = home.serve("store", &[]);
    let mode = || home.path("store/file").metadata().unwrap().mode() & 0o7777;
    home.copy(&["file", &serve.tickets[0]]);
    assert_eq!(mode(), 0o755);
    // A client must not make a file that runs with the rights of the server's user.
    fs::remove_file(home.path("store/file")).unwrap();
    home.copy(&["--special-modes", "file", &serve.tickets[0]]);
    assert_eq!(mode(), 0o755);

    fs::set_permissions(home.path("store/file"), Permissions::from_mode(0o4755)).unwrap();
    for (options, expected) in [(&[][..], 0o755), (&["--special-modes"][..], 0o4755)] {
        let name = format!("got{}", options.len());
        home.copy(&[options, &[&*serve.at("file"), &*name]].concat());
        assert_eq!(home.path(&name).metadata().unwrap().mode() & 0o7777, expected);
    }
}

/// Runs a copy by the stand-in of ssh whose far side is traced. Returns the names of the synced
/// files and directories; `None` without strace.
fn synced(home: &Home, options: &[&str]) -> Option<Vec<String>> {
    let trace = home.show("trace");
    let strace = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync,sync_file_range", "-o", &trace];
    if !Command::new(strace[0]).args(&strace[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        rdt_testing::skipped("strace cannot be run");
        return None;
    }
    let far = [&strace[..], &[PROGRAM]].concat().join(" ");
    home.copy(&[&["-e", &home.fake_ssh(), "--remote-program", &far], options].concat());
    let lines = fs::read_to_string(trace).unwrap();
    let path = |line: &str| Some(line.split_once('<')?.1.split_once('>')?.0.to_owned());
    let name = |path: String| path.rsplit('/').next().unwrap().to_owned();
    Some(lines.lines().filter_map(path).map(name).collect())
}

#[test]
fn sync_reaches_new_and_existing_files() {
    let home = Home::new();
    home.write("tree/old", "text");
    home.write("tree/sub/new", "text");
    home.folder("store");
    let copy = |options: &[&str]| synced(&home, &[options, &["tree", "host:store"]].concat());
    let Some(found) = copy(&[]) else { return };
    assert_eq!(found, [""; 0], "small files are not synced unless asked");
    // The end of one with a hole has its size before its data.
    let holey = fs::File::create(home.path("tree/sub/holey")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holey, b"text", 0).unwrap();
    holey.set_len(1 << 20).unwrap();
    assert_eq!(copy(&[]).unwrap().len(), 1, "the file with a hole");
    fs::remove_dir_all(home.path("store/tree/sub")).unwrap();
    let found = copy(&["--sync"]).unwrap();
    for name in ["old", "sub", "tree", "store"] {
        assert!(found.contains(&name.to_owned()), "{name}: {found:?}");
    }
    assert!(found.iter().any(|name| name.starts_with(".rdt-copy-")), "{found:?}");
}

#[test]
fn max_rate_limits_both_directions() {
    let home = Home::new();
    home.write("file", noise(1, 1_500_000));
    let serve = home.serve("store", &[]);
    let by_ssh = home.by_ssh();
    let from = serve.at("file");
    let (push, pull) = (["file", &serve.tickets[0]], [from.as_str(), "back"]);
    let far = [&args(&by_ssh)[..], &["host:store/file", "third"]].concat();
    for paths in [&push[..], &pull[..], &far[..]] {
        let summary = home.copy(&[&["--max-rate", "10mbit"], paths].concat());
        // 1.2 s at the rate, less a first burst.
        assert!(summary["elapsed_ns"].as_u64().unwrap() > 900_000_000, "{paths:?}: {summary}");
        assert_eq!(summary["sent_bytes"], 1_500_000);
    }
    for name in ["store/file", "back", "third"] {
        assert!(fs::read(home.path(name)).unwrap() == noise(1, 1_500_000), "{name}");
    }
}

#[test]
fn interrupted_push_counts_what_arrived() {
    let home = Home::new();
    home.write("file", noise(1, 8_000_000));
    let serve = home.serve("store", &[]);
    let program = home.start("anna", &["--json", "--max-rate", "4mbit", "file", &serve.tickets[0]]);
    // The source has read everything long before.
    let progress = program.event("progress")["bytes"].as_u64().unwrap();
    program.signal("INT");
    let ended = program.ended();
    let sent = ended.summary()["sent_bytes"].as_u64().unwrap();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(progress <= sent && (1..8_000_000).contains(&sent), "{progress} {sent}");
}

/// Runs a copy of `file` on a terminal of this kind, and returns what it prints there.
fn drawn(home: &Home, term: &str, options: &str) -> String {
    let serve = home.serve("store", &[]);
    let line = format!("stty cols 140; {PROGRAM} {options} file {}", serve.tickets[0]);
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(home.path(""));
    script.env("TERM", term).env("XDG_CONFIG_HOME", home.path("anna")).stdin(Stdio::null());
    String::from_utf8(output(&mut script)).unwrap()
}

#[test]
fn bar_on_terminal_shows_what_arrived() {
    let home = Home::new();
    if !has("script") {
        return;
    }
    home.write("file", noise(1, 3 << 20));
    let drawn = drawn(&home, "xterm", "--max-rate 8mbit");
    assert!(["1.05", "2.10"].iter().any(|part| drawn.contains(&format!("{part} MB/3.15 MB ["))), "{drawn}");
    for part in [" %  ", " Mbit/s  ", " s left", "1 file left", "  file", "1 file copied, 3.15 MB in "] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    for part in ["ETA", "1 files", "MB/s", "0 s left  1 file left"] {
        assert!(!drawn.contains(part), "{part}: {drawn}");
    }
}

#[test]
fn terminal_without_escape_codes_gets_none() {
    let home = Home::new();
    if !has("script") {
        return;
    }
    for term in ["", "dumb"] {
        home.write("file", noise(1, 300_000));
        let drawn = drawn(&home, term, "--overwrite --max-rate 4mbit");
        assert!(!drawn.contains('\x1b') && drawn.contains("1 file copied"), "{term}: {drawn:?}");
        fs::remove_file(home.path("store/file")).unwrap();
    }
}

#[test]
fn ports_and_addresses_are_used() {
    let home = Home::new();
    home.write("file", "text");
    let serve = home.serve("store", &["--advertise", "127.0.0.1:1", "--advertise", "127.0.0.1:2"]);
    // No program listens on the advertised ports.
    let ended = home.run(&["file", &serve.tickets[0], "--connect-give-up", "2s"]);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    // By ssh, the far side takes a port of the range that is free.
    let range = format!("{}-{}", serve.port, serve.port.parse::<u16>().unwrap().saturating_add(20));
    let by_ssh = home.by_ssh();
    home.copy(&[&args(&by_ssh)[..], &["--port", &range, "file", "host:copy"]].concat());
    assert_eq!(fs::read_to_string(home.path("copy")).unwrap(), "text");
}

#[test]
fn quiet_copy_prints_nothing() {
    let home = Home::new();
    home.write("file", "text");
    let serve = home.serve("store", &[]);
    home.copy(&["file", &serve.at("first")]);
    let ended = home.run(&["-q", "file", &serve.at("second")]);
    assert_eq!((ended.code, ended.lines.len(), &*ended.errors), (Some(0), 0, ""), "{ended:?}");
    let ended = home.run(&["file", &serve.at("third")]);
    assert!(ended.errors.starts_with("rdt-copy: 1 file copied, 4 B in "), "{ended:?}");
    assert_eq!(ended.errors.lines().count(), 1, "no bar without a terminal: {ended:?}");
}

#[test]
fn json_events_name_each_file() {
    let home = Home::new();
    home.write("p/file", "text");
    home.write("p/other", "more");
    home.write("store/p/other", "old");
    let serve = home.serve("store", &[]);
    let ended = home.run(&["--json", "p", &serve.tickets[0]]);
    assert_eq!(ended.code, Some(23), "{ended:?}");
    super::home::check_events(&ended);
    let events: Vec<serde_json::Value> =
        ended.lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |name: &str| {
        events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("{name}: {events:?}"))
    };
    assert_eq!(find("total")["files"], 2);
    assert!(find("connected")["address"].is_string());
    let done = events.iter().find(|event| event["event"] == "done" && event["kind"] == "file").unwrap();
    assert_eq!((&done["path"], &done["bytes"]), (&"p/file".into(), &4.into()));
    assert_eq!(find("failed")["path"], "p/other");
    let summary = ended.summary();
    assert_eq!((&summary["event"], &summary["exit_code"]), (&"summary".into(), &23.into()));
    assert_eq!(summary["failed"][0]["path"], "p/other");
}
