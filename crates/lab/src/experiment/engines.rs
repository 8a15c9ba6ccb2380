//! Engines that an experiment, a level, a claim or expected values name.

use super::document::Item;
use super::error::ExperimentError;
use crate::cell::EngineKind;

/// Reads the words `engine` of a table. With `known`, the experiment must have each engine.
pub(super) fn read_engines(
    item: Option<&Item<'_, '_>>,
    known: Option<&[EngineKind]>,
) -> Result<Vec<EngineKind>, ExperimentError> {
    let Some(item) = item else { return Ok(Vec::new()) };
    let words = EngineKind::ALL.map(|engine| (engine.word(), engine));
    let mut engines = Vec::new();
    for item in item.list() {
        let engine = item.one_of(&words)?;
        if known.is_some_and(|known| !known.contains(&engine)) {
            return Err(item.error(format!("the experiment does not run with engine {engine}")));
        }
        if engines.contains(&engine) {
            return Err(item.error(format!("{engine} is there twice")));
        }
        engines.push(engine);
    }
    if engines.is_empty() {
        return Err(item.error("at least one engine is wanted"));
    }
    Ok(engines)
}
