//! Peers that the listening side admits: by key, by secret, by ticket, or all.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdt_crypto::{Psk, PublicKey, SecretId, SharedSecret, StaticKey};
use rdt_endpoint::Listen;
use rdt_transport::{Admittee, ConnectionConfig, RefuseReason, ResponderConfig, Secrets, Service};

use crate::{AllowList, Surroundings, Ticket, TrustError, entropy};

/// Why a peer is refused whose secret or ticket this program has not.
const UNKNOWN: &str = "its ticket or secret is not known here";

/// Number of connections for which a ticket is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketUse {
    /// One connection.
    Once,
    /// Any number of connections of the first client that uses it, which is known by its key.
    OneClient,
}

/// Admission of peers. Shared by all connections of a listening program.
#[derive(Debug)]
pub struct Gate {
    identity: Arc<StaticKey>,
    allow: Option<Mutex<AllowList>>,
    secret: Option<Arc<SharedSecret>>,
    is_open: bool,
    tickets: Mutex<Vec<Issued>>,
    surroundings: Surroundings,
    /// Second since 1970 of the last remark about a refused peer.
    last_remark_s: Mutex<u64>,
}

#[derive(Debug)]
struct Issued {
    id: SecretId,
    psk: Psk,
    kind: TicketUse,
    expires_s: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Used,
    /// Used by the client with this key, which may use it again until the program ends.
    Held(PublicKey),
}

impl Issued {
    /// Returns an error that says why the ticket does not admit a peer.
    fn admits(&self, peer: Option<PublicKey>, now_s: u64) -> Result<(), &'static str> {
        match self.state {
            State::Fresh if now_s < self.expires_s => Ok(()),
            State::Fresh => Err("its ticket has expired"),
            State::Used => Err("its ticket is used"),
            State::Held(holder) if peer == Some(holder) => Ok(()),
            State::Held(_) => Err("its ticket is another client's"),
        }
    }
}

impl Gate {
    /// Returns a gate that admits the peers with a ticket that it issues.
    pub fn new(identity: Arc<StaticKey>) -> Self {
        Self {
            identity,
            allow: None,
            secret: None,
            is_open: false,
            tickets: Mutex::default(),
            surroundings: Surroundings::default(),
            last_remark_s: Mutex::default(),
        }
    }

    /// Also admits the peers of this list. It is read again when the file has changed.
    #[must_use]
    pub fn allow(self, list: AllowList) -> Self {
        Self { allow: Some(Mutex::new(list)), ..self }
    }

    /// Also admits the peers that know this secret.
    #[must_use]
    pub fn secret(self, secret: Arc<SharedSecret>) -> Self {
        Self { secret: Some(secret), ..self }
    }

    /// Admits every peer.
    #[must_use]
    pub fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    /// Speaks this application protocol, and issues tickets for it.
    #[must_use]
    pub fn service(mut self, service: Service) -> Self {
        self.surroundings.service = service;
        self
    }

    /// Reports refused peers here, and speaks what they say.
    #[must_use]
    pub fn surroundings(self, surroundings: &Surroundings) -> Self {
        Self { surroundings: surroundings.clone(), ..self }
    }

    /// Returns the local key.
    pub fn identity(&self) -> &Arc<StaticKey> {
        &self.identity
    }

    /// Returns whether every peer is admitted.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Makes a ticket for these addresses of the program. A client must use it within `lifetime_s`
    /// seconds.
    ///
    /// # Errors
    /// [`TrustError`]: no address, more than eight, or no random numbers.
    pub fn issue(
        &self,
        addresses: &[SocketAddr],
        kind: TicketUse,
        lifetime_s: u64,
    ) -> Result<Ticket, TrustError> {
        let now_s = (self.surroundings.unix_time_s)();
        // In whole minutes, as in the ticket, so that both sides agree. Never less than was asked.
        let expires_s = now_s.saturating_add(lifetime_s).div_ceil(60).saturating_mul(60);
        let key = self.identity.public();
        let (service, is_once) = (self.surroundings.service, kind == TicketUse::Once);
        let ticket = Ticket::new(service, addresses, key, is_once, expires_s, &mut entropy()?)?;
        let secret = ticket.secret();
        let issued = Issued { id: secret.id(), psk: secret.psk(), kind, expires_s, state: State::Fresh };
        self.tickets().push(issued);
        Ok(ticket)
    }

    /// Returns what an endpoint needs to accept the peers of this gate.
    pub fn listen(self: &Arc<Self>) -> Listen {
        Listen::with(self.responder(ConnectionConfig::default()))
    }

