//! Several transfers at once (`--parallel`): each on a thread of its own, with its own socket and
//! connection. Their summaries are added up.

use std::thread;
use std::time::Duration;

use rdt_program::json::seed;
use rdt_program::{Console, Failure, talk};
use rdt_transport::SenderStats;
use serde_json::{Value, json};

use crate::args::SendArgs;
use crate::exit::SOFTWARE;
use crate::output::format::{megabytes, ms, rate_bps, seconds_and_kbps};
use crate::output::limit::Limited;
use crate::output::receiver_report::ReceiverReport;
use crate::output::rtt_histogram::RttQuantiles;
use crate::output::status::Status;
use crate::output::summary::{extend, outcome};

pub(crate) struct Ended {
    /// Counts without the omitted start.
    pub(crate) counted: SenderStats,
    /// `None` for a transfer that is too short, and for one that the other side sent.
    pub(crate) limited: Option<Limited>,
    /// Over TCP of the kernel: of its smoothed RTT.
    pub(crate) rtt: Option<RttQuantiles>,
    pub(crate) summary: Value,
    pub(crate) failure: Option<Failure>,
}

const PANICKED: &str = "a thread of the program ended by itself";

pub(crate) fn run_all(
    transfers: usize,
    one: impl Fn() -> Result<Ended, Failure> + Sync,
) -> Vec<Result<Ended, Failure>> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..transfers).map(|_| scope.spawn(&one)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new(SOFTWARE, PANICKED))))
            .collect()
    })
}

