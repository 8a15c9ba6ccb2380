//! A program of the user, behind the path of `rdt-emu run` or over the loopback device. Its metrics
//! are numbers in the JSON that it prints.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use rdt_emulator::spec::PathSpec;
use rdt_program::Stop;
use rdt_udp::clock;
use serde_json::Value;

use super::kernel::link_metrics;
use super::programs::{Behind, Ended, Group, cannot, check_namespaces, pause, program};
use super::{Engine, EngineError, Run};
use crate::cell::{Cell, Physics};
use crate::experiment::{Command as Described, Measure, placeholders};

/// Value of `{port}` behind a path. No other program uses ports in the path's namespaces.
const PORT: u16 = 5001;
/// Longest wait for the server to bind a port. (`rdt-emu run` waits 5 s.)
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of the last lines of the standard error that an error shows.
const LAST_LINES: usize = 3;
/// Number of characters of a line of output that an error shows.
const LINE_LENGTH: usize = 80;

pub(super) struct UserProgram;

impl Engine for UserProgram {
    fn check(&self, cell: &Cell) -> Result<(), EngineError> {
        Lines::new(&cell.physics, 0, PORT)?;
        program()?;
        if cell.physics.links.is_empty() { Ok(()) } else { check_namespaces() }
    }

    fn run(
        &self,
        cell: &Cell,
        seed: u64,
        _measure: &Measure,
        stop: &Stop,
        _capture: Option<&Path>,
    ) -> Result<Run, EngineError> {
        let physics = &cell.physics;
        let folder = tempfile::tempdir().map_err(|error| cannot("create a folder", &error))?;
        let time = folder.path().join("time");
        let ended = match physics.links.first() {
            Some(link) => behind(link, &Lines::new(physics, seed, PORT)?, &time, seed, stop)?,
            None => here(&Lines::new(physics, seed, free_port()?)?, &time, folder.path(), stop)?,
        };
        if !ended.status.success() {
            return Err(EngineError::Failed(failure(&ended)));
        }
        let mut run = Run { metrics: metrics(physics, &ended.stdout)?, ..Run::default() };
        let seconds = fs::read_to_string(&time).ok().and_then(|text| text.trim().parse().ok());
        run.metrics.extend(seconds.map(|seconds: f64| ("run-time".to_owned(), seconds)));
        if let [account] = &ended.accounts[..] {
            for direction in ["forward", "reverse"] {
                link_metrics("link", direction, &account.end, None, &mut run.metrics);
            }
        }
        run.is_host_limited = ended.is_host_limited();
        Ok(run)
    }
}

/// Command lines for a shell.
struct Lines {
    program: String,
    server: Option<String>,
    limit: Duration,
}

impl Lines {
    /// Fills in the placeholders of the command lines.
    fn new(physics: &Physics, seed: u64, port: u16) -> Result<Self, EngineError> {
        if physics.links.len() > 1 {
            return Err(EngineError::Word(format!(
                "the engine 'command' runs one link or none, and this cell has {}",
                physics.links.len()
            )));
        }
        let has_path = !physics.links.is_empty();
        let fill = |line: &str, variable: &str| {
            let host = if has_path { format!("\"${variable}\"") } else { Ipv4Addr::LOCALHOST.to_string() };
            placeholders::fill(line, |name| match name {
                "host" => Some(host.clone()),
                "port" => Some(port.to_string()),
                // Below 2^31, so that it fits a signed integer of 32 bits.
                "seed" => Some((seed >> 33).to_string()),
                "for" => physics.duration.map(|time| time.as_secs_f64().to_string()),
                _ => word(physics, name).map(str::to_owned),
            })
            .map_err(|name| {
                let remedy = match name.as_str() {
                    "client" => "name the program with --client",
                    "for" => "write for in the experiment",
                    _ => "write it in [command]",
                };
                EngineError::Word(format!("the command line has {{{name}}}, which has no value: {remedy}"))
            })
        };
        let line = word(physics, "program").unwrap_or_default();
        let limit = word(physics, "time-limit").and_then(|it| rdt_emulator::parse_duration(it).ok());
        Ok(Self {
            program: fill(line, "RDT_PEER")?,
            server: word(physics, "server").map(|line| fill(line, "RDT_LOCAL")).transpose()?,
            limit: limit.unwrap_or(Described::DEFAULT_TIME_LIMIT),
        })
    }
}

