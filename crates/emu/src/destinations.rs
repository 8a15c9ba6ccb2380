//! Options for the paths of a run: one path, and one for each destination (`--to`, tables of a
//! description file). Owns names and paths of destinations. Path 0 is that of all other packets.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | selector | `destinations/selector.rs` | prefix, ports, protocol; notation |
//! | table | `destinations/table.rs` | lookup of a packet's path |

#![allow(clippy::doc_markdown, reason = "comments of options are the text of --help")]

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "`run` exists on Linux only"))]
mod selector;
#[cfg(target_os = "linux")]
mod table;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::path::PathBuf;

use rdt_emulator::spec::{DestinationSpec, Key, Scope, SpecError};

use crate::Failure;
use crate::path::{Described, HEADING, PathArgs, Setting};
pub(crate) use selector::Selector;
#[cfg(target_os = "linux")]
pub(crate) use table::{By, Table};

/// Limit on the destinations of a run: each packet is compared with all of them.
const MAX_DESTINATIONS: usize = 32;
/// Name of path 0, which carries what has no destination of its own.
pub(crate) const OTHER: &str = "other";

/// Destination with its path.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    pub(crate) name: String,
    pub(crate) selector: Selector,
    pub(crate) described: Described,
}

impl Destination {
    /// Parses the values of `--to`: pairs of a destination and a path. One without a name gets a
    /// number that none of `known` has, because a name that is known replaces a destination.
    fn parse_all(words: &[String], known: &[Self]) -> Result<Vec<Self>, Failure> {
        let mut all: Vec<Self> = Vec::new();
        for pair in words.chunks_exact(2) {
            let usage = |message: String| Failure::usage(format!("--to {}: {message}", pair[0]));
            let is_name = |number: usize| known.iter().chain(&all).any(|it| it.name == number.to_string());
            let mut number = all.len() + 1;
            while is_name(number) {
                number += 1;
            }
            let number = number.to_string();
            let (name, selector) = pair[0].split_once('=').unwrap_or((&number, &pair[0]));
            let described = |()| describe(&pair[1]).map_err(|failure| failure.to_string());
            let destination =
                check_name(name).and_then(described).and_then(|it| Self::new(name, selector, it));
            let destination = destination.map_err(usage)?;
            if all.iter().any(|it| it.name == name) {
                return Err(usage(format!("there are two destinations '{name}'")));
            }
            all.push(destination);
        }
        Ok(all)
    }

    fn new(name: &str, selector: &str, described: Described) -> Result<Self, String> {
        Ok(Self { name: name.to_owned(), selector: selector.parse()?, described })
    }

    /// Creates the destination of a table in a description file.
    fn from_file(table: &DestinationSpec, described: Described) -> Result<Self, SpecError> {
        let destination =
            check_name(&table.name).and_then(|()| Self::new(&table.name, &table.destination, described));
        destination.map_err(|message| table.error(message))
    }

    /// Returns the seed of the path of destination `number`, from 1, if that of the run is `seed`.
    #[cfg(target_os = "linux")]
    pub(crate) fn seed(&self, number: usize, seed: u64) -> u64 {
        self.described.path.seed().unwrap_or_else(|| rdt_emulator::child_seed(seed, number as u64))
    }
}

/// Options that describe the paths of a run.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct PathsArgs {
    #[command(flatten)]
    path: PathArgs,
    /// Give a destination a path of its own. DESTINATION is an address or prefix, optionally with
    /// NAME= before it and :PORT[-PORT][/PROTOCOL] behind it: web=10.1.0.1:443/tcp,
    /// [fd00:1::/64]:5000-5999. PATH is a description file, or settings such as 'rtt=100ms;
    /// loss=1%'. The far end has its first address, $RDT_PEER_NAME. The longest prefix wins, then
    /// the fewest ports
    #[arg(long, num_args = 2, value_names = ["DESTINATION", "PATH"], action = clap::ArgAction::Append, help_heading = HEADING)]
    to: Vec<String>,
}

