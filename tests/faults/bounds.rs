//! Upper bounds on the retransmissions and on the duration of a transfer, computed from the path's
//! ledger and the sender's timeouts. Measured over 20,000 seeds: at most 14 of the 32 packets of
//! slack are used. Transfers that must finish use at most 0.69 of the time bound, half of them less
//! than 0.02.

use std::time::Duration;

use rdt::congestion::Algorithm;
use rdt::emulator::{Bitrate, JitterShape, Ledger, LinkConfig, Mtu};
use rdt::transport::LossDetection;

use crate::faults::plan::{Kind, MSS, Plan};

/// Retransmissions that no counter explains, packets.
const SLACK: f64 = 32.0;
/// Time that neither path nor losses explain: one or two lost SYNs, and the timeout before the
/// first RTT sample.
const ANY: Duration = Duration::from_secs(5);
/// Replaces [`ANY`] if a sender may give up, once for each of two senders.
const GIVEN_UP: Duration = Duration::from_secs(210);
/// Smaller windows have too few ACKs to make up for a lost one, packets.
const SMALL_WINDOW: u32 = 8;
/// Payload of a 548-byte datagram.
const SMALLEST_MSS: u64 = 508;
/// Minimum RTO.
pub(super) const MIN_RTO: Duration = Duration::from_millis(200);
/// Longest interval between two consecutive timeouts.
const MAX_BACKOFF: Duration = Duration::from_secs(6);
/// Longest interval between two SYNs or FINs.
const MAX_CONTROL: Duration = Duration::from_secs(2);
/// RTO before the first RTT sample (RFC 6298, rule 2.1).
const FIRST_RTO: Duration = Duration::from_secs(1);
/// Delay of an ACK for a single packet.
const ACK_DELAY: Duration = Duration::from_millis(30);

/// Ledgers of the path and counters of the sender's timer.
pub(super) struct Facts {
    pub(super) forward: Ledger,
    pub(super) reverse: Ledger,
    /// Packets outstanding at each timeout, summed.
    pub(super) at_stake: u64,
    /// Timeouts without a new cumulative ACK since the timeout before.
    pub(super) in_a_row: u32,
    /// Packets that arrived before the connection was open.
    pub(super) early: u64,
    /// Length of the stream in the other direction, bytes.
    pub(super) other: u64,
    /// Packets of the handshake and FINs that were repeated.
    pub(super) controls: u32,
}

/// Packets lost or corrupted on the path.
fn gone(ledger: &Ledger) -> f64 {
    let Ledger { dropped_loss, dropped_queue, dropped_outage, dropped_mtu, corrupted, .. } = ledger;
    (dropped_loss + dropped_queue + dropped_outage + dropped_mtu + corrupted) as f64
}

/// Largest extra delay that the link adds to a packet.
fn disorder(link: &LinkConfig) -> Duration {
    let jitter = link.jitter.map_or(Duration::ZERO, |jitter| match jitter.shape {
        JitterShape::Uniform(most) => most,
        JitterShape::Normal(_) => unreachable!("no other shape is drawn"),
    });
    jitter + link.reorder.map_or(Duration::ZERO, |reorder| reorder.extra)
}

/// Returns true if the link keeps the order and duplicates nothing.
fn in_order(link: &LinkConfig) -> bool {
    link.reorder.is_none() && link.jitter.is_none() && link.duplicate.as_f64() == 0.0
}

