//! Round trips to hosts with which this side had connections (RFC 9040, section 6): the next SYN to
//! such a host is repeated sooner than one to an unknown host.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Largest number of hosts, 64 KiB. The oldest makes room for a new one.
const MAX_HOSTS: usize = 1024;
/// Time for which a round trip is believed.
const LIFETIME: Duration = Duration::from_secs(600);

/// Newest round trip of each host, and the time of its measurement.
#[derive(Debug, Default)]
pub(super) struct KnownRtts(BTreeMap<IpAddr, (Duration, Instant)>);

impl KnownRtts {
    pub(super) fn insert(&mut self, now: Instant, host: IpAddr, rtt: Duration) {
        if self.0.len() >= MAX_HOSTS
            && !self.0.contains_key(&host)
            && let Some(oldest) = self.0.iter().min_by_key(|(_, (_, at))| *at).map(|(host, _)| *host)
        {
            self.0.remove(&oldest);
        }
        self.0.insert(host, (rtt, now));
    }

    pub(super) fn get(&self, now: Instant, host: IpAddr) -> Option<Duration> {
        let (rtt, at) = self.0.get(&host)?;
        (now.saturating_duration_since(*at) < LIFETIME).then_some(*rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_rtts_are_known_for_ten_minutes() {
        let (mut known, epoch) = (KnownRtts::default(), rdt_testing::epoch());
        let host = |n: u32| IpAddr::from(n.to_be_bytes());
        let ms = Duration::from_millis;
        for n in 0..1025 {
            known.insert(epoch + ms(u64::from(n)), host(n), ms(50));
        }
        let later = epoch + ms(2000);
        assert_eq!((known.get(later, host(0)), known.get(later, host(1))), (None, Some(ms(50))));
        known.insert(later, host(1), ms(70));
        assert_eq!((known.get(later, host(1)), known.get(later, host(2))), (Some(ms(70)), Some(ms(50))));
        assert_eq!(known.get(later + LIFETIME, host(1)), None);
    }
}
