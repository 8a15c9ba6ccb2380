//! Output of `rdt-send`, in the formats of the reference programs.

use std::time::Duration;

use crate::peer::{Packet, Peer, SLOWLY};
use crate::process::Outcome;
use crate::scan::{FAST, scan};
use crate::wire::ack;

/// Returns the fields of the only line that matches `format`.
fn fields<'a>(outcome: &'a Outcome, format: &str) -> Vec<&'a str> {
    let mut found = outcome.out.iter().filter_map(|line| scan(format, line));
    let fields = found.next().unwrap_or_else(|| panic!("no line of format {format:?} in {outcome:#?}"));
    assert!(found.next().is_none(), "two lines of format {format:?} in {outcome:#?}");
    fields
}

fn value(field: &str) -> f64 {
    field.parse().expect("a number")
}

const FINISHED: &str = "Main:\ttransfer finished in %.3f sec, %.2f Kbps, checksum %X";
const FIN_ACK: &str = "[%6.3f] <-- FIN-ACK %d window %X";
const LAST: &str = "Main:\testRTT %.3f, ideal rate %.2f Kbps";
const STATS: &str = "[%3.0f] B %6d (%5.1f MB) N %6d T %d F %d W %d S %.3f Mbps RTT %.3f";

#[test]
fn transfer_lines_match_course() {
    let mut peer = Peer::start("10 0.1 0.00001/0.1 14 --power 14 --interval 10s");
    let host = peer.raw.address().to_string();
    peer.connect_after(SLOWLY, 1);
    peer.serve();
    // The time of the FIN is not part of the transfer time.
    peer.pass(SLOWLY);
    let outcome = peer.complete();
    outcome.expect(0);
    let formats = [
        "Main:\tsender W = %d, RTT %.3f sec, loss %g / %g, link %.0f Mbps",
        "Main:\tinitializing DWORD array with 2^%d elements... done in %d ms",
        "Main:\tconnected to %s in %.3f sec, pkt size %d bytes",
        FIN_ACK,
        FINISHED,
        LAST,
    ];
    assert_eq!(outcome.out.len(), formats.len(), "{outcome:#?}");
    for (format, line) in formats.iter().zip(&outcome.out) {
        assert!(scan(format, line).is_some(), "{line:?} is not {format:?}");
    }
    assert_eq!(fields(&outcome, formats[0]), ["10", "0.100", "1e-05", "0.1", "14"]);
    assert_eq!(fields(&outcome, formats[1])[0], "14");
    let connected = fields(&outcome, formats[2]);
    assert_eq!((connected[0], connected[2]), (host.as_str(), "1472"));
    assert!(value(connected[1]) >= SLOWLY.as_secs_f64(), "{outcome:#?}");
    assert_eq!(fields(&outcome, FIN_ACK)[1..], ["45", "FC19A074"]);
    let finished = fields(&outcome, FINISHED);
    assert_eq!(finished[2], "FC19A074");
    assert!(value(finished[0]) < SLOWLY.as_secs_f64(), "neither SYN nor FIN count: {outcome:#?}");
}

#[test]
fn checksum_is_printed_without_leading_zeros() {
    let mut peer = Peer::start("60 0.1 0 100 --power 20 --interval 10s");
    peer.connect(60);
    assert_eq!(peer.serve(), 2865);
    let outcome = peer.close(0x05B0_360D);
    outcome.expect(0);
    assert_eq!(fields(&outcome, FIN_ACK)[1..], ["2865", "5B0360D"]);
    assert_eq!(fields(&outcome, FINISHED)[2], "5B0360D");
}

#[test]
fn printed_rates_are_consistent() {
    let mut peer = Peer::start("10 0.1 0 100 --power 12 --interval 10s");
    peer.connect_after(SLOWLY, 12);
    peer.expect_data(0..10);
    peer.pass(SLOWLY);
    peer.send(&ack(12, 10));
    let outcome = peer.complete();
    outcome.expect(0);
    let finished = fields(&outcome, FINISHED);
    let bits = value(finished[0]) * value(finished[1]) * 1000.0;
    assert!((bits / (16_384.0 * 8.0) - 1.0).abs() < 0.005, "{outcome:#?}");
    let last = fields(&outcome, LAST);
    let ideal = 10.0 * 8.0 * 1464.0 / value(last[0]) / 1000.0;
    assert!((value(last[1]) / ideal - 1.0).abs() < 0.005, "{outcome:#?}");
}

