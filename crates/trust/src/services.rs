//! Services that the programs speak, and the program that speaks to each.

use std::fmt;

use rdt_transport::Service;

/// Service of `rdt-recv` and of [`FileReceiver`](https://docs.rs/rdt-net): one file a stream.
pub const FILES: Service = Service::new("rdt-file").expect("it is a name");
/// Service of `rdt-copy --serve`.
pub const COPIES: Service = Service::new("rdt-copy").expect("it is a name");
/// Service of `rdt-tunnel serve`.
pub const TUNNELS: Service = Service::new("rdt-tunnel").expect("it is a name");

/// Services, the programs that listen, and those that connect to them.
const PROGRAMS: [(Service, &str, &str); 3] = [
    (FILES, "rdt-recv", "rdt-send"),
    (COPIES, "rdt-copy --serve", "rdt-copy"),
    (TUNNELS, "rdt-tunnel serve", "rdt-tunnel connect"),
];

/// Who speaks a service, for the end of a sentence about a ticket or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speaker(pub Service);

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROGRAMS.iter().find(|(service, ..)| *service == self.0) {
            Some((_, listening, connecting)) => write!(f, "{listening}: use {connecting}"),
            None => write!(f, "another program, which speaks {}", self.0),
        }
    }
}
