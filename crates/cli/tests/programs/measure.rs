//! Measurements: transfers by time, omitted starts, round trips of the idle path, comparisons.

use serde_json::{Value, json};

use super::process::{Ended, Program, number, rdt_send, send};

#[test]
fn timed_transfer_ends_after_its_time() {
    for form in ["local", "local --insecure", "local 20 0.01 0 100"] {
        let run = send(&format!("{form} --time 700ms --json")).with_code(0);
        let summary = run.summary();
        let elapsed = number(&summary, "elapsed_ns");
        // A busy host is late, never early.
        assert!(elapsed > 0.6e9, "{form}: {summary}");
        assert!(number(&summary, "bytes") > 0.0, "{form}: {summary}");
    }
}

#[test]
fn omitted_start_is_in_no_count() {
    let link = "--rtt 20ms --rate 8mbit --queue 64kib";
    let whole = send(&format!("local {link} --time 1s --json")).with_code(0).summary();
    let part = send(&format!("local {link} --time 600ms --omit 400ms --json")).with_code(0).summary();
    assert_eq!(whole["omitted_bytes"], 0, "{whole}");
    assert!(number(&part, "omitted_bytes") > 0.0, "{part}");
    assert!(number(&part, "bytes") < number(&whole, "bytes"), "{part}, {whole}");
    // The slow start is left out: the rate of the rest is that of the link.
    assert!(number(&part, "goodput_bps") < 8.1e6, "{part}");
    assert!(number(&part, "elapsed_ns") > 0.5e9, "{part}");
}

#[test]
fn transfer_within_omitted_start_has_no_rate() {
    let run = send("local --bytes 1000 --omit 60s --json").with_code(0);
    let summary = run.summary();
    assert_eq!((&summary["bytes"], &summary["goodput_bps"]), (&0.into(), &Value::Null), "{summary}");
}

#[test]
fn idle_round_trips_are_below_loaded_ones() {
    // A queue of 5 bandwidth-delay products, which a fixed window fills.
    let link = "--rtt 20ms --rate 8mbit --queue 5bdp --cc fixed:80";
    for format in ["", "--insecure"] {
        let run = send(&format!("local {link} {format} --bytes 600kb --idle-rtt 5 --json")).with_code(0);
        let summary = run.summary();
        let (idle, loaded) = (number(&summary, "rtt_idle_p50_ns"), number(&summary, "rtt_p50_ns"));
        assert!(idle >= 20e6 && loaded > idle * 1.5, "{summary}");
        assert_eq!(summary["bytes"], 600_000 - 20, "{summary}");
        assert_eq!(summary["omitted_bytes"], 20, "{summary}");
    }
    let text = send("local --bytes 100kb --idle-rtt 3").with_code(0);
    assert!(text.stderr.contains("round trip idle "), "{}", text.stderr);
}

#[test]
fn percentiles_of_round_trips_are_printed() {
    for form in ["local", "local --insecure", "local 20 0.01 0 100"] {
        let run = send(&format!("{form} --bytes 100kb")).with_code(0);
        let line = run.stderr.lines().find(|line| line.starts_with("round trip ")).unwrap_or_default();
        assert!(line.ends_with(" ms (99 %)") && !line.contains("idle"), "{form}: {}", run.stderr);
        let quiet = send(&format!("{form} --bytes 100kb --quiet")).with_code(0);
        assert!(!quiet.stderr.contains("round trip"), "{form}: {}", quiet.stderr);
    }
}

#[test]
fn limit_of_parallel_transfers_is_named() {
    let form = "local 4 0.05 0 100 --bytes 60kb --parallel 2";
    let text = send(form).with_code(0);
    let sentence =
        text.stderr.lines().find(|line| line.starts_with("limited by its window of 4 packets for "));
    assert!(sentence.is_some_and(|line| line.contains(", in 2 of 2 transfers: ")), "{}", text.stderr);
    let stream = text.line("[  2]\t");
    assert!(stream.contains(", RTT ") && stream.ends_with(" ms (99 %)"), "{stream}");
    let summary = send(&format!("{form} --json")).with_code(0).objects().pop().unwrap();
    assert_eq!(summary["limited_by"], "window", "{summary}");
    let share = number(&summary, "limited_share");
    assert!((0.5..=1.0).contains(&share), "{summary}");
}

