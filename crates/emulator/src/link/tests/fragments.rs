//! Tests of fragmented packets: bytes on the wire, due times and loss.

use super::*;
use crate::loss::GilbertElliott;
use crate::mtu::{Mtu, Oversize};

/// IPv6 header (40) and UDP header (8).
const HEADERS: u32 = 48;
/// Ethernet header, without preamble and FCS, as in the lab's arithmetic below.
const ETHERNET: u32 = 14;

/// Returns a link of 1 Mbit/s, on which a byte takes 8 us, for UDP over IPv6 over Ethernet.
fn lab() -> LinkConfig {
    rate(1_000_000).overhead(HEADERS).framing(ETHERNET).mtu(Mtu::new(1_500).oversize(Oversize::Fragment))
}

fn cut(config: LinkConfig) -> LinkConfig {
    config.mtu(Mtu::new(1_300).oversize(Oversize::Fragment))
}

/// Returns the share of the bytes on the wire that is not payload, computed from due times.
fn overhead_share(payload: usize) -> f64 {
    let mut link = link(lab());
    link.push(epoch(), vec![0; payload]).unwrap();
    let wire = link.ledger().busy.as_secs_f64() * 1e6 / 8.0;
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let payload = payload as f64;
    (wire - payload) / wire
}

/// Compares with the arithmetic of a laboratory course on UDP over IPv6, for payloads of 1452,
/// 1710, 1968 and 2226 bytes and an MTU of 1500 bytes. Without fragments, the headers of 14
/// (Ethernet) + 40 (IPv6) + 8 (UDP) = 62 bytes are 4.1 % of the bytes sent. With 1710 bytes, 2 * 14
/// + 2 * 48 (IPv6 with a fragment header) + 8 (UDP) = 132 bytes are 7.2 %.
#[test]
fn fragments_cost_matches_lab_arithmetic() {
    for (payload, headers, per_mille) in
        [(1_452, 62, 41), (1_710, 132, 72), (1_968, 132, 63), (2_226, 132, 56)]
    {
        let share = overhead_share(payload);
        let exact = f64::from(headers) / (f64::from(headers) + f64::from(u32::try_from(payload).unwrap()));
        assert!((share - exact).abs() < 1e-9, "{payload} bytes: {share}");
        assert!((share * 1e3 - f64::from(per_mille)).abs() < 0.5, "{payload} bytes: {share}");
    }
}

#[test]
fn packet_arrives_with_last_fragment() {
    let start = epoch();
    let mut link = link(LinkConfig { delay: ms(5), ..lab() });
    link.push(start, vec![0; 1_710]).unwrap();
    link.push(start, vec![0; 1_452]).unwrap();
    // The packets have 1842 and 1514 bytes on the wire.
    assert_eq!(due_times(&mut link, start), [ns(19_736_000), ns(31_848_000)]);
    let ledger = link.ledger();
    assert_eq!((ledger.fragmented, ledger.fragments, ledger.delivered_bytes), (1, 2, 3_162));
}

#[test]
fn fragments_occupy_queue_by_wire_bytes() {
    let now = epoch();
    let mut link = link(lab().queue(QueueLimit::bytes(2 * 1_842)));
    assert_eq!(burst(&mut link, now, 10, 1_710), 3, "one in service, two waiting");
}

#[test]
fn copy_is_fragmented_like_original() {
    let mut link = link(lab().duplicate(Probability::ONE));
    link.push(epoch(), vec![0; 1_710]).unwrap();
    assert_eq!((link.ledger().fragmented, link.ledger().fragments), (2, 4));
    assert_eq!(link.ledger().busy, ns(2 * 1_842 * 8_000));
}

#[test]
fn unfragmentable_packet_is_dropped_as_too_long() {
    let mut link = link(lab());
    assert_eq!(link.push(epoch(), vec![0; 70_000]).map_err(|d| d.cause), Err(DropCause::TooLong));
    assert_eq!(link.ledger().fragmented, 0);
    assert!(link.ledger().balances());
}

/// Pushes 20,000 packets of `len` bytes and returns the numbers of the lost packets.
fn lost(config: LinkConfig, len: usize) -> Vec<u32> {
    let now = epoch();
    let mut link = link(LinkConfig { rate: None, ..config });
    (0..20_000)
        .filter(|_| {
            let pushed = link.push(now, vec![0; len]);
            link.pop(now);
            pushed.is_err()
        })
        .collect()
}

#[test]
fn packet_is_lost_with_any_fragment() {
    let whole = lost(lab().loss(bernoulli(0.1)), 1_000);
    let three = lost(cut(lab()).loss(bernoulli(0.1)), 3_000);
    assert!(
        whole.iter().all(|n| three.binary_search(n).is_ok()),
        "the first fragment's fate is the packet's"
    );
    // A packet of three fragments is lost with a probability of 1 - 0.9^3 = 0.271. The bound is
    // four standard deviations of 62.9.
    assert!(three.len().abs_diff(5_420) < 252, "{}", three.len());
}

#[test]
fn gilbert_elliott_state_ignores_fragmentation() {
    let probability = |value| Probability::new(value).unwrap();
    let bursts = GilbertElliott {
        p: probability(0.05),
        r: probability(0.2),
        loss_good: Probability::ZERO,
        loss_bad: probability(0.5),
    };
    let whole = lost(lab().loss(Loss::GilbertElliott(bursts)), 1_000);
    let three = lost(cut(lab()).loss(Loss::GilbertElliott(bursts)), 3_000);
    let always = GilbertElliott { loss_bad: Probability::ONE, ..bursts };
    let bad = lost(lab().loss(Loss::GilbertElliott(always)), 1_000);
    assert!(whole.iter().all(|n| three.binary_search(n).is_ok()));
    assert!(three.iter().all(|n| bad.binary_search(n).is_ok()), "only where the channel is bad");
    let share = three.len() * 1_000 / bad.len();
    assert!((850..900).contains(&share), "7/8 of them: {share}");
}

#[test]
fn counting_loss_models_lose_whole_packets() {
    for loss in [Loss::every_nth(7), Loss::script([3, 4, 900]), Loss::bounded(Probability::ONE, 2)] {
        let config = lab().loss(loss);
        assert_eq!(lost(cut(config.clone()), 3_000), lost(config, 1_000));
    }
}

#[test]
fn all_disciplines_serve_fragments_alike() {
    let start = epoch();
    for discipline in ["drop-tail", "drop-head", "codel", "red:min=1mb,max=2mb", "pie"] {
        let mut link =
            link(lab().queue(QueueLimit::bytes(2 * 1_842)).discipline(discipline.parse().unwrap()));
        assert_eq!(burst(&mut link, start, 3, 1_710), 3, "{discipline}");
        let due = due_times(&mut link, start);
        assert_eq!(due, [14_736_000, 29_472_000, 44_208_000].map(ns), "{discipline}");
        assert_eq!((link.ledger().fragmented, link.ledger().fragments), (3, 6), "{discipline}");
        assert!(link.ledger().balances());
    }
}

#[test]
fn each_fragment_takes_a_wifi_turn() {
    let cell = crate::wifi::WifiConfig::b();
    let mut link = link(LinkConfig { framing: 0, ..lab() }.wifi(cell));
    link.push(epoch(), vec![0; 1_710]).unwrap();
    assert_eq!(link.ledger().busy, cell.airtime(1_496) + cell.airtime(318));
}
