//! Flows that share a link.

/// Returns the goodput of each of `flows` equal flows behind a link with goodput `link_bps`, bits
/// per second.
pub fn aimd_share_bps(link_bps: f64, flows: f64) -> f64 {
    link_bps / flows
}

/// Returns the goodput of a flow that takes what datagrams of other flows leave: `link_bps` is its
/// goodput alone, `udp_on_link` the part of the link, 0 to 1, that the datagrams need.
pub fn beside_udp_bps(link_bps: f64, udp_on_link: f64) -> f64 {
    link_bps * (1.0 - udp_on_link).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TCP beside n UDP flows of 10 Mbit/s of payload (1,470 bytes in 1,536 on the link) on 100
    /// Mbit/s: 94.15 - 9.84 n.
    #[test]
    fn udp_leaves_the_rest() {
        let one = 10e6 * 1536.0 / 1470.0 / 100e6;
        for (flows, expected) in [(1.0, 84.3), (2.0, 74.5), (3.0, 64.6), (4.0, 54.8), (5.0, 45.0)] {
            let ours = beside_udp_bps(94.15e6, flows * one) / 1e6;
            assert!((ours - expected).abs() < 0.06, "{flows} flows: {ours}");
        }
        assert!((aimd_share_bps(94.15e6, 3.0) / 31.38e6 - 1.0).abs() < 0.001);
    }
}
