//! Experiments from files and from the program.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::cell::EngineKind;
use crate::claim::Claim;
use crate::experiment::{Experiment, builtin, find_builtin, suggest};
use crate::plan::Plan;

/// Limit on the size of an experiment file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// An experiment with its plan and claims.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) experiment: Experiment,
    pub(super) plan: Plan,
    pub(super) claims: Vec<Claim>,
}

/// Reads an experiment: the identity of one of the program, or the name of a file.
pub(super) fn text(name: &str) -> Result<(String, String), Failure> {
    if let Some(builtin) = find_builtin(name) {
        return Ok((builtin.id.to_owned(), builtin.text.to_owned()));
    }
    let path = Path::new(name);
    if !path.exists() && path.extension().is_none() {
        let ids: Vec<String> = builtin().iter().map(|it| it.id.to_ascii_lowercase()).collect();
        let nearest = suggest(&name.to_ascii_lowercase(), ids.iter().map(String::as_str));
        return Err(Failure::Usage(format!(
            "there is no experiment '{name}' and no such file; {nearest}; 'rdt-lab list' names all experiments"
        )));
    }
    let failed = |error| Failure::Read(PathBuf::from(path), error);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::Usage(format!(
            "{name} has more than {MAX_FILE_BYTES} bytes, so it is no experiment file: 'rdt-lab show 000-A' prints one"
        )));
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Failure::Usage(format!("{name} is no text in UTF-8: save it as such")))?;
    Ok((name.to_owned(), text))
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
    let claims = experiment.claims.iter().map(crate::experiment::Claim::to_judged).collect();
    Ok(Loaded { experiment, plan, claims })
}
