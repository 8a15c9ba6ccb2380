//! `import` against a published factorial: 32 option sets of TCP with three file sizes, one run
//! each, and the means that the report printed.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::process::{arg, run, succeeds};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tcp-options-32-combinations.csv");
const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tcp-options-averages.csv");
const FACTORS: &str = "sack,rwnd_kb,congestion_control,link_delay_ms,loss_percent";

/// Returns the analysis of each file size and response.
fn analysed() -> Vec<Value> {
    let responses = "throughput_MBps,time_s";
    let args =
        ["import", TABLE, "--factors", FACTORS, "--response", responses, "--each", "file_kb", "--json"];
    succeeds(&args).lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn of<'a>(all: &'a [Value], size: &str, response: &str) -> &'a Value {
    let is = |it: &&Value| it["part"]["file_kb"] == size && it["response"] == response;
    all.iter().find(is).expect("an analysis")
}

#[test]
fn marginal_means_equal_all_published_but_one() {
    let all = analysed();
    let mut table = csv::Reader::from_path(PUBLISHED).expect("a table");
    let (mut compared, mut wrong) = (0, Vec::new());
    for row in table.records() {
        let row = row.expect("a row");
        for (response, published) in [("throughput_MBps", &row[3]), ("time_s", &row[4])] {
            let means = of(&all, &row[2], response)["marginal_means"].as_array().expect("means");
            let mean = means.iter().find(|it| it["factor"] == row[0] && it["level"] == row[1]);
            let mean = mean.expect("the level")["mean"].as_f64().expect("a mean");
            let published: f64 = published.parse().expect("a number");
            compared += 1;
            // The report rounds some means up and cuts others off.
            if (mean - published).abs() >= 0.001 {
                wrong.push(format!(
                    "{} {} {} {response}: {mean:.3} for {published}",
                    &row[0], &row[1], &row[2]
                ));
            }
        }
    }
    assert_eq!(compared, 60);
    assert_eq!(wrong, ["link_delay_ms 50 1024 throughput_MBps: 1.142 for 1.144"]);
}

#[test]
fn delay_and_sack_stand_out_at_each_size() {
    let all = analysed();
    let expected = [
        ("512", 0.200, [-1.53, 0.32, -0.31, 0.23]),
        ("1024", 0.350, [-1.90, 0.39, -0.40, 0.30]),
        ("2048", 0.345, [-1.82, 0.62, -0.47, 0.40]),
    ];
    let mut active_everywhere: Option<Vec<String>> = None;
    for (size, margin, effects) in expected {
        let it = of(&all, size, "throughput_MBps");
        let found = it["lenth"]["margin_95"].as_f64().expect("a margin");
        assert!((found - margin).abs() < 0.001, "{size}: {found} for {margin}");
        let list = it["effects"].as_array().expect("effects");
        assert_eq!(list.len(), 31);
        let by_name: BTreeMap<&str, &Value> =
            list.iter().map(|it| (it["effect"].as_str().expect("a name"), it)).collect();
        let names = ["link_delay_ms", "sack", "sack x link_delay_ms", "rwnd_kb x congestion_control"];
        for (name, wanted) in names.into_iter().zip(effects) {
            let estimate = by_name[name]["estimate"].as_f64().expect("an estimate");
            assert!((estimate - wanted).abs() < 0.006, "{size} {name}: {estimate} for {wanted}");
        }
        let active = |name: &&&str| by_name[**name]["is_active"] == true;
        let active: Vec<String> = by_name.keys().filter(active).map(|it| (*it).to_owned()).collect();
        for silent in ["rwnd_kb", "congestion_control", "loss_percent"] {
            assert!(!active.iter().any(|it| it == silent), "{silent} at {size}");
        }
        let before = active_everywhere.take().unwrap_or_else(|| active.clone());
        active_everywhere = Some(before.into_iter().filter(|it| active.contains(it)).collect());
        let scores: Vec<f64> = list.iter().filter_map(|it| it["half_normal_score"].as_f64()).collect();
        assert!(scores.len() == 31 && scores.is_sorted_by(|a, b| a > b), "{scores:?}");
    }
    let everywhere = active_everywhere.expect("three sizes");
    assert_eq!(everywhere, ["link_delay_ms", "sack", "sack x link_delay_ms"]);
}

#[test]
fn text_says_what_stands_out() {
    let args = ["import", TABLE, "--factors", FACTORS, "--response", "throughput_MBps", "--each", "file_kb"];
    let out = succeeds(&args);
    assert!(out.contains("Lenth") && out.contains("stands out"), "{out}");
}

#[test]
fn unknown_columns_get_the_nearest_word() {
    let (code, _, err) = run(&["import", TABLE, "--factors", "sak", "--response", "time_s"]);
    assert_eq!(code, 64);
    assert!(err.contains("sack"), "{err}");
    let (code, _, err) = run(&["import", TABLE, "--factors", FACTORS, "--response", "congestion_control"]);
    assert_eq!(code, 64, "{err}");
    assert!(err.contains("line 2"), "{err}");
    let missing = std::path::Path::new(TABLE).with_file_name("missing.csv");
    assert_eq!(run(&["import", arg(&missing), "--factors", "a", "--response", "b"]).0, 66);
}
