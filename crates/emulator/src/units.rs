//! Parsers of rates, times, sizes and probabilities.
//!
//! A number without a unit is an error wherever its unit is not obvious: a rate of `10` or a time
//! of `100`. The message proposes texts with a unit. Letter case is ignored, and a space before the
//! unit is allowed.

use std::time::Duration;

use crate::bitrate::Bitrate;
use crate::probability::Probability;
use crate::queue::QueueSize;

/// Why a text is no queue discipline, trace or 802.11 cell: a sentence that quotes the mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotationError(pub(crate) String);

/// Error of a parser: why the text is not the expected quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not have the form of the expected quantity.
    #[error("'{input}' is not {expected}")]
    Malformed {
        /// The text as given.
        input: String,
        /// The expected quantity, with examples.
        expected: &'static str,
    },
    /// The text is a bare number where a unit is required.
    #[error("'{input}' has no unit: write {fix}")]
    MissingUnit {
        /// The text as given.
        input: String,
        /// Proposed texts: the number with each possible unit.
        fix: String,
    },
    /// The text has the right form, but the quantity is out of range.
    #[error("'{input}' is out of range: {range}")]
    OutOfRange {
        /// The text as given.
        input: String,
        /// The valid range.
        range: &'static str,
    },
}

/// Parses a bit rate: `300bit`, `500kbit`, `10mbit`, `1.5gbit`, with an optional `/s`.
///
/// Prefixes are powers of 1000. A lower positive rate becomes one millibit per second.
pub fn parse_bitrate(input: &str) -> Result<Bitrate, UnitError> {
    let text = input.trim();
    let is_positive = input.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    match RATE.read(input, text.strip_suffix("/s").unwrap_or(text)) {
        Ok(rounded) if is_positive => Ok(Bitrate::from_millibps(rounded)),
        // The units of a bare zero would not help.
        Ok(_) | Err(UnitError::MissingUnit { .. }) if !is_positive => {
            Err(UnitError::OutOfRange { input: input.to_owned(), range: ZERO_RATE })
        }
        result => result.map(Bitrate::from_millibps),
    }
}

/// Parses a duration, to the nearest nanosecond: `20ns`, `250us`, `100ms`, `1.5s`, `10min`.
pub fn parse_duration(input: &str) -> Result<Duration, UnitError> {
    TIME.read(input, input.trim()).map(Duration::from_nanos)
}

/// Parses a size, to the nearest byte: `1500`, `1500b`, `10mb` (powers of 1000), `64kib`, `1gib`
/// (powers of 1024).
pub fn parse_bytes(input: &str) -> Result<u64, UnitError> {
    SIZE.read(input, input.trim())
}

/// Parses a probability: `0.05`, `1e-5` or `5%`.
pub fn parse_probability(input: &str) -> Result<Probability, UnitError> {
    let (number, divisor) = match input.trim().strip_suffix('%') {
        Some(percentage) => (percentage.trim_end(), 100.0),
        None => (input.trim(), 1.0),
    };
    let value: f64 = number.parse().map_err(|_| UnitError::Malformed {
        input: input.to_owned(),
        expected: "a probability such as 0.05 or 5%",
    })?;
    Probability::new(value / divisor).ok_or_else(|| UnitError::OutOfRange {
        input: input.to_owned(),
        range: "a probability is from 0 to 1, or from 0% to 100%",
    })
}

/// Parses the size of a queue: packets (`25p`), bytes (`64kb`, `1mib`) or multiples of the
/// bandwidth-delay product (`1bdp`, `0.5bdp`), to the nearest millionth of a product.
///
/// A number without a unit is an error, because it could mean packets or bytes.
pub fn parse_queue_size(input: &str) -> Result<QueueSize, UnitError> {
    let text = input.trim();
    let (number, unit) = split(text);
    match unit.to_ascii_lowercase().as_str() {
        "p" => {
            let packets = PACKETS.read(input, text)?;
            if number.contains('.') {
                return Err(PACKETS.malformed(input));
            }
            u32::try_from(packets).map(QueueSize::Packets).map_err(|_| PACKETS.out_of_range(input))
        }
        "bdp" => BDP.read(input, text).map(QueueSize::BdpMillionths),
        "" if number.parse::<f64>().is_ok() => {
            let units = SIZE.units.iter().map(|&(name, _)| name);
            Err(missing_unit(input, number, units.chain(["p", "bdp"])))
        }
        _ => QUEUE_BYTES.read(input, text).map(QueueSize::Bytes),
    }
}

