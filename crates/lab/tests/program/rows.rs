//! `export --rows`: one row a repetition.

use crate::process::{arg, experiment, succeeds};

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
