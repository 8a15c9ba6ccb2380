//! Text form of paths: keys and values in TOML, or the same keys as command-line flags.
//!
//! The caller builds a specification in layers (a preset, then a TOML text, then flags) and
//! converts it to a [`PathConfig`]. This module opens no file: the caller reads the trace files
//! that a specification names.

mod destination;
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
use crate::preset::{self, PRESETS};
use link::LinkSpec;
use values::Value;

pub use destination::DestinationSpec;
pub use error::SpecError;
pub use key::{Key, LinkKey, UnknownKey};

/// Directions of a path to which a key applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Both directions, or the path as a whole.
    Both,
    /// The direction from the side that opened the path.
    Forward,
    /// The direction back to the side that opened the path.
    Reverse,
}

/// Specification of a path in the notation of `docs/PATHS.md`. By default links have no effect.
///
/// ```
/// use rdt_emulator::spec::{PathSpec, Scope};
///
/// let text = "rtt = '100ms'\nrate = '10mbit'\n[reverse]\nrate = '1mbit'";
/// let mut path = PathSpec::from_toml(text)?;
/// path.set(Scope::Both, "loss", "1%")?;
/// let config = path.to_path_config(|file| Err(format!("unexpected trace {file}")))?;
/// assert_eq!(config.rtt().as_millis(), 100);
///
/// let error = path.set(Scope::Reverse, "rate", "10").unwrap_err();
/// assert!(error.to_string().starts_with("--rate-reverse: '10' has no unit: write 10bit"));
/// # Ok::<_, rdt_emulator::spec::SpecError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathSpec {
    seed: Option<u64>,
    forward: LinkSpec,
    reverse: LinkSpec,
}

/// A key and its value, and their place in the input.
#[derive(Debug, Clone)]
struct Assignment {
    scope: Scope,
    key: Key,
    text: String,
    /// Error without a message at this place, to which [`SpecError::because`] adds one.
    place: SpecError,
}

impl PathSpec {
    /// Parses a TOML text without destinations. Missing keys have their defaults.
    pub fn from_toml(text: &str) -> Result<Self, SpecError> {
        let (path, destinations) = Self::with_destinations(text)?;
        match destinations.first() {
            Some(first) => Err(first.error("this is one path; `rdt-emu run --path` has destinations")),
            None => Ok(path),
        }
    }

    /// Parses a TOML text, and its tables `[to.NAME]` with the paths of destinations.
    pub fn with_destinations(text: &str) -> Result<(Self, Vec<DestinationSpec>), SpecError> {
        let document = document::read(text)?;
        let mut path = Self::default();
        path.assign(document.assignments)?;
        let destinations = document.destinations.into_iter().map(DestinationSpec::new);
        Ok((path, destinations.collect::<Result<_, _>>()?))
    }

    /// Sets one key, as a flag does: `--rate-reverse 1mbit` is the scope [`Scope::Reverse`], the
    /// key `rate` and the value `1mbit`.
    ///
    /// The value replaces the earlier value of that key in that scope. The key `preset` replaces
    /// all values except the seed.
    pub fn set(&mut self, scope: Scope, key: &str, value: &str) -> Result<(), SpecError> {
        self.set_all([(scope, key, value)])
    }

    /// Sets several keys, such as all flags of a command line. Their order does not matter: a
    /// preset is set first, then keys of both directions, then keys of one direction. On an error
    /// no key is set.
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

    /// Sets the header bytes of the directions in which the key `headers` is not set, for a caller
    /// that knows the packets' headers.
    pub fn assume_headers(&mut self, bytes: u32) {
        for link in [&mut self.forward, &mut self.reverse] {
            link.headers.get_or_insert(bytes);
        }
    }

    /// Reduces the header bytes where they are given, for a caller whose packets contain this many
    /// of them.
    pub fn contain_headers(&mut self, bytes: u32) {
        for headers in [&mut self.forward, &mut self.reverse].into_iter().filter_map(|it| it.headers.as_mut())
        {
            *headers = headers.saturating_sub(bytes);
        }
    }

    /// Returns the seed. `None` if the specification has none; the programs then choose one.
    pub const fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Returns the names of the trace files that [`to_path_config`](Self::to_path_config) needs.
    pub fn trace_files(&self) -> Vec<&str> {
        let mut files: Vec<_> =
            [&self.forward, &self.reverse].into_iter().filter_map(|it| it.trace()).collect();
        files.dedup();
        files
    }

    /// Gives each trace file the name that `rename` returns, such as its path from elsewhere.
    pub fn rename_traces(&mut self, rename: impl Fn(&str) -> String) {
        for link in [&mut self.forward, &mut self.reverse] {
            link.rename_trace(&rename);
        }
    }

    /// Converts the specification to a configuration. `read_trace` returns the text of the trace
    /// file with this name, or an error sentence.
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

    /// Returns a TOML text that describes the same path: all values that are not defaults, and a
    /// table for each direction with the values in which they differ.
    pub fn to_toml(&self) -> String {
        document::write("", self.seed, [&self.forward, &self.reverse])
    }

    /// Returns a TOML table `[to.NAME]` that describes this path for a destination.
    pub fn to_toml_for(&self, name: &str, destination: &str) -> String {
        document::write_destination((name, destination), self.seed, [&self.forward, &self.reverse])
    }

    /// Sets the keys of one layer, in the order that [`set_all`](Self::set_all) describes.
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

    /// Sets one key. The error is a sentence about `text`.
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
            (_, Scope::Forward | Scope::Reverse) => Err("it applies to both directions together".to_owned()),
            (Key::Preset, Scope::Both) => {
                let Some((_, toml)) = PRESETS.into_iter().find(|(name, _)| *name == text.trim()) else {
                    return Err(match key::nearest(&text.to_ascii_lowercase(), preset::names()) {
                        Some(nearest) => format!("there is no preset '{text}'; did you mean '{nearest}'?"),
                        None => {
                            format!("there is no preset '{text}'; there are {}", preset::names().join(", "))
                        }
                    });
                };
                let preset = Self::from_toml(toml).map_err(|error| error.to_string())?;
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

/// Writes the TOML text of [`PathSpec::to_toml`].
impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_toml())
    }
}
