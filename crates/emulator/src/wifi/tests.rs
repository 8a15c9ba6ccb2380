//! Tests of airtimes against published figures. `sharing` tests two directions in one cell.

use std::num::NonZeroU8;

use super::*;
use crate::config::LinkConfig;
use rdt_testing::epoch;

mod sharing;

/// Returns the payload rate of a saturated cell in kbit/s; `packet` is the IP packet in bytes.
fn kbps(cell: &str, payload: usize, packet: usize) -> u128 {
    let cell: WifiConfig = cell.parse().unwrap();
    payload as u128 * 8 * 1_000_000 / cell.airtime(packet).as_nanos()
}

fn micros(cell: &str, packet: usize) -> f64 {
    cell.parse::<WifiConfig>().unwrap().airtime(packet).as_secs_f64() * 1e6
}

/// Compares with J. Jun, P. Peddabachagari, M. Sichitiu, "Theoretical Maximum Throughput of IEEE
/// 802.11 and its Applications", IEEE NCA 2003. The paper adds 34 bytes to the payload, two fewer
/// than here, sends ACKs of 802.11b at 1 Mbit/s, and does not round up to a microsecond.
#[test]
fn airtime_matches_theoretical_maximum_throughput() {
    // In us: 50 DIFS + 310 back-off + 192 preamble + 8 * (34 + 1500) / 11 + 10 SIFS + 304 ACK.
    let b = 50.0 + 310.0 + 192.0 + 8.0 * 1_534.0 / 11.0 + 10.0 + 304.0;
    assert!((micros("wifi-b:basic=1mbit", 1_498) - b).abs() < 1.0);
    assert_eq!(kbps("wifi-b:basic=1mbit", 1_500, 1_498) / 10, 605);
    // In addition 352 RTS + 10 SIFS + 304 CTS + 10 SIFS.
    assert!((micros("wifi-b:basic=1mbit,rts", 1_498) - (b + 676.0)).abs() < 1.0);
    assert_eq!(kbps("wifi-b:basic=1mbit,rts", 1_500, 1_498) / 10, 451);
    // 34 DIFS + 67.5 back-off + 20 preamble + 57 * 4 symbols + 16 SIFS + 28 ACK. With RTS also 28
    // RTS + 16 SIFS + 28 CTS + 16 SIFS.
    assert_eq!(cost("wifi-a", 1_498), us_tenths(3_935));
    assert_eq!(kbps("wifi-a", 1_500, 1_498) / 10, 3_049);
    assert_eq!(cost("wifi-a:rts", 1_498), us_tenths(3_935 + 880));
}

fn cost(cell: &str, packet: usize) -> Duration {
    cell.parse::<WifiConfig>().unwrap().airtime(packet)
}

const fn us_tenths(tenths: u64) -> Duration {
    Duration::from_nanos(tenths * 100)
}

#[test]
fn parts_of_airtime_sum_to_airtime() {
    for cell in [
        "wifi-a",
        "wifi-a:rate=6mbit,rts",
        "wifi-b:preamble=short,rate=5.5mbit",
        "wifi-g:protection,stations=3,via-ap",
        "wifi-g:rate=11mbit,stations=2",
    ] {
        let cell: WifiConfig = cell.parse().unwrap();
        for bytes in [0, 1, 40, 576, 1_498, 2_296] {
            let it = cell.airtime_parts(bytes);
            let frames = [it.reservation, it.preamble, it.mac_header, it.packet, it.ack, it.others];
            let gaps = [it.difs, it.back_off, it.sifs, it.collisions];
            let sum: Duration = frames.into_iter().chain(gaps).sum();
            assert_eq!(sum, cell.airtime(bytes), "{cell:?} with {bytes} bytes: {it:?}");
        }
    }
    // 34 DIFS, 67.5 back-off, 20 preamble, 57 symbols of 4 us for 36 + 1,498 bytes, 16 SIFS, 28
    // ACK; the packet alone takes 8 * 1498 / 54 us.
    let it = "wifi-a".parse::<WifiConfig>().unwrap().airtime_parts(1_498);
    assert_eq!((it.difs, it.back_off, it.preamble), (us_tenths(340), us_tenths(675), us_tenths(200)));
    assert_eq!((it.sifs, it.ack, it.others), (us_tenths(160), us_tenths(280), Duration::ZERO));
    assert_eq!((it.packet, it.packet + it.mac_header), (Duration::from_nanos(221_925), us_tenths(2_280)));
}

