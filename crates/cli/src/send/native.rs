//! Native transfer to a receiver that may store it: one stream to the responder.

use std::io;
use std::time::Instant;

use rdt_transport::{Closed, Connection, ConnectionConfig, ConnectionEvent, SenderConfig};

use crate::connection::idle_timeout;
use crate::native::Role;
use crate::packets::Progress;
use crate::source::{Sink, Source, fill};
use crate::transfer::Outcome;

pub(super) struct Sends;

impl Role for Sends {
    fn on_event(&mut self, _: Instant, _: &mut Connection, event: ConnectionEvent) -> Option<Progress> {
        Some(match event {
            ConnectionEvent::Connected { .. } => Progress::Connected { rtt: None },
            ConnectionEvent::Delivered { .. } => Progress::Ended(Outcome::Finished { crc: None }),
            // Already reported as `Finished`, or caused by `abort`.
            ConnectionEvent::Closed(Closed::Finished | Closed::Local) => return None,
            ConnectionEvent::Closed(closed) => Progress::Ended(Outcome::Closed(closed)),
            _ => return None,
        })
    }

    fn work(
        &mut self,
        _: Instant,
        connection: &mut Connection,
        source: &mut Option<Box<dyn Source>>,
    ) -> io::Result<Option<Progress>> {
        fill(source, Sink::Connection(connection)).map(|()| None)
    }
}

pub(super) fn config_of(sender: SenderConfig, unencrypted: bool) -> ConnectionConfig {
    ConnectionConfig {
        idle_timeout: idle_timeout(&sender),
        sender,
        one_way: true,
        dangerously_unencrypted: unencrypted,
        ..ConnectionConfig::default()
    }
}
