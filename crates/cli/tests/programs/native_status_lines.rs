//! Status lines of native transfers: the same columns as for classic, in packets.

use serde_json::Value;

use super::printf::values;
use super::process::send;
use super::status_lines::{CONNECTED, LAST, PARAMETERS, STATUS, number, read};

/// Payload of a full packet of 1472 bytes, bytes.
const PAYLOAD: f64 = 1432.0;

#[test]
fn native_status_lines_have_classic_columns() {
    let run = send("local 4 0.05 0 100 --wire native --insecure --power 14 --interval 100ms").with_code(0);
    let lines = run.lines();
    assert_eq!(read(PARAMETERS, lines[0]), ["4", "0.050", "0", "0", "100"]);
    read(CONNECTED, lines[2]);
    let (status, end) = lines[3..].split_at(lines.len() - 6);
    assert!(status.len() >= 2, "a line every 100 ms");
    let mut base = 0.0;
    for line in status {
        let [_, una, mb, nxt, _, _, window, rate, _] = read(STATUS, line).try_into().unwrap();
        assert!((number(&mb) - number(&una) * 1472.0 / 1e6).abs() <= 0.051, "{line}");
        assert!(base <= number(&una) && number(&una) <= number(&nxt), "{line}");
        assert!(number(&nxt) <= number(&una) + 4.0, "at most W packets are out: {line}");
        assert_eq!(window, "4", "{line}");
        assert_eq!(number(&rate) > 0.0, number(&una) > base, "{line}");
        base = number(&una);
    }
    let packets = (65_536.0 / PAYLOAD).ceil();
    assert!(end[0].ends_with(&format!("<-- FIN-ACK {packets}")), "{}", end[0]);
    assert!(end[1].ends_with(" Kbps, not encrypted"), "{}", end[1]);
    let [rtt, ideal] = read(LAST, end[2]).try_into().unwrap();
    let bits = 4.0 * PAYLOAD * 8.0 / 1e3;
    let tolerance = bits * 0.0006 / (number(&rtt) * number(&rtt)) + 0.01;
    assert!((number(&ideal) - bits / number(&rtt)).abs() <= tolerance, "{ideal}");
}

#[test]
fn encrypted_transfer_prints_cipher_for_checksum() {
    let run = send("local 4 0.01 0 100 --wire native --bytes 143200").with_code(0);
    let fin_ack = run.lines().into_iter().find(|line| line.contains("FIN-ACK")).unwrap();
    assert!(fin_ack.ends_with("<-- FIN-ACK 100"), "packets of 1432 bytes: {fin_ack}");
    let finished = run.line("Main:\ttransfer finished");
    let ciphers = ["AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305"];
    let ends = |cipher: &&str| finished.ends_with(&format!(" Kbps, encrypted by {cipher}"));
    assert!(ciphers.iter().any(ends), "{finished}");
}

#[test]
fn first_line_names_congestion_control() {
    let first =
        |args: &str| send(&format!("local {args} --bytes 1 --seed 1")).with_code(0).lines()[0].to_string();
    assert_eq!(first(""), "Main:\tsender W = bbr, no link asked for");
    assert_eq!(first("--cc fixed:7"), "Main:\tsender W = 7, no link asked for");
    assert_eq!(
        first("--cc cubic --rtt 5ms --rate 50mbit --loss 1%/0.01%"),
        "Main:\tsender W = cubic, RTT 0.005 sec, loss 0.01 / 0.0001, link 50 Mbps"
    );
}

#[test]
fn transfer_without_link_prints_no_link() {
    let run = send("local --bytes 3000 --json --seed 1").with_code(0);
    let summary = run.summary();
    assert_eq!((&summary["seed"], &summary["receiver"]["forward"]), (&Value::Null, &Value::Null));
    assert!(summary["receiver"]["data_packets"].as_u64() >= Some(3));
    let run = send("local --bytes 3000").with_code(0);
    assert!(!run.stderr.contains("link"), "{}", run.stderr);
}

#[test]
fn debug_prints_byte_offsets() {
    let run = send("local --rtt 2ms --bytes 4332 --debug").with_code(0);
    let sent: Vec<_> = run
        .lines()
        .into_iter()
        .filter_map(|line| values("[%6.3f] --> %d (attempt %d, RTO %.3f, timer expires @ %.3f)", line))
        .map(|values| values[1].clone())
        .collect();
    let offsets: Vec<u32> = sent.iter().map(|offset| offset.parse().unwrap()).collect();
    assert!(offsets[0] == 0 && offsets.is_sorted() && offsets.len() >= 3, "{offsets:?}");
    assert!(offsets[2] > 2000 && offsets.iter().all(|offset| *offset < 4332), "bytes: {offsets:?}");
    assert!(run.lines().iter().any(|line| line.contains("--> FIN 4332 (attempt 1, RTO ")));
    assert!(run.lines().iter().any(|line| line.contains("] --> SYN 0 (attempt 1, RTO 1.000) to 127.0.0.1")));
}
