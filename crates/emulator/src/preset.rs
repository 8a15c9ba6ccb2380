//! Predefined paths. `presets/` has their specifications and the sources of their figures.

use std::fmt;
use std::str::FromStr;

/// A predefined path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// ADSL with a slower uplink.
    Dsl,
    /// A mobile network (LTE).
    Lte,
    /// A geostationary satellite link.
    Satellite,
    /// IEEE 802.11a at 54 Mbit/s.
    WifiA,
    /// IEEE 802.11b at 11 Mbit/s.
    WifiB,
    /// IEEE 802.11g at 54 Mbit/s in a cell that admits 802.11b stations, so its slots are long.
    WifiG,
    /// Fast Ethernet.
    Ethernet100,
    /// The path that the receiver of the classic wire format emulates.
    Classic,
}

impl Preset {
    /// All presets, in the order of help texts.
    pub const ALL: [Self; 8] = [
        Self::Dsl,
        Self::Lte,
        Self::Satellite,
        Self::WifiA,
        Self::WifiB,
        Self::WifiG,
        Self::Ethernet100,
        Self::Classic,
    ];

    /// Returns the name that a specification uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dsl => "dsl",
            Self::Lte => "lte",
            Self::Satellite => "satellite",
            Self::WifiA => "wifi-a",
            Self::WifiB => "wifi-b",
            Self::WifiG => "wifi-g",
            Self::Ethernet100 => "ethernet-100",
            Self::Classic => "classic",
        }
    }

    /// Returns the specification in TOML, with the sources of its figures as comments.
    pub const fn toml(self) -> &'static str {
        match self {
            Self::Dsl => include_str!("presets/dsl.toml"),
            Self::Lte => include_str!("presets/lte.toml"),
            Self::Satellite => include_str!("presets/satellite.toml"),
            Self::WifiA => include_str!("presets/wifi-a.toml"),
            Self::WifiB => include_str!("presets/wifi-b.toml"),
            Self::WifiG => include_str!("presets/wifi-g.toml"),
            Self::Ethernet100 => include_str!("presets/ethernet-100.toml"),
            Self::Classic => include_str!("presets/classic.toml"),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, UnknownPreset> {
        let preset = Self::ALL.into_iter().find(|preset| preset.name() == name.trim());
        preset.ok_or_else(|| UnknownPreset { name: name.to_owned() })
    }
}

/// Error: no preset has the requested name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset '{name}'; there are {}", Preset::ALL.map(Preset::name).join(", "))]
pub struct UnknownPreset {
    name: String,
}