fn word<'a>(physics: &'a Physics, name: &str) -> Option<&'a str> {
    physics.engine_words.iter().find(|(word, _)| word == name).map(|(_, value)| value.as_str())
}

/// Returns arguments with which this program runs a command line and writes its run time to a file.
fn timed(line: &str, time: &Path) -> Result<[OsString; 6], EngineError> {
    let program = program()?.into();
    Ok([program, "load".into(), "--time-to".into(), time.into(), "--exec".into(), line.into()])
}

fn behind(link: &PathSpec, lines: &Lines, time: &Path, seed: u64, stop: &Stop) -> Result<Ended, EngineError> {
    // Both programs share one standard output, which is read as that of the user's program.
    let server = lines.server.as_ref().map(|line| format!("exec >&2; {line}").into());
    let links = std::slice::from_ref(link);
    let behind = Behind { links, seed, server, ..Behind::default() };
    let ended = behind.run(&timed(&lines.program, time)?, Some(lines.limit), stop)?;
    match ended.own_error() {
        // Without an account the user's program was not started, so the error is of `rdt-emu`.
        Some(error) if ended.accounts.is_empty() => Err(error),
        _ => Ok(ended),
    }
}

fn here(lines: &Lines, time: &Path, folder: &Path, stop: &Stop) -> Result<Ended, EngineError> {
    let start = |arguments: &[OsString], name: &str| {
        let folder = folder.join(name);
        fs::create_dir(&folder).map_err(|error| cannot("create a folder", &error))?;
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]);
        Group::start(command, &folder)
    };
    let server = match &lines.server {
        Some(line) => {
            let arguments = [program()?.into(), "load".into(), "--exec".into(), line.into()];
            let server = start(&arguments, "server")?;
            wait_for_port(&server, stop)?;
            Some(server)
        }
        None => None,
    };
    let ended = start(&timed(&lines.program, time)?, "program")?.end(Some(lines.limit), stop);
    let stderr = server.map_or_else(String::new, Group::terminate);
    let mut ended = ended?;
    if !ended.status.success() && !stderr.trim().is_empty() {
        ended.stderr = format!("{}\nthe server: {}", ended.stderr, last_lines(&stderr));
    }
    Ok(ended)
}

/// Waits until a server has bound a port. After the timeout the program is started all the same.
fn wait_for_port(server: &Group, stop: &Stop) -> Result<(), EngineError> {
    let latest = clock::now() + SERVER_START_TIMEOUT;
    while clock::now() < latest && !stop.is_set() {
        if server.has_bound_a_port() {
            return Ok(());
        }
        if server.has_ended() {
            let said = last_lines(&server.stderr());
            return Err(EngineError::Failed(format!("the server ended before the program started: {said}")));
        }
        pause();
    }
    Ok(())
}

fn free_port() -> Result<u16, EngineError> {
    let find = || -> io::Result<u16> {
        loop {
            let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = tcp.local_addr()?.port();
            if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(port);
            }
        }
    };
    find().map_err(|error| cannot("find a free port", &error))
}

