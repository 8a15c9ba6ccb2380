//! Tests of the configurations of valid specifications, and of the errors of invalid ones.

use std::time::Duration;

use super::*;
use crate::bitrate::Bitrate;
use crate::config::LinkConfig;
use crate::delay::{Jitter, Reorder};
use crate::loss::{GilbertElliott, Loss};
use crate::mtu::{Mtu, Oversize};
use crate::outage::Outage;
use crate::probability::Probability;
use crate::queue::{Incapable, Marking, Occupancy, QueueLimit};
use crate::rate::{Trace, VaryingRate};
use crate::schedule::Schedule;
use crate::wifi::WifiConfig;
use rdt_testing::{epoch, ms, ns};

mod round_trip;

const MBIT: u64 = 1_000_000;

fn no_files(file: &str) -> Result<String, String> {
    Err(format!("there is no {file}"))
}

fn config(text: &str) -> PathConfig {
    PathSpec::from_toml(text).and_then(|path| path.to_path_config(no_files)).unwrap()
}

/// Returns the error sentence for an invalid TOML text.
fn complaint(text: &str) -> String {
    PathSpec::from_toml(text).unwrap_err().to_string()
}

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

#[test]
fn nothing_said_is_a_perfect_wire() {
    assert_eq!(config(""), PathConfig::default());
    assert_eq!(PathSpec::default().to_toml(), "");
}

#[test]
fn keys_apply_to_both_directions_by_default() {
    let path = config("rtt = '101ns'\nrate = '10mbit'\nqueue = 'none'\n[reverse]\nrate = '1mbit'\n");
    let link = |mbit, delay| LinkConfig::new(Bitrate::from_bps(mbit * MBIT), ns(delay));
    assert_eq!(path, PathConfig::asymmetric(link(10, 50), link(1, 51)));
}

#[test]
fn each_key_sets_its_config_field() {
    let text = "
        seed = 7
        rate = '0s:8mbit, 5s:2mbit, 10s:none'
        delay = '10ms'
        jitter = 'normal 2ms unordered'
        loss = 'gilbert-elliott p=1% r=25% good=0.1% bad=50%'
        outage = '500ms every 10s from 3s'
        queue = '0.5bdp'
        discipline = 'codel:target=7ms,ecn'
        occupancy = 'path'
        mark = '20p or drop'
        mtu = '1500, 10s:1280 fragment'
        duplicate = '1%'
        corrupt = 0.02
        reorder = '3% by 5ms'
        headers = 48
        framing = '14b'
    ";
    let bursts = GilbertElliott {
        p: probability(0.01),
        r: probability(0.25),
        loss_good: probability(0.001),
        loss_bad: probability(0.5),
    };
    let rate = Bitrate::from_bps(8 * MBIT);
    let steps = [(ms(5_000), Some(Bitrate::from_bps(2 * MBIT))), (ms(10_000), None)];
    let expected = LinkConfig {
        varying: Some(VaryingRate::Steps(Schedule::new(Some(rate), steps))),
        reorder: Some(Reorder { probability: probability(0.03), extra: ms(5) }),
        ..LinkConfig::new(rate, ms(10))
            .jitter(Jitter::normal(ms(2)).unordered())
            .loss(Loss::GilbertElliott(bursts))
            .outage(Outage::periodic(ms(10_000), ms(500), ms(3_000)))
            // Half of the bandwidth-delay product, 8 Mbit/s times 20 ms.
            .queue(QueueLimit::bytes(10_000))
            .discipline("codel:target=7ms,ecn".parse().unwrap())
            .occupancy(Occupancy::WaitingAndInFlight)
            .marking(Marking { threshold: QueueLimit::packets(20), incapable: Incapable::Drop })
            .mtu(Mtu::new(1_500).then(ms(10_000), 1_280).oversize(Oversize::Fragment))
            .duplicate(probability(0.01))
            .corrupt(probability(0.02))
            .overhead(48)
            .framing(14)
    };
    let path = PathSpec::from_toml(text).unwrap();
    assert_eq!(path.seed(), Some(7));
    assert_eq!(path.to_path_config(no_files).unwrap(), PathConfig::from(expected));
}

