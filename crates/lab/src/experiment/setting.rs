//! Settings: one word of a path, of a flow, of an engine or of the run, with its value.

use rdt_emulator::spec::{PathSpec, Scope};

use super::document::Item;
use super::error::{ExperimentError, Place, suggest};
use super::flow_words::{self, FlowDraft};
use crate::cell::{EngineKind, IPV6};

/// Link, flow, engine or run that a setting is for.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A link, by its index from 0, in one or both directions.
    Link(usize, Scope),
    /// The flow with this name. `*` stands for all flows.
    Flow(String),
    /// An engine, in whose cells alone the word counts.
    Engine(EngineKind),
    /// The run: the word `for`.
    Run,
}

/// A setting of an experiment file: a word (the name of a setting, such as `rate`) with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Link, flow, engine or run whose setting it is.
    pub target: Target,
    /// Name of the setting: `rate`, `receiver.window`.
    pub word: String,
    /// Value as the file has it.
    pub value: String,
    /// Line and column of the value in the experiment file.
    pub place: Place,
}

impl Setting {
    /// True if both settings set one word of one target, so that one would have no effect.
    pub(super) fn collides(&self, other: &Self) -> bool {
        let same_target = match (&self.target, &other.target) {
            (Target::Flow(one), Target::Flow(two)) => one == two || one == "*" || two == "*",
            (one, two) => one == two,
        };
        same_target && self.word == other.word
    }
}

/// Names that a file defines, with which its words are resolved.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// True if the links are written as `[[link]]`, so that their words begin with `link.N`.
    pub(super) numbered_links: bool,
    pub(super) links: usize,
    pub(super) flows: Vec<String>,
    pub(super) engines: Vec<EngineKind>,
}

impl Names {
    /// Returns what a factor's words name: `flow.a.sack` is the word `sack` of flow `a`.
    pub(super) fn resolve(&self, path: &str) -> Result<(Target, String), String> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let rest_of = |example: &str| rest.ok_or_else(|| format!("write a word after it, such as {example}"));
        match first {
            "for" if rest.is_none() => Ok((Target::Run, "for".to_owned())),
            "path" if self.numbered_links => {
                Err("this file has [[link]] tables: write link.1.rate".to_owned())
            }
            "path" => link_word(0, rest_of("path.rate")?),
            "link" => {
                let (number, word) = rest_of("link.1.rate")?.split_once('.').ok_or("write link.1.rate")?;
                let number: usize =
                    number.parse().map_err(|_| format!("'{number}' is no number of a link"))?;
                if !self.numbered_links && number == 1 {
                    return Err("there is no link 1; write path.rate".to_owned());
                }
                if !(1..=self.links).contains(&number) {
                    return Err(format!("there is no link {number}; the file has {}", self.links));
                }
                link_word(number - 1, word)
            }
            "flow" => {
                let (name, word) = rest_of("flow.a.cc")?.split_once('.').ok_or("write flow.a.cc")?;
                if name != "*" && !self.flows.iter().any(|known| known == name) {
                    let hint = suggest(name, self.flows.iter().map(String::as_str));
                    return Err(format!("there is no flow '{name}'; {hint}"));
                }
                flow_words::check_word(word)?;
                Ok((Target::Flow(name.to_owned()), word.to_owned()))
            }
            _ => self.resolve_engine(first, rest),
        }
    }

    fn resolve_engine(&self, first: &str, rest: Option<&str>) -> Result<(Target, String), String> {
        let Ok(engine) = first.parse::<EngineKind>() else {
            let starts = ["path", "link", "flow", "for"];
            let engines = EngineKind::ALL.map(EngineKind::word);
            let hint = suggest(first, starts.into_iter().chain(engines));
            return Err(format!("nothing uses '{first}'; {hint}"));
        };
        let Some(word) = rest else { return Err(format!("write a word after it, such as {first}.WORD")) };
        if !self.engines.contains(&engine) {
            return Err(format!("nothing uses it: the experiment does not run with engine {engine}"));
        }
        check_engine_word(engine, word)?;
        Ok((Target::Engine(engine), word.to_owned()))
    }
}

