//! Drop-head: if the queue is full, its oldest packet is dropped.
//!
//! The sender detects the loss earlier than with drop-tail, by the queueing delay: T. V. Lakshman,
//! A. Neidhardt, T. J. Ott, "The Drop from Front Strategy in TCP and in TCP over ATM", INFOCOM
//! 1996.

use crate::bitrate::Bitrate;
use crate::queue::aqm::{Aqm, ManagedQueue};
use crate::queue::fifo::{Fifo, QueuedPacket};
use crate::queue::notation::{DisciplineConfig, Parameters};
use crate::queue::{Discipline, DisciplineError};

/// Configuration, without parameters, and state machine, without state.
#[derive(Debug, Clone, Copy)]
pub(super) struct DropHead;

impl Aqm for DropHead {
    fn on_full(&mut self, queue: &mut Fifo) -> Option<QueuedPacket> {
        queue.pop()
    }
}

impl DisciplineConfig for DropHead {
    fn name(&self) -> &'static str {
        "drop-head"
    }

    fn read(&self, _: &mut Parameters<'_>) -> Result<Discipline, DisciplineError> {
        Ok(Discipline::DropHead)
    }

    fn build(&self, _: Option<Bitrate>) -> Option<ManagedQueue> {
        Some(ManagedQueue::on_departure(Self))
    }
}
