//! `rdt-lab report`, `limits` and `export`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::failure::Failure;
use super::files::{files, write};
use super::folder::of_folder;
use super::load::all_results;
use super::output;
use super::page::{REPORT_FILE, sections, whole};
use super::rows::Form;
use crate::report::{self, Bound, LIMITS, Scene, Subject, html, text};

const LIMITS_HELP: &str = "\
Each flow's life is divided by what kept it from sending faster; the shares sum to 100 %:
  start        connection set-up, until data can be sent
  application  the application has nothing to send
  window       the receiver's window is full
  cwnd         the congestion window is full, or pacing waits, and the link has no queue
  link         the link is busy with a queue
  recovery     loss recovery, or waiting for a retransmission timeout
  host         the host did not send although it could (engines of real time)

Examples:
  rdt-lab limits results/000-h
  rdt-lab limits results --json | jq 'select(.largest == \"window\") | .remedy'";

#[derive(Debug, clap::Args)]
#[command(after_help = LIMITS_HELP)]
pub(super) struct LimitsArgs {
    /// Folders of results, or folders of such folders
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Print JSON, one object for each flow of each cell; shares from 0 to 1
    #[arg(long)]
    json: bool,
}

const REPORT_HELP: &str = "\
The page is one HTML file that loads nothing else. It has the claims with their verdicts,
figures with theory, tables, and the statements of the source that do not hold. 'rdt-lab run'
writes it too.

Examples:
  rdt-lab report results                       all experiments in results/report.html
  rdt-lab report results/000-a -o 000-a.html   one experiment
  rdt-lab report results/000-a --text | less   the same for a terminal";

#[derive(Debug, clap::Args)]
#[command(after_help = REPORT_HELP)]
pub(super) struct ReportArgs {
    /// Folders of results, or folders of such folders
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// File of the page [default: report.html in the first folder]
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    output: Option<PathBuf>,
    /// Print the report as text instead
    #[arg(long)]
    text: bool,
}

const EXPORT_HELP: &str = "\
Without a kind of file, figures are written as SVG, CSV, gnuplot and xplot. Keys and columns of
rows end in their unit: _bps bits per second, _s seconds, _bytes, _count.

Examples:
  rdt-lab export results/000-a -o figures      all figures in these four kinds of files
  rdt-lab export results/000-a --svg --csv     pictures for a paper, with their data
  rdt-lab export results/000-a --png --dpi 600 pictures for programs that read no SVG
  rdt-lab export results --rows csv > all.csv  one row for each repetition of all experiments";

#[derive(Debug, clap::Args)]
#[command(after_help = EXPORT_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct ExportArgs {
    /// Folders of results, or folders of such folders
    #[arg(value_name = "DIR", required = true)]
    pub(super) folders: Vec<PathBuf>,
    /// Folder for the files, created if it does not exist
    #[arg(short, long, value_name = "DIR", default_value = "figures")]
    output: PathBuf,
    /// Print one row for each repetition, with levels and metrics, instead of figures: a table in
    /// CSV, or one JSON object a line
    #[arg(long, value_name = "FORM", conflicts_with_all = ["svg", "csv", "gnuplot", "xplot", "png", "parquet"])]
    pub(super) rows: Option<Form>,
    /// Write pictures as SVG
    #[arg(long)]
    svg: bool,
    /// Write the data of figures as CSV
    #[arg(long)]
    csv: bool,
    /// Write commands and data for gnuplot
    #[arg(long)]
    gnuplot: bool,
    /// Write files for xplot, the viewer of tcptrace's graphs
    #[arg(long)]
    xplot: bool,
    /// Write PNG, 12 cm wide in print, with fonts of this host (needs a build with --features png)
    #[arg(long)]
    png: bool,
    /// Resolution of PNG in dots per inch
    #[arg(long, value_name = "N", requires = "png", conflicts_with = "width", default_value_t = 300,
          value_parser = clap::value_parser!(u16).range(36..=1200))]
    dpi: u16,
    /// Width of PNG in pixels
    #[arg(long, value_name = "PIXELS", requires = "png",
          value_parser = clap::value_parser!(u32).range(100..=10_000))]
    width: Option<u32>,
    /// Write the rows of --rows csv to repetitions.parquet, with types (needs a build with
    /// --features parquet)
    #[arg(long)]
    parquet: bool,
}

pub(super) fn report(args: &ReportArgs) -> Result<u8, Failure> {
    if args.text {
        output::text(&text(&whole(&args.folders)?))?;
        return Ok(0);
    }
    let path = args.output.clone().unwrap_or_else(|| args.folders[0].join(REPORT_FILE));
    write(&path, html(&whole(&args.folders)?))?;
    output::text(&format!("The report is {}\n", path.display()))?;
    Ok(0)
}

