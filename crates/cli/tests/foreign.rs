//! Interoperability of the classic protocol: senders, receivers and raw sockets that share no code
//! with the project. All packets are built by hand from the protocol's description.

#[path = "foreign/array.rs"]
mod array;
#[path = "foreign/mode.rs"]
mod mode;
#[path = "foreign/peer.rs"]
mod peer;
#[path = "foreign/process.rs"]
mod process;
#[path = "foreign/raw.rs"]
mod raw;
#[path = "foreign/scan.rs"]
mod scan;
#[path = "foreign/sender.rs"]
mod sender;
#[path = "foreign/wire.rs"]
mod wire;

/// Against `rdt-recv`.
#[path = "foreign/receiving"]
mod receiving {
    mod dropped;
    mod exchange;
    mod flood;
    mod link;
    mod log;
    mod order;
    mod sizes;
}

/// Against `rdt-send`.
#[path = "foreign/sending"]
mod sending {
    mod attempts;
    mod closing;
    mod handshake;
    mod ignored;
    mod lines;
    mod recovery;
    mod window;
}
