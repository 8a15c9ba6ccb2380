//! `rdt-lab list`, `show` and `plan`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::load::{Loaded, load, text};
use super::{output, talk};
use crate::cell::{EngineKind, levels_text};
use crate::experiment::{Repeats, builtin};
use crate::plan::{Plan, Total, Totals};

const LIST_HELP: &str = "\
The least time is that of the least number of repetitions, estimated: on one core in virtual
time, else real time.

Examples:
  rdt-lab list                   all experiments
  rdt-lab list --seed-doc 003    those of the report on 802.11
  rdt-lab list --json | jq -r 'select(.engines | index(\"kernel\")) | .id'";

#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// List only the experiments of one report: 000, 001, 002, 003 or 004
    #[arg(long, value_name = "NUMBER")]
    seed_doc: Option<String>,
    /// Print JSON, one object for each experiment
    #[arg(long)]
    json: bool,
}

const SHOW_HELP: &str = "\
Examples:
  rdt-lab show 000-A > mine.toml     copy an experiment, to change it
  rdt-lab show 002-A 002-B | less    read two, each after a comment with its identity";

#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    /// Identities of experiments, as 'rdt-lab list' prints them, or files
    #[arg(value_name = "ID|FILE", required = true)]
    experiments: Vec<String>,
}

const PLAN_HELP: &str = "\
The time of a repetition is estimated: processor time in virtual time, else real time.

Examples:
  rdt-lab plan 000-A                   the cells of an experiment with each engine
  rdt-lab plan mine.toml 002-A         those of two, and the sums
  rdt-lab plan --all --engine kernel   a line for each experiment that the kernel can run";

#[derive(Debug, clap::Args)]
#[command(after_help = PLAN_HELP)]
pub(super) struct PlanArgs {
    /// Identities of experiments, as 'rdt-lab list' prints them, or files
    #[arg(value_name = "ID|FILE", required_unless_present = "all")]
    experiments: Vec<String>,
    /// Print a line for each experiment of the program and engine, instead of cells
    #[arg(long, conflicts_with = "experiments")]
    all: bool,
    /// Plan only these engines, such as virtual,packets [default: all of the experiment]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = super::load::engine)]
    engine: Vec<EngineKind>,
    /// Print JSON, one object for each experiment
    #[arg(long)]
    json: bool,
}

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
            "there is no report '{number}': write 000, 001, 002, 003 or 004"
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

/// Returns a line for each engine: cells, the repetitions of each if one plan gives them, and time.
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
    let texts = args.experiments.iter().map(|name| text(name)).collect::<Result<Vec<_>, _>>()?;
    if let [(_, text)] = &texts[..] {
        output::text(text)?;
    } else {
        let texts: Vec<String> = texts.iter().map(|(name, text)| format!("# {name}\n{text}")).collect();
        output::text(&texts.join("\n"))?;
    }
    Ok(0)
}

pub(super) fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    let names: Vec<&str> = if args.all {
        builtin().iter().map(|builtin| builtin.id).collect()
    } else {
        args.experiments.iter().map(String::as_str).collect()
    };
    let mut planned = Vec::new();
    for name in &names {
        planned.extend(with_engines(name, args, names.len() > 1)?.map(|plan| (*name, plan)));
    }
    if planned.is_empty() {
        return Err(Failure::no_engine());
    }
    if args.json {
        return planned.iter().try_for_each(|(_, plan)| output::json(&plan.to_json())).map(|()| 0);
    }
    let mut all = Totals::default();
    for (_, plan) in &planned {
        all.add(plan);
    }
    let sums_of_all = sums(&all.by_engine(), None);
    output::text(&match &planned[..] {
        [(_, plan)] if !args.all => cells(plan),
        several if args.all => lines(several) + "\n" + &sums_of_all,
        several => {
            let each = several.iter().map(|(name, plan)| format!("{name}\n{}\n", cells(plan)));
            each.collect::<String>() + "together\n" + &sums_of_all
        }
    })?;
    Ok(0)
}

/// Plans an experiment with the engines asked for. Of several experiments, `None` for one that has
/// none of these engines.
fn with_engines(name: &str, args: &PlanArgs, is_one_of_several: bool) -> Result<Option<Plan>, Failure> {
    if args.engine.is_empty() || !is_one_of_several {
        return load(name, &args.engine).map(|it| Some(it.plan));
    }
    let known = load(name, &[])?.experiment.engines;
    let engines: Vec<EngineKind> = args.engine.iter().copied().filter(|it| known.contains(it)).collect();
    if engines.is_empty() {
        if !args.all {
            talk(&format!("{name}: left out, it has none of these engines"));
        }
        return Ok(None);
    }
    load(name, &engines).map(|it| Some(it.plan))
}

/// Returns a table of the cells of a plan, and its sums.
fn cells(plan: &Plan) -> String {
    let mut rows = vec![["cell", "engine", "repetition", "levels"].map(str::to_owned).to_vec()];
    for cell in plan.distinct() {
        let cost = format!("{:.2} s", plan.cost(cell).seconds());
        let levels = levels_text(&cell.factors, " ");
        rows.push(vec![cell.id.to_string(), cell.physics.engine.to_string(), cost, levels]);
    }
    output::table(&rows) + &sums(&totals(plan), Some(&plan.repeats))
}

/// Returns a table with a line for each experiment and engine.
fn lines(planned: &[(&str, Plan)]) -> String {
    let heading = ["id", "engine", "cells", "repetitions", "least time"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for (id, plan) in planned {
        for (engine, total) in totals(plan) {
            let (cells, repetitions) = (total.cells.to_string(), total.repetitions.to_string());
            rows.push(vec![(*id).to_owned(), engine.to_string(), cells, repetitions, time(&total)]);
        }
    }
    output::table(&rows)
}
