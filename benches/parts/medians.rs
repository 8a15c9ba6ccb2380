//! Table of medians in Markdown, from the files of criterion.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs};

use serde_json::Value;

/// Prints the medians of all benches that were measured since `begin`, in the order of measurement:
/// nanoseconds per element (such as a packet), or per call.
pub(crate) fn print(begin: SystemTime) {
    let mut rows: Vec<_> = measurements().into_iter().filter(|row| row.at >= begin).collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|row| row.at);
    println!("\n| part | what | median ns | GB/s |\n|---|---|---|---|");
    for Row { group, what, ns, gb_per_s, .. } in rows {
        let rate = gb_per_s.map_or_else(|| "-".into(), |rate| format!("{rate:.1}"));
        println!("| {group} | {what} | {ns:.1} | {rate} |");
    }
}

struct Row {
    at: SystemTime,
    group: String,
    what: String,
    ns: f64,
    gb_per_s: Option<f64>,
}

fn measurements() -> Vec<Row> {
    let groups = directories(&home());
    groups.iter().flat_map(|group| directories(group)).filter_map(|bench| read(&bench.join("new"))).collect()
}

/// Returns criterion's output folder.
fn home() -> PathBuf {
    let target = || env::var_os("CARGO_TARGET_DIR").map_or_else(built, PathBuf::from);
    env::var_os("CRITERION_HOME").map_or_else(|| target().join("criterion"), PathBuf::from)
}

/// Returns the build folder: the parent of cargo's folder for tests.
fn built() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn directories(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Reads the result in a folder; `None` if it has none.
fn read(path: &Path) -> Option<Row> {
    let estimates = path.join("estimates.json");
    let parse = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok();
    let (bench, figures) = (parse(&path.join("benchmark.json"))?, parse(&estimates)?);
    let median = figures["median"]["point_estimate"].as_f64()?;
    let throughput = &bench["throughput"];
    Some(Row {
        at: fs::metadata(&estimates).ok()?.modified().ok()?,
        group: bench["group_id"].as_str()?.into(),
        what: bench["function_id"].as_str()?.into(),
        ns: median / throughput["Elements"].as_f64().unwrap_or(1.0),
        gb_per_s: throughput["Bytes"].as_f64().map(|bytes| bytes / median),
    })
}
