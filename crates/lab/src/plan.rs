//! Plan of an experiment: its cells, the seeds of their repetitions, estimated costs, and shards.
//!
//! | file | owns |
//! |---|---|
//! | `combinations.rs` | the combinations of levels that a design asks for |
//! | `cost.rs` | estimates of packets and seconds; the distribution of cells to shards |
//! | `fraction.rs` | generators, resolution and aliases of a fractional factorial |
//! | `full.rs` | all combinations of levels |

mod combinations;
mod cost;
mod fraction;
mod full;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use rdt_emulator::spec::PathSpec;
use rdt_emulator::{Mtu, Oversize, PathConfig, child_seed};
use serde_json::{Map, Value, json};

use crate::cell::{Cell, CellId, EngineKind, Physics, levels_json, levels_text, path_config};
use crate::engine::{self, is_random};
use crate::experiment::{Experiment, ExperimentError, Factor, Level, Repeats, Seeds, Setting, Until};
use crate::flow::{DEFAULT_PACKET, UDP_HEADERS_IPV6};
use crate::results::Results;
use crate::statistics::spent_level;

pub use cost::{Cost, Total, Totals};
pub use fraction::Fraction;
pub(crate) use full::all as all_combinations;

/// Probability of any false verdict among the claims of an experiment (familywise error rate).
const ALPHA: f64 = 0.05;

/// Limit on the cells of a plan.
pub const MAX_CELLS: usize = 100_000;

/// Estimated size of a repetition's line in the journal, bytes.
const JOURNAL_LINE_BYTES: u64 = 1_500;

/// Limit on the combinations in which an effect of each factor is searched.
const MAX_SEARCHED_COMBINATIONS: usize = 1_000;

/// Error: the experiment cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The words of a cell contradict each other, or a factor has no effect.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The experiment does not list this engine.
    #[error("the experiment does not run with engine {engine}; its engines are {}", words(.known))]
    Engine {
        /// The engine that was asked for.
        engine: EngineKind,
        /// Engines of the experiment.
        known: Vec<EngineKind>,
    },
    /// The design has too many cells.
    #[error(
        "the design has {cells} cells and the limit is {MAX_CELLS}: take levels out, or write kind = \
         \"random:1000\" or \"one-at-a-time\" in [design]"
    )]
    TooManyCells {
        /// Number of combinations of all levels with all engines.
        cells: u128,
    },
    /// A generator of a fraction is wrong.
    #[error("generator '{generator}': {message}")]
    Generator {
        /// The generator as it is written.
        generator: String,
        /// Fault of the generator.
        message: String,
    },
}

fn words(engines: &[EngineKind]) -> String {
    engines.iter().map(|engine| engine.word()).collect::<Vec<_>>().join(", ")
}

/// The plan of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of the experiment.
    pub experiment: String,
    /// One cell for each combination of levels with each engine: engines in the order of the call,
    /// combinations with the last factor fastest. A combination has no cell with an engine that one
    /// of its levels excludes. Cells with the same physics share their identity and repetitions.
    pub cells: Vec<Cell>,
    /// Resolution and aliases, if the design is a fraction.
    pub fraction: Option<Fraction>,
    /// Number of repetitions of each cell.
    pub repeats: Repeats,
    seeds: Seeds,
    seed: u64,
}