#[test]
fn protected_80211g_packet_costs_gaps_and_frames() {
    // 50 DIFS + 150 back-off + 20 preamble + 57 * 4 symbols + 6 extension + 10 SIFS + 34 ACK.
    assert_eq!(cost("wifi-g", 1_498), us_tenths(4_980));
    // 28 DIFS + 67.5 back-off, the rest as above.
    assert_eq!(cost("wifi-g:slot=short", 1_498), us_tenths(3_935));
    // CTS of 14 bytes at 11 Mbit/s, with the long (192 + 11) or short preamble (96 + 11), and SIFS.
    assert_eq!(cost("wifi-g:protection", 1_498), us_tenths(4_980 + 2_130));
    assert_eq!(cost("wifi-g:protection,preamble=short", 1_498), us_tenths(4_980 + 1_170));
    // RTS of 20 bytes (192 + 15) and CTS (192 + 11) at the rate of the protection, with SIFS.
    assert_eq!(cost("wifi-g:protection,rts", 1_498), us_tenths(4_980 + 2_070 + 2_030 + 200));
    // An 802.11b frame needs no protection.
    assert_eq!(cost("wifi-g:rate=11mbit,protection", 99), cost("wifi-g:rate=11mbit", 99));
}

#[test]
fn control_rate_is_highest_mandatory_within_limits() {
    // The turns differ in the data frame and in the ACK after a SIFS of 16 us.
    for (rate, ack, symbols) in [("54mbit", 28, 57), ("18mbit", 32, 171), ("9mbit", 44, 342)] {
        let data = 20 + symbols * 4;
        let expected = us_tenths(1_015 + (data + 16 + ack) * 10);
        assert_eq!(cost(&format!("wifi-a:rate={rate}"), 1_498), expected, "{rate}");
    }
    for (basic, more) in [("2mbit", 450), ("1mbit", 1_010)] {
        assert_eq!(cost(&format!("wifi-b:basic={basic}"), 99), cost("wifi-b", 99) + us_tenths(more));
    }
}

#[test]
fn rts_threshold_exempts_short_frames() {
    assert_eq!(cost("wifi-b:rts=1000", 964), cost("wifi-b", 964));
    assert_eq!(cost("wifi-b:rts=1000", 965), cost("wifi-b:rts", 965));
}

/// Compares with a lab on the wireless MTU, with 802.11a, IPv6 and UDP (48 bytes of headers). With
/// a payload of p bytes it measured 30.9 and 32.7 Mbit/s times p / (p + 80). Each step of 258 bytes
/// added 1.7 to 2 Mbit/s.
#[test]
fn longer_mtu_gain_matches_measurement() {
    let payloads = [1_452, 1_710, 1_968, 2_226];
    let rates = payloads.map(|payload| kbps("wifi-a", payload, payload + 48));
    for (rate, measured) in rates.into_iter().zip([30_900 * 1_452 / 1_532, 32_700 * 1_710 / 1_790]) {
        assert!(rate.abs_diff(measured) * 100 < measured * 2, "{rate} against {measured}");
    }
    for step in rates.windows(2) {
        assert!((1_650..=2_050).contains(&(step[1] - step[0])), "{rates:?}");
    }
}

/// Fragmentation in the same lab: the wire behind the cell has an MTU of 1500, so longer payloads
/// are sent as a packet of 1496 bytes and a second packet, with 48 bytes of headers each. The
/// throughput dropped, then rose with the length of the second packet.
#[test]
fn two_fragments_cost_two_packets() {
    let rate = |payload: usize| {
        let air = [1_496, payload + 8 - 1_448 + 48].map(|packet| cost("wifi-a", packet));
        payload as u128 * 8 * 1_000_000 / (air[0] + air[1]).as_nanos()
    };
    let whole = kbps("wifi-a", 1_452, 1_500);
    let split = [1_710, 1_968, 2_226].map(rate);
    assert!(split.is_sorted() && split[2] < whole, "{whole} {split:?}");
    assert_eq!(split[0] / 1_000, 22);
}

#[test]
fn via_access_point_doubles_airtime() {
    for cell in ["wifi-a:", "wifi-b:rts,", "wifi-g:slot=short,"] {
        assert_eq!(cost(&format!("{cell}via-ap"), 1_500), cost(cell, 1_500) * 2);
    }
}

