//! Drop-head: if the queue is full, its oldest packet is dropped.
//!
//! The sender detects the loss earlier than with drop-tail, by the queueing delay: T. V. Lakshman,
//! A. Neidhardt, T. J. Ott, "The Drop from Front Strategy in TCP and in TCP over ATM", INFOCOM
//! 1996.

use crate::queue::aqm::Aqm;
use crate::queue::fifo::{Fifo, QueuedPacket};

#[derive(Debug)]
pub(super) struct DropHead;

impl Aqm for DropHead {
    fn on_full(&mut self, queue: &mut Fifo) -> Option<QueuedPacket> {
        queue.pop()
    }
}
