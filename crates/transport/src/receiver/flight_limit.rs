//! How much may be on its way to a socket: what its buffer has room for if the program reads nothing for a while, and
//! what a network of some length holds besides. UDP has no back-pressure, so the window has to be it. Without that, a
//! sender on the same host fills the small buffer that an ordinary user is granted whenever the receiver is not
//! scheduled for a moment, and what follows is lost in the host.
//!
//! Owns one peer's part of the buffer, and its round trip as far as it bounds the window. Counts in the wire's numbers,
//! packets or bytes; knows no socket.

use std::time::{Duration, Instant};

use crate::wire::Numbering;

/// Packets that have to fit however many peers there are: where two are the rule for an ACK, one would wait for it.
const LEAST: u64 = 2;
/// Of a round trip, so much is no way through a network: hosts wake and batch. What is on the way in that time may as
/// well be in the socket.
const IN_HOSTS: Duration = Duration::from_millis(1);
/// A sender that uses its window up within so many of the shortest round trips waits for it, and not for itself.
const PROMPT: u32 = 2;
/// How often what a network holds may be on its way: the window doubles in a round trip, and a router's queue may hold
/// as much as its links.
const GROWTH: u64 = 4;
/// The shortest round trips in which what the network once carried is forgotten, if all that time something came.
const MEMORY: u128 = 8;

/// What Linux charges a socket's buffer for a packet with so much payload that comes by itself (`truesize`), at most, in
/// bytes. Measured with `SO_MEMINFO` over loopback: memory for up to 16 KiB comes in powers of two, all headers and 320
/// bytes of bookkeeping included, and a record of 256 bytes is beside it. So 1472 bytes count as 2304, and 12 as 832.
/// Datagrams that come joined count as little more than their bytes.
pub(crate) fn charge(payload: u64) -> u64 {
    const BESIDE: u64 = 480;
    const RECORD: u64 = 256;
    const LARGE: u64 = 15 << 10;
    if payload > LARGE {
        return payload.saturating_add(1024);
    }
    (payload + BESIDE).next_power_of_two().max(1024) + RECORD
}

/// A peer's part of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferShare {
    /// As the system charges them; `u64::MAX` for no bound.
    pub bytes: u64,
    /// A larger buffer would make it larger.
    pub is_scarce: bool,
    /// What of a round trip the data of all peers spend in hosts that are busy, beside the least of it.
    pub in_hosts: Duration,
}

impl BufferShare {
    /// No bound.
    pub const UNBOUNDED: Self = Self { bytes: u64::MAX, is_scarce: false, in_hosts: Duration::ZERO };
}

/// A number that could not be sent before it was offered.
#[derive(Debug, Clone, Copy)]
struct Probe {
    number: u64,
    offered: Instant,
    /// End of what had arrived then.
    arrived: u64,
    /// More would have been offered with a larger buffer.
    bounded: bool,
}

/// One peer's bound.
#[derive(Debug)]
pub(crate) struct FlightLimit {
    share: BufferShare,
    numbering: Numbering,
    /// Largest packet so far, bytes of payload.
    largest: u64,
    /// What has room in `share`, in the wire's numbers.
    room: u64,
    probe: Option<Probe>,
    /// The shortest so far.
    rtt: Option<Duration>,
    /// The highest of late, in the wire's numbers a second.
    rate: u64,
    /// When something came last.
    came: Option<Instant>,
    /// Nothing came for some round trips since the probe was offered, so what was delivered tells of the sender, and not
    /// of a network.
    paused: bool,
    /// What may be on its way beside, in the wire's numbers.
    network: u64,
    /// Round trips in which the peer waited for a window that this bounded, since they were asked for.
    limited: u64,
}

impl FlightLimit {
    /// No bound yet, for packets with about `payload` bytes of payload.
    pub(crate) fn new(numbering: Numbering, payload: u64) -> Self {
        Self {
            share: BufferShare::UNBOUNDED,
            numbering,
            largest: payload.max(1),
            room: u64::MAX,
            probe: None,
            rtt: None,
            rate: 0,
            came: None,
            paused: false,
            network: 0,
            limited: 0,
        }
    }

    /// The peer's part of the buffer is another.
    pub(crate) fn set_share(&mut self, share: BufferShare) {
        self.share = share;
        self.set_room();
    }

    /// The farthest offset to offer where all up to `arrived` has left the socket, or was lost.
    pub(crate) fn edge(&self, arrived: u64) -> u64 {
        arrived.saturating_add(self.room).saturating_add(self.network)
    }

    /// What of the socket's buffer is taken where all below `edge` was offered and what is before `arrived` has left the
    /// socket, in bytes as the system charges them; nothing where there is no bound. The rest is in the network.
    pub(crate) fn held(&self, arrived: u64, edge: u64) -> u64 {
        if self.share.bytes == u64::MAX {
            return 0;
        }
        let on_its_way = edge.saturating_sub(arrived).saturating_sub(self.network);
        // Four gigabytes are more than there is, and a sum of such numbers fits.
        on_its_way.div_ceil(self.packet()).saturating_mul(charge(self.largest)).min(u64::from(u32::MAX))
    }

