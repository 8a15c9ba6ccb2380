//! Receivers that report drops of their socket which did not happen, to be sent more than the path
//! carries.

use rdt::sim::Interceptor;
use rdt_testing::packets;

use super::*;

const ACK: u8 = 6;
/// Bit of an ACK's field that says that it reports drops.
const HAS_DROPS: u16 = 1 << 15;

/// Follows each ACK of the receiver by a copy that reports a thousand more drops.
#[derive(Debug, Default)]
struct Liar {
    drops: u32,
}

impl Interceptor for Liar {
    fn on_sent(&mut self, _: Instant, _: NodeId, _: NodeId, _: &[u8]) {}

    fn on_arrived(&mut self, _: Instant, _: NodeId, _: NodeId, datagram: &[u8]) -> Vec<Vec<u8>> {
        let Some(body) = packets::unencrypted_body(datagram).filter(|_| datagram[1] == ACK) else {
            return Vec::new();
        };
        let number = u32::from_le_bytes(datagram[4..8].try_into().unwrap());
        let id = u64::from_le_bytes(datagram[8..16].try_into().unwrap());
        let phase = u16::from_le_bytes([datagram[2], datagram[3]]);
        let field = u16::from_le_bytes([body[0], body[1]]);
        let mut lie = (field | HAS_DROPS).to_le_bytes().to_vec();
        lie.extend(&body[2..]);
        if field & HAS_DROPS != 0 {
            // The honest count is 0, one byte.
            assert_eq!(lie.pop(), Some(0));
        }
        self.drops += 1000;
        packets::varint(self.drops.into(), &mut lie);
        // The next honest packet has this number, and is dropped as a copy. Its content follows in
        // the next lie.
        vec![packets::unencrypted(ACK, phase, number + 1, id, &lie)]
    }
}

/// Runs a minute, and returns the counters and the share of packets that the queue dropped.
fn minute(congestion: Algorithm, lies: bool) -> (SenderStats, f64) {
    let run = Run { bytes: u64::MAX / 2, ..Run::new(20_000_000, ms(40)).config(native(congestion)) };
    let mut running = run.start();
    if lies {
        running.simulation.intercept(Box::new(Liar::default()));
    }
    running.simulation.run_until(secs(60));
    let done = running.done().0;
    (done.stats, done.forward.dropped_queue as f64 / done.forward.sent as f64)
}

#[test]
fn false_reports_do_not_disable_congestion_control() {
    for congestion in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr] {
        let (honest, rate) = minute(congestion, false);
        let (stats, lying_rate) = minute(congestion, true);
        eprintln!(
            "{congestion}: {} recoveries and {rate:.5} lost, with lies {} and {lying_rate:.5}, {} excused",
            honest.recoveries, stats.recoveries, stats.lost_to_socket
        );
        assert!(stats.recoveries > 0, "{congestion}");
        assert!(lying_rate < 2.0 * rate + 0.001, "{congestion}: {lying_rate} for {rate}");
    }
}
