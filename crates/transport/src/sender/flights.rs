//! One record per transmission, in the order of their numbers, for wires on which every transmission has one:
//! which segment it carried, when it left and how the connection stood then. Knows no fate of segments.

use std::collections::VecDeque;

use super::{Fate, Scoreboard};
use crate::congestion::SentState;

/// One transmission of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// Offset of the segment; `None` for a transmission without stream bytes.
    pub(crate) offset: Option<u64>,
    /// When it left and how the connection stood, for a delivery-rate sample.
    pub(crate) state: SentState,
}

/// Transmissions that may still be of interest.
#[derive(Debug)]
pub(crate) struct Flights {
    queue: VecDeque<Flight>,
    /// Number of the first one in the queue.
    first: u64,
}

impl Flights {
    /// The first transmission will have this number.
    pub(crate) fn new(first: u64) -> Self {
        Self { queue: VecDeque::new(), first }
    }

    /// The number that the next transmission will have.
    pub(crate) fn next_tx(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    pub(crate) fn push(&mut self, flight: Flight) {
        self.queue.push_back(flight);
    }

    pub(crate) fn get(&self, tx: u64) -> Option<&Flight> {
        self.queue.get(usize::try_from(tx.checked_sub(self.first)?).ok()?)
    }

    /// Number and record of the oldest.
    pub(crate) fn first(&self) -> Option<(u64, &Flight)> {
        self.queue.front().map(|flight| (self.first, flight))
    }

    /// Forgets the oldest ones as long as their segments are delivered or were sent again.
    pub(crate) fn forget_resolved(&mut self, board: &Scoreboard) {
        let open = |tx: u64, offset: u64| {
            offset >= board.una_offset()
                && board.find(offset).is_some_and(|s| s.tx == tx && s.fate == Fate::InFlight)
        };
        while let Some((tx, flight)) = self.first()
            && !flight.offset.is_some_and(|offset| open(tx, offset))
        {
            self.pop();
        }
    }

    /// Forgets the oldest.
    pub(crate) fn pop(&mut self) {
        if self.queue.pop_front().is_some() {
            self.first += 1;
        }
    }
}
