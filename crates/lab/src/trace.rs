//! Captures of TCP: for each connection the figures of tcptrace, graphs, stalls, and the limits on
//! its rate.
//!
//! | file | owns |
//! |---|---|
//! | `capture.rs` | streaming reader of pcap and pcapng |
//! | `packet.rs` | headers of a packet |
//! | `connection.rs` | connections, and their segments over time |
//! | `direction.rs` | counts of one direction |
//! | `sequence.rs` | sequence space: retransmissions and round-trip times |
//! | `fields.rs` | the table of a connection, for text and JSON |
//! | `text.rs` | a trace for a terminal, and as JSON |
//! | `timeline.rs` | stalls, and the limit that binds at each time |
//! | `figure.rs` | graphs |
//! | `page.rs` | the HTML page |
//!
//! In a file with several interfaces a packet may appear on each. A connection is then analysed at
//! the interface where the data of its sender appeared first. Its sender is the end that sent more.

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

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;

pub use capture::{CaptureError, Extent};
pub use connection::{Connection, Event};
pub use direction::{Direction, Kind};
pub use fields::{Field, Value, fields, metrics};
pub use figure::{View, scenes};
pub use page::{Choice, report};
pub use text::{connection, limits, list, remarks, table};
pub use timeline::{Limit, Stall, Timeline, timeline};

use connection::{Table, unordered};
use packet::{Packet, parse};

/// Contents of a capture.
#[derive(Debug, Default)]
pub struct Trace {
    /// Interfaces, packets, and where the readable part ends.
    pub extent: Extent,
    /// Connections in the order of their first packets, each at one interface.
    pub connections: Vec<Connection>,
    /// Appearances of these connections on other interfaces, which are left out.
    pub hidden: u64,
    /// Packets that are not TCP over IP.
    pub others: u64,
    /// Packets whose link type is unknown.
    pub unknown_links: u64,
    /// Fragments of IP packets, which are not analysed.
    pub fragments: u64,
    /// TCP packets whose header is damaged, or was not captured whole.
    pub short: u64,
    /// Segments of connections beyond the limit on their number.
    pub ignored: u64,
}

/// Reads a capture. With `interface`, an index in [`Extent::interfaces`], only the packets of this
/// interface count.
///
/// # Errors
/// The file cannot be read, or does not begin as a capture does.
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
            Packet::Tcp(segment) => table.add(frame, &segment),
            Packet::Fragment => trace.fragments += 1,
            Packet::Short => trace.short += 1,
            Packet::Other => trace.others += 1,
            Packet::UnknownLink => trace.unknown_links += 1,
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
    let mut by_ends: BTreeMap<[SocketAddr; 2], Vec<usize>> = BTreeMap::new();
    for connection in connections {
        let places = by_ends.entry(unordered(connection.ends)).or_default();
        let is_same = |place: &usize| {
            let other = &kept[*place];
            other.interface != connection.interface
                && other.first_ns <= connection.last_ns
                && connection.first_ns <= other.last_ns
        };
        let same = places.iter().copied().rev().find(is_same);
        match same {
            None => {
                places.push(kept.len());
                kept.push(connection);
            }
            Some(place) if connection.data_begins_ns() < kept[place].data_begins_ns() => {
                kept[place] = connection;
            }
            Some(_) => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests;
