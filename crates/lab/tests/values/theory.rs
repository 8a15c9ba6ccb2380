//! Models of goodput and times beside their published formulas, and the conditions that a cell
//! gives them.

use rdt_emulator::WifiConfig;
use rdt_emulator::spec::PathSpec;
use rdt_lab::theory::{Conditions, Prediction, airtime_parts, model};
use rdt_lab::{EngineKind, Flow, FlowKind, Physics};

use crate::support::near;

/// Returns the conditions of a flow alone on a path without loss and limits, as a model's formula
/// needs them.
fn plain(payload: f64, rtt_s: f64) -> Conditions {
    Conditions {
        payload,
        rtt_s,
        on_link: payload + 52.0,
        ack_every: 1.0,
        initial_window: 10.0,
        min_rto_s: 0.2,
        whole: true,
        frames: vec![payload + 52.0],
        sharers: 1.0,
        steady: true,
        ..Conditions::default()
    }
}

fn lossy(payload: f64, rtt_s: f64, loss: f64) -> Conditions {
    Conditions { loss, ..plain(payload, rtt_s) }
}

fn predict(name: &str, conditions: &Conditions) -> Option<Prediction> {
    (model(name).expect("a model").predict)(conditions)
}

fn value(name: &str, conditions: &Conditions) -> f64 {
    predict(name, conditions).expect("a value").value
}

fn is_valid(name: &str, conditions: &Conditions) -> bool {
    predict(name, conditions).expect("a value").valid
}

/// Mathis, Semke, Mahdavi and Ott (1997), equation 3 with an ACK for each packet: `MSS / RTT *
/// sqrt(1.5 / p)`.
#[test]
fn mathis_follows_its_equation() {
    for (payload, rtt_s, loss, expected) in [
        (1448.0, 0.01, 0.001, 44.864_639e6),
        (1460.0, 0.1, 0.01, 1.430_502e6),
        (536.0, 0.3, 0.02, 123_783.898),
    ] {
        near(value("mathis", &lossy(payload, rtt_s, loss)), expected, 1e-6);
    }
    let [one, four] = [0.001, 0.004].map(|loss| value("mathis", &lossy(1448.0, 0.1, loss)));
    near(one / four, 2.0, 1e-9);
}

/// Equation 32 of Padhye, Firoiu, Towsley and Kurose (2000) with b = 1, computed apart in Python.
/// The timeout is the larger of its lower limit and the round trip. The last rows are limited by a
/// window of 30 and of 8 packets.
#[test]
fn pftk_follows_its_equation() {
    for (payload, rtt_s, loss, min_rto_s, window, expected) in [
        (1448.0, 0.1, 0.001, 0.2, None, 4_440_643.705),
        (1448.0, 0.05, 0.05, 0.2, None, 878_023.473),
        (1460.0, 0.2, 0.15, 1.0, None, 73_063.192),
        (1448.0, 0.4, 0.02, 0.2, None, 236_773.325),
        (1448.0, 0.1, 0.0001, 0.2, Some(30.0), 3_424_519.029),
        (1448.0, 0.1, 0.01, 0.2, Some(8.0), 768_171.557),
    ] {
        let window = window.map(|packets: f64| packets * payload + 900.0);
        let it = Conditions { window, min_rto_s, ..lossy(payload, rtt_s, loss) };
        near(value("pftk", &it), expected, 1e-8);
    }
}

/// RFC 9438: `max(1.054 RTT^0.75 / p^0.75, sqrt(1.5 / p))` packets on average, with C = 0.4 and
/// beta = 0.7.
#[test]
fn cubic_follows_equations_of_its_rfc() {
    for (payload, rtt_s, loss, packets) in [
        (1448.0, 0.1, 1e-4, 187.400_229),
        (1448.0, 0.01, 1e-4, 122.474_487),
        (1000.0, 0.2, 1e-5, 1_772.321_942),
        (1448.0, 0.05, 0.01, 12.247_449),
    ] {
        near(value("cubic", &lossy(payload, rtt_s, loss)), packets * payload * 8.0 / rtt_s, 1e-7);
    }
}

