//! `merge` of shards in parts, of folders that are there twice, and of journals that are damaged or
//! foreign.

use std::fs;
use std::path::{Path, PathBuf};

use rdt_lab::journal::{decode, encode};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::process::{arg, experiment, run, succeeds};

/// A place with an experiment of four cells and three repetitions.
struct Place {
    folder: TempDir,
    file: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempdir().expect("a temporary folder");
        let file = experiment(folder.path(), 1, 3);
        Self { folder, file }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a shard, such as `0/3`, and returns its folder of results.
    fn shard(&self, part: &str) -> PathBuf {
        let folder = self.path(&format!("shard-{}", part.replace('/', "-")));
        succeeds(&["run", &self.file, "-q", "--only-run", "--shard", part, "-o", arg(&folder)]);
        folder.join("short")
    }

    fn whole(&self, name: &str) -> PathBuf {
        let folder = self.path(name);
        succeeds(&["run", &self.file, "-q", "--only-run", "-o", arg(&folder)]);
        folder.join("short")
    }

    /// Merges folders into a new one, and returns the folder and what the program prints.
    fn merge(&self, name: &str, folders: &[&Path]) -> (PathBuf, Value) {
        let target = self.path(name);
        let mut args = vec!["merge", "--canonical", "--json", "-o", arg(&target)];
        args.extend(folders.iter().map(|it| arg(it)));
        let printed = succeeds(&args);
        (target.clone(), serde_json::from_str(&printed).expect("one object"))
    }
}

/// Returns the lines of a merged journal.
fn lines(folder: &Path) -> String {
    fs::read_to_string(folder.join("journal/merged.ndjson")).expect("a merged journal")
}

/// Returns the only journal of a folder that a run wrote.
fn journal(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder.join("journal")).expect("journals");
    let path = entries.next().expect("a journal").expect("an entry").path();
    assert!(entries.next().is_none(), "one journal");
    path
}

#[test]
fn merges_of_merges_equal_one_run() {
    let place = Place::new();
    let whole = place.whole("whole");
    let expected = lines(&place.merge("expected", &[&whole]).0);
    assert_eq!(expected.lines().count(), 12);
    let [one, two, three] = ["0/3", "1/3", "2/3"].map(|part| place.shard(part));
    let (part, summary) = place.merge("part", &[&one, &two]);
    assert_eq!(run(&["status", arg(&part)]).0, 3, "a shard is missing: {summary}");
    let (all, summary) = place.merge("all", &[&part, &three]);
    assert_eq!((lines(&all), &summary["duplicates"]), (expected.clone(), &Value::from(0)));
    succeeds(&["status", arg(&all)]);
    // Shards and the whole run overlap: each repetition is there once.
    let (both, summary) = place.merge("both", &[&three, &whole, &one]);
    assert_eq!(lines(&both), expected);
    let overlap = 12 - lines(&place.merge("second", &[&two]).0).lines().count();
    assert_eq!(summary["duplicates"], overlap, "{summary}");
    assert_eq!(lines(&place.merge("again", &[&both]).0), expected, "a merge of a merge");
}

#[test]
fn folder_given_twice_counts_once() {
    let place = Place::new();
    let whole = place.whole("whole");
    let once = lines(&place.merge("once", &[&whole]).0);
    let (twice, summary) = place.merge("twice", &[&whole, &whole]);
    assert_eq!(lines(&twice), once);
    assert_eq!((&summary["duplicates"], &summary["repetitions"]), (&12.into(), &12.into()), "{summary}");
}

