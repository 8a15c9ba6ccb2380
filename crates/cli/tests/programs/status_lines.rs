//! Lines of `rdt-send`, in the exact formats of the reference programs.

use super::printf::values;
use super::process::{Ended, send};

pub(super) const PARAMETERS: &str = "Main:\tsender W = %d, RTT %.3f sec, loss %g / %g, link %.0f Mbps";
const ARRAY: &str = "Main:\tinitializing DWORD array with 2^%d elements... done in %d ms";
pub(super) const CONNECTED: &str = "Main:\tconnected to %s in %.3f sec, pkt size %d bytes";
pub(super) const STATUS: &str = "[%3.0f] B %6d (%5.1f MB) N %6d T %d F %d W %d S %.3f Mbps RTT %.3f";
pub(super) const FIN_ACK: &str = "[%6.3f] <-- FIN-ACK %d window %X";
pub(super) const FINISHED: &str = "Main:\ttransfer finished in %.3f sec, %.2f Kbps, checksum %X";
pub(super) const LAST: &str = "Main:\testRTT %.3f, ideal rate %.2f Kbps";

const SYN: &str = "[%6.3f] --> SYN %d (attempt %d of %d, RTO %.3f) to %s";
const SYN_ACK: &str = "[%6.3f] <-- SYN-ACK %d window %d; setting initial RTO to %.3f";
const FIN: &str = "[%6.3f] --> FIN %d (attempt %d of %d, RTO %.3f)";
const DATA: &str = "[%6.3f] --> %d (attempt %d of %d, RTO %.3f, timer expires @ %.3f)";
const TIMEOUT: &str = "[%6.3f] --> %d (attempt %d of %d, RTO %.3f, timer expires @ %.3f, timeout)";
const FAST: &str = "[%6.3f] --> %d (attempt %d of %d, RTO %.3f, timer expires @ %.3f, 3-dup ACK)";
const ACK: &str = "[%6.3f] <-- ACK %d (window %d, RTO %.3f, timer expires @ %.3f)";
const DUP_ACK: &str = "[%6.3f] <-- ACK %d (window %d, dupACK %d)";
const LAST_ACK: &str = "[%6.3f] <-- ACK %d (window %d, no outstanding packets)";
pub(super) const EXHAUSTED: &str = "%.3f\treached max retx count on packet %d";

/// Returns the values in `line`, by its format.
#[track_caller]
pub(super) fn read(format: &str, line: &str) -> Vec<String> {
    values(format, line).unwrap_or_else(|| panic!("'{line}' is not as '{format}'"))
}

pub(super) fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

/// Checks that `printed` equals `exact` up to rounding.
#[track_caller]
fn about(printed: &str, exact: f64, tolerance: f64) {
    assert!((number(printed) - exact).abs() <= tolerance, "{printed} is not {exact}");
}

fn lossless() -> Ended {
    send("local 4 0.05 0 100 --power 14 --interval 100ms").with_code(0)
}

#[test]
fn transfer_prints_exactly_these_lines() {
    let run = lossless();
    let lines = run.lines();
    assert_eq!(read(PARAMETERS, lines[0]), ["4", "0.050", "0", "0", "100"]);
    assert_eq!(read(ARRAY, lines[1]), ["14", "0"]);
    let connected = read(CONNECTED, lines[2]);
    assert_eq!((&*connected[0], &*connected[2]), ("local", "1472"));
    let (status, end) = lines[3..].split_at(lines.len() - 6);
    // 45 packets, at most 4 per round trip of 50 ms, take more than half a second.
    assert!(status.len() >= 2, "a line every 100 ms");
    for line in status {
        read(STATUS, line);
    }
    assert_eq!(read(FIN_ACK, end[0])[1..], ["45", "FC19A074"]);
    assert_eq!(read(FINISHED, end[1])[2], "FC19A074");
    read(LAST, end[2]);
    for (start, times) in [("sent by ", 1), ("received ", 1), ("warning", 0)] {
        assert_eq!(run.stderr.lines().filter(|line| line.starts_with(start)).count(), times, "{start}");
    }
}

