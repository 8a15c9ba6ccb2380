//! Expected values of an experiment beside the measured ones.

use super::evidence::{needs_all, resamples};
use super::{Missing, Scope};
use crate::cell::EngineKind;
use crate::experiment::{Compare, Expect, ExpectedValue, Otherwise, Tolerance};
use crate::results::{Results, Selection};
use crate::statistics::{Interval, standard_deviation, t_interval, t_quantile};

/// Relation of a measured value to the tolerance of an expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The measured value is inside of the tolerance.
    Inside,
    /// The measured value is outside, but its 95 % interval reaches the tolerance.
    Unclear,
    /// The measured value and its interval are outside of the tolerance.
    Outside,
    /// There is no measured value.
    Missing,
}

impl Fit {
    /// Returns the word for this relation.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Unclear => "unclear",
            Self::Outside => "outside",
            Self::Missing => "not measured",
        }
    }
}

/// An expected value, with what one engine measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Levels of the cells.
    pub levels: Selection,
    /// Engine of the measurements.
    pub engine: EngineKind,
    /// The expected value: a ratio if the values are compared with those of a reference.
    pub expected: f64,
    /// The measured value with its 95 % interval. The interval is a point if nothing is random.
    pub measured: Option<Interval>,
    /// True if there are at least two different repetitions, so that the interval has a meaning.
    pub has_interval: bool,
    /// Number of repetitions used.
    pub repetitions: u32,
    /// Relation to the tolerance.
    pub fit: Fit,
    /// True if a value outside of the tolerance counts as a claim that fails.
    pub must: bool,
}

impl Expectation {
    /// Returns measured / expected. `None` if that is not a number.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.measured?.estimate / self.expected;
        ratio.is_finite().then_some(ratio)
    }

    /// True if the value counts as a claim that fails.
    pub fn fails(&self) -> bool {
        self.must && self.fit == Fit::Outside
    }

    /// True if the value counts as a claim that was not measured.
    pub fn is_missing(&self) -> bool {
        self.must && self.fit == Fit::Missing
    }
}

/// Returns each value that `expect` has for `engine`, beside the measurements.
pub fn expectations(expect: &Expect, results: &Results, engine: EngineKind) -> Vec<Expectation> {
    if !expect.engines.is_empty() && !expect.engines.contains(&engine) {
        return Vec::new();
    }
    let scope = Scope { results, engine, levels: Selection::default() };
    let all = expect.values.iter();
    all.filter(|value| !scope.cells(&value.levels).is_empty())
        .map(|value| examine(&scope, expect, value))
        .collect()
}

/// Returns the levels of the cell with which a value is compared: those of the value, but for the
/// factors of the reference.
fn reference(expect: &Expect, value: &ExpectedValue) -> Option<Selection> {
    let Compare::RatioTo(reference) = &expect.compare else { return None };
    let named = |factor: &String| reference.0.iter().any(|(name, _)| name == factor);
    let mut levels: Vec<_> = value.levels.0.iter().filter(|(name, _)| !named(name)).cloned().collect();
    levels.extend(reference.0.iter().cloned());
    Some(Selection(levels))
}

fn examine(scope: &Scope<'_>, expect: &Expect, value: &ExpectedValue) -> Expectation {
    let reference = reference(expect, value);
    // Where the value of the reference is listed too, values are absolute, else they are ratios.
    let same = |other: &&ExpectedValue| {
        let wanted = reference.as_ref().map_or(&[][..], |it| &it.0);
        other.levels.0.len() == wanted.len() && wanted.iter().all(|pair| other.levels.0.contains(pair))
    };
    let scale = reference.as_ref().and_then(|_| expect.values.iter().find(same)).map_or(1.0, |it| it.is);
    let expected = value.is / scale;
    let measured = measure(scope, expect, &value.levels, reference.as_ref()).ok();
    let allowed = match expect.within {
        Tolerance::Share(share) => share * expected.abs(),
        Tolerance::Absolute(amount) => amount,
    };
    let (low, high) = (expected - allowed, expected + allowed);
    let fit = measured.map_or(Fit::Missing, |(it, _)| {
        if (low..=high).contains(&it.estimate) {
            Fit::Inside
        } else if it.low <= high && it.high >= low {
            Fit::Unclear
        } else {
            Fit::Outside
        }
    });
    Expectation {
        levels: value.levels.clone(),
        engine: scope.engine,
        expected,
        has_interval: measured.is_some_and(|(it, _)| it.high > it.low),
        measured: measured.map(|(it, _)| it),
        repetitions: measured.map_or(0, |(_, repetitions)| repetitions),
        fit,
        must: expect.otherwise == Otherwise::Fail,
    }
}

