//! Metrics by name: unit, and whether more or less of one is better. Their meanings are in LAB.md.

use super::scale::Unit;

/// Direction in which a metric improves. Its words explain themselves in the help of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "clap would print them for each value")]
pub enum Better {
    More,
    Less,
}

use Better::{Less, More};

/// Prefixes of the last words of metrics, with unit and direction. The longest prefix of a word
/// counts. One that ends with `=` is a whole word.
const METRICS: [(Unit, Option<Better>, &str); 16] = [
    (Unit::Rate, Some(More), "goodput sum throughput data-rate"),
    (Unit::Rate, None, "offered rate"),
    (Unit::Share, Some(More), "utilisation"),
    (Unit::Share, Some(Less), "load= loss"),
    (Unit::Share, None, "share"),
    (
        Unit::Time,
        Some(Less),
        "blocked busy completion convergence delay first-byte gap handshake-rtt idle jitter lateness longest \
         processor queue-delay resumed retransmission-time rto rtt run-time srtt stall- step-lag \
         wait",
    ),
    (Unit::Time, None, "data-time timeout- warm-up"),
    (Unit::Count, Some(More), "delivered"),
    (
        Unit::Count,
        Some(Less),
        "dropped dsacked ecn-reductions failed lost marked queue-max queue-mean recoveries refused \
         reordered retransmitted spurious stalls timeouts",
    ),
    (Unit::Count, None, "acks-received packets-sent sent"),
    (Unit::Bytes, Some(More), "bytes"),
    // The series `queue` has bytes.
    (Unit::Bytes, Some(Less), "bytes-unacked halving-error queue recovered-error"),
    (Unit::Bytes, None, "cwnd growth-per-rtt in-flight mss outstanding rwnd segment- ssthresh window"),
    (Unit::None, None, "window-scale="),
    (Unit::None, Some(More), "jain rate-held= stream-bytes unique-bytes"),
    (
        Unit::None,
        Some(Less),
        "duplicate-acks empty-zero-window load missed network-copies out-of-order resets \
         retransmissions triple-duplicate-acks zero-window",
    ),
];

/// Units of words that end so, unless they are shares.
const ENDS: [(&str, Unit); 4] =
    [("-bytes", Unit::Bytes), ("-packets", Unit::Count), ("-samples", Unit::Count), ("-rate", Unit::Rate)];

/// Returns the unit of a metric, such as `a.goodput` or `link.forward.utilisation`, and the
/// direction in which it improves. `None` if its name does not tell, as that of a window, of a
/// share of a limit or of a metric of a program.
pub fn find(metric: &str) -> (Unit, Option<Better>) {
    let word = metric.rsplit(['.', ':']).next().unwrap_or(metric);
    if metric.contains("limit.") {
        return (Unit::Share, None);
    }
    if metric.contains("airtime.") {
        return (Unit::Time, (word != "payload").then_some(Less));
    }
    let fits = |name: &str| name.strip_suffix('=').map_or(word.starts_with(name), |whole| word == whole);
    let names = METRICS
        .iter()
        .flat_map(|(unit, better, names)| names.split(' ').map(move |name| (name, unit, better)));
    let found = names.filter(|(name, ..)| fits(name)).max_by_key(|(name, ..)| name.len());
    let (unit, better) = found.map_or((Unit::None, None), |(_, unit, better)| (*unit, *better));
    match ENDS.iter().find(|(end, _)| unit != Unit::Share && word.ends_with(end)) {
        // Such as the number of samples of a time.
        Some((_, other)) if unit == Unit::Time => (*other, None),
        Some((_, unit)) => (*unit, better),
        None => (unit, better),
    }
}

impl Unit {
    /// Returns the unit of a metric by its name: `a.goodput`, `link.forward.utilisation`. An
    /// expression, such as a ratio of two metrics, has no unit.
    pub fn of_metric(metric: &str) -> Self {
        if metric.contains([' ', '(', '*', '/']) { Self::None } else { find(metric).0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rows of LAB.md's table of metrics: names, and the words for their units.
    fn documented() -> Vec<(Vec<String>, Vec<String>)> {
        let page = include_str!("../../tests/documents/lab.txt");
        let (_, table) = page.split_once("\n| metric | unit | meaning |\n").expect("a table of metrics");
        let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
        rows.map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let mut names: Vec<String> =
                cells[1].split(", ").map(|name| name.trim_matches('`').to_owned()).collect();
            // The parts of a whole are named by their last words.
            if let Some(whole) = ["a.limit.", "a.airtime."].iter().find(|it| names[0].starts_with(**it)) {
                names[1..].iter_mut().for_each(|name| name.insert_str(0, whole));
            }
            (names, cells[2].split(", ").map(str::to_owned).collect())
        })
        .collect()
    }

    #[test]
    fn units_are_those_of_the_document() {
        let rows = documented();
        assert!(rows.len() > 20);
        for (names, units) in rows {
            for (index, name) in names.iter().enumerate() {
                let known: &[Unit] = match units.get(index).unwrap_or(&units[0]).as_str() {
                    "bit/s" => &[Unit::Rate],
                    "s" => &[Unit::Time],
                    "bytes" => &[Unit::Bytes],
                    "packets" => &[Unit::Count, Unit::None],
                    "1" => &[Unit::Count, Unit::Share, Unit::None],
                    "0 to 1" => &[Unit::Share, Unit::None],
                    other => panic!("{other} is no unit"),
                };
                let unit = Unit::of_metric(name);
                assert!(known.contains(&unit), "{name}: {unit:?}");
            }
        }
    }

    #[test]
    fn directions_follow_from_names() {
        for (metrics, wanted) in [
            (
                "goodput a.goodput sum jain a.trace.throughput link.forward.utilisation a.delivered",
                Some(More),
            ),
            ("a.completion a.rtt-mean a.jitter a.delay-max a.blocked a.resumed a.longest-gap", Some(Less)),
            (
                "a.loss a.lost a.lost-queue a.retransmitted a.timeouts a.spurious a.dsacked a.reordered a.refused",
                Some(Less),
            ),
            ("link.forward.dropped-loss link.forward.marked link.forward.queue-mean a.failed", Some(Less)),
            ("link.forward.queue-delay-p99 a.trace.retransmitted-bytes a.trace.zero-windows", Some(Less)),
            (
                "run-time load processor a.halving-error link.forward.busy-per-packet a.bytes-unacked",
                Some(Less),
            ),
            ("a.cwnd-mean a.limit.window a.warm-up a.timeout-1 a.offered a.packets-sent score", None),
            ("a.airtime.payload a.trace.rtt-samples", None),
        ] {
            for metric in metrics.split(' ') {
                assert_eq!(find(metric).1, wanted, "{metric}");
            }
        }
    }
}
