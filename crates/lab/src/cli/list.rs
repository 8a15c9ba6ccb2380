//! `rdt-lab list`, `show` and `plan`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::args::{ListArgs, PlanArgs, ShowArgs};
use super::failure::Failure;
use super::load::{Loaded, load, text};
use super::output;
use crate::cell::EngineKind;
use crate::experiment::{Repeats, builtin};
use crate::plan::{Plan, Total, Totals};

pub(super) fn list(args: &ListArgs) -> Result<u8, Failure> {
    let heading = ["id", "engines", "cells", "least time", "claims", "title"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let mut all = Totals::default();
    for builtin in builtin() {
        if args.seed_doc.as_ref().is_some_and(|number| !builtin.id.starts_with(number.as_str())) {
            continue;
        }
        let Loaded { experiment, plan, .. } = load(builtin.id, &[])?;
        all.add(&plan);
        let (totals, cells) = (totals(&plan), plan.distinct().count());
        if args.json {
            let engines: Vec<&str> = experiment.engines.iter().map(|engine| engine.word()).collect();
            output::json(&json!({
                "id": builtin.id,
                "title": experiment.title,
                "source": experiment.source,
                "engines": engines,
                "cells": cells,
                "estimated_s": totals.values().map(|it| it.cost.seconds()).sum::<f64>(),
                "estimated_s_by_engine": totals
                    .iter()
                    .map(|(engine, it)| (engine.word().to_owned(), it.cost.seconds().into()))
                    .collect::<Map<String, Value>>(),
                "claims": experiment.claims.iter().map(|claim| claim.says.as_str()).collect::<Vec<_>>(),
            }))?;
        }
        let engines: Vec<&str> = totals.keys().map(|engine| engine.word()).collect();
        let times: Vec<String> = totals.values().map(time).collect();
        let claims = experiment.claims.len().to_string();
        rows.push(vec![
            builtin.id.to_owned(),
            engines.join(","),
            cells.to_string(),
            times.join(", "),
            claims,
            experiment.title,
        ]);
    }
    if let (1, Some(number)) = (rows.len(), &args.seed_doc) {
        return Err(Failure::Usage(format!(
            "there is no document '{number}': write 000, 001, 002, 003 or 004"
        )));
    }
    if !args.json {
        output::text(&(output::table(&rows) + "\n" + &sums(&all.by_engine(), None)))?;
    }
    Ok(0)
}

fn totals(plan: &Plan) -> BTreeMap<EngineKind, Total> {
    let mut totals = Totals::default();
    totals.add(plan);
    totals.by_engine()
}

fn time(total: &Total) -> String {
    format!("{:.1} s", total.cost.seconds())
}

/// Returns a line for each engine: cells, repetitions of each where a plan names them, and time.
fn sums(totals: &BTreeMap<EngineKind, Total>, repeats: Option<&Repeats>) -> String {
    let line = |(engine, total): (&EngineKind, &Total)| {
        let clock = if engine.is_virtual() { "on one core" } else { "of real time" };
        let range = repeats.map(|it| match it.range(*engine) {
            (least, most) if least == most => format!(" of {least} repetitions"),
            (least, most) => format!(" of {least} to {most} repetitions"),
        });
        format!(
            "{engine}: {} cells{}; the least number, {} in all, takes about {} {clock}\n",
            total.cells,
            range.unwrap_or_default(),
            total.repetitions,
            time(total),
        )
    };
    totals.iter().map(line).collect()
}

pub(super) fn show(args: &ShowArgs) -> Result<u8, Failure> {
    let (_, text) = text(&args.id)?;
    output::text(&text)?;
    Ok(0)
}

pub(super) fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    let Some(name) = args.experiment.as_deref().filter(|_| !args.all) else { return plan_all(args) };
    let Loaded { plan, .. } = load(name, &args.engine)?;
    if args.json {
        output::json(&plan.to_json())?;
        return Ok(0);
    }
    let mut rows = vec![["cell", "engine", "repetition", "levels"].map(str::to_owned).to_vec()];
    for cell in plan.distinct() {
        let levels: Vec<String> =
            cell.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
        let cost = format!("{:.2} s", plan.cost(cell).seconds());
        rows.push(vec![cell.id.to_string(), cell.physics.engine.to_string(), cost, levels.join(" ")]);
    }
    output::text(&(output::table(&rows) + &sums(&totals(&plan), Some(&plan.repeats))))?;
    Ok(0)
}

/// Prints a line for each experiment and engine, and the sums over all experiments.
fn plan_all(args: &PlanArgs) -> Result<u8, Failure> {
    let heading = ["id", "engine", "cells", "repetitions", "least time"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let mut all = Totals::default();
    for builtin in builtin() {
        let known = load(builtin.id, &[])?.experiment.engines;
        let engines: Vec<EngineKind> =
            known.into_iter().filter(|it| args.engine.is_empty() || args.engine.contains(it)).collect();
        if engines.is_empty() {
            continue;
        }
        let Loaded { plan, .. } = load(builtin.id, &engines)?;
        if args.json {
            output::json(&plan.to_json())?;
        }
        all.add(&plan);
        for (engine, total) in totals(&plan) {
            let (cells, repetitions) = (total.cells.to_string(), total.repetitions.to_string());
            let id = builtin.id.to_owned();
            rows.push(vec![id, engine.to_string(), cells, repetitions, time(&total)]);
        }
    }
    if !args.json {
        output::text(&(output::table(&rows) + "\n" + &sums(&all.by_engine(), None)))?;
    }
    Ok(0)
}
