//! Journals on disk: lines and their check, cuts and damage, several writers, and series.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rdt_lab::cell::{CellId, PHYSICS_VERSION};
use rdt_lab::journal::{
    Durability, JOURNAL_FOLDER, JournalWriter, LineError, Store, StoreError, copy_series, decode, encode,
    lines_of_cells, read_columns, read_series, write_series,
};
use rdt_lab::{EngineKind, Record, Series, Status};
use tempfile::TempDir;

fn record(cell: u8, rep: u32) -> Record {
    Record {
        cell: CellId([cell; 16]),
        rep,
        seed: 7,
        engine: EngineKind::Virtual,
        physics: PHYSICS_VERSION,
        experiment: "x".to_owned(),
        factors: vec![("sack".to_owned(), "on".to_owned())],
        metrics: [("a.goodput".to_owned(), 5.61e6)].into(),
        hash: Some(1),
        status: Status::Ok,
        block: None,
        wall_ms: 3,
        tool: "0.1.0".to_owned(),
        host: "h".to_owned(),
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Writes a file among the journals of a folder.
fn write(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let journals = folder.path().join(JOURNAL_FOLDER);
    fs::create_dir_all(&journals).expect("a folder");
    fs::write(journals.join(name), bytes).expect("a written file");
    journals.join(name)
}

fn store(folders: &[&TempDir]) -> Result<Store, StoreError> {
    Store::read(&folders.iter().map(|it| it.path().to_owned()).collect::<Vec<_>>())
}

fn read(folder: &TempDir) -> Store {
    store(&[folder]).expect("a store")
}

fn reps(store: &Store) -> Vec<(u8, u32)> {
    store.records().map(|it| (it.cell.0[0], it.rep)).collect()
}

/// CRC-32 of IEEE 802.3, bit by bit. Its check value is that of "123456789".
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Puts the check into a line without one.
fn checked(line: &str) -> String {
    let key = format!("\"check\":\"{:08x}\",", crc(line.as_bytes()));
    let at = line.find("\"engine\"").expect("the key after the check");
    format!("{}{key}{}", &line[..at], &line[at..])
}

/// A line as another program would write it.
const LINE: &str = "{\"cell\":\"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\",\"engine\":\"kernel\",\"experiment\":\"x\",\
     \"factor_order\":[\"b\",\"a\"],\"factors\":{\"a\":\"1\",\"b\":\"2\"},\"host\":\"h\",\"metrics\":{\"rtt\":0.25},\
     \"physics\":9,\"rep\":4,\"seed\":\"18446744073709551615\",\"status\":\"host-limited\",\"tool\":\"t\",\"v\":1,\"wall_ms\":8}";

#[test]
fn check_of_a_line_is_its_crc_32() {
    assert_eq!(crc(b"123456789"), 0xCBF4_3926, "the check value of the polynomial");
    let line = encode(&record(1, 7));
    let (before, rest) = line.trim_end().split_once("\"check\":\"").expect("a check");
    let (check, after) = rest.split_once("\",").expect("its end");
    assert_eq!(check, format!("{:08x}", crc(format!("{before}{after}").as_bytes())));
}

#[test]
fn lines_of_other_programs_are_read() {
    let record = decode(&checked(LINE)).expect("a record");
    assert_eq!((record.cell, record.rep, record.seed), (CellId([10; 16]), 4, u64::MAX));
    assert_eq!((record.engine, record.status), (EngineKind::Kernel, Status::HostLimited));
    let order: Vec<_> = record.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    assert_eq!(order, ["b=2", "a=1"], "the order is that of the file");
    assert_eq!((record.metrics["rtt"].to_bits(), record.wall_ms), (0.25_f64.to_bits(), 8));
    assert_eq!((record.hash, record.block), (None, None));
}

/// The check is right, but the content is not.
#[test]
fn wrong_contents_name_their_key() {
    for (from, to, error) in [
        ("\"v\":1", "\"v\":2", LineError::Version(2)),
        ("\"v\":1", "\"w\":1", LineError::Key("v")),
        ("\"rep\":4", "\"rep\":-4", LineError::Key("rep")),
        ("\"rep\":4", "\"rep\":4294967296", LineError::Key("rep")),
        ("\"rep\":4", "\"rep\":\"4\"", LineError::Key("rep")),
        ("host-limited", "good", LineError::Key("status")),
        ("host-limited", "failed", LineError::Key("reason")),
        ("\"kernel\"", "\"kernal\"", LineError::Key("engine")),
        ("0a0a", "0g0a", LineError::Key("cell")),
        ("0a0a", "0a", LineError::Key("cell")),
        ("\"b\":\"2\"", "\"c\":\"2\"", LineError::Key("factors")),
        ("{\"rtt\":0.25}", "{\"rtt\":\"0.25\"}", LineError::Key("metrics")),
        ("{\"rtt\":0.25}", "[]", LineError::Key("metrics")),
        ("\"18446744073709551615\"", "\"18446744073709551616\"", LineError::Key("seed")),
        ("\"wall_ms\":8", "\"wall_ms\":8,\"hash\":\"xyz\"", LineError::Key("hash")),
        ("\"wall_ms\":8", "\"wall_ms\":8,\"block\":-1", LineError::Key("block")),
    ] {
        assert!(LINE.contains(from), "{from}");
        assert_eq!(decode(&checked(&LINE.replacen(from, to, 1))), Err(error), "{to}");
    }
    assert_eq!(decode(&checked(LINE).replace("\"check\"", "\"chock\"")), Err(LineError::Damaged));
    assert_eq!(decode(""), Err(LineError::Damaged));
}

/// Every finite number reads back with the same bits: 4,000 patterns of a linear congruential
/// generator (Knuth).
#[test]
fn numbers_keep_all_their_bits() {
    let mut state = 1_u64;
    let mut record = record(1, 0);
    for i in 0..4_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = f64::from_bits(state);
        if value.is_finite() {
            record.metrics.insert(format!("m{i}"), value);
        }
    }
    for (name, value) in
        [("least", f64::MIN_POSITIVE), ("most", f64::MAX), ("third", 1.0 / 3.0), ("zero", -0.0)]
    {
        record.metrics.insert(name.to_owned(), value);
    }
    let back = decode(encode(&record).trim_end()).expect("a record");
    assert_eq!(back.metrics.len(), record.metrics.len());
    for (name, value) in &record.metrics {
        assert_eq!(back.metrics[name].to_bits(), value.to_bits(), "{name}: {value}");
    }
}

/// A journal of three lines is cut after each of its bytes: complete lines are there, the torn one
/// is named.
#[test]
fn journal_cut_anywhere_keeps_complete_lines() {
    let lines = [record(1, 0), record(1, 1), record(2, 0)].map(|it| encode(&it));
    let whole = lines.concat();
    let place = folder();
    let ends = [lines[0].len(), lines[0].len() + lines[1].len(), whole.len()];
    for cut in 0..=whole.len() {
        let file = write(&place, "a.ndjson", &whole[..cut]);
        let store = read(&place);
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(store.records().count(), complete, "cut after {cut} bytes");
        let is_torn = cut > 0 && !ends.contains(&cut);
        let remark = format!(
            "{}, line {}: torn or damaged, ignored; its repetition will run again",
            file.display(),
            complete + 1
        );
        assert_eq!(store.remarks(), if is_torn { vec![remark] } else { vec![] }, "cut after {cut} bytes");
    }
}

#[test]
fn damage_in_the_middle_loses_only_its_lines() {
    let place = folder();
    let [one, two, three] = [0, 1, 2].map(|rep| encode(&record(1, rep)));
    let damaged = two.replace("5610000.0", "5619000.0");
    assert_ne!(damaged, two, "a digit of the metric");
    for (middle, torn) in [
        (damaged.into_bytes(), 1),
        (b"\n\n".to_vec(), 2),
        (b"garbage\n{}\nnull\n".to_vec(), 3),
        (vec![0xFF, 0xFE, b'\n'], 1),
        ([&two.as_bytes()[..40], b"\n"].concat(), 1),
    ] {
        write(&place, "a.ndjson", [one.as_bytes(), &middle, three.as_bytes()].concat());
        let store = read(&place);
        assert_eq!(reps(&store), [(1, 0), (1, 2)], "{middle:?}");
        let further = if torn > 1 { format!(" (and {} further lines)", torn - 1) } else { String::new() };
        let remark = store.remarks().remove(0);
        assert!(
            remark.contains("line 2: torn") && remark.ends_with(&format!("run again{further}")),
            "{remark}"
        );
    }
    // The torn line of a killed writer swallows nothing of the next file.
    write(&place, "a.ndjson", &one[..30]);
    write(&place, "b.ndjson", &two);
    assert_eq!(reps(&read(&place)), [(1, 1)]);
}

#[test]
fn run_goes_on_after_a_torn_line() {
    let place = folder();
    let mut writer = JournalWriter::create(place.path(), "h", Durability::EachLine).expect("a journal");
    (0..5).for_each(|rep| writer.append(&record(1, rep)).expect("a line"));
    let first = writer.path().to_owned();
    drop(writer);
    let bytes = fs::read(&first).expect("a journal");
    fs::write(&first, &bytes[..bytes.len() - 20]).expect("a torn journal");
    let done: BTreeSet<u32> = read(&place).of_cell(CellId([1; 16])).map(|it| it.rep).collect();
    assert_eq!(done, (0..4).collect(), "the last line is torn");
    let mut writer = JournalWriter::create(place.path(), "h", Durability::Batched).expect("a journal");
    assert_ne!(writer.path(), first, "a file has one writer");
    (0..7).filter(|rep| !done.contains(rep)).for_each(|rep| writer.append(&record(1, rep)).expect("a line"));
    drop(writer);
    let store = read(&place);
    assert_eq!(reps(&store), (0..7).map(|rep| (1, rep)).collect::<Vec<_>>());
    assert_eq!((store.duplicates(), store.remarks().len()), (0, 1));
}

#[test]
fn writers_at_once_lose_no_line() {
    let place = folder();
    std::thread::scope(|scope| {
        for cell in 0..4 {
            let results = place.path();
            scope.spawn(move || {
                let mut writer =
                    JournalWriter::create(results, "one host", Durability::Batched).expect("a journal");
                (0..200).for_each(|rep| writer.append(&record(cell, rep)).expect("a line"));
            });
        }
    });
    let files = fs::read_dir(place.path().join(JOURNAL_FOLDER)).expect("journals").count();
    let store = read(&place);
    let wanted: Vec<(u8, u32)> = (0..4).flat_map(|cell| (0..200).map(move |rep| (cell, rep))).collect();
    assert_eq!((files, reps(&store)), (4, wanted));
    assert_eq!((store.duplicates(), store.remarks().len()), (0, 0));
}

#[test]
fn journals_are_files_of_their_folder_alone() {
    let place = folder();
    write(&place, "a.ndjson", encode(&record(1, 0)));
    write(&place, "a.ndjson.123", encode(&record(1, 1)));
    write(&place, "notes.txt", encode(&record(1, 2)));
    fs::write(place.path().join("stray.ndjson"), encode(&record(1, 3))).expect("a file");
    let nested = place.path().join("000-a").join(JOURNAL_FOLDER);
    fs::create_dir_all(nested.join("deeper")).expect("a folder");
    fs::write(nested.join("b.ndjson"), encode(&record(2, 0))).expect("a file");
    assert_eq!(reps(&read(&place)), [(1, 0), (2, 0)]);
    let none = Store::read(&[place.path().join("absent")]).expect("an empty store");
    assert_eq!(none.records().count(), 0);
    assert_eq!(read(&place).place(CellId([2; 16]), 0), Some((nested.join("b.ndjson").as_path(), 1)));
}

#[test]
fn equal_lines_count_once_and_others_conflict() {
    let real = |rep| Record { engine: EngineKind::Real, hash: None, ..record(1, rep) };
    let slower = |it: &Record| {
        let metrics = [("a.goodput".to_owned(), 1.0)].into();
        Record { metrics, ..it.clone() }
    };
    let conflict = |one: &Record, two: &Record| {
        let place = folder();
        write(&place, "a.ndjson", encode(one) + &encode(two));
        store(&[&place]).map(|it| (it.records().count(), it.duplicates()))
    };
    assert!(matches!(conflict(&record(1, 0), &record(1, 0)), Ok((1, 1))));
    assert!(
        matches!(conflict(&record(1, 0), &slower(&record(1, 0))), Err(StoreError::Differ(_))),
        "virtual time"
    );
    assert!(matches!(conflict(&real(0), &slower(&real(0))), Ok((1, 1))), "real time differs from run to run");
    assert!(
        matches!(conflict(&real(0), &Record { seed: 8, ..real(0) }), Err(StoreError::Differ(_))),
        "seeds"
    );
    let failed = Record { status: Status::Failed("no route".to_owned()), ..record(1, 0) };
    assert!(
        matches!(conflict(&record(1, 0), &failed), Err(StoreError::Differ(_))),
        "virtual time fails always"
    );
    let other = Record { hash: Some(2), ..record(1, 0) };
    assert!(matches!(conflict(&record(1, 0), &other), Err(StoreError::Differ(_))), "events");
}

#[test]
fn same_folder_twice_gives_each_record_once() {
    let place = folder();
    write(&place, "a.ndjson", encode(&record(1, 0)) + &encode(&record(1, 1)));
    let store = store(&[&place, &place]).expect("a store");
    assert_eq!((reps(&store), store.duplicates()), (vec![(1, 0), (1, 1)], 2));
}

#[test]
fn other_versions_stop_with_file_and_line() {
    for (wrong, reason) in [
        (encode(&Record { physics: PHYSICS_VERSION - 1, ..record(1, 1) }), "physics"),
        (checked(&LINE.replace("\"v\":1", "\"v\":2")) + "\n", "format 2"),
    ] {
        let place = folder();
        let file = write(&place, "a.ndjson", encode(&record(1, 0)) + &wrong);
        let error = store(&[&place]).expect_err("another version");
        assert!(matches!(&error, StoreError::Foreign { line: 2, .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("{}, line 2: ", file.display())) && text.contains(reason), "{text}");
        assert!(text.ends_with("keep old and new results in separate folders"), "{text}");
    }
}

#[test]
fn lines_of_wanted_cells_are_found_with_duplicates() {
    let place = folder();
    write(&place, "a.ndjson", encode(&record(1, 0)) + &encode(&record(2, 0)) + &encode(&record(1, 1))[..50]);
    write(&place, "b.ndjson", encode(&record(1, 0)) + &encode(&record(3, 0)));
    let wanted: BTreeSet<CellId> = [CellId([1; 16]), CellId([3; 16])].into();
    let found = lines_of_cells(place.path(), &wanted).expect("records");
    let found: Vec<_> = found.iter().map(|it| (it.cell.0[0], it.rep)).collect();
    assert_eq!(found, [(1, 0), (1, 0), (3, 0)]);
}

fn series() -> Series {
    let columns = [
        ("a.goodput".to_owned(), vec![Some(1.5e6), None, Some(0.0)]),
        ("a \"quoted\" name,\"values\":".to_owned(), vec![Some(1.0 / 3.0)]),
        ("empty".to_owned(), Vec::new()),
    ];
    Series {
        bin_s: 0.025,
        columns: columns.into(),
        events: [("a.timeout".to_owned(), vec![0.25, 1.75])].into(),
    }
}

fn path_of(folder: &Path, cell: u8, rep: u32) -> PathBuf {
    folder.join("series").join(format!("{}-{rep}.ndjson.gz", CellId([cell; 16])))
}

#[test]
fn cut_series_are_refused() {
    let place = folder();
    let cell = CellId([7; 16]);
    write_series(place.path(), cell, 0, &series()).expect("a written series");
    let file = path_of(place.path(), 7, 0);
    let whole = fs::read(&file).expect("the file");
    for cut in 0..whole.len() {
        fs::write(&file, &whole[..cut]).expect("a cut file");
        // A part of a series would be a wrong figure.
        let read = read_series(place.path(), cell, 0);
        assert!(read.is_err(), "cut after {cut} of {} bytes: {read:?}", whole.len());
    }
    fs::write(&file, &whole).expect("the whole file");
    assert_eq!(read_series(place.path(), cell, 0).expect("a series"), Some(series()));
}

#[test]
fn copied_series_belong_to_their_repetition() {
    let (from, to) = (folder(), folder());
    write_series(from.path(), CellId([7; 16]), 0, &series()).expect("a written series");
    copy_series(from.path(), to.path(), CellId([7; 16]), 0).expect("a copy");
    copy_series(from.path(), to.path(), CellId([7; 16]), 1).expect("nothing to copy");
    assert_eq!(read_series(to.path(), CellId([7; 16]), 0).expect("a series"), Some(series()));
    assert_eq!(read_series(to.path(), CellId([7; 16]), 1).expect("no error"), None);
    assert_eq!(read_series(to.path(), CellId([8; 16]), 0).expect("no error"), None);
    let one = read_columns(to.path(), CellId([7; 16]), 0, |name| name == "a.goodput").expect("a series");
    let one = one.expect("a series");
    assert_eq!(one.columns.keys().collect::<Vec<_>>(), ["a.goodput"]);
    assert_eq!(one.events, series().events, "events are always read");
}
