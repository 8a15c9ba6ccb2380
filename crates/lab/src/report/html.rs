//! The page: one file without requests, with its own content security policy.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use self::data::Data;
use super::export::csv;
use super::scale::significant;
use super::scene::{Mark as Drawn, Scene};
use super::section::{Entry, Mark, Section, Table, Tally, measured, pairing, pairing_gained};
use super::svg::{Place, STYLE, escape, literal_style, svg};
use crate::cell::hex;
use crate::claim::Verdict;
use crate::experiment::StatementKind;

mod data;

const PAGE_STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
/// uPlot with its licence, which every copy must contain.
const UPLOT: &str = concat!(
    "/*",
    include_str!("../../assets/uPlot.LICENSE"),
    "*/",
    include_str!("../../assets/uPlot.iife.min.js")
);
const UPLOT_STYLE: &str = include_str!("../../assets/uPlot.min.css");
/// Bytes of a table or a figure above which its repetition is a reference to the first one.
const FOLD_OVER: usize = 1000;
/// Rows of a table above which it is folded.
const FOLD_ROWS: usize = 8;
/// Units of numbers in tables, in base units. The script has the same table, to sort by.
const UNITS: [(&str, f64); 14] = [
    ("", 1.0),
    ("%", 0.01),
    ("packets", 1.0),
    ("\u{b5}s", 0.000_001),
    ("ms", 0.001),
    ("s", 1.0),
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
];

/// Report on one or several experiments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Title of the page.
    pub title: String,
    /// Experiments.
    pub sections: Vec<Section>,
}

/// Returns the page.
pub fn html(report: &Report) -> String {
    let has_series = report.sections.iter().flat_map(|section| &section.figures).any(is_series);
    let mut styles = vec![("page-style", PAGE_STYLE), ("figure-style", STYLE)];
    let mut scripts = vec![SCRIPT];
    if has_series {
        styles.push(("uplot-style", UPLOT_STYLE));
        scripts.insert(0, UPLOT);
    }
    let mut out = head(&report.title, &styles, &scripts);
    let mut shown = Shown::default();
    first_screen(&mut out, report, &mut shown);
    for (i, section) in report.sections.iter().enumerate() {
        experiment(&mut out, section, usize::from(i == 0), &mut shown);
    }
    for section in &report.sections {
        raw_results(&mut out, section, &mut shown.data);
    }
    put!(out, "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n{}", shown.data.block());
    for script in scripts {
        put!(out, "<script>{script}</script>\n");
    }
    out + "</body>\n</html>\n"
}

/// Content that the page shows already.
#[derive(Default)]
struct Shown<'a> {
    /// Tables and figures: content, identifier in the page, and name of the experiment.
    /// Experiments with the same cells have equal tables and figures.
    parts: BTreeMap<String, (String, &'a str)>,
    data: Data,
}

impl<'a> Shown<'a> {
    /// Writes a part of an experiment, or a reference if another experiment shows the same.
    fn once(&mut self, out: &mut String, section: &'a Section, name: &str, content: String) {
        let id = anchor(&section.name);
        if !self.refers(out, &content, name) {
            out.push_str(&content);
            self.add(content, id, section);
        }
    }

    /// Writes a figure, or a reference if another experiment shows the same.
    fn figure(&mut self, out: &mut String, section: &'a Section, scene: &Scene) {
        let mut unnamed = scene.clone();
        unnamed.id.clear();
        let picture = svg(&unnamed, Place::Page);
        if !self.refers(out, &picture, &scene.title) {
            figure(out, scene, &mut self.data);
            self.add(picture, format!("fig-{}", scene.id), section);
        }
    }

    /// Writes a reference if the content is known. Returns whether it is.
    fn refers(&self, out: &mut String, content: &str, name: &str) -> bool {
        let Some((id, of)) = self.parts.get(content) else { return false };
        let (name, of) = (escape(name), escape(of));
        put!(out, "<p>{name}: the same as in <a href=\"#{id}\">{of}</a>.</p>\n");
        true
    }

    fn add(&mut self, content: String, id: String, section: &'a Section) {
        if content.len() > FOLD_OVER {
            self.parts.insert(content, (id, &section.name));
        }
    }
}

