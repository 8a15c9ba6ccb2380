//! Experiments from files and from the program.

use std::fs;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::cell::EngineKind;
use crate::claim::Claim;
use crate::experiment::{Experiment, builtin, find_builtin, suggest};
use crate::plan::Plan;

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
            "there is no experiment '{name}' and no such file{nearest}; 'rdt-lab list' names all experiments"
        )));
    }
    let text = fs::read_to_string(path).map_err(|error| Failure::Read(PathBuf::from(path), error))?;
    Ok((name.to_owned(), text))
}

/// Reads and plans an experiment. An empty list of engines means all of the experiment.
pub(super) fn load(name: &str, engines: &[EngineKind]) -> Result<Loaded, Failure> {
    let (name, text) = text(name)?;
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{name}: {error}"));
    let experiment = Experiment::from_toml(&text).map_err(|error| usage(&error))?;
    let plan = Plan::new(&experiment, engines).map_err(|error| usage(&error))?;
    let claims = experiment.claims.iter().map(crate::experiment::Claim::to_judged).collect();
    Ok(Loaded { experiment, plan, claims })
}
