//! Names: which ones a peer may use, and those of temporary files.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::{HashBytes, MAX_NAME_BYTES};

const PREFIX: &[u8] = b".rdt-copy-";
const PART: &[u8] = b".part";
const JOURNAL: &[u8] = b".journal";
const LINK: &[u8] = b".link";
const NEW: &[u8] = b".new";
const MODE: &[u8] = b".mode";
const PROBE: &[u8] = b".probe";
/// Digits of the hash in a name.
const STEM_DIGITS: usize = 16;

/// Returns why a name of the peer must not be used: it is no single component, or one of the
/// temporary names.
pub(crate) fn refuse(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("the name is empty"),
        b"." | b".." => Some("the name is a path"),
        _ if name.contains(&b'/') => Some("the name is a path"),
        _ if name.contains(&0) => Some("the name has a zero byte"),
        _ if name.len() > MAX_NAME_BYTES => Some("the name is longer than 255 bytes"),
        _ if is_temporary(name) => Some("the name is reserved for files in progress"),
        _ => None,
    }
}

/// Returns true for the names of files in progress.
pub(crate) fn is_temporary(name: &[u8]) -> bool {
    // Without regard to case: some file systems have none.
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Returns true for the names of markers and of modes, which have no data.
pub(crate) fn is_marker(name: &[u8]) -> bool {
    let rest = name.strip_prefix(PREFIX);
    let stem = rest.and_then(|rest| rest.strip_suffix(NEW).or_else(|| rest.strip_suffix(MODE)));
    stem.is_some_and(|stem| stem.len() == STEM_DIGITS && stem.iter().all(u8::is_ascii_hexdigit))
}

/// Names of one user's files in progress beside a final name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Temporary {
    pub(crate) part: Vec<u8>,
    pub(crate) journal: Vec<u8>,
    /// Marker: a file that exists while the name is a new one for the only source of a copy.
    pub(crate) new: Vec<u8>,
    /// Mode of a directory that exists, while it has another one so that it can be filled.
    pub(crate) mode: Vec<u8>,
    /// BLAKE3 of the final name.
    pub(crate) name_hash: HashBytes,
}

impl Temporary {
    /// Returns the names of this user. In a shared folder, other users can neither open nor replace
    /// them.
    pub(crate) fn of(name: &[u8]) -> Self {
        Self::of_user(name, rustix::process::geteuid().as_raw())
    }

    fn of_user(name: &[u8], user: u32) -> Self {
        let stem = blake3::hash(&[&user.to_le_bytes(), name].concat());
        let stem = [PREFIX, &stem.to_hex().as_bytes()[..STEM_DIGITS]].concat();
        Self {
            part: [&stem, PART].concat(),
            journal: [&stem, JOURNAL].concat(),
            new: [&stem, NEW].concat(),
            mode: [&stem, MODE].concat(),
            name_hash: blake3::hash(name).into(),
        }
    }

    /// Returns the names with a part that no other process uses.
    pub(crate) fn with_own_part(self) -> Self {
        Self { part: self.own(PART), ..self }
    }

    /// Returns a name for a symbolic link that will replace what has the final name.
    pub(crate) fn own_link(&self) -> Vec<u8> {
        self.own(LINK)
    }

    /// Returns a name for a moment, where the system cannot create a file without one.
    pub(crate) fn own_probe() -> Vec<u8> {
        Self::of(b"").own(PROBE)
    }

    /// Returns a name that no other process of this host uses, and this one once.
    fn own(&self, suffix: &[u8]) -> Vec<u8> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let stem = &self.journal[..PREFIX.len() + STEM_DIGITS];
        let own = format!("-{:x}-{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        [stem, own.as_bytes(), suffix].concat()
    }
}

/// Returns `name (number).ext`, cut so that it is a legal name.
pub(crate) fn numbered(name: &[u8], number: u32) -> Vec<u8> {
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0 && name.len() - at <= 16);
    let (stem, extension) = name.split_at(dot.unwrap_or(name.len()));
    let number = format!(" ({number})");
    let mut end = stem.len().min(MAX_NAME_BYTES - number.len() - extension.len());
    // Not within a character of UTF-8.
    while end > 0 && end < stem.len() && stem[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    [&stem[..end], number.as_bytes(), extension].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_names_are_refused() {
        let long = vec![b'a'; 256];
        let part = Temporary::of(b"x").part;
        let bad: [&[u8]; 10] = [
            b"",
            b".",
            b"..",
            b"/",
            b"a/b",
            b"../x",
            b"a\0",
            &long,
            &part,
            b".RDT-copy-0123456789abcdef.journal",
        ];
        for name in bad {
            assert!(refuse(name).is_some(), "{}", name.escape_ascii());
        }
        let good: [&[u8]; 5] = [b"a", b"...", b"\xff\xfe", b" ", &long[..255]];
        for name in good {
            assert_eq!(refuse(name), None, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn temporary_names_are_short_and_distinct() {
        let names = Temporary::of(b"name");
        assert_eq!(names.part.len(), 31);
        assert!(is_temporary(&names.part) && is_temporary(&names.journal));
        assert_ne!(names.part, Temporary::of(b"other").part);
        let [anna, bob] = [1000, 1001].map(|user| Temporary::of_user(b"name", user));
        assert!(anna.part != bob.part && anna.journal != bob.journal && anna.new != bob.new);
        let own = names.clone().with_own_part().part;
        assert!(is_temporary(&own) && own.starts_with(&names.part[..26]) && own.ends_with(PART));
        assert_ne!(names.own_link(), names.own_link());
        assert!(
            is_marker(&names.new)
                && is_marker(&names.mode)
                && !is_marker(&names.part)
                && !is_marker(b".rdt-copy-.new")
        );
    }

    #[test]
    fn numbered_names_keep_extension_and_limit() {
        assert_eq!(numbered(b"a.tar", 2), b"a (2).tar");
        assert_eq!(numbered(b".profile", 3), b".profile (3)");
        assert_eq!(numbered(b"plain", 10), b"plain (10)");
        let long = "\u{e4}".repeat(127) + "b";
        let name = numbered(long.as_bytes(), 2);
        assert!(name.len() <= 255 && std::str::from_utf8(&name).is_ok());
    }
}