#[test]
fn losses_in_each_of_their_words() {
    let three = std::num::NonZeroU32::new(3).unwrap();
    let later = [(ms(10_000), probability(0.01)), (ms(20_000), probability(0.05))];
    for (text, expected) in [
        ("none", Loss::None),
        ("1%", Loss::Bernoulli(probability(0.01))),
        ("1 %", Loss::Bernoulli(probability(0.01))),
        ("0s:1%", Loss::Bernoulli(probability(0.01))),
        ("0s:0%, 10s:1%, 20s:5%", Loss::steps(Probability::ZERO, later)),
        ("0, 10s: 0.01,20s :5 %", Loss::steps(Probability::ZERO, later)),
        ("0.5 max-run=3", Loss::Bounded { probability: probability(0.5), max_run: three }),
        ("every 100", Loss::every_nth(100)),
        ("packets 30-33, 7,8", Loss::script([7, 8, 30, 31, 32, 33])),
        ("packets 18446744073709551614-18446744073709551615", Loss::script([u64::MAX - 1, u64::MAX])),
        (
            "gilbert-elliott r=1 p=0.5",
            Loss::GilbertElliott(GilbertElliott::all_or_nothing(probability(0.5), Probability::ONE)),
        ),
    ] {
        assert_eq!(config(&format!("loss = '{text}'")).forward.loss, expected, "{text}");
    }
    let path = config("loss = '1%/every 3'");
    assert_eq!(
        (path.forward.loss, path.reverse.loss),
        (Loss::Bernoulli(probability(0.01)), Loss::every_nth(3))
    );
    let path = config("loss = '0s:0%, 10s:1%, 20s:5%/1%'");
    assert_eq!(
        (path.forward.loss, path.reverse.loss),
        (Loss::steps(Probability::ZERO, later), Loss::Bernoulli(probability(0.01)))
    );
}

#[test]
fn auto_queue_is_bdp_but_64_kib_minimum() {
    let queue = |text: &str| config(&format!("rtt = '100ms'\n{text}")).forward.queue;
    assert_eq!(queue("rate = '100mbit'"), QueueLimit::bytes(1_250_000));
    assert_eq!(queue("rate = '1mbit'"), QueueLimit::bytes(65_536));
    assert_eq!(queue("rate = '1mbit'\nqueue = '1bdp'"), QueueLimit::bytes(12_500));
    assert_eq!(queue("rate = '1mbit'\nqueue = '0bdp'"), QueueLimit::bytes(1_500));
    assert_eq!(queue("rate = '1mbit'\nqueue = '9b'"), QueueLimit::bytes(9));
    assert_eq!(queue("queue = '1bdp'"), QueueLimit::UNLIMITED);
}

#[test]
fn outage_times_and_mtu_steps_are_read() {
    let expected = Outage::Intervals(vec![(ms(10_000), ms(12_000)), (ms(30_000), ms(30_500))]);
    assert_eq!(config("outage = '10s-12s, 30s-30.5s'").forward.outage, expected);
    let expected = Mtu::unlimited().then(ms(1_000), 900).then(ms(2_000), None);
    assert_eq!(config("mtu = 'none, 1s:900, 2s:none drop'").forward.mtu, expected);
}

#[test]
fn wifi_cell_is_shared_by_both_directions() {
    let cell: WifiConfig = "wifi-b:preamble=short,rts".parse().unwrap();
    let path = config("delay = '1ms'\nqueue = 'none'\nrate = 'wifi-b:preamble=short,rts'");
    assert_eq!(path, PathConfig::from(LinkConfig::new(None, ms(1)).wifi(cell)));
    let path = config("delay = '1ms'\nqueue = 'none'\nrate = 'wifi-b:rate=11mbit+9s:1mbit'");
    let slow = WifiConfig { rate: crate::wifi::WifiRate::MBPS_1, ..WifiConfig::b() };
    let cells = Schedule::new(WifiConfig::b(), [(ms(9_000), slow)]);
    assert_eq!(path, PathConfig::from(LinkConfig::new(None, ms(1)).wifi_schedule(cells)));
}

