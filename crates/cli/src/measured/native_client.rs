//! `rdt-send --reverse` over a connection of rdt, whose responder sends: the request, its answer,
//! the data and the report on one connection.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_endpoint::truesize;
use rdt_program::{Failure, Stop};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{
    Closed, Connection, ConnectionConfig, ConnectionEvent, ConnectionSetConfig, Phase, RefuseReason,
    SenderConfig, SenderStats, TransferError,
};
use rdt_trust::services::Speaker;
use rdt_trust::{Attempt, AttemptEnd, TrustError, os_entropy};
use rdt_udp::UdpOptions;

use super::message::{ANSWER_BYTES, Request, Verdict};
use super::native_server::TOO_MANY_PEERS;
use super::stream::Incoming;
use super::transfer::{MeasuredTransfer, foreign, lost, refused_by, unanswered};
use crate::connection::idle_timeout;
use crate::exit::transfer_failure;
use crate::host::Found;
use crate::native::{Native, Role};
use crate::packets::{self, Packets, Progress};
use crate::source::Source;
use crate::transfer::Outcome;

/// Longest wait for the peer to confirm the end of the outgoing stream.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Connection whose responder is asked for data.
pub(super) struct Asks {
    request: Request,
    times: Times,
    address: SocketAddr,
    stage: Stage,
    /// Why the connection ended, until what had arrived before is taken.
    closed: Option<Closed>,
    opened_at: Option<Instant>,
    /// End of the handshake.
    pub(super) connected_at: Option<Instant>,
    /// Data so far, once the request is accepted.
    pub(super) incoming: Option<Incoming>,
}

struct Times {
    give_up: Duration,
    handshake_give_up: Duration,
    /// Length of a transfer without a size.
    longest: Option<Duration>,
}

enum Stage {
    Opening,
    /// Until this time, the answer is awaited.
    Asked(Vec<u8>, Instant),
    Receiving,
    /// Until this time, the peer's confirmation is awaited.
    Ending(Instant),
}

pub(super) type ReversePackets = Packets<Native<Asks>>;

/// Prepares the socket and the connection of a transfer. Returns the addresses that it reaches.
pub(super) fn open(
    transfer: &MeasuredTransfer<'_>,
    found: &Found,
    stop: &Stop,
) -> Result<(ReversePackets, Vec<SocketAddr>), Failure> {
    let (io, reached) = packets::bind(&found.addresses, UdpOptions::default())?;
    let environment = ConnectionSetConfig {
        socket_buffer: Some(truesize::socket_buffer(io.stats().receive_buffer)),
        ..ConnectionSetConfig::default()
    };
    let SenderConfig { give_up, handshake_give_up, .. } = transfer.config;
    let longest = transfer.args.time.map(|time| time + transfer.args.omit.unwrap_or_default());
    let asks = Asks {
        request: transfer.request,
        times: Times { give_up, handshake_give_up, longest },
        address: found.addresses[0],
        stage: Stage::Opening,
        closed: None,
        opened_at: None,
        connected_at: None,
        incoming: None,
    };
    let mut config = config_of(give_up);
    config.dangerously_unencrypted = transfer.args.insecure;
    let entropy = os_entropy().map_err(TrustError::Entropy)?;
    let initiator = found.initiator.clone();
    let create = |memory| Ok(Native::new(asks, (config, environment), initiator, (entropy, memory)));
    Ok((Packets::new(io, found, stop, create)?, reached))
}

/// Returns the parameters of a connection, with the times of the command line.
fn config_of(give_up: Duration) -> ConnectionConfig {
    let base = ConnectionConfig::default();
    let sender = SenderConfig { give_up, ..base.sender };
    ConnectionConfig { idle_timeout: idle_timeout(&sender), sender, ..base }
}

impl Role for Asks {
    fn opened(&mut self, now: Instant, Attempt { address, .. }: Attempt) {
        (self.stage, self.opened_at, self.address) = (Stage::Opening, Some(now), address);
        (self.closed, self.connected_at) = (None, None);
    }

    fn on_event(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        event: ConnectionEvent,
    ) -> Option<Progress> {
        match event {
            ConnectionEvent::Connected { .. } => self.ask(now, connection).err().map(ended),
            ConnectionEvent::Delivered { .. } => self.is_ending().then(finished),
            // Caused by this side.
            ConnectionEvent::Closed(Closed::Local) => None,
            ConnectionEvent::Closed(closed) => {
                self.closed = Some(closed);
                None
            }
            _ => None,
        }
    }

    fn work(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        _: &mut Option<Box<dyn Source>>,
    ) -> io::Result<Option<Progress>> {
        if let Some(progress) = self.take(now, connection) {
            return Ok(Some(progress));
        }
        if let Some(closed) = self.closed.take() {
            let is_ending = self.is_ending();
            return Ok(Some(if is_ending { finished() } else { Progress::Ended(Outcome::Closed(closed)) }));
        }
        if self.deadline().is_none_or(|at| now < at) {
            return Ok(None);
        }
        Ok(match &self.stage {
            Stage::Opening => None,
            Stage::Asked(..) => Some(ended(unanswered(self.address, "no answer for too long"))),
            Stage::Receiving => self.incoming.as_ref().map(|incoming| ended(incoming.silence())),
            Stage::Ending(_) => {
                connection.close(now, 0, "");
                Some(finished())
            }
        })
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Opening => None,
            Stage::Asked(_, until) | Stage::Ending(until) => Some(*until),
            Stage::Receiving => self.incoming.as_ref().map(Incoming::give_up_at),
        }
    }

    fn stats(&self, connection: SenderStats) -> SenderStats {
        match &self.incoming {
            Some(incoming) => incoming
                .stats(&SenderStats { handshake_rtt: connection.handshake_rtt, ..SenderStats::default() }),
            None => SenderStats::default(),
        }
    }
}

