//! Units, scales and ticks of axes.

/// Converts a count for arithmetic with coordinates.
pub(crate) fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Unit of a quantity. Values are in the base unit: bits per second, seconds, bytes, shares of 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// A number without a unit, such as Jain's index.
    #[default]
    None,
    /// Bits per second.
    Rate,
    /// Seconds.
    Time,
    /// Bytes, with decimal prefixes.
    Bytes,
    /// Share of 1, shown in percent.
    Share,
    /// Number of packets or events.
    Count,
}

impl Unit {
    /// Returns the factor from the base unit to a shown number and the name of the shown unit, for
    /// values up to `largest`.
    pub fn shown(self, largest: f64) -> (f64, &'static str) {
        // From which value on a unit is shown, its factor and its name.
        let units: &[(f64, f64, &str)] = match self {
            Self::None => &[(0.0, 1.0, "")],
            Self::Rate => {
                &[(1e9, 1e-9, "Gbit/s"), (1e6, 1e-6, "Mbit/s"), (1e3, 1e-3, "kbit/s"), (0.0, 1.0, "bit/s")]
            }
            Self::Time => &[(1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "\u{b5}s")],
            Self::Bytes => &[(1e9, 1e-9, "GB"), (1e6, 1e-6, "MB"), (1e4, 1e-3, "kB"), (0.0, 1.0, "B")],
            Self::Share => &[(0.0, 100.0, "%")],
            Self::Count => &[(0.0, 1.0, "packets")],
        };
        let found = units.iter().find(|(from, ..)| largest >= *from).or(units.last());
        found.map_or((1.0, ""), |(_, factor, name)| (*factor, *name))
    }

    /// Returns a value with its unit for a reader: `5.618 Mbit/s`.
    pub fn text(self, value: f64) -> String {
        let (factor, name) = self.shown(value.abs());
        let digits = significant(value * factor, 4);
        if name.is_empty() { digits } else { format!("{digits} {name}") }
    }
}

/// Returns a number with this many significant digits: without trailing zeros, or with an exponent
/// if it is large or small. Infinite ends of intervals are `inf`.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return fixed(value, 0);
    }
    let magnitude = decade(value);
    if !(-5..9).contains(&magnitude) {
        let decimals = usize::try_from(digits - 1).unwrap_or(0);
        return format!("{value:.decimals$e}");
    }
    fixed(value, usize::try_from(digits - 1 - magnitude).unwrap_or(0))
}

/// Returns a number with at most this many decimals, without trailing zeros or a negative zero.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Returns the power of ten at or below the magnitude of a value.
#[expect(clippy::cast_possible_truncation, reason = "logarithms of finite numbers are within 400")]
fn decade(value: f64) -> i32 {
    // Rounding first keeps 1000 in its decade where the logarithm comes out as 2.9999999999999996.
    ((value.abs().log10() * 1e9).round() / 1e9).floor() as i32
}

/// How values map to positions.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// Equal differences have equal distances.
    Linear {
        /// Value at the start of the axis.
        low: f64,
        /// Value at the end of the axis.
        high: f64,
    },
    /// Equal ratios have equal distances. Both ends are positive.
    Log {
        /// Value at the start of the axis.
        low: f64,
        /// Value at the end of the axis.
        high: f64,
    },
    /// Names side by side. The value of a name is its index.
    Names(Vec<String>),
}

impl Scale {
    /// Returns the position of a value, 0 at the start and 1 at the end of the axis.
    pub fn position(&self, value: f64) -> f64 {
        match self {
            Self::Linear { low, high } => (value - low) / (high - low),
            Self::Log { low, high } => (value.max(low * 1e-3) / low).ln() / (high / low).ln(),
            Self::Names(names) => (value + 0.5) / number(names.len().max(1)),
        }
    }

    /// Returns the values at both ends.
    pub fn ends(&self) -> (f64, f64) {
        match self {
            Self::Linear { low, high } | Self::Log { low, high } => (*low, *high),
            Self::Names(names) => (-0.5, number(names.len()) - 0.5),
        }
    }

    /// Returns the name at a value of a scale with names.
    pub fn name(&self, value: f64) -> Option<&str> {
        let Self::Names(names) = self else { return None };
        (0..names.len()).find(|i| (number(*i) - value).abs() <= 0.5).map(|i| names[i].as_str())
    }
}

/// Value with the label that is drawn there.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Value in the base unit.
    pub at: f64,
    /// Label. Empty for a grid line without a label.
    pub label: String,
}

