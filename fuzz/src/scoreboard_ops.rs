//! Operations of the sender's scoreboard: each byte is delivered once, whatever the order of ACKs,
//! SACK blocks and losses. The scoreboard is private, so its crate has the property.

use std::time::Instant;

use rdt_transport::fuzzing::check_scoreboard;

pub fn run(data: &[u8]) {
    check_scoreboard(Instant::now(), data);
}