    /// Returns a responder that admits the peers of this gate. `config` is for its connections.
    pub fn responder(self: &Arc<Self>, config: ConnectionConfig) -> ResponderConfig {
        let gate = Arc::clone(self);
        ResponderConfig {
            identity: Arc::clone(&self.identity),
            config,
            secrets: Arc::clone(self) as Arc<dyn Secrets>,
            admit: Arc::new(move |admittee| gate.admit(admittee)),
            service: self.surroundings.service,
        }
    }

    /// Decides about a peer. Reads the list of allowed keys again if the file has changed. Logs
    /// refused keys, at most one line a second.
    fn admit(&self, Admittee { peer, secret, .. }: Admittee) -> Result<(), RefuseReason> {
        let (refusal, why) = match secret.map(|id| self.admits_secret(id, peer)) {
            Some(Ok(())) => return Ok(()),
            Some(Err(why)) => (RefuseReason::Secret, why),
            None => (RefuseReason::NotAdmitted, "it is not allowed"),
        };
        if self.is_open || peer.map_or(Ok(false), |key| self.is_allowed(&key))? {
            return Ok(());
        }
        match peer {
            Some(key) => self.remark(|| format!("refused the peer with key {key}: {why}")),
            None => self.remark(|| format!("refused a peer without a key: {why}")),
        }
        Err(refusal)
    }

    /// Decides about a secret or ticket. An error says why it does not admit the peer.
    fn admits_secret(&self, id: SecretId, peer: Option<PublicKey>) -> Result<(), &'static str> {
        if self.secret.as_ref().is_some_and(|secret| secret.id() == id) {
            return Ok(());
        }
        let now_s = (self.surroundings.unix_time_s)();
        let tickets = self.tickets();
        tickets.iter().find(|issued| issued.id == id).ok_or(UNKNOWN)?.admits(peer, now_s)
    }

    /// Looks a key up in the list. Peers are refused as busy while the file cannot be read for lack
    /// of descriptors or memory: the key may have been removed from it.
    fn is_allowed(&self, key: &PublicKey) -> Result<bool, RefuseReason> {
        let Some(list) = &self.allow else { return Ok(false) };
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        match list.refresh() {
            Err(error) if error.is_shortage() => {
                self.remark(|| format!("{error}: refused a peer as busy"));
                return Err(RefuseReason::Busy);
            }
            Err(error) => self.remark(|| format!("{error}: no key is allowed until this is repaired")),
            Ok(_) => {}
        }
        Ok(list.admits(key))
    }

    /// Prints a remark, at most one a second: peers without permission must not fill the log.
    fn remark(&self, text: impl FnOnce() -> String) {
        let now_s = (self.surroundings.unix_time_s)();
        let mut last_s = self.last_remark_s.lock().unwrap_or_else(PoisonError::into_inner);
        if *last_s != now_s {
            *last_s = now_s;
            (self.surroundings.say)(&text());
        }
    }

    fn tickets(&self) -> MutexGuard<'_, Vec<Issued>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Secrets for Gate {
    fn psk(&self, id: SecretId) -> Option<Psk> {
        if let Some(secret) = self.secret.as_ref().filter(|secret| secret.id() == id) {
            return Some(secret.psk());
        }
        let now_s = (self.surroundings.unix_time_s)();
        let tickets = self.tickets();
        let issued = tickets.iter().find(|issued| issued.id == id).ok_or(UNKNOWN);
        let psk = issued.and_then(|issued| match issued.state {
            // The key of the peer is compared by `admit`, when it is known.
            State::Held(_) => Ok(issued.psk.clone()),
            _ => issued.admits(None, now_s).map(|()| issued.psk.clone()),
        });
        drop(tickets);
        // Without a PSK the handshake fails before `admit`.
        psk.map_err(|why| self.remark(|| format!("refused a peer: {why}"))).ok()
    }

    fn complete(&self, id: SecretId, peer: Option<PublicKey>) -> bool {
        let now_s = (self.surroundings.unix_time_s)();
        let mut tickets = self.tickets();
        let Some(issued) = tickets.iter_mut().find(|issued| issued.id == id) else { return true };
        match (issued.state, issued.kind, peer) {
            // The ticket expired during the handshake.
            (State::Fresh, ..) if now_s >= issued.expires_s => return false,
            (State::Fresh, TicketUse::OneClient, Some(key)) => issued.state = State::Held(key),
            (State::Fresh, ..) => issued.state = State::Used,
            (State::Held(holder), _, Some(key)) if holder == key => {}
            _ => return false,
        }
        true
    }
}

#[cfg(feature = "options")]
#[cfg(test)]
mod tests {
    use rdt_crypto::Aead;
    use rdt_program::exit::USAGE;

    use super::*;
    use crate::ListenOptions;
    use crate::options::LIMITING_OPTIONS;
    use crate::tests::{World, key};

