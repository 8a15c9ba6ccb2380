use tempfile::TempDir;

use super::super::html::{Report, html};
use super::super::palette::marker;
use super::super::scene::{Mark, Origin};
use super::super::text::text;
use super::*;
use crate::cell::EngineKind;
use crate::claim::judge;
use crate::engine::engine;
use crate::journal::write_series;
use crate::plan::Plan;
use crate::record::{Record, Status};

const FACTORIAL: &str = r#"
schema = 1
name = "sack-and-window"
title = "Selective ACKs and the initial window"
source = "report 000, table 1"
about = "One flow.\n\nA lossy link."
engine = "virtual"
for = "3s"

[path]
rtt = "10ms"
rate = "8mbit"
loss = "2.5%"
queue = "50p"

[[flow]]
name = "a"
cc = "reno"
bytes = "unbounded"

[factors]
"flow.a.recovery" = ["newreno", "rack"]
"flow.a.initial-window" = [1, 4]
"path.rate" = ["2mbit", "4mbit", "8mbit"]

[repeats]
least = 6
most = 6

[measure]
series = "100ms"

[[claim]]
id = "rate"
says = "A faster link carries more"
that = "goodput[rate=8mbit] > goodput[rate=2mbit]"

[[expect]]
source = "report 000"
of = "goodput"
values = [
  { recovery = "newreno", rate = "8mbit", is = "1.239mbit" },
  { recovery = "rack", rate = "8mbit", is = "1.7803mbit" },
]
compare = "ratio to recovery=newreno, rate=8mbit"
within = "10%"
else = "note"

[[figure]]
kind = "means"
of = "goodput"
x = "recovery"
by = "initial-window"

[[figure]]
kind = "lines"
of = "goodput"
x = "rate"
by = "recovery"
theory = ["link", "pftk"]

[[figure]]
kind = "marginals"

[[figure]]
kind = "half-normal"
only = { rate = "8mbit" }

[[figure]]
kind = "heat"
x = "rate"
by = "recovery"

[[figure]]
kind = "box"
x = "rate"

[[figure]]
kind = "cdf"
by = "recovery"
of = ["goodput", "resumed"]

[[figure]]
kind = "series"
panel = "recovery"

[[figure]]
kind = "share"

[[figure]]
kind = "ellipse"
x = "recovery"

[[figure]]
kind = "interaction"
x = "recovery"
by = "rate"

[[statement]]
number = 1
kind = "error"
at = "000-A"
says = "The rate of the link does not matter."
so = "It does."
shows = ["8 / 2 = 4", "goodput[rate=8mbit] / goodput[rate=2mbit]"]

[[figure]]
kind = "sequence"
only = { recovery = "newreno", initial-window = 4, rate = "8mbit" }
"#;

/// Runs an experiment. The folder has its series.
fn run(toml: &str) -> (Experiment, Results, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiment = Experiment::from_toml(toml).expect("an experiment");
    let plan = Plan::new(&experiment, &[]).expect("a plan");
    let engine = engine(EngineKind::Virtual).expect("runs here");
    let (cells, kept) = (plan.cells.clone(), Some(folder.path().to_owned()));
    let mut results = Results { cells, folder: kept, ..Results::default() };
    for cell in plan.distinct() {
        for rep in 0..experiment.repeats.least {
            let seed = plan.seed(cell, rep);
            let run = engine
                .run(cell, seed, &experiment.measure, &rdt_program::Stop::default(), None)
                .expect("runs");
            let record = Record {
                cell: cell.id,
                rep,
                seed,
                engine: EngineKind::Virtual,
                physics: 1,
                experiment: experiment.name.clone(),
                factors: cell.factors.clone(),
                metrics: run.metrics,
                hash: run.hash,
                status: Status::Ok,
                block: None,
                wall_ms: 0,
                tool: "0.1.0".to_owned(),
                host: "here".to_owned(),
            };
            results.records.entry(cell.id).or_default().insert(rep, record);
            if rep == 0 {
                write_series(folder.path(), cell.id, rep, &run.series).expect("a written series");
            }
        }
    }
    (experiment, results, folder)
}

fn judged(experiment: &Experiment, results: &Results) -> Vec<Judgement> {
    judge(&experiment.claims, results, EngineKind::Virtual, &|_| 0.05)
}

fn sections() -> Section {
    let (experiment, results, _folder) = run(FACTORIAL);
    let judgements = judged(&experiment, &results);
    let command = "rdt-lab run sack-and-window";
    section(&Subject { experiment: &experiment, results: &results, judgements: &judgements, command })
}

