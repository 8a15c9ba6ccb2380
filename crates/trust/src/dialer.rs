//! Key and secret that the connecting side shows, and the check of the peer's key.

use std::sync::{Arc, Mutex, PoisonError};

use rdt_crypto::{PublicKey, SharedSecret, StaticKey};
use rdt_endpoint::Connect;
use rdt_transport::{Closed, InitiatorConfig, RefuseReason, Service, Trust};

use crate::services::Speaker;
use crate::{AttemptEnd, ChangedKey, Known, KnownHosts, Surroundings, Ticket, TrustError};

/// Keys and secret for connections to one peer. The peer's key is known, or the file of known hosts
/// decides.
#[derive(Debug)]
pub struct Dialer {
    identity: Arc<StaticKey>,
    secret: Option<Arc<SharedSecret>>,
    service: Service,
    expected: Expected,
}

#[derive(Debug)]
enum Expected {
    /// Key of a ticket. The responder decides whether the ticket is good: for the client that has
    /// used it, also after its expiry.
    Ticket { ticket: Box<Ticket>, surroundings: Surroundings },
    /// Key in the file of known hosts, or a new one.
    Known(Arc<HostCheck>),
}

/// Check of one host's key against the file of known hosts.
#[derive(Debug)]
struct HostCheck {
    hosts: KnownHosts,
    host: String,
    port: u16,
    surroundings: Surroundings,
    /// Reason for which the last key was refused.
    refusal: Mutex<Option<TrustError>>,
}

impl Dialer {
    /// Returns the keys and the secret for the peer that has printed this ticket.
    ///
    /// # Errors
    /// [`TrustError::OtherTicket`]: it is for another service than that of this program.
    pub fn of_ticket(
        identity: Arc<StaticKey>,
        ticket: &Ticket,
        surroundings: &Surroundings,
    ) -> Result<Self, TrustError> {
        let service = surroundings.service;
        ticket.check_service(service)?;
        let secret = Some(Arc::new(ticket.secret()));
        let (ticket, surroundings) = (Box::new(ticket.clone()), surroundings.clone());
        Ok(Self { identity, secret, service, expected: Expected::Ticket { ticket, surroundings } })
    }

    /// Returns the keys for a host whose key is in the file of known hosts, or is added to it.
    pub fn of_host(
        identity: Arc<StaticKey>,
        secret: Option<Arc<SharedSecret>>,
        hosts: KnownHosts,
        (host, port): (&str, u16),
        surroundings: &Surroundings,
    ) -> Self {
        let check = HostCheck {
            hosts,
            host: host.to_owned(),
            port,
            surroundings: surroundings.clone(),
            refusal: Mutex::new(None),
        };
        let service = surroundings.service;
        Self { identity, secret, service, expected: Expected::Known(Arc::new(check)) }
    }

    /// Returns true if a ticket admits this side. It is good as long as the program that printed it
    /// runs.
    pub fn has_ticket(&self) -> bool {
        matches!(self.expected, Expected::Ticket { .. })
    }

    /// Returns keys and proofs for a connection. Reads the file of known hosts.
    ///
    /// The peer must prove the key of the ticket, or the one that the file has for the host.
    /// Without such a key, or if the file has several, `trust` decides about the key that the host
    /// has proved. A new key is added to the file, with a remark that has its fingerprint.
    pub fn initiator(&self) -> InitiatorConfig {
        let local = Some(Arc::clone(&self.identity));
        let (secret, service) = (self.secret.clone(), self.service);
        let base = InitiatorConfig { local, secret, service, ..InitiatorConfig::default() };
        match &self.expected {
            Expected::Ticket { ticket, .. } => InitiatorConfig { remote: Some(ticket.key()), ..base },
            Expected::Known(check) => {
                if let Some((key, _)) = check.known_key() {
                    return InitiatorConfig { remote: Some(key), ..base };
                }
                InitiatorConfig { trust: Some(check.trust()), ..base }
            }
        }
    }

