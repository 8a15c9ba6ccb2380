//! Which combinations of levels are run, with which seeds, how often, and what is recorded.

use std::time::Duration;

use super::document::{Item, Section};
use super::error::ExperimentError;
use crate::cell::EngineKind;

/// Combinations of levels that become cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesignKind {
    /// All combinations of levels are cells.
    Full,
    /// A fraction of all combinations: each generator (`cc = sack*window`) sets the level of a
    /// factor of two levels from the levels of others.
    Fraction(Vec<String>),
    /// The first level of every factor, then every other level of one factor at a time.
    OneAtATime,
    /// Each entry is a combination: for every factor the index of its level.
    List(Vec<Vec<usize>>),
    /// This many different combinations, drawn from all by the seed of the design.
    Random(usize),
}

/// Relation between the seeds of different cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// Repetition r of every cell has the same seed, so that comparisons are paired.
    Common,
    /// Every cell has seeds of its own.
    Independent,
}

/// The design: which cells there are, and their seeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Design {
    /// Combinations that become cells.
    pub kind: DesignKind,
    /// Relation between the seeds of different cells.
    pub seeds: Seeds,
    /// Seed from which all others are derived.
    pub seed: u64,
}

impl Default for Design {
    fn default() -> Self {
        Self { kind: DesignKind::Full, seeds: Seeds::Common, seed: 1 }
    }
}

/// Condition that ends the repetitions of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Until {
    /// The least number of repetitions has been run.
    Least,
    /// The half-width of the 95 % interval of a metric's mean is at most this share of the mean.
    Width {
        /// Largest half-width as a share of the mean, for example 0.02.
        share: f64,
        /// The metric.
        of: String,
    },
    /// Every claim is decided.
    Claims,
}

/// Number of repetitions of each cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeats {
    /// Repetitions that every cell has.
    pub least: u32,
    /// Limit on the repetitions of a cell.
    pub most: u32,
    /// Condition that ends the repetitions between the two.
    pub until: Until,
    /// Number of repetitions with single engines, in place of `least` and `most`.
    pub fixed: Vec<(EngineKind, u32)>,
}

/// Part at the beginning of a repetition that is left out of its means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// A warm-up as long as the rule MSER-5 finds, at most half of the repetition.
    Auto,
    /// A warm-up of this length.
    Time(Duration),
}

/// Repetitions of a cell whose series are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepSeries {
    /// No repetition's series are stored.
    None,
    /// The series of repetition 0 are stored.
    First,
    /// The series of all repetitions are stored.
    All,
}

/// Data to record of a repetition. It does not change the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Part that is left out of means.
    pub warm_up: WarmUp,
    /// Width of the bins of series.
    pub series: Duration,
    /// Repetitions whose series are stored.
    pub keep_series: KeepSeries,
    /// True if packets are captured and analysed. Captures are stored as series are.
    pub capture: bool,
    /// Bytes that captures keep of each packet. 0: all.
    pub snaplen: u32,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            warm_up: WarmUp::Time(Duration::ZERO),
            series: Duration::from_millis(100),
            keep_series: KeepSeries::First,
            capture: false,
            // Headers of IPv4 and TCP have at most 120 bytes, those of IPv6 and TCP 100.
            snaplen: 128,
        }
    }
}

/// Repetitions of a cell where the file names no number.
const DEFAULT_LEAST: u32 = 10;
const DEFAULT_MOST: u32 = 80;
/// Limit on `most`: a larger number is a typing error.
const MAX_REPETITIONS: u32 = 1_000_000;

