//! Physical layers of 802.11: the airtime of a frame, and the gaps between frames.
//!
//! Clause numbers refer to IEEE Std 802.11-2020.

use std::fmt;
use std::time::Duration;

use crate::bitrate::Bitrate;

/// Physical layer of an 802.11 cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WifiStandard {
    /// 5 GHz, 6 to 54 Mbit/s: OFDM, clause 17.
    A,
    /// 2.4 GHz, 1 to 11 Mbit/s: HR/DSSS, clause 16, with the lower rates of clause 15.
    B,
    /// 2.4 GHz, all rates of 802.11a and 802.11b: ERP, clause 18.
    G,
}

impl fmt::Display for WifiStandard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::A => "802.11a",
            Self::B => "802.11b",
            Self::G => "802.11g",
        })
    }
}

/// Bit rate of an 802.11 frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WifiRate(
    /// In units of 500 kbit/s, as in the Supported Rates element (9.4.2.3).
    u8,
);

impl WifiRate {
    /// 1 Mbit/s.
    pub const MBPS_1: Self = Self(2);
    /// 2 Mbit/s.
    pub const MBPS_2: Self = Self(4);
    /// 5.5 Mbit/s.
    pub const MBPS_5_5: Self = Self(11);
    /// 6 Mbit/s.
    pub const MBPS_6: Self = Self(12);
    /// 9 Mbit/s.
    pub const MBPS_9: Self = Self(18);
    /// 11 Mbit/s.
    pub const MBPS_11: Self = Self(22);
    /// 12 Mbit/s.
    pub const MBPS_12: Self = Self(24);
    /// 18 Mbit/s.
    pub const MBPS_18: Self = Self(36);
    /// 24 Mbit/s.
    pub const MBPS_24: Self = Self(48);
    /// 36 Mbit/s.
    pub const MBPS_36: Self = Self(72);
    /// 48 Mbit/s.
    pub const MBPS_48: Self = Self(96);
    /// 54 Mbit/s.
    pub const MBPS_54: Self = Self(108);

    /// All rates, slowest first.
    pub const ALL: [Self; 12] = [
        Self::MBPS_1,
        Self::MBPS_2,
        Self::MBPS_5_5,
        Self::MBPS_6,
        Self::MBPS_9,
        Self::MBPS_11,
        Self::MBPS_12,
        Self::MBPS_18,
        Self::MBPS_24,
        Self::MBPS_36,
        Self::MBPS_48,
        Self::MBPS_54,
    ];

    /// Returns the 802.11 rate that equals `bitrate`, or `None` if there is none.
    pub fn of(bitrate: Bitrate) -> Option<Self> {
        Self::ALL.into_iter().find(|rate| rate.bitrate() == bitrate)
    }

    /// Returns the rate in bits per second.
    pub const fn bitrate(self) -> Bitrate {
        Bitrate::from_bps(self.0 as u64 * 500_000)
    }

    /// Returns whether this is a DSSS rate of 802.11b. All other rates are OFDM.
    pub const fn is_dsss(self) -> bool {
        matches!(self, Self::MBPS_1 | Self::MBPS_2 | Self::MBPS_5_5 | Self::MBPS_11)
    }

    /// Returns whether the rate is mandatory for DSSS (clause 16) or OFDM stations (clause 17).
    pub(super) const fn is_mandatory(self) -> bool {
        self.is_dsss() || matches!(self, Self::MBPS_6 | Self::MBPS_12 | Self::MBPS_24)
    }
}

impl fmt::Display for WifiRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bitrate().fmt(f)
    }
}

/// Physical-layer preamble of frames at 802.11b rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preamble {
    /// Long preamble, which every station supports. Frames at 1 Mbit/s always have it.
    #[default]
    Long,
    /// Short preamble, which takes half the time of the long one.
    Short,
}

/// Slot time of 802.11g. 802.11a and 802.11b have fixed slot times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SlotTime {
    /// 20 us, required while a station in this cell or an overlapping one needs it (9.4.1.4).
    #[default]
    Long,
    /// 9 us.
    Short,
}

