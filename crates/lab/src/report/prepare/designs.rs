//! Figures and tables of factorial designs.

use std::collections::BTreeSet;

use crate::cell::{Cell, EngineKind};
use crate::experiment::{Compare, DesignKind, Expect, Factor, FigureKind};
use crate::results::Selection;
use crate::statistics::{self, Interval, Term, difference, holm, lenth, t_interval};

use super::super::figure::{self, Effect, FactorMeans};
use super::super::scale::{Unit, number, significant};
use super::super::scene::{Row, Scene};
use super::super::section::{Entry, Mark, Table};
use super::Subject;
use super::means::quantity;
use super::select::{View, aligned, levels, mean_row};
use super::words::{InUnit, axis_name};

/// Returns the factors that vary in the figure, with their levels.
fn factors(view: &View<'_>) -> Vec<(String, Vec<String>)> {
    let all = view.subject.experiment.factors.iter().filter(|factor| !view.figure.fixes(&factor.name));
    let with_levels = all.map(|factor| (factor.name.clone(), levels(view.subject, &factor.name)));
    with_levels.filter(|(_, levels)| levels.len() > 1).collect()
}

/// Returns cells in the order of a full design, whatever their order in a list: the last factor
/// varies fastest.
fn in_order<'a>(subject: &Subject<'_>, mut cells: Vec<&'a Cell>) -> Vec<&'a Cell> {
    let place = |(name, level): &(String, String)| {
        let factor = subject.experiment.factors.iter().find(|factor| factor.name == *name);
        factor.and_then(|factor| factor.level(level))
    };
    cells.sort_by_cached_key(|cell| cell.factors.iter().map(place).collect::<Vec<_>>());
    cells
}

/// Complete design of a figure: names of the factors that vary, their numbers of levels, and the
/// values of the first metric for each combination, of which the last factor varies fastest.
struct Design {
    names: Vec<String>,
    levels: Vec<usize>,
    values: Vec<Vec<f64>>,
}

impl Design {
    fn of(view: &View<'_>) -> Option<Self> {
        let factors = factors(view);
        let cells = in_order(view.subject, view.cells(*view.engines.first()?, &[]));
        let groups: Vec<Vec<_>> = cells.into_iter().map(|cell| vec![cell]).collect();
        let values = aligned(view.subject, &groups, view.metrics.first()?);
        let levels = factors.iter().map(|(_, levels)| levels.len()).collect();
        Some(Self { names: factors.into_iter().map(|(name, _)| name).collect(), levels, values })
    }

    /// Returns the name of a factor or of an interaction: `sack x delay`.
    fn name(&self, factors: &[usize]) -> String {
        factors.iter().map(|i| self.names[*i].as_str()).collect::<Vec<_>>().join(" \u{d7} ")
    }
}

/// Returns the effects of all factors and interactions, and Lenth's margin of error if the design
/// has a single repetition. `None` unless all combinations are there.
fn effects(view: &View<'_>) -> Option<(Vec<Effect>, Option<f64>)> {
    let design = Design::of(view)?;
    let effects = statistics::effects(&design.levels, &design.values, design.levels.len())?;
    let estimates: Vec<f64> = effects.iter().map(|effect| effect.estimate).collect();
    let is_single = design.values.first()?.len() == 1;
    let margin = lenth(&estimates).map(|it| it.margin).filter(|_| is_single);
    let named = |effect: &statistics::Effect| {
        let stands_out = match (margin, effect.interval) {
            (Some(margin), _) => effect.estimate.abs() > margin,
            (None, interval) => interval.is_some_and(|it| !it.contains(0.0)),
        };
        Effect { name: design.name(&effect.factors), value: effect.estimate, stands_out }
    };
    Some((effects.iter().map(named).collect(), margin))
}

/// Draws all effects. `None` if the design is not complete.
pub(super) fn half_normal(view: &View<'_>, scene: Scene) -> Option<Scene> {
    let (effects, margin) = effects(view)?;
    let mut of = quantity(view);
    of.name = format!("effect on {}", of.name);
    Some(figure::half_normal(scene, &of, &effects, margin))
}

