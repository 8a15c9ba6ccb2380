//! Effect of a stored calibration on `run` and `proxy`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");
/// Exit code of a proxy whose LISTEN address is in use, which shows that the calibration was
/// accepted.
const TAKEN: i32 = 69;
const REFUSED: i32 = 78;
const NOT_CREATED: i32 = 73;

/// Creates a state folder with this calibration file.
fn state(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rdt-emu")).unwrap();
    fs::write(folder.path().join("rdt-emu/calibration.json"), text).unwrap();
    folder
}

fn calibration() -> Value {
    let uname = rustix::system::uname();
    let [name, system, release] =
        [uname.nodename(), uname.sysname(), uname.release()].map(|text| text.to_str().unwrap());
    let processors = std::thread::available_parallelism().unwrap();
    json!({
        "version": 2,
        "measured": rdt_program::time::rfc3339(rdt_udp::clock::unix_time()),
        "host": { "name": name, "system": format!("{system} {release}"), "processors": processors },
        "proxy": { "held_bps": 50e6, "failed_bps": 58e6 },
        "namespace": { "held_bps": 20e6, "failed_bps": 23e6 },
    })
}

/// Runs the program; returns its exit code and standard error.
fn ends(state: &TempDir, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(PROGRAM).args(arguments).env("XDG_STATE_HOME", state.path()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Runs a proxy that cannot bind its address, so that it ends right after the check of the
/// calibration.
fn proxy(state: &TempDir, options: &[&str]) -> (i32, String) {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    ends(state, &[&["proxy", &listen, "127.0.0.1:9"], options].concat())
}

#[test]
fn failed_rate_is_refused_with_reason() {
    let state = state(&calibration().to_string());
    for rate in ["60mbit", "0s:1mbit, 5s:60mbit"] {
        let (code, said) = proxy(&state, &["--rate-reverse", rate]);
        assert_eq!(code, REFUSED, "{said}");
        assert!(said.contains("asks for 60 Mbit/s") && said.contains("did not hold 58 Mbit/s"), "{said}");
        assert!(said.contains("--beyond-calibration") && said.lines().count() == 1, "{said}");
    }
    let (code, said) = ends(&state, &["run", "--rate", "30mbit", "--", "true"]);
    assert_eq!(code, REFUSED, "{said}");
    assert!(said.contains("held 20 Mbit/s in a namespace and did not hold 23 Mbit/s"), "{said}");
}

#[test]
fn carried_rates_and_force_are_not_refused() {
    let state = state(&calibration().to_string());
    for options in
        [&["--rate", "50mbit"][..], &["--rtt", "1ms"], &["--rate", "60mbit", "--beyond-calibration"]]
    {
        let (code, said) = proxy(&state, options);
        assert_eq!((code, said.lines().count()), (TAKEN, 1), "{options:?}: {said}");
    }
    let empty = tempfile::tempdir().unwrap();
    let (code, said) = proxy(&empty, &["--rate", "60mbit"]);
    assert_eq!((code, said.lines().count()), (TAKEN, 1), "{said}");
}

#[test]
fn doubtful_rate_warns_and_runs() {
    let state = state(&calibration().to_string());
    let cases = [
        (&["--rate", "55mbit"][..], "the path asks for 55 Mbit/s, and this host held 50 Mbit/s"),
        (
            &["--rate", "1mbit", "--per-client"],
            "64 clients may have a path of 1 Mbit/s each, 64 Mbit/s together",
        ),
    ];
    for (options, part) in cases {
        let (code, said) = proxy(&state, options);
        assert_eq!((code, said.lines().count()), (TAKEN, 2), "{said}");
        assert!(said.contains(part) && said.contains("may be too much"), "{said}");
    }
    for options in [&["--rate", "1mbit"][..], &["--rate", "1mbit", "--per-client", "--max-clients", "50"]] {
        let (code, said) = proxy(&state, options);
        assert_eq!((code, said.lines().count()), (TAKEN, 1), "{said}");
    }
}

#[test]
fn rates_of_destinations_warn_together() {
    let state = state(&calibration().to_string());
    let run = |rate: &str| {
        let path = format!("rate={rate}");
        // A control socket that cannot be created ends it right after the check.
        let control = ["--control", "/no such folder/socket", "--", "true"];
        ends(&state, &[&["run", "--rate", "12mbit", "--to", "10.1.0.1", &path][..], &control].concat())
    };
    let (code, said) = run("8mbit");
    assert_eq!((code, said.lines().count()), (NOT_CREATED, 1), "{said}");
    let (code, said) = run("15mbit");
    assert_eq!((code, said.lines().count()), (NOT_CREATED, 2), "{said}");
    assert!(said.contains("2 paths ask for 27 Mbit/s together, and this host held 20 Mbit/s"), "{said}");
    assert_eq!(run("30mbit").0, REFUSED);
}

#[test]
fn calibrate_without_writable_file_measures_nothing() {
    let state = state("");
    let file = state.path().join("rdt-emu/calibration.json");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let (code, said) = ends(&state, &["calibrate"]);
    assert_eq!((code, said.lines().count()), (73, 1), "{said}");
    assert!(said.contains("calibration.json") && said.contains("--no-save"), "{said}");
}

#[test]
fn unusable_calibration_warns_and_refuses_nothing() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut object = calibration();
        change(&mut object);
        object.to_string()
    };
    let cases = [
        ("{\"version\":".to_owned(), "it is not a file of `rdt-emu calibrate`"),
        (with(&|it| it["host"]["name"] = "elsewhere".into()), "the name of the host was elsewhere, and is "),
        (with(&|it| it["host"]["processors"] = 0.into()), "the number of processors was 0, and is "),
        (
            with(&|it| it["measured"] = "2020-02-02T02:02:02Z".into()),
            "it was measured on 2020-02-02, more than 90 days ago",
        ),
    ];
    for (text, part) in cases {
        let (code, said) = proxy(&state(&text), &["--rate", "60mbit"]);
        assert_eq!((code, said.lines().count()), (TAKEN, 2), "{said}");
        assert!(said.contains("calibration.json is not used: ") && said.contains(part), "{said}");
    }
}
