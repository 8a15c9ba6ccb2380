//! The table and its notes.

use std::fmt::Write as _;

use crate::transfer::Run;

const NOTES: &str = "\
- rdt without encryption, the limit with CRC-32 and the rows of TCP that say so take a CRC-32 of every byte at both ends.
- The QUIC stacks and the rows of rdt that say so encrypt and authenticate every packet. The rows of the limit show \
what each AEAD costs bare UDP.
- With `TCP_MAXSEG` the kernel still builds packets of up to 64 KiB (GSO) which loopback never cuts: the row shows \
the cost of small segments, not that of small packets.
- TCP, the QUIC stacks, UDT and SRT control congestion; rdt and KCP as tuned here keep to fixed windows.
- UDT and SRT read and write a datagram a call, without GSO and GRO, and have threads of their own for it.
";

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Version of the peer; empty until it is known.
    pub(crate) version: String,
    tuned: &'static str,
    pub(crate) runs: Vec<Run>,
    pub(crate) failures: Vec<String>,
}

impl Row {
    pub(crate) fn new(name: &'static str, tuned: &'static str) -> Self {
        Self { name, version: String::new(), tuned, runs: Vec::new(), failures: Vec::new() }
    }

    /// Returns true if the peer failed before its first success. It is not run again.
    pub(crate) fn hopeless(&self) -> bool {
        self.runs.is_empty() && !self.failures.is_empty()
    }

    fn median(&self, value: impl Fn(&Run) -> f64) -> Option<f64> {
        median(self.runs.iter().map(value).collect())
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(values[low], values[high]))
}

/// Returns the table with its notes; `ours` is the index of rdt's row.
pub(crate) fn markdown(rows: &[Row], ours: Option<usize>, rounds: u32, bytes: u64) -> String {
    let rdt = ours.and_then(|at| rows[at].median(|run| run.gbps));
    let mut text = format!(
        "Medians of {rounds} interleaved rounds, {bytes} bytes each, two processes over loopback.\n\n\
         | peer | version | tuned | Gbit/s | CPU s/GB | rdt/peer |\n|---|---|---|---|---|---|\n"
    );
    let mut add = |line: String| writeln!(text, "{line}").expect("a String takes everything");
    for row in rows {
        let (name, version, tuned) = (row.name, &row.version, row.tuned);
        let measured = row.median(|run| run.gbps).zip(row.median(|run| run.cpu_per_gb));
        let Some((gbps, cpu)) = measured else { continue };
        let ratio = rdt.map_or_else(|| "-".to_owned(), |rdt| format!("{:.2}", rdt / gbps));
        add(format!("| {name} | {version} | {tuned} | {gbps:.2} | {cpu:.3} | {ratio} |"));
    }
    add(String::new());
    for row in rows {
        let name = row.name;
        if row.runs.is_empty() {
            add(format!("- {name}: not measured: {}", row.failures.join("; ")));
        } else if !row.failures.is_empty() {
            add(format!("- {name}: median of {} runs; {}", row.runs.len(), row.failures.join("; ")));
        }
    }
    text + NOTES
}

/// Returns a line with the features of the peers that this program was built without; empty if
/// there are none.
pub(crate) fn left_out(features: impl Iterator<Item = &'static str>) -> String {
    let features: Vec<_> = features.collect();
    if features.is_empty() {
        return String::new();
    }
    format!("- Not built in, so not measured: {} (`--features` of the same names).\n", features.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn table_has_ratios_and_failures() {
        let mut rows =
            ["rdt", "slow", "gone"].map(|name| Row { version: "1.0".into(), ..Row::new(name, "not") });
        rows[0].runs.push(Run { gbps: 20.0, cpu_per_gb: 0.5 });
        rows[1].runs.push(Run { gbps: 8.0, cpu_per_gb: 1.5 });
        rows[2].failures.push("round 1: no luck".into());
        let text = markdown(&rows, Some(0), 1, 1000);
        assert!(text.contains("| slow | 1.0 | not | 8.00 | 1.500 | 2.50 |\n"), "{text}");
        assert!(text.contains("- gone: not measured: round 1: no luck\n"), "{text}");
        assert!(!text.contains("| gone"), "{text}");
    }

    #[test]
    fn missing_peers_are_named() {
        assert_eq!(left_out([].into_iter()), "");
        let line = left_out(["quiche", "msquic"].into_iter());
        assert_eq!(
            line,
            "- Not built in, so not measured: quiche, msquic (`--features` of the same names).\n"
        );
    }
}
