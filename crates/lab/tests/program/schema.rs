//! Published schema of the JSON output: every command's objects, the rows of `export` and the lines
//! of journals are validated against it.

use std::path::{Path, PathBuf};

use rdt_program_testing::contract::Contract;
use serde_json::Value;

use crate::process::{arg, experiment, run, succeeds};

/// Validates lines of JSON, and returns their number.
fn validated(schema: &Contract, definition: &str, lines: &str) -> usize {
    for line in lines.lines() {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{definition}: {error}: {line}"));
        schema.check(definition, &value);
    }
    assert!(!lines.is_empty(), "{definition} prints nothing");
    lines.lines().count()
}

fn schema() -> Contract {
    Contract::parse("rdt-lab schema", &succeeds(&["schema"]))
}

#[test]
fn document_names_every_key() {
    let parts: (_, &[&str]) = (&schema(), &["## JSON"]);
    Contract::check_document("docs/LAB.md", &[parts], &["run"]);
}

/// Writes a capture with one SYN: pcap (microseconds, raw IPv4), one packet.
fn capture(folder: &Path) -> PathBuf {
    let ip = [0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let tcp = [0x9C, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xFF, 0xFF, 0, 0, 0, 0];
    let header: [u32; 6] = [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, 101];
    let words = header.into_iter().chain([1, 0, 40, 40]);
    let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    bytes.extend(ip.into_iter().chain(tcp));
    let path = folder.join("syn.pcap");
    std::fs::write(&path, bytes).expect("a written file");
    path
}

#[test]
fn every_json_output_fits_its_schema() {
    let schema = schema();
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 3);
    let claim = "\n[[claim]]\nid = \"one\"\nsays = \"x\"\nthat = \"goodput[cc=reno] > 1kbit\"\n\
                 \n[[claim]]\nid = \"zero\"\nsays = \"x\"\nthat = \"goodput / 0 > 1\"\npoints = 2\n\
                 \n[[expect]]\nsource = \"s\"\nof = \"goodput\"\nvalues = [ { cc = \"reno\", is = \"1mbit\" } ]\n\
                 within = \"10%\"\nelse = \"note\"\n";
    std::fs::write(&file, std::fs::read_to_string(&file).expect("the file") + claim).expect("a written file");
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    let (one, two) = (arg(&one).to_owned(), arg(&two).to_owned());
    let results = format!("{one}/short");
    let capture = capture(place.path());
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tcp-options-32-combinations.csv");
    let import = ["--factors", "sack,rwnd_kb", "--response", "time_s"];
    let each = ["--each", "file_kb,congestion_control,link_delay_ms,loss_percent", "--json"];
    let commands: Vec<(&str, Vec<&str>)> = vec![
        ("list", vec!["list", "--json"]),
        ("plan", vec!["plan", &file, "--json"]),
        ("plan", vec!["plan", "001-B", "--json"]),
        ("status", vec!["status", &file, "-o", &one, "--json", "--shards", "2"]),
        ("run", vec!["run", &file, "--json", "-o", &one]),
        ("claims", vec!["claims", &results, "--json"]),
        ("status", vec!["status", &results, "--json"]),
        ("export", vec!["export", &results, "--rows", "ndjson"]),
        ("merge", vec!["merge", &one, "-o", &two, "--json"]),
        ("compare", vec!["compare", &results, &results, "--json"]),
        ("sweep", vec!["sweep", "path.rate=1mbit,2mbit", "--for", "1s", "-q", "-o", &two, "--json"]),
        ("doctor", vec!["doctor", "--json"]),
        ("limits", vec!["limits", &results, "--json"]),
        ("trace", vec!["trace", arg(&capture), "--json"]),
        ("import", [vec!["import", arg(&table)], import.to_vec(), each.to_vec()].concat()),
    ];
    for (definition, command) in commands {
        let (_, out, err) = run(&command);
        assert!(!out.is_empty(), "{command:?}: {err}");
        validated(&schema, definition, &out);
    }
    let cells = std::fs::read_to_string(Path::new(&results).join("plan.ndjson")).expect("a plan");
    assert_eq!(validated(&schema, "plan_cell", &cells), 4);
    let merged = std::fs::read_to_string(Path::new(&two).join("short/plan.ndjson"));
    assert_eq!(merged.expect("a merged plan"), cells);
    let journal = std::fs::read_to_string(Path::new(&two).join("short/journal/merged.ndjson"));
    assert_eq!(validated(&schema, "journal", &journal.expect("a journal")), 12);
}

#[test]
fn expected_values_have_the_unit_of_their_metric() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 3);
    let expect = |of: &str, within: &str| {
        format!(
            "\n[[expect]]\nsource = \"s\"\nof = \"{of}\"\nvalues = [{{ cc = \"reno\", is = 1 }}]\n\
             within = \"{within}\"\nelse = \"note\"\n"
        )
    };
    let expects = expect("goodput", "10%") + &expect("completion", "1s") + &expect("goodput / 2", "10%");
    std::fs::write(&file, std::fs::read_to_string(&file).expect("the file") + &expects)
        .expect("a written file");
    let out = succeeds(&["run", &file, "-q", "--json", "-o", arg(&place.path().join("results"))]);
    validated(&schema(), "claims", &out);
    let keys: Vec<&[&str]> = vec![
        &["expected_bps", "measured_bps", "interval_95_bps", "within"],
        &["expected_s", "measured_s", "interval_95_s", "within_s"],
        &["expected", "measured", "interval_95", "within"],
    ];
    for (line, keys) in out.lines().zip(keys) {
        let value: Value = serde_json::from_str(line).expect("JSON");
        assert!(keys.iter().all(|key| value.get(key).is_some()), "{line}");
    }
}

#[test]
fn progress_events_precede_verdicts() {
    let place = tempfile::tempdir().expect("a folder");
    let file = experiment(place.path(), 1, 3);
    let results = place.path().join("results");
    let events = |options: &[&str]| -> Vec<Value> {
        let out = succeeds(&[&["run", &file, "--json", "-o", arg(&results)], options].concat());
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let all = events(&[]);
    let [progress, finished] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&progress["event"], &progress["wanted"]), (&"progress".into(), &12.into()));
    assert_eq!(
        (&finished["event"], &finished["ran"], &finished["missing"]),
        (&"finished".into(), &12.into(), &0.into())
    );
    let nothing_to_run = events(&["--only-run"]);
    assert_eq!((nothing_to_run.len(), &nothing_to_run[0]["ran"]), (1, &0.into()));
    assert!(events(&["--quiet"]).is_empty());
}

/// Commands that print JSON are those that the schema describes.
#[test]
fn schema_describes_every_command_with_json() {
    let schema = schema();
    for line in succeeds(&["--help"]).lines().filter(|line| line.starts_with("  ")) {
        let Some(command) =
            line.split_whitespace().next().filter(|it| it.bytes().all(|b| b.is_ascii_lowercase()))
        else {
            continue;
        };
        let (code, help, _) = run(&[command, "--help"]);
        if code == 0 && help.lines().any(|line| line.trim_start().starts_with("--json")) {
            assert!(schema.defines(command), "{command} prints JSON without a schema");
        }
    }
}
