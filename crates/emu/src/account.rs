//! Accounts of a relay: counters of each direction, at the end or at run time.

use rdt_emulator::{DelayHistogram, Direction, Ledger};

use crate::paths::Paths;

/// Counters of one direction of a relay.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) ledger: Ledger,
    /// Delay of each packet after its due time.
    pub(crate) lateness: DelayHistogram,
    /// Packets that the system refused after delivery by the link.
    pub(crate) refused: u64,
    /// Queueing delay of the packets that left the queue.
    pub(crate) queue_delays: DelayHistogram,
}

impl Account {
    /// Returns true if every packet is counted exactly once.
    pub(crate) fn balances(&self) -> bool {
        let Self { ledger, lateness, refused, .. } = self;
        ledger.balances() && lateness.count() == ledger.delivered && *refused <= ledger.delivered
    }
}

pub(crate) struct Accounts<'a> {
    pub(crate) paths: &'a Paths,
    pub(crate) forward: &'a Lane,
    pub(crate) reverse: &'a Lane,
}

impl Accounts<'_> {
    pub(crate) fn ledger(&self, direction: Direction) -> Ledger {
        self.paths.ledger(direction)
    }

    /// Copies the account of one direction so far, for another thread. Takes some microseconds.
    pub(crate) fn account(&self, direction: Direction) -> Account {
        self.lane(direction).account(self.paths)
    }

    fn lane(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::Forward => self.forward,
            Direction::Reverse => self.reverse,
        }
    }
}

/// Counters of one direction after its link.
pub(crate) struct Lane {
    pub(crate) direction: Direction,
    pub(crate) lateness: DelayHistogram,
    /// Packets that the system refused after delivery by the link.
    pub(crate) refused: u64,
}

impl Lane {
    pub(crate) fn new(direction: Direction) -> Self {
        Self { direction, lateness: DelayHistogram::default(), refused: 0 }
    }

    pub(crate) fn account(&self, paths: &Paths) -> Account {
        Account {
            ledger: paths.ledger(self.direction),
            lateness: self.lateness.clone(),
            refused: self.refused,
            queue_delays: paths.queue_delays(self.direction),
        }
    }

    /// Returns the final account: packets on the path are abandoned.
    pub(crate) fn finish(self, paths: &Paths) -> Account {
        let mut account = self.account(paths);
        account.ledger.abandon();
        account
    }
}
