//! Text form of queue disciplines: a name, then a colon and comma-separated parameters.
//!
//! Letter case is ignored. Each discipline parses its own parameters.

use std::fmt;
use std::str::FromStr;

use crate::queue::Discipline;
use crate::units::{NotationError, UnitError, one_of};

/// Parses the text form that [`Discipline`] describes. Letter case is ignored.
impl FromStr for Discipline {
    type Err = NotationError;

    fn from_str(input: &str) -> Result<Self, NotationError> {
        let text = input.trim().to_ascii_lowercase();
        let (name, parameters) = text.split_once(':').unwrap_or((&text, ""));
        let name = name.trim_end();
        let Some(default) = Self::all().into_iter().find(|it| it.words().0 == name) else {
            let names = Self::names();
            return Err(NotationError(format!("'{name}' is not a queue discipline: write {names}")));
        };
        let (discipline, known) = default.words();
        let mut parameters = Parameters::read(discipline, parameters)?;
        let read = default.read(&mut parameters)?;
        match parameters.given.first() {
            None => Ok(read),
            Some((parameter, _)) => Err(NotationError(format!(
                "'{parameter}' is not a parameter of {discipline}, which has {known}"
            ))),
        }
    }
}

impl Discipline {
    /// Returns the names of all disciplines, as the end of an error sentence.
    pub(crate) fn names() -> String {
        one_of(Self::all().map(|discipline| discipline.words().0))
    }
}

/// Writes the discipline with all its parameters: `codel:target=5ms,interval=100ms`.
impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.words().0;
        match self.write().as_str() {
            "" => f.pad(name),
            parameters => write!(f, "{name}:{parameters}"),
        }
    }
}

/// The parameters after the colon that have not been read yet.
pub(super) struct Parameters<'a> {
    discipline: &'static str,
    /// Name and value of each parameter; a flag has an empty value.
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    fn read(discipline: &'static str, text: &'a str) -> Result<Self, NotationError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for word in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let (name, value) = (name.trim_end(), value.trim_start());
            if given.iter().any(|(other, _)| *other == name) {
                return Err(NotationError(format!("'{name}' of {discipline} is given twice")));
            }
            given.push((name, value));
        }
        Ok(Self { discipline, given })
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
    ) -> Result<(), NotationError> {
        if let Some(value) = self.take(name) {
            *place = parse(value).map_err(|error| self.refuse(name, error))?;
        }
        Ok(())
    }

    /// Parses `name`, `name=yes` or `name=no` into `place`, if the text has one of them.
    pub(super) fn flag(&mut self, name: &'static str, place: &mut bool) -> Result<(), NotationError> {
        *place = match self.take(name) {
            None => return Ok(()),
            Some("" | "yes") => true,
            Some("no") => false,
            Some(other) => return Err(self.refuse(name, format!("'{other}' is not yes or no"))),
        };
        Ok(())
    }

    pub(super) fn refuse(&self, parameter: &str, reason: impl fmt::Display) -> NotationError {
        NotationError(format!("{parameter} of {}: {reason}", self.discipline))
    }
}

#[cfg(test)]
mod tests;
