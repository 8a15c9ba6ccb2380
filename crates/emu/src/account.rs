//! Accounts of a relay: packet counters and delays of each direction, while it runs and at the end.

use std::time::Duration;

use rdt_emulator::{DelayHistogram, Direction, Ledger};

#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Counters of the link. `busy` excludes service that was still to come when they were copied.
    pub(crate) ledger: Ledger,
    /// Time between due time and departure of each delivered packet.
    pub(crate) lateness: DelayHistogram,
    /// Packets that the link delivered and the system then refused to send.
    pub(crate) refused: u64,
    /// Queueing delay of the packets that departed from the queue.
    pub(crate) queue_delays: DelayHistogram,
}

impl Account {
    /// Returns true if every packet is counted exactly once.
    pub(crate) fn balances(&self) -> bool {
        let Self { ledger, lateness, refused, .. } = self;
        ledger.balances() && lateness.count() == ledger.delivered && *refused <= ledger.delivered
    }
}

/// Name of a path in reports, which `--to` or a table of the description gave.
#[derive(Debug, Clone)]
pub(crate) struct DestinationName {
    pub(crate) name: String,
    /// Destination as reports show it; `None` for the path of all other packets.
    pub(crate) to: Option<String>,
    pub(crate) seed: u64,
}

/// Account of one destination's path.
pub(crate) type DestinationAccount = (DestinationName, [Account; 2]);

/// Counters of one direction for packets that the link delivered.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) direction: Direction,
    pub(crate) lateness: DelayHistogram,
    /// Packets that the link delivered and the system then refused to send.
    pub(crate) refused: u64,
}

impl Lane {
    pub(crate) fn new(direction: Direction) -> Self {
        Self { direction, lateness: DelayHistogram::default(), refused: 0 }
    }

    /// Returns the account of links whose admitted packets occupy them for `backlog` from now on.
    pub(crate) fn account(
        &self,
        mut ledger: Ledger,
        backlog: Duration,
        queue_delays: DelayHistogram,
    ) -> Account {
        // The link counts the service of a packet as soon as its times are known.
        ledger.busy = ledger.busy.saturating_sub(backlog);
        Account { ledger, lateness: self.lateness.clone(), refused: self.refused, queue_delays }
    }
}