fn head(title: &str, styles: &[(&str, &str)], scripts: &[&str]) -> String {
    let hashes = |texts: Vec<&str>| {
        let hash = |text: &str| format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())));
        texts.into_iter().map(hash).collect::<Vec<_>>().join(" ")
    };
    // The script parses figures as it saves them, with this style.
    let saved = literal_style();
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; \
         script-src {}; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n",
        hashes(styles.iter().map(|(_, text)| *text).chain([saved.as_str()]).collect()),
        hashes(scripts.to_vec()),
        escape(title)
    );
    for (id, style) in styles {
        put!(out, "<style id=\"{id}\">{style}</style>\n");
    }
    out + "</head>\n<body>\n<main>\n"
}

fn first_screen<'a>(out: &mut String, report: &'a Report, shown: &mut Shown<'a>) {
    put!(
        out,
        "<header><h1>{}</h1>\n<p id=\"verdict\">{}</p></header>\n",
        escape(&report.title),
        verdict(&report.sections)
    );
    let link = |section: &Section| {
        let (id, name, title) = (anchor(&section.name), escape(&section.name), escape(&section.title));
        format!("<a href=\"#{id}\">{name}</a> {title}")
    };
    let several = report.sections.len() > 1;
    if let Some((first, scene)) = report.sections.first().and_then(|it| Some((it, it.figures.first()?))) {
        if several {
            put!(out, "<p class=\"origin\">A figure of {}:</p>\n", link(first));
        }
        shown.figure(out, first, scene);
    }
    if several {
        put!(out, "<nav aria-label=\"Experiments\"><ul>\n");
        for section in &report.sections {
            let line = verdict(std::slice::from_ref(section));
            put!(out, "<li>{}: {line}</li>\n", link(section));
        }
        put!(out, "</ul></nav>\n");
    }
}

/// Returns the line of verdicts. Connections of a capture have no claims, but limits.
fn verdict(sections: &[Section]) -> String {
    if sections.iter().any(|section| !section.toml.is_empty()) || sections.is_empty() {
        return Tally::of(sections).line();
    }
    let limits = sections.iter().filter_map(|section| section.limits.first());
    escape(&limits.take(1).cloned().collect::<String>())
}

/// Returns a name as an identifier of the page.
pub(super) fn anchor(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn paragraph(out: &mut String, text: &str) {
    put!(out, "<p>{}</p>\n", escape(text));
}

/// Writes an experiment. Its first figures may be on the first screen already.
fn experiment<'a>(out: &mut String, section: &'a Section, drawn: usize, shown: &mut Shown<'a>) {
    let name = escape(&section.name);
    put!(out, "<section id=\"{}\">\n<h2>{}</h2>\n", anchor(&section.name), escape(&section.title));
    let source = section.source.as_ref().map_or_else(String::new, |it| format!(", from {}", escape(it)));
    let verdict = verdict(std::slice::from_ref(section));
    put!(out, "<p class=\"origin\">{name}{source}. {verdict}.</p>\n");
    for text in section.about.iter().flat_map(|about| about.split("\n\n")) {
        paragraph(out, text);
    }
    for scene in section.figures.iter().skip(drawn) {
        shown.figure(out, section, scene);
    }
    statements(out, section);
    claims(out, section);
    for results in &section.results {
        table_once(out, section, results, shown);
    }
    if !section.limits.is_empty() {
        put!(out, "<h3>What limits the flows</h3>\n");
        let mut limits = String::new();
        section.limits.iter().for_each(|sentence| paragraph(&mut limits, sentence));
        shown.once(out, section, "Limits", limits);
    }
    for more in [&section.losses, &section.models].into_iter().flatten() {
        table_once(out, section, more, shown);
    }
    put!(out, "<h3>How it was run</h3>\n");
    section.run.iter().for_each(|sentence| paragraph(out, sentence));
    put!(out, "<pre class=\"command\">{}</pre>\n", escape(&section.command));
    if !section.toml.is_empty() {
        put!(out, "<details><summary>The experiment's file</summary>\n");
        out.push_str(&shown.data.refer("toml", "", &section.toml));
        put!(out, "</details>\n");
    }
    put!(out, "</section>\n");
}

fn table_once<'a>(out: &mut String, section: &'a Section, it: &Table, shown: &mut Shown<'a>) {
    let mut content = String::new();
    table(&mut content, it);
    shown.once(out, section, &it.caption, content);
}

