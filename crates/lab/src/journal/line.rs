//! Format of a journal's lines: a record as a JSON object with keys in alphabetical order, numbers
//! in the shortest notation that reads back equal, and in the key `check` the CRC-32 of the line
//! without that key.

use std::collections::BTreeMap;

use rdt_program::json::seed;
use serde_json::{Map, Value};

use crate::cell::{CellId, levels_json};
use crate::record::{Record, Status};

/// Version of the format of lines.
const VERSION: u64 = 1;

/// Why a line is no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is incomplete, or bytes of it are wrong.
    #[error("the line is torn or damaged")]
    Damaged,
    /// The line has another format.
    #[error("the line has format {0}, this program reads format {VERSION}")]
    Version(u64),
    /// The CRC of the line is right, but a key is missing or of the wrong type.
    #[error("the key '{0}' is missing or has a value of the wrong type")]
    Key(&'static str),
}

/// Returns a record as a line, with its newline.
pub fn encode(record: &Record) -> String {
    let mut line = object(record);
    let check = crc32fast::hash(Value::Object(line.clone()).to_string().as_bytes());
    line.insert("check".to_owned(), Value::from(format!("{check:08x}")));
    Value::Object(line).to_string() + "\n"
}

/// Returns the part of a record that is a pure function of cell and seed in virtual time. The rest
/// is the time it took, version and host, and the experiment and its factors: experiments share
/// cells with equal physics, under names of their own.
pub(super) fn comparable(record: &Record) -> String {
    let mut line = object(record);
    for key in ["wall_ms", "tool", "host", "experiment", "factors", "factor_order"] {
        line.remove(key);
    }
    Value::Object(line).to_string()
}

fn object(record: &Record) -> Map<String, Value> {
    let (status, reason) = record.status.words();
    let order: Vec<Value> = record.factors.iter().map(|(name, _)| name.as_str().into()).collect();
    // JSON has no NaN and no infinity: such a metric is left out.
    let finite = record.metrics.iter().filter(|(_, value)| value.is_finite());
    let metrics: Map<String, Value> = finite.map(|(name, value)| (name.clone(), (*value).into())).collect();
    let entries = [
        ("v", Value::from(VERSION)),
        ("cell", record.cell.to_string().into()),
        ("rep", record.rep.into()),
        ("seed", seed(record.seed)),
        ("engine", record.engine.word().into()),
        ("physics", record.physics.into()),
        ("experiment", record.experiment.as_str().into()),
        ("factors", levels_json(&record.factors)),
        ("factor_order", order.into()),
        ("metrics", metrics.into()),
        ("status", status.into()),
        ("wall_ms", record.wall_ms.into()),
        ("tool", record.tool.as_str().into()),
        ("host", record.host.as_str().into()),
    ];
    let optional = [
        ("reason", reason.map(Value::from)),
        ("hash", record.hash.map(|hash| format!("{hash:016x}").into())),
        ("block", record.block.map(Value::from)),
    ];
    let optional = optional.into_iter().filter_map(|(key, value)| Some((key, value?)));
    entries.into_iter().chain(optional).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Reads a line without its newline.
pub fn decode(line: &str) -> Result<Record, LineError> {
    if !is_whole(line) {
        return Err(LineError::Damaged);
    }
    let Ok(Value::Object(map)) = serde_json::from_str(line) else { return Err(LineError::Damaged) };
    let version = get(&map, "v", Value::as_u64)?;
    if version != VERSION {
        return Err(LineError::Version(version));
    }
    let text = |key| get(&map, key, Value::as_str).map(str::to_owned);
    let small = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let status = match text("status")?.as_str() {
        "ok" => Status::Ok,
        "host-limited" => Status::HostLimited,
        "failed" => Status::Failed(text("reason")?),
        _ => return Err(LineError::Key("status")),
    };
    let hash = optional(&map, "hash", |it| u64::from_str_radix(it.as_str()?, 16).ok())?;
    let block = optional(&map, "block", small)?;
    Ok(Record {
        cell: get(&map, "cell", |it| it.as_str()?.parse().ok())?,
        rep: get(&map, "rep", small)?,
        seed: read_seed(&map)?,
        engine: get(&map, "engine", |it| it.as_str()?.parse().ok())?,
        physics: get(&map, "physics", small)?,
        experiment: text("experiment")?,
        factors: factors(&map)?,
        metrics: get(&map, "metrics", metrics)?,
        hash,
        status,
        block,
        wall_ms: get(&map, "wall_ms", Value::as_u64)?,
        tool: text("tool")?,
        host: text("host")?,
    })
}

/// Returns the cell of a line without checking the line. Keys are sorted and only the number
/// `block` precedes this key, so the first match is the key and not part of a string.
pub(super) fn cell(line: &str) -> Option<CellId> {
    let (_, rest) = line.split_once("\"cell\":\"")?;
    rest.split_once('"')?.0.parse().ok()
}

/// True if the CRC of a line is that of its other bytes. Only `block` and `cell` precede the key,
/// so the first match is the key and not part of a string.
fn is_whole(line: &str) -> bool {
    const KEY: &str = "\"check\":\"";
    let Some((before, rest)) = line.split_once(KEY) else { return false };
    let Some((check, after)) = rest.split_once("\",") else { return false };
    let mut crc = crc32fast::Hasher::new();
    crc.update(before.as_bytes());
    crc.update(after.as_bytes());
    check == format!("{:08x}", crc.finalize())
}

/// Returns the value of a key.
fn get<'a, T>(
    map: &'a Map<String, Value>,
    key: &'static str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<T, LineError> {
    map.get(key).and_then(read).ok_or(LineError::Key(key))
}