#[test]
fn parallel_transfers_are_added_up() {
    for form in ["local", "local --insecure", "local 20 0.01 0 100"] {
        let run = send(&format!("{form} --parallel 3 --bytes 200kb --json")).with_code(0);
        let mut events = run.objects();
        let summary = events.pop().unwrap();
        assert_eq!(summary["event"], "parallel_summary", "{form}");
        assert_eq!((&summary["transfers"], &summary["bytes"]), (&3.into(), &600_000.into()), "{form}");
        assert_eq!(events.len(), 3, "{form}");
        assert!(
            events.iter().all(|event| event["event"] == "summary" && event["bytes"] == 200_000),
            "{form}"
        );
        let fairness = number(&summary, "fairness");
        assert!(
            (0.33..=1.0).contains(&fairness) && number(&summary, "goodput_bps") > 0.0,
            "{form}: {summary}"
        );
        let text = send(&format!("{form} --parallel 2 --bytes 100kb")).with_code(0);
        assert!(text.line("Main:\t2 transfers in ").contains(" Kbps, fairness "), "{:?}", text.lines());
        assert!(text.line("[  2]\t0.100 MB in ").contains(" lost"), "{:?}", text.lines());
    }
}

#[test]
fn parallel_failure_has_code_of_transfer() {
    let run = send("127.0.0.1:0 --insecure --parallel 2 --json");
    let code = run.code();
    let exit_code = run.objects().pop().unwrap()["exit_code"].as_i64();
    assert_eq!((exit_code, code), (Some(4), 4));
    assert_eq!(run.stderr.lines().count(), 2, "a sentence for each: {}", run.stderr);
}

/// Returns output of `rdt-send --json` with this rate.
fn measurement(rate: f64) -> String {
    format!(
        "{{\"event\":\"connected\"}}\n{{\"event\":\"summary\",\"exit_code\":0,\
         \"goodput_bps\":{rate:?},\"rtt_p99_ns\":5.0,\"schema_version\":1}}\n"
    )
}

#[test]
fn comparison_ends_with_code_of_threshold() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, rate) in [("a", 100.0), ("b", 94.0), ("c", 96.0)] {
        std::fs::write(path(name), measurement(rate)).unwrap();
    }
    let compare = |a: &str, b: &str, options: &str| -> Ended {
        let mut command = rdt_send("compare");
        command.arg(path(a)).arg(path(b)).args(options.split_ascii_whitespace());
        Program::start(&mut command).ended()
    };
    for (a, b, options, code) in [
        ("a", "a", "", 0),
        ("a", "b", "", 9),
        ("a", "c", "", 0),
        ("b", "a", "", 0),
        ("a", "b", "--threshold 10%", 0),
        ("a", "c", "--threshold 0.03", 9),
        ("a", "b", "--metric rtt_p99_ns", 0),
        ("a", "missing", "", 66),
        ("a", "b", "--threshold 5", 64),
        ("a", "a", "--metric cwnd_bytes", 64),
        ("a", "b", "--better less", 0),
    ] {
        compare(a, b, options).with_code(code);
    }
    let text = compare("a", "b", "").with_code(9);
    assert!(text.line("goodput_bps").ends_with("-6.0 %  worse"), "{:?}", text.lines());
    assert!(text.stderr.contains("goodput_bps changed by -6.0 %"), "{}", text.stderr);
    let object = compare("a", "b", "--json").with_code(9).objects().remove(0);
    assert_eq!(
        (&object["metrics"][0]["key"], &object["metrics"][0]["worse"]),
        (&json!("goodput_bps"), &json!(true))
    );
}

#[test]
fn file_that_cannot_be_compared_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
    let whole = measurement(1.0);
    std::fs::write(&a, &whole).unwrap();
    for (text, part) in [
        (String::new(), "no whole summary"),
        (whole[..whole.len() - 3].into(), "no whole summary"),
        ("[1]\nno json\n".into(), "no whole summary"),
        (whole.replace(":0,", ":5,"), "the transfer failed"),
        (whole.replace("version\":1", "version\":0"), "schema_version 0, and this rdt-send compares"),
        (whole.replace("schema_version", "other"), "schema_version null"),
        (whole.replace("goodput", "other"), "B has no number goodput_bps"),
        (whole.replace("1.0", "null"), "B has no number goodput_bps"),
        (whole.replace("1.0", "\"fast\""), "B has no number goodput_bps"),
    ] {
        std::fs::write(&b, &text).unwrap();
        let run = Program::start(rdt_send("compare").args([&a, &b])).ended().with_code(65);
        assert!(run.stderr.contains(part) && run.stderr.lines().count() == 1, "{text}: {}", run.stderr);
        assert!(run.stdout.is_empty());
    }
}

#[test]
fn real_summaries_can_be_compared() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.json");
    let run = send("local --bytes 1mb --json").with_code(0);
    std::fs::write(&file, &run.stdout).unwrap();
    let mut command = rdt_send("compare");
    let same = Program::start(command.args([&file, &file])).ended().with_code(0);
    assert!(same.line("goodput_bps").ends_with("+0.0 %  ok"), "{:?}", same.lines());
}