    /// Returns keys and proofs for the second attempt of [`ChangedKeyProof`], in which the peer
    /// proves its key first. `None` unless the peer refused with an unauthenticated answer that its
    /// key differs from the one in the file.
    fn keys_to_verify_change(&self, closed: &Closed) -> Option<InitiatorConfig> {
        match (closed, &self.expected) {
            (Closed::Refused(RefuseReason::WrongKey), Expected::Known(check)) => {
                Some(InitiatorConfig { remote: None, trust: Some(check.trust()), ..self.initiator() })
            }
            _ => None,
        }
    }

    /// Returns why the peer `name` or this side refused a connection that ended by `closed`; `None`
    /// if keys and secrets were not the reason.
    pub fn refusal(&self, name: &str, closed: &Closed) -> Option<TrustError> {
        let name = || name.to_owned();
        match (closed, &self.expected) {
            // Another connection of this dialer may have taken the reason.
            (Closed::NotTrusted(key), Expected::Known(check)) => {
                self.take_refusal().or_else(|| check.contradicts(*key))
            }
            (Closed::Refused(RefuseReason::WrongKey), Expected::Known(_)) => {
                Some(TrustError::UnprovenKey(name()))
            }
            (Closed::Refused(RefuseReason::OtherService(service)), _) => {
                Some(TrustError::OtherService(name(), Speaker(*service)))
            }
            (Closed::Refused(RefuseReason::NotAdmitted), _) => {
                Some(TrustError::KeyRefused { name: name(), key: self.identity.public() })
            }
            (Closed::Refused(RefuseReason::Secret), Expected::Ticket { ticket, surroundings }) => {
                let is_expired = ticket.expired((surroundings.unix_time_s)());
                Some(if is_expired { TrustError::Expired } else { TrustError::TicketRefused }(name()))
            }
            (Closed::Refused(RefuseReason::Secret), Expected::Known(_)) => {
                Some(TrustError::SecretRefused(name()))
            }
            _ => None,
        }
    }

    /// Takes the reason for which `trust` of an [`initiator`](Self::initiator) last refused a key.
    fn take_refusal(&self) -> Option<TrustError> {
        match &self.expected {
            Expected::Ticket { .. } => None,
            Expected::Known(check) => check.refusal.lock().unwrap_or_else(PoisonError::into_inner).take(),
        }
    }
}

impl From<&Dialer> for Connect {
    /// Connects with these keys. Reads the file of known hosts, as [`Dialer::initiator`].
    fn from(dialer: &Dialer) -> Self {
        Self::with(dialer.initiator())
    }
}

impl From<&Ticket> for Connect {
    /// Connects to the peer that gave out the ticket.
    fn from(ticket: &Ticket) -> Self {
        Self::to(ticket.key()).secret(Arc::new(ticket.secret()))
    }
}

/// Proof of a changed key, so that the user sees both keys. If a peer refuses with an
/// unauthenticated answer that its key differs from the one in the file of known hosts, a second
/// attempt lets it prove its key first. `trust` refuses a key that is not in the file; then
/// [`Dialer::refusal`] has both.
#[derive(Debug)]
pub struct ChangedKeyProof<E> {
    /// First, unauthenticated refusal, during the second attempt.
    refusal: Option<E>,
}

impl<E> Default for ChangedKeyProof<E> {
    fn default() -> Self {
        Self { refusal: None }
    }
}

impl<E> ChangedKeyProof<E> {
    /// True during the second attempt.
    pub fn has_begun(&self) -> bool {
        self.refusal.is_some()
    }

    /// Handles the failure of an attempt. Returns the keys of the second attempt, whose time limit
    /// is [`ADDRESS_GIVE_UP`](crate::ADDRESS_GIVE_UP).
    ///
    /// # Errors
    /// The failure to report, if there is no second attempt or it failed as well. If the second
    /// attempt was not authenticated either, that is the first refusal: it says that the key
    /// differs.
    pub fn next(
        &mut self,
        dialer: Option<&Dialer>,
        failure: E,
        closed: impl Fn(&E) -> Option<&Closed>,
    ) -> Result<InitiatorConfig, E> {
        if let Some(refusal) = self.refusal.take() {
            let is_proved = closed(&failure).map(AttemptEnd::of) == Some(AttemptEnd::Final);
            return Err(if is_proved { failure } else { refusal });
        }
        match dialer.zip(closed(&failure)).and_then(|(dialer, closed)| dialer.keys_to_verify_change(closed)) {
            Some(keys) => {
                self.refusal = Some(failure);
                Ok(keys)
            }
            None => Err(failure),
        }
    }
}

