//! HOST of `rdt-send`: its addresses, and the keys that are known of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rdt_program::{host_port, talk};
use rdt_transport::{Phase, TransferError};
use rdt_trust::Surroundings;
use rdt_udp::clock;

use crate::Failure;
use crate::exit::transfer_failure;
use crate::output::status::Status;

/// Returns the connection of `rdt-trust` to this program.
pub(crate) fn surroundings() -> Surroundings {
    Surroundings { say: Arc::new(talk), warn: Arc::new(talk), unix_time_s: Arc::new(clock::unix_time_s) }
}

/// Resolves a name to at least one address.
pub(crate) fn lookup(
    host: &str,
    port: u16,
    status: &Status,
    start: Instant,
) -> Result<Vec<SocketAddr>, Failure> {
    let addresses = host_port::resolve(host, port);
    if !addresses.is_empty() {
        return Ok(addresses);
    }
    let time = clock::now().saturating_duration_since(start).as_secs_f64();
    status.text(&format!("[{time:.3}]\ttarget {host} is invalid"));
    let (error, sentence) = (TransferError::InvalidName(host.into()), format!("no such host: {host}"));
    let failure = transfer_failure(Phase::Connect, error, sentence);
    status.failed(Phase::Connect, &failure);
    Err(failure)
}
