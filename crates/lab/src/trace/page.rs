//! The page of a trace: tables, sentences and graphs of each connection.

use super::Trace;
use super::fields::{Field, Value, fields};
use super::figure::{View, scenes};
use super::sequence::seconds;
use super::text::shown;
use super::timeline::{Timeline, timeline};
use crate::report::Report;
use crate::report::section::{Entry, Mark, Section, Table};

/// What of a trace the page shows.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Name of the file.
    pub file: String,
    /// Indices of the connections.
    pub connections: Vec<usize>,
    /// Begin and end of graphs, seconds from the first packet of a connection.
    pub between: Option<(f64, f64)>,
    /// Command that makes the page again.
    pub command: String,
    /// Sentences about the file.
    pub remarks: Vec<String>,
}

/// Returns the page of some connections.
pub fn report(trace: &Trace, choice: &Choice) -> Report {
    let sections = choice.connections.iter().map(|index| section(trace, *index, choice));
    Report { title: format!("TCP connections of {}", choice.file), sections: sections.collect() }
}

fn section(trace: &Trace, index: usize, choice: &Choice) -> Section {
    let connection = &trace.connections[index];
    let name = format!("flow-{}", index + 1);
    let whole = (0.0, seconds(connection.last_ns - connection.first_ns));
    let mut section = Section {
        title: format!("Connection {}: {} and {}", index + 1, connection.ends[0], connection.ends[1]),
        source: Some(choice.file.clone()),
        results: vec![figures(&fields(connection))],
        run: choice.remarks.clone(),
        command: choice.command.clone(),
        ..Section::default()
    };
    // The end that sent more comes first.
    let sender = connection.sender();
    for end in [sender, 1 - sender] {
        if connection.directions[end].data_packets == 0 {
            continue;
        }
        let letters = if end == 0 { "a-b" } else { "b-a" };
        let timeline = timeline(connection, end);
        section.limits.extend(timeline.sentences(if end == 0 { "a\u{2192}b" } else { "b\u{2192}a" }));
        if !timeline.stalls.is_empty() {
            section.results.push(stalls(&timeline, letters));
        }
        let id = format!("{name}-{letters}");
        let between = choice.between.unwrap_or(whole);
        section.figures.extend(scenes(&View { connection, sender: end, id: &id, between }));
    }
    section.name = name;
    section
}

fn figures(fields: &[Field]) -> Table {
    let rows = fields.iter().map(|field| {
        let mut row = vec![Entry::text(field.label)];
        row.extend([0, 1].map(|end| {
            let unit = if field.values[end] == Value::None { "" } else { field.unit };
            let text = format!("{} {unit}", shown(&field.values[end])).trim_end().to_owned();
            Entry { text, value: field.number(end), mark: Mark::None }
        }));
        row
    });
    Table {
        caption: "Figures of both directions, by the rules and with the labels of tcptrace".to_owned(),
        head: ["figure", "a\u{2192}b", "b\u{2192}a"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn stalls(timeline: &Timeline, letters: &str) -> Table {
    let rows = timeline.stalls.iter().map(|stall| {
        let doubt = if stall.is_certain { "" } else { " (less certain)" };
        vec![
            Entry::number(format!("{:.3} s", stall.begin_s), stall.begin_s),
            Entry::number(format!("{:.3} s", stall.length_s), stall.length_s),
            Entry::text(stall.probes.to_string()),
            Entry::text(format!("{}{doubt}", stall.cause.name())),
        ]
    });
    Table {
        caption: format!("Stalls of {letters}: pauses between data"),
        head: ["begin", "length", "probes", "cause"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
