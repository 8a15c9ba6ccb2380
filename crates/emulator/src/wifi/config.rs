//! Settings of an 802.11 cell, and the airtime of a packet in it.
//!
//! Clauses are those of IEEE Std 802.11-2020.

use std::num::NonZeroU8;
use std::time::Duration;

use super::WifiError;
use super::contention::{Contention, PER_MILLION};
use super::phy::{Preamble, Radio, SlotTime, Timing, WifiRate, WifiStandard, duration};
use crate::bitrate::Bitrate;

/// An 802.11 cell through which a link sends.
///
/// [`WifiConfig::a`], [`b`](Self::b) and [`g`](Self::g) are cells of one station and its access
/// point without transmission errors. [`str::parse`] reads them with options, as in
/// `wifi-b:preamble=short,stations=2`.
///
/// ```
/// use rdt_emulator::WifiConfig;
///
/// // UDP payload of saturated cells in Mbit/s: datagrams of 1470 bytes, which are packets of 1498.
/// let saturated = |cell: WifiConfig| 1470.0 * 8.0 / cell.airtime(1498).as_secs_f64() / 1e6;
/// assert_eq!(format!("{:.2}", saturated(WifiConfig::b())), "6.25");
/// assert_eq!(format!("{:.2}", saturated(WifiConfig::g())), "23.61");
/// assert_eq!(format!("{:.2}", saturated("wifi-g:slot=short".parse()?)), "29.89");
/// # Ok::<(), rdt_emulator::WifiError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WifiConfig {
    /// The physical layer.
    pub standard: WifiStandard,
    /// The rate of data frames.
    pub rate: WifiRate,
    /// The highest basic rate: ACK, RTS and CTS, which all stations must receive, are sent at the
    /// highest mandatory rate that is neither above this nor above `rate` (10.6.6.5).
    pub basic_rate: WifiRate,
    /// The preamble of frames at 802.11b rates.
    pub preamble: Preamble,
    /// The slot time of 802.11g.
    pub slot: SlotTime,
    /// Data frames longer than this, in bytes with header and FCS, are preceded by RTS and CTS.
    pub rts_threshold: Option<u32>,
    /// The rate of the CTS-to-self before each OFDM frame, which keeps 802.11b stations from
    /// sending (the protection mechanism for non-ERP receivers). An RTS is sent at this rate
    /// instead, if there is one.
    pub protection: Option<WifiRate>,
    /// Saturated stations, this one included, with frames as long as ours.
    pub stations: NonZeroU8,
    /// True if the far end is a station too, so that the access point sends each frame a second
    /// time.
    pub via_access_point: bool,
    /// The back-off before each frame.
    pub back_off: BackOff,
}

/// Back-off of a station.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackOff {
    /// Always the mean.
    #[default]
    Mean,
    /// Uniform from zero to twice the mean, in as many steps as the contention window has.
    Drawn,
}

/// Bytes around an IP packet: the header with three addresses and the FCS (9.3.2.1), and LLC with
/// SNAP (RFC 1042).
pub(super) const MAC_OVERHEAD_BYTES: u32 = 24 + 4 + LLC_SNAP_BYTES;

/// The largest MSDU in bytes, LLC and SNAP included (9.2.3, table 9-25).
const MAX_MSDU_BYTES: u32 = 2_304;
/// Bytes of LLC (IEEE Std 802.2: 3) and SNAP (IEEE Std 802: 5).
const LLC_SNAP_BYTES: u32 = 8;

/// Bytes of ACK and CTS (9.3.1.3, 9.3.1.4).
const ACK_BYTES: u32 = 14;
/// Bytes of RTS (9.3.1.2).
const RTS_BYTES: u32 = 20;

impl WifiConfig {
    /// 802.11a at 54 Mbit/s.
    pub const fn a() -> Self {
        Self::new(WifiStandard::A, WifiRate::MBPS_54, WifiRate::MBPS_24)
    }

    /// 802.11b at 11 Mbit/s, with ACKs at 11 Mbit/s and the long preamble that every station
    /// supports.
    pub const fn b() -> Self {
        Self::new(WifiStandard::B, WifiRate::MBPS_11, WifiRate::MBPS_11)
    }