pub(super) fn limits(args: &LimitsArgs) -> Result<u8, Failure> {
    for folder in all_results(&args.folders)? {
        let (loaded, results) = of_folder(&folder)?;
        let experiment = &loaded.experiment;
        let subject = Subject { experiment, results: &results, judgements: &[], command: "" };
        let bounds = report::limits(&subject);
        if args.json {
            for it in &bounds {
                output::json(&limits_object(&experiment.name, it))?;
            }
        } else {
            output::text(&limits_table(&experiment.name, &bounds))?;
        }
    }
    Ok(0)
}

fn limits_object(experiment: &str, it: &Bound) -> Value {
    let shares = LIMITS.iter().zip(it.shares).map(|((word, _), share)| ((*word).to_owned(), share.into()));
    json!({
        "experiment": experiment,
        "levels": it.levels,
        "engine": it.engine.word(),
        "flow": it.flow,
        "shares": Value::Object(shares.collect()),
        "largest": it.largest().0,
        "remedy": it.remedy,
    })
}

/// Returns a table with a line for each flow of each cell. Limits that bind no flow are left out.
fn limits_table(experiment: &str, bounds: &[Bound]) -> String {
    let binds = |i: usize| bounds.iter().any(|it| it.shares[i] >= 0.0005);
    let columns: Vec<usize> = (0..LIMITS.len()).filter(|i| binds(*i)).collect();
    let head = ["cell", "engine", "flow"].map(str::to_owned).into_iter();
    let head = head.chain(columns.iter().map(|i| LIMITS[*i].0.to_owned())).chain(["lifted by".to_owned()]);
    let mut rows = vec![head.collect::<Vec<String>>()];
    rows.extend(bounds.iter().map(|it| {
        let words = [it.levels.clone(), it.engine.to_string(), it.flow.clone()].into_iter();
        let shares = columns.iter().map(|i| format!("{:.1} %", it.shares[*i] * 100.0));
        words.chain(shares).chain([it.remedy.clone().unwrap_or_default()]).collect()
    }));
    format!("{experiment}: share of each flow's life by what limits it\n{}", output::table(&rows))
}

pub(super) fn export(args: &ExportArgs) -> Result<u8, Failure> {
    let kinds = [("svg", args.svg), ("csv", args.csv), ("gnuplot", args.gnuplot), ("xplot", args.xplot)];
    let all = !(kinds.iter().any(|(_, is_wanted)| *is_wanted) || args.png || args.parquet);
    let painter = args.png.then(|| painter(args.width.unwrap_or(pixels(args.dpi)))).transpose()?;
    let rows = args.parquet.then(|| parquet(&args.folders)).transpose()?;
    fs::create_dir_all(&args.output).map_err(|error| Failure::Create(args.output.clone(), error))?;
    let mut written = BTreeSet::new();
    if let Some(rows) = rows {
        let path = args.output.join(ROWS_FILE);
        write(&path, rows)?;
        written.insert(path);
    }
    for section in sections(&args.folders)? {
        for scene in &section.figures {
            let texts = files(scene, |kind| all || kinds.contains(&(kind, true))).into_iter();
            let mut files: Vec<(String, Vec<u8>)> =
                texts.map(|(end, text)| (end, text.into_bytes())).collect();
            if let Some(painter) = &painter {
                files.push(("png".to_owned(), painter(scene)?));
            }
            for (end, content) in files {
                let path = args.output.join(format!("{}.{end}", scene.id));
                if !written.insert(path.clone()) {
                    return Err(Failure::Usage(format!(
                        "two of these folders have results of experiment {}, whose figures have the same file names: \
                         export each into a folder of its own with -o",
                        section.name
                    )));
                }
                write(&path, content)?;
            }
        }
    }
    output::text(&format!("{} files in {}\n", written.len(), args.output.display()))?;
    Ok(0)
}

/// Name of the file of repetitions among exported files.
const ROWS_FILE: &str = "repetitions.parquet";

/// Returns the pixels of 12 cm: in a figure printed that wide, letters have 8 points.
fn pixels(dpi: u16) -> u32 {
    (u32::from(dpi) * 1200 + 127) / 254
}

/// Function that returns a figure as a PNG file.
type Painter = Box<dyn Fn(&Scene) -> Result<Vec<u8>, Failure>>;

#[cfg(feature = "png")]
fn painter(width: u32) -> Result<Painter, Failure> {
    let failed = |error: report::png::PngError| Failure::Unavailable(error.to_string());
    let painter = report::png::Painter::new(width).map_err(failed)?;
    Ok(Box::new(move |scene| painter.png(scene).map_err(failed)))
}

#[cfg(not(feature = "png"))]
fn painter(_: u32) -> Result<Painter, Failure> {
    Err(Failure::without("PNG", "png"))
}

/// Returns the repetitions of folders as a Parquet file.
#[cfg(feature = "parquet")]
fn parquet(given: &[PathBuf]) -> Result<Vec<u8>, Failure> {
    Ok(super::parquet::parquet(&super::rows::records(given)?))
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &[PathBuf]) -> Result<Vec<u8>, Failure> {
    Err(Failure::without("Parquet", "parquet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_of_12_cm_has_dots_per_inch() {
        assert_eq!([72, 300, 600].map(pixels), [340, 1417, 2835]);
    }
}
