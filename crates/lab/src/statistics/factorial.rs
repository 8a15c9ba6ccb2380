//! Analysis of a full factorial: effects of two-level factors and their interactions, and the share
//! of each term in the sum of squares for factors with any number of levels.

use std::collections::BTreeMap;

use super::distribution::f_tail;
use super::{Interval, count, count_of, mean, t_interval};

/// Effect of a two-level factor, or of the interaction of several: the mean where the product of
/// the signs is positive less the mean where it is negative. Level 0 has the sign -1.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Factors by their number, ascending: one is a main effect.
    pub factors: Vec<usize>,
    /// The effect.
    pub estimate: f64,
    /// Student's 95 % interval over the repetitions. `None` for a single repetition.
    pub interval: Option<Interval>,
}

/// Term of the analysis of variance.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Factors by their number, ascending.
    pub factors: Vec<usize>,
    /// Degrees of freedom.
    pub degrees: usize,
    /// Sum of squares.
    pub sum_of_squares: f64,
    /// Part of the total sum of squares, 0 to 1.
    pub share: f64,
    /// Probability of so large a term by chance (F test). `None` if repetitions show no randomness.
    pub p: Option<f64>,
}

/// Returns the effects of the two-level factors and of their interactions of at most `order`
/// factors: by number of factors, then in their order. `levels` has the number of levels of each
/// factor. `values` has the value of each repetition for each combination, of which the last factor
/// varies fastest. Repetition r of every combination has the same seed or the same block. `None` if
/// combinations are missing or have unequal numbers of repetitions.
pub fn effects(levels: &[usize], values: &[Vec<f64>], order: usize) -> Option<Vec<Effect>> {
    let design = Design::new(levels, values)?;
    let two_level = |subset: &&Vec<usize>| subset.iter().all(|factor| levels[*factor] == 2);
    let subsets = subsets(levels.len(), order);
    Some(subsets.iter().filter(two_level).map(|subset| design.effect(subset)).collect())
}

/// Returns the analysis of variance: the terms of all factors and of their interactions of at most
/// `order` factors. Arguments and order are those of [`effects`].
pub fn variance(levels: &[usize], values: &[Vec<f64>], order: usize) -> Option<Vec<Term>> {
    let design = Design::new(levels, values)?;
    let residual = design.residual();
    let subsets = subsets(levels.len(), order);
    Some(subsets.iter().filter_map(|subset| design.term(subset, residual)).collect())
}

/// Returns the non-empty subsets of factors with at most `order` members, by size, then in order.
fn subsets(factors: usize, order: usize) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    let mut last = vec![Vec::new()];
    for _ in 0..order.min(factors) {
        let grown = |subset: &Vec<usize>| {
            let first = subset.last().map_or(0, |factor| factor + 1);
            (first..factors).map(|factor| [subset.as_slice(), &[factor]].concat()).collect::<Vec<_>>()
        };
        last = last.iter().flat_map(grown).collect();
        all.extend(last.iter().cloned());
    }
    all
}

struct Design<'a> {
    levels: &'a [usize],
    values: &'a [Vec<f64>],
    repetitions: usize,
}

/// Mean square of the residuals, and their degrees of freedom.
#[derive(Clone, Copy)]
struct Residual {
    mean_square: f64,
    degrees: usize,
}

impl<'a> Design<'a> {
    /// Creates a design. `None` if it is not complete.
    fn new(levels: &'a [usize], values: &'a [Vec<f64>]) -> Option<Self> {
        let repetitions = values.first()?.len();
        let complete = values.len() == levels.iter().product::<usize>();
        let equal = repetitions > 0 && values.iter().all(|it| it.len() == repetitions);
        (complete && equal).then_some(Self { levels, values, repetitions })
    }

    /// Returns the level of a factor in a combination.
    fn level(&self, combination: usize, factor: usize) -> usize {
        let faster: usize = self.levels[factor + 1..].iter().product();
        combination / faster % self.levels[factor]
    }