/// Gaps between frames, in ns, and the range of the random back-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) slot: u64,
    pub(super) sifs: u64,
    /// `aCWmin`: the first back-off of a frame is uniform from 0 to this number of slots.
    pub(super) cw_min: u32,
}

/// `aCWmax` of all three standards: the largest back-off, in slots.
pub(super) const CW_MAX: u32 = 1023;

impl Timing {
    /// Returns the values of the tables of PHY characteristics in clauses 16, 17 and 18.
    pub(super) const fn new(standard: WifiStandard, slot: SlotTime) -> Self {
        match (standard, slot) {
            (WifiStandard::A, _) => Self { slot: 9 * NS_PER_US, sifs: 16 * NS_PER_US, cw_min: 15 },
            (WifiStandard::B, _) => Self { slot: 20 * NS_PER_US, sifs: 10 * NS_PER_US, cw_min: 31 },
            (WifiStandard::G, SlotTime::Long) => {
                Self { slot: 20 * NS_PER_US, sifs: 10 * NS_PER_US, cw_min: 15 }
            }
            (WifiStandard::G, SlotTime::Short) => {
                Self { slot: 9 * NS_PER_US, sifs: 10 * NS_PER_US, cw_min: 15 }
            }
        }
    }

    /// Returns DIFS in ns: SIFS and two slots (10.3.7).
    pub(super) const fn difs(self) -> u64 {
        self.sifs + 2 * self.slot
    }

    /// Returns how often the range of the back-off doubles from `aCWmin` to `aCWmax` (10.3.3).
    pub(super) const fn stages(self) -> u32 {
        ((CW_MAX + 1) / (self.cw_min + 1)).ilog2()
    }
}

/// Settings of a station that, with rate and length, determine the airtime of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Radio {
    pub(super) standard: WifiStandard,
    pub(super) preamble: Preamble,
}

impl Radio {
    /// Returns the airtime, in ns, of a frame of `bytes` bytes including MAC header and FCS.
    ///
    /// It fits in 64 bits: 2^32 bytes at 1 Mbit/s are 3.5e13 ns.
    pub(super) fn frame(self, rate: WifiRate, bytes: u32) -> u64 {
        if rate.is_dsss() { self.dsss(rate, bytes) } else { self.ofdm(rate, bytes) }
    }

    /// Returns the airtime of a DSSS frame, in ns. The airtime of its bytes is rounded up to a
    /// microsecond (16.3.4).
    fn dsss(self, rate: WifiRate, bytes: u32) -> u64 {
        self.head(rate) + (u64::from(bytes) * 16).div_ceil(rate.0.into()) * NS_PER_US
    }

    /// Returns the airtime of the preamble and of the header of the physical layer, in ns.
    pub(super) fn head(self, rate: WifiRate) -> u64 {
        /// Microseconds of the OFDM preamble and of the SIGNAL symbol (17.3.2).
        const OFDM: u64 = 16 + 4;

        // In microseconds. Long: preamble of 144 bits and header of 48 bits at 1 Mbit/s. Short:
        // preamble of 72 bits at 1 Mbit/s and header of 48 bits at 2 Mbit/s (16.2.2).
        let head = match self.preamble {
            _ if !rate.is_dsss() => OFDM,
            Preamble::Short if rate != WifiRate::MBPS_1 => 72 + 24,
            _ => 144 + 48,
        };
        head * NS_PER_US
    }