/// Axis of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name of the quantity with the shown unit: `goodput (Mbit/s)`.
    pub label: String,
    /// Factor from values to shown numbers.
    pub factor: f64,
    /// Name of the shown unit.
    pub unit: &'static str,
    /// How values map to positions.
    pub scale: Scale,
    /// Labelled values, ascending.
    pub ticks: Vec<Tick>,
}

/// Share of the span of the data that is left free at an end of a linear axis that does not begin
/// at zero.
const MARGIN: f64 = 0.04;

impl Axis {
    /// Creates a linear axis whose ends are ticks and that contains all values; also zero if
    /// `from_zero`.
    pub fn linear(name: &str, unit: Unit, values: impl IntoIterator<Item = f64>, from_zero: bool) -> Self {
        let (mut low, mut high) = span(values);
        if from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        } else {
            let margin = (high - low) * MARGIN;
            (low, high) = (low - margin, high + margin);
        }
        // A span near the precision of the numbers has no ticks of its own.
        if high - low <= low.abs().max(high.abs()) * 1e-9 {
            high = low + if low == 0.0 { 1.0 } else { low.abs() };
        }
        let (factor, unit) = unit.shown(low.abs().max(high.abs()));
        let step = nice_step((high - low) * factor / 5.0);
        let first = (low * factor / step + 1e-9).floor();
        let last = (high * factor / step - 1e-9).ceil();
        let decimals = usize::try_from(-decade(step)).unwrap_or(0);
        let mut ticks = Vec::new();
        let mut at = first;
        while at <= last {
            ticks.push(Tick { at: at * step / factor, label: fixed(at * step, decimals) });
            at += 1.0;
        }
        let scale = Scale::Linear { low: first * step / factor, high: last * step / factor };
        Self { label: labelled(name, unit), factor, unit, scale, ticks }
    }

    /// Creates a linear axis from the smallest to the largest value, for times.
    pub fn tight(name: &str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = span(values);
        let mut axis = Self::linear(name, unit, [low, high], true);
        if high > low {
            axis.ticks.retain(|tick| tick.at >= low && tick.at <= high);
            axis.scale = Scale::Linear { low, high };
        }
        axis
    }

    /// Creates a logarithmic axis for positive values. Other values are not on the axis.
    pub fn log(name: &str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = span(values.into_iter().filter(|value| *value > 0.0));
        let (low, high) = if low > 0.0 { (low, high.max(low * 1.5)) } else { (1.0, 10.0) };
        let (factor, unit) = unit.shown(high);
        let margin = (high / low).powf(MARGIN);
        let (low, high) = (low / margin, high * margin);
        let decades = decade(low * factor)..=decade(high * factor);
        let steps: &[f64] = if decades.clone().count() > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let ticks = decades
            .flat_map(|exponent| steps.iter().map(move |step| step * 10_f64.powi(exponent)))
            .filter(|at| (low * factor..=high * factor).contains(at))
            .map(|at| Tick { at: at / factor, label: significant(at, 3) })
            .collect();
        Self { label: labelled(name, unit), factor, unit, scale: Scale::Log { low, high }, ticks }
    }

    /// Creates an axis of names.
    pub fn names(name: &str, names: Vec<String>) -> Self {
        let tick = |(i, name): (usize, &String)| Tick { at: number(i), label: name.clone() };
        let ticks = names.iter().enumerate().map(tick).collect();
        Self { label: name.to_owned(), factor: 1.0, unit: "", scale: Scale::Names(names), ticks }
    }

    /// Returns the axis with levels as ticks. The axis names the unit that all levels have as the
    /// file writes them, and the ticks are numbers. Levels in several units are shown in the
    /// axis's unit.
    #[must_use]
    pub fn labelled_as(self, name: &str, unit: Unit, mut levels: Vec<Tick>) -> Self {
        let suffix = |tick: &Tick| {
            let level = tick.label.rsplit_once(':').map_or(tick.label.as_str(), |(_, number)| number);
            level.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned()
        };
        let first = levels.first().map(suffix).unwrap_or_default();
        let has_one = levels.iter().all(|tick| suffix(tick) == first);
        let bare = if unit == Unit::Bytes { "bytes" } else { unit.shown(0.0).1 };
        let word = if first.is_empty() { Some(bare) } else { unit_word(&first) };
        let Some(word) = word.filter(|_| has_one) else {
            for tick in &mut levels {
                tick.label = significant(tick.at * self.factor, 4);
            }
            return Self { ticks: levels, ..self };
        };
        for tick in &mut levels {
            tick.label.truncate(tick.label.len() - first.len());
        }
        Self { label: labelled(name, word), ticks: levels, ..self }
    }

    /// Returns the axis with every second tick if it has many, for low panels.
    #[must_use]
    pub fn sparse(mut self) -> Self {
        if let [first, second, _, _, _, ..] = &self.ticks[..] {
            let step = second.at - first.at;
            self.ticks.retain(|tick| ((tick.at / step).round() % 2.0).abs() < 0.5);
        }
        self
    }

    /// Returns a value for a reader, without its unit.
    pub fn shown(&self, value: f64) -> String {
        let name = self.scale.name(value).map(str::to_owned);
        name.unwrap_or_else(|| significant(value * self.factor, 4))
    }
}

