//! Reads an experiment file from top to bottom.

use toml::Spanned;
use toml::de::DeTable;

use super::claims::{Claim, Expect, Statement};
use super::design::{Design, DesignKind, Measure, Repeats, Seeds};
use super::document::{Item, Section};
use super::engines::read_engines;
use super::error::{ExperimentError, Place};
use super::factor::{self, Factor, read_levels};
use super::figure::Figure;
use super::flow_words;
use super::metric_names;
use super::placeholders;
use super::setting::{self, Names, Setting, Target};
use super::{Command, Experiment, FlowTable};
use crate::cell::EngineKind;
use crate::flow::FlowKind;

/// Words of the file itself, without those of engines.
const WORDS: [&str; 18] = [
    "schema",
    "name",
    "title",
    "source",
    "about",
    "engine",
    "for",
    "path",
    "link",
    "flow",
    "factors",
    "design",
    "repeats",
    "measure",
    "claim",
    "expect",
    "figure",
    "statement",
];

const MAX_CLAIMS: usize = 1_000;

/// Version of the notation that this program reads.
const SCHEMA: u32 = 1;

fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, ExperimentError> {
    DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        Place::of(text, offset).because(error.message())
    })
}

pub(super) fn experiment(text: &str) -> Result<Experiment, ExperimentError> {
    let document = parse(text)?;
    let file = Section::new(text, "", Place { line: 1, column: 1 }, document.get_ref());
    let words: Vec<&'static str> = WORDS.into_iter().chain(EngineKind::ALL.map(EngineKind::word)).collect();
    file.check(&words)?;
    let schema = file.require("schema")?;
    if schema.number::<u32>()? != SCHEMA {
        return Err(schema.error(format!("this program reads schema = {SCHEMA}")));
    }
    let engines = read_engines(Some(file.require("engine")?), None)?;
    let command = file.get("command").map(|item| read_command(item)).transpose()?;
    let mut names = Names { engines, ..Names::default() };
    let links = read_links(&file, &mut names)?;
    let flows = read_flows(&file, &mut names)?;
    let settings = read_run_words(&file, &names)?;
    let factors = match file.get("factors") {
        Some(item) => factor::read(&item.section()?, &names)?,
        None => Vec::new(),
    };
    check_kinds(&flows, &factors)?;
    check_number(&file, "claim")?;
    let claims = tables(&file, "claim", |section| Claim::read(section, &factors, &names.engines))?;
    check_unique(&file, "claim", "id")?;
    let section = |word: &str| file.get(word).map(Item::section).transpose();
    let name = file.require("name")?;
    let experiment = Experiment {
        text: text.to_owned(),
        name: checked_name(name)?,
        title: file.require("title")?.text()?,
        source: file.text("source")?,
        about: file.text("about")?,
        settings,
        links,
        flows,
        command,
        design: read_design(section("design")?.as_ref(), &factors)?,
        repeats: Repeats::read(section("repeats")?.as_ref(), !claims.is_empty())?,
        measure: Measure::read(section("measure")?.as_ref(), &names.engines)?,
        claims,
        expects: tables(&file, "expect", |section| Expect::read(section, &factors, &names.engines))?,
        figures: tables(&file, "figure", |section| Figure::read(section, &factors))?,
        statements: tables(&file, "statement", |section| Statement::read(section, &factors))?,
        factors,
        engines: names.engines,
    };
    check_flows(&file, &experiment)?;
    check_placeholders(&file, &experiment)?;
    metric_names::check(&file, &experiment)?;
    Ok(experiment)
}

/// Reads an array of tables: `[[claim]]`.
fn tables<T>(
    file: &Section<'_, '_>,
    word: &str,
    read: impl Fn(&Section<'_, '_>) -> Result<T, ExperimentError>,
) -> Result<Vec<T>, ExperimentError> {
    let Some(item) = file.get(word) else { return Ok(Vec::new()) };
    item.tables(word)?.iter().map(|item| read(&item.section()?)).collect()
}

fn check_number(file: &Section<'_, '_>, word: &str) -> Result<(), ExperimentError> {
    let Some(item) = file.get(word) else { return Ok(()) };
    let count = item.count();
    if count > MAX_CLAIMS {
        return Err(item.error(format!("{count} are more than {MAX_CLAIMS}: make several experiments")));
    }
    Ok(())
}

fn check_unique(file: &Section<'_, '_>, word: &str, key: &str) -> Result<(), ExperimentError> {
    let mut seen = Vec::new();
    for item in file.get(word).map_or_else(Vec::new, Item::list) {
        let section = item.section()?;
        let Some(item) = section.get(key) else { continue };
        let name = item.text()?;
        if seen.contains(&name) {
            return Err(item.error(format!("'{name}' is there twice")));
        }
        seen.push(name);
    }
    Ok(())
}

/// Reads a name that can be part of a file name and of a metric.
fn checked_name(item: &Item<'_, '_>) -> Result<String, ExperimentError> {
    let name = item.text()?;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(item.error(format!("'{name}' is no name: use small letters, digits, '-' and '_'")));
    }
    Ok(name)
}

