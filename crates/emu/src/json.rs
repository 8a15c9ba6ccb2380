//! The account as JSON, with the keys documented in `docs/EMULATOR.md`.
//!
//! Keys include the unit. Unknown values are null, and no number is NaN or infinite.

use std::time::{Duration, Instant};

use rdt_emulator::{DelayHistogram, DropCause, Ledger};
use rdt_program::json::{nanos, seed as seed_json};
#[cfg(target_os = "linux")]
use rdt_udp::clock;
use serde_json::{Map, Value, json};

use crate::account::{Account, DestinationAccount, DestinationName};

pub(crate) fn account(account: &Account) -> Value {
    let mut object = ledger(&account.ledger);
    let own = json!({
        "refused": account.refused,
        "queue_delay_ns": percentiles(&account.queue_delays),
        "lateness_ns": percentiles(&account.lateness),
        "balances": account.balances(),
    });
    extend(&mut object, own);
    object
}

/// Returns the accounts of the paths of `--to` as JSON.
pub(crate) fn destinations(all: &[DestinationAccount]) -> Value {
    let each = |(DestinationName { name, to, seed }, accounts): &DestinationAccount| {
        let [forward, reverse] = accounts.each_ref().map(account);
        json!({ "name": name, "to": to, "seed": seed_json(*seed), "forward": forward, "reverse": reverse })
    };
    all.iter().map(each).collect()
}

pub(crate) fn ledger(ledger: &Ledger) -> Value {
    let dropped: Map<_, _> =
        DropCause::ALL.iter().map(|&cause| (cause.name().to_owned(), ledger.dropped(cause).into())).collect();
    json!({
        "arrived": ledger.sent,
        "arrived_bytes": ledger.sent_bytes,
        "duplicated": ledger.duplicated,
        "delivered": ledger.delivered,
        "delivered_bytes": ledger.delivered_bytes,
        "dropped": dropped,
        "discarded": ledger.discarded,
        "in_flight": ledger.in_flight,
        "marked": ledger.marked,
        "corrupted": ledger.corrupted,
        "reordered": ledger.reordered,
        "fragmented": ledger.fragmented,
        "fragments": ledger.fragments,
        "busy_ns": nanos(ledger.busy),
        "balances": ledger.balances(),
    })
}

/// Copies the members of `more` into `object`, and replaces those with the same name.
pub(crate) fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

/// Converts a time of the past to nanoseconds of the system's monotonic clock
/// (`CLOCK_MONOTONIC`), which all programs of a host share. `None` on systems without it.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic(at: Instant) -> Option<u64> {
    let age = clock::now().saturating_duration_since(at);
    let now = Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic)).ok()?;
    now.checked_sub(age).map(nanos)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn monotonic(_at: Instant) -> Option<u64> {
    None
}

/// Percentiles of queueing delays, or of lateness.
pub(crate) fn percentiles(delays: &DelayHistogram) -> Value {
    let some = |time: Duration| (delays.count() > 0).then(|| nanos(time));
    json!({
        "p50": some(delays.quantile(0.5)),
        "p99": some(delays.quantile(0.99)),
        "p99.9": some(delays.quantile(0.999)),
        "max": some(delays.max()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ledger: &Ledger, lates: &[u64]) -> Account {
        let mut lateness = DelayHistogram::default();
        for late in lates {
            lateness.record(Duration::from_nanos(*late));
        }
        Account { ledger: *ledger, lateness, refused: 0, queue_delays: DelayHistogram::default() }
    }

    #[test]
    fn json_has_every_cause_and_null_percentiles() {
        let idle = account(&of(&Ledger::default(), &[]));
        assert_eq!(idle["dropped"].as_object().unwrap().len(), DropCause::ALL.len());
        assert_eq!(idle["lateness_ns"], json!({ "p50": null, "p99": null, "p99.9": null, "max": null }));
        assert_eq!(idle["balances"], true);
    }

    #[test]
    fn json_has_drops_by_cause_and_nanoseconds() {
        let ledger = Ledger { sent: 3, delivered: 1, dropped_aqm: 2, ..Ledger::default() };
        let told = account(&of(&ledger, &[100]));
        assert_eq!((&told["arrived"], &told["dropped"]["aqm"]), (&json!(3), &json!(2)));
        assert_eq!((&told["dropped"]["loss"], &told["lateness_ns"]["p50"]), (&json!(0), &json!(100)));
        assert_eq!(told["balances"], true);
    }

    #[test]
    fn counters_beyond_32_bits_are_exact() {
        const PACKETS: u64 = 1 << 34;
        let mut account = of(&Ledger { sent: PACKETS, delivered: PACKETS, ..Ledger::default() }, &[100]);
        while account.lateness.count() < PACKETS {
            let half = account.lateness.clone();
            account.lateness.merge(&half);
        }
        account.ledger.merge(&Ledger { sent: 1, dropped_loss: 1, ..Ledger::default() });
        let told = super::account(&account);
        assert_eq!((&told["arrived"], &told["balances"]), (&json!(PACKETS + 1), &json!(true)));
        assert_eq!(told["lateness_ns"]["p99"], json!(100));
    }

    #[test]
    fn unbalanced_account_is_flagged() {
        assert_eq!(account(&of(&Ledger { sent: 1, ..Ledger::default() }, &[]))["balances"], false);
        let unheard = Ledger { sent: 1, delivered: 1, ..Ledger::default() };
        assert_eq!(account(&of(&unheard, &[]))["balances"], false, "delivered, and its lateness is unknown");
    }
}
