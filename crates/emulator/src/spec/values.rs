//! Text forms of the values of keys. Parsing a written text returns an equal value.

mod delay;
mod loss;
mod mtu;
mod outage;
mod queue;
mod rate;

use std::time::Duration;

use crate::probability::Probability;
use crate::units::{parse_bytes, parse_probability};

pub(super) use mtu::MtuSpec;
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) u32);

impl Value for Bytes {
    fn read(text: &str) -> Result<Self, String> {
        let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
        u32::try_from(bytes).map(Self).map_err(|_| format!("'{text}' is more than 4294967295 bytes"))
    }

    fn write(&self) -> String {
        self.0.to_string()
    }
}

/// A first value and later values, each from a time on, ascending: `0s:10mbit,5s:2mbit`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Steps<T> {
    pub(super) first: T,
    pub(super) changes: Vec<(Duration, T)>,
}

impl<T: Value> Value for Steps<T> {
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
        Ok(Self { first, changes })
    }

    fn write(&self) -> String {
        let changes = self.changes.iter().map(|(at, value)| format!(", {}:{}", at.write(), value.write()));
        std::iter::once(self.first.write()).chain(changes).collect()
    }
}

/// Parses a value with an optional time before it: `5s:2mbit`.
fn timed<T: Value>(text: &str) -> Result<(Option<Duration>, T), String> {
    match text.split_once(':') {
        Some((at, value)) => Ok((Some(Duration::read(at.trim())?), T::read(value.trim())?)),
        None => Ok((None, T::read(text.trim())?)),
    }
}
