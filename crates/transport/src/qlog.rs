//! Observer that writes a sender's events as qlog for tools such as qvis:
//! draft-ietf-quic-qlog-main-schema-02 ("0.3") as JSON-SEQ (RFC 7464), with the events of
//! draft-ietf-quic-qlog-quic-events-02.
//!
//! The schema is made for QUIC. Packets of rdt are mapped to it:
//!
//! | ours | `packet_type` | `packet_number` | `frames` |
//! |---|---|---|---|
//! | SYN, SYN-ACK | `initial` | count of SYNs sent; as ACK | none |
//! | RETRY | `retry` | as ACK | none |
//! | data | `1RTT` | packet number (classic: sequence number) | `stream` |
//! | keep-alive | `1RTT` | as data | `ping` |
//! | FIN | `1RTT` | as data | `stream` with `fin` |
//! | ACK | `1RTT` | count of packets received | `ack` of newly acknowledged packets, `max_data` |
//! | FIN-ACK, CLOSE | `1RTT` | as ACK | `connection_close` |
//!
//! Empty lists are left out, because readers expect a frame in each. Events that the schema lacks
//! are in the category `rdt`. Only the events of one ACK are buffered.

mod json;
mod writer;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::{Observer, Trace};
use writer::Writer;

/// Header of a trace.
#[derive(Debug, Clone)]
pub struct QlogConfig {
    /// Title of the trace.
    pub title: String,
    /// Origin of all times.
    pub epoch: Instant,
    /// Wall-clock time of `epoch`, in milliseconds since 1970-01-01 UTC; 0 in virtual time.
    pub reference_time_ms: i64,
    /// The receiver, if it has an address.
    pub peer: Option<SocketAddr>,
    /// Unit of the receiver's window, in bytes: the payload size in classic, 1 in native.
    pub window_unit: u64,
}

/// Writer of a trace. Clones share it: pass one to the sender as its observer, and call
/// [`Qlog::finish`] on another.
///
/// Writing stops at the first error, which `finish` returns. The transfer goes on.
#[derive(Debug)]
pub struct Qlog<W>(Arc<Mutex<Writer<W>>>);

impl<W> Clone for Qlog<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Write> Qlog<W> {
    /// Begins a trace. `out` should be buffered: each record is one write.
    pub fn new(out: W, config: &QlogConfig) -> Self {
        let mut writer = Writer::new(out, config);
        writer.header(config);
        writer.connection_started(config);
        Self(Arc::new(Mutex::new(writer)))
    }

    /// Writes the last record and flushes.
    ///
    /// # Errors
    /// The first write error; later records are missing.
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
