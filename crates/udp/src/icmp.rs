//! What the network, or a host, reports of datagrams that were not delivered, each report by its own reason.

use std::io;

/// IcmpErrors that were read together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IcmpErrors {
    /// Those that say that nobody listens.
    pub(crate) refused: u64,
    /// Those that say that there is no way.
    pub(crate) no_route: u64,
    /// The newest of them says the latter.
    pub(crate) newest_is_unreachable: bool,
}

impl IcmpErrors {
    /// One more, after all others.
    pub(crate) fn note(&mut self, error: &io::Error) {
        use io::ErrorKind;
        self.newest_is_unreachable =
            !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset);
        *if self.newest_is_unreachable { &mut self.no_route } else { &mut self.refused } += 1;
    }

    /// One at least: this error, if nothing else tells of it.
    pub(crate) fn or(mut self, error: &io::Error) -> Self {
        if self.count() == 0 {
            self.note(error);
        }
        self
    }

    pub(crate) fn count(&self) -> u64 {
        self.refused + self.no_route
    }
}