#[test]
fn status_line_numbers_are_consistent() {
    let run = lossless();
    let lines = run.lines();
    let mut base = 0.0;
    for line in &lines[3..lines.len() - 3] {
        let [_, una, mb, nxt, _, _, window, rate, _] = read(STATUS, line).try_into().unwrap();
        about(&mb, number(&una) * 1472.0 / 1e6, 0.051);
        assert!(base <= number(&una) && number(&una) <= number(&nxt), "{line}");
        assert!((1.0..=4.0).contains(&number(&window)), "W = min(4, the receiver's): {line}");
        assert_eq!(number(&rate) > 0.0, number(&una) > base, "{line}");
        base = number(&una);
    }
    let finished = read(FINISHED, run.line("Main:\ttransfer"));
    let (seconds, bits) = (number(&finished[0]), 65_536.0 * 8.0);
    about(&finished[1], bits / 1e3 / seconds, bits / 1e3 * 0.0006 / (seconds * seconds) + 0.01);
    let last = read(LAST, run.line("Main:\testRTT"));
    let (rtt, bits) = (number(&last[0]), 4.0 * 1464.0 * 8.0);
    about(&last[1], bits / 1e3 / rtt, bits / 1e3 * 0.0006 / (rtt * rtt) + 0.01);
    assert!(rtt >= 0.05, "the link takes as long");
}

#[test]
fn losses_are_printed_as_percent_g() {
    for (loss, printed) in [
        ("0.1", ["0.1", "0"]),
        ("0.00001", ["1e-05", "0"]),
        ("0/0.25", ["0", "0.25"]),
        ("0.0001/1e-7", ["0.0001", "1e-07"]),
        ("0.1234567/0", ["0.123457", "0"]),
    ] {
        let run = send(&format!("local 10 0 {loss} 1000 --bytes 1 --seed 1")).with_code(0);
        assert_eq!(read(PARAMETERS, run.lines()[0])[2..4], printed);
    }
}

#[test]
fn empty_transfer_prints_finite_rates() {
    let run = send("local 10 0 0 1000 --bytes 0").with_code(0);
    assert_eq!(read(FINISHED, run.line("Main:\ttransfer")), ["0.000", "0.00", "0"]);
    read(LAST, run.line("Main:\testRTT"));
}

#[test]
fn quiet_prints_last_two_lines() {
    let run = send("local 10 0.01 0.01 1000 --power 10 --quiet").with_code(0);
    let [finished, last] = run.lines().try_into().unwrap();
    assert_eq!(read(FINISHED, finished)[2], "F15F689B");
    read(LAST, last);
    assert_eq!(run.stderr, "");
}

/// Returns the first of `formats` that `line` matches.
fn kind<'f>(line: &str, formats: &[&'f str]) -> Option<&'f str> {
    formats.iter().copied().find(|format| values(format, line).is_some())
}

#[test]
fn debug_prints_line_for_each_packet() {
    let formats =
        [SYN, SYN_ACK, FIN, TIMEOUT, FAST, DATA, ACK, DUP_ACK, LAST_ACK, STATUS, FIN_ACK, PARAMETERS, ARRAY];
    let formats = [&formats[..], &[CONNECTED, FINISHED, LAST]].concat();
    let run = send("local 20 0.005 0.1/0.05 100 --power 14 --seed 5 --debug").with_code(0);
    let kinds: Vec<_> = run
        .lines()
        .iter()
        .map(|line| kind(line, &formats).unwrap_or_else(|| panic!("'{line}' has no format")))
        .collect();
    let count = |format| kinds.iter().filter(|kind| **kind == format).count();
    assert_eq!(count(DATA), 45, "each of the packets once");
    for format in formats {
        assert!(count(format) > 0 || format == TIMEOUT || format == STATUS, "no line as {format}");
    }
    let syn = read(SYN, run.lines()[2]);
    assert_eq!(syn[1..], ["0", "1", "30", "1.000", "127.0.0.1"]);
    let attempts = run.lines().iter().filter_map(|l| values(FAST, l)).all(|v| v[3] == "50" && v[2] != "1");
    assert!(attempts, "a packet that is sent again says how often it was");
}

#[test]
fn attempts_option_sets_limits() {
    for (attempts, [syn, data, fin]) in [("5/6/7", ["5", "6", "7"]), ("60", ["30", "60", "60"])] {
        let run = send(&format!("local 10 0 0 1000 --bytes 1 --debug --attempts {attempts}")).with_code(0);
        for (format, limit) in [(SYN, syn), (DATA, data), (FIN, fin)] {
            let sent = run.lines().into_iter().find_map(|line| values(format, line));
            assert_eq!(sent.expect(format)[3], limit, "{attempts}");
        }
    }
}

#[test]
fn debug_prints_expired_timeout() {
    let run = send("local 1 0.005 0.2 100 --bytes 40kb --seed 7 --debug").with_code(0);
    let timeouts: Vec<_> = run.lines().iter().filter_map(|line| values(TIMEOUT, line)).collect();
    assert!(!timeouts.is_empty(), "stop-and-wait repairs every loss so");
    assert!(timeouts.iter().all(|values| values[3] == "50" && values[2] != "1"));
    let acks = run.lines().iter().filter(|line| values(LAST_ACK, line).is_some()).count();
    assert_eq!(acks, 28, "with a window of 1 every ACK of data leaves nothing outstanding");
}