#[test]
fn measured_steps_of_statements_have_their_values() {
    let section = sections();
    let [arithmetic, measured] = &section.statements[0].shows[..] else { panic!("two steps") };
    assert_eq!(arithmetic.text, "8 / 2 = 4");
    let (expression, value) = measured.text.split_once(" = ").expect("a value");
    assert_eq!(expression, "goodput[rate=8mbit] / goodput[rate=2mbit]");
    let ratio: f64 = value.strip_suffix(" (virtual)").and_then(|it| it.parse().ok()).expect("a number");
    assert!((1.2..4.0).contains(&ratio), "{value}");
}

fn scene<'a>(section: &'a Section, id: &str) -> &'a Scene {
    let found = section.figures.iter().find(|scene| scene.id == format!("sack-and-window-{id}"));
    found.unwrap_or_else(|| {
        panic!("figure {id} of {:?}", section.figures.iter().map(|s| &s.id).collect::<Vec<_>>())
    })
}

#[test]
fn results_become_a_report() {
    let section = sections();
    let means = scene(&section, "1");
    let names: Vec<&str> = means.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["initial-window 1", "initial-window 4"], "values for one rate are not drawn in");
    let rows: Vec<_> = means.layers().flat_map(|(_, layer)| &layer.rows).collect();
    assert!(rows.len() == 4 && rows.iter().all(|row| row.n == Some(6) && row.low < Some(row.y)));

    let lines = scene(&section, "2");
    assert_eq!(lines.panels.len(), 2, "rates and residuals");
    let link = lines
        .series
        .iter()
        .filter(|it| it.origin == Origin::Theory && it.name == "payload that the link carries")
        .count();
    assert_eq!(link, 1, "equal predictions share a curve: {:?}", lines.series);
    assert!(lines.panels[0].x.ticks.iter().map(|tick| tick.label.as_str()).eq(["2", "4", "8"]));
    assert_eq!(lines.panels[0].x.label, "rate (Mbit/s)");
    assert_eq!(lines.series.iter().filter(|it| it.origin == Origin::Published).count(), 2);

    let effects = scene(&section, "4");
    assert_eq!(effects.panels[0].layers.iter().map(|layer| layer.rows.len()).sum::<usize>(), 3);
    assert_eq!(scene(&section, "5").layers().map(|(_, layer)| layer.rows.len()).sum::<usize>(), 6);
    let series = scene(&section, "8-2");
    assert!(series.title.contains("recovery rack") && series.panels.len() == 2, "{}", series.title);
    let lengths: Vec<usize> = series.panels[0].layers.iter().map(|layer| layer.rows.len()).collect();
    assert!(series.panels[0].layers.iter().all(|layer| layer.mark == Mark::Bins(0.1)));
    assert!(lengths.iter().all(|bins| (30..=31).contains(bins)), "3 s in bins of 0.1 s: {lengths:?}");

    let sequence = &scene(&section, "12").panels[0];
    let [read, sent] = [0, 1].map(|i| &sequence.layers.iter().rev().nth(1 - i).expect("two lines").rows);
    assert!(read.windows(2).all(|pair| pair[0].y <= pair[1].y), "{read:?}");
    assert!(read.iter().zip(sent).all(|(read, sent)| !sent.y.is_finite() || read.y <= sent.y));

    let effects = section.results.iter().find(|table| table.caption.starts_with("Effects on goodput"));
    let effects = &effects.expect("a table of effects").rows;
    assert_eq!(effects.len(), 3 + 3 + 1, "main effects, interactions of two, the rest");
    assert_eq!(effects[0][0].text, "rate", "the largest share comes first");
    assert!(effects[0][3].mark == super::super::section::Mark::Good && effects[0][1].text.is_empty());
    let shares: f64 = effects.iter().filter_map(|row| row[2].value).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");

    let expected = section
        .results
        .iter()
        .find(|table| table.caption.contains(". Published: report 000. Tolerance 10 %"));
    assert_eq!(expected.map(|table| table.rows.len()), Some(2));
    assert!(section.losses.as_ref().is_some_and(|table| table.head.iter().any(|name| name.contains("loss"))));
    assert_eq!(section.raw.lines().count(), 12 * 6 + 1);
    assert!(
        section.run[0].contains("12 cells, each with 6 repetitions (a fixed number)"),
        "{:?}",
        section.run
    );
    let absent = section.run.last().expect("sentences");
    assert!(absent.starts_with("A figure lacks resumed, "), "{absent}");
}

#[test]
fn report_is_the_same_every_time() {
    let page = || {
        let title = "Selective ACKs".to_owned();
        Report { title, sections: vec![sections()] }
    };
    let first = page();
    assert_eq!(html(&first), html(&page()));
    assert!(html(&first).contains("1 claim holds, 0 undecided, 0 fail"));
    assert!(text(&first).contains("\u{2713} A faster link carries more: holds"));
    assert!(html(&first).len() < 300_000);
    if let Some(path) = std::env::var_os("RDT_LAB_REPORT") {
        std::fs::write(path, html(&first)).expect("a file");
    }
}

