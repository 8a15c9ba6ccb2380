//! Associations in which peers open connections: the responder's side.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdt_crypto::{Aead, AssociationSecret, PublicKey, Received, ReplayWindow, SecretId};

use crate::wire::native::Instead;

/// Time after which the initiator stops using an association, so that further connections have the
/// forward secrecy of a new handshake.
pub(super) const LIFETIME: Duration = Duration::from_secs(3600);
/// Further time in which the responder takes OPENs sent before. Initiators repeat them for less.
const GRACE: Duration = Duration::from_secs(300);

/// Largest number of associations that a side keeps as responder: 2 MiB.
const MAX_GRANTED: usize = 4096;
/// Numbers of refused OPENs that an association remembers.
const MAX_GIVEN_UP: usize = 256;
/// Time that is added to the age of an OPEN, because delays differ.
const AGE_MARGIN: Duration = Duration::from_secs(1);

/// Association of the responder.
#[derive(Debug)]
pub(super) struct Granted<P> {
    pub(super) secret: AssociationSecret,
    pub(super) aead: Aead,
    /// Address of the initiator, which it has proved.
    pub(super) address: P,
    /// Host that made the association; `None` if addresses have none.
    pub(super) source: Option<u64>,
    pub(super) peer: Option<PublicKey>,
    pub(super) shared: Option<SecretId>,
    pub(super) made_at: Instant,
    pub(super) used_at: Instant,
    /// Numbers of the connections that opened, or for which a handshake came instead.
    pub(super) used: ReplayWindow,
    /// Numbers for which a handshake came instead.
    pub(super) given_up: BTreeSet<u64>,
}

/// Associations in which peers open connections.
#[derive(Debug)]
pub(super) struct GrantedTable<P> {
    entries: BTreeMap<u64, Granted<P>>,
    /// Identifiers by the times of their newest uses, for each host that made them.
    by_use: BTreeMap<Option<u64>, BTreeSet<(Instant, u64)>>,
    /// Identifiers by the times of their handshakes.
    by_age: BTreeSet<(Instant, u64)>,
    /// Newest use of an association that was removed, or the start of this side: an OPEN that was
    /// sent later, of an association that this side does not know, has opened nothing.
    known_since: Option<Instant>,
}

impl<P> GrantedTable<P> {
    /// `since` is the start of this side; without it there are no associations.
    pub(super) fn new(since: Option<Instant>) -> Self {
        let (by_use, by_age) = (BTreeMap::new(), BTreeSet::new());
        Self { entries: BTreeMap::new(), by_use, by_age, known_since: since }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.known_since.is_some()
    }

    /// Removes all: the responder's configuration has changed, or its clock stood still.
    pub(super) fn clear(&mut self) {
        while let Some((&id, _)) = self.entries.first_key_value() {
            self.remove(id);
        }
    }

    pub(super) fn insert(&mut self, id: u64, granted: Granted<P>) {
        self.remove(id);
        if self.entries.len() >= MAX_GRANTED
            && let Some(oldest) = self.oldest_of_largest()
        {
            self.remove(oldest);
        }
        self.by_use.entry(granted.source).or_default().insert((granted.used_at, id));
        self.by_age.insert((granted.made_at, id));
        self.entries.insert(id, granted);
    }

    /// Returns the association that was not used for the longest time, of the hosts that have most.
    /// So one host that makes many of them removes its own.
    fn oldest_of_largest(&self) -> Option<u64> {
        let largest = self.by_use.values().max_by_key(|ids| (ids.len(), Reverse(ids.first())));
        largest.and_then(BTreeSet::first).map(|(_, id)| *id)
    }

    pub(super) fn get_mut(&mut self, now: Instant, id: u64) -> Option<&mut Granted<P>> {
        self.entries.get_mut(&id).filter(|granted| now < granted.made_at + LIFETIME + GRACE)
    }

