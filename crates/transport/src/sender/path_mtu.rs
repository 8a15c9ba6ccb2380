//! How large a datagram the path carries (RFC 8899), found out with the stream's own bytes (RFC
//! 4821, section 7): a segment that is larger than the others is sent once in a while, and counts
//! if it arrives. Owns the search. Sizes are of UDP payloads, in bytes.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::wire::native::SMALLEST_PATH;

/// Size that nearly every path carries (`BASE_PLPMTU` of RFC 8899, section 5.1.2).
pub(crate) const BASE: usize = 1200;
/// Size that every path carries (`MIN_PLPMTU` of the same section).
const SMALLEST: usize = SMALLEST_PATH;
/// Ethernet's MTU less the headers of IPv4 and UDP: tried first, for it is nearly always right.
const ETHERNET: usize = 1472;
/// Sizes of other links: IPv6's minimum, tunnels (1400 and 1420 bytes of IP, or of UDP within one),
/// Ethernet with IPv6, jumbo frames with IPv6 and IPv4.
const COMMON: [usize; 8] = [1232, 1372, 1392, 1400, 1420, 1452, 8952, 8972];
/// Lost probes in a row after which a size is given up (`MAX_PROBES`).
const MAX_PROBES: u32 = 3;
/// The search ends when less than this is to be gained, bytes. A size that is refused costs three
/// segments sent again.
const STEP: usize = 4;
/// Timeouts in a row after which large packets are taken not to arrive any more (RFC 8899, section
/// 4.3): as many as a probe has tries. Where the window is a packet or two, two in a row are
/// nothing but a quarter of all packets lost.
const BLACK_HOLE_TIMEOUTS: u32 = MAX_PROBES;
/// Timeouts in a row after which even the base size is taken not to arrive, which few paths refuse.
/// Where half of all packets are lost, six in a row are no rarity.
const SMALL_PATH_TIMEOUTS: u32 = 2 * MAX_PROBES;
/// A search that is over is begun again after this long, for the path may have changed
/// (`PMTU_RAISE_TIMER` of RFC 8899, section 5.1.1).
const RAISE: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct PathMtu {
    /// Known to arrive.
    confirmed: usize,
    /// No larger size is tried.
    ceiling: usize,
    /// Known not to arrive.
    refused: Option<usize>,
    /// Size and number of the transmission that tries a size.
    probe: Option<(usize, u64)>,
    failures: u32,
    timeouts: u32,
    /// When to search again; none while a search is on, and where there is nothing left to find.
    raise_at: Option<Instant>,
}

impl PathMtu {
    /// Begins with the base, or with `ceiling` if that is less.
    pub(crate) fn new(ceiling: usize) -> Self {
        Self {
            confirmed: BASE.min(ceiling),
            ceiling,
            refused: None,
            probe: None,
            failures: 0,
            timeouts: 0,
            raise_at: None,
        }
    }

    /// The peer takes nothing larger.
    pub(crate) fn limit(&mut self, size: usize) {
        self.ceiling = self.ceiling.min(size);
        self.confirmed = self.confirmed.min(self.ceiling);
    }

    /// Datagrams of this size arrive.
    pub(crate) fn size(&self) -> usize {
        self.confirmed
    }

    /// The size to try next, if there is one and none is being tried.
    pub(crate) fn candidate(&self) -> Option<usize> {
        // Exclusive.
        let end = self.refused.map_or(self.ceiling + 1, |refused| refused.min(self.ceiling + 1));
        let fits = |size: &usize| (self.confirmed + 1..end).contains(size);
        if self.probe.is_some() {
            return None;
        }
        // The path is small, or was dead for a while: this size tells the two apart.
        if fits(&BASE) {
            return Some(BASE);
        }
        if fits(&ETHERNET) {
            return Some(ETHERNET);
        }
        if self.refused.is_none() && fits(&self.ceiling) {
            return Some(self.ceiling);
        }
        if let Some(size) = COMMON.into_iter().rev().find(fits) {
            return Some(size);
        }
        (end > self.confirmed + STEP).then_some(usize::midpoint(self.confirmed, end))
    }

    /// An ACK came: the search that has been over for long enough begins again. It needs no timer:
    /// where nothing is acknowledged there is nothing to search with.
    pub(crate) fn on_ack(&mut self, now: Instant) {
        let over = self.confirmed < self.ceiling && self.probe.is_none() && self.candidate().is_none();
        if !over {
            self.raise_at = None;
        } else if now >= *self.raise_at.get_or_insert(now + RAISE) {
            self.raise_at = None;
            self.refused = None;
        }
    }

