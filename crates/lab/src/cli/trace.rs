//! `rdt-lab trace`: the TCP connections of a capture.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::files::{files, write};
use super::shell::shell_word;
use super::{output, talk_all};
use crate::report::html;
use crate::trace::{
    CaptureError, Choice, Trace, analyse, connection, limits, list, nothing, remarks, report as page, table,
};

const HELP: &str = "\
The file is pcap or pcapng, as tcpdump, Wireshark and 'rdt-emu run --pcapng' write it, plain or
compressed by gzip. The table has the figures of 'tcptrace -l -r -W' for both directions, then what
kept the sender from sending faster.

Examples:
  rdt-lab trace file.pcapng                  the table of each connection
  rdt-lab trace file.pcapng --list           one line for each connection
  rdt-lab trace - <file.pcapng               the same from standard input, such as a pipe
  rdt-lab trace file.pcapng --flow 2 -o report.html
  rdt-lab trace file.pcapng --between 10s..12s --export graphs";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct TraceArgs {
    /// Capture in pcap or pcapng, '-' for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Analyse only connection N, counted from 1 in the order of their first packets
    #[arg(long, value_name = "N")]
    flow: Option<usize>,
    /// Analyse only packets of this interface of the file, by its name, or by its number from 0 if
    /// it has none [default: all; of a connection that several interfaces have, the one where the
    /// data of the sender appeared first]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Print one line for each connection instead of its table
    #[arg(long, conflicts_with = "flow")]
    list: bool,
    /// Print JSON, one object for each connection
    #[arg(long, conflicts_with = "list")]
    json: bool,
    /// Write an HTML page with tables and graphs to FILE
    #[arg(short, long, value_name = "FILE", group = "graphs", conflicts_with_all = ["list", "json"])]
    output: Option<PathBuf>,
    /// Write the graphs into DIR as SVG, CSV, gnuplot and xplot files
    #[arg(long, value_name = "DIR", group = "graphs", conflicts_with_all = ["list", "json"])]
    export: Option<PathBuf>,
    /// Limit the graphs to a span of time from a connection's first packet, such as 10s..12s; needs
    /// -o or --export
    #[arg(long, value_name = "TIMES", value_parser = between, requires = "graphs")]
    between: Option<(f64, f64)>,
}

/// Analyses the file, or the packets of one of its interfaces.
fn read(args: &TraceArgs) -> Result<Trace, Failure> {
    let name = name(&args.file);
    let wanted = args.interface.as_deref();
    let analysed = if is_standard_input(&args.file) {
        analyse(io::stdin(), wanted)
    } else {
        let file = File::open(&args.file).map_err(|error| Failure::Read(args.file.clone(), error))?;
        analyse(file, wanted)
    };
    let trace = analysed.map_err(|error| match error {
        CaptureError::Format | CaptureError::Compressed(_) => Failure::Data(format!("{name}: {error}")),
        CaptureError::Empty | CaptureError::Read(_) => {
            Failure::Nothing(format!("nothing to read in {name}: {error}"))
        }
    })?;
    let extent = &trace.extent;
    let indices = 0..extent.interfaces.len();
    if let Some(wanted) = wanted.filter(|it| !indices.clone().any(|index| extent.is_called(index, it))) {
        let names: Vec<String> = indices.map(|index| extent.name(index)).collect();
        return Err(Failure::Usage(format!(
            "{name} has no interface '{wanted}': it has '{}'",
            names.join("', '")
        )));
    }
    Ok(trace)
}

fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

pub(super) fn trace(args: &TraceArgs) -> Result<u8, Failure> {
    let trace = read(args)?;
    let remarks = remarks(&trace, &name(&args.file));
    talk_all(&remarks);
    if let Some(why) = nothing(&trace) {
        return Err(Failure::Nothing(format!("nothing to analyse in {}: {why}", name(&args.file))));
    }
    let count = trace.connections.len();
    let chosen = match args.flow {
        None => 0..count,
        Some(number) if (1..=count).contains(&number) => number - 1..number,
        Some(number) => {
            let message = format!("there is no connection {number}: the file has {count}, counted from 1");
            return Err(Failure::Usage(message));
        }
    };
    let choice = Choice {
        file: name(&args.file),
        connections: chosen.clone().collect(),
        between: args.between,
        command: command(args),
        remarks,
    };
    if let Some(folder) = &args.export {
        return export(&trace, &choice, folder);
    }
    if let Some(path) = &args.output {
        write(path, html(&page(&trace, &choice)))?;
        output::text(&format!("The report is {}\n", path.display()))?;
        return Ok(0);
    }
    if args.json {
        for index in chosen {
            output::json(&connection(&trace, index))?;
        }
    } else if args.list {
        output::text(&list(&trace))?;
    } else {
        let tables: Vec<String> = chosen.map(|index| table(&trace, index) + &limits(&trace, index)).collect();
        output::text(&tables.join("================================\n"))?;
    }
    Ok(0)
}

/// Returns the name of a file without its folders, so that pages are equal wherever it is.
fn name(file: &Path) -> String {
    if is_standard_input(file) {
        return "standard input".to_owned();
    }
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the command that makes the page again.
fn command(args: &TraceArgs) -> String {
    let flow = args.flow.map_or_else(String::new, |flow| format!(" --flow {flow}"));
    let quoted = |text: &String| shell_word(text).unwrap_or_else(|_| text.clone());
    let interface =
        args.interface.as_ref().map_or_else(String::new, |name| format!(" --interface {}", quoted(name)));
    let between =
        args.between.map_or_else(String::new, |(begin, end)| format!(" --between {begin}s..{end}s"));
    let file = if is_standard_input(&args.file) { "-".to_owned() } else { quoted(&name(&args.file)) };
    format!("rdt-lab trace {file}{flow}{interface}{between} -o report.html")
}

/// Writes the graphs as files.
fn export(trace: &Trace, choice: &Choice, folder: &Path) -> Result<u8, Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::Create(folder.to_owned(), error))?;
    let mut count = 0;
    for scene in page(trace, choice).sections.iter().flat_map(|section| &section.figures) {
        for (end, content) in files(scene, |_| true) {
            write(&folder.join(format!("{}.{end}", scene.id)), content)?;
            count += 1;
        }
    }
    output::text(&format!("{count} files in {}\n", folder.display()))?;
    Ok(0)
}

/// Parses `10s..12s`.
fn between(text: &str) -> Result<(f64, f64), String> {
    let parts = text.split_once("..").ok_or("write two times, such as 10s..12s")?;
    let time = |text: &str| rdt_emulator::parse_duration(text).map_err(|error| error.to_string());
    let (begin, end) = (time(parts.0)?.as_secs_f64(), time(parts.1)?.as_secs_f64());
    if begin < end { Ok((begin, end)) } else { Err("the second time must be after the first".to_owned()) }
}