    fn admit(gate: &Gate, peer: Option<PublicKey>, secret: Option<SecretId>) -> Result<(), RefuseReason> {
        gate.admit(Admittee { peer, secret, aead: Aead::Aes128Gcm })
    }

    fn gate(world: &World, options: &ListenOptions) -> Gate {
        options.gate("0.0.0.0:22346".parse().unwrap(), true, &world.surroundings).unwrap()
    }

    fn issue(gate: &Gate, kind: TicketUse) -> SecretId {
        let ticket = gate.issue(&["192.0.2.1:5000".parse().unwrap()], kind, 3600).unwrap();
        assert_eq!(ticket.key(), gate.identity().public());
        assert_eq!(ticket.single_use(), kind == TicketUse::Once);
        ticket.secret().id()
    }

    #[test]
    fn open_address_needs_a_rule() {
        let world = World::new();
        let gate = |address: &str, has_tickets, options: ListenOptions| {
            options
                .gate(address.parse().unwrap(), has_tickets, &world.surroundings)
                .map(|gate| gate.is_open())
                .map_err(|error| (error.code(), error.to_string()))
        };
        let none = || world.listen_options();
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
            let (code, sentence) = gate(address, false, none()).unwrap_err();
            let expected = format!(
                "{address} can be reached from other hosts: say who may connect by {LIMITING_OPTIONS}, or allow every peer by --open"
            );
            assert_eq!((code, sentence), (USAGE, expected));
            assert_eq!(gate(address, true, none()), Ok(false));
            assert_eq!(gate(address, false, ListenOptions { open: true, ..none() }), Ok(true));
        }
        for address in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(gate(address, false, none()), Ok(true));
            assert_eq!(gate(address, true, none()), Ok(false), "a ticket would mean nothing");
        }
    }

    #[cfg(unix)]
    #[test]
    fn lack_of_descriptors_is_no_refusal_of_key() {
        rdt_testing::run_alone("gate::tests::admission_without_descriptors");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "run by another test"]
    fn admission_without_descriptors() {
        let world = World::new();
        let path = world.path("allow");
        std::fs::write(&path, format!("{}\n", key(1))).unwrap();
        let gate = gate(&world, &ListenOptions { allow: Some(path), ..world.listen_options() });
        let limit = rdt_testing::NoDescriptors::new();
        assert_eq!([1, 2].map(|seed| admit(&gate, Some(key(seed)), None)), [Err(RefuseReason::Busy); 2]);
        drop(limit);
        assert_eq!(admit(&gate, Some(key(1)), None), Ok(()));
        assert_eq!(admit(&gate, Some(key(2)), None), Err(RefuseReason::NotAdmitted));
    }

    #[test]
    fn allowed_keys_are_admitted_until_removed() {
        let world = World::new();
        let path = world.path("allow");
        std::fs::write(&path, format!("{} anna\n", key(2))).unwrap();
        let gate = gate(&world, &ListenOptions { allow: Some(path.clone()), ..world.listen_options() });
        assert_eq!(admit(&gate, Some(key(2)), None), Ok(()));
        assert_eq!(admit(&gate, Some(key(3)), None), Err(RefuseReason::NotAdmitted));
        assert_eq!(admit(&gate, None, None), Err(RefuseReason::NotAdmitted));
        std::fs::write(&path, "").unwrap();
        assert_eq!(admit(&gate, Some(key(2)), None), Err(RefuseReason::NotAdmitted));
    }

    #[test]
    fn refusals_give_one_remark_a_second() {
        let world = World::new();
        let gate = gate(&world, &world.listen_options());
        world.take_said();
        for _ in 0..3 {
            assert_eq!(admit(&gate, Some(key(3)), None), Err(RefuseReason::NotAdmitted));
        }
        assert_eq!(world.take_said(), [format!("refused the peer with key {}: it is not allowed", key(3))]);
        world.advance(1);
        assert_eq!(admit(&gate, None, None), Err(RefuseReason::NotAdmitted));
        assert_eq!(world.take_said(), ["refused a peer without a key: it is not allowed"]);
    }

    #[test]
    fn refusals_of_tickets_say_why() {
        let world = World::new();
        let gate = gate(&world, &world.listen_options());
        let [once, held, late] =
            [TicketUse::Once, TicketUse::OneClient, TicketUse::Once].map(|kind| issue(&gate, kind));
        assert!(gate.complete(once, None) && gate.complete(held, Some(key(2))));
        let said = |refuse: &dyn Fn()| {
            world.advance(1);
            world.take_said();
            refuse();
            world.take_said().concat()
        };
        let unknown = SecretId::from_wire(7).unwrap();
        let without_psk = |id| said(&|| assert!(gate.psk(id).is_none()));
        assert_eq!(without_psk(unknown), "refused a peer: its ticket or secret is not known here");
        assert_eq!(without_psk(once), "refused a peer: its ticket is used");
        let other = said(&|| assert!(admit(&gate, Some(key(3)), Some(held)).is_err()));
        assert!(other.ends_with(": its ticket is another client's"), "{other}");
        world.advance(3600);
        assert_eq!(without_psk(late), "refused a peer: its ticket has expired");
    }

    #[test]
    fn secret_of_file_admits_without_key() {
        let world = World::new();
        let path = world.path("secret");
        let secret = crate::create_secret(&path, &mut entropy().unwrap()).unwrap();
        let gate = gate(&world, &ListenOptions { secret_file: Some(path), ..world.listen_options() });
        assert!(gate.psk(secret.id()).is_some());
        for peer in [None, Some(key(2))] {
            assert_eq!(admit(&gate, peer, Some(secret.id())), Ok(()));
            assert!(gate.complete(secret.id(), peer));
        }
        assert!(gate.psk(SecretId::from_wire(7).unwrap()).is_none());
        assert_eq!(admit(&gate, None, SecretId::from_wire(7)), Err(RefuseReason::Secret));
    }

    #[test]
    fn ticket_for_once_admits_one_connection() {
        let world = World::new();
        let gate = gate(&world, &world.listen_options());
        let id = issue(&gate, TicketUse::Once);
        // Two handshakes at the same time: the first that completes has the ticket.
        for _ in 0..2 {
            assert!(gate.psk(id).is_some());
            assert_eq!(admit(&gate, None, Some(id)), Ok(()));
        }
        assert!(gate.complete(id, None));
        assert!(!gate.complete(id, None));
        assert!(gate.psk(id).is_none());
        assert_eq!(admit(&gate, None, Some(id)), Err(RefuseReason::Secret));
    }

    #[test]
    fn ticket_lives_at_least_as_long_as_asked() {
        let world = World::new();
        let options = world.listen_options();
        let gate = options.gate("127.0.0.1:5".parse().unwrap(), true, &world.surroundings).unwrap();
        world.advance(59);
        let address = "192.0.2.1:5".parse().unwrap();
        let ticket = gate.issue(&[address], TicketUse::OneClient, 60).unwrap();
        world.advance(59);
        assert!(!ticket.expired((world.surroundings.unix_time_s)()));
        world.advance(62);
        assert!(ticket.expired((world.surroundings.unix_time_s)()));
        assert!(gate.issue(&[address], TicketUse::OneClient, u64::MAX).is_ok());
    }

    #[test]
    fn ticket_for_one_client_refuses_others() {
        let world = World::new();
        let gate = gate(&world, &world.listen_options());
        let id = issue(&gate, TicketUse::OneClient);
        for peer in [key(2), key(3)] {
            assert_eq!(admit(&gate, Some(peer), Some(id)), Ok(()));
        }
        assert!(gate.complete(id, Some(key(2))));
        assert!(!gate.complete(id, Some(key(3))));
        world.advance(7200);
        assert!(gate.psk(id).is_some(), "the expiry counts until the first use");
        assert_eq!(admit(&gate, Some(key(2)), Some(id)), Ok(()));
        assert!(gate.complete(id, Some(key(2))));
        for peer in [Some(key(3)), None] {
            assert_eq!(admit(&gate, peer, Some(id)), Err(RefuseReason::Secret));
            assert!(!gate.complete(id, peer));
        }
    }

    #[test]
    fn expired_ticket_has_no_key() {
        let world = World::new();
        let gate = gate(&world, &world.listen_options());
        let id = issue(&gate, TicketUse::OneClient);
        world.advance(3599);
        assert!(gate.psk(id).is_some());
        world.advance(1);
        assert!(gate.psk(id).is_none());
        assert_eq!(admit(&gate, Some(key(2)), Some(id)), Err(RefuseReason::Secret));
    }

    #[test]
    fn ticket_with_nine_addresses_is_error() {
        let world = World::new();
        let gate = gate(&world, &world.listen_options());
        let address = "192.0.2.1:5000".parse().unwrap();
        let error = gate.issue(&[address; 9], TicketUse::OneClient, 3600).unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("more than 8 addresses")), (USAGE, true));
    }

    #[test]
    fn handshake_over_expiry_does_not_take_ticket() {
        let world = World::new();
        let gate = gate(&world, &world.listen_options());
        for kind in [TicketUse::Once, TicketUse::OneClient] {
            let id = issue(&gate, kind);
            world.advance(3599);
            assert_eq!(admit(&gate, Some(key(2)), Some(id)), Ok(()));
            world.advance(1);
            assert!(!gate.complete(id, Some(key(2))), "{kind:?}");
            assert!(gate.psk(id).is_none(), "{kind:?}");
        }
    }
}