/// Upper bound on retransmissions; `None` if the rules give no bound.
///
/// Base of the bound: dropped packets, packets that overtook the AUTH, and one more now and then
/// for a share `q` of lost ACKs. Three terms can be added to it:
/// - One packet for each lost ACK, as in a small window or if the ACKs of a whole flight are lost.
/// - The packets outstanding at each timeout, and in Tahoe at each recovery. RFC 6582 and 6675
///   forget the scoreboard then and send all of them again, base-only recovery sends one.
/// - Packets later than others by over three quarters of an RTT. RACK waits at most `srtt` (RFC
///   8985, section 6.2, step 4).
///
/// RACK must keep the bound on every path, and without these terms under random loss alone in a
/// window that is not small. The rules that count duplicate ACKs must keep it only on a path
/// without reordering or forged ACKs. All of the first flight may be sent again if a slow link
/// takes longer than the first RTO for it, or for the first flight of the other stream, behind
/// which the ACKs wait. The latter RTO has the sample R of the handshake: 3 R (RFC 6298, rule 2.2).
pub(super) fn most_sent_again(plan: &Plan, facts: &Facts) -> Option<f64> {
    let rack = plan.sender.recovery == LossDetection::Rack;
    let orderly = in_order(&plan.path.forward) && in_order(&plan.path.reverse) && plan.forged == 0;
    // A smaller MTU makes more packets; after a restart, the first sender's counters are gone.
    let whole = plan.path.forward.mtu == Mtu::unlimited() && plan.restart.is_none();
    if !whole || !(rack || orderly) {
        return None;
    }
    let q = gone(&facts.reverse) / facts.reverse.sent.max(1) as f64;
    let needed = 1.05 * (1.0 + q) * gone(&facts.forward) + facts.early as f64;
    let (small, first) = match plan.sender.congestion {
        Algorithm::Fixed(packets) => (packets < SMALL_WINDOW, u64::from(packets)),
        // The mean window of Mathis et al. 1997, (3/2p)^(1/2) packets.
        Algorithm::Reno | Algorithm::Cubic => (plan.loss.0 * f64::from(SMALL_WINDOW).powi(2) > 1.5, 10),
        _ => (false, 10),
    };
    let flight = |packets: u64, rate: f64| Duration::from_secs_f64(packets as f64 * 1500.0 * 8.0 / rate);
    let back = plan.path.reverse.rate.map_or(f64::INFINITY, Bitrate::as_bps_f64);
    let first_ack = plan.rtt + flight(first.min(facts.other.div_ceil(MSS)), back);
    let slow = flight(first, plan.rate as f64) > FIRST_RTO || first_ack > MIN_RTO.max(3 * plan.rtt);
    if rack && plan.kind == Kind::RandomLoss && !small && !slow {
        return Some(needed + SLACK);
    }
    let late = disorder(&plan.path.forward) > plan.rtt.mul_f64(0.75);
    // Jitter alone lets half of the delayed packets be overtaken.
    let overtaken = match plan.path.forward.jitter {
        Some(jitter) if !jitter.keeps_order => facts.forward.sent as f64 / 2.0,
        _ => 0.0,
    };
    let late = if late { facts.forward.reordered as f64 + overtaken } else { 0.0 };
    Some(needed + late + gone(&facts.reverse) + facts.at_stake as f64 + SLACK)
}

/// Upper bound on the duration of the transfer.
///
/// One smallest window each RTT. A window that follows losses is cut by each of them and grows by
/// one packet each RTT: the RTTs that it needs for these packets, and as many to start. Each lost
/// packet costs an RTO and an RTT. The sum counts twice, for the serialisation time and for every
/// pause. Jitter adds half of its range to the RTT each way, and four mean deviations (a quarter of
/// the range each) to the RTO. Consecutive timeouts back off, as do lost SYNs and FINs.
pub(super) fn longest(plan: &Plan, facts: &Facts) -> Duration {
    // Path MTU discovery may fall back to the smallest datagram.
    let mss = if plan.path.forward.mtu == Mtu::unlimited() { MSS } else { SMALLEST_MSS };
    let packets = plan.bytes.div_ceil(mss) as f64;
    let wire = Duration::from_secs_f64(plan.bytes as f64 * 8.0 / plan.rate as f64);
    let (fixed, growing) = match plan.sender.congestion {
        Algorithm::Fixed(packets) => (u64::from(packets), 0.0),
        _ => (u64::MAX, (2.0 * packets * (gone(&facts.forward) + 1.0)).sqrt()),
    };
    let window = (plan.window.max / MSS).min(fixed).max(1);
    let limit = plan.path.forward.queue;
    let queue = limit.packets.map_or(u64::MAX, |packets| u64::from(packets) * 1472);
    let queue = queue.min(limit.bytes.unwrap_or(u64::MAX)).min(plan.bytes).min(window.saturating_mul(1472));
    let jitter = 2 * (disorder(&plan.path.forward) + disorder(&plan.path.reverse));
    let round =
        plan.rtt + jitter + Duration::from_secs_f64(queue as f64 * 8.0 / plan.rate as f64) + ACK_DELAY;
    let rounds = 20.0 + packets / window as f64 + growing;
    let losses = gone(&facts.forward) + gone(&facts.reverse);
    let any = if plan.must_finish || plan.must_hear { ANY } else { GIVEN_UP };
    let any = any + facts.in_a_row * MAX_BACKOFF + facts.controls * MAX_CONTROL;
    any + 2 * (wire + round.mul_f64(rounds) + (round + MIN_RTO).mul_f64(losses) + plan.dead)
}
