use rdt_emulator::spec::{PathSpec, Scope};
use rdt_emulator::{Direction, PathConfig};

use serde_json::Value;

use super::schedule::Planned;
use super::*;

fn path(toml: &str) -> PathConfig {
    let mut path = PathSpec::from_toml(toml).unwrap();
    path.set(Scope::Both, "seed", "7").unwrap();
    path.to_path_config(|file| Err(format!("no {file}"))).unwrap()
}

fn output(config: &PathConfig, seed: u64, schedule: &str, format: Format) -> String {
    let mut out = Vec::new();
    let schedule = Schedule::parse(schedule).unwrap();
    run(Path::new(config.clone(), seed), seed, schedule, Rows::new(&mut out, format)).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn sim_prints_fate_and_due_time() {
    // A packet of 1000 bytes is transmitted in 1 ms, and the queue has room for one.
    let config = path("rtt = '20ms'\nrate = '8mbit'\nqueue = '1p'");
    let schedule = "0s 1000 3/0s ect0  # a burst\n\n500us 100 reverse\n";
    let expected = "\
n,direction,sent_ns,size_bytes,fate,due_ns,duplicate,corrupted,ecn
2,forward,0,1000,queue,,0,0,ect0
0,reverse,500000,100,delivered,10600000,0,0,not-ect
0,forward,0,1000,delivered,11000000,0,0,ect0
1,forward,0,1000,delivered,12000000,0,0,ect0
";
    assert_eq!(output(&config, 1, schedule, Format::Csv), expected);
}

#[test]
fn output_depends_on_seed_only() {
    let config =
        path("rtt = '20ms'\nrate = '5mbit'\nloss = '2%'\nduplicate = '1%'\ncorrupt = '1%'\njitter = '5ms'");
    let of = |seed| output(&config, seed, "0s 1000 5000/4mbit\n1ms 100 reverse 5000/1ms ect0\n", Format::Csv);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

/// Covers every queue discipline, because rows of packets that are dropped late could be missing.
#[test]
fn each_packet_and_copy_has_one_row() {
    for queue in ["drop-tail", "drop-head", "codel", "pie", "red:min=5kb,max=10kb"] {
        let config = path(&format!(
            "rtt = '20ms'\nrate = '1mbit'\nqueue = '20p'\ndiscipline = '{queue}'\nduplicate = '10%'"
        ));
        let text = output(&config, 3, "0s 1000 2000/2mbit", Format::Json);
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (end, rows) = rows.split_last().unwrap();
        let ledger = &end["forward"];
        let count = |wanted: &dyn Fn(&Value) -> bool| rows.iter().filter(|row| wanted(row)).count() as u64;
        assert_eq!(end["balances"], true);
        assert_eq!(count(&|row| row["duplicate"] == false), 2000, "{queue}");
        assert_eq!(count(&|row| row["duplicate"] == true), ledger["duplicated"], "{queue}");
        assert_eq!(count(&|row| row["fate"] == "delivered"), ledger["delivered"], "{queue}");
        for (cause, dropped) in ledger["dropped"].as_object().unwrap() {
            assert_eq!(count(&|row| row["fate"] == *cause), *dropped, "{queue}: {cause}");
        }
        let mut numbers: Vec<_> = rows
            .iter()
            .filter(|row| row["duplicate"] == false)
            .map(|row| row["n"].as_u64().unwrap())
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..2000), "{queue}");
    }
}

#[test]
fn schedules_merge_by_time_stably() {
    let schedule = Schedule::parse("2ms 1 2/1ms\n0s 2 reverse 3/2ms\n0s 3 ce").unwrap();
    let planned: Vec<_> = schedule.map(|Planned { at, size, .. }| (at.as_millis(), size)).collect();
    assert_eq!(planned, [(0, 2), (0, 3), (2, 1), (2, 2), (3, 1), (4, 2)]);
}

#[test]
fn packet_rate_is_exact_to_nanosecond() {
    let burst = Burst::new(Duration::ZERO, 1000, Ecn::NotEct);
    let rate = Bitrate::from_bps(3_000_000);
    let schedule = Schedule::new(vec![burst.repeated_until(Gap::Rate(rate), Duration::from_secs(8))]);
    let planned: Vec<_> = schedule.collect();
    assert_eq!(planned.len(), 3000);
    assert_eq!(planned[3 * 999].at, Duration::from_millis(8 * 999));
    assert!(planned.iter().all(|packet| packet.direction == Direction::Forward));
}

#[test]
fn schedule_errors_name_the_line() {
    for (text, expected) in [
        ("0s 1\n5 100", "line 2: '5' has no unit: write 5ns or 5us or 5ms or 5s or 5min"),
        ("# nothing\n\n0s", "line 3: a time and a size are needed, such as 10ms 1200"),
        ("0s 65536", "line 1: '65536' is out of range: a packet has at most 65535 bytes"),
        ("0s 1 x/1ms", "line 1: 'x' is not a number of packets"),
        ("0s 1 1000000/10000min", "line 1: the packets last for more than 100 years"),
        ("0s 1 2/3", "line 1: '3' is neither a rate such as 5mbit nor a time such as 2ms"),
    ] {
        let error = Schedule::parse(text).err().unwrap().to_string();
        assert_eq!(error, expected);
    }
    let error = Schedule::parse("0s 1 sideways").err().unwrap().to_string();
    assert!(error.starts_with("line 1: 'sideways' is none of forward, reverse, "), "{error}");
}

#[test]
fn empty_schedule_has_empty_account() {
    let text = output(&PathConfig::default(), 1, "", Format::Json);
    let end: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&end["event"], &end["time_ns"], &end["balances"]), (&"end".into(), &0.into(), &true.into()));
}

#[test]
fn size_requires_cbr() {
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: SimArgs,
    }

    let parse = |line: &str| Only::try_parse_from(format!("sim {line}").split_whitespace());
    let said = parse("--size 9").unwrap_err().to_string();
    assert!(said.contains("--cbr"), "{said}");
    assert_eq!(parse("--size 9 --cbr 1mbit --for 1s").unwrap().args.size, 9);
    assert_eq!(parse("").unwrap().args.size, 1200);
}
