//! `export`: repetitions as rows, and formats that are features of the crate.

use std::path::Path;

use crate::process::{arg, experiment, run, succeeds};

#[test]
fn rows_equal_the_journal() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 2, 3);
    let results = place.path().join("results");
    succeeds(&["run", &file, "-q", "-o", arg(&results)]);
    let folder = results.join("short");
    let table = succeeds(&["export", arg(&folder), "--rows", "csv"]);
    let lines = succeeds(&["export", arg(&folder), "--rows", "ndjson"]);
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let names = reader.headers().expect("names").clone();
    let column = |name: &str| names.iter().position(|it| it == name).expect("a column");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let objects: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!((rows.len(), objects.len()), (24, 24));
    let journal = std::fs::read_dir(folder.join("journal")).expect("journals").next().expect("a journal");
    let text = std::fs::read_to_string(journal.expect("an entry").path()).expect("a journal");
    let records: Vec<_> =
        text.lines().map(|line| rdt_lab::journal::decode(line).expect("a record")).collect();
    for (row, object) in rows.iter().zip(&objects) {
        assert_eq!(&row[column("cc")], object["factors"]["cc"].as_str().expect("a level"));
        let is = |it: &&rdt_lab::Record| {
            it.cell.to_string() == row[column("cell")] && it.rep.to_string() == row[column("rep")]
        };
        let record = records.iter().find(is).expect("the record");
        let goodput = record.metrics["a.goodput"];
        assert_eq!(row[column("a.goodput_bps")].parse(), Ok(goodput));
        assert_eq!(object["metrics"]["a.goodput_bps"], goodput);
    }
}

/// Runs one repetition of an experiment that has another factor and other metrics than that of
/// `process::experiment`.
fn run_datagrams(folder: &Path, results: &Path) {
    let text = r#"schema = 1
name = "datagrams"
title = "Datagrams"
engine = "packets"
for = "1s"

[path]
rtt = "10ms"
rate = "8mbit"

[[flow]]
name = "b"
kind = "udp"

[factors]
flow.b.rate = ["2mbit", "4mbit"]

[repeats]
least = 1
most = 1
until = "least"

[[figure]]
kind = "means"
x = "rate"
"#;
    let file = folder.join("datagrams.toml");
    std::fs::write(&file, text).expect("a written file");
    succeeds(&["run", arg(&file), "-q", "-o", arg(results)]);
}

#[cfg(not(feature = "png"))]
#[test]
fn png_names_the_feature_it_needs() {
    let place = tempfile::tempdir().expect("a folder");
    let results = place.path().join("results");
    run_datagrams(place.path(), &results);
    let (code, _, err) = run(&["export", arg(&results), "--png", "-o", arg(&place.path().join("out"))]);
    assert_eq!(code, 69, "{err}");
    assert!(err.contains("cargo install --locked --path crates/lab --features png"), "{err}");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_names_the_feature_it_needs() {
    let place = tempfile::tempdir().expect("a folder");
    let results = place.path().join("results");
    run_datagrams(place.path(), &results);
    let (code, _, err) = run(&["export", arg(&results), "--parquet", "-o", arg(&place.path().join("out"))]);
    assert_eq!(code, 69, "{err}");
    assert!(err.contains("cargo install --locked --path crates/lab --features parquet"), "{err}");
}

#[cfg(feature = "png")]
#[test]
fn png_has_the_pixels_asked_for() {
    let place = tempfile::tempdir().expect("a folder");
    let (results, out) = (place.path().join("results"), place.path().join("out"));
    run_datagrams(place.path(), &results);
    for (option, value, width) in [("--dpi", "300", 1417), ("--dpi", "150", 709), ("--width", "500", 500)] {
        succeeds(&["export", arg(&results), "--png", option, value, "-o", arg(&out)]);
        let files: Vec<_> =
            std::fs::read_dir(&out).expect("a folder").map(|it| it.expect("a file")).collect();
        assert!(!files.is_empty());
        for file in files {
            let file = std::io::BufReader::new(std::fs::File::open(file.path()).expect("a file"));
            let reader = png::Decoder::new(file).read_info().expect("nothing but PNG");
            assert_eq!(reader.info().width, width, "{option} {value}");
        }
    }
    let (code, _, err) = run(&["export", arg(&results), "--dpi", "300", "-o", arg(&out)]);
    assert_eq!((code, err.contains("--png")), (64, true), "{err}");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_equals_csv_with_types_and_nulls() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    let place = tempfile::tempdir().expect("a folder");
    let (results, out) = (place.path().join("results"), place.path().join("out"));
    let file = experiment(place.path(), 1, 3);
    succeeds(&["run", &file, "-q", "-o", arg(&results)]);
    run_datagrams(place.path(), &results);
    let table = succeeds(&["export", arg(&results), "--rows", "csv"]);
    let printed = succeeds(&["export", arg(&results), "--parquet", "-o", arg(&out)]);
    assert!(printed.starts_with("1 files in "), "{printed}");
    let written = std::fs::File::open(out.join("repetitions.parquet")).expect("a file");
    let reader = SerializedFileReader::new(written).expect("a Parquet file");
    let mut lines = csv::Reader::from_reader(table.as_bytes());
    let names: Vec<String> = lines.headers().expect("names").iter().map(str::to_owned).collect();
    let mut lines = lines.records().map(|line| line.expect("a row"));
    let (mut rows, mut nulls) = (0, 0);
    for row in reader.get_row_iter(None).expect("rows") {
        let (row, line) = (row.expect("a row"), lines.next().expect("as many rows"));
        let columns: Vec<(&String, &Field)> = row.get_column_iter().collect();
        assert!(columns.iter().map(|(name, _)| *name).eq(&names));
        for ((name, field), text) in columns.into_iter().zip(&line) {
            match (name.as_str(), field) {
                (_, Field::Null) => {
                    assert_eq!(text, "", "{name}");
                    nulls += 1;
                }
                ("rep" | "seed" | "initial-window", Field::ULong(count)) => {
                    assert_eq!(count.to_string(), text, "{name}");
                }
                ("experiment" | "engine" | "cell" | "status" | "bytes" | "cc" | "rate", Field::Str(it)) => {
                    assert_eq!(it, text, "{name}");
                }
                (_, Field::Double(number)) => assert_eq!(text.parse(), Ok(*number), "{name}"),
                _ => panic!("{name} has the value {field:?}"),
            }
        }
        rows += 1;
    }
    assert_eq!((rows, lines.next()), (14, None), "12 repetitions of transfers and 2 of datagrams");
    assert!(nulls > 14, "blocks, and factors and metrics of the other experiment: {nulls}");
}
