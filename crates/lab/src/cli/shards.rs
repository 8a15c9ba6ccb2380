//! Number of shards of a folder of results. All tasks must agree on it, because it decides which
//! cells a shard has.

use std::fs;
use std::io;
use std::path::Path;

use super::failure::Failure;

/// Name of the file with the number of shards, in a folder of results.
const SHARDS_FILE: &str = "shards";

/// Returns the number of shards of a folder. `None` if no shard was run in it.
pub(super) fn count(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join(SHARDS_FILE)).ok()?.trim().parse().ok()
}

/// Records the number of shards of a folder, or compares it with the recorded one.
pub(super) fn agree(folder: &Path, wanted: u32) -> Result<(), Failure> {
    let path = folder.join(SHARDS_FILE);
    let failed = |error| Failure::Create(path.clone(), error);
    if !path.exists() {
        // The file appears with its content, and the first of several tasks wins.
        let unfinished = folder.join(format!("{SHARDS_FILE}.{}", std::process::id()));
        fs::write(&unfinished, format!("{wanted}\n")).map_err(failed)?;
        let linked = fs::hard_link(&unfinished, &path);
        let placed = match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&unfinished, &path),
            _ => fs::remove_file(&unfinished),
        };
        placed.map_err(failed)?;
    }
    match count(folder) {
        Some(found) if found != wanted => Err(Failure::Data(format!(
            "{} was begun with {found} shards and this run has {wanted}: run --shard I/{found}, or choose a new folder",
            folder.display()
        ))),
        _ => Ok(()),
    }
}