    /// A packet came whose last number is before `end`, with so much payload; `arrived` is the end of what came before.
    pub(crate) fn on_arrival(&mut self, now: Instant, end: u64, payload: u64, arrived: u64) {
        if self.share.bytes == u64::MAX {
            return;
        }
        if payload > self.largest {
            self.largest = payload;
            self.set_room();
        }
        // All of a run came at the same time.
        if self.came != Some(now) {
            self.paused |= self.is_pause(now);
            self.came = Some(now);
        }
        if let Some(probe) = self.probe.filter(|probe| end > probe.number) {
            self.probe = None;
            let sample = now.saturating_duration_since(probe.offered);
            self.measure(sample, end.max(arrived).saturating_sub(probe.arrived));
            let waited = self.rtt.is_some_and(|rtt| sample < PROMPT * rtt);
            self.limited += u64::from(probe.bounded && waited);
        }
    }

    /// All below `edge` is offered from now on, and all below `before` was; `bounded` if the bound is why it is no more.
    pub(crate) fn on_offer(&mut self, now: Instant, before: u64, edge: u64, arrived: u64, bounded: bool) {
        if self.share.bytes == u64::MAX {
            return;
        }
        if edge > before && self.probe.is_none() {
            let bounded = bounded && self.share.is_scarce;
            self.probe = Some(Probe { number: before, offered: now, arrived, bounded });
            self.paused = false;
        }
    }

    /// Round trips in which the peer waited for a window that would have been larger but for the buffer, since this was
    /// asked last.
    pub(crate) fn take_limited(&mut self) -> u64 {
        std::mem::take(&mut self.limited)
    }

    /// A full packet, in the wire's numbers.
    fn packet(&self) -> u64 {
        match self.numbering {
            Numbering::Packets => 1,
            Numbering::Bytes => self.largest,
        }
    }

    fn set_room(&mut self) {
        self.room = match self.share.bytes {
            u64::MAX => u64::MAX,
            bytes => (bytes / charge(self.largest)).max(LEAST) * self.packet(),
        };
    }

    /// True if nothing came for so long before `now` that a sender in use of its window had nothing to send.
    fn is_pause(&self, now: Instant) -> bool {
        let silence = self.came.map(|came| now.saturating_duration_since(came));
        silence.zip(self.rtt).is_some_and(|(silence, rtt)| silence > PROMPT * rtt.max(IN_HOSTS))
    }

    /// A sender that does not use the window up takes longer than the round trip, so the shortest counts; the rate is
    /// that of the whole time. A lower one counts the more the longer it was seen: a network may become slower.
    fn measure(&mut self, sample: Duration, delivered: u64) {
        let nanos = sample.as_nanos();
        if nanos == 0 {
            return;
        }
        let least = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let rtt = self.rtt.map_or(sample, |rtt| rtt.min(sample));
        self.rtt = Some(rtt);
        let forgotten = match nanos / rtt.as_nanos() {
            _ if self.paused => 0,
            trips => least(u128::from(self.rate) * trips.min(MEMORY) / MEMORY),
        };
        self.rate = (self.rate - forgotten).max(least(u128::from(delivered) * 1_000_000_000 / nanos));
        let outside = rtt.saturating_sub(IN_HOSTS + self.share.in_hosts).as_nanos();
        self.network = least(u128::from(self.rate) * outside / 1_000_000_000).saturating_mul(GROWTH);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Room for 100 packets of 1460 bytes.
    const SHARE: u64 = 230_400;

    fn epoch() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        Instant::now()
    }

    fn scarce(bytes: u64) -> BufferShare {
        BufferShare { bytes, is_scarce: true, in_hosts: Duration::ZERO }
    }

    fn packets(share: u64) -> FlightLimit {
        let mut in_flight = FlightLimit::new(Numbering::Packets, 1460);
        in_flight.set_share(scarce(share));
        in_flight
    }

    /// Window after window of what may be on its way, each of which takes `trip` to come.
    fn after(in_flight: &mut FlightLimit, trip: Duration, windows: u64) -> u64 {
        let (mut now, mut arrived) = (epoch(), 0);
        in_flight.on_offer(now, 0, 1, 0, false);
        for _ in 0..windows {
            now += trip;
            in_flight.on_arrival(now, arrived + 1, 1460, arrived);
            let edge = in_flight.edge(arrived);
            in_flight.on_offer(now, arrived + 1, edge, arrived + 1, true);
            arrived = edge;
        }
        in_flight.edge(0)
    }

    #[test]
    fn a_datagram_is_charged_what_linux_was_seen_to_charge() {
        let seen =
            [(12, 832), (100, 832), (590, 1280), (620, 1280), (1000, 2304), (1444, 2304), (1472, 2304)];
        let large = [(2000, 4352), (4000, 8448), (9000, 16_640), (20_000, 20_832), (60_000, 60_832)];
        for (datagram, charged) in seen.into_iter().chain(large) {
            assert!((charged..=2 * charged).contains(&charge(datagram)), "{datagram}: {}", charge(datagram));
        }
        assert_eq!((charge(1472), charge(1444)), (2304, 2304));
    }

