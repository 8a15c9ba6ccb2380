//! Accounts of a relay: packet counters and delays of each direction, while it runs and at the end.

use std::time::Instant;

use rdt_emulator::{DelayHistogram, Direction, Ledger};

use crate::paths::Paths;

#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Counters of the link. `busy` is the service time until the account was taken.
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

/// Name of one path of `--to` in reports.
#[derive(Debug, Clone)]
pub(crate) struct DestinationName {
    pub(crate) name: String,
    /// Prefix of its addresses; `None` for that of all other addresses.
    pub(crate) to: Option<String>,
    pub(crate) seed: u64,
}

/// Account of one path of `--to`.
pub(crate) type DestinationAccount = (DestinationName, [Account; 2]);

pub(crate) struct Accounts<'a> {
    pub(crate) paths: &'a Paths,
    pub(crate) forward: &'a Lane,
    pub(crate) reverse: &'a Lane,
}

impl Accounts<'_> {
    pub(crate) fn ledger(&self, direction: Direction) -> Ledger {
        self.paths.ledger(direction)
    }

    /// Copies the account of one direction until `now`, for use by another thread. Takes some
    /// microseconds.
    pub(crate) fn account(&self, direction: Direction, now: Instant) -> Account {
        self.lane(direction).account(self.paths, now)
    }

    fn lane(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::Forward => self.forward,
            Direction::Reverse => self.reverse,
        }
    }
}

/// Counters of one direction for packets that the link delivered.
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

    pub(crate) fn account(&self, paths: &Paths, now: Instant) -> Account {
        let mut ledger = paths.ledger(self.direction);
        // The link counts the service of a packet as soon as its times are known.
        ledger.busy = ledger.busy.saturating_sub(paths.backlog(self.direction, now));
        Account {
            ledger,
            lateness: self.lateness.clone(),
            refused: self.refused,
            queue_delays: paths.queue_delays(self.direction),
        }
    }

    /// Returns the final account, in which packets still on the path count as abandoned.
    pub(crate) fn finish(self, paths: &Paths, now: Instant) -> Account {
        let mut account = self.account(paths, now);
        account.ledger.abandon();
        account
    }
}
