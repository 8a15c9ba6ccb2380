//! Contract of the JSON output, the same for all programs: version, times and seeds.
//! `docs/PROGRAMS.md` describes it, `schemas/` has the keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rdt_udp::clock;
use serde_json::{Value, json};

use crate::time::rfc3339;

/// Version of the schemas in `schemas/`. It grows if a key is removed or renamed, or if its type,
/// unit or meaning changes. New keys and events keep it.
pub const SCHEMA_VERSION: u32 = 1;

/// Adds version and time to the events of one run of a program. Clones belong to the same run.
#[derive(Debug, Clone)]
pub struct EventStamp(Arc<Run>);

#[derive(Debug)]
struct Run {
    begin: Instant,
    /// Wall-clock time of `begin`, RFC 3339 in UTC.
    started_at: String,
    /// True once an event was stamped.
    has_first: AtomicBool,
}

impl EventStamp {
    /// Creates the stamp of a run that began at `begin`.
    pub fn new(begin: Instant) -> Self {
        let age = clock::now().saturating_duration_since(begin);
        let unix_time = clock::unix_time().saturating_sub(age);
        Self(Arc::new(Run { begin, started_at: rfc3339(unix_time), has_first: AtomicBool::new(false) }))
    }

    /// Stamps an event that happens now.
    pub fn now(&self, event: Value) -> Value {
        self.at(clock::now(), event)
    }

    /// Adds `schema_version` and `time_ns` (from the begin to `at`). The first event, `summary` and
    /// `end` also get `started_at`, because each of them may be the only one that a reader keeps.
    pub fn at(&self, at: Instant, event: Value) -> Value {
        let Run { begin, started_at, has_first } = &*self.0;
        let is_first = !has_first.swap(true, Relaxed);
        let is_last = matches!(event["event"].as_str(), Some("summary" | "end"));
        let mut event = versioned(event);
        event["time_ns"] = json!(nanos(at.saturating_duration_since(*begin)));
        if is_first || is_last {
            event["started_at"] = json!(started_at);
        }
        event
    }
}

/// Adds `schema_version` to an object without a time.
pub fn versioned(mut object: Value) -> Value {
    object["schema_version"] = json!(SCHEMA_VERSION);
    object
}

/// Returns a seed as a string, because readers that use doubles round numbers above 2^53.
pub fn seed(seed: u64) -> Value {
    Value::String(seed.to_string())
}

/// Converts to whole nanoseconds; saturates after 584 years.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_event_have_the_start() {
        let begin = clock::now();
        let stamp = EventStamp::new(begin);
        let at = |ns, event: &str| stamp.at(begin + Duration::from_nanos(ns), json!({ "event": event }));
        let (first, second, last) = (at(7, "connected"), at(1_000_000_001, "interval"), at(9, "summary"));
        assert_eq!((&first["schema_version"], &first["time_ns"]), (&json!(SCHEMA_VERSION), &json!(7)));
        assert_eq!(second["time_ns"], json!(1_000_000_001));
        assert!(second.get("started_at").is_none());
        assert!(first["started_at"].is_string());
        assert_eq!(first["started_at"], last["started_at"]);
    }

    #[test]
    fn seed_survives_reader_with_doubles() {
        let large = (1 << 53) + 1;
        assert_eq!(seed(large), json!("9007199254740993"));
    }
}