/// The ranges that the table of models names.
#[test]
fn models_of_loss_hold_in_their_ranges() {
    for (name, most) in [("mathis", 0.02), ("cubic", 0.02), ("pftk", 0.2)] {
        assert!(is_valid(name, &lossy(1448.0, 0.1, most)), "{name} at its limit");
        assert!(!is_valid(name, &lossy(1448.0, 0.1, most + 0.001)), "{name} beyond its limit");
        assert_eq!(predict(name, &plain(1448.0, 0.1)), None, "{name} without a loss");
        assert_eq!(predict(name, &lossy(1448.0, 0.0, 0.01)), None, "{name} without a round trip");
        // The link carries 1 Mbit/s * 1448 / 1500; the models give more.
        let slow = Conditions { rate_bps: Some(1e6), ..lossy(1448.0, 0.01, 0.001) };
        near(value(name, &slow), 965_333.333, 1e-6);
        assert!(!is_valid(name, &slow), "{name} on a full link");
    }
}

/// 65,535 bytes are 45 segments of 1,448. In 100 ms they carry 5.2128 Mbit/s; an ACK for two leaves
/// the last alone.
#[test]
fn windows_carry_whole_packets_each_round_trip() {
    let with = |window: f64, ack_every: f64, rate_bps: Option<f64>| Conditions {
        window: Some(window),
        ack_every,
        rate_bps,
        ..plain(1448.0, 0.1)
    };
    for (it, expected, valid) in [
        (with(65_535.0, 1.0, None), 5.212_8e6, true),
        (with(65_535.0, 2.0, None), 5.096_96e6, true),
        (with(65_160.0, 1.0, None), 5.212_8e6, true),
        (with(65_159.0, 1.0, None), 5.096_96e6, true),
        (with(2_000.0, 2.0, None), 115_840.0, false),
        // The link is full: 1 Mbit/s of packets of 1,500 bytes.
        (with(65_535.0, 1.0, Some(1e6)), 965_333.333, true),
        // The time to send a packet adds to the round trip: 12 ms at 1 Mbit/s.
        (with(2_896.0, 1.0, Some(1e6)), 2.0 * 11_584.0 / 0.112, true),
    ] {
        near(value("window", &it), expected, 1e-6);
        assert_eq!(is_valid("window", &it), valid, "{:?} {}", it.window, it.ack_every);
    }
    assert_eq!(predict("window", &plain(1448.0, 0.1)), None, "no window is fixed");
    let lossy = Conditions { loss: 0.01, ..with(65_535.0, 1.0, None) };
    assert!(!is_valid("window", &lossy));
}

/// RFC 9293: W / RTT. The example of RFC 7323, section 1.1: 64 KiB limit a path of 100 ms to 5.24
/// Mbit/s.
#[test]
fn window_over_round_trip_ignores_packets() {
    let it = Conditions { window: Some(65_536.0), ..plain(1448.0, 0.1) };
    near(value("window-over-rtt", &it), 5.242_88e6, 1e-9);
    let fixed = Conditions { fixed_window: Some(10.0), ..it.clone() };
    near(value("window-over-rtt", &fixed), 1.158_4e6, 1e-9);
    let full = Conditions { rate_bps: Some(5e6), ..it.clone() };
    near(value("window-over-rtt", &full), 5.242_88e6, 1e-9);
    assert!(is_valid("window-over-rtt", &it) && !is_valid("window-over-rtt", &full), "the link is full");
    assert_eq!(predict("window-over-rtt", &Conditions { rtt_s: 0.0, ..it }), None);
}

/// Goodput of TCP over Ethernet: 1,448 of 1,538 bytes, which is 94.148 and 941.48 Mbit/s.
#[test]
fn full_links_carry_the_share_of_payload() {
    for (rate, expected) in [(100e6, 94.148_244e6), (1e9, 941.482_445e6)] {
        let it = Conditions { rate_bps: Some(rate), on_link: 1538.0, ..plain(1448.0, 0.001) };
        near(value("link", &it), expected, 1e-8);
        assert!(is_valid("link", &it));
    }
    assert_eq!(predict("link", &plain(1448.0, 0.001)), None, "no link limits");
    let small = Conditions { rate_bps: Some(100e6), window: Some(14_480.0), ..plain(1448.0, 0.1) };
    assert!(!is_valid("link", &small), "ten packets do not fill it");
}

