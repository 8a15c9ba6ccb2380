//! `rdt-emu calibrate`: what this host can emulate.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | timer | `calibrate/timer.rs` | lateness of rare packets on this host |
//! | proxied | `calibrate/proxied.rs` | load test of the proxy over the loopback |
//! | namespace | `calibrate/namespace.rs` | load test of `run` |
//! | max rate | `calibrate/max_rate.rs` | search for the highest rate that is delivered |
//! | load generator | `calibrate/load_generator.rs` | sender and receiver of the load |
//!
//! Sender, relay and receiver share the host, as in a real run, so the results include their load.
//! Both bounds (the highest rate that the host sustained, the lowest that it did not) are saved for
//! `run` and `proxy` (`calibration.rs`).

pub(crate) mod load_generator;
mod max_rate;
mod namespace;
mod proxied;
mod timer;

use std::io;
use std::path::{Path, PathBuf};

use rdt_emulator::Bitrate;
use rdt_program::json::EventStamp;
use rdt_program::standard::stdout;
use rdt_udp::clock;
use serde_json::{Value, json};

use crate::calibration::{Bounds, Calibration, Host, file, mbps};
use crate::waiter::Waiting;
use crate::{Failure, json_stream, talk, tell};
use max_rate::{Delivered, Found};

/// Duration of each of the six measurements, ms.
const MEASUREMENT_MS: u64 = 2000;
/// Datagram payloads, bytes: the first measures the bit rate, the second the packet rate.
const DATAGRAM_SIZES: [u16; 2] = [1400, 64];

#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Do not save the results; `run` and `proxy` keep using an earlier calibration, if there is
    /// one
    #[arg(long)]
    no_save: bool,
}

#[derive(Debug)]
struct Throughput {
    size: u16,
    packets_per_s: f64,
    /// Lateness percentiles as in the JSON account; null if no packet departed.
    lateness: Value,
}

impl Throughput {
    /// Computes the throughput from the number of packets delivered in [`MEASUREMENT_MS`].
    fn new(size: u16, packets: u64, lateness: Value) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "less than 2^53 packets in two seconds")]
        let packets_per_s = packets as f64 * 1e3 / MEASUREMENT_MS as f64;
        Self { size, packets_per_s, lateness }
    }

    fn rate_bps(&self) -> f64 {
        self.packets_per_s * f64::from(self.size) * 8.0
    }

    fn json(&self) -> Value {
        json!({
            "size_bytes": self.size,
            "rate_bps": self.rate_bps(),
            "packets_per_s": self.packets_per_s,
            "lateness_ns": self.lateness,
        })
    }

    fn row(&self, name: &str) -> String {
        let rate = self.rate_bps() / 1e6;
        let name = format!("{name}, {} bytes", self.size);
        row(&name, &format!("{rate:.0}"), &format!("{:.0}", self.packets_per_s), &self.lateness)
    }
}

/// Capacity of one mode: namespace or proxy.
#[derive(Debug)]
struct Capacity {
    floods: Vec<Throughput>,
    found: Found,
}

impl Capacity {
    /// Measures the throughput with each datagram size, then searches for the highest rate that the
    /// host sustains.
    fn measure<E>(
        flood: impl Fn(u16) -> Result<Throughput, E>,
        hold: impl FnMut(max_rate::Asked) -> Result<Option<Delivered>, E>,
    ) -> Result<Self, E> {
        let floods = DATAGRAM_SIZES.into_iter().map(flood).collect::<Result<Vec<_>, E>>()?;
        let highest = floods.iter().map(Throughput::rate_bps).fold(0.0, f64::max);
        Ok(Self { found: max_rate::search(highest, hold)?, floods })
    }

    fn json(&self) -> Value {
        json!({
            "floods": self.floods.iter().map(Throughput::json).collect::<Vec<_>>(),
            "held": self.found.held.as_ref().map(Delivered::json),
            "failed_bps": self.found.failed_bps,
        })
    }

    fn rows(&self, name: &str) -> Vec<String> {
        let mut rows: Vec<_> = self.floods.iter().map(|flood| flood.row(name)).collect();
        let Found { held, failed_bps } = &self.found;
        rows.extend(held.as_ref().map(|held| {
            row(&format!("{name}, held"), &format!("{:.0}", held.bps / 1e6), "", &held.lateness)
        }));
        rows.extend(
            failed_bps
                .map(|bps| row(&format!("{name}, not held"), &format!("{:.0}", bps / 1e6), "", &Value::Null)),
        );
        rows
    }
}

pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<u8, Failure> {
    let file = if args.no_save { None } else { Some(file()?) };
    talk("this takes up to 50 s; other load on this host makes the figures worse");
    let stamp = EventStamp::new(clock::now());
    let figures = Figures::measure()?;
    // Print the results even if saving failed.
    let calibration = figures.calibration();
    let kept = file.map(|file| match file::save(&file, &calibration.json().to_string()) {
        Ok(()) => Ok(file),
        Err(error) => Err(Failure::create(&file, &error)),
    });
    let kept = kept.transpose();
    if args.json {
        let file = kept.as_ref().ok().and_then(Option::as_ref);
        let mut object = figures.json();
        crate::json::extend(&mut object, json!({ "file": file.map(|file| file.to_string_lossy()) }));
        let line = json_stream::line(&mut stdout(), &stamp.now(object));
        line.map_err(Failure::stdout)?;
        return kept.map(|_| 0);
    }
    for line in figures.rows() {
        tell(line.trim_end())?;
    }
    if let Some(file) = kept? {
        talk(&format!("kept in {}: {}", file.display(), effect(calibration.namespace, calibration.proxy)));
    }
    Ok(0)
}

/// Returns the path of the calibration file, after a check that it can be written.
fn file() -> Result<PathBuf, Failure> {
    let hint = |error: io::Error| {
        io::Error::new(error.kind(), format!("{error}; --no-save measures without saving"))
    };
    let Some(file) = file::path(|name| std::env::var_os(name)) else {
        let error = io::Error::other("neither XDG_STATE_HOME nor HOME is an absolute path");
        return Err(Failure::create("calibration.json".as_ref(), &hint(error)));
    };
    match file::prepare(&file) {
        Ok(()) => Ok(file),
        Err(error) => Err(Failure::create(&file, &hint(error))),
    }
}

/// Describes the rates that `run` and `proxy` will refuse.
fn effect(namespace: Bounds, proxy: Bounds) -> String {
    let of = |name: &str, bounds: Bounds| match bounds.failed_bps {
        Some(bps) => format!("`{name}` refuses {} Mbit/s and more", mbps(bps)),
        None => format!("`{name}` refuses nothing"),
    };
    format!("{}, {}", of("run", namespace), of("proxy", proxy))
}

fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))
}

/// Lowest rate that a trial can judge: 1 % of its packets are ten.
const MIN_TRIAL_RATE: Bitrate = Bitrate::from_bps(10_000_000);

/// Returns true if this host sustains a rate in `rdt-emu run`, by the rule of `rdt-emu calibrate`.
/// Takes one to three seconds. A rate below 10 Mbit/s counts as 10 Mbit/s. `program` is one that
/// runs as `rdt-emu` if it is called so, or if its first argument is `flood`.
///
/// # Errors
/// The sentence says why the host cannot emulate a link.
pub fn holds(program: &Path, rate: Bitrate) -> Result<bool, String> {
    let bps = rate.max(MIN_TRIAL_RATE).as_bps_f64();
    Ok(max_rate::try_rate(bps, &mut |asked| namespace::hold(program, asked))?.is_some())
}

#[derive(Debug)]
struct Figures {
    /// Lateness of sparse packets with [`Waiting::Spin`] and [`Waiting::Sleep`].
    idle: [Value; 2],
    proxy: Capacity,
    /// Results in a namespace, or the reason why none could be measured.
    namespace: Result<Capacity, String>,
}

impl Figures {
    fn measure() -> Result<Self, Failure> {
        let idle = |waiting| timer::lateness(waiting).map_err(Failure::system("cannot measure the timer"));
        Ok(Self {
            idle: [idle(Waiting::Spin)?, idle(Waiting::Sleep)?],
            proxy: Capacity::measure(proxied::measure, proxied::hold)
                .map_err(Failure::system("cannot measure over the loopback"))?,
            namespace: this_program().and_then(|program| {
                let flood = |size| namespace::measure(&program, size);
                Capacity::measure(flood, |asked| namespace::hold(&program, asked))
            }),
        })
    }

    fn calibration(&self) -> Calibration {
        Calibration {
            measured: std::time::Duration::from_secs(rdt_program::unix_time_s()),
            host: Host::here(),
            proxy: self.proxy.found.bounds(),
            namespace: self.namespace.as_ref().map(|namespace| namespace.found.bounds()).unwrap_or_default(),
        }
    }

