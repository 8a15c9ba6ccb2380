//! `rdt-lab import`: a table of foreign results, analysed as a factorial.

use std::fs::File;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::failure::Failure;
use super::output;
use crate::cell::levels_json;
use crate::foreign::{Columns, Contrast, Design, read};
use crate::statistics::Lenth;

const HELP: &str = "\
The first line of the file names the columns. The rows are a full factorial, or one for each
value of the columns of --each. Prints the mean at each level, and effects of factors with two
levels: the mean at the second level less that at the first, in the unit of the column. An
effect stands out beyond Lenth's margin of error at 95 % (one row for each combination), or if
its 95 % interval excludes zero (several rows).

Examples:
  rdt-lab import table.csv --factors sack,delay --response mbps
  rdt-lab import table.csv --factors sack,delay --response mbps,time_s --each file_kb --json";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct ImportArgs {
    /// Table in CSV, separated by commas
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Columns with the levels of factors, such as sack,delay
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', required = true)]
    factors: Vec<String>,
    /// Columns with measured numbers, such as mbps,seconds
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', required = true)]
    response: Vec<String>,
    /// Columns whose values divide the table into designs that are analysed separately
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    each: Vec<String>,
    /// Print all effects, not only those that stand out
    #[arg(long)]
    all: bool,
    /// Print JSON, one object for each design and response
    #[arg(long)]
    json: bool,
}

pub(super) fn import(args: &ImportArgs) -> Result<u8, Failure> {
    let file = File::open(&args.file).map_err(|error| Failure::Read(args.file.clone(), error))?;
    let columns =
        Columns { factors: args.factors.clone(), responses: args.response.clone(), each: args.each.clone() };
    let designs =
        read(file, &columns).map_err(|error| Failure::Usage(format!("{}: {error}", args.file.display())))?;
    for design in &designs {
        for (response, values) in &design.responses {
            let (contrasts, margins) = design.contrasts(values);
            let analysis = Analysis { design, response, values, contrasts, margins };
            if args.json {
                output::json(&object(&analysis))?;
            } else {
                output::text(&text(&analysis, args.all))?;
            }
        }
    }
    Ok(0)
}

/// One response of a design. Numbers are in the unit of its column.
struct Analysis<'a> {
    design: &'a Design,
    response: &'a str,
    values: &'a [Vec<f64>],
    contrasts: Vec<Contrast>,
    margins: Option<Lenth>,
}

fn object(of: &Analysis<'_>) -> Value {
    let Analysis { design, response, values, contrasts, margins } = of;
    let effects = contrasts.iter().map(|it| {
        json!({
            "effect": it.name,
            "estimate": it.effect.estimate,
            "interval_95": it.effect.interval.map(|interval| [interval.low, interval.high]),
            "half_normal_score": it.score,
            "is_active": it.is_active,
        })
    });
    json!({
        "part": levels_json(&design.part),
        "response": response,
        "combinations": values.len(),
        "repetitions": design.repetitions(),
        "marginal_means": design.marginal_means(values),
        "effects": effects.collect::<Vec<_>>(),
        "lenth": margins.map(|it| json!({
            "pseudo_standard_error": it.pseudo_standard_error,
            "margin_95": it.margin,
            "simultaneous_margin_95": it.simultaneous_margin,
        })),
    })
}

fn text(of: &Analysis<'_>, all: bool) -> String {
    let Analysis { design, response, values, contrasts, margins } = of;
    let part: Vec<String> = design.part.iter().map(|(name, value)| format!("{name}={value}, ")).collect();
    let part = part.concat();
    let repetitions = design.repetitions();
    let mut out = format!("{part}{response}: {} combinations, {repetitions} rows of each\n", values.len());
    let mut rows = vec![["factor", "level", "mean", "rows"].map(str::to_owned).to_vec()];
    for it in design.marginal_means(values) {
        rows.push(vec![it.factor, it.level, format!("{:.3}", it.mean), it.rows.to_string()]);
    }
    out += &output::table(&rows);
    if let Some(it) = margins {
        let line = format!(
            "Unreplicated, so judged by Lenth's method: margin of error {:.3}, of all effects at once {:.3}\n",
            it.margin, it.simultaneous_margin
        );
        out += &line;
    }
    let has_interval = contrasts.iter().any(|it| it.effect.interval.is_some());
    let interval = has_interval.then(|| "95 %".to_owned());
    let heads = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let mut rows = vec![
        [heads(&["effect", "estimate"]), interval.into_iter().collect(), heads(&["score", ""])].concat(),
    ];
    for it in contrasts.iter().filter(|it| all || it.is_active) {
        let mut row = vec![it.name.clone(), format!("{:+.3}", it.effect.estimate)];
        let ends = it.effect.interval.map(|it| format!("{:+.3} to {:+.3}", it.low, it.high));
        row.extend(has_interval.then(|| ends.unwrap_or_default()));
        row.extend([format!("{:.3}", it.score), if it.is_active { "stands out" } else { "" }.to_owned()]);
        rows.push(row);
    }
    if rows.len() > 1 {
        out += &output::table(&rows);
    }
    let silent = contrasts.iter().filter(|it| !it.is_active).count();
    out + &format!("{silent} of {} effects cannot be told from noise\n\n", contrasts.len())
}
