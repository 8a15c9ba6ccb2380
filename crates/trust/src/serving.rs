//! What the programs that admit clients until they are stopped have in common: tickets and how they
//! are announced, the socket, accepting, and the end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rdt_endpoint::tokio::{Endpoint, Listener, Stream};
use rdt_endpoint::{EndpointConfig, Listen};
use rdt_program::files::raise_descriptor_limit;
use rdt_program::memory::return_soon;
use rdt_program::{Failure, Shown};
use rdt_transport::{ConnectionConfig, RefuseReason};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{Gate, ListenOptions, Surroundings, TicketUse, TrustError, reachable};

const DEFAULT_TICKET_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Time for the last packets of connections before a program ends: a CLOSE, or the confirmation of
/// the last bytes over a path with loss.
pub const LINGER: Duration = Duration::from_secs(5);

/// Descriptors kept for other uses than sessions: standard streams, sockets, pollers, lists of keys
/// and the lookup of names.
const RESERVED_DESCRIPTORS: u64 = 32;

/// Options of a server's tickets, as the command line has them.
#[derive(Debug, Clone, Copy)]
pub struct TicketOptions<'a> {
    /// Number of tickets. `None`: one, or none if another option says who is admitted.
    pub tickets: Option<u16>,
    /// Time until a ticket must have been used. `None`: 24 hours.
    pub lifetime: Option<Duration>,
    /// Addresses in tickets. Empty: those at which this host is reachable.
    pub advertise: &'a [SocketAddr],
}

impl TicketOptions<'_> {
    /// Returns the number of tickets.
    ///
    /// # Errors
    /// A sentence for the user, about options that contradict each other.
    pub fn count(&self, trust: &ListenOptions) -> Result<u16, &'static str> {
        let has_rule = trust.open || trust.allow.is_some() || trust.secret_file.is_some();
        let tickets = self.tickets.unwrap_or(u16::from(!has_rule));
        if tickets > 0 && trust.open {
            return Err("--open admits every peer, with or without a ticket: leave out --tickets");
        }
        if tickets == 0 && (self.lifetime.is_some() || !self.advertise.is_empty()) {
            return Err("--advertise and --ticket-lifetime are for tickets, and there are none: --tickets N");
        }
        Ok(tickets)
    }
}

/// Issues `count` tickets for a server at `bound`, and remarks its address and key. Returns the
/// tickets, one a line, and the event of `--json`.
pub fn announce(
    gate: &Gate,
    bound: SocketAddr,
    options: &TicketOptions<'_>,
    count: u16,
    surroundings: &Surroundings,
) -> Result<(String, Value), TrustError> {
    let key = gate.identity().public();
    (surroundings.say)(&format!("listening on {}, key {}", Shown(bound), key.fingerprint()));
    let addresses = reachable(bound, options.advertise);
    let lifetime_s = options.lifetime.unwrap_or(DEFAULT_TICKET_LIFETIME).as_secs();
    let issue = || gate.issue(&addresses, TicketUse::OneClient, lifetime_s);
    let tickets = (0..count).map(|_| issue().map(|ticket| ticket.to_string()));
    let tickets = tickets.collect::<Result<Vec<_>, _>>()?;
    if gate.is_open() {
        (surroundings.say)("every peer that reaches this address is admitted");
    }
    let event = json!({
        "event": "listening",
        "address": Shown(bound).to_string(),
        "key": key.to_string(),
        "fingerprint": key.fingerprint(),
        "tickets": tickets,
    });
    Ok((tickets.join("\n"), event))
}

/// Returns the limit on sessions: `wanted`, or with a warning as many as the limit on descriptors
/// allows, of which a session needs `each`. Raises that limit as far as the system allows.
pub fn session_limit(wanted: u32, each: u64, surroundings: &Surroundings) -> u32 {
    let limit = wanted.min(most_sessions(each));
    if limit < wanted {
        (surroundings.warn)(&format!(
            "at most {limit} connections at a time, not {wanted}: the limit on descriptors (ulimit -n) allows no more"
        ));
    }
    limit
}

/// Returns how many sessions the limit on descriptors allows, of which a session needs `each`.
/// Raises that limit as far as the system allows.
pub fn most_sessions(each: u64) -> u32 {
    sessions_of(raise_descriptor_limit(), each)
}

fn sessions_of(descriptors: u64, each: u64) -> u32 {
    let allowed = (descriptors.saturating_sub(RESERVED_DESCRIPTORS) / each).max(1);
    u32::try_from(allowed).unwrap_or(u32::MAX)
}

