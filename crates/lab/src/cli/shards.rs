//! Shards of an experiment: their names, their number in a folder of results, the line that runs
//! missing ones.

use std::path::Path;
use std::{fs, io};

use super::failure::Failure;
use super::shell::{in_path, shell_word};
use crate::run::EXPERIMENT_FILE;

/// Limit on the number of shards.
pub(super) const MAX_SHARDS: u32 = 10_000;
/// Name of the file with the number of shards, in a folder of results.
const SHARDS_FILE: &str = "shards";

/// Parses `I/N`: index from 0, and number of shards.
pub(super) fn shard(text: &str) -> Result<(u32, u32), String> {
    let parts =
        text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    parts.filter(|(index, count)| index < count && *count <= MAX_SHARDS).ok_or_else(|| {
        format!(
            "'{text}' is no shard of up to {MAX_SHARDS}: write 0/4 for the first of four, 3/4 for the last"
        )
    })
}

/// Returns the line for a shell that runs shards of the experiment in a folder of results. `None`
/// if a run would not write into this folder, because it has another name than the experiment.
pub(super) fn resume(folder: &Path, name: &str, shards: &[u32], count: u32) -> Option<String> {
    if folder.file_name()? != name {
        return None;
    }
    let results = match folder.parent()? {
        empty if empty.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    let file = shell_word(folder.join(EXPERIMENT_FILE).to_str()?).ok()?;
    let results = shell_word(results.to_str()?).ok()?;
    let list = |separator: &str| shards.iter().map(u32::to_string).collect::<Vec<_>>().join(separator);
    Some(if in_path("sbatch").is_some() {
        let array = list(",");
        format!("rdt-lab scale slurm {file} --shards {count} | RESULTS={results} sbatch --array={array}")
    } else {
        let shards = list(" ");
        format!("for i in {shards}; do rdt-lab run {file} -o {results} --shard $i/{count} --only-run; done")
    })
}

/// Returns the number of shards of a folder. `None` if no shard was run in it.
pub(super) fn shards_of(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join(SHARDS_FILE)).ok()?.trim().parse().ok()
}

/// Records the number of shards of a folder, or compares it with the recorded one.
pub(super) fn agree_on_shards(folder: &Path, wanted: u32) -> Result<(), Failure> {
    let path = folder.join(SHARDS_FILE);
    let failed = |error| Failure::Create(path.clone(), error);
    if !path.exists() {
        // A link cannot replace a file, so of several tasks that start at once the first one wins.
        let unfinished = folder.join(format!("{SHARDS_FILE}.{}", std::process::id()));
        fs::write(&unfinished, format!("{wanted}\n")).map_err(failed)?;
        let linked = fs::hard_link(&unfinished, &path);
        let placed = match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&unfinished, &path),
            _ => fs::remove_file(&unfinished),
        };
        placed.map_err(failed)?;
    }
    match shards_of(folder) {
        Some(found) if found != wanted => Err(Failure::Data(format!(
            "{} has results of {found} shards and this run has {wanted}: run --shard I/{found}, or choose a new folder",
            folder.display()
        ))),
        Some(_) => Ok(()),
        None => Err(Failure::Data(format!(
            "{} has no number of shards: write the number of the runs so far into it, or remove the file",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_zero() {
        assert_eq!(shard("3/4"), Ok((3, 4)));
        for wrong in ["4/4", "1", "a/b", "-1/4", "0/0", "0/4000000000"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }
}
