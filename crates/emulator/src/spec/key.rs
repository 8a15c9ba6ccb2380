//! Keys of a path, which are also flags: names, help texts, suggestions for misspelt keys.

use std::fmt;
use std::str::FromStr;

use crate::preset;
use crate::queue::Discipline;
use crate::units::one_of;

/// A key of a path. A [`Key::Link`] applies to one or both directions, other keys to the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// Name of a preset, which the other keys change.
    Preset,
    /// Seed of all random draws.
    Seed,
    /// Sum of both propagation delays.
    Rtt,
    /// A key that sets a property of a direction.
    Link(LinkKey),
}

/// A key of one direction: the text form of a field of [`LinkConfig`](crate::LinkConfig).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the text of each is in `about`")]
pub enum LinkKey {
    Rate,
    Delay,
    Jitter,
    Loss,
    Outage,
    Queue,
    Discipline,
    Occupancy,
    Mark,
    Mtu,
    Duplicate,
    Corrupt,
    Reorder,
    Headers,
    Framing,
}

struct Entry {
    name: &'static str,
    /// Placeholder of the value in a help text.
    value_name: &'static str,
    about: &'static str,
    /// Accepted values, as the end of a sentence. [`Key::allowed`] puts the names of presets or
    /// disciplines before it.
    allowed: &'static str,
}

impl Entry {
    const fn new(
        name: &'static str,
        value_name: &'static str,
        about: &'static str,
        allowed: &'static str,
    ) -> Self {
        Self { name, value_name, about, allowed }
    }
}

static PRESET: Entry = Entry::new("preset", "NAME", "A path to begin with", "");
static SEED: Entry =
    Entry::new("seed", "N", "Seed of all random draws", "a whole number from 0 to 18446744073709551615");
static RTT: Entry =
    Entry::new("rtt", "TIME", "Round-trip propagation delay, half of it each way", "a time such as 100ms");

/// Entries of all keys of a direction, in the order of [`LinkKey`].
static ENTRIES: [Entry; LinkKey::ALL.len()] = [
    Entry::new(
        "rate",
        "RATE",
        "Bit rate: constant, in steps, or from a trace",
        "none, 10mbit, steps such as 0s:10mbit,5s:2mbit, trace:FILE in mahimahi's format, or an \
             802.11 cell: wifi-a, wifi-b or wifi-g, with options after a colon such as \
             wifi-a:rate=0s:54mbit+10s:24mbit,rts",
    ),
    Entry::new("delay", "TIME", "Propagation delay of one direction", "a time such as 50ms"),
    Entry::new(
        "jitter",
        "JITTER",
        "Variation of the delay, in order unless unordered is given",
        "none, 5ms (up to that much more), normal 2ms (standard deviation), either with unordered",
    ),
    Entry::new(
        "loss",
        "LOSS",
        "Loss of packets on arrival",
        "none, 1%, steps such as 0s:0%,10s:1%, 1% max-run=3, gilbert-elliott p=1% r=25% good=0 \
             bad=100%, every 100, or packets 7,8,30-35; for both directions also forward/reverse, such \
             as 1%/0",
    ),
    Entry::new(
        "outage",
        "TIMES",
        "Times at which the link takes no packets",
        "none, times such as 10s-12s,30s-31s, or 500ms every 10s from 3s",
    ),
    Entry::new(
        "queue",
        "SIZE",
        "Limit of the queue in front of the link",
        "auto (1bdp, but 64kib at least), none (no bound), 25p (packets), 64kb, or 1bdp \
             (bandwidth-delay products)",
    ),
    Entry::new(
        "discipline",
        "NAME",
        "Queue discipline: which packets are dropped",
        ", with parameters after a colon: codel:target=5ms,interval=100ms,ecn",
    ),
    Entry::new(
        "occupancy",
        "WHAT",
        "Packets that count against the queue's limit",
        "waiting, or path (what waits and what travels)",
    ),
    Entry::new(
        "mark",
        "SIZE",
        "Queue above which packets are marked (ECN)",
        "none, a queue such as 20p, 30kb or 0.2bdp, or 20p or drop (those that cannot be marked)",
    ),
    Entry::new(
        "mtu",
        "BYTES",
        "Longest packet, with headers and without framing",
        "none, 1500, 1500 fragment (as an IPv6 host does, at 1280 or more), or steps such as \
             1500,10s:1280",
    ),
    Entry::new("duplicate", "P", "Share of packets that arrive twice", "a probability such as 0.1%"),
    Entry::new("corrupt", "P", "Share of packets with one wrong bit", "a probability such as 0.1%"),
    Entry::new(
        "reorder",
        "P by TIME",
        "Packets held back so that later ones overtake them",
        "none, or a share and a time such as 1% by 5ms",
    ),
    Entry::new(
        "headers",
        "BYTES",
        "Header bytes of each packet besides its payload",
        "a number of bytes such as 28 (UDP over IPv4) or 48 (UDP over IPv6)",
    ),
    Entry::new(
        "framing",
        "BYTES",
        "Link-layer bytes of each packet or fragment",
        "a number of bytes such as 14 (the header of Ethernet) or 38 (with preamble, checksum and gap)",
    ),
];

