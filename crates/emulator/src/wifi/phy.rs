//! How long a frame is on the air, and the gaps around it.
//!
//! Owns the constants of the physical layers and the rounding of their durations. It knows nothing of which
//! frames follow each other. Clauses are those of IEEE Std 802.11-2020.

use std::fmt;
use std::time::Duration;

use crate::bitrate::Bitrate;

/// Which physical layer a station has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WifiStandard {
    /// 5 GHz, 6 to 54 Mbit/s: OFDM, clause 17.
    A,
    /// 2.4 GHz, 1 to 11 Mbit/s: HR/DSSS, clause 16, with the lower rates of clause 15.
    B,
    /// 2.4 GHz, all of these rates: ERP, clause 18.
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

/// A rate at which a frame's bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WifiRate(
    /// In units of 500 kbit/s, as the Supported Rates element counts (9.4.2.3).
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

    /// The rate of this speed, if there is one.
    pub fn of(bitrate: Bitrate) -> Option<Self> {
        Self::ALL.into_iter().find(|rate| rate.bitrate() == bitrate)
    }

    /// The speed.
    pub const fn bitrate(self) -> Bitrate {
        Bitrate::from_bps(self.0 as u64 * 500_000)
    }

    /// Whether it is one of 802.11b, which send a chip sequence a symbol; the others send OFDM.
    pub const fn is_dsss(self) -> bool {
        matches!(self, Self::MBPS_1 | Self::MBPS_2 | Self::MBPS_5_5 | Self::MBPS_11)
    }

    /// Whether every station that has rates of this kind must have this one (clauses 16 and 17).
    pub(super) const fn is_mandatory(self) -> bool {
        self.is_dsss() || matches!(self, Self::MBPS_6 | Self::MBPS_12 | Self::MBPS_24)
    }
}

impl fmt::Display for WifiRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bitrate().fmt(f)
    }
}

/// What comes before a frame of 802.11b.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preamble {
    /// Which everybody understands, and which a frame at 1 Mbit/s always has.
    #[default]
    Long,
    /// Half as long.
    Short,
}

/// The unit of waiting of 802.11g. The others have one only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SlotTime {
    /// 20 us, which a cell keeps as long as one station in it, or in one that overlaps, needs it (9.4.1.4).
    #[default]
    Long,
    /// 9 us.
    Short,
}

/// The gaps between frames, in ns, and the range of the back-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) slot: u64,
    pub(super) sifs: u64,
    /// `aCWmin`: the first back-off of a frame is a uniform number of slots from 0 to this.
    pub(super) cw_min: u32,
}

/// `aCWmax`, of all three.
pub(super) const CW_MAX: u32 = 1023;

impl Timing {
    /// From the tables of PHY characteristics of clauses 16, 17 and 18.
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

    /// 10.3.7: DIFS is SIFS and two slots.
    pub(super) const fn difs(self) -> u64 {
        self.sifs + 2 * self.slot
    }

    /// How often the range of the back-off doubles before it reaches `aCWmax` (10.3.3).
    pub(super) const fn stages(self) -> u32 {
        ((CW_MAX + 1) / (self.cw_min + 1)).ilog2()
    }
}

/// The radio of a station: what decides how long a frame takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Radio {
    pub(super) standard: WifiStandard,
    pub(super) preamble: Preamble,
}

impl Radio {
    /// How long a frame of `bytes` bytes, header and FCS included, is on the air, in ns.
    ///
    /// It fits: 2^32 bytes at 1 Mbit/s are 3.5e13 ns.
    pub(super) fn frame(self, rate: WifiRate, bytes: u32) -> u64 {
        if rate.is_dsss() { self.dsss(rate, bytes) } else { self.ofdm(rate, bytes) }
    }

    /// 16.3.4: preamble and header, and the bytes rounded up to a microsecond, as the header counts them.
    fn dsss(self, rate: WifiRate, bytes: u32) -> u64 {
        // 16.2.2: SYNC and SFD of 144 bits and a header of 48 at 1 Mbit/s; or 72 at 1 Mbit/s and 48 at 2.
        let head = match self.preamble {
            Preamble::Short if rate != WifiRate::MBPS_1 => 72 + 24,
            _ => 144 + 48,
        };
        (head + (u64::from(bytes) * 16).div_ceil(rate.0.into())) * NS_PER_US
    }

    /// 17.4.3 and, with the signal extension, the same of clause 18.
    fn ofdm(self, rate: WifiRate, bytes: u32) -> u64 {
        /// The preamble, and one symbol for SIGNAL (17.3.2).
        const HEAD: u64 = 16 + 4;
        const SYMBOL: u64 = 4;
        /// SERVICE before the bytes and tail bits after them (17.3.5.2, 17.3.5.3).
        const EXTRA_BITS: u64 = 16 + 6;
        /// Silence after a frame in the 2.4 GHz band, for the decoder, where SIFS is shorter (10.3.8).
        const SIGNAL_EXTENSION: u64 = 6;

        // A symbol of 4 us carries 2 bits for each unit of 500 kbit/s (Table 17-4).
        let symbols = (EXTRA_BITS + u64::from(bytes) * 8).div_ceil(u64::from(rate.0) * 2);
        let extension = if self.standard == WifiStandard::G { SIGNAL_EXTENSION } else { 0 };
        (HEAD + symbols * SYMBOL + extension) * NS_PER_US
    }
}

/// A time in ns.
pub(super) const fn duration(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// Nanoseconds in a microsecond.
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
    fn an_acknowledgement_takes_what_the_textbooks_say() {
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
    fn the_preamble_of_one_megabit_is_always_long() {
        for preamble in [Preamble::Long, Preamble::Short] {
            assert_eq!(micros(WifiStandard::G, preamble, WifiRate::MBPS_1, 1), 200);
        }
    }

    #[test]
    fn a_last_symbol_is_sent_whole() {
        // 216 bits a symbol at 54 Mbit/s: 22 and 24 bytes fill one but for two bits.
        let ofdm = |bytes| micros(WifiStandard::A, Preamble::Long, WifiRate::MBPS_54, bytes);
        assert_eq!([ofdm(24), ofdm(25)], [24, 28]);
        // 8/11 us a byte: 11 bytes are 8 us, one more is a whole microsecond.
        let dsss = |bytes| micros(WifiStandard::B, Preamble::Long, WifiRate::MBPS_11, bytes);
        assert_eq!([dsss(11), dsss(12)], [200, 201]);
    }

    #[test]
    fn the_gaps_are_those_of_the_standards() {
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
