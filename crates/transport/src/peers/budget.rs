//! Budget of the socket's receive buffer, which all peers share: how much each unfinished transfer
//! may have in flight. Receivers convert this budget into windows.
//!
//! - Transfers that sent data in this epoch (100 ms) or in the previous one are active. They divide
//!   the buffer equally.
//! - An offered window cannot be withdrawn, so a silent transfer keeps its offer. The silent ones
//!   together reserve at most half of the buffer: paused transfers and SYNs with forged addresses
//!   cost the active ones no more than that.
//! - No transfer is offered more than is free. A new or resumed one gets its part as the others use
//!   up their surplus.
//!
//! The sum of all offers therefore fits the buffer, except for the two packets that every peer may
//! send and for offers to silent transfers beyond that half.

use std::time::{Duration, Instant};

use super::config::SocketBuffer;
use crate::receiver::BufferShare;

/// Length of an epoch. A transfer is silent after one to two epochs without data.
const EPOCH: Duration = Duration::from_millis(100);

/// Claim of one unfinished transfer to the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// Epoch of the transfer's newest data; `None` before its first data.
    epoch: Option<u64>,
    /// Bytes, as charged to the buffer, that are offered and have not arrived.
    offered: u64,
}

/// Sums over the transfers whose newest data is of the same epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    transfers: u64,
    /// Sum of [`Claim::offered`].
    offered: u64,
}

/// The buffer and the claims to it.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// `None` if the buffer limits no window.
    buffer: Option<SocketBuffer>,
    /// Index of the present epoch.
    epoch: u64,
    /// Start of the present epoch; `None` before the first data.
    began: Option<Instant>,
    /// Transfers with data in the present epoch.
    present: Group,
    /// Transfers whose newest data is of the previous epoch.
    previous: Group,
    /// All other transfers.
    silent: Group,
    /// Bytes of data that arrived in the present epoch.
    arrived: u64,
    /// Part of an RTT spent in the hosts, at the load of the previous epoch.
    host_delay: Duration,
}

impl Budget {
    pub(super) fn new(buffer: Option<SocketBuffer>) -> Self {
        let host_delay = buffer.map_or(Duration::ZERO, |buffer| buffer.min_host_delay);
        Self { buffer, host_delay, ..Self::default() }
    }

    /// Adds a transfer that has sent no data.
    pub(super) fn open(&mut self) -> Claim {
        self.silent.transfers += 1;
        Claim { epoch: None, offered: 0 }
    }

    pub(super) fn close(&mut self, claim: Claim) {
        let group = self.group_of(claim);
        group.transfers -= 1;
        group.offered -= claim.offered;
    }

    /// Makes a transfer active: its data arrived.
    pub(super) fn on_data(&mut self, now: Instant, claim: &mut Claim) {
        let Some(buffer) = self.buffer else { return };
        self.advance(now, &buffer);
        if claim.epoch != Some(self.epoch) {
            self.close(*claim);
            claim.epoch = Some(self.epoch);
            self.present.transfers += 1;
            self.present.offered += claim.offered;
        }
    }

    /// Counts received bytes of data, of any transfer.
    pub(super) fn on_bytes(&mut self, bytes: usize) {
        self.arrived += bytes as u64;
    }

    /// Updates the bytes, as charged, that are offered to a transfer and have not arrived.
    pub(super) fn on_offer(&mut self, claim: &mut Claim, offered: u64) {
        let group = self.group_of(*claim);
        group.offered = group.offered - claim.offered + offered;
        claim.offered = offered;
    }

    /// Returns the share of a transfer; `None` for no limit.
    pub(super) fn share_of(&self, claim: Claim) -> Option<BufferShare> {
        let active = self.present.transfers + self.previous.transfers;
        let silent = if self.is_silent(claim) { self.silent.transfers } else { 0 };
        self.share(active + silent, claim.offered)
    }

    /// Returns the share of a new transfer. Silent ones count: all of them may resume at once.
    pub(super) fn share_of_new(&self) -> Option<BufferShare> {
        self.share(self.present.transfers + self.previous.transfers + self.silent.transfers + 1, 0)
    }

    /// Returns one of `transfers` equal shares, for a transfer that is offered `held` bytes now.
    fn share(&self, transfers: u64, held: u64) -> Option<BufferShare> {
        let buffer = self.buffer?;
        let reserved = self.reserved(&buffer);
        let (rest, useful) = (buffer.capacity - reserved, buffer.useful(transfers));
        let offered = self.present.offered + self.previous.offered + reserved;
        let free = buffer.capacity.saturating_sub(offered);
        Some(BufferShare {
            bytes: (rest.min(useful) / transfers.max(1)).min(held + free),
            is_scarce: rest < useful,
            charge: buffer.charge,
            min_host_delay: buffer.min_host_delay,
            host_delay: self.host_delay,
        })
    }

    /// Returns the part of the buffer that is reserved for silent transfers.
    fn reserved(&self, buffer: &SocketBuffer) -> u64 {
        self.silent.offered.min(buffer.capacity / 2)
    }

    /// Advances to the epoch of `now`. Transfers without new data move to the next older group.
    fn advance(&mut self, now: Instant, buffer: &SocketBuffer) {
        let began = *self.began.get_or_insert(now);
        let passed = now.saturating_duration_since(began);
        if passed < EPOCH {
            return;
        }
        self.host_delay = buffer.min_host_delay + self.queueing_delay(buffer, passed);
        self.arrived = 0;
        self.silent.add(self.previous);
        self.previous = std::mem::take(&mut self.present);
        self.epoch += 1;
        self.began = Some(began + EPOCH);
        if passed >= 2 * EPOCH {
            self.silent.add(std::mem::take(&mut self.previous));
            self.epoch += 1;
            self.began = Some(now);
        }
    }

    /// Returns how long the data that may be in flight waits for busy hosts: the time to process
    /// all of it, scaled by how busy the hosts were in the epoch of length `passed`. Their threads
    /// take turns, so no RTT is shorter than this.
    fn queueing_delay(&self, buffer: &SocketBuffer, passed: Duration) -> Duration {
        let all = buffer.capacity.min(buffer.useful(self.present.transfers + self.previous.transfers));
        let rate = buffer.min_drain_rate.max(1);
        let time = |bytes: u64| Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate);
        time(all).mul_f64((time(self.arrived).as_secs_f64() / passed.as_secs_f64()).min(1.0))
    }

    fn is_silent(&self, claim: Claim) -> bool {
        claim.epoch.is_none_or(|epoch| epoch + 1 < self.epoch)
    }

    fn group_of(&mut self, claim: Claim) -> &mut Group {
        match claim.epoch {
            Some(epoch) if epoch == self.epoch => &mut self.present,
            Some(epoch) if epoch + 1 == self.epoch => &mut self.previous,
            _ => &mut self.silent,
        }
    }
}

impl Group {
    fn add(&mut self, other: Self) {
        self.transfers += other.transfers;
        self.offered += other.offered;
    }
}
