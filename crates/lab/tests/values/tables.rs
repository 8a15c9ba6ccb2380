//! Tables of the report: units, rounding, order, repetitions that are missing, and published
//! values.

use rdt_lab::agreement::{Agreement, agreements, sentence};
use rdt_lab::experiment::Experiment;
use rdt_lab::plan::Plan;
use rdt_lab::report::section::{Mark, Table};
use rdt_lab::report::{Section, Subject, section};
use rdt_lab::{EngineKind, Record, Results, Status};

use crate::support::{experiment, near, record, results};

fn section_of(experiment: &Experiment, results: &Results) -> Section {
    section(&Subject { experiment, results, judgements: &[], command: "rdt-lab run x" })
}

fn texts(table: &Table) -> Vec<Vec<&str>> {
    table.rows.iter().map(|row| row.iter().map(|entry| entry.text.as_str()).collect()).collect()
}

const RTT: &str = "path.rtt = ['1ms', '20ms']\n";

/// Five values with a mean of 5.61 and a deviation of 0.0158 have the interval 2.776 * 0.0158 /
/// sqrt(5) = 0.0196.
#[test]
fn means_have_unit_rounding_and_interval() {
    let experiment = experiment(RTT);
    let one = [5.60e6, 5.62e6, 5.61e6, 5.59e6, 5.63e6];
    // A wider interval: 2.776 * 158.1 kbit/s / sqrt(5) = 0.1963 Mbit/s.
    let two = [560.0e3, 760.0e3, 360.0e3, 660.0e3, 460.0e3];
    let results = results(&experiment, "goodput", &[&one, &two]);
    let section = section_of(&experiment, &results);
    let table = &section.results[0];
    assert_eq!(table.head, ["rtt", "engine", "n", "goodput (Mbit/s)"]);
    assert_eq!(
        texts(table),
        [["1ms", "virtual", "5", "5.61 \u{b1} 0.02"], ["20ms", "virtual", "5", "0.56 \u{b1} 0.2"]]
    );
    near(table.rows[1][3].value.expect("a number"), 0.56, 1e-12);
}

#[test]
fn few_and_equal_repetitions_have_no_interval() {
    let experiment = experiment("path.rtt = ['1ms', '2ms', '3ms', '4ms']\n");
    let results = results(
        &experiment,
        "goodput",
        &[&[1e6, 2e6, 3e6, 6e6], &[7e6, 7e6, 7e6, 7e6, 7e6, 7e6], &[], &[5e6]],
    );
    let section = section_of(&experiment, &results);
    let expected = [
        ["1ms", "virtual", "4", "3"],
        ["2ms", "virtual", "1", "7"],
        ["3ms", "virtual", "0", ""],
        ["4ms", "virtual", "1", "5"],
    ];
    assert_eq!(section.results[0].head[3], "goodput (Mbit/s)");
    assert_eq!(texts(&section.results[0]), expected);
    assert!(section.run[1].starts_with("In 1 of these cells nothing is random"), "{:?}", section.run);
    assert!(section.run[0].contains("4 cells, each with 0 to 6 repetitions"), "{:?}", section.run);
}

#[test]
fn invalid_repetitions_are_in_no_mean() {
    let experiment = experiment(RTT);
    let mut results = results(&experiment, "goodput", &[&[1e6, 2e6, 900e6, 500e6], &[4e6, 4.1e6]]);
    let cell = results.cells[0].clone();
    let statuses = [(2, Status::HostLimited), (3, Status::Failed("no route".to_owned()))];
    for (rep, status) in statuses {
        results.records.get_mut(&cell.id).expect("records").get_mut(&rep).expect("a record").status = status;
    }
    let section = section_of(&experiment, &results);
    assert_eq!(texts(&section.results[0])[0], ["1ms", "virtual", "2", "1.5"]);
    let has = |part: &str| section.run.iter().any(|it| it == part);
    assert!(has("Repetitions left out: 1, no route."), "{:?}", section.run);
    assert!(has("Repetitions left out: 1, the host was too slow."), "{:?}", section.run);
    assert_eq!(section.counts, (2, 6), "the journal has them");
    let statuses: Vec<&str> =
        section.raw.lines().skip(1).map(|row| row.split(',').nth(5).expect("a status")).collect();
    assert_eq!(statuses, ["ok", "ok", "host-limited", "failed", "ok", "ok"]);
}