impl Plan {
    /// Plans an experiment with some of its engines. An empty list means all of them.
    ///
    /// # Errors
    /// Words that contradict each other, a factor without effect, more cells than [`MAX_CELLS`], a
    /// wrong generator, or an engine that the experiment does not have.
    pub fn new(experiment: &Experiment, engines: &[EngineKind]) -> Result<Self, PlanError> {
        let mut engines = if engines.is_empty() { experiment.engines.clone() } else { engines.to_vec() };
        let mut seen = BTreeSet::new();
        engines.retain(|engine| seen.insert(*engine));
        if let Some(engine) = engines.iter().find(|engine| !experiment.engines.contains(engine)) {
            return Err(PlanError::Engine { engine: *engine, known: experiment.engines.clone() });
        }
        let (combinations, fraction) = combinations::of(experiment, engines.len())?;
        let mut cells = Vec::new();
        for engine in engines {
            let runs = |combination: &&Vec<usize>| runs(engine, &levels(&experiment.factors, combination));
            for combination in combinations.iter().filter(runs) {
                let cell = cell(experiment, engine, combination)?;
                cost::check_end(experiment, &cell)?;
                check_words(experiment, &cell, combination)?;
                cells.push(cell);
            }
        }
        check_factors(experiment, &combinations)?;
        if let Some(fraction) = &fraction {
            check_aliases(experiment, fraction)?;
        }
        check_effects(experiment, &cells)?;
        Ok(Self {
            experiment: experiment.name.clone(),
            cells,
            fraction,
            repeats: experiment.repeats.clone(),
            seeds: experiment.design.seeds,
            seed: experiment.design.seed,
        })
    }

    /// Returns the cells without those that share the identity of an earlier one.
    pub fn distinct(&self) -> impl Iterator<Item = &Cell> {
        let mut seen: BTreeSet<CellId> = BTreeSet::new();
        self.cells.iter().filter(move |cell| seen.insert(cell.id))
    }

    /// Returns the least number of repetitions of a cell. Two suffice to show that nothing in the
    /// cell is random.
    pub fn least(&self, cell: &Cell) -> u32 {
        let engine = cell.physics.engine;
        let is_one_run = engine.is_virtual() && !is_random(&cell.physics);
        self.repeats.range(engine).0.min(if is_one_run { 2 } else { u32::MAX })
    }

    /// Returns the seed of a repetition, counted from 0.
    pub fn seed(&self, cell: &Cell, rep: u32) -> u64 {
        let common = child_seed(self.seed, u64::from(rep));
        match self.seeds {
            Seeds::Common => common,
            Seeds::Independent => {
                let (id, _) = cell.id.0.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
                child_seed(common, u64::from_be_bytes(*id))
            }
        }
    }

    /// Returns the error probability with which the claims of an engine are judged after this
    /// number of repetitions. If repetitions go on until claims are decided, claims are judged
    /// after several rounds, each twice as long as the one before, which share the probability
    /// (alpha spending).
    pub fn level(&self, engine: EngineKind, repetitions: u32) -> f64 {
        let (least, most) = self.repeats.range(engine);
        if self.repeats.until != Until::Claims || least == most {
            return ALPHA;
        }
        let repetitions = repetitions.min(most);
        let (mut before, mut look) = (0, least.max(1));
        while look < repetitions {
            (before, look) = (look, look.saturating_mul(2));
        }
        spent_level(ALPHA, before, repetitions, most)
    }

    /// True if repetition r of every cell has the same seed, so that comparisons are paired.
    pub fn is_paired(&self) -> bool {
        self.seeds == Seeds::Common
    }

    /// Returns the cells of each of `count` shards, in the order of the plan. Each cell is in
    /// exactly one shard, which does not depend on the order of the cells in the plan.
    pub fn shards(&self, count: u32) -> Vec<Vec<&Cell>> {
        cost::deal(self, count)
    }

    /// Returns the cells of shard `index`, from 0, of `count`.
    pub fn shard(&self, index: u32, count: u32) -> Vec<&Cell> {
        self.shards(count).into_iter().nth(index as usize).unwrap_or_default()
    }

    /// Returns the estimated cost of one repetition of a cell.
    pub fn cost(&self, cell: &Cell) -> Cost {
        Cost::of(cell)
    }

