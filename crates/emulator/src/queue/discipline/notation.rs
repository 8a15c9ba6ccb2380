//! Disciplines in words.
//!
//! Owns the notation and the wording of its errors: a name, and after a colon parameters with commas
//! between them. Letter case does not matter.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Discipline;
use crate::queue::codel::CoDelConfig;
use crate::queue::pie::PieConfig;
use crate::queue::red::RedConfig;
use crate::units::{UnitError, parse_bytes, parse_duration, parse_probability};

/// Why a text is no queue discipline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DisciplineError {
    /// No discipline has this name.
    #[error("'{name}' is not a queue discipline: write drop-tail, drop-head, codel, red or pie")]
    UnknownName {
        /// The text before the first colon.
        name: String,
    },
    /// The discipline has no such parameter.
    #[error("'{parameter}' is not a parameter of {discipline}, which has {known}")]
    UnknownParameter {
        /// The name of the discipline.
        discipline: &'static str,
        /// The text where a parameter should be.
        parameter: String,
        /// The parameters that it has.
        known: &'static str,
    },
    /// A parameter is there twice.
    #[error("'{parameter}' of {discipline} is given twice")]
    Twice {
        /// The name of the discipline.
        discipline: &'static str,
        /// The name of the parameter.
        parameter: String,
    },
    /// A parameter's value is missing or is not the quantity it should be.
    #[error("{parameter} of {discipline}: {reason}")]
    Value {
        /// The name of the discipline.
        discipline: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// What is wrong with the value.
        reason: String,
    },
}

/// See [`Discipline`].
impl FromStr for Discipline {
    type Err = DisciplineError;

    fn from_str(input: &str) -> Result<Self, DisciplineError> {
        let text = input.trim().to_ascii_lowercase();
        let (name, parameters) = text.split_once(':').unwrap_or((&text, ""));
        let read = |discipline, known| Parameters::read(discipline, known, parameters);
        match name.trim_end() {
            "drop-tail" => read("drop-tail", "none")?.finish(Self::DropTail),
            "drop-head" => read("drop-head", "none")?.finish(Self::DropHead),
            "codel" => codel(read("codel", "target, interval and ecn")?),
            "red" => red(read("red", "min, max, p, weight, gentle and ecn")?),
            "pie" => pie(read("pie", "target, tupdate, burst, alpha, beta and ecn")?),
            other => Err(DisciplineError::UnknownName { name: other.to_owned() }),
        }
    }
}

fn codel(mut parameters: Parameters<'_>) -> Result<Discipline, DisciplineError> {
    let mut config = CoDelConfig::default();
    parameters.quantity("target", parse_duration, &mut config.target)?;
    parameters.quantity("interval", parse_duration, &mut config.interval)?;
    parameters.flag("ecn", &mut config.ecn)?;
    for (name, time) in [("target", config.target), ("interval", config.interval)] {
        if time.is_zero() {
            return Err(parameters.refuse(name, "it is more than zero".to_owned()));
        }
    }
    parameters.finish(Discipline::CoDel(config))
}

fn red(mut parameters: Parameters<'_>) -> Result<Discipline, DisciplineError> {
    let mut config = RedConfig::default();
    parameters.quantity("min", parse_bytes, &mut config.min)?;
    parameters.quantity("max", parse_bytes, &mut config.max)?;
    parameters.quantity("p", parse_probability, &mut config.max_p)?;
    parameters.quantity("weight", parse_probability, &mut config.weight)?;
    parameters.flag("gentle", &mut config.gentle)?;
    parameters.flag("ecn", &mut config.ecn)?;
    if config.max <= config.min {
        let reason = format!("it is more than min, which is {}", Bytes(config.min));
        return Err(parameters.refuse("max", reason));
    }
    parameters.finish(Discipline::Red(config))
}

fn pie(mut parameters: Parameters<'_>) -> Result<Discipline, DisciplineError> {
    let mut config = PieConfig::default();
    parameters.quantity("target", parse_duration, &mut config.target)?;
    parameters.quantity("tupdate", parse_duration, &mut config.tupdate)?;
    parameters.quantity("burst", parse_duration, &mut config.max_burst)?;
    parameters.quantity("alpha", gain, &mut config.alpha)?;
    parameters.quantity("beta", gain, &mut config.beta)?;
    parameters.flag("ecn", &mut config.ecn)?;
    if config.tupdate < PieConfig::MIN_TUPDATE {
        let reason = format!("it is at least {}", Time(PieConfig::MIN_TUPDATE));
        return Err(parameters.refuse("tupdate", reason));
    }
    parameters.finish(Discipline::Pie(config))
}

