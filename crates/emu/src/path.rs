//! The path that options describe.

use std::fmt::Display;
use std::time::Duration;

use rdt_emulator::{
    Loss, PathConfig, Probability, UnitError, parse_bitrate, parse_duration, parse_probability,
    parse_queue_size,
};

use crate::failure::Failure;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct PathArgs {
    /// Round-trip time: 20ms, 1.5s [default: 0s]
    #[arg(long, value_name = "TIME")]
    rtt: Option<String>,
    /// Rate of each direction: 500kbit, 100mbit, 1gbit [default: no limit]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Loss of each direction, or forward/reverse: 1%, 0.01, 1%/0 [default: 0]
    #[arg(long, value_name = "P")]
    loss: Option<String>,
    /// Router buffer, of what waits: 1bdp (of rate x RTT), 64kb, 100p (packets) [default: 1bdp, at least 64kib]
    #[arg(long, value_name = "SIZE")]
    queue: Option<String>,
}

impl PathArgs {
    /// What the options say.
    pub(crate) fn config(&self) -> Result<PathConfig, Failure> {
        let rtt = read("--rtt", self.rtt.as_deref(), parse_duration)?.unwrap_or(Duration::ZERO);
        let rate = read("--rate", self.rate.as_deref(), parse_bitrate)?;
        let mut path = PathConfig::symmetric(rtt, rate);
        if let Some(text) = &self.loss {
            let (forward, reverse) = text.split_once('/').unwrap_or((text, text));
            path.forward.loss = loss(forward)?;
            path.reverse.loss = loss(reverse)?;
        }
        let size = read("--queue", self.queue.as_deref(), parse_queue_size)?;
        let mut path = path.queue_size(size.unwrap_or(ONE_BDP));
        if size.is_none() {
            for link in [&mut path.forward, &mut path.reverse] {
                link.queue.bytes = link.queue.bytes.map(|bytes| bytes.max(MIN_QUEUE));
            }
        }
        Ok(path)
    }
}

fn loss(text: &str) -> Result<Loss, Failure> {
    let probability = parse_probability(text).map_err(|error| bad("--loss", error))?;
    Ok(if probability == Probability::ZERO { Loss::None } else { Loss::Bernoulli(probability) })
}

fn read<T>(
    name: &str,
    text: Option<&str>,
    parse: fn(&str) -> Result<T, UnitError>,
) -> Result<Option<T>, Failure> {
    text.map(|text| parse(text).map_err(|error| bad(name, error))).transpose()
}

fn bad(name: &str, error: impl Display) -> Failure {
    Failure::Usage(format!("{name}: {error}"))
}

const ONE_BDP: rdt_emulator::QueueSize = rdt_emulator::QueueSize::BdpMillionths(1_000_000);
/// The smallest queue that nobody asked for, bytes.
const MIN_QUEUE: u64 = 64 << 10;
