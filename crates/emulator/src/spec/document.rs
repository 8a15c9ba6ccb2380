//! Reads and writes the TOML form of a path.
//!
//! Keys of the whole path and of both directions come first, then a table for each direction, then
//! a table `[to.NAME]` for each destination, with the same keys. Errors have a line and a column.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::SpecError;
use super::key::{Key, LinkKey, TABLES, UnknownKey};
use super::link::LinkSpec;
use super::{Assignment, Scope};

/// Name of the table that has those of the destinations.
const TO: &str = "to";
/// Key of a destination besides those of a path.
pub(super) const DESTINATION: &str = "destination";

/// Assignments of a TOML text, in its order.
#[derive(Default)]
pub(super) struct Document {
    pub(super) assignments: Vec<Assignment>,
    pub(super) destinations: Vec<Table>,
}

/// Table of a destination.
pub(super) struct Table {
    pub(super) name: String,
    /// Value of the key `destination`.
    pub(super) destination: String,
    /// Error without a message at that value.
    pub(super) place: SpecError,
    pub(super) assignments: Vec<Assignment>,
}

/// Parses a TOML text.
pub(super) fn read(text: &str) -> Result<Document, SpecError> {
    let parsed = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        SpecError::at_offset(text, offset).because(error.message())
    })?;
    let mut document = Document::default();
    for (name, value) in in_order(parsed.get_ref()) {
        if name.get_ref() == TO {
            let all = value.get_ref().as_table().ok_or_else(|| no_destination(text, TO, value))?;
            let all = in_order(all).into_iter().map(|(name, value)| destination(text, name, value));
            document.destinations = all.collect::<Result<_, _>>()?;
        } else {
            entry((text, "", TO), name, value, &mut document.assignments)?;
        }
    }
    Ok(document)
}

fn no_destination(text: &str, subject: &str, value: &Value<'_>) -> SpecError {
    let place = SpecError::at_offset(text, value.span().start).about(subject.to_owned());
    place.because("a destination is a table: write [to.NAME] on a line of its own")
}

fn destination(text: &str, name: &Name<'_>, value: &Value<'_>) -> Result<Table, SpecError> {
    let table = format!("{TO}.{}", name.get_ref());
    let keys = value.get_ref().as_table().ok_or_else(|| no_destination(text, &table, value))?;
    let (mut to, mut assignments) = (None, Vec::new());
    for (key, value) in in_order(keys) {
        if key.get_ref() != DESTINATION {
            entry((text, &format!("{table}."), DESTINATION), key, value, &mut assignments)?;
            continue;
        }
        let place = SpecError::at_offset(text, value.span().start).about(format!("{table}.{DESTINATION}"));
        match value.get_ref().as_str() {
            Some(text) => to = Some((text.to_owned(), place)),
            None => return Err(place.because("a text in quotes is wanted, such as \"10.1.0.0/16\"")),
        }
    }
    let Some((destination, place)) = to else {
        let place = SpecError::at_offset(text, name.span().start).about(table);
        return Err(
            place.because(format!("there is no {DESTINATION}: write {DESTINATION} = \"10.1.0.0/16\""))
        );
    };
    Ok(Table { name: name.get_ref().to_string(), destination, place, assignments })
}

/// Reads a key of the path, or the table of a direction. The context is the text, what stands
/// before the key in errors, and the name of the only other key.
fn entry(
    (text, before, other): (&str, &str, &'static str),
    name: &Name<'_>,
    value: &Value<'_>,
    into: &mut Vec<Assignment>,
) -> Result<(), SpecError> {
    let scope = match name.get_ref().as_ref() {
        "forward" => Scope::Forward,
        "reverse" => Scope::Reverse,
        _ => {
            let unknown = |unknown: UnknownKey| unknown.beside(other);
            into.push(assignment(text, (before, Scope::Both), name, value, unknown)?);
            return Ok(());
        }
    };
    let table = format!("{before}{}", name.get_ref());
    let Some(keys) = value.get_ref().as_table() else {
        let place = SpecError::at_offset(text, value.span().start).about(table.clone());
        return Err(place.because(format!("it is a table: write [{table}] on a line of its own")));
    };
    for (name, value) in in_order(keys) {
        into.push(assignment(text, (before, scope), name, value, |unknown| unknown)?);
    }
    Ok(())
}

type Name<'a> = Spanned<std::borrow::Cow<'a, str>>;
type Value<'a> = Spanned<DeValue<'a>>;

fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Name<'i>, &'t Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn assignment(
    text: &str,
    (before, scope): (&str, Scope),
    name: &Name<'_>,
    value: &Value<'_>,
    explained: impl FnOnce(UnknownKey) -> UnknownKey,
) -> Result<Assignment, SpecError> {
    let key: Key = name
        .get_ref()
        .parse()
        .map_err(|unknown| SpecError::at_offset(text, name.span().start).because(explained(unknown)))?;
    let subject = match scope {
        Scope::Both => format!("{before}{}", key.name()),
        Scope::Forward => format!("{before}{}.{}", TABLES[0], key.name()),
        Scope::Reverse => format!("{before}{}.{}", TABLES[1], key.name()),
    };
    let place = SpecError::at_offset(text, value.span().start).about(subject);
    match plain(value.get_ref()) {
        Some(text) => Ok(Assignment { scope, key, text, place }),
        None => Err(place.because(format!(
            "a text in quotes or a number is wanted, not {} (it is {})",
            value.get_ref().type_str(),
            key.allowed()
        ))),
    }
}

/// Returns a TOML string, or a TOML number as a string. `None` for other types.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Integer(number) => {
            u64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

/// Writes the table `[to.NAME]` of a destination.
pub(super) fn write_destination(
    (name, destination): (&str, &str),
    seed: Option<u64>,
    links: [&LinkSpec; 2],
) -> String {
    let table = format!("{TO}.{name}");
    let mut text = format!("\n[{table}]\n");
    push(&mut text, DESTINATION, destination);
    text + &write(&format!("{table}."), seed, links)
}

/// Writes a path. The names of its tables begin with `before`.
pub(super) fn write(before: &str, seed: Option<u64>, links: [&LinkSpec; 2]) -> String {
    let usual = LinkSpec::default();
    let mut both = String::new();
    let mut tables = TABLES.map(|name| format!("\n[{before}{name}]\n"));
    let empty = tables.clone();
    if let Some(seed) = seed {
        push(&mut both, "seed", &seed.to_string());
    }
    for key in LinkKey::ALL {
        let texts = links.map(|link| link.text(key));
        let usual = usual.text(key);
        if texts[0] == texts[1] {
            if texts[0] != usual {
                push(&mut both, key.name(), &texts[0]);
            }
            continue;
        }
        for (table, text) in tables.iter_mut().zip(&texts).filter(|(_, text)| **text != usual) {
            push(table, key.name(), text);
        }
    }
    let tables = tables.into_iter().zip(empty).filter(|(table, empty)| table != empty);
    tables.fold(both, |text, (table, _)| text + &table)
}

/// Adds a line with a key and its value. A value that is a TOML integer gets no quotes.
fn push(lines: &mut String, name: &str, text: &str) {
    let is_number = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
    let value = if is_number { text.to_owned() } else { quoted(text) };
    lines.push_str(name);
    lines.push_str(" = ");
    lines.push_str(&value);
    lines.push('\n');
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.extend(format!("\\u{:04X}", u32::from(c)).chars()),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
