//! `rdt-emu calibrate`: what this host can emulate.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | timer | `calibrate/timer.rs` | how late packets leave that come rarely |
//! | loopback | `calibrate/loopback.rs` | a relay between two UDP sockets, flooded |
//! | namespace | `calibrate/namespace.rs` | `run`, flooded |
//! | flood | `calibrate/flood.rs` | the sender and the receiver of a flood |
//!
//! A flood's sender, the relay and the receiver share the machine, as they do in a run; so what arrives is what the
//! relay can do beside them, and not what it could do alone. Nothing is written.

pub(crate) mod flood;
mod loopback;
mod namespace;
mod timer;

use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{talk, tell};

/// How long each of five measurements takes.
const TIME: Duration = Duration::from_secs(2);
/// Bytes of datagrams that show the highest rate, and of those that show the most packets.
const SIZES: [u16; 2] = [1400, 64];

#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// Print JSON, one object, in place of a table
    #[arg(long)]
    json: bool,
}

/// What came through.
#[derive(Debug)]
struct Throughput {
    /// Of a datagram's payload, bytes.
    size: u16,
    packets_per_s: f64,
    /// How late packets left, as in an account; null if none did.
    lateness: Value,
}

impl Throughput {
    /// Of so many packets in [`TIME`].
    fn new(size: u16, packets: u64, lateness: Value) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53 in two seconds")]
        let packets_per_s = packets as f64 / TIME.as_secs_f64();
        Self { size, packets_per_s, lateness }
    }

    /// Of payloads, bits per second.
    fn rate_bps(&self) -> f64 {
        self.packets_per_s * f64::from(self.size) * 8.0
    }

    fn json(&self) -> Value {
        json!({
            "size_bytes": self.size,
            "rate_bps": self.rate_bps(),
            "packets_per_s": self.packets_per_s,
            "lateness_us": self.lateness,
        })
    }

    fn row(&self, name: &str) -> String {
        let rate = self.rate_bps() / 1e6;
        let name = format!("{name}, {} bytes", self.size);
        row(&name, &format!("{rate:.0}"), &format!("{:.0}", self.packets_per_s), &self.lateness)
    }
}

/// Measures and tells; gives the exit code.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<u8, Failure> {
    talk("this takes 10 s; whatever else runs meanwhile makes the figures worse");
    let idle = timer::lateness().map_err(Failure::system("cannot measure the timer"))?;
    let mut loopback = Vec::new();
    for size in SIZES {
        loopback.push(loopback::measure(size).map_err(Failure::system("cannot measure over the loopback"))?);
    }
    let namespace: Result<Vec<_>, _> = SIZES.into_iter().map(namespace::measure).collect();
    if args.json {
        tell(&object(&idle, &loopback, &namespace).to_string());
        return Ok(0);
    }
    let mut lines = vec![row(
        "",
        "Mbit/s",
        "packets/s",
        &json!({ "p50": "late p50", "p99": "p99", "p99.9": "p99.9 us" }),
    )];
    lines.push(row("idle", "", "", &idle));
    lines.extend(loopback.iter().map(|throughput| throughput.row("loopback UDP")));
    match &namespace {
        Ok(namespace) => lines.extend(namespace.iter().map(|throughput| throughput.row("namespace"))),
        Err(sentence) => lines.push(format!("namespace: {sentence}")),
    }
    for line in lines {
        tell(line.trim_end());
    }
    Ok(0)
}

fn object(idle: &Value, loopback: &[Throughput], namespace: &Result<Vec<Throughput>, String>) -> Value {
    let all = |throughputs: &[Throughput]| throughputs.iter().map(Throughput::json).collect::<Vec<_>>();
    json!({
        "event": "end",
        "mode": "calibrate",
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
        "idle": { "lateness_us": idle },
        "loopback": all(loopback),
        "namespace": namespace.as_ref().ok().map(|throughputs| all(throughputs)),
        "namespace_refused": namespace.as_ref().err(),
    })
}

/// A line of the table.
fn row(name: &str, rate: &str, packets: &str, lateness: &Value) -> String {
    let [p50, p99, p999] = ["p50", "p99", "p99.9"].map(|key| match &lateness[key] {
        Value::String(text) => text.clone(),
        Value::Number(us) => format!("{:.1}", us.as_f64().unwrap_or_default()),
        _ => "-".to_owned(),
    });
    format!("{name:<26}{rate:>8}{packets:>12}{p50:>10}{p99:>10}{p999:>10}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throughput() -> Throughput {
        Throughput::new(1000, 2000, json!({ "p50": 1.5, "p99": 20.0, "p99.9": null, "max": 1 }))
    }

    #[test]
    fn rates_are_those_of_payloads_in_the_time_that_it_took() {
        let object = object(&Value::Null, &[throughput()], &Err("no".to_owned()));
        let told = &object["loopback"][0];
        assert_eq!((&told["packets_per_s"], &told["rate_bps"]), (&json!(1000.0), &json!(8_000_000.0)));
        assert_eq!((&object["namespace"], &object["namespace_refused"]), (&Value::Null, &json!("no")));
    }

    #[test]
    fn the_table_has_a_dash_for_what_is_not_known() {
        let expected = "namespace, 1000 bytes            8        1000       1.5      20.0         -";
        assert_eq!(throughput().row("namespace"), expected);
    }
}
