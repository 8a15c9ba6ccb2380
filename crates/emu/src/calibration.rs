//! What `calibrate` found that this host holds, kept for the runs that come after it.
//!
//! Owns the form in which it is kept, which one may judge a run, and the judgement. Where it is kept is the business of
//! `calibration/file.rs`, how it is measured that of `calibrate.rs`.

pub(crate) mod file;

use jiff::{SignedDuration, Timestamp};
use rdt_emulator::{Bitrate, LinkConfig, PathConfig};
use serde_json::Value;

use crate::failure::Failure;
use crate::talk;

/// Of the form.
const VERSION: u64 = 1;
/// How long a host is taken for what it was.
const LASTS: SignedDuration = SignedDuration::from_hours(90 * 24);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CalibrationArgs {
    /// Go on although the path has a higher rate than `rdt-emu calibrate` has found this host to hold
    #[arg(long)]
    beyond_calibration: bool,
}

impl CalibrationArgs {
    /// Refuses a path with a higher rate than this host is known to hold. What is kept and of no use is said.
    pub(crate) fn check(&self, path: &PathConfig, mode: Mode) -> Result<(), Failure> {
        let Some(asked) = highest_rate(path).filter(|_| !self.beyond_calibration) else { return Ok(()) };
        let Some(file) = file::path(|name| std::env::var_os(name)) else { return Ok(()) };
        let text = match file::read(&file) {
            Ok(None) => return Ok(()),
            Ok(Some(text)) => text,
            Err(error) => {
                talk(&format!("{}: {error}", file.display()));
                return Ok(());
            }
        };
        match Calibration::parse(&text).and_then(|kept| kept.fits(&Host::here(), Timestamp::now())) {
            Ok(kept) => kept.refusal(asked, mode).map_or(Ok(()), |sentence| Err(Failure::Beyond(sentence))),
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

/// The highest rate of either direction at any time, if one has a limit.
fn highest_rate(path: &PathConfig) -> Option<Bitrate> {
    [&path.forward, &path.reverse].into_iter().filter_map(LinkConfig::highest_rate).max()
}

/// A way to emulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Proxy,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "Linux alone has namespaces"))]
    Namespace,
}

/// A machine that is the same one as long as these are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    name: String,
    /// The kernel and its release.
    system: String,
    /// Those that this program may use.
    processors: u64,
}

impl Host {
    /// This one.
    pub(crate) fn here() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let (name, system) = names();
        Self { name, system, processors }
    }

    #[cfg(target_os = "linux")]
    fn json(&self) -> Value {
        serde_json::json!({ "name": self.name, "system": self.system, "processors": self.processors })
    }

    fn parse(value: &Value) -> Option<Self> {
        let text = |key: &str| Some(value[key].as_str()?.to_owned());
        Some(Self { name: text("name")?, system: text("system")?, processors: value["processors"].as_u64()? })
    }
}

#[cfg(target_os = "linux")]
fn names() -> (String, String) {
    let uname = rustix::system::uname();
    let [name, system, release] =
        [uname.nodename(), uname.sysname(), uname.release()].map(std::ffi::CStr::to_string_lossy);
    (name.into_owned(), format!("{system} {release}"))
}

/// Where nothing can be measured yet, nothing has to be told apart.
#[cfg(not(target_os = "linux"))]
fn names() -> (String, String) {
    (String::new(), std::env::consts::OS.to_owned())
}

/// Why one that is kept does not count.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("it is not what `rdt-emu calibrate` writes")]
    Malformed,
    #[error("it is of another host or kernel ({}, {}, processors: {})", .0.name, .0.system, .0.processors)]
    OtherHost(Host),
    #[error("it is of {}, more than {} days ago", day(*.0), LASTS.as_hours() / 24)]
    Old(Timestamp),
}

fn day(time: Timestamp) -> impl std::fmt::Display {
    time.strftime("%Y-%m-%d")
}

/// The highest rates that a host held, bits per second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Calibration {
    pub(crate) measured: Timestamp,
    pub(crate) host: Host,
    /// `None` if none was held.
    pub(crate) proxy_bps: Option<f64>,
    /// `None` also where there are no namespaces.
    pub(crate) namespace_bps: Option<f64>,
}

impl Calibration {
    #[cfg(target_os = "linux")]
    pub(crate) fn json(&self) -> Value {
        serde_json::json!({
            "version": VERSION,
            "measured": self.measured.to_string(),
            "host": self.host.json(),
            "proxy_held_bps": self.proxy_bps,
            "namespace_held_bps": self.namespace_bps,
        })
    }

    fn parse(text: &str) -> Result<Self, Unfit> {
        let parse = |value: &Value| {
            let rate = |key: &str| match &value[key] {
                Value::Null => Some(None),
                rate => rate.as_f64().filter(|bps| *bps > 0.0).map(Some),
            };
            Some(Self {
                measured: value["measured"].as_str()?.parse().ok()?,
                host: Host::parse(&value["host"])?,
                proxy_bps: rate("proxy_held_bps")?,
                namespace_bps: rate("namespace_held_bps")?,
            })
        };
        let value = serde_json::from_str::<Value>(text).ok().filter(|value| value["version"] == VERSION);
        value.as_ref().and_then(parse).ok_or(Unfit::Malformed)
    }

    /// Itself, if it tells anything about this host at this time.
    fn fits(self, host: &Host, now: Timestamp) -> Result<Self, Unfit> {
        if self.host != *host {
            return Err(Unfit::OtherHost(self.host));
        }
        if now.duration_since(self.measured) > LASTS {
            return Err(Unfit::Old(self.measured));
        }
        Ok(self)
    }

    /// Why a path of this rate is not to be begun, if it is not.
    fn refusal(&self, asked: Bitrate, mode: Mode) -> Option<String> {
        let (held, place) = match mode {
            Mode::Proxy => (self.proxy_bps, "as a proxy"),
            Mode::Namespace => (self.namespace_bps, "in a namespace"),
        };
        let (asked, held) = (asked.as_bps_f64(), held?);
        (asked > held).then(|| {
            format!(
                "the path asks for {:.1} Mbit/s, and the highest rate that this host held {place} is {:.1} Mbit/s \
                 (`rdt-emu calibrate` of {}): ask for less, calibrate again while nothing else runs, or go on with \
                 --beyond-calibration",
                asked / 1e6,
                held / 1e6,
                day(self.measured),
            )
        })
    }
}

#[cfg(test)]
mod tests;
