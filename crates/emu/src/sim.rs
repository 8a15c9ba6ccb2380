//! `rdt-emu sim`: outcome of each packet on a path, in virtual time.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | schedule | `sim/schedule.rs` | times and sizes of packets, and their notation |
//! | simulation | `sim/simulation.rs` | path in virtual time; assigns outcomes to packets |
//! | rows | `sim/rows.rs` | outcomes as CSV and JSON |
//!
//! The program does not wait, and the same arguments and seed result in the same output.

mod rows;
mod schedule;
mod simulation;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use rdt_emulator::{Bitrate, Ecn, Path, parse_bitrate, parse_duration};
use rdt_program::standard::{check_stdin, stdout};
use rdt_udp::clock;

use crate::path::PathArgs;
use crate::{Failure, STDOUT, talk};
use rows::{Format, Rows};
use schedule::{Burst, Gap, Schedule};
use simulation::Simulation;

#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    #[command(flatten)]
    path: PathArgs,
    /// Send packets at this rate, counting their own bytes, instead of a schedule
    #[arg(long, value_name = "RATE", value_parser = parse_bitrate, requires = "duration", conflicts_with = "schedule")]
    cbr: Option<Bitrate>,
    /// Bytes of each packet of --cbr, 1 to 65535
    #[arg(long, value_name = "BYTES", default_value_t = 1200, requires = "cbr", value_parser = clap::value_parser!(u16).range(1..))]
    size: u16,
    /// Duration of --cbr: 10s
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, requires = "cbr")]
    duration: Option<Duration>,
    /// Print JSON, one object a line, instead of CSV; the last line is the account
    #[arg(long)]
    json: bool,
    /// Do not print the text report
    #[arg(long, short)]
    quiet: bool,
    /// Lines of TIME SIZE [forward|reverse] [COUNT/RATE or COUNT/TIME] [ect0|ect1|ce]: '1.5s 1200
    /// reverse 100/5mbit' sends 100 packets of 1200 bytes, the first at 1.5 s [default: the
    /// standard input]
    #[arg(value_name = "FILE")]
    schedule: Option<PathBuf>,
}

pub(crate) fn sim(args: &SimArgs) -> Result<u8, Failure> {
    let described = args.path.describe()?;
    let (config, seed) = (described.config()?, described.seed());
    let schedule = args.schedule()?;
    let format = if args.json { Format::Json } else { Format::Csv };
    let rows = Rows::new(BufWriter::new(stdout()), format);
    match run(Path::new(config, seed), seed, schedule, rows) {
        Ok(text) if !args.quiet => {
            for line in text.lines() {
                talk(line);
            }
            talk(&format!("seed: {seed}"));
            Ok(0)
        }
        Ok(_) => Ok(0),
        Err(error) if args.json => Err(Failure::stdout(error)),
        Err(error) => Failure::writing(STDOUT, Err(error)).map(|()| 0),
    }
}

/// Prints the outcome of every packet, and returns the text report.
fn run(path: Path, seed: u64, schedule: Schedule, mut rows: Rows<impl Write>) -> io::Result<String> {
    rows.head()?;
    // The start may be any instant, because the output has only times relative to it.
    let mut simulation = Simulation::new(path, clock::now());
    for packet in schedule {
        simulation.advance(packet.at, &mut rows)?;
        simulation.send(packet, &mut rows)?;
    }
    let (elapsed, accounts) = simulation.finish(&mut rows)?;
    rows.end(seed, elapsed, &accounts)?;
    Ok(crate::report::text(&accounts))
}

impl SimArgs {
    fn schedule(&self) -> Result<Schedule, Failure> {
        if let (Some(rate), Some(duration)) = (self.cbr, self.duration) {
            if duration > schedule::MAX_DURATION {
                return Err(Failure::usage("--for: longer than 100 years"));
            }
            let burst = Burst::new(Duration::ZERO, self.size.into(), Ecn::NotEct);
            return Ok(Schedule::new(vec![burst.repeated_until(Gap::Rate(rate), duration)]));
        }
        let (name, text) = match &self.schedule {
            Some(file) => (file.display().to_string(), fs::read_to_string(file)),
            None => ("standard input".to_owned(), read_input()),
        };
        let text = text.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
        Schedule::parse(&text).map_err(|error| Failure::usage(format!("{name}, {error}")))
    }
}

fn read_input() -> io::Result<String> {
    check_stdin()?;
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}
