//! Reads and writes the TOML form of a path.
//!
//! Keys of the whole path and of both directions come first, then a table for each direction.
//! Errors have a line and a column.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::SpecError;
use super::key::{Key, LinkKey, TABLES};
use super::link::LinkSpec;
use super::{Assignment, Scope};

/// Parses a TOML text to its assignments, in the order of the text.
pub(super) fn read(text: &str) -> Result<Vec<Assignment>, SpecError> {
    let document = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        SpecError::at_offset(text, offset).because(error.message())
    })?;
    let mut assignments = Vec::new();
    for (name, value) in in_order(document.get_ref()) {
        let scope = match name.get_ref().as_ref() {
            "forward" => Scope::Forward,
            "reverse" => Scope::Reverse,
            _ => {
                assignments.push(assignment(text, Scope::Both, name, value)?);
                continue;
            }
        };
        let Some(table) = value.get_ref().as_table() else {
            let place = SpecError::at_offset(text, value.span().start).about(name.get_ref().to_string());
            return Err(
                place.because(format!("it is a table: write [{}] on a line of its own", name.get_ref()))
            );
        };
        for (name, value) in in_order(table) {
            assignments.push(assignment(text, scope, name, value)?);
        }
    }
    Ok(assignments)
}

type Name<'a> = Spanned<std::borrow::Cow<'a, str>>;

fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Name<'i>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn assignment(
    text: &str,
    scope: Scope,
    name: &Name<'_>,
    value: &Spanned<DeValue<'_>>,
) -> Result<Assignment, SpecError> {
    let key: Key = name
        .get_ref()
        .parse()
        .map_err(|unknown| SpecError::at_offset(text, name.span().start).because(unknown))?;
    let subject = match scope {
        Scope::Both => key.name().to_owned(),
        Scope::Forward => format!("{}.{}", TABLES[0], key.name()),
        Scope::Reverse => format!("{}.{}", TABLES[1], key.name()),
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

pub(super) fn write(seed: Option<u64>, forward: &LinkSpec, reverse: &LinkSpec) -> String {
    let usual = LinkSpec::default();
    let mut both = String::new();
    let mut tables = TABLES.map(|name| format!("\n[{name}]\n"));
    let empty = tables.clone();
    if let Some(seed) = seed {
        push(&mut both, "seed", &seed.to_string());
    }
    for key in LinkKey::ALL {
        let texts = [forward, reverse].map(|link| link.text(key));
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
