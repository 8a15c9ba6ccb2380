//! MTU of a link, and fragmentation.
//!
//! The MTU may change with time, as after a change of route. The link sends no ICMP messages (RFC
//! 1191, RFC 8201), so a sender must detect the loss of long packets itself, as in a black hole
//! (RFC 8899).

use std::time::Duration;

use crate::schedule::Schedule;

/// MTU of a link: the longest packet in bytes, with headers
/// ([`LinkConfig::overhead`](crate::LinkConfig::overhead)) and without framing
/// ([`LinkConfig::framing`](crate::LinkConfig::framing)). By default there is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mtu {
    pub(crate) limit: Schedule<Option<u32>>,
    pub(crate) oversize: Oversize,
}

/// Treatment of a packet that is longer than the MTU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Oversize {
    /// The link drops the packet.
    #[default]
    Drop,
    /// The link sends the packet in fragments, as an IPv6 host does (RFC 8200, section 4.5).
    ///
    /// Each fragment begins with an IPv6 header of 40 bytes and a fragment header of 8 bytes. Each
    /// fragment except the last carries a multiple of 8 bytes of the remaining packet. The packet
    /// is delivered when its last fragment arrives. All effects except loss apply to the packet as
    /// a whole.
    Fragment,
}

/// The frames of one packet: one, or one for each fragment. All but the last have the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames {
    /// Number of frames, at least 1.
    count: u32,
    /// Length of each frame except the last, in bytes.
    full: usize,
    /// Length of the last frame, in bytes.
    last: usize,
}

impl Mtu {
    /// Returns an MTU of `bytes` bytes. Longer packets are dropped.
    pub const fn new(bytes: u32) -> Self {
        Self { limit: Schedule::constant(Some(bytes)), oversize: Oversize::Drop }
    }

    /// Returns an MTU without a limit.
    pub const fn unlimited() -> Self {
        Self { limit: Schedule::constant(None), oversize: Oversize::Drop }
    }

    /// Changes the MTU to `bytes` bytes, or to no limit (`None`), from `at` after the link's start.
    #[must_use]
    pub fn then(self, at: Duration, bytes: impl Into<Option<u32>>) -> Self {
        Self { limit: self.limit.then(at, bytes.into()), ..self }
    }

    /// Sets the treatment of packets longer than the MTU.
    #[must_use]
    pub fn oversize(self, oversize: Oversize) -> Self {
        Self { oversize, ..self }
    }

    /// Returns this MTU with all its limits lowered to at most `bytes`.
    pub(crate) fn at_most(&self, bytes: u32) -> Self {
        let limit = self.limit.map(|limit| Some(limit.map_or(bytes, |limit| limit.min(bytes))));
        Self { limit, ..*self }
    }

    /// Returns the MTU at a time since the start. `None`: packets of any length pass.
    pub fn limit(&self, elapsed: Duration) -> Option<u32> {
        self.limit.at(elapsed)
    }

    /// Returns true if longer packets are sent in fragments.
    pub fn is_fragmenting(&self) -> bool {
        self.oversize == Oversize::Fragment
    }

    /// Returns the frames, without framing bytes, of a packet that arrives `elapsed` after the
    /// start of the link. `size` is in bytes with headers. `None` if the packet is dropped.
    pub fn frames(&self, elapsed: Duration, size: usize) -> Option<Frames> {
        match (self.limit.at(elapsed), self.oversize) {
            (Some(limit), Oversize::Drop) if size as u64 > u64::from(limit) => None,
            (Some(limit), Oversize::Fragment) if size as u64 > u64::from(limit) => fragments(size, limit),
            _ => Some(Frames::whole(size)),
        }
    }
}

impl Frames {
    /// Returns the frame of a packet that is not fragmented.
    pub(crate) const fn whole(bytes: usize) -> Self {
        Self { count: 1, full: bytes, last: bytes }
    }

    pub(crate) const fn framed(self, framing: u32) -> Self {
        let framing = framing as usize;
        Self { full: self.full.saturating_add(framing), last: self.last.saturating_add(framing), ..self }
    }

    /// Returns the number of frames, at least 1.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Returns the total length of all frames, headers included, in bytes.
    pub const fn bytes(self) -> usize {
        self.full.saturating_mul(self.count as usize - 1).saturating_add(self.last)
    }

    pub(crate) fn before_last(self) -> impl Iterator<Item = usize> {
        (1..self.count).map(move |_| self.full)
    }

    /// Returns the length of the last frame, in bytes.
    pub(crate) const fn last(self) -> usize {
        self.last
    }
}

/// IPv6 header, which every fragment repeats: RFC 8200, section 3.
const IPV6_HEADER_BYTES: u32 = 40;
/// Fragment header: RFC 8200, section 4.5.
const FRAGMENT_HEADER_BYTES: u32 = 8;
/// Longest IPv6 payload, because the length field of the header has 16 bits.
const MAX_IPV6_PAYLOAD_BYTES: u32 = 65_535;

