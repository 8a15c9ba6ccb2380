//! Sentences of an experiment about results: claims, expected values of a source, and statements
//! of the source that are wrong or open.

use super::document::{Item, Section};
use super::engines::read_engines;
use super::error::{ExperimentError, Place};
use super::factor::{Factor, read_levels};
use crate::cell::EngineKind;
use crate::claim::{ClaimError, Expression, Predicate, constant, parse, parse_expression};
use crate::results::Selection;
use crate::statistics::number;

/// A sentence with a predicate about results.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Name, unique in the file.
    pub id: String,
    /// The sentence for readers.
    pub says: String,
    /// The predicate in the grammar of claims.
    pub that: String,
    /// The predicate.
    pub predicate: Predicate,
    /// Fraction within which both sides of the comparison are equal. `None`: it is as written.
    pub margin: Option<f64>,
    /// Engines for which the claim is made. Empty: all of the experiment.
    pub engines: Vec<EngineKind>,
    /// Points of a homework for the claim.
    pub points: Option<u32>,
    /// Line and column of `that`, from which positions inside the predicate are counted.
    pub place: Place,
}

/// Quantity that is compared with the expected values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The measured value is compared.
    Absolute,
    /// The ratio of the measured value to that of the cells with these levels is compared.
    RatioTo(Selection),
}

/// Largest difference between expected and measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Difference as a share of the expected value.
    Share(f64),
    /// Difference in the unit of the metric.
    Absolute(f64),
}

/// Meaning of a difference beyond the tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// The report shows the difference.
    Note,
    /// The experiment fails.
    Fail,
}

/// An expected value of the cells with some levels.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedValue {
    /// Levels of the cells, by the short names of factors.
    pub levels: Selection,
    /// The value, in the unit of the metric: bit/s, seconds, bytes, or a share.
    pub is: f64,
    /// The value as it is written.
    pub text: String,
}

/// Values that a source published or a model predicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// Origin of the values.
    pub source: String,
    /// Metric or expression in the grammar of claims.
    pub of: String,
    /// The expression in `of`.
    pub expression: Expression,
    /// The values.
    pub values: Vec<ExpectedValue>,
    /// Quantity that is compared with the expected values.
    pub compare: Compare,
    /// Largest difference between expected and measured value.
    pub within: Tolerance,
    /// Sentence that says why values are outside of it, where the report cannot compute that.
    pub why: Option<String>,
    /// Meaning of a larger difference.
    pub otherwise: Otherwise,
    /// Engines whose results are compared. Empty: all of the experiment.
    pub engines: Vec<EngineKind>,
    /// Line and column of `of`.
    pub place: Place,
}

/// Fault of a statement of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// The statement is wrong.
    Error,
    /// The method of the source does not support the statement.
    Method,
    /// The statement has no explanation yet.
    Open,
}

impl StatementKind {
    /// Returns the word in experiment files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Method => "method",
            Self::Open => "open",
        }
    }
}

/// Step of the computation behind a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The step as it is written: arithmetic, whose result was checked when the file was read
    /// (`38785361 + 30790 * 54 + 12 = 40448033`), an expression of metrics, or words.
    pub text: String,
    /// Expression in the grammar of claims, which the report evaluates. `None` for other steps.
    pub measured: Option<Expression>,
}

/// Statement of a source that does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Number in the list of all statements, from 1.
    pub number: u32,
    /// Fault of the statement.
    pub kind: StatementKind,
    /// Experiment of the source, such as `000-A`.
    pub at: String,
    /// Statement as the source makes it.
    pub says: String,
    /// Statement that is true instead.
    pub so: String,
    /// Computation of what is true.
    pub shows: Vec<Step>,
}

impl Claim {
    /// Returns the factors of each effect in the predicate.
    pub(crate) fn effects<'a>(&'a self) -> Vec<&'a [String]> {
        let mut predicate = &self.predicate;
        while let Predicate::All(_, inner) = predicate {
            predicate = inner;
        }
        let Predicate::Compare(left, _, right) = predicate else { return Vec::new() };
        let operands = [left, right].into_iter().flat_map(|side| side.operands().into_iter().rev());
        let factors = |it: &'a Expression| match it {
            Expression::Effect(_, factors) => Some(&**factors),
            _ => None,
        };
        operands.filter_map(factors).collect()
    }

    pub(super) fn read(
        section: &Section<'_, '_>,
        factors: &[Factor],
        engines: &[EngineKind],
    ) -> Result<Self, ExperimentError> {
        section.check(&["id", "says", "that", "margin", "engine", "points"])?;
        let that = section.require("that")?;
        let predicate = parse(&that.text()?).map_err(|error| inside(that, &error))?;
        check_predicate(&predicate, factors).map_err(|message| that.error(message))?;
        let margin = section.get("margin").map(|item| {
            let share = rdt_emulator::parse_probability(&item.text()?).map_err(|error| item.error(error))?;
            if share.as_f64() > 0.0 {
                Ok(share.as_f64())
            } else {
                Err(item.error("a margin is more than 0%"))
            }
        });
        Ok(Self {
            id: section.require("id")?.text()?,
            says: section.require("says")?.text()?,
            that: that.text()?,
            predicate,
            margin: margin.transpose()?,
            engines: read_engines(section.get("engine"), Some(engines))?,
            points: section.get("points").map(Item::number).transpose()?,
            place: that.place(),
        })
    }
}