/// Rows are in the order of the file, not of the levels' names or values.
#[test]
fn rows_keep_the_order_of_the_file() {
    let experiment = experiment("path.rtt = ['20ms', '3ms', '100ms']\nflow.a.sack = ['on', 'off']\n");
    let results = results(&experiment, "goodput", &[&[1e6], &[2e6], &[3e6], &[4e6], &[5e6], &[6e6]]);
    let table = &section_of(&experiment, &results).results[0];
    let rows: Vec<String> =
        texts(table).iter().map(|row| format!("{} {} {}", row[0], row[1], row[4])).collect();
    let expected = ["20ms on 1", "20ms off 2", "3ms on 3", "3ms off 4", "100ms on 5", "100ms off 6"];
    assert_eq!(rows, expected);
    assert_eq!(table.head[4], "goodput (Mbit/s)");
}

fn with_expect(of: &str, within: &str, more: &str, values: &str) -> Experiment {
    let table = format!(
        "[[expect]]\nsource = 'table 7'\nof = '{of}'\nwithin = '{within}'\n{more}\nvalues = [{values}]\n"
    );
    experiment(&format!("{RTT}{table}"))
}

fn expected_table(section: &Section) -> &Table {
    section.results.iter().find(|it| it.caption.contains("Published: table 7")).expect("a table")
}

/// 1432 of 1500 bytes, of 8 Mbit/s.
const REASON: &str = "It is more than the link carries: 7.637 Mbit/s of payload, which is 95.47 % of a packet \
                      with its headers.";

#[test]
fn published_values_stand_beside_measured_ones() {
    let values = "{ rtt = '1ms', is = '10mbit' }, { rtt = '20ms', is = '0.5mbit' }";
    for (otherwise, mark) in [("note", Mark::Open), ("fail", Mark::Bad)] {
        let experiment = with_expect("goodput", "5%", &format!("else = '{otherwise}'"), values);
        let results = results(&experiment, "goodput", &[&[9e6, 9e6], &[510e3, 510e3]]);
        let section = section_of(&experiment, &results);
        let table = expected_table(&section);
        assert_eq!(table.caption, "goodput. Published: table 7. Tolerance 5 %");
        assert_eq!(table.head[2..4], ["published (Mbit/s)", "measured (Mbit/s)"]);
        assert_eq!(
            texts(table),
            [
                ["rtt 1ms", "virtual", "10", "9", "-10 %, outside", REASON],
                ["rtt 20ms", "virtual", "0.5", "0.51", "+2 %, inside", ""]
            ]
        );
        assert_eq!([&table.rows[0][4].mark, &table.rows[1][4].mark], [&mark, &Mark::Good]);
        assert_eq!(section.unmet, usize::from(otherwise == "fail"));
    }
}

#[test]
fn published_ratios_have_no_unit() {
    let experiment =
        with_expect("goodput", "0.1", "compare = 'ratio to rtt=1ms'", "{ rtt = '20ms', is = 0.5 }");
    let results = results(&experiment, "goodput", &[&[8e6, 8e6], &[3.9e6, 3.9e6]]);
    let section = section_of(&experiment, &results);
    let table = expected_table(&section);
    assert_eq!(table.caption, "goodput, as ratio to rtt 1ms. Published: table 7. Tolerance 0.1");
    // 3.9 / 8 = 0.4875, which is 2.5 % below 0.5.
    assert_eq!(texts(table), [["rtt 20ms", "virtual", "0.5", "0.4875", "-2.5 %, inside"]]);
}

#[test]
fn missing_measurements_are_no_zeros() {
    let experiment = with_expect("completion", "5%", "else = 'fail'", "{ rtt = '1ms', is = '25ms' }");
    let results = results(&experiment, "goodput", &[&[9e6, 9e6], &[1e6, 1e6]]);
    let section = section_of(&experiment, &results);
    let table = expected_table(&section);
    assert_eq!(table.head[2], "published (ms)");
    assert_eq!(texts(table), [["rtt 1ms", "virtual", "25", "", "not measured"]]);
    assert_eq!((table.rows[0][3].value, table.rows[0][4].mark), (None, Mark::Open));
}

