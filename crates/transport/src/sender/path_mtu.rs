//! Path MTU discovery (RFC 8899) with stream data as probes (RFC 4821, section 7): now and then a
//! larger segment is sent, and its size is confirmed if it arrives. Owns the search. Sizes are UDP
//! payloads in bytes.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::wire::native::SMALLEST_PATH;

/// Size that nearly every path carries (`BASE_PLPMTU`; RFC 8899, section 5.1.2).
pub(crate) const BASE: usize = 1200;
/// Size that every path carries (`MIN_PLPMTU`, same section).
const SMALLEST: usize = SMALLEST_PATH;
/// Ethernet's MTU less the headers of IPv4 and UDP: probed first, because it nearly always fits.
const ETHERNET: usize = 1472;
/// Sizes for other links: IPv6's minimum MTU, tunnels (1400 and 1420 bytes of IP, or of UDP
/// payload), Ethernet with IPv6, jumbo frames with IPv6 and IPv4.
const COMMON: [usize; 8] = [1232, 1372, 1392, 1400, 1420, 1452, 8952, 8972];
/// Consecutive lost probes after which a size counts as too large (`MAX_PROBES`).
const MAX_PROBES: u32 = 3;
/// Smallest gain worth a probe, bytes. A size that does not fit costs three retransmissions.
const MIN_PROBE_GAIN_BYTES: usize = 4;
/// Consecutive timeouts after which the path presumably drops large packets (RFC 8899, section
/// 4.3): as many as the attempts of a probe. With a window of one or two packets, a loss rate of a
/// quarter often causes two in a row.
const BLACK_HOLE_TIMEOUTS: u32 = MAX_PROBES;
/// Consecutive timeouts after which even the base size presumably does not fit. Such a path is
/// rare, and at a loss rate of a half six timeouts in a row occur without one.
const SMALL_PATH_TIMEOUTS: u32 = 2 * MAX_PROBES;
/// Time from the end of a search to the next one, because the path may change (`PMTU_RAISE_TIMER`;
/// RFC 8899, section 5.1.1).
const RAISE_INTERVAL: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(crate) struct PathMtu {
    /// Largest size known to arrive.
    confirmed: usize,
    /// Upper limit of the search.
    ceiling: usize,
    /// Smallest size known not to arrive.
    refused: Option<usize>,
    /// Size and packet number of the probe in flight.
    probe: Option<(usize, u64)>,
    failures: u32,
    timeouts: u32,
    /// Time of the next search; `None` during a search, and at the ceiling.
    raise_at: Option<Instant>,
}

impl PathMtu {
    /// Returns a search that begins at the base size, or at `ceiling` if that is less.
    pub(crate) fn new(ceiling: usize) -> Self {
        Self { confirmed: BASE.min(ceiling), ceiling, ..Self::default() }
    }

    /// Begins at a size that arrived before. A path that carries it no more is found as a black
    /// hole.
    pub(crate) fn confirm(&mut self, size: usize) {
        self.confirmed = size.clamp(self.confirmed, self.ceiling);
    }

    /// Lowers the ceiling to the largest size that the peer accepts.
    pub(crate) fn limit(&mut self, size: usize) {
        self.ceiling = self.ceiling.min(size);
        self.confirmed = self.confirmed.min(self.ceiling);
    }

    pub(crate) fn size(&self) -> usize {
        self.confirmed
    }

    /// Returns the size of the next probe. `None` if the search is over or a probe is in flight.
    pub(crate) fn candidate(&self) -> Option<usize> {
        // Exclusive upper limit of the next size.
        let end = self.refused.map_or(self.ceiling + 1, |refused| refused.min(self.ceiling + 1));
        if self.probe.is_some() || end <= self.confirmed + 1 {
            return None;
        }
        let fits = |size: &usize| (self.confirmed + 1..end).contains(size);
        // Only after timeouts: a probe of this size tells a small path MTU from an outage.
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
        (end > self.confirmed + MIN_PROBE_GAIN_BYTES).then_some(usize::midpoint(self.confirmed, end))
    }

    /// Handles an ACK: starts the next search if it is time. That needs no timer, because without
    /// ACKs there is no data to probe with.
    pub(crate) fn on_ack(&mut self, now: Instant) {
        let over = self.confirmed < self.ceiling && self.probe.is_none() && self.candidate().is_none();
        if !over {
            self.raise_at = None;
        } else if now >= *self.raise_at.get_or_insert(now + RAISE_INTERVAL) {
            self.raise_at = None;
            self.refused = None;
        }
    }

    pub(crate) fn on_probe_sent(&mut self, size: usize, packet_number: u64) {
        self.probe = Some((size, packet_number));
    }

    /// Returns the packet number of the probe in flight.
    pub(crate) fn probe(&self) -> Option<u64> {
        self.probe.map(|(_, packet_number)| packet_number)
    }

    /// Handles the arrival of transmissions `packet_numbers`. Returns true if the size has grown.
    pub(crate) fn on_delivered(&mut self, packet_numbers: &RangeInclusive<u64>) -> bool {
        self.timeouts = 0;
        match self.probe {
            Some((size, probe)) if packet_numbers.contains(&probe) => {
                self.probe = None;
                self.failures = 0;
                // The peer may have lowered the ceiling meanwhile.
                self.confirmed = size.min(self.ceiling);
                true
            }
            _ => false,
        }
    }

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

    /// Handles a retransmission timeout. Returns true if the size has become smaller. The larger
    /// size is not excluded, because an outage has the same effect; a later probe decides. Sizes
    /// excluded by lost probes stay excluded.
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

    /// Runs the search over a path that carries datagrams up to `path`; returns the sizes tried.
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
                mtu.size() <= path && path - mtu.size() < 2 * MIN_PROBE_GAIN_BYTES,
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
        // The path is not larger yet, and the interval starts again at the end of that search.
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
        mtu.on_ack(epoch + RAISE_INTERVAL);
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
        let mut base = PathMtu::new(BASE);
        assert!(!fall(&mut base) && base.size() == BASE, "three at the base size change nothing");
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
            assert!(
                mtu.size() <= path && path - mtu.size() < 2 * MIN_PROBE_GAIN_BYTES,
                "{path}: {}",
                mtu.size()
            );
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
        assert!(mtu.size().abs_diff(found) < 2 * MIN_PROBE_GAIN_BYTES, "{} after {found}", mtu.size());
    }

    #[test]
    fn revived_path_regains_size_with_one_probe() {
        let mut mtu = PathMtu::new(8972);
        search(&mut mtu, 8972);
        assert!(fall(&mut mtu));
        assert_eq!((search(&mut mtu, 8972), mtu.size()), (vec![1472, 8972], 8972));
    }

    #[test]
    fn peers_limit_is_tried_after_refused_size() {
        let mut mtu = PathMtu::new(1472);
        search(&mut mtu, 1232);
        mtu.limit(1400);
        mtu.confirmed = BASE;
        mtu.refused = Some(1452);
        assert_eq!(mtu.candidate(), Some(1400));
    }
}