fn read_links(file: &Section<'_, '_>, names: &mut Names) -> Result<Vec<Vec<Setting>>, ExperimentError> {
    let (path, links) = (file.get("path"), file.get("link"));
    let items = match (path, links) {
        (Some(_), Some(links)) => {
            return Err(links
                .word_place
                .because("[path] and [[link]] exclude each other: [path] is one link"));
        }
        (Some(path), None) => vec![path.clone()],
        (None, Some(links)) => {
            names.numbered_links = true;
            links.tables("link")?
        }
        (None, None) => Vec::new(),
    };
    names.links = items.len();
    let mut read = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let prefix = if names.numbered_links { format!("link.{}", index + 1) } else { "path".to_owned() };
        read.push(read_words(&item.section()?, &prefix, names)?);
    }
    Ok(read)
}

/// Reads a table of words that a factor may vary too.
fn read_words(
    section: &Section<'_, '_>,
    prefix: &str,
    names: &Names,
) -> Result<Vec<Setting>, ExperimentError> {
    let mut settings = Vec::new();
    for (words, item) in section.leaves() {
        let path = format!("{prefix}.{words}");
        let (target, word) = names.resolve(&path).map_err(|error| item.word_place.error(prefix, error))?;
        settings.push(setting::read(target, &word, &item)?);
    }
    Ok(settings)
}

fn read_flows(file: &Section<'_, '_>, names: &mut Names) -> Result<Vec<FlowTable>, ExperimentError> {
    let Some(item) = file.get("flow") else { return Ok(Vec::new()) };
    let mut flows: Vec<FlowTable> = Vec::new();
    for item in item.tables("flow")? {
        let section = item.section()?;
        let name_item = section.require("name")?;
        let name = checked_name(name_item)?;
        if flows.iter().any(|flow| flow.name == name) {
            return Err(name_item.error(format!("there are two flows '{name}'")));
        }
        let mut settings = Vec::new();
        for (word, item) in section.leaves().into_iter().filter(|(word, _)| word != "name") {
            flow_words::check_word(&word).map_err(|error| item.word_place.error(&name, error))?;
            settings.push(setting::read(Target::Flow(name.clone()), &word, &item)?);
        }
        names.flows.push(name.clone());
        flows.push(FlowTable { name, settings, place: item.place() });
    }
    Ok(flows)
}

/// Reads `for` and the tables of engines.
fn read_run_words(file: &Section<'_, '_>, names: &Names) -> Result<Vec<Setting>, ExperimentError> {
    let mut settings = Vec::new();
    if let Some(item) = file.get("for") {
        settings.push(setting::read(Target::Run, "for", item)?);
    }
    for engine in EngineKind::ALL {
        let Some(item) = file.get(engine.word()) else { continue };
        if !names.engines.contains(&engine) {
            let message = format!("nothing uses it: the experiment does not run with engine {engine}");
            return Err(item.word_place.error(engine.word(), message));
        }
        let section = item.section()?;
        for (words, item) in section.leaves() {
            let first = words.split('.').next().unwrap_or_default();
            if engine == EngineKind::Command && Command::WORDS.contains(&first) {
                continue;
            }
            let (target, word) = names
                .resolve(&format!("{}.{words}", engine.word()))
                .map_err(|error| item.word_place.error(engine.word(), error))?;
            settings.push(setting::read(target, &word, &item)?);
        }
    }
    Ok(settings)
}

fn read_command(item: &Item<'_, '_>) -> Result<Command, ExperimentError> {
    let section = item.section()?;
    let program = section.require("program")?.text()?;
    let mut pointers = Vec::new();
    let metrics = section.get("metrics").map(Item::section).transpose()?;
    for (metric, item) in metrics.iter().flat_map(Section::leaves) {
        let pointer = item.text()?;
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(item.error(format!("'{pointer}' is no JSON pointer: it begins with '/'")));
        }
        pointers.push((metric, pointer));
    }
    let time_limit = section.get("time-limit").map_or(Ok(Command::DEFAULT_TIME_LIMIT), Item::duration)?;
    Ok(Command { program, server: section.text("server")?, time_limit, metrics: pointers })
}

/// Checks that each placeholder has a value, and that each word of `[command]` has a placeholder.
fn check_placeholders(file: &Section<'_, '_>, experiment: &Experiment) -> Result<(), ExperimentError> {
    let Some(section) = file.get("command").map(Item::section).transpose()? else { return Ok(()) };
    let levels = experiment.factors.iter().flat_map(|factor| &factor.levels);
    let settings = experiment.settings.iter().chain(levels.flat_map(|level| &level.settings));
    let is_mine = |setting: &&Setting| setting.target == Target::Engine(EngineKind::Command);
    let settings: Vec<&Setting> = settings.filter(is_mine).collect();
    let known = || settings.iter().map(|it| it.word.as_str()).chain(Command::PLACEHOLDERS);
    let mut used = Vec::new();
    for item in ["program", "server"].into_iter().filter_map(|word| section.get(word)) {
        let line = item.text()?;
        let names = placeholders::names(&line);
        if let Some(name) = names.iter().find(|name| !known().any(|known| known == **name)) {
            let hint = super::error::suggest(name, known());
            return Err(item.error(format!("nothing has the value of {{{name}}}; {hint}")));
        }
        used.extend(names.into_iter().map(str::to_owned));
    }
    let is_unused = |word: &String| !used.contains(word) && word != Command::CLIENT_HASH;
    match settings.iter().find(|setting| is_unused(&setting.word)) {
        Some(setting) => Err(setting.place.error(
            &format!("command.{}", setting.word),
            format!("nothing uses it: write {{{}}} in program or server", setting.word),
        )),
        None => Ok(()),
    }
}

