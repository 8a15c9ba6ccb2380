//! Text forms of the values of keys. Parsing a written text returns an equal value.

mod delay;
mod loss;
mod mtu;
mod outage;
mod queue;
mod rate;

use std::time::Duration;

use crate::probability::Probability;
use crate::schedule::Schedule;
use crate::units::{parse_bytes, parse_probability};

pub(super) use queue::{MarkSpec, QueueSpec};
pub(super) use rate::RateSpec;

pub(super) trait Value: Sized {
    /// Parses the value. The error is a sentence that quotes the wrong part of `text`.
    fn read(text: &str) -> Result<Self, String>;

    /// Returns a text that [`read`](Self::read) parses to an equal value.
    fn write(&self) -> String;
}

/// Text of an effect that is off or of a limit that does not exist.
const NONE: &str = "none";

fn is_none(text: &str) -> bool {
    text.eq_ignore_ascii_case(NONE)
}

/// Returns `text` without its last word, if that word is `word`.
fn strip_last<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (rest, last) = text.rsplit_once(char::is_whitespace)?;
    last.eq_ignore_ascii_case(word).then_some(rest.trim_end())
}

impl Value for Probability {
    fn read(text: &str) -> Result<Self, String> {
        parse_probability(text).map_err(|error| error.to_string())
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// A size in bytes, below 4 GiB.
impl Value for u32 {
    fn read(text: &str) -> Result<Self, String> {
        let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
        Self::try_from(bytes).map_err(|_| format!("'{text}' is more than 4294967295 bytes"))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// Steps, ascending: `0s:10mbit,5s:2mbit`.
impl<T: Value + Copy> Value for Schedule<T> {
    fn read(text: &str) -> Result<Self, String> {
        let (first, rest) = text.split_once(',').map_or((text, None), |(first, rest)| (first, Some(rest)));
        let (None | Some(Duration::ZERO), first) = timed(first)? else {
            return Err(format!("'{}' has no value from 0s on", first.trim()));
        };
        let mut changes: Vec<(Duration, T)> = Vec::new();
        for text in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let (Some(at), value) = timed(text)? else {
                return Err(format!("'{0}' has no time: write 5s:{0}", text.trim()));
            };
            if at <= changes.last().map_or(Duration::ZERO, |last| last.0) {
                return Err(format!("'{}' is no later than the step before it", text.trim()));
            }
            changes.push((at, value));
        }
        Ok(Self::new(first, changes))
    }

    fn write(&self) -> String {
        let (first, changes) = self.parts();
        let changes = changes.iter().map(|(at, value)| format!(", {}:{}", at.write(), value.write()));
        std::iter::once(first.write()).chain(changes).collect()
    }
}

/// Parses a value with an optional time before it: `5s:2mbit`.
fn timed<T: Value>(text: &str) -> Result<(Option<Duration>, T), String> {
    match text.split_once(':') {
        Some((at, value)) => Ok((Some(Duration::read(at.trim())?), T::read(value.trim())?)),
        None => Ok((None, T::read(text.trim())?)),
    }
}
