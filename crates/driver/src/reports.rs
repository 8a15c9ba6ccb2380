//! What the network, or a host, reports of datagrams that were not delivered, each report by its own reason.

use std::io;

/// Reports that were read together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reports {
    /// Those that say that nobody listens.
    pub(crate) refused: u64,
    /// Those that say that there is no way.
    pub(crate) no_way: u64,
    /// The newest of them says the latter.
    pub(crate) newest_no_way: bool,
}

impl Reports {
    /// One more, after all others.
    pub(crate) fn note(&mut self, error: &io::Error) {
        use io::ErrorKind;
        self.newest_no_way =
            !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset);
        *if self.newest_no_way { &mut self.no_way } else { &mut self.refused } += 1;
    }

    /// One at least: this error, if nothing else tells of it.
    pub(crate) fn or(mut self, error: &io::Error) -> Self {
        if self.count() == 0 {
            self.note(error);
        }
        self
    }

    pub(crate) fn count(&self) -> u64 {
        self.refused + self.no_way
    }
}