    #[test]
    fn packets_fit_the_share_in_the_wires_numbers() {
        assert_eq!(packets(SHARE).edge(7), 107);
        let mut bytes = FlightLimit::new(Numbering::Bytes, 1444);
        assert_eq!(bytes.edge(7), u64::MAX, "no bound yet");
        bytes.set_share(scarce(SHARE));
        assert_eq!(bytes.edge(7), 7 + 100 * 1444);
        bytes.on_arrival(epoch(), 9000, 8944, 0);
        assert_eq!(bytes.edge(0), SHARE / charge(8944) * 8944, "larger ones are charged more");
        assert_eq!(packets(1).edge(0), LEAST, "two in any case");
    }

    #[test]
    fn a_network_that_is_long_holds_what_it_was_seen_to_hold() {
        let near = after(&mut packets(SHARE), Duration::from_millis(1), 20);
        assert_eq!(near, 100, "within a host there is nothing but the socket");
        let ms = Duration::from_millis(20);
        let far: Vec<u64> = (1..5).map(|windows| after(&mut packets(SHARE), ms, windows)).collect();
        assert!(far.windows(2).skip(1).all(|pair| pair[1] >= 2 * pair[0]), "{far:?}: it doubles at least");
    }

    /// A network with a round trip of 20 ms.
    struct Flow {
        in_flight: FlightLimit,
        now: Instant,
        /// Packets that arrived.
        arrived: u64,
        /// What was offered, by ms: the last now, the first a round trip ago.
        offers: VecDeque<u64>,
    }

    impl Flow {
        fn new() -> Self {
            let mut in_flight = packets(SHARE);
            in_flight.on_offer(epoch(), 0, 100, 0, true);
            Self { in_flight, now: epoch(), arrived: 0, offers: [0; 19].into_iter().chain([100]).collect() }
        }

        /// A sender has that many packets a millisecond, or the network carries no more; what may be on its way then.
        fn run(&mut self, per_ms: u64, millis: u64) -> u64 {
            for _ in 0..millis {
                self.now += Duration::from_millis(1);
                let (known, before) = (self.offers[0], self.offers[19]);
                let end = known.min(self.arrived + per_ms);
                if end > self.arrived {
                    self.in_flight.on_arrival(self.now, end, 1460, self.arrived);
                    self.arrived = end;
                }
                let edge = before.max(self.in_flight.edge(self.arrived));
                self.in_flight.on_offer(self.now, before, edge, self.arrived, true);
                self.offers.pop_front();
                self.offers.push_back(edge);
            }
            self.in_flight.edge(0)
        }
    }

    #[test]
    fn a_path_that_became_slower_is_not_offered_for_ever_what_it_carried() {
        let mut flow = Flow::new();
        let fast = flow.run(100, 4000);
        assert!((7000..=9000).contains(&fast), "{fast} packets, four times 2000");
        let slow = flow.run(10, 4000);
        assert!((700..=1100).contains(&slow), "{slow} packets, four times 200");
        let again = flow.run(100, 4000);
        assert!((7000..=9000).contains(&again), "{again} packets, four times 2000");
    }

    #[test]
    fn a_transfer_that_pauses_is_as_fast_afterwards() {
        let mut flow = Flow::new();
        let fast = flow.run(100, 4000);
        for _ in 0..30 {
            flow.run(0, 1000);
            flow.run(100, 20);
        }
        let after = flow.run(0, 60_000);
        assert!(after >= fast * 9 / 10, "{after} packets, {fast} before");
    }

    #[test]
    fn one_short_round_trip_shows_that_the_way_is_short() {
        let mut in_flight = packets(SHARE);
        assert!(after(&mut in_flight, Duration::from_millis(50), 4) > 1000, "the host was busy elsewhere");
        let arrived = 1 << 30;
        let now = epoch();
        in_flight.probe = Some(Probe { number: arrived, offered: now, arrived, bounded: true });
        in_flight.on_arrival(now + Duration::from_micros(80), arrived + 1, 1460, arrived);
        assert_eq!(in_flight.edge(0), 100);
    }

    #[test]
    fn round_trips_that_use_a_bounded_window_up_at_once_are_counted() {
        let (mut in_flight, mut now, mut edge) = (packets(SHARE), epoch(), 0);
        let mut limited = |micros, bounded| {
            in_flight.on_offer(now, edge, edge + 100, edge, bounded);
            now += Duration::from_micros(micros);
            edge += 100;
            in_flight.on_arrival(now, edge - 99, 1460, edge - 100);
            (in_flight.take_limited(), in_flight.take_limited())
        };
        assert_eq!(limited(100, false), (0, 0), "something else bounded the window");
        assert_eq!(limited(100, true), (1, 0));
        assert_eq!(limited(500, true), (0, 0), "the sender had nothing to send, or a window of its own");
    }
}
