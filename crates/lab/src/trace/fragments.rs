//! Fragments of IP packets, put together within a bound.

use std::collections::BTreeMap;
use std::net::IpAddr;

use etherparse::defrag::IpDefragBuf;
use etherparse::{IpFragOffset, IpNumber};

/// Limit on the packets that wait for fragments. Each has at most 64 KiB.
const MAX_WAITING: usize = 256;

/// Place of a fragment in its packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment {
    /// Identification of the packet.
    pub(super) id: u32,
    pub(super) offset: IpFragOffset,
    /// True if it is not the last fragment.
    pub(super) more: bool,
    /// Bytes of payload on the wire.
    pub(super) length: u32,
}

/// Interface, addresses and protocol of a packet.
pub(super) type Owner = (usize, (IpAddr, IpAddr), u8);

/// Packet whose fragments are all there.
#[derive(Debug)]
pub(super) struct Whole {
    /// Bytes up to the first one that was not captured.
    pub(super) bytes: Vec<u8>,
    /// Number of bytes on the wire.
    pub(super) length: u32,
    /// Bytes on the wire of the frames that had the fragments.
    pub(super) frame_bytes: u64,
}

/// Fragments of a packet.
#[derive(Debug)]
struct Waiting {
    buffer: IpDefragBuf,
    /// Offset of the first byte that was not captured.
    captured: usize,
    fragments: u64,
    frame_bytes: u64,
    /// Number of its latest fragment in the file.
    latest: u64,
}

/// Packets that wait for fragments.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    waiting: BTreeMap<(Owner, u32), Waiting>,
    count: u64,
    /// Fragments of packets that were given up.
    given_up: u64,
}

impl Fragments {
    /// Adds the captured bytes of a fragment. Returns the packet if it is whole.
    pub(super) fn add(
        &mut self,
        owner: Owner,
        fragment: &Fragment,
        captured: &[u8],
        frame_bytes: u64,
    ) -> Option<Whole> {
        self.count += 1;
        let key = (owner, fragment.id);
        if !self.waiting.contains_key(&key) && self.waiting.len() >= MAX_WAITING {
            self.give_up_oldest();
        }
        let waiting = self.waiting.entry(key).or_insert_with(|| Waiting {
            buffer: IpDefragBuf::new(IpNumber(owner.2), Vec::new(), Vec::new()),
            captured: usize::MAX,
            fragments: 0,
            frame_bytes: 0,
            latest: 0,
        });
        waiting.fragments += 1;
        waiting.latest = self.count;
        waiting.frame_bytes += frame_bytes;
        let length = usize::try_from(fragment.length).ok()?;
        // Bytes that were not captured are zeros, which are cut off below.
        let mut payload = captured.to_vec();
        if payload.len() < length {
            let end = usize::from(fragment.offset.byte_offset()) + payload.len();
            waiting.captured = waiting.captured.min(end);
        }
        payload.resize(length.min(usize::from(u16::MAX)), 0);
        if waiting.buffer.add(fragment.offset, fragment.more, &payload).is_err() {
            // A length or an end that contradicts the others.
            self.given_up += self.waiting.remove(&key).map_or(0, |it| it.fragments);
            return None;
        }
        if !waiting.buffer.is_complete() {
            return None;
        }
        let Waiting { buffer, captured, frame_bytes, .. } = self.waiting.remove(&key)?;
        let (mut bytes, _) = buffer.take_bufs();
        let length = u32::try_from(bytes.len()).ok()?;
        bytes.truncate(captured);
        Some(Whole { bytes, length, frame_bytes })
    }

    fn give_up_oldest(&mut self) {
        let oldest = self.waiting.iter().min_by_key(|(_, it)| it.latest).map(|(key, _)| *key);
        let given_up = oldest.and_then(|key| self.waiting.remove(&key));
        self.given_up += given_up.map_or(0, |it| it.fragments);
    }

    /// Returns the number of fragments whose packets are not whole.
    pub(super) fn lost(&self) -> u64 {
        self.given_up + self.waiting.values().map(|it| it.fragments).sum::<u64>()
    }
}
