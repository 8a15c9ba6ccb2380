//! Both formats share one sender: with the reference's recovery, timeout and window, and without
//! pacing, the native format sends the same segments in the same order as the classic one.

use rdt::transport::AckConfig;
use rdt::transport::{LinkProperties, WindowPolicy};

use rdt::emulator::Direction;

use super::*;

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.1, speed_bps: 1e7, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };
const SEGMENTS: u64 = 700;

/// Segment and reason of each data datagram, in order.
fn order(config: &SenderConfig, loss: &[u64]) -> Vec<(u64, Option<Resend>)> {
    let classic = config.wire == rdt::transport::Wire::Classic;
    let unit = if classic { 1 } else { config.payload_size() as u64 };
    let mut run = Run::new(10_000_000, ms(100)).queue(1000).config(config.clone());
    run.bytes = SEGMENTS * config.payload_size() as u64;
    run.receiver.window = WindowPolicy::Fixed(ReceiverConfig::REFERENCE_WINDOW);
    run.receiver.acks = AckConfig { every: 1, ..run.receiver.acks };
    // Losses count from the first data packet; a native handshake has a SYN and a PATH probe.
    let first = if classic { 1 } else { 2 };
    run = run.loss(Loss::script(loss.iter().map(|index| index + first)));
    // ACK sizes differ between the formats, which does not matter on a link without a rate.
    run.path.reverse.rate = None;
    let log = Log::default();
    let done = run.run_observed(Some(log.observer()));
    eprintln!("{:?}: {:?}, {} timeouts", config.wire, done.took, done.stats.timeouts);
    log.sent().iter().filter_map(|leaving| Some((leaving.data? / unit, leaving.resend))).collect()
}

#[test]
fn native_sends_same_segments_as_classic() {
    let classic = SenderConfig::new(30, LINK);
    // A native sender's initial size, so that it does not search for a larger MTU.
    let classic = SenderConfig { packet_size: 1168, ..classic };
    let native = SenderConfig { packet_size: 1200, wire: SenderConfig::native(7).wire, ..classic.clone() };
    let some: Vec<u64> =
        (0..SEGMENTS).filter(|i| Loss::decide(&bernoulli(0.03), seed(), Direction::Forward, *i)).collect();
    let scripts: [&[u64]; 7] = [
        &[],
        &[100],
        &[100, 101, 102],
        // The retransmission is lost too: RTO.
        &[100, 134],
        // The last segment is lost: RTO.
        &[SEGMENTS - 1],
        &[0, 1, 2, 3, 50, 300, 301, 302, 303, 304, 305],
        &some,
    ];
    for loss in scripts {
        let (expected, got) = (order(&classic, loss), order(&native, loss));
        let resent = expected.iter().filter(|(_, resend)| resend.is_some()).count();
        eprintln!("{} losses: {} sent, {resent} again", loss.len(), expected.len());
        let differ = expected.iter().zip(&got).position(|(a, b)| a != b);
        assert_eq!(
            differ,
            None,
            "losing {loss:?}: {:?} against {:?}",
            differ.map(|i| &expected[i..(i + 5).min(expected.len())]),
            differ.map(|i| &got[i..(i + 5).min(got.len())])
        );
        assert_eq!(expected.len(), got.len(), "losing {loss:?}");
    }
}
