//! Datagrams between a protocol machine and a socket. Knows no protocol, no clock and no system
//! call, so the machines in `rdt-transport`, the sockets in `rdt-udp` and the network in `rdt-sim`
//! do not depend on each other.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | I/O | `io.rs` | trait of a socket or a simulated network: batches in, batches out |
//! | batch | `transmit_buf.rs` | datagrams to one peer, laid out for segmentation offload |
//! | frame | `frame.rs` | memory of unacknowledged packets, which a socket may send by reference |
//! | ECN | `ecn.rs` | codepoint in the IP header |
#![forbid(unsafe_code)]

mod ecn;
mod frame;
mod io;
mod transmit_buf;

pub use ecn::Ecn;
pub use frame::{FileOffset, Frame, FrameSource, Reuse};
pub use io::{DatagramIo, Received};
pub use transmit_buf::{MAX_DATAGRAM, TransmitBuf};