/// Returns how a program failed: its exit code, and what it said last.
fn failure(ended: &Ended) -> String {
    let own: Vec<&str> = ended.stderr.lines().filter(|line| !line.starts_with("rdt-emu: ")).collect();
    let said = last_lines(&own.join("\n"));
    let code = ended.status.code().map_or_else(|| ended.status.to_string(), |code| format!("code {code}"));
    if said.is_empty() {
        format!("the program ended with {code} and without a message")
    } else {
        format!("the program ended with {code}: {said}")
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join(" / ")
}

/// Returns the metrics at a cell's JSON pointers, in the output or else in its last line.
fn metrics(physics: &Physics, stdout: &[u8]) -> Result<BTreeMap<String, f64>, EngineError> {
    let pointers: Vec<(&str, &str)> = physics
        .engine_words
        .iter()
        .filter_map(|(word, pointer)| Some((word.strip_prefix("metrics.")?, pointer.as_str())))
        .collect();
    let mut metrics = BTreeMap::new();
    if pointers.is_empty() {
        return Ok(metrics);
    }
    let text = String::from_utf8_lossy(stdout);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let output: Option<Value> = serde_json::from_str(&text).or_else(|_| serde_json::from_str(last)).ok();
    let output = output.ok_or_else(|| {
        let error = serde_json::from_str::<Value>(&text).err().map_or(String::new(), |it| format!(" ({it})"));
        let last: String = last.chars().take(LINE_LENGTH).collect();
        EngineError::Failed(format!("the standard output is no JSON{error}, nor is its last line, '{last}'"))
    })?;
    for (name, pointer) in pointers {
        let value = match output.pointer(pointer) {
            Some(Value::Bool(is_true)) => Some(f64::from(u8::from(*is_true))),
            Some(Value::String(text)) => text.trim().parse().ok(),
            value => value.and_then(Value::as_f64),
        };
        let value = value.filter(|value: &f64| value.is_finite());
        metrics.insert(
            name.to_owned(),
            value.ok_or_else(|| {
                EngineError::Failed(format!("the output has no number at '{pointer}', for the metric {name}"))
            })?,
        );
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::EngineKind;

    fn physics(path: Option<&str>, words: &[(&str, &str)]) -> Physics {
        Physics {
            engine: EngineKind::Command,
            duration: Some(Duration::from_millis(2_500)),
            links: path.map(|path| PathSpec::from_toml(path).expect("a path")).into_iter().collect(),
            flows: Vec::new(),
            engine_words: words.iter().map(|(word, value)| ((*word).into(), (*value).into())).collect(),
        }
    }

    #[test]
    fn placeholders_become_values() {
        let words = [
            ("program", "./c -t {for} -s {seed} {flags} {host}:{port} | awk '{print $1}'"),
            ("server", "./s {host} {port}"),
            ("flags", "-n 3"),
        ];
        let lines = |path| Lines::new(&physics(path, &words), u64::MAX, 7).expect("values for all");
        let here = lines(None);
        assert_eq!(here.program, "./c -t 2.5 -s 2147483647 -n 3 127.0.0.1:7 | awk '{print $1}'");
        assert_eq!(here.server.as_deref(), Some("./s 127.0.0.1 7"));
        assert_eq!(lines(Some("rtt = '1ms'")).server.as_deref(), Some("./s \"$RDT_LOCAL\" 7"));
        let error = Lines::new(&physics(None, &[("program", "{client}")]), 1, 7).err().expect("no client");
        assert!(error.to_string().contains("--client"), "{error}");
    }

    #[test]
    fn metrics_are_numbers_at_pointers() {
        let of = |pointer: &str, output: &str| {
            let physics = physics(None, &[("metrics.goodput", pointer)]);
            metrics(&physics, output.as_bytes()).map(|it| it.get("goodput").copied())
        };
        let output =
            "{\"end\": {\"bps\": 1.5e6, \"text\": \"12\", \"ok\": true, \"none\": null, \"list\": []}}";
        assert_eq!(of("/end/bps", output), Ok(Some(1.5e6)));
        assert_eq!(of("/end/bps", &format!("a word\n{output}\n\n")), Ok(Some(1.5e6)));
        assert_eq!(of("/end/text", output), Ok(Some(12.0)));
        assert_eq!(of("/end/ok", output), Ok(Some(1.0)));
        let wrong = [
            ("/end/list", output),
            ("/end/none", output),
            ("/nowhere", output),
            ("/end", "no JSON"),
            ("", ""),
            ("", "null"),
            ("/a", "{\"a\": \"NaN\"}"),
        ];
        for (pointer, output) in wrong {
            assert!(matches!(of(pointer, output), Err(EngineError::Failed(_))), "{pointer} in {output}");
        }
    }
}