    /// Returns the plan as JSON: every cell with its identity, levels and cost, and the totals for
    /// the least number of repetitions.
    pub fn to_json(&self) -> Value {
        let mut totals = Totals::default();
        totals.add(self);
        let (mut total, mut repetitions) = (Cost::default(), 0);
        let mut engines = Map::new();
        for (engine, it) in totals.by_engine() {
            total.add(it.cost);
            repetitions += it.repetitions;
            let (least, most) = self.repeats.range(engine);
            engines.insert(
                engine.word().to_owned(),
                json!({
                    "cells": it.cells,
                    "repeats": { "least": least, "most": most },
                    "repetitions": it.repetitions,
                    "time_s": it.cost.seconds(),
                }),
            );
        }
        json!({
            "experiment": self.experiment,
            "cells": self.cells.iter().map(|cell| self.cell_json(cell)).collect::<Vec<_>>(),
            "distinct_cells": self.distinct().count(),
            "repeats": { "least": self.repeats.least, "most": self.repeats.most },
            "engines": engines,
            "paired": self.is_paired(),
            "fraction": self.fraction.as_ref().map(Fraction::to_json),
            "estimate": {
                "packets": total.packets,
                "time_s": total.seconds(),
                "journal_bytes": repetitions * JOURNAL_LINE_BYTES,
            },
        })
    }

    /// Returns the cells as lines of JSON, as [`Plan::to_json`] has them.
    pub fn to_ndjson(&self) -> String {
        self.cells.iter().map(|cell| self.cell_json(cell).to_string() + "\n").collect()
    }

    fn cell_json(&self, cell: &Cell) -> Value {
        let cost = self.cost(cell);
        json!({
            "cell": cell.id.to_string(),
            "engine": cell.physics.engine.word(),
            "factors": levels_json(&cell.factors),
            "repeats": self.least(cell),
            "packets": cost.packets,
            "time_s": cost.seconds(),
        })
    }
}

fn levels<'a>(factors: &'a [Factor], combination: &[usize]) -> Vec<&'a Level> {
    factors.iter().zip(combination).map(|(factor, level)| &factor.levels[*level]).collect()
}

/// True if the engine runs cells with these levels.
fn runs(engine: EngineKind, levels: &[&Level]) -> bool {
    levels.iter().all(|level| level.engines.is_empty() || level.engines.contains(&engine))
}

fn cell(experiment: &Experiment, engine: EngineKind, combination: &[usize]) -> Result<Cell, ExperimentError> {
    let levels = levels(&experiment.factors, combination);
    let physics = experiment.physics(engine, &levels)?;
    let names = experiment.factors.iter().zip(&levels);
    let names = names.map(|(factor, level)| (factor.name.clone(), level.name.clone()));
    Ok(Cell::new(names.collect(), physics))
}

/// Returns an error for the first word that the engine of a cell cannot apply, at the level or else
/// the table that sets it.
fn check_words(experiment: &Experiment, cell: &Cell, combination: &[usize]) -> Result<(), ExperimentError> {
    let Err(error) = engine::check_words(&cell.physics) else { return Ok(()) };
    let message = error.to_string();
    let names = |setting: &&Setting| message.contains(&format!("'{}'", setting.value));
    let varied: Vec<&Level> = levels(&experiment.factors, combination);
    let varied = varied.iter().flat_map(|level| &level.settings);
    let fixed = || experiment.flows.iter().flat_map(|flow| &flow.settings);
    let named = varied.clone().find(names).or_else(|| fixed().find(names));
    let place = named.or_else(|| varied.clone().next()).map(|setting| setting.place);
    let place = place.or_else(|| experiment.flows.first().map(|flow| flow.place)).unwrap_or_default();
    let levels = levels_text(&cell.factors, ", ");
    let of = if levels.is_empty() { levels } else { format!(" with {levels}") };
    Err(ExperimentError { place, message: format!("engine {}{of}: {message}", cell.physics.engine) })
}

/// Returns an error for the first claim about an effect whose cells differ in other factors too.
fn check_effects(experiment: &Experiment, cells: &[Cell]) -> Result<(), ExperimentError> {
    if experiment.claims.iter().all(|claim| claim.effects().is_empty()) {
        return Ok(());
    }
    let results = Results { cells: cells.to_vec(), ..Results::default() };
    let engines = results.engines();
    for claim in &experiment.claims {
        if let Some(why) = engines.iter().find_map(|engine| claim.confounded(&results, *engine)) {
            return Err(ExperimentError { place: claim.place, message: format!("claim.that: {why}") });
        }
    }
    Ok(())
}

