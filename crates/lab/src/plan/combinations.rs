//! Combinations of levels that a design asks for, in the order of the factors.

use std::collections::BTreeSet;

use rdt_emulator::child_seed;

use super::fraction::{self, Fraction};
use super::full::{all, product};
use super::{MAX_CELLS, PlanError};
use crate::experiment::{DesignKind, Experiment, Factor};

/// Child number of the design's seed for random combinations. Repetitions count from 0 on.
const RANDOM_DESIGN_CHILD: u64 = u64::MAX;

/// Returns the combinations: for every factor the index of its level. `engines` is the number of
/// cells that each becomes.
pub(super) fn of(
    experiment: &Experiment,
    engines: usize,
) -> Result<(Vec<Vec<usize>>, Option<Fraction>), PlanError> {
    let factors = &experiment.factors;
    let counts: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
    let limit = |combinations: u128| {
        let cells = combinations.saturating_mul(engines as u128);
        if cells > MAX_CELLS as u128 { Err(PlanError::TooManyCells { cells }) } else { Ok(()) }
    };
    let combinations = match &experiment.design.kind {
        DesignKind::Full => {
            limit(product(&counts))?;
            all(&counts)
        }
        DesignKind::Fraction(generators) => {
            let (combinations, fraction) = fraction::combinations(factors, generators, limit)?;
            return Ok((combinations, Some(fraction)));
        }
        DesignKind::OneAtATime => {
            limit(1 + counts.iter().map(|count| *count as u128 - 1).sum::<u128>())?;
            one_at_a_time(factors)
        }
        DesignKind::List(cells) => {
            limit(cells.len() as u128)?;
            cells.clone()
        }
        DesignKind::Random(wanted) => {
            limit((*wanted as u128).min(product(&counts)))?;
            random(&counts, *wanted, child_seed(experiment.design.seed, RANDOM_DESIGN_CHILD))
        }
    };
    Ok((combinations, None))
}

fn one_at_a_time(factors: &[Factor]) -> Vec<Vec<usize>> {
    let base = vec![0; factors.len()];
    let mut combinations = vec![base.clone()];
    for (index, factor) in factors.iter().enumerate() {
        for level in 1..factor.levels.len() {
            let mut changed = base.clone();
            changed[index] = level;
            combinations.push(changed);
        }
    }
    combinations
}

/// Draws `wanted` different combinations, and returns them in the order of the full factorial.
fn random(counts: &[usize], wanted: usize, seed: u64) -> Vec<Vec<usize>> {
    let total = product(counts);
    if wanted as u128 >= total {
        return all(counts);
    }
    let mut drawn: BTreeSet<Vec<usize>> = BTreeSet::new();
    // A draw for each factor, so that the number of combinations may exceed 2^64. Combinations that
    // are drawn again are skipped, so drawing more than half of them would take long.
    let is_most = (wanted as u128) * 2 > total;
    let goal = if is_most { (total - wanted as u128) as usize } else { wanted };
    let mut draw = 0;
    while drawn.len() < goal {
        let one = child_seed(seed, draw);
        draw += 1;
        let level = |(factor, count): (usize, &usize)| {
            // The bias of the remainder towards low levels is below count / 2^64.
            usize::try_from(child_seed(one, factor as u64) % *count as u64).unwrap_or_default()
        };
        drawn.insert(counts.iter().enumerate().map(level).collect());
    }
    if is_most {
        return all(counts).into_iter().filter(|combination| !drawn.contains(combination)).collect();
    }
    drawn.into_iter().collect()
}
