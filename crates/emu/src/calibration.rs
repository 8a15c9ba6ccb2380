//! Results of `calibrate`, saved for later runs.
//!
//! Owns the file format, the check that a calibration applies to this host, and the verdict on a
//! path. `calibrate.rs` does the measurement.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | bounds | `calibration/bounds.rs` | highest rate that was sustained, lowest that failed |
//! | host | `calibration/host.rs` | identity of the measured host |
//! | file | `calibration/file.rs` | path, reading and atomic writing of the file |

mod bounds;
pub(crate) mod file;
mod host;

use std::path::Path;
use std::time::Duration;

use rdt_emulator::{Bitrate, LinkConfig, PathConfig};
use rdt_program::time;
use rdt_udp::clock;
use serde_json::Value;

use crate::{Failure, talk};
pub(crate) use bounds::{Bounds, mbps};
pub(crate) use host::Host;

const FORMAT_VERSION: u64 = 2;
const DAY_S: u64 = 24 * 3600;
const MAX_AGE: Duration = Duration::from_secs(90 * DAY_S);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CalibrationArgs {
    /// Run even if the path has a rate that failed in `rdt-emu calibrate` on this host
    #[arg(long)]
    beyond_calibration: bool,
}

impl CalibrationArgs {
    /// Rejects paths with a rate that failed on this host. Warns about a rate between the highest
    /// sustained and the lowest failed one, and about a calibration file that cannot be used.
    /// The paths share one relay thread, so that the sum of their rates counts too.
    pub(crate) fn check<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a PathConfig>,
        mode: Mode,
    ) -> Result<(), Failure> {
        let Some(asked) = Asked::by(paths).filter(|_| !self.beyond_calibration) else { return Ok(()) };
        let Some(file) = file::path(|name| std::env::var_os(name)) else { return Ok(()) };
        let here = Host::here();
        match Calibration::read(&file, &here, clock::unix_time()) {
            Ok(None) => Ok(()),
            Ok(Some(kept)) => match kept.verdict(asked, mode, here.processors) {
                Verdict::Fine => Ok(()),
                Verdict::Doubtful(sentence) => {
                    talk(&sentence);
                    Ok(())
                }
                Verdict::Refused(sentence) => Err(Failure::new(rdt_program::exit::CONFIG, sentence)),
            },
            Err(unfit) => {
                talk(&format!(
                    "{} is not used: {unfit}; `rdt-emu calibrate` makes a new one",
                    file.display()
                ));
                Ok(())
            }
        }
    }
}

/// Rates of paths that share one relay thread.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Asked {
    /// Highest rate of either direction of a path, at any time.
    highest: Bitrate,
    /// Number of paths with a rate.
    paths: usize,
    /// Sum of the highest rates of one direction, bits per second; the higher one of both.
    sum_bps: f64,
}

