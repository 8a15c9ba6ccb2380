use std::time::Duration;

use super::*;
use crate::flow::Reads;
use crate::plan::Plan;
use crate::results::Results;

/// The example of the chapter on experiment files.
const EXAMPLE: &str = r#"schema = 1
name = "sack-and-window"
title = "Selective ACKs and the initial window on a lossy radio link"
source = "report 000, table 1"
engine = ["virtual", "kernel"]
for = "99s"

[path]
rtt = "10ms"
rate = "8mbit"
loss = "2.5%"
queue = "50p"

[[flow]]
name = "a"
kind = "rdt"
cc = "reno"
bytes = "unbounded"
start = "0s"

[factors]
"flow.a.sack" = ["off", "on"]
"flow.a.initial-window" = [1, 4]
"flow.a.loss-window" = [1, "initial"]

[design]
kind = "full"
seeds = "common"
seed = 1

[repeats]
least = 10
most = 400
until = "2% of goodput"

[measure]
warm-up = "auto"
series = "25ms"
keep-series = "first"

[[claim]]
id = "sack-beats-window"
says = "SACK helps more than a larger initial window"
that = "goodput[sack=on, initial-window=1] > goodput[sack=off, initial-window=4]"

[[expect]]
source = "report 000"
of = "goodput"
values = [
    { sack = "off", initial-window = 1, is = "1.2390mbit" },
    { sack = "on", initial-window = 4, is = "1.9202mbit" },
]
compare = "ratio to sack=off, initial-window=1"
within = "10%"
else = "note"

[[figure]]
kind = "means"
of = "goodput"
x = "sack"
by = "initial-window"
theory = ["pftk"]
"#;

fn example_with(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "the example has no {from}");
    EXAMPLE.replacen(from, to, 1)
}