/// Draws the marginal means of all factors.
pub(super) fn marginals(view: &View<'_>, scene: Scene) -> Scene {
    let engine = view.engines[0];
    let metric = view.metrics.first().map_or("goodput", String::as_str);
    let tested = effects(view);
    let mut all = Vec::new();
    for (factor, levels) in factors(view) {
        let cells = |level: &String| view.cells(engine, &[(&factor, level)]);
        let row = |level: &String| Some((level.clone(), mean_row(view.subject, &cells(level), metric, 0.0)?));
        let rows: Vec<(String, Row)> = levels.iter().filter_map(row).collect();
        let ends = [levels.first(), levels.last()].map(|level| level.map(cells).unwrap_or_default());
        let ends = aligned(view.subject, &ends, metric);
        let differences: Vec<f64> = ends[0].iter().zip(&ends[1]).map(|(low, high)| high - low).collect();
        let unreplicated = tested.as_ref().filter(|(_, margin)| margin.is_some());
        let lenth = unreplicated.and_then(|(all, _)| all.iter().find(|effect| effect.name == factor));
        let within_noise = match (lenth, difference(&differences, 0.95)) {
            (Some(effect), _) => !effect.stands_out,
            (None, Some(difference)) => difference.interval.contains(0.0),
            (None, None) => false,
        };
        all.push(FactorMeans { factor, levels: rows, within_noise });
    }
    figure::marginals(scene, &quantity(view), &all)
}

/// Draws the mean for each pair of levels. `None` without a second factor.
pub(super) fn heat(view: &View<'_>, scene: Scene) -> Option<Scene> {
    let by = view.figure.by.clone()?;
    let rows = levels(view.subject, &by);
    let metric = view.metrics.first()?;
    let mut values = Vec::new();
    for (i, x) in view.levels.iter().enumerate() {
        for (k, y) in rows.iter().enumerate() {
            let cells = view.cells(view.engines[0], &[(&view.x, x), (&by, y)]);
            values.extend(mean_row(view.subject, &cells, metric, 0.0).map(|row| (i, k, row.y)));
        }
    }
    let names = [&view.x, &by].map(|factor| axis_name(view.subject.experiment, factor));
    Some(figure::heat(scene, &quantity(view), (&names[0], &view.levels), (&names[1], &rows), &values))
}

/// Fewest effects from which Lenth's method estimates the noise: those of three factors.
const LEAST_FOR_LENTH: usize = 7;
/// Probability of one false positive or more in a table of effects.
const ALPHA: f64 = 0.05;

/// Returns a table of effects for each metric whose design a figure shows, and each engine.
pub(super) fn tables(subject: &Subject<'_>) -> Vec<Table> {
    let figures = subject.experiment.figures.iter();
    let figures = figures.filter(|it| matches!(it.kind, FigureKind::HalfNormal | FigureKind::Marginals));
    let metrics: BTreeSet<String> =
        figures.filter_map(|figure| View::new(subject, figure)?.metrics.into_iter().next()).collect();
    let engines = subject.results.engines();
    let of_metric = |metric: &String| -> Vec<Table> {
        let one = |engine: &EngineKind| {
            table(subject, *engine, metric).or_else(|| fraction(subject, *engine, metric))
        };
        engines.iter().filter_map(one).collect()
    };
    metrics.iter().flat_map(of_metric).collect()
}

