//! Names of metrics and levels: typing errors are found when the file is read or planned, at their
//! place and with the nearest word.

use rdt_lab::experiment::Experiment;
use rdt_lab::plan::Plan;

/// Returns the error of an experiment with these lines after its head.
fn error(engine: &str, flows: &str, tail: &str) -> String {
    let text = format!(
        "schema = 1\nname = 'x'\ntitle = 'X'\nengine = {engine}\nfor = '1s'\n[path]\nrate = '8mbit'\n{flows}\n{tail}"
    );
    match Experiment::from_toml(&text) {
        Ok(experiment) => match Plan::new(&experiment, &[]) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    }
}

fn claim(that: &str) -> String {
    format!("[[claim]]\nid = 'c'\nsays = 's'\nthat = '{that}'\n")
}

const ONE: &str = "[[flow]]\nname = 'a'";
const TWO: &str = "[[flow]]\nname = 'one'\n[[flow]]\nname = 'two'\nkind = 'udp'\nrate = '1mbit'";

#[test]
fn metrics_that_no_flow_has_are_errors_at_their_place() {
    let virtual_time = "'virtual'";
    for (flows, that, wanted) in [
        (
            ONE,
            "godput > 1mbit",
            "line 13, column 9: claim.that: no result has the metric 'godput'; did you mean 'goodput'?",
        ),
        (ONE, "1mbit < godput", "line 13, column 17: claim.that: no result has the metric 'godput'"),
        (
            ONE,
            "all: a:rtt-men < 1s",
            "line 13, column 16: claim.that: no flow a has the metric 'rtt-men'; did you mean 'rtt-mean'?",
        ),
        (
            ONE,
            "b:goodput > 1mbit",
            "line 13, column 11: claim.that: no result has the metric 'b.goodput'; did you mean 'a.goodput'?",
        ),
        (ONE, "jitter > 1ms", "line 13, column 9: claim.that: no result has the metric 'jitter'"),
        (ONE, "dsacked > 1", "line 13, column 9: claim.that: no result has the metric 'dsacked'"),
        (
            ONE,
            "cwnd > 1",
            "line 13, column 9: claim.that: no result has the metric 'cwnd'; did you mean 'sent'?",
        ),
        (
            ONE,
            "link.forward.utilization > 0.5",
            "line 13, column 22: claim.that: no result has the metric 'link.forward.utilization'; did you mean 'link.forward.utilisation'?",
        ),
        (
            ONE,
            "link2.forward.sent > 1",
            "line 13, column 23: claim.that: no result has the metric 'link2.forward.sent'",
        ),
        (
            TWO,
            "goodput > 1mbit",
            "line 17, column 9: claim.that: 'goodput' belongs to a flow, and there are 2: write one:goodput",
        ),
        (TWO, "two:cwnd-mean > 1", "line 17, column 13: claim.that: no flow two has the metric 'cwnd-mean'"),
    ] {
        let found = error(virtual_time, flows, &claim(that));
        if that.starts_with("cwnd >") {
            assert!(found.contains("no result has the metric 'cwnd'"), "{that}: {found}");
        } else {
            assert!(found.starts_with(wanted), "{that}:\nfound  {found}\nwanted {wanted}");
        }
    }
    for that in [
        "goodput > 1mbit",
        "a:limit.window < 0.5",
        "q50(completion) < 1s",
        "timeout-2 - timeout-1 > 1s",
        "link.forward.dropped-queue > 1",
        "sum > 1mbit",
        "airtime.ack > 1us",
    ] {
        assert_eq!(error(virtual_time, ONE, &claim(that)), "", "{that}");
    }
    for that in ["one:goodput > two:jitter", "jain > 0.9", "two:lost-queue > 1", "one:convergence < 9s"] {
        assert_eq!(error(virtual_time, TWO, &claim(that)), "", "{that}");
    }
    let kernel = "['virtual', 'kernel']";
    assert_eq!(error(kernel, "[[flow]]\nname = 'a'\nkind = 'tcp'", &claim("dsacked + processor > 1")), "");
    let counted = "[[flow]]\nname = 'a'\ncount = 3";
    assert_eq!(error(virtual_time, counted, &claim("a3:goodput > 1mbit")), "");
}

