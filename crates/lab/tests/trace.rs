//! The figures of `rdt-lab trace` beside those of tcptrace and tshark, on captures of TCP of the
//! kernel (`data/trace/README.md`).

use std::fs::File;
use std::io::Cursor;
use std::path::PathBuf;

use rdt_lab::trace::{Connection, Field, Trace, Value, analyse, fields};

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/trace").join(file)
}

fn open(file: &str) -> File {
    File::open(data(file)).expect("a file of test data")
}

/// Analyses one interface of a file; all if the name is empty.
fn trace(file: &str, interface: &str) -> Trace {
    analyse(open(file), Some(interface).filter(|it| !it.is_empty())).expect("a capture")
}

fn rows(table: &str) -> Vec<[String; 5]> {
    let mut reader = csv::Reader::from_path(data(table)).expect("a table");
    let cells = |row: &csv::StringRecord| std::array::from_fn(|i| row[i].to_owned());
    reader.records().map(|row| cells(&row.expect("a row"))).collect()
}

/// Returns the figure of an end in the units of tcptrace's table.
fn shown(field: &Field, end: usize) -> String {
    match &field.values[end] {
        Value::Text(text) => text.clone(),
        Value::None => "NA".to_owned(),
        Value::Time(seconds) if field.unit == "ms" => format!("{:.1}", seconds * 1e3),
        Value::Time(seconds) => format!("{seconds:.3}"),
        Value::Rate(rate) => format!("{rate:.0}"),
        Value::Count(count) => count.to_string(),
    }
}

/// True if two texts are equal, or are numbers that differ by rounding.
fn agree(label: &str, theirs: &str, ours: &str) -> bool {
    let (Ok(a), Ok(b)) = (theirs.parse::<f64>(), ours.parse::<f64>()) else { return theirs == ours };
    let tolerance = match label {
        // tcptrace divides by slightly more than the count, and rounds down.
        "avg segm size" | "avg owin" | "avg win adv" => 1.0,
        "wavg owin" | "throughput" => (a * 1e-3).max(1.0),
        _ if theirs.contains('.') => 0.11 + a * 2e-4,
        _ => 0.0,
    };
    (a - b).abs() <= tolerance
}

#[test]
fn figures_equal_those_of_tcptrace() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for [file, interface, label, a, b] in rows("tcptrace.csv") {
        // tcptrace takes a SYN, one byte in its numbers, for a segment of 4 GiB.
        if label.starts_with("RTT full_sz") {
            continue;
        }
        let trace = trace(&file, &interface);
        let packets = label.ends_with('#');
        let label = label.trim_end_matches('#');
        let fields = fields(&trace.connections[0]);
        let mine = |field: &&Field| field.label == label && (field.unit == "pkts" || !packets);
        let found = if packets { fields.iter().rfind(mine) } else { fields.iter().find(mine) };
        let field = found.unwrap_or_else(|| panic!("no figure '{label}'"));
        // At a wrap tcptrace takes bytes in flight for nearly 2^64, and a segment for two.
        let is_garbage = file == "wrapped.pcap" && (label.contains("owin") || label == "segs cum acked");
        for (end, theirs) in [a, b].iter().enumerate() {
            compared += 1;
            let ours = shown(field, end);
            if !agree(label, theirs, &ours) && !is_garbage {
                wrong.push(format!("{file} {interface} {label}, end {end}: tcptrace {theirs}, ours {ours}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 900, "{compared}");
}

/// Returns the count that one of tshark's corresponds to.
fn count(connection: &Connection, end: usize, figure: &str) -> u64 {
    let it = &connection.directions[end];
    match figure {
        "packets" => it.packets,
        "data-bytes" => it.data_bytes,
        "frame-bytes" => it.frame_bytes,
        "retransmission + out of order" => it.retransmitted + it.out_of_order,
        "zero window" => it.window.zero,
        "sack" => it.sacks,
        "keep alive + zero window probe" => it.keep_alives + it.probes + it.empty_probes,
        "largest window" => it.window.most.into(),
        other => panic!("no figure '{other}'"),
    }
}

#[test]
fn counts_equal_those_of_tshark() {
    for [file, interface, end, figure, value] in rows("tshark.csv") {
        let trace = trace(&file, &interface);
        let end = usize::from(end == "b");
        let ours = count(&trace.connections[0], end, &figure).to_string();
        assert_eq!(ours, value, "{file} {interface} {figure}, end {end}");
    }
}

#[test]
fn retransmissions_are_drops_and_spurious_ones() {
    for file in ["loss.pcapng", "copies.pcapng", "reorder.pcapng", "stall.pcapng"] {
        let trace = trace(file, "");
        assert_eq!((trace.connections.len(), trace.hidden), (1, 1), "{file}");
        let a = &trace.connections[0].directions[0];
        assert_eq!(a.retransmitted, a.dropped, "{file}: nothing was sent again without need");
    }
}

#[test]
fn wrapped_numbers_change_no_figure() {
    let (plain, wrapped) = (trace("loss.pcapng", "near"), trace("wrapped.pcap", ""));
    for (plain, wrapped) in fields(&plain.connections[0]).iter().zip(fields(&wrapped.connections[0])) {
        let is_comment = plain.label == "dropped by path";
        for end in [0, 1] {
            // pcap has microseconds, pcapng nanoseconds.
            let equal = agree("time.", &shown(plain, end), &shown(&wrapped, end)) || is_comment;
            let close =
                plain.number(end).zip(wrapped.number(end)).is_some_and(|(a, b)| (a - b).abs() <= a * 1e-4);
            assert!(equal || close, "{} of end {end}: {plain:?}, {wrapped:?}", plain.label);
        }
    }
}

#[test]
fn every_torn_file_is_analysed() {
    let whole = std::fs::read(data("loss.pcapng")).expect("a capture");
    let last = analyse(Cursor::new(whole.clone()), None).expect("a capture").extent.packets;
    for length in (200..whole.len()).step_by(37) {
        let trace = analyse(Cursor::new(whole[..length].to_vec()), None).expect("a capture");
        assert!(trace.extent.packets <= last);
        assert!(trace.extent.torn.is_none_or(|torn| torn.ends && torn.offset < length));
    }
}