impl Repeats {
    pub(super) fn read(section: Option<&Section<'_, '_>>, claims: bool) -> Result<Self, ExperimentError> {
        let default = if claims { Until::Claims } else { Until::Least };
        let Some(section) = section else {
            return Ok(Self { least: DEFAULT_LEAST, most: DEFAULT_MOST, until: default, fixed: Vec::new() });
        };
        let engines = EngineKind::ALL.map(EngineKind::word);
        let words: Vec<&'static str> = ["least", "most", "until"].into_iter().chain(engines).collect();
        section.check(&words)?;
        let least = section.get("least").map_or(Ok(DEFAULT_LEAST), Item::number)?;
        let most = section.get("most").map_or(Ok(least.max(DEFAULT_MOST)), Item::number)?;
        if let Some(item) = section.get("most").filter(|_| most > MAX_REPETITIONS) {
            return Err(item.error(format!("at most {MAX_REPETITIONS} repetitions can be run")));
        }
        if least == 0 || least > most {
            let message = format!("least is {least} and most is {most}: write 1 <= least <= most");
            return Err(section.place.error("repeats", message));
        }
        let until = match section.get("until") {
            None => default,
            Some(item) => {
                let text = item.text()?;
                parse_until(&text).ok_or_else(|| {
                    item.error(format!("'{text}' is not \"claims\", \"least\" or such as \"2% of goodput\""))
                })?
            }
        };
        let mut fixed = Vec::new();
        for engine in EngineKind::ALL {
            let Some(item) = section.get(engine.word()) else { continue };
            let number = item.number()?;
            if number == 0 || number > MAX_REPETITIONS {
                return Err(item.error(format!("1 to {MAX_REPETITIONS} repetitions can be run")));
            }
            fixed.push((engine, number));
        }
        Ok(Self { least, most, until, fixed })
    }

    /// Returns the least and the largest number of repetitions of a cell with this engine.
    pub fn range(&self, engine: EngineKind) -> (u32, u32) {
        let fixed = self.fixed.iter().find(|(other, _)| *other == engine);
        fixed.map_or((self.least, self.most), |(_, number)| (*number, *number))
    }
}

fn parse_until(text: &str) -> Option<Until> {
    match text.trim() {
        "claims" => return Some(Until::Claims),
        "least" => return Some(Until::Least),
        _ => {}
    }
    let (share, metric) = text.split_once(" of ")?;
    let share = rdt_emulator::parse_probability(share.trim()).ok()?.as_f64();
    let metric = metric.trim();
    (share > 0.0 && !metric.is_empty()).then(|| Until::Width { share, of: metric.to_owned() })
}

/// Shortest bin of series: memory is proportional to the number of bins.
const LEAST_BIN: Duration = Duration::from_millis(1);

impl Measure {
    pub(super) fn read(
        section: Option<&Section<'_, '_>>,
        engines: &[EngineKind],
    ) -> Result<Self, ExperimentError> {
        let mut measure = Self::default();
        let Some(section) = section else { return Ok(measure) };
        section.check(&["warm-up", "series", "keep-series", "capture", "snaplen"])?;
        if let Some(item) = section.get("warm-up") {
            measure.warm_up = match item.text()?.as_str() {
                "auto" => WarmUp::Auto,
                _ => WarmUp::Time(item.duration()?),
            };
        }
        if let Some(item) = section.get("series") {
            measure.series = item.duration()?;
            if measure.series < LEAST_BIN {
                return Err(item.error("a bin is at least 1ms long: write such as \"25ms\""));
            }
        }
        if let Some(item) = section.get("keep-series") {
            let words = [("none", KeepSeries::None), ("first", KeepSeries::First), ("all", KeepSeries::All)];
            measure.keep_series = item.one_of(&words)?;
        }
        if let Some(item) = section.get("capture") {
            measure.capture = item.one_of(&[("true", true), ("false", false)])?;
            let capturing = [EngineKind::Kernel, EngineKind::Real];
            if measure.capture && !engines.iter().any(|engine| capturing.contains(engine)) {
                return Err(item.error("nothing uses it: the engines kernel and real capture packets"));
            }
        }
        if let Some(item) = section.get("snaplen") {
            measure.snaplen = item.number()?;
            if !measure.capture {
                return Err(item.word_place.because("nothing uses it: write capture = true"));
            }
        }
        Ok(measure)
    }
}