    fn effect(&self, factors: &[usize]) -> Effect {
        let sign = |combination: usize| {
            let low = factors.iter().filter(|factor| self.level(combination, **factor) == 0).count();
            if low % 2 == 0 { 1.0 } else { -1.0 }
        };
        let signs: Vec<f64> = (0..self.values.len()).map(sign).collect();
        let half = count_of(self.values.len()) / 2.0;
        let contrast = |repetition: usize| {
            let signed = self.values.iter().zip(&signs).map(|(values, sign)| sign * values[repetition]);
            signed.sum::<f64>() / half
        };
        let contrasts: Vec<f64> = (0..self.repetitions).map(contrast).collect();
        let estimate = mean(&contrasts).unwrap_or(f64::NAN);
        Effect { factors: factors.to_vec(), estimate, interval: t_interval(&contrasts, 0.95) }
    }

    /// Returns the mean of all values for each combination of levels of some factors.
    fn means(&self, factors: &[usize]) -> BTreeMap<Vec<usize>, f64> {
        let mut sums: BTreeMap<Vec<usize>, (f64, usize)> = BTreeMap::new();
        for (combination, values) in self.values.iter().enumerate() {
            let key = factors.iter().map(|factor| self.level(combination, *factor)).collect();
            let entry = sums.entry(key).or_default();
            entry.0 += values.iter().sum::<f64>();
            entry.1 += values.len();
        }
        sums.into_iter().map(|(key, (sum, n))| (key, sum / count_of(n))).collect()
    }

    /// Returns a term. `None` if a factor has a single level, or if all values are equal.
    fn term(&self, factors: &[usize], residual: Option<Residual>) -> Option<Term> {
        let degrees: usize = factors.iter().map(|factor| self.levels[*factor] - 1).product();
        let total = self.total();
        if degrees == 0 || total <= 0.0 {
            return None;
        }
        // Inclusion and exclusion: the mean of these levels less what smaller terms explain.
        let parts: Vec<Vec<usize>> = (0..1_usize << factors.len())
            .map(|bits| (0..factors.len()).filter(|i| bits >> i & 1 == 1).collect())
            .collect();
        let means: Vec<_> = parts
            .iter()
            .map(|part| self.means(&part.iter().map(|i| factors[*i]).collect::<Vec<_>>()))
            .collect();
        let whole = &means[means.len() - 1];
        let squares: f64 = whole
            .keys()
            .map(|key| {
                let signed = parts.iter().zip(&means).map(|(part, means)| {
                    let levels: Vec<usize> = part.iter().map(|i| key[*i]).collect();
                    let sign = if (factors.len() - part.len()).is_multiple_of(2) { 1.0 } else { -1.0 };
                    sign * means[&levels]
                });
                signed.sum::<f64>().powi(2)
            })
            .sum();
        let sum_of_squares = squares * count_of(self.values.len() * self.repetitions) / count_of(whole.len());
        let p = residual.map(|residual| {
            let f = sum_of_squares / count_of(degrees) / residual.mean_square;
            f_tail(f, count_of(degrees), count_of(residual.degrees))
        });
        Some(Term { factors: factors.to_vec(), degrees, sum_of_squares, share: sum_of_squares / total, p })
    }

    fn grand_mean(&self) -> f64 {
        self.values.iter().flatten().sum::<f64>() / count_of(self.values.len() * self.repetitions)
    }

    fn total(&self) -> f64 {
        let grand = self.grand_mean();
        self.values.iter().flatten().map(|value| (value - grand).powi(2)).sum()
    }

