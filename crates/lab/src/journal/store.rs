//! Store: the records of all journals of some folders, without duplicates.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::JOURNAL_FOLDER;
use super::line::{LineError, cell, comparable, decode};
use crate::cell::{CellId, PHYSICS_VERSION};
use crate::record::{Record, Status};

/// Why folders cannot be read as one store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, io::Error),
    /// A program with other physics or another format of lines wrote the record.
    #[error("{}, line {}: {reason}; keep old and new results in separate folders", .file.display(), .line)]
    Foreign {
        /// The journal file.
        file: PathBuf,
        /// Number of the line.
        line: usize,
        /// The difference.
        reason: String,
    },
    /// Two records of one repetition exclude each other: a sentence with their places.
    #[error("{0}")]
    Differ(String),
}

/// A record with its place: index of the file in the store, and line from 1.
#[derive(Debug)]
struct Stored {
    record: Record,
    file: usize,
    line: usize,
}

/// The records of some folders by cell and repetition.
#[derive(Debug, Default)]
pub struct Store {
    records: BTreeMap<(CellId, u32), Stored>,
    files: Vec<PathBuf>,
    /// Files and numbers of lines that are torn or damaged. Their repetitions run again.
    torn: Vec<(PathBuf, usize)>,
    duplicates: u64,
}

impl Store {
    /// Reads every journal in and below some folders. Folders without journals give an empty store.
    pub fn read(folders: &[PathBuf]) -> Result<Self, StoreError> {
        let mut store = Self::default();
        for folder in folders {
            for file in journals(folder)? {
                store.read_file(&file)?;
            }
        }
        Ok(store)
    }

    /// Returns the records of a cell, by number of the repetition.
    pub fn of_cell(&self, cell: CellId) -> impl Iterator<Item = &Record> {
        self.records.range((cell, 0)..=(cell, u32::MAX)).map(|(_, stored)| &stored.record)
    }