impl HostCheck {
    /// Returns the only key that the file has for the host, and its line. `trust` reports a file
    /// that cannot be read.
    fn known_key(&self) -> Option<(PublicKey, usize)> {
        self.hosts.key(&self.host, self.port).ok().flatten()
    }

    /// Returns why the file refuses a key that the host has proved: it has another key, or cannot
    /// be read.
    fn contradicts(&self, received: PublicKey) -> Option<TrustError> {
        match self.hosts.key(&self.host, self.port) {
            Ok(Some((expected, line))) if expected != received => {
                Some(Box::new(self.changed(expected, line, received)).into())
            }
            Ok(_) => None,
            Err(error) => Some(error.into()),
        }
    }

    fn changed(&self, expected: PublicKey, line: usize, received: PublicKey) -> ChangedKey {
        let (host, path) = (self.host.clone(), self.hosts.path().to_owned());
        ChangedKey { host, port: self.port, expected, received, path, line }
    }

    fn trust(self: &Arc<Self>) -> Trust {
        let check = Arc::clone(self);
        Arc::new(move |key| check.trusts(key))
    }

    fn trusts(&self, key: &PublicKey) -> bool {
        let Self { hosts, host, port, surroundings, refusal } = self;
        let path = hosts.path();
        let error = match hosts.check_or_add(host, *port, *key, (surroundings.unix_time_s)()) {
            Ok(Known::Same) => return true,
            Ok(Known::New) => {
                let (fingerprint, path) = (key.fingerprint(), path.display());
                let remark = format!("{host} port {port}: key {fingerprint}, new, added to {path}");
                (surroundings.warn)(&remark);
                return true;
            }
            Ok(Known::Changed { expected, line }) => Box::new(self.changed(expected, line, *key)).into(),
            Err(error) => error.into(),
        };
        *refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        false
    }
}

#[cfg(feature = "options")]
#[cfg(test)]
mod tests {
    use rdt_program::exit::{CHANGED_KEY, NO_INPUT, NO_PERMISSION, PEER_CLOSED, USAGE};

    use super::*;
    use crate::tests::{World, key};
    use crate::{ConnectOptions, Remote};

    fn dialer(world: &World, remote: &str) -> Result<Dialer, TrustError> {
        world.connect_options().dialer(&Remote::parse(remote, 22346).unwrap(), &world.surroundings)
    }

    /// Returns whether the dialer trusts a key that a host has proved.
    fn trusts(dialer: &Dialer, key: PublicKey) -> bool {
        dialer.initiator().trust.unwrap()(&key)
    }

    #[test]
    fn new_key_is_added_with_remark() {
        let world = World::new();
        let dialer = dialer(&world, "host").unwrap();
        let initiator = dialer.initiator();
        assert_eq!((initiator.remote, initiator.secret), (None, None));
        assert_eq!(initiator.local.as_ref().unwrap().public(), dialer.identity.public());
        world.take_said();
        assert!(trusts(&dialer, key(2)));
        let path = world.path("known_hosts");
        let remark =
            format!("host port 22346: key {}, new, added to {}", key(2).fingerprint(), path.display());
        assert_eq!(world.take_warned(), [remark]);
        assert!(initiator.trust.unwrap()(&key(2)));
        assert!(world.take_warned().is_empty() && world.take_said().is_empty());
        assert!(dialer.take_refusal().is_none());
        let line = format!("host 22346 rdt-key-1 {} 2026-11-23\n", key(2));
        assert_eq!(std::fs::read_to_string(path).unwrap(), line);
    }