/// Returns an error at its place inside of a text, which begins after its quote.
fn inside(item: &Item<'_, '_>, error: &ClaimError) -> ExperimentError {
    let place = item.place();
    Place { column: place.column + error.column, ..place }.error(&item.path, &error.message)
}

fn check_predicate(predicate: &Predicate, factors: &[Factor]) -> Result<(), String> {
    match predicate {
        Predicate::Compare(left, _, right) => {
            check_expression(left, factors)?;
            check_expression(right, factors)
        }
        Predicate::Monotone(metric, factor, _) => {
            check_factor(factor, factors)?;
            check_selection(&metric.selection, factors)
        }
        Predicate::All(selection, inner) => {
            check_selection(selection, factors)?;
            check_predicate(inner, factors)
        }
    }
}

fn check_expression(expression: &Expression, factors: &[Factor]) -> Result<(), String> {
    expression.operands().into_iter().try_for_each(|operand| match operand {
        Expression::Number(_) | Expression::Binary(..) => Ok(()),
        Expression::Metric(metric) | Expression::Quantile(_, metric) => {
            check_selection(&metric.selection, factors)
        }
        Expression::Effect(metric, names) => {
            for name in names {
                let levels = check_factor(name, factors)?.levels.len();
                if levels != 2 {
                    return Err(format!("{name} has {levels} levels: an effect needs two"));
                }
            }
            check_selection(&metric.selection, factors)
        }
        Expression::Theory(_, _, selection) => check_selection(selection, factors),
    })
}

/// Returns the factor with this short name: claims know no other.
fn check_factor<'a>(name: &str, factors: &'a [Factor]) -> Result<&'a Factor, String> {
    let (_, factor) = super::factor::find(factors, name)?;
    if factor.name == name { Ok(factor) } else { Err(format!("write {} for {name}", factor.name)) }
}

fn check_selection(selection: &Selection, factors: &[Factor]) -> Result<(), String> {
    selection.0.iter().try_for_each(|(name, level)| check_factor(name, factors)?.known_level(level).map(drop))
}

/// Units in which sources publish rates, in bits per second.
const PUBLISHED_RATES: [(&str, f64); 8] = [
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("Kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
    ("kB/s", 8e3),
    ("MB/s", 8e6),
];

/// Parses a number with or without unit: `1.2390mbit` and `1.2390 Mbps` are 1239000, `2 MB/s` are
/// 16000000, `25ms` is 0.025, `1.5 points` is 0.015, `16kib` is 16384, `5%` is 0.05.
pub(super) fn parse_quantity(text: &str) -> Option<f64> {
    let text = text.trim();
    let published = PUBLISHED_RATES.iter().find_map(|(unit, bps)| Some((text.strip_suffix(unit)?, bps)));
    if let Some((digits, bps)) = published {
        return digits.trim().parse::<f64>().ok().map(|it| it * bps).filter(|it| it.is_finite());
    }
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number);
    }
    if let Some(points) = text.strip_suffix("points").or_else(|| text.strip_suffix('%')) {
        let points = points.trim().parse::<f64>().ok().filter(|it| it.is_finite());
        return points.map(|points| points / 100.0);
    }
    let rate = rdt_emulator::parse_bitrate(text).map(rdt_emulator::Bitrate::as_bps_f64);
    let time = rdt_emulator::parse_duration(text).map(|time| time.as_secs_f64());
    let size = rdt_emulator::parse_bytes(text).map(number);
    rate.or(time).or(size).ok()
}

fn quantity(item: &Item<'_, '_>) -> Result<f64, ExperimentError> {
    let text = item.text()?;
    let message = || item.error(format!("'{text}' is no value: write such as 1.2mbit, 25ms, 16kib or 0.5"));
    parse_quantity(&text).ok_or_else(message)
}

impl Tolerance {
    fn read(item: &Item<'_, '_>) -> Result<Self, ExperimentError> {
        let value = quantity(item)?;
        if value < 0.0 {
            return Err(item.error("a tolerance is not negative"));
        }
        Ok(if item.text()?.trim().ends_with('%') { Self::Share(value) } else { Self::Absolute(value) })
    }
}

/// Returns a selection by the short names of factors.
fn selection(factors: &[Factor], levels: &[(usize, usize)]) -> Selection {
    let pair = |&(factor, level): &(usize, usize)| {
        let factor: &Factor = &factors[factor];
        (factor.name.clone(), factor.levels[level].name.clone())
    };
    Selection(levels.iter().map(pair).collect())
}

