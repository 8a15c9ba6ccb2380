//! `rdt-send compare`: compares the summaries of two measurements, for scripts that watch a rate.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use rdt_program::Console;
use rdt_program::Failure;
use rdt_program::json::{EventStamp, SCHEMA_VERSION};
use rdt_udp::clock;
use serde_json::{Value, json};

use crate::args::share;
use crate::exit::{DATA, WORSE};

const EXAMPLES: &str = "\
Exit codes:
    0  no metric of --metric is worse by more than the threshold
    9  a metric is
   64  wrong arguments     65  a file has no summary of a finished transfer, or not this metric
   66  a file cannot be read

Examples:
  rdt-send 10.0.0.7 --time 10s --omit 1s --json > a.json
  rdt-send compare a.json b.json --threshold 5%
  rdt-send compare a.json b.json --metric goodput_bps --metric rtt_p99_ns";

/// Compares the summaries that `rdt-send --json` wrote to two files.
#[derive(Debug, Parser)]
#[command(name = "rdt-send compare", after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Output of the first measurement
    a: PathBuf,
    /// Output of the second measurement
    b: PathBuf,
    /// Share of A by which B may be worse: 5%, 0.05
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    threshold: f64,
    /// Key of the summary that decides; repeatable
    #[arg(long, value_name = "KEY", default_value = "goodput_bps")]
    metric: Vec<String>,
    /// Whether more or less of the deciding keys is better [default: by their names: more of rates,
    /// bytes, packets and fairness, less of times, losses, retransmissions and timeouts]
    #[arg(long, value_name = "DIRECTION", value_parser = ["more", "less"])]
    better: Option<String>,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

/// Keys that the table shows besides those that decide.
const SHOWN: [&str; 9] = [
    "goodput_bps",
    "rtt_p50_ns",
    "rtt_p99_ns",
    "srtt_p50_ns",
    "srtt_p99_ns",
    "rtt_idle_p50_ns",
    "retransmitted_bytes",
    "lost",
    "processor_ns",
];

/// Keys of which more is better, besides rates.
const MORE_IS_BETTER: [&str; 4] = ["bytes", "packets", "sent_packets", "fairness"];
/// Keys of which less is better, besides times.
const LESS_IS_BETTER: [&str; 16] = [
    "lost",
    "lost_share",
    "lost_to_receiver_socket",
    "retransmitted",
    "retransmitted_bytes",
    "refused_packets",
    "fast_retransmits",
    "recoveries",
    "timeouts",
    "spurious",
    "dup_acks",
    "duplicates",
    "reordered",
    "ce_marks",
    "ecn_reductions",
    "memory_peak_bytes",
];
/// Times of which neither more nor less is better.
const NEUTRAL_TIMES: [&str; 2] = ["time_ns", "rto_ns"];

#[derive(Debug, Clone, PartialEq)]
struct Metric {
    key: String,
    a: f64,
    b: f64,
    /// Change from A to B as a share of A; infinite from 0 to another value.
    change: f64,
    decides: bool,
    is_worse: bool,
}

/// Returns the arguments after `compare`, if that is the first argument of `rdt-send`.
pub(crate) fn arguments(args: &[OsString]) -> Option<Vec<OsString>> {
    let (program, rest) = args.split_first()?;
    let (first, rest) = rest.split_first()?;
    // `compare:22345` is a host of this name.
    (first == "compare").then(|| [std::slice::from_ref(program), rest].concat())
}

