//! Who may have how much on its way to the socket that all peers send to, as its buffer has room for it. Owns what each
//! unfinished transfer was offered and has not used, and who sent lately; knows no packets and no windows.
//!
//! Those who sent lately divide what there is. Who is silent keeps what it was offered, for no offer can be taken back,
//! but all who are keep no more than half of the buffer: a paused transfer, or a SYN with a forged address, costs the
//! others that much at most. And nobody is offered more than is free: who comes back, or has just come, gets its part
//! as the others use up what they hold above theirs. So the offers of all fit the buffer, but for the least that each
//! has and for what silent ones hold beyond that half.

use std::time::{Duration, Instant};

use crate::receiver::BufferShare;

/// Who sent in this epoch or in the one before sent lately.
const EPOCH: Duration = Duration::from_millis(100);
/// What all have together is this, or [`BATCH`] for each if that is more: a window is sent in one go by a thread that
/// shares its processor, and what it holds until it is acknowledged lies in memory of its own. More of that is in
/// nobody's cache, and no processor is busier for it. Measured: docs/PERFORMANCE.md, "Many connections".
const ENOUGH: u64 = 20 << 20;
/// A window of less is not worth being woken for: what one call to the kernel takes, once and a half. Bytes.
const BATCH: u64 = 144 << 10;
/// What a host gets through in a second is at least this where so much arrives, bytes.
const PACE: u64 = 2_000_000_000;

/// What one unfinished transfer has of the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// In which it sent last; `None` if it has not.
    epoch: Option<u64>,
    /// Bytes, as the system charges them, that it was offered and that have not arrived.
    offered: u64,
}

/// Transfers that sent last at the same time.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    transfers: u64,
    /// Sum of their claims, bytes.
    offered: u64,
}

/// The buffer, and who has claims to it.
#[derive(Debug)]
pub(super) struct Shares {
    /// Bytes that may be on the way to it, as the system charges them; `u64::MAX` for no bound.
    buffer: u64,
    /// The present one, and when it began.
    epoch: u64,
    began: Option<Instant>,
    /// Who sent in it, in the one before, and neither.
    present: Group,
    before: Group,
    silent: Group,
    /// Bytes that arrived in the present epoch.
    arrived: u64,
    /// What of a round trip is spent in busy hosts, by what arrived in the epoch before.
    in_hosts: Duration,
}

impl Shares {
    /// Nobody has a claim to a socket's buffer of so many bytes; `u64::MAX` for no bound. Linux gives room back only when
    /// a quarter of the buffer was read while more waits (`udp_rmem_release`), so three quarters are what there is.
    pub(super) fn new(buffer: u64) -> Self {
        Self {
            buffer: if buffer == u64::MAX { buffer } else { buffer / 4 * 3 },
            epoch: 0,
            began: None,
            present: Group::default(),
            before: Group::default(),
            silent: Group::default(),
            arrived: 0,
            in_hosts: Duration::ZERO,
        }
    }

    /// A transfer began; it has sent nothing.
    pub(super) fn open(&mut self) -> Claim {
        self.silent.transfers += 1;
        Claim { epoch: None, offered: 0 }
    }

    /// A transfer ended.
    pub(super) fn close(&mut self, claim: Claim) {
        let group = self.group_of(claim);
        group.transfers -= 1;
        group.offered -= claim.offered;
    }

    /// Data of a transfer came.
    pub(super) fn on_data(&mut self, now: Instant, claim: &mut Claim) {
        if self.buffer == u64::MAX {
            return;
        }
        self.pass(now);
        if claim.epoch != Some(self.epoch) {
            self.close(*claim);
            claim.epoch = Some(self.epoch);
            self.present.transfers += 1;
            self.present.offered += claim.offered;
        }
    }

    /// So many bytes of data came, of any transfer.
    pub(super) fn on_bytes(&mut self, bytes: usize) {
        self.arrived += bytes as u64;
    }

    /// So many bytes are offered to a transfer and have not arrived.
    pub(super) fn on_offer(&mut self, claim: &mut Claim, offered: u64) {
        let group = self.group_of(*claim);
        group.offered = group.offered - claim.offered + offered;
        claim.offered = offered;
    }

    /// What a transfer may have on its way.
    pub(super) fn part_of(&self, claim: Claim) -> BufferShare {
        let lately = self.present.transfers + self.before.transfers;
        let others = if self.is_silent(claim) { self.silent.transfers } else { 0 };
        self.part(lately + others, claim.offered)
    }

    /// The same for one that begins now. Who has not sent counts here: all of them may come at once.
    pub(super) fn part_of_new(&self) -> BufferShare {
        self.part(self.present.transfers + self.before.transfers + self.silent.transfers + 1, 0)
    }

    /// One part of so many, for one that holds so much already.
    fn part(&self, of: u64, held: u64) -> BufferShare {
        if self.buffer == u64::MAX {
            return BufferShare::UNBOUNDED;
        }
        let reserved = self.silent.offered.min(self.buffer / 2);
        let (rest, enough) = (self.buffer - reserved, enough(of));
        let offered = self.present.offered + self.before.offered + reserved;
        let free = self.buffer.saturating_sub(offered);
        let bytes = (rest.min(enough) / of.max(1)).min(held + free);
        BufferShare { bytes, is_scarce: rest < enough, in_hosts: self.in_hosts }
    }

    /// Moves on to the epoch of `now`.
    fn pass(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let passed = now.saturating_duration_since(began);
        if passed < EPOCH {
            return;
        }
        self.in_hosts = self.time_in_hosts(passed);
        self.arrived = 0;
        self.silent.add(self.before);
        self.before = std::mem::take(&mut self.present);
        self.epoch += 1;
        self.began = Some(began + EPOCH);
        if passed >= 2 * EPOCH {
            self.silent.add(std::mem::take(&mut self.before));
            self.epoch += 1;
            self.began = Some(now);
        }
    }

    /// How long what all may have on its way waits in hosts that are as busy as they were in an epoch of such a length:
    /// their threads take turns, and a round trip is not shorter than that however near they are.
    fn time_in_hosts(&self, passed: Duration) -> Duration {
        let all = self.buffer.min(enough(self.present.transfers + self.before.transfers));
        let time = |bytes: u64| Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / PACE);
        time(all).mul_f64((time(self.arrived).as_secs_f64() / passed.as_secs_f64()).min(1.0))
    }

    fn is_silent(&self, claim: Claim) -> bool {
        claim.epoch.is_none_or(|epoch| epoch + 1 < self.epoch)
    }

    fn group_of(&mut self, claim: Claim) -> &mut Group {
        match claim.epoch {
            Some(epoch) if epoch == self.epoch => &mut self.present,
            Some(epoch) if epoch + 1 == self.epoch => &mut self.before,
            _ => &mut self.silent,
        }
    }
}

/// What so many have together and no more of use, bytes.
fn enough(transfers: u64) -> u64 {
    ENOUGH.max(transfers * BATCH)
}

impl Group {
    fn add(&mut self, other: Self) {
        self.transfers += other.transfers;
        self.offered += other.offered;
    }
}