#[test]
fn caller_reads_the_trace() {
    let path = PathSpec::from_toml("[reverse]\nrate = 'trace:some where/cell.down'").unwrap();
    assert_eq!(path.trace_files(), ["some where/cell.down"]);
    let mut renamed = path.clone();
    renamed.rename_traces(|file| format!("/there/{file}"));
    assert_eq!(renamed.trace_files(), ["/there/some where/cell.down"]);
    let read = |text: &'static str| path.to_path_config(move |_| Ok(text.to_owned()));
    assert_eq!(
        read("1\n2\n").unwrap().reverse.varying,
        Some(VaryingRate::Trace(Trace::parse("1\n2").unwrap()))
    );
    let expected = "rate (reverse): trace 'some where/cell.down': line 2 of the trace is 'x', not a whole number of milliseconds";
    assert_eq!(read("1\nx\n").unwrap_err().to_string(), expected);
    let error = path.to_path_config(|_| Err("permission denied".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "rate (reverse): trace 'some where/cell.down': permission denied");
}

#[test]
fn flags_override_text_and_text_overrides_preset() {
    let mut path = PathSpec::from_toml("loss = '1%'\n[forward]\nrate = '9mbit'\n").unwrap();
    let lte = PathSpec::from_toml("rate = '9mbit'\npreset = 'lte'").unwrap();
    assert_eq!(lte.to_toml(), "rate = \"9mbit\"\ndelay = \"35ms\"\n");
    path.set_all([(Scope::Reverse, "loss", "none"), (Scope::Both, "loss", "2%"), (Scope::Both, "rtt", "1s")])
        .unwrap();
    assert_eq!(path.to_toml(), "delay = \"500ms\"\n\n[forward]\nrate = \"9mbit\"\nloss = \"0.02\"\n");
    path.set(Scope::Both, "seed", "3").unwrap();
    path.set(Scope::Both, "preset", "lte").unwrap();
    assert_eq!(path.to_toml(), "seed = 3\nrate = \"12mbit\"\ndelay = \"35ms\"\n");
}

#[test]
fn wrong_flag_sets_nothing_and_is_named() {
    let mut path = PathSpec::default();
    let result = path.set_all([(Scope::Both, "rate", "1mbit"), (Scope::Forward, "loss", "2")]);
    let error = result.unwrap_err();
    assert!(error.to_string().starts_with("--loss-forward: '2' is out of range: "), "{error}");
    assert_eq!(error.subject(), Some("--loss-forward"));
    assert_eq!(path, PathSpec::default());
    let error = path.set(Scope::Reverse, "rtt", "1s").unwrap_err();
    assert_eq!(error.to_string(), "--rtt-reverse: it applies to both directions together");
    let error = path.set(Scope::Both, "dealy", "1s").unwrap_err();
    assert_eq!(error.to_string(), "--dealy: there is no key 'dealy'; did you mean 'delay'?");
}

#[test]
fn toml_errors_name_line_and_column() {
    for (text, beginning) in [
        ("rtt = '5ms'\n  rate = '10'", "line 2, column 10: rate: '10' has no unit: write 10bit or 10kbit"),
        ("[reverse]\nloss = 'x%'", "line 2, column 8: reverse.loss: 'x%' is not a probability"),
        ("loss = '0s:0%, 10s:x%'", "line 1, column 8: loss: 'x%' is not a probability"),
        ("é = 1", "line 1, column 1: "),
        ("forward = 3", "line 1, column 11: forward: it is a table: write [forward] on a line of its own"),
        ("[reverse]\nseed = 3", "line 2, column 8: reverse.seed: it applies to both directions together"),
        ("rate = ['1mbit']", "line 1, column 8: rate: a text in quotes or a number is wanted, not array"),
        ("corrupt = true", "line 1, column 11: corrupt: a text in quotes or a number is wanted, not boolean"),
        ("rate = '1mbit'\nrate = '2mbit'", "line 2, column 1: "),
        ("rate = 10mbit", "line 1, column 8: "),
        ("rate = ", "line 1, column 8: "),
        (
            "rtt = '1s'\n[forward]\ndelay = '1s'",
            "line 3, column 9: forward.delay: rtt and delay exclude each other",
        ),
        ("preset = 'lta'", "line 1, column 10: preset: there is no preset 'lta'; did you mean 'lte"),
        ("seed = -1", "line 1, column 8: seed: '-1' is not a whole number (it is a whole number from 0"),
    ] {
        let complaint = complaint(text);
        assert!(complaint.starts_with(beginning), "{text:?}: {complaint}");
        assert!(complaint.len() > beginning.len() || beginning.ends_with(char::is_alphabetic), "{complaint}");
    }
}

#[test]
fn wrong_key_error_suggests_nearest_key() {
    for (key, meant) in [
        ("rat", "rate"),
        ("Rate", "rate"),
        ("los", "loss"),
        ("que", "queue"),
        ("reoder", "reorder"),
        ("duplicated", "duplicate"),
        ("latency", "delay"),
        ("bandwidth", "rate"),
        ("overhead", "framing"),
        ("backward", "reverse"),
    ] {
        let expected = format!("line 1, column 1: there is no key '{key}'; did you mean '{meant}'?");
        assert_eq!(complaint(&format!("{key} = 1")), expected);
    }
    let all = complaint("[reverse]\ncolour = 'blue'");
    assert!(
        all.starts_with("line 2, column 1: there is no key 'colour'; the keys are preset, seed, rtt, rate, ")
    );
}

#[test]
fn invalid_values_are_refused_with_fix() {
    for (key, value, complaint) in [
        ("rate", "5s:1mbit", "'5s:1mbit' has no value from 0s on"),
        ("rate", "1mbit,2mbit", "'2mbit' has no time: write 5s:2mbit"),
        ("rate", "1mbit,5s:2mbit,5s:3mbit", "'5s:3mbit' is no later than the step before it"),
        ("rate", "1mbit,", "'' is not a rate"),
        ("rate", "0bit", "a rate of 0 passes no packet: write none for no limit, or give an outage"),
        ("rate", "0", "a rate of 0 passes no packet: write none for no limit"),
        ("rate", "0s:8mbit, 5s:0", "a rate of 0 passes no packet: write none for no limit"),
        ("rate", "trace: ", "'trace:' names no file"),
        ("rate", "wifi-n", "'wifi-n' is not an 802.11 cell: write wifi-a"),
        ("rate", "wifi-a:rate=54mbit+24mbit", "'24mbit' is not a step with a time"),
        ("rate", "wifi-a:rate=54mbit,9s:24mbit", "'9s:24mbit' is not an option of an 802.11 cell"),
        ("discipline", "codle", ""),
        ("delay", "5", "'5' has no unit: write 5ns or 5us"),
        ("jitter", "pareto 5ms", "'pareto 5ms' is not a time"),
        ("jitter", "unordered", "'unordered' is not a time"),
        ("loss", "5s:1%", "'5s:1%' has no value from 0s on"),
        ("loss", "0s:0%,1%", "'1%' has no time: write 5s:1%"),
        ("loss", "0s:0%,10s:1%,10s:2%", "'10s:2%' is no later than the step before it"),
        ("loss", "0s:0%,10s:200%", "'200%' is out of range"),
        ("loss", "0s:0%,10:1%", "'10' has no unit: write 10ns or 10us"),
        ("loss", "0s:0%,10s:every 3", "'every 3' is not a probability"),
        ("loss", "gilbert-elliott p=1%", "r= is missing"),
        ("loss", "gilbert-elliott p=1% q=3", "'3' is out of range"),
        ("loss", "gilbert-elliott p=1% q=0.3", "'q' is not p, r, good or bad"),
        ("loss", "gilbert-elliott 1%", "'1%' is not p=, r=, good= or bad="),
        ("loss", "every 0", "'0' is not a number of packets from 1 on"),
        ("loss", "1% max-run=0", "'0' is not a number of packets from 1 on"),
        ("loss", "packets", "'' is not a packet's number"),
        ("loss", "packets 5-3", "'5-3' goes backwards"),
        (
            "loss",
            "packets 0-18446744073709551615",
            "'0-18446744073709551615' makes more than 1000000 packets",
        ),
        ("loss", "packets 0-999999,5", "'5' makes more than 1000000 packets"),
        ("outage", "10s", "'10s' has no end: write 10s-12s"),
        ("outage", "10s-10s", "'10s-10s' ends before it begins"),
        ("outage", "10s-12s, 1s-2s, 11s-20s", "10s-12s and 11s-20s overlap"),
        ("outage", "2s every 1s", "'2s every 1s' does not fit"),
        ("outage", "0s every 0s", "'0s every 0s' does not fit"),
        ("queue", "25", "'25' has no unit: write 25b or"),
        ("occupancy", "all", "'all' is not waiting or path"),
        ("mark", "20p or", "'20p or' is not a queue"),
        ("mtu", "1279 fragment", "1279 is too short to fragment: IPv6 requires at least 1280"),
        ("mtu", "1500,1s:600 fragment", "600 is too short to fragment"),
        ("mtu", "0", "an MTU of 0 bytes passes no packet: write none for no limit"),
        ("mtu", "1500, 5s:0b", "an MTU of 0 bytes passes no packet"),
        ("mtu", "5gb", "'5gb' is more than 4294967295 bytes"),
        ("duplicate", "-1", "'-1' is out of range"),
        ("corrupt", "nan", "'nan' is out of range"),
        ("reorder", "1%", "'1%' does not say by how much: write 1% by 5ms"),
        ("framing", "1.5x", "'1.5x' is not a size"),
    ] {
        let error = PathSpec::default().set(Scope::Both, key, value).unwrap_err().to_string();
        let expected = format!("--{key}: {complaint}");
        assert!(error.starts_with(&expected), "{error}\n{expected}");
        let key = key.parse::<Key>().unwrap();
        assert!(error.ends_with(&format!(" (it is {})", key.allowed())), "{error}");
    }
}

#[test]
fn hexadecimal_and_large_numbers_are_numbers() {
    assert_eq!(PathSpec::from_toml("seed = 0xff").unwrap().seed(), Some(255));
    assert_eq!(PathSpec::from_toml("seed = 1_000").unwrap().seed(), Some(1_000));
    let text = format!("seed = \"{}\"\n", u64::MAX);
    let path = PathSpec::from_toml(&text).unwrap();
    assert_eq!((path.seed(), path.to_toml()), (Some(u64::MAX), text));
}

fn config_of(preset: &str) -> PathConfig {
    let mut path = PathSpec::default();
    path.set(Scope::Both, "preset", preset).unwrap();
    path.to_path_config(no_files).unwrap()
}

#[test]
fn presets_differ_and_convert() {
    let mut seen: Vec<PathConfig> = Vec::new();
    for preset in preset::names() {
        assert!(Key::Preset.allowed().contains(preset));
        let path = config_of(preset);
        assert!(!seen.contains(&path), "{preset}");
        seen.push(path);
    }
}

#[test]
fn classic_preset_equals_classic_link() {
    let classic = crate::ClassicLink {
        rtt: ms(100),
        rate: Bitrate::from_bps(100 * MBIT),
        loss_forward: probability(0.01),
        loss_reverse: Probability::ZERO,
        buffer: 114,
        memory_limit: crate::DEFAULT_MEMORY_LIMIT_BYTES,
    };
    let mut path = config_of("classic");
    path.reverse.loss = Loss::Bernoulli(Probability::ZERO);
    assert_eq!(path, PathConfig::classic(classic));
}

/// Returns the UDP payload rate of a saturated preset, in Mbit/s, for IPv4 and 1470 bytes.
fn goodput(preset: &str) -> f64 {
    let mut link = crate::Link::new(config_of(preset).forward, 1, crate::Direction::Forward);
    link.push(epoch(), vec![0; 1_498]).unwrap();
    let time = link.ledger().busy;
    1_470.0 * 8.0 / time.as_secs_f64() / 1e6
}

/// Mean rates that a laboratory course measured above saturation: 95.9, 6.43 and 23.9 Mbit/s.
#[test]
fn local_network_presets_match_measured_throughput() {
    for (preset, measured) in [("ethernet-100", 95.9), ("wifi-b", 6.43), ("wifi-g", 23.9)] {
        let share = goodput(preset) / measured;
        assert!((0.95..1.05).contains(&share), "{preset}: {share}");
    }
}

#[test]
fn paths_document_covers_all_keys() {
    let page = include_str!("../../tests/documents/paths.txt");
    for key in Key::all() {
        assert!(page.contains(&format!("`{}`", key.name())), "{} is missing", key.name());
    }
    for preset in preset::names() {
        assert!(page.contains(&format!("`{preset}`")), "{preset} is missing");
    }
    let examples: Vec<_> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        PathSpec::with_destinations(example).unwrap();
    }
    // Each row of a table of keys has the key, then examples as code.
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let key = cells[1].trim_matches('`');
        let (Ok(Key::Link(_) | Key::Rtt | Key::Seed), Some(words)) = (key.parse::<Key>(), cells.get(2))
        else {
            continue;
        };
        for word in words.split('`').skip(1).step_by(2) {
            let mut path = PathSpec::default();
            path.set(Scope::Both, key, word).unwrap();
        }
    }
}

#[test]
fn contained_headers_are_not_counted_again() {
    let mut path = PathSpec::from_toml("headers = 48\n[reverse]\nheaders = 0").unwrap();
    path.contain_headers(28);
    let config = path.to_path_config(|_| Err(String::new())).unwrap();
    assert_eq!((config.forward.overhead, config.reverse.overhead), (20, 0));
}

#[test]
fn assumed_headers_yield_to_given_ones() {
    let mut path = PathSpec::from_toml("[reverse]\nheaders = 0").unwrap();
    assert_eq!(PathSpec::from_toml(&path.to_toml()).unwrap(), path);
    path.assume_headers(28);
    path.assume_headers(48);
    assert_eq!(PathSpec::from_toml(&path.to_toml()).unwrap(), path);
    let config = path.to_path_config(|_| Err(String::new())).unwrap();
    assert_eq!((config.forward.overhead, config.reverse.overhead), (28, 0));
}
