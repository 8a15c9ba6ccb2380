//! From the settings of a file and of some levels to the physics of a cell.

use rdt_emulator::spec::{PathSpec, Scope, SpecError};

use super::error::ExperimentError;
use super::factor::Level;
use super::flow_words::{FlowDraft, check_kind, parse_kind};
use super::read::sets_kind;
use super::setting::{Setting, Target};
use super::{Experiment, FlowTable};
use crate::cell::{EngineKind, Physics};
use crate::flow::{Flow, FlowKind};

impl Experiment {
    /// Returns the physics of the cell with these levels. Words of the levels replace those of the
    /// file.
    ///
    /// # Errors
    /// A combination of words that excludes itself, at the place of one of them.
    pub fn physics(&self, engine: EngineKind, levels: &[&Level]) -> Result<Physics, ExperimentError> {
        let varied: Vec<&Setting> = levels.iter().flat_map(|level| &level.settings).collect();
        let links = self.links.iter().enumerate().map(|(index, words)| link(index, words, &varied));
        let links = links.collect::<Result<_, _>>()?;
        let mut flows: Vec<Flow> = Vec::new();
        for table in &self.flows {
            flows.extend(self.flow(table, &varied)?);
        }
        let mut engine_words = Vec::new();
        let mut duration = None;
        for setting in self.settings.iter().chain(varied.iter().copied()) {
            match &setting.target {
                Target::Run => duration = rdt_emulator::parse_duration(&setting.value).ok(),
                Target::Engine(other) if *other == engine => {
                    engine_words.retain(|(word, _)| *word != setting.word);
                    engine_words.push((setting.word.clone(), setting.value.clone()));
                }
                _ => {}
            }
        }
        if engine == EngineKind::Command
            && let Some(command) = &self.command
        {
            engine_words.push(("program".to_owned(), command.program.clone()));
            let metrics = command.metrics.iter();
            engine_words.extend(metrics.map(|(name, pointer)| (format!("metrics.{name}"), pointer.clone())));
        }
        engine_words.sort();
        Ok(Physics { engine, duration, links, flows, engine_words })
    }

    /// Returns the flows of one table: several if it has a count.
    fn flow(&self, table: &FlowTable, varied: &[&Setting]) -> Result<Vec<Flow>, ExperimentError> {
        let is_mine = |setting: &&Setting| match &setting.target {
            Target::Flow(name) => *name == table.name || name == "*",
            _ => false,
        };
        let words: Vec<&Setting> =
            table.settings.iter().chain(varied.iter().copied().filter(is_mine)).collect();
        let kind = words.iter().rev().find(|setting| setting.word == "kind");
        let kind = kind.map_or(Ok(FlowKind::Rdt), |setting| parse_kind(&setting.value));
        let kind = kind.map_err(|error| table.place.error(&table.name, error))?;
        let levels =
            || self.factors.iter().flat_map(|factor| &factor.levels).flat_map(|level| &level.settings);
        let kind_varies = levels().any(|setting| sets_kind(setting, &table.name));
        let mut draft = FlowDraft::new(&table.name);
        for setting in words {
            if let Err(error) = check_kind(&setting.word, kind) {
                // A word for all flows, or one for the flow's other kind, means nothing here.
                let for_all = setting.target == Target::Flow("*".to_owned());
                if for_all || kind_varies {
                    continue;
                }
                return Err(setting.place.error(&table.name, error));
            }
            draft
                .set(&setting.word, &setting.value)
                .map_err(|error| setting.place.error(&setting.word, error))?;
        }
        draft.finish().map_err(|error| {
            let place = varied.iter().copied().find(is_mine).map_or(table.place, |setting| setting.place);
            place.error(&format!("flow {}", table.name), error)
        })
    }
}

/// Returns the path of a link: its words, replaced by those of the levels.
fn link(index: usize, words: &[Setting], varied: &[&Setting]) -> Result<PathSpec, ExperimentError> {
    let of_link = |setting: &&Setting| matches!(setting.target, Target::Link(link, _) if link == index);
    let varied: Vec<&Setting> = varied.iter().copied().filter(of_link).collect();
    let is_preset = |setting: &&Setting| setting.word == "preset";
    let preset = varied.iter().copied().find(|setting| is_preset(setting));
    let base = words.iter().filter(|setting| preset.is_none() || !is_preset(setting));
    let mut path = PathSpec::default();
    for layer in
        [base.chain(preset).collect::<Vec<_>>(), varied.iter().copied().filter(|s| !is_preset(s)).collect()]
    {
        let triples =
            layer.iter().map(|setting| (scope(setting), setting.word.as_str(), setting.value.as_str()));
        path.set_all(triples).map_err(|error| combination(&layer, &error))?;
    }
    Ok(path)
}

fn scope(setting: &Setting) -> Scope {
    match setting.target {
        Target::Link(_, scope) => scope,
        _ => Scope::Both,
    }
}

/// Returns an error about words of a path, at the place of the word that the error names.
fn combination(layer: &[&Setting], error: &SpecError) -> ExperimentError {
    let flag = |setting: &Setting| match scope(setting) {
        Scope::Both => format!("--{}", setting.word),
        Scope::Forward => format!("--{}-forward", setting.word),
        Scope::Reverse => format!("--{}-reverse", setting.word),
    };
    let subject = error.subject().unwrap_or_default();
    let text = error.to_string();
    let message = text.strip_prefix(&format!("{subject}: ")).unwrap_or(&text);
    let setting = layer.iter().find(|setting| flag(setting) == subject);
    let place = setting.or(layer.first()).map_or_else(Default::default, |setting| setting.place);
    place.error("path", message)
}
