//! Runs inside a run.

use std::env;
use std::net::{Ipv4Addr, UdpSocket};

use super::helpers::{helper, program, said};
use super::running::{PROGRAM, code, host_allows, run, stdout};

#[test]
fn nested_paths_add_up() {
    if !host_allows() {
        return;
    }
    let ping = helper("ping");
    let inner = |rtt| vec![PROGRAM, "run", "-q", "--rtt", rtt, "--"];
    let mut command = inner("30ms");
    command.extend(ping.iter().map(String::as_str));
    let two = adds_up_to(50_000, || stdout(&run("-q --rtt 20ms", &command).output()));
    assert_eq!(said(&two, "peer"), "10.0.0.1");

    let three: Vec<_> = inner("15ms").into_iter().chain(command.clone()).collect();
    adds_up_to(65_000, || stdout(&run("-q --rtt 20ms", &three).output()));
}

/// Asserts that pings measure an RTT from `rtt_us` to 12 ms more, which is less than the shortest
/// path of the test would add. On a busy host, a longer RTT is measured again; a shorter one always
/// fails.
fn adds_up_to(rtt_us: u64, ping: impl Fn() -> String) -> String {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let output = ping();
        let each: Vec<u64> =
            output.lines().filter_map(|line| line.strip_prefix("rtt_us ")?.parse().ok()).collect();
        assert!(!each.is_empty() && each.iter().all(|rtt| *rtt >= rtt_us), "{output}");
        if each.iter().all(|rtt| *rtt < rtt_us + 12_000) {
            return output;
        }
        seen.push(each);
    }
    panic!("{rtt_us}: {seen:?}");
}

#[test]
fn sibling_runs_have_own_networks() {
    if !host_allows() {
        return;
    }
    let ping = helper("ping").join(" ");
    let script = format!(
        "for each in 1 2 3; do {PROGRAM} run -q --rtt 30ms -- {PROGRAM} run -q -- sh -c 'echo local $RDT_LOCAL; {ping}' \
         & pids=\"$pids $!\"; done; for pid in $pids; do wait $pid || exit 1; done"
    );
    let output = adds_up_to(50_000, || stdout(&run("-q --rtt 20ms", &["sh", "-c", &script]).output()));
    let each = |word| {
        output.lines().filter_map(|line| line.strip_prefix(word)).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(each("local ").len(), 3, "{output}");
}

#[test]
fn killed_nested_run_leaves_no_device() {
    if !host_allows() {
        return;
    }
    // Devices named like those of runs: that of the outer run, and those that nested runs add.
    let script = format!(
        "devices() {{ grep -c '^ *rdt' /proc/net/dev; }}
        until_there_are() {{ for i in $(seq 1000); do [ $(devices) = $1 ] && return; sleep 0.01; done; }}
        before=$(devices)
        for signal in KILL TERM; do
            {PROGRAM} run -q -- sleep 1000 & until_there_are $((before + 1)); during=$(devices)
            kill -$signal $!; wait $!; until_there_are $before; echo $before $during $(devices)
        done"
    );
    let output = run("-q", &["sh", "-c", &script]).output();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 2 1\n".repeat(2), "{output:?}");
}

#[test]
fn nested_run_reports_unsupported_options() {
    if !host_allows() {
        return;
    }
    let cases: [(&[&str], &str); 2] =
        [(&["--server", "true"], "outermost"), (&["--ipv6"], "enclosing run has no IPv6")];
    for (options, part) in cases {
        let command: Vec<_> =
            [PROGRAM, "run"].iter().chain(options).chain(&["--", "true"]).copied().collect();
        let output = run("-q", &command).output();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(code(&output) == 64 && said.contains(part), "{said}");
    }
}

/// Connects to an address of this run's block that no run has.
#[test]
#[ignore = "a program for other tests"]
fn connect_in_own_block() {
    let local: Ipv4Addr = env::var("RDT_LOCAL").unwrap().parse().unwrap();
    let absent = Ipv4Addr::from_bits(local.to_bits() + (1 << 16));
    let connected = UdpSocket::bind("0.0.0.0:0").unwrap().connect((absent, 9));
    println!("\n{absent} {:?}", connected.map_err(|error| error.kind()));
}

#[test]
fn absent_address_of_nested_block_is_unreachable() {
    if !host_allows() {
        return;
    }
    // The enclosing network would return packets to it, which the run would send out again.
    let connect = program("nested::connect_in_own_block").join(" ");
    let nested = format!("{PROGRAM} run -q -- {connect}");
    let output = stdout(&run("-q", &["sh", "-c", &nested]).output());
    assert_eq!(said(&output, "10.17.0.2 "), "Err(HostUnreachable)");
}
