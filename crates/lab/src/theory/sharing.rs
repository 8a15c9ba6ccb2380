//! Flows that share a link.

use super::airtime::saturation_bps;
use super::{Conditions, Prediction};

pub(super) fn fair_share(it: &Conditions) -> Option<Prediction> {
    if it.offered_bps.is_some() {
        return None;
    }
    // Flows with feedback share equally what datagrams leave of the link.
    let left = (1.0 - it.datagrams_bps / it.rate_bps?).max(0.0);
    let value = it.link_goodput_bps()? * left / it.sharers;
    // On the air ACKs contend with data.
    Some(Prediction { value, valid: it.loss == 0.0 && it.steady && it.wifi.is_none() })
}

pub(super) fn udp_knee(it: &Conditions) -> Option<Prediction> {
    let offered = it.offered_bps?;
    let of_cell = it.wifi.map(|cell| saturation_bps(&cell, it.payload, &it.frames));
    let capacity = of_cell.or_else(|| it.link_goodput_bps()).unwrap_or(f64::INFINITY);
    // Beyond the knee a full queue drops single fragments, and with them whole datagrams.
    let is_whole = it.frames.len() == 1 || offered <= capacity;
    let valid = it.loss == 0.0 && it.steady && is_whole;
    Some(Prediction { value: offered.min(capacity), valid }).filter(|_| !it.frames.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::conditions::tests::{all, conditions};
    use super::*;
    use crate::cell::EngineKind;
    use crate::flow::{Flow, FlowKind};
    use std::time::Duration;

    const ETHERNET: &str = "preset = 'ethernet-100'";

    fn udp(name: &str) -> Flow {
        Flow { kind: FlowKind::Udp, rate: Some(10_000_000), size: Some(1470), ..Flow::new(name) }
    }

    /// TCP of the kernel beside n UDP flows of 10 Mbit/s of payload (1,470 bytes in 1,536 on the
    /// link): 94.15 - 9.84 n.
    #[test]
    fn datagrams_leave_the_rest() {
        for (count, expected) in [(0, 94.15), (1, 84.3), (2, 74.5), (3, 64.6), (4, 54.8), (5, 45.0)] {
            let mut flows = vec![Flow { kind: FlowKind::Tcp, ..Flow::new("a") }];
            flows.extend((0..count).map(|i| udp(&format!("u{i}"))));
            let ours = fair_share(&all(ETHERNET, EngineKind::Kernel, flows)).expect("a link");
            assert!(ours.valid && (ours.value / 1e6 - expected).abs() < 0.06, "{count} flows: {ours:?}");
        }
    }

    #[test]
    fn equal_flows_have_equal_shares() {
        let tcp = |name: &str| Flow { kind: FlowKind::Tcp, ..Flow::new(name) };
        let reverse = Flow { reverse: true, ..tcp("d") };
        let three = all(ETHERNET, EngineKind::Kernel, vec![tcp("a"), tcp("b"), tcp("c"), reverse]);
        let ours = fair_share(&three).expect("a link");
        assert!(ours.valid && (ours.value / 31.38e6 - 1.0).abs() < 0.001, "{ours:?}");
        let late = Flow { start: (Duration::from_secs(10), Duration::from_secs(10)), ..tcp("b") };
        let ours = fair_share(&all(ETHERNET, EngineKind::Kernel, vec![tcp("a"), late])).expect("a link");
        assert!(!ours.valid, "one of them comes late");
    }

    #[test]
    fn datagrams_arrive_up_to_what_the_link_carries() {
        let delivered = |path: &str, rate| {
            let it = conditions(path, |flow| *flow = Flow { rate: Some(rate), ..udp("a") });
            udp_knee(&it).expect("a rate").value / 1e6
        };
        assert!((delivered(ETHERNET, 90_000_000) - 90.0).abs() < 1e-9);
        assert!((delivered(ETHERNET, 100_000_000) - 95.70).abs() < 0.01);
        assert!((delivered("rate = 'wifi-g'\nheaders = 28", 54_000_000) - 23.61).abs() < 0.05);
    }
}