fn labelled(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name} ({unit})") }
}

/// Largest magnitude on an axis. A program of the engine `command` may print any number.
const LARGEST: f64 = 1e100;

/// Returns the smallest and the largest value up to [`LARGEST`]; zeros if there is none.
fn span(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let finite = values.into_iter().filter(|value| value.abs() <= LARGEST);
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high { (0.0, 0.0) } else { (low, high) }
}

/// Returns the smallest of 1, 2, 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powi(decade(step));
    let steps = [1.0, 2.0, 5.0, 10.0].map(|nice| nice * power);
    steps.into_iter().find(|nice| *nice >= step * (1.0 - 1e-9)).unwrap_or(steps[3])
}

/// Returns a unit of experiment files as readers write it. `None` for other words.
fn unit_word(unit: &str) -> Option<&'static str> {
    const WORDS: [(&str, &str); 18] = [
        ("%", "%"),
        ("p", "packets"),
        ("ns", "ns"),
        ("us", "\u{b5}s"),
        ("ms", "ms"),
        ("s", "s"),
        ("min", "min"),
        ("bit", "bit/s"),
        ("kbit", "kbit/s"),
        ("mbit", "Mbit/s"),
        ("gbit", "Gbit/s"),
        ("b", "bytes"),
        ("kb", "kB"),
        ("mb", "MB"),
        ("gb", "GB"),
        ("kib", "KiB"),
        ("mib", "MiB"),
        ("gib", "GiB"),
    ];
    WORDS.iter().find(|(word, _)| *word == unit).map(|(_, shown)| *shown)
}