pub(crate) fn command(args: &CompareArgs) -> Result<(), Failure> {
    let given = args.better.as_ref().map(|better| better == "more");
    let unknown = args.metric.iter().find(|key| given.or(more_is_better(key)).is_none());
    if let Some(key) = unknown {
        return Err(Failure::usage(format_args!(
            "whether more or less of {key} is better does not follow from its name: add --better more or --better less"
        )));
    }
    let (a, b) = (summary(&args.a)?, summary(&args.b)?);
    let metrics = compare(&a, &b, &args.metric, given, args.threshold)
        .map_err(|sentence| Failure::new(DATA, format_args!("{sentence}, so they cannot be compared")))?;
    let console = Console::default();
    if args.json {
        let event = to_json(&metrics, args.threshold);
        console.line(&EventStamp::new(clock::now()).now(event).to_string());
    } else {
        console.line(&format!("{:22} {:>16} {:>16} {:>9}", "", "A", "B", "change"));
        for metric in &metrics {
            console.line(&metric.line());
        }
    }
    console.finish(args.json).map_err(Failure::stdout)?;
    match metrics.into_iter().find(|metric| metric.is_worse) {
        Some(metric) => Err(Failure::new(
            WORSE,
            format_args!(
                "{} changed by {}, the threshold is {:.1} %",
                metric.key,
                percent(metric.change),
                args.threshold * 100.0
            ),
        )),
        None => Ok(()),
    }
}

fn summary(path: &Path) -> Result<Value, Failure> {
    let name = path.display().to_string();
    let text = fs::read(path).map_err(|error| Failure::input(&name, &error))?;
    let text = String::from_utf8_lossy(&text);
    let mut objects = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let summary =
        objects.find(|value| matches!(value["event"].as_str(), Some("summary" | "parallel_summary")));
    match summary {
        Some(summary) if summary["schema_version"] != SCHEMA_VERSION => Err(Failure::new(
            DATA,
            format_args!(
                "{name}: the summary has schema_version {}, and this rdt-send compares those of version {SCHEMA_VERSION}",
                summary["schema_version"]
            ),
        )),
        Some(summary) if summary["exit_code"] == 0 => Ok(summary),
        Some(_) => Err(Failure::new(DATA, format_args!("{name}: the transfer failed"))),
        None => Err(Failure::new(DATA, format_args!("{name}: no whole summary of rdt-send --json in it"))),
    }
}

/// True if more of the metric is better, false if less is. `None` if the key does not tell.
fn more_is_better(key: &str) -> Option<bool> {
    let is_time = key.ends_with("_ns") && !key.starts_with("waited_") && !NEUTRAL_TIMES.contains(&key);
    if key.ends_with("_bps") || MORE_IS_BETTER.contains(&key) {
        Some(true)
    } else {
        (is_time || LESS_IS_BETTER.contains(&key)).then_some(false)
    }
}

/// Returns the metrics that both summaries have. `given` says whether more of those that decide is
/// better; without it, their names do. Fails if one of those that decide is missing.
fn compare(
    a: &Value,
    b: &Value,
    deciding: &[String],
    given: Option<bool>,
    threshold: f64,
) -> Result<Vec<Metric>, String> {
    let keys = deciding.iter().map(String::as_str);
    let others = SHOWN.into_iter().filter(|key| !deciding.iter().any(|decides| decides == key));
    let mut metrics: Vec<Metric> = Vec::new();
    for key in keys.chain(others) {
        if metrics.iter().any(|metric| metric.key == key) {
            continue;
        }
        let decides = deciding.iter().any(|decides| decides == key);
        match (a[key].as_f64(), b[key].as_f64()) {
            (Some(a), Some(b)) => {
                let more = given.or(more_is_better(key)).unwrap_or_default();
                metrics.push(Metric::new(key, (a, b), decides.then_some(more), threshold));
            }
            (a, _) if decides => {
                let file = if a.is_some() { "B" } else { "A" };
                return Err(format!("{file} has no number {key}"));
            }
            _ => {}
        }
    }
    Ok(metrics)
}

impl Metric {
    /// `more_is_better` of a metric that decides.
    fn new(key: &str, (a, b): (f64, f64), more_is_better: Option<bool>, threshold: f64) -> Self {
        let difference = b - a;
        let change = if difference == 0.0 { 0.0 } else { difference / a.abs() };
        let is_worse = more_is_better.is_some_and(|more| if more { -change } else { change } > threshold);
        Self { key: key.to_owned(), a, b, change, decides: more_is_better.is_some(), is_worse }
    }

