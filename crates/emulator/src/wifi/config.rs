//! Settings of an 802.11 cell, and the airtime of a packet in the cell.
//!
//! Clause numbers refer to IEEE Std 802.11-2020.

use std::num::NonZeroU8;
use std::time::Duration;

use super::contention::{Contention, PER_MILLION};
use super::parse::rates;
use super::phy::{Preamble, Radio, SlotTime, Timing, WifiRate, WifiStandard, duration};
use crate::bitrate::Bitrate;
use crate::units::NotationError;

/// Settings of the 802.11 cell through which a link sends.
///
/// [`WifiConfig::a`], [`b`](Self::b) and [`g`](Self::g) are cells of one station and its access
/// point. The text form adds options: `wifi-b:preamble=short,stations=2`.
///
/// ```
/// use rdt_emulator::WifiConfig;
///
/// // UDP payload of saturated cells in Mbit/s: datagrams of 1470 bytes, which are packets of 1498.
/// let saturated = |cell: WifiConfig| 1470.0 * 8.0 / cell.airtime(1498).as_secs_f64() / 1e6;
/// assert_eq!(format!("{:.2}", saturated(WifiConfig::b())), "6.25");
/// assert_eq!(format!("{:.2}", saturated(WifiConfig::g())), "23.61");
/// assert_eq!(format!("{:.2}", saturated("wifi-g:slot=short".parse()?)), "29.89");
/// # Ok::<(), rdt_emulator::NotationError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WifiConfig {
    /// Physical layer.
    pub standard: WifiStandard,
    /// Bit rate of data frames.
    pub rate: WifiRate,
    /// Highest basic rate of the cell. ACK, RTS and CTS frames, which all stations must receive,
    /// are sent at the highest mandatory rate that exceeds neither this rate nor `rate` (10.6.6.5).
    pub basic_rate: WifiRate,
    /// Preamble of frames at 802.11b rates.
    pub preamble: Preamble,
    /// Slot time of 802.11g.
    pub slot: SlotTime,
    /// Frame length in bytes, with MAC header and FCS, above which RTS and CTS are sent. `None`:
    /// never.
    pub rts_threshold: Option<u32>,
    /// Bit rate of the CTS-to-self before each OFDM frame, which prevents 802.11b stations from
    /// sending (the protection mechanism for non-ERP receivers). With RTS and CTS, these frames use
    /// the rate and replace the CTS-to-self. `None`: no protection.
    pub protection: Option<WifiRate>,
    /// Number of stations that always have a frame to send, as long as ours; includes this station.
    pub stations: NonZeroU8,
    /// True if the far end is in the same cell, so that the access point sends each frame again.
    pub via_access_point: bool,
    /// Length of the random back-off between frames: its mean, or drawn for each frame.
    pub back_off: BackOff,
    /// True if the air is also that of other paths, which start and end at stations of the same
    /// cell; see [`Air`](super::Air). It has no effect on a path alone.
    pub shared: bool,
}

/// How the model chooses the back-off of a station.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackOff {
    /// Every back-off has the mean length.
    #[default]
    Mean,
    /// Uniform from zero to twice the mean, in as many steps as the contention window has slots.
    Drawn,
}

/// Airtime of one packet, taken apart. The parts sum to [`WifiConfig::airtime`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AirtimeParts {
    /// Gap before the back-off (10.3.7).
    pub difs: Duration,
    /// Mean back-off: idle slots.
    pub back_off: Duration,
    /// RTS and CTS, or the CTS of the protection, with the gaps after them.
    pub reservation: Duration,
    /// Preamble and header of the physical layer of the data frame.
    pub preamble: Duration,
    /// MAC header, LLC, SNAP and FCS, and what fills the last symbol of the frame.
    pub mac_header: Duration,
    /// The IP packet.
    pub packet: Duration,
    /// Gap before the ACK frame.
    pub sifs: Duration,
    /// ACK frame.
    pub ack: Duration,
    /// Mean time of collisions for each delivered frame.
    pub collisions: Duration,
    /// Frames of other stations, and the repetition by the access point.
    pub others: Duration,
}

/// Bytes that a data frame adds to an IP packet: MAC header with three addresses, FCS (9.3.2.1),
/// and LLC with SNAP (RFC 1042).
pub(super) const MAC_OVERHEAD_BYTES: u32 = 24 + 4 + LLC_SNAP_BYTES;

/// Largest payload of a frame (MSDU), which includes LLC and SNAP (9.2.3, table 9-25).
const MAX_MSDU_BYTES: u32 = 2_304;
/// LLC header (IEEE Std 802.2: 3 bytes) and SNAP header (IEEE Std 802: 5 bytes).
const LLC_SNAP_BYTES: u32 = 8;

