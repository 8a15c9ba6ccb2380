//! Bugs planted in the transport, each of which the search must find. Without them the same seeds
//! pass.

use rdt::transport::planted::{Bug, number_from, plant};

use super::search;

/// Seeds that find each bug: those of the normal run.
const WITHIN: u64 = 2_000;
/// First transmission number: longer transfers wrap around 2^32.
const FIRST_TX: u64 = (1 << 32) - 50;

#[test]
fn planted_bugs_are_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let (mut faults, done) = search(0..WITHIN, 1, || {
            plant(Some(bug));
            number_from(FIRST_TX);
        });
        faults.sort();
        match faults.first() {
            Some(fault) => {
                let rule = fault.rule.lines().next().unwrap_or_default();
                eprintln!("{bug:?}: seed {}, after {} that passed: {rule}", fault.seed, done.len());
            }
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found within {WITHIN} seeds: {missed:?}");
}

#[test]
fn same_seeds_pass_without_bug() {
    let (mut faults, done) = search(0..WITHIN, 20, || {
        plant(None);
        number_from(FIRST_TX);
    });
    faults.sort();
    assert!(faults.is_empty() && done.len() as u64 == WITHIN, "{faults:#?}");
}
