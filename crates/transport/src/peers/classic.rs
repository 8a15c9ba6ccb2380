//! Classic peers of a set, a receiver for each address: delivery, admission, removal of idle ones.

mod admission;
mod entry;
mod half_open;
mod receive;
mod stats;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use admission::Admission;
use entry::Entry;
use half_open::HalfOpen;
pub use half_open::MAX_HALF_OPEN_PEERS;
pub use stats::ClassicStats;

use super::account::Key;
use super::sources::SourceCounts;
use super::table::Table;
use super::{AddressKey, ClassicConfig, ConnectionSet, PeerId};
use crate::receiver::Receiver;
use crate::wire::classic::REPLY_LEN;
use crate::{PayloadDiscarded, ReceiverEvent, ReceiverStats, TransmitBuf};

/// Largest number of replies that wait for a half-open peer: to its SYN and its first packets.
const MAX_HALF_OPEN_REPLIES: usize = 4;
/// Longest idle timeout, 100 years: a deadline after `Duration::MAX` cannot be represented.
const MAX_IDLE: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Classic peers of a [`ConnectionSet`], whose methods change them.
#[derive(Debug)]
pub struct ClassicPeers<P> {
    config: Option<ClassicConfig>,
    table: Table<P, Entry>,
    half_open: HalfOpen<P>,
    /// Number of connected peers of each source, finished ones included.
    sources: SourceCounts,
    events: VecDeque<(P, ReceiverEvent)>,
    stats: ClassicStats,
    /// Counters of removed receivers.
    removed: ReceiverStats,
}

impl<P: AddressKey> ClassicPeers<P> {
    pub(super) fn new(config: Option<ClassicConfig>) -> Self {
        Self {
            config,
            table: Table::new(),
            half_open: HalfOpen::new(),
            sources: SourceCounts::default(),
            events: VecDeque::new(),
            stats: ClassicStats::default(),
            removed: ReceiverStats::default(),
        }
    }

    /// Returns the number of in-order bytes of `peer` that are not consumed yet.
    pub fn unread(&self, peer: P) -> u64 {
        self.table.get(&peer).map_or(0, |entry| entry.receiver.unread())
    }

    /// Returns contiguous unread bytes of `peer`, in order. Empty only if no byte is unread.
    ///
    /// # Errors
    /// The receivers keep no payload, so there would never be a byte.
    pub fn data(&self, peer: P) -> Result<&[u8], PayloadDiscarded> {
        if self.config.is_none_or(|config| !config.receiver.keep_payload) {
            return Err(PayloadDiscarded);
        }
        Ok(self.table.get(&peer).map_or(&[], |entry| entry.receiver.data()))
    }

    /// Returns the bytes in order that arrived since the first transfer; 0 for an unknown peer.
    pub fn received_bytes(&self, peer: P) -> u64 {
        self.table.get(&peer).map_or(0, |entry| entry.receiver.stats().bytes)
    }

    /// Returns the number of connected peers.
    pub fn active(&self) -> usize {
        self.table.len() - self.half_open.len()
    }

    /// True if `peer` is half-open: the application has not heard of it.
    pub fn is_half_open(&self, peer: P) -> bool {
        self.table.get(&peer).is_some_and(|entry| entry.is_half_open)
    }

    /// True if any connected peer has an unfinished transfer that was reported.
    pub fn has_unfinished(&self) -> bool {
        self.table.values().any(Entry::is_unfinished)
    }

    /// Returns the time at which the idle timeout of `peer` last restarted.
    pub fn last_active(&self, peer: P) -> Option<Instant> {
        self.table.get(&peer).map(|entry| entry.last_active)
    }

    #[cfg(test)]
    fn knows(&self, peer: P) -> bool {
        self.table.contains_key(&peer)
    }

    fn idle_limit(&self) -> Duration {
        self.config.map_or(MAX_IDLE, |config| config.idle.min(MAX_IDLE))
    }

    fn max_datagram(&self) -> usize {
        self.config.map_or(usize::MAX, |config| config.receiver.max_datagram)
    }

    /// True for receivers that a SYN alone connects, and whose transfer it restarts.
    fn is_faithful(&self) -> bool {
        self.config.is_some_and(|config| config.receiver.faithful)
    }

    /// Moves events out of the receiver of the peer looked up last.
    fn report_events(&mut self, peer: P) {
        let Some(entry) = self.table.latest_mut() else { return };
        while let Some(event) = entry.receiver.poll_event() {
            if event == ReceiverEvent::Started {
                // A new transfer discards the unread bytes of the previous one.
                self.events.retain(|queued| *queued != (peer, ReceiverEvent::Readable));
            }
            self.events.push_back((peer, event));
        }
    }
}

impl<P: AddressKey> ConnectionSet<P> {
    /// Returns the classic peers.
    pub fn classic(&self) -> &ClassicPeers<P> {
        &self.classic
    }

    /// Returns the next event of a classic peer.
    pub fn poll_classic_event(&mut self) -> Option<(P, ReceiverEvent)> {
        self.classic.events.pop_front()
    }

    /// Consumes the first `n` bytes of [`ClassicPeers::data`].
    pub fn consume_classic(&mut self, peer: P, n: usize) {
        self.with_classic(peer, |receiver| receiver.consume(n));
    }

    /// Answers the FIN of a classic peer after the application has stored the transfer.
    pub fn confirm_classic(&mut self, peer: P) {
        self.with_classic(peer, Receiver::confirm);
    }

    /// Restarts the idle timeout of a classic peer, for a datagram still on an emulated link.
    pub fn touch_classic(&mut self, now: Instant, peer: P) {
        if let Some(entry) = self.classic.table.get_mut(&peer) {
            entry.last_active = now;
        }
    }