/// Little's law: 45 packets of 1,500 bytes on 1 Mbit/s are 540 ms; fewer than fill the path leave
/// its round trip.
#[test]
fn queue_holds_what_the_path_does_not() {
    let at = |window| {
        let it = Conditions { rate_bps: Some(1e6), window: Some(window), ..plain(1448.0, 0.1) };
        value("rtt-of-window", &it)
    };
    near(at(65_535.0), 0.540, 1e-9);
    near(at(14_480.0), 0.120, 1e-9);
    near(at(1_448.0), 0.112, 1e-9);
}

/// Rounds by hand: 100 kB are 70 packets. From 10 on, 10 + 20 + 40 packets are three rounds after
/// the handshake. At 1 Mbit/s a packet takes 12 ms, so a window of ten fills 100 ms at once.
#[test]
fn short_transfers_take_their_rounds() {
    let with = |bytes, initial_window, rate_bps| Conditions {
        bytes: Some(bytes),
        initial_window,
        rate_bps,
        ..plain(1448.0, 0.1)
    };
    for (it, seconds) in [
        (with(1.0, 10.0, None), 0.2),
        (with(14_480.0, 10.0, None), 0.2),
        (with(14_481.0, 10.0, None), 0.3),
        (with(100_000.0, 10.0, None), 0.4),
        (with(100_000.0, 1.0, None), 0.8),
        (with(100_000.0, 10.0, Some(1e6)), 0.1 + 70.0 * 0.012 + 0.1),
        (with(100_000.0, 4.0, Some(1e6)), 0.1 + 0.2 + 58.0 * 0.012 + 0.1),
    ] {
        near(value("slow-start", &it), seconds, 1e-9);
    }
    assert_eq!(predict("slow-start", &plain(1448.0, 0.1)), None, "a flow without end");
    let narrow = Conditions { window: Some(1_000.0), ..with(100_000.0, 10.0, Some(1e6)) };
    assert!(!is_valid("slow-start", &narrow), "12,500 bytes fill the path");
    let wide = Conditions { window: Some(12_500.0), ..narrow };
    assert!(is_valid("slow-start", &wide));
}

#[test]
fn flows_share_what_datagrams_leave() {
    let link = Conditions { rate_bps: Some(100e6), on_link: 1538.0, ..plain(1448.0, 0.001) };
    for (datagrams_bps, sharers, expected) in
        [(0.0, 1.0, 94.148_244e6), (30e6, 2.0, 32.951_886e6), (0.0, 4.0, 23.537_061e6), (100e6, 1.0, 0.0)]
    {
        let it = Conditions { datagrams_bps, sharers, ..link.clone() };
        near(value("fair-share", &it), expected, 1e-7);
    }
    let beyond = Conditions { datagrams_bps: 150e6, ..link.clone() };
    near(value("fair-share", &beyond), 0.0, 1e-12);
    assert_eq!(predict("fair-share", &Conditions { offered_bps: Some(1e6), ..link.clone() }), None);
    assert!(!is_valid("fair-share", &Conditions { steady: false, ..link }));
}

#[test]
fn datagrams_arrive_up_to_the_knee() {
    let at = |offered_bps, frames: &[f64]| Conditions {
        offered_bps: Some(offered_bps),
        rate_bps: Some(10e6),
        on_link: 1500.0,
        frames: frames.to_vec(),
        is_udp: true,
        ..plain(1200.0, 0.01)
    };
    // The link carries 10 Mbit/s * 1200 / 1500.
    for (offered, expected) in [(1e6, 1e6), (8e6, 8e6), (8.1e6, 8e6), (1e9, 8e6)] {
        near(value("udp-knee", &at(offered, &[1500.0])), expected, 1e-9);
    }
    assert!(is_valid("udp-knee", &at(8e6, &[1000.0, 548.0])), "fragments below the knee");
    assert!(!is_valid("udp-knee", &at(8.1e6, &[1000.0, 548.0])), "fragments beyond the knee");
    assert_eq!(predict("udp-knee", &plain(1200.0, 0.01)), None, "no rate is offered");
    assert_eq!(predict("udp-knee", &at(1e6, &[])), None, "no frame has room");
}

