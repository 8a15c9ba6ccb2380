//! HOST of `rdt-send`: its addresses, and the keys that are known of it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rdt_crypto::PublicKey;
use rdt_program::{Failure, Stop, host_port, talk};
use rdt_transport::{Closed, InitiatorConfig, Phase, TransferError};
use rdt_trust::services::FILES;
use rdt_trust::{Dialer, Remote, Surroundings};
use rdt_udp::{BufferOccupancy, SocketError, clock};

use crate::args::SendArgs;
use crate::args::target::Target;
use crate::exit::transfer_failure;
use crate::output::receiver_report::ReceiverReport;
use crate::output::status::Status;

/// Receiver of transfers.
pub(crate) struct Found {
    /// Addresses to try, in order; at least one.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) initiator: InitiatorConfig,
    /// Check of the receiver's key; `None` without encryption, and for HOST `local`.
    pub(crate) dialer: Option<Arc<Dialer>>,
    pub(crate) local: Option<Local>,
}

impl Found {
    /// Returns the refusal of a key or secret that ended a connection, if one did.
    pub(crate) fn refusal(&self, host: &str, closed: &Closed) -> Option<Failure> {
        self.dialer.as_ref()?.refusal(host, closed).map(Failure::from)
    }
}

/// Receiver on a thread of this process (HOST `local`).
pub(crate) struct Local {
    pub(crate) address: SocketAddr,
    /// Key of the receiver; `None` where transfers have no keys.
    pub(crate) key: Option<PublicKey>,
    /// Occupancy of its socket's buffer, which limits the sender; `None` of a measured transfer.
    pub(crate) occupancy: Option<Arc<BufferOccupancy>>,
    pub(crate) stop: Stop,
    /// `None` once it was joined.
    pub(crate) thread: Mutex<Option<JoinHandle<LocalEnd>>>,
}

/// Report of a receiver that stores, or why its socket broke.
pub(crate) type LocalEnd = Result<Option<ReceiverReport>, SocketError>;

impl Local {
    /// Ends the receiver, and returns its report; `None` if it has none, or has ended before.
    pub(crate) fn finish(&self) -> Result<Option<ReceiverReport>, Failure> {
        self.stop.set();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(None) };
        let died =
            |_| Err(SocketError::Receive(io::Error::other("the embedded receiver's thread ended by itself")));
        Ok(thread.join().unwrap_or_else(died)?)
    }
}

/// Resolves HOST and reads the files of keys, or starts the receiver in this process. Without
/// encryption, any key of the receiver is good.
pub(crate) fn find(
    args: &SendArgs,
    host: &Target,
    is_encrypted: bool,
    start_local: impl FnOnce() -> Result<Local, Failure>,
    status: &Status,
) -> Result<Found, Failure> {
    let (remote, addresses) = match host {
        Target::Local => {
            let local = start_local()?;
            let initiator = InitiatorConfig { remote: local.key, ..InitiatorConfig::default() };
            let addresses = vec![local.address];
            return Ok(Found { addresses, initiator, dialer: None, local: Some(local) });
        }
        Target::Ticket(ticket) => (ticket.clone(), ticket.addresses()),
        Target::Remote { host, port } => {
            (Remote::Host { host: host.clone(), port: *port }, lookup(host, *port, status)?)
        }
    };
    let dial = || args.trust.dialer(&remote, &surroundings());
    let dialer = is_encrypted.then(dial).transpose()?.map(Arc::new);
    let keyless = || InitiatorConfig { service: FILES, ..InitiatorConfig::default() };
    let initiator = dialer.as_deref().map_or_else(keyless, Dialer::initiator);
    Ok(Found { addresses, initiator, dialer, local: None })
}

/// Returns the connection of `rdt-trust` to this program.
fn surroundings() -> Surroundings {
    Surroundings {
        service: FILES,
        say: Arc::new(talk),
        warn: Arc::new(talk),
        unix_time_s: Arc::new(clock::unix_time_s),
    }
}

/// Resolves a name to at least one address.
fn lookup(host: &str, port: u16, status: &Status) -> Result<Vec<SocketAddr>, Failure> {
    let addresses = host_port::resolve(host, port);
    if !addresses.is_empty() {
        return Ok(addresses);
    }
    let time = clock::now().saturating_duration_since(status.start).as_secs_f64();
    status.text(&format!("[{time:.3}]\ttarget {host} is invalid"));
    let (error, sentence) = (TransferError::InvalidName(host.into()), format!("no such host: {host}"));
    let failure = transfer_failure(Phase::Connect, error, sentence);
    status.failed(Phase::Connect, &failure);
    Err(failure)
}
