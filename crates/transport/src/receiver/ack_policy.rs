//! ACK frequency of selective ACKs: every n-th packet (RFC 9293, section 3.8.6.3; RFC 5681, section
//! 4.2), at once for urgent packets, otherwise when the ACK delay is over.
//!
//! ACKs are created only when the endpoint is polled, so all packets of one turn share one ACK.
//! Owns the echoed fields: the largest packet number, its arrival time, and the packet counts.

use std::time::{Duration, Instant};

use crate::Ecn;
use crate::wire::native::FITTING_BLOCKS;

/// Limit of urgent packets that wait for one ACK. Each may begin a SACK block, and the sender
/// declares data lost that is missing in the blocks.
const MAX_URGENT: u32 = 16;
const _: () = assert!(MAX_URGENT as usize <= FITTING_BLOCKS);

/// ACK frequency and delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckConfig {
    /// Packets per ACK; 0 counts as 1. RFC 5681 asks for at most 2 of full size.
    pub every: u32,
    /// Longest delay of an ACK. RFC 9293 asks for less than 500 ms.
    pub max_delay: Duration,
    /// True to acknowledge data in order by these two rules alone. Requests of the sender, and
    /// reads of data that still waits for its ACK, then cause none. Data out of order, duplicates
    /// and CE marks are acknowledged at once in any case.
    pub exact: bool,
}

impl AckConfig {
    /// Returns an ACK for `every` packets, or after `max_delay`, whatever the sender requests.
    pub fn exact(every: u32, max_delay: Duration) -> Self {
        Self { every, max_delay, exact: true }
    }

    /// Applies the peer's request where it asks for more frequent or earlier ACKs.
    #[must_use]
    pub(crate) fn within(self, every: u32, max_delay: Duration) -> Self {
        if self.exact {
            return self;
        }
        Self { every: self.every.min(every), max_delay: self.max_delay.min(max_delay), ..self }
    }
}

impl Default for AckConfig {
    /// Returns one ACK for every second packet, after at most 25 ms.
    fn default() -> Self {
        Self { every: 2, max_delay: Duration::from_millis(25), exact: false }
    }
}

/// Position of a packet in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The packet advanced `rcv_nxt`, and there was no hole.
    Next,
    /// The packet lies beyond a hole.
    BeyondHole,
    /// The packet filled a hole, wholly or in part.
    FilledHole,
    /// The packet has no new data: a spurious retransmission.
    Duplicate,
}

/// Packets to acknowledge: one, or a run of packets in order with consecutive numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    /// Packet number of the first packet; a retransmission has a new one.
    pub packet_number: u64,
    /// Number of packets, at least 1.
    pub count: u32,
    /// ECN codepoint of the packets. CE is acknowledged at once (RFC 9000, section 13.2.1).
    pub ecn: Ecn,
    /// Position of the packets in the stream.
    pub order: Order,
    /// True if a packet requests an immediate ACK.
    pub ack_now: bool,
    /// Packets per ACK that a packet requests; half of that if it is urgent. 0: as configured.
    pub every: u16,
}

impl Received {
    pub(crate) fn last(&self) -> u64 {
        self.packet_number.saturating_add(u64::from(self.count) - 1)
    }
}

/// Echoed fields of an ACK. Counts are of packets since the start of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AckFields {
    /// Largest packet number received.
    pub largest_received: u64,
    /// Time since `largest_received` arrived, which the sender subtracts from the RTT sample.
    pub delay: Duration,
    /// Packets received.
    pub packets: u64,
    /// Packets that were [`Order::Duplicate`].
    pub duplicates: u64,
    /// Packets received with ECT(0).
    pub ect0: u64,
    /// Packets received with ECT(1).
    pub ect1: u64,
    /// Packets received with CE.
    pub ce: u64,
}

/// ACK state: packets not yet acknowledged, and the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acks {
    config: AckConfig,
    /// Fields of the next ACK, without the delay.
    fields: AckFields,
    /// Arrival of the largest packet number; `None` before the first packet.
    largest_at: Option<Instant>,
    /// Packets since the last ACK.
    waiting: u32,
    due: bool,
    /// True if the newest ACK left in a packet of its own.
    left_alone: bool,
    /// Urgent packets since the last ACK: after a gap, in a hole, duplicate, or with CE.
    urgent: u32,
    /// Time when an ACK is due; `None` if no packet waits for one.
    deadline: Option<Instant>,
}

impl Acks {
    /// Returns the state before the first packet.
    pub(crate) fn new(config: AckConfig) -> Self {
        Self { config, ..Self::default() }
    }