    /// Returns the variation within combinations, without the differences between repetitions that
    /// all combinations share. `None` without repetitions, or if they differ by rounding only.
    fn residual(&self) -> Option<Residual> {
        let degrees = (self.values.len() - 1) * (self.repetitions - 1);
        if degrees == 0 {
            return None;
        }
        let grand = self.grand_mean();
        let block = |repetition: usize| {
            let values: Vec<f64> = self.values.iter().map(|it| it[repetition]).collect();
            mean(&values).unwrap_or(grand)
        };
        let blocks: Vec<f64> = (0..self.repetitions).map(block).collect();
        let squares = self.values.iter().map(|values| {
            let cell = values.iter().sum::<f64>() / count(values);
            let residuals = values.iter().zip(&blocks).map(|(value, block)| value - cell - block + grand);
            residuals.map(|it| it * it).sum::<f64>()
        });
        let mean_square = squares.sum::<f64>() / count_of(degrees);
        (mean_square > 1e-24 * grand * grand).then_some(Residual { mean_square, degrees })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two factors, four repetitions with a level of their own each, and small noise.
    fn values() -> Vec<Vec<f64>> {
        // y = 10 + 3 A - 2 B + 1.5 A B + block + noise with A, B = -1, 1.
        let block = [0.0, 1.0, -1.0, 0.5];
        let noise =
            [[0.1, -0.2, 0.05, 0.05], [-0.1, 0.0, 0.2, -0.1], [0.0, 0.1, -0.1, 0.0], [0.2, -0.2, 0.1, -0.1]];
        let cell = |a: f64, b: f64| 10.0 + 3.0 * a - 2.0 * b + 1.5 * a * b;
        let cells = [cell(-1.0, -1.0), cell(-1.0, 1.0), cell(1.0, -1.0), cell(1.0, 1.0)];
        let with_noise =
            |(cell, noise): (&f64, &[f64; 4])| noise.iter().zip(block).map(|(n, b)| cell + n + b).collect();
        cells.iter().zip(&noise).map(with_noise).collect()
    }

    #[test]
    fn effects_are_twice_the_coefficients() {
        let effects = effects(&[2, 2], &values(), 2).expect("a full factorial");
        let expected = [(vec![0], 6.0), (vec![1], -4.0), (vec![0, 1], 3.0)];
        for (effect, (factors, truth)) in effects.iter().zip(expected) {
            let interval = effect.interval.expect("four repetitions");
            assert!(effect.factors == factors && interval.contains(truth), "{effect:?} for {truth}");
            assert!(interval.half_width() < 0.3, "blocks do not widen it: {interval:?}");
        }
    }

    #[test]
    fn terms_and_residuals_sum_to_the_total() {
        let values = values();
        let terms = variance(&[2, 2], &values, 2).expect("a full factorial");
        let design = Design::new(&[2, 2], &values).expect("a full factorial");
        let residual = design.residual().expect("repetitions");
        let blocks = 4.0 * [0.0_f64, 1.0, -1.0, 0.5].iter().map(|b| (b - 0.125).powi(2)).sum::<f64>();
        let sum = terms.iter().map(|it| it.sum_of_squares).sum::<f64>() + residual.mean_square * 9.0 + blocks;
        assert!((sum / design.total() - 1.0).abs() < 0.01, "{sum} of {}", design.total());
        assert!(terms.iter().all(|it| it.p.is_some_and(|p| p < 1e-6)), "{terms:?}");
    }

    #[test]
    fn factors_with_more_levels_have_more_degrees() {
        let values: Vec<Vec<f64>> = (0..6_u32).map(|i| vec![f64::from(i), f64::from(i) + 0.5]).collect();
        let terms = variance(&[3, 2], &values, 2).expect("a full factorial");
        let degrees: Vec<_> = terms.iter().map(|it| it.degrees).collect();
        assert_eq!(degrees, [2, 1, 2]);
        assert!(terms[2].sum_of_squares < 1e-12, "no interaction");
        assert!(terms.iter().all(|it| it.p.is_none()), "nothing is random: {terms:?}");
        let effects = effects(&[3, 2], &values, 2).expect("a full factorial");
        assert_eq!(effects.len(), 1, "only the second factor has two levels");
    }

    #[test]
    fn incomplete_designs_are_refused() {
        assert_eq!(effects(&[2, 2], &[vec![1.0], vec![2.0], vec![3.0]], 2), None);
        assert_eq!(variance(&[2], &[vec![1.0, 2.0], vec![3.0]], 1), None);
        assert_eq!(subsets(5, 5).len(), 31);
    }
}
