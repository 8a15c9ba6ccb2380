//! Predefined paths. `presets/` has their specifications and the sources of their figures.

/// Name and TOML of each preset, in the order of help texts.
pub(crate) const PRESETS: [(&str, &str); 8] = [
    ("dsl", include_str!("presets/dsl.toml")),
    ("lte", include_str!("presets/lte.toml")),
    ("satellite", include_str!("presets/satellite.toml")),
    ("wifi-a", include_str!("presets/wifi-a.toml")),
    ("wifi-b", include_str!("presets/wifi-b.toml")),
    ("wifi-g", include_str!("presets/wifi-g.toml")),
    ("ethernet-100", include_str!("presets/ethernet-100.toml")),
    ("classic", include_str!("presets/classic.toml")),
];

pub(crate) fn names() -> [&'static str; PRESETS.len()] {
    PRESETS.map(|(name, _)| name)
}