    pub(super) fn touch(&mut self, now: Instant, id: u64) {
        if let Some(granted) = self.entries.get_mut(&id)
            && let Some(by_use) = self.by_use.get_mut(&granted.source)
        {
            by_use.remove(&(granted.used_at, id));
            granted.used_at = now;
            by_use.insert((now, id));
        }
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(granted) = self.entries.remove(&id) {
            if let Some(by_use) = self.by_use.get_mut(&granted.source) {
                by_use.remove(&(granted.used_at, id));
                if by_use.is_empty() {
                    self.by_use.remove(&granted.source);
                }
            }
            self.by_age.remove(&(granted.made_at, id));
            self.known_since = self.known_since.max(Some(granted.used_at));
        }
    }

    /// Returns the time at which the oldest association expires.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.by_age.first().map(|(made_at, _)| *made_at + LIFETIME + GRACE)
    }

    /// Removes those that have expired, so that their secrets do not stay.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(&(made_at, id)) = self.by_age.first()
            && made_at + LIFETIME + GRACE <= now
        {
            self.remove(id);
        }
    }

    #[cfg(test)]
    pub(super) fn set_start(&mut self, since: Instant) {
        self.known_since = Some(since);
    }

    #[cfg(test)]
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        self.entries.keys().copied()
    }

    pub(super) fn on_moved(&mut self, id: u64, address: P) {
        if let Some(granted) = self.entries.get_mut(&id) {
            granted.address = address;
        }
    }

    /// True if a handshake may replace an OPEN: it has opened no connection, and will open none.
    /// `scope` is that of this side: another side with its identity knows of other associations.
    pub(super) fn give_up(&mut self, now: Instant, scope: u32, instead: &Instead) -> bool {
        let age = Duration::from_millis(instead.age_ms.into()) + AGE_MARGIN;
        if instead.scope != scope {
            return false;
        }
        let Some(granted) = self.get_mut(now, instead.association) else {
            return self.known_since.is_some_and(|since| now.saturating_duration_since(since) >= age);
        };
        let number = instead.number;
        if instead.proof != granted.secret.give_up_proof(number) {
            return false;
        }
        // The initiator repeats the handshake.
        if granted.given_up.contains(&number) {
            return true;
        }
        let is_new = granted.used.enter(number) == Received::New;
        if is_new {
            granted.given_up.insert(number);
            if granted.given_up.len() > MAX_GIVEN_UP {
                granted.given_up.pop_first();
            }
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use rdt_crypto::{Secrets, TrafficSecret};

    use super::*;

    fn granted(source: u64, used_at: Instant) -> Granted<u64> {
        let [from_initiator, from_responder] = [1, 2].map(|byte| TrafficSecret::new([byte; 32]));
        let secrets = Secrets { from_initiator, from_responder, handshake_hash: [0; 32] };
        Granted {
            secret: AssociationSecret::of(&secrets),
            aead: Aead::Aes128Gcm,
            address: source,
            source: Some(source),
            peer: None,
            shared: None,
            made_at: used_at,
            used_at,
            used: ReplayWindow::new(),
            given_up: BTreeSet::new(),
        }
    }

    /// One host makes more associations than there is room for.
    #[test]
    fn host_with_many_associations_removes_its_own() {
        let epoch = rdt_testing::epoch();
        let mut table = GrantedTable::new(Some(epoch));
        table.insert(1, granted(1, epoch));
        for id in 2..=2 * MAX_GRANTED as u64 {
            table.insert(id, granted(2, epoch + Duration::from_millis(id)));
        }
        let first = 2 * MAX_GRANTED as u64 + 2 - MAX_GRANTED as u64;
        let expected: Vec<u64> = std::iter::once(1).chain(first..=2 * MAX_GRANTED as u64).collect();
        assert_eq!(table.ids().collect::<Vec<_>>(), expected);
        table.clear();
        assert!(table.by_use.is_empty() && table.by_age.is_empty());
    }
}