fn statements(out: &mut String, section: &Section) {
    let rows = section.statements.iter().map(|it| {
        let mark = if it.kind == StatementKind::Open { Mark::Open } else { Mark::Bad };
        vec![
            Entry::number(it.number.to_string(), it.number.into()),
            Entry { text: it.kind.word().to_owned(), value: None, mark },
            Entry::text(&it.at),
            Entry::text(&it.says),
            Entry::text(&it.so),
            Entry::text(it.shows.iter().map(|step| step.text.as_str()).collect::<Vec<_>>().join("; ")),
        ]
    });
    let head = ["#", "kind", "experiment", "the source says", "in fact", "evidence"];
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        let caption = "Statements of the source that do not hold".to_owned();
        table(out, &Table { caption, head: head.map(str::to_owned).to_vec(), rows });
    }
}

fn claims(out: &mut String, section: &Section) {
    if section.judgements.is_empty() {
        return;
    }
    let rows = section.judgements.iter().map(|it| {
        let mark = match it.verdict {
            Verdict::Holds => Mark::Good,
            Verdict::Fails => Mark::Bad,
            Verdict::Undecided { .. } | Verdict::Missing => Mark::Open,
        };
        let predicate = section.predicates.iter().find(|(id, _)| *id == it.id);
        let points = it.reached().zip(it.points).map(|(reached, of)| format!(", {reached} of {of} points"));
        vec![
            Entry::text(&it.says),
            Entry { text: it.verdict.to_string() + &points.unwrap_or_default(), value: None, mark },
            Entry::text(it.engine.word()),
            Entry::text(measured(it)),
            Entry { text: pairing(it), value: it.pairing, mark: Mark::None },
            Entry::text(predicate.map_or("", |(_, that)| that)),
        ]
    });
    let head = ["claim", "verdict", "engine", "measured", "without pairs", "predicate"];
    let has_interval = section.judgements.iter().any(|it| it.estimate.is_some() && !it.nothing_random);
    let interval = if has_interval { ", with its 95 % interval" } else { "" };
    let caption =
        format!("Claims. Measured: left side of the predicate / right side, or their difference{interval}");
    let head = head.map(str::to_owned).to_vec();
    table(out, &Table { caption, head, rows: rows.collect() });
    let gains = section.judgements.iter().filter_map(|it| it.pairing).collect::<Vec<f64>>();
    if let Some(sentence) = pairing_gained(&gains) {
        paragraph(out, &sentence);
    }
}

fn table(out: &mut String, table: &Table) {
    let equal = equal_columns(table);
    let is_shown = |column: &usize| !equal.contains(column);
    let all = equal.iter().map(|column| format!("{} {}", table.head[*column], table.rows[0][*column].text));
    let all = all.collect::<Vec<_>>().join(", ");
    let all = if equal.is_empty() { all } else { format!(". All rows: {all}") };
    let caption = escape(&(table.caption.clone() + &all));
    // A folded table has its caption on the fold.
    let is_long = table.rows.len() > FOLD_ROWS;
    let (begin, caption, end) = if is_long {
        // What fails is not hidden.
        let fails = table.rows.iter().flatten().any(|entry| entry.mark == Mark::Bad);
        let open = if fails { " open" } else { "" };
        let begin = format!("<details class=\"long\"{open}><summary>{caption}</summary>\n");
        (begin, String::new(), "</details>\n")
    } else {
        (String::new(), format!("<caption>{caption}</caption>"), "")
    };
    put!(out, "{begin}<div class=\"scroll\" tabindex=\"0\"><table>{caption}\n<thead><tr>");
    for (_, name) in table.head.iter().enumerate().filter(|(column, _)| is_shown(column)) {
        put!(out, "<th>{}", escape(name));
    }
    // HTML closes rows and entries by itself, which saves a tenth of a page with many tables.
    put!(out, "</thead>\n<tbody>\n");
    for row in &table.rows {
        put!(out, "<tr>");
        for (_, entry) in row.iter().enumerate().filter(|(column, _)| is_shown(column)) {
            let value = entry.value.filter(|value| !has_value(&entry.text, *value));
            let value = value.map_or_else(String::new, |it| format!(" data-v={}", significant(it, 6)));
            let (class, sign) = match entry.mark {
                Mark::None => ("", ""),
                Mark::Good => (" class=\"good\"", "\u{2713} "),
                Mark::Bad => (" class=\"bad\"", "\u{2717} "),
                Mark::Open => (" class=\"open\"", ""),
            };
            put!(out, "<td{class}{value}>{sign}{}", escape(&entry.text));
        }
        put!(out, "\n");
    }
    put!(out, "</tbody></table></div>\n{end}");
}