/// Returns the value over all repetitions, with an interval from leaving out one repetition at a
/// time (the jackknife), and the number of repetitions.
fn measure(
    scope: &Scope<'_>,
    expect: &Expect,
    levels: &Selection,
    reference: Option<&Selection>,
) -> Result<(Interval, u32), Missing> {
    let mine = scope.within(levels);
    let other = reference.map(|levels| scope.within(levels));
    let mut reps = mine.repetitions(&[&expect.expression]);
    if let Some(other) = &other {
        let theirs = other.repetitions(&[&expect.expression]);
        reps.retain(|rep| theirs.contains(rep));
    }
    let of = |reps: &[u32]| -> Result<f64, Missing> {
        let value = mine.value(&expect.expression, reps)?;
        let other = other.as_ref().map(|other| other.value(&expect.expression, reps)).transpose()?;
        Ok(value / other.unwrap_or(1.0))
    };
    let estimate = of(&reps)?;
    let count = u32::try_from(reps.len()).unwrap_or(u32::MAX);
    let point = Interval { estimate, low: estimate, high: estimate };
    if count < 2 {
        return Ok((point, count));
    }
    let half = if needs_all(&expect.expression) {
        let values: Vec<f64> = resamples(&reps).iter().map(|reps| of(reps)).collect::<Result<_, _>>()?;
        standard_deviation(&values).map_or(0.0, |it| it * t_quantile(0.975, f64::from(count - 1)))
    } else {
        let without = |left_out: usize| {
            let rest: Vec<u32> =
                reps.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, rep)| *rep).collect();
            let n = f64::from(count);
            of(&rest).map(|value| n * estimate - (n - 1.0) * value)
        };
        let pseudo: Vec<f64> = (0..reps.len()).map(without).collect::<Result<_, _>>()?;
        t_interval(&pseudo, 0.95).map_or(0.0, |it| it.half_width())
    };
    // Rounding of equal results is no spread.
    let half = if half <= 1e-9 * estimate.abs() { 0.0 } else { half };
    Ok((Interval { estimate, low: estimate - half, high: estimate + half }, count))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::experiment::Experiment;
    use crate::plan::Plan;
    use crate::record::Record;

    const TEXT: &str = r#"schema = 1
name = "two"
title = "Two cells"
engine = "virtual"
for = "1s"
path = { rate = "8mbit" }
[[flow]]
name = "a"
[factors]
flow.a.sack = ["off", "on"]
[[expect]]
source = "nowhere"
of = "goodput"
within = "5%"
else = "fail"
values = [{ sack = "off", is = 100 }, { sack = "on", is = 150 }]
[[expect]]
source = "ratios"
of = "goodput"
compare = "ratio to sack=off"
within = "5%"
values = [{ sack = "on", is = 1.2 }]
[[expect]]
source = "values of which the ratios are compared"
of = "goodput"
compare = "ratio to sack=off"
within = "5%"
values = [{ sack = "off", is = 1 }, { sack = "on", is = 1.5 }]
"#;

    /// Returns an experiment with results: each list has a cell's goodput in its repetitions.
    fn measured(goodput: [&[f64]; 2]) -> (Experiment, Results) {
        let experiment = Experiment::from_toml(TEXT).expect("an experiment");
        let plan = Plan::new(&experiment, &[]).expect("a plan");
        let mut results = Results { cells: plan.cells.clone(), ..Results::default() };
        for (cell, values) in plan.cells.iter().zip(goodput) {
            for (rep, goodput) in (0..).zip(values) {
                let record = Record::of(cell, rep, "a.goodput", *goodput);
                results.records.entry(cell.id).or_default().insert(rep, record);
            }
        }
        (experiment, results)
    }

    fn fits(experiment: &Experiment, results: &Results) -> Vec<Vec<Fit>> {
        let each = experiment.expects.iter();
        each.map(|it| expectations(it, results, EngineKind::Virtual).iter().map(|it| it.fit).collect())
            .collect()
    }

    #[test]
    fn values_are_inside_or_outside_their_tolerance() {
        let (experiment, results) = measured([&[99.0, 101.0, 100.0], &[119.0, 121.0, 120.0]]);
        assert_eq!(
            fits(&experiment, &results),
            [vec![Fit::Inside, Fit::Outside], vec![Fit::Inside], vec![Fit::Inside, Fit::Outside]]
        );
        let all = expectations(&experiment.expects[0], &results, EngineKind::Virtual);
        assert_eq!(all.iter().map(Expectation::fails).collect::<Vec<_>>(), [false, true]);
        let interval = all[0].measured.expect("a value");
        // t(0.975; 2) / sqrt(3) = 2.484
        assert!((interval.high - 102.484).abs() < 0.001, "{interval:?}");
        assert!(expectations(&experiment.expects[0], &results, EngineKind::Packets).is_empty());
    }

    #[test]
    fn wide_intervals_are_unclear() {
        let (experiment, results) = measured([&[60.0, 120.0], &[60.0, 150.0]]);
        assert_eq!(fits(&experiment, &results)[0], [Fit::Unclear, Fit::Unclear]);
    }
}
