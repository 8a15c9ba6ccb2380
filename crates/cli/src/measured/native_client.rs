//! `rdt-send --reverse` over a connection of rdt, whose responder sends.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rdt_endpoint::blocking::{Endpoint, Stream};
use rdt_endpoint::{Connect, ConnectError, EndpointConfig, StreamError};
use rdt_program::Failure;
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{
    Closed, ConnectionConfig, InitiatorConfig, Phase, RefuseReason, SenderConfig, SenderStats, TransferError,
};
use rdt_trust::{ADDRESS_GIVE_UP, AttemptEnd, ChangedKeyProof};
use rdt_udp::{clock, wildcard_for};

use super::connection::{Connection as _, LOOK_INTERVAL, TOO_MANY_PEERS};
use super::message::{Request, Verdict};
use super::stream::{is_pause, look};
use super::tcp_client::{exchange, receive};
use super::transfer::{MeasuredTransfer, NotConnected, lost};
use crate::connection::{Protection, idle_timeout};
use crate::exit::transfer_failure;
use crate::host::Found;

/// Longest wait for the peer to confirm the end of the outgoing stream.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns why a side refused a connection: the keys, too many peers, or what the peer says.
fn refusal(far: &Found, host: &str, error: &StreamError) -> Option<Failure> {
    let StreamError::Closed(closed) = error else { return None };
    if let Some(refusal) = far.dialer.as_ref().and_then(|dialer| dialer.refusal(host, closed)) {
        return Some(refusal.into());
    }
    let (reason, sentence) = match closed {
        Closed::Refused(RefuseReason::Busy) | Closed::Peer { code: TOO_MANY_PEERS, .. } => {
            (CloseReason::Refused, Verdict::Busy.sentence().to_owned())
        }
        Closed::Peer { reason, .. } => (*reason, closed.to_string()),
        Closed::Refused(reason @ RefuseReason::Unencrypted) => {
            (CloseReason::from_code(reason.code()), format!("{closed}: leave out --insecure"))
        }
        _ => return None,
    };
    Some(transfer_failure(Phase::Connect, TransferError::Closed(reason), sentence))
}

/// Open connection. The stream is dropped first: the drop of the endpoint would end it at once.
struct Opened {
    stream: Stream,
    _endpoint: Endpoint,
    /// Time from the first packet sent to this address to the end of the handshake.
    took: Duration,
}

pub(super) fn run(
    transfer: &mut MeasuredTransfer<'_>,
    request: &Request,
    far: &Found,
) -> Result<(), Failure> {
    let opened = transfer.connect_any(&far.addresses, |transfer, give_up| connect(transfer, give_up, far))?;
    let ended = run_transfer(transfer, &opened, request, far);
    match &ended {
        Ok(()) => confirm_end(transfer, &opened.stream),
        // A plain drop would end the stream as if it were complete, and a peer that stores files
        // would store the request as a file.
        Err(_) => opened.stream.reset(),
    }
    ended
}

fn run_transfer(
    transfer: &mut MeasuredTransfer<'_>,
    opened: &Opened,
    request: &Request,
    far: &Found,
) -> Result<(), Failure> {
    let stream = &opened.stream;
    check_two_way(transfer, stream)?;
    stream.set_timeouts().map_err(|error| lost(Phase::Connect, error.to_string()))?;
    // The responder judges the keys after the connection is open for this side.
    exchange(transfer, stream, request, |error| {
        let closed = error.get_ref().and_then(|source| source.downcast_ref::<StreamError>())?;
        refusal(far, &transfer.lines.host, closed)
    })?;
    let stats = stream.stats();
    let aead = stats.as_ref().and_then(|stats| stats.aead);
    transfer.protection = Protection::of(aead, stream.peer_identity());
    transfer.stats.handshake_rtt = stats.and_then(|stats| stats.sender.handshake_rtt);
    transfer.lines.connected(clock::now(), Some(opened.took), transfer.protection);
    receive(transfer, stream)
}

/// Fails if the peer sends no stream: such a receiver would store the request as a file.
fn check_two_way(transfer: &MeasuredTransfer<'_>, stream: &Stream) -> Result<(), Failure> {
    stream.set_read_timeout(Some(Duration::ZERO));
    match stream.read_some(&mut [0]) {
        // The peer's parameters say that its stream is empty.
        Ok(0) => Err(lost(
            Phase::Connect,
            format!(
                "{} does not measure: it receives, and sends nothing (rdt-recv --measure)",
                transfer.lines.address
            ),
        )),
        Ok(_) => Err(transfer_failure(
            Phase::Connect,
            TransferError::Protocol,
            format!("the program at {} is no rdt-recv: it sends before it was asked", transfer.lines.address),
        )),
        Err(error) if is_pause(&error) => Ok(()),
        // The exchange fails too, and says why.
        Err(_) => Ok(()),
    }
}