/// By hand from clause 17 of IEEE Std 802.11-2020: DIFS 34, mean back-off 67.5, preamble and signal
/// 20, symbols of 4 us for 22 bits more than the frame of 36 bytes more than the packet, SIFS 16,
/// and an ACK at a basic rate, us.
#[test]
fn airtime_of_802_11a_counts_symbols() {
    for (rate, packet, micros) in [
        (6, 1500.0, 2233.5),
        (9, 576.0, 729.5),
        (12, 100.0, 265.5),
        (18, 1500.0, 853.5),
        (24, 1052.0, 529.5),
        (36, 1500.0, 509.5),
        (48, 300.0, 225.5),
        (54, 1500.0, 393.5),
        (54, 1250.0, 357.5),
    ] {
        let cell: WifiConfig = format!("wifi-a:rate={rate}mbit").parse().expect("a cell");
        let payload = packet - 48.0;
        let it =
            Conditions { wifi: Some(cell), frames: vec![packet], on_link: packet, ..plain(payload, 0.0) };
        near(value("airtime", &it), payload * 8.0 / micros * 1e6, 1e-9);
        // Two frames for one datagram take the air twice.
        let two = Conditions { frames: vec![packet, packet], ..it };
        near(value("airtime", &two), payload * 4.0 / micros * 1e6, 1e-9);
    }
    assert_eq!(predict("airtime", &plain(1448.0, 0.0)), None, "no cell");
}

/// The same frame taken apart: 1,500 bytes at 54 Mbit/s are 222.2 us of 57 symbols, which are 228
/// us.
#[test]
fn parts_of_airtime_are_those_of_the_standard() {
    let cell: WifiConfig = "wifi-a".parse().expect("a cell");
    let it = Conditions { wifi: Some(cell), frames: vec![1500.0], on_link: 1500.0, ..plain(1452.0, 0.0) };
    let parts = airtime_parts(&it).expect("a cell");
    let expected = [
        ("difs", 34.0),
        ("back-off", 67.5),
        ("reservation", 0.0),
        ("preamble", 20.0),
        ("mac-header", 228.0 - 12_000.0 / 54.0),
        ("headers", 48.0 * 8.0 / 54.0),
        ("payload", 1452.0 * 8.0 / 54.0),
        ("sifs", 16.0),
        ("ack", 28.0),
        ("collisions", 0.0),
        ("others", 0.0),
    ];
    for ((word, seconds), (name, micros)) in parts.into_iter().zip(expected) {
        assert_eq!(word, name);
        assert!((seconds * 1e6 - micros).abs() < 0.01, "{word}: {seconds}");
    }
    near(parts.iter().map(|(_, seconds)| seconds).sum(), 393.5e-6, 1e-4);
    assert_eq!(airtime_parts(&Conditions { whole: false, ..it }), None, "fragments");
}

/// RFC 8200: a datagram of 1,968 bytes behind an MTU of 1,500 is a packet of 1,496 bytes and one of
/// 568.
#[test]
fn fragments_have_the_mean_length_of_frames() {
    let it = Conditions { frames: vec![1496.0, 568.0], is_udp: true, ..plain(1968.0, 0.0) };
    near(value("fragments", &it), 1032.0, 1e-12);
    assert!(
        is_valid("fragments", &it) && !is_valid("fragments", &Conditions { is_udp: false, ..it.clone() })
    );
    assert_eq!(predict("fragments", &Conditions { frames: Vec::new(), ..it }), None);
}

fn physics(paths: &[&str], flows: Vec<Flow>, engine: EngineKind) -> Physics {
    let links = paths.iter().map(|path| PathSpec::from_toml(path).expect("a path")).collect();
    Physics { engine, duration: None, links, flows, engine_words: Vec::new() }
}

fn of(paths: &[&str], flow: Flow, engine: EngineKind) -> Conditions {
    let physics = physics(paths, vec![flow], engine);
    Conditions::of(&physics, &physics.flows[0]).expect("conditions")
}

