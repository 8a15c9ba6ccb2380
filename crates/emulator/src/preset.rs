//! Paths that come with the crate, by name.
//!
//! Owns the list. The figures, and where they come from, are in the texts under `presets`.

use std::fmt;
use std::str::FromStr;

/// A path that comes with the crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// A telephone line: slow, slower still on the way up.
    Dsl,
    /// A mobile network.
    Lte,
    /// A geostationary satellite.
    Satellite,
    /// IEEE 802.11a at 54 Mbit/s.
    WifiA,
    /// IEEE 802.11b at 11 Mbit/s.
    WifiB,
    /// IEEE 802.11g at 54 Mbit/s, beside stations of 802.11b.
    WifiG,
    /// Fast Ethernet.
    Ethernet100,
    /// The link of the classic protocol's receiver.
    Classic,
}

impl Preset {
    /// All of them, in the order in which they are listed.
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

    /// As it is written in a description.
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

    /// The description, with the sources of its figures.
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

/// A name that no preset has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset '{name}'; there are {}", Preset::ALL.map(Preset::name).join(", "))]
pub struct UnknownPreset {
    name: String,
}
