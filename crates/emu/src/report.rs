//! What is told at the end, for people.

use std::fmt::Write;

use rdt_emulator::DropCause;

use crate::relay::Account;

/// Both accounts, the forward one first: a line each with what became of its packets, and one with how late they
/// were.
pub fn text(accounts: &[Account; 2]) -> String {
    let mut text = String::new();
    for (name, account) in ["forward", "reverse"].into_iter().zip(accounts) {
        let _ = writeln!(text, "{name}: {}", fates(account));
        if account.lateness.count() > 0 {
            let _ = writeln!(text, "{name}: {}", lateness(account));
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

fn lateness(account: &Account) -> String {
    let late = |q| account.lateness.quantile(q).as_nanos() / 1000;
    let max = account.lateness.max().as_nanos() / 1000;
    format!("late by {} us p50, {} us p99, {max} us at most", late(0.5), late(0.99))
}
