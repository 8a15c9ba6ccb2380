//! Throughput of an 802.11 cell, and fragments of datagrams.

use rdt_emulator::WifiConfig;

use super::{Conditions, Prediction};

/// Bytes of an IPv6 header, and of the header of a fragment (RFC 8200, section 4.5).
const IPV6_HEADER: u32 = 40;
const FRAGMENT_HEADER: u32 = 8;

/// Returns the payload rate of a saturated cell, bits per second: `payload` bytes of each IP packet
/// of `packet` bytes.
pub fn saturation_bps(cell: &WifiConfig, payload: f64, packet: usize) -> f64 {
    payload * 8.0 / cell.airtime(packet).as_secs_f64()
}

/// Returns the lengths of the IPv6 packets of a datagram of `bytes` bytes with its UDP header, on a
/// link with this MTU. All but the last carry a multiple of eight bytes.
pub fn fragment_sizes(bytes: u32, mtu: u32) -> Vec<u32> {
    if bytes + IPV6_HEADER <= mtu {
        return vec![bytes + IPV6_HEADER];
    }
    let headers = IPV6_HEADER + FRAGMENT_HEADER;
    let room = mtu.saturating_sub(headers) / 8 * 8;
    if room == 0 {
        return Vec::new();
    }
    let whole = (bytes - 1) / room;
    let last = bytes - whole * room;
    let full = std::iter::repeat_n(room + headers, usize::try_from(whole).unwrap_or(0));
    full.chain([last + headers]).collect()
}

/// Parts of the airtime of a packet in the order of time: words in metrics (`airtime.difs`), names.
pub const AIRTIME_PARTS: [(&str, &str); 11] = [
    ("difs", "DIFS"),
    ("back-off", "back-off"),
    ("reservation", "RTS and CTS"),
    ("preamble", "preamble"),
    ("mac-header", "MAC header"),
    ("headers", "IP and transport headers"),
    ("payload", "payload"),
    ("sifs", "SIFS"),
    ("ack", "ACK frame"),
    ("collisions", "collisions"),
    ("others", "frames of other stations"),
];

/// Returns the airtime in seconds of each part of a packet that needs no fragments, in the order of
/// [`AIRTIME_PARTS`]. `None` if the link is no 802.11 cell.
pub fn airtime_parts(it: &Conditions) -> Option<[(&'static str, f64); 11]> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a packet of at most 64 KiB")]
    let parts = it.wifi.filter(|_| it.whole)?.airtime_parts(it.on_link as usize);
    let payload = parts.packet.as_secs_f64() * it.payload / it.on_link;
    let seconds = [
        parts.difs.as_secs_f64(),
        parts.back_off.as_secs_f64(),
        parts.reservation.as_secs_f64(),
        parts.preamble.as_secs_f64(),
        parts.mac_header.as_secs_f64(),
        parts.packet.as_secs_f64() - payload,
        payload,
        parts.sifs.as_secs_f64(),
        parts.ack.as_secs_f64(),
        parts.collisions.as_secs_f64(),
        parts.others.as_secs_f64(),
    ];
    Some(std::array::from_fn(|i| (AIRTIME_PARTS[i].0, seconds[i])))
}

pub(super) fn airtime(it: &Conditions) -> Option<Prediction> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a packet of at most 64 KiB")]
    let packet = it.on_link as usize;
    let value = saturation_bps(&it.wifi?, it.payload, packet);
    Some(Prediction::new(value, it.loss == 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,452 bytes of payload over IPv6 at the eight rates of 802.11a.
    #[test]
    fn rates_of_802_11a_give_published_throughput() {
        let table = [
            (6, 5.20),
            (9, 7.50),
            (12, 9.70),
            (18, 13.61),
            (24, 17.04),
            (36, 22.80),
            (48, 27.30),
            (54, 29.52),
        ];
        for (rate, expected) in table {
            let cell: WifiConfig = format!("wifi-a:rate={rate}mbit").parse().expect("a cell");
            let ours = saturation_bps(&cell, 1452.0, 1500) / 1e6;
            assert!((ours / expected - 1.0).abs() < 0.01, "{rate} Mbit/s: {ours} for {expected}");
        }
    }

    /// Datagrams behind an MTU of 1,500: the first piece has the UDP header.
    #[test]
    fn pieces_have_the_lengths_of_the_wire() {
        assert_eq!(fragment_sizes(1460, 1500), [1500]);
        assert_eq!(fragment_sizes(1718, 1500), [1496, 318]);
        assert_eq!(fragment_sizes(1976, 1500), [1496, 576]);
        assert_eq!(fragment_sizes(2234, 1500), [1496, 834]);
    }
}