/// Returns the columns whose text is the same in all rows, such as the engine. The caption tells
/// them once. A marked entry is an outcome and stays in its row.
fn equal_columns(table: &Table) -> Vec<usize> {
    let [first, _, _, ..] = &table.rows[..] else { return Vec::new() };
    let is_equal = |column: &usize| {
        let text = |row: &Vec<Entry>| {
            row.get(*column).filter(|entry| entry.mark == Mark::None).map(|entry| entry.text.clone())
        };
        text(first).is_some_and(|it| !it.is_empty()) && table.rows.iter().all(|row| text(row) == text(first))
    };
    let equal: Vec<usize> = (0..table.head.len()).filter(is_equal).collect();
    if equal.len() < table.head.len() { equal } else { Vec::new() }
}

/// True if the script reads this value from the text, to the four digits that are shown.
fn has_value(text: &str, value: f64) -> bool {
    let mut words = text.split(' ');
    let number = words.next().and_then(|word| word.parse::<f64>().ok());
    let unit = words.next().filter(|word| *word != "\u{b1}").unwrap_or("");
    let size = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| size);
    let shown = number.zip(size).map(|(number, size)| number * size);
    shown.is_some_and(|shown| (shown - value).abs() <= value.abs() / 1000.0)
}

/// True if a figure has series over time, which the page can draw with other bin widths.
fn is_series(scene: &Scene) -> bool {
    scene.panels.first().is_some_and(|panel| panel.x.label.starts_with("time ("))
        && scene.layers().any(|(_, layer)| {
            matches!(layer.mark, Drawn::Line | Drawn::Bins(_) | Drawn::Band(_)) && layer.rows.len() > 20
        })
}

fn figure(out: &mut String, scene: &Scene, data: &mut Data) {
    let id = &scene.id;
    let kind = if is_series(scene) { " data-series=\"1\"" } else { "" };
    put!(out, "<figure id=\"fig-{id}\"{kind}>\n<figcaption>{}</figcaption>\n", escape(&scene.title));
    put!(out, "<div class=\"scroll\" tabindex=\"0\">\n{}</div>\n", svg(scene, Place::Page));
    put!(out, "<p class=\"alt\" id=\"{id}-d\">{}</p>\n", escape(&scene.description));
    put!(out, "{}</figure>\n", data.refer("csv", "", &csv(scene)));
}

/// Writes the cells and repetitions of an experiment as tables, for readers who check the figures.
fn raw_results(out: &mut String, section: &Section, data: &mut Data) {
    let (id, title) = (anchor(&section.name), escape(&section.title));
    put!(out, "<section id=\"raw-{id}\" class=\"raw\">\n<h2>Raw results: {title}</h2>\n");
    section.versions.iter().for_each(|sentence| paragraph(out, sentence));
    let identity = " A cell is named by the hash of everything that can change its outcome.";
    for (name, note, text) in [("Cells", identity, &section.cells), ("Repetitions", "", &section.raw)] {
        if text.is_empty() {
            continue;
        }
        let hex = hex(&Sha256::digest(text.as_bytes()));
        let rows = text.lines().count().saturating_sub(1);
        put!(out, "<p>{name}: {rows} rows, SHA-256 of the CSV file {hex}.{note}</p>\n");
        out.push_str(&data.refer("raw", name, text));
    }
    put!(out, "</section>\n");
}

/// Returns bytes in base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|i| u32::from(group.get(i).copied().unwrap_or(0)));
        let bits = a << 16 | b << 8 | c;
        for i in 0..4_u32 {
            let index = usize::try_from(bits >> (18 - 6 * i) & 63).unwrap_or(0);
            let is_padding = usize::try_from(i).unwrap_or(0) > group.len();
            out.push(if is_padding { '=' } else { char::from(LETTERS[index]) });
        }
    }
    out
}

#[cfg(test)]
mod tests;
