//! Largest rate of the programs over loopback, compared with the limit: `cargo bench --bench
//! line_rate`.
//!
//! The limit is the rate of the same datagrams over plain sockets without reliability
//! (`line_rate/limit.rs`): bare; with a CRC-32 of every byte on each side; with a copy in addition;
//! and with zero-copy sends, without and with a header in each datagram. Rows are compared with two
//! of these: CRC-32 without a copy, which is the work of `rdt-recv` without `--output`, and the
//! fastest with a CRC-32. So the encrypted row, which has no targets, shows what AES-128-GCM costs.
//! Limit and transfers alternate, so that a change of the host's speed
//! affects both. The limit's rate counts whole datagrams, that of the transfers only payload.
//!
//! `-- --rounds N --bytes N` (5, 4000000000, for every row). `--size N` and `--offload 0|1` select
//! rows.

mod common;
#[cfg(target_os = "linux")]
#[path = "line_rate/limit.rs"]
mod limit;
#[cfg(target_os = "linux")]
#[path = "common/plain.rs"]
mod plain;
#[cfg(target_os = "linux")]
#[path = "common/zerocopy.rs"]
mod zerocopy;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("The limit is made of Linux's calls: nothing is measured here.");
}

#[cfg(target_os = "linux")]
fn main() {
    if !limit::play() {
        table::print();
    }
}

#[cfg(target_os = "linux")]
mod table {
    use crate::common::{self, Surroundings, argument, cpu_per_gb, median, number, rounds, verdict};
    use crate::limit::{self, Work};

    /// Rows of the limit. Zero-copy needs GSO.
    const LIMITS: [(&str, Work); 5] = [
        ("limit, bare", Work::Bare),
        ("limit, CRC-32", Work::Checksum),
        ("limit, copy and CRC-32", Work::Copy),
        ("limit, by reference, CRC-32", Work::Reference),
        ("limit, by reference, CRC-32, headers", Work::Format),
    ];
    /// Row of the transfer with a cipher.
    const ENCRYPTED: &str = "native, AES-128-GCM, fixed window";
    /// Rows of the transfers, with the arguments of receiver and sender.
    const TRANSFERS: [(&str, &str, &str); 5] = [
        ("--dummy, an ACK for a batch", "--dummy --ack-every batch", ""),
        ("--no-link, an ACK for a batch", "--no-link --ack-every batch", ""),
        ("--no-link, an ACK for a packet", "--no-link", ""),
        ("native, cipher none, fixed window", "--no-link", "--wire native --insecure --pacing off"),
        (ENCRYPTED, "--no-link", "--wire native --pacing off"),
    ];

    /// Targets for a transfer: smallest share of the limit's rate, and largest ratio to the limit's
    /// processor time.
    const RATE: f64 = 0.85;
    const CPU: f64 = 1.25;
    /// Target for 1472-byte datagrams with offload, Gbit/s: 60 times the rate published for the
    /// reference programs.
    const FIRST_GBPS: f64 = 60.0 * 0.42;

    pub(crate) fn print() {
        let surroundings = Surroundings::now();
        let (rounds, bytes) = (rounds(5), argument("--bytes", 4_000_000_000));
        println!("Medians of {rounds} interleaved runs of {bytes} bytes over loopback. CPU: both sides.\n");
        common::table(&[
            "datagram",
            "offload",
            "what",
            "Gbit/s",
            "of the limit",
            "of the best",
            "CPU s/GB",
            "of the limit's",
            "sent again",
            "peak MB (sender, receiver)",
            "targets",
        ]);
        let mut first = None;
        let (only, with) = (argument("--size", 0), argument("--offload", 2));
        for (size, offload) in [(1472, true), (8972, true), (14_972, true), (65_507, true), (1472, false)] {
            if (only > 0 && only != size as u64) || (with < 2 && (with == 1) != offload) {
                continue;
            }
            let rows = compare(size, offload, rounds, bytes, first);
            first = first.or(offload.then_some(rows));
        }
        surroundings.report();
    }

    /// Results of the limit with which rows are compared: CRC-32 without a copy, and the fastest
    /// with a CRC-32.
    struct Limit {
        gbps: f64,
        cpu: f64,
        best: f64,
    }

    /// Medians of the transfers' rates, Gbit/s.
    type Rates = [f64; TRANSFERS.len()];

    struct Runs {
        name: &'static str,
        /// Work of the limit; `None` for a transfer.
        work: Option<Work>,
        gbps: Vec<f64>,
        cpu: Vec<f64>,
        resent: Vec<f64>,
        /// Peak memory of sender and receiver, MB.
        memory: [Vec<f64>; 2],
    }

