//! `rdt-lab doctor`: what this host can run.

use std::fs;
use std::process::{Command, Stdio};

use rdt_emulator::Bitrate;
use rdt_emulator::spec::PathSpec;
use serde_json::json;

use super::failure::Failure;
use super::output;
use super::shell::in_path;
use crate::cell::{Cell, EngineKind, Physics};
use crate::engine::{engine, holds};
use crate::run::host::{QUIET_SHARE, cores, used_share};

/// Congestion controls that the experiments of the program ask the kernel for.
const CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "firefox"];

const HELP: &str = "\
Engines of virtual time need nothing of this list. The command measures the use of the
processors for 0.2 s, and succeeds whatever it finds.

Examples:
  rdt-lab doctor
  rdt-lab doctor --json | jq 'select(.ok | not) | .remedy'";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct DoctorArgs {
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Description of what was found, or the remedy.
type Found = Result<String, String>;

/// Name of what engines or commands need, these engines or commands, and how it is looked for.
type Check = (&'static str, &'static str, fn() -> Found);

const CHECKS: [Check; 8] = [
    ("cores", "kernel, real", processors),
    ("namespaces and TUN", "kernel, real, command", namespaces),
    ("congestion controls", "kernel", controls),
    ("quiet host", "kernel, real, command", load),
    ("rate of a path", "kernel, real, command", rate),
    ("browser", "reading reports", browser),
    ("Slurm", "scale slurm", slurm),
    ("GNU parallel", "scale parallel", parallel),
];

pub(super) fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    let findings = CHECKS.map(|(name, needed_for, look)| (name, needed_for, look()));
    let mut rows = vec![["", "what", "needed for", ""].map(str::to_owned).to_vec()];
    for (name, needed_for, found) in &findings {
        if args.json {
            output::json(&json!({
                "name": name,
                "needed_for": needed_for,
                "ok": found.is_ok(),
                "found": found.as_ref().ok(),
                "remedy": found.as_ref().err(),
            }))?;
        }
        let word = if found.is_ok() { "ok" } else { "missing" };
        let (Ok(text) | Err(text)) = found;
        rows.push([word, name, needed_for, text].map(str::to_owned).to_vec());
    }
    if !args.json {
        output::text(&output::table(&rows))?;
    }
    Ok(0)
}

fn processors() -> Found {
    match cores() {
        1 => Err("1 core: real-time engines need 2, one for the path and one for the endpoints".to_owned()),
        n => Ok(format!("{n} cores")),
    }
}

/// Builds an emulated path. The error names the missing permission and the remedy.
fn namespaces() -> Found {
    let physics = Physics {
        engine: EngineKind::Kernel,
        duration: None,
        links: vec![PathSpec::default()],
        flows: Vec::new(),
        engine_words: Vec::new(),
    };
    let kernel = engine(physics.engine);
    let built = kernel.and_then(|kernel| kernel.check(&Cell::new(Vec::new(), physics)));
    built.map(|()| "an emulated path works".to_owned()).map_err(|error| error.to_string())
}

fn controls() -> Found {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_err(|_| "the kernel lists none: the engine kernel needs Linux")?;
    let there: Vec<&str> = text.split_whitespace().collect();
    let lacks = CONTROLS.into_iter().filter(|it| !there.contains(it));
    let modules: Vec<String> = lacks.map(|it| format!("modprobe tcp_{it}")).collect();
    if modules.is_empty() {
        return Ok(there.join(" "));
    }
    Err(format!("the kernel has {}; as root run {}", there.join(" "), modules.join("; ")))
}

fn load() -> Found {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    match used_share() {
        Some(share) if share <= QUIET_SHARE => Ok(format!("{} of the processors in use", percent(share))),
        Some(share) => Err(format!(
            "{} of the processors are in use, which disturbs real-time results: end other programs until it is below {}; \
             ps -eo pid,pcpu,args --sort=-pcpu | head names them",
            percent(share),
            percent(QUIET_SHARE)
        )),
        None => Err("this system does not report it: make sure that nothing else runs".to_owned()),
    }
}

/// Tries a path at the rate of fast Ethernet, as `run` does with the rates of an experiment.
fn rate() -> Found {
    let mbit = 100;
    match holds(Bitrate::from_bps(mbit * 1_000_000)) {
        Ok(true) => Ok(format!("a path of {mbit} Mbit/s is held")),
        Ok(false) => Err(format!(
            "a path of {mbit} Mbit/s is not held: end other programs, or use a faster host; rdt-emu calibrate finds the \
             highest rate"
        )),
        Err(error) => Err(error.to_string()),
    }
}

fn browser() -> Found {
    let found = BROWSERS.into_iter().find_map(in_path).map(|it| it.display().to_string());
    let remedy = "none found; apt install chromium, or open report.html on another machine";
    found.ok_or_else(|| remedy.to_owned())
}

fn slurm() -> Found {
    match in_path("sbatch") {
        // The commands of Slurm are of no use without its controller.
        Some(program) if answers("scontrol", "ping").is_some() => Ok(program.display().to_string()),
        Some(program) => Err(format!(
            "{} is there, but no controller answers: as root run systemctl start slurmctld slurmd; 'scontrol ping' says more",
            program.display()
        )),
        None => Err("no sbatch: run on the login node of a cluster, or use rdt-lab scale parallel; \
                     for one host apt install slurm-wlm"
            .to_owned()),
    }
}

fn parallel() -> Found {
    let install = "apt install parallel";
    match (in_path("parallel"), answers("parallel", "--version")) {
        (Some(program), Some(text)) if text.starts_with("GNU parallel") => Ok(program.display().to_string()),
        (Some(program), _) => Err(format!("{} is another program: {install}", program.display())),
        (None, _) => Err(format!("not found: {install}")),
    }
}

/// Returns what a program prints. `None` if it does not start, or fails.
fn answers(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