/// Headers of IPv4 are 20 bytes, of UDP 8, of TCP with timestamps 32; the classic format has 8, and
/// a packet of the native format 28 + 40 in 1,500 bytes.
#[test]
fn payload_follows_the_kind_of_flow() {
    let flow = |kind| Flow { kind, ..Flow::new("a") };
    for (kind, engine, payload, on_link) in [
        (FlowKind::Tcp, EngineKind::Kernel, 1448.0, 1538.0),
        (FlowKind::Classic, EngineKind::Virtual, 1464.0, 1510.0),
        (FlowKind::Udp, EngineKind::Virtual, 1472.0, 1510.0),
        (FlowKind::Rdt, EngineKind::Virtual, 1432.0, 1510.0),
        (FlowKind::Tcp, EngineKind::Virtual, 1432.0, 1538.0),
    ] {
        // Headers of 38 bytes on the link, of which IP and UDP are 28.
        let it = of(&["rate = '8mbit'\nheaders = 38"], flow(kind), engine);
        assert!(
            (it.payload - payload).abs() < 1e-9 && (it.on_link - on_link).abs() < 1e-9,
            "{kind:?}: {it:?}"
        );
    }
    let sized = Flow { size: Some(1000), ..flow(FlowKind::Udp) };
    let it = of(&["rate = '8mbit'"], sized, EngineKind::Virtual);
    assert!((it.payload - 1000.0).abs() < 1e-9 && (it.on_link - 1028.0).abs() < 1e-9, "{it:?}");
    let tiny =
        physics(&["rate = '8mbit'"], vec![Flow { packet: Some(40), ..Flow::new("a") }], EngineKind::Virtual);
    assert_eq!(Conditions::of(&tiny, &tiny.flows[0]), None, "no room for headers");
}

/// Long-term shares: runs of at most m losses lose (p - p^(m+1)) / (1 - p^(m+1)), a channel of
/// Gilbert and Elliott is bad for p / (p + r) of the packets.
#[test]
fn loss_is_the_long_term_share() {
    for (text, expected) in [
        ("none", 0.0),
        ("2.5%", 0.025),
        ("10% max-run=1", 1.0 / 11.0),
        ("50% max-run=2", 3.0 / 7.0),
        ("20% max-run=3", 0.198_717_949),
        ("gilbert-elliott p=1% r=25% good=0 bad=100%", 1.0 / 26.0),
        ("gilbert-elliott p=1% r=19% good=1% bad=50%", 0.95 * 0.01 + 0.05 * 0.5),
        ("every 100", 0.01),
        ("packets 7,8", 0.0),
    ] {
        let it = of(&[&format!("loss = '{text}/none'")], Flow::new("a"), EngineKind::Virtual);
        assert!((it.loss - expected).abs() < 1e-8, "{text}: {}", it.loss);
    }
}

#[test]
fn links_in_series_add_up() {
    let paths = [
        "rtt = '10ms'\nrate = '100mbit'\nloss = '10%/0'",
        "rtt = '30ms'\nrate = '8mbit'\nloss = '20%/0'\n[reverse]\nrate = '2mbit'",
    ];
    let it = of(&paths, Flow::new("a"), EngineKind::Virtual);
    // 0.9 * 0.8 of the packets arrive.
    assert!((it.loss - 0.28).abs() < 1e-9 && (it.rtt_s - 0.040).abs() < 1e-9, "{it:?}");
    assert_eq!(it.rate_bps, Some(8e6));
    near(it.idle_rtt_s(), 0.0415, 1e-9);
    let reversed = of(&paths, Flow { reverse: true, ..Flow::new("a") }, EngineKind::Virtual);
    assert_eq!((reversed.rate_bps, reversed.loss.abs() < 1e-12), (Some(2e6), true), "{reversed:?}");
}

#[test]
fn flows_beside_count_by_direction_and_kind() {
    let udp = |name: &str, reverse| Flow {
        kind: FlowKind::Udp,
        rate: Some(4_000_000),
        size: Some(972),
        reverse,
        ..Flow::new(name)
    };
    let flows = vec![
        Flow { kind: FlowKind::Tcp, ..Flow::new("a") },
        Flow { kind: FlowKind::Tcp, ..Flow::new("b") },
        Flow { kind: FlowKind::Tcp, reverse: true, ..Flow::new("c") },
        udp("d", false),
        udp("e", true),
    ];
    let physics = physics(&["rate = '100mbit'"], flows, EngineKind::Kernel);
    let it = Conditions::of(&physics, &physics.flows[0]).expect("conditions");
    assert_eq!((it.others, it.sharers), (4, 2.0));
    // 972 bytes of payload are 1,000 on the link.
    near(it.datagrams_bps, 4e6 * 1000.0 / 972.0, 1e-9);
    assert!(it.steady && !it.is_udp && it.offered_bps.is_none());
    let datagrams = Conditions::of(&physics, &physics.flows[3]).expect("conditions");
    assert!(datagrams.is_udp && datagrams.offered_bps == Some(4e6), "{datagrams:?}");
    near(datagrams.sharers, 3.0, 1e-12);
}