    impl Runs {
        fn new(name: &'static str, work: Option<Work>) -> Self {
            Self {
                name,
                work,
                gbps: Vec::new(),
                cpu: Vec::new(),
                resent: Vec::new(),
                memory: [const { Vec::new() }; 2],
            }
        }

        /// Formats name, medians and ratios to the limit.
        fn cells(&self, of: &Limit) -> String {
            let (gbps, cpu) = (median(&self.gbps), median(&self.cpu));
            let resent = if self.resent.is_empty() { "-".into() } else { median(&self.resent).to_string() };
            let [sender, receiver] = self.memory.each_ref().map(|peaks| median(peaks));
            let memory = if sender.is_nan() { "-".into() } else { format!("{sender:.0}, {receiver:.0}") };
            format!(
                "{} | {gbps:.2} | {:.3} | {:.3} | {cpu:.3} | {:.3} | {resent} | {memory}",
                self.name,
                gbps / of.gbps,
                gbps / of.best,
                cpu / of.cpu,
            )
        }
    }

    /// Prints the rows of one datagram size, and returns the rates of the transfers. `first` has
    /// those of the smallest size with offload.
    fn compare(size: usize, offload: bool, rounds: usize, bytes: u64, first: Option<Rates>) -> Rates {
        let switch = if offload { "on" } else { "off" };
        let works = if offload { &LIMITS[..] } else { &LIMITS[..3] };
        let mut limits: Vec<_> = works.iter().map(|(name, work)| Runs::new(name, Some(*work))).collect();
        let mut transfers = TRANSFERS.map(|(name, ..)| Runs::new(name, None));
        for _ in 0..rounds {
            for (row, (_, work)) in limits.iter_mut().zip(works) {
                let outcome = limit::measure(*work, size, offload, bytes);
                row.gbps.push(outcome.gbps);
                row.cpu.push(outcome.cpu_per_gb);
            }
            for (row, (_, receiver, sender)) in transfers.iter_mut().zip(TRANSFERS) {
                transfer(row, size, &format!("--gso {switch} --gro {switch}"), (receiver, sender), bytes);
            }
        }
        // Rows of the limit that verify the data.
        let checked = || limits.iter().filter(|row| row.work != Some(Work::Bare));
        let best = checked().map(|row| median(&row.gbps)).fold(f64::NAN, f64::max);
        let limit = checked().find(|row| row.work == Some(Work::Checksum)).expect("it is one of the rows");
        let of = Limit { gbps: median(&limit.gbps), cpu: median(&limit.cpu), best };
        let datagram = format!("{size} | {switch}");
        for row in &limits {
            println!("| {datagram} | {} | - |", row.cells(&of));
        }
        for (number, row) in transfers.iter().enumerate() {
            let (gbps, cpu) = (median(&row.gbps), median(&row.cpu));
            if row.name == ENCRYPTED {
                println!("| {datagram} | {} | - |", row.cells(&of));
                continue;
            }
            let mut asked = vec![("rate", gbps >= RATE * of.gbps), ("CPU", cpu <= CPU * of.cpu)];
            if offload && size == 1472 {
                asked.push(("60 of 0.42", gbps >= FIRST_GBPS));
            } else if let Some(first) = first.filter(|_| offload) {
                asked.push(("slower than 1472", gbps >= first[number]));
            }
            println!("| {datagram} | {} | {} |", row.cells(&of), verdict(&asked));
        }
        transfers.map(|row| median(&row.gbps))
    }

    /// Runs one transfer, with the arguments of the row and the common ones.
    fn transfer(row: &mut Runs, size: usize, offload: &str, (receiver, sender): (&str, &str), bytes: u64) {
        // Window of the published runs in bytes, for every datagram size.
        let window = (8192 * 1472 / size).max(16);
        let (sent, received) = common::transfer(
            &format!("{receiver} {offload}"),
            &format!("{window} 0 0 10000 --bytes {bytes} --packet-size {size} {offload} {sender}"),
        );
        row.gbps.push(number(&sent, "goodput_bps") / 1e9);
        row.cpu.push(cpu_per_gb(&sent, &received));
        row.resent.push(number(&sent, "retransmitted"));
        for (peaks, program) in row.memory.iter_mut().zip([&sent, &received]) {
            peaks.push(number(program, "memory_peak_bytes") / 1e6);
        }
    }
}