fn gain(input: &str) -> Result<f64, UnitError> {
    let expected = "a number such as 0.125";
    let malformed = || UnitError::Malformed { input: input.to_owned(), expected };
    let value: f64 = input.trim().parse().map_err(|_| malformed())?;
    if value.is_finite() && value >= 0.0 { Ok(value.abs()) } else { Err(malformed()) }
}

/// What follows the colon.
struct Parameters<'a> {
    discipline: &'static str,
    known: &'static str,
    /// Each name with its value, which is empty where there is none.
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    fn read(discipline: &'static str, known: &'static str, text: &'a str) -> Result<Self, DisciplineError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for word in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let (name, value) = (name.trim_end(), value.trim_start());
            if given.iter().any(|(other, _)| *other == name) {
                return Err(DisciplineError::Twice { discipline, parameter: name.to_owned() });
            }
            given.push((name, value));
        }
        Ok(Self { discipline, known, given })
    }

    /// The value of a parameter that is given.
    fn take(&mut self, name: &str) -> Option<&'a str> {
        let place = self.given.iter().position(|(given, _)| *given == name)?;
        Some(self.given.remove(place).1)
    }

    /// Reads a quantity into its place, if it is given.
    fn quantity<T>(
        &mut self,
        name: &'static str,
        parse: fn(&str) -> Result<T, UnitError>,
        place: &mut T,
    ) -> Result<(), DisciplineError> {
        if let Some(value) = self.take(name) {
            *place = parse(value).map_err(|error| self.refuse(name, error.to_string()))?;
        }
        Ok(())
    }

    /// Reads `name`, `name=yes` or `name=no` into its place, if it is given.
    fn flag(&mut self, name: &'static str, place: &mut bool) -> Result<(), DisciplineError> {
        *place = match self.take(name) {
            None => return Ok(()),
            Some("" | "yes") => true,
            Some("no") => false,
            Some(other) => return Err(self.refuse(name, format!("'{other}' is not yes or no"))),
        };
        Ok(())
    }

    fn refuse(&self, parameter: &'static str, reason: String) -> DisciplineError {
        DisciplineError::Value { discipline: self.discipline, parameter, reason }
    }

    /// The result, unless something is left that nobody asked for.
    fn finish(self, discipline: Discipline) -> Result<Discipline, DisciplineError> {
        match self.given.first() {
            None => Ok(discipline),
            Some((parameter, _)) => Err(DisciplineError::UnknownParameter {
                discipline: self.discipline,
                parameter: (*parameter).to_owned(),
                known: self.known,
            }),
        }
    }
}

/// All parameters, so that what is read back is the same: `codel:target=5ms,interval=100ms`.
impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |is_set, text| if is_set { text } else { "" };
        match self {
            Self::DropTail => f.pad("drop-tail"),
            Self::DropHead => f.pad("drop-head"),
            Self::CoDel(CoDelConfig { target, interval, ecn }) => {
                let ecn = flag(*ecn, ",ecn");
                write!(f, "codel:target={},interval={}{ecn}", Time(*target), Time(*interval))
            }
            Self::Red(RedConfig { min, max, max_p, weight, gentle, ecn }) => {
                let (min, max) = (Bytes(*min), Bytes(*max));
                let (gentle, ecn) = (flag(!gentle, ",gentle=no"), flag(*ecn, ",ecn"));
                write!(f, "red:min={min},max={max},p={max_p},weight={weight}{gentle}{ecn}")
            }
            Self::Pie(PieConfig { target, tupdate, max_burst, alpha, beta, ecn }) => {
                let [target, tupdate, burst] = [*target, *tupdate, *max_burst].map(Time);
                let ecn = flag(*ecn, ",ecn");
                write!(
                    f,
                    "pie:target={target},tupdate={tupdate},burst={burst},alpha={alpha},beta={beta}{ecn}"
                )
            }
        }
    }
}

/// A time in the largest unit in which it is a whole number.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let whole = units.iter().find(|(worth, _)| nanos > 0 && nanos.is_multiple_of(*worth));
        let (worth, unit) = whole.unwrap_or(&(1, "ns"));
        write!(f, "{}{unit}", nanos / worth)
    }
}

/// A size in the largest decimal unit in which it is a whole number.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "gb"), (1_000_000, "mb"), (1_000, "kb")];
        let whole = units.iter().find(|(worth, _)| self.0 > 0 && self.0.is_multiple_of(*worth));
        let (worth, unit) = whole.unwrap_or(&(1, "b"));
        write!(f, "{}{unit}", self.0 / worth)
    }
}

#[cfg(test)]
mod tests;