/// Reads a seed. Journals of earlier versions have a number.
fn read_seed(map: &Map<String, Value>) -> Result<u64, LineError> {
    get(map, "seed", |it| it.as_u64().or_else(|| it.as_str()?.parse().ok()))
}

/// Returns the value of a key that may be missing.
fn optional<'a, T>(
    map: &'a Map<String, Value>,
    key: &'static str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, LineError> {
    map.contains_key(key).then(|| get(map, key, read)).transpose()
}

fn factors(map: &Map<String, Value>) -> Result<Vec<(String, String)>, LineError> {
    let levels = get(map, "factors", Value::as_object)?;
    let order = get(map, "factor_order", Value::as_array)?;
    let pair = |name: &Value| {
        let name = name.as_str()?;
        Some((name.to_owned(), levels.get(name)?.as_str()?.to_owned()))
    };
    order.iter().map(|name| pair(name).ok_or(LineError::Key("factors"))).collect()
}

fn metrics(value: &Value) -> Option<BTreeMap<String, f64>> {
    value.as_object()?.iter().map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cell::EngineKind;

    pub(in crate::journal) fn record(cell: u8, rep: u32) -> Record {
        Record {
            cell: CellId([cell; 16]),
            rep,
            seed: u64::MAX - 3,
            engine: EngineKind::Virtual,
            physics: crate::cell::PHYSICS_VERSION,
            experiment: "sack".to_owned(),
            factors: vec![("window".to_owned(), "4".to_owned()), ("sack".to_owned(), "on".to_owned())],
            metrics: [("goodput".to_owned(), 5_610_000.1 / 3.0), ("lost".to_owned(), 0.0)].into(),
            hash: Some(0xAB),
            status: Status::Ok,
            block: None,
            wall_ms: 41,
            tool: "0.1.0".to_owned(),
            host: "h".to_owned(),
        }
    }

    #[test]
    fn lines_read_back_equal() {
        let failed = Record { status: Status::Failed("no \"route\"\n".to_owned()), ..record(2, 0) };
        let timed = Record { block: Some(3), hash: None, status: Status::HostLimited, ..record(3, 9) };
        for record in [record(1, 7), failed, timed] {
            let line = encode(&record);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(decode(line.trim_end()), Ok(record));
        }
    }

    #[test]
    fn seed_is_string_and_may_be_number() {
        let read = |seed: Value| read_seed(&[("seed".to_owned(), seed)].into_iter().collect());
        assert!(encode(&record(1, 0)).contains("\"seed\":\"18446744073709551612\""));
        assert_eq!((read("7".into()), read(7.into())), (Ok(7), Ok(7)));
        assert_eq!(read((-1).into()), Err(LineError::Key("seed")));
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let line = encode(&record(1, 7));
        let line = line.trim_end();
        for cut in 0..line.len() {
            assert_eq!(decode(&line[..cut]), Err(LineError::Damaged), "cut after {cut} bytes");
        }
        for at in 0..line.len() {
            let mut bytes = line.as_bytes().to_vec();
            bytes[at] ^= 1;
            let damaged = String::from_utf8(bytes).expect("ASCII stays ASCII");
            assert!(decode(&damaged).is_err(), "byte {at} changed: {damaged}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_left_out() {
        let mut record = record(1, 0);
        record.metrics.insert("jitter".to_owned(), f64::NAN);
        let line = encode(&record);
        assert!(!line.contains("jitter") && !line.contains("null"), "{line}");
    }
}
