//! Connections by the host of their peer, to find those that share a path.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Connections to one host that are searched, and that share what they know.
const MAX_SEARCHED: usize = 64;

/// IDs of the connections to each host, if addresses have hosts.
#[derive(Debug, Default)]
pub(super) struct ByHost(BTreeMap<IpAddr, BTreeSet<u64>>);

impl ByHost {
    pub(super) fn insert(&mut self, host: IpAddr, id: u64) {
        self.0.entry(host).or_default().insert(id);
    }

    pub(super) fn remove(&mut self, host: IpAddr, id: u64) {
        if let Some(ids) = self.0.get_mut(&host) {
            ids.remove(&id);
            if ids.is_empty() {
                self.0.remove(&host);
            }
        }
    }

    /// Returns the connections to a host. `None` if there are more than [`MAX_SEARCHED`].
    pub(super) fn few(&self, host: IpAddr) -> Option<Vec<u64>> {
        let Some(ids) = self.0.get(&host) else { return Some(Vec::new()) };
        (ids.len() <= MAX_SEARCHED).then(|| ids.iter().copied().collect())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }
}
