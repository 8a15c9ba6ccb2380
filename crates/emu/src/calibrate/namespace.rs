//! `run`, flooded: this program starts itself.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{TIME, Throughput};

/// What comes through of datagrams of this size, or the sentence that says why nothing does.
pub(super) fn measure(size: u16) -> Result<Throughput, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let output = Command::new(&program)
        .args([
            "run",
            "--quiet",
            "--json",
            "--rtt=1ms",
            "--server",
            &format!("exec {} flood", quoted(&program)),
        ])
        .arg("--")
        .arg(&program)
        .args(["flood", &format!("--size={size}"), &format!("--ms={}", TIME.as_millis())])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start this program again: {error}"))?;
    let account = output.stdout.rsplit(|byte| *byte == b'\n').find(|line| !line.is_empty());
    let account = account.and_then(|line| serde_json::from_slice::<Value>(line).ok());
    // Without a sentence, whatever else it said.
    let said = || String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("rdt-emu: ").to_owned();
    let forward = &account.ok_or_else(said)?["forward"];
    let delivered = forward["delivered"].as_u64().ok_or_else(said)?;
    Ok(Throughput::new(size, delivered, forward["lateness_us"].clone()))
}

/// For a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