/// Length of an ACK or CTS frame (9.3.1.3, 9.3.1.4).
const ACK_BYTES: u32 = 14;
/// Length of an RTS frame (9.3.1.2).
const RTS_BYTES: u32 = 20;

impl WifiConfig {
    /// Returns a cell of 802.11a at 54 Mbit/s.
    pub const fn a() -> Self {
        Self::new(WifiStandard::A, WifiRate::MBPS_54, WifiRate::MBPS_24)
    }

    /// Returns a cell of 802.11b at 11 Mbit/s, with ACKs at 11 Mbit/s and the long preamble, which
    /// every station supports.
    pub const fn b() -> Self {
        Self::new(WifiStandard::B, WifiRate::MBPS_11, WifiRate::MBPS_11)
    }

    /// Returns a cell of 802.11g at 54 Mbit/s. It has the long slot, because it admits 802.11b
    /// stations, but no protection, because none of them is present.
    pub const fn g() -> Self {
        Self::new(WifiStandard::G, WifiRate::MBPS_54, WifiRate::MBPS_24)
    }

    const fn new(standard: WifiStandard, rate: WifiRate, basic_rate: WifiRate) -> Self {
        Self {
            standard,
            rate,
            basic_rate,
            preamble: Preamble::Long,
            slot: SlotTime::Long,
            rts_threshold: None,
            protection: None,
            stations: NonZeroU8::MIN,
            via_access_point: false,
            back_off: BackOff::Mean,
            shared: false,
        }
    }

    /// Longest IP packet in a frame, in bytes: the highest possible MTU of the link.
    pub const MTU: u32 = MAX_MSDU_BYTES - LLC_SNAP_BYTES;

