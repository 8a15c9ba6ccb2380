//! Throughput and airtime in an 802.11 cell.

use rdt_emulator::WifiConfig;

use super::{Conditions, Prediction};

/// Returns the goodput of a saturated cell, bits per second, for packets that carry `payload` bytes
/// and are sent in frames with IP packets of these lengths.
pub(super) fn saturation_bps(cell: &WifiConfig, payload: f64, frames: &[f64]) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a packet of at most 64 KiB")]
    let airtime = |bytes: &f64| cell.airtime(*bytes as usize).as_secs_f64();
    payload * 8.0 / frames.iter().map(airtime).sum::<f64>()
}

/// Parts of the airtime of a packet in the order of time: words in metrics (`airtime.difs`), and
/// names for readers.
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

/// Returns the parts of a full packet's airtime, seconds, in the order of [`AIRTIME_PARTS`]. `None`
/// if the link is no 802.11 cell, or the packet needs fragments.
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

/// True if a flow is the only one, sends datagrams, and offers at least what a cell carries.
fn saturates(it: &Conditions, capacity_bps: f64) -> bool {
    let is_enough = it.offered_bps.is_some_and(|offered| offered >= capacity_bps);
    it.is_udp && it.others == 0 && it.steady && it.loss == 0.0 && is_enough
}

pub(super) fn airtime(it: &Conditions) -> Option<Prediction> {
    let value = saturation_bps(&it.wifi?, it.payload, &it.frames);
    Some(Prediction { value, valid: saturates(it, value) }).filter(|_| !it.frames.is_empty())
}

/// Bytes around an IP packet that report 003 counts: MAC header and LLC/SNAP, without the checksum.
const MAC_AND_LLC: f64 = 32.0;
/// Length of the packets from which the model `headers` begins, bytes.
const ANCHOR: f64 = 1500.0;

pub(super) fn headers(it: &Conditions) -> Option<Prediction> {
    let headers = it.on_link - it.payload;
    let share = |payload: f64| payload / (payload + headers + MAC_AND_LLC);
    let at_anchor = saturation_bps(&it.wifi?, ANCHOR - headers, &[ANCHOR]);
    let value = at_anchor * share(it.payload) / share(ANCHOR - headers);
    Some(Prediction { value, valid: saturates(it, value) && it.on_link == ANCHOR })
}

#[allow(clippy::cast_precision_loss, reason = "a datagram has at most 65,536 fragments")]
pub(super) fn fragments(it: &Conditions) -> Option<Prediction> {
    let value = it.frames.iter().sum::<f64>() / it.frames.len() as f64;
    Some(Prediction { value, valid: it.is_udp }).filter(|_| !it.frames.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,452 bytes of payload in 1,500 bytes of IPv6 at the eight rates of 802.11a, Mbit/s.
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
            let ours = saturation_bps(&cell, 1452.0, &[1500.0]) / 1e6;
            assert!((ours / expected - 1.0).abs() < 0.01, "{rate} Mbit/s: {ours} for {expected}");
        }
    }

    /// Headers of 5.51 and 4.68 % of the payload (report 003) explain less than half of a gain from
    /// 29.52 to 31.56 Mbit/s.
    #[test]
    fn headers_explain_less_than_airtime() {
        use super::super::conditions::tests::conditions;
        use crate::flow::FlowKind;
        for (size, expected) in [(1452, 29.52), (1710, 29.52 * 1.0551 / 1.0468), (2226, 30.06)] {
            let it = conditions("rate = 'wifi-a'\nheaders = 48", |flow| {
                (flow.kind, flow.size, flow.rate) = (FlowKind::Udp, Some(size), Some(54_000_000));
            });
            let ours = headers(&it).expect("a cell");
            assert!((ours.value / 1e6 / expected - 1.0).abs() < 0.001, "{size} bytes: {ours:?}");
            assert_eq!(ours.valid, size == 1452);
        }
    }

    #[test]
    fn airtime_holds_for_one_saturated_udp_flow() {
        use super::super::conditions::tests::all;
        use crate::cell::EngineKind;
        use crate::flow::{Flow, FlowKind};
        let holds = |path: &str, flows: &[Flow]| {
            let it = all(path, EngineKind::Virtual, flows.to_vec());
            airtime(&it).expect("a cell").valid
        };
        let cell = "rate = 'wifi-a'\nheaders = 48";
        let lossy = "rate = 'wifi-a'\nheaders = 48\nloss = '1%'";
        let udp = |rate| Flow { kind: FlowKind::Udp, rate: Some(rate), size: Some(1452), ..Flow::new("a") };
        let tcp = |rate| Flow { kind: FlowKind::Tcp, rate, ..Flow::new("a") };
        let back = Flow { reverse: true, ..Flow::new("b") };
        assert!(holds(cell, &[udp(54_000_000)]));
        assert!(!holds(lossy, &[udp(54_000_000)]), "packets are lost");
        assert!(!holds(cell, &[udp(20_000_000)]), "the cell carries 29.52 Mbit/s");
        assert!(!holds(cell, &[udp(54_000_000), back]), "the other direction uses the air too");
        assert!(!holds(cell, &[tcp(None)]), "ACKs are on the air");
        assert!(!holds(cell, &[tcp(Some(54_000_000))]), "ACKs are on the air");
    }

    /// The published rates of datagrams of 1,452 to 2,226 bytes behind an MTU of 1,500.
    #[test]
    fn fragments_are_frames_of_their_own() {
        use super::super::conditions::tests::conditions;
        use crate::flow::FlowKind;
        for (size, expected) in [(1452, 29.52), (1710, 22.24), (1968, 24.18), (2226, 25.77)] {
            let path = "rate = 'wifi-a'\nheaders = 48";
            let of_path = conditions(&format!("{path}\nmtu = '1500 fragment'"), |flow| {
                (flow.kind, flow.size) = (FlowKind::Udp, Some(size));
            });
            let of_device = conditions(path, |flow| {
                (flow.kind, flow.size, flow.device_mtu) = (FlowKind::Udp, Some(size), Some(1500));
            });
            for it in [of_path, of_device] {
                let ours = airtime(&it).expect("a cell").value / 1e6;
                assert!((ours / expected - 1.0).abs() < 0.001, "{size} bytes: {ours} for {expected}");
            }
        }
    }
}
