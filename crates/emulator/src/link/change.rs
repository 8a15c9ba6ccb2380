//! Change of a link's settings while packets are inside.

use std::time::Instant;

use super::Link;
use crate::config::LinkConfig;
use crate::impairments::Impairments;
use crate::loss::LossState;
use crate::rate::VaryingRate;

/// Setting that a link cannot change while it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The waiting packets belong to the queue discipline, with its state.
    #[error("the queue discipline cannot change while packets pass")]
    Discipline,
    /// The waiting packets are counted until the start of their service, or until they arrive.
    #[error("what counts against the queue cannot change while packets pass")]
    Occupancy,
    /// Both directions of an 802.11 cell depend on each other's turns.
    #[error("a link cannot become an 802.11 cell, or change the cell, while packets pass")]
    Cell,
}

impl Link {
    /// Changes the settings for packets that are pushed from now on, at `now` or later. Packets
    /// inside keep the due time that they have. Packets that wait for a discipline which decides on
    /// departure get the new rate and delay.
    ///
    /// Draws do not change: packet n is compared with the new probabilities by the same numbers.
    /// The times of schedules, outages and traces count from the start of the link, not from `now`.
    /// After a shorter delay, packets overtake those that were sent before the change.
    ///
    /// # Errors
    /// If a setting cannot change. Then the link stays as it is.
    pub fn change(&mut self, now: Instant, config: LinkConfig) -> Result<(), ChangeError> {
        self.check_change(&config)?;
        let now = self.reached.map_or(now, |reached| reached.max(now));
        self.impairments = Impairments::new(&config).map(Box::new);
        let loss = config.loss.in_order();
        if loss != self.loss {
            self.loss = loss;
            // A run of losses, or a bad state of the channel, belongs to the former model.
            self.loss_state = LossState::default();
        }
        self.queue.change(config.queue, config.marking);
        if let Some(managed) = &mut self.managed {
            managed.aqm.set_rate(config.rate);
        }
        self.serialiser.change(now, config.rate, config.varying, self.start);
        self.delay.change(config.delay, config.jitter, config.reorder);
        self.overhead = config.overhead;
        self.framing = config.framing;
        self.memory_limit = config.memory_limit;
        Ok(())
    }

    /// Returns the setting of `config` that [`change`](Self::change) refuses.
    ///
    /// # Errors
    /// If there is one.
    pub fn check_change(&self, config: &LinkConfig) -> Result<(), ChangeError> {
        if self.uses_wifi() || matches!(config.varying, Some(VaryingRate::Wifi(_))) {
            return Err(ChangeError::Cell);
        }
        if config.discipline != self.discipline {
            return Err(ChangeError::Discipline);
        }
        if self.queue.occupancy() != config.occupancy {
            return Err(ChangeError::Occupancy);
        }
        Ok(())
    }

    /// Prepares for [`change`](Self::change): the queue counts bytes although its limit may be in
    /// packets. Call it before the first packet.
    ///
    /// # Panics
    /// If packets are inside.
    pub fn allow_changes(&mut self) {
        self.queue.count_bytes();
    }
}
