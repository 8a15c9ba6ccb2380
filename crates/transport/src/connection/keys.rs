//! Keys of a connection. The sealing side counts packets and updates its key; the opening side
//! follows the updates of its peer and recognizes replayed packets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_crypto::{Aead, PacketKey, Received, ReplayWindow, Space, TrafficSecret};

use crate::wire::native::{ControlHeader, Header, NativeCodec, PHASES, Probe};
use crate::wire::unwrap_near;

/// Largest number of packets that one key seals before it is replaced.
const MAX_PACKETS_PER_KEY: u64 = 1 << 24;
/// Bytes of full packets that one key may seal. AES-GCM loses its proof of confidentiality beyond
/// 2^28 packets of 2^11 bytes, or 2^23 of 2^16 (RFC 9001, section 6.6 and appendix B.1).
const MAX_BYTES_PER_KEY: u64 = 1 << 39;
/// Size for which the RFC gives the larger one of these numbers of packets, bytes.
const SMALL_PACKET: u64 = 1 << 11;
/// Part of the limit that is left for a batch in progress and for CLOSE, packets. A batch has 64
/// KiB, and a packet 40 bytes or more.
pub(super) const RESERVED_PACKETS: u64 = 1 << 12;
/// Longest use of one key.
const MAX_KEY_AGE: Duration = Duration::from_secs(3600);

/// Keys of the packets that this side sends.
#[derive(Debug)]
pub(super) struct SealingKeys {
    pub(super) aead: Aead,
    secret: TrafficSecret,
    key: Arc<PacketKey>,
    /// Number of key updates, modulo 256; its low two bits are sent.
    phase: u8,
    /// Number of the first packet of the data space that the key seals.
    first_data: u64,
    /// Connection ID of the peer.
    pub(super) remote_id: u64,
    /// Number of the next packet of the control space.
    next_control: u64,
    /// Packets of both spaces that earlier keys sealed.
    sealed_before: u64,
    /// Time from which an update of the key is due.
    expires_at: Instant,
    /// Number of packets after which an update of the key is due.
    max_packets: u64,
    /// Number of packets that a key never exceeds.
    pub(super) limit: u64,
    /// True if the peer has proved that it opened a packet of the present phase. The peer opens one
    /// phase ahead, so an update without that proof may leave it two phases behind (RFC 9001,
    /// section 6.1).
    is_followed: bool,
}

impl SealingKeys {
    /// Creates the keys of packets that have at most `packet_size` bytes.
    pub(super) fn new(
        now: Instant,
        aead: Aead,
        secret: TrafficSecret,
        remote_id: u64,
        packet_size: usize,
    ) -> Self {
        let limit = MAX_BYTES_PER_KEY / (packet_size as u64).max(SMALL_PACKET);
        let key = Arc::new(secret.packet_key(aead));
        Self {
            aead,
            secret,
            key,
            phase: 0,
            first_data: 0,
            remote_id,
            next_control: 0,
            sealed_before: 0,
            expires_at: now + MAX_KEY_AGE,
            max_packets: due_after(limit),
            limit,
            is_followed: false,
        }
    }

    /// Returns the keys for a stream whose next packet has this number.
    pub(super) fn starting_at(mut self, next_data: u64) -> Self {
        (self.first_data, self.sealed_before) = (next_data, next_data);
        self
    }

    pub(super) fn codec(&self) -> NativeCodec {
        NativeCodec::new(self.remote_id, Arc::clone(&self.key))
    }

    pub(super) fn phase(&self) -> u8 {
        self.phase
    }

    /// Writes a packet of the control space by `encode` and seals it.
    pub(super) fn seal(&mut self, packet: &mut [u8], encode: impl FnOnce(&ControlHeader, &mut [u8])) {
        let number = self.next_control;
        self.next_control += 1;
        encode(&ControlHeader { connection_id: self.remote_id, phase: self.phase, number }, packet);
        self.key.seal(Space::Control, number, packet);
    }

    /// Handles an ACK of the peer; `largest` is the largest number of the data space in it.
    pub(super) fn on_ack(&mut self, largest: u64) {
        self.is_followed |= largest >= self.first_data;
    }

    /// Returns a path probe whose answer proves that the peer opened a packet of this key phase.
    pub(super) fn probe(&self) -> Probe {
        Probe { is_response: false, random: u64::from(self.phase) }
    }

    pub(super) fn on_path_answer(&mut self, number: u64) {
        self.is_followed |= number == u64::from(self.phase);
    }

    /// Updates the key if it is due. `next_data` is the number of the next packet of the data
    /// space. `adopt` gives the key to the stream, and returns false to postpone the update.
    /// Returns true if the update waits for a proof of the peer.
    pub(super) fn update_if_due(
        &mut self,
        now: Instant,
        next_data: u64,
        adopt: impl FnOnce(Arc<PacketKey>) -> bool,
    ) -> bool {
        let is_due = self.sealed(next_data) >= self.max_packets || now >= self.expires_at;
        if is_due && self.is_followed {
            self.update(now, next_data, adopt);
            return false;
        }
        is_due
    }

    /// True if the key must not seal a further batch: no update was possible in time.
    pub(super) fn is_used_up(&self, next_data: u64) -> bool {
        self.sealed(next_data) + RESERVED_PACKETS >= self.limit
    }

    /// Returns the number of packets that the key has sealed, skipped numbers included.
    fn sealed(&self, next_data: u64) -> u64 {
        next_data + self.next_control - self.sealed_before
    }