/// Returns main effects and interactions of two factors: the ratio of geometric means (or for
/// values that are not all positive the difference of means), the share of the sum of squares, a
/// verdict, and beside them the effects in published values. `None` unless the design is complete.
fn table(subject: &Subject<'_>, engine: EngineKind, metric: &str) -> Option<Table> {
    let everything = Selection::default();
    let cells = in_order(subject, subject.results.cells(engine, &everything).collect());
    let varies = |factor: &&Factor| {
        let mut levels = cells.iter().map(|cell| cell.level(&factor.name));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    let factors: Vec<&Factor> = subject.experiment.factors.iter().filter(varies).collect();
    let there = |factor: &&Factor| {
        let has = |name: &str| cells.iter().any(|cell| cell.level(&factor.name) == Some(name));
        factor.levels.iter().filter(|level| has(&level.name)).count()
    };
    let counts: Vec<usize> = factors.iter().map(there).collect();
    let groups: Vec<Vec<&Cell>> = cells.iter().map(|cell| vec![*cell]).collect();
    let mut all = aligned(subject, &groups, metric);
    let repetitions = all.first().map(Vec::len).filter(|it| *it > 1 && factors.len() > 1)?;
    let is_ratio = to_logarithms(&mut all);
    let effects = statistics::effects(&counts, &all, 2)?;
    let terms = statistics::variance(&counts, &all, 2)?;
    let published = published(&subject.experiment.expects, &factors, metric);
    let sizes = unit_of_sizes(effects.iter().filter_map(|it| it.interval.as_ref()), is_ratio, metric);
    let mut rows = rows((&effects, &terms), &factors, &published, is_ratio, &sizes);
    let rest = 1.0 - terms.iter().map(|term| term.share).sum::<f64>();
    let mut last = vec![Entry::text("three and more factors, and chance"), Entry::default()];
    last.extend([Entry::number(Unit::Share.text(rest.max(0.0)), rest.max(0.0)), Entry::default()]);
    last.resize_with(4 + published.len(), Entry::default);
    rows.push(last);
    let what = if is_ratio { "ratio of geometric means" } else { "difference of means" };
    let caption = format!(
        "Effects on {metric}, {engine}: {what} from the first level of a factor to the second, {repetitions} \
         repetitions. The verdict decides: an F test with the error of all cells, corrected for the number of \
         effects (Holm). An interval has the error of its effect alone, and may contradict the verdict if the \
         repetitions are few"
    );
    let size = sizes.heading("size, 95 %");
    let head = ["effect", &size, "share of the squares", "verdict"].map(str::to_owned).into_iter();
    let head = head.chain(published.iter().map(Published::heading)).collect();
    Some(Table { caption, head, rows })
}

/// Returns the effects of a fraction of a two-level factorial. Effects with equal signs in all
/// cells, or opposite ones, cannot be told apart and share a row. `None` unless the design is a
/// fraction.
fn fraction(subject: &Subject<'_>, engine: EngineKind, metric: &str) -> Option<Table> {
    let DesignKind::Fraction(_) = subject.experiment.design.kind else { return None };
    let everything = Selection::default();
    let cells: Vec<&Cell> = subject.results.cells(engine, &everything).collect();
    let groups: Vec<Vec<&Cell>> = cells.iter().map(|cell| vec![*cell]).collect();
    let mut all = aligned(subject, &groups, metric);
    let repetitions = all.first().map(Vec::len).filter(|repetitions| *repetitions > 1)?;
    let is_ratio = to_logarithms(&mut all);
    let factors: Vec<&Factor> = subject.experiment.factors.iter().filter(|it| it.levels.len() == 2).collect();
    let signs = |factor: &Factor| -> Vec<bool> {
        cells.iter().map(|cell| cell.level(&factor.name) == Some(factor.levels[1].name.as_str())).collect()
    };
    let classes =
        classes(&factors.iter().map(|factor| (factor.name.clone(), signs(factor))).collect::<Vec<_>>());
    let half = number(cells.len()) / 2.0;
    let interval = |signs: &[bool]| {
        let contrast = |rep: usize| {
            let signed =
                all.iter().zip(signs).map(|(values, sign)| if *sign { values[rep] } else { -values[rep] });
            signed.sum::<f64>() / half
        };
        let contrasts: Vec<f64> = (0..repetitions).map(contrast).collect();
        t_interval(&contrasts, 0.95)
    };
    let intervals: Vec<(&str, Interval)> =
        classes.iter().filter_map(|(name, signs)| Some((name.as_str(), interval(signs)?))).collect();
    let unit = unit_of_sizes(intervals.iter().map(|(_, interval)| interval), is_ratio, metric);
    let row = |(name, interval): &(&str, Interval)| {
        let stands_out = !interval.contains(0.0);
        vec![Entry::text(*name), size(*interval, is_ratio, &unit), verdict(stands_out, None)]
    };
    let rows = intervals.iter().map(row).collect();
    let size = unit.heading("size, 95 %");
    let caption = format!(
        "Effects on {metric}, {engine}, of a fraction of the design with {repetitions} repetitions: what stands in one \
         row cannot be told apart"
    );
    Some(Table { caption, head: ["effect", &size, "verdict"].map(str::to_owned).to_vec(), rows })
}

/// Name of an effect, and the sign with which each cell counts for it.
type Contrast = (String, Vec<bool>);

/// Returns main effects and two-factor interactions; aliased ones share an entry.
fn classes(main: &[Contrast]) -> Vec<Contrast> {
    let mut effects = main.to_vec();
    for (i, (one, signs)) in main.iter().enumerate() {
        for (two, others) in &main[i + 1..] {
            let both = signs.iter().zip(others).map(|(a, b)| a == b).collect();
            effects.push((format!("{one} \u{d7} {two}"), both));
        }
    }
    let mut classes: Vec<Contrast> = Vec::new();
    for (name, signs) in effects {
        let opposite: Vec<bool> = signs.iter().map(|sign| !sign).collect();
        let known = classes.iter_mut().find(|(_, other)| *other == signs || *other == opposite);
        match known {
            Some((names, other)) if *other == signs => put!(names, " = {name}"),
            Some((names, _)) => put!(names, " = \u{2212}{name}"),
            None => classes.push((name, signs)),
        }
    }
    classes
}

/// Replaces values by their logarithms if all are positive. Returns true if it did.
fn to_logarithms(all: &mut [Vec<f64>]) -> bool {
    let is_ratio = all.iter().flatten().all(|value| *value > 0.0);
    all.iter_mut().flatten().filter(|_| is_ratio).for_each(|value| *value = value.ln());
    is_ratio
}

/// Returns the size of an effect with its interval: a ratio if the values were logarithms.
fn size(effect: Interval, is_ratio: bool, unit: &InUnit) -> Entry {
    let it = if is_ratio { effect.map(f64::exp) } else { effect.map(|value| value * unit.factor) };
    let text = |value: f64| significant(value, 3);
    let sign = if is_ratio { "\u{d7} " } else { "" };
    Entry::number(format!("{sign}{} ({} to {})", text(it.estimate), text(it.low), text(it.high)), it.estimate)
}

/// Returns the unit of the column of sizes: ratios have none.
fn unit_of_sizes<'a>(sizes: impl Iterator<Item = &'a Interval>, is_ratio: bool, metric: &str) -> InUnit {
    let unit = if is_ratio { Unit::None } else { Unit::of_metric(metric) };
    InUnit::of(unit, sizes.map(|it| it.estimate))
}

