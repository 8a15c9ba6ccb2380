//! Experiments from files and from the program, and folders of results.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::cell::EngineKind;
use crate::experiment::{Experiment, builtin, find_builtin, suggest};
use crate::plan::Plan;
use crate::run::EXPERIMENT_FILE;

/// Limit on the size of an experiment file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// An experiment with its plan.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) experiment: Experiment,
    pub(super) plan: Plan,
}

/// Returns the identity or file name of an experiment, and its text. `name` is the identity of one
/// of the program in any case of letters, or the name of a file.
pub(super) fn text(name: &str) -> Result<(String, String), Failure> {
    if let Some(builtin) = find_builtin(name) {
        return Ok((builtin.id.to_owned(), builtin.text.to_owned()));
    }
    let path = Path::new(name);
    if !path.exists() && path.extension().is_none() {
        let ids: Vec<String> = builtin().iter().map(|it| it.id.to_ascii_lowercase()).collect();
        let nearest = suggest(&name.to_ascii_lowercase(), ids.iter().map(String::as_str));
        // Without a near identity the suggestion is the list of all.
        let nearest = if nearest.starts_with("did you mean") { nearest + " " } else { String::new() };
        return Err(Failure::Usage(format!(
            "there is no experiment '{name}' and no such file; {nearest}'rdt-lab list' prints all experiments"
        )));
    }
    if path.is_dir() {
        let remedy = if path.join(EXPERIMENT_FILE).exists() {
            format!("name its file, {}", path.join(EXPERIMENT_FILE).display())
        } else {
            "name a file, or an experiment that 'rdt-lab list' prints".to_owned()
        };
        return Err(Failure::Usage(format!("{name} is a folder: {remedy}")));
    }
    let failed = |error| Failure::Read(PathBuf::from(path), error);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::Usage(format!(
            "{name} is longer than {MAX_FILE_BYTES} bytes, the limit for experiment files; 'rdt-lab show 000-A' prints one"
        )));
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Failure::Usage(format!("{name} is not UTF-8 text: save it as UTF-8")))?;
    Ok((name.to_owned(), text))
}

/// Parses the name of an engine.
pub(super) fn engine(text: &str) -> Result<EngineKind, String> {
    text.parse().map_err(|()| {
        let words = EngineKind::ALL.map(EngineKind::word).join(", ");
        format!("there is no engine '{text}': choose one of {words}")
    })
}

/// Reads and plans an experiment. An empty list of engines means all of the experiment.
pub(super) fn load(name: &str, engines: &[EngineKind]) -> Result<Loaded, Failure> {
    let (name, text) = text(name)?;
    parse(&name, &text, engines)
}

/// Plans the experiment of a text. `name` is for error messages.
pub(super) fn parse(name: &str, text: &str, engines: &[EngineKind]) -> Result<Loaded, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{name}: {error}"));
    let experiment = Experiment::from_toml(text).map_err(|error| usage(&error))?;
    let plan = Plan::new(&experiment, engines).map_err(|error| usage(&error))?;
    Ok(Loaded { experiment, plan })
}

/// Returns the folders of results of single experiments: a folder that was given, or those within
/// it in alphabetical order.
pub(super) fn results_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.join(EXPERIMENT_FILE).exists() {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = fs::read_dir(folder).map_err(|error| Failure::Read(folder.to_owned(), error))?;
    let mut within: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    within.retain(|path| path.join(EXPERIMENT_FILE).exists());
    within.sort();
    if within.is_empty() { Err(Failure::NoResults(folder.to_owned())) } else { Ok(within) }
}

/// Returns the folders of results of single experiments that are given or within given ones.
pub(super) fn all_results(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    given.iter().map(|folder| results_in(folder)).collect::<Result<Vec<_>, _>>().map(|it| it.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_experiment_have_a_remedy() {
        let error = |name: &str| text(name).expect_err("no experiment").to_string();
        assert!(error("002-x").contains("no such file; did you mean '002-"), "{}", error("002-x"));
        assert!(error("unknown").ends_with("no such file; 'rdt-lab list' prints all experiments"));
        let root = tempfile::tempdir().expect("a folder");
        let name = root.path().display().to_string();
        assert!(
            error(&name).ends_with("is a folder: name a file, or an experiment that 'rdt-lab list' prints")
        );
        fs::write(root.path().join(EXPERIMENT_FILE), "").expect("a file");
        assert!(error(&name).ends_with(&format!("name its file, {name}/{EXPERIMENT_FILE}")));
    }

    #[test]
    fn folders_within_a_folder_are_found() {
        let root = tempfile::tempdir().expect("a folder");
        let error = all_results(&[root.path().to_owned()]).expect_err("nothing there");
        assert!(error.to_string().contains("has no results: neither it nor"), "{error}");
        for name in ["b", "a"] {
            fs::create_dir(root.path().join(name)).expect("a folder");
            fs::write(root.path().join(name).join(EXPERIMENT_FILE), "").expect("a file");
        }
        let found = all_results(&[root.path().to_owned()]).expect("two folders");
        assert_eq!(found, ["a", "b"].map(|name| root.path().join(name)));
        assert_eq!(all_results(&found[1..]).expect("the folder itself"), &found[1..]);
    }
}