#[test]
fn second_merge_into_a_folder_adds_to_it() {
    let place = Place::new();
    let whole = place.whole("whole");
    let expected = lines(&place.merge("expected", &[&whole]).0);
    let [one, two] = ["0/2", "1/2"].map(|part| place.shard(part));
    let (all, first) = place.merge("all", &[&one]);
    let (_, summary) = place.merge("all", &[&two]);
    assert_eq!(lines(&all), expected);
    assert_eq!(summary["repetitions_before"], first["repetitions"], "{summary}");
    assert_eq!(place.merge("all", &[&two]).1["repetitions"], 12, "the same once more");
    // Results of another experiment are refused, and what is there stays.
    let other = place.path("other.toml");
    let text = fs::read_to_string(&place.file).expect("the file").replace("41kb", "44kb");
    fs::write(&other, text).expect("a written file");
    succeeds(&["run", arg(&other), "-q", "--only-run", "-o", arg(&place.path("others"))]);
    let (code, _, err) = run(&["merge", arg(&place.path("others/short")), "-o", arg(&all)]);
    assert!(code == 65 && err.contains("different cells"), "{err}");
    assert_eq!(lines(&all), expected);
}

#[test]
fn damaged_lines_are_told_and_run_again() {
    let place = Place::new();
    let whole = place.whole("whole");
    let expected = lines(&place.merge("expected", &[&whole]).0);
    let path = journal(&whole);
    let text = fs::read_to_string(&path).expect("a journal");
    let mut damaged: Vec<String> = text.lines().map(str::to_owned).collect();
    damaged[2] = damaged[2].replacen("\"seed\":\"", "\"seed\":\"1", 1);
    damaged[7].truncate(100);
    let last = damaged.pop().expect("lines");
    fs::write(&path, damaged.join("\n") + "\n" + &last[..last.len() / 2]).expect("a damaged journal");
    let (_, summary) = place.merge("less", &[&whole]);
    assert_eq!(summary["repetitions"], 9, "{summary}");
    let told = summary["torn"][0].as_str().expect("a sentence");
    assert!(told.contains("line 3: torn or damaged") && told.ends_with("(and 2 further lines)"), "{told}");
    place.whole("whole");
    let (again, summary) = place.merge("again", &[&whole]);
    assert_eq!((lines(&again), &summary["duplicates"]), (expected, &Value::from(0)));
}

#[test]
fn several_experiments_merge_into_folders_of_their_own() {
    let place = Place::new();
    let other = place.path("other.toml");
    let text = fs::read_to_string(&place.file).expect("the file").replace("\"short\"", "\"other\"");
    fs::write(&other, text.replace("41kb", "44kb")).expect("a written file");
    let (one, two) = (place.path("one"), place.path("two"));
    for (folder, shard) in [(&one, "0/2"), (&two, "1/2")] {
        for file in [place.file.as_str(), arg(&other)] {
            succeeds(&["run", file, "-q", "--only-run", "--shard", shard, "-o", arg(folder)]);
        }
    }
    let target = place.path("all");
    let printed = succeeds(&["merge", arg(&one), arg(&two), "--json", "-o", arg(&target)]);
    let names: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an object")["experiment"].clone())
        .collect();
    assert_eq!(names, ["other", "short"]);
    for name in ["other", "short"] {
        assert_eq!(lines(&target.join(name)).lines().count(), 12);
        succeeds(&["status", arg(&target.join(name))]);
    }
}

#[test]
fn refused_merges_leave_no_journal() {
    let place = Place::new();
    let (one, two) = (place.whole("one"), place.whole("two"));
    let path = journal(&two);
    let good = fs::read_to_string(&path).expect("a journal");
    let change = |change: fn(&mut rdt_lab::Record)| {
        let lines = good.lines().map(|line| {
            let mut record = decode(line).expect("a record");
            change(&mut record);
            encode(&record)
        });
        fs::write(&path, lines.collect::<String>()).expect("a written journal");
        let target = place.path("all");
        let (code, _, err) = run(&["merge", arg(&one), arg(&two), "-o", arg(&target)]);
        assert!(!target.join("journal/merged.ndjson").exists(), "{err}");
        (code, err)
    };
    let (code, err) = change(|record| record.seed += u64::from(record.rep == 2));
    assert!(code == 65 && err.contains("has the seed"), "{err}");
    let (code, err) =
        change(|record| record.hash = record.hash.map(|hash| hash ^ u64::from(record.rep == 1)));
    assert!(code == 65 && err.contains("two different results"), "{err}");
    let (code, err) = change(|record| record.physics -= 1);
    assert!(code == 65 && err.contains("physics") && err.contains("line 1: "), "{err}");
}
