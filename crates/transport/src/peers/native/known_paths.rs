//! Paths to known hosts (RFC 9040): what a connection learned seeds the next one to the same host.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::{AddressKey, ConnectionSet};
use crate::connection::KnownPath;

/// Largest number of hosts, 100 KB. The oldest makes room for a new one.
const MAX_HOSTS: usize = 1024;
/// Time for which a path is believed.
const LIFETIME: Duration = Duration::from_secs(600);
/// Time after which a window is halved, and after each further one again.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// Largest window that is remembered, bytes.
const MAX_WINDOW: u64 = 8 << 20;
/// Window that a connection may take as a whole, bytes. Of a larger one it takes an eighth.
const MAX_ALONE: u64 = 128 << 10;
/// Time for which a host that was heard counts as present at its address. Later, a connection
/// without a handshake begins with the initial window, like a server of QUIC that gets a token of
/// an earlier connection (RFC 9000, section 8.1.3; RFC 9002, section 7.2).
const RECENT: Duration = Duration::from_secs(60);
/// Shortest time for which windows of new connections count.
const MIN_GRANT_TIME: Duration = Duration::from_millis(100);

/// Knowledge of the path to one host.
#[derive(Debug, Clone, Copy)]
struct Known {
    path: KnownPath,
    /// Time of the newest knowledge.
    at: Instant,
    /// Time at which the window was measured.
    window_at: Instant,
    /// Time at which ECN validation failed last.
    ecn_failed_at: Option<Instant>,
    /// Newest time at which the host was heard in a connection in which it has acknowledged data.
    heard_at: Instant,
    /// Bytes that the newest connections got as windows, and the time of the first of them.
    granted: u64,
    granted_at: Instant,
}

impl Known {
    /// True if the newest windows count: for a round trip or two, and until the host was heard.
    fn grant_lasts(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.granted_at);
        age <= (2 * self.path.rtt).max(MIN_GRANT_TIME) || self.heard_at < self.granted_at
    }
}

/// Newest knowledge of the path to each host.
#[derive(Debug, Default)]
pub(super) struct KnownPaths(BTreeMap<IpAddr, Known>);

impl KnownPaths {
    /// Remembers a path to a host that was heard at `heard_at`. Without congestion, an earlier
    /// connection that filled the path more is not forgotten.
    pub(super) fn insert(&mut self, now: Instant, heard_at: Instant, host: IpAddr, path: KnownPath) {
        if self.0.len() >= MAX_HOSTS
            && !self.0.contains_key(&host)
            && let Some(oldest) = self.0.iter().min_by_key(|(_, known)| known.at).map(|(host, _)| *host)
        {
            self.0.remove(&oldest);
        }
        let window = self.get(now, host).map_or(0, |before| before.window);
        let known = self.0.entry(host).or_insert(Known {
            path,
            at: now,
            window_at: now,
            ecn_failed_at: None,
            heard_at,
            granted: 0,
            granted_at: heard_at,
        });
        known.heard_at = known.heard_at.max(heard_at);
        if path.window >= window || path.was_congested() && path.window > 0 {
            known.path.window = path.window.min(MAX_WINDOW);
            (known.path.loss, known.window_at) = (path.loss, now);
        }
        if path.refuses_ecn {
            known.ecn_failed_at = Some(now);
        }
        (known.path.rtt, known.path.packet_size, known.at) = (path.rtt, path.packet_size, now);
    }

    /// Returns what is known of the path to a host, with a window by its age.
    pub(super) fn get(&self, now: Instant, host: IpAddr) -> Option<KnownPath> {
        let known = self.0.get(&host)?;
        let age = |at: Instant| now.saturating_duration_since(at);
        if age(known.at) >= LIFETIME {
            return None;
        }
        let halvings =
            u32::try_from(age(known.window_at).as_secs() / HALF_LIFE.as_secs()).unwrap_or(u32::MAX);
        Some(KnownPath {
            window: known.path.window.checked_shr(halvings).unwrap_or(0),
            refuses_ecn: known.ecn_failed_at.is_some_and(|at| age(at) < LIFETIME),
            ..known.path
        })
    }

    /// True if other connections got windows that still count.
    fn grants(&self, now: Instant, host: IpAddr) -> bool {
        self.0.get(&host).is_some_and(|known| known.granted > 0 && known.grant_lasts(now))
    }

    /// True if the host was heard within [`RECENT`].
    fn was_heard(&self, now: Instant, host: IpAddr) -> bool {
        self.0.get(&host).is_some_and(|known| now.saturating_duration_since(known.heard_at) < RECENT)
    }

