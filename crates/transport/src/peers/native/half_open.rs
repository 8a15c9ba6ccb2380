//! Half-open connections: handshakes of peers that were answered and are not complete. Only a peer
//! that has proved its address gets an entry. The oldest entry makes room for a new one, and one
//! host may have a quarter of the table.
//!
//! An entry is found by the local connection ID, and by the SYN that made it, because a repeated
//! SYN gets the same answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdt_crypto::{Aead, PublicKey, ResetToken, Responder, SecretId};

use crate::connection::Established;
use crate::peers::sources::SourceCounts;
use crate::receiver::BufferShare;

/// Time after which an entry is removed: the longest validity of the cookie in its SYN. Later SYNs
/// prove the address once more and get a new entry.
const LIFETIME: Duration = Duration::from_secs(30);

/// Interval of answers to copies of the same packet. Copies come faster only from an attacker: a
/// SYN is repeated after 1 s, an AUTH after 200 ms.
const ANSWER_INTERVAL: Duration = Duration::from_millis(50);

/// Handshake that waits for the initiator.
#[derive(Debug)]
pub(super) struct HalfOpen<P> {
    /// Address that was proved.
    pub(super) peer: P,
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
    Sealed(Box<AwaitedSealed>),
    /// None: refused. Further packets are answered by this CLOSE. It is empty if message 2 refuses
    /// or message 1 was invalid.
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

/// State of a handshake that waits for the first sealed packet.
#[derive(Debug)]
pub(super) struct AwaitedSealed {
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
        second: Vec<u8>,
        stage: Stage,
    ) -> Self {
        let second = second.into_boxed_slice();
        let expires = now + LIFETIME;
        let (answered_at, is_repeated, source) = (None, false, None);
        Self { peer, remote_id, syn, second, stage, answered_at, is_repeated, source, expires }
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
    /// Number of entries of each source.
    sources: SourceCounts,
    max: usize,
}

impl<P> HalfOpenTable<P> {
    pub(super) fn new(max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_syn: BTreeMap::new(),
            expiries: BTreeSet::new(),
            sources: SourceCounts::default(),
            max: max.max(1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the oldest entry would make room for a new one.
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

    /// True if this host may have one more entry.
    pub(super) fn has_room_for(&self, source: Option<u64>) -> bool {
        self.sources.of(source) < (self.max / 4).max(1)
    }

    /// Adds an entry of this host. Returns false if the oldest one made room for
    /// it.
    pub(super) fn insert(&mut self, id: u64, source: Option<u64>, mut entry: HalfOpen<P>) -> bool {
        let is_full = self.is_full();
        if is_full && let Some(&(_, oldest)) = self.expiries.first() {
            self.remove(oldest);
        }
        entry.source = source;
        self.sources.add(source);
        self.expiries.insert((entry.expires, id));
        self.by_syn.insert(entry.syn, id);
        self.entries.insert(id, entry);
        !is_full
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<HalfOpen<P>> {
        let entry = self.entries.remove(&id)?;
        self.by_syn.remove(&entry.syn);
        self.expiries.remove(&(entry.expires, id));
        self.sources.remove(entry.source);
        Some(entry)
    }

    /// Returns the time at which the oldest entry expires.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Removes the entries that have expired, and returns their number.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        while let Some(&(at, id)) = self.expiries.first()
            && at <= now
        {
            self.remove(id);
            expired += 1;
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    let entry = HalfOpen::new(now, ((), id, 100 + id), Vec::new(), Stage::default());
                    table.insert(id, source, entry);
                }
                1 => assert_eq!(table.contains(id), table.remove(id).is_some()),
                _ => {
                    table.expire(now);
                }
            }
            let len = table.len();
            let counted: usize = table.sources.values().sum();
            assert_eq!((table.by_syn.len(), table.expiries.len(), counted), (len, len, len));
            assert!(len <= 8 && table.sources.values().all(|count| (1..=2).contains(&count)));
            assert_eq!(table.find_syn(100 + id).is_some(), table.contains(id));
        }
    }
}
