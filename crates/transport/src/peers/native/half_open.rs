//! Half-open connections: handshakes of peers that were answered and are not complete. One host may
//! have a quarter of the table. In a full table, entries without a proof of the address make room
//! first, then those of the hosts with most proved ones for a host with fewer. So a few hosts
//! cannot end the handshakes of others, and forged addresses count against no host.
//!
//! An entry is found by the local connection ID, and by the SYN that made it, because a repeated
//! SYN gets the same answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use rdt_crypto::{Aead, PublicKey, ResetToken, Responder, SecretId};

use crate::connection::Established;
use crate::peers::sources::SourceCounts;
use crate::receiver::BufferShare;

/// Time after which an entry is removed: the longest validity of the cookie in its SYN. Later SYNs
/// prove the address once more and get a new entry.
const LIFETIME: Duration = Duration::from_secs(30);
/// Lifetime of an entry whose SYN had no proof of its address: three SYNs are sent by then.
const UNPROVEN_LIFETIME: Duration = Duration::from_secs(10);

/// Interval of answers to copies of the same packet. Copies come faster only from an attacker: a
/// SYN is repeated after 50 ms at the earliest, an AUTH after 200 ms.
const ANSWER_INTERVAL: Duration = Duration::from_millis(25);

/// Largest number of IDs of removed entries, 400 KB: those of 2 s at the highest rate of removals.
const MAX_FORGOTTEN: usize = 8192;

/// Handshake that waits for the initiator.
#[derive(Debug)]
pub(super) struct HalfOpen<P> {
    /// Address of the initiator.
    pub(super) peer: P,
    /// True if a SYN proved the address.
    pub(super) is_proven: bool,
    /// Connection ID of the initiator.
    pub(super) remote_id: u64,
    /// Digest of the SYN.
    pub(super) syn: u64,
    /// Message 2, which answers every copy of the SYN; empty if message 1 was invalid.
    pub(super) second: Box<[u8]>,
    pub(super) stage: Stage,
    /// Time of the newest answer; `None` before the first.
    answered_at: Option<Instant>,
    /// True if there was more than one answer: then the next packet measures no RTT.
    is_repeated: bool,
    /// Source of `peer`, under which the entry is counted.
    source: Option<u64>,
    expires: Instant,
}

/// Packet for which a handshake waits.
#[derive(Debug)]
pub(super) enum Stage {
    /// AUTH (XX).
    Auth(Box<AwaitedAuth>),
    /// First sealed packet (IK, NK): message 1 may be a replay.
    Sealed(Box<Candidate>),
    /// Refused. This CLOSE answers further packets; empty if message 2 refused, or 1 was invalid.
    Refused(Box<[u8]>),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Refused(Box::default())
    }
}

/// State of a handshake that waits for message 3.
#[derive(Debug)]
pub(super) struct AwaitedAuth {
    pub(super) noise: Responder,
    pub(super) aead: Aead,
    pub(super) secret: Option<SecretId>,
    /// Time at which the first window was offered.
    pub(super) offered_at: Instant,
    /// Share of the socket's buffer by which the first window was sized.
    pub(super) share: Option<BufferShare>,
}

/// Connection whose keys are computed, before the set accepts it.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) established: Established,
    pub(super) peer: Option<PublicKey>,
    pub(super) secret: Option<SecretId>,
    /// Share of the socket's buffer by which the first window was sized.
    pub(super) share: Option<BufferShare>,
}

impl<P> HalfOpen<P> {
    pub(super) fn new(
        now: Instant,
        (peer, remote_id, syn): (P, u64, u64),
        is_proven: bool,
        second: Vec<u8>,
        stage: Stage,
    ) -> Self {
        let second = second.into_boxed_slice();
        let expires = now + if is_proven { LIFETIME } else { UNPROVEN_LIFETIME };
        let (answered_at, is_repeated, source) = (None, false, None);
        Self { peer, is_proven, remote_id, syn, second, stage, answered_at, is_repeated, source, expires }
    }

    /// Returns true, and counts an answer as sent, unless one was sent a moment ago.
    pub(super) fn on_answer(&mut self, now: Instant) -> bool {
        let is_due = self.answered_at.is_none_or(|at| now.saturating_duration_since(at) >= ANSWER_INTERVAL);
        if is_due {
            self.is_repeated = self.answered_at.replace(now).is_some();
        }
        is_due
    }

    /// Returns the round trip of the handshake, if only one SYN-ACK was sent.
    pub(super) fn rtt(&self, now: Instant) -> Option<Duration> {
        self.answered_at.filter(|_| !self.is_repeated).map(|at| now.saturating_duration_since(at))
    }
}

/// Token of the RESETs of this side, and its connection ID.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnId {
    pub(super) id: u64,
    pub(super) reset_token: ResetToken,
}

