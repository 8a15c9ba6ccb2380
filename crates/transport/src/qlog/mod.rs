//! An observer that writes what it is told as qlog: draft-ietf-quic-qlog-main-schema-02 ("0.3") in its streamed
//! form, JSON-SEQ (RFC 7464), with the events of draft-ietf-quic-qlog-quic-events-02, for tools such as qvis.
//!
//! The schema was made for QUIC. Packets of ours appear so:
//!
//! | ours | `packet_type` | `packet_number` | `frames` |
//! |---|---|---|---|
//! | SYN, SYN-ACK | `initial` | count of SYNs sent; as ACK | none |
//! | RETRY | `retry` | as ACK | none |
//! | data | `1RTT` | number of the transmission (classic: sequence number) | `stream` |
//! | reminder | `1RTT` | the same | `ping` |
//! | FIN | `1RTT` | the same | `stream` with `fin` |
//! | ACK | `1RTT` | count of packets received | `ack` with the transmissions newly acknowledged, `max_data` |
//! | FIN-ACK, CLOSE | `1RTT` | as ACK | `connection_close` |
//!
//! A list with nothing in it is left out: readers take every list for one of a packet of QUIC, which has a frame.
//! What the schema has no event for is in the category `rdt`. Nothing is kept but what belongs to one ACK.

mod json;
mod writer;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::{Observer, Trace};
use writer::Writer;

/// What stands at the head of a trace.
#[derive(Debug, Clone)]
pub struct QlogConfig {
    /// What is traced, for people.
    pub title: String,
    /// The origin of all times.
    pub epoch: Instant,
    /// The same on the clock: milliseconds since 1970-01-01 UTC; 0 in virtual time.
    pub reference_time_ms: i64,
    /// The receiver, if it has an address.
    pub peer: Option<SocketAddr>,
    /// The receiver's window counts packets of so many bytes; 1 where it counts bytes.
    pub window_unit: u64,
}

/// Writes a trace. Clones share it: one is the sender's observer, on one [`Qlog::finish`] is called.
///
/// Writing stops at the first error, which `finish` gives; the transfer does not suffer from it.
#[derive(Debug)]
pub struct Qlog<W>(Arc<Mutex<Writer<W>>>);

impl<W> Clone for Qlog<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Write> Qlog<W> {
    /// Begins a trace. `out` should be buffered: it is given one record at a time.
    pub fn new(out: W, config: &QlogConfig) -> Self {
        let mut writer = Writer::new(out, config);
        writer.header(config);
        writer.connection_started(config);
        Self(Arc::new(Mutex::new(writer)))
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first one since the beginning; what was to be written after it is missing.
    pub fn finish(&self) -> io::Result<()> {
        let Ok(mut writer) = self.0.lock() else { return Ok(()) };
        writer.flush_received();
        match writer.error.take() {
            Some(error) => Err(error),
            None => writer.out.flush(),
        }
    }
}

impl<W: Write + Send> Observer for Qlog<W> {
    fn on(&mut self, now: Instant, trace: &Trace) {
        if let Ok(mut writer) = self.0.lock() {
            writer.on(now, trace);
        }
    }
}