    #[cold]
    fn update(&mut self, now: Instant, next_data: u64, adopt: impl FnOnce(Arc<PacketKey>) -> bool) {
        let secret = self.secret.next();
        let key = Arc::new(secret.packet_key(self.aead));
        if !adopt(Arc::clone(&key)) {
            return;
        }
        self.secret = secret;
        self.key = key;
        self.phase = self.phase.wrapping_add(1);
        self.first_data = next_data;
        self.sealed_before = next_data + self.next_control;
        self.expires_at = now + MAX_KEY_AGE;
        self.max_packets = due_after(self.limit);
        self.is_followed = false;
    }

    /// Makes the next update due.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn use_up(&mut self) {
        self.max_packets = 0;
    }
}

/// Returns the number of packets after which the update of a key with this limit is due.
fn due_after(limit: u64) -> u64 {
    MAX_PACKETS_PER_KEY.min(limit / 2)
}

/// Keys of the packets that the peer sends, and the numbers of those that arrived.
#[derive(Debug)]
pub(super) struct OpeningKeys {
    aead: Aead,
    /// Secret of the present key.
    secret: TrafficSecret,
    present: PacketKey,
    phase: u8,
    previous: Option<Box<PreviousKey>>,
    /// Key of the next phase, computed when its first packet arrives, genuine or forged.
    next: Option<Box<PacketKey>>,
    data: ReplayWindow,
    control: ReplayWindow,
    /// Largest number of the data space when the connection was idle last.
    idle_at: u64,
}

/// Key of the phase before the present one, for packets that were overtaken.
#[derive(Debug)]
struct PreviousKey {
    key: PacketKey,
    /// Smallest number of each space that the present key has opened: the peer seals no larger
    /// number by this key any more (RFC 9001, section 6.4).
    ends: [u64; 2],
    /// Time at which the key is dropped; set after the packet that began the present phase.
    until: Option<Instant>,
}

/// Authentic packet that arrived for the first time.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    /// Number in its space.
    pub(super) number: u64,
    pub(super) body: &'a [u8],
    /// True if no packet of the space with a larger number arrived before.
    pub(super) is_newest: bool,
}

/// Reason why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// Not sealed by a key of the connection.
    Forged,
    /// Received before, or too old to tell.
    Replayed,
}

impl OpeningKeys {
    pub(super) fn new(aead: Aead, secret: TrafficSecret) -> Self {
        Self {
            present: secret.packet_key(aead),
            aead,
            secret,
            phase: 0,
            previous: None,
            next: None,
            data: ReplayWindow::new(),
            control: ReplayWindow::new(),
            idle_at: 0,
        }
    }

    /// Opens a packet with this header in place. A packet that is dropped changes nothing.
    #[inline]
    pub(super) fn open<'a>(
        &mut self,
        header: &Header,
        datagram: &'a mut [u8],
    ) -> Result<Opened<'a>, Dropped> {
        let space = header.space();
        let window = if space == Space::Data { &self.data } else { &self.control };
        let largest = window.largest();
        let number = unwrap_near(header.number, largest.unwrap_or(0)).ok_or(Dropped::Forged)?;
        if window.check(number) != Received::New {
            return Err(Dropped::Replayed);
        }
        let ahead = header.phase().wrapping_sub(self.phase) % PHASES;
        let body = match ahead {
            0 => self.present.open(space, number, datagram),
            1 => self.next_key().open(space, number, datagram),
            3 => {
                let previous = self.previous.as_ref().filter(|key| number < key.ends[space as usize]);
                previous.ok_or(Dropped::Forged)?.key.open(space, number, datagram)
            }
            _ => return Err(Dropped::Forged),
        };
        let body = body.map_err(|_| Dropped::Forged)?;
        if ahead == 1 {
            self.follow();
        }
        if ahead != 3
            && let Some(previous) = &mut self.previous
        {
            let end = &mut previous.ends[space as usize];
            *end = number.min(*end);
        }
        let window = if space == Space::Data { &mut self.data } else { &mut self.control };
        window.enter(number);
        Ok(Opened { number, body, is_newest: largest.is_none_or(|largest| largest < number) })
    }

    /// Grows the replay window of the stream for this number of packets in flight. Packets that
    /// have not arrived yet need no room, so an idle connection stays small.
    pub(super) fn cover(&mut self, packets: u64) {
        let arrived = self.data.largest().unwrap_or(0).saturating_sub(self.idle_at);
        self.data.cover(packets.min(arrived));
    }

    /// Shrinks the replay windows of an idle connection.
    pub(super) fn shrink(&mut self) {
        self.idle_at = self.data.largest().unwrap_or(0);
        self.data.shrink(0);
    }

    /// Sets the time at which the key of the phase before is dropped, once for each phase.
    pub(super) fn keep_previous_until(&mut self, until: impl FnOnce() -> Instant) {
        if let Some(previous) = &mut self.previous
            && previous.until.is_none()
        {
            previous.until = Some(until());
        }
    }

    /// Returns the time at which the key of the phase before is dropped.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.previous.as_ref()?.until
    }

    /// Drops the key of the phase before, if it is time.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.previous = None;
        }
    }

    fn next_key(&mut self) -> &PacketKey {
        let Self { next, secret, aead, .. } = self;
        next.get_or_insert_with(|| Box::new(secret.next().packet_key(*aead)))
    }

    /// Moves to the next key phase: the peer has updated its key.
    #[cold]
    fn follow(&mut self) {
        let Some(next) = self.next.take() else { return };
        self.secret = self.secret.next();
        let key = std::mem::replace(&mut self.present, *next);
        self.previous = Some(Box::new(PreviousKey { key, ends: [u64::MAX; 2], until: None }));
        self.phase = self.phase.wrapping_add(1) % PHASES;
    }
}