/// Returns the configuration of a server's socket. If it `is_open`, hosts share the connections, so
/// that a few cannot keep all others away.
pub fn server_endpoint(max_connections: u32, is_open: bool) -> EndpointConfig {
    let mut config = EndpointConfig::default().max_connections(max_connections as usize);
    config.max_connections_per_source = (!is_open).then_some(config.max_connections);
    config
}

/// Listens for the peers that a gate admits. While all places are taken, peers are refused as busy.
/// The endpoint's own limit does not count sessions that outlive their connections.
pub fn listen(
    endpoint: &Endpoint,
    gate: &Arc<Gate>,
    config: ConnectionConfig,
    places: &Arc<Semaphore>,
) -> Result<Listener, Failure> {
    let mut responder = gate.responder(config);
    let (admit, places) = (responder.admit, Arc::clone(places));
    responder.admit = Arc::new(move |admittee| match places.available_permits() {
        0 => Err(RefuseReason::Busy),
        _ => admit(admittee),
    });
    let listener = endpoint.listen(Listen::with(responder));
    listener.map_err(|error| Failure::system("listen")(error.into()))
}

/// Accepts connections until `stop`, and starts a session for each, which takes one of the places.
/// Returns the sessions. A session returns true if the stop cut it.
pub async fn accept_until<F>(
    listener: &Listener,
    places: &Arc<Semaphore>,
    stop: impl Future<Output = ()>,
    mut session: impl FnMut(Stream) -> F,
) -> Result<JoinSet<bool>, Failure>
where
    F: Future<Output = bool> + Send + 'static,
{
    let mut sessions = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(stream) => match Arc::clone(places).try_acquire_owned() {
                    Ok(place) => {
                        let session = session(stream);
                        sessions.spawn(async move {
                            let is_cut = session.await;
                            drop(place);
                            is_cut
                        });
                    }
                    // Peers that were admitted together have taken the last places.
                    Err(_) => stream.close(0, "too many connections"),
                },
                Err(error) => {
                    // The sessions find out too, and reset their TCP connections.
                    linger(listener.endpoint(), sessions).await;
                    return Err(Failure::system("accept")(error.into()));
                }
            },
            Some(_) = sessions.join_next() => return_soon(),
            () = &mut stop => return Ok(sessions),
        }
    }
}

/// Waits for the sessions, which the stop has ended, and for their last packets. Returns the number
/// of sessions that the stop cut, or that have not ended.
pub async fn linger(endpoint: &Endpoint, mut sessions: JoinSet<bool>) -> usize {
    let mut cut = 0;
    let last_packets = async {
        while let Some(ended) = sessions.join_next().await {
            cut += usize::from(ended.unwrap_or(true));
        }
        endpoint.wait_idle().await;
    };
    // After that time the peer finds the end by its idle timeout.
    let _ = timeout(LINGER, last_packets).await;
    cut + sessions.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::World;

    const NONE: TicketOptions<'static> = TicketOptions { tickets: None, lifetime: None, advertise: &[] };

    #[test]
    fn tickets_follow_from_other_options() {
        let world = World::new();
        let plain = world.listen_options();
        let open = ListenOptions { open: true, ..plain.clone() };
        let allow = ListenOptions { allow: Some(world.path("allow")), ..plain.clone() };
        assert_eq!([&plain, &open, &allow].map(|trust| NONE.count(trust)), [Ok(1), Ok(0), Ok(0)]);
        let three = TicketOptions { tickets: Some(3), ..NONE };
        assert_eq!((three.count(&plain), three.count(&allow)), (Ok(3), Ok(3)));
        assert!(three.count(&open).unwrap_err().contains("--open"));
        let lifetime = TicketOptions { lifetime: Some(Duration::from_secs(60)), ..NONE };
        assert!(lifetime.count(&open).unwrap_err().contains("--tickets N"));
    }

    #[test]
    fn descriptors_limit_sessions() {
        let limits = [1024, 40, 20, u64::MAX].map(|descriptors| sessions_of(descriptors, 2));
        assert_eq!(limits, [496, 4, 1, u32::MAX]);
    }

    #[test]
    fn announcement_has_tickets_and_remarks() {
        let world = World::new();
        let bound = "127.0.0.1:5000".parse().unwrap();
        let gate = world.listen_options().gate(bound, true, &world.surroundings).unwrap();
        world.take_said();
        let (tickets, event) = announce(&gate, bound, &NONE, 2, &world.surroundings).unwrap();
        let key = gate.identity().public().to_string();
        assert_eq!((&event["address"], &event["key"]), (&json!("127.0.0.1:5000"), &json!(key)));
        assert_eq!((tickets.lines().count(), &event["tickets"][1]), (2, &json!(tickets.lines().last())));
        assert!(world.take_said()[0].starts_with("listening on 127.0.0.1:5000, key "));
    }
}
