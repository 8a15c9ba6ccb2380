use super::*;
use rdt_testing::{ms, ns};

fn message<T>(result: Result<T, UnitError>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn rate_prefixes_are_decimal() {
    for (text, bps) in [
        ("300bit", 300),
        ("500kbit", 500_000),
        ("10mbit", 10_000_000),
        ("1.5gbit", 1_500_000_000),
        ("10 Mbit/s", 10_000_000),
        (" 0.5GBIT ", 500_000_000),
    ] {
        assert_eq!(parse_bitrate(text), Ok(Bitrate::from_bps(bps)), "{text}");
    }
    assert_eq!(parse_bitrate("0.5bit").ok(), Bitrate::from_bps_f64(0.5));
}

#[test]
fn tiny_rate_becomes_one_millibit() {
    assert_eq!(parse_bitrate("0.0000001bit").ok(), Bitrate::from_bps_f64(0.001));
}

#[test]
fn displayed_rate_reads_back_equal() {
    for bps in [0.001, 0.5, 999.0, 1e3, 999_999_937.0, 1.5e9, 1e10, 1.8e16] {
        let rate = Bitrate::from_bps_f64(bps).unwrap();
        assert_eq!(parse_bitrate(&rate.to_string()), Ok(rate));
    }
}

#[test]
fn times_are_exact_to_the_nanosecond() {
    for (text, time) in [
        ("20ns", ns(20)),
        ("250us", ns(250_000)),
        ("100ms", ms(100)),
        ("2s", ms(2_000)),
        ("1.5s", ms(1_500)),
        ("10min", ms(600_000)),
        ("0s", Duration::ZERO),
        (".1s", ms(100)),
        ("1.s", ms(1_000)),
        ("1.123456789s", ns(1_123_456_789)),
        ("0.1ns", Duration::ZERO),
        ("0.5ns", ns(1)),
        ("0.0000000000000000000000001s", Duration::ZERO),
        ("18446744073709551615ns", ns(u64::MAX)),
    ] {
        assert_eq!(parse_duration(text), Ok(time), "{text}");
    }
}

#[test]
fn sizes_accept_both_prefixes_and_bare_numbers() {
    for (text, bytes) in [
        ("1500", 1_500),
        ("1500b", 1_500),
        ("10mb", 10_000_000),
        ("64kib", 65_536),
        ("1gib", 1 << 30),
        ("1.5KiB", 1_536),
        ("2gb", 2_000_000_000),
        ("3mib", 3 << 20),
        ("1kb", 1_000),
        ("0", 0),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
    }
}

#[test]
fn probabilities_are_fractions_or_percentages() {
    for (text, value) in [
        ("5%", 0.05),
        ("0.05", 0.05),
        ("0", 0.0),
        ("1", 1.0),
        ("100 %", 1.0),
        ("1e-5", 0.000_01),
        (".3", 0.3),
    ] {
        assert_eq!(parse_probability(text).map(Probability::as_f64), Ok(value), "{text}");
    }
}

#[test]
fn malformed_quantities_are_refused() {
    for text in [
        "",
        " ",
        "ms",
        "-5ms",
        "+5ms",
        "nanms",
        "NaN",
        "inf",
        "1e3ms",
        "1.2.3s",
        ".",
        ".s",
        "5 parsecs",
        "5µs",
    ] {
        assert!(matches!(parse_duration(text), Err(UnitError::Malformed { .. })), "{text}");
    }
    for text in ["", "mbit", "-1mbit", "NaN", "inf", "10mb", "10mbps", "/s", "1/smbit"] {
        assert!(matches!(parse_bitrate(text), Err(UnitError::Malformed { .. })), "{text}");
    }
    for text in ["", "b", "-1", "NaN", "inf", "10mbit", "1 5"] {
        assert!(matches!(parse_bytes(text), Err(UnitError::Malformed { .. })), "{text}");
    }
    for text in ["", "%", "five", "5%%", "0,05"] {
        assert!(matches!(parse_probability(text), Err(UnitError::Malformed { .. })), "{text}");
    }
}

#[test]
fn oversized_quantities_are_out_of_range() {
    for text in ["18446744073709551616ns", "99999999999s", "99999999999999999999999999999s"] {
        assert!(matches!(parse_duration(text), Err(UnitError::OutOfRange { .. })), "{text}");
    }
    for text in ["0mbit", "0.0bit", "18446745gbit"] {
        assert!(matches!(parse_bitrate(text), Err(UnitError::OutOfRange { .. })), "{text}");
    }
    for text in ["18446744073709551616", "17179869184gib"] {
        assert!(matches!(parse_bytes(text), Err(UnitError::OutOfRange { .. })), "{text}");
    }
    for text in ["-0.1", "1.01", "101%", "-5%", "NaN", "inf", "-inf", "NaN%"] {
        assert!(matches!(parse_probability(text), Err(UnitError::OutOfRange { .. })), "{text}");
    }
}

#[test]
fn bare_number_error_lists_units() {
    assert_eq!(message(parse_bitrate("10")), "'10' has no unit: write 10bit or 10kbit or 10mbit or 10gbit");
    assert_eq!(
        message(parse_duration("100")),
        "'100' has no unit: write 100ns or 100us or 100ms or 100s or 100min"
    );
}

#[test]
fn errors_quote_input_and_accepted_forms() {
    assert_eq!(
        message(parse_bitrate("fast")),
        "'fast' is not a rate such as 300bit, 500kbit, 10mbit or 1.5gbit"
    );
    assert_eq!(
        message(parse_duration("soon")),
        "'soon' is not a time such as 20ns, 250us, 100ms, 1.5s or 10min"
    );
    assert_eq!(message(parse_bytes("big")), "'big' is not a size such as 1500, 1500b, 10mb, 64kib or 1gib");
    assert_eq!(message(parse_probability("rare")), "'rare' is not a probability such as 0.05 or 5%");
    assert_eq!(
        message(parse_bitrate("0mbit")),
        "'0mbit' is out of range: a rate is more than zero: write one such as 10mbit, or leave it out"
    );
    assert_eq!(message(parse_bitrate("0")), message(parse_bitrate("0mbit")).replace("0mbit' is", "0' is"));
    assert_eq!(
        message(parse_bitrate("99999999gbit")),
        "'99999999gbit' is out of range: a rate is more than zero and at most 18446744gbit"
    );
    assert!(message(parse_bitrate("10")).contains("has no unit"));
    assert!(message(parse_bitrate("0x")).contains("is not a rate"));
}

#[test]
fn queue_sizes_are_packets_bytes_or_bdp() {
    for (text, size) in [
        ("25p", QueueSize::Packets(25)),
        (" 25 P ", QueueSize::Packets(25)),
        ("0p", QueueSize::Packets(0)),
        ("64kb", QueueSize::Bytes(64_000)),
        ("64KiB", QueueSize::Bytes(65_536)),
        ("1500b", QueueSize::Bytes(1_500)),
        ("1bdp", QueueSize::BdpMillionths(1_000_000)),
        ("1.5 BDP", QueueSize::BdpMillionths(1_500_000)),
        (".000001bdp", QueueSize::BdpMillionths(1)),
    ] {
        assert_eq!(parse_queue_size(text), Ok(size), "{text}");
    }
}

#[test]
fn malformed_queue_size_is_refused_with_fix() {
    assert_eq!(
        message(parse_queue_size("25")),
        "'25' has no unit: write 25b or 25kb or 25kib or 25mb or 25mib or 25gb or 25gib or 25p or 25bdp"
    );
    assert_eq!(message(parse_queue_size("2.5p")), "'2.5p' is not a whole number of packets such as 25p");
    assert_eq!(
        message(parse_queue_size("5000000000p")),
        "'5000000000p' is out of range: a queue has at most 4294967295p"
    );
    for text in ["", "p", "bdp", "-1p", "1 2p", "10 pigeons", "1e3b", "1.2.3bdp", "nanbdp"] {
        let message = message(parse_queue_size(text));
        assert!(message.starts_with(&format!("'{text}' is not a ")), "{message}");
    }
    let beyond = message(parse_queue_size("99999999999999bdp"));
    assert_eq!(beyond, "'99999999999999bdp' is out of range: a queue is at most 18446744073709bdp");
}