    /// Returns all records, by cell and number of the repetition.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values().map(|stored| &stored.record)
    }

    /// Returns all records by value, by cell and number of the repetition.
    pub fn into_records(self) -> impl Iterator<Item = Record> {
        self.records.into_values().map(|stored| stored.record)
    }

    /// Returns a sentence for each file with lines that were ignored.
    pub fn remarks(&self) -> Vec<String> {
        let of_file = |torn: &[(PathBuf, usize)]| {
            let ((file, line), more) = (&torn[0], torn.len() - 1);
            let further = if more > 0 { format!(" (and {more} further lines)") } else { String::new() };
            let file = file.display();
            format!("{file}, line {line}: torn or damaged, ignored; its repetition will run again{further}")
        };
        self.torn.chunk_by(|one, two| one.0 == two.0).map(of_file).collect()
    }

    /// Returns the number of lines whose repetition another line has too.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns the place of a record: file and line.
    pub fn place(&self, cell: CellId, rep: u32) -> Option<(&Path, usize)> {
        self.records.get(&(cell, rep)).map(|it| (self.files[it.file].as_path(), it.line))
    }

    fn read_file(&mut self, path: &Path) -> Result<(), StoreError> {
        let bytes = fs::read(path).map_err(|error| StoreError::Read(path.to_owned(), error))?;
        let file = self.files.len();
        self.files.push(path.to_owned());
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            let whole = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
            match whole.map_or(Err(LineError::Damaged), decode) {
                Ok(record) if record.physics == PHYSICS_VERSION => {
                    self.insert(Stored { record, file, line: number })?;
                }
                Err(LineError::Damaged) => self.torn.push((path.to_owned(), number)),
                foreign => {
                    let physics = |Record { physics, .. }: Record| {
                        format!("it has physics {physics}, this program has physics {PHYSICS_VERSION}")
                    };
                    let reason = foreign.map_or_else(|error| error.to_string(), physics);
                    return Err(StoreError::Foreign { file: path.to_owned(), line: number, reason });
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, new: Stored) -> Result<(), StoreError> {
        let mut old = match self.records.entry((new.record.cell, new.record.rep)) {
            Entry::Vacant(vacant) => {
                vacant.insert(new);
                return Ok(());
            }
            Entry::Occupied(occupied) => occupied,
        };
        self.duplicates += 1;
        let (before, after) = (&old.get().record, &new.record);
        let comparable = after.engine.is_virtual().then(|| comparable(before) == comparable(after));
        if before.seed != after.seed || comparable == Some(false) {
            let place = |it: &Stored| format!("{}, line {}", self.files[it.file].display(), it.line);
            return Err(StoreError::Differ(conflict([before, after], [place(old.get()), place(&new)])));
        }
        // In real time a failed repetition runs again, and other hosts may have run it too.
        if before.status != Status::Ok && after.status == Status::Ok {
            old.insert(new);
        }
        Ok(())
    }
}

/// Returns a sentence about two records of one repetition that exclude each other, with their
/// places.
fn conflict([before, after]: [&Record; 2], [one, two]: [String; 2]) -> String {
    let Record { cell, rep, seed, .. } = before;
    if *seed == after.seed {
        return format!(
            "repetition {rep} of cell {cell} has two different results: {one}, and {two}; in virtual time a repetition \
             depends on its seed alone, so one of the two hosts or programs differs from the other"
        );
    }
    format!(
        "repetition {rep} of cell {cell} has the seed {seed} in {one}, and {} in {two}; keep results of different seeds \
         in separate folders",
        after.seed
    )
}

/// Returns the records of some cells in and below a folder, with duplicates. Lines that are damaged
/// or have another format are left out.
///
/// # Errors
/// A folder or file cannot be read.
pub fn lines_of_cells(folder: &Path, cells: &BTreeSet<CellId>) -> Result<Vec<Record>, StoreError> {
    let mut records = Vec::new();
    for file in journals(folder)? {
        let text = fs::read(&file).map_err(|error| StoreError::Read(file, error))?;
        let text = String::from_utf8_lossy(&text);
        // Most lines belong to other cells, and their check costs more than this search.
        let wanted = text.lines().filter(|line| cell(line).is_some_and(|cell| cells.contains(&cell)));
        records.extend(wanted.filter_map(|line| decode(line).ok()));
    }
    Ok(records)
}

/// Returns the journal files in and below a folder, sorted.
fn journals(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error| StoreError::Read(folder.to_owned(), error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let is_journal = folder.file_name().is_some_and(|name| name == JOURNAL_FOLDER);
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if entry.file_type().map_err(failed)?.is_dir() {
            files.extend(journals(&path)?);
        } else if is_journal && path.extension().is_some_and(|it| it == "ndjson") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::super::line::tests::record;
    use super::super::{Durability, JournalWriter, encode};
    use super::*;
    use crate::cell::EngineKind;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    fn written(records: &[Record]) -> tempfile::TempDir {
        let folder = folder();
        let mut writer = JournalWriter::create(folder.path(), "a/b", Durability::Batched).expect("a journal");
        for record in records {
            writer.append(record).expect("an appended line");
        }
        folder
    }

    fn read(folders: &[&tempfile::TempDir]) -> Result<Store, StoreError> {
        Store::read(&folders.iter().map(|it| it.path().to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn journals_of_several_folders_are_one_store() {
        let (one, two) = (written(&[record(1, 0), record(1, 1)]), written(&[record(1, 1), record(2, 0)]));
        let store = read(&[&one, &two]).expect("a store");
        let reps: Vec<_> = store.records().map(|it| (it.cell.0[0], it.rep)).collect();
        assert_eq!((reps, store.duplicates()), (vec![(1, 0), (1, 1), (2, 0)], 1));
    }

    #[test]
    fn torn_lines_are_named_and_ignored() {
        let folder = written(&[record(1, 0)]);
        let line = encode(&record(1, 1));
        let path = folder.path().join(JOURNAL_FOLDER).join("other.ndjson");
        for cut in [0, 1, line.len() / 2, line.len() - 1] {
            fs::write(&path, encode(&record(1, 2)) + &line[..cut]).expect("a written file");
            let store = read(&[&folder]).expect("a store");
            let expected = if cut == 0 { vec![] } else { vec![(path.clone(), 2)] };
            assert_eq!((&store.torn, store.records().count()), (&expected, 2), "cut after {cut} bytes");
        }
    }

    #[test]
    fn results_that_differ_are_an_error() {
        let mut other = record(1, 0);
        other.metrics.insert("goodput".to_owned(), 1.0);
        let (one, two) = (written(&[record(1, 0)]), written(&[other]));
        let error = read(&[&one, &two]).expect_err("two results").to_string();
        for folder in [&one, &two] {
            assert!(error.contains(&folder.path().display().to_string()), "{error}");
        }
        let renamed = Record { experiment: "other".to_owned(), factors: Vec::new(), ..record(1, 0) };
        assert!(read(&[&one, &written(&[renamed])]).is_ok(), "experiments may share a cell");
        let slower = Record { wall_ms: 9000, host: "other".to_owned(), ..record(1, 0) };
        assert!(read(&[&one, &written(&[slower])]).is_ok(), "times and hosts may differ");
        let rebuilt = Record { tool: "0.1.0+1a2b3c4d".to_owned(), ..record(1, 0) };
        let store = read(&[&one, &written(&[rebuilt])]).expect("builds may differ");
        assert_eq!((store.records().count(), store.duplicates()), (1, 1));
    }

    #[test]
    fn results_of_two_seeds_name_both() {
        let other = written(&[Record { seed: 5, ..record(1, 0) }]);
        let error = read(&[&written(&[record(1, 0)]), &other]).expect_err("two seeds").to_string();
        assert!(error.contains(&format!("the seed {} in ", u64::MAX - 3)), "{error}");
        assert!(error.contains("and 5 in ") && error.contains("different seeds in separate"), "{error}");
    }

    #[test]
    fn valid_results_replace_failed_ones() {
        let real = Record { engine: EngineKind::Real, hash: None, ..record(1, 0) };
        let failed = Record { status: Status::Failed("no route".to_owned()), ..real.clone() };
        for records in [[real.clone(), failed.clone()], [failed, real]] {
            let store = read(&[&written(&records)]).expect("a store");
            assert!(store.records().all(|it| it.status == Status::Ok) && store.duplicates() == 1);
        }
    }

    #[test]
    fn other_physics_are_an_error() {
        let folder = written(&[Record { physics: PHYSICS_VERSION + 1, ..record(1, 0) }]);
        let error = read(&[&folder]).expect_err("other physics").to_string();
        assert!(error.contains("physics"), "{error}");
    }

    #[test]
    fn an_empty_journal_leaves_no_file() {
        let folder = written(&[]);
        let left = fs::read_dir(folder.path().join(JOURNAL_FOLDER)).expect("the folder").count();
        assert_eq!(left, 0);
    }
}
