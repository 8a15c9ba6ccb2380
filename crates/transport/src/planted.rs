//! Mistakes planted on purpose, to see that the tests find them. Without the feature `planted-bugs`
//! there are none, and asking costs nothing; a release cannot be built with it.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("planted bugs are for tests: they cannot be built without debug assertions");

/// A mistake.
#[cfg_attr(
    not(feature = "planted-bugs"),
    allow(dead_code, unreachable_pub, reason = "planted in tests only")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// One byte more is sent than the receiver's window allows.
    WindowOffByOne,
    /// A round-trip sample is taken from a segment that was sent again (RFC 6298, section 3).
    Karn,
    /// The FIN leaves before everything was sent.
    EarlyFin,
    /// An ACK that leaves something outstanding stops the timer.
    TimerNotRearmed,
    /// Numbers are not unwrapped across 2^32.
    WrapCompare,
    /// A partial ACK (RFC 6582) does not show the next hole.
    PartialAck,
    /// A segment that was here before is delivered again.
    DuplicateDelivered,
    /// A SACK block that ends beyond what was sent is believed.
    SackBeyondSent,
    /// Whatever the pacer is owed is forgotten when its rate changes.
    PacingDebtLost,
    /// An ACK from before the newest one is believed.
    StaleAck,
    /// What found no connection because it overtook the SYN is taken to say that the receiver
    /// forgot it.
    OvertakenSyn,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
        static FIRST_TX: Cell<u64> = const { Cell::new(0) };
    }

    impl Bug {
        /// All of them.
        pub const ALL: [Self; 11] = [
            Self::WindowOffByOne,
            Self::Karn,
            Self::EarlyFin,
            Self::TimerNotRearmed,
            Self::WrapCompare,
            Self::PartialAck,
            Self::DuplicateDelivered,
            Self::SackBeyondSent,
            Self::PacingDebtLost,
            Self::StaleAck,
            Self::OvertakenSyn,
        ];
    }

    /// Plants `bug`, or none, for every machine on this thread.
    pub fn plant(bug: Option<Bug>) {
        BUG.set(bug);
    }

    /// Transmissions of machines made on this thread are numbered from `first` on instead of 0: so
    /// short tests reach numbers that take hours.
    pub fn number_from(first: u64) {
        FIRST_TX.set(first);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        BUG.get() == Some(bug)
    }

    pub(crate) fn first_tx() -> u64 {
        FIRST_TX.get()
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod switch {
    use super::Bug;

    pub(crate) const fn is(_: Bug) -> bool {
        false
    }

    pub(crate) const fn first_tx() -> u64 {
        0
    }
}

pub(crate) use switch::{first_tx, is};
#[cfg(feature = "planted-bugs")]
pub use switch::{number_from, plant};