/// Returns an error for the first claim about an effect that the fraction cannot tell from another
/// main effect or interaction of two factors.
fn check_aliases(experiment: &Experiment, fraction: &Fraction) -> Result<(), ExperimentError> {
    for claim in &experiment.claims {
        for effect in claim.effects() {
            let aliases = fraction.aliases_of(&effect.join("*"));
            let Some(alias) = aliases.iter().find(|alias| alias.matches('*').count() < 2) else { continue };
            let message = format!(
                "claim.that: in this fraction the effect of {} cannot be told from that of {}: choose other generators, \
                 or write kind = \"full\"",
                effect.join(" and "),
                alias.trim_start_matches('-').replace('*', " and ")
            );
            return Err(ExperimentError { place: claim.place, message });
        }
    }
    Ok(())
}

/// True if both run alike: they differ at most in how paths are written, and in MTUs that are above
/// all packets. A program of the engine `command` may send packets of any length.
fn run_alike(one: &Physics, two: &Physics) -> bool {
    let others = |physics: &Physics| Physics { links: Vec::new(), ..physics.clone() };
    one.engine != EngineKind::Command
        && others(one) == others(two)
        && one.links.len() == two.links.len()
        && one.links.iter().zip(&two.links).all(|(link, other)| {
            let [link, other] = [link, other].map(|link| without_idle_mtu(link, one));
            link.is_some() && link == other
        })
}

/// Returns a path without the MTUs that no packet exceeds. `None` if it reads a file.
fn without_idle_mtu(link: &PathSpec, physics: &Physics) -> Option<PathConfig> {
    let mut path = path_config(link)?;
    let lengths = physics
        .flows
        .iter()
        .flat_map(|flow| [flow.packet, flow.size.map(|it| it.saturating_add(UDP_HEADERS_IPV6))]);
    let longest = lengths.flatten().fold(DEFAULT_PACKET, u32::max);
    for link in [&mut path.forward, &mut path.reverse] {
        let mtu = link.mtu.limit(Duration::ZERO).filter(|mtu| *mtu >= longest.saturating_add(link.overhead));
        // An MTU that changes with time differs from one with the limit at time 0.
        if mtu.is_some_and(|mtu| {
            [Oversize::Drop, Oversize::Fragment].map(|it| Mtu::new(mtu).oversize(it)).contains(&link.mtu)
        }) {
            link.mtu = Mtu::unlimited();
        }
    }
    Some(path)
}

/// Returns an error for the first factor whose levels never change what happens in a cell.
fn check_factors(experiment: &Experiment, combinations: &[Vec<usize>]) -> Result<(), ExperimentError> {
    for (index, factor) in experiment.factors.iter().enumerate().filter(|(_, factor)| factor.levels.len() > 1)
    {
        let mut ids_differ = false;
        let mut has_effect = |combination: &Vec<usize>, engine: EngineKind| {
            let mut cells = (0..factor.levels.len()).filter_map(|level| {
                let mut changed = combination.clone();
                changed[index] = level;
                cell(experiment, engine, &changed).ok()
            });
            let Some(first) = cells.next() else { return false };
            let mut others = cells.filter(|cell| cell.id != first.id).peekable();
            ids_differ |= others.peek().is_some();
            others.any(|cell| !run_alike(&cell.physics, &first.physics))
        };
        let searched = combinations.iter().take(MAX_SEARCHED_COMBINATIONS);
        let mut pairs = searched.flat_map(|it| experiment.engines.iter().map(move |engine| (it, *engine)));
        if !pairs.any(|(combination, engine)| has_effect(combination, engine)) {
            let sets_mtu = factor.levels.iter().flat_map(|level| &level.settings).any(|it| it.word == "mtu");
            let reason = match (ids_differ, sets_mtu) {
                (false, _) => "its levels are the same cell",
                (true, true) => "no packet is longer than its MTUs",
                (true, false) => "its levels are the same path",
            };
            let message = format!("{}: nothing uses this factor: {reason}", factor.path);
            return Err(ExperimentError { place: factor.place, message });
        }
    }
    Ok(())
}