    /// Checks that the standard has the rates and options of these settings.
    pub fn check(&self) -> Result<(), NotationError> {
        let standard = self.standard;
        let refuse = |why: String| Err(NotationError(why));
        for rate in [self.rate, self.basic_rate] {
            let exists = match standard {
                WifiStandard::A => !rate.is_dsss(),
                WifiStandard::B => rate.is_dsss(),
                WifiStandard::G => true,
            };
            if !exists {
                return refuse(format!("{standard} has no rate of {rate}: {}", rates(standard)));
            }
        }
        let only_elsewhere = [
            (standard == WifiStandard::A && self.preamble == Preamble::Short, "short preamble"),
            (standard != WifiStandard::G && self.slot == SlotTime::Short, "choice of slots"),
            (standard != WifiStandard::G && self.protection.is_some(), "protection"),
        ];
        if let Some((_, what)) = only_elsewhere.into_iter().find(|(meant, _)| *meant) {
            return refuse(format!("{standard} has no {what}"));
        }
        if self.shared && self.via_access_point {
            return refuse(
                "'via-ap' and 'shared' exclude each other: with 'shared' the access point is between two links"
                    .to_owned(),
            );
        }
        match self.protection {
            Some(rate) if !rate.is_dsss() => refuse(format!(
                "stations of 802.11b do not understand protection at {rate}: it is sent at 1, 2, 5.5 or 11 Mbit/s"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the airtime of an IP packet of `bytes` bytes in a cell whose stations always have a
    /// frame to send: DIFS, back-off, RTS and CTS if used, the frame, SIFS and ACK. It includes the
    /// frames of other stations, and the repetition by the access point, for each packet.
    ///
    /// Each IP fragment has the airtime of a packet. Packets over 4 GiB count as 4 GiB.
    pub fn airtime(&self, bytes: usize) -> Duration {
        let cost = Costs::new(*self).of(bytes, 1, None);
        duration(cost.total)
    }

    /// Returns the parts of [`airtime`](Self::airtime).
    pub fn airtime_parts(&self, bytes: usize) -> AirtimeParts {
        let costs = Costs::new(*self);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let (radio, exchange) = (self.radio(), self.exchange(bytes));
        let (difs, sifs, idle) = (costs.timing.difs(), costs.timing.sifs, costs.alone.idle);
        let frame = radio.frame(self.rate, bytes.saturating_add(MAC_OVERHEAD_BYTES));
        let head = radio.head(self.rate);
        let packet = self.rate.bitrate().transmit_time(bytes as usize, &mut 0);
        let collisions = (exchange.collides + difs) * costs.alone.collisions / PER_MILLION;
        let turn = exchange.ends + collisions + difs + idle;
        let total = costs.of(bytes as usize, 1, None).total;
        AirtimeParts {
            difs: duration(difs),
            back_off: duration(idle),
            reservation: duration(exchange.arrives - frame),
            preamble: duration(head),
            mac_header: duration(frame - head).saturating_sub(packet),
            packet,
            sifs: duration(sifs),
            ack: duration(exchange.ends - exchange.arrives - sifs),
            collisions: duration(collisions),
            others: duration(total - turn),
        }
    }

    /// Returns the rate of IP packets of `bytes` bytes if all stations always have a frame to send.
    pub fn throughput(&self, bytes: usize) -> Bitrate {
        let bits = bytes as u128 * 8 * 1_000_000_000;
        let rate = bits / self.airtime(bytes).as_nanos().max(1);
        Bitrate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn radio(&self) -> Radio {
        Radio { standard: self.standard, preamble: self.preamble }
    }

    fn control_rate(&self) -> WifiRate {
        let limit = self.rate.min(self.basic_rate);
        let usable = |rate: &WifiRate| {
            rate.is_mandatory()
                && *rate <= limit
                && (self.standard == WifiStandard::G || rate.is_dsss() == limit.is_dsss())
        };
        WifiRate::ALL.into_iter().rev().find(usable).unwrap_or(limit)
    }

    fn exchange(&self, bytes: u32) -> Exchange {
        let (radio, sifs) = (self.radio(), Timing::new(self.standard, self.slot).sifs);
        let frame_bytes = bytes.saturating_add(MAC_OVERHEAD_BYTES);
        let control = self.control_rate();
        let protection = self.protection.filter(|_| !self.rate.is_dsss());
        let reserves = self.rts_threshold.is_some_and(|threshold| frame_bytes > threshold);
        let first = protection.unwrap_or(control);
        let lead = match (reserves, protection) {
            (true, _) => radio.frame(first, RTS_BYTES) + sifs + radio.frame(first, ACK_BYTES) + sifs,
            (false, Some(rate)) => radio.frame(rate, ACK_BYTES) + sifs,
            (false, None) => 0,
        };
        let arrives = lead + radio.frame(self.rate, frame_bytes);
        let ends = arrives + sifs + radio.frame(control, ACK_BYTES);
        // After a collision a station waits for the response for the time that the response would
        // take (10.3.2.3.7). With RTS that is the CTS, otherwise the ACK.
        Exchange { arrives, ends, collides: if reserves { lead - sifs } else { ends } }
    }
}

/// Times of a frame exchange, in ns after the station begins to send.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    /// End of the data frame.
    arrives: u64,
    /// End of the ACK frame.
    ends: u64,
    /// End of a collision, when both stations have detected it.
    collides: u64,
}

/// Times of a packet, in ns after the time at which its station may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Time until the packet arrives at the far end.
    pub(super) arrives: u64,
    /// Time until the station may send again: after the ACK, DIFS and the next back-off.
    pub(super) total: u64,
}

/// Parts of the airtime that are the same for all packets, computed once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    config: WifiConfig,
    timing: Timing,
    alone: Contention,
    both_ways: Contention,
}

impl Costs {
    pub(super) fn new(config: WifiConfig) -> Self {
        let timing = Timing::new(config.standard, config.slot);
        let stations = u32::from(config.stations.get());
        Self {
            config,
            timing,
            alone: Contention::among(stations, timing),
            both_ways: Contention::among(stations + 1, timing),
        }
    }

    /// Returns the airtime of a packet of `bytes` bytes. `contenders` is the number of stations of
    /// the simulation that have frames to send, at least 1. `draw` sets the back-off; `None`: the
    /// mean.
    ///
    /// No step overflows 64 bits: 2^32 bytes at 1 Mbit/s are 3.5e13 ns, the collisions of 256
    /// stations about double that, and the frames of 255 stations, repeated by the access point,
    /// multiply it by 510.
    pub(super) fn of(&self, bytes: usize, contenders: u32, draw: Option<u64>) -> Cost {
        let exchange = self.config.exchange(u32::try_from(bytes).unwrap_or(u32::MAX));
        let contention = match contenders {
            0 | 1 => self.alone,
            2 => self.both_ways,
            more => Contention::among(u32::from(self.config.stations.get()) - 1 + more, self.timing),
        };
        let difs = self.timing.difs();
        let collisions = (exchange.collides + difs) * contention.collisions / PER_MILLION;
        let idle = draw.map_or(contention.idle, |draw| self.drawn(contention.idle, draw));
        let turn = exchange.ends + collisions + difs + idle;
        let (first_hop, hops) = if self.config.via_access_point { (turn, 2) } else { (0, 1) };
        // Each other station sends one frame between two of ours. If several stations of the
        // simulation send, each has its share of that cost.
        let others = u64::from(self.config.stations.get()) - 1;
        let total = turn * hops;
        Cost {
            arrives: first_hop + exchange.arrives,
            total: total + total * others / u64::from(contenders.max(1)),
        }
    }

    /// Returns a back-off in ns that is uniform from 0 to `2 * mean`, in `cw_min` steps. Each step
    /// is a slot if there is no other station.
    fn drawn(&self, mean: u64, draw: u64) -> u64 {
        let window = u64::from(self.timing.cw_min);
        2 * mean * (draw % (window + 1)) / window
    }
}