impl LinkKey {
    /// All keys of a direction, in the order of help texts and of written TOML.
    pub const ALL: [Self; 15] = [
        Self::Rate,
        Self::Delay,
        Self::Jitter,
        Self::Loss,
        Self::Outage,
        Self::Queue,
        Self::Discipline,
        Self::Occupancy,
        Self::Mark,
        Self::Mtu,
        Self::Duplicate,
        Self::Corrupt,
        Self::Reorder,
        Self::Headers,
        Self::Framing,
    ];

    /// Returns the name in TOML.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    const fn entry(self) -> &'static Entry {
        &ENTRIES[self as usize]
    }
}

impl Key {
    /// Returns all keys, in the order of help texts.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Preset, Self::Seed, Self::Rtt].into_iter().chain(LinkKey::ALL.map(Self::Link))
    }

    /// Returns the key's name in TOML. The flag is `--` and this name, followed by `-forward` or
    /// `-reverse` for one direction.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the placeholder of the value in a help text.
    pub const fn value_name(self) -> &'static str {
        self.entry().value_name
    }

    /// Returns a one-line help text.
    pub const fn about(self) -> &'static str {
        self.entry().about
    }

    /// Returns the accepted values, as the end of a sentence.
    pub fn allowed(self) -> String {
        let names = match self {
            Self::Preset => one_of(preset::names()),
            Self::Link(LinkKey::Discipline) => Discipline::names(),
            Self::Link(_) | Self::Seed | Self::Rtt => String::new(),
        };
        names + self.entry().allowed
    }

    /// Returns whether the key can apply to one direction only.
    pub const fn is_per_direction(self) -> bool {
        matches!(self, Self::Link(_))
    }

    const fn entry(self) -> &'static Entry {
        match self {
            Self::Preset => &PRESET,
            Self::Seed => &SEED,
            Self::Rtt => &RTT,
            Self::Link(key) => key.entry(),
        }
    }
}

impl FromStr for Key {
    type Err = UnknownKey;

    fn from_str(name: &str) -> Result<Self, UnknownKey> {
        Self::all()
            .find(|key| key.name() == name)
            .ok_or_else(|| UnknownKey { name: name.to_owned(), other: None })
    }
}

/// Error: the key does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    name: String,
    /// Name that is allowed at this place besides keys and tables of directions.
    other: Option<&'static str>,
}

/// Names that other programs use, each with our key.
const SYNONYMS: [(&str, &str); 10] = [
    ("backward", "reverse"),
    ("aqm", "discipline"),
    ("bandwidth", "rate"),
    ("buffer", "queue"),
    ("ecn", "mark"),
    ("latency", "delay"),
    ("limit", "queue"),
    ("overhead", "framing"),
    ("ping", "rtt"),
    ("trace", "rate"),
];

/// Names of the TOML tables, which share the namespace of the keys.
pub(super) const TABLES: [&str; 2] = ["forward", "reverse"];

impl UnknownKey {
    pub(super) fn beside(self, other: &'static str) -> Self {
        Self { other: Some(other), ..self }
    }

    /// Returns all allowed names.
    fn allowed(&self) -> impl Iterator<Item = &'static str> {
        Key::all().map(Key::name).chain(TABLES).chain(self.other)
    }

    /// Returns the key or table that the user probably meant. `None` if no name is similar.
    fn suggestion(&self) -> Option<&'static str> {
        let name = self.name.to_ascii_lowercase();
        if let Some((_, key)) = SYNONYMS.iter().find(|(synonym, _)| *synonym == name) {
            return Some(key);
        }
        nearest(&name, self.allowed())
    }
}

/// Returns the name that is most similar to `word`. `None` if none is similar.
pub(super) fn nearest(word: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let distances = names.into_iter().map(|name| (strsim::osa_distance(word, name), name));
    let (distance, nearest) = distances.min()?;
    // Up to a third of the letters may differ, at least two, and never all.
    (distance <= (nearest.len() / 3).max(2).min(nearest.len() - 1)).then_some(nearest)
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        if let Some(nearest) = self.suggestion() {
            return write!(f, "there is no key '{name}'; did you mean '{nearest}'?");
        }
        let keys: Vec<_> = self.allowed().collect();
        write!(f, "there is no key '{name}'; the keys are {}", keys.join(", "))
    }
}