    #[test]
    fn changed_key_is_refused_and_explained() {
        let world = World::new();
        let path = world.path("known_hosts");
        let dialer = dialer(&world, "host").unwrap();
        let trust = dialer.initiator().trust.unwrap();
        assert!(trust(&key(2)));
        assert!(!trust(&key(3)));
        let refusal = dialer.take_refusal().unwrap();
        assert_eq!(refusal.code(), CHANGED_KEY);
        let text = refusal.to_string();
        let was = format!("It was      {}  ({}, line 1)", key(2).fingerprint(), path.display());
        for part in ["THE KEY OF host PORT 22346 HAS CHANGED", &was, &key(3).fingerprint(), "delete line 1"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(dialer.take_refusal().is_none());
        assert!(trust(&key(2)), "the file keeps the old key");
    }

    #[test]
    fn known_key_is_demanded() {
        let world = World::new();
        let dialer = dialer(&world, "host").unwrap();
        assert!(trusts(&dialer, key(2)));
        let initiator = dialer.initiator();
        assert_eq!(initiator.remote, Some(key(2)));
        assert!(initiator.local.is_some() && initiator.trust.is_none());
        let refusal = dialer.refusal("host", &Closed::Refused(RefuseReason::WrongKey)).unwrap();
        assert_eq!(refusal.code(), PEER_CLOSED);
        let text = refusal.to_string();
        assert!(text.contains("proved no key") && !text.contains("CHANGED"), "{text}");
    }

    /// Many connections at once fail because the file cannot be opened. None of them claims that
    /// the key has changed.
    #[test]
    fn unreadable_file_is_named_by_each_connection() {
        let world = World::new();
        let dialer = dialer(&world, "host").unwrap();
        assert!(trusts(&dialer, key(2)));
        let path = world.path("known_hosts");
        let lines = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(!trusts(&dialer, key(2)) && !trusts(&dialer, key(2)));
        for _ in 0..2 {
            let refusal = dialer.refusal("host", &Closed::NotTrusted(key(2))).unwrap();
            assert!(matches!(refusal, TrustError::File(_)), "{refusal}");
        }
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, lines).unwrap();
        assert!(dialer.refusal("host", &Closed::NotTrusted(key(2))).is_none(), "it can be read again");
    }

    #[test]
    fn proved_key_is_named_after_unproved_answer() {
        let world = World::new();
        let dialer = dialer(&world, "host").unwrap();
        assert!(trusts(&dialer, key(2)));
        let wrong_key = Closed::Refused(RefuseReason::WrongKey);
        let asking =
            ChangedKeyProof::default().next(Some(&dialer), wrong_key.clone(), |closed| Some(closed)).unwrap();
        assert!(asking.remote.is_none() && asking.local.is_some());
        let trust = asking.trust.unwrap();
        assert!(trust(&key(2)), "the answer was forged");
        assert!(!trust(&key(3)));
        let text = dialer.refusal("host", &Closed::NotTrusted(key(3))).unwrap().to_string();
        for part in ["HAS CHANGED", &key(2).fingerprint(), &format!("It is now   {}", key(3).fingerprint())] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let again = dialer.refusal("host", &Closed::NotTrusted(key(3))).unwrap().to_string();
        assert_eq!(again, text, "of a second connection");
        let ticket = tests::dialer(&world, &world.ticket(2).to_string()).unwrap();
        let cases = [(Some(&dialer), Closed::Idle), (Some(&ticket), wrong_key.clone()), (None, wrong_key)];
        for (dialer, closed) in cases {
            assert_eq!(
                ChangedKeyProof::default().next(dialer, closed.clone(), |closed| Some(closed)).unwrap_err(),
                closed
            );
        }
    }

    #[test]
    fn answer_with_proof_outweighs_refusal() {
        let world = World::new();
        let dialer = dialer(&world, "host").unwrap();
        let wrong_key = Closed::Refused(RefuseReason::WrongKey);
        let ends = [
            (Closed::NotTrusted(key(3)), true),
            (Closed::TimedOut(rdt_transport::Phase::Connect), false),
            (wrong_key.clone(), false),
        ];
        for (end, has_proof) in ends {
            let mut key_proof = ChangedKeyProof::default();
            assert!(
                key_proof.next(Some(&dialer), wrong_key.clone(), |closed| Some(closed)).is_ok()
                    && key_proof.has_begun()
            );
            let reported = key_proof.next(Some(&dialer), end.clone(), |closed| Some(closed)).unwrap_err();
            assert_eq!(reported, if has_proof { end } else { wrong_key.clone() });
        }
    }