/// Writes a time in the largest unit of which it is a whole multiple.
pub(crate) fn write_duration(time: Duration) -> String {
    in_units(time.as_nanos(), &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")])
}

/// Writes a size in the largest decimal unit of which it is a whole multiple.
pub(crate) fn write_bytes(bytes: u64) -> String {
    in_units(bytes.into(), &[(1_000_000_000, "gb"), (1_000_000, "mb"), (1_000, "kb"), (1, "b")])
}

/// Writes an amount in the first unit of which it is a whole multiple; 0 in the last one.
fn in_units<const N: usize>(amount: u128, units: &[(u128, &str); N]) -> String {
    let whole = units.iter().find(|(worth, _)| amount > 0 && amount.is_multiple_of(*worth));
    let (worth, unit) = whole.unwrap_or(&units[N - 1]);
    format!("{}{unit}", amount / worth)
}

/// Joins alternatives for the end of an error sentence: `drop-tail, codel or pie`.
pub(crate) fn one_of<const N: usize>(names: [&str; N]) -> String {
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

struct Notation {
    /// Kind of quantity with examples, for error messages.
    expected: &'static str,
    /// Valid range, for error messages.
    range: &'static str,
    /// Each unit with its size in units of the result (for example nanoseconds), smallest first.
    units: &'static [(&'static str, u64)],
    /// Size of the unit that a bare number has. `None`: a unit is required.
    bare: Option<u64>,
}

/// Range of rates for those who write 0, which other programs take for no limit.
pub(crate) const ZERO_RATE: &str = "a rate is more than zero: write one such as 10mbit, or leave it out";

const RATE: Notation = Notation {
    expected: "a rate such as 300bit, 500kbit, 10mbit or 1.5gbit",
    range: "a rate is more than zero and at most 18446744gbit",
    units: &[("bit", 1_000), ("kbit", 1_000_000), ("mbit", 1_000_000_000), ("gbit", 1_000_000_000_000)],
    bare: None,
};

const TIME: Notation = Notation {
    expected: "a time such as 20ns, 250us, 100ms, 1.5s or 10min",
    range: "a time is at most 18446744073s",
    units: &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)],
    bare: None,
};

const SIZE: Notation = Notation {
    expected: "a size such as 1500, 1500b, 10mb, 64kib or 1gib",
    range: "a size is at most 18446744073709551615b",
    units: &[
        ("b", 1),
        ("kb", 1_000),
        ("kib", 1 << 10),
        ("mb", 1_000_000),
        ("mib", 1 << 20),
        ("gb", 1_000_000_000),
        ("gib", 1 << 30),
    ],
    bare: Some(1),
};

const QUEUE: &str = "a queue such as 25p (packets), 64kb or 1.5bdp (bandwidth-delay products)";

const PACKETS: Notation = Notation {
    expected: "a whole number of packets such as 25p",
    range: "a queue has at most 4294967295p",
    units: &[("p", 1)],
    bare: None,
};

const BDP: Notation = Notation {
    expected: QUEUE,
    range: "a queue is at most 18446744073709bdp",
    units: &[("bdp", 1_000_000)],
    bare: None,
};

const QUEUE_BYTES: Notation = Notation { expected: QUEUE, bare: None, ..SIZE };

/// Splits a text into its leading number and the unit, without the space between them.
fn split(text: &str) -> (&str, &str) {
    let unit_start = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    (number, unit.trim_start())
}

fn missing_unit<'a>(input: &str, number: &str, units: impl Iterator<Item = &'a str>) -> UnitError {
    let choices: Vec<_> = units.map(|name| format!("{number}{name}")).collect();
    UnitError::MissingUnit { input: input.to_owned(), fix: choices.join(" or ") }
}

impl Notation {
    /// Parses the quantity in `text`. Errors quote `input`, the text before trimming.
    fn read(&self, input: &str, text: &str) -> Result<u64, UnitError> {
        let (number, unit) = split(text);
        let malformed = || self.malformed(input);

        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let worth = match unit {
            "" => {
                let units = self.units.iter().map(|&(name, _)| name);
                self.bare.ok_or_else(|| missing_unit(input, number, units))?
            }
            unit => self.worth(unit).ok_or_else(malformed)?,
        };
        scale(whole, fraction, worth).ok_or_else(|| self.out_of_range(input))
    }

    fn worth(&self, unit: &str) -> Option<u64> {
        self.units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|&(_, worth)| worth)
    }

    fn malformed(&self, input: &str) -> UnitError {
        UnitError::Malformed { input: input.to_owned(), expected: self.expected }
    }

    fn out_of_range(&self, input: &str) -> UnitError {
        UnitError::OutOfRange { input: input.to_owned(), range: self.range }
    }
}

/// Returns `whole.fraction * worth` to the nearest integer, or `None` if it exceeds 64 bits.
///
/// Both parts are decimal digits or empty. Digits of the fraction after the 18th are ignored: no
/// unit exceeds 1e12, so they change the result by less than a millionth of its unit.
fn scale(whole: &str, fraction: &str, worth: u64) -> Option<u64> {
    const PLACES: usize = 18;

    // The products fit in 128 bits: whole part 64 + unit 40 bits, fraction 60 + unit 40.
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: u64 = format!("{fraction:0<PLACES$.PLACES$}").parse().ok()?;
    let one = 10_u128.pow(18);
    let part = (u128::from(fraction) * u128::from(worth) + one / 2) / one;
    u64::try_from(u128::from(whole) * u128::from(worth) + part).ok()
}

#[cfg(test)]
mod tests;