    /// 802.11g at 54 Mbit/s. The cell admits 802.11b stations, so it has the long slot, but none is
    /// present, so there is no protection.
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
        }
    }

    /// The longest IP packet that one frame carries, in bytes. It limits the link's
    /// [`Mtu`](crate::Mtu).
    pub const MTU: u32 = MAX_MSDU_BYTES - LLC_SNAP_BYTES;

    /// Returns whether such a cell can exist.
    pub fn check(&self) -> Result<(), WifiError> {
        let standard = self.standard;
        for rate in [self.rate, self.basic_rate] {
            let exists = match standard {
                WifiStandard::A => !rate.is_dsss(),
                WifiStandard::B => rate.is_dsss(),
                WifiStandard::G => true,
            };
            if !exists {
                return Err(WifiError::NoSuchRate { standard, rate });
            }
        }
        let only_elsewhere = [
            (standard == WifiStandard::A && self.preamble == Preamble::Short, "short preamble"),
            (standard != WifiStandard::G && self.slot == SlotTime::Short, "choice of slots"),
            (standard != WifiStandard::G && self.protection.is_some(), "protection"),
        ];
        if let Some((_, what)) = only_elsewhere.into_iter().find(|(meant, _)| *meant) {
            return Err(WifiError::NotThere { standard, what });
        }
        match self.protection {
            Some(rate) if !rate.is_dsss() => Err(WifiError::NoProtection { rate }),
            _ => Ok(()),
        }
    }

    /// Airtime of a packet of `bytes` bytes in a saturated cell: DIFS, back-off, RTS and CTS if
    /// used, the frame, SIFS and ACK. The turns of other stations and of the access point are
    /// included.
    ///
    /// A fragment counts as a packet. Packets over 4 GiB count as 4 GiB.
    pub fn airtime(&self, bytes: usize) -> Duration {
        let cost = Costs::new(*self).of(bytes, Contenders::OneWay, None);
        duration(cost.total)
    }

    /// The rate at which packets of `bytes` bytes pass a saturated cell.
    pub fn throughput(&self, bytes: usize) -> Bitrate {
        let bits = bytes as u128 * 8 * 1_000_000_000;
        let rate = bits / self.airtime(bytes).as_nanos().max(1);
        Bitrate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn radio(&self) -> Radio {
        Radio { standard: self.standard, preamble: self.preamble }
    }

    /// The rate of ACK, RTS and CTS.
    fn control_rate(&self) -> WifiRate {
        let limit = self.rate.min(self.basic_rate);
        let usable = |rate: &WifiRate| {
            rate.is_mandatory()
                && *rate <= limit
                && (self.standard == WifiStandard::G || rate.is_dsss() == limit.is_dsss())
        };
        WifiRate::ALL.into_iter().rev().find(usable).unwrap_or(limit)
    }

    /// The frames that carry a packet of `bytes` bytes.
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
        // After a collision a station waits for the response as long as that would take
        // (10.3.2.3.7): with RTS, for the CTS only.
        Exchange { arrives, ends, collides: if reserves { lead - sifs } else { ends } }
    }
}

/// Times in ns after a station begins to send.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    /// End of the data frame.
    arrives: u64,
    /// End of the acknowledgement.
    ends: u64,
    /// End of a collision, when both stations have noticed it.
    collides: u64,
}

/// True if the other direction of the path sends too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contenders {
    OneWay,
    BothWays,
}

/// Costs of a packet, in ns from the time at which its station may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Until the packet has arrived.
    pub(super) arrives: u64,
    /// Until the station may send again: with the acknowledgement, DIFS and the next back-off.
    pub(super) total: u64,
}

/// The costs in a cell that are known beforehand.
#[derive(Debug, Clone)]
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

    /// The cost of a packet of `bytes` bytes. `draw` determines the back-off if it is drawn.
    ///
    /// No step overflows: 2^32 bytes at 1 Mbit/s are 3.5e13 ns, collisions of 256 stations take
    /// about as long again, and 255 stations have such a turn twice.
    pub(super) fn of(&self, bytes: usize, contenders: Contenders, draw: Option<u64>) -> Cost {
        let exchange = self.config.exchange(u32::try_from(bytes).unwrap_or(u32::MAX));
        let (contention, ours) = match contenders {
            Contenders::OneWay => (self.alone, 1),
            Contenders::BothWays => (self.both_ways, 2),
        };
        let difs = self.timing.difs();
        let collisions = (exchange.collides + difs) * contention.collisions / PER_MILLION;
        let idle = draw.map_or(contention.idle, |draw| self.drawn(contention.idle, draw));
        let turn = exchange.ends + collisions + difs + idle;
        let (first_hop, hops) = if self.config.via_access_point { (turn, 2) } else { (0, 1) };
        // Each other station has one turn between two of ours. If both directions send, two of ours
        // share it.
        let others = u64::from(self.config.stations.get()) - 1;
        let total = turn * hops;
        Cost { arrives: first_hop + exchange.arrives, total: total + total * others / ours }
    }

    /// A back-off between zero and twice the mean, uniform in steps of a slot if no other station
    /// sends.
    fn drawn(&self, mean: u64, draw: u64) -> u64 {
        let window = u64::from(self.timing.cw_min);
        2 * mean * (draw % (window + 1)) / window
    }
}