    fn line(&self) -> String {
        let mark = match (self.decides, self.is_worse) {
            (_, true) => "  worse",
            (true, false) => "  ok",
            (false, false) => "",
        };
        format!("{:22} {:>16.1} {:>16.1} {:>9}{mark}", self.key, self.a, self.b, percent(self.change))
    }
}

fn percent(change: f64) -> String {
    if change.is_finite() { format!("{:+.1} %", change * 100.0) } else { "from 0".into() }
}

fn to_json(metrics: &[Metric], threshold: f64) -> Value {
    let metrics: Vec<_> = metrics
        .iter()
        .map(|metric| {
            json!({
                "key": metric.key,
                "a": metric.a,
                "b": metric.b,
                "change_share": metric.change.is_finite().then_some(metric.change),
                "decides": metric.decides,
                "worse": metric.is_worse,
            })
        })
        .collect();
    json!({ "event": "comparison", "threshold_share": threshold, "metrics": metrics })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(a: &Value, b: &Value, deciding: &[&str]) -> Result<Vec<(String, bool)>, String> {
        let deciding: Vec<_> = deciding.iter().map(|key| (*key).to_owned()).collect();
        let metrics = compare(a, b, &deciding, None, 0.05)?;
        Ok(metrics.into_iter().map(|metric| (metric.key, metric.is_worse)).collect())
    }

    #[test]
    fn direction_of_metric_decides_what_is_worse() {
        let a = json!({ "goodput_bps": 100.0, "rtt_p99_ns": 100.0, "lost": 0 });
        for (goodput, rtt, worse) in
            [(95.1, 100.0, [false, false]), (94.9, 104.0, [true, false]), (200.0, 105.1, [false, true])]
        {
            let b = json!({ "goodput_bps": goodput, "rtt_p99_ns": rtt, "lost": 3 });
            let found = metrics(&a, &b, &["goodput_bps", "rtt_p99_ns"]).unwrap();
            let expected = ["goodput_bps", "rtt_p99_ns"].map(String::from).into_iter().zip(worse);
            let expected: Vec<_> = expected.chain([("lost".to_owned(), false)]).collect();
            assert_eq!(found, expected, "{goodput} {rtt}");
        }
    }

    #[test]
    fn repeated_metric_is_shown_once() {
        let a = json!({ "goodput_bps": 100.0, "lost": 0 });
        let found = metrics(&a, &a, &["lost", "lost", "goodput_bps"]).unwrap();
        assert_eq!(found, [("lost".to_owned(), false), ("goodput_bps".to_owned(), false)]);
    }

    #[test]
    fn more_bytes_packets_and_fairness_are_better() {
        let low = json!({ "bytes": 1, "packets": 1, "fairness": 0.5 });
        let high = json!({ "bytes": 2, "packets": 2, "fairness": 1.0 });
        let deciding = ["bytes", "packets", "fairness"];
        let worse = |a, b| metrics(a, b, &deciding).unwrap().iter().filter(|it| it.1).count();
        assert_eq!((worse(&low, &high), worse(&high, &low)), (0, 3));
    }

    #[test]
    fn unknown_direction_has_to_be_given() {
        let (low, high) = (json!({ "cwnd_bytes": 1 }), json!({ "cwnd_bytes": 2 }));
        assert_eq!(["cwnd_bytes", "rto_ns", "waited_pacing_ns", "seed"].map(more_is_better), [None; 4]);
        let worse =
            |more| compare(&low, &high, &["cwnd_bytes".into()], Some(more), 0.05).unwrap()[0].is_worse;
        assert_eq!((worse(true), worse(false)), (false, true));
    }

    #[test]
    fn zero_and_missing_values_are_told_apart() {
        let (none, some) = (json!({ "lost": 0 }), json!({ "lost": 1 }));
        assert_eq!(metrics(&none, &none, &["lost"]), Ok(vec![("lost".into(), false)]));
        assert_eq!(metrics(&none, &some, &["lost"]), Ok(vec![("lost".into(), true)]));
        assert!(metrics(&none, &json!({ "lost": null }), &["lost"]).is_err());
    }
}
