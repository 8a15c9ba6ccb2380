//! Final report as text.

use std::fmt::Write;
use std::time::Duration;

use rdt_emulator::{DelayHistogram, DropCause};

use crate::account::Account;
use crate::host::NAMES;

/// Formats both accounts, forward first: for each direction a line with packet counts, one with
/// queueing delays (if any packet was queued), and one with lateness.
pub(crate) fn text(accounts: &[Account; 2]) -> String {
    let mut text = String::new();
    for (name, account) in NAMES.into_iter().zip(accounts) {
        let _ = writeln!(text, "{name}: {}", fates(account));
        if account.queue_delays.max() > Duration::ZERO {
            let _ = writeln!(text, "{name}: queued for {}", percentiles(&account.queue_delays));
        }
        if account.lateness.count() > 0 {
            let _ = writeln!(text, "{name}: late by {}", percentiles(&account.lateness));
        }
    }
    text
}

fn fates(account: &Account) -> String {
    let ledger = &account.ledger;
    let mut text = format!("{} arrived, {} delivered", ledger.sent, ledger.delivered);
    let drops = DropCause::ALL.map(|cause| (cause.to_string(), ledger.dropped(cause)));
    let others = [
        ("duplicated", ledger.duplicated),
        ("marked", ledger.marked),
        ("corrupted", ledger.corrupted),
        ("reordered", ledger.reordered),
        ("in fragments", ledger.fragmented),
        ("on the way at the end", ledger.discarded),
        ("refused by the system after delivery", account.refused),
    ];
    for (name, count) in drops.into_iter().chain(others.map(|(name, count)| (name.to_owned(), count))) {
        if count > 0 {
            let _ = write!(text, ", {count} {name}");
        }
    }
    text
}

fn percentiles(delays: &DelayHistogram) -> String {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| us(delays.quantile(q)));
    format!("{p50:.1} us p50, {p99:.1} us p99, {p999:.1} us p99.9, {:.1} us at most", us(delays.max()))
}

#[cfg(test)]
mod tests {
    use rdt_emulator::{DelayHistogram, Ledger};

    use super::*;

    #[test]
    fn report_omits_zero_counters() {
        let mut lateness = DelayHistogram::default();
        lateness.record(Duration::from_nanos(1500));
        let ledger =
            Ledger { sent: 5, delivered: 1, dropped_loss: 3, discarded: 1, marked: 1, ..Ledger::default() };
        let idle = Account {
            ledger: Ledger::default(),
            lateness: DelayHistogram::default(),
            refused: 0,
            queue_delays: DelayHistogram::default(),
        };
        let expected = "\
forward: 5 arrived, 1 delivered, 3 lost on arrival, 1 marked, 1 on the way at the end
forward: late by 1.5 us p50, 1.5 us p99, 1.5 us p99.9, 1.5 us at most
reverse: 0 arrived, 0 delivered
";
        assert_eq!(
            text(&[Account { ledger, lateness, refused: 0, queue_delays: DelayHistogram::default() }, idle]),
            expected
        );
    }
}
