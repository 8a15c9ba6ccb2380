//! Request to the load program: flows, times and kernel settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::flow::Flow;

/// Flows of one repetition, and settings of the kernel for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Flows, each with a fixed start.
    pub flows: Vec<Flow>,
    /// True if the flows cross an emulated path, false if they use the loopback device.
    pub has_path: bool,
    /// True if the flows use IPv6.
    pub ipv6: bool,
    /// False if sockets of rdt use neither GSO, GRO nor zero-copy.
    pub offload: bool,
    /// Seed of the repetition, for sources with random gaps and senders with random decisions.
    pub seed: u64,
    /// Width of the bins of bytes received.
    pub bin: Duration,
    /// Time at which the run ends. `None`: when all flows have ended.
    pub duration: Option<Duration>,
    /// Time without a datagram after which none is in flight.
    pub quiet: Duration,
    /// Names and values of sysctls for both ends, such as `net.ipv4.tcp_sack`.
    pub sysctls: Vec<(String, String)>,
    /// Metrics of the routes from the near and from the far end (`RTAX_*` of linux/rtnetlink.h).
    pub metrics: [Vec<(u16, u32)>; 2],
}

#[cfg(test)]
mod tests {
    use rdt_crypto::Aead;

    use super::*;
    use crate::flow::{FlowKind, Reads, Spacing};

    #[test]
    fn requests_survive_writing() {
        let second = Duration::from_secs(1);
        let every_word = Flow {
            kind: FlowKind::Tcp,
            start: (second, 2 * second),
            stop: Some(9 * second),
            bytes: Some(1 << 40),
            rate: Some(1_000_000),
            on_off: Some((second, 2 * second)),
            size: Some(1470),
            spacing: Spacing::Poisson,
            reverse: true,
            cc: Some("cubic".to_owned()),
            recovery: Some("rack".to_owned()),
            initial_window: Some(4),
            loss_window_initial: true,
            min_rto: Some(second),
            max_rto: Some(60 * second),
            pacing: Some(false),
            ecn: Some(true),
            cipher: Aead::Aes128Gcm,
            packet: Some(1480),
            send_buffer: Some(65_536),
            window: Some(5_000),
            ack: Some((2, Duration::from_millis(25))),
            reads: Reads::Stalled(second, second),
            ..Flow::new("a")
        };
        let slow = Flow { reads: Reads::Rate(1_000), ..Flow::new("b") };
        let request = Request {
            flows: vec![every_word, slow, Flow { kind: FlowKind::Udp, ..Flow::new("c") }],
            has_path: true,
            ipv6: true,
            offload: false,
            seed: u64::MAX,
            bin: Duration::from_millis(100),
            duration: Some(10 * second),
            quiet: second,
            sysctls: vec![("net.ipv4.tcp_sack".to_owned(), "0".to_owned())],
            metrics: [vec![(11, 4), (13, 200)], Vec::new()],
        };
        let bytes = postcard::to_allocvec(&request).expect("a request can be written");
        assert_eq!(postcard::from_bytes(&bytes), Ok(request));
        assert!(postcard::from_bytes::<Request>(&bytes[1..]).is_err());
    }
}
