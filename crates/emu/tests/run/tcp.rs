//! Kernel TCP through a run: it fills the link, shares it, and respects its window.
//!
//! Rates depend on the load of the host, so each test has several attempts. If the host was the
//! bottleneck in all of them, the test prints that and is skipped.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::flow::{self, Flow, VARIABLE, Wish};
use super::helpers::program;
use super::running::{host_allows, run_with, stdout};

const TRIES: usize = 3;
/// Lateness above which the relay counts as the bottleneck, nanoseconds.
const LATE: f64 = 2_000_000.0;
/// Payload share of a 1500-byte packet with TCP timestamps.
const PAYLOAD: f64 = 1_448.0 / 1_500.0;

/// Sender, whose parameters are in the environment.
#[test]
#[ignore = "a program for other tests"]
fn send() {
    flow::send();
}

/// Server that counts the received bytes.
#[test]
#[ignore = "a program for other tests"]
fn count() {
    flow::count();
}

/// Returns the flows of a run over `path`, and true if the host was not the bottleneck.
fn flows(path: &str, wish: &Wish) -> (Vec<Flow>, bool) {
    // One test at a time uses the processors.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let set = format!("{VARIABLE}={wish}");
    let server = format!("--server=exec env '{set}' {}", program("tcp::count").join(" "));
    let options: Vec<_> =
        ["-q", "--json", "--wait=sleep", &server].into_iter().chain(path.split(' ')).collect();
    let mut command = vec!["env".to_owned(), set.clone()];
    command.extend(program("tcp::send"));
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let output = stdout(&run_with(&options, &command).output());
    let end: Value = serde_json::from_str(output.lines().next_back().unwrap()).unwrap();
    assert_eq!(end["balances"], true, "{end}");
    let late = |direction: &str| end[direction]["lateness_ns"]["p99"].as_f64().unwrap();
    let flows = Flow::all(&output);
    assert_eq!(flows.len(), wish.flows, "{output}");
    (flows, late("forward") < LATE && late("reverse") < LATE)
}

/// Asserts `shown` for one attempt in which the host was not the bottleneck, if there is one.
fn shows<T: Debug>(what: &str, mut attempt: impl FnMut() -> (T, bool), shown: impl Fn(&T) -> bool) {
    let mut kept_up = false;
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let (result, is_true) = attempt();
        kept_up |= is_true;
        if shown(&result) {
            return;
        }
        seen.push((result, is_true));
    }
    assert!(!kept_up, "{what}: {seen:?}");
    rdt_testing::skipped(format!("the host is too busy: {what}: {seen:?}"));
}

fn has(congestion: &str) -> bool {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let has = all.split_whitespace().any(|name| name == congestion);
    if !has {
        rdt_testing::skipped(format!("this kernel has no {congestion}"));
    }
    has
}

#[test]
fn each_tcp_fills_90_percent_of_link() {
    if !host_allows() {
        return;
    }
    for congestion in ["cubic", "reno", "bbr"] {
        fills(100.0, &Wish::new(congestion, 3_000));
    }
}

/// Without SACK, `NewReno` retransmits one segment per RTT (RFC 6582, section 3.2). Slow start ends
/// with the loss of a bandwidth-delay product of segments, so recovery takes seconds. So the link
/// is slower in this test, and the rate is measured after that time.
#[test]
fn tcp_without_sack_fills_link() {
    if !host_allows() {
        return;
    }
    for congestion in ["cubic", "reno"] {
        fills(20.0, &Wish { sack: 0, omit: 2_500, ..Wish::new(congestion, 5_000) });
    }
}

fn fills(mbps: f64, wish: &Wish) {
    if !has(&wish.congestion) {
        return;
    }
    let path = format!("--rtt=20ms --rate={mbps}mbit --queue=1bdp");
    let attempt = || {
        let (flows, kept_up) = flows(&path, wish);
        assert_eq!(flows[0].sack, wish.sack, "{wish}");
        (flows[0].bps, kept_up)
    };
    shows(&wish.to_string(), attempt, |bps| (0.9 * mbps * 1e6..bound(mbps * 1e6 * PAYLOAD)).contains(bps));
}

/// Returns the upper bound of a measured rate: 2 % above the link rate, because the receiver counts
/// its first byte late.
fn bound(bps: f64) -> f64 {
    bps * 1.02
}

#[test]
fn two_reno_flows_share_link_equally() {
    if !host_allows() {
        return;
    }
    // On a slow link losses are frequent, and each reduces the difference between the two windows.
    let attempt = || {
        let (flows, kept_up) =
            flows("--rtt=20ms --rate=20mbit --queue=1bdp", &Wish { flows: 2, ..Wish::new("reno", 8_000) });
        ((flows[0].bps, flows[1].bps), kept_up)
    };
    shows("two flows", attempt, |(first, second)| {
        let half = f64::midpoint(*first, *second);
        half > 0.9 * 10e6 && (first / half - 1.0).abs() < 0.1
    });
}

#[test]
fn window_or_link_limits_tcp() {
    const LINK: f64 = 34e6;
    const RTT: f64 = 0.010;
    if !host_allows() {
        return;
    }
    // The bandwidth-delay product is 42,500 bytes. A window of 5000 bytes is omitted, because
    // rounding by one or two segments would distort the result.
    for window in [10_000, 16_000, 24_000, 60_000, 90_000] {
        #[expect(clippy::cast_precision_loss, reason = "a few")]
        let allowed = window as f64 * 8.0 / RTT;
        let wish = Wish { window, ..Wish::new("cubic", 1_200) };
        let attempt = || {
            let (flows, kept_up) = flows("--rtt=10ms --rate=34mbit --queue=2bdp", &wish);
            (flows[0].bps, kept_up)
        };
        // The kernel advertises a slightly larger window than requested.
        let most = bound((allowed * 1.2).min(LINK * PAYLOAD));
        shows(&format!("{window} bytes, {allowed}"), attempt, |bps| {
            (0.8 * allowed.min(LINK)..most).contains(bps)
        });
    }
}