/// Fragments a packet of `size` bytes, which must be more than the MTU `limit`. Returns `None` if
/// the packet is too long for IPv6, or if `limit` leaves no room for data.
fn fragments(size: usize, limit: u32) -> Option<Frames> {
    let payload = u32::try_from(size)
        .ok()?
        .checked_sub(IPV6_HEADER_BYTES)
        .filter(|&it| it <= MAX_IPV6_PAYLOAD_BYTES)?;
    // The last fragment may use the whole MTU; the others carry multiples of 8 bytes.
    let last = limit.checked_sub(IPV6_HEADER_BYTES + FRAGMENT_HEADER_BYTES)?;
    let others = last / 8 * 8;
    if others == 0 {
        return None;
    }
    // No overflow of 32 bits: at most 65,535 / 8 fragments, each with 48 bytes of headers.
    let before_last = payload.saturating_sub(last).div_ceil(others);
    let headers = IPV6_HEADER_BYTES + FRAGMENT_HEADER_BYTES;
    let last = payload - before_last * others + headers;
    Some(Frames { count: before_last + 1, full: (others + headers) as usize, last: last as usize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{just_before, ms};

    #[test]
    fn the_limit_itself_passes() {
        assert_eq!(Mtu::new(1_500).frames(ms(0), 1_500), Some(Frames::whole(1_500)));
        assert_eq!(Mtu::new(1_500).frames(ms(0), 1_501), None);
        assert_eq!(Mtu::default().frames(ms(0), usize::MAX), Some(Frames::whole(usize::MAX)));
        assert_eq!(Mtu::default(), Mtu::unlimited());
    }

    #[test]
    fn mtu_change_applies_at_its_time() {
        let mtu = Mtu::new(1_500).then(ms(10), 1_280).then(ms(20), None);
        let passes = [just_before(ms(10)), ms(10), ms(20)]
            .map(|at| mtu.frames(at, 1_400) == Some(Frames::whole(1_400)));
        assert_eq!(passes, [true, false, true]);
        let cut = mtu.oversize(Oversize::Fragment).frames(ms(10), 1_400);
        assert_eq!(cut.map(|cut| (cut.count(), cut.bytes())), Some((2, 1_360 + 2 * 48)));
    }

    #[test]
    fn at_most_bounds_every_limit() {
        let mtu = Mtu::new(9_000).then(ms(10), 1_280).then(ms(20), None).oversize(Oversize::Fragment);
        let bounded = Mtu::new(2_296).then(ms(10), 1_280).then(ms(20), 2_296).oversize(Oversize::Fragment);
        assert_eq!(mtu.at_most(2_296), bounded);
        assert_eq!(Mtu::unlimited().at_most(9), Mtu::new(9));
    }

    /// Cuts a packet sequentially, as a host does, and returns the lengths of the fragments.
    fn cut(size: usize, limit: usize) -> Vec<usize> {
        let mut left = size - 40;
        let mut fragments = Vec::new();
        while left > 0 {
            let room = limit - 48;
            let part = if left <= room { left } else { room - room % 8 };
            fragments.push(48 + part);
            left -= part;
        }
        fragments
    }

    #[test]
    fn fragments_match_sequential_fragmentation() {
        for limit in [56, 57, 63, 64, 1_280, 1_500, 1_503] {
            let mtu = Mtu::new(limit).oversize(Oversize::Fragment);
            for size in (limit as usize + 1..5_000).chain([65_575]) {
                let cut = cut(size, limit as usize);
                assert!(cut.iter().all(|&bytes| bytes <= limit as usize));
                let frames = mtu.frames(ms(0), size).unwrap();
                let sizes: Vec<_> = frames.before_last().chain([frames.last()]).collect();
                assert_eq!(sizes, cut, "{size} bytes, MTU {limit}");
                let total = (frames.count() as usize, frames.bytes());
                assert_eq!(total, (cut.len(), cut.iter().sum()), "{size} bytes, MTU {limit}");
            }
        }
    }

    #[test]
    fn unfragmentable_sizes_do_not_pass() {
        let mtu = |limit| Mtu::new(limit).oversize(Oversize::Fragment);
        assert_eq!(mtu(1_500).frames(ms(0), 65_576), None, "no packet of IPv6 is so long");
        assert_eq!(mtu(1_500).frames(ms(0), usize::MAX), None);
        for limit in [0, 39, 47, 48, 55] {
            assert_eq!(mtu(limit).frames(ms(0), 100), None, "no room for 8 bytes in {limit}");
        }
        assert_eq!(mtu(10).frames(ms(0), 20), None, "shorter than a header");
    }
}
