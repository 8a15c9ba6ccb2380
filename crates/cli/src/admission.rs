//! Senders that a receiver admits: the formats it takes, and the rules for native transfers.

use std::net::SocketAddr;
use std::sync::Arc;

use rdt_crypto::{PublicKey, ResetKey, StaticKey};
use rdt_endpoint::host_id;
use rdt_program::Failure;
use rdt_transport::{Admittee, ConnectionConfig, ConnectionSetConfig, ResponderConfig};
use rdt_trust::services::FILES;
use rdt_trust::{Gate, Surroundings, TicketUse, TrustError, identity, os_entropy, reachable};
use rdt_udp::{Remote, clock};

use crate::args::{RecvArgs, WireArg};
use crate::output::log::EventLog;

/// Options that limit senders, for the error message [`TrustError::Unprotected`].
const OPTIONS: &str = "--ticket, --allow or --secret-file";

/// Decision of a receiver about its senders, for all its threads.
#[derive(Debug)]
pub(crate) struct Admission {
    gate: Arc<Gate>,
    pub(crate) classic: bool,
    /// True if native transfers without encryption are taken, from every host.
    pub(crate) unencrypted: bool,
    /// True if every host that reaches the receiver can store and change files.
    pub(crate) is_exposed: bool,
    /// Ticket that the receiver prints.
    pub(crate) ticket: Option<String>,
    address: SocketAddr,
}

/// Rules that follow from the options, before any file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    classic: bool,
    is_open: bool,
    /// True if senders must find the key of earlier runs.
    needs_identity: bool,
}

impl Rules {
    /// Fails if files of other hosts would be stored, and no option says which hosts may send.
    pub(crate) fn new(args: &RecvArgs, address: SocketAddr) -> Result<Self, TrustError> {
        let trust = &args.trust;
        let is_limited = args.ticket || trust.allow.is_some() || trust.secret_file.is_some();
        let is_safe = args.output.is_none() || address.ip().to_canonical().is_loopback();
        if !is_limited && !is_safe && !trust.open && !args.insecure {
            return Err(TrustError::Unprotected { address, options: OPTIONS });
        }
        let classic = !args.measure
            && args.wire != Some(WireArg::Native)
            && (args.insecure || (is_safe && !is_limited));
        let is_open = !is_limited;
        let needs_identity = !classic || is_limited || trust.open || trust.identity.is_some();
        Ok(Self { classic, is_open, needs_identity })
    }
}

impl Admission {
    /// Reads the local key, the allowed keys and the secret. `address`: local address of the
    /// socket. Remarks about refused senders go to `log`, which does not wait for its reader.
    pub(crate) fn new(args: &RecvArgs, address: SocketAddr, log: &EventLog) -> Result<Self, Failure> {
        let Rules { classic, is_open, needs_identity } = Rules::new(args, address)?;
        let (remarks, log) = (log.clone(), log.clone());
        let is_quiet = args.quiet;
        let surroundings = Surroundings {
            service: FILES,
            say: Arc::new(move |line| {
                if !is_quiet {
                    remarks.talk(line);
                }
            }),
            warn: Arc::new(move |line| log.talk(line)),
            unix_time_s: Arc::new(clock::unix_time_s),
        };
        let trust = &args.trust;
        let identity = match identity(trust.identity.as_deref(), &surroundings) {
            Err(error @ TrustError::File(_)) if !needs_identity => {
                (surroundings.warn)(&format!(
                    "rdt-recv: {error}; encrypted transfers use a key for this run, which senders refuse as changed after a restart"
                ));
                Arc::new(StaticKey::generate(&mut os_entropy().map_err(TrustError::Entropy)?))
            }
            result => result?,
        };
        let gate = Arc::new(trust.gate_of(identity, is_open, &surroundings)?);
        let ticket = if args.ticket {
            let addresses = reachable(address, &args.advertise);
            let ticket = gate.issue(&addresses, TicketUse::OneClient, args.ticket_lifetime.as_secs())?;
            Some(ticket.to_string())
        } else {
            None
        };
        let is_exposed = args.output.is_some() && !address.ip().to_canonical().is_loopback();
        let is_exposed = is_exposed && classic;
        Ok(Self { gate, classic, unencrypted: args.insecure, is_exposed, ticket, address })
    }