fn error(text: &str) -> String {
    match Experiment::from_toml(text) {
        Ok(experiment) => Plan::new(&experiment, &[]).expect_err("an error is wanted").to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn example_gives_eight_cells_per_engine() {
    let experiment = Experiment::from_toml(EXAMPLE).expect("the example");
    assert_eq!(experiment.repeats.until, Until::Width { share: 0.02, of: "goodput".to_owned() });
    assert_eq!(experiment.measure.warm_up, WarmUp::Auto);
    assert_eq!(experiment.measure.series, Duration::from_millis(25));
    let values = &experiment.expects[0].values;
    assert_eq!((values[0].is, values[1].is), (1_239_000.0, 1_920_200.0));
    assert!(matches!(&experiment.expects[0].compare, Compare::RatioTo(cell) if cell.0.len() == 2));
    let plan = Plan::new(&experiment, &[]).expect("a plan");
    assert_eq!(plan.cells.len(), 16);
    assert_eq!(plan.distinct().count(), 16);
    let levels = |cell: &crate::Cell| cell.factors.iter().map(|(_, level)| level.clone()).collect::<Vec<_>>();
    assert_eq!(levels(&plan.cells[1]), ["off", "1", "initial"], "the last factor changes fastest");
    assert_eq!(plan.cells[0].physics.flows[0].recovery.as_deref(), Some("newreno"));
    assert_eq!(plan.cells[4].physics.flows[0].recovery, None);
    assert_eq!(plan.cells[8].physics.engine, EngineKind::Kernel);
}

/// A text of the example, the text that replaces it, and the beginning of the error.
const ERRORS: &[(&str, &str, &str)] = &[
    (
        "loss = \"2.5%\"",
        "los = \"2.5%\"",
        "line 11, column 1: path: there is no key 'los'; did you mean 'loss'?",
    ),
    ("loss = \"2.5%\"", "loss = \"250%\"", "line 11, column 8: path.loss: '250%' is out of range: "),
    ("rate = \"8mbit\"", "rate = 8", "line 10, column 8: path.rate: '8' has no unit: write 8bit"),
    ("[measure]", "[mesure]", "line 36, column 2: there is no word 'mesure'; did you mean 'measure'?"),
    (
        "cc = \"reno\"",
        "c = \"reno\"",
        "line 17, column 1: a: there is no word 'c' of flows; did you mean 'cc'?",
    ),
    ("kind = \"rdt\"", "kind = \"udp\"", "line 17, column 6: a.cc: a udp flow has no cc: "),
    (
        "kind = \"rdt\"\ncc = \"reno\"",
        "kind = \"classic\"\necn = \"on\"",
        "line 17, column 7: a.ecn: a classic flow has no ecn: ",
    ),
    (
        "cc = \"reno\"",
        "on-off = \"0s/1s\"",
        "line 17, column 10: flow.on-off: '0s/1s' never writes: the first time is above 0",
    ),
    (
        "[\"off\", \"on\"]",
        "[\"off\", \"onn\"]",
        "line 22, column 25: flow.a.sack: 'onn' is not on or off (it is on or off)",
    ),
    ("[\"off\", \"on\"]", "[]", "line 22, column 17: flow.a.sack: a factor has at least one level"),
    (
        "[\"off\", \"on\"]",
        "\"off\"",
        "line 22, column 17: flow.a.sack: a factor is a list of levels: write [off]",
    ),
    (
        "[\"off\", \"on\"]",
        "[\"on\", \"on\"]",
        "line 22, column 24: flow.a.sack: the level 'on' is there twice",
    ),
    ("flow.a.sack", "flow.b.sack", "line 22, column 1: flow.b.sack: there is no flow 'b'; did you mean 'a'?"),
    (
        "flow.a.sack",
        "flow.a.sac",
        "line 22, column 1: flow.a.sac: there is no word 'sac' of flows; did you mean 'sack'?",
    ),
    ("flow.a.sack", "fow.a.sack", "line 22, column 1: fow.a.sack: nothing uses 'fow'; did you mean 'flow'?"),
    (
        "flow.a.sack",
        "command.x",
        "line 22, column 1: command.x: nothing uses it: the experiment does not run with engine command",
    ),
    ("flow.a.sack", "link.1.rate", "line 22, column 1: link.1.rate: there is no link 1; write path.rate"),
    (
        "kind = \"full\"",
        "kind = \"ful\"",
        "line 27, column 8: design.kind: there is no design 'ful'; did you mean 'full'?",
    ),
    (
        "kind = \"full\"",
        "generators = []",
        "line 27, column 1: nothing uses generators: write kind = \"fraction\"",
    ),
    ("seed = 1", "seed = -1", "line 29, column 8: design.seed: '-1' is not a whole number in range"),
    (
        "least = 10",
        "least = 500",
        "line 31, column 2: repeats: least is 500 and most is 400: write 1 <= least <= most",
    ),
    (
        "2% of goodput",
        "2%",
        "line 34, column 9: repeats.until: '2%' is not \"claims\", \"least\" or such as \"2% of goodput\"",
    ),
    (
        "theory = [\"pftk\"]",
        "theory = [\"pftj\"]",
        "line 62, column 11: figure.theory: there is no model 'pftj'; did you mean 'pftk'?",
    ),
    (
        "theory = [\"pftk\"]",
        "theory = [\"slow-start\"]",
        "line 62, column 11: figure.theory: nothing uses it: slow-start is a model of completion, which is not shown",
    ),
    (
        "kind = \"means\"",
        "kind = \"box\"",
        "line 62, column 11: figure.theory: nothing uses it: a figure of the kind box has no models",
    ),
    (
        "kind = \"means\"",
        "kind = \"marginals\"",
        "line 60, column 5: figure.x: nothing uses it: a figure of the kind marginals has all factors",
    ),
    (
        "x = \"sack\"",
        "x = \"sock\"",
        "line 60, column 5: figure.x: there is no factor 'sock'; did you mean 'sack'?",
    ),
    (
        "kind = \"means\"",
        "kind = \"meens\"",
        "line 58, column 8: figure.kind: there is no 'meens' here; did you mean 'means'?",
    ),
    (
        "ratio to sack=off",
        "ratio to sack=of",
        "line 53, column 11: expect.compare: 'of' is no level of sack; did you mean 'off'?",
    ),
    (
        "{ sack = \"on\",",
        "{ sack = \"maybe\",",
        "line 51, column 14: expect.values.sack: 'maybe' is no level of sack; known are off, on",
    ),
    (
        "1.2390mbit",
        "fast",
        "line 50, column 46: expect.values.is: 'fast' is no value: write such as 1.2mbit, 25ms, 16kib or 0.5",
    ),
    ("id = \"sack-beats-window\"", "", "line 41, column 1: claim: the word 'id' is missing"),
    (
        "name = \"sack-and-window\"",
        "name = \"SACK\"",
        "line 2, column 8: name: 'SACK' is no name: use small letters",
    ),
    ("for = \"99s\"", "", "line 14, column 1: flow a: it never ends: write bytes or stop"),
    (
        "goodput[sack=on, initial",
        "goodput[sock=on, initial",
        "line 44, column 8: claim.that: there is no factor 'sock'; did you mean 'sack'?",
    ),
    ("initial-window=1] >", "initial-window=1] =", "line 44, column 44: claim.that: "),
    ("schema = 1", "schema = 2", "line 1, column 10: schema: this program reads schema = 1"),
    (
        "rtt = \"10ms\"",
        "rtt = \"10ms\"\ndelay = \"5ms\"",
        "line 10, column 9: path: rtt and delay exclude each other",
    ),
    ("queue = \"50p\"", "seed = 7", "line 12, column 1: path: the seeds come from the plan"),
    (
        "cc = \"reno\"",
        "recovery = \"rack\"",
        "line 22, column 18: flow a: sack = off excludes recovery = rack",
    ),
];

#[test]
fn errors_name_line_column_and_nearest_word() {
    let mut wrong = Vec::new();
    for (from, to, wanted) in ERRORS {
        let found = error(&example_with(from, to));
        if !found.starts_with(wanted) {
            wrong.push(format!("{to}:\n  found  {found}\n  wanted {wanted}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn factor_without_effect_is_an_error() {
    let text =
        example_with("\"flow.a.loss-window\" = [1, \"initial\"]", "\"path.mtu\" = [\"none\", \"NONE\"]");
    let wanted = "line 24, column 1: path.mtu: nothing uses this factor: its levels are the same cell";
    assert_eq!(error(&text), wanted);
    let text = example_with("flow.a.loss-window\" = [1, \"initial\"]", "flow.*.sack\" = [\"on\", \"off\"]");
    let wanted =
        "line 24, column 1: flow.*.sack: the factor flow.a.sack sets sack too: one would have no effect";
    assert_eq!(error(&text), wanted);
}

#[test]
fn levels_may_set_several_words() {
    let levels = "place = [\n    { name = \"data\", path.loss = \"5%/0\", for = \"10s\" },\n    { name = \"acks\", path.loss = \"0/5%\" },\n]";
    let text = example_with("\"flow.a.sack\" = [\"off\", \"on\"]", levels);
    let (text, _) = text.split_once("[[claim]]").expect("a claim");
    let experiment = Experiment::from_toml(text).expect("a file");
    let plan = Plan::new(&experiment, &[EngineKind::Virtual]).expect("a plan");
    assert_eq!(plan.cells.len(), 8);
    assert_eq!(plan.cells[0].level("place"), Some("data"));
    assert_eq!(plan.cells[0].physics.duration, Some(Duration::from_secs(10)));
    assert_eq!(plan.cells[4].physics.duration, Some(Duration::from_secs(99)));
    assert!(plan.cells[4].physics.links[0].to_toml().ends_with("[reverse]\nloss = \"0.05\"\n"));
    let wrong = error(&text.replace("path.loss = \"0/5%\"", "path.los = \"0/5%\""));
    let wanted =
        "line 24, column 27: place, level acks: path.los: there is no key 'los'; did you mean 'loss'?";
    assert_eq!(wrong, wanted);
    let wrong = error(&text.replace("name = \"acks\", ", ""));
    assert_eq!(wrong, "line 24, column 5: place: the level has no name: write name = \"...\"");
}

#[test]
fn flow_words_become_fields() {
    let words = "reverse = true\nstart = \"0s..100ms\"\nstop = \"60s\"\nrate = \"1mbit\"\non-off = \"1s/2s\"\nmin-rto = \"1s\"\n\
                 pacing = \"off\"\nreceiver = { window = \"16kib\", ack = \"2/25ms\", stall = \"10s..11.2s\" }";
    let experiment = Experiment::from_toml(&example_with("start = \"0s\"", words)).expect("a file");
    let plan = Plan::new(&experiment, &[]).expect("a plan");
    let flow = &plan.cells[0].physics.flows[0];
    assert_eq!(flow.start, (Duration::ZERO, Duration::from_millis(100)));
    assert_eq!(flow.on_off, Some((Duration::from_secs(1), Duration::from_secs(2))));
    assert_eq!((flow.rate, flow.window, flow.reverse), (Some(1_000_000), Some(16_384), true));
    assert_eq!(flow.ack, Some((2, Duration::from_millis(25))));
    assert_eq!(flow.reads, Reads::Stalled(Duration::from_secs(10), Duration::from_millis(1_200)));
    assert_eq!((flow.pacing, flow.min_rto), (Some(false), Some(Duration::from_secs(1))));
}

#[test]
fn count_numbers_flows() {
    let text = r#"
        schema = 1
        name = "mix"
        title = "One TCP flow beside some of datagrams"
        engine = "virtual"
        for = "60s"
        [[link]]
        rate = "100mbit"
        [[link]]
        rate = "8mbit"
        [[flow]]
        name = "tcp"
        kind = "tcp"
        [[flow]]
        name = "udp"
        kind = "udp"
        rate = "10mbit"
        size = 1470
        [factors]
        flow.udp.count = [0, 1, 3]
        link.2.loss = ["none", "1%"]
        "flow.*.cc" = ["reno", "cubic"]
    "#;
    let plan = Plan::new(&Experiment::from_toml(text).expect("a file"), &[]).expect("a plan");
    let names: Vec<&str> = plan.cells[11].physics.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["tcp", "udp1", "udp2", "udp3"]);
    let cell = &plan.cells[11];
    assert_eq!(cell.factors[0], ("count".to_owned(), "3".to_owned()));
    assert_eq!(cell.physics.flows[0].cc.as_deref(), Some("cubic"));
    assert_eq!(cell.physics.links.len(), 2);
    assert!(cell.physics.links[1].to_toml().contains("loss"));
}

#[test]
fn short_names_are_paths_where_ambiguous() {
    let text = example_with(
        "\"flow.a.initial-window\" = [1, 4]",
        "path.forward.mtu = [1500, 1000]\npath.reverse.mtu = [1500, 1000]",
    );
    let (text, _) = text.split_once("[[claim]]").expect("a claim");
    let experiment = Experiment::from_toml(text).expect("a file");
    let names: Vec<&str> = experiment.factors.iter().map(|factor| factor.name.as_str()).collect();
    assert_eq!(names, ["sack", "path.forward.mtu", "path.reverse.mtu", "loss-window"]);
}

#[test]
fn command_words_are_part_of_physics() {
    let text = r#"
        schema = 1
        name = "homework"
        title = "A program"
        engine = "command"
        [command]
        program = "./a.out --cc {cc}"
        metrics = { "a.goodput" = "/end/bps" }
        cc = "reno"
        [factors]
        command.cc = ["reno", "cubic"]
    "#;
    let experiment = Experiment::from_toml(text).expect("a file");
    assert_eq!(experiment.command.as_ref().map(|it| it.metrics.len()), Some(1));
    let plan = Plan::new(&experiment, &[]).expect("a plan");
    let words = &plan.cells[1].physics.engine_words;
    assert!(words.contains(&("cc".to_owned(), "cubic".to_owned())), "{words:?}");
    assert_eq!(plan.distinct().count(), 2);
}

#[test]
fn builtin_experiments_can_be_planned() {
    let mut wrong = Vec::new();
    let mut numbers = Vec::new();
    for builtin in builtin() {
        match Experiment::from_toml(builtin.text) {
            Err(error) => wrong.push(format!("{}: {error}\n", builtin.id)),
            Ok(experiment) => {
                assert_eq!(experiment.name.to_ascii_uppercase(), builtin.id);
                if let Err(error) = Plan::new(&experiment, &[]) {
                    wrong.push(format!("{}: {error}\n", builtin.id));
                }
                numbers.extend(experiment.statements.iter().map(|statement| statement.number));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=45).collect::<Vec<u32>>(), "each statement is at one experiment");
    assert_eq!(find_builtin("000-a").map(|builtin| builtin.id), Some("000-A"));
}

#[test]
fn builtin_claims_and_expected_values_have_cells() {
    for builtin in builtin() {
        let experiment = Experiment::from_toml(builtin.text).expect("a file");
        let plan = Plan::new(&experiment, &[]).expect("a plan");
        let results = Results { cells: plan.cells.clone(), ..Results::default() };
        let of = |engines: &[EngineKind]| match engines {
            [] => experiment.engines.clone(),
            engines => engines.to_vec(),
        };
        for claim in &experiment.claims {
            let is_there = |engine: &EngineKind| !claim.cells(&results, *engine).is_empty();
            assert!(of(&claim.engines).iter().any(is_there), "{}: {}", builtin.id, claim.id);
        }
        for (expect, value) in experiment.expects.iter().flat_map(|it| it.values.iter().map(move |v| (it, v)))
        {
            let is_there = |engine: &EngineKind| results.cells(*engine, &value.levels).next().is_some();
            let found = of(&expect.engines).iter().any(is_there);
            assert!(found, "{}: {} {:?}", builtin.id, expect.source, value.levels);
        }
    }
}

#[test]
fn arithmetic_of_statements_is_checked() {
    let statement = |shows: &str| {
        format!(
            "{EXAMPLE}\n[[statement]]\nnumber = 1\nkind = \"error\"\nat = \"x\"\nsays = \"y\"\nso = \"z\"\nshows = {shows}"
        )
    };
    let good = r#"["512 * 8 / 1.089 = 3761", "2 * 1428 * 8 / 23.49mbit = 973us", "in words", "1e3 / 7 = 0.143e3",
        "goodput[sack=on] / goodput[sack=off]"]"#;
    let experiment = Experiment::from_toml(&statement(good)).expect("a file");
    let measured: Vec<bool> = experiment.statements[0].shows.iter().map(|it| it.measured.is_some()).collect();
    assert_eq!(measured, [false, false, false, false, true]);
    let wrong = error(&statement("\"512 * 8 / 1.089 = 3762\""));
    assert!(wrong.starts_with("line 70, column 9: statement.shows: 512 * 8 / 1.089 is 3761.2"), "{wrong}");
    let wrong = error(&statement("\"1 + 1 = two\""));
    assert!(
        wrong.ends_with("write numbers and + - * / on the left of '=', and one number on the right"),
        "{wrong}"
    );
    let wrong = error(&statement("\"goodput[sack=maybe]\""));
    assert!(wrong.contains("'maybe' is no level of sack"), "{wrong}");
}

#[test]
fn captures_keep_headers_unless_told_otherwise() {
    let with = |words: &str| example_with("[measure]", &format!("[measure]\n{words}"));
    let snaplen = |words: &str| Experiment::from_toml(&with(words)).expect("a file").measure.snaplen;
    assert_eq!([snaplen("capture = true"), snaplen("capture = true\nsnaplen = 0")], [128, 0]);
    let unused = error(&with("snaplen = 256"));
    assert!(unused.contains("nothing uses it: write capture = true"), "{unused}");
}

#[test]
fn kernel_cells_may_use_ipv6() {
    let with = |value: &str| example_with("[design]", &format!("[kernel]\nipv6 = \"{value}\"\n\n[design]"));
    let experiment = Experiment::from_toml(&with("on")).expect("a file");
    let plan = Plan::new(&experiment, &[EngineKind::Kernel]).expect("a plan");
    assert_eq!(plan.cells[0].physics.engine_words, [("ipv6".to_owned(), "on".to_owned())]);
    let wrong = error(&with("yes"));
    assert!(wrong.contains("'yes' is not on or off"), "{wrong}");
}

#[test]
fn options_complete_values_of_paths() {
    let (text, _) = EXAMPLE.split_once("[[claim]]").expect("a claim");
    let text = text.replace("rate = \"8mbit\"", "rate = \"wifi-a\"");
    let factors = "path.rate.rate = [\"6mbit\", \"54mbit\"]\npath.rate.rts = [\"off\", 1000]";
    let options = text.replace("\"flow.a.initial-window\" = [1, 4]", factors);
    let plan = Plan::new(&Experiment::from_toml(&options).expect("a file"), &[]).expect("a plan");
    assert_eq!(plan.cells[0].level("rts"), Some("off"));
    assert!(plan.cells[2].physics.links[0].to_toml().contains("rate = \"wifi-a:rate=6mbit,rts=1000\""));
    let wrong = error(&options.replace("54mbit", "55mbit"));
    assert!(wrong.starts_with("line 23, column 28: path: 'rate=55mbit' is not a rate of 802.11"), "{wrong}");
    let wrong = error(&options.replace("path.rate.rate", "path.mtu.rate"));
    assert_eq!(wrong, "line 23, column 10: path.mtu.rate: mtu has no options; rate and discipline have");
    let wrong = error(
        &text.replace("\"flow.a.sack\" = [\"off\", \"on\"]", "path.discipline.ecn = [\"off\", \"on\"]"),
    );
    assert_eq!(wrong, "line 22, column 24: discipline.ecn: it completes discipline, which is not set here");
}

#[test]
fn levels_may_exclude_engines() {
    let levels = "sack = [{ name = \"off\", flow.a.sack = \"off\" }, { name = \"on\", flow.a.sack = \"on\", engine = \"virtual\" }]";
    let text = example_with("\"flow.a.sack\" = [\"off\", \"on\"]", levels);
    let text = text.replace("least = 10", "least = 10\nkernel = 3");
    let plan = Plan::new(&Experiment::from_toml(&text).expect("a file"), &[]).expect("a plan");
    let count = |engine| plan.cells.iter().filter(|cell| cell.physics.engine == engine).count();
    assert_eq!((count(EngineKind::Virtual), count(EngineKind::Kernel)), (8, 4));
    assert_eq!(plan.repeats.range(EngineKind::Virtual), (10, 400));
    assert_eq!(plan.repeats.range(EngineKind::Kernel), (3, 3));
}

#[test]
fn the_homework_of_the_examples_is_an_experiment() {
    let text = include_str!("../../tests/data/homework.toml");
    let experiment = Experiment::from_toml(text).expect("an experiment");
    let points: Vec<_> = experiment.claims.iter().map(|claim| claim.points).collect();
    assert_eq!(points, [Some(2), Some(3), Some(5)]);
}

#[test]
fn placeholders_and_command_words_need_each_other() {
    let error = |command: &str| {
        let text =
            format!("schema = 1\nname = \"n\"\ntitle = \"t\"\nengine = \"command\"\n[command]\n{command}");
        Experiment::from_toml(&text).map_or_else(|error| error.to_string(), |_| "none".to_owned())
    };
    assert_eq!(error("program = \"{client} {host} {n}\"\nn = 5"), "none");
    let unknown = error("program = \"x {nn}\"\nclient = \"y\"");
    assert!(unknown.starts_with("line 6, column 11") && unknown.contains("{nn}"), "{unknown}");
    let unused = error("program = \"x\"\nserver = \"y {port}\"\nsize = 5");
    assert!(unused.contains("command.size: nothing uses it"), "{unused}");
}
