//! Load test of `rdt-emu run`, which is started as a child process.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::load_generator::Flood;
use super::max_rate::{self, Asked, COUNT_INTERVAL, RTT};
use super::{MEASUREMENT_MS, Throughput};
use crate::host;

/// Measures the throughput with datagrams of `size` bytes. An error says why nothing arrived.
pub(super) fn measure(program: &Path, size: u16) -> Result<Throughput, String> {
    let flood = Flood { size, pps: None, ms: MEASUREMENT_MS };
    let output = flooded(program, flood, &["--json", "--rtt=1ms"])?;
    let account = output.told.lines().next_back().and_then(|line| serde_json::from_str::<Value>(line).ok());
    let silent = || "it told nothing".to_owned();
    let forward = &account.ok_or_else(silent)?["forward"];
    let delivered = forward["delivered"].as_u64().ok_or_else(silent)?;
    Ok(Throughput::new(size, delivered, forward["lateness_ns"].clone()))
}

/// Measures the output of a link with the requested rate; `None` if the host was the bottleneck.
pub(super) fn hold(program: &Path, asked: Asked) -> Result<Option<max_rate::Delivered>, String> {
    let path = [
        format!("--json-stream={}ms", COUNT_INTERVAL.as_millis()),
        format!("--rtt={}ms", RTT.as_millis()),
        format!("--rate={:.0}bit", asked.rate.as_bps_f64()),
    ];
    let output = flooded(program, asked.flood, &path.each_ref().map(String::as_str))?;
    // The TUN device counts whole IP packets, so no header bytes are added.
    Ok(max_rate::delivered(&output.told, 0).filter(|_| output.kept_up()))
}

struct Output {
    /// Standard output of the run: lines of JSON.
    told: String,
    /// Standard error of the run: warnings and errors.
    said: String,
}

impl Output {
    /// Returns true unless the run warned that the host was the bottleneck.
    fn kept_up(&self) -> bool {
        !self.said.contains(host::BLAME)
    }
}

fn flooded(program: &Path, flood: Flood, options: &[&str]) -> Result<Output, String> {
    let mut command = Command::new(program);
    // No calibration check, because this measurement is the calibration.
    command.arg0("rdt-emu").args(["run", "--quiet", "--beyond-calibration"]).args(options);
    command.arg(format!("--server=exec {} flood", quoted(program))).arg("--").arg(program);
    command.args(["flood", &format!("--size={}", flood.size), &format!("--ms={}", flood.ms)]);
    command.args(flood.pps.map(|pps| format!("--pps={pps}")));
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start this program again: {error}"))?;
    let [told, said] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if told.is_empty() {
        return Err(said.trim().trim_start_matches("rdt-emu: ").to_owned());
    }
    Ok(Output { told, said })
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::LossAlarm;

    #[test]
    fn host_warning_voids_measured_rate() {
        let output = |said: &str| Output { told: "{}".to_owned(), said: said.to_owned() };
        assert!(output("").kept_up() && output("rdt-emu: no IPv6").kept_up());
        let lost = LossAlarm::default().look(rdt_udp::clock::now(), [0, 1]);
        assert!(!output(&lost.concat()).kept_up());
    }
}
