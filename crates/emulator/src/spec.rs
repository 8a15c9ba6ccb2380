//! A path as people write it: the keys and words of a TOML text and of command-line flags, which are the
//! same.
//!
//! Owns the description, layer on layer (a preset, a text, flags), and its way to a [`PathConfig`]. The
//! words of each key are read and written in `words`; what a link then does is no concern of this module. It
//! opens no file: a trace is named here and read by the caller.

mod document;
mod error;
mod key;
mod link;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;
use std::time::Duration;

use crate::path::{PathConfig, halves};
use crate::preset::Preset;
use link::LinkSpec;
use values::Value;

pub use error::SpecError;
pub use key::{Key, LinkKey, UnknownKey};

/// Which direction a key is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Both, or the path as a whole.
    Both,
    /// From the side that opened the path.
    Forward,
    /// Back to the side that opened the path.
    Reverse,
}

/// A path in the words of `docs/PATHS.md`. The default is a perfect wire each way.
///
/// ```
/// use rdt_emulator::spec::{PathSpec, Scope};
///
/// let mut path = PathSpec::from_toml("rtt = '100ms'\nrate = '10mbit'\n[reverse]\nrate = '1mbit'")?;
/// path.set(Scope::Both, "loss", "1%")?;
/// let config = path.to_path_config(|file| Err(format!("no trace is named, so not {file}")))?;
/// assert_eq!(config.rtt().as_millis(), 100);
///
/// let error = path.set(Scope::Reverse, "rate", "10").unwrap_err();
/// assert!(error.to_string().starts_with("--rate-reverse: '10' has no unit: write 10bit or 10kbit"));
/// # Ok::<_, rdt_emulator::spec::SpecError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathSpec {
    seed: Option<u64>,
    forward: LinkSpec,
    reverse: LinkSpec,
}

/// A key and what it is set to, and where that is said.
#[derive(Debug, Clone)]
struct Assignment {
    scope: Scope,
    key: Key,
    text: String,
    /// An error without a message yet.
    place: SpecError,
}

impl PathSpec {
    /// Reads a TOML text. Keys that are not there have their defaults.
    pub fn from_toml(text: &str) -> Result<Self, SpecError> {
        let mut path = Self::default();
        path.assign(document::read(text)?)?;
        Ok(path)
    }

    /// A path that comes with this crate.
    pub fn preset(preset: Preset) -> Result<Self, SpecError> {
        Self::from_toml(preset.toml())
    }

    /// Sets one key, as a flag does: of `--rate-reverse 1mbit` the scope is [`Scope::Reverse`], the key
    /// `rate` and the value `1mbit`.
    ///
    /// Whatever was said before of that key in that scope no longer holds. A preset replaces all but the
    /// seed.
    pub fn set(&mut self, scope: Scope, key: &str, value: &str) -> Result<(), SpecError> {
        self.set_all([(scope, key, value)])
    }

