//! HTML page of a trace: tables, sentences and graphs of each connection.

use super::Trace;
use super::fields::{Field, fields};
use super::figure::{View, scenes};
use super::sequence::seconds;
use super::timeline::{Timeline, timeline};
use crate::report::Report;
use crate::report::section::{Entry, Mark, Section, Table};

/// Part of a trace that the page shows.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Name of the file.
    pub file: String,
    /// Indices in [`Trace::connections`].
    pub connections: Vec<usize>,
    /// Begin and end of graphs, seconds from the first packet of a connection.
    pub between: Option<(f64, f64)>,
    /// Command that makes the page again.
    pub command: String,
    /// Sentences about the file ([`remarks`](super::remarks)).
    pub remarks: Vec<String>,
}

/// Returns the page of the chosen connections.
pub fn report(trace: &Trace, choice: &Choice) -> Report {
    let sections = choice.connections.iter().map(|index| section(trace, *index, choice));
    Report { title: format!("TCP connections of {}", choice.file), sections: sections.collect() }
}

fn section(trace: &Trace, index: usize, choice: &Choice) -> Section {
    let connection = &trace.connections[index];
    let name = format!("flow-{}", index + 1);
    let last_s = seconds(connection.last_ns - connection.first_ns);
    let (begin_s, end_s) = choice.between.unwrap_or((0.0, last_s));
    let between = (begin_s.min(last_s), end_s.min(last_s));
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
        section.figures.extend(scenes(&View { connection, sender: end, id: &id, between }));
    }
    section.name = name;
    section
}

fn figures(fields: &[Field]) -> Table {
    let rows = fields.iter().map(|field| {
        let mut row = vec![Entry::text(field.label)];
        row.extend([0, 1].map(|end| {
            let (text, unit) = field.shown(end);
            let text = format!("{text} {unit}").trim_end().to_owned();
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

#[cfg(test)]
mod tests {
    use super::super::tests::TestTransfer;
    use super::*;
    use crate::report::export::csv;

    fn report_of(transfer: &TestTransfer, between: Option<(f64, f64)>) -> Report {
        let choice = Choice {
            file: "made.pcap".to_owned(),
            connections: vec![0],
            between,
            command: "rdt-lab trace made.pcap".to_owned(),
            remarks: Vec::new(),
        };
        report(&transfer.trace(), &choice)
    }

    #[test]
    fn page_has_graphs_of_the_sender() {
        let mut transfer = TestTransfer::new();
        transfer.data(60, 0).data(61, 1).data(62, 2).sack(112, 0, &[(1, 2)]).data(160, 0).ack(210, 3);
        transfer.window(0);
        let report = report_of(&transfer, None);
        let section = &report.sections[0];
        let ids: Vec<&str> = section.figures.iter().map(|scene| scene.id.as_str()).collect();
        assert_eq!(ids, ["flow-1-a-b-sequence", "flow-1-a-b-rtt", "flow-1-a-b-series"]);
        let table = csv(&section.figures[0]);
        assert!(
            table.contains("retransmitted or out of order,measured,segment,0.16,1000,0,1000,"),
            "{table}"
        );
        assert!(table.contains("SACK blocks,measured,segment,0.112,2000,1000,2000,"), "{table}");
        let page = crate::report::html(&report);
        assert!(page.contains("loss recovery") && !page.contains("claims hold"));
        let xplot = crate::report::export::xplot(&section.figures[0], 0).expect("numeric axes");
        assert!(xplot.contains("line 160 0 160 1"), "{xplot}");
    }

    #[test]
    fn graphs_of_a_time_begin_and_end_with_it() {
        let mut transfer = TestTransfer::new();
        transfer.data(60, 0).ack(110, 1).data(200, 1).data(201, 2).ack(250, 3);
        let report = report_of(&transfer, Some((0.195, 1e9)));
        let table = csv(&report.sections[0].figures[2]);
        let rows = |name: &str| -> Vec<String> {
            table.lines().filter(|line| line.contains(name)).map(str::to_owned).collect()
        };
        // Bins of 1 ms, whose rows are at their ends.
        let payload = rows(",payload,");
        assert!(payload[0].ends_with(",0.196,0,,,") && payload[5].ends_with(",0.201,8000000,,,"), "{table}");
        assert!(payload.last().is_some_and(|row| row.contains(",0.25")), "{table}");
        // The first segment, before this time, is acknowledged.
        assert!(rows(",in flight,")[5].contains(",1000,"), "{table}");
    }
}
