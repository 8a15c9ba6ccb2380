//! Captures of TCP: the figures of tcptrace, graphs, stalls and limits of each connection.
//!
//! | file | owns |
//! |---|---|
//! | `capture.rs` | streaming reader of pcap and pcapng |
//! | `packet.rs` | headers of a packet |
//! | `connection.rs` | connections, and their segments over time |
//! | `direction.rs` | counts of what one end sent |
//! | `sequence.rs` | retransmissions and round-trip times |
//! | `fields.rs` | the table of a connection, for text and JSON |
//! | `text.rs` | a trace for a terminal, and as JSON |
//! | `timeline.rs` | stalls, and which limit binds |
//! | `figure.rs` | graphs |
//! | `page.rs` | the page |
//!
//! A file may have several interfaces, on which a packet appears several times. A connection is
//! analysed where the data of the end that sent more appeared first: at that end.

pub mod capture;
mod connection;
mod direction;
mod fields;
mod figure;
mod packet;
mod page;
mod sequence;
mod text;
mod timeline;

use std::io::Read;

pub use capture::{CaptureError, Extent};
pub use connection::{Connection, Event};
pub use direction::{Direction, Kind};
pub use fields::{Field, Value, fields, metrics};
pub use figure::{View, scenes};
pub use packet::{Packet, Segment, parse};
pub use page::{Choice, report};
pub use text::{connection, limits, list, remarks, table};
pub use timeline::{Limit, Stall, Timeline, timeline};

use connection::Table;

/// Everything that was read of a file.
#[derive(Debug, Default)]
pub struct Trace {
    /// Interfaces, packets, and where the readable part ends.
    pub extent: Extent,
    /// Connections in the order of their first packets, each at one interface.
    pub connections: Vec<Connection>,
    /// Connections on other interfaces, which are the same once more.
    pub hidden: u64,
    /// TCP segments.
    pub segments: u64,
    /// Packets of other protocols or with unknown headers.
    pub others: u64,
    /// Fragments of IP packets, which are not analysed.
    pub fragments: u64,
    /// TCP segments whose header was not captured whole.
    pub short: u64,
    /// Segments of connections beyond the limit on their number.
    pub ignored: u64,
}

/// Reads a capture. With `interface`, only the packets of this interface count.
///
/// # Errors
/// The file has no readable begin.
pub fn analyse(file: impl Read + Send + 'static, interface: Option<usize>) -> Result<Trace, CaptureError> {
    let mut trace = Trace::default();
    let mut table = Table::default();
    let mut last_ns = 0;
    trace.extent = capture::read(file, |frame| {
        if interface.is_some_and(|index| index != frame.interface) {
            return;
        }
        last_ns = last_ns.max(frame.at_ns);
        match parse(frame) {
            Packet::Tcp(segment) => {
                trace.segments += 1;
                table.add(frame, &segment);
            }
            Packet::Fragment => trace.fragments += 1,
            Packet::Short => trace.short += 1,
            Packet::Other => trace.others += 1,
        }
    })?;
    table.finish(last_ns);
    trace.ignored = table.ignored;
    let all = table.connections.len();
    trace.connections = at_one_interface(table.connections);
    trace.hidden = (all - trace.connections.len()) as u64;
    Ok(trace)
}

/// Keeps each connection at the interface next to the end that sent more data.
fn at_one_interface(connections: Vec<Connection>) -> Vec<Connection> {
    let mut kept: Vec<Connection> = Vec::new();
    for connection in connections {
        let same = kept.iter_mut().rev().find(|other| {
            other.interface != connection.interface
                && (other.ends == connection.ends || other.ends == [connection.ends[1], connection.ends[0]])
                && other.first_ns <= connection.last_ns
                && connection.first_ns <= other.last_ns
        });
        match same {
            None => kept.push(connection),
            Some(other) if connection.data_begins_ns() < other.data_begins_ns() => *other = connection,
            Some(_) => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests;
