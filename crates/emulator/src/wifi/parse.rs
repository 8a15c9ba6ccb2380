//! Text form of an 802.11 cell: `wifi-g`, `wifi-b:rate=5.5mbit,preamble=short,rts,via-ap`, or with
//! a bit rate in steps: `wifi-a:rate=0s:54mbit+10s:24mbit`.

use std::num::NonZeroU8;
use std::str::FromStr;
use std::time::Duration;

use super::config::{BackOff, WifiConfig};
use super::phy::{Preamble, SlotTime, WifiRate, WifiStandard};
use crate::schedule::Schedule;
use crate::units::{NotationError, UnitError, parse_bitrate, parse_bytes, parse_duration};

pub(super) const fn rates(standard: WifiStandard) -> &'static str {
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
/// | `shared` | [`WifiConfig::shared`] |
///
/// Letter case is ignored. A bit rate in steps is an error; see `Schedule<WifiConfig>`.
impl FromStr for WifiConfig {
    type Err = NotationError;

    fn from_str(input: &str) -> Result<Self, NotationError> {
        let cells: Schedule<Self> = input.parse()?;
        if cells.is_constant() {
            Ok(cells.at(Duration::ZERO))
        } else {
            Err(NotationError(format!("'{input}' is not a cell with a single bit rate")))
        }
    }
}

/// Parses a cell, as [`WifiConfig`] does, with a bit rate that can change in steps:
/// `wifi-a:rate=0s:54mbit+10s:24mbit,rts`. A plus sign separates the steps, because a comma
/// separates the options. Each step has the time from which it holds, later than the step before
/// it; the first may do without.
impl FromStr for Schedule<WifiConfig> {
    type Err = NotationError;

    fn from_str(input: &str) -> Result<Self, NotationError> {
        let text = input.trim().to_ascii_lowercase();
        let (name, options) = text.split_once(':').unwrap_or((&text, ""));
        let mut cell = match name.trim_end() {
            "wifi-a" => WifiConfig::a(),
            "wifi-b" => WifiConfig::b(),
            "wifi-g" => WifiConfig::g(),
            _ => {
                return Err(NotationError(format!(
                    "'{input}' is not an 802.11 cell: write wifi-a, wifi-b or wifi-g, with options after a \
                     colon, as in wifi-b:preamble=short,rts"
                )));
            }
        };
        let mut changes = Vec::new();
        let mut said = Vec::new();
        for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            let (key, value) =
                option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
            if said.contains(&key) {
                return Err(NotationError(format!("'{option}' repeats an option")));
            }
            said.push(key);
            let option = CellOption { whole: option, key, value };
            if let ("rate", Some(value)) = (key, value) {
                (cell.rate, changes) = option.rates(value)?;
            } else {
                cell.set(&option)?;
            }
        }
        let changes = changes.into_iter().map(|(at, rate)| (at, WifiConfig { rate, ..cell }));
        let cells = Self::new(cell, changes);
        cells.values().try_for_each(|cell| cell.check())?;
        Ok(cells)
    }
}

impl WifiConfig {
    /// Sets an option other than the bit rate.
    fn set(&mut self, option: &CellOption<'_>) -> Result<(), NotationError> {
        match (option.key, option.value) {
            ("basic", Some(value)) => self.basic_rate = option.rate(value)?,
            ("preamble", Some("long")) => self.preamble = Preamble::Long,
            ("preamble", Some("short")) => self.preamble = Preamble::Short,
            ("preamble", _) => return Err(option.bad("preamble=long or preamble=short")),
            ("slot", Some("long")) => self.slot = SlotTime::Long,
            ("slot", Some("short")) => self.slot = SlotTime::Short,
            ("slot", _) => return Err(option.bad("slot=long (20 us) or slot=short (9 us)")),
            ("rts", None) => self.rts_threshold = Some(0),
            ("rts", Some(value)) => self.rts_threshold = Some(option.bytes(value)?),
            ("protection", None) => self.protection = Some(WifiRate::MBPS_11),
            ("protection", Some(value)) => self.protection = Some(option.rate(value)?),
            ("stations", value) => {
                let stations = value.and_then(|value| value.parse::<NonZeroU8>().ok());
                self.stations = stations
                    .ok_or_else(|| option.bad("a number of stations from 1 to 255, as in stations=2"))?;
            }
            ("via-ap", None) => self.via_access_point = true,
            ("shared", None) => self.shared = true,
            ("backoff", Some("mean")) => self.back_off = BackOff::Mean,
            ("backoff", Some("drawn")) => self.back_off = BackOff::Drawn,
            ("backoff", _) => return Err(option.bad("backoff=mean or backoff=drawn")),
            ("rate" | "basic", None) => return Err(option.bad("a rate, as in rate=11mbit or basic=2mbit")),
            _ => {
                return Err(option.bad(
                    "an option of an 802.11 cell: the options are rate=, basic=, preamble=, slot=, rts, \
                     protection, stations=, via-ap, backoff= and shared",
                ));
            }
        }
        Ok(())
    }
}

