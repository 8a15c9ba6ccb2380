//! From the settings of a file and of some levels to the physics of a cell.

use rdt_emulator::spec::{PathSpec, Scope, SpecError};

use super::error::ExperimentError;
use super::factor::Level;
use super::flow_words::{FlowDraft, check_kind, parse_kind};
use super::read::sets_kind;
use super::setting::{Setting, Target, option_of};
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
            engine_words.extend(command.server.iter().map(|line| ("server".to_owned(), line.clone())));
            let limit = command.time_limit.as_secs_f64();
            engine_words.push(("time-limit".to_owned(), format!("{limit}s")));
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
    let is_option = |setting: &&Setting| option_of(&setting.word).is_some();
    let (options, varied): (Vec<&Setting>, Vec<&Setting>) = varied.into_iter().partition(is_option);
    let (own_options, words): (Vec<&Setting>, Vec<&Setting>) = words.iter().partition(is_option);
    let options: Vec<&Setting> = own_options.into_iter().chain(options).collect();
    let is_preset = |setting: &Setting| setting.word == "preset";
    let preset = varied.iter().copied().find(|setting| is_preset(setting));
    let base = words.into_iter().filter(|setting| preset.is_none() || !is_preset(setting));
    let base: Vec<&Setting> = base.chain(preset).collect();
    let levels: Vec<&Setting> = varied.into_iter().filter(|setting| !is_preset(setting)).collect();
    for option in &options {
        let is_set = base.iter().chain(&levels).any(|setting| is_completed_by(setting, option));
        if !is_set {
            let (key, _) = option_of(&option.word).unwrap_or_default();
            return Err(option
                .place
                .error(&option.word, format!("it completes {key}, which is not set here")));
        }
    }
    let mut path = PathSpec::default();
    for layer in [base, levels] {
        let values: Vec<String> = layer.iter().map(|setting| with_options(setting, &options)).collect();
        let triples = layer.iter().zip(&values);
        let triples = triples.map(|(setting, value)| (scope(setting), setting.word.as_str(), value.as_str()));
        path.set_all(triples).map_err(|error| combination(&layer, &options, &error))?;
    }
    Ok(path)
}

/// True if `option` is one of the value of `setting`.
fn is_completed_by(setting: &Setting, option: &Setting) -> bool {
    scope(setting) == scope(option) && option_of(&option.word).is_some_and(|(key, _)| key == setting.word)
}

/// Returns the value of a setting with its options: `wifi-a` with `rate.rts = on` is `wifi-a:rts`.
/// A later option replaces an earlier one of the same name, `off` takes it out.
fn with_options(setting: &Setting, options: &[&Setting]) -> String {
    let mut named: Vec<(&str, &str)> = Vec::new();
    for option in options.iter().filter(|option| is_completed_by(setting, option)) {
        let Some((_, name)) = option_of(&option.word) else { continue };
        named.retain(|(other, _)| *other != name);
        named.push((name, option.value.as_str()));
    }
    let mut text = setting.value.clone();
    for (name, value) in named {
        let separator = if text.contains(':') { ',' } else { ':' };
        match value {
            "off" | "false" => {}
            "on" | "true" => text.extend([separator.to_string().as_str(), name]),
            _ => text.extend([separator.to_string().as_str(), name, "=", value]),
        }
    }
    text
}

fn scope(setting: &Setting) -> Scope {
    match setting.target {
        Target::Link(_, scope) => scope,
        _ => Scope::Both,
    }
}

/// Returns an error about words of a path, at the place of the word that the error names.
fn combination(layer: &[&Setting], options: &[&Setting], error: &SpecError) -> ExperimentError {
    let flag = |setting: &Setting| match scope(setting) {
        Scope::Both => format!("--{}", setting.word),
        Scope::Forward => format!("--{}-forward", setting.word),
        Scope::Reverse => format!("--{}-reverse", setting.word),
    };
    let subject = error.subject().unwrap_or_default();
    let text = error.to_string();
    let message = text.strip_prefix(&format!("{subject}: ")).unwrap_or(&text);
    let setting = layer.iter().find(|setting| flag(setting) == subject);
    // A value was right by itself, so an option that completes it is wrong.
    let options = || {
        let completes = |option: &&&Setting| setting.is_some_and(|setting| is_completed_by(setting, option));
        options.iter().filter(completes)
    };
    let option = options().find(|option| message.contains(&option.value)).or(options().next_back());
    let place = option.or(setting).or(layer.first()).map_or_else(Default::default, |setting| setting.place);
    place.error("path", message)
}
