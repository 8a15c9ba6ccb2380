//! Application of a sender: reads the source, prints status lines and records the outcome.

use std::time::Instant;

use rdt_endpoint::thread::{Application, Flow};
use rdt_program::Stop;

use super::sending::{Outcome, Progress, Sending};
use crate::lines::Lines;
use crate::source::{DwordArray, Source};

pub(crate) struct SenderApp {
    pub(crate) lines: Lines,
    pub(crate) source: Option<Box<dyn Source>>,
    pub(crate) stop: Stop,
    /// Number of SYNs sent until one was answered.
    pub(crate) syns: u64,
    pub(crate) end: Option<Outcome>,
}

impl SenderApp {
    fn on_progress(&mut self, now: Instant, sender: &impl Sending, progress: Progress) {
        match progress {
            Progress::Connected { rtt } => {
                self.syns = sender.syns();
                self.lines.connected(now, rtt, sender.protection());
            }
            Progress::Ended(outcome) => {
                if let Outcome::Finished { crc } = outcome {
                    self.lines.show(None);
                    self.lines.status.fin_ack(now, &sender.stats(), crc);
                }
                self.end = Some(outcome);
            }
        }
    }
}

impl<S: Sending> Application<S> for SenderApp {
    fn pump(&mut self, now: Instant, sender: &mut S) -> Flow {
        while self.end.is_none()
            && let Some(progress) = sender.progress()
        {
            self.on_progress(now, sender, progress);
        }
        if self.end.is_none() && self.stop.is_set() {
            self.end = Some(Outcome::Interrupted);
        }
        if self.lines.measure.poll(now, || sender.stats()) && self.source.is_some() {
            self.source = Some(Box::new(DwordArray::new(0)));
        }
        if self.end.is_none()
            && let Err(error) = sender.fill(now, &mut self.source)
        {
            self.end = Some(Outcome::Unreadable(error));
        }
        if self.end.is_some() {
            self.lines.show(None);
            // The receiver does not know of these two, so send a CLOSE.
            if matches!(self.end, Some(Outcome::Interrupted | Outcome::Unreadable(_))) {
                sender.abort(now);
            }
            return Flow::Done;
        }
        self.lines.print(now, || sender.stats());
        Flow::Wait(self.lines.deadline())
    }
}