#[test]
fn equal_repetitions_have_no_interval() {
    let plain = FACTORIAL.replace("loss = \"2.5%\"\n", "").replace("for = \"3s\"", "for = \"1s\"");
    let (experiment, results, _folder) = run(&plain);
    let subject = Subject { experiment: &experiment, results: &results, judgements: &[], command: "" };
    let section = section(&subject);
    assert!(section.run[1].starts_with("In 12 of these cells nothing is random"), "{:?}", section.run);
    let means = &section.figures[0];
    assert!(
        means.layers().flat_map(|(_, layer)| &layer.rows).all(|row| row.low.is_none() && row.n == Some(1))
    );
}

/// Returns the table of cells of an experiment whose first repetition alone has a metric.
fn table_with_partial(metric: &str, values: &[Option<f64>]) -> (Vec<String>, String, Vec<String>) {
    let text = "schema = 1\nname = 'x'\ntitle = 'x'\nengine = 'virtual'\nfor = '9s'\n[path]\nrate = '8mbit'\n\
                [[flow]]\nname = 'one'\n[[flow]]\nname = 'two'\nstart = '1s'\n[repeats]\nuntil = '2% of one.goodput'\n\
                [[figure]]\nkind = 'table'\nof = ['two.convergence']\n";
    let experiment = Experiment::from_toml(text).expect("an experiment");
    let plan = Plan::new(&experiment, &[]).expect("a plan");
    let mut results = Results { cells: plan.cells.clone(), ..Results::default() };
    let cell = &plan.cells[0];
    for (rep, value) in (0..).zip(values) {
        let mut record = Record::of(cell, rep, "one.goodput", 1e6 * f64::from(rep + 1));
        record.metrics.extend(value.map(|value| (metric.to_owned(), value)));
        results.records.entry(cell.id).or_default().insert(rep, record);
    }
    let section =
        section(&Subject { experiment: &experiment, results: &results, judgements: &[], command: "" });
    let table = &section.results[0];
    let row = table.rows[0].iter().map(|entry| entry.text.clone()).collect();
    (row, table.caption.clone(), section.run)
}

#[test]
fn metric_that_repetitions_lack_has_no_mean_over_the_others() {
    let of = |values: &[Option<f64>]| table_with_partial("two.convergence", values);
    let (row, caption, told) = of(&[Some(3.928), None, None, None, None]);
    assert_eq!(row.last().expect("a metric"), "missing in 4 of 5, else 3.928 s");
    assert_eq!(caption, "Means", "no column has an interval");
    let lacks = "In 1 of these cells some repetitions lack two.convergence: ";
    assert!(told.iter().any(|it| it.starts_with(lacks)), "{told:?}");
    let wide =
        "In 1 of 1 cells the 95 % interval of one.goodput did not get within 2 % of its mean; the widest is ";
    assert!(told.iter().any(|it| it.starts_with(wide)), "{told:?}");
    let (row, ..) = of(&[Some(3.0), None, Some(4.5), None, None]);
    assert_eq!(row.last().expect("a metric"), "missing in 3 of 5, else 3 s to 4.5 s");
    let (row, caption, _) = of(&[Some(3.0), Some(4.0), Some(3.5), Some(3.2), Some(3.1)]);
    assert!(row.last().expect("a metric").starts_with("3.36 \u{b1} "), "{row:?}");
    assert_eq!(caption, "Means with 95 % intervals");
}

#[test]
fn experiment_without_figures_has_the_obvious_one() {
    let head = "schema = 1\nname = 'x'\ntitle = 'x'\nengine = 'virtual'\nfor = '2s'\n[path]\nrtt = '50ms'\nrate = '1gbit'\n\
                [[flow]]\nname = 'a'\n[repeats]\nleast = 2\nmost = 2\n";
    let figure = |tail: &str| {
        let (experiment, results, _folder) = run(&format!("{head}{tail}"));
        let subject = Subject { experiment: &experiment, results: &results, judgements: &[], command: "" };
        let scenes = figures(&subject);
        let [scene] = &scenes[..] else { panic!("{} figures", scenes.len()) };
        let named = |origin: Origin| {
            scene.series.iter().filter(|it| it.origin == origin).map(|it| it.name.clone()).collect::<Vec<_>>()
        };
        (scene.title.clone(), named(Origin::Theory), named(Origin::Measured))
    };
    let (title, theory, _) = figure("[factors]\nflow.a.cc = ['fixed:1', 'fixed:2', 'fixed:4', 'fixed:8']\n");
    assert_eq!((title.as_str(), theory), ("goodput by cc", vec!["min(window / RTT, link)".to_owned()]));
    let (title, _, measured) =
        figure("[factors]\nflow.a.cc = ['reno', 'cubic']\nflow.a.sack = ['off', 'on']\n");
    assert_eq!((title.as_str(), measured.len()), ("goodput by cc", 2), "{measured:?}");
    let claim = "[[claim]]\nid = 'c'\nsays = 's'\nthat = 'rtt-mean < 1s'\n";
    assert_eq!(figure(&format!("[factors]\npath.rtt = ['20ms', '40ms']\n{claim}")).0, "rtt-mean by rtt");
    assert_eq!(figure("").0.split(',').next(), Some("goodput over time"));
}

