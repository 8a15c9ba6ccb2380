//! The words that a key can be set to.
//!
//! Owns the two ways, from text and to text, which are each other's inverse. Each kind of value has a file;
//! none knows what key it is for.

mod delay;
mod loss;
mod mtu;
mod outage;
mod queue;
mod rate;
mod steps;

use std::time::Duration;

use crate::units::{Probability, parse_bytes, parse_duration, parse_probability};

pub(super) use mtu::Longest;
pub(super) use queue::{Mark, Room};
pub(super) use rate::Rate;
pub(super) use steps::Steps;

/// A value in words.
pub(super) trait Word: Sized {
    /// Reads it. The error is a sentence that quotes what is wrong.
    fn read(text: &str) -> Result<Self, String>;

    /// What [`read`](Self::read) reads as this value.
    fn write(&self) -> String;
}

/// The word for a thing that is not there.
const NONE: &str = "none";

fn is_none(text: &str) -> bool {
    text.eq_ignore_ascii_case(NONE)
}

/// The rest of a text that ends with a word of its own, without it.
fn strip_last<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (rest, last) = text.rsplit_once(char::is_whitespace)?;
    last.eq_ignore_ascii_case(word).then_some(rest.trim_end())
}

impl Word for Duration {
    fn read(text: &str) -> Result<Self, String> {
        parse_duration(text).map_err(|error| error.to_string())
    }

    /// In the largest unit of which it is a whole number.
    fn write(&self) -> String {
        let nanos = self.as_nanos();
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
        let (unit, worth) =
            units.into_iter().find(|(_, worth)| nanos.is_multiple_of(*worth)).unwrap_or(("ns", 1));
        format!("{}{unit}", nanos / worth)
    }
}

impl Word for Probability {
    fn read(text: &str) -> Result<Self, String> {
        parse_probability(text).map_err(|error| error.to_string())
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// A size that fits in a packet many times over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) u32);

impl Word for Bytes {
    fn read(text: &str) -> Result<Self, String> {
        let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
        u32::try_from(bytes).map(Self).map_err(|_| format!("'{text}' is more than 4294967295 bytes"))
    }

    fn write(&self) -> String {
        self.0.to_string()
    }
}
