//! The path to the receiver: round-trip time, largest datagram and ECN.

use std::time::Duration;

use super::SenderConfig;
use super::ecn::PathEcn;
use super::path_mtu::PathMtu;
use crate::recovery::Rtt;

pub(super) struct Path {
    pub(super) rtt: Rtt,
    /// Moving average of the last samples.
    pub(super) mean_rtt: Option<Duration>,
    /// The search for the largest datagram, where the format allows segments to be cut again.
    pub(super) mtu: Option<PathMtu>,
    pub(super) ecn: PathEcn,
    /// Payload of a full packet, bytes.
    pub(super) mss: usize,
    /// Bytes before the payload of a packet.
    pub(super) header: usize,
}

impl Path {
    /// Before anything is known of the path.
    pub(super) fn new(config: &SenderConfig) -> Self {
        Self {
            rtt: Rtt::new(config.rto),
            mean_rtt: None,
            mtu: config.path_mtu(),
            ecn: PathEcn::new(config.uses_ecn()),
            mss: config.first_payload_size(),
            header: config.wire.data_header(),
        }
    }

    /// Takes one valid round-trip sample. One ACK covers two packets, or `ack_every` if more were
    /// asked for.
    pub(super) fn on_sample(&mut self, sample: Duration, in_flight: u64, ack_every: u16) {
        let samples = in_flight / (u64::from(ack_every.max(2)) * self.mss as u64);
        self.rtt.on_sample(sample, u32::try_from(samples).unwrap_or(u32::MAX));
        let mean = self.mean_rtt.unwrap_or(sample);
        self.mean_rtt = Some((mean * 15 + sample) / 16);
    }

    /// The round-trip sample of an echo: without the receiver's delay, unless that takes it below
    /// the smallest sample (RFC 9002, section 5.3).
    pub(super) fn without_delay(&self, rtt: Duration, delay: Duration) -> Duration {
        let without = rtt.saturating_sub(delay);
        let plausible = without >= self.rtt.min_rtt().unwrap_or_default() && !without.is_zero();
        if plausible { without } else { rtt }
    }

    /// Transmission that tries a larger datagram, if one is out.
    pub(super) fn mtu_probe(&self) -> Option<u64> {
        self.mtu.as_ref().and_then(PathMtu::probe)
    }

    /// Packet `packet_number` is lost, or sent again all the same.
    pub(super) fn on_lost(&mut self, packet_number: u64) {
        if let Some(mtu) = &mut self.mtu {
            mtu.on_lost(packet_number);
        }
    }

    /// Takes the size that the search confirmed; gives the datagram's size.
    pub(super) fn resize(&mut self) -> Option<usize> {
        let size = self.mtu.as_ref()?.size();
        self.mss = size - self.header;
        Some(size)
    }
}