fn verdict(stands_out: bool, p: Option<f64>) -> Entry {
    let (word, mark) = if stands_out {
        ("stands out", Mark::Good)
    } else {
        ("cannot be told from none with these runs", Mark::Open)
    };
    Entry { text: word.to_owned(), value: p, mark }
}

/// Returns a row for each term, the largest share first.
fn rows(
    (effects, terms): (&[statistics::Effect], &[Term]),
    factors: &[&Factor],
    published: &[Published],
    is_ratio: bool,
    unit: &InUnit,
) -> Vec<Vec<Entry>> {
    let p: Vec<f64> = terms.iter().map(|term| term.p.unwrap_or(1.0)).collect();
    let mut terms: Vec<_> = terms.iter().zip(holm(&p)).collect();
    terms.sort_by(|a, b| b.0.share.total_cmp(&a.0.share));
    let one = |(term, p): (&Term, f64)| {
        let names: Vec<&str> = term.factors.iter().map(|i| factors[*i].name.as_str()).collect();
        let effect = effects.iter().find(|effect| effect.factors == term.factors);
        let interval = effect.and_then(|it| it.interval);
        let size = interval.map_or_else(Entry::default, |it| size(it, is_ratio, unit));
        let share = Entry::number(Unit::Share.text(term.share), term.share);
        let mut row = vec![Entry::text(names.join(" \u{d7} ")), size, share, verdict(p <= ALPHA, Some(p))];
        row.extend(published.iter().map(|it| it.entry(&names)));
        row
    };
    terms.into_iter().map(one).collect()
}

/// Effects in the published values of one complete design of two-level factors, one run each.
struct Published {
    /// Source of the values, and the levels that all of them share.
    source: String,
    effects: Vec<(Vec<String>, f64)>,
    /// Lenth's margin of error.
    margin: f64,
    unit: InUnit,
}

impl Published {
    fn heading(&self) -> String {
        let margin = significant(self.margin * self.unit.factor, 4);
        self.unit.heading(&format!("{}, margin {margin}", self.source))
    }

    /// Returns the effect of some factors, marked if it is beyond the margin.
    fn entry(&self, names: &[&str]) -> Entry {
        let found = self.effects.iter().find(|(factors, _)| factors.iter().eq(names));
        found.map_or_else(Entry::default, |(_, effect)| {
            let mark = if effect.abs() > self.margin { Mark::Good } else { Mark::Open };
            let value = effect * self.unit.factor;
            Entry { text: significant(value, 4), value: Some(value), mark }
        })
    }
}

