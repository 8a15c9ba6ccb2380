//! Cell: one combination of levels with one engine, and its identity.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rdt_emulator::PathConfig;
use rdt_emulator::spec::PathSpec;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::flow::{Flow, nanoseconds};

/// Version of the physics: raised by hand whenever a change of the transport, the emulator or the
/// simulator alters results, or records get further metrics, so that old and new results are never
/// mixed. A test compares the event hashes of some cells with recorded ones, so that a forgotten
/// raise is found.
pub const PHYSICS_VERSION: u32 = 10;

/// Word of the engine `kernel` by which flows use IPv6.
pub(crate) const IPV6: &str = "ipv6";

/// Engine that runs repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// Flows of rdt, and UDP sources, in virtual time.
    Virtual,
    /// UDP sources alone, without feedback, in virtual time.
    Packets,
    /// TCP and UDP of the kernel in network namespaces, behind the emulated path.
    Kernel,
    /// Flows of rdt, and UDP, over sockets, behind the emulated path or without one.
    Real,
    /// A program of the user, behind the emulated path or without one.
    Command,
}

impl EngineKind {
    /// All engines.
    pub const ALL: [Self; 5] = [Self::Virtual, Self::Packets, Self::Kernel, Self::Real, Self::Command];

    /// Returns the word for this engine in experiment files and options.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Virtual => "virtual",
            Self::Packets => "packets",
            Self::Kernel => "kernel",
            Self::Real => "real",
            Self::Command => "command",
        }
    }

    /// True if repetitions run in virtual time: many at once, with equal results for equal seeds.
    pub const fn is_virtual(self) -> bool {
        matches!(self, Self::Virtual | Self::Packets)
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for EngineKind {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|engine| engine.word() == word).ok_or(())
    }
}

/// Everything that can change the outcome of a repetition, apart from its seed. Titles, figures and
/// claims are not part of it, so changing them runs nothing again.
#[derive(Debug, Clone, PartialEq)]
pub struct Physics {
    /// Engine that runs the cell.
    pub engine: EngineKind,
    /// Time after which a repetition ends. `None`: it ends when all flows have ended.
    pub duration: Option<Duration>,
    /// Links in series from the first host to the second; reversed flows cross them backwards.
    /// Their seeds follow from that of the repetition.
    pub links: Vec<PathSpec>,
    /// Flows, in the order of the file.
    pub flows: Vec<Flow>,
    /// Settings that only this engine has, by their word without its table: `tcp_frto` of the table
    /// `[kernel]`, `program` of `[command]`.
    pub engine_words: Vec<(String, String)>,
}

impl Physics {
    /// Returns the links, without those that read a file.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathConfig> {
        self.links.iter().filter_map(path_config)
    }

    /// Returns the canonical form, of which the identity is the hash: keys in alphabetical order,
    /// paths in their shortest notation, times in nanoseconds.
    pub fn to_json(&self) -> Value {
        let links: Vec<Value> = self.links.iter().map(|link| Value::from(link.to_toml())).collect();
        let flows: Vec<Value> = self.flows.iter().map(Flow::to_json).collect();
        json!({
            "engine": self.engine.word(),
            "version": PHYSICS_VERSION,
            "duration_ns": self.duration.map(nanoseconds),
            "links": links,
            "flows": flows,
            "words": levels_json(&self.engine_words),
        })
    }

    /// Returns the identity of cells with this physics.
    pub fn id(&self) -> CellId {
        let digest = Sha256::digest(self.to_json().to_string().as_bytes());
        CellId(std::array::from_fn(|i| digest[i]))
    }
}

/// Returns the configuration of a link. `None` if it reads a file.
pub(crate) fn path_config(link: &PathSpec) -> Option<PathConfig> {
    link.to_path_config(|_| Err(String::new())).ok()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Returns levels for readers: `sack=on, window=4`.
pub(crate) fn levels_text(levels: &[(String, String)], separator: &str) -> String {
    levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect::<Vec<_>>().join(separator)
}

pub(crate) fn levels_json(levels: &[(String, String)]) -> Value {
    Value::Object(levels.iter().map(|(factor, level)| (factor.clone(), level.as_str().into())).collect())
}

/// Identity of a cell: first 16 bytes of the SHA-256 of its physics, as text 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId(pub [u8; 16]);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl FromStr for CellId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let id = u128::from_str_radix(text, 16).map_err(|_| ())?;
        if text.len() == 32 { Ok(Self(id.to_be_bytes())) } else { Err(()) }
    }
}

/// One combination of the levels of all factors, with one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Identity, from `physics`. Cells of other experiments with the same physics share it.
    pub id: CellId,
    /// Short name and level of each factor, in the order of the file: `("sack", "on")`.
    pub factors: Vec<(String, String)>,
    /// Engine and settings of the repetitions.
    pub physics: Physics,
}

impl Cell {
    /// Creates the cell with these levels.
    pub fn new(factors: Vec<(String, String)>, physics: Physics) -> Self {
        Self { id: physics.id(), factors, physics }
    }

    /// Returns the level of a factor. `None` if the cell has no such factor.
    pub fn level(&self, factor: &str) -> Option<&str> {
        self.factors.iter().find(|(name, _)| name == factor).map(|(_, level)| level.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn physics(path: &str) -> Physics {
        Physics {
            engine: EngineKind::Virtual,
            duration: Some(Duration::from_secs(99)),
            links: vec![PathSpec::from_toml(path).expect("a path")],
            flows: vec![Flow::new("a")],
            engine_words: Vec::new(),
        }
    }

    #[test]
    fn identity_follows_physics_alone() {
        let one = physics("rtt = '10ms'\nrate = '8mbit'");
        assert_eq!(
            one.id(),
            physics("rate = '8000kbit'\nrtt = '0.01s'").id(),
            "the same path in other words"
        );
        assert_ne!(one.id(), physics("rate = '8mbit'\nrtt = '11ms'").id());
        assert_ne!(one.id(), Physics { duration: None, ..one.clone() }.id());
        let text = one.id().to_string();
        assert_eq!(text.parse(), Ok(one.id()));
    }
}