/// All half-open connections of a set.
#[derive(Debug)]
pub(super) struct HalfOpenTable<P> {
    entries: BTreeMap<u64, HalfOpen<P>>,
    /// Own connection ID by the digest of the SYN.
    by_syn: BTreeMap<u64, u64>,
    /// Time of removal and connection ID of every entry.
    expiries: BTreeSet<(Instant, u64)>,
    /// Number of entries of each source whose addresses are proved.
    sources: SourceCounts,
    /// Number of the other entries of each source.
    unproven_sources: SourceCounts,
    /// Times of removal and connection IDs of entries whose addresses are not proved.
    unproven: BTreeSet<(Instant, u64)>,
    /// Connection IDs of removed entries, the newest last.
    forgotten: VecDeque<u64>,
    forgotten_ids: BTreeSet<u64>,
    max: usize,
}

impl<P> HalfOpenTable<P> {
    pub(super) fn new(max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_syn: BTreeMap::new(),
            expiries: BTreeSet::new(),
            sources: SourceCounts::default(),
            unproven_sources: SourceCounts::default(),
            unproven: BTreeSet::new(),
            forgotten: VecDeque::new(),
            forgotten_ids: BTreeSet::new(),
            max: max.max(1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of entries whose addresses are not proved, and of those of this source.
    pub(super) fn unproven(&self, source: Option<u64>) -> (usize, usize) {
        (self.unproven.len(), self.unproven_sources.of(source))
    }

    /// True if an entry would make room for a new one.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.max
    }

    pub(super) fn contains(&self, id: u64) -> bool {
        self.entries.contains_key(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut HalfOpen<P>> {
        self.entries.get_mut(&id)
    }

    /// Returns the entry that the SYN with this digest made.
    pub(super) fn find_syn(&mut self, syn: u64) -> Option<&mut HalfOpen<P>> {
        self.by_syn.get(&syn).and_then(|id| self.entries.get_mut(id))
    }

    /// True if this host may have one more entry with a proof of its address.
    pub(super) fn has_room_for(&self, source: Option<u64>) -> bool {
        let count = self.sources.of(source);
        let has_fewest = || source.is_none() || !self.unproven.is_empty() || count < self.sources.largest();
        count < (self.max / 4).max(1) && (!self.is_full() || has_fewest())
    }

    /// Returns the entry that makes room for a new one: the oldest without a proof of its address,
    /// else the oldest of the hosts that have most.
    fn victim(&self) -> Option<u64> {
        let most = self.sources.largest();
        let of_most =
            |id: &u64| self.entries.get(id).is_some_and(|entry| self.sources.of(entry.source) == most);
        let unproven = self.unproven.first().map(|(_, id)| *id);
        unproven.or_else(|| self.expiries.iter().map(|(_, id)| *id).find(of_most))
    }

    /// Adds an entry of this host. Returns false if another one made room for it.
    pub(super) fn insert(&mut self, id: u64, source: Option<u64>, mut entry: HalfOpen<P>) -> bool {
        let is_full = self.is_full();
        if is_full && let Some(victim) = self.victim() {
            self.forget(victim);
        }
        entry.source = source;
        self.expiries.insert((entry.expires, id));
        self.by_syn.insert(entry.syn, id);
        self.count(id, &entry);
        self.entries.insert(id, entry);
        !is_full
    }

    /// Notes that a later SYN proved the address of the entry that the SYN with this digest made.
    pub(super) fn prove(&mut self, syn: u64, now: Instant) {
        let Some(id) = self.by_syn.get(&syn).copied() else { return };
        let Some(entry) = self.entries.get(&id) else { return };
        if entry.is_proven || self.sources.of(entry.source) >= (self.max / 4).max(1) {
            return;
        }
        let Some(mut entry) = self.remove(id) else { return };
        (entry.is_proven, entry.expires) = (true, now + LIFETIME);
        self.insert(id, entry.source, entry);
    }

    fn count(&mut self, id: u64, entry: &HalfOpen<P>) {
        if entry.is_proven {
            self.sources.add(entry.source);
        } else {
            self.unproven_sources.add(entry.source);
            self.unproven.insert((entry.expires, id));
        }
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<HalfOpen<P>> {
        let entry = self.entries.remove(&id)?;
        self.by_syn.remove(&entry.syn);
        self.expiries.remove(&(entry.expires, id));
        if entry.is_proven {
            self.sources.remove(entry.source);
        } else {
            self.unproven_sources.remove(entry.source);
            self.unproven.remove(&(entry.expires, id));
        }
        Some(entry)
    }

    /// Removes an entry whose handshake is not complete.
    fn forget(&mut self, id: u64) {
        self.remove(id);
        if self.forgotten_ids.insert(id) {
            self.forgotten.push_back(id);
        }
        if self.forgotten.len() > MAX_FORGOTTEN
            && let Some(oldest) = self.forgotten.pop_front()
        {
            self.forgotten_ids.remove(&oldest);
        }
    }

    pub(super) fn clear(&mut self) {
        while let Some(&(_, id)) = self.expiries.first() {
            self.forget(id);
        }
    }

    /// True if an entry with this ID was removed lately before its handshake was complete.
    pub(super) fn has_forgotten(&self, id: u64) -> bool {
        self.forgotten_ids.contains(&id)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Removes the entries that have expired, and returns their number.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        while let Some(&(at, id)) = self.expiries.first()
            && at <= now
        {
            self.forget(id);
            expired += 1;
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(now: Instant, id: u64) -> HalfOpen<()> {
        HalfOpen::new(now, ((), id, id), true, Vec::new(), Stage::default())
    }

    /// In a full table, hosts with many entries make room for those with fewer, and for none of
    /// their own.
    #[test]
    fn full_table_drops_entry_of_host_with_most() {
        let now = rdt_testing::epoch();
        let mut table = HalfOpenTable::new(16);
        table.insert(0, Some(0), entry(now, 0));
        for id in 1..16 {
            let at = now + Duration::from_secs(id);
            table.insert(id, Some(1 + id % 4), entry(at, id));
        }
        let later = now + Duration::from_secs(16);
        assert!(
            [9, 1].into_iter().all(|host| table.has_room_for(Some(host))) && !table.has_room_for(Some(2))
        );
        assert!(!table.insert(16, Some(9), entry(later, 16)));
        assert!(table.contains(0) && !table.contains(1), "the oldest of the hosts that have four");
    }

    /// Forged SYNs of a host make nothing of it worse, and go first.
    #[test]
    fn full_table_drops_unproven_entry_first() {
        let now = rdt_testing::epoch();
        let mut table = HalfOpenTable::new(16);
        let later = now + Duration::from_secs(1);
        for id in 0..15 {
            table.insert(id, Some(1 + id % 5), entry(now, id));
        }
        let unproven = HalfOpen::new(later, ((), 15, 15), false, Vec::new(), Stage::default());
        table.insert(15, Some(9), unproven);
        assert!((0..10).all(|host| table.has_room_for(Some(host))));
        assert!(!table.insert(16, Some(1), entry(later, 16)));
        assert!(!table.contains(15) && table.has_forgotten(15) && !table.has_forgotten(16));
        assert!(!table.has_room_for(Some(1)) && table.has_room_for(Some(2)) && table.has_room_for(Some(9)));
    }

    #[test]
    fn proved_entry_lives_for_30_s() {
        let now = rdt_testing::epoch();
        let mut table = HalfOpenTable::new(16);
        table.insert(1, Some(1), HalfOpen::new(now, ((), 1, 1), false, Vec::new(), Stage::default()));
        table.prove(1, now + Duration::from_secs(5));
        assert_eq!((table.unproven(Some(1)).1, table.deadline()), (0, Some(now + Duration::from_secs(35))));
    }

    #[test]
    fn unproven_entry_expires_after_10_s() {
        let now = rdt_testing::epoch();
        for (is_proven, s) in [(true, 30), (false, 10)] {
            let mut table = HalfOpenTable::new(16);
            table.insert(1, None, HalfOpen::new(now, ((), 1, 1), is_proven, Vec::new(), Stage::default()));
            assert_eq!(table.unproven(None).0, usize::from(!is_proven));
            assert_eq!(table.deadline(), Some(now + Duration::from_secs(s)));
        }
    }

    #[test]
    fn random_operations_keep_indexes_in_step() {
        let now = rdt_testing::epoch();
        let mut numbers = rdt_testing::Numbers::new(1);
        let mut table = HalfOpenTable::new(8);
        for step in 0..20_000 {
            let now = now + Duration::from_millis(step);
            let id = numbers.below(16);
            let source = Some(numbers.below(3));
            match numbers.below(3) {
                0 if !table.contains(id) && table.has_room_for(source) => {
                    let is_proven = numbers.below(2) == 0;
                    let entry =
                        HalfOpen::new(now, ((), id, 100 + id), is_proven, Vec::new(), Stage::default());
                    table.insert(id, source, entry);
                }
                1 if numbers.below(2) == 0 => table.prove(100 + id, now),
                1 => assert_eq!(table.contains(id), table.remove(id).is_some()),
                _ => {
                    table.expire(now);
                }
            }
            let len = table.len();
            assert_eq!((table.by_syn.len(), table.expiries.len()), (len, len));
            let unproven = table.entries.values().filter(|entry| !entry.is_proven).count();
            let [proved, unproved] = [&table.sources, &table.unproven_sources].map(|of| of.values().sum());
            assert_eq!((proved, unproved, table.unproven.len()), (len - unproven, unproven, unproven));
            assert!(len <= 8 && table.sources.values().all(|count| (1..=2).contains(&count)));
            assert_eq!(table.find_syn(100 + id).is_some(), table.contains(id));
        }
    }
}
