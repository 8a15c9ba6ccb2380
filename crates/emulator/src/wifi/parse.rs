//! Text form of an 802.11 cell: `wifi-g`, `wifi-b:rate=5.5mbit,preamble=short,rts,via-ap`.

use std::num::NonZeroU8;
use std::str::FromStr;

use super::config::{BackOff, WifiConfig};
use super::phy::{Preamble, SlotTime, WifiRate, WifiStandard};
use crate::units::{UnitError, parse_bitrate, parse_bytes};

/// Why a text or a configuration is not a valid 802.11 cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WifiError {
    /// The text does not begin with a standard.
    #[error(
        "'{input}' is not an 802.11 cell: write wifi-a, wifi-b or wifi-g, with options after a colon, as in \
         wifi-b:preamble=short,rts"
    )]
    UnknownCell {
        /// The text as given.
        input: String,
    },
    /// An option does not exist.
    #[error(
        "'{word}' is not an option of an 802.11 cell: the options are rate=, basic=, preamble=, slot=, rts, \
         protection, stations=, via-ap and backoff="
    )]
    UnknownWord {
        /// The option as given.
        word: String,
    },
    /// An option has a value that does not exist for it.
    #[error("'{word}' is not {expected}")]
    BadValue {
        /// The option as given.
        word: String,
        /// The valid values of the option, with examples.
        expected: &'static str,
    },
    /// The value of an option is not a valid quantity.
    #[error("in '{word}': {source}")]
    BadQuantity {
        /// The option as given.
        word: String,
        /// The error in the value.
        source: UnitError,
    },
    /// An option is given twice.
    #[error("'{word}' repeats an option")]
    Twice {
        /// The second occurrence of the option.
        word: String,
    },
    /// The standard does not have the configured rate.
    #[error("{standard} has no rate of {rate}: {}", rates(*standard))]
    NoSuchRate {
        /// The configured standard.
        standard: WifiStandard,
        /// The rate that the standard does not have.
        rate: WifiRate,
    },
    /// The standard does not have a configured option.
    #[error("{standard} has no {what}")]
    NotThere {
        /// The configured standard.
        standard: WifiStandard,
        /// The option that the standard does not have.
        what: &'static str,
    },
    /// The rate of protection is not an 802.11b rate.
    #[error(
        "stations of 802.11b do not understand protection at {rate}: it is sent at 1, 2, 5.5 or 11 Mbit/s"
    )]
    NoProtection {
        /// The configured rate of protection.
        rate: WifiRate,
    },
}

const fn rates(standard: WifiStandard) -> &'static str {
    match standard {
        WifiStandard::A => "it has 6, 9, 12, 18, 24, 36, 48 and 54 Mbit/s",
        WifiStandard::B => "it has 1, 2, 5.5 and 11 Mbit/s",
        WifiStandard::G => "it has 1, 2, 5.5, 6, 9, 11, 12, 18, 24, 36, 48 and 54 Mbit/s",
    }
}

/// Parses the name of a standard and options that change its default settings:
///
/// | option | sets |
/// |------|---------|
/// | `rate=11mbit` | [`WifiConfig::rate`] |
/// | `basic=2mbit` | [`WifiConfig::basic_rate`] |
/// | `preamble=long`, `preamble=short` | [`WifiConfig::preamble`] |
/// | `slot=long`, `slot=short` | [`WifiConfig::slot`] |
/// | `rts`, `rts=1000` | [`WifiConfig::rts_threshold`], without a number for all frames |
/// | `protection`, `protection=2mbit` | [`WifiConfig::protection`], by default at 11 Mbit/s |
/// | `stations=2` | [`WifiConfig::stations`], from 1 to 255 |
/// | `via-ap` | [`WifiConfig::via_access_point`] |
/// | `backoff=mean`, `backoff=drawn` | [`WifiConfig::back_off`] |
///
/// Letter case is ignored.
impl FromStr for WifiConfig {
    type Err = WifiError;

    fn from_str(input: &str) -> Result<Self, WifiError> {
        let text = input.trim().to_ascii_lowercase();
        let (name, words) = text.split_once(':').unwrap_or((&text, ""));
        let mut cell = match name.trim_end() {
            "wifi-a" => Self::a(),
            "wifi-b" => Self::b(),
            "wifi-g" => Self::g(),
            _ => return Err(WifiError::UnknownCell { input: input.to_owned() }),
        };
        let mut said = Vec::new();
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
            if said.contains(&key) {
                return Err(WifiError::Twice { word: word.to_owned() });
            }
            said.push(key);
            cell.set(&Word { whole: word, key, value })?;
        }
        cell.check()?;
        Ok(cell)
    }
}

impl WifiConfig {
    fn set(&mut self, word: &Word<'_>) -> Result<(), WifiError> {
        match (word.key, word.value) {
            ("rate", Some(value)) => self.rate = word.rate(value)?,
            ("basic", Some(value)) => self.basic_rate = word.rate(value)?,
            ("preamble", Some("long")) => self.preamble = Preamble::Long,
            ("preamble", Some("short")) => self.preamble = Preamble::Short,
            ("preamble", _) => return Err(word.bad("preamble=long or preamble=short")),
            ("slot", Some("long")) => self.slot = SlotTime::Long,
            ("slot", Some("short")) => self.slot = SlotTime::Short,
            ("slot", _) => return Err(word.bad("slot=long (20 us) or slot=short (9 us)")),
            ("rts", None) => self.rts_threshold = Some(0),
            ("rts", Some(value)) => self.rts_threshold = Some(word.bytes(value)?),
            ("protection", None) => self.protection = Some(WifiRate::MBPS_11),
            ("protection", Some(value)) => self.protection = Some(word.rate(value)?),
            ("stations", value) => {
                let stations = value.and_then(|value| value.parse::<NonZeroU8>().ok());
                self.stations = stations
                    .ok_or_else(|| word.bad("a number of stations from 1 to 255, as in stations=2"))?;
            }
            ("via-ap", None) => self.via_access_point = true,
            ("backoff", Some("mean")) => self.back_off = BackOff::Mean,
            ("backoff", Some("drawn")) => self.back_off = BackOff::Drawn,
            ("backoff", _) => return Err(word.bad("backoff=mean or backoff=drawn")),
            ("rate" | "basic", None) => return Err(word.bad("a rate, as in rate=11mbit or basic=2mbit")),
            _ => return Err(WifiError::UnknownWord { word: word.whole.to_owned() }),
        }
        Ok(())
    }
}

