//! The receive window in bytes (native), sized by dynamic right-sizing. While the application keeps
//! up, the window grows to four times the bytes that arrive in an RTT; otherwise, to four times the
//! bytes that the application reads in an RTT. So it does not limit the sender of an application
//! that keeps up, and takes no more memory than needed. Data behind a hole does not count against
//! the application: while losses are repaired it can read only a part of what arrives.
//!
//! Owns the right edge offered, which never moves back (RFC 9293, section 3.8.6), the RTT estimate
//! of the receiver, and the silly-window rule (RFC 1122, section 4.2.3.3).

use std::time::{Duration, Instant};

use super::WindowConfig;

/// Largest step of the right edge that a bounded window waits for, in packets: most of a GSO batch.
const MAX_STEP_PACKETS: u64 = 32;

/// One RTT of arrivals and reads.
#[derive(Debug, Clone, Copy)]
struct Round {
    started: Instant,
    /// Offset read when the round started.
    read: u64,
    /// End of the arrived data when the round started.
    arrived: u64,
}

/// A byte that could not be sent before it was offered: its arrival measures the RTT.
#[derive(Debug, Clone, Copy)]
struct Probe {
    byte: u64,
    offered: Instant,
}

/// Receive window of one stream, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct ReceiveWindow {
    config: WindowConfig,
    /// Memory limit, in bytes; may be less than `window`.
    memory: u64,
    /// Limit on the right edge; see [`set_edge_limit`](Self::set_edge_limit).
    edge_limit: u64,
    window: u64,
    /// Offset of the first byte that was never offered.
    right_edge: u64,
    /// Offset of the first byte that the application has not read.
    read: u64,
    /// Offset of the first byte that has not arrived.
    rcv_nxt: u64,
    /// Offset after the last byte that arrived.
    arrived: u64,
    rtt: Option<Duration>,
    probe: Option<Probe>,
    round: Option<Round>,
    /// Largest number of bytes in one round so far.
    peak: u64,
}

impl ReceiveWindow {
    /// Returns the window of a stream that begins at offset `start`. Nothing is offered yet.
    pub(crate) fn new(start: u64, config: WindowConfig) -> Self {
        Self {
            config,
            memory: u64::MAX,
            edge_limit: u64::MAX,
            window: config.initial.min(config.max),
            right_edge: start,
            read: start,
            rcv_nxt: start,
            arrived: start,
            rtt: None,
            probe: None,
            round: None,
            peak: 0,
        }
    }

