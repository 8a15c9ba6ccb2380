//! Factors: words that take several values, or names for several words that change together.

use super::document::{Item, Section};
use super::engines::read_engines;
use super::error::{ExperimentError, Place, suggest};
use super::setting::{self, Names, Setting};
use crate::cell::EngineKind;

const MAX_LEVELS: usize = 10_000;

/// One level of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// The value as it is written, or the name of the level.
    pub name: String,
    /// Words that the level sets.
    pub settings: Vec<Setting>,
    /// Engines that run cells with this level. Empty: all of the experiment.
    pub engines: Vec<EngineKind>,
    /// Line and column of the level in the experiment file.
    pub place: Place,
}

/// A factor with its levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Factor {
    /// Short name, which claims and figures use: the last word of `path`, or all of `path` where
    /// another factor ends in the same word.
    pub name: String,
    /// Name as it is written: `flow.a.sack`, or a name of the author's for levels that are tables.
    pub path: String,
    /// Levels in the order of the file.
    pub levels: Vec<Level>,
    /// Line and column of the name in the experiment file.
    pub place: Place,
}

impl Factor {
    /// Returns the index of the level with this name.
    pub fn level(&self, name: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.name == name)
    }

    /// Returns the same as [`Self::level`]. The error is a sentence.
    pub(super) fn known_level(&self, name: &str) -> Result<usize, String> {
        self.level(name).ok_or_else(|| {
            let hint = suggest(name, self.levels.iter().map(|level| level.name.as_str()));
            format!("'{name}' is no level of {}; {hint}", self.name)
        })
    }
}

/// Finds a factor by its short name or by its path.
pub(super) fn find<'a>(factors: &'a [Factor], name: &str) -> Result<(usize, &'a Factor), String> {
    let by_name = factors.iter().position(|factor| factor.name == name || factor.path == name);
    by_name.map(|index| (index, &factors[index])).ok_or_else(|| {
        if factors.is_empty() {
            return format!("there is no factor '{name}'; the file has no [factors]");
        }
        let hint = suggest(name, factors.iter().map(|factor| factor.name.as_str()));
        format!("there is no factor '{name}'; {hint}")
    })
}

/// Reads a table of levels (`{ sack = "on", window = "16kib" }`): for each word the index of the
/// factor and that of its level. Words in `others` are skipped.
pub(super) fn read_levels(
    section: &Section<'_, '_>,
    factors: &[Factor],
    others: &[&str],
) -> Result<Vec<(usize, usize)>, ExperimentError> {
    let mut levels = Vec::new();
    for (word, item) in section.leaves() {
        if others.contains(&word.as_str()) {
            continue;
        }
        let (index, factor) = find(factors, &word).map_err(|error| item.word_place.because(error))?;
        let level = factor.known_level(&item.text()?).map_err(|error| item.error(error))?;
        levels.push((index, level));
    }
    Ok(levels)
}

/// Reads the table `[factors]`.
pub(super) fn read(section: &Section<'_, '_>, names: &Names) -> Result<Vec<Factor>, ExperimentError> {
    let mut factors: Vec<Factor> = Vec::new();
    for (path, mut item) in section.leaves() {
        item.path.clone_from(&path);
        let factor = read_one(path, &item, names)?;
        for other in &factors {
            let both =
                |one: &Setting| factor.levels.iter().flat_map(|l| &l.settings).any(|two| two.collides(one));
            if let Some(twice) = other.levels.iter().flat_map(|level| &level.settings).find(|one| both(one)) {
                let message =
                    format!("the factor {} sets {} too: one would have no effect", other.path, twice.word);
                return Err(factor.place.error(&factor.path, message));
            }
        }
        factors.push(factor);
    }
    let last_word = |factor: &Factor| factor.path.split('.').next_back().unwrap_or_default().to_owned();
    let short: Vec<String> = factors.iter().map(last_word).collect();
    for (factor, name) in factors.iter_mut().zip(&short) {
        if short.iter().filter(|other| *other == name).count() == 1 {
            factor.name.clone_from(name);
        }
    }
    Ok(factors)
}

fn read_one(path: String, item: &Item<'_, '_>, names: &Names) -> Result<Factor, ExperimentError> {
    let place = item.word_place;
    if !item.is_list() {
        return Err(item.error(format!("a factor is a list of levels: write [{}]", item.text()?)));
    }
    let count = item.count();
    if count == 0 {
        return Err(item.error("a factor has at least one level"));
    }
    if count > MAX_LEVELS {
        let message = format!("{count} levels are more than {MAX_LEVELS}: take levels out");
        return Err(place.error(&path, message));
    }
    let items = item.list();
    let mut levels: Vec<Level> = Vec::new();
    for item in items {
        let level = if item.is_table() {
            read_table(&path, &item, names)?
        } else {
            let (target, word) = names.resolve(&path).map_err(|error| place.error(&path, error))?;
            let setting = setting::read(target, &word, &item)?;
            Level {
                name: setting.value.clone(),
                place: item.place(),
                settings: vec![setting],
                engines: Vec::new(),
            }
        };
        if levels.iter().any(|other| other.name == level.name) {
            return Err(item.error(format!("the level '{}' is there twice", level.name)));
        }
        levels.push(level);
    }
    Ok(Factor { name: path.clone(), path, levels, place })
}

/// Reads a level that sets several words: `{ name = "data", path.loss = "5%/0" }`.
fn read_table(path: &str, item: &Item<'_, '_>, names: &Names) -> Result<Level, ExperimentError> {
    let section = item.section()?;
    let name =
        section.require("name").map_err(|_| item.error("the level has no name: write name = \"...\""))?;
    let name = name.text()?;
    let mut settings = Vec::new();
    let engines = read_engines(section.get("engine"), Some(&names.engines))?;
    let is_setting = |words: &str| words != "name" && words != "engine";
    for (words, item) in section.leaves().into_iter().filter(|(words, _)| is_setting(words)) {
        let (target, word) = names
            .resolve(&words)
            .map_err(|error| item.word_place.error(&format!("{path}, level {name}: {words}"), error))?;
        settings.push(setting::read(target, &word, &item)?);
    }
    Ok(Level { name, settings, engines, place: item.place() })
}
