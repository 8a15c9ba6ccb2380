//! Events of `--json`. `docs/PROGRAMS.md` lists the keys.

use std::path::Path;
use std::time::Duration;

use rdt_program::json::nanos;
use serde_json::{Value, json};

use crate::{Event, Failure, Kind, SkipReason, Summary};

/// Returns an event. `moved_bytes` is the sum of all bytes so far, if it is to be reported.
pub(crate) fn event(event: &Event<'_>, moved_bytes: Option<u64>) -> Option<Value> {
    Some(match *event {
        Event::Total { files, bytes } => json!({ "event": "total", "files": files, "bytes": bytes }),
        Event::Progress { .. } => json!({ "event": "progress", "bytes": moved_bytes? }),
        Event::FileStarted { path, size } => with_path(json!({ "event": "started", "bytes": size }), path),
        Event::Resumed { path, offset } => {
            with_path(json!({ "event": "resumed", "offset_bytes": offset }), path)
        }
        Event::Done { path, kind, bytes } => {
            with_path(json!({ "event": "done", "kind": kind_word(kind), "bytes": bytes }), path)
        }
        Event::Skipped { path, reason, bytes, .. } => {
            with_path(json!({ "event": "skipped", "reason": reason_word(reason), "bytes": bytes }), path)
        }
        Event::Failed { path, text, bytes, .. } => {
            with_path(json!({ "event": "failed", "text": text, "bytes": bytes }), path)
        }
        Event::Request { .. } | Event::Ended { .. } => return None,
    })
}

/// Returns the last event. `text` says why there was a failure.
pub(crate) fn summary(summary: &Summary, elapsed: Duration, exit_code: u8, text: Option<&str>) -> Value {
    let mut value = counts(summary, elapsed);
    value["event"] = json!("summary");
    value["exit_code"] = json!(exit_code);
    value["text"] = json!(text);
    value
}

/// Returns the event of a client's request.
pub(crate) fn client(number: u64, peer: &str, push: bool, path: &Path) -> Value {
    let direction = if push { "write" } else { "read" };
    with_path(json!({ "event": "client", "client": number, "peer": peer, "direction": direction }), path)
}

/// Returns the event of the end of a client's copy.
pub(crate) fn client_end(number: u64, summary: &Summary, text: Option<&str>) -> Value {
    let mut value = counts(summary, summary.elapsed);
    value["event"] = json!("client_end");
    value["client"] = json!(number);
    value["text"] = json!(text);
    value
}

fn counts(summary: &Summary, elapsed: Duration) -> Value {
    let failure = |failure: &Failure| with_path(json!({ "text": failure.text }), &failure.path);
    json!({
        "files": summary.files,
        "directories": summary.directories,
        "links": summary.links,
        "skipped": summary.skipped,
        "planned": summary.planned,
        "failures": summary.failures,
        "failed": summary.failed.iter().map(failure).collect::<Vec<_>>(),
        "bytes": summary.bytes,
        "resumed_bytes": summary.resumed_bytes,
        "sent_bytes": summary.sent_bytes,
        "uncompressed_bytes": summary.uncompressed_bytes,
        "compressed_bytes": summary.compressed_bytes,
        "elapsed_ns": nanos(elapsed),
        "rate_bps": rate_bps(summary.sent_bytes, elapsed).map(f64::round),
    })
}

/// Returns bits per second; `None` if there was no time or nothing was sent.
pub(super) fn rate_bps(bytes: u64, elapsed: Duration) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a rate for readers")]
    (bytes > 0 && !elapsed.is_zero()).then(|| bytes as f64 * 8.0 / elapsed.as_secs_f64())
}

/// Adds a path. JSON has no bytes: a path that is not UTF-8 is also given in hexadecimal.
fn with_path(mut value: Value, path: &Path) -> Value {
    value["path"] = json!(path.to_string_lossy());
    if path.to_str().is_none() {
        let hex = path.as_os_str().as_encoded_bytes().iter().map(|byte| format!("{byte:02x}"));
        value["path_hex"] = json!(hex.collect::<String>());
    }
    value
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
    }
}

fn reason_word(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Identical => "identical",
        SkipReason::DryRun => "dry_run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_is_not_utf8_has_bytes() {
        let done = |path: &Path| event(&Event::Done { path, kind: Kind::File, bytes: 3 }, None).unwrap();
        let expected = json!({ "event": "done", "kind": "file", "bytes": 3, "path": "a\nb" });
        assert_eq!(done(Path::new("a\nb")), expected);
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt as _;
            let value = done(Path::new(std::ffi::OsStr::from_bytes(b"a\xff")));
            assert_eq!((&value["path"], &value["path_hex"]), (&json!("a\u{fffd}"), &json!("61ff")));
        }
    }

    #[test]
    fn summary_has_failures_and_code() {
        let failed = vec![Failure { path: "a".into(), text: "full".into() }];
        let counted = Summary { failed, failures: 1, sent_bytes: 1000, ..Summary::default() };
        let value = summary(&counted, Duration::from_secs(1), 23, Some("some files were not copied"));
        assert_eq!(value["failed"], json!([{ "path": "a", "text": "full" }]));
        assert_eq!((&value["rate_bps"], &value["exit_code"]), (&json!(8000.0), &json!(23)));
    }
}
