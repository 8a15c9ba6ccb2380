//! Goodput of untuned transfers over long or fast paths with loss, on real sockets: `cargo bench
//! --bench real_link` (`-- --rounds N`: 3; `-- --check` fails below 0.9).
//!
//! `rdt-send local --file FILE` with link options only, for 13 s including the start. The share is
//! the goodput divided by the link's rate. Its upper bound is the payload share of a packet, times
//! the share of packets that are not lost. Rounds in which the host was too slow (`host_limited`)
//! are marked, and `--check` ignores them.

mod common;

use std::env;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use common::{Program, Surroundings, assert_arrived, median, number, rounds, table};

/// Smallest share of the link's rate for `--check`.
const LEAST: f64 = 0.9;
/// Payload and total size of a full packet, bytes.
const PAYLOAD: f64 = 1432.0;
const PACKET: f64 = 1472.0;

/// A path, and the bytes to send over it.
struct Case {
    name: &'static str,
    link: &'static str,
    rate_bps: f64,
    loss: f64,
    bytes: u64,
}

const CASES: [Case; 2] = [
    Case {
        name: "100 Mbit/s, 100 ms, 1 %",
        link: "--rate 100mbit --rtt 100ms --loss 1%",
        rate_bps: 1e8,
        loss: 0.01,
        bytes: 150_000_000,
    },
    Case {
        name: "1 Gbit/s, 20 ms, 0.1 %",
        link: "--rate 1gbit --rtt 20ms --loss 0.1%",
        rate_bps: 1e9,
        loss: 0.001,
        bytes: 1_500_000_000,
    },
];

fn main() -> ExitCode {
    let surroundings = Surroundings::now();
    let rounds = rounds(3);
    let directory = tempfile::tempdir().expect("there is room for a file");
    println!("`rdt-send local --file FILE`, nothing tuned, medians of {rounds} rounds.\n");
    table(&[
        "link",
        "Mbit/s",
        "of the link",
        "of what is possible",
        "sent again",
        "lost",
        "host was the limit",
    ]);
    let short = CASES.iter().filter(|case| !case.holds(directory.path(), rounds)).count();
    surroundings.report();
    let check = env::args().any(|argument| argument == "--check");
    if check && short > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl Case {
    /// Prints a row. Returns false if the transfer did not fill the link although the host was not
    /// too slow.
    fn holds(&self, directory: &Path, rounds: usize) -> bool {
        let path = directory.join("data");
        File::create(&path).and_then(|file| file.set_len(self.bytes)).expect("a file of zeros takes no room");
        let runs: Vec<_> = (1..=rounds)
            .map(|seed| {
                let file = path.display();
                let summary =
                    Program::sender(&format!("local --file {file} {} --seed {seed} --quiet", self.link))
                        .last_line();
                assert_arrived(&summary);
                summary
            })
            .collect();
        let of = |key: &str| median(&runs.iter().map(|run| number(run, key)).collect::<Vec<_>>());
        let limited = runs.iter().filter(|run| run["host_limited"] == true).count();
        let lost = median(
            &runs.iter().map(|run| number(&run["receiver"]["forward"], "dropped_loss")).collect::<Vec<_>>(),
        );
        let share = of("goodput_bps") / self.rate_bps;
        println!(
            "| {} | {:.1} | {share:.3} | {:.3} | {} | {lost} | {limited} of {rounds} |",
            self.name,
            of("goodput_bps") / 1e6,
            share / (PAYLOAD / PACKET * (1.0 - self.loss)),
            of("retransmitted"),
        );
        share >= LEAST || limited * 2 > rounds
    }
}
