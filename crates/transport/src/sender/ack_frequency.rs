//! How often data is to be acknowledged: a few times a round trip, however many packets that has.
//! Every packet carries the number, so the receiver keeps no state of it and a lost packet changes
//! nothing.

use std::time::Duration;

use super::congestion::CongestionControl;
use super::path::Path;
use crate::congestion::DeliveryRate;
use crate::recovery::Flight;
use crate::wire::native::MAX_ACK_EVERY;

/// ACKs of what is in flight that a window is controlled by: `HyStart++` takes eight samples a
/// round (RFC 9406, section 4.3), and what an ACK opens, a sixteenth of the window, is idle until
/// it comes.
const ACKS_PER_WINDOW: u64 = 16;
/// ACKs of what is in flight where a rate is, and the window is larger than what fills the path.
/// With 32, BBR takes 100 Mbit/s with 0.25 back for a path of 12: until 128 packets are in flight
/// it asks for every second ACK.
const ACKS_PER_RATE: u64 = 8;
/// ACKs of what is in flight while trains are measured: of one of 16 packets four ACKs tell the
/// dispersion. ACKs of two packets each would leave a way back of 3 Mbit/s further apart than two
/// packets leave a way there of 250.
const ACKS_PER_START: u64 = 64;
/// Fewer packets an ACK are left to what the handshake said: there is little to save.
const LEAST: u64 = 4;
/// Packets of a window below which each is acknowledged at once: an ACK delayed for a second packet
/// delays the packets that a window of ten releases by a twentieth of the round trip.
const SMALL_WINDOW: u64 = 16;
/// Most packets an ACK: with 1500 bytes a packet and 65 an ACK the way back carries 1/1400 of what
/// the way there does. With 256 BBR's start on a path of 250 Mbit/s and 600 ms lost 1,836 packets
/// in place of 789.
const MOST: u64 = 64;
const _: () = assert!(MOST <= MAX_ACK_EVERY as u64);
/// On shorter paths one turn of the receiver takes in more packets than this would ask for.
const LEAST_RTT: Duration = Duration::from_millis(1);

/// Loss rate, as one packet in this many, from which on ACKs stay frequent: there they are lost as
/// well. With 20 % lost each way and eight ACKs a round trip BBR reaches 0.61 of the path's rate in
/// place of 1.10.
const HEAVY_LOSS: u64 = 10;

/// How many packets an ACK may wait for, by what is in flight when they leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckFrequency {
    /// Bytes in flight below which each packet is acknowledged.
    each: u64,
    /// Bytes in flight from which on fewer ACKs are asked for.
    from: u64,
    /// Bytes in flight for each packet an ACK may wait for; 0 where nothing is asked for.
    bytes: u64,
}

impl AckFrequency {
    /// For a packet that leaves with `in_flight` bytes in flight, itself excluded. 0: as the
    /// handshake said.
    pub(super) fn every(self, in_flight: u64) -> u16 {
        if self.bytes == 0 {
            return 0;
        }
        if in_flight < self.from {
            return u16::from(in_flight < self.each);
        }
        let packets = (in_flight / self.bytes).clamp(LEAST, MOST);
        u16::try_from(packets).unwrap_or(MAX_ACK_EVERY)
    }
}

impl AckFrequency {
    /// ACK frequency for the packets that leave now, of a transfer that lost `lost` packets so far.
    /// Rules that count duplicate ACKs need one for each packet. Without pacing, a burst is as long
    /// as the data that an ACK covers.
    pub(super) fn choose(
        path: &Path,
        congestion: &CongestionControl,
        flight: &Flight,
        uses_sack: bool,
        lost: u64,
    ) -> Self {
        const HANDSHAKE: AckFrequency = AckFrequency { each: 0, from: 0, bytes: 0 };
        if congestion.pacer.is_none() || !uses_sack {
            return HANDSHAKE;
        }
        let mss = path.mss as u64;
        let controller = &congestion.controller;
        let by_window = controller.pacing_rate().is_none();
        // The path loses a tenth or more and the controller keeps a large window all the same.
        let lossy =
            || !by_window && lost * HEAVY_LOSS * mss > flight.rate().map_or(0, DeliveryRate::delivered);
        let trains = controller.train() > 0;
        // Trains are for long paths: the handshake told the round trip, and the first flight has no
        // other sample.
        let long = trains || path.rtt.sampled().is_some_and(|srtt| srtt >= LEAST_RTT);
        if !long || lossy() {
            return HANDSHAKE;
        }
        if trains {
            return Self { each: 0, from: LEAST * mss, bytes: ACKS_PER_START * mss };
        }
        let acks = if by_window { ACKS_PER_WINDOW } else { ACKS_PER_RATE };
        let each = if by_window && congestion.cwnd < SMALL_WINDOW * mss { u64::MAX } else { 0 };
        Self { each, from: LEAST * acks * mss, bytes: acks * mss }
    }
}