#[test]
fn status_lines_add_up() {
    let mut peer = Peer::start("20 0.1 0 100 --power 18 --interval 50ms");
    peer.connect_after(SLOWLY, 15);
    while peer.expected() < 500 {
        peer.next();
        peer.send(&ack(15, peer.expected()));
    }
    peer.pass(Duration::from_millis(500));
    let outcome = peer.complete();
    outcome.expect(0);
    let lines: Vec<_> = outcome.out.iter().filter_map(|line| scan(STATS, line)).collect();
    assert!(lines.len() >= 8, "{outcome:#?}");
    let (mut before, mut passed, mut due) = (0.0, 0.0, 0.0);
    for line in &lines {
        let (base, next, rate) = (value(line[1]), value(line[3]), value(line[7]));
        assert_eq!(line[2], format!("{:.1}", base * 1472.0 / 1e6), "{line:?}");
        // The last ACKs allow a larger window.
        assert!(["15", "20"].contains(&line[6]), "{line:?}");
        assert!((0.0..=value(line[6])).contains(&(next - base)), "{line:?}");
        // A status line may be late, which shortens the interval to the next one, but never early.
        // Without progress its interval is unknown.
        let megabits = (base - before) * 8.0 * 1464.0 / 1e6;
        passed += if rate > 0.0 { megabits / rate } else { f64::INFINITY };
        due += 0.05;
        assert!(passed >= due - 0.001, "{line:?} after base {before}, {passed} s");
        assert_eq!(rate == 0.0, base <= before, "{line:?} after base {before}");
        before = base;
    }
    assert!(lines.iter().any(|line| value(line[4]) > 0.0), "timeouts are counted: {outcome:#?}");
}

#[test]
fn status_line_times_start_after_handshake() {
    let mut peer = Peer::start("10 0.1 0 14 --power 9 --interval 1s");
    peer.connect_after(Duration::from_millis(700), 1);
    peer.expect(Packet::Data(0));
    peer.pass(Duration::from_millis(1400));
    let outcome = peer.complete();
    outcome.expect(0);
    // If times were relative to the start of the program, this line would be printed at 1.7 s.
    assert_eq!(fields(&outcome, STATS)[0], "1", "{outcome:#?}");
}

#[test]
fn connection_time_counts_from_last_syn() {
    let mut peer = Peer::start("10 0.1 0 14 --power 9 --interval 10s");
    peer.expect(Packet::Syn);
    peer.connect_after(SLOWLY, 2);
    peer.serve();
    let outcome = peer.complete();
    outcome.expect(0);
    let took = value(fields(&outcome, "Main:\tconnected to %s in %.3f sec, pkt size %d bytes")[1]);
    assert!((SLOWLY.as_secs_f64()..1.0).contains(&took), "{outcome:#?}");
}

const SYN: &str = "[%6.3f] --> SYN %d (attempt %d of %d, RTO %.3f) to %s";
const SYN_ACK: &str = "[%6.3f] <-- SYN-ACK %d window %d; setting initial RTO to %.3f";
const FIN: &str = "[%6.3f] --> FIN %d (attempt %d of %d, RTO %.3f)";
const SENT: &str = "[%6.3f] --> %d (attempt %d of %d, RTO %.3f, timer expires @ %.3f)";
const TIMEOUT: &str = "[%6.3f] --> %d (attempt %d of %d, RTO %.3f, timer expires @ %.3f, timeout)";
const ACKED: &str = "[%6.3f] <-- ACK %d (window %d, RTO %.3f, timer expires @ %.3f)";
const DUPLICATE: &str = "[%6.3f] <-- ACK %d (window %d, dupACK %d)";
const IDLE: &str = "[%6.3f] <-- ACK %d (window %d, no outstanding packets)";

