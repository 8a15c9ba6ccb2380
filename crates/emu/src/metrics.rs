//! Metrics of `rdt-emu proxy --metrics`: the relay copies its accounts at an interval, and a scrape
//! reads the copy.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_emulator::DropCause;
use rdt_program::Shown;
use rdt_program::metrics::{self, Samples};

use crate::Failure;
use crate::account::Account;
use crate::relay::{Event, Observer};
use crate::talk;

/// Interval of the copies: the age of a value at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// Accounts of both directions, forward first.
type Copy = Arc<Mutex<Option<[Account; 2]>>>;

/// Observer that copies the accounts.
#[derive(Debug)]
pub(crate) struct Published {
    copy: Copy,
    next: Instant,
}

impl Published {
    /// Serves the accounts at `address`, and prints where.
    pub(crate) fn serve(address: SocketAddr, now: Instant) -> Result<Self, Failure> {
        let copy = Copy::default();
        let shared = Arc::clone(&copy);
        let read = move |samples: &mut Samples| {
            let accounts = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(accounts) = accounts {
                add(&accounts, samples);
            }
        };
        let bound = metrics::serve(address, read).map_err(|error| Failure::bind(address, error))?;
        talk(&format!("metrics at http://{}/metrics", Shown(bound)));
        Ok(Self { copy, next: now })
    }
}

impl Observer for Published {
    fn on(&mut self, event: &Event<'_>) {
        if let Event::Turn(at, accounts) = *event
            && self.next <= at
        {
            self.next = at + INTERVAL;
            *self.copy.lock().unwrap_or_else(PoisonError::into_inner) = Some(accounts.copy(at));
        }
    }

    fn next_turn(&self) -> Option<Instant> {
        Some(self.next)
    }
}

/// Name, help and value of a counter of one direction.
type Counter = (&'static str, &'static str, fn(&Account) -> u64);

fn add(accounts: &[Account; 2], samples: &mut Samples) {
    let counters: [Counter; 10] = [
        ("rdt_emu_arrived_packets", "Packets that came to the path", |it| it.ledger.sent),
        ("rdt_emu_arrived_bytes", "Bytes of packets that came to the path", |it| it.ledger.sent_bytes),
        ("rdt_emu_delivered_packets", "Packets that left the link", |it| it.ledger.delivered),
        ("rdt_emu_delivered_bytes", "Bytes of packets that left the link", |it| it.ledger.delivered_bytes),
        ("rdt_emu_duplicated_packets", "Additional copies of packets that the link made", |it| {
            it.ledger.duplicated
        }),
        ("rdt_emu_marked_packets", "Packets that the link gave the congestion mark CE of ECN", |it| {
            it.ledger.marked
        }),
        ("rdt_emu_corrupted_packets", "Packets in which the link changed a bit", |it| it.ledger.corrupted),
        (
            "rdt_emu_reordered_packets",
            "Packets that the link held back so that later ones overtook them",
            |it| it.ledger.reordered,
        ),
        ("rdt_emu_fragmented_packets", "Packets that the link cut into fragments", |it| it.ledger.fragmented),
        ("rdt_emu_refused_packets", "Packets that left the link and that the system refused to send", |it| {
            it.refused
        }),
    ];
    let [forward, reverse] = accounts;
    let directions = [([("direction", "forward")], forward), ([("direction", "reverse")], reverse)];
    for (name, help, value) in counters {
        samples.counters(name, help, directions.map(|(labels, of)| (labels, value(of))));
    }
    let drops = directions.into_iter().flat_map(|([direction], account)| {
        DropCause::ALL
            .iter()
            .map(move |&cause| ([direction, ("cause", cause.name())], account.ledger.dropped(cause)))
    });
    samples.counters("rdt_emu_dropped_packets", "Packets that the link dropped, by cause", drops);
    let in_flight = directions.map(|(labels, of)| (labels, of.ledger.in_flight));
    samples.gauges("rdt_emu_in_flight_packets", "Packets on the link", in_flight);
    let busy = directions.map(|(labels, of)| (labels, of.ledger.busy.as_secs_f64()));
    samples.counters("rdt_emu_busy_seconds", "Time in which the link transmitted", busy);
    let late = directions.map(|(labels, of)| (labels, of.lateness.quantile(0.99).as_secs_f64()));
    let help = "99th percentile of the time from a packet's due time until it left";
    samples.gauges("rdt_emu_lateness_p99_seconds", help, late);
}