impl Expect {
    pub(super) fn read(
        section: &Section<'_, '_>,
        factors: &[Factor],
        engines: &[EngineKind],
    ) -> Result<Self, ExperimentError> {
        section.check(&["source", "of", "values", "compare", "within", "why", "else", "engine"])?;
        let mut values = Vec::new();
        for item in section.require("values")?.list() {
            let value = item.section()?;
            let levels = read_levels(&value, factors, &["is"])?;
            let is = value.require("is")?;
            values.push(ExpectedValue {
                levels: selection(factors, &levels),
                is: quantity(is)?,
                text: is.text()?,
            });
        }
        let compare =
            section.get("compare").map_or(Ok(Compare::Absolute), |item| read_compare(item, factors))?;
        let words = [("note", Otherwise::Note), ("fail", Otherwise::Fail)];
        let of = section.require("of")?;
        let source = section.require("source")?.text()?;
        let expression = parse_expression(&of.text()?).map_err(|error| inside(of, &error))?;
        check_expression(&expression, factors).map_err(|message| of.error(message))?;
        Ok(Self {
            source,
            of: of.text()?,
            expression,
            values,
            compare,
            within: Tolerance::read(section.require("within")?)?,
            why: section.text("why")?,
            otherwise: section.get("else").map_or(Ok(Otherwise::Note), |item| item.one_of(&words))?,
            engines: read_engines(section.get("engine"), Some(engines))?,
            place: of.place(),
        })
    }
}

/// Reads `absolute` or `ratio to sack=off, initial-window=1`.
fn read_compare(item: &Item<'_, '_>, factors: &[Factor]) -> Result<Compare, ExperimentError> {
    let text = item.text()?;
    if text.trim() == "absolute" {
        return Ok(Compare::Absolute);
    }
    let Some(cell) = text.trim().strip_prefix("ratio to ") else {
        return Err(item.error(format!("'{text}' is not \"absolute\" or such as \"ratio to sack=off\"")));
    };
    let mut levels = Vec::new();
    for pair in cell.split(',') {
        let (name, level) = pair
            .split_once('=')
            .ok_or_else(|| item.error(format!("'{pair}' has no level: write FACTOR=LEVEL")))?;
        let (index, factor) = super::factor::find(factors, name.trim()).map_err(|error| item.error(error))?;
        let level = factor.known_level(level.trim()).map_err(|error| item.error(error))?;
        levels.push((index, level));
    }
    Ok(Compare::RatioTo(selection(factors, &levels)))
}

impl Step {
    fn read(item: &Item<'_, '_>, factors: &[Factor]) -> Result<Self, ExperimentError> {
        let text = item.text()?;
        if let Some((left, right)) = text.split_once(" = ") {
            check_arithmetic(left, right).map_err(|message| item.error(message))?;
            return Ok(Self { text, measured: None });
        }
        let measured = parse_expression(&text).ok();
        if let Some(expression) = &measured {
            check_expression(expression, factors).map_err(|message| item.error(message))?;
        }
        Ok(Self { text, measured })
    }
}

/// Checks that `left` is `right` to the last digit that `right` has. The error is a sentence.
fn check_arithmetic(left: &str, right: &str) -> Result<(), String> {
    let value = |text: &str| parse_expression(text).ok().and_then(|it| constant(&it));
    let both = value(left).zip(value(right));
    let (computed, written) =
        both.ok_or("write numbers and + - * / on the left of '=', and one number on the right")?;
    let mantissa = right.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let mantissa = mantissa.split_once('e').map_or(mantissa, |(mantissa, _)| mantissa);
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let last_digit = 0.1_f64.powi(i32::try_from(decimals).unwrap_or(0));
    let unit = mantissa.parse().ok().filter(|it| *it != 0.0).map_or(1.0, |it: f64| written / it);
    if (computed - written).abs() <= 0.500_001 * (last_digit * unit).abs() {
        return Ok(());
    }
    Err(format!("{left} is {}, not {right}", computed / unit))
}

impl Statement {
    pub(super) fn read(section: &Section<'_, '_>, factors: &[Factor]) -> Result<Self, ExperimentError> {
        section.check(&["number", "kind", "at", "says", "so", "shows"])?;
        let steps = section.require("shows")?.list();
        let kinds = [StatementKind::Error, StatementKind::Method, StatementKind::Open];
        Ok(Self {
            number: section.require("number")?.number()?,
            kind: section.require("kind")?.one_of(&kinds.map(|kind| (kind.word(), kind)))?,
            at: section.require("at")?.text()?,
            says: section.require("says")?.text()?,
            so: section.require("so")?.text()?,
            shows: steps.iter().map(|item| Step::read(item, factors)).collect::<Result<_, _>>()?,
        })
    }
}