    pub(crate) fn on_packets(&mut self, now: Instant, packet: Received) {
        let count = u64::from(packet.count);
        let fields = &mut self.fields;
        fields.packets += count;
        fields.duplicates += if packet.order == Order::Duplicate { count } else { 0 };
        match packet.ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => fields.ect0 += count,
            Ecn::Ect1 => fields.ect1 += count,
            Ecn::Ce => fields.ce += count,
        }
        self.waiting = self.waiting.saturating_add(packet.count);
        self.due |= packet.ack_now || self.waiting >= self.packets_per_ack(&packet);
        if self.deadline.is_none() {
            self.deadline = Some(now + self.config.max_delay);
        }
        let last = packet.last();
        if self.largest().is_none_or(|largest| last > largest) {
            (self.fields.largest_received, self.largest_at) = (last, Some(now));
        }
    }

    fn largest(&self) -> Option<u64> {
        self.largest_at.map(|_| self.fields.largest_received)
    }

    /// True if a packet that leaves anyway should carry an ACK: packets wait for one, or the newest
    /// left `alone`, so that it may be lost without a trace.
    pub(crate) fn is_worth_carrying(&self) -> bool {
        self.largest_at.is_some() && (self.waiting > 0 || self.left_alone)
    }

    pub(crate) fn on_left_alone(&mut self) {
        self.left_alone = true;
    }

    /// Requests an ACK for another reason, such as a window update, once there was a packet.
    pub(crate) fn request(&mut self) {
        self.due = true;
    }

    /// Returns the deadline of the delayed ACK; `None` if no packet waits for one.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// True if nothing but the configured frequency and delay decides on the ACK of data in order.
    pub(crate) fn is_exact(&self) -> bool {
        self.config.exact
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// True if [`Acks::take`] would return an ACK.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.largest_at.is_some() && (self.due || self.deadline.is_some_and(|deadline| deadline <= now))
    }

    /// Returns the ACK to send now, if one is due. It acknowledges all packets so far.
    pub(crate) fn take(&mut self, now: Instant) -> Option<AckFields> {
        if !self.is_due(now) {
            return None;
        }
        let delay = now.saturating_duration_since(self.largest_at?);
        self.waiting = 0;
        self.due = false;
        self.left_alone = false;
        self.urgent = 0;
        self.deadline = None;
        Some(AckFields { delay, ..self.fields })
    }

    /// Returns the number of packets that one ACK may cover, after the arrival of `packet`.
    ///
    /// If the sender requests one ACK per n packets, an urgent packet causes one after n / 2. So
    /// the loss of every other packet at most doubles the ACKs. After a hole is reported, packets
    /// beyond it are acknowledged at the ordinary rate. A reordered packet is acknowledged at once,
    /// since its sender is about to declare it lost.
    fn packets_per_ack(&mut self, packet: &Received) -> u32 {
        let named = packet.every > 0;
        let in_order = packet.order == Order::Next || packet.order == Order::BeyondHole && named;
        if packet.ecn == Ecn::Ce {
            self.urgent = self.urgent.saturating_add(packet.count);
        } else if !in_order || self.is_out_of_order(packet) {
            self.urgent += 1;
        }
        let every = if named { u32::from(packet.every) } else { self.config.every };
        if self.urgent == 0 {
            return every;
        }
        let overtaken = self.largest().is_some_and(|largest| packet.packet_number < largest);
        if named && !overtaken && self.urgent < MAX_URGENT { every.div_ceil(2) } else { 1 }
    }

    /// True if the packet number does not follow the largest: loss or reordering, even without a
    /// hole in the stream, because a retransmission may be lost, too. Senders skip single numbers,
    /// so before data in order one missing number is neither.
    fn is_out_of_order(&self, packet: &Received) -> bool {
        let allowed = if packet.order == Order::Next { 1..=2 } else { 1..=1 };
        self.largest().is_some_and(|largest| {
            let step = packet.packet_number.checked_sub(largest);
            step.is_none_or(|step| !allowed.contains(&step))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::ms;

    const NONE: Option<AckFields> = None;

    fn packet(packet_number: u64) -> Received {
        Received { packet_number, count: 1, ecn: Ecn::NotEct, order: Order::Next, ack_now: false, every: 0 }
    }

    fn start() -> (Acks, Instant) {
        let epoch = rdt_testing::epoch();
        (Acks::new(AckConfig::default()), epoch)
    }

    #[test]
    fn second_packet_or_delay_triggers_ack() {
        let (mut acks, epoch) = start();
        assert_eq!((acks.deadline(), acks.take(epoch)), (None, NONE));
        acks.on_packets(epoch, packet(0));
        assert_eq!((acks.deadline(), acks.take(epoch)), (Some(epoch + ms(25)), NONE));
        acks.on_packets(epoch + ms(7), packet(1));
        assert_eq!(acks.deadline(), Some(epoch + ms(25)), "the first that waits sets it");
        let ack = acks.take(epoch + ms(10)).unwrap();
        assert_eq!((ack.largest_received, ack.delay, ack.packets), (1, ms(3), 2));
        assert_eq!((acks.deadline(), acks.take(epoch + ms(100))), (None, NONE));
        acks.on_packets(epoch + ms(200), packet(2));
        assert_eq!(acks.take(epoch + ms(224)), NONE);
        assert_eq!(acks.take(epoch + ms(225)).unwrap().delay, ms(25));
    }

    #[test]
    fn skipped_number_is_not_urgent() {
        for every in [0, 32] {
            let (_, epoch) = start();
            let mut acks = Acks::new(AckConfig { every: 32, ..AckConfig::default() });
            for packet_number in (0..16).chain(17..32) {
                acks.on_packets(epoch, Received { every, ..packet(packet_number) });
                assert_eq!(acks.take(epoch), NONE, "{packet_number}");
            }
        }
    }

    #[test]
    fn exact_config_stands_against_requests() {
        let exact = AckConfig::exact(4, ms(100));
        assert_eq!(exact.within(1, ms(0)), exact);
        let other = AckConfig { exact: false, ..exact };
        assert_eq!(other.within(1, ms(0)), AckConfig { every: 1, max_delay: ms(0), exact: false });
    }

    #[test]
    fn batch_gets_one_ack() {
        let (mut acks, epoch) = start();
        for packet_number in 0..44 {
            acks.on_packets(epoch, packet(packet_number));
        }
        assert_eq!(acks.take(epoch).unwrap().packets, 44);
        assert_eq!(acks.take(epoch + ms(1000)), NONE);
    }

    #[test]
    fn urgent_packets_are_acknowledged_at_once() {
        let urgent = [
            ("a hole", Received { order: Order::BeyondHole, ..packet(1) }),
            ("a hole filled", Received { order: Order::FilledHole, ..packet(1) }),
            ("a duplicate", Received { order: Order::Duplicate, ..packet(1) }),
            ("CE", Received { ecn: Ecn::Ce, ..packet(1) }),
            ("asked", Received { ack_now: true, ..packet(1) }),
            ("two numbers left out", packet(3)),
            ("a number left out beyond a hole", Received { order: Order::BeyondHole, ..packet(2) }),
            ("the same number", packet(0)),
        ];
        for (name, packet_at_once) in urgent {
            let (_, epoch) = start();
            let mut acks = Acks::new(AckConfig { every: 100, ..AckConfig::default() });
            acks.on_packets(epoch, packet(0));
            assert_eq!(acks.take(epoch), NONE);
            acks.on_packets(epoch, packet_at_once);
            assert!(acks.take(epoch).is_some(), "{name}");
        }
    }

    /// Delivers all packets but the lost ones, which request an ACK per 32 packets. Returns the
    /// numbers acknowledged at once.
    fn acked(count: u64, lost: impl Fn(u64) -> bool) -> Vec<u64> {
        let (mut acks, epoch) = start();
        let mut hole = false;
        let mut acked = Vec::new();
        for packet_number in (0..count).filter(|packet_number| !lost(*packet_number)) {
            hole |= packet_number > 0 && lost(packet_number - 1);
            let order = if hole { Order::BeyondHole } else { Order::Next };
            acks.on_packets(epoch, Received { order, every: 32, ..packet(packet_number) });
            acked.extend(acks.take(epoch).map(|ack| ack.largest_received));
        }
        acked
    }

    #[test]
    fn sender_requested_frequency_is_used() {
        assert_eq!(acked(130, |_| false), [31, 63, 95, 127]);
    }

    #[test]
    fn hole_is_reported_once_after_half_the_count() {
        assert_eq!(acked(130, |number| number == 40), [31, 48, 80, 112], "sixteen after the last ACK");
        assert_eq!(acked(130, |number| number == 60), [31, 61, 93, 125], "more than that have arrived");
    }

    #[test]
    fn heavy_loss_doubles_the_acks() {
        assert_eq!(acked(320, |number| number % 2 == 1).len(), 10, "one each sixteen that arrive");
        assert_eq!(acked(320, |number| number % 64 == 63).len(), 9, "315 arrive");
    }

    #[test]
    fn ack_waits_for_no_more_blocks_than_fit() {
        let (mut acks, epoch) = start();
        for n in 0..u64::from(MAX_URGENT) {
            assert_eq!(acks.take(epoch), NONE, "{n}");
            acks.on_packets(epoch, Received { order: Order::BeyondHole, every: 256, ..packet(2 * n + 1) });
        }
        // The first packet follows no other, so it is in order.
        assert_eq!(acks.take(epoch), NONE);
        acks.on_packets(epoch, Received { order: Order::BeyondHole, every: 256, ..packet(1000) });
        assert!(acks.take(epoch).is_some());
    }

    #[test]
    fn newest_packet_decides_ack_frequency() {
        let (mut acks, epoch) = start();
        for (packet_number, every) in [(0, 100), (1, 100), (2, 100)] {
            acks.on_packets(epoch, Received { every, ..packet(packet_number) });
        }
        assert_eq!(acks.take(epoch), NONE);
        acks.on_packets(epoch, Received { every: 4, ..packet(3) });
        assert!(acks.take(epoch).is_some(), "the window became small");
        acks.on_packets(epoch, Received { every: 100, ..packet(4) });
        acks.on_packets(epoch, packet(5));
        assert!(acks.take(epoch).is_some(), "no number: every second one");
        acks.on_packets(epoch, Received { every: 100, ..packet(6) });
        assert_eq!((acks.take(epoch + ms(24)), acks.deadline()), (NONE, Some(epoch + ms(25))));
        assert!(acks.take(epoch + ms(25)).is_some(), "no later than ever");
    }

    #[test]
    fn echo_is_first_arrival_of_largest_number() {
        let (mut acks, epoch) = start();
        acks.on_packets(epoch, packet(9));
        acks.on_packets(epoch + ms(2), packet(8));
        acks.on_packets(epoch + ms(4), packet(9));
        let ack = acks.take(epoch + ms(5)).unwrap();
        assert_eq!((ack.largest_received, ack.delay), (9, ms(5)));
    }

    #[test]
    fn counts_are_of_everything_since_the_beginning() {
        let (mut acks, epoch) = start();
        for (packet_number, ecn) in (0..).zip([Ecn::Ect0, Ecn::Ce, Ecn::Ect1, Ecn::Ect0, Ecn::NotEct]) {
            let order = if packet_number % 2 == 0 { Order::Duplicate } else { Order::Next };
            acks.on_packets(epoch, Received { ecn, order, ..packet(packet_number) });
            acks.take(epoch);
        }
        acks.request();
        let ack = acks.take(epoch).unwrap();
        assert_eq!((ack.packets, ack.duplicates), (5, 3));
        assert_eq!((ack.ect0, ack.ect1, ack.ce), (2, 1, 1));
    }

    #[test]
    fn request_before_first_packet_gives_no_ack() {
        let (mut acks, epoch) = start();
        acks.request();
        assert_eq!(acks.take(epoch), NONE);
    }

    #[test]
    fn acks_keep_delay_and_frequency_limits() {
        for seed in 0..300 {
            let mut random = rdt_testing::random(seed);
            let (_, epoch) = start();
            let every = 1 + u32::try_from(random(5)).unwrap();
            let mut acks = Acks::new(AckConfig { every, max_delay: ms(random(30)), ..AckConfig::default() });
            let (mut now, mut waiting, mut urgent, mut newest) = (epoch, Vec::new(), false, None);
            for packet_number in 0..200 {
                now += ms(random(12));
                if random(4) > 0 {
                    let ack_now = random(9) == 0;
                    acks.on_packets(now, Received { ack_now, ..packet(packet_number) });
                    let gap = newest.replace(packet_number).is_some_and(|newest| newest + 2 < packet_number);
                    urgent |= ack_now || gap;
                    waiting.push((packet_number, now));
                }
                let oldest = waiting.first().map(|(_, at)| *at + acks.config.max_delay);
                assert_eq!(acks.deadline(), oldest, "seed {seed} packet {packet_number}");
                let must = urgent || waiting.len() >= every as usize || oldest.is_some_and(|at| at <= now);
                let ack = acks.take(now);
                assert_eq!(ack.is_some(), must, "seed {seed} packet {packet_number}");
                if let Some(ack) = ack {
                    let (last, at) = *waiting.last().unwrap();
                    assert_eq!(
                        (ack.largest_received, ack.delay),
                        (last, now - at),
                        "seed {seed} packet {packet_number}"
                    );
                    waiting.clear();
                    urgent = false;
                }
            }
        }
    }
}
