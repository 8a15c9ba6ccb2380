//! Captures of TCP: for each connection the figures of tcptrace, graphs, stalls, and the limits on
//! its rate.
//!
//! | file | owns |
//! |---|---|
//! | `capture.rs` | streaming reader of pcap and pcapng |
//! | `links.rs`, `headers.rs` | headers below IP, and those of tunnels |
//! | `fragments.rs` | fragments of IP packets |
//! | `packet.rs` | IP and TCP headers of a packet |
//! | `flows.rs` | all connections, each once although several interfaces have it |
//! | `connection.rs` | a connection, and its segments over time |
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
//! If no interface has all packets, those of all interfaces are one connection.

pub mod capture;
mod connection;
mod direction;
mod fields;
mod figure;
mod flows;
mod fragments;
mod headers;
mod links;
mod packet;
mod page;
mod sequence;
mod text;
mod timeline;

use std::collections::BTreeMap;
use std::io::Read;

pub use capture::{CaptureError, Extent};
pub use connection::{Connection, Event};
pub use direction::{Direction, Kind};
pub use fields::{Field, Value, fields, metrics};
pub use figure::{View, scenes};
pub use page::{Choice, report};
pub use text::{connection, limits, list, nothing, remarks, table};
pub use timeline::{Limit, Stall, Timeline, timeline};

use flows::Flows;
use headers::Header;
use packet::{Packet, Packets};

/// Contents of a capture.
#[derive(Debug, Default)]
pub struct Trace {
    /// Interfaces, packets, and where the readable part ends.
    pub extent: Extent,
    /// Connections in the order of their first packets.
    pub connections: Vec<Connection>,
    /// Appearances of these connections on other interfaces, which are left out.
    pub hidden: u64,
    /// Packets without TCP, or with a header that cannot be read, by that header.
    others: BTreeMap<Header, u64>,
    /// Fragments of IP packets whose other fragments the file does not have.
    pub fragments: u64,
    /// TCP packets whose header is damaged, or was not captured whole.
    pub short: u64,
    /// Segments of connections beyond the limit on their number.
    pub ignored: u64,
}

impl Trace {
    /// Returns the number of packets without TCP, or with a header that cannot be read.
    pub fn others(&self) -> u64 {
        self.others.values().sum()
    }
}

/// Reads a capture. With `interface`, a name in [`Extent::interfaces`] or the number of an
/// interface without a name, only the packets of this interface count.
///
/// # Errors
/// The file cannot be read, or does not begin as a capture does.
pub fn analyse(file: impl Read + Send + 'static, interface: Option<&str>) -> Result<Trace, CaptureError> {
    let mut trace = Trace::default();
    let mut flows = Flows::default();
    let mut packets = Packets::default();
    let mut last_ns = 0;
    trace.extent = capture::read(file, interface, |frame| {
        last_ns = last_ns.max(frame.at_ns);
        match packets.parse(frame) {
            Packet::Tcp(segment) => flows.add(frame, &segment),
            Packet::Fragment => {}
            Packet::Short => trace.short += 1,
            Packet::Other(header) => *trace.others.entry(header).or_default() += 1,
        }
    })?;
    trace.fragments = packets.fragments.lost();
    trace.ignored = flows.ignored;
    let chosen = flows.finish(last_ns);
    (trace.connections, trace.hidden) = (chosen.connections, chosen.hidden);
    Ok(trace)
}

#[cfg(test)]
mod tests;
