//! Application of a sender: reads the source, prints status lines and records the outcome.

use std::io;
use std::time::{Duration, Instant};

use rdt_driver::{Application, Flow, Source, fill};
use rdt_program::Stop;
use rdt_transport::{Endpoint as _, Phase, Sender, SenderEvent, TransferError, Wire};

use crate::output::status::{Status, next_line};

pub(crate) enum Outcome {
    Finished { crc: u32 },
    Failed { phase: Phase, error: TransferError },
    Unreadable(io::Error),
    Interrupted,
}

pub(crate) struct SenderApp {
    pub(crate) host: String,
    pub(crate) source: Option<Box<dyn Source>>,
    pub(crate) stop: Stop,
    pub(crate) status: Status,
    pub(crate) start: Instant,
    pub(crate) opened_at: Instant,
    /// Number of SYNs sent until one was answered.
    pub(crate) syns: u64,
    pub(crate) interval: Duration,
    pub(crate) next_line: Option<Instant>,
    pub(crate) end: Option<Outcome>,
}

impl SenderApp {
    fn on_event(&mut self, now: Instant, sender: &Sender, event: SenderEvent) {
        match event {
            SenderEvent::Connected { rtt } => {
                self.next_line = Some(now + self.interval);
                self.syns = sender.stats().datagrams_sent;
                // For classic, the RTT of the last SYN is printed, as by the reference sender.
                let took = match sender.config().wire {
                    Wire::Classic => rtt,
                    Wire::Native { .. } => now.saturating_duration_since(self.opened_at),
                };
                self.status.connected(now, &self.host, took);
            }
            SenderEvent::Finished { crc } => {
                self.status.fin_ack(now, &sender.stats(), crc);
                self.end = Some(Outcome::Finished { crc });
            }
            SenderEvent::Failed { phase, error } => self.end = Some(Outcome::Failed { phase, error }),
        }
    }
}

impl Application<Sender> for SenderApp {
    fn pump(&mut self, now: Instant, sender: &mut Sender) -> Flow {
        while let Some(event) = sender.poll_event() {
            self.on_event(now, sender, event);
        }
        if self.end.is_none() && self.stop.is_set() {
            self.end = Some(Outcome::Interrupted);
        }
        if self.end.is_none()
            && let Err(error) = fill(&mut self.source, sender)
        {
            self.end = Some(Outcome::Unreadable(error));
        }
        if self.end.is_some() {
            // In these two outcomes the receiver does not know that the transfer has ended, so send
            // a CLOSE.
            if matches!(self.end, Some(Outcome::Interrupted | Outcome::Unreadable(_))) {
                sender.abort();
            }
            return Flow::Done;
        }
        if let Some(next) = self.next_line
            && next <= now
        {
            self.status.interval(now, &sender.stats());
            self.next_line = Some(next_line(next, self.interval, now));
        }
        Flow::Wait(self.next_line)
    }
}