/// Returns the number in a level of a factor and its unit: `16kib` is 16,384 bytes, `fixed:64` is
/// 64. `None` if the level is not a number with a known unit.
pub fn level_value(level: &str) -> Option<(f64, Unit)> {
    let level = level.rsplit_once(':').map_or(level, |(_, number)| number);
    let digits = level.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(level.len());
    let value: f64 = level[..digits].parse().ok()?;
    let (factor, unit) = match &level[digits..] {
        "" => (1.0, Unit::None),
        "%" => (1e-2, Unit::Share),
        "p" => (1.0, Unit::Count),
        "ns" => (1e-9, Unit::Time),
        "us" => (1e-6, Unit::Time),
        "ms" => (1e-3, Unit::Time),
        "s" => (1.0, Unit::Time),
        "min" => (60.0, Unit::Time),
        "bit" => (1.0, Unit::Rate),
        "kbit" => (1e3, Unit::Rate),
        "mbit" => (1e6, Unit::Rate),
        "gbit" => (1e9, Unit::Rate),
        "b" => (1.0, Unit::Bytes),
        "kb" => (1e3, Unit::Bytes),
        "mb" => (1e6, Unit::Bytes),
        "gb" => (1e9, Unit::Bytes),
        "kib" => (1024.0, Unit::Bytes),
        "mib" => (1_048_576.0, Unit::Bytes),
        "gib" => (1_073_741_824.0, Unit::Bytes),
        _ => return None,
    };
    Some((value * factor, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn queue_lengths_are_packets_and_their_series_bytes() {
        let units = ["link.forward.queue-mean", "link.forward.queue-max", "link.queue"].map(Unit::of_metric);
        assert_eq!(units, [Unit::Count, Unit::Count, Unit::Bytes]);
    }

    #[test]
    fn linear_ticks_are_round_numbers() {
        let axis = Axis::linear("goodput", Unit::Rate, [1.2e6, 5.7e6], true);
        assert_eq!(axis.label, "goodput (Mbit/s)");
        assert_eq!(labels(&axis), ["0", "2", "4", "6"]);
        assert!((axis.scale.position(3e6) - 0.5).abs() < 1e-12);
        let small = Axis::linear("share", Unit::Share, [0.994, 0.998], false);
        assert_eq!(labels(&small).first(), Some(&"99.3"));
        assert_eq!(labels(&Axis::linear("x", Unit::None, [3.0], true)), ["0", "1", "2", "3"]);
    }

    #[test]
    fn log_ticks_follow_decades() {
        let axis = Axis::log("window", Unit::Bytes, [1464.0, 1_499_136.0]);
        assert_eq!(axis.unit, "MB");
        assert!(labels(&axis).contains(&"0.01"), "{:?}", labels(&axis));
        assert_eq!(labels(&Axis::log("x", Unit::None, [1.0, 30.0])), ["1", "2", "5", "10", "20"]);
    }

    #[test]
    fn numbers_have_few_digits() {
        for (value, text) in [
            (1000.0, "1000"),
            (5.61849, "5.618"),
            (0.000_123_4, "0.0001234"),
            (-0.0, "0"),
            (1e12, "1.000e12"),
        ] {
            assert_eq!(significant(value, 4), text);
        }
        assert_eq!(significant(f64::INFINITY, 4), "inf");
        assert_eq!(Unit::Time.text(0.0523), "52.3 ms");
    }

    #[test]
    fn metrics_have_units_and_expressions_have_none() {
        for (metric, unit) in [
            ("a:goodput", Unit::Rate),
            ("a.loss", Unit::Share),
            ("a.lost-queue", Unit::Count),
            ("run-time", Unit::Time),
            ("a.timeout-2", Unit::Time),
            ("a.timeouts", Unit::Count),
            ("a.blocked", Unit::Time),
            ("a.packets-sent", Unit::Count),
            ("link.forward.queue-delay-p99", Unit::Time),
            ("link.forward.marked", Unit::Count),
            ("rate-held", Unit::None),
            ("load", Unit::Share),
            ("completion / theory(slow-start)", Unit::None),
        ] {
            assert_eq!(Unit::of_metric(metric), unit, "{metric}");
        }
    }

    #[test]
    fn extreme_values_have_few_ticks() {
        for values in [[1e20, 1e20 + 16_384.0], [-f64::MAX, f64::MAX], [1e307, 1e308]] {
            for from_zero in [false, true] {
                let axis = Axis::linear("x", Unit::Share, values, from_zero);
                assert!((2..=12).contains(&axis.ticks.len()), "{values:?}: {} ticks", axis.ticks.len());
            }
        }
    }

    #[test]
    fn levels_on_an_axis_share_a_unit_that_it_names() {
        for (unit, levels, label, wanted) in [
            (Unit::Bytes, ["5000", "60000"], "x (bytes)", ["5000", "60000"]),
            (Unit::Bytes, ["16kib", "256kib"], "x (KiB)", ["16", "256"]),
            (Unit::Rate, ["6mbit", "54mbit"], "x (Mbit/s)", ["6", "54"]),
            (Unit::Share, ["0.5%", "5%"], "x (%)", ["0.5", "5"]),
            (Unit::Time, ["500us", "2ms"], "x (ms)", ["0.5", "2"]),
            (Unit::None, ["fixed:1", "fixed:8"], "x", ["fixed:1", "fixed:8"]),
        ] {
            let tick =
                |level: &str| Tick { at: level_value(level).expect("a number").0, label: level.to_owned() };
            let ticks = levels.map(tick).to_vec();
            let axis = Axis::linear("x", unit, ticks.iter().map(|tick| tick.at), true);
            let axis = axis.labelled_as("x", unit, ticks);
            assert_eq!((axis.label.as_str(), &labels(&axis)[..]), (label, &wanted[..]));
        }
    }

    #[test]
    fn levels_have_values() {
        assert_eq!(level_value("16kib"), Some((16_384.0, Unit::Bytes)));
        assert_eq!(level_value("2.5%"), Some((0.025, Unit::Share)));
        assert_eq!(level_value("4"), Some((4.0, Unit::None)));
        assert_eq!(level_value("2.5%/0"), None);
        assert_eq!(level_value("fixed:64"), Some((64.0, Unit::None)));
        assert_eq!(level_value("on"), None);
    }
}
