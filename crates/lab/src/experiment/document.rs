//! Access to the tables of an experiment file. Every error has a line and a column.

use std::borrow::Cow;
use std::time::Duration;

use rdt_emulator::parse_duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ExperimentError, Place, suggest};

type Name<'i> = Spanned<Cow<'i, str>>;

/// A value with the words that lead to it.
#[derive(Clone)]
pub(super) struct Item<'t, 'i> {
    file: &'t str,
    /// The word after the names of its tables, as messages show it: `repeats.least`.
    pub(super) path: String,
    /// Line and column of the word.
    pub(super) word_place: Place,
    value: &'t Spanned<DeValue<'i>>,
}

impl<'t, 'i> Item<'t, 'i> {
    pub(super) fn place(&self) -> Place {
        Place::start(self.file, self.value)
    }

    pub(super) fn error(&self, message: impl std::fmt::Display) -> ExperimentError {
        self.place().error(&self.path, message)
    }

    /// Returns a text, a number or a truth value as text. `None` for other types.
    pub(super) fn plain(&self) -> Option<String> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().replace('_', "")),
            DeValue::Integer(number) => {
                u64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
            }
            DeValue::Float(number) => Some(number.as_str().replace('_', "")),
            DeValue::Boolean(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    /// Returns a text, a number or a truth value as text.
    pub(super) fn text(&self) -> Result<String, ExperimentError> {
        self.plain()
            .ok_or_else(|| self.error(format!("a text in quotes is wanted, not {}", self.type_name())))
    }

    pub(super) fn number<T: std::str::FromStr>(&self) -> Result<T, ExperimentError> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| self.error(format!("'{text}' is not a whole number in range")))
    }

    pub(super) fn duration(&self) -> Result<Duration, ExperimentError> {
        parse_duration(&self.text()?).map_err(|error| self.error(error))
    }

    /// Returns the entry of `words` that the text names.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T, ExperimentError> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let known = words.iter().map(|(word, _)| *word);
        found.ok_or_else(|| self.error(format!("there is no '{text}' here; {}", suggest(&text, known))))
    }

    /// Returns the elements of a list, or a single value as a list of one.
    pub(super) fn list(&self) -> Vec<Self> {
        match self.value.get_ref() {
            DeValue::Array(array) => array
                .iter()
                .map(|value| Self {
                    file: self.file,
                    path: self.path.clone(),
                    word_place: Place::start(self.file, value),
                    value,
                })
                .collect(),
            _ => vec![self.clone()],
        }
    }

    /// Returns the number of elements of a list, or 1. [`Self::list`] finds the place of each
    /// element, which takes time in proportion to the size of the file.
    pub(super) fn count(&self) -> usize {
        self.value.get_ref().as_array().map_or(1, |array| array.len())
    }

    pub(super) fn is_list(&self) -> bool {
        self.value.get_ref().is_array()
    }

    /// Returns the elements of a list of tables, which `word` names: `[[claim]]`.
    pub(super) fn tables(&self, word: &str) -> Result<Vec<Self>, ExperimentError> {
        if self.is_list() {
            return Ok(self.list());
        }
        Err(self.word_place.error(word, format!("it is a list of tables: write [[{word}]]")))
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    pub(super) fn section(&self) -> Result<Section<'t, 'i>, ExperimentError> {
        match self.value.get_ref() {
            DeValue::Table(table) => Ok(Section::new(self.file, &self.path, self.word_place, table)),
            _ => Err(self.error(format!("a table is wanted, not {}", self.type_name()))),
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self.value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }
}

/// A table: its entries in the order of the file.
pub(super) struct Section<'t, 'i> {
    /// Name of the table, for messages. Empty for the file itself.
    pub(super) name: String,
    /// Line and column of the table's name.
    pub(super) place: Place,
    entries: Vec<(String, Item<'t, 'i>)>,
}

impl<'t, 'i> Section<'t, 'i> {
    pub(super) fn new(file: &'t str, name: &str, place: Place, table: &'t DeTable<'i>) -> Self {
        let mut pairs: Vec<(&Name<'i>, _)> = table.iter().collect();
        pairs.sort_by_key(|(name, _)| name.span().start);
        let entries = pairs.into_iter().map(|(word, value)| {
            let path = if name.is_empty() { word.to_string() } else { format!("{name}.{}", word.get_ref()) };
            let item = Item { file, path, word_place: Place::start(file, word), value };
            (word.get_ref().to_string(), item)
        });
        Self { name: name.to_owned(), place, entries: entries.collect() }
    }

    pub(super) fn get(&self, word: &str) -> Option<&Item<'t, 'i>> {
        self.entries.iter().find(|(name, _)| name == word).map(|(_, item)| item)
    }

    pub(super) fn require(&self, word: &str) -> Result<&Item<'t, 'i>, ExperimentError> {
        let missing = || self.place.error(&self.name, format!("the word '{word}' is missing"));
        self.get(word).ok_or_else(missing)
    }

    pub(super) fn text(&self, word: &str) -> Result<Option<String>, ExperimentError> {
        self.get(word).map(Item::text).transpose()
    }

    /// Returns an error for the first word that is not in `words`.
    pub(super) fn check(&self, words: &[&'static str]) -> Result<(), ExperimentError> {
        let unknown = self.entries.iter().find(|(word, _)| !words.contains(&word.as_str()));
        unknown.map_or(Ok(()), |(word, item)| {
            let place = if self.name.is_empty() { String::new() } else { format!(" in {}", self.name) };
            let hint = suggest(word, words.iter().copied());
            Err(item.word_place.because(format!("there is no word '{word}'{place}; {hint}")))
        })
    }

    /// Returns the values of this table and of the tables inside it, in the order of the file, each
    /// with its words joined by points: `flow.a.sack`.
    pub(super) fn leaves(&self) -> Vec<(String, Item<'t, 'i>)> {
        let mut leaves = Vec::new();
        for (word, item) in &self.entries {
            match item.section() {
                Ok(inner) => {
                    let inner = inner.leaves().into_iter();
                    leaves.extend(inner.map(|(path, item)| (format!("{word}.{path}"), item)));
                }
                Err(_) => leaves.push((word.clone(), item.clone())),
            }
        }
        leaves.sort_by_key(|(_, item)| item.word_place);
        leaves
    }
}
