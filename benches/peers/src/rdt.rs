//! rdt: its two programs, which report rate and processor time.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::transfer::{self, Process, Run, number};

pub(crate) const TUNED: &str = "the classic format, window of 8192 packets (`--window`), 1472-byte packets, an ACK a batch, CRC-32 of the whole transfer, no emulated link";

pub(crate) const TUNED_NATIVE: &str = "the native format without a cipher, with the fixed window of the row above (`--wire native --insecure --pacing off`), which its receiver acknowledges by the batch without being asked; a CRC-32 of each packet";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Classic,
    Native,
}

impl Wire {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Classic => &[],
            Self::Native => &["--wire", "native", "--insecure", "--pacing", "off"],
        }
    }
}

/// Returns the output of `rdt-send --version` without the name.
pub(crate) fn version(directory: &Path) -> Result<String> {
    let program = directory.join("rdt-send");
    let output = Command::new(&program)
        .arg("--version")
        .output()
        .with_context(|| format!("starting {} (built? see --rdt)", program.display()))?;
    ensure!(output.status.success(), "{} --version: {}", program.display(), output.status);
    let text = String::from_utf8(output.stdout)?;
    Ok(text.trim().trim_start_matches("rdt-send ").to_owned())
}

pub(crate) fn run(directory: &Path, bytes: u64, window: u32, wire: Wire) -> Result<Run> {
    let deadline = transfer::deadline();
    let mut command = Command::new(directory.join("rdt-recv"));
    command.args(["--no-link", "--ack-every", "batch", "--bind", "127.0.0.1:0", "--json", "--once"]);
    command.arg("--insecure");
    let mut receiver = Process::start("rdt-recv", &mut command, "")?;
    let hello = receiver.first_line(deadline)?;
    let address = hello["address"].as_str().context("rdt-recv told no address")?;
    let mut command = Command::new(directory.join("rdt-send"));
    command.args([address, &window.to_string(), "0", "0", "10000", "--json", "--quiet"]);
    command.args(["--bytes", &bytes.to_string()]).args(wire.arguments());
    let sent = Process::start("rdt-send", &mut command, "")?.last_line(deadline)?;
    let summary = receiver.last_line(deadline)?;
    transfer::check_bytes(&summary, bytes)?;
    let [ours, theirs] = ["crc32", "crc32_received"].map(|key| sent[key].as_str());
    ensure!(
        wire == Wire::Native || (ours.is_some() && ours == theirs),
        "CRC-32 {theirs:?} came for {ours:?}"
    );
    let goodput = sent["goodput_bps"].as_f64().context("rdt-send told no rate")?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let seconds = bytes as f64 * 8.0 / goodput;
    Ok(Run::new(bytes, seconds, number(&sent, "processor_ns")? + number(&summary, "processor_ns")?))
}