impl Asked {
    /// Returns the rates of these paths; `None` if all of them are unlimited.
    fn by<'a>(paths: impl IntoIterator<Item = &'a PathConfig>) -> Option<Self> {
        let rates = |path: &PathConfig| [&path.forward, &path.reverse].map(LinkConfig::highest_rate);
        let limited: Vec<_> =
            paths.into_iter().map(rates).filter(|rates| rates.iter().any(Option::is_some)).collect();
        let sum = |direction: usize| -> f64 {
            limited.iter().filter_map(|rates| rates[direction]).map(Bitrate::as_bps_f64).sum()
        };
        Some(Self {
            highest: limited.iter().flatten().flatten().copied().max()?,
            paths: limited.len(),
            sum_bps: sum(0).max(sum(1)),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Proxy with at most this many paths.
    Proxy { paths: usize },
    #[cfg_attr(not(any(test, target_os = "linux")), expect(dead_code, reason = "Linux alone has namespaces"))]
    Namespace,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// The rate may be too high; the text is a warning.
    Doubtful(String),
    /// The rate is too high; the text is an error message.
    Refused(String),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("{0}")]
    Unreadable(String),
    #[error("it is not a file of `rdt-emu calibrate`")]
    Malformed,
    #[error("{what} was {was}, and is {is} now")]
    Changed { what: &'static str, was: String, is: String },
    #[error("it was measured on {}, more than {} days ago", day(*.0), MAX_AGE.as_secs() / DAY_S)]
    Old(Duration),
}

/// Returns the date of a time since 1970, in UTC.
fn day(time: Duration) -> String {
    time::rfc3339(time).chars().take_while(|letter| *letter != 'T').collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Calibration {
    /// Time since 1970.
    pub(crate) measured: Duration,
    pub(crate) host: Host,
    pub(crate) proxy: Bounds,
    /// Bounds of `rdt-emu run`; empty if the host has no namespaces.
    pub(crate) namespace: Bounds,
}

impl Calibration {
    #[cfg(target_os = "linux")]
    pub(crate) fn json(&self) -> Value {
        serde_json::json!({
            "version": FORMAT_VERSION,
            "measured": time::rfc3339(self.measured),
            "host": self.host.json(),
            "proxy": self.proxy.json(),
            "namespace": self.namespace.json(),
        })
    }

    fn parse(text: &str) -> Result<Self, Unfit> {
        let parse = |value: &Value| {
            Some(Self {
                measured: time::from_rfc3339(value["measured"].as_str()?)?,
                host: Host::parse(&value["host"])?,
                proxy: Bounds::parse(&value["proxy"])?,
                namespace: Bounds::parse(&value["namespace"])?,
            })
        };
        let value =
            serde_json::from_str::<Value>(text).ok().filter(|value| value["version"] == FORMAT_VERSION);
        value.as_ref().and_then(parse).ok_or(Unfit::Malformed)
    }

    /// Reads the saved calibration, if there is one, and checks that it applies to this host now.
    fn read(file: &Path, here: &Host, now: Duration) -> Result<Option<Self>, Unfit> {
        let text = file::read(file).map_err(|error| Unfit::Unreadable(error.to_string()))?;
        text.map(|text| Self::parse(&text)?.fits(here, now)).transpose()
    }

    fn fits(self, here: &Host, now: Duration) -> Result<Self, Unfit> {
        self.host.tells_of(here)?;
        if now.saturating_sub(self.measured) > MAX_AGE {
            return Err(Unfit::Old(self.measured));
        }
        Ok(self)
    }

    /// Returns the verdict on paths with the rates `asked` on a host with `processors` processors.
    fn verdict(&self, asked: Asked, mode: Mode, processors: u64) -> Verdict {
        let (bounds, place, paths) = match mode {
            Mode::Proxy { paths } => (self.proxy, "as a proxy", paths),
            Mode::Namespace => (self.namespace, "in a namespace", 1),
        };
        let Some(found) = bounds.found(place) else { return Verdict::Fine };
        let fewer = if processors < self.host.processors {
            format!(", with {} processors, of which {processors} may be used now", self.host.processors)
        } else {
            String::new()
        };
        let found = format!("{found} (`rdt-emu calibrate` of {}{fewer})", day(self.measured));
        let bps = asked.highest.as_bps_f64();
        #[expect(clippy::cast_precision_loss, reason = "less than 2^53 clients")]
        let all = bps * paths as f64;
        if bounds.rule_out(bps) {
            return Verdict::Refused(format!(
                "the path asks for {} Mbit/s, and {found}: ask for less, calibrate again while nothing else runs, or \
                 go on with --beyond-calibration",
                mbps(bps)
            ));
        }
        if paths > 1 && !bounds.hold(all) {
            return Verdict::Doubtful(format!(
                "{paths} clients may have a path of {} Mbit/s each, {} Mbit/s together, and {found}: all of them at once \
                 may be too much",
                mbps(bps),
                mbps(all)
            ));
        }
        if asked.paths > 1 && !bounds.hold(asked.sum_bps) {
            return Verdict::Doubtful(format!(
                "{} paths ask for {} Mbit/s together, and {found}: all of them at once may be too much",
                asked.paths,
                mbps(asked.sum_bps)
            ));
        }
        if !bounds.hold(bps) || !fewer.is_empty() {
            return Verdict::Doubtful(format!(
                "the path asks for {} Mbit/s, and {found}: it may be too much",
                mbps(bps)
            ));
        }
        Verdict::Fine
    }
}

#[cfg(test)]
mod tests;
