//! Name of the application protocol that a side speaks.

use std::fmt;

use super::super::WireError;

/// Name of the application protocol that both sides of a connection must speak, as ALPN has it in
/// TLS (RFC 7301). Both sides say it in the handshake, encrypted, and a connection between two
/// names is refused before any byte of its streams.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    len: u8,
    bytes: [u8; Self::MAX_LEN],
}

impl Service {
    /// Length of the longest name, bytes.
    pub const MAX_LEN: usize = 32;
    /// No name, the default: such a side speaks with others without a name.
    pub const NONE: Self = Self { len: 0, bytes: [0; Self::MAX_LEN] };

    /// Returns the service with this name; `None` unless it has 1 to [`Self::MAX_LEN`] visible
    /// ASCII characters. A name such as `chat.example/2` differs from those of other programs, and
    /// changes with what the program speaks.
    pub const fn new(name: &str) -> Option<Self> {
        match Self::from_bytes(name.as_bytes()) {
            Some(service) if service.len > 0 => Some(service),
            _ => None,
        }
    }

    /// Returns the name; empty for [`Self::NONE`].
    pub fn name(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the service in a packet.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        Self::from_bytes(bytes).ok_or(WireError::Params)
    }

    const fn from_bytes(name: &[u8]) -> Option<Self> {
        if name.len() > Self::MAX_LEN {
            return None;
        }
        let mut service = Self::NONE;
        while (service.len as usize) < name.len() {
            let at = service.len as usize;
            if !name[at].is_ascii_graphic() {
                return None;
            }
            service.bytes[at] = name[at];
            service.len += 1;
        }
        Some(service)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => f.write_str("a protocol without a name"),
            name => f.write_str(name),
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_1_to_32_visible_characters() {
        let longest = "x".repeat(32);
        for name in ["a", "chat.example/2", &longest] {
            let service = Service::new(name).unwrap();
            assert_eq!((service.name(), &*service.to_string()), (name, name));
            assert_eq!(Service::decode(name.as_bytes()), Ok(service));
        }
        for name in ["a b", "\u{e9}", "a\n", &"x".repeat(33)] {
            assert_eq!(Service::new(name), None, "{name}");
            assert!(Service::decode(name.as_bytes()).is_err(), "{name}");
        }
        assert_eq!((Service::new(""), Service::decode(b"")), (None, Ok(Service::NONE)));
    }
}