    /// Returns the part of a window of `wanted` bytes that is left of `whole` after what other
    /// connections got within a round trip or two, and since the host was heard: if it has left its
    /// address, what is sent there stays a window, however many connections open.
    fn grant(&mut self, now: Instant, host: IpAddr, wanted: u64, whole: u64) -> u64 {
        let Some(known) = self.0.get_mut(&host) else { return 0 };
        if !known.grant_lasts(now) {
            (known.granted, known.granted_at) = (0, now);
        }
        // A quarter more, which a queue can hold: fewer may come than want to.
        let granted = wanted.min((whole + whole / 4).saturating_sub(known.granted));
        known.granted += granted;
        granted
    }
}

impl<P: AddressKey> ConnectionSet<P> {
    /// Remembers the path to the peer of a connection, if it is measured.
    pub(super) fn remember_path(&mut self, now: Instant, id: u64) {
        if let (Some(ip_of), Some(entry)) = (self.config.ip_of, self.native.connections.get_mut(&id))
            && let Some(path) = entry.connection.known_path()
        {
            let heard_at = entry.connection.last_active().unwrap_or(now);
            self.native.known_paths.insert(now, heard_at, ip_of(&entry.peer), path);
        }
    }

    /// Remembers the path once, when the whole outgoing stream was delivered, and leaves the rate
    /// of a connection without more data to others. For the connection looked up last.
    pub(super) fn note_delivery(&mut self, now: Instant, id: u64) {
        let Some(entry) = self.native.connections.latest_mut() else { return };
        let left = entry.connection.leave_rate();
        let peer = entry.peer;
        if entry.notes_delivery() {
            self.remember_path(now, id);
        }
        if let (Some(rate), Some(ip_of)) = (left, self.config.ip_of) {
            self.leave_rate(now, rate, ip_of(&peer));
        }
    }

    /// Divides a rate, bytes per second, among the connections that send to a host. The path has
    /// carried it, so together they send no more than before.
    fn leave_rate(&mut self, now: Instant, rate: u64, host: IpAddr) {
        let Some(mut others) = self.native.by_host.few(host) else { return };
        others.retain(|id| self.native.connections.get(id).is_some_and(|it| it.connection.is_sending()));
        // The caller goes on with the connection that it looked up.
        let latest = self.native.connections.latest();
        for id in &others {
            if let Some(entry) = self.native.connections.get_mut(id) {
                entry.connection.take_over(now, rate / others.len() as u64);
            }
        }
        self.native.connections.at_mut(latest);
    }