    /// Returns the airtime of an OFDM frame, in ns (17.4.3; 802.11g adds the signal extension of
    /// clause 18).
    fn ofdm(self, rate: WifiRate, bytes: u32) -> u64 {
        const SYMBOL: u64 = 4;
        /// Bits of the SERVICE field and tail bits (17.3.5.2, 17.3.5.3).
        const EXTRA_BITS: u64 = 16 + 6;
        /// Microseconds without a signal after a frame at 2.4 GHz: more time for the decoder,
        /// because SIFS is shorter there (10.3.8).
        const SIGNAL_EXTENSION: u64 = 6;

        // A symbol of 4 us carries 2 data bits for each 500 kbit/s of the rate (table 17-4).
        let symbols = (EXTRA_BITS + u64::from(bytes) * 8).div_ceil(u64::from(rate.0) * 2);
        let extension = if self.standard == WifiStandard::G { SIGNAL_EXTENSION } else { 0 };
        self.head(rate) + (symbols * SYMBOL + extension) * NS_PER_US
    }
}

pub(super) const fn duration(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

pub(super) const NS_PER_US: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(standard: WifiStandard, preamble: Preamble, rate: WifiRate, bytes: u32) -> u64 {
        let nanos = Radio { standard, preamble }.frame(rate, bytes);
        assert_eq!(nanos % NS_PER_US, 0);
        nanos / NS_PER_US
    }

    #[test]
    fn ack_airtime_matches_textbook() {
        let ack = |standard, preamble, rate| micros(standard, preamble, rate, 14);
        assert_eq!(ack(WifiStandard::B, Preamble::Long, WifiRate::MBPS_1), 304);
        assert_eq!(ack(WifiStandard::B, Preamble::Long, WifiRate::MBPS_2), 248);
        assert_eq!(ack(WifiStandard::B, Preamble::Short, WifiRate::MBPS_2), 152);
        assert_eq!(ack(WifiStandard::A, Preamble::Long, WifiRate::MBPS_6), 44);
        assert_eq!(ack(WifiStandard::A, Preamble::Long, WifiRate::MBPS_12), 32);
        assert_eq!(ack(WifiStandard::A, Preamble::Long, WifiRate::MBPS_24), 28);
        assert_eq!(ack(WifiStandard::G, Preamble::Long, WifiRate::MBPS_24), 34);
    }

    #[test]
    fn one_megabit_preamble_is_always_long() {
        for preamble in [Preamble::Long, Preamble::Short] {
            assert_eq!(micros(WifiStandard::G, preamble, WifiRate::MBPS_1, 1), 200);
        }
    }

    #[test]
    fn a_last_symbol_is_sent_whole() {
        // A symbol at 54 Mbit/s carries 216 bits: 22 bits and 24 bytes fill it up to 2 bits.
        let ofdm = |bytes| micros(WifiStandard::A, Preamble::Long, WifiRate::MBPS_54, bytes);
        assert_eq!([ofdm(24), ofdm(25)], [24, 28]);
        // A byte takes 8/11 us, so 11 bytes take 8 us. A 12th byte is rounded up to a microsecond.
        let dsss = |bytes| micros(WifiStandard::B, Preamble::Long, WifiRate::MBPS_11, bytes);
        assert_eq!([dsss(11), dsss(12)], [200, 201]);
    }

    #[test]
    fn gaps_are_those_of_the_standards() {
        let gaps = |standard, slot| {
            let timing = Timing::new(standard, slot);
            (timing.difs() / NS_PER_US, timing.cw_min, timing.stages())
        };
        assert_eq!(gaps(WifiStandard::A, SlotTime::Long), (34, 15, 6));
        assert_eq!(gaps(WifiStandard::B, SlotTime::Short), (50, 31, 5));
        assert_eq!(gaps(WifiStandard::G, SlotTime::Long), (50, 15, 6));
        assert_eq!(gaps(WifiStandard::G, SlotTime::Short), (28, 15, 6));
    }

    #[test]
    fn rates_are_found_by_their_speed() {
        for rate in WifiRate::ALL {
            assert_eq!(WifiRate::of(rate.bitrate()), Some(rate));
        }
        assert_eq!(WifiRate::of(Bitrate::from_bps(10_000_000)), None);
        assert_eq!(WifiRate::MBPS_5_5.to_string(), "5.5 Mbit/s");
        assert!(WifiRate::ALL.is_sorted());
    }
}