fn finished() -> Progress {
    Progress::Ended(Outcome::Finished { crc: None })
}

fn ended(failure: Failure) -> Progress {
    Progress::Ended(Outcome::Lost { end: AttemptEnd::Final, failure })
}

impl Asks {
    fn is_ending(&self) -> bool {
        matches!(self.stage, Stage::Ending(_))
    }

    /// Sends the request. Fails if the peer sends no stream: such a receiver would store the
    /// request as a file.
    fn ask(&mut self, now: Instant, connection: &mut Connection) -> Result<(), Failure> {
        self.connected_at = Some(now);
        if !connection.data().is_empty() {
            return Err(transfer_failure(
                Phase::Connect,
                TransferError::Protocol,
                format!("the program at {} is no rdt-recv: it sends before it was asked", self.address),
            ));
        }
        // The peer's parameters say that its stream is empty.
        if connection.is_read_finished() {
            return Err(lost(
                Phase::Connect,
                format!(
                    "{} does not measure: it receives, and sends nothing (rdt-recv --measure)",
                    self.address
                ),
            ));
        }
        // The first bytes of a stream have room. If the connection is over, its event follows.
        let _ = connection.write(&self.request.encode());
        connection.push();
        self.stage = Stage::Asked(Vec::new(), now + self.times.handshake_give_up);
        Ok(())
    }

    /// Takes what has arrived.
    fn take(&mut self, now: Instant, connection: &mut Connection) -> Option<Progress> {
        while let data @ [_, ..] = connection.data() {
            let taken = match (&mut self.stage, &mut self.incoming) {
                (Stage::Asked(answer, _), _) => {
                    let part = data.len().min(ANSWER_BYTES - answer.len());
                    answer.extend_from_slice(&data[..part]);
                    part
                }
                (_, Some(incoming)) => {
                    incoming.take(now, data);
                    data.len()
                }
                _ => return None,
            };
            connection.consume(taken);
            if let Stage::Asked(answer, _) = &self.stage
                && answer.len() == ANSWER_BYTES
            {
                let accepted = Verdict::decode(answer).ok_or_else(foreign).and_then(refused_by);
                return Some(accepted.map_or_else(ended, |()| self.begin(now)));
            }
        }
        if !connection.is_read_finished() {
            return None;
        }
        match &self.stage {
            Stage::Opening | Stage::Ending(_) => None,
            Stage::Asked(..) => Some(ended(unanswered(self.address, "the connection ended"))),
            Stage::Receiving => {
                if let Some(Err(failure)) = self.incoming.as_ref().map(Incoming::complete) {
                    return Some(ended(failure));
                }
                connection.finish();
                self.stage = Stage::Ending(now + END_TIMEOUT);
                None
            }
        }
    }

    fn begin(&mut self, now: Instant) -> Progress {
        self.stage = Stage::Receiving;
        self.incoming = Some(Incoming::new(now, self.times.give_up, self.times.longest));
        let took = self.connected_at.zip(self.opened_at);
        Progress::Connected { rtt: took.map(|(end, begin)| end.saturating_duration_since(begin)) }
    }
}

/// Returns phase and failure of a connection that ended too early.
pub(super) fn closed(
    transfer: &MeasuredTransfer<'_>,
    (host, address): (&str, SocketAddr),
    closed: &Closed,
) -> (Phase, Failure) {
    let asks = transfer.packets.as_ref().map(|packets| &packets.machine.role);
    let phase = if asks.is_some_and(|asks| asks.incoming.is_some()) { Phase::Send } else { Phase::Connect };
    if let Some(refusal) = transfer.found.and_then(|found| found.refusal(host, closed)) {
        return (phase, refusal);
    }
    let refused = |reason, sentence| transfer_failure(phase, TransferError::Closed(reason), sentence);
    let failure = match closed {
        Closed::Refused(RefuseReason::Busy) | Closed::Peer { code: TOO_MANY_PEERS, .. } => {
            refused(CloseReason::Refused, Verdict::Busy.sentence().to_owned())
        }
        Closed::Peer { reason, .. } if phase == Phase::Connect => refused(*reason, closed.to_string()),
        Closed::Refused(reason @ RefuseReason::Unencrypted) => {
            refused(CloseReason::from_code(reason.code()), format!("{closed}: leave out --insecure"))
        }
        Closed::Refused(reason @ RefuseReason::OtherService(service)) => {
            refused(CloseReason::from_code(reason.code()), format!("{address} is {}", Speaker(*service)))
        }
        _ if phase == Phase::Send => lost(phase, format!("the connection ended: {closed}")),
        _ if asks.is_some_and(|asks| asks.connected_at.is_some()) => unanswered(address, closed),
        _ => lost(phase, format!("no connection to {address}: {closed}")),
    };
    (phase, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_timeout_follows_give_up() {
        let seconds = |give_up| {
            let config = config_of(Duration::from_secs(give_up));
            [config.sender.give_up, config.idle_timeout].map(|time| time.as_secs())
        };
        assert_eq!((seconds(100), seconds(5)), ([100, 100], [5, 30]));
    }
}