#[test]
fn other_tables_that_name_metrics_are_checked_too() {
    let engine = "'virtual'";
    for (tail, wanted) in [
        (
            "[[expect]]\nsource = 's'\nof = 'godput'\nwithin = '5%'\nvalues = []",
            "expect.of: no result has the metric 'godput'",
        ),
        ("[[figure]]\nkind = 'box'\nof = 'godput'", "figure.of: no result has the metric 'godput'"),
        ("[repeats]\nuntil = '2% of godput'", "repeats.until: no result has the metric 'godput'"),
    ] {
        let found = error(engine, ONE, tail);
        assert!(found.contains(wanted) && found.contains("did you mean 'goodput'?"), "{tail}: {found}");
    }
    let series = "[[figure]]\nkind = 'series'\nof = ['goodput', 'srtt', 'a.cwnd']";
    assert_eq!(error(engine, ONE, series), "");
}

#[test]
fn metrics_of_programs_are_those_of_the_table() {
    let of = |that: &str| {
        let command = "[command]\nprogram = 'true'\nmetrics.score = '/score'";
        error("'command'", "", &format!("{command}\n{}", claim(that)))
    };
    for that in ["score > 1", "run-time < 1s", "link.forward.delivered > 1"] {
        assert_eq!(of(that), "", "{that}");
    }
    assert!(of("scor > 1").contains("'scor'; did you mean 'score'?"), "{}", of("scor > 1"));
    assert!(of("goodput > 1").contains("no result has the metric 'goodput'"), "{}", of("goodput > 1"));
}

#[test]
fn levels_that_no_engine_takes_are_errors_of_the_plan() {
    let of = |levels: &str| error("'virtual'", ONE, &format!("[factors]\nflow.a.cc = [{levels}]"));
    let found = of("'fixed:1', 'fxed:2'");
    let wanted = "line 11, column 25: engine virtual with cc=fxed:2: flow a: there is no congestion control 'fxed:2'; \
                  did you mean 'fixed:2'?";
    assert_eq!(found, wanted);
    assert!(of("'reno', 'rno'").ends_with("'rno'; did you mean 'reno'?"), "{}", of("'reno', 'rno'"));
    assert!(
        of("'reno', 'fixed:0'").contains("fixed needs a window in packets"),
        "{}",
        of("'reno', 'fixed:0'")
    );
    assert_eq!(of("'reno', 'fixed:3', 'bbr'"), "");
    let fixed = error("'virtual'", "[[flow]]\nname = 'a'\ncc = 'cubik'", "");
    assert!(fixed.starts_with("line 10, column 6: engine virtual: flow a: "), "{fixed}");
    let kernel = error("'kernel'", "[[flow]]\nname = 'a'\nkind = 'tcp'\ncc = 'fxed:2'", "");
    assert!(kernel.contains("the kernel has no congestion control 'fxed:2'"), "{kernel}");
}

#[test]
fn effects_need_cells_that_differ_in_nothing_else() {
    let of = |cells: &str| {
        let factors = "[factors]\nflow.a.sack = ['off', 'on']\nflow.a.pacing = ['off', 'on']";
        let design = format!("[design]\nkind = 'list'\ncells = [{cells}]");
        error("'virtual'", ONE, &format!("{factors}\n{design}\n{}", claim("effect(goodput, sack) > 1")))
    };
    let both = "{ sack = 'on', pacing = 'on' }, { sack = 'off', pacing = 'off' }";
    let found = of(both);
    assert!(found.contains("claim.that: no two cells differ in sack alone"), "{found}");
    assert_eq!(of(&format!("{both}, {{ sack = 'off', pacing = 'on' }}")), "");
}