struct CellOption<'a> {
    whole: &'a str,
    key: &'a str,
    value: Option<&'a str>,
}

impl CellOption<'_> {
    /// Parses a bit rate, or the first and the later ones of a bit rate in steps.
    fn rates(&self, value: &str) -> Result<(WifiRate, Vec<(Duration, WifiRate)>), NotationError> {
        let (first, later) =
            value.split_once('+').map_or((value, None), |(first, later)| (first, Some(later)));
        let (None | Some(Duration::ZERO), rate) = self.step(first)? else {
            return Err(wrong_step(first, "a bit rate from 0s on, as in 0s:54mbit+10s:24mbit"));
        };
        let mut changes: Vec<(Duration, WifiRate)> = Vec::new();
        for step in later.into_iter().flat_map(|later| later.split('+')) {
            let (Some(at), rate) = self.step(step)? else {
                return Err(wrong_step(step, "a step with a time, as in 10s:24mbit"));
            };
            if at <= changes.last().map_or(Duration::ZERO, |last| last.0) {
                return Err(wrong_step(step, "later than the step before it"));
            }
            changes.push((at, rate));
        }
        Ok((rate, changes))
    }

    /// Parses a bit rate with an optional time before it: `10s:24mbit`.
    fn step(&self, step: &str) -> Result<(Option<Duration>, WifiRate), NotationError> {
        let Some((at, rate)) = step.split_once(':') else { return Ok((None, self.rate(step)?)) };
        let at = parse_duration(at).map_err(|source| self.no_quantity(&source))?;
        Ok((Some(at), self.rate(rate)?))
    }

    fn rate(&self, value: &str) -> Result<WifiRate, NotationError> {
        let bitrate = parse_bitrate(value).map_err(|source| self.no_quantity(&source))?;
        WifiRate::of(bitrate).ok_or_else(|| {
            self.bad("a rate of 802.11: 1, 2, 5.5, 6, 9, 11, 12, 18, 24, 36, 48 or 54 Mbit/s, as in 11mbit")
        })
    }

    fn bytes(&self, value: &str) -> Result<u32, NotationError> {
        let bytes = parse_bytes(value).map_err(|source| self.no_quantity(&source))?;
        u32::try_from(bytes).map_err(|_| self.bad("a threshold below 4 GiB, as in rts=1000"))
    }

    fn bad(&self, expected: &str) -> NotationError {
        NotationError(format!("'{}' is not {expected}", self.whole))
    }

    fn no_quantity(&self, error: &UnitError) -> NotationError {
        NotationError(format!("in '{}': {error}", self.whole))
    }
}

fn wrong_step(step: &str, expected: &str) -> NotationError {
    NotationError(format!("'{}' is not {expected}", step.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::ms;

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
    fn bit_rate_can_change_in_steps() {
        let cell = WifiConfig { rts_threshold: Some(0), ..WifiConfig::a() };
        let at = |rate| WifiConfig { rate, ..cell };
        let changes = [(ms(10_000), at(WifiRate::MBPS_24)), (ms(20_500), at(WifiRate::MBPS_6))];
        let expected = Schedule::new(cell, changes);
        for text in [
            "wifi-a:rate=0s:54mbit+10s:24mbit+20.5s:6mbit,rts",
            "WiFi-A: rts, rate=54Mbit + 10s: 24 mbit + 20500ms :6mbit",
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
        }
        assert_eq!("wifi-a:rate=0s:54mbit".parse(), Ok(WifiConfig::a()));
    }

    #[test]
    fn wrong_steps_of_bit_rate_are_refused() {
        for (steps, expected) in [
            ("5s:54mbit", "'5s:54mbit' is not a bit rate from 0s on, as in 0s:54mbit+10s:24mbit"),
            ("54mbit+24mbit", "'24mbit' is not a step with a time, as in 10s:24mbit"),
            ("54mbit+9s:24mbit+9s:6mbit", "'9s:6mbit' is not later than the step before it"),
            ("54mbit+0s:24mbit", "'0s:24mbit' is not later than the step before it"),
            ("54mbit+9s:11mbit", "802.11a has no rate of 11 Mbit/s: "),
            ("54mbit+9s:10mbit", "'rate=54mbit+9s:10mbit' is not a rate of 802.11: "),
            ("54mbit+9:6mbit", "in 'rate=54mbit+9:6mbit': '9' has no unit: write 9ns or "),
            ("54mbit+", "in 'rate=54mbit+': '' is not a rate such as "),
            ("54mbit+9s:6mbit", "'wifi-a:rate=54mbit+9s:6mbit' is not a cell with a single bit rate"),
        ] {
            let error = error(&format!("wifi-a:rate={steps}"));
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
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