pub(crate) fn conclude(
    args: &SendArgs,
    (host, wire): (String, &'static str),
    status: &Status,
    ended: Vec<Result<Ended, Failure>>,
    receiver: Option<&ReceiverReport>,
) -> Result<(), Failure> {
    let mut sum = Sum { host, wire, cipher: Value::Null, streams: Vec::new() };
    let mut failure = None;
    for (ended, number) in ended.into_iter().zip(1..) {
        let why = match ended {
            Ok(mut ended) => {
                let why = ended.failure.take();
                sum.add(ended);
                why
            }
            Err(why) => Some(why),
        };
        if let Some(sentence) = why.as_ref().and_then(Failure::sentence) {
            talk(&format!("rdt-send: transfer {number}: {sentence}"));
        }
        failure = failure.or(why);
    }
    print(args, status, sum, receiver, failure.as_ref())?;
    failure.map_or(Ok(()), |failure| Err(failure.said()))
}

fn print(
    args: &SendArgs,
    status: &Status,
    mut sum: Sum,
    receiver: Option<&ReceiverReport>,
    failure: Option<&Failure>,
) -> Result<(), Failure> {
    let console = Console::default();
    if !args.json {
        if !args.quiet {
            for line in sum.lines() {
                console.line(&line);
            }
            for line in receiver.map(ReceiverReport::lines).unwrap_or_default() {
                talk(&line);
            }
            if let Some(limited) = sum.limited() {
                talk(&sum.sentence(&limited));
            }
        }
        console.line(&sum.last_line());
        return console.finish(args.json).map_err(Failure::stdout);
    }
    for stream in &mut sum.streams {
        status.summary(stream.summary.take());
    }
    status.summary(sum.json(receiver, failure));
    Ok(())
}

struct Sum {
    host: String,
    wire: &'static str,
    /// Name of the cipher in the summaries, or null.
    cipher: Value,
    streams: Vec<Ended>,
}

impl Sum {
    fn add(&mut self, ended: Ended) {
        if self.cipher.is_null() {
            self.cipher = ended.summary["cipher"].clone();
        }
        self.streams.push(ended);
    }

    fn count(&self, of: impl Fn(&SenderStats) -> u64) -> u64 {
        self.streams.iter().map(|stream| of(&stream.counted)).sum()
    }

    /// Returns the time from the first data packet of any transfer to the last ACK of any.
    fn elapsed(&self) -> Duration {
        let first = self.streams.iter().filter_map(|stream| stream.counted.first_data_at).min();
        let last = self.streams.iter().filter_map(|stream| stream.counted.last_ack_at).max();
        first.zip(last).map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first))
    }

    fn rates(&self) -> Vec<f64> {
        let rate = |stats: &SenderStats| rate_bps(stats.bytes_acked, stats.elapsed()).unwrap_or(0.0);
        self.streams.iter().map(|stream| rate(&stream.counted)).collect()
    }

    fn limited(&self) -> Option<Limited> {
        let limit = |stream: &Ended| (stream.limited, stream.counted.elapsed());
        Limited::of_several(&self.streams.iter().map(limit).collect::<Vec<_>>())
    }

    fn sentence(&self, limited: &Limited) -> String {
        match self.wire {
            #[cfg(target_os = "linux")]
            "tcp" => limited.sentence_of_kernel(),
            _ => limited.sentence(),
        }
    }

    fn lines(&self) -> Vec<String> {
        // The kernel does not say what it took for lost.
        let is_tcp = self.wire == "tcp";
        let line = |(stream, number): (&Ended, u32)| {
            let stats = &stream.counted;
            let rtt = stream.rtt.map(|rtt| {
                let what = if is_tcp { "smoothed RTT" } else { "RTT" };
                format!(", {what} {:.3} ms (median), {:.3} ms (99 %)", ms(rtt.p50), ms(rtt.p99))
            });
            let packets = match stats.datagrams_sent {
                // The other side sent.
                0 => format!("{} packets retransmitted", stats.retransmitted),
                sent if is_tcp => format!("{} of {sent} packets retransmitted", stats.retransmitted),
                sent => format!("{} of {sent} packets lost", stats.lost),
            };
            let (seconds, kbps) = seconds_and_kbps(stats.bytes_acked, stats.elapsed());
            format!(
                "[{number:3}]\t{:.3} MB in {seconds:.3} sec, {kbps:.2} Kbps, {packets}{}",
                megabytes(stats.bytes_acked),
                rtt.unwrap_or_default(),
            )
        };
        self.streams.iter().zip(1..).map(line).collect()
    }

    fn last_line(&self) -> String {
        let (seconds, kbps) = seconds_and_kbps(self.count(|stats| stats.bytes_acked), self.elapsed());
        let fairness = fairness(&self.rates()).map(|share| format!(", fairness {share:.3}"));
        format!(
            "Main:\t{} transfers in {seconds:.3} sec, {kbps:.2} Kbps{}",
            self.streams.len(),
            fairness.unwrap_or_default(),
        )
    }

    fn json(&self, receiver: Option<&ReceiverReport>, failure: Option<&Failure>) -> Value {
        let arrived = (self.count(|stats| stats.bytes_acked), self.elapsed());
        let limited = self.limited();
        let mut value = json!({
            "wire": self.wire,
            "cipher": self.cipher,
            "transfers": self.streams.len(),
            "fairness": fairness(&self.rates()),
            "retransmitted": self.count(|stats| stats.retransmitted),
            "retransmitted_bytes": self.count(|stats| stats.retransmitted_bytes),
            "timeouts": self.count(|stats| stats.timeouts),
            "lost": self.count(|stats| stats.lost),
            "limited_by": limited.map(|limited| limited.name()),
            "limited_share": limited.map(|limited| limited.share),
            "seed": receiver.and_then(|end| end.seed).map(seed),
            "receiver": receiver.map(ReceiverReport::json),
        });
        extend(&mut value, outcome("parallel_summary", &self.host, arrived, failure));
        // Keys that have no meaning for a wire of the kernel.
        let absent: &[&str] = match self.wire {
            "tcp" => &["cipher", "lost", "seed", "receiver"],
            "udp" => &[
                "cipher",
                "retransmitted",
                "retransmitted_bytes",
                "timeouts",
                "limited_by",
                "limited_share",
                "seed",
                "receiver",
            ],
            _ => &[],
        };
        if let Value::Object(keys) = &mut value {
            keys.retain(|key, _| !absent.contains(&key.as_str()));
        }
        value
    }
}

/// Returns Jain's index of fairness, 1/n to 1 (equal rates); `None` if nothing was sent.
#[expect(clippy::cast_precision_loss, reason = "at most 128 rates")]
fn fairness(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_jains_index() {
        for (rates, index) in [
            (&[][..], None),
            (&[0.0, 0.0], None),
            (&[3.0, 3.0], Some(1.0)),
            (&[1.0, 0.0, 0.0, 0.0], Some(0.25)),
        ] {
            assert_eq!(fairness(rates), index, "{rates:?}");
        }
    }
}
