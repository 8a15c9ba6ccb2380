//! JSON output of a program, compared with its schema in `schemas/` and with the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// Schema of a program.
pub struct Contract {
    file: String,
    root: Value,
    schemas: Schemas,
    /// Definitions. They name the key that does not fit, which the whole schema cannot.
    definitions: BTreeMap<String, SchemaIndex>,
    /// Whole schema; `None` if it has definitions alone.
    whole: Option<SchemaIndex>,
}

impl Contract {
    /// Reads `schemas/FILE`. Returns `None`, and prints a line, if the sources of the crate are
    /// alone, as in a package of a registry.
    pub fn load(file: &str) -> Option<Self> {
        let Ok(folder) = fs::read_dir(repository().join("schemas")) else {
            rdt_testing::skipped("this is no clone of the repository, so there are no schemas");
            return None;
        };
        let names =
            folder.map(|entry| entry.expect("a readable folder").file_name().into_string().expect("a name"));
        let names = names.filter(|name| Path::new(name).extension().is_some_and(|it| it == "json"));
        let all = names.map(|name| (name.clone(), parse(&name, &read(&name))));
        Some(Self::new(file, parse(file, &read(file)), all))
    }

    /// Parses the text of a schema without references to others.
    pub fn parse(name: &str, text: &str) -> Self {
        let root = parse(name, text);
        Self::new(name, root.clone(), [(name.to_owned(), root)])
    }

    /// Compiles a file, which is among `all` files.
    fn new(file: &str, root: Value, all: impl IntoIterator<Item = (String, Value)>) -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        for (name, schema) in all {
            compiler.add_resource(&uri(&name), schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let mut compile = |fragment: &str| {
            let compiled = compiler.compile(&(uri(file) + fragment), &mut schemas);
            compiled.unwrap_or_else(|error| panic!("{file}{fragment}: {error}"))
        };
        let names = root["$defs"].as_object().expect("definitions").keys();
        let definitions = names.map(|name| (name.clone(), compile(&format!("#/$defs/{name}")))).collect();
        let whole = root.get("oneOf").map(|_| compile(""));
        Self { file: file.to_owned(), root, schemas, definitions, whole }
    }

    /// Returns true if there is a definition of this name.
    pub fn defines(&self, name: &str) -> bool {
        self.definitions.contains_key(name)
    }

    /// Asserts that an object fits a definition, and an alternative of the whole schema.
    pub fn check(&self, name: &str, object: &Value) {
        let Some(definition) = self.definitions.get(name) else {
            panic!("{}: no definition of {name}: {object}", self.file)
        };
        for schema in [*definition].into_iter().chain(self.whole) {
            if let Err(error) = self.schemas.validate(object, schema) {
                panic!("{} {name}: {error:#}\n{object}", self.file);
            }
        }
    }

    /// Asserts that an event fits the definition of its name.
    pub fn check_event(&self, event: &Value) {
        self.check(event["event"].as_str().unwrap_or("an object without event"), event);
    }

    /// Asserts that a document names each schema's keys in backticks, in the sections with these
    /// headings. The first columns of tables there name nothing but these keys and `others`.
    pub fn check_document(document: &str, parts: &[(&Self, &[&str])], others: &[&str]) {
        let text = fs::read_to_string(repository().join(document)).expect("a readable document");
        let mut known: BTreeSet<String> = others.iter().map(|word| (*word).to_owned()).collect();
        let mut all = String::new();
        for (contract, headings) in parts {
            let sections: String = headings.iter().map(|heading| section(&text, heading)).collect();
            let named: BTreeSet<_> = sections.lines().flat_map(words).collect();
            let keys = contract.keys();
            let undocumented: Vec<_> = keys.iter().filter(|key| !named.contains(key.as_str())).collect();
            assert!(undocumented.is_empty(), "{document} lacks keys of {}: {undocumented:?}", contract.file);
            known.extend(keys.into_iter().chain(contract.definitions.keys().cloned()));
            all += &sections;
        }
        let rows = all.lines().filter(|line| line.starts_with("| `"));
        let first = rows.flat_map(|row| words(row.split('|').nth(1).unwrap_or_default()));
        let unknown: Vec<_> = first.filter(|word| !known.contains(*word)).collect();
        assert!(unknown.is_empty(), "{document} names keys that no schema has: {unknown:?}");
    }

    /// Returns all keys of the objects, those of referenced parts included.
    fn keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        collect_keys(&self.root, &mut keys);
        if self.root.to_string().contains("rdt-common.json") {
            let common = parse("rdt-common.json", &read("rdt-common.json"));
            let used = self.root.to_string();
            for (name, definition) in common["$defs"].as_object().expect("definitions") {
                if used.contains(&format!("rdt-common.json#/$defs/{name}\"")) {
                    collect_keys(definition, &mut keys);
                }
            }
        }
        keys
    }
}

/// Asserts that a section of a document names each of these words in backticks.
pub fn check_named(document: &str, heading: &str, names: &[&str]) {
    let Ok(text) = fs::read_to_string(repository().join(document)) else { return };
    let named: BTreeSet<_> = section(&text, heading).lines().flat_map(words).collect();
    let missing: Vec<_> = names.iter().filter(|name| !named.contains(*name)).collect();
    assert!(missing.is_empty(), "{document} does not name {missing:?}");
}

fn collect_keys(schema: &Value, keys: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                keys.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| collect_keys(value, keys));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_keys(value, keys)),
        _ => {}
    }
}

/// Returns the words in backticks of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the section of a heading, up to the next heading of the same or a higher level.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let level = heading.split(' ').next().unwrap_or_default();
    let begin = text.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading '{heading}'"));
    let rest = &text[begin + heading.len() + 2..];
    let is_end = |line: &str| {
        line.starts_with('#') && line.split(' ').next().is_some_and(|it| it.len() <= level.len())
    };
    let end = rest.lines().take_while(|line| !is_end(line)).map(|line| line.len() + 1).sum::<usize>();
    &rest[..end.min(rest.len())]
}

fn read(name: &str) -> String {
    fs::read_to_string(repository().join("schemas").join(name)).expect("a readable schema")
}

fn parse(name: &str, text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn uri(name: &str) -> String {
    format!("file:///schemas/{name}")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn section_ends_at_next_heading_of_its_level() {
        let text = "# a\n\n## b\none\n### c\ntwo\n## d\nthree\n";
        assert_eq!(section(text, "## b"), "one\n### c\ntwo\n");
        assert_eq!(section(text, "## d"), "three\n");
        assert_eq!(words("a `b`, `c` d").collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn unknown_and_missing_keys_do_not_fit() {
        let Some(contract) = Contract::load("rdt-tunnel.json") else { return };
        let fits = |object: &Value| contract.schemas.validate(object, contract.whole.unwrap()).is_ok();
        let mut restored = json!({ "event": "restored", "schema_version": 1, "time_ns": 7, "peer": "a" });
        assert!(fits(&restored));
        restored["other"] = 1.into();
        assert!(!fits(&restored));
        assert!(!fits(&json!({ "event": "restored", "schema_version": 1, "time_ns": 7 })));
        assert!(!fits(&json!({ "event": "restored", "schema_version": 2, "time_ns": 7, "peer": "a" })));
    }
}
