//! Transfers over the path of `rdt-emu run`. The namespaces need permissions; where they are
//! missing, the tests print that they are skipped. With `RDT_NAMESPACES=1` they fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rdt_program_testing::programs::allows_emulation;
use serde_json::Value;

use super::process::number;

const SEND: &str = env!("CARGO_BIN_EXE_rdt-send");
const RECV: &str = env!("CARGO_BIN_EXE_rdt-recv");

/// Returns the program `rdt-emu` beside those under test.
fn rdt_emu() -> PathBuf {
    Path::new(SEND).with_file_name("rdt-emu")
}

/// Returns the summary of `rdt-send` over a path of 8 Mbit/s and 40 ms; `None` without permission.
fn over_path(wire: &str, options: &str) -> Option<Value> {
    if !allows_emulation(&rdt_emu()) {
        return None;
    }
    let server = format!("{RECV} -q --wire {wire}");
    let client = format!("{SEND} $RDT_PEER --wire {wire} {options} --json -q");
    let mut run = Command::new(rdt_emu());
    run.args(["run", "-q", "--rtt", "40ms", "--rate", "8mbit", "--queue", "64kb", "--server", &server]);
    run.args(["--", "sh", "-c", &client]).env("XDG_STATE_HOME", "/there/is/none");
    let output = run.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn kernel_tcp_crosses_emulated_path() {
    for options in ["--cc cubic --bytes 600kb", "--cc cubic --bytes 600kb --reverse"] {
        let Some(summary) = over_path("tcp", options) else { return };
        assert_eq!((&summary["bytes"], &summary["congestion"]), (&600_000.into(), &"cubic".into()));
        assert!(number(&summary, "goodput_bps") < 8.1e6, "{options}: {summary}");
        assert!(number(&summary, "min_rtt_ns") >= 40e6, "{options}: {summary}");
    }
}

#[test]
fn kernel_udp_loses_what_exceeds_path() {
    for options in ["", "--reverse"] {
        let options = format!("--max-rate 16mbit --bytes 1mb {options}");
        let Some(summary) = over_path("udp", &options) else { return };
        // 500 ms at twice the rate of the link: nearly half of it is lost, less the queue.
        assert_eq!(summary["sent_packets"], 680, "{options}: {summary}");
        let [arrived, lost, bytes] = ["packets", "lost", "bytes"].map(|key| summary[key].as_u64().unwrap());
        assert!(lost > 100 && arrived > 100, "{options}: {summary}");
        // All datagrams but the last one have the same size.
        assert!((arrived * 1472 - 1472..=arrived * 1472).contains(&bytes), "{options}: {summary}");
        assert!(number(&summary, "goodput_bps") < 8.6e6, "{options}: {summary}");
    }
}