#[test]
fn packet_lines_match_course() {
    let mut peer = Peer::start("2 0.1 0 100 --power 10 --debug --interval 10s");
    peer.connect_after(Duration::from_millis(150), 2);
    peer.expect_data(0..2);
    for _ in 0..3 {
        peer.send(&ack(2, 0));
    }
    peer.expect(Packet::Data(0));
    peer.expect(Packet::Data(0));
    peer.send(&ack(2, 1));
    peer.expect_data(2..3);
    peer.send(&ack(2, 3));
    peer.expect(Packet::Fin(3));
    let outcome = peer.close(0xF15F_689B);
    outcome.expect(0);
    assert_eq!(fields(&outcome, SYN)[1..4], ["0", "1", "30"]);
    assert_eq!(fields(&outcome, SYN)[4..], ["1.000", "127.0.0.1"]);
    assert_eq!(fields(&outcome, SYN_ACK)[1..3], ["0", "2"]);
    assert_eq!(fields(&outcome, FAST)[1..4], ["0", "2", "50"]);
    assert_eq!(fields(&outcome, TIMEOUT)[1..4], ["0", "3", "50"]);
    assert_eq!(fields(&outcome, ACKED)[1..3], ["1", "2"]);
    assert_eq!(fields(&outcome, IDLE)[1..], ["3", "2"]);
    assert_eq!(fields(&outcome, FIN)[1..4], ["3", "1", "50"]);
    let many = |format| outcome.out.iter().filter_map(move |line| scan(format, line));
    assert!(many(SENT).map(|f| f[1]).eq(["0", "1", "2"]), "{outcome:#?}");
    assert!(many(DUPLICATE).map(|f| f[3]).eq(["1", "2", "3"]), "{outcome:#?}");
}

#[test]
fn timeout_follows_reference_model() {
    let mut peer = Peer::start("1 0.1 0 100 --power 11 --debug --interval 10s");
    peer.connect_after(Duration::from_millis(100), 1);
    // 0.5 s is longer than the timeout, so that packet is retransmitted and its ACK is no RTT
    // sample.
    for (number, ms) in (1..).zip([50, 240, 10, 500, 60]) {
        peer.pass(Duration::from_millis(ms));
        peer.send(&ack(1, number));
    }
    let outcome = peer.complete();
    outcome.expect(0);
    let mut model = Model::default();
    for line in &outcome.out {
        model.read(line);
    }
    assert_eq!(model.packets, 6, "{outcome:#?}");
    assert!(model.repeated > 0, "{outcome:#?}");
}

/// Model of the reference sender's retransmission timeout, computed from the times in the printed
/// lines.
#[derive(Default)]
struct Model {
    est: f64,
    dev: f64,
    /// Time of the last SYN or packet, seconds.
    sent_at: f64,
    /// True if the last packet was retransmitted, so that its ACK is no RTT sample.
    ambiguous: bool,
    packets: u32,
    repeated: u32,
}

impl Model {
    fn read(&mut self, line: &str) {
        if let Some(syn) = scan(SYN, line) {
            self.sent_at = value(syn[0]);
        } else if let Some(syn_ack) = scan(SYN_ACK, line) {
            self.est = value(syn_ack[0]) - self.sent_at;
            self.dev = self.est / 2.0;
            self.check(syn_ack[3], line);
        } else if let Some(packet) = scan(SENT, line) {
            self.check(packet[4], line);
            (self.sent_at, self.ambiguous) = (value(packet[0]), false);
            self.packets += 1;
        } else if let Some(packet) = scan(TIMEOUT, line) {
            self.check(packet[4], line);
            self.ambiguous = true;
            self.repeated += 1;
        } else if let Some(ack) = scan(IDLE, line)
            && !self.ambiguous
        {
            let sample = value(ack[0]) - self.sent_at;
            self.est = 0.875 * self.est + 0.125 * sample;
            self.dev = 0.75 * self.dev + 0.25 * (sample - self.est).abs();
        }
    }

    /// Compares a printed timeout with the model. Printed times have a precision of 1 ms, so the
    /// model is accurate to a few milliseconds.
    fn check(&self, printed: &str, line: &str) {
        let rto = self.est + 4.0 * self.dev.max(0.010);
        let error = (value(printed) - rto).abs();
        assert!(error < 0.006, "{line:?}: the model says {rto:.4}");
    }
}
