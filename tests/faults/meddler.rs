//! Host on the path: copies, changes and reflects packets, forges ACKs where there is no cipher,
//! and looks for a header that was sealed twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rdt::sim::{Interceptor, NodeId};

use crate::faults::checker::Checker;
use crate::faults::wire::{self, DATA, FIN};

/// Bytes of the clear header of a sealed packet: with it a nonce is used once.
const HEADER: usize = 16;

#[derive(Debug)]
pub(super) struct Meddler {
    rng: SmallRng,
    /// Arrivals in a thousand that are followed by a forged packet.
    forged: u32,
    /// True if both sides update their keys.
    updates_keys: bool,
    /// ACKs that were forged.
    pub(super) forged_acks: u64,
    old: Vec<Vec<u8>>,
    responder: NodeId,
    /// Whether the responder sent it, and header with key phase and number, of each sealed packet.
    headers: BTreeSet<(bool, [u8; HEADER])>,
    /// Key phases of sealed packets.
    pub(super) phases: BTreeSet<u8>,
    /// `None` for a connection with a cipher.
    checker: Option<Arc<Mutex<Checker>>>,
    pub(super) violation: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Shared(pub(super) Arc<Mutex<Meddler>>);

impl Meddler {
    pub(super) fn new(
        seed: u64,
        (forged, updates_keys): (u32, bool),
        responder: NodeId,
        checker: Option<Arc<Mutex<Checker>>>,
    ) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed ^ 0x5EED),
            forged,
            updates_keys,
            forged_acks: 0,
            old: Vec::new(),
            responder,
            headers: BTreeSet::new(),
            phases: BTreeSet::new(),
            checker,
            violation: None,
        }
    }

    fn note_header(&mut self, from: NodeId, datagram: &[u8]) {
        let Some(header) = datagram.first_chunk::<HEADER>().filter(|header| wire::is_sealed(*header)) else {
            return;
        };
        self.phases.insert(header[2] & 3);
        // Type and flags may differ for one nonce; space and number may not.
        let mut nonce = *header;
        nonce[1] = u8::from(matches!(header[1], DATA | FIN));
        nonce[2..4].fill(0);
        if !self.headers.insert((from == self.responder, nonce)) {
            self.violation.get_or_insert_with(|| format!("a nonce was used twice: {header:02x?}"));
        }
    }

    /// Returns a packet that follows `datagram`, which arrived from one node at another.
    fn meddle(&mut self, now: Instant, ends: (NodeId, NodeId), datagram: &[u8]) -> Option<Vec<u8>> {
        if !self.rng.random_bool(f64::from(self.forged) / 1000.0) {
            return None;
        }
        let Self { rng, old, .. } = self;
        // Reflected packets and packets of the other direction are among the old ones.
        if old.len() < 64 {
            old.push(datagram.to_vec());
        } else {
            let at = rng.random_range(0..old.len());
            old[at] = datagram.to_vec();
        }
        // No ACK of a connection with a cipher can be forged. Without one, nothing tells a
        // packet of an old phase from one of the next, and forged and old packets can end a
        // connection.
        let kinds = match &self.checker {
            None => 3,
            Some(_) if self.updates_keys => 2,
            Some(_) => 5,
        };
        let mut changed = match rng.random_range(0..kinds) {
            0 => datagram.to_vec(),
            1 => {
                let mut changed = datagram.to_vec();
                let at = rng.random_range(0..changed.len());
                changed[at] ^= 1 << rng.random_range(0..8);
                changed
            }
            2 => old[rng.random_range(0..old.len())].clone(),
            _ => {
                let mut checker = self.checker.as_ref()?.lock().unwrap();
                let ack = checker.forge(now, ends, datagram, |below| rng.random_range(0..below.max(1)));
                self.forged_acks += u64::from(ack.is_some());
                return ack;
            }
        };
        if rng.random_bool(0.1) {
            changed.truncate(rng.random_range(0..=changed.len()));
        }
        if let Some(checker) = &self.checker {
            checker.lock().unwrap().on_arrived(now, ends, &changed);
        }
        Some(changed)
    }
}

impl Interceptor for Shared {
    fn on_sent(&mut self, now: Instant, from: NodeId, _: NodeId, datagram: &[u8]) {
        let mut meddler = self.0.lock().unwrap();
        meddler.note_header(from, datagram);
        if let Some(checker) = &meddler.checker {
            checker.lock().unwrap().on_sent(now, from, datagram);
        }
    }

    fn on_arrived(&mut self, now: Instant, from: NodeId, to: NodeId, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut meddler = self.0.lock().unwrap();
        if let Some(checker) = &meddler.checker {
            checker.lock().unwrap().on_arrived(now, (from, to), datagram);
        }
        meddler.meddle(now, (from, to), datagram).into_iter().collect()
    }
}