fn read_design(section: Option<&Section<'_, '_>>, factors: &[Factor]) -> Result<Design, ExperimentError> {
    let mut design = Design::default();
    let Some(section) = section else { return Ok(design) };
    section.check(&["kind", "generators", "cells", "seeds", "seed"])?;
    if let Some(item) = section.get("seed") {
        design.seed = item.number()?;
    }
    if let Some(item) = section.get("seeds") {
        design.seeds = item.one_of(&[("common", Seeds::Common), ("independent", Seeds::Independent)])?;
    }
    let kind = section.get("kind");
    let word = kind.map_or(Ok("full".to_owned()), Item::text)?;
    design.kind = match (word.as_str(), word.split_once(':')) {
        ("full", _) => DesignKind::Full,
        ("one-at-a-time", _) => DesignKind::OneAtATime,
        ("fraction", _) => {
            let generators = section.require("generators")?.list();
            DesignKind::Fraction(generators.iter().map(Item::text).collect::<Result<_, _>>()?)
        }
        ("list", _) => DesignKind::List(read_cells(section.require("cells")?, factors)?),
        (_, Some(("random", number))) if number.parse::<usize>().is_ok_and(|number| number > 0) => {
            DesignKind::Random(number.parse().unwrap_or_default())
        }
        _ => {
            let known = ["full", "fraction", "one-at-a-time", "list", "random:200"];
            let hint = super::error::suggest(&word, known);
            return Err(section.require("kind")?.error(format!("there is no design '{word}'; {hint}")));
        }
    };
    for (key, wanted) in [("generators", "fraction"), ("cells", "list")] {
        if let Some(item) = section.get(key).filter(|_| word != wanted) {
            return Err(item.word_place.because(format!("nothing uses {key}: write kind = \"{wanted}\"")));
        }
    }
    Ok(design)
}

/// Reads the combinations of a list: `[{ sack = "on", window = "16kib" }, ...]`.
fn read_cells(item: &Item<'_, '_>, factors: &[Factor]) -> Result<Vec<Vec<usize>>, ExperimentError> {
    let mut cells = Vec::new();
    for item in item.list() {
        let levels = read_levels(&item.section()?, factors, &[])?;
        let mut cell = Vec::new();
        for (index, factor) in factors.iter().enumerate() {
            let level = levels.iter().find(|(factor, _)| *factor == index);
            let level =
                level.ok_or_else(|| item.error(format!("the cell has no level of {}", factor.name)))?;
            cell.push(level.1);
        }
        cells.push(cell);
    }
    Ok(cells)
}

/// Checks that each flow's words fit its kind, unless a factor varies the kind.
fn check_kinds(flows: &[FlowTable], factors: &[Factor]) -> Result<(), ExperimentError> {
    let varied = || factors.iter().flat_map(|factor| &factor.levels).flat_map(|level| &level.settings);
    for flow in flows {
        let is_mine =
            |setting: &&Setting| matches!(&setting.target, Target::Flow(name) if *name == flow.name);
        if varied().any(|setting| sets_kind(setting, &flow.name)) {
            continue;
        }
        let kind = flow.settings.iter().find(|setting| setting.word == "kind");
        let kind = kind.map_or(Ok(FlowKind::Rdt), |setting| flow_words::parse_kind(&setting.value));
        for setting in flow.settings.iter().chain(varied().filter(is_mine)) {
            let checked = kind.clone().and_then(|kind| flow_words::check_kind(&setting.word, kind));
            checked
                .map_err(|error| setting.place.error(&format!("{}.{}", flow.name, setting.word), error))?;
        }
    }
    Ok(())
}

/// True if the setting varies the kind of this flow.
pub(super) fn sets_kind(setting: &Setting, flow: &str) -> bool {
    let Target::Flow(name) = &setting.target else { return false };
    setting.word == "kind" && (name == flow || name == "*")
}

/// Checks that there is something to run.
fn check_flows(file: &Section<'_, '_>, experiment: &Experiment) -> Result<(), ExperimentError> {
    let is_command = |engine: &EngineKind| *engine == EngineKind::Command;
    if experiment.engines.iter().any(is_command) && experiment.command.is_none() {
        return Err(file.require("engine")?.error("engine command has a table [command] with program"));
    }
    if experiment.flows.is_empty() && !experiment.engines.iter().all(is_command) {
        return Err(file.place.because("the experiment has no flow: write [[flow]] with a name"));
    }
    Ok(())
}
