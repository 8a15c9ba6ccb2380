//! Interoperability of the classic protocol: senders, receivers and raw sockets that share no code
//! with the project. All packets are built byte by byte from the description of the protocol.

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

/// Tests of `rdt-recv`.
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

/// Tests of `rdt-send`.
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
