//! HOST of `rdt-send`: its addresses, and the keys that are known of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rdt_crypto::PublicKey;
use rdt_program::{host_port, talk};
use rdt_transport::{InitiatorConfig, Phase, TransferError};
use rdt_trust::{Dialer, Remote, Surroundings};
use rdt_udp::clock;

use crate::Failure;
use crate::args::SendArgs;
use crate::args::target::Target;
use crate::exit::transfer_failure;
use crate::output::status::Status;

/// Receiver of transfers.
pub(crate) struct Found<L> {
    /// Addresses to try, in order; at least one.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) initiator: InitiatorConfig,
    /// Check of the receiver's key; `None` without encryption, and for HOST `local`.
    pub(crate) dialer: Option<Arc<Dialer>>,
    /// Receiver in this process (HOST `local`).
    pub(crate) local: Option<L>,
}

/// Resolves HOST and reads the files of keys, or calls `start_local`, which returns the receiver,
/// its address and its key. Without encryption, any key of the receiver is good.
pub(crate) fn find<L>(
    args: &SendArgs,
    host: &Target,
    is_encrypted: bool,
    (status, start): (&Status, Instant),
    start_local: impl FnOnce() -> Result<(L, SocketAddr, Option<PublicKey>), Failure>,
) -> Result<Found<L>, Failure> {
    let (remote, addresses) = match host {
        Target::Local => {
            let (local, address, remote) = start_local()?;
            let initiator = InitiatorConfig { remote, ..InitiatorConfig::default() };
            return Ok(Found { addresses: vec![address], initiator, dialer: None, local: Some(local) });
        }
        Target::Ticket(ticket) => (ticket.clone(), ticket.addresses()),
        Target::Remote { host, port } => {
            (Remote::Host { host: host.clone(), port: *port }, lookup(host, *port, status, start)?)
        }
    };
    let dial = || args.trust.dialer(&remote, &surroundings());
    let dialer = is_encrypted.then(dial).transpose()?.map(Arc::new);
    let initiator = dialer.as_deref().map(Dialer::initiator).unwrap_or_default();
    Ok(Found { addresses, initiator, dialer, local: None })
}

/// Returns the connection of `rdt-trust` to this program.
fn surroundings() -> Surroundings {
    Surroundings { say: Arc::new(talk), warn: Arc::new(talk), unix_time_s: Arc::new(clock::unix_time_s) }
}

/// Resolves a name to at least one address.
fn lookup(host: &str, port: u16, status: &Status, start: Instant) -> Result<Vec<SocketAddr>, Failure> {
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