#[test]
fn lost_packets_are_means_by_cause() {
    let experiment = experiment(RTT);
    let mut results = results(&experiment, "goodput", &[&[1e6, 2e6], &[1e6, 2e6]]);
    let cells = results.cells.clone();
    for (cell, rep, name, value) in [
        (0, 0, "link.forward.dropped-queue", 10.0),
        (0, 1, "link.forward.dropped-queue", 5.0),
        (1, 0, "link.forward.dropped-loss", 3.0),
        (1, 1, "link.forward.dropped-loss", 4.0),
        (1, 0, "link.reverse.dropped-loss", 0.0),
        (1, 1, "link.reverse.dropped-loss", 0.0),
        // The other repetition has no such metric: it lost none.
        (0, 0, "link.reverse.dropped-aqm", 3.0),
    ] {
        let records = results.records.get_mut(&cells[cell].id).expect("records");
        records.get_mut(&rep).expect("a record").metrics.insert(name.to_owned(), value);
    }
    let section = section_of(&experiment, &results);
    let table = section.losses.expect("packets were lost");
    let causes = ["link.forward.dropped-loss", "link.forward.dropped-queue", "link.reverse.dropped-aqm"];
    assert_eq!(table.head[1..], causes);
    let rows = [["rtt 1ms, virtual", "0", "7.5", "1.5"], ["rtt 20ms, virtual", "3.5", "0", "0"]];
    assert_eq!(texts(&table), rows);
    let none = section_of(&experiment, &self::results(&experiment, "goodput", &[&[1e6], &[1e6]]));
    assert_eq!(none.losses, None);
}

/// Effects of a 2x2 with a third of a percent of noise: sack doubles the goodput, the delay halves
/// it.
#[test]
fn effects_are_ratios_with_shares_and_verdicts() {
    let experiment = experiment(
        "flow.a.sack = ['off', 'on']\npath.rtt = ['1ms', '20ms']\n[[figure]]\nkind = 'marginals'\nof = 'goodput'\n",
    );
    let noisy = |base: f64, noise: [f64; 4]| noise.map(|noise| base * (1.0 + noise / 300.0));
    let cells = [
        noisy(4e6, [1.0, -1.0, 0.5, -0.5]),
        noisy(2e6, [-0.5, 0.5, 1.0, -1.0]),
        noisy(8e6, [0.5, 1.0, -1.0, -0.5]),
        noisy(4e6, [-1.0, -0.5, 1.0, 0.5]),
    ];
    let results = results(&experiment, "goodput", &[&cells[0], &cells[1], &cells[2], &cells[3]]);
    let section = section_of(&experiment, &results);
    let table = section.results.iter().find(|it| it.caption.starts_with("Effects on")).expect("a table");
    assert!(table.caption.contains("4 repetitions"), "{}", table.caption);
    let row = |name: &str| table.rows.iter().find(|row| row[0].text == name).expect("the effect");
    for (name, ratio, share, mark) in [
        ("sack", 2.0, 0.5, Mark::Good),
        ("rtt", 0.5, 0.5, Mark::Good),
        ("sack \u{d7} rtt", 1.0, 0.0, Mark::Open),
    ] {
        let row = row(name);
        assert!((row[1].value.expect("a ratio") - ratio).abs() < 0.01 * ratio, "{row:?}");
        assert!((row[2].value.expect("a share") - share).abs() < 0.001, "{row:?}");
        assert_eq!(row[3].mark, mark, "{row:?}");
    }
    assert!(row("sack")[1].text.starts_with("\u{d7} 2 ("), "{:?}", row("sack"));
    let shares: f64 = table.rows.iter().filter_map(|row| row[2].value).sum();
    near(shares, 1.0, 1e-9);
}

const ENGINES: &str = "schema = 1\nname = 'x'\ntitle = 'X'\nengine = ['virtual', 'kernel']\nfor = '1s'\n[path]\n\
                       rate = '8mbit'\n[[flow]]\nname = 'a'\nkind = 'tcp'\n[factors]\npath.rtt = ['1ms', '20ms']\n";