    /// Removes a classic peer without a message.
    pub fn close_classic(&mut self, peer: P) {
        if self.classic.table.get_mut(&peer).is_none() {
            return;
        }
        let slot = self.classic.table.latest();
        let Some(mut entry) = self.classic.table.remove(&peer) else { return };
        let (idle_at, memory) = (entry.account.timer, entry.account.memory);
        self.forget(&mut entry.account, Key::Classic(slot));
        self.classic.removed.merge(&entry.receiver.stats());
        if entry.account.is_queued {
            self.leave_queue(slot, entry.is_half_open);
        }
        let source = self.config.source_of(&peer);
        if entry.is_half_open {
            self.classic.half_open.remove((idle_at, peer), source, memory);
            self.classic.events.push_back((peer, ReceiverEvent::Dropped));
            return;
        }
        // Events about bytes are void without the bytes. Connected and Started remain.
        let void = |event| matches!(event, ReceiverEvent::Readable | ReceiverEvent::Finished { .. });
        self.classic.events.retain(|(p, event)| *p != peer || !void(*event));
        self.classic.sources.remove(source);
        self.classic.events.push_back((peer, ReceiverEvent::Closed { unfinished: entry.is_unfinished() }));
    }

    /// Calls `act` on the receiver of `peer`, then processes its output.
    fn with_classic(&mut self, peer: P, act: impl FnOnce(&mut Receiver)) {
        if let Some(entry) = self.classic.table.get_mut(&peer) {
            act(&mut entry.receiver);
            self.process_classic(peer);
        }
    }

    /// Reports the events of the peer looked up last, and updates its account and queue.
    fn process_classic(&mut self, peer: P) {
        let Some(entry) = self.classic.table.latest_mut() else { return };
        let on_probation = entry.on_probation;
        if !on_probation {
            self.classic.report_events(peer);
        }
        let Some(entry) = self.classic.table.latest_mut() else { return };
        let memory = entry.receiver.memory();
        if entry.is_half_open {
            self.classic.half_open.on_memory(entry.account.memory, memory);
        }
        let offered = entry.offered();
        self.memory.count(&mut entry.account, memory, offered);
        self.queue_classic();
        self.count_open(peer);
        if on_probation {
            self.end_probation(peer);
        }
        // A flood of SYNs from one address gets no more answers than a transfer that begins.
        if let Some(entry) = self.classic.table.latest_mut().filter(|entry| entry.is_half_open) {
            entry.receiver.keep_newest_replies(MAX_HALF_OPEN_REPLIES);
        }
    }

    /// Queues the peer looked up last if it may have replies.
    fn queue_classic(&mut self) {
        let slot = self.classic.table.latest();
        let Some(entry) = self.classic.table.latest_mut() else { return };
        if entry.account.is_queued || !entry.receiver.may_reply() {
            return;
        }
        entry.account.is_queued = true;
        if entry.is_half_open {
            self.answers.half_open.push_back(slot);
        } else {
            self.ready.push_back(Key::Classic(slot));
        }
    }

    /// Takes a queued peer out of the queue.
    fn leave_queue(&mut self, slot: usize, is_half_open: bool) {
        if is_half_open {
            self.answers.half_open.retain(|queued| *queued != slot);
        } else {
            self.ready.retain(|queued| *queued != Key::Classic(slot));
        }
    }

    /// Gives the peer looked up last a slot until its transfer is finished.
    fn count_open(&mut self, peer: P) {
        let Some(entry) = self.classic.table.latest_mut() else { return };
        let is_open = !entry.is_half_open && !entry.receiver.is_finished();
        if !is_open && let Some(slot) = entry.account.slot.take() {
            self.slots.free(slot);
        } else if is_open && entry.account.slot.is_none() {
            entry.account.slot = Some(self.slots.take(self.config.source_of(&peer)));
        }
    }

    /// Handles the idle timeout of a peer, if it has expired. A whole transfer of a connected peer
    /// waits for its application without a limit.
    pub(super) fn on_classic_timer(&mut self, now: Instant, slot: usize) {
        let idle_limit = self.classic.idle_limit();
        let Some((peer, entry)) = self.classic.table.at_mut(slot) else { return };
        let deadline = entry.last_active + idle_limit;
        if deadline <= now && (entry.is_half_open || !entry.receiver.awaits_confirmation()) {
            return self.close_classic(peer);
        }
        let deadline = if deadline <= now { now + idle_limit } else { deadline };
        let timer = entry.account.timer.take();
        if let Some(timer) = timer.filter(|_| entry.is_half_open) {
            self.classic.half_open.postpone((timer, peer), deadline);
        }
        self.timers.schedule(&mut entry.account, Key::Classic(slot), Some(deadline));
    }

    /// Fills a batch with replies to the peer in a slot of the table, and returns its address.
    pub(super) fn transmit_classic(
        &mut self,
        slot: usize,
        out: &mut TransmitBuf,
    ) -> Option<(P, Option<PeerId<P>>)> {
        let (peer, entry) = self.classic.table.at_mut(slot)?;
        entry.account.is_queued = false;
        let before = out.segments();
        // Each answer to an address that may be forged counts.
        let most = if entry.is_half_open { 1 } else { usize::MAX };
        while out.segments() - before < most
            && out.has_room(REPLY_LEN)
            && let Some(reply) = entry.poll_reply(&mut self.memory)
        {
            out.slot(REPLY_LEN)?.copy_from_slice(&reply);
            if most > 1 {
                entry.receiver.fill_acks(out);
            }
        }
        let is_sent = out.segments() > before;
        self.queue_classic();
        is_sent.then_some((peer, Some(PeerId::Address(peer))))
    }
}

#[cfg(test)]
mod tests;