    /// Returns the local public key.
    pub(crate) fn key(&self) -> PublicKey {
        self.gate.identity().public()
    }

    /// Returns a warning if every host that reaches the receiver can store and change files.
    pub(crate) fn warning(&self) -> Option<String> {
        self.is_exposed.then(|| {
            format!(
                "--insecure: every host that reaches {} can store files here, and hosts on the path can change them unnoticed",
                self.address
            )
        })
    }

    /// Returns the rules for native connections. Without encryption, keys and secrets prove nothing
    /// about what follows, so such senders are admitted without them.
    pub(crate) fn responder(&self) -> ResponderConfig {
        let config =
            ConnectionConfig { dangerously_unencrypted: self.unencrypted, ..ConnectionConfig::default() };
        let responder = self.gate.responder(config);
        let admit = Arc::clone(&responder.admit);
        let admit = move |admittee: Admittee| {
            if admittee.aead.is_encrypted() { admit(admittee) } else { Ok(()) }
        };
        ResponderConfig { admit: Arc::new(admit), ..responder }
    }

    /// Returns the surroundings of the connections of thread `index`.
    pub(crate) fn environment(&self, index: usize) -> ConnectionSetConfig<Remote> {
        ConnectionSetConfig {
            ip_of: Some(|remote: &Remote| remote.addr.ip()),
            local_ip_of: Some(|remote: &Remote| remote.local),
            unix_time: Some((clock::now(), clock::unix_time_s())),
            // The kernel may pass packets of a moved connection to another thread, whose resets
            // must not end it.
            reset_scope: ResetKey::scope(&host_id(), self.address, index),
            ..ConnectionSetConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Returns whether classic transfers are taken, and whether every encrypted sender is
    /// admitted; `None` if the receiver does not start.
    fn rules(options: &str, address: &str) -> Option<(bool, bool)> {
        let line = format!("rdt-recv {options}");
        let args = RecvArgs::try_parse_from(line.split_whitespace()).unwrap();
        let rules = Rules::new(&args, address.parse().unwrap()).ok()?;
        Some((rules.classic, rules.is_open))
    }

    #[test]
    fn identity_is_needed_by_its_options_only() {
        let any = "[::]:22345".parse().unwrap();
        for (options, expected) in [
            ("", false),
            ("--dummy", false),
            ("--output d --insecure", false),
            ("--wire native", true),
            ("--measure", true),
            ("--open", true),
            ("--output d --open", true),
            ("--ticket", true),
            ("--output d --insecure --allow k", true),
            ("--identity i", true),
        ] {
            let line = format!("rdt-recv {options}");
            let args = RecvArgs::try_parse_from(line.split_whitespace()).unwrap();
            assert_eq!(Rules::new(&args, any).unwrap().needs_identity, expected, "{options}");
        }
    }

    #[test]
    fn options_and_address_decide_who_may_send() {
        let (any, local) = ("[::]:22345", "127.0.0.1:22345");
        for (options, address, expected) in [
            ("", any, Some((true, true))),
            ("--open", any, Some((true, true))),
            ("--wire native", any, Some((false, true))),
            ("--output d", local, Some((true, true))),
            ("--output d", "[::1]:1", Some((true, true))),
            ("--output d", "[::ffff:127.0.0.1]:1", Some((true, true))),
            ("--output -", local, Some((true, true))),
            ("--output d --open", local, Some((true, true))),
            ("--wire native --output d", local, Some((false, true))),
            ("--output d", any, None),
            ("--output d", "0.0.0.0:1", None),
            ("--output d", "192.0.2.1:1", None),
            ("--output -", any, None),
            ("--output d --wire native", any, None),
            ("--output d --open", any, Some((false, true))),
            ("--output d --insecure", any, Some((true, true))),
        ] {
            assert_eq!(rules(options, address), expected, "{options} {address}");
        }
        for option in ["--ticket", "--allow k", "--secret-file s"] {
            for (options, address, classic) in [
                ("", any, false),
                ("--output d", local, false),
                ("--output d", any, false),
                ("--output d --insecure", any, true),
                ("--insecure", local, true),
            ] {
                let options = format!("{options} {option}");
                assert_eq!(rules(&options, address), Some((classic, false)), "{options} {address}");
            }
        }
    }
}