    #[test]
    fn refusals_name_key_ticket_or_secret() {
        let world = World::new();
        let host = dialer(&world, "host").unwrap();
        let ticket = dialer(&world, &world.ticket(2).to_string()).unwrap();
        let refused = |dialer: &Dialer, reason| dialer.refusal("peer", &Closed::Refused(reason));
        let own = host.identity.public();
        for (dialer, reason, start) in [
            (&host, RefuseReason::NotAdmitted, "peer does not admit this key"),
            (&host, RefuseReason::Secret, "peer does not know the secret"),
            (&ticket, RefuseReason::Secret, "peer does not know the ticket"),
        ] {
            let refusal = refused(dialer, reason).unwrap();
            assert_eq!(refusal.code(), NO_PERMISSION);
            assert!(refusal.to_string().starts_with(start), "{refusal}");
        }
        let line = refused(&host, RefuseReason::NotAdmitted).unwrap().to_string();
        assert_eq!(line.lines().last(), Some(&*own.to_string()));
        assert!(refused(&host, RefuseReason::Busy).is_none());
        let other = RefuseReason::OtherService(crate::services::TUNNELS);
        let refusal = refused(&ticket, other).unwrap();
        assert_eq!(refusal.code(), PEER_CLOSED);
        assert_eq!(refusal.to_string(), "peer is rdt-tunnel serve: use rdt-tunnel connect");
        assert!(host.refusal("peer", &Closed::Idle).is_none());
    }

    #[test]
    fn unreadable_known_hosts_refuse_every_key() {
        let world = World::new();
        std::fs::write(world.path("known_hosts"), "host 22346 rdt-key-1\n").unwrap();
        let dialer = dialer(&world, "host").unwrap();
        assert!(!trusts(&dialer, key(2)));
        assert_eq!(dialer.take_refusal().unwrap().code(), NO_INPUT);
    }

    #[test]
    fn ticket_names_key_and_secret() {
        let world = World::new();
        let ticket = world.ticket(2);
        let initiator = dialer(&world, &ticket.to_string()).unwrap().initiator();
        assert_eq!(initiator.remote, Some(key(2)));
        assert_eq!(initiator.secret.as_deref(), Some(&ticket.secret()));
        assert!(initiator.local.is_some() && initiator.trust.is_none());
        assert!(!world.path("known_hosts").exists());
    }

    #[test]
    fn ticket_of_other_service_is_refused() {
        let mut world = World::new();
        let remote = Remote::Ticket(world.ticket(2));
        world.surroundings.service = crate::services::COPIES;
        let refusal = world.connect_options().dialer(&remote, &world.surroundings).unwrap_err();
        assert_eq!(refusal.code(), USAGE);
        assert_eq!(refusal.to_string(), "the ticket was printed by rdt-recv: use rdt-send");
        let unknown = TrustError::OtherTicket(Speaker(Service::new("chat/1").unwrap()));
        assert_eq!(unknown.to_string(), "the ticket was printed by another program, which speaks chat/1");
    }

    #[test]
    fn ticket_beside_secret_file_is_refused() {
        let world = World::new();
        let remote = Remote::Ticket(world.ticket(2));
        let options = ConnectOptions { secret_file: Some("secret".into()), ..world.connect_options() };
        assert_eq!(options.dialer(&remote, &world.surroundings).unwrap_err().code(), USAGE);
    }

    /// It may be good for the client that has used it.
    #[test]
    fn expired_ticket_is_for_peer_to_judge() {
        let world = World::new();
        let remote = Remote::Ticket(world.ticket(2));
        world.advance(25 * 3600);
        let dialer = world.connect_options().dialer(&remote, &world.surroundings).unwrap();
        assert_eq!(dialer.initiator().remote, Some(key(2)));
        let refused = dialer.refusal("peer", &Closed::Refused(RefuseReason::Secret)).unwrap();
        assert_eq!(refused.code(), NO_PERMISSION);
        assert_eq!(
            refused.to_string(),
            "peer does not know the ticket, which has expired: ask for a new one"
        );
    }

    #[test]
    fn identity_stays_the_same() {
        let world = World::new();
        let first = dialer(&world, "host").unwrap().identity.public();
        let made =
            format!("made a new key, {}, in {}", first.fingerprint(), world.path("identity").display());
        assert_eq!(world.take_said(), [made]);
        assert_eq!(dialer(&world, "other").unwrap().identity.public(), first);
        assert!(world.take_said().is_empty());
    }
}
