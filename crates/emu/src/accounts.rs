//! Accounts of all packets of a relay, copied while it runs.

use std::time::Instant;

use crate::account::{Account, Lane};
use crate::paths::Paths;

pub(crate) struct Accounts<'a> {
    pub(crate) paths: &'a Paths,
    /// Forward first.
    pub(crate) lanes: [&'a Lane; 2],
}

impl Accounts<'_> {
    /// Copies the accounts until `now`, forward first, which takes some microseconds.
    pub(crate) fn copy(&self, now: Instant) -> [Account; 2] {
        self.lanes.map(|lane| self.paths.account(lane, now))
    }
}