/// Returns the designs that published values of a metric contain: all combinations of the two-level
/// factors, for each combination of the other levels that values name.
fn published(expects: &[Expect], factors: &[&Factor], metric: &str) -> Vec<Published> {
    let two: Vec<&&Factor> = factors.iter().filter(|factor| factor.levels.len() == 2).collect();
    let is_of = |expect: &&Expect| {
        let same = expect.of == metric || metric.ends_with(&format!(".{}", expect.of));
        same && expect.compare == Compare::Absolute
    };
    let mut designs = Vec::new();
    for expect in expects.iter().filter(is_of) {
        let mut parts: Vec<(Vec<String>, Vec<Vec<f64>>)> = Vec::new();
        for value in &expect.values {
            let named = |factor: &Factor| value.levels.0.iter().find(|(name, _)| *name == factor.name);
            let index = two.iter().try_fold(0, |index, factor| {
                let (_, level) = named(factor)?;
                Some(index * 2 + factor.level(level)?)
            });
            let Some(index) = index else { continue };
            let others = value.levels.0.iter().filter(|(name, _)| two.iter().all(|it| it.name != *name));
            let others: Vec<String> = others.map(|(_, level)| level.clone()).collect();
            let part = parts.iter().position(|(known, _)| *known == others).unwrap_or_else(|| {
                parts.push((others, vec![Vec::new(); 1 << two.len()]));
                parts.len() - 1
            });
            parts[part].1[index].push(value.is);
        }
        for (levels, values) in parts {
            // A combination that is missing or there twice makes no design.
            let effects = statistics::effects(&vec![2; two.len()], &values, two.len());
            let Some(effects) = effects.filter(|_| values.iter().all(|it| it.len() == 1)) else { continue };
            let estimates: Vec<f64> = effects.iter().map(|effect| effect.estimate).collect();
            let margin = lenth(&estimates).filter(|_| estimates.len() >= LEAST_FOR_LENTH);
            let Some(margin) = margin else { continue };
            let names = |it: &statistics::Effect| it.factors.iter().map(|i| two[*i].name.clone()).collect();
            let source = std::iter::once(expect.source.clone()).chain(levels).collect::<Vec<_>>().join(", ");
            let effects = effects.iter().map(|it| (names(it), it.estimate)).collect();
            let unit = InUnit::of(Unit::of_metric(metric), estimates);
            designs.push(Published { source, effects, margin: margin.margin, unit });
        }
    }
    designs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::plan::Plan;
    use crate::record::Record;
    use crate::results::Results;

    /// The third factor is the product of the others, so its effect is their interaction.
    #[test]
    fn aliases_of_a_fraction_share_a_row() {
        let text = "schema = 1\nname = 'x'\ntitle = 'x'\nengine = 'virtual'\nfor = '1s'\n[path]\nrate = '1mbit'\n\
                    [[flow]]\nname = 'a'\nkind = 'tcp'\n[factors]\nflow.a.ecn = ['off', 'on']\n\
                    flow.a.pacing = ['off', 'on']\nflow.a.sack = ['off', 'on']\n[design]\nkind = 'fraction'\n\
                    generators = ['sack = ecn*pacing']\n[[figure]]\nkind = 'marginals'\n";
        let experiment = Experiment::from_toml(text).expect("an experiment");
        let plan = Plan::new(&experiment, &[]).expect("a plan");
        let mut results = Results { cells: plan.cells.clone(), ..Results::default() };
        for cell in &plan.cells {
            // Twice as much with ECN, and nothing else matters.
            let mean = if cell.level("ecn") == Some("on") { 2e6 } else { 1e6 };
            for (rep, noise) in (0..).zip([0.99, 1.0, 1.01]) {
                let record = Record::of(cell, rep, "a.goodput", mean * noise);
                results.records.entry(cell.id).or_default().insert(rep, record);
            }
        }
        let subject = Subject { experiment: &experiment, results: &results, judgements: &[], command: "" };
        let [table] = &tables(&subject)[..] else { panic!("one table") };
        let names: Vec<&str> = table.rows.iter().map(|row| row[0].text.as_str()).collect();
        assert_eq!(
            names,
            ["ecn = pacing \u{d7} sack", "pacing = ecn \u{d7} sack", "sack = ecn \u{d7} pacing"]
        );
        assert!(table.rows[0][1].text.starts_with("\u{d7} 2 ("), "{:?}", table.rows[0]);
    }

    /// The order of a list is not that of a full design.
    #[test]
    fn effects_of_a_list_are_those_of_its_levels() {
        let text = "schema = 1\nname = 'x'\ntitle = 'x'\nengine = 'virtual'\nfor = '1s'\n[path]\nrate = '1mbit'\n\
                    [[flow]]\nname = 'a'\nkind = 'tcp'\n[factors]\nflow.a.ecn = ['off', 'on']\n\
                    flow.a.pacing = ['off', 'on']\n[design]\nkind = 'list'\ncells = [\n\
                    { ecn = 'on', pacing = 'off' }, { ecn = 'off', pacing = 'on' },\n\
                    { ecn = 'on', pacing = 'on' }, { ecn = 'off', pacing = 'off' }]\n\
                    [[figure]]\nkind = 'marginals'\n";
        let experiment = Experiment::from_toml(text).expect("an experiment");
        let plan = Plan::new(&experiment, &[]).expect("a plan");
        let mut results = Results { cells: plan.cells.clone(), ..Results::default() };
        for cell in &plan.cells {
            let mean = if cell.level("ecn") == Some("on") { 2e6 } else { 1e6 };
            for (rep, noise) in (0..).zip([0.99, 1.0, 1.01]) {
                let record = Record::of(cell, rep, "a.goodput", mean * noise);
                results.records.entry(cell.id).or_default().insert(rep, record);
            }
        }
        let subject = Subject { experiment: &experiment, results: &results, judgements: &[], command: "" };
        let [table] = &tables(&subject)[..] else { panic!("one table") };
        assert_eq!(table.rows[0][0].text, "ecn");
        assert!(table.rows[0][1].text.starts_with("\u{d7} 2 ("), "{:?}", table.rows[0]);
    }

    /// y = 10 + 4 a - 2 b + noise of 0.1 with a, b, c = -1, 1, in Mbit/s: effects 8 and -4.
    #[test]
    fn published_factorials_have_effects_beyond_a_margin() {
        let noise = [0.1, -0.1, 0.05, 0.0, -0.05, 0.1, 0.0, -0.1];
        let sign = |i: usize, bit: usize| if i >> bit & 1 == 1 { 1.0 } else { -1.0 };
        let rows = noise.iter().enumerate().map(|(i, noise)| {
            let is = 10.0 + 4.0 * sign(i, 2) - 2.0 * sign(i, 1) + noise;
            let level = |bit: usize| if i >> bit & 1 == 1 { "on" } else { "off" };
            format!(
                "{{ ecn = '{}', pacing = '{}', sack = '{}', is = '{is:.3}mbit' }},\n",
                level(2),
                level(1),
                level(0)
            )
        });
        let text = format!(
            "schema = 1\nname = 'x'\ntitle = 'x'\nengine = 'virtual'\nfor = '1s'\n[path]\nrate = '1mbit'\n\
             [[flow]]\nname = 'a'\nkind = 'tcp'\n[factors]\nflow.a.ecn = ['off', 'on']\nflow.a.pacing = ['off', 'on']\n\
             flow.a.sack = ['off', 'on']\n[[expect]]\nsource = 'a report'\nof = 'goodput'\nwithin = '5%'\n\
             values = [\n{}]\n",
            rows.collect::<String>()
        );
        let experiment = Experiment::from_toml(&text).expect("an experiment");
        let factors: Vec<&Factor> = experiment.factors.iter().collect();
        let designs = published(&experiment.expects, &factors, "a.goodput");
        let [design] = &designs[..] else { panic!("{} designs", designs.len()) };
        assert!(
            design.heading().starts_with("a report, margin ") && design.heading().ends_with(" (Mbit/s)"),
            "{}",
            design.heading()
        );
        for (name, truth, mark) in
            [("ecn", 8.0, Mark::Good), ("pacing", -4.0, Mark::Good), ("sack", 0.0, Mark::Open)]
        {
            let entry = design.entry(&[name]);
            let value = entry.value.expect("an effect");
            assert!((value - truth).abs() < 0.1 && entry.mark == mark, "{name}: {entry:?}");
        }
        let values = experiment.expects[0].values[1..].to_vec();
        let fewer = Expect { values, ..experiment.expects[0].clone() };
        assert!(published(&[fewer], &factors, "a.goodput").is_empty(), "a combination is missing");
    }
}
