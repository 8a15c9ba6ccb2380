//! Descriptions of paths: TOML, and flags.

use rdt_emulator::spec::{PathSpec, Scope};

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check(PathSpec::from_toml(text).ok());
    // "scope key=value" a line, as flags give them.
    let mut spec = PathSpec::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let (scope, key) = match key.split_once(' ') {
            Some(("forward", key)) => (Scope::Forward, key),
            Some(("reverse", key)) => (Scope::Reverse, key),
            _ => (Scope::Both, key),
        };
        let _ = spec.set(scope, key, value);
    }
    check(Some(spec));
}

fn check(spec: Option<PathSpec>) {
    let Some(spec) = spec else { return };
    let text = spec.to_toml();
    let again = PathSpec::from_toml(&text).unwrap_or_else(|error| panic!("{error}\nof\n{text}"));
    assert_eq!(again.to_toml(), text, "a description that was written reads back");
    let _ = spec.to_path_config(|_| Ok("1\n5\n".into()));
}
