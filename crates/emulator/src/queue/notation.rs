//! Text form of queue disciplines: a name, then a colon and comma-separated parameters.
//!
//! Letter case is ignored. Each discipline parses its own parameters ([`DisciplineConfig`]).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::bitrate::Bitrate;
use crate::queue::Discipline;
use crate::queue::aqm::ManagedQueue;
use crate::units::{UnitError, one_of};

/// Configuration of one discipline: its text form and its state machine. The default methods are
/// those of a discipline without parameters.
pub(super) trait DisciplineConfig {
    /// Returns the text before the colon, in lower case.
    fn name(&self) -> &'static str;

    /// Returns the names of the parameters, as the end of an error sentence.
    fn parameters(&self) -> &'static str {
        "none"
    }

    /// Returns this configuration changed by `parameters`.
    fn read(&self, parameters: &mut Parameters<'_>) -> Result<Discipline, DisciplineError>;

    /// Returns the text of all parameters, which [`read`](Self::read) parses to an equal value.
    fn write(&self) -> String {
        String::new()
    }

    /// Creates the state machine for a link of this rate (`None`: no limit). Returns `None` for
    /// drop-tail, which needs no state machine.
    fn build(&self, rate: Option<Bitrate>) -> Option<ManagedQueue>;
}

/// Error of [`Discipline`]'s `FromStr`: why a text is not a queue discipline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DisciplineError {
    /// No discipline has this name.
    #[error("'{name}' is not a queue discipline: write {}", Discipline::names())]
    UnknownName {
        /// The text before the first colon.
        name: String,
    },
    /// The discipline has no such parameter.
    #[error("'{parameter}' is not a parameter of {discipline}, which has {known}")]
    UnknownParameter {
        /// The name of the discipline.
        discipline: &'static str,
        /// The parameter as given.
        parameter: String,
        /// The parameters of the discipline.
        known: &'static str,
    },
    /// A parameter is given twice.
    #[error("'{parameter}' of {discipline} is given twice")]
    DuplicateParameter {
        /// The name of the discipline.
        discipline: &'static str,
        /// The name of the parameter.
        parameter: String,
    },
    /// The value of a parameter is missing or malformed.
    #[error("{parameter} of {discipline}: {reason}")]
    Value {
        /// The name of the discipline.
        discipline: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// The error in the value.
        reason: String,
    },
}

/// Parses the text form that [`Discipline`] describes. Letter case is ignored.
impl FromStr for Discipline {
    type Err = DisciplineError;

    fn from_str(input: &str) -> Result<Self, DisciplineError> {
        let text = input.trim().to_ascii_lowercase();
        let (name, parameters) = text.split_once(':').unwrap_or((&text, ""));
        let name = name.trim_end();
        let Some(default) = Self::all().into_iter().find(|it| it.config().name() == name) else {
            return Err(DisciplineError::UnknownName { name: name.to_owned() });
        };
        let config = default.config();
        let mut parameters = Parameters::read(config.name(), config.parameters(), parameters)?;
        let discipline = config.read(&mut parameters)?;
        parameters.finish(discipline)
    }
}

impl Discipline {
    /// Returns the names of all disciplines, as the end of an error sentence.
    pub(crate) fn names() -> String {
        one_of(Self::all().map(|discipline| discipline.config().name()))
    }
}

/// Writes the discipline with all its parameters: `codel:target=5ms,interval=100ms`.
impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.config();
        match config.write().as_str() {
            "" => f.pad(config.name()),
            parameters => write!(f, "{}:{parameters}", config.name()),
        }
    }
}

/// The parameters after the colon that have not been read yet.
pub(super) struct Parameters<'a> {
    discipline: &'static str,
    known: &'static str,
    /// Name and value of each parameter; a flag has an empty value.
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    fn read(discipline: &'static str, known: &'static str, text: &'a str) -> Result<Self, DisciplineError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for word in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let (name, value) = (name.trim_end(), value.trim_start());
            if given.iter().any(|(other, _)| *other == name) {
                return Err(DisciplineError::DuplicateParameter { discipline, parameter: name.to_owned() });
            }
            given.push((name, value));
        }
        Ok(Self { discipline, known, given })
    }

    /// Removes a parameter and returns its value. `None` if the text does not have it.
    fn take(&mut self, name: &str) -> Option<&'a str> {
        let place = self.given.iter().position(|(given, _)| *given == name)?;
        Some(self.given.remove(place).1)
    }

    pub(super) fn quantity<T>(
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

    /// Parses `name`, `name=yes` or `name=no` into `place`, if the text has one of them.
    pub(super) fn flag(&mut self, name: &'static str, place: &mut bool) -> Result<(), DisciplineError> {
        *place = match self.take(name) {
            None => return Ok(()),
            Some("" | "yes") => true,
            Some("no") => false,
            Some(other) => return Err(self.refuse(name, format!("'{other}' is not yes or no"))),
        };
        Ok(())
    }

    pub(super) fn refuse(&self, parameter: &'static str, reason: String) -> DisciplineError {
        DisciplineError::Value { discipline: self.discipline, parameter, reason }
    }

    /// Returns `discipline`, or an error if the text has a parameter that the discipline has not
    /// read.
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

/// Writes a time in the largest unit of which it is a whole multiple.
pub(super) struct Time(pub(super) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let whole = units.iter().find(|(worth, _)| nanos > 0 && nanos.is_multiple_of(*worth));
        let (worth, unit) = whole.unwrap_or(&(1, "ns"));
        write!(f, "{}{unit}", nanos / worth)
    }
}

/// Writes a size in the largest decimal unit of which it is a whole multiple.
pub(super) struct Bytes(pub(super) u64);

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