struct Word<'a> {
    whole: &'a str,
    key: &'a str,
    value: Option<&'a str>,
}

impl Word<'_> {
    fn rate(&self, value: &str) -> Result<WifiRate, WifiError> {
        let bitrate = parse_bitrate(value).map_err(|source| self.no_quantity(source))?;
        WifiRate::of(bitrate).ok_or_else(|| {
            self.bad("a rate of 802.11: 1, 2, 5.5, 6, 9, 11, 12, 18, 24, 36, 48 or 54 Mbit/s, as in 11mbit")
        })
    }

    fn bytes(&self, value: &str) -> Result<u32, WifiError> {
        let bytes = parse_bytes(value).map_err(|source| self.no_quantity(source))?;
        u32::try_from(bytes).map_err(|_| self.bad("a threshold below 4 GiB, as in rts=1000"))
    }

    fn bad(&self, expected: &'static str) -> WifiError {
        WifiError::BadValue { word: self.whole.to_owned(), expected }
    }

    fn no_quantity(&self, source: UnitError) -> WifiError {
        WifiError::BadQuantity { word: self.whole.to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(input: &str) -> String {
        input.parse::<WifiConfig>().expect_err(input).to_string()
    }

    #[test]
    fn name_alone_gives_default_cell() {
        assert_eq!("wifi-a".parse(), Ok(WifiConfig::a()));
        assert_eq!(" WiFi-B ".parse(), Ok(WifiConfig::b()));
        assert_eq!("wifi-g:".parse(), Ok(WifiConfig::g()));
    }

    #[test]
    fn each_option_changes_one_field() {
        let read = "wifi-b:rate=5.5mbit, basic=2mbit,preamble=short,rts=1000,stations=3,via-ap,backoff=drawn";
        let expected = WifiConfig {
            rate: WifiRate::MBPS_5_5,
            basic_rate: WifiRate::MBPS_2,
            preamble: Preamble::Short,
            rts_threshold: Some(1_000),
            stations: NonZeroU8::new(3).unwrap(),
            via_access_point: true,
            back_off: BackOff::Drawn,
            ..WifiConfig::b()
        };
        assert_eq!(read.parse(), Ok(expected));

        let (slot, protection) = (SlotTime::Short, Some(WifiRate::MBPS_11));
        let expected = WifiConfig { slot, protection, rts_threshold: Some(0), ..WifiConfig::g() };
        assert_eq!("wifi-g:slot=short,protection,rts".parse(), Ok(expected));
        assert_eq!("wifi-g:slot=short,protection=11mbit,rts=0".parse(), Ok(expected));
    }

    #[test]
    fn errors_quote_option_and_name_fix() {
        assert!(
            error("wifi-n").starts_with("'wifi-n' is not an 802.11 cell: write wifi-a, wifi-b or wifi-g")
        );
        assert!(
            error("wifi-b:fast")
                .starts_with("'fast' is not an option of an 802.11 cell: the options are rate=")
        );
        assert!(error("wifi-b:via-ap=2").starts_with("'via-ap=2' is not an option"));
        assert_eq!(
            error("wifi-b:rate=11"),
            "in 'rate=11': '11' has no unit: write 11bit or 11kbit or 11mbit or 11gbit"
        );
        assert!(error("wifi-b:rate=10mbit").starts_with("'rate=10mbit' is not a rate of 802.11: 1, 2, 5.5"));
        assert!(error("wifi-b:rate").starts_with("'rate' is not a rate, as in"));
        assert_eq!(error("wifi-b:preamble=tiny"), "'preamble=tiny' is not preamble=long or preamble=short");
        assert!(error("wifi-b:stations=0").starts_with("'stations=0' is not a number of stations"));
        assert!(error("wifi-b:stations=256").starts_with("'stations=256' is not a number of stations"));
        assert!(error("wifi-b:rts=5gib").contains("below 4 GiB"));
        assert_eq!(error("wifi-b:rts,rts=5"), "'rts=5' repeats an option");
    }

    #[test]
    fn options_of_other_standards_are_refused() {
        assert_eq!(
            error("wifi-b:rate=54mbit"),
            "802.11b has no rate of 54 Mbit/s: it has 1, 2, 5.5 and 11 Mbit/s"
        );
        assert!(error("wifi-a:basic=2mbit").starts_with("802.11a has no rate of 2 Mbit/s"));
        assert_eq!(error("wifi-a:preamble=short"), "802.11a has no short preamble");
        assert_eq!(error("wifi-a:slot=short"), "802.11a has no choice of slots");
        assert_eq!(error("wifi-b:protection"), "802.11b has no protection");
        assert!(error("wifi-g:protection=6mbit").contains("do not understand protection at 6 Mbit/s"));
    }
}
