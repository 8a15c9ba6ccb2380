//! `rdt-lab list`, `show` and `plan`.

use serde_json::json;

use super::args::{ListArgs, PlanArgs, ShowArgs};
use super::failure::Failure;
use super::load::{Loaded, load, text};
use super::output;
use crate::experiment::builtin;
use crate::plan::Cost;

pub(super) fn list(args: &ListArgs) -> Result<u8, Failure> {
    let mut rows =
        vec![["id", "engines", "cells", "least time", "claims", "title"].map(str::to_owned).to_vec()];
    for builtin in builtin() {
        if args.seed_doc.as_ref().is_some_and(|number| !builtin.id.starts_with(number.as_str())) {
            continue;
        }
        let loaded = load(builtin.id, &[])?;
        let (experiment, cells) = (&loaded.experiment, loaded.plan.distinct().count());
        let engines: Vec<&str> = experiment.engines.iter().map(|engine| engine.word()).collect();
        let seconds = estimate(&loaded).seconds();
        if args.json {
            output::json(&json!({
                "id": builtin.id,
                "title": experiment.title,
                "source": experiment.source,
                "engines": engines,
                "cells": cells,
                "estimated_s": seconds,
                "claims": experiment.claims.iter().map(|claim| claim.says.as_str()).collect::<Vec<_>>(),
            }))?;
        }
        let time = format!("{seconds:.1} s");
        let claims = experiment.claims.len().to_string();
        let title = experiment.title.clone();
        rows.push(vec![builtin.id.to_owned(), engines.join(","), cells.to_string(), time, claims, title]);
    }
    if !args.json {
        output::text(&output::table(&rows))?;
    }
    Ok(0)
}

/// Returns the cost of the least number of repetitions of all cells.
fn estimate(loaded: &Loaded) -> Cost {
    let mut total = Cost::default();
    for cell in loaded.plan.distinct() {
        total.add(loaded.plan.cost(cell).times(loaded.plan.repeats.least));
    }
    total
}

pub(super) fn show(args: &ShowArgs) -> Result<u8, Failure> {
    let (_, text) = text(&args.id)?;
    output::text(&text)?;
    Ok(0)
}

pub(super) fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    let loaded = load(&args.experiment, &args.engine)?;
    if args.json {
        output::json(&loaded.plan.to_json())?;
        return Ok(0);
    }
    let mut rows = vec![["cell", "engine", "estimate", "levels"].map(str::to_owned).to_vec()];
    for cell in loaded.plan.distinct() {
        let levels: Vec<String> =
            cell.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
        let cost = format!("{:.2} s", loaded.plan.cost(cell).seconds());
        rows.push(vec![cell.id.to_string(), cell.physics.engine.to_string(), cost, levels.join(" ")]);
    }
    output::text(&output::table(&rows))?;
    let repeats = &loaded.plan.repeats;
    output::text(&format!(
        "{} cells, {} to {} repetitions of each; the least take about {:.1} s on one core\n",
        rows.len() - 1,
        repeats.least,
        repeats.most,
        estimate(&loaded).seconds()
    ))?;
    Ok(0)
}