fn connect(
    transfer: &mut MeasuredTransfer<'_>,
    give_up: Duration,
    far: &Found,
) -> Result<Opened, NotConnected> {
    let (mut key_proof, mut give_up, mut initiator) =
        (ChangedKeyProof::default(), give_up, far.initiator.clone());
    let (end, error) = loop {
        let error = match attempt(transfer, give_up, far, initiator)? {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let end = match (&error, error.closed()) {
            // This address proved another key; another address of the name may be the right host.
            _ if key_proof.has_begun() => AttemptEnd::Unproved,
            (_, Some(closed)) => AttemptEnd::of(closed),
            (ConnectError::Timeout(_), None) => AttemptEnd::NoAnswer,
            _ => AttemptEnd::NoProgram,
        };
        match key_proof.next(far.dialer.as_deref(), error, ConnectError::closed) {
            Ok(keys) => (give_up, initiator) = (ADDRESS_GIVE_UP, keys),
            Err(error) => break (end, error),
        }
    };
    let refusal = match &error {
        ConnectError::Stream(error) => refusal(far, &transfer.lines.host, error),
        _ => None,
    };
    let failure = refusal.unwrap_or_else(|| {
        lost(Phase::Connect, format!("no connection to {}: {error}", transfer.lines.address))
    });
    Err(NotConnected { end, failure })
}

/// Opens a connection to the present address. Fails at Ctrl-C.
fn attempt(
    transfer: &mut MeasuredTransfer<'_>,
    give_up: Duration,
    far: &Found,
    initiator: InitiatorConfig,
) -> Result<Result<Opened, ConnectError>, Failure> {
    let address = transfer.lines.address;
    let endpoint = EndpointConfig::new()
        .and_then(|config| Endpoint::bind(wildcard_for(address), config))
        .map_err(|error| lost(Phase::Connect, format!("no socket can be had: {error}")))?;
    let mut config = config_of(transfer.config.give_up, give_up);
    config.dangerously_unencrypted = transfer.args.insecure;
    let connect = Connect::with(initiator).config(config);
    let opened_at = clock::now();
    // The receiver of HOST `local` is in this process.
    transfer.lines.opened(opened_at, far.dialer.is_none());
    let opener = endpoint.clone();
    let connected = in_background(
        move || opener.connect_timeout(address, connect, give_up),
        || {
            transfer.lines.print(clock::now(), SenderStats::default);
            transfer.stop.is_set()
        },
    );
    if transfer.stop.is_set() {
        // The thread has the endpoint, too.
        endpoint.close(0, "");
        return Err(Failure::interrupted());
    }
    let connected = connected.ok_or_else(|| lost(Phase::Connect, "no thread can be had"))?;
    let took = clock::now().saturating_duration_since(opened_at);
    Ok(connected.map(|stream| Opened { stream, _endpoint: endpoint, took }))
}

/// Returns the parameters of a connection, with the times of the command line.
fn config_of(give_up: Duration, handshake_give_up: Duration) -> ConnectionConfig {
    let base = ConnectionConfig::default();
    let sender = SenderConfig { give_up, handshake_give_up, ..base.sender };
    ConnectionConfig { idle_timeout: idle_timeout(&sender), sender, ..base }
}

/// Ends the outgoing stream, and waits until the peer has confirmed that.
fn confirm_end(transfer: &MeasuredTransfer<'_>, stream: &Stream) {
    // Fails if the connection has ended.
    if stream.finish().is_err() {
        return;
    }
    let until = clock::now() + END_TIMEOUT;
    let waiter = stream.try_clone();
    let delivered =
        in_background(move || waiter.delivered().is_ok(), || look(until, &transfer.stop).is_err());
    if delivered.is_none() {
        // Ends the wait of the thread.
        stream.reset();
    }
}

/// Runs `call`, which waits for the network, on a thread of its own. Returns its result, or `None`
/// once `is_over` returns true: it is asked every [`LOOK_INTERVAL`].
fn in_background<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
    mut is_over: impl FnMut() -> bool,
) -> Option<T> {
    let (done, result) = mpsc::channel();
    // Fails if the caller does not wait any more.
    let run = move || drop(done.send(call()));
    thread::Builder::new().spawn(run).ok()?;
    loop {
        match result.recv_timeout(LOOK_INTERVAL) {
            Ok(value) => return Some(value),
            Err(RecvTimeoutError::Timeout) if !is_over() => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_timeout_follows_give_up() {
        let seconds = |give_up| {
            let config = config_of(Duration::from_secs(give_up), Duration::from_secs(7));
            let sender = config.sender;
            [sender.give_up, sender.handshake_give_up, config.idle_timeout].map(|time| time.as_secs())
        };
        assert_eq!((seconds(100), seconds(5)), ([100, 7, 100], [5, 7, 30]));
    }

    #[test]
    fn background_call_ends_with_its_caller() {
        let (end, wait) = mpsc::channel::<()>();
        assert_eq!(in_background(|| 5, || false), Some(5));
        assert_eq!(in_background(move || wait.recv().is_ok(), || true), None);
        drop(end);
    }
}
