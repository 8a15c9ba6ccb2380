//! Experiments and results that tests build by hand.

use std::collections::BTreeMap;

use rdt_lab::cell::PHYSICS_VERSION;
use rdt_lab::experiment::Experiment;
use rdt_lab::plan::Plan;
use rdt_lab::{Cell, Record, Results, Status};

/// Asserts that a number is another one but for a share of it, or near zero for an amount.
#[track_caller]
pub(crate) fn near(ours: f64, theirs: f64, tolerance: f64) {
    let distance = (ours - theirs).abs();
    assert!(distance <= tolerance * theirs.abs().max(1e-6), "{ours} for {theirs}");
}

/// Returns an experiment of one flow `a` over a path, with the tables of `tail` after `[factors]`.
pub(crate) fn experiment(tail: &str) -> Experiment {
    let head = "schema = 1\nname = 'x'\ntitle = 'X'\nengine = 'virtual'\nfor = '1s'\n[path]\nrate = '8mbit'\n\
                rtt = '10ms'\n[[flow]]\nname = 'a'\n[factors]\n";
    Experiment::from_toml(&format!("{head}{tail}")).expect("an experiment")
}

/// Returns the record of a repetition with some metrics and its own number as the seed.
pub(crate) fn record(cell: &Cell, rep: u32, metrics: &[(&str, f64)]) -> Record {
    let metrics: BTreeMap<String, f64> = metrics.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect();
    Record {
        cell: cell.id,
        rep,
        seed: rep.into(),
        engine: cell.physics.engine,
        physics: PHYSICS_VERSION,
        experiment: "x".to_owned(),
        factors: cell.factors.clone(),
        metrics,
        hash: Some(u64::from(rep) + 1),
        status: Status::Ok,
        block: None,
        wall_ms: 1,
        tool: "0.1.0".to_owned(),
        host: "here".to_owned(),
    }
}

/// Returns results of an experiment: each list has a metric of flow `a` in the repetitions of a
/// cell.
pub(crate) fn results(experiment: &Experiment, metric: &str, values: &[&[f64]]) -> Results {
    let plan = Plan::new(experiment, &[]).expect("a plan");
    assert_eq!(plan.cells.len(), values.len(), "one list for each cell");
    let mut results = Results { cells: plan.cells.clone(), ..Results::default() };
    let name = format!("a.{metric}");
    for (cell, values) in plan.cells.iter().zip(values) {
        for (rep, value) in (0..).zip(*values) {
            let record = record(cell, rep, &[(&name, *value)]);
            results.records.entry(cell.id).or_default().insert(rep, record);
        }
    }
    results
}