impl PathsArgs {
    /// Reads the path of the run, and the destinations: those of the description file, then those
    /// of the options. An option with the name of a destination of the file replaces it.
    pub(crate) fn describe(&self) -> Result<(Described, Vec<Destination>), Failure> {
        let (described, mut all) = self.path.describe_with_destinations(Destination::from_file)?;
        for option in Destination::parse_all(&self.to, &all)? {
            match all.iter_mut().find(|it| it.name == option.name) {
                Some(same) => *same = option,
                None => all.push(option),
            }
        }
        if all.len() > MAX_DESTINATIONS {
            return Err(Failure::usage(format!("--to: there are at most {MAX_DESTINATIONS} destinations")));
        }
        let repeats = |(number, it): (usize, &Destination)| {
            let same = all[..number].iter().find(|before| before.selector == it.selector)?;
            Some(format!("--to: destinations {} and {} are both {}", same.name, it.name, it.selector))
        };
        match all.iter().enumerate().find_map(repeats) {
            Some(sentence) => Err(Failure::usage(sentence)),
            None => Ok((described, all)),
        }
    }
}

/// Runs `check`: prints the description of all paths as one TOML text.
pub(crate) fn check(args: &PathsArgs) -> Result<u8, Failure> {
    let (described, all) = args.describe()?;
    described.config()?;
    let mut text = described.path.to_toml();
    for Destination { name, selector, described } in &all {
        described.config().map_err(|failure| Failure::usage(format!("--to {name}: {failure}")))?;
        text += &described.path.to_toml_for(name, &selector.to_string());
    }
    crate::tell(text.trim())?;
    Ok(0)
}

fn check_name(name: &str) -> Result<(), String> {
    if !is_name(name) || name == OTHER {
        return Err("a name has letters, digits and underscores, and is not 'other'".into());
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads a path: settings such as `rtt=100ms; loss-reverse=1%`, else the name of a file. An empty
/// text is a perfect wire.
fn describe(text: &str) -> Result<Described, Failure> {
    if text.contains('=') || text.trim().is_empty() {
        return PathArgs { file: None, settings: settings(text)? }.describe();
    }
    PathArgs { file: Some(PathBuf::from(text)), settings: Vec::new() }.describe_as("file")
}

fn settings(text: &str) -> Result<Vec<Setting>, Failure> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| setting(part).map_err(Failure::usage)).collect()
}

fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("'{text}' is no KEY=VALUE; write rtt=100ms; loss=1%"))?;
    let name = name.trim();
    let (key, scope) = match (name.strip_suffix("-forward"), name.strip_suffix("-reverse")) {
        (Some(key), _) => (key, Scope::Forward),
        (_, Some(key)) => (key, Scope::Reverse),
        _ => (name, Scope::Both),
    };
    let key: Key = key.parse().map_err(|unknown: rdt_emulator::spec::UnknownKey| unknown.to_string())?;
    if scope != Scope::Both && !key.is_per_direction() {
        return Err(format!("{} is of both directions", key.name()));
    }
    Ok((scope, key, value.trim().to_owned()))
}

/// Returns the index of the path with this name: 0 without one.
#[cfg(unix)]
pub(crate) fn find<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    wanted: Option<&str>,
) -> Result<usize, Failure> {
    let Some(wanted) = wanted else { return Ok(0) };
    names.clone().position(|name| name == wanted).ok_or_else(|| {
        let nearest = names.clone().map(|name| (strsim::osa_distance(wanted, name), name)).min();
        let hint = match nearest {
            Some((distance, name)) if distance <= 2 && distance < name.len() => {
                format!("did you mean '{name}'?")
            }
            _ => format!("the paths are {}", names.collect::<Vec<_>>().join(", ")),
        };
        Failure::usage(format!("--to: there is no path '{wanted}'; {hint}"))
    })
}
