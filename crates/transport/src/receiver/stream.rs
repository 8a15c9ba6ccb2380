//! Stream of one transfer: its receive buffer, flow control, and selective ACKs (native).

use std::time::Instant;

use super::ReceiverConfig;
use super::flow_control::FlowControl;
use super::selective_acks::SelectiveAcks;
use crate::Ecn;
use crate::range_set::RangeSet;
use crate::receive_buffer::{Arrival, Keep, MAX_RANGES, ReceiveBuffer, Segment};
use crate::wire::native::DataRun;
use crate::wire::{Numbering, Piece};

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) buffer: ReceiveBuffer,
    pub(super) flow: FlowControl,
    /// `None` in the classic format, which acknowledges cumulatively.
    pub(super) selective: Option<Box<SelectiveAcks>>,
}

impl Stream {
    /// Returns a stream that begins at number `first`.
    pub(super) fn new(config: &ReceiverConfig, numbering: Numbering, first: u64) -> Self {
        let flow = FlowControl::new(config, numbering, first);
        match numbering {
            Numbering::Packets => {
                let keep = Keep { payload: config.keep_payload, checksum: config.checksum };
                let buffer = ReceiveBuffer::of_packets(first, u64::from(config.range), keep);
                Self { buffer, flow, selective: None }
            }
            Numbering::Bytes => {
                let buffer = ReceiveBuffer::of_bytes(first, MAX_RANGES, config.keep_payload);
                Self { buffer, flow, selective: Some(Box::new(SelectiveAcks::new(config))) }
            }
        }
    }

    /// Processes a data packet. `memory` limits the bytes beyond holes.
    #[inline]
    pub(super) fn insert(&mut self, now: Instant, piece: &Piece<'_>, ecn: Ecn, memory: u64) -> Arrival {
        let Self { buffer, flow, selective } = self;
        let segment = Segment { seq: piece.seq, payload: piece.payload };
        if let Some(acks) = selective
            && piece.payload.is_empty()
        {
            // A keep-alive, which counts as a duplicate.
            acks.on_control(now, piece.packet_number.unwrap_or(acks.largest_received), ecn, true);
            return Arrival { duplicate: 1, ..Arrival::default() };
        }
        let arrival = flow.insert(now, segment, memory, buffer);
        if let Some(acks) = selective {
            acks.on_data(now, piece, ecn, &arrival, buffer);
        }
        arrival
    }

    /// Releases memory that an idle stream does not need.
    pub(super) fn shrink(&mut self) {
        self.buffer.shrink();
        if let Some(acks) = &mut self.selective
            && self.buffer.held().is_none_or(RangeSet::is_empty)
        {
            acks.shrink();
        }
    }

    /// Appends packets whose data is the next in order. Returns false if there is a hole, or if
    /// they exceed a limit: then [`Stream::insert`] handles them one by one.
    pub(super) fn append_run(&mut self, now: Instant, run: DataRun<'_>, ecn: Ecn, memory: u64) -> bool {
        let Self { buffer, flow, selective: Some(acks) } = self else { return false };
        let is_appended = flow.append_run(now, run, memory, buffer);
        if is_appended {
            acks.on_run(now, &run.fields, ecn, buffer.keeps_payload());
        }
        is_appended
    }

    /// Handles a packet without data. With `ack_now` a selective ACK is sent at once.
    pub(super) fn on_control(&mut self, now: Instant, packet_number: u64, ecn: Ecn, ack_now: bool) {
        if let Some(acks) = &mut self.selective {
            acks.on_control(now, packet_number, ecn, ack_now);
        }
    }
}
