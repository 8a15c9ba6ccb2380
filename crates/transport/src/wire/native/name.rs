//! Name of a stream, which the initiator's first words carry.

use std::fmt;
use std::sync::Arc;

/// Name that an initiator suggests for its stream, such as that of a file, encrypted in the native
/// handshake. The initiator chooses the text: it may have path separators and control characters.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamName(Arc<str>);

impl StreamName {
    /// Length of the longest name, bytes of UTF-8: a SYN with it and the longest [`Service`] fits
    /// the smallest path MTU (548 bytes of UDP payload).
    ///
    /// [`Service`]: super::Service
    pub const MAX_LEN: usize = 204;

    /// Returns the name; `None` if it is empty or longer than [`Self::MAX_LEN`] bytes.
    pub fn new(text: &str) -> Option<Self> {
        (1..=Self::MAX_LEN).contains(&text.len()).then(|| Self(text.into()))
    }

    /// Returns the name in a packet; `None` if it breaks the format.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().and_then(Self::new)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_1_to_204_bytes_of_utf_8() {
        for (text, is_name) in
            [("", false), ("a", true), (&*"b".repeat(204), true), (&*"c".repeat(205), false)]
        {
            assert_eq!(StreamName::new(text).is_some(), is_name, "{text}");
            assert_eq!(StreamName::decode(text.as_bytes()).is_some(), is_name, "{text}");
        }
        assert_eq!(StreamName::decode(&[b'a', 0xFF]), None);
    }
}