    /// Returns what is known of the path to a peer, for one more connection: a share of what the
    /// present ones have, or what an earlier one had. Half of it if that was congested, or if it
    /// lost packets and others begin or go on beside this one.
    pub(super) fn path_of_new(&mut self, now: Instant, peer: &P) -> Option<KnownPath> {
        let ip_of = self.config.ip_of?;
        let host = ip_of(peer);
        let (mut sum, mut present) = (0, 0);
        let others = self.native.by_host.few(host);
        for id in others.iter().flatten() {
            if let Some(entry) = self.native.connections.get(id)
                && entry.connection.is_sending()
                && let Some(path) = entry.connection.known_path()
            {
                (sum, present) = (sum + path.window, present + 1);
                if present == 1 {
                    let heard_at = entry.connection.last_active().unwrap_or(now);
                    self.native.known_paths.insert(now, heard_at, host, path);
                }
            }
        }
        let known = self.native.known_paths.get(now, host)?;
        let whole = known.window.max(sum);
        // More may follow, which then have as much.
        let most = whole.min(MAX_ALONE.max(whole / 8));
        let is_alone = present == 0 && !self.native.known_paths.grants(now, host);
        let is_halved = known.was_congested() || known.loss > 0 && !is_alone;
        let wanted = if is_halved { most / 2 } else { most }.min(whole / (present + 1));
        // Among many connections to it, it is not known how many send.
        let wanted = if others.is_some() { wanted } else { 0 };
        let window = self.native.known_paths.grant(now, host, wanted, whole);
        // A host that was heard lately has its address still.
        let is_recent = self.native.known_paths.was_heard(now, host);
        let early = if is_recent { window.min(MAX_ALONE) } else { 0 };
        Some(KnownPath { window, early, ..known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(rtt_ms: u64, window: u64, is_congested: bool) -> KnownPath {
        let rtt = Duration::from_millis(rtt_ms);
        let loss = if is_congested { 21 } else { 20 };
        KnownPath { rtt, window, early: 0, packet_size: 1472, refuses_ecn: false, loss }
    }

    #[test]
    fn newest_paths_are_known_for_ten_minutes() {
        let (mut known, epoch) = (KnownPaths::default(), rdt_testing::epoch());
        let host = |n: u32| IpAddr::from(n.to_be_bytes());
        let ms = Duration::from_millis;
        let rtt = |known: &KnownPaths, at, n| known.get(at, host(n)).map(|path| path.rtt);
        for n in 0..1025 {
            known.insert(epoch + ms(u64::from(n)), epoch + ms(u64::from(n)), host(n), path(50, 0, false));
        }
        let later = epoch + ms(2000);
        assert_eq!((rtt(&known, later, 0), rtt(&known, later, 1)), (None, Some(ms(50))));
        known.insert(later, later, host(1), path(70, 0, false));
        assert_eq!((rtt(&known, later, 1), rtt(&known, later, 2)), (Some(ms(70)), Some(ms(50))));
        assert_eq!(rtt(&known, later + LIFETIME, 1), None);
    }

    #[test]
    fn window_ages_and_is_replaced_after_loss() {
        let (mut known, epoch) = (KnownPaths::default(), rdt_testing::epoch());
        let host = IpAddr::from([192, 0, 2, 1]);
        let window = |known: &KnownPaths, s| known.get(epoch + Duration::from_secs(s), host).unwrap().window;
        known.insert(epoch, epoch, host, path(50, 1 << 30, false));
        assert_eq!([0, 59, 60, 125].map(|s| window(&known, s)), [8 << 20, 8 << 20, 4 << 20, 2 << 20]);
        known.insert(epoch, epoch, host, path(50, 1000, false));
        assert_eq!(window(&known, 0), 8 << 20);
        known.insert(epoch, epoch, host, path(50, 0, false));
        assert_eq!([0, 60].map(|s| window(&known, s)), [8 << 20, 4 << 20]);
        known.insert(epoch, epoch, host, path(50, 1000, true));
        assert_eq!(window(&known, 0), 1000);
        assert!(known.get(epoch + 12 * LIFETIME, host).is_none());
    }

    #[test]
    fn kept_window_goes_on_ageing() {
        let (mut known, epoch) = (KnownPaths::default(), rdt_testing::epoch());
        let host = IpAddr::from([192, 0, 2, 1]);
        for minute in 0..10 {
            let now = epoch + minute * HALF_LIFE;
            known.insert(now, now, host, path(50, if minute == 0 { 1 << 20 } else { 10 }, minute == 0));
            let known = known.get(now, host).unwrap();
            assert_eq!((known.window, known.was_congested()), ((1 << 20) >> minute, true), "{minute}");
        }
    }

    #[test]
    fn failed_ecn_is_not_tried_for_ten_minutes() {
        let (mut known, epoch) = (KnownPaths::default(), rdt_testing::epoch());
        let host = IpAddr::from([192, 0, 2, 1]);
        known.insert(epoch, epoch, host, KnownPath { refuses_ecn: true, ..path(50, 0, false) });
        for (s, refuses) in [(1, true), (599, true), (600, false)] {
            let now = epoch + Duration::from_secs(s);
            known.insert(now, now, host, path(50, 0, false));
            assert_eq!(known.get(now, host).unwrap().refuses_ecn, refuses, "{s} s");
        }
    }

    /// Those that open at once have together hardly more than the path holds.
    #[test]
    fn grants_add_up_to_whole_window() {
        let (mut known, epoch) = (KnownPaths::default(), rdt_testing::epoch());
        let host = IpAddr::from([192, 0, 2, 1]);
        known.insert(epoch, epoch, host, path(50, 1000, false));
        let grants: Vec<_> = (0..6).map(|_| known.grant(epoch, host, 300, 1000)).collect();
        assert_eq!(grants, [300, 300, 300, 300, 50, 0]);
        let later = epoch + Duration::from_millis(101);
        assert_eq!(known.grant(later, host, 300, 1000), 300);
    }

    /// Connections to a host that has left its address get one window together.
    #[test]
    fn grants_wait_until_host_is_heard() {
        let (mut known, epoch) = (KnownPaths::default(), rdt_testing::epoch());
        let (host, at) = (IpAddr::from([192, 0, 2, 1]), |s| epoch + Duration::from_secs(s));
        known.insert(epoch, epoch, host, path(50, 1000, false));
        let sum = |known: &mut KnownPaths, from: u64| -> u64 {
            (from..from + 20).map(|s| known.grant(at(s), host, 300, 1000)).sum()
        };
        assert_eq!(sum(&mut known, 1), 1250);
        known.insert(at(30), at(0), host, path(50, 1000, false));
        assert_eq!((sum(&mut known, 30), known.was_heard(at(59), host)), (0, true));
        assert!(!known.was_heard(at(60), host), "the older connection has only ended");
        known.insert(at(60), at(60), host, path(50, 1000, false));
        assert_eq!(known.grant(at(61), host, 300, 1000), 300);
    }
}