const SWEEP: &str = "schema = 1\nname = 'x'\ntitle = 'x'\nengine = 'virtual'\nfor = '1s'\n[path]\nrate = '8mbit'\n\
    rtt = '50ms'\n[[flow]]\nname = 'a'\nkind = 'tcp'\n[factors]\nflow.a.receiver.window = [5000, 10000, 60000]\n\
    [[expect]]\nsource = 'report 1'\nof = 'goodput'\nwithin = '5%'\nvalues = [\n\
    { window = 5000, is = '700kbit' }, { window = 60000, is = '7mbit' }]\n\
    [[expect]]\nsource = 'report 2'\nof = 'goodput'\nwithin = '5%'\nvalues = [{ window = 10000, is = '1.6mbit' }]\n\
    [[figure]]\nkind = 'lines'\nof = 'goodput'\nx = 'window'\ntheory = ['window', 'window-over-rtt']\n\
    [[figure]]\nkind = 'means'\nof = 'goodput'\nx = 'window'\n";

/// Returns the section of a sweep of three windows with goodputs of 0.8, 1.6 and 7.7 Mbit/s.
fn sweep() -> Section {
    let experiment = Experiment::from_toml(SWEEP).expect("an experiment");
    let cells = Plan::new(&experiment, &[]).expect("a plan").cells;
    let mut results = Results { cells, ..Results::default() };
    for (cell, goodput) in results.cells.iter().zip([0.8e6, 1.6e6, 7.7e6]) {
        let record = Record::of(cell, 0, "a.goodput", goodput);
        results.records.entry(cell.id).or_default().insert(0, record);
    }
    section(&Subject { experiment: &experiment, results: &results, judgements: &[], command: "" })
}

#[test]
fn each_published_source_has_a_marker_of_its_own() {
    for scene in &sweep().figures {
        let of = |origin| scene.series.iter().filter(move |it| it.origin == origin);
        let published: Vec<_> = of(Origin::Published).map(|it| marker(it.look)).collect();
        let [one, two] = published[..] else { panic!("two sources: {:?}", scene.series) };
        assert_ne!(one, two, "{}", scene.id);
        assert!(of(Origin::Measured).all(|it| marker(it.look) != one && marker(it.look) != two));
    }
}

#[test]
fn legends_and_axes_say_what_they_show() {
    let section = sweep();
    let [lines, means] = &section.figures[..] else { panic!("two figures") };
    let models: Vec<&str> =
        lines.series.iter().filter(|it| it.origin == Origin::Theory).map(|it| it.name.as_str()).collect();
    assert_eq!(models, ["min(window / RTT, link)", "window / RTT"]);
    for scene in [lines, means] {
        assert_eq!(scene.panels[0].x.label, "window (bytes)");
    }
    let faint: Vec<usize> =
        lines.panels[0].layers.iter().filter(|it| it.muted).map(|it| it.rows.len()).collect();
    assert_eq!(faint, [2], "window / RTT does not hold where the link is full");
}

#[test]
fn columns_have_one_unit() {
    let section = sweep();
    let [means, first, second] = &section.results[..] else { panic!("{:?}", section.results) };
    assert!(means.head.contains(&"goodput (Mbit/s)".to_owned()), "{:?}", means.head);
    let column = |table: &super::super::section::Table, name: &str| -> Vec<String> {
        let at = table.head.iter().position(|it| it == name).unwrap_or_else(|| panic!("{:?}", table.head));
        table.rows.iter().map(|row| row[at].text.clone()).collect()
    };
    assert_eq!(column(means, "goodput (Mbit/s)"), ["0.8", "1.6", "7.7"]);
    assert_eq!(column(first, "published (Mbit/s)"), ["0.7", "7"]);
    assert_eq!(column(first, "measured (Mbit/s)"), ["0.8", "7.7"]);
    assert_eq!(column(first, "difference"), ["+14.3 %, outside", "+10 %, outside"]);
    assert_eq!(column(second, "difference"), ["0 %, inside"]);
}
