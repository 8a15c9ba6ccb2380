//! Options that describe the path: `--path FILE`, and a flag for each key of a path description.
//! Owns the flags, and reads the files. The emulator parses the values (docs/PATHS.md).

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path as FilePath, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use rdt_emulator::PathConfig;
use rdt_emulator::spec::{DestinationSpec, Key, LinkKey, PathSpec, Scope, SpecError};

use crate::Failure;

/// Begin of a rate that is the name of a trace file.
const TRACE: &str = "trace:";
/// Name of the flag whose value is a description file.
const FILE: &str = "path";
pub(crate) const HEADING: &str =
    "Path (-forward or -reverse limits a key to one direction: --rate-reverse 1mbit)";
/// Size limit of a description file, bytes.
const MAX_DESCRIPTION: u64 = 1 << 20;
/// Size limit of a rate-trace file, bytes. At one line of 9 bytes per packet of 1500 bytes, that is
/// about ten hours of 10 Mbit/s.
const MAX_TRACE: u64 = 256 << 20;
const SCOPES: [(Scope, &str); 3] =
    [(Scope::Both, ""), (Scope::Forward, "-forward"), (Scope::Reverse, "-reverse")];

/// Key of a direction, or of both, and its value.
pub(crate) type Setting = (Scope, Key, String);

/// Values of the flags: description file, and keys with their values.
#[derive(Debug, Default)]
pub(crate) struct PathArgs {
    pub(crate) file: Option<PathBuf>,
    pub(crate) settings: Vec<Setting>,
}

impl PathArgs {
    /// Reads the description file, and sets the keys given by flags, which override it.
    pub(crate) fn describe(&self) -> Result<Described, Failure> {
        self.describe_as(&format!("--{FILE}"))
    }

    /// Like [`describe`](Self::describe). Errors in the file name it after `option`.
    pub(crate) fn describe_as(&self, option: &str) -> Result<Described, Failure> {
        let parse = |text: &str, folder: &FilePath| Ok(Described::of(PathSpec::from_toml(text)?, folder));
        let described = self.file.as_deref().map(|file| read(file, option, parse)).transpose()?;
        self.changed(described.unwrap_or_default())
    }

    /// Like [`describe`](Self::describe), and passes the destinations of the file to `convert`.
    /// Flags do not apply to them.
    pub(crate) fn describe_with_destinations<T>(
        &self,
        convert: impl Fn(&DestinationSpec, Described) -> Result<T, SpecError>,
    ) -> Result<(Described, Vec<T>), Failure> {
        let parse = |text: &str, folder: &FilePath| {
            let (path, all) = PathSpec::with_destinations(text)?;
            let all = all.iter().map(|it| convert(it, Described::of(it.path.clone(), folder)));
            Ok((Described::of(path, folder), all.collect::<Result<_, _>>()?))
        };
        let parsed = self.file.as_deref().map(|file| read(file, &format!("--{FILE}"), parse)).transpose()?;
        let (described, destinations) = parsed.unwrap_or_default();
        Ok((self.changed(described)?, destinations))
    }

    /// Returns what was read from the file with the values of the flags.
    fn changed(&self, described: Described) -> Result<Described, Failure> {
        Described { file: self.file.clone(), ..described }.changed(&self.settings, FilePath::new(""))
    }
}

/// Reads a description file. `parse` gets its text and its folder. Errors name the file after
/// `option`.
fn read<T>(
    file: &FilePath,
    option: &str,
    parse: impl FnOnce(&str, &FilePath) -> Result<T, SpecError>,
) -> Result<T, Failure> {
    let named =
        |error: &dyn std::fmt::Display| Failure::usage(format_args!("{option} {}: {error}", file.display()));
    let text = read_text(file, MAX_DESCRIPTION).map_err(|error| named(&error))?;
    parse(&text, file.parent().unwrap_or(FilePath::new(""))).map_err(|error| named(&error))
}

/// Path description, whose trace files have absolute names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Described {
    pub(crate) path: PathSpec,
    /// File that it was read from.
    file: Option<PathBuf>,
}

impl Described {
    /// Describes a path whose trace files are in `folder`.
    fn of(mut path: PathSpec, folder: &FilePath) -> Self {
        path.rename_traces(|name| absolute(folder, name));
        Self { path, file: None }
    }

    /// Returns the files that were read: the description and its traces.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.file.iter().cloned().chain(self.path.trace_files().into_iter().map(PathBuf::from)).collect()
    }

    pub(crate) fn config(&self) -> Result<PathConfig, Failure> {
        let read = |name: &str| read_text(FilePath::new(name), MAX_TRACE).map_err(|error| error.to_string());
        self.path.to_path_config(read).map_err(Failure::usage)
    }

    /// Returns this description with the values of flags, which override it. Trace files that they
    /// name are looked up in `folder`; empty for the current directory.
    pub(crate) fn changed(&self, settings: &[Setting], folder: &FilePath) -> Result<Self, Failure> {
        let mut changed = self.clone();
        let values: Vec<_> = settings.iter().map(|(_, key, value)| located(*key, value, folder)).collect();
        let texts = settings.iter().zip(&values);
        let texts = texts.map(|((scope, key, _), value)| (*scope, key.name(), &**value));
        changed.path.set_all(texts).map_err(Failure::usage)?;
        Ok(changed)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.path.seed().unwrap_or_else(rand::random)
    }
}

/// Returns the value of a key; that of a trace file in `folder` with its absolute name.
fn located<'a>(key: Key, value: &'a str, folder: &FilePath) -> Cow<'a, str> {
    match value.strip_prefix(TRACE).map(str::trim) {
        Some(name) if key == Key::Link(LinkKey::Rate) && !name.is_empty() => {
            format!("{TRACE}{}", absolute(folder, name)).into()
        }
        _ => value.into(),
    }
}

/// Returns the absolute path of a file in `folder`; an empty one is the current directory.
fn absolute(folder: &FilePath, name: &str) -> String {
    let path = folder.join(name);
    // Fails without a current directory.
    std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned()
}

/// Reads a file. Fails if it is longer than `most` bytes.
pub(crate) fn read_text(file: &FilePath, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(file)?.take(most + 1).read_to_string(&mut text)?;
    if read as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(text)
}

impl FromArgMatches for PathArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<OsString>(FILE).map(PathBuf::from);
        self.settings = flags()
            .filter_map(|(key, scope, name)| Some((scope, key, matches.get_one::<String>(&name)?.clone())))
            .collect();
        Ok(())
    }
}

impl clap::Args for PathArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .value_parser(clap::value_parser!(OsString))
            .help("Path description in TOML, whose keys flags override; see docs/PATHS.md")
            .help_heading(HEADING);
        flags().fold(command.arg(file), |command, (key, scope, name)| command.arg(flag(key, scope, name)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns each key with each of its directions, and the name of the flag for them.
fn flags() -> impl Iterator<Item = (Key, Scope, String)> {
    Key::all().flat_map(|key| {
        let scopes =
            SCOPES.into_iter().filter(move |(scope, _)| *scope == Scope::Both || key.is_per_direction());
        scopes.map(move |(scope, suffix)| (key, scope, format!("{}{suffix}", key.name())))
    })
}

fn flag(key: Key, scope: Scope, name: String) -> Arg {
    Arg::new(name.clone())
        .long(name)
        .value_name(key.value_name())
        .action(ArgAction::Set)
        .help(key.about())
        .long_help(format!("{}: {}", key.about(), key.allowed()))
        .help_heading(HEADING)
        // The help of the key already describes both directions.
        .hide(scope != Scope::Both)
}

#[cfg(test)]
mod tests;
