//! `rdt-lab claims`.

use std::path::PathBuf;

use super::failure::{Failure, gravest};
use super::folder::of_folder;
use super::load::all_results;
use super::talk;
use super::verdicts::{Detail, print};

const HELP: &str = "\
A claim holds or fails if the repetitions show it, with a probability of error of 5 % for all
claims of an experiment together. Else it is undecided, or not measured if the results lack its
cells or metrics.

Exit codes: 0 all claims hold; 1 a claim fails, or an expected value that must be met is not;
2 repetitions failed; 3 a claim, or such a value, was not measured; 4 a claim is undecided (only
with --strict).
With several of these, the first of 2, 1, 3, 4.

Examples:
  rdt-lab claims results/000-a                 every verdict, with estimate and interval
  rdt-lab claims results --strict              all experiments; fails if one claim is undecided
  rdt-lab claims results --json | jq 'select(.verdict == \"fails\")'";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct ClaimsArgs {
    /// Folders of results, or folders of such folders
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Fail with code 4 if a claim is undecided
    #[arg(long)]
    strict: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn claims(args: &ClaimsArgs) -> Result<u8, Failure> {
    let mut worst = 0;
    for folder in all_results(&args.folders)? {
        let (loaded, results) = of_folder(&folder)?;
        for remark in results.remarks() {
            talk(&format!("{}: {remark}", loaded.experiment.name));
        }
        let repetitions: usize = results.records.values().map(std::collections::BTreeMap::len).sum();
        let summary = format!("{repetitions} repetitions in {}", folder.display());
        let detail = if args.json { Detail::Json } else { Detail::All };
        worst = gravest(worst, print(&loaded, &results, detail, args.strict, &summary)?);
    }
    Ok(worst)
}