    /// Sets keys that are given together, such as all flags of a command line, in any order: a preset comes
    /// first, and what is said of one direction overrides what is said of both. On an error nothing is set.
    pub fn set_all<'a>(
        &mut self,
        settings: impl IntoIterator<Item = (Scope, &'a str, &'a str)>,
    ) -> Result<(), SpecError> {
        let assignments = settings.into_iter().map(|(scope, key, value)| {
            let place = SpecError::at_flag(scope, key);
            let key = key.parse().map_err(|unknown| place.clone().because(unknown))?;
            Ok(Assignment { scope, key, text: value.to_owned(), place })
        });
        let assignments = assignments.collect::<Result<_, SpecError>>()?;
        let mut path = self.clone();
        path.assign(assignments)?;
        *self = path;
        Ok(())
    }

    /// Sets the bytes of headers of each direction of which nothing is said: who sees packets without them knows
    /// how many there are.
    pub fn assume_headers(&mut self, bytes: u32) {
        for link in [&mut self.forward, &mut self.reverse] {
            link.headers.get_or_insert(values::Bytes(bytes));
        }
    }

    /// The seed, if one is given. Without one a program takes a new one each time, and says which.
    pub const fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// The trace files that [`to_path_config`](Self::to_path_config) will ask for, as they are written.
    pub fn trace_files(&self) -> Vec<&str> {
        let mut files: Vec<_> =
            [&self.forward, &self.reverse].into_iter().filter_map(|it| it.trace()).collect();
        files.dedup();
        files
    }

    /// What the links do. `read_trace` is given the name of each trace file and returns its text, or a
    /// sentence that says why it cannot.
    pub fn to_path_config(
        &self,
        mut read_trace: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<PathConfig, SpecError> {
        let rtt = self.forward.delay.saturating_add(self.reverse.delay);
        let mut config = |link: &LinkSpec, direction: &str| {
            let failed = |message| SpecError::of(format!("rate ({direction})")).because(message);
            link.to_config(rtt, &mut read_trace).map_err(failed)
        };
        let forward = config(&self.forward, "forward")?;
        Ok(PathConfig { forward, reverse: config(&self.reverse, "reverse")? })
    }

    /// A TOML text that describes the same path: whatever is not the default, with a table for each
    /// direction where they differ.
    pub fn to_toml(&self) -> String {
        document::write(self.seed, &self.forward, &self.reverse)
    }

    /// Makes assignments of one layer.
    fn assign(&mut self, mut assignments: Vec<Assignment>) -> Result<(), SpecError> {
        let has_rtt = assignments.iter().any(|it| it.key == Key::Rtt);
        let delay = assignments.iter().find(|it| it.key == Key::Link(LinkKey::Delay));
        if let (true, Some(delay)) = (has_rtt, delay) {
            let both = "rtt and delay exclude each other: rtt is half of it in each direction";
            return Err(delay.place.clone().because(both));
        }
        assignments.sort_by_key(|it| match (it.key, it.scope) {
            (Key::Preset, _) => 0,
            (_, Scope::Both) => 1,
            (_, Scope::Forward | Scope::Reverse) => 2,
        });
        for assignment in assignments {
            let result = self.assign_one(assignment.scope, assignment.key, &assignment.text);
            result.map_err(|message| assignment.place.because(message))?;
        }
        Ok(())
    }

    /// An error is a sentence about the text.
    fn assign_one(&mut self, scope: Scope, key: Key, text: &str) -> Result<(), String> {
        let explained = |error: String| format!("{error} (it is {})", key.allowed());
        match (key, scope) {
            (Key::Link(LinkKey::Loss), Scope::Both) if text.contains('/') => {
                let (forward, reverse) = text.split_once('/').unwrap_or((text, "none"));
                self.forward.set(LinkKey::Loss, forward).map_err(explained)?;
                self.reverse.set(LinkKey::Loss, reverse).map_err(explained)
            }
            (Key::Link(key), Scope::Both) => {
                self.forward.set(key, text).map_err(explained)?;
                self.reverse.set(key, text).map_err(explained)
            }
            (Key::Link(key), Scope::Forward) => self.forward.set(key, text).map_err(explained),
            (Key::Link(key), Scope::Reverse) => self.reverse.set(key, text).map_err(explained),
            (_, Scope::Forward | Scope::Reverse) => Err("it is said of both directions together".to_owned()),
            (Key::Preset, Scope::Both) => {
                let preset = text.parse::<Preset>().map_err(|error| error.to_string())?;
                let preset = Self::preset(preset).map_err(|error| error.to_string())?;
                *self = Self { seed: self.seed, ..preset };
                Ok(())
            }
            (Key::Seed, Scope::Both) => {
                let seed = text.trim().parse();
                let seed = seed.map_err(|_| explained(format!("'{text}' is not a whole number")))?;
                self.seed = Some(seed);
                Ok(())
            }
            (Key::Rtt, Scope::Both) => {
                let rtt = Duration::read(text).map_err(explained)?;
                (self.forward.delay, self.reverse.delay) = halves(rtt);
                Ok(())
            }
        }
    }
}

/// The TOML text.
impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_toml())
    }
}
