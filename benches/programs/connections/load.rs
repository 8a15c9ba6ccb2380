//! Load of one connection.

use std::time::Instant;

use rdt_driver::{Application, DwordArray, Fill, Flow, Refill, Source as _};
use rdt_transport::{Endpoint as _, Sender, SenderEvent};

/// Application that sends until the end time, and records the acknowledged bytes at two times.
pub(crate) struct Load {
    source: DwordArray,
    plan: [Instant; 2],
    /// Time of each record, and the bytes acknowledged by then.
    pub(crate) marks: Vec<(Instant, u64)>,
    /// CRC-32 of the receiver; `None` before the end of the transfer.
    pub(crate) crc: Option<u32>,
}

impl Load {
    /// Creates an application that records at both times, and ends at the second.
    pub(crate) fn new(plan: [Instant; 2]) -> Self {
        Self { source: DwordArray::new(u64::MAX), plan, marks: Vec::new(), crc: None }
    }
}

impl Application<Sender> for Load {
    fn pump(&mut self, now: Instant, sender: &mut Sender) -> Flow {
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { crc } => self.crc = Some(crc),
                SenderEvent::Failed { phase, error } => panic!("{phase}: {error}"),
            }
        }
        if self.crc.is_some() {
            return Flow::Done;
        }
        let mark = self.plan.get(self.marks.len()).copied();
        if mark.is_some_and(|mark| mark <= now) {
            self.marks.push((now, sender.stats().bytes_acked));
            if self.marks.len() == self.plan.len() {
                sender.finish().expect("it was opened");
            }
        }
        Flow::Wait(mark)
    }

    fn refill(&mut self, sender: &mut Sender, batches: usize) -> Refill {
        while let Ok(spare) = sender.spare_now(batches)
            && !spare.is_empty()
        {
            let Ok(Fill::Bytes(n)) = self.source.read_into(spare) else {
                unreachable!("the array is endless")
            };
            sender.advance(n);
        }
        Refill::Done
    }
}