    fn json(&self) -> Value {
        let [spin, sleep] = &self.idle;
        json!({
            "event": "end",
            "mode": "calibrate",
            "processors": std::thread::available_parallelism().map_or(1, usize::from),
            "idle": { "lateness_ns": spin },
            "idle_sleep": { "lateness_ns": sleep },
            "proxy": self.proxy.json(),
            "namespace": self.namespace.as_ref().ok().map(Capacity::json),
            "namespace_refused": self.namespace.as_ref().err(),
        })
    }

    fn rows(&self) -> Vec<String> {
        let titles = json!({ "p50": "late p50", "p99": "p99", "p99.9": "p99.9 us" });
        let [spin, sleep] = &self.idle;
        let mut lines = vec![
            row("", "Mbit/s", "packets/s", &titles),
            row("idle", "", "", spin),
            row("idle, --wait sleep", "", "", sleep),
        ];
        lines.extend(self.proxy.rows("proxy"));
        match &self.namespace {
            Ok(namespace) => lines.extend(namespace.rows("namespace")),
            Err(sentence) => lines.push(format!("namespace: {sentence}")),
        }
        lines
    }
}

fn row(name: &str, rate: &str, packets: &str, lateness: &Value) -> String {
    let [p50, p99, p999] = ["p50", "p99", "p99.9"].map(|key| match &lateness[key] {
        Value::String(text) => text.clone(),
        Value::Number(ns) => format!("{:.1}", ns.as_f64().unwrap_or_default() / 1e3),
        _ => "-".to_owned(),
    });
    format!("{name:<26}{rate:>8}{packets:>12}{p50:>10}{p99:>10}{p999:>10}")
}

#[cfg(test)]
mod tests {
    use rdt_emulator::DelayHistogram;
    use rdt_program_testing::contract::Contract;

    use super::*;

    fn throughput() -> Throughput {
        Throughput::new(1000, 2000, json!({ "p50": 1500, "p99": 20_000, "p99.9": null, "max": 1 }))
    }

    #[test]
    fn rates_count_payload_over_elapsed_time() {
        let held = Delivered { bps: 5e6, lateness: Value::Null };
        let found = Found { held: Some(held), failed_bps: Some(6e6) };
        let proxy = Capacity { floods: vec![throughput()], found };
        let figures = Figures { idle: [1.into(), 2.into()], proxy, namespace: Err("no".to_owned()) };
        let object = figures.json();
        let told = &object["proxy"]["floods"][0];
        assert_eq!(object["proxy"]["held"]["rate_bps"], json!(5e6));
        assert_eq!(object["proxy"]["failed_bps"], json!(6e6));
        assert_eq!(object["idle_sleep"]["lateness_ns"], json!(2));
        assert_eq!((&told["packets_per_s"], &told["rate_bps"]), (&json!(1000.0), &json!(8_000_000.0)));
        assert_eq!((&object["namespace"], &object["namespace_refused"]), (&Value::Null, &json!("no")));
        let kept = figures.calibration();
        assert_eq!(kept.proxy, Bounds { held_bps: Some(5e6), failed_bps: Some(6e6) });
        assert_eq!(kept.namespace, Bounds::default());
    }

    #[test]
    fn figures_fit_schema() {
        let lateness = || crate::json::percentiles(&DelayHistogram::default());
        let capacity = |held: Option<f64>| Capacity {
            floods: vec![Throughput::new(64, 2000, lateness()), throughput()],
            found: Found { held: held.map(|bps| Delivered { bps, lateness: lateness() }), failed_bps: held },
        };
        let Some(contract) = Contract::load("rdt-emu.json") else { return };
        for namespace in [Ok(capacity(None)), Err("no".to_owned())] {
            let figures = Figures { idle: [lateness(), lateness()], proxy: capacity(Some(5e6)), namespace };
            let mut object = figures.json();
            object["file"] = Value::Null;
            contract.check("calibrate_end", &EventStamp::new(clock::now()).now(object));
        }
    }

    #[test]
    fn effect_names_refused_rates() {
        let failed = |bps| Bounds { held_bps: None, failed_bps: bps };
        assert_eq!(
            effect(failed(Some(2.5e6)), failed(None)),
            "`run` refuses 2.5 Mbit/s and more, `proxy` refuses nothing"
        );
    }

    #[test]
    fn table_shows_dash_for_unknown() {
        let expected = "namespace, 1000 bytes            8        1000       1.5      20.0         -";
        assert_eq!(throughput().row("namespace"), expected);
    }
}