    pub(crate) fn on_probe_sent(&mut self, size: usize, packet_number: u64) {
        self.probe = Some((size, packet_number));
    }

    /// The transmission that tries a size.
    pub(crate) fn probe(&self) -> Option<u64> {
        self.probe.map(|(_, packet_number)| packet_number)
    }

    /// Packets `packet_numbers` arrived; true if larger datagrams may be sent from now on.
    pub(crate) fn on_delivered(&mut self, packet_numbers: &RangeInclusive<u64>) -> bool {
        self.timeouts = 0;
        match self.probe {
            Some((size, probe)) if packet_numbers.contains(&probe) => {
                self.probe = None;
                self.failures = 0;
                // Meanwhile the peer may have said that it takes no more.
                self.confirmed = size.min(self.ceiling);
                true
            }
            _ => false,
        }
    }

    /// Packet `packet_number` is lost.
    pub(crate) fn on_lost(&mut self, packet_number: u64) {
        if let Some((size, probe)) = self.probe
            && probe == packet_number
        {
            self.probe = None;
            self.failures += 1;
            if self.failures >= MAX_PROBES {
                self.failures = 0;
                self.refused = Some(size);
            }
        }
    }

    /// The retransmission timer fired; true if only smaller datagrams may be sent from now on. It
    /// refuses no size: a path that was dead for a while looks the same, and a probe tells the two
    /// apart. Sizes that probes refused stay refused.
    pub(crate) fn on_timeout(&mut self) -> bool {
        self.timeouts += 1;
        let (confirmed, most) =
            if self.confirmed > BASE { (BASE, BLACK_HOLE_TIMEOUTS) } else { (SMALLEST, SMALL_PATH_TIMEOUTS) };
        if self.timeouts < most || self.confirmed <= confirmed {
            return false;
        }
        let Self { refused, raise_at, .. } = *self;
        *self = Self { confirmed, refused, raise_at, ..Self::new(self.ceiling) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search over a path that carries datagrams up to `path`; gives the sizes tried.
    fn search(mtu: &mut PathMtu, path: usize) -> Vec<usize> {
        let mut tried = Vec::new();
        for packet_number in 0.. {
            let Some(size) = mtu.candidate() else { break };
            assert!(size > mtu.size() && size <= mtu.ceiling);
            mtu.on_probe_sent(size, packet_number);
            assert_eq!((mtu.candidate(), mtu.probe()), (None, Some(packet_number)), "one at a time");
            if tried.last() != Some(&size) {
                tried.push(size);
            }
            if size <= path {
                assert!(mtu.on_delivered(&(packet_number..=packet_number)));
            } else {
                mtu.on_lost(packet_number);
            }
            assert!(packet_number < 100, "the search does not end: {tried:?}");
        }
        tried
    }

    #[test]
    fn ethernet_takes_one_probe_jumbo_two() {
        let mut mtu = PathMtu::new(1472);
        assert_eq!((search(&mut mtu, 1472), mtu.size()), (vec![1472], 1472));
        let mut mtu = PathMtu::new(8972);
        assert_eq!((search(&mut mtu, 8972), mtu.size()), (vec![1472, 8972], 8972));
    }

    #[test]
    fn search_finds_every_path_within_a_step() {
        for path in (BASE..9000).step_by(7) {
            let mut mtu = PathMtu::new(65_507);
            let tried = search(&mut mtu, path);
            assert!(
                mtu.size() <= path && path - mtu.size() < 2 * STEP,
                "{path}: {} by {tried:?}",
                mtu.size()
            );
        }
    }

    #[test]
    fn small_ceiling_ends_search_at_once() {
        let mtu = PathMtu::new(600);
        assert_eq!((mtu.size(), mtu.candidate()), (600, None));
        let mut mtu = PathMtu::new(65_507);
        mtu.limit(1472);
        assert_eq!((search(&mut mtu, 9000), mtu.size()), (vec![1472], 1472));
        let mut mtu = PathMtu::new(8972);
        mtu.on_probe_sent(8972, 0);
        mtu.limit(2000);
        assert!(mtu.on_delivered(&(0..=0)));
        assert_eq!((mtu.size(), mtu.candidate()), (2000, None), "said while the probe was on its way");
    }

    #[test]
    fn larger_path_is_found_after_ten_minutes() {
        let epoch = rdt_testing::epoch();
        let at = |seconds| epoch + Duration::from_secs(seconds);
        let mut mtu = PathMtu::new(8972);
        mtu.on_ack(at(0));
        search(&mut mtu, 1472);
        assert_eq!(mtu.size(), 1472);
        for seconds in [5, 300, 604] {
            mtu.on_ack(at(seconds));
            assert_eq!(mtu.candidate(), None, "{seconds} s");
        }
        mtu.on_ack(at(605));
        assert_eq!(mtu.candidate(), Some(8972), "the largest first, as at the beginning");
        // Not yet larger, and the time runs again from the end of that search.
        search(&mut mtu, 1472);
        mtu.on_ack(at(700));
        mtu.on_ack(at(1299));
        assert_eq!(mtu.candidate(), None);
        mtu.on_ack(at(1300));
        search(&mut mtu, 8972);
        assert_eq!(mtu.size(), 8972);
        mtu.on_ack(at(1400));
        mtu.on_ack(at(9000));
        assert_eq!((mtu.candidate(), mtu.raise_at), (None, None), "there is nothing more to find");
    }

    #[test]
    fn shrunken_path_is_searched_from_known_size() {
        let epoch = rdt_testing::epoch();
        let mut mtu = PathMtu::new(1472);
        search(&mut mtu, 1472);
        assert!(fall(&mut mtu));
        search(&mut mtu, 1300);
        mtu.on_ack(epoch);
        mtu.on_ack(epoch + RAISE);
        assert_eq!(search(&mut mtu, 1472), [1472]);
    }

    #[test]
    fn a_random_loss_does_not_refuse_a_size() {
        let mut mtu = PathMtu::new(1472);
        for packet_number in 0..2 {
            mtu.on_probe_sent(1472, packet_number);
            mtu.on_lost(packet_number);
            mtu.on_lost(77);
        }
        assert_eq!(mtu.candidate(), Some(1472));
        mtu.on_probe_sent(1472, 2);
        assert!(!mtu.on_delivered(&(1..=1)) && mtu.on_delivered(&(2..=2)));
    }

    /// Timeouts in a row; true if the last one alone made large packets stop.
    fn fall(mtu: &mut PathMtu) -> bool {
        !mtu.on_timeout() && !mtu.on_timeout() && mtu.on_timeout()
    }

    #[test]
    fn three_timeouts_fall_back_to_base_size() {
        let mut mtu = PathMtu::new(1472);
        search(&mut mtu, 1472);
        assert!(!mtu.on_timeout() && !mtu.on_timeout());
        mtu.on_delivered(&(50..=50));
        assert!(fall(&mut mtu));
        assert_eq!(mtu.size(), BASE);
        assert_eq!(search(&mut mtu, 1400), [1472, 1452, 1420, 1400, 1410, 1405, 1402]);
        assert_eq!(mtu.size(), 1400);
        assert!((0..9).all(|_| !PathMtu::new(1200).on_timeout()));
    }

    #[test]
    fn nine_timeouts_fall_to_the_smallest_path() {
        for path in [SMALLEST, 572, 972, 1172, BASE, 1472] {
            let mut mtu = PathMtu::new(1472);
            search(&mut mtu, 1472);
            assert!(fall(&mut mtu) && !fall(&mut mtu) && fall(&mut mtu));
            assert_eq!((mtu.size(), mtu.candidate()), (SMALLEST, Some(BASE)));
            assert!(!fall(&mut mtu) && !fall(&mut mtu), "nothing is smaller");
            search(&mut mtu, path);
            assert!(mtu.size() <= path && path - mtu.size() < 2 * STEP, "{path}: {}", mtu.size());
        }
    }

    #[test]
    fn peer_that_takes_less_is_no_smaller_path() {
        let mut mtu = PathMtu::new(1472);
        mtu.limit(300);
        assert!(!fall(&mut mtu) && !fall(&mut mtu));
        assert_eq!(mtu.size(), 300);
    }

    #[test]
    fn refused_size_stays_refused_after_timeouts() {
        let mut mtu = PathMtu::new(1472);
        search(&mut mtu, 1252);
        let found = mtu.size();
        assert!(fall(&mut mtu));
        assert!(search(&mut mtu, 1252).iter().all(|size| *size < 1372));
        assert!(mtu.size().abs_diff(found) < 2 * STEP, "{} after {found}", mtu.size());
    }

    #[test]
    fn revived_path_regains_size_with_one_probe() {
        let mut mtu = PathMtu::new(8972);
        search(&mut mtu, 8972);
        assert!(fall(&mut mtu));
        assert_eq!((search(&mut mtu, 8972), mtu.size()), (vec![1472, 8972], 8972));
    }
}