/// Keys of a path whose values have options after a colon: `wifi-a:rate=6mbit,rts`.
const KEYS_WITH_OPTIONS: [&str; 2] = ["rate", "discipline"];

/// Splits the word of an option: `rate.rts` is the option `rts` of the key `rate`.
pub(super) fn option_of(word: &str) -> Option<(&str, &str)> {
    word.split_once('.')
}

fn link_word(index: usize, words: &str) -> Result<(Target, String), String> {
    let (scope, word) = match words.split_once('.') {
        Some(("forward", word)) => (Scope::Forward, word),
        Some(("reverse", word)) => (Scope::Reverse, word),
        _ => (Scope::Both, words),
    };
    if word == "seed" {
        return Err("the seeds come from the plan: write seed in [design]".to_owned());
    }
    let key = option_of(word).map_or(word, |(key, _)| key);
    key.parse::<rdt_emulator::spec::Key>().map_err(|unknown| unknown.to_string())?;
    if option_of(word).is_some() && !KEYS_WITH_OPTIONS.contains(&key) {
        return Err(format!("{key} has no options; {} have", KEYS_WITH_OPTIONS.join(" and ")));
    }
    Ok((Target::Link(index, scope), word.to_owned()))
}

/// Returns an error if the engine has no such word. `kernel` takes names of sysctls too.
fn check_engine_word(engine: EngineKind, word: &str) -> Result<(), String> {
    match engine {
        EngineKind::Kernel if word == IPV6 || word.starts_with("tcp_") || word.starts_with("net.") => Ok(()),
        EngineKind::Command => Ok(()),
        EngineKind::Kernel => {
            let known = [IPV6, "tcp_recovery", "tcp_sack", "tcp_timestamps", "tcp_frto", "tcp_early_retrans"];
            Err(format!("engine kernel has no word '{word}'; {}", suggest(word, known)))
        }
        EngineKind::Real if word == "offload" => Ok(()),
        EngineKind::Real => Err(format!("engine real has no word '{word}'; {}", suggest(word, ["offload"]))),
        EngineKind::Virtual | EngineKind::Packets => Err(format!("engine {engine} has no words of its own")),
    }
}

/// Reads the value of a word and checks it by itself.
pub(super) fn read(target: Target, word: &str, item: &Item<'_, '_>) -> Result<Setting, ExperimentError> {
    let Some(value) = item.plain() else {
        return Err(item.error(format!("a text in quotes or a number is wanted, not {}", item.type_name())));
    };
    let setting = Setting { target, word: word.to_owned(), value, place: item.place() };
    check(&setting).map_err(|message| item.error(message))?;
    Ok(setting)
}

/// Checks the value of a setting by itself. The error is a sentence.
fn check(setting: &Setting) -> Result<(), String> {
    let Setting { target, word, value, .. } = setting;
    match target {
        // An option is checked with the value that it completes.
        Target::Link(..) if option_of(word).is_some() => Ok(()),
        Target::Link(_, scope) => PathSpec::default().set(*scope, word, value).map_err(|error| {
            let text = error.to_string();
            let subject = error.subject().map_or_else(String::new, |subject| format!("{subject}: "));
            text.strip_prefix(&subject).unwrap_or(&text).to_owned()
        }),
        Target::Flow(_) => FlowDraft::new("").set(word, value),
        Target::Engine(engine)
            if (*engine == EngineKind::Real || *engine == EngineKind::Kernel && word == IPV6)
                && !matches!(value.as_str(), "on" | "off") =>
        {
            Err(format!("'{value}' is not on or off"))
        }
        Target::Engine(_) => Ok(()),
        Target::Run => rdt_emulator::parse_duration(value).map(drop).map_err(|error| error.to_string()),
    }
}