#[test]
fn stations_share_airtime_and_lose_collisions() {
    // Throughput of all stations together, in thousandths of the throughput of a single station.
    let together = |stations: u8| {
        let cell = WifiConfig { stations: NonZeroU8::new(stations).unwrap(), ..WifiConfig::b() };
        cost("wifi-b", 1_498).as_nanos() * 1_000 * u128::from(stations) / cell.airtime(1_498).as_nanos()
    };
    // Two stations waste fewer idle slots than one, which outweighs their collisions. With more
    // stations the throughput falls.
    let together = [1, 2, 5, 10, 20, 50].map(together);
    assert_eq!(together[0], 1_000);
    assert!((1_000..1_080).contains(&together[1]), "{together:?}");
    assert!(together[1..].is_sorted_by(|a, b| a > b) && together[5] < 850, "{together:?}");
}

#[test]
fn no_argument_overflows() {
    let worst =
        "wifi-b:rate=1mbit,basic=1mbit,stations=255,rts,via-ap,backoff=drawn".parse::<WifiConfig>().unwrap();
    assert!(worst.airtime(usize::MAX) > Duration::from_secs(1_000_000));
    let mut air = Medium::new(&Schedule::constant(worst), 1, Direction::Forward);
    let now = epoch();
    for _ in 0..1_000_000 {
        let service = air.serve(now, usize::MAX);
        assert!(service.end >= service.start && service.start >= now);
        let turn = air.take_turn().unwrap();
        air.on_other_turn(turn);
    }
}

#[test]
fn drawn_back_offs_have_mean_and_follow_seed() {
    let cell = "wifi-b:backoff=drawn".parse().unwrap();
    let now = epoch();
    let ends = |seed, direction| -> Vec<_> {
        let mut air = Medium::new(&Schedule::constant(cell), seed, direction);
        (0..10_000).map(|_| air.serve(now, 1_498).end - now).collect()
    };
    let drawn = ends(1, Direction::Forward);
    assert_eq!(drawn, ends(1, Direction::Forward));
    assert_ne!(drawn, ends(2, Direction::Forward));
    assert_ne!(drawn, ends(1, Direction::Reverse));
    let (mean, drawn) = (cost("wifi-b", 1_498) * 10_000, *drawn.last().unwrap());
    assert!(drawn.abs_diff(mean) < mean / 200, "{drawn:?} {mean:?}");
}

#[test]
fn turn_has_bit_rate_at_its_start() {
    let start = epoch();
    let cells: Schedule<WifiConfig> = "wifi-a:rate=54mbit+10ms:6mbit+20ms:24mbit".parse().unwrap();
    let mut air = Medium::new(&cells, 1, Direction::Forward);
    air.start(start);
    let mut busy = |at| air.serve(start + Duration::from_micros(at), 1_498).busy;
    assert_eq!(busy(0), cost("wifi-a", 1_498));
    // Its turn starts before the change and ends after it.
    assert_eq!(busy(9_999), cost("wifi-a", 1_498));
    // Arrives before the change and waits for the turn above, so it starts after the change.
    assert_eq!(busy(9_999), cost("wifi-a:rate=6mbit", 1_498));
    assert_eq!(busy(20_000), cost("wifi-a:rate=24mbit", 1_498));
}

#[test]
fn steps_to_same_bit_rate_change_nothing() {
    let start = epoch();
    let ends = |cells: Schedule<WifiConfig>| -> Vec<_> {
        let mut air = Medium::new(&cells, 1, Direction::Forward);
        air.start(start);
        (0..1_000).map(|_| air.serve(start, 1_498).end - start).collect()
    };
    let constant = WifiConfig { back_off: BackOff::Drawn, ..WifiConfig::a() };
    let steps = "wifi-a:backoff=drawn,rate=54mbit+5ms:54mbit+50ms:54mbit".parse().unwrap();
    assert_eq!(ends(steps), ends(Schedule::constant(constant)));
}

#[test]
fn wifi_link_rate_is_full_packet_throughput() {
    let link = LinkConfig::default().wifi(WifiConfig::g());
    assert_eq!(link.rate.map(|rate| rate.as_bps_f64().round()), Some(24_096_385.0));
}
