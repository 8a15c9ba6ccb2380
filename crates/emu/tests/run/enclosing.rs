//! Nested runs without the environment of the enclosing run.

use super::helpers::{helper, said};
use super::running::{PROGRAM, host_allows, run, stdout};

#[test]
fn nesting_is_detected_without_environment() {
    if !host_allows() {
        return;
    }
    let ping = helper("ping").join(" ");
    let inner = format!("echo local $RDT_LOCAL; {ping}");
    let command = ["env", "-i", PROGRAM, "run", "-q", "--rtt", "30ms", "--", "sh", "-c", &inner];
    let output = stdout(&run("-q --rtt 20ms --ipv6", &command).output());
    assert_eq!(said(&output, "local"), "10.16.0.2");
    assert!(said(&output, "rtt_us").parse::<u64>().unwrap() >= 50_000, "{output}");
}

#[test]
fn own_network_is_not_enclosing_run() {
    if !host_allows() {
        return;
    }
    let ping = helper("ping").join(" ");
    let script = format!("unshare -n true || exit 0; exec unshare -n {PROGRAM} run -q --rtt 30ms -- {ping}");
    let output = stdout(&run("-q --rtt 300ms", &["sh", "-c", &script]).output());
    if output.is_empty() {
        rdt_testing::skipped("there is no `unshare`");
        return;
    }
    let rtt: u64 = said(&output, "rtt_us").parse().unwrap();
    assert!((30_000..300_000).contains(&rtt), "{output}");
}

#[test]
fn run_at_far_end_is_not_nested() {
    if !host_allows() {
        return;
    }
    let server = format!("exec {PROGRAM} run -q -- true");
    let output = super::running::run_with(&["-q", "--server", &server], &["sleep", "0.1"]).output();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("this run is not nested"), "{told}");
}