    /// Handles the arrival of accepted bytes up to offset `end`, in order or not; all bytes below
    /// `rcv_nxt` have arrived. Ends the round if nothing is left to read, as
    /// [`ReceiveWindow::on_read`] does.
    ///
    /// Measures the RTT from an offer to the arrival of the first byte that needed it. The sample
    /// is too long if the sender does not use up its window, so the smallest sample counts.
    pub(crate) fn on_arrival(&mut self, now: Instant, end: u64, rcv_nxt: u64) {
        self.arrived = self.arrived.max(end);
        self.rcv_nxt = self.rcv_nxt.max(rcv_nxt);
        if self.rcv_nxt <= self.read {
            self.end_round(now);
        }
        let Some(probe) = self.probe.filter(|probe| end > probe.byte) else { return };
        self.probe = None;
        let sample = now.saturating_duration_since(probe.offered);
        if sample > Duration::ZERO {
            self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt.min(sample)));
        }
    }

    /// Handles a read of everything below offset `read`. Ends the round if an RTT has passed.
    pub(crate) fn on_read(&mut self, now: Instant, read: u64) {
        self.read = self.read.max(read);
        self.rcv_nxt = self.rcv_nxt.max(read);
        self.arrived = self.arrived.max(read);
        self.end_round(now);
    }

    /// Sets the memory limit, in bytes. The right edge stays where it is.
    pub(crate) fn set_memory(&mut self, bytes: u64) {
        self.memory = bytes;
    }

    /// Sets the limit on the right edge, which stays where it is.
    pub(crate) fn set_edge_limit(&mut self, offset: u64) {
        self.edge_limit = offset;
    }

    /// True if the limit of [`set_edge_limit`](Self::set_edge_limit) makes the window smaller.
    pub(crate) fn is_bounded(&self) -> bool {
        self.edge_limit < self.read.saturating_add(self.window())
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Returns the right edge for an ACK sent now: the offset of the first byte not offered. It
    /// moves in steps of at least a packet, or half of the window if that is less.
    ///
    /// If the socket's buffer bounds the window, the edge moves in steps of 3/4 of the share, at
    /// most [`MAX_STEP_PACKETS`]. Smaller steps would keep the sender at small batches: each ACK
    /// would release only what the last small batch freed (silly window). The last quarter of the
    /// share may be in flight when the ACK of a step leaves.
    pub(crate) fn offer(&mut self, now: Instant) -> u64 {
        if self.growth() >= self.step() {
            let edge = self.right_edge + self.growth();
            self.probe.get_or_insert(Probe { byte: self.right_edge, offered: now });
            self.right_edge = edge;
        }
        self.right_edge
    }

    /// True if an ACK should be sent only to update the window. The edge must be able to move by
    /// two packets, or by half of the window if that is less. In addition, the move must be a
    /// quarter of the window, or the sender must have less than half of the window left. So small
    /// reads cause no ACKs while the sender has window left.
    pub(crate) fn should_update(&self) -> bool {
        let (growth, window) = (self.growth(), self.window());
        let left = self.right_edge.saturating_sub(self.arrived);
        let step = (2 * self.config.mss).min(window / 2).max(self.step());
        growth >= step && (growth >= window / 4 || left < window / 2)
    }

    /// Returns the offset from which data is refused: the first byte that was not offered.
    pub(crate) fn right_edge(&self) -> u64 {
        self.right_edge
    }

    /// Returns the window in bytes: the largest distance from the read offset to the right edge.
    pub(crate) fn window(&self) -> u64 {
        self.window.min(self.memory)
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Returns the least distance by which the right edge moves, in bytes.
    fn step(&self) -> u64 {
        let packet = self.config.mss.min(self.window() / 2).max(1);
        if !self.is_bounded() {
            return packet;
        }
        let share = self.edge_limit.saturating_sub(self.arrived);
        (share / 4 * 3).min(MAX_STEP_PACKETS * self.config.mss).max(packet)
    }

    /// Returns how far the right edge could move, in bytes.
    fn growth(&self) -> u64 {
        self.read.saturating_add(self.window()).min(self.edge_limit).saturating_sub(self.right_edge)
    }

    /// Ends the round. If it was longer than an RTT, its bytes are not scaled down to one: an
    /// application that reads seldom needs a window for the time between two reads.
    fn end_round(&mut self, now: Instant) {
        let next = Round { started: now, read: self.read, arrived: self.arrived };
        let round = *self.round.get_or_insert(next);
        let Some(rtt) = self.rtt else { return };
        if now.saturating_duration_since(round.started) < rtt {
            return;
        }
        let (read, arrived) = (self.read - round.read, self.arrived - round.arrived);
        let keeps_up = self.rcv_nxt - self.read <= arrived / 4;
        self.grow(if keeps_up { read.max(arrived) } else { read });
        self.round = Some(next);
    }

    /// Grows the window to four times the bytes of a round. A full queue doubles the data in
    /// flight, and while a loss is repaired the same amount arrives that cannot be read yet. While
    /// rounds still grow, the factor is twice the square of their growth, between 4 and 16: when an
    /// ACK reaches the sender, the data that sized its window was sent one to two RTTs ago.
    fn grow(&mut self, bytes: u64) {
        if bytes <= self.peak {
            return;
        }
        let peak = u128::from(self.peak.max(1));
        let by = |base: u64| u64::try_from(u128::from(base) * u128::from(bytes) / peak).unwrap_or(u64::MAX);
        let most = bytes.saturating_mul(16);
        let target = by(by(bytes)).saturating_mul(2).clamp(bytes.saturating_mul(4), most);
        self.peak = bytes;
        self.window = self.window.max(target.min(self.config.max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{epoch, ms};

    const MIB: u64 = 1 << 20;
    const MSS: u64 = 1000;

    fn window(initial: u64, max: u64) -> ReceiveWindow {
        ReceiveWindow::new(0, WindowConfig { initial, max, mss: MSS })
    }

    #[test]
    fn window_grows_to_four_times_a_round() {
        let (mut window, epoch) = (window(100_000, 100 * MIB), epoch());
        window.rtt = Some(ms(10));
        window.on_read(epoch, 0);
        window.on_read(epoch + ms(5), 40_000);
        assert_eq!(window.window(), 100_000, "the round is not over");
        window.on_read(epoch + ms(10), 80_000);
        assert_eq!(window.window(), 1_280_000, "the first round: sixteen times");
        window.on_read(epoch + ms(20), 180_000);
        assert_eq!(window.window(), 1_280_000, "100 000 taken after 80 000: four times that is less");
        window.on_read(epoch + ms(30), 380_000);
        assert_eq!(window.window(), 1_600_000, "200 000 taken: twice the last, 2 * 2^2");
        window.on_read(epoch + ms(40), 980_000);
        assert_eq!(window.window(), 9_600_000, "600 000 taken: 2 * 3^2 counts as 16");
        window.on_read(epoch + ms(50), 1_000_000);
        window.on_read(epoch + ms(60), 1_700_000);
        assert_eq!(window.window(), 9_600_000, "a slow round does not make the next one growth");
    }

    #[test]
    fn data_beyond_hole_counts_while_application_keeps_up() {
        let (mut window, epoch) = (window(MIB, 100 * MIB), epoch());
        window.rtt = Some(ms(10));
        window.on_arrival(epoch, 0, 0);
        window.on_arrival(epoch + ms(9), 100_000, 10_000);
        window.on_read(epoch + ms(9), 10_000);
        window.on_arrival(epoch + ms(10), 110_000, 10_000);
        assert_eq!(window.window(), 16 * 110_000, "the first round: sixteen times");
        window.on_arrival(epoch + ms(19), 400_000, 210_000);
        window.on_read(epoch + ms(20), 110_000);
        assert_eq!(
            window.window(),
            16 * 110_000,
            "100 000 bytes wait to be read: 100 000 taken, and no more count"
        );
        window.on_arrival(epoch + ms(30), 1_100_000, 210_000);
        assert_eq!(window.window(), 16 * 110_000, "no round ends while there is something to read");
        window.on_read(epoch + ms(30), 210_000);
        assert_eq!(window.window(), 16 * 700_000);
    }

    #[test]
    fn rtt_is_offer_to_first_byte_needing_it() {
        let (mut window, epoch) = (window(10_000, MIB), epoch());
        assert_eq!(window.offer(epoch), 10_000);
        assert_eq!(window.rtt(), None);
        window.on_arrival(epoch + ms(30), 1000, 1000);
        assert_eq!(window.rtt(), Some(ms(30)), "that of the handshake");
        window.on_read(epoch + ms(40), 1000);
        assert_eq!(window.offer(epoch + ms(40)), 11_000);
        window.on_arrival(epoch + ms(41), 10_000, 10_000);
        assert_eq!(window.rtt(), Some(ms(30)), "those bytes were offered before");
        window.on_arrival(epoch + ms(65), 10_001, 10_001);
        assert_eq!(window.rtt(), Some(ms(25)));
        window.on_read(epoch + ms(70), 10_000);
        window.offer(epoch + ms(70));
        window.on_arrival(epoch + ms(120), 11_001, 11_001);
        assert_eq!(window.rtt(), Some(ms(25)), "a sender that was slower shows no longer path");
    }

    #[test]
    fn bounded_edge_moves_by_most_of_share() {
        let (mut window, epoch) = (window(MIB, MIB), epoch());
        window.set_edge_limit(40_000);
        assert_eq!(window.offer(epoch), 40_000);
        for arrived in [1000, 10_000, 29_999] {
            window.on_arrival(epoch, arrived, arrived);
            window.set_edge_limit(arrived + 40_000);
            assert!(!window.should_update());
            assert_eq!(window.offer(epoch), 40_000, "less than three quarters of the share");
        }
        window.on_arrival(epoch, 30_000, 30_000);
        window.set_edge_limit(70_000);
        assert!(window.should_update());
        assert_eq!(window.offer(epoch), 70_000);
        window.set_edge_limit(110_000);
        assert_eq!(window.offer(epoch), 110_000, "32 packets are enough of a larger share");
        window.set_edge_limit(10 * MIB);
        window.on_read(epoch, 2000);
        assert_eq!(window.offer(epoch), 2000 + MIB, "the socket's buffer limits no more");
        window.on_read(epoch, 3000);
        assert_eq!(window.offer(epoch), 3000 + MIB, "steps of a packet");
    }

    #[test]
    fn edge_moves_by_packets_and_never_back() {
        let (mut window, epoch) = (window(10_000, MIB), epoch());
        assert_eq!(window.offer(epoch), 10_000);
        window.on_read(epoch, 999);
        assert_eq!(window.offer(epoch), 10_000);
        window.on_read(epoch, 1000);
        assert_eq!(window.offer(epoch), 11_000);
        window.set_memory(4000);
        window.on_read(epoch, 6000);
        assert_eq!((window.window(), window.offer(epoch)), (4000, 11_000));
        window.on_read(epoch, 8000);
        assert_eq!(window.offer(epoch), 12_000);
    }

    #[test]
    fn closed_window_is_reopened_with_update() {
        let (mut window, epoch) = (window(10_000, MIB), epoch());
        window.offer(epoch);
        window.on_arrival(epoch, 10_000, 10_000);
        assert!(!window.should_update(), "nothing was read");
        window.on_read(epoch, 1999);
        assert!(!window.should_update(), "less than two packets");
        window.on_read(epoch, 2000);
        assert!(window.should_update());
        assert_eq!(window.offer(epoch), 12_000);
        assert!(!window.should_update());
        window.set_memory(0);
        window.on_read(epoch, 10_000);
        assert!(!window.should_update() && window.offer(epoch) == 12_000);
        window.on_arrival(epoch, 12_000, 12_000);
        window.on_read(epoch, 12_000);
        assert!(!window.should_update(), "no memory, no window");
        window.set_memory(3000);
        assert!(window.should_update());
        assert_eq!(window.offer(epoch), 15_000);
    }

    #[test]
    fn window_below_a_packet_moves_by_half() {
        let (mut window, epoch) = (window(600, 600), epoch());
        assert_eq!(window.offer(epoch), 600);
        window.on_arrival(epoch, 600, 600);
        window.on_read(epoch, 299);
        assert!(!window.should_update() && window.offer(epoch) == 600);
        window.on_read(epoch, 300);
        assert!(window.should_update());
        assert_eq!(window.offer(epoch), 900);
    }

    #[test]
    fn window_updates_come_by_quarters() {
        let (mut window, epoch) = (window(100_000, 100_000), epoch());
        window.offer(epoch);
        window.on_arrival(epoch, 24_999, 24_999);
        window.on_read(epoch, 24_999);
        assert!(!window.should_update());
        window.on_arrival(epoch, 25_000, 25_000);
        window.on_read(epoch, 25_000);
        assert!(window.should_update());
        assert_eq!(window.offer(epoch), 125_000);
        window.on_arrival(epoch, 76_000, 76_000);
        window.on_read(epoch, 27_000);
        assert!(window.should_update(), "49 000 bytes left of 100 000");
    }

    /// Returns the bytes that a sender in slow start delivers over a wire of `rate` bytes per
    /// millisecond, within the windows that `offer` returns. Time advances, and data is sent, in
    /// steps of a millisecond.
    fn transfer(rtt: usize, rate: u64, mut offer: impl FnMut(u64, u64) -> u64) -> u64 {
        let (mut sent, mut cwnd, mut acked) = (0, 10 * MSS, 0);
        let mut arrivals = vec![0; rtt / 2];
        let mut replies = vec![(0, offer(0, 0)); rtt / 2];
        for now in 0..60 * rtt {
            let (ack, edge): (u64, u64) = replies[now % (rtt / 2)];
            cwnd += ack - acked;
            acked = ack;
            let next: u64 = edge.min(acked + cwnd).min(sent + rate).max(sent);
            let arrived = std::mem::replace(&mut arrivals[now % (rtt / 2)], next);
            sent = next;
            replies[now % (rtt / 2)] = (arrived, offer(now as u64, arrived));
        }
        sent
    }

    #[test]
    fn slow_start_is_unlimited_by_eightfold_path_window() {
        for (rtt, rate) in [(100, 100_000), (100, 10_000), (20, 1_000_000), (300, 30_000)] {
            let epoch = epoch();
            let mut window = ReceiveWindow::new(0, WindowConfig::new(1 << 30, MSS));
            let got = transfer(usize::try_from(rtt).unwrap(), rate, |now, arrived| {
                let now = epoch + ms(now);
                window.on_arrival(now, arrived, arrived);
                window.on_read(now, arrived);
                window.offer(now)
            });
            let free = transfer(usize::try_from(rtt).unwrap(), rate, |_, _| u64::MAX);
            let case = format!("rtt {rtt} ms, {rate} bytes/ms: {got} of {free}");
            assert!(got * 100 >= free * 95, "{case}");
            let path = rtt * rate;
            let first = WindowConfig::new(1 << 30, MSS).initial;
            assert!(window.window() <= (8 * path).max(first), "{case}: window {}", window.window());
            assert!(window.window() >= path.min(first), "{case}");
        }
    }

    #[test]
    fn edge_keeps_its_rules_over_random_steps() {
        for seed in 0..300 {
            let mut random = rdt_testing::random(seed);
            let (mut now, mut arrived, mut read) = (epoch(), 0, 0);
            let max = 1 + random(200_000);
            let mut window =
                ReceiveWindow::new(0, WindowConfig { initial: 1 + random(50_000), max, mss: MSS });
            for step in 0..300 {
                now += ms(random(5));
                arrived += random(20_000).min(window.right_edge() - arrived);
                read += random(20_000).min(arrived - read);
                window.on_arrival(now, arrived, arrived);
                window.on_read(now, read);
                if random(20) == 0 {
                    window.set_memory(random(max) + random(2) * max);
                }
                let (before, update) = (window.right_edge(), window.should_update());
                let edge = window.offer(now);
                assert!(edge >= before && (edge > before || !update), "seed {seed} step {step}");
                assert!(edge <= before.max(read + window.window()), "seed {seed} step {step}");
                assert!(edge == before || edge - before >= MSS.min(window.window() / 2));
                assert!(window.window() <= max, "seed {seed} step {step}");
            }
        }
    }

    #[test]
    fn rtt_counts_from_the_first_offer() {
        let (mut window, epoch) = (window(10_000, MIB), epoch());
        window.set_edge_limit(5000);
        assert_eq!(window.offer(epoch), 5000);
        window.set_edge_limit(u64::MAX);
        assert_eq!(window.offer(epoch + ms(10)), 10_000);
        window.on_arrival(epoch + ms(30), 1000, 1000);
        assert_eq!(window.rtt(), Some(ms(30)));
    }

    #[test]
    fn limit_below_the_window_bounds_it() {
        let mut window = window(10_000, MIB);
        for (most, bounded) in [(9999, true), (10_000, false), (10_001, false)] {
            window.set_edge_limit(most);
            assert_eq!(window.is_bounded(), bounded, "{most}");
        }
    }

    #[test]
    fn arrived_is_end_of_newest_data() {
        let (mut window, epoch) = (window(10_000, MIB), epoch());
        window.on_arrival(epoch, 3000, 1000);
        window.on_arrival(epoch, 2000, 1000);
        assert_eq!(window.arrived(), 3000);
    }
}