/// Returns results of both engines: goodput by cell of the plan.
fn both_engines(text: &str, values: &[&[f64]]) -> Results {
    let experiment = Experiment::from_toml(text).expect("an experiment");
    let plan = Plan::new(&experiment, &[]).expect("a plan");
    assert_eq!(plan.cells.len(), values.len());
    let mut results = Results { cells: plan.cells.clone(), ..Results::default() };
    for (cell, values) in plan.cells.iter().zip(values) {
        for (rep, value) in (0..).zip(*values) {
            let record: Record = record(cell, rep, &[("a.goodput", *value), ("b.goodput", *value)]);
            results.records.entry(cell.id).or_default().insert(rep, record);
        }
    }
    results
}

/// Welch's interval of the logarithms with scipy, as in `comparison.rs`.
#[test]
fn engines_are_compared_by_welchs_ratio() {
    let (virtual_time, kernel) = ([5.61, 5.55, 5.70, 5.48, 5.66, 5.59], [5.20, 5.95, 5.02, 5.61]);
    let results = both_engines(ENGINES, &[&virtual_time, &[8.0, 8.0], &kernel, &[7.6, 7.6]]);
    let all = agreements(&results);
    let ratio = all[0].ratio.expect("an interval");
    near(ratio.estimate, 1.030_330_432_607, 1e-9);
    near(ratio.low, 0.913_993_246_350, 1e-8);
    near(ratio.high, 1.161_475_541_089, 1e-8);
    assert_eq!(all[0].ratio_text(), "1.03 (0.914 to 1.161)");
    // 8 / 7.6 = 1.0526.
    near(all[1].quotient(), 1.052_631_578_947, 1e-9);
    assert_eq!(all.iter().map(Agreement::differs).collect::<Vec<_>>(), [false, true]);
    let sentence = sentence(&all).expect("two values");
    assert!(
        sentence.contains("1 of 2 values within 5 %; the largest difference has goodput [rtt=20ms]"),
        "{sentence}"
    );
}

#[test]
fn engines_without_a_common_cell_are_not_compared() {
    let results = both_engines(ENGINES, &[&[5.0, 5.1], &[5.0], &[], &[0.0, 0.0]]);
    assert!(agreements(&results).is_empty(), "a cell without values, and one without a ratio");
    let mut results = both_engines(ENGINES, &[&[5.0, 5.1], &[5.0, 5.2], &[6.0, 6.1], &[7.0, 7.1]]);
    results
        .cells
        .retain(|cell| cell.physics.engine == EngineKind::Kernel || cell.level("rtt") == Some("1ms"));
    let found = agreements(&results);
    let levels: Vec<_> = found.iter().map(|agreement| agreement.cell.level("rtt")).collect();
    assert_eq!(levels, [Some("1ms")]);
}

/// With several flows each flow is compared, but metrics that the records lack are left out.
#[test]
fn flows_are_compared_one_by_one() {
    let text = ENGINES.replace("[factors]", "[[flow]]\nname = 'b'\nkind = 'tcp'\n[factors]");
    let results = both_engines(&text, &[&[5.0, 5.1], &[5.0, 5.1], &[5.0, 5.1], &[5.0, 5.1]]);
    let found: Vec<String> = agreements(&results).iter().map(|it| it.metric.clone()).collect();
    assert_eq!(found, ["a.goodput", "b.goodput", "a.goodput", "b.goodput"]);
}

/// The digest of a cell covers the events of its repetitions in their order.
#[test]
fn cells_have_a_digest_of_their_events() {
    let experiment = experiment(RTT);
    let digests = |change: fn(&mut Results)| -> Vec<String> {
        let mut results = results(&experiment, "goodput", &[&[1e6, 2e6], &[1e6, 2e6]]);
        change(&mut results);
        let table = section_of(&experiment, &results).cells;
        table.lines().skip(1).map(|row| row.rsplit(',').next().expect("a digest").to_owned()).collect()
    };
    let plain = digests(|_| ());
    assert_eq!(plain[0], plain[1], "equal hashes in both cells");
    let changed = digests(|results| {
        let id = results.cells[0].id;
        results.records.get_mut(&id).expect("records").get_mut(&0).expect("a record").hash = Some(99);
    });
    assert!(changed[0] != plain[0] && changed[1] == plain[1], "{changed:?}");
}
